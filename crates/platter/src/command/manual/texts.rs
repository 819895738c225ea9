//! What manual pages say besides the help texts: examples, files, exit codes, other pages.

/// A text of a command: which one, and what it is.
type Texts = &'static [(&'static str, &'static [(&'static str, &'static str)])];

/// Returns what a table has of a command.
pub(super) fn of(table: Texts, path: &str) -> &'static [(&'static str, &'static str)] {
    table.iter().find(|(command, _)| *command == path).map_or(&[], |(_, texts)| *texts)
}

/// What the exit code says where the help text does not.
pub(super) const EXIT_STATUS: &str =
    "0 if all was done, 1 if it was not or only in part, 2 for wrong arguments.";

/// Lines that can be typed, and what they do. The first ones are at the end of the help text.
pub(super) const EXAMPLES: Texts = &[
    (
        "",
        &[
            ("platter compare", "Compare file systems on a temporary image file."),
            ("platter mount disk.img /mnt", "Make a directory of the volume in an image."),
            ("platter cp -r photos disk.img:/", "Copy a directory into the volume."),
        ],
    ),
    (
        "compare",
        &[
            (
                "platter compare --device /dev/sdX --targets raw,ntfs,refs,dir:/mnt/xfs --out report",
                "Compare two file systems and a mounted one on a disk, whose content is lost.",
            ),
            (
                "platter compare --workloads overhead --device mem:1G",
                "What the file systems themselves cost.",
            ),
        ],
    ),
    (
        "run",
        &[
            ("platter run iometer --target fat32 --json", "One workload on one target, for a script."),
            ("platter run diskspd -- -b8K -d10 -w25 -c1G test.dat", "The options of DiskSpd."),
        ],
    ),
    (
        "endurance",
        &[(
            "platter endurance --device /dev/sdX --full 90 --time 12h",
            "Keep a volume that is nearly full busy for half a day.",
        )],
    ),
    (
        "report",
        &[
            ("platter report before/report.json after/report.json", "What changed between two runs."),
            ("platter report reports/ --group-by device.model", "Which of many machines fall out."),
        ],
    ),
    (
        "model",
        &[
            ("platter model show wd1003fzex", "The parameters of a model, and how sure each is."),
            ("platter model fit --device /dev/sdX mine.toml", "A model of a disk, whose content is lost."),
        ],
    ),
    (
        "mount",
        &[
            ("platter mount disk.img /mnt", "Mount the only volume of an image."),
            ("platter mount -o ro,noexec /dev/sdX2 /mnt", "Mount a partition for reading."),
            ("platter mount mirror:a.img,b.img /mnt", "Mount two copies as a mirror."),
        ],
    ),
    ("umount", &[("platter umount /mnt", "Return when all is written.")]),
    ("status", &[("platter status /mnt", "What a mount serves, and in which state it is.")]),
    (
        "mkfs",
        &[
            ("platter mkfs ntfs disk.img --size 64G --label DATA", "Make an image file with an NTFS volume."),
            ("platter mkfs refs+integrity /dev/sdX1", "Make a ReFS volume with checksums of data."),
            ("platter mkfs exfat /dev/sdX@1 --align 16M", "Make a volume for a card in its first partition."),
        ],
    ),
    ("info", &[("platter info disk.img", "What an image or disk holds.")]),
    ("df", &[("platter df disk.img /dev/sdX1", "How full two volumes are.")]),
    (
        "label",
        &[("platter label disk.img", "Print the label."), ("platter label disk.img BACKUP", "Change it.")],
    ),
    (
        "ls",
        &[
            ("platter ls -lh disk.img:/photos", "List a directory with sizes that people read."),
            ("platter ls -R disk.img@2", "List all of the volume in partition 2."),
        ],
    ),
    ("stat", &[("platter stat disk.img:/photos/a.jpg", "All that is known of a file.")]),
    ("du", &[("platter du -s disk.img:/photos disk.img:/music", "Which directory takes the space.")]),
    (
        "browse",
        &[
            ("platter browse disk.img", "Look around in a volume; ? shows the keys."),
            ("platter browse /dev/sdX@2:/Users", "Begin in a directory of a partition."),
        ],
    ),
    ("cat", &[("platter cat disk.img:/photos/list.txt", "Print a file.")]),
    (
        "cp",
        &[
            ("platter cp -r photos disk.img:/", "Copy a directory of the host into a volume."),
            ("platter cp -r disk.img:/photos .", "Copy it back."),
            ("echo text | platter cp - disk.img:/note.txt", "Make a file of standard input."),
        ],
    ),
    ("diff", &[("platter diff photos disk.img:/photos", "See whether all has arrived.")]),
    (
        "clone",
        &[("platter clone data.img:/vm.vhdx data.img:/vm2.vhdx", "A second file that takes no space yet.")],
    ),
    (
        "snapshot make",
        &[("platter snapshot make data.img:/vm.vhdx monday", "Keep the content as it is now.")],
    ),
    ("snapshot list", &[("platter snapshot list data.img:/vm.vhdx", "What is kept, with sizes in bytes.")]),
    ("snapshot get", &[("platter snapshot get data.img:/vm.vhdx monday", "Print what was kept.")]),
    ("snapshot remove", &[("platter snapshot remove data.img:/vm.vhdx monday", "Give the space back.")]),
    ("mkdir", &[("platter mkdir -p disk.img:/photos/2026/june", "Make a directory with those above it.")]),
    (
        "touch",
        &[("platter touch -d \"2026-03-31 15:20\" disk.img:/photos/a.jpg", "Set the times of a file.")],
    ),
    ("mv", &[("platter mv disk.img:/photos/a.jpg disk.img:/old/", "Move a file to another directory.")]),
    ("rm", &[("platter rm -r disk.img:/old", "Remove a directory with everything in it.")]),
    (
        "check",
        &[
            ("platter check disk.img", "Look for damage; nothing is written."),
            ("platter check --repair disk.img", "Repair it, with an undo file."),
        ],
    ),
    ("undo", &[("platter undo disk.img.undo disk.img", "Take a repair back.")]),
    (
        "serve",
        &[
            ("platter serve --nbd disk.vhdx", "Let qemu, nbdcopy or the kernel read the disk in a VHDX."),
            ("platter serve --nbd --write --socket nbd.sock disk.img@2", "Let them write to a partition."),
            ("platter serve disk.img --http 127.0.0.1:8080", "Show the files to a browser of this machine."),
        ],
    ),
    (
        "scrub",
        &[(
            "platter scrub mirror:a.img,b.img",
            "Verify all checksums in both copies, and repair one from the other.",
        )],
    ),
    ("mirror status", &[("platter mirror status mirror:a.img,b.img", "Whether both copies are current.")]),
    ("mirror rebuild", &[("platter mirror rebuild mirror:a.img,b.img", "Bring a copy up to date.")]),
    ("mirror add", &[("platter mirror add mirror:a.img,b.img c.img", "Make a third copy.")]),
    (
        "mirror drop",
        &[("platter mirror drop mirror:a.img,b.img b.img", "Make an image of its own of a copy.")],
    ),
    (
        "recover",
        &[("platter recover broken.img rescued", "Copy out what can still be read, deleted files too.")],
    ),
    (
        "integrity get",
        &[("platter integrity get -r data.img:/", "Which files have checksums of their data.")],
    ),
    (
        "integrity set",
        &[("platter integrity set -r data.img:/scratch off", "Do without them in a directory.")],
    ),
    ("journal", &[("platter journal windows.img", "The changes that Windows noted.")]),
    (
        "attr list",
        &[("platter attr list disk.img:/setup.exe", "Streams, attributes and descriptors of a file.")],
    ),
    (
        "attr get",
        &[(
            "platter attr get disk.img:/setup.exe stream:Zone.Identifier",
            "Where a file was downloaded from.",
        )],
    ),
    ("attr set", &[("platter attr set disk.img:/a.txt ea:user.note note.bin", "Set an extended attribute.")]),
    (
        "attr remove",
        &[("platter attr remove disk.img:/setup.exe stream:Zone.Identifier", "Remove a stream.")],
    ),
    (
        "windows-kit",
        &[("platter windows-kit kit", "Volumes and a script with which Windows gives its verdict.")],
    ),
    ("windows-verdict", &[("platter windows-verdict verdict.json", "What Windows said of them.")]),
    (
        "completions",
        &[("platter completions bash", "The script, for ~/.local/share/bash-completion/completions.")],
    ),
    ("man", &[("platter man ~/.local/share/man/man1", "Write these pages.")]),
];

/// Files that commands use.
pub(super) const FILES: Texts = &[
    (
        "check",
        &[
            ("IMAGE.undo", "What a repair overwrote; `platter undo` puts it back."),
            ("/var/lib/platter/undo", "The directory of undo files of block devices."),
            ("/sbin/fsck.platter", "The name under which fsck(8) calls this command."),
        ],
    ),
    ("undo", &[("IMAGE.undo", "The undo file of a repair.")]),
    (
        "mount",
        &[
            ("/etc/fstab", "Mounts of every start, with the type fuse.platter."),
            ("/sbin/mount.fuse.platter", "The name under which mount(8) calls this command."),
            ("/dev/fuse", "The kernel's device for file systems that programs serve."),
        ],
    ),
    ("mkfs", &[("/sbin/mkfs.platter", "The name under which mkfs(8) calls this command.")]),
    ("compare", &[("platter-report/report.html", "The report, with .md, .csv and .json beside it.")]),
    ("endurance", &[("platter-endurance", "The directory of the state and of the report.")]),
];

/// Other pages that a reader may want.
pub(super) const SEE_ALSO: &[(&str, &[&str])] = &[
    (
        "",
        &[
            "platter-compare(1)",
            "platter-mount(1)",
            "platter-cp(1)",
            "platter-check(1)",
            "platter-recover(1)",
        ],
    ),
    ("compare", &["platter-run(1)", "platter-report(1)", "fio(1)"]),
    ("run", &["platter-compare(1)", "fio(1)"]),
    ("endurance", &["platter-compare(1)"]),
    ("report", &["platter-compare(1)"]),
    ("model", &["platter-compare(1)", "platter-run(1)"]),
    ("mount", &["platter-umount(1)", "platter-status(1)", "fstab(5)", "mount(8)", "fusermount3(1)"]),
    ("umount", &["platter-mount(1)", "umount(8)"]),
    ("status", &["platter-mount(1)"]),
    ("mkfs", &["platter-info(1)", "platter-label(1)", "mkfs(8)"]),
    ("info", &["platter-df(1)", "blkid(8)"]),
    ("df", &["platter-du(1)", "platter-info(1)"]),
    ("label", &["platter-info(1)"]),
    ("ls", &["platter-stat(1)", "platter-du(1)"]),
    ("stat", &["platter-ls(1)", "platter-attr(1)"]),
    ("du", &["platter-df(1)"]),
    ("cp", &["platter-diff(1)", "platter-clone(1)"]),
    ("diff", &["platter-cp(1)", "diff(1)"]),
    ("clone", &["platter-cp(1)", "platter-snapshot(1)"]),
    ("snapshot", &["platter-attr(1)", "platter-clone(1)"]),
    ("check", &["platter-undo(1)", "platter-recover(1)", "platter-scrub(1)", "fsck(8)"]),
    ("undo", &["platter-check(1)"]),
    ("browse", &["platter-ls(1)", "platter-recover(1)", "mc(1)"]),
    ("serve", &["nbdcopy(1)", "qemu-nbd(8)", "nbd-client(8)"]),
    ("scrub", &["platter-mirror(1)", "platter-integrity(1)"]),
    ("mirror", &["platter-scrub(1)"]),
    ("recover", &["platter-check(1)"]),
    ("integrity", &["platter-scrub(1)"]),
];

/// Returns the other pages for a command, or for the one that it belongs to.
pub(super) fn see_also(path: &str) -> &'static [&'static str] {
    let first = path.split(' ').next().unwrap_or_default();
    let of = |wanted: &str| SEE_ALSO.iter().find(|(command, _)| *command == wanted).map(|(_, pages)| *pages);
    of(path).or_else(|| of(first)).unwrap_or(&[])
}

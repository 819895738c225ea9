//! What is refused, and in which words: writing to what is in use, overwriting content, reading beside a writer, and names
//! of partitions where a whole image is meant.

use crate::common::mount::Mount;
use crate::common::{Place, content};
use std::fs;
use std::process::Command;

/// A load that takes a moment.
const JOB: &str = "[a]\ndirect=1\nsize=1m\ntime_based\nruntime=0.05\nrw=randwrite\nbs=4k\n";

/// A loop device with an ext4 that the kernel has mounted.
struct Mounted<'p> {
    place: &'p Place,
    device: String,
}

impl<'p> Mounted<'p> {
    fn new(place: &'p Place) -> Mounted<'p> {
        fs::create_dir(place.path("m")).unwrap();
        fs::File::create(place.path("d.img")).unwrap().set_len(64 << 20).unwrap();
        place.tool("mkfs.ext4", &["-q", "-F", "d.img"]);
        let device = place.tool("losetup", &["-f", "--show", "d.img"]).trim().to_string();
        place.tool("mount", &[&device, "m"]);
        fs::write(place.path("m/file"), "precious").unwrap();
        Mounted { place, device }
    }
}

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        self.place.tool("umount", &["m"]);
        self.place.tool("losetup", &["-d", &self.device]);
    }
}

#[test]
fn no_force_writes_to_what_the_kernel_has_mounted() {
    let place = Place::new("in-use");
    fs::write(place.path("j.fio"), JOB).unwrap();
    // An undo file, to be given to the wrong device.
    place.works("mkfs fat32 f.img --size 64M");
    let mut image = fs::read(place.path("f.img")).unwrap();
    image[32 * 512 + 7] &= !0x08;
    fs::write(place.path("f.img"), image).unwrap();
    place.ends(1, "check --repair --undo f.undo f.img");
    let mounted = Mounted::new(&place);
    let device = &mounted.device;
    for path in [device.as_str(), "d.img"] {
        for line in [
            format!("mkfs ntfs {path}"),
            format!("run j.fio --device {path}"),
            format!("endurance --device {path} --time 1s --out e"),
            format!("check --repair --as fat32 {path}"),
            format!("undo f.undo {path}"),
            format!("mkdir {path}:/d"),
        ] {
            for force in ["", " --force"] {
                let output = place.platter(&format!("{line}{force}"));
                let said = String::from_utf8_lossy(&output.stderr).into_owned();
                assert!(!output.status.success(), "{line}{force}: {output:?}");
                assert!(said.contains("mounted at") && !said.contains("--force"), "{line}{force}: {said}");
            }
        }
    }
    place.tool("sync", &["-f", "m"]);
    assert_eq!(fs::read(place.path("m/file")).unwrap(), b"precious");
    drop(mounted);
    place.tool("fsck.ext4", &["-n", "-f", "d.img"]);
    let said = place.fails("mkfs ntfs d.img");
    assert!(said.contains("holds an ext") && said.contains("--force"), "{said}");
    place.works("mkfs ntfs d.img --force");
}

/// Whatever the bytes of a file mean, they are somebody's.
#[test]
fn a_file_with_content_is_overwritten_with_force_alone() {
    let place = Place::new("content");
    fs::write(place.path("j.fio"), JOB).unwrap();
    let mut late = vec![0; 16 << 20];
    late[(16 << 20) - 700] = 1;
    let beginnings: [&[u8]; 5] =
        [b"SQLite format 3\0", b"%PDF-1.7\n", b"\x7FELF\x02\x01\x01", b"PGDMP\x01", b"\0\0\0\x18ftypmp42"];
    let mut files: Vec<Vec<u8>> =
        beginnings.iter().map(|start| [start, &content(9, (16 << 20) - start.len())[..]].concat()).collect();
    files.push(late);
    for file in files {
        fs::write(place.path("f"), &file).unwrap();
        for line in [
            "run j.fio --device f",
            "mkfs exfat f",
            "mkfs exfat f --size 8M",
            "endurance --device f --time 1s --out e",
        ] {
            let output = place.platter(line);
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(!output.status.success() && said.contains("--force"), "{line}: {said}");
            assert!(fs::read(place.path("f")).unwrap() == file, "{line}");
        }
    }
    place.works("mkfs exfat f --force");
    // A blank file is nobody's, and neither is what an earlier run made, until somebody writes to it.
    fs::File::create(place.path("blank")).unwrap().set_len(16 << 20).unwrap();
    place.works("mkfs exfat blank");
    let run = "run j.fio --device own.img --target raw";
    for _ in 0..2 {
        let output = place.platter(run);
        assert!(output.status.success(), "{output:?}");
    }
    let length = fs::metadata(place.path("own.img")).unwrap().len();
    fs::write(place.path("own.img"), content(4, length as usize)).unwrap();
    assert!(place.fails(run).contains("--force"));
}

#[test]
fn a_partition_is_named_everywhere_or_refused() {
    let place = Place::new("partition-names");
    fs::write(place.path("j.fio"), JOB).unwrap();
    fs::File::create(place.path("d.img")).unwrap().set_len(200 << 20).unwrap();
    let table = "label: gpt\nsize=64M,type=EBD0A0A2-B9E5-4433-87C0-68B6B72699C7\nsize=64M,type=EBD0A0A2-B9E5-4433-87C0-68B6B72699C7\n";
    fs::write(place.path("table"), table).unwrap();
    place.tool("sh", &["-c", "sfdisk -q d.img < table"]);
    place.works("mkfs ntfs d.img@1 --label FIRST");
    place.works("mkfs exfat d.img@2 --label SECOND");
    assert!(place.works("info d.img@1").contains("FIRST"));
    assert!(place.works("info d.img@2").contains("SECOND"));
    place.works("mkdir d.img@2:/only");
    assert_eq!(place.works("ls d.img@2"), "only\n");
    place.works("check d.img@1");
    place.works("recover d.img@2 out");
    assert!(place.path("out/only").is_dir());
    let mut refused = vec!["mkfs fat32 d.img@1 --size 64M", "mkfs fat32 d.img@3"];
    refused.extend(["run j.fio --device d.img@2", "endurance --device d.img@2 --size 64M --time 1s --out e"]);
    refused.extend([
        "mirror add mirror:d.img@1 other.img",
        "mkfs ntfs none.img@1 --size 64M",
        "scrub d.img@1",
    ]);
    for line in refused {
        assert!(!place.platter(line).status.success(), "{line}");
    }
    let names =
        fs::read_dir(&place.0).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let made: Vec<String> = names.filter(|name| name.contains('@')).collect();
    assert!(made.is_empty(), "{made:?}");
}

/// What programs wrote to a mount is not on the device yet: an older state of it is never given without a word.
#[test]
fn a_volume_that_is_mounted_is_not_read_beside_the_mount() {
    for format in ["fat32", "exfat", "ntfs", "refs"] {
        let mount = Mount::new(&format!("beside-{format}"), format);
        let place = &mount.place;
        fs::create_dir(mount.at("dir")).unwrap();
        fs::write(mount.at("dir/file"), "new").unwrap();
        for line in ["ls disk.img", "cat disk.img:/dir/file", "cp -r disk.img:/ copy"] {
            let said = place.fails(line);
            assert!(said.contains("is mounted for writing at"), "{format}, {line}: {said}");
        }
        let image = place.path("disk.img");
        let error = platter::open(&image).err().unwrap();
        assert_eq!(error.kind(), platter::ErrorKind::Locked, "{error}");
        drop(platter::OpenOptions::new().beside_writer(true).open(&image).unwrap());
        mount.end();
        assert_eq!(place.works("cat disk.img:/dir/file"), "new");
        mount.mount("-o ro");
        assert_eq!(place.works("cat disk.img:/dir/file"), "new");
        mount.end();
    }
}

/// The failure of a mount names what failed, and not the directory, which is fine.
#[test]
fn a_mount_that_fails_names_what_failed() {
    let place = Place::new("mount-fails");
    place.works("mkfs ntfs d.img --size 64M");
    fs::create_dir(place.path("m")).unwrap();
    place.tool("chmod", &["-R", "a+rwX", "."]);
    // In a mount namespace of its own, where other files hide the device and the program.
    let said = |hide: &str| {
        let script =
            format!("{hide} && exec setpriv --reuid 65534 --regid 65534 --clear-groups \"$0\" mount d.img m");
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", &script, env!("CARGO_BIN_EXE_platter")]).current_dir(&place.0);
        let output = command.output().unwrap();
        assert!(!output.status.success(), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    fs::write(place.path("nothing"), "").unwrap();
    assert!(said("chmod 600 nothing; mount --bind nothing /dev/fuse").contains("/dev/fuse: "));
    // Open to everybody, as udev makes it.
    let device = "mkdir dev && mount -t tmpfs none dev && mknod -m 666 dev/fuse c 10 229 && mount --bind dev/fuse /dev/fuse";
    let program = "mount --bind nothing \"$(command -v fusermount3)\"";
    let hidden = said(&format!("chmod 600 nothing && {device} && {program}"));
    assert!(hidden.contains("fusermount3") && hidden.contains("fuse3"), "{hidden}");
}

/// An image that cannot be written to is mounted for reading, with a word, and nobody is told to use force.
#[test]
fn an_image_on_a_file_system_for_reading_is_mounted_for_reading() {
    let mount = Mount::new("protected", "exfat");
    fs::write(mount.at("file"), "text").unwrap();
    mount.end();
    let place = &mount.place;
    // The volume was not closed, too.
    let mut image = fs::read(place.path("disk.img")).unwrap();
    image[106] |= 2;
    fs::create_dir(place.path("ro")).unwrap();
    fs::write(place.path("ro/disk.img"), image).unwrap();
    place.tool("mount", &["--bind", "ro", "ro"]);
    place.tool("mount", &["-o", "remount,bind,ro", "ro"]);
    let (_, said) = place.ends(0, "mount ro/disk.img m");
    let text = fs::read_to_string(mount.at("file"));
    place.ends(0, "umount m");
    place.tool("umount", &["ro"]);
    assert!(said.contains("mounted for reading") && !said.contains("--force"), "{said}");
    assert_eq!(text.unwrap(), "text");
}

/// The summary counts what is in the directory, and a file of which a part is copied has another name.
#[test]
fn a_recovery_counts_what_was_saved() {
    let place = Place::new("recover-full");
    fs::create_dir_all(place.path("src")).unwrap();
    fs::create_dir(place.path("small")).unwrap();
    for number in 0..200 {
        fs::write(place.path(&format!("src/{number}")), content(number, 65_536)).unwrap();
    }
    place.works("mkfs ntfs v.img --size 64M");
    place.works("cp -r src v.img:/");
    place.tool("mount", &["-t", "tmpfs", "-o", "size=4M", "none", "small"]);
    let (said, _) = place.ends(1, "recover v.img small/out");
    let found = place.tool("find", &["small/out", "-type", "f", "!", "-name", ".platter-recover"]);
    let whole = place.tool("find", &["small/out", "-type", "f", "-size", "65536c"]);
    place.tool("umount", &["small"]);
    let (found, whole) = (found.lines().count(), whole.lines().count());
    assert_eq!(found, whole, "a part of a file looks like a file");
    let last = said.lines().last().unwrap();
    assert!(last.contains(&format!(": {whole} files with ")), "{last}");
    assert!(
        last.contains(&format!("; {} of the files that were found are not copied", 200 - whole)),
        "{last}"
    );
    assert!(said.lines().count() == 2, "{said}");
    assert!(
        said.starts_with(&format!("{} files, ", 200 - whole)) && said.contains("No space left"),
        "{said}"
    );
}

/// Every command that takes an image, by the commands' own list, takes a partition of one, or refuses it as such: it is never
/// the name of a file.
#[test]
fn every_command_that_takes_an_image_takes_a_partition_or_refuses_it() {
    const WORKS: [(&str, &str); 38] = [
        ("attr-get", "attr get d.img@1:/f stream:s"),
        ("attr-list", "attr list d.img@1:/f"),
        ("attr-remove", "attr remove d.img@1:/f stream:s"),
        ("attr-set", "attr set d.img@1:/f stream:t f"),
        ("cat", "cat d.img@1:/f"),
        ("check", "check d.img@1"),
        ("clone", "clone d.img@1:/f d.img@1:/g"),
        ("cp", "cp f d.img@1:/g"),
        ("df", "df d.img@1"),
        ("diff", "diff d.img@1:/f f"),
        ("du", "du d.img@1:/"),
        ("info", "info d.img@1"),
        ("integrity-get", "integrity get d.img@1:/f"),
        ("integrity-set", "integrity set d.img@1:/f on"),
        ("journal", "journal d.img@1"),
        ("label", "label d.img@1 NEW"),
        ("ls", "ls d.img@1"),
        ("mkdir", "mkdir d.img@1:/new"),
        ("mkfs", "mkfs exfat d.img@2"),
        ("mount", "mount d.img@1 m"),
        ("mv", "mv d.img@1:/f d.img@1:/h"),
        ("recover", "recover d.img@1 out"),
        ("rm", "rm d.img@1:/f"),
        ("scrub", "scrub d.img@1"),
        ("snapshot-get", "snapshot get d.img@1:/f s"),
        ("snapshot-list", "snapshot list d.img@1:/f"),
        ("snapshot-make", "snapshot make d.img@1:/f s"),
        ("snapshot-remove", "snapshot remove d.img@1:/f s"),
        ("stat", "stat d.img@1:/f"),
        ("touch", "touch d.img@1:/f"),
        ("mirror-add", "mirror add mirror:d.img@1 other.img"),
        ("mirror-drop", "mirror drop mirror:a.img,d.img@1 a.img"),
        ("mirror-rebuild", "mirror rebuild mirror:a.img,d.img@1"),
        ("mirror-status", "mirror status mirror:a.img,d.img@1"),
        (
            "compare",
            "compare --device d.img@2 --targets raw --workloads overhead --span 1M --time 0.05 --out rep",
        ),
        ("endurance", "endurance --device d.img@2 --size 64M --time 1s --out e"),
        ("run", "run j.fio --device d.img@2 --target raw"),
        ("model-fit", "model fit --device d.img@2 --span 1M --time 0.01 m.toml"),
    ];
    /// Those that refuse every partition, or have nothing to do on this volume, and say so.
    const REFUSE: [&str; 16] = [
        "snapshot-get",
        "snapshot-list",
        "snapshot-make",
        "snapshot-remove",
        "clone",
        "integrity-get",
        "integrity-set",
        "journal",
        "mirror-add",
        "mirror-drop",
        "mirror-rebuild",
        "mirror-status",
        "compare",
        "endurance",
        "run",
        "model-fit",
    ];
    let place = Place::new("partition-everywhere");
    fs::write(place.path("j.fio"), JOB).unwrap();
    fs::write(place.path("f"), "text").unwrap();
    fs::create_dir(place.path("m")).unwrap();
    fs::create_dir(place.path("man")).unwrap();
    fs::File::create(place.path("d.img")).unwrap().set_len(200 << 20).unwrap();
    let table = "label: gpt\nsize=64M,type=EBD0A0A2-B9E5-4433-87C0-68B6B72699C7\nsize=64M,type=EBD0A0A2-B9E5-4433-87C0-68B6B72699C7\n";
    fs::write(place.path("table"), table).unwrap();
    place.tool("sh", &["-c", "sfdisk -q d.img < table"]);
    place.works("mkfs ntfs d.img@1");
    place.works("cp f d.img@1:/");
    place.works("attr set d.img@1:/f stream:s f");
    fs::copy(place.path("d.img"), place.path("kept")).unwrap();
    place.works("man man");
    let mut asked = 0;
    for page in fs::read_dir(place.path("man")).unwrap() {
        let page = page.unwrap();
        let text = fs::read_to_string(page.path()).unwrap();
        let synopsis = text.split(".SH SYNOPSIS").nth(1).unwrap().split(".SH").next().unwrap();
        let takes = |word: &str| synopsis.replace("\\-", "-").contains(word);
        let name = page.file_name().into_string().unwrap();
        let name = name.trim_start_matches("platter-").trim_end_matches(".1");
        // The undo file of `undo` is of the whole image; `serve` and `browse` go on until they are ended, and have tests of
        // their own.
        if !["IMAGE", "MIRROR", "--device"].into_iter().any(takes)
            || ["undo", "windows-verdict", "serve", "browse"].contains(&name)
        {
            continue;
        }
        let line = WORKS.iter().find(|(known, _)| *known == name);
        let line = line.unwrap_or_else(|| panic!("{name} takes an image, and this test does not know how")).1;
        asked += 1;
        fs::copy(place.path("kept"), place.path("d.img")).unwrap();
        let output = place.platter(line);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        if name == "mount" {
            place.works("umount m");
        }
        match REFUSE.contains(&name) {
            true => assert!(!said.contains("No such file"), "{line}: {said}"),
            // NTFS has no checksums to scrub.
            false if name == "scrub" => assert!(said.contains("no checksums"), "{line}: {said}"),
            false => assert!(output.status.success(), "{line}: {output:?}"),
        }
        let names = fs::read_dir(&place.0).unwrap().map(|entry| entry.unwrap().file_name());
        assert!(!names.into_iter().any(|name| name.to_string_lossy().contains('@')), "{line} made a file");
    }
    assert!(asked > 20, "{asked}");
}

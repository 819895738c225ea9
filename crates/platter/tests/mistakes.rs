//! The sentences that typical mistakes get: each says what is wrong, and what helps instead.

use crate::common::{Place, content};
use std::fs;

/// What is typed, the exit code, and what the sentence says.
const MISTAKES: &[(&str, i32, &[&str])] = &[
    // What is no volume is called by what it is.
    (
        "ls short.txt",
        1,
        &["short.txt: no file system is recognised on it: it is empty, or shorter than a sector"],
    ),
    ("check long.txt", 8, &["long.txt: no file system is recognised on it: it holds text"]),
    ("mount zeroes.img dir", 1, &["zeroes.img: no file system is recognised on it: it begins with zeroes"]),
    ("ls random.bin", 1, &["random.bin: no file system is recognised on it"]),
    ("check ext4.img", 8, &["ext4.img: holds an ext4 file system, and no FAT, exFAT, NTFS or ReFS"]),
    ("ls files.tar", 1, &["files.tar: holds a tar archive"]),
    ("cat luks.img:/a", 1, &["luks.img: holds a LUKS volume; cryptsetup open"]),
    ("ls dir", 1, &["dir: expected an image file or a block device, found a directory"]),
    ("info nothing.img", 1, &["nothing.img: open failed: No such file or directory"]),
    ("check nothing.img", 8, &["nothing.img: open failed: No such file or directory"]),
    // Paths.
    ("ls d.img/dir", 1, &["a path on a volume is written IMAGE:/PATH, as d.img:/dir"]),
    ("cat d.img", 1, &["a path on a volume is written IMAGE:/PATH, as d.img:/PATH"]),
    ("mv long.txt d.img:/", 1, &["a path on a volume is written IMAGE:/PATH; this is a path of the host"]),
    ("mv dir d.img:/", 1, &["a path on a volume is written IMAGE:/PATH", "`platter cp` copies"]),
    ("cp long.txt d.img", 1, &["no argument is a path on a volume", "as d.img:/PATH"]),
    ("cp dir d.img:/", 1, &["dir: is a directory; use -r"]),
    ("rm d.img:/dir", 1, &["d.img:/dir: is a directory; use -r"]),
    ("mkdir d.img:/a/b", 1, &["d.img:/a: no such file or directory; -p makes it too"]),
    ("mv d.img:/dir e.img:/", 1, &["is on another volume; use cp and rm"]),
    ("ls d.img@3", 1, &["d.img: has no partition table, and so no partition 3"]),
    // Making volumes.
    ("mkfs ntfs new.img", 1, &["new.img: does not exist; to make it, give --size"]),
    ("mkfs new.img ntfs --size 1G", 2, &["the file system comes first: platter mkfs ntfs IMAGE"]),
    (
        "mkfs ext4 new.img --size 1G",
        2,
        &["ext4 is not made by Platter, which makes the file systems of Windows"],
    ),
    ("mkfs vfat new.img --size 1G", 2, &["vfat is `fat32`"]),
    ("mkfs refs new.img --size 100M", 1, &["the device has 100 MiB; a volume needs 320 MiB"]),
    ("mkfs ntfs new.img --size 64M --cluster 3k", 1, &["from 512 B to 2 MiB, not 3072 bytes"]),
    (
        "mkfs fat32 new.img --size 1M",
        1,
        &["a device of 1 MiB has no such number of clusters of 512 B to 64 KiB"],
    ),
    ("mkfs ntfs d.img", 1, &["d.img: holds an NTFS file system; use --force"]),
    // The former name of --format-version.
    ("mkfs refs older.img --size 400M --version 3.4", 0, &[]),
    // Words of other programs.
    ("format d.img", 2, &["`platter mkfs FILE_SYSTEM IMAGE --size SIZE`"]),
    ("fsck d.img", 2, &["`platter check --repair IMAGE`"]),
    ("undelete d.img", 2, &["`platter recover IMAGE DIRECTORY`"]),
    ("check --fix d.img", 16, &["`--repair` repairs what the check finds"]),
    ("mount -t ntfs d.img dir", 2, &["the file system is recognised"]),
    ("mount -o colour d.img dir", 1, &["option colour is not known; `platter help mount`"]),
    ("umount nodir", 1, &["nodir: No such file or directory"]),
    ("umount dir", 1, &["no volume is mounted here by platter"]),
    // The lab.
    (
        "run iometr",
        2,
        &["workload \"iometr\"", "iometer, crystaldiskmark, overhead", "jetstress", "small-files", "diskspd"],
    ),
    ("compare --workloads nothing", 2, &["workload \"nothing\"", "jetstress"]),
    ("run iometer --target ext5", 2, &["target \"ext5\"", "fat32", "dir:PATH"]),
];

#[test]
fn typical_mistakes_get_a_sentence_that_helps() {
    let place = Place::new("mistakes");
    place.works("mkfs ntfs d.img --size 64M");
    place.works("mkfs exfat e.img --size 64M");
    place.works("mkdir d.img:/dir");
    fs::create_dir(place.path("dir")).unwrap();
    fs::write(place.path("short.txt"), "text\n").unwrap();
    fs::write(place.path("long.txt"), "a line of text\n".repeat(300)).unwrap();
    fs::write(place.path("random.bin"), content(5, 1 << 20)).unwrap();
    fs::write(place.path("luks.img"), [&b"LUKS\xBA\xBE\0\x02"[..], &[0; 1 << 20]].concat()).unwrap();
    fs::File::create(place.path("zeroes.img")).unwrap().set_len(64 << 20).unwrap();
    fs::File::create(place.path("ext4.img")).unwrap().set_len(64 << 20).unwrap();
    place.tool("mkfs.ext4", &["-q", "ext4.img"]);
    place.tool("tar", &["cf", "files.tar", "long.txt"]);
    let before = place.tool("sha256sum", &["d.img", "long.txt", "random.bin", "ext4.img"]);
    for (line, code, words) in MISTAKES {
        let (_, said) = place.ends(*code, line);
        let missing: Vec<&&str> = words.iter().filter(|word| !said.contains(**word)).collect();
        assert!(missing.is_empty(), "platter {line}: {missing:?} in {said}");
        // Numbers of the system's errors, and tips that would not help.
        assert!(!said.contains("os error") && !said.contains("'-- "), "platter {line}: {said}");
    }
    let after = place.tool("sha256sum", &["d.img", "long.txt", "random.bin", "ext4.img"]);
    assert_eq!(before, after);
    assert!(!place.path("new.img").exists(), "what could not be made leaves nothing");
    assert!(MISTAKES.len() >= 30);
}

//! The file commands, run as from a shell, on images that mtools and fsck.fat check.

use crate::common::{Place, content};
use std::collections::BTreeMap;
use std::fs::{self, File, FileTimes};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// 2020-02-03 04:05:06 UTC: an even second, which FAT can hold.
const WHEN: u64 = 1_580_702_706;

fn time(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(seconds)
}

/// Times on FAT are local times. The offset is that of each date, not of the day on which it is stored or read.
#[test]
fn a_local_time_has_the_offset_of_its_date() {
    let place = Place::new("dates");
    // A zone with summer time from March to October, as in Berlin: 12:00 local time is 11:00 and 10:00 UTC.
    let zone = "CET-1CEST,M3.5.0,M10.5.0/3";
    let run = |line: &str| {
        let arguments: Vec<&str> = line.split(' ').collect();
        let mut command = place.command(env!("CARGO_BIN_EXE_platter"), &arguments);
        let output = command.env("TZ", zone).output().unwrap();
        assert!(output.status.success(), "{line}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    // 2025-01-15 11:00 and 2025-07-15 10:00 UTC.
    let noons = [("JAN", 1_736_938_800), ("JUL", 1_752_573_600)];
    for (name, noon) in noons {
        fs::write(place.path(name), name).unwrap();
        let times = FileTimes::new().set_modified(time(noon));
        File::options().write(true).open(place.path(name)).unwrap().set_times(times).unwrap();
    }
    for format in ["fat16", "exfat"] {
        run(&format!("mkfs {format} dates.img --size 32M"));
        run("cp JAN JUL dates.img:/");
        let listed = run("ls -l dates.img:/");
        assert_eq!(listed.matches(" 12:00:00 ").count(), 2, "{format}: {listed}");
        let back = place.path(format);
        fs::create_dir(&back).unwrap();
        run(&format!("cp dates.img:/JAN dates.img:/JUL {format}/"));
        for (name, noon) in noons {
            let modified = fs::metadata(back.join(name)).unwrap().modified().unwrap();
            assert_eq!(modified, time(noon), "{format}: {name}");
        }
        if format == "fat16" {
            let image = fs::read(place.path("dates.img")).unwrap();
            for name in [b"JAN        ", b"JUL        "] {
                let at = image.windows(11).position(|bytes| bytes == name).unwrap();
                assert_eq!(image[at + 23] >> 3, 12, "{name:?} is of 12:00");
            }
        }
        fs::remove_file(place.path("dates.img")).unwrap();
    }
}

/// Makes a tree with names and sizes that are likely to cause errors.
fn plant(root: &Path) {
    let files = [
        ("empty", 0),
        ("one.txt", 1),
        ("A long name with spaces and ümläuts 日本.tar.gz", 4097),
        ("sub/cluster.bin", 4096),
        ("sub/deeper/still/large.bin", 700_001),
        ("sub/many/0", 10),
    ];
    for (number, (name, length)) in files.into_iter().enumerate() {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content(number as u64, length)).unwrap();
    }
    for number in 1..60 {
        fs::write(root.join(format!("sub/many/{number} with a long name.txt")), number.to_string()).unwrap();
    }
    date(root, &mut 0);
}

/// Gives every file and directory a different time of last change.
fn date(path: &Path, count: &mut u64) {
    if path.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            date(&entry.unwrap().path(), count);
        }
    }
    *count += 1;
    let times = FileTimes::new().set_modified(time(WHEN + 86_400 * *count));
    File::open(path).unwrap().set_times(times).unwrap();
}

/// Returns everything below a directory: content (`None` for directories) and time of last change.
fn harvest(root: &Path) -> BTreeMap<PathBuf, (Option<Vec<u8>>, SystemTime)> {
    let mut found = BTreeMap::new();
    let mut open = vec![root.to_path_buf()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            let metadata = fs::metadata(&path).unwrap();
            let bytes = metadata.is_file().then(|| fs::read(&path).unwrap());
            found.insert(path.strip_prefix(root).unwrap().into(), (bytes, metadata.modified().unwrap()));
            if metadata.is_dir() {
                open.push(path);
            }
        }
    }
    found
}

#[test]
fn trees_go_there_and_back() {
    let place = Place::new("trees");
    plant(&place.path("tree"));
    let planted = harvest(&place.path("tree"));
    assert_eq!(planted.len(), 69);
    for (kind, size) in [("fat12", "8M"), ("fat16", "40M"), ("fat32", "80M")] {
        let image = format!("{kind}.img");
        let said = place.works(&format!("mkfs {kind} {image} --size {size} --label TREES"));
        assert!(said.contains(&kind.to_uppercase()), "{said}");
        place.works(&format!("cp -r tree {image}:/"));
        place.fsck(&image);
        // The tree is read back by Platter and by mtools.
        place.works(&format!("cp -r {image}:/tree {kind}"));
        assert!(harvest(&place.path(kind)) == planted, "{kind}: the copy differs");
        let theirs = format!("{kind}-mtools");
        fs::create_dir(place.path(&theirs)).unwrap();
        place.tool("mcopy", &["-i", &image, "-s", "-m", "-n", "::/tree", &theirs]);
        let read = harvest(&place.path(&theirs).join("tree"));
        assert_eq!(read.len(), planted.len());
        for (path, (bytes, changed)) in &planted {
            let (their_bytes, their_time) = &read[path];
            assert!(their_bytes == bytes, "{kind}: mtools reads another {}", path.display());
            if bytes.is_some() {
                assert_eq!(their_time, changed, "{kind}: mtools sees another time on {}", path.display());
            }
        }
    }
    // Copies from one volume to a volume of another format.
    place.works("cp -r fat12.img:/tree fat32.img:/from-fat12");
    place.fsck("fat32.img");
    place.works("cp -r fat32.img:/from-fat12 again");
    assert!(harvest(&place.path("again")) == planted);
}

#[test]
fn what_mtools_wrote_is_listed_and_read() {
    let place = Place::new("mtools");
    plant(&place.path("tree"));
    File::create(place.path("m.img")).unwrap().set_len(40 << 20).unwrap();
    place.tool("mkfs.fat", &["-F", "16", "-n", "MTOOLS", "m.img"]);
    place.tool("mcopy", &["-i", "m.img", "-s", "-m", "tree", "::/"]);
    place.tool("mattrib", &["-i", "m.img", "+h", "+r", "::/tree/one.txt"]);
    place.works("cp -r m.img:/tree out");
    for (path, (bytes, changed)) in harvest(&place.path("tree")) {
        let (our_bytes, our_time) = &harvest(&place.path("out"))[&path];
        assert!(*our_bytes == bytes, "{}", path.display());
        if bytes.is_some() {
            assert_eq!(*our_time, changed, "{}", path.display());
        }
    }
    let listed = place.json("ls --json -R -a m.img:/tree");
    let listed = listed.as_array().unwrap();
    assert_eq!(listed.len(), 69);
    let one = listed.iter().find(|entry| entry["name"] == "one.txt").unwrap();
    assert_eq!(one["path"], "m.img:/tree/one.txt");
    assert_eq!((one["size"].as_u64(), one["kind"].as_str()), (Some(1), Some("file")));
    assert_eq!(one["flags"], serde_json::json!(["read-only", "hidden", "archive"]));
    let changed = fs::metadata(place.path("tree/one.txt")).unwrap().modified().unwrap();
    let seconds = changed.duration_since(UNIX_EPOCH).unwrap().as_secs();
    let day = (seconds - WHEN) / 86_400;
    assert!(one["modified"].as_str().unwrap().ends_with("T04:05:06Z"), "{one} on day {day}");
    // Hidden files are listed only with `-a`, and times are shown in local time.
    assert!(!place.works("ls m.img:/tree").contains("one.txt"));
    let long = place.works("ls -la m.img:/tree");
    let line = long.lines().find(|line| line.ends_with("one.txt")).unwrap();
    assert!(line.starts_with("-rh-a            1 2020-") && line.contains(" 07:05:06 "), "{line}");
    assert_eq!(place.works("cat m.img:/tree/one.txt").len(), 1);
    let info = place.json("info --json m.img");
    assert_eq!(info["holds"]["volume"]["format"], "FAT16");
    assert_eq!(info["holds"]["volume"]["label"], "MTOOLS");
    assert!(place.works("info m.img").contains("MTOOLS"));
}

#[test]
fn directories_are_made_moved_and_removed() {
    let place = Place::new("moves");
    place.works("mkfs fat32 v.img --size 40M");
    let free = |place: &Place| place.json("info --json v.img")["holds"]["volume"]["free_clusters"].clone();
    let before = free(&place);
    fs::write(place.path("x.txt"), "x").unwrap();
    place.works("mkdir -p v.img:/a/b/c v.img:/a");
    assert!(place.fails("mkdir v.img:/a").contains("v.img:/a: an entry of this name exists"));
    assert!(place.fails("mkdir v.img:/no/d").contains("no such file or directory"));
    place.works("cp x.txt v.img:/a/b");
    place.works("cp x.txt v.img:/a/b/c");
    assert!(place.fails("cp x.txt x.txt v.img:/a/b/c").contains("the same name"));
    place.works("mv v.img:/a/b/x.txt v.img:/Y.txt");
    place.works("mv v.img:/Y.txt v.img:/y.TXT");
    place.works("mv v.img:/y.TXT v.img:/a/b v.img:/A");
    let names = place.works("ls -R v.img").lines().map(String::from).collect::<Vec<_>>();
    assert!(names.contains(&"a".to_string()), "the case given first is kept");
    place.works("mv v.img:/a v.img:/A");
    assert_eq!(place.works("ls v.img"), "A\n");
    assert_eq!(place.works("ls v.img:/A"), "b\ny.TXT\n");
    assert_eq!(place.works("cat v.img:/A/b/c/x.txt"), "x");
    place.fsck("v.img");
    assert!(place.fails("mv v.img:/A v.img:/A/b").contains("itself"));
    assert!(place.fails("mv v.img:/A w.img:/A").contains("another volume"));
    assert!(place.fails("rm v.img:/A").contains("use -r"));
    assert!(place.fails("rm -r v.img:/").contains("root"));
    place.works("rm v.img:/A/y.TXT");
    place.works("rm -r v.img:/a");
    assert_eq!(place.works("ls v.img"), "");
    place.fsck("v.img");
    assert_eq!(free(&place), before, "everything was given back");
}

/// As mv(1) and cp(1) have it: what the command itself has just put there is not replaced.
#[test]
fn what_a_command_has_just_put_there_it_does_not_overwrite() {
    for format in ["ntfs", "exfat", "fat16"] {
        let place = Place::new(&format!("just-there-{format}"));
        place.works(&format!("mkfs {format} v.img --size 32M"));
        fs::create_dir_all(place.path("d")).unwrap();
        for (name, content) in [("one", "1"), ("two", "2"), ("d/ς.txt", "1"), ("d/σ.txt", "2")] {
            fs::write(place.path(name), content).unwrap();
        }
        place.works("mkdir v.img:/a v.img:/b v.img:/c v.img:/d v.img:/out");
        place.works("cp one v.img:/a/x");
        place.works("cp two v.img:/b/x");
        // On the host, where names that differ in case are different.
        let read = |name: &str| fs::read_to_string(place.path(name)).unwrap();
        fs::create_dir(place.path("out")).unwrap();
        assert!(place.fails("cp v.img:/a/x v.img:/b/x out/").contains("out/x: another file of this copy"));
        assert_eq!(read("out/x"), "1", "{format}");
        place.works("cp v.img:/b/x out/");
        assert_eq!(read("out/x"), "2", "{format}: an earlier copy is replaced");
        // On a volume.
        let said = place.fails("mv v.img:/a/x v.img:/b/x v.img:/c");
        assert!(said.contains("v.img:/c/x: was moved there just now"), "{said}");
        assert_eq!(place.works("cat v.img:/c/x v.img:/b/x"), "12", "{format}");
        place.works("mv v.img:/c/x v.img:/a");
        place.works("mv v.img:/b/x v.img:/a");
        assert_eq!(place.works("cat v.img:/a/x"), "2", "{format}");
        // Both sigmas are one letter to some volumes, and two to others.
        let (_, said) = match place.platter("cp -r d/. v.img:/out").status.code() {
            Some(0) => (String::new(), String::new()),
            _ => place.ends(1, "cp -r d/. v.img:/out"),
        };
        let listed = place.works("ls v.img:/out").lines().count();
        assert!(listed == 2 || said.contains("another file of this copy"), "{format}: {listed} {said}");
        assert_eq!(place.works("cat v.img:/out/ς.txt"), "1", "{format}");
    }
    // A short name that is not shown is nobody's name: whoever has it gets another one.
    let place = Place::new("just-there-short");
    fs::create_dir(place.path("d")).unwrap();
    for (name, content) in [("Alongname1.txt", "1"), ("ALONGN~1.TXT", "2")] {
        fs::write(place.path("d").join(name), content).unwrap();
    }
    place.works("mkfs fat16 v.img --size 32M");
    place.works("cp -r d/. v.img:/");
    assert_eq!(place.works("cat v.img:/ALONGN~1.TXT"), "2");
    assert_eq!(place.works("cat v.img:/Alongname1.txt"), "1");
    place.works("check v.img");
}

/// A name that ends with a slash is one of a directory.
#[test]
fn a_file_does_not_become_a_directory_that_is_not_there() {
    let place = Place::new("slash");
    fs::write(place.path("one"), "1").unwrap();
    fs::create_dir_all(place.path("d/e")).unwrap();
    place.works("mkfs exfat v.img --size 32M");
    place.works("cp one v.img:/one");
    for line in [
        "cp one v.img:/no/",
        "cp one v.img:/one/",
        "cp v.img:/one out/",
        "cp v.img:/one/ out",
        "cat v.img:/one/",
        "rm v.img:/one/",
        "mv v.img:/one v.img:/no/",
        "mv v.img:/one/ v.img:/no",
    ] {
        let said = place.fails(line);
        assert!(said.contains("not a directory") || said.contains("no directory"), "{line}: {said}");
    }
    assert_eq!(place.works("ls v.img:/"), "one\n");
    assert!(!place.path("out").exists());
    place.works("cp -r d/ v.img:/new/");
    place.works("mv v.img:/new/ v.img:/newer/");
    place.works("cp -r v.img:/newer/ out/");
    assert!(place.path("out/e").is_dir());
}

#[test]
fn one_wrong_argument_costs_nothing_of_the_others() {
    let place = Place::new("others");
    fs::write(place.path("a"), "a").unwrap();
    place.works("mkfs exfat v.img --size 32M");
    place.works("cp a v.img:/a");
    place.works("cp a v.img:/b");
    assert!(place.fails("mkdir v.img:/a v.img:/d v.img:/e").contains("v.img:/a: an entry"));
    assert_eq!(place.works("ls v.img:/"), "a\nb\nd\ne\n");
    assert!(place.fails("mv v.img:/a v.img:/no v.img:/b v.img:/d").contains("v.img:/no: no such file"));
    assert_eq!(place.works("ls v.img:/d"), "a\nb\n");
}

/// What an image calls its files does not reach a terminal as a command to it.
#[test]
fn control_characters_do_not_reach_the_terminal() {
    let place = Place::new("escapes");
    place.works("mkfs exfat v.img --size 32M");
    let said = place.fails("cat v.img:/a\u{1b}[31mb\u{9b}31m");
    assert!(said.contains("v.img:/a?[31mb?31m: no such file"), "{said:?}");
}

#[test]
fn mkfs_destroys_nothing_unasked() {
    let place = Place::new("mkfs");
    assert!(place.fails("mkfs fat32 new.img").contains("give --size"));
    place.works("mkfs fat16 d.img --size 20M --serial 1234-abcd --cluster 4k --label OLD");
    let image = fs::read(place.path("d.img")).unwrap();
    let refused = place.fails("mkfs fat32 d.img --size 100M");
    assert!(refused.contains("holds a FAT file system") && refused.contains("--force"), "{refused}");
    assert!(fs::read(place.path("d.img")).unwrap() == image, "refused, and changed all the same");
    assert!(place.tool("minfo", &["-i", "d.img"]).contains("serial number: 1234ABCD"));
    assert_eq!(place.json("info --json d.img")["holds"]["volume"]["cluster"], 4096);
    place.works("mkfs fat32 d.img --size 100M --force");
    place.fsck("d.img");
    assert_eq!(place.json("info --json d.img")["size"], 100 << 20);
    // Content of other formats is gone even where the new volume does not overwrite it.
    let mut btrfs = vec![0; 40 << 20];
    btrfs[0x10040..0x10048].copy_from_slice(b"_BHRfS_M");
    fs::write(place.path("b.img"), btrfs).unwrap();
    assert!(place.fails("mkfs fat32 b.img").contains("Btrfs"));
    place.works("mkfs fat32 b.img --force");
    assert_ne!(fs::read(place.path("b.img")).unwrap()[0x10040..0x10048], *b"_BHRfS_M");
}

#[test]
fn partitions_are_found_or_named() {
    let place = Place::new("partitions");
    const SECTOR: usize = 512;
    let mut image = vec![0; 40 << 20];
    image[510..512].copy_from_slice(&[0x55, 0xAA]);
    for (number, start, count) in [(0, 2048_u32, 20_480_u32), (1, 24_576, 40_960)] {
        let entry = &mut image[446 + 16 * number..][..16];
        entry[4] = 0x0E;
        entry[8..12].copy_from_slice(&start.to_le_bytes());
        entry[12..16].copy_from_slice(&count.to_le_bytes());
    }
    fs::write(place.path("p.img"), &image).unwrap();
    assert!(place.fails("mkfs fat16 p.img").contains("MBR partition table with 2 partitions"));
    assert!(place.fails("ls p.img").contains("no partition holds a file system"));
    place.works("mkfs fat16 p.img --partition 2 --label SECOND");
    fs::write(place.path("x.txt"), "in the second").unwrap();
    place.works("cp x.txt p.img:/");
    place.tool("mtype", &["-i", &format!("p.img@@{}", 24_576 * SECTOR), "::/x.txt"]);
    place.works("mkfs fat12 p.img --partition 1 --label FIRST");
    assert!(place.fails("ls p.img").contains("--partition"));
    assert_eq!(place.works("ls --partition 2 p.img"), "x.txt\n");
    assert_eq!(place.works("ls p.img@2"), "x.txt\n");
    place.works("mkdir p.img@1:/d");
    place.works("cp p.img@2:/x.txt p.img@1:/d/y.txt");
    place.works("cp -r p.img@1:/d p.img@2:/");
    assert_eq!(place.works("cat p.img@2:/d/y.txt"), place.works("cat p.img@2:/x.txt"));
    place.works("mv p.img@1:/d/y.txt p.img@1:/d/z.txt");
    assert!(place.fails("cp p.img@2:/x.txt p.img@3:/").contains("has no partition 3"));
    place.works("rm -r p.img@1:/d");
    place.works("rm -r p.img@2:/d");
    assert_eq!(place.works("ls --partition 1 p.img"), "");
    assert!(place.fails("ls --partition 3 p.img").contains("2: FAT16, 20 MiB at 12 MiB"));
    fs::copy(place.path("p.img"), place.path("q.img")).unwrap();
    let (_, said) = place.ends(0, "mkfs ntfs q.img --partition 2 --force");
    assert!(said.contains("type is FAT16") && said.contains("NTFS, exFAT or ReFS is expected"), "{said}");
    let info = place.json("info --json p.img");
    let labels: Vec<_> =
        info["partitions"].as_array().unwrap().iter().map(|part| &part["holds"]["volume"]["label"]).collect();
    assert_eq!(labels, ["FIRST", "SECOND"]);
    assert_eq!(place.ends(0, "check --partition 2 p.img").1, "");
}

#[test]
fn a_volume_in_an_image_of_a_disk_with_large_sectors_has_them_too() {
    let place = Place::new("large-sectors");
    let mut disk = std::io::Cursor::new(vec![0; 64 << 20]);
    let mut gpt = gptman::GPT::new_from(&mut disk, 4096, [7; 16]).unwrap();
    gpt[1] = gptman::GPTPartitionEntry {
        // Basic data, as it is stored.
        partition_type_guid: *b"\xA2\xA0\xD0\xEB\xE5\xB9\x33\x44\x87\xC0\x68\xB6\xB7\x26\x99\xC7",
        unique_partition_guid: [2; 16],
        starting_lba: 256,
        ending_lba: 12 * 1024 - 1,
        attribute_bits: 0,
        partition_name: "data".into(),
    };
    gpt.write_into(&mut disk).unwrap();
    gptman::GPT::write_protective_mbr_into(&mut disk, 4096).unwrap();
    fs::write(place.path("p.img"), disk.into_inner()).unwrap();
    fs::write(place.path("x.txt"), "here").unwrap();
    for format in ["fat16", "exfat", "ntfs"] {
        place.works(&format!("mkfs {format} p.img --partition 1 --force"));
        let boot = &fs::read(place.path("p.img")).unwrap()[1 << 20..][..512];
        let sector =
            if format == "exfat" { 1 << boot[108] } else { u16::from_le_bytes([boot[11], boot[12]]) };
        assert_eq!(sector, 4096, "{format}");
        place.works("cp x.txt p.img:/");
        assert_eq!(place.works("cat p.img:/x.txt"), "here");
        assert!(place.works("check p.img").contains("no damage"));
        // A volume that was closed is told by the number of its partition too.
        assert!(place.works("check --if-dirty p.img@1").contains("is not checked"));
    }
}

#[test]
fn check_ends_as_fsck_does() {
    let place = Place::new("check");
    place.works("mkfs fat16 c.img --size 20M");
    fs::write(place.path("f.bin"), content(1, 100_000)).unwrap();
    place.works("cp f.bin c.img:/");
    assert!(place.works("check c.img").contains("no damage"));
    // The second copy of the FAT is made different from the first.
    let mut image = fs::read(place.path("c.img")).unwrap();
    let word = |at: usize| usize::from(u16::from_le_bytes([image[at], image[at + 1]]));
    let second = (word(14) + word(22)) * 512;
    image[second + 20] ^= 0x55;
    fs::write(place.path("c.img"), &image).unwrap();
    let (said, _) = place.ends(4, "check c.img");
    assert!(said.lines().count() >= 2, "{said}");
    assert!(fs::read(place.path("c.img")).unwrap() == image, "a check without --repair wrote");
    let output = place.ends(4, "check --json c.img").0;
    let document: serde_json::Value = serde_json::from_str(&output).unwrap();
    assert_eq!(document["exit_code"], 4);
    assert_eq!(document["findings"][0]["repaired"], false);
    place.ends(1, "check --repair c.img");
    place.works("check c.img");
    place.fsck("c.img");
    let read = place.platter("cat c.img:/f.bin").stdout;
    assert!(read == content(1, 100_000));
    fs::write(place.path("zero.img"), vec![0; 1 << 20]).unwrap();
    let (_, error) = place.ends(8, "check zero.img");
    assert!(error.contains("no file system is recognised"), "{error}");
    place.ends(8, "check missing.img");
    place.ends(16, "check");
    place.ends(16, "check --bogus c.img");
    place.ends(2, "ls");
    place.ends(2, "mkfs ext4 c.img");
    place.ends(0, "check --help");
}

#[test]
fn cp_says_what_it_cannot_copy_and_copies_the_rest() {
    let place = Place::new("rest");
    place.works("mkfs fat32 v.img --size 40M");
    let tree = place.path("tree");
    fs::create_dir_all(tree.join("d")).unwrap();
    fs::write(tree.join("Same"), "1").unwrap();
    fs::write(tree.join("same"), "2").unwrap();
    fs::write(tree.join("bad:name"), "3").unwrap();
    fs::write(tree.join("d/good"), "4").unwrap();
    std::os::unix::fs::symlink("good", tree.join("d/link")).unwrap();
    let (_, errors) = place.ends(1, "cp -r tree v.img:/");
    let lines: Vec<&str> = errors.lines().collect();
    assert_eq!(lines.len(), 3, "{errors}");
    for part in ["bad:name", "one that is the same there", "symbolic link"] {
        assert!(errors.contains(part), "{part}: {errors}");
    }
    assert_eq!(place.works("cat v.img:/tree/d/good"), "4");
    assert_eq!(place.works("cat v.img:/tree/same"), "1");
    // A second copy replaces the first, and its names are not taken for collisions.
    fs::remove_file(tree.join("same")).unwrap();
    fs::remove_file(tree.join("bad:name")).unwrap();
    fs::remove_file(tree.join("d/link")).unwrap();
    fs::write(tree.join("Same"), "longer than before").unwrap();
    place.works("cp -r tree v.img:/");
    assert_eq!(place.works("cat v.img:/tree/Same"), "longer than before");
    place.works("cp v.img:/tree/Same v.img:/copy");
    assert_eq!(place.works("cat v.img:/copy"), "longer than before");
    assert!(place.fails("cp -r v.img:/tree v.img:/tree/d").contains("into itself"));
    assert!(place.fails("cp v.img:/copy v.img:/copy").contains("onto itself"));
    assert!(place.fails("cp tree v.img:/x").contains("use -r"));
    assert!(place.fails("cp -r . v.img:/all").contains("is the image"));
    assert!(place.fails("cp a b").contains("IMAGE:/PATH"));
    assert!(place.fails("cp v.img:/none out").contains("v.img:/none: no such file"));
    let (_, error) = place.ends(1, "cp tree/Same tree/d/good v.img:/copy");
    assert!(error.contains("not a directory"), "{error}");
    place.fsck("v.img");
}

#[test]
fn a_full_volume_is_an_error_and_stays_sound() {
    let place = Place::new("full");
    place.works("mkfs fat12 v.img --size 1M");
    fs::write(place.path("large"), content(3, 2 << 20)).unwrap();
    fs::write(place.path("small"), content(4, 1000)).unwrap();
    let (_, error) = place.ends(1, "cp large small v.img:/");
    assert!(error.contains("no space left on the volume"), "{error}");
    place.fsck("v.img");
    assert_eq!(place.works("ls v.img"), "small\n", "half of the large file is not kept");
    File::create(place.path("huge")).unwrap().set_len(4 << 30).unwrap();
    let error = place.fails("cp huge v.img:/");
    assert!(error.contains("4294967295 bytes long; 4294967296 were asked for"), "{error}");
    place.works("rm v.img:/small");
    place.works("cp small v.img:/");
    assert!(place.platter("cat v.img:/small").stdout == content(4, 1000));
    // The root directory is full long before the volume is.
    let names: Vec<String> = (0..600).map(|number| format!("e{number}")).collect();
    names.iter().for_each(|name| fs::write(place.path(name), "").unwrap());
    let (_, error) = place.ends(1, &format!("cp {} v.img:/", names.join(" ")));
    assert!(
        error.lines().all(|line| line.contains("the directory is full: its entries can take")),
        "{error}"
    );
    place.fsck("v.img");
}

#[test]
fn a_hostile_name_does_not_lead_out_of_the_directory() {
    let place = Place::new("hostile");
    place.works("mkfs fat16 h.img --size 20M");
    fs::write(place.path("..X..Xescaped file.txt"), "out").unwrap();
    place
        .command(env!("CARGO_BIN_EXE_platter"), &["cp", "..X..Xescaped file.txt", "h.img:/"])
        .status()
        .unwrap();
    // The slashes, which no tool would write, are put directly into the long name.
    let mut image = fs::read(place.path("h.img")).unwrap();
    let name: Vec<u8> = "..X..".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let at = image.windows(10).position(|window| window == name).expect("the long name is in the image");
    image[at + 4] = b'/';
    fs::write(place.path("h.img"), &image).unwrap();
    fs::create_dir_all(place.path("a/b")).unwrap();
    let outside = || -> Vec<PathBuf> {
        harvest(&place.0).into_keys().filter(|path| !path.starts_with("a/b/copy")).collect()
    };
    let before = outside();
    let output = place.platter("cp -r h.img:/ a/b/copy");
    assert!(output.status.code().is_some_and(|code| code <= 1), "{output:?}");
    assert_eq!(outside(), before, "something was written elsewhere");
    assert!(!place.0.parent().unwrap().join("escaped file.txt").exists());
    place.platter("ls -R h.img");
}

#[test]
fn a_mirror_is_used_like_an_image() {
    let place = Place::new("mirror");
    let copies = || ["a.img", "b.img"].map(|name| fs::read(place.path(name)).unwrap());
    let alike = || {
        let [one, two] = copies();
        assert!(one == two, "the copies differ");
    };
    fs::write(place.path("x.txt"), "on each").unwrap();
    fs::write(place.path("large"), content(5, 3 << 20)).unwrap();
    let said = place.works("mkfs fat32 mirror:a.img,b.img --size 40M --label TWICE");
    assert!(said.starts_with("mirror:a.img,b.img: FAT32"), "{said}");
    alike();
    place.works("mkdir -p mirror:a.img,b.img:/d/e");
    place.works("cp x.txt large mirror:a.img,b.img:/d");
    place.works("mv mirror:a.img,b.img:/d/x.txt mirror:b.img,a.img:/d/e/y.txt");
    place.works("cp mirror:a.img,b.img:/d/large mirror:a.img,b.img:/again");
    place.works("rm mirror:a.img,b.img:/d/large");
    alike();
    let absolute = format!("mirror:{},{}", place.path("a.img").display(), place.path("b.img").display());
    assert_eq!(place.works(&format!("cat {absolute}:/d/e/y.txt")), "on each");
    assert_eq!(place.works(&format!("ls {absolute}")), "again\nd\n");
    assert!(place.platter("cat mirror:b.img,a.img:/again").stdout == content(5, 3 << 20));
    let info = place.json("info --json mirror:a.img,b.img");
    assert_eq!((&info["device"], &info["size"]), (&"mirror:a.img,b.img".into(), &(40 << 20).into()));
    assert_eq!(info["holds"]["volume"]["label"], "TWICE");
    assert!(place.works("check mirror:a.img,b.img").contains("no damage"));
    // Each copy is a volume by itself.
    for copy in ["a.img", "b.img"] {
        place.fsck(copy);
        assert_eq!(place.works(&format!("cat {copy}:/d/e/y.txt")), "on each");
    }
    // A check of the mirror repairs both copies.
    place.works("mkfs fat16 mirror:c.img,d.img --size 20M");
    let mut image = fs::read(place.path("c.img")).unwrap();
    let word = |at: usize| usize::from(u16::from_le_bytes([image[at], image[at + 1]]));
    let second = (word(14) + word(22)) * 512;
    image[second + 20] ^= 0x55;
    fs::write(place.path("c.img"), &image).unwrap();
    fs::write(place.path("d.img"), &image).unwrap();
    place.ends(1, "check --repair mirror:c.img,d.img");
    place.works("check c.img");
    assert!(fs::read(place.path("c.img")).unwrap() == fs::read(place.path("d.img")).unwrap());
}

#[test]
fn copies_that_are_no_mirror_are_not_written() {
    let place = Place::new("unlike");
    for (name, label) in [("a.img", "FIRST"), ("b.img", "SECOND")] {
        place.works(&format!("mkfs fat32 {name} --size 40M --label {label}"));
    }
    let before = fs::read(place.path("b.img")).unwrap();
    for command in
        ["mkdir mirror:a.img,b.img:/d", "mkdir mirror:a.img,b.img:/d --force", "ls mirror:a.img,b.img"]
    {
        let refused = place.fails(command);
        assert!(refused.contains("no copy has a record") && refused.contains("--from b.img"), "{refused}");
    }
    assert!(fs::read(place.path("b.img")).unwrap() == before);
    place.works("mirror rebuild mirror:a.img,b.img --from a.img");
    place.works("mkdir mirror:a.img,b.img:/d");
    // A copy that holds a file system is noticed before the other copy is created.
    let refused = place.fails("mkfs fat32 mirror:new.img,b.img --size 40M");
    assert!(refused.contains("b.img: holds a FAT file system"), "{refused}");
    assert!(!place.path("new.img").exists());
    fs::write(place.path("new.img"), vec![0; 40 << 20]).unwrap();
    assert!(place.fails("mkfs fat32 mirror:new.img,b.img").contains("b.img: holds a FAT file system"));
    assert!(fs::read(place.path("new.img")).unwrap().iter().all(|&byte| byte == 0));
    place.works("mkfs fat32 mirror:new.img,b.img --force");
    assert!(fs::read(place.path("new.img")).unwrap() == fs::read(place.path("b.img")).unwrap());
    // One file cannot be two copies of a mirror, nor part of two volumes in one command.
    assert!(place.fails("ls mirror:a.img,./a.img").contains("./a.img is named twice"));
    let (_, shared) = place.ends(1, "cp mirror:new.img,b.img:/x b.img:/y");
    assert!(shared.contains("shares a copy with b.img"), "{shared}");
    assert!(place.fails("ls mirror:a.img,").contains("mirror:IMAGE,IMAGE"));
    let (_, said) = place.ends(0, "ls mirror:a.img,no.img");
    assert!(said.contains("no.img: this copy of the mirror is left out: it is missing"), "{said}");
    assert!(place.fails("mkfs fat32 mirror:a.img,no.img").contains("no.img: does not exist; to make it"));
}

#[test]
fn two_processes_do_not_write_to_one_image() {
    let place = Place::new("two");
    place.works("mkfs fat32 v.img --size 40M");
    // A second user, which has opened the image exclusively.
    let device = platter_device::FileDevice::open(
        place.path("v.img"),
        platter_device::FileOptions { exclusive: true, ..Default::default() },
    )
    .unwrap();
    let refused = place.fails("mkdir v.img:/d");
    assert!(refused.contains("another process works on it") && !refused.contains("--force"), "{refused}");
    // What is on the image may be half of what the other one writes.
    assert!(place.fails("ls v.img").contains("has it open for writing"));
    // Changes that the other user makes during a check would look like damage.
    let (_, refused) = place.ends(8, "check v.img");
    assert!(
        refused.contains("another process works on it") && refused.contains("looks like damage"),
        "{refused}"
    );
    place.works("check v.img --force");
    drop(device);
    place.works("mkdir v.img:/d");

    // Readers do not exclude each other, but they exclude a writer.
    let device = platter_device::FileDevice::open(
        place.path("v.img"),
        platter_device::FileOptions { exclusive: true, read_only: true, ..Default::default() },
    )
    .unwrap();
    place.works("check v.img");
    assert!(place.fails("mkdir v.img:/e").contains("another process works on it"));
    // The claims of readers count too for a process that waits until the image is closed.
    let image = place.path("v.img");
    assert!(platter_device::is_claimed(&image));
    drop(device);
    // A program that another test starts at this moment has the file too, until it is itself.
    let is_free = |_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        !platter_device::is_claimed(&image)
    };
    assert!((0..1_000).any(is_free));
}

#[test]
fn a_look_at_whether_an_image_is_claimed_keeps_nobody_from_opening_it() {
    let place = Place::new("look");
    place.works("mkfs fat32 v.img --size 40M");
    let path = place.path("v.img");
    let ended = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !ended.load(std::sync::atomic::Ordering::SeqCst) {
                    platter_device::is_claimed(&path);
                }
            });
        }
        let opened = (0..1_000).try_for_each(|_| {
            let access = platter::Access::Write { force: false };
            platter::open_file(&path, access, platter_device::Caching::default()).map(drop)
        });
        ended.store(true, std::sync::atomic::Ordering::SeqCst);
        opened.unwrap();
    });
}

#[test]
fn nobody_waits_for_the_other_end_of_a_fifo() {
    let place = Place::new("fifo");
    place.tool("mkfifo", &["pipe"]);
    place.works("mkfs fat32 disk.img --size 64M");
    let commands = [
        "ls pipe",
        "ls pipe@1:/a",
        "ls mirror:pipe,disk.img",
        "cat pipe:/a",
        "stat pipe:/a",
        "df pipe",
        "du pipe",
        "label pipe",
        "touch pipe:/a",
        "rm pipe:/a",
        "mkdir pipe:/a",
        "mv pipe:/a pipe:/b",
        "cp pipe:/a copy",
        "cp disk.img:/ pipe:/a -r",
        "info pipe",
        "recover pipe found",
        "mkfs fat32 pipe --size 64M",
        "attr list pipe:/a",
        "compare --device pipe --targets raw",
        "serve pipe --nbd --socket socket",
    ];
    for line in commands {
        let said = place.fails(line);
        assert!(said.contains("pipe") && said.contains("found a FIFO"), "{line}: {said}");
    }
}

#[test]
fn a_reader_that_goes_away_is_no_error_message() {
    let place = Place::new("pipe");
    place.works("mkfs fat32 v.img --size 40M");
    fs::write(place.path("large"), content(3, 4 << 20)).unwrap();
    place.works("cp large v.img:/");
    let mut child = place
        .command(env!("CARGO_BIN_EXE_platter"), &["cat", "v.img:/large"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), &output.stderr[..]), (Some(1), &b""[..]));
}

#[test]
fn completions_and_manual_pages_know_every_command() {
    let place = Place::new("man");
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        assert!(place.works(&format!("completions {shell}")).contains("complete"), "{shell}");
    }
    place.works("man pages/man1");
    let help = place.works("--help");
    let commands: Vec<&str> = help
        .lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.strip_prefix("  ")?.split(' ').next())
        .filter(|command| !command.is_empty() && *command != "help")
        .collect();
    for command in ["mkfs", "info", "ls", "cat", "cp", "mkdir", "mv", "rm", "check", "completions", "man"] {
        assert!(commands.contains(&command), "{command} in {commands:?}");
    }
    for command in commands {
        let page = place.path(&format!("pages/man1/platter-{command}.1"));
        assert!(fs::read_to_string(&page).is_ok_and(|page| page.contains("SYNOPSIS")), "{}", page.display());
    }
}

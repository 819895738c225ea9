//! Damaged volumes: images that are cut off, overwritten boot sectors, and copying out the files that remain.

use crate::common::{Place, content};
use std::fs;

const FORMATS: [(&str, u64); 5] = [("fat12", 8), ("fat16", 32), ("fat32", 64), ("exfat", 32), ("ntfs", 32)];
const FILES: u64 = 60;

/// Makes a volume with a directory of small files and a file that takes nearly all the remaining space.
fn full(test: &str, format: &str, megabytes: u64) -> Place {
    let place = Place::new(&format!("recover-{test}-{format}"));
    fs::create_dir_all(place.path("d/deep")).unwrap();
    for number in 0..FILES {
        fs::write(place.path(&format!("d/a file {number}")), content(number, 9000)).unwrap();
        fs::write(place.path(&format!("d/deep/{number}.txt")), content(number, 100)).unwrap();
    }
    let rest = (megabytes << 20) - (megabytes << 20) / 12 - (1 << 20);
    fs::write(place.path("fill"), content(77, rest as usize)).unwrap();
    place.works(&format!("mkfs {format} v.img --size {megabytes}M"));
    place.works("cp -r d v.img:/");
    place.works("cp fill v.img:/");
    place
}

/// Returns the number of the small files that are in a directory with their whole content.
fn whole(place: &Place, at: &str) -> u64 {
    let is_there = |number: &u64| {
        let same = |name: String, length| {
            fs::read(place.path(at).join(name)).is_ok_and(|bytes| bytes == content(*number, length))
        };
        same(format!("a file {number}"), 9000) && same(format!("deep/{number}.txt"), 100)
    };
    (0..FILES).filter(is_there).count() as u64
}

#[test]
fn an_image_that_was_cut_off_is_read_and_says_what_is_missing() {
    for (format, megabytes) in FORMATS {
        let place = full("cut", format, megabytes);
        let image = fs::read(place.path("v.img")).unwrap();
        // The image is cut somewhere in the large file, which has the last clusters.
        let used = image.iter().rposition(|&byte| byte != 0).unwrap();
        let end = (used - used / 50).min(image.len() - image.len() / 100) / 512 * 512;
        let cut = &image[..end];
        fs::write(place.path("v.img"), cut).unwrap();
        let (listed, said) = place.ends(0, "ls v.img:/d");
        assert!(
            listed.lines().count() == FILES as usize + 1 && said.contains("bytes before the volume"),
            "{said}"
        );
        place.ends(0, "cp -r v.img:/d out");
        assert_eq!(whole(&place, "out"), FILES, "{format}");
        let output = place.platter("cat v.img:/fill");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{format}: {said}");
        assert!(said.contains("past the end"), "{format}: {said}");
        let (_, said) = place.ends(1, "mkdir v.img:/x");
        assert!(said.contains("read-only") && said.contains("bytes before the volume"), "{format}: {said}");
        let info = place.works("info v.img");
        assert!(info.contains("bytes before the volume"), "{format}: {info}");
        let (found, _) = place.ends(4, "check v.img");
        assert!(found.contains("/fill: ") && found.contains("behind the end"), "{format}: {found}");
        assert!(!found.contains("/d/"), "{format}: {found}");
        let (_, said) = place.ends(8, "check --repair v.img");
        assert!(said.contains("bytes before the volume"), "{format}: {said}");
        assert!(fs::read(place.path("v.img")).unwrap() == cut, "{format}: it was written to");
    }
}

#[test]
fn a_dead_boot_sector_is_told_with_its_copy_and_the_ways_on() {
    for (format, name) in [("fat32", "fat"), ("exfat", "exfat")] {
        let place = full("boot", format, 64);
        let mut image = fs::read(place.path("v.img")).unwrap();
        image[..512].fill(0);
        fs::write(place.path("v.img"), image).unwrap();
        for line in ["ls v.img", "cp -r v.img:/d out"] {
            let said = place.fails(line);
            for words in [format!("check --as {name}"), format!("recover --as {name}")] {
                assert!(said.contains(&words), "{format}: {said}");
            }
        }
        place.ends(0, "recover v.img out");
        assert_eq!(whole(&place, "out/d"), FILES, "{format}");
        place.ends(1, &format!("check --as {name} v.img --repair"));
        assert_eq!(place.works("ls v.img:/d").lines().count(), FILES as usize + 1);
    }
}

/// Neither the boot sector nor its copy is left, nor are the first entries of the FAT that is read; and the volume is no
/// longer found by the start of its partition either.
#[test]
fn a_volume_is_found_by_its_structures_where_its_boot_sector_is_lost() {
    for (format, megabytes) in [("fat12", 8), ("fat16", 32), ("fat32", 64), ("exfat", 32)] {
        let place = full("layout", format, megabytes);
        let mut image = fs::read(place.path("v.img")).unwrap();
        let bytes = |at: usize| u32::from_le_bytes(image[at..at + 4].try_into().unwrap()) as usize;
        let lost = match format {
            "exfat" => bytes(80) * 512,
            _ => (bytes(14) & 0xFFFF) * 512 + 16,
        };
        image[..lost].fill(0);
        let before = vec![0; 17 * 512];
        fs::write(place.path("disk.img"), [before, image].concat()).unwrap();
        let said = place.fails("ls disk.img");
        assert!(said.contains("no file system is recognised"), "{format}: {said}");
        place.ends(0, "recover disk.img out");
        assert_eq!(whole(&place, "out/d"), FILES, "{format}");
        let fill = fs::read(place.path("fill")).unwrap();
        assert!(fs::read(place.path("out/fill")).unwrap() == fill, "{format}");
    }
}

/// With a single directory or none, the sizes of files tell the layout, wherever on the device it begins; and if there are
/// no files that tell it, what is found is marked.
#[test]
fn files_decide_between_layouts_or_what_is_found_is_marked() {
    for (format, options) in
        [("fat12", "--size 4M"), ("fat12", "--size 4M --cluster 4k"), ("fat16", "--size 32M")]
    {
        for (directories, before) in [(0, 0), (1, 0), (0, 1 << 20), (1, 1 << 20)] {
            let place = Place::new(&format!("chains-{format}-{}-{directories}-{before}", options.len()));
            place.works(&format!("mkfs {format} v.img {options}"));
            let sizes = [50_000, 100_000, 150_000, 10_000];
            for (number, size) in sizes.into_iter().enumerate() {
                fs::write(place.path(&format!("f{number}")), content(number as u64, size)).unwrap();
                place.works(&format!("cp f{number} v.img:/"));
            }
            if directories == 1 {
                place.works("mkdir v.img:/d");
            }
            let mut image = fs::read(place.path("v.img")).unwrap();
            image[..512].fill(0);
            fs::write(place.path("disk.img"), [vec![0; before], image, vec![0; 8 * before]].concat())
                .unwrap();
            place.ends(0, "recover disk.img out");
            for (number, size) in sizes.into_iter().enumerate() {
                let found = fs::read(place.path(&format!("out/f{number}"))).unwrap();
                assert!(
                    found == content(number as u64, size),
                    "{format} {options} {directories} {before}: f{number}"
                );
            }
        }
    }
    let place = Place::new("chains-undecided");
    place.works("mkfs fat16 v.img --size 32M");
    fs::write(place.path("small"), "small").unwrap();
    place.works("mkdir v.img:/d");
    place.works("cp small v.img:/");
    let mut image = fs::read(place.path("v.img")).unwrap();
    image[..512].fill(0);
    fs::write(place.path("disk.img"), [image, vec![0; 8 << 20]].concat()).unwrap();
    place.ends(1, "recover disk.img out");
    assert!(place.path("out/damaged/small").exists() && !place.path("out/small").exists());
}

/// Of two layouts that are found on a device, that of the volume is taken, not that of an image in one of its files.
#[test]
fn an_image_in_a_file_is_not_taken_for_the_volume() {
    let place = full("nested", "fat16", 32);
    fs::rename(place.path("v.img"), place.path("inner.img")).unwrap();
    place.works("mkfs fat32 v.img --size 96M");
    place.works("mkdir v.img:/one");
    place.works("cp -r d v.img:/one");
    place.ends(0, "cp inner.img v.img:/");
    let mut image = fs::read(place.path("v.img")).unwrap();
    image[..4096].fill(0);
    fs::write(place.path("v.img"), image).unwrap();
    place.ends(0, "recover v.img out");
    assert_eq!(whole(&place, "out/one/d"), FILES);
    assert!(fs::read(place.path("out/inner.img")).unwrap() == fs::read(place.path("inner.img")).unwrap());
}

/// Metadata of other formats, and files, do not pass for the structures of a FAT or exFAT volume.
#[test]
fn no_layout_is_found_where_there_is_none() {
    for format in ["ntfs", "refs"] {
        let place = full("foreign", "fat16", 32);
        place.works(&format!("mkfs {format} v.img --size 512M --force"));
        place.works("cp -r d v.img:/");
        for name in ["fat", "exfat"] {
            place.ends(1, &format!("recover --as {name} v.img out"));
        }
    }
}

#[test]
fn what_is_wrong_with_a_volume_that_does_not_open_is_told() {
    let place = Place::new("recover-why");
    place.works("mkfs fat16 f.img --size 32M");
    let image = fs::read(place.path("f.img")).unwrap();
    fs::write(place.path("f.img"), &image[..8192]).unwrap();
    let said = place.fails("ls f.img");
    assert!(said.contains("a FAT file system, which is damaged") && said.contains("16 sectors"), "{said}");
    // A root directory whose cluster is free: the volume is recognised, but cannot be opened.
    place.works("mkfs exfat e.img --size 32M");
    let mut image = fs::read(place.path("e.img")).unwrap();
    let root = u32::from_le_bytes(image[96..100].try_into().unwrap()) as usize;
    image[(1 << 20) + 4 * root..][..4].fill(0);
    fs::write(place.path("e.img"), &image).unwrap();
    let (told, _) = place.ends(1, "info e.img");
    assert!(told.contains("cannot be opened: damaged cluster chain"), "{told}");
    let said = place.fails("ls e.img");
    assert!(said.contains("`platter recover`"), "{said}");
    // A volume that could be written to is not shown as read-only, although `info` opens it for reading.
    place.works("mkfs ntfs n.img --size 32M");
    assert!(!place.works("info n.img").contains("read-only"));
}

/// The root directory is overwritten: its subdirectory is found by its content, and its file as a cluster chain
/// without a name.
#[test]
fn directories_that_nothing_leads_to_are_found() {
    for (format, megabytes) in [("fat12", 8), ("fat16", 32), ("fat32", 64), ("exfat", 32)] {
        let place = full("root", format, megabytes);
        let mut image = fs::read(place.path("v.img")).unwrap();
        // The sector of the root directory that holds the entries of the subdirectory and of the file `fill` is
        // overwritten.
        let units: Vec<u8> = "fill".encode_utf16().flat_map(u16::to_le_bytes).collect();
        let at = match format {
            "exfat" => image.windows(8).position(|bytes| bytes == units).unwrap(),
            _ => image.windows(11).position(|bytes| bytes == b"FILL       ").unwrap(),
        };
        let start = at / 512 * 512;
        image[start..start + 512].fill(0);
        fs::write(place.path("v.img"), image).unwrap();
        place.platter(&format!("recover --as {format} v.img out"));
        let found: Vec<_> =
            fs::read_dir(place.path("out/found")).unwrap().map(|entry| entry.unwrap().path()).collect();
        let best = found.iter().map(|path| whole(&place, &path.display().to_string())).max();
        assert_eq!(best, Some(FILES), "{format}: {found:?}");
        if format != "exfat" {
            let fill = fs::read(place.path("fill")).unwrap();
            let chains = fs::read_dir(place.path("out/chains")).unwrap();
            let is_fill = |entry: std::io::Result<fs::DirEntry>| {
                fs::read(entry.unwrap().path()).unwrap().starts_with(&fill)
            };
            assert!(chains.into_iter().any(is_fill), "{format}");
        }
    }
}

/// Two files that claim the same clusters: the copies are reported as possibly wrong.
#[test]
fn files_that_overlap_are_marked() {
    let place = full("overlap", "fat32", 64);
    let mut image = fs::read(place.path("v.img")).unwrap();
    let entries = |image: &[u8], name: &[u8; 11]| image.windows(11).position(|bytes| bytes == name).unwrap();
    let (one, two) = (entries(&image, b"1       TXT"), entries(&image, b"2       TXT"));
    let first: Vec<u8> = image[one + 26..one + 28].to_vec();
    image[two + 26..two + 28].copy_from_slice(&first);
    fs::write(place.path("v.img"), image).unwrap();
    let (said, _) = place.ends(1, "recover v.img out");
    assert!(said.contains("/d/deep/2.txt: parts of it are another file's too"), "{said}");
    assert!(place.path("out/overlapping/d/deep/2.txt").exists());
}

/// The directories for deleted and damaged files make way for files of the volume of their names.
#[test]
fn deleted_files_are_kept_apart_whatever_the_volume_calls_its_files() {
    let place = Place::new("recover-names");
    let read = |name: &str| fs::read_to_string(place.path(name)).unwrap();
    fs::create_dir_all(place.path("d/deleted")).unwrap();
    for (name, content) in
        [("d/deleted/a", "live"), ("d/damaged", "live"), ("d/a", "gone"), ("file", "was a file")]
    {
        fs::write(place.path(name), content).unwrap();
    }
    place.works("mkfs ntfs v.img --size 32M");
    // Deleted files before and behind the live ones of that name.
    place.works("cp file v.img:/before");
    place.works("cp -r d/. v.img:/");
    place.works("rm v.img:/before v.img:/a");
    let said = place.works("recover v.img out");
    assert!(said.contains("out/deleted (2): deleted files are here"), "{said}");
    assert_eq!((read("out/deleted/a"), read("out/damaged")), ("live".into(), "live".into()));
    assert_eq!(fs::read_dir(place.path("out/deleted")).unwrap().count(), 1);
    assert_eq!(read("out/deleted (2)/a"), "gone");
    // A file in their place.
    place.works("rm -r v.img:/deleted");
    place.works("cp file v.img:/deleted");
    place.ends(0, "recover v.img again");
    assert_eq!((read("again/deleted"), read("again/deleted (2)/a")), ("was a file".into(), "gone".into()));
}

/// A deleted file and a deleted directory of one name are both copied, with what is in the directory.
#[test]
fn a_file_and_a_directory_of_one_name_are_both_recovered() {
    let place = Place::new("recover-one-name");
    fs::create_dir(place.path("d")).unwrap();
    fs::write(place.path("d/f"), "inside").unwrap();
    fs::write(place.path("d/g"), "inside too").unwrap();
    fs::write(place.path("data"), "a file").unwrap();
    place.works("mkfs ntfs v.img --size 32M");
    place.works("cp data v.img:/data");
    place.works("cp -r d v.img:/");
    place.works("rm v.img:/data");
    place.works("mv v.img:/d v.img:/data");
    place.works("rm -r v.img:/data");
    place.works("recover v.img out");
    let read = |name: &str| fs::read_to_string(place.path(name)).unwrap();
    assert_eq!(read("out/deleted/data"), "a file");
    assert_eq!(read("out/deleted/data (2)/f"), "inside");
    assert_eq!(read("out/deleted/data (2)/g"), "inside too");
}

/// Any number of files whose names are the same once they are cut to what the host holds.
#[test]
fn names_that_are_cut_to_one_are_told_apart_by_numbers() {
    const NAMES: usize = 1100;
    let place = Place::new("recover-cut");
    place.works("mkfs ntfs v.img --size 32M");
    let volume = platter::open_rw(place.path("v.img")).unwrap();
    for number in 0..NAMES {
        let name = format!("{}{number}.jpg", "日".repeat(100));
        volume.write(&*name, number.to_string().as_bytes()).unwrap();
    }
    volume.close().unwrap();
    place.works("recover v.img out");
    let files = fs::read_dir(place.path("out")).unwrap().map(|entry| entry.unwrap());
    let mut found: Vec<usize> =
        files.map(|file| fs::read_to_string(file.path()).unwrap().parse().unwrap()).collect();
    found.sort_unstable();
    assert_eq!(found, (0..NAMES).collect::<Vec<_>>());
}

/// A file that the host cannot hold is not there in part, nor as zeroes; and what is not there at all leaves nothing.
#[test]
fn what_cannot_be_written_is_removed_again() {
    let place = Place::new("recover-full");
    fs::create_dir(place.path("d")).unwrap();
    fs::write(place.path("d/large"), content(1, 3 << 20)).unwrap();
    fs::write(place.path("d/small"), "small").unwrap();
    place.works("mkfs exfat v.img --size 32M");
    place.works("cp -r d/. v.img:/");
    // A limit on the size of files has the effect of a full disk.
    let script = "trap '' XFSZ; ulimit -f 2048; \"$0\" recover v.img out > said || test $? = 1; cat said";
    let said = place.tool("sh", &["-ec", script, env!("CARGO_BIN_EXE_platter")]);
    assert!(said.contains("out/large: File too large"), "{said}");
    assert!(!place.path("out/large").exists());
    assert_eq!(fs::read(place.path("out/small")).unwrap(), b"small");
    place.fails("recover none.img none");
    assert!(!place.path("none").exists());
}

/// What is listed is what is copied; patterns choose from both.
#[test]
fn what_is_found_is_listed_and_chosen() {
    for (format, megabytes) in [("fat32", 64), ("exfat", 32), ("ntfs", 32)] {
        let place = full("list", format, megabytes);
        fs::write(place.path("gone"), content(5, 20_000)).unwrap();
        place.works("rm v.img:/fill");
        place.works("cp gone v.img:/a_lost_file.JPG");
        place.works("rm v.img:/a_lost_file.JPG");
        let text = place.works("recover --list v.img");
        assert!(text.contains(" /d/deep/7.txt\n") && !place.path("out").exists(), "{format}: {text}");
        let gone = text.lines().find(|line| line.ends_with("/a_lost_file.JPG")).unwrap();
        assert!(gone.contains("deleted") && gone.contains(" 20,000 "), "{format}: {gone}");
        let sureness = if format == "exfat" { "certain" } else { "likely" };
        assert!(gone.contains(sureness), "{format}: {gone}");
        let document = place.json("recover --list --json v.img");
        let found = document["found"].as_array().unwrap();
        let one = found.iter().find(|one| one["path"] == "/d/a file 3").unwrap();
        assert_eq!((one["size"].as_u64(), one["sureness"].as_str()), (Some(9000), Some("certain")));
        assert_eq!((&document["complete"], one["deleted"].as_bool()), (&true.into(), Some(false)));
        // The same is copied.
        place.works("recover v.img out");
        let copied = place.tool("find", &["out", "-type", "f"]).lines().count();
        assert_eq!(found.iter().filter(|one| one["kind"] == "file").count(), copied, "{format}");
        // By name at any depth, whatever its case; a directory with all that is in it.
        place.works("recover v.img some --match *.jpg --match /D/deep/1?.txt");
        let some = place.tool("find", &["some", "-type", "f"]);
        assert_eq!(some.lines().count(), 11, "{format}: {some}");
        let text = place.works("recover --list v.img --match deep");
        assert_eq!(text.lines().filter(|line| line.contains(".txt")).count(), FILES as usize, "{format}");
        place.ends(2, "recover --list v.img --match [");
        place.works("recover --list v.img nowhere");
        assert!(!place.path("nowhere").exists());
        place.ends(2, "recover v.img");
    }
}

/// A target that was full goes on once it has room, with what is not there alone.
#[test]
fn a_recovery_into_a_full_target_goes_on() {
    let place = full("room", "ntfs", 32);
    fs::create_dir(place.path("small")).unwrap();
    place.tool("mount", &["-t", "tmpfs", "-o", "size=2M", "none", "small"]);
    let (said, _) = place.ends(1, "recover v.img small/out");
    assert!(said.contains("small/out/fill: No space left"), "{said}");
    assert!(place.path("small/out/.platter-recover").exists());
    place.tool("mount", &["-o", "remount,size=64M", "small"]);
    let said = place.works("recover v.img small/out");
    let (is_whole, fill) = (whole(&place, "small/out/d"), fs::read(place.path("small/out/fill")).unwrap());
    let rest = place.path("small/out/.platter-recover").exists();
    // Another device is refused.
    fs::write(place.path("small/out/.platter-recover"), "platter recover 1\nlength 5\n").unwrap();
    let refused = place.fails("recover v.img small/out");
    place.tool("umount", &["small"]);
    assert!(is_whole == FILES && fill == fs::read(place.path("fill")).unwrap() && !rest, "{said}");
    assert!(said.contains("; 120 of them were there already"), "{said}");
    assert!(refused.contains("from a device of 5 bytes"), "{refused}");
}

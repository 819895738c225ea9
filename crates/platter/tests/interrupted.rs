//! What an interrupt leaves. The program sends itself SIGINT when a step has come as far as `PLATTER_INTERRUPT_AT` says
//! (`STEP=DONE`, in builds with debug assertions), so that each command is interrupted at a known place.

use crate::common::{Place, content};
use std::fs;

/// Runs `platter`, interrupted at this place; returns its standard output and standard error.
fn interrupted(place: &Place, at: &str, line: &str) -> (String, String) {
    let arguments: Vec<&str> = line.split(' ').collect();
    let mut command = place.command(env!("CARGO_BIN_EXE_platter"), &arguments);
    let output = command.env("PLATTER_INTERRUPT_AT", at).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(130), "{at}: {line}: {stdout} {stderr}");
    assert!(stderr.contains("interrupted"), "{at}: {line}: {stderr}");
    (stdout, stderr)
}

const SMALL: u64 = 20;
const LARGE: usize = 8 << 20;

/// Makes a volume with small files and a large one.
fn volume(test: &str, format: &str, size: &str) -> Place {
    let place = Place::new(&format!("interrupted-{test}-{format}"));
    fs::create_dir(place.path("d")).unwrap();
    for number in 0..SMALL {
        fs::write(place.path(&format!("d/{number}")), content(number, 5000)).unwrap();
    }
    fs::write(place.path("large"), content(99, LARGE)).unwrap();
    place.works(&format!("mkfs {format} v.img --size {size}"));
    place.works("cp -r d v.img:/");
    place.works("cp large v.img:/");
    place
}

fn is_whole(place: &Place, at: &str) -> bool {
    let is_same = |number: &u64| {
        fs::read(place.path(&format!("{at}/d/{number}"))).is_ok_and(|bytes| bytes == content(*number, 5000))
    };
    (0..SMALL).all(|number| is_same(&number))
        && fs::read(place.path(&format!("{at}/large"))).is_ok_and(|bytes| bytes == content(99, LARGE))
}

/// Within a large file, of which the part goes on; what is whole is not copied again.
#[test]
fn a_recovery_goes_on_where_it_was_interrupted() {
    for (format, size) in [("fat32", "64M"), ("exfat", "64M"), ("ntfs", "64M"), ("refs", "400M")] {
        let place = volume("recover", format, size);
        let (_, said) = interrupted(&place, "copying a file=3145728", "recover v.img out");
        assert!(
            said.contains("out/large.partial") && said.contains("goes on from there"),
            "{format}: {said}"
        );
        assert!(!place.path("out/large").exists(), "{format}");
        let mut part = fs::read(place.path("out/large.partial")).unwrap();
        assert!(part == content(99, 3 << 20), "{format}");
        // What was copied is not read again: a change of it stays.
        part[5] ^= 1;
        fs::write(place.path("out/large.partial"), &part).unwrap();
        let small = place.path("out/d/7");
        if small.exists() {
            let time = fs::metadata(&small).unwrap().modified().unwrap();
            fs::write(&small, vec![b'x'; 5000]).unwrap();
            fs::File::options().write(true).open(&small).unwrap().set_modified(time).unwrap();
        }
        let had_small = small.exists();
        let said = place.works("recover v.img out");
        assert!(said.contains(" files with 8.") && !said.contains("not copied"), "{format}: {said}");
        assert_eq!(had_small, said.contains("of them were there already"), "{format}: {said}");
        let large = fs::read(place.path("out/large")).unwrap();
        assert!(large[5] == part[5] && large[6..] == content(99, LARGE)[6..], "{format}");
        if had_small {
            assert!(fs::read(&small).unwrap() == [b'x'; 5000], "{format}");
        }
        let rest = ["out/large.partial", "out/.platter-recover", "out/.platter-recover.now"];
        assert!(rest.iter().all(|name| !place.path(name).exists()), "{format}");
        assert!(place.fails("recover v.img out").contains("is not empty"));
        place.works("recover v.img fresh");
        assert!(is_whole(&place, "fresh"), "{format}");
    }
}

/// The search, before anything is copied, and the list.
#[test]
fn a_search_ends() {
    for (format, size, step) in [
        ("fat32", "64M", "looking for directories=4096"),
        ("ntfs", "64M", "records=3"),
        ("refs", "400M", "looking for metadata=1"),
    ] {
        let place = volume("search", format, size);
        let (listed, said) = interrupted(&place, step, "recover --list v.img");
        assert!(said.contains("the list is not complete") && !listed.contains("would be copied"), "{said}");
        let (listed, _) = interrupted(&place, step, "recover --list --json v.img");
        let document: serde_json::Value = serde_json::from_str(&listed).unwrap();
        assert_eq!(document["complete"], false);
        interrupted(&place, step, "recover v.img out");
        place.works("recover v.img out");
        assert!(is_whole(&place, "out"), "{format}");
    }
}

#[test]
fn a_scrub_says_where_to_go_on() {
    let place = volume("scrub", "refs+integrity", "400M");
    // A byte of the large file, which only a scrub that goes on to the end finds.
    let mut image = fs::read(place.path("v.img")).unwrap();
    let wanted = &content(99, LARGE)[LARGE - 4096..];
    let at = image.chunks(4096).position(|chunk| chunk == wanted).unwrap() * 4096;
    image[at] ^= 1;
    fs::write(place.path("v.img"), image).unwrap();
    for step in ["metadata=1", "file data=1"] {
        let (_, said) = interrupted(&place, step, "scrub v.img");
        let from = said.trim_end().rsplit("--from ").next().unwrap().to_string();
        assert_eq!(from.starts_with("data."), step != "metadata=1", "{said}");
        let (found, _) = place.ends(4, &format!("scrub v.img --from {from}"));
        assert!(found.contains("/large") && !found.contains("--from"), "{found}");
        let (told, _) = interrupted(&place, step, "scrub --json v.img");
        let document: serde_json::Value = serde_json::from_str(&told).unwrap();
        assert_eq!((document["exit_code"].as_u64(), document["next"].is_string()), (Some(130), true));
    }
    // A limit on the rate is no reason to wait.
    interrupted(&place, "file data=1", "scrub v.img --rate 1M");
    interrupted(&place, "file data=1", "check --data v.img");
}

#[test]
fn a_check_ends_and_writes_nothing() {
    for (format, size, step) in [
        ("fat32", "64M", "checking directories=1"),
        ("exfat", "64M", "checking directories=1"),
        ("ntfs", "64M", "reading records=1"),
        ("ntfs", "64M", "checking files=8"),
        ("ntfs", "64M", "checking directories=0"),
        ("refs", "400M", "checking directories=1"),
    ] {
        let place = volume("check", format, size);
        for number in 0..150 {
            fs::create_dir_all(place.path(&format!("many/{number}"))).unwrap();
        }
        place.works("cp -r many v.img:/");
        let before = fs::read(place.path("v.img")).unwrap();
        let (_, said) = interrupted(&place, step, "check v.img");
        assert!(said.contains("% done; nothing was written"), "{format}: {said}");
        let (_, said) = interrupted(&place, step, "check --repair v.img");
        assert!(said.contains("repair it again"), "{format}: {said}");
        assert!(fs::read(place.path("v.img")).unwrap() == before, "{format}");
        place.works("check v.img");
    }
    let place = volume("surface", "ntfs", "64M");
    interrupted(&place, "reading clusters=1", "check --surface v.img");
}

#[test]
fn mkfs_leaves_no_half_volume() {
    for (format, size, step) in [
        ("fat32", "64M", "overwriting clusters=1048576"),
        ("exfat", "64M", "overwriting clusters=1048576"),
        ("ntfs", "64M", "overwriting clusters=1048576"),
        ("refs", "400M", "overwriting clusters=4194304"),
    ] {
        let place = Place::new(&format!("interrupted-mkfs-{format}"));
        let (_, said) = interrupted(&place, step, &format!("mkfs {format} new.img --size {size} --full"));
        assert!(said.contains("it is removed again") && !place.path("new.img").exists(), "{format}: {said}");
        place.works(&format!("mkfs {format} old.img --size {size}"));
        let (_, said) = interrupted(&place, step, &format!("mkfs {format} old.img --full --force"));
        assert!(said.contains("it holds no volume now"), "{format}: {said}");
        let said = place.fails("ls old.img:/");
        assert!(said.contains("no file system") || said.contains("damaged"), "{format}: {said}");
        place.works(&format!("mkfs {format} old.img --force"));
    }
}

#[test]
fn a_copy_ends_within_a_file_and_leaves_no_part_of_it() {
    for (format, size) in [("fat32", "64M"), ("exfat", "64M"), ("ntfs", "64M"), ("refs", "400M")] {
        let place = Place::new(&format!("interrupted-copy-{format}"));
        fs::write(place.path("large"), content(99, LARGE)).unwrap();
        fs::write(place.path("old"), "old").unwrap();
        place.works(&format!("mkfs {format} v.img --size {size}"));
        place.works("cp old v.img:/large");
        // Over a file, and into the volume, and out of it.
        interrupted(&place, "copying=2097152", "cp large v.img:/");
        assert_eq!(place.works("cat v.img:/large"), "old");
        interrupted(&place, "copying=2097152", "cp large v.img:/new");
        assert_eq!(place.works("ls v.img:/"), "large\n");
        place.works("cp large v.img:/new");
        interrupted(&place, "copying=2097152", "cp v.img:/new .");
        assert!(!place.path("new").exists(), "{format}");
        place.works("check v.img");
    }
}

#[test]
fn a_mirror_is_rebuilt_again() {
    let place = Place::new("interrupted-mirror");
    place.works("mkfs ntfs mirror:a.img,b.img --size 64M");
    fs::write(place.path("f"), "content").unwrap();
    place.works("cp f mirror:a.img,b.img:/");
    fs::remove_file(place.path("b.img")).unwrap();
    let (_, said) = interrupted(&place, "rebuilding=1", "mirror rebuild mirror:a.img,b.img");
    assert!(said.contains("`platter mirror rebuild` is run again"), "{said}");
    place.ends(1, "mirror status mirror:a.img,b.img");
    place.works("mirror rebuild mirror:a.img,b.img");
    place.works("mirror status mirror:a.img,b.img");
    assert_eq!(place.works("cat mirror:a.img,b.img:/f"), "content");
}

//! Integrity, scrub and recovery on ReFS images, from the command line.

use crate::common::{Place, content};
use std::fs;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Flips a bit in the first byte of each cluster of the image that begins with `what`.
fn damage(place: &Place, image: &str, what: &[u8]) {
    let bytes = fs::read(place.path(image)).unwrap();
    let file = File::options().write(true).open(place.path(image)).unwrap();
    // Clusters begin at multiples of 4 KiB; searching at other positions would take long.
    let found: Vec<usize> =
        (0..bytes.len()).step_by(4096).filter(|&at| bytes[at..].starts_with(what)).collect();
    assert!(!found.is_empty(), "{image} has what is to be damaged");
    found.iter().for_each(|&at| file.write_all_at(&[bytes[at] ^ 1], at as u64).unwrap());
}

#[test]
fn mkfs_takes_what_the_format_has() {
    let place = Place::new("mkfs-refs");
    let (said, warned) = place.ends(
        0,
        "mkfs refs a.img --size 512M --format-version 3.14 --checksum sha256 --integrity on --cluster 64k --label LABEL",
    );
    assert!(warned.contains("on volumes with SHA-256 is not proven"), "{warned}");
    assert!(said.contains("ReFS 3.14") && said.contains("64 KiB"), "{said}");
    let info = place.json("info --json a.img");
    let volume = &info["holds"]["volume"];
    assert_eq!((&volume["label"], &volume["cluster"]), (&"LABEL".into(), &65536.into()));
    assert_eq!(volume["details"]["metadata checksum"], "SHA-256");
    assert!(place.works("integrity get a.img:/").starts_with("on "));
    place.works("mkfs refs+integrity b.img --size 512M");
    assert!(place.works("integrity get b.img:/").starts_with("on "));
    place.works("mkfs refs b.img --full --force");
    assert!(place.works("integrity get b.img:/").starts_with("off "));
    assert!(
        place
            .fails("mkfs refs c.img --size 512M --format-version 3.1")
            .contains("version 3.1 is not written")
    );
    assert!(place.fails("mkfs refs c.img --size 512M --checksum md5").contains("crc64, sha256 and none"));
    assert!(place.works("mkfs refs d.img --size 512M --format-version 3.4").contains("ReFS 3.4"));
    assert!(
        place
            .fails("mkfs refs e.img --size 512M --format-version 3.4 --checksum crc64")
            .contains("it has none")
    );
    place.works("mkfs refs e.img --size 512M --checksum none");
    assert!(place.fails("mkfs refs c.img --size 512M --cluster 8k").contains("4 KiB and 64 KiB"));
    for (option, what) in
        [("--integrity off", "integrity streams"), ("--checksum crc64", "metadata checksums")]
    {
        let said = place.fails(&format!("mkfs fat32 f.img --size 64M {option}"));
        assert!(said.contains(&format!("FAT has no {what}")), "{said}");
    }
    assert!(
        place.fails("mkfs fat f.img --size 64M --format-version 3.14").contains("fat12, fat16 and fat32")
    );
    assert!(place.works("mkfs fat f.img --size 64M --format-version 32 --force").contains("FAT32"));
    let (_, said) = place.ends(2, "mkfs refs c.img --integrity perhaps");
    assert!(said.contains("on or off"), "{said}");
}

#[test]
fn names_on_a_volume_cannot_move_the_cursor() {
    let place = Place::new("control-characters");
    // A name may contain the control characters above ASCII; this one begins a command to the terminal.
    fs::write(place.path("red\u{9b}31m"), "bytes").unwrap();
    place.works("mkfs refs a.img --size 512M");
    place.works("cp red\u{9b}31m a.img:/");
    assert_eq!(place.works("integrity get -r a.img:/"), "off  a.img:/\noff  a.img:/red?31m\n");
    let rows = place.json("integrity get -r --json a.img:/");
    assert_eq!(rows[1]["path"], "a.img:/red\u{9b}31m");
}

#[test]
fn integrity_is_set_on_files_and_directories() {
    let place = Place::new("integrity");
    fs::create_dir_all(place.path("tree/below")).unwrap();
    let bytes = content(1, 3_000_000);
    fs::write(place.path("tree/large"), &bytes).unwrap();
    fs::write(place.path("tree/below/small"), "small").unwrap();
    place.works("mkfs refs a.img --size 512M");
    place.works("cp -r tree a.img:/");
    assert_eq!(
        place.works("integrity get a.img:/tree a.img:/tree/large"),
        "off  a.img:/tree\noff  a.img:/tree/large\n"
    );
    place.works("integrity set a.img:/tree/large on");
    assert_eq!(place.works("integrity get -r a.img:/tree/large"), "on   a.img:/tree/large\n");
    assert!(place.works("integrity get a.img:/tree").starts_with("off"));
    place.works("integrity set -r a.img:/tree on");
    let rows = place.json("integrity get -r --json a.img:/tree");
    let rows = rows.as_array().unwrap();
    assert_eq!(rows.len(), 4);
    assert!(rows.iter().all(|row| row["enabled"] == true && row["enforced"] == true), "{rows:?}");
    assert!(rows.iter().any(|row| row["path"] == "a.img:/tree/below" && row["kind"] == "directory"));
    // A new file takes the setting of its directory.
    place.works("cp tree/large a.img:/tree/below/new");
    assert!(place.works("integrity get a.img:/tree/below/new").starts_with("on "));
    place.works("integrity set -r a.img:/tree off");
    assert!(!place.works("integrity get -r a.img:/tree").contains("on "));
    place.works("cp a.img:/tree/large back");
    assert_eq!(fs::read(place.path("back")).unwrap(), bytes);
    place.works("mkfs fat f.img --size 64M");
    assert!(place.fails("integrity get f.img:/").contains("has no integrity streams"));
    assert!(place.fails("integrity set a.img:/absent on").contains("no such file"));
    place.ends(2, "integrity set a.img:/tree");
}

#[test]
fn scrub_finds_salvages_and_mends() {
    let place = Place::new("scrub");
    fs::create_dir(place.path("tree")).unwrap();
    let bytes = content(2, 2_000_000);
    fs::write(place.path("tree/lost"), &bytes).unwrap();
    fs::write(place.path("tree/kept"), content(3, 100_000)).unwrap();
    place.works("mkfs refs+integrity a.img --size 512M");
    place.works("cp -r tree a.img:/");
    fs::copy(place.path("a.img"), place.path("b.img")).unwrap();
    let said = place.works("scrub a.img");
    assert!(said.contains("no damage") && said.contains("of file data verified"), "{said}");

    let part = place.json("scrub --json --limit 1M a.img");
    let next = part["next"].as_str().unwrap();
    let rest = place.json(&format!("scrub --json --rate 100M --from {next} a.img"));
    let bytes_of = |document: &serde_json::Value| document["data_bytes"].as_u64().unwrap();
    assert!(rest["next"].is_null());
    assert_eq!(bytes_of(&part) + bytes_of(&rest), 2_002_944 + 102_400);
    let (_, said) = place.ends(8, "scrub --from nowhere a.img");
    assert!(said.contains("position"), "{said}");
    place.ends(16, "scrub");

    damage(&place, "a.img", &bytes[8192..8300]);
    let said = place.works("check a.img");
    assert!(said.contains("no damage") && said.contains("were not read (--data"), "{said}");
    let (said, _) = place.ends(4, "check --data a.img");
    assert!(said.contains("/tree/lost: ") && said.contains("[data-checksum]"), "{said}");
    assert!(!said.contains("not read"), "{said}");
    let (said, _) = place.ends(4, "scrub a.img");
    assert!(said.contains("/tree/lost: bytes 8192 to 12288") && said.contains("[data-checksum]"), "{said}");
    let (said, _) = place.ends(1, "scrub --json mirror:a.img,b.img");
    let document: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(
        (&document["found"], &document["repaired"], &document["copies"]),
        (&1.into(), &1.into(), &2.into())
    );
    let range = &document["damaged"][0];
    assert_eq!(
        (&range["path"], &range["start"], &range["end"]),
        (&"/tree/lost".into(), &8192.into(), &12288.into())
    );
    assert_eq!((&range["copies"], &range["repaired"]), (&serde_json::json!([0]), &true.into()));
    assert!(fs::read(place.path("a.img")).unwrap() == fs::read(place.path("b.img")).unwrap());
    place.works("scrub mirror:a.img,b.img");

    damage(&place, "a.img", &bytes[8192..8300]);
    let (said, _) = place.ends(1, "scrub --salvage a.img");
    assert!(said.contains("removed /tree/lost") && said.contains("1 removed"), "{said}");
    place.works("scrub a.img");
    place.works("check a.img");
    assert_eq!(place.works("ls a.img:/tree"), "kept\n");
    place.works("cp a.img:/tree/kept back");
    assert_eq!(fs::read(place.path("back")).unwrap(), content(3, 100_000));

    place.works("mkfs fat f.img --size 64M");
    let (_, said) = place.ends(8, "scrub f.img");
    assert!(said.contains("fat has no checksums to scrub"), "{said}");
}

#[test]
fn recover_copies_out_what_is_left() {
    let place = Place::new("recover");
    fs::create_dir_all(place.path("tree/below/empty")).unwrap();
    let contents =
        [("large", 3_000_000), ("below/small", 100), ("below/gone", 50_000), ("below/gone too", 60_000)];
    for (number, (name, length)) in contents.into_iter().enumerate() {
        fs::write(place.path("tree").join(name), content(number as u64, length)).unwrap();
    }
    place.works("mkfs refs+integrity a.img --size 512M");
    place.works("cp -r tree a.img:/");
    place.works("rm a.img:/tree/below/gone");
    // Boot records, superblocks and checkpoints are overwritten.
    let bytes = fs::read(place.path("a.img")).unwrap();
    let file = File::options().write(true).open(place.path("a.img")).unwrap();
    for at in (0..bytes.len()).step_by(4096) {
        if at == 0 || at == bytes.len() - 4096 || [&b"SUPB"[..], b"CHKP"].contains(&&bytes[at..at + 4]) {
            file.write_all_at(&[0xFF; 4096], at as u64).unwrap();
        }
    }
    place.fails("ls a.img:/");
    let said = place.works("recover a.img out");
    assert!(said.contains("4 files") && said.contains("1 of the files were deleted"), "{said}");
    let same = |path: &str, number: u64, length| {
        assert!(fs::read(place.path("out").join(path)).unwrap() == content(number, length), "{path}");
    };
    same("tree/large", 0, 3_000_000);
    same("tree/below/small", 1, 100);
    same("deleted/tree/below/gone", 2, 50_000);
    same("tree/below/gone too", 3, 60_000);
    assert!(place.path("out/tree/below/empty").is_dir());
    let times = ["tree/large", "out/tree/large"]
        .map(|path| fs::metadata(place.path(path)).unwrap().modified().unwrap());
    assert!(times[0].duration_since(times[1]).unwrap_or_default().as_nanos() < 100);
    assert!(place.fails("recover a.img out").contains("is not empty"));
    // A damaged cluster becomes zeroes in the copy, and is reported.
    damage(&place, "a.img", &content(0, 3_000_000)[40_960..41_000]);
    let (said, _) = place.ends(1, "recover a.img again");
    assert!(said.contains("again/tree/large: 4,096 bytes are zeroes"), "{said}");
    let mut expected = content(0, 3_000_000);
    expected[40_960..45_056].fill(0);
    assert!(fs::read(place.path("again/tree/large")).unwrap() == expected);
    // A name is changed in a page, so that the page fails its checksum: the file is copied to `damaged`, or left out.
    let name: Vec<u8> = "gone too".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let now = fs::read(place.path("a.img")).unwrap();
    for at in (0..now.len()).step_by(2).filter(|&at| now[at..].starts_with(&name)) {
        file.write_all_at(b"G", at as u64).unwrap();
    }
    let (said, _) = place.ends(1, "recover a.img marked");
    assert!(said.contains("/tree/below/Gone too: its metadata is damaged"), "{said}");
    assert!(fs::read(place.path("marked/damaged/tree/below/Gone too")).unwrap() == content(3, 60_000));
    let (said, _) = place.ends(1, "recover --damaged skip a.img skipped");
    assert!(said.contains("/tree/below/Gone too: its metadata is damaged; it is left out"), "{said}");
    assert!(!place.path("skipped/damaged").exists());
    fs::write(place.path("zeroes"), vec![0; 1 << 20]).unwrap();
    assert!(place.fails("recover zeroes none").contains("no file system is recognised"));
    assert!(place.fails("recover --as fat32 a.img third").contains("not a usable FAT volume"));
}

#[test]
fn what_a_file_has_besides_its_content() {
    let place = Place::new("attr");
    let bytes = content(3, 300_000);
    fs::write(place.path("f"), &bytes).unwrap();
    fs::write(place.path("small"), "small").unwrap();
    place.works("mkfs refs a.img --size 512M");
    place.works("cp f a.img:/");
    place.works("attr set a.img:/f stream:notes small");
    place.works("attr set a.img:/f stream:large f");
    place.works("attr set a.img:/f ea:user.x small");
    place.works("attr set a.img:/f snapshot:first");
    place.works("cp small a.img:/f");
    let rows = place.json("attr list --json a.img:/f");
    let found: Vec<(String, u64)> = rows
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (row["what"].as_str().unwrap().to_string(), row["size"].as_u64().unwrap()))
        .collect();
    let wanted =
        [("stream:large", 300_000), ("stream:notes", 5), ("snapshot:first", 300_000), ("ea:user.x", 5)];
    assert_eq!(found[..4], wanted.map(|(what, size)| (what.to_string(), size)));
    assert_eq!(found[4].0, "security");
    let get = |what: &str| place.platter(&format!("attr get a.img:/f {what}")).stdout;
    assert_eq!(get("stream:notes"), b"small");
    assert_eq!(get("stream:large"), bytes);
    assert_eq!(get("snapshot:first"), bytes);
    assert_eq!(get("ea:user.x"), b"small");
    assert_eq!(place.works("cat a.img:/f"), "small");
    assert_eq!(place.fails("attr get a.img:/f stream:first"), "platter: a.img:/f: has no stream:first\n");
    assert!(place.fails("attr remove a.img:/f stream:none").contains("a.img:/f: has no stream:none"));
    // A source that is not there costs nothing and leaves nothing.
    for stream in ["notes", "new"] {
        let error = place.fails(&format!("attr set a.img:/f stream:{stream} absent"));
        assert!(error.starts_with("platter: absent:"), "{error}");
    }
    assert_eq!(get("stream:notes"), b"small");
    assert!(place.fails("attr get a.img:/f stream:new").contains("has no stream:new"));
    assert!(place.fails("attr set a.img:/f snapshot:second small").contains("present content"));
    assert!(place.fails("attr remove a.img:/f security").contains("every file"));
    // Reparse points, and a security descriptor copied from one file to another.
    fs::write(place.path("fifo"), [0x24, 0, 0, 0x80, 0, 0, 0, 0]).unwrap();
    fs::write(place.path("wrong"), [0x24, 0, 0, 0x80, 9, 0, 0, 0]).unwrap();
    fs::write(place.path("empty"), "").unwrap();
    place.works("cp empty a.img:/pipe");
    place.works("attr set a.img:/pipe reparse fifo");
    assert!(place.fails("attr set a.img:/pipe reparse wrong").contains("as many bytes"));
    assert!(place.works("attr list a.img:/pipe").contains("reparse 0x80000024"));
    fs::write(place.path("descriptor"), place.platter("attr get a.img:/ security").stdout).unwrap();
    place.works("attr set a.img:/f security descriptor");
    assert_eq!(get("security"), fs::read(place.path("descriptor")).unwrap());
    for what in ["stream:large", "snapshot:first", "ea:user.x"] {
        place.works(&format!("attr remove a.img:/f {what}"));
    }
    place.works("attr remove a.img:/pipe reparse");
    assert_eq!(place.json("attr list --json a.img:/f").as_array().unwrap().len(), 2);
    assert!(place.works("check a.img").contains("no damage"));
}

#[test]
fn copies_share_clusters() {
    let place = Place::new("clone");
    fs::create_dir_all(place.path("tree")).unwrap();
    let bytes = content(5, 60_000_000);
    fs::write(place.path("tree/large"), &bytes).unwrap();
    fs::write(place.path("tree/small"), "small").unwrap();
    place.works("mkfs refs a.img --size 512M");
    place.works("cp -r tree a.img:/");
    let free = || {
        let info = place.json("info --json a.img");
        4096 * info["holds"]["volume"]["free_clusters"].as_u64().unwrap_or_else(|| panic!("{info}"))
    };
    let before = free();
    for copy in 0..5 {
        place.works(&format!("cp -r --clone a.img:/tree a.img:/copy{copy}"));
    }
    assert!(before - free() < bytes.len() as u64 / 8, "{before} {}", free());
    place.works("cp tree/small a.img:/tree/large");
    place.works("cp a.img:/copy4/large back");
    assert_eq!(fs::read(place.path("back")).unwrap(), bytes);
    assert_eq!(place.works("cat a.img:/copy0/small"), "small");
    // A clone has checksums if its source has: it could not share the clusters otherwise.
    place.works("integrity set a.img:/copy4/large on");
    place.works("cp --clone a.img:/copy4/large a.img:/sealed");
    assert_eq!(place.works("integrity get a.img:/sealed"), "on   a.img:/sealed\n");
    place.works("cp --clone a.img:/copy3/large a.img:/sealed");
    assert_eq!(place.works("integrity get a.img:/sealed"), "off  a.img:/sealed\n");
    assert!(place.works("check a.img").contains("no damage"));
}

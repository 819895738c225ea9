//! Mirrors in use: copies that are older, missing, blank, short, or written to by themselves.

use crate::common::{Place, content};
use platter_device::{FileRecord, MirrorSet};
use std::fs;
use std::os::unix::fs::FileExt;

const FORMATS: [&str; 4] = ["refs+integrity", "ntfs", "exfat", "fat32"];

fn mirror(test: &str, format: &str) -> Place {
    let place = Place::new(&format!("mirror-{test}-{format}"));
    let size = if format.starts_with("refs") { "320M" } else { "64M" };
    fs::write(place.path("one"), content(1, 20_000)).unwrap();
    fs::write(place.path("two"), content(2, 20_000)).unwrap();
    place.works(&format!("mkfs {format} mirror:a.img,b.img --size {size}"));
    place.works("cp one mirror:a.img,b.img:/");
    place.works("mirror status mirror:a.img,b.img");
    place
}

fn holds(place: &Place, image: &str) {
    for (number, name) in [(1, "one"), (2, "two")] {
        assert!(place.platter(&format!("cat {image}:/{name}")).stdout == content(number, 20_000), "{name}");
    }
}

#[test]
fn a_copy_written_by_itself_is_refused_and_either_can_be_kept() {
    for format in FORMATS {
        let place = mirror("alone", format);
        let (_, said) = place.ends(0, "cp two b.img:/");
        assert!(said.contains("b.img is a copy of a mirror"), "{said}");
        let (a, b) = (fs::read(place.path("a.img")).unwrap(), fs::read(place.path("b.img")).unwrap());
        for command in
            ["cp two mirror:a.img,b.img:/three", "ls mirror:a.img,b.img", "mirror rebuild mirror:a.img,b.img"]
        {
            let refused = place.fails(command);
            assert!(refused.contains("--from a.img") && refused.contains("--from b.img"), "{refused}");
        }
        assert!(fs::read(place.path("a.img")).unwrap() == a && fs::read(place.path("b.img")).unwrap() == b);
        place.works("mirror rebuild mirror:a.img,b.img --from b.img");
        holds(&place, "mirror:a.img,b.img");
        holds(&place, "a.img");
        place.works("mirror status mirror:a.img,b.img");
    }
}

#[test]
fn a_copy_that_was_away_is_left_out_until_it_is_rebuilt() {
    for format in FORMATS {
        let place = mirror("away", format);
        fs::rename(place.path("b.img"), place.path("away")).unwrap();
        let (_, said) = place.ends(0, "cp two mirror:a.img,b.img:/");
        assert!(said.contains("b.img: this copy of the mirror is left out: it is missing"), "{said}");
        fs::rename(place.path("away"), place.path("b.img")).unwrap();
        let old = fs::read(place.path("b.img")).unwrap();
        holds(&place, "mirror:b.img,a.img");
        let (said, _) = place.ends(1, "mirror status mirror:a.img,b.img");
        assert!(said.contains("b.img: left out: it is older"), "{said}");
        let (said, _) = place.ends(0, "check mirror:a.img,b.img");
        assert!(said.contains("copy b.img of the mirror is left out"), "{said}");
        assert!(fs::read(place.path("b.img")).unwrap() == old, "reading has overwritten a copy");
        place.works("mirror rebuild mirror:a.img,b.img");
        holds(&place, "b.img");
        place.works("mirror status mirror:a.img,b.img");
    }
}

/// The volume is readable from the other copy alone, so only the mirror has a finding.
#[test]
fn a_check_tells_of_a_damaged_copy() {
    let place = mirror("damaged-copy", "refs+integrity");
    let mut copy = fs::read(place.path("b.img")).unwrap();
    let checkpoints: Vec<usize> =
        (0..copy.len()).step_by(4096).filter(|&at| copy[at..].starts_with(b"CHKP")).collect();
    assert_eq!(checkpoints.len(), 2);
    checkpoints.into_iter().for_each(|at| copy[at + 200] ^= 1);
    fs::write(place.path("b.img"), copy).unwrap();
    let (said, _) = place.ends(4, "check mirror:a.img,b.img");
    assert!(said.contains("copy b.img of the mirror is damaged") && said.contains("platter scrub"), "{said}");
    place.ends(1, "scrub mirror:a.img,b.img");
    assert!(place.works("check mirror:a.img,b.img").contains("no damage"));
}

#[test]
fn missing_short_and_blank_copies_do_not_stand_in_the_way() {
    for format in FORMATS {
        let place = mirror("broken", format);
        place.works("cp two mirror:a.img,b.img:/");
        let whole = fs::read(place.path("b.img")).unwrap();
        let blank = vec![0; whole.len()];
        for broken in [None, Some(&whole[..1 << 20]), Some(&blank[..]), Some(&[][..])] {
            match broken {
                None => fs::remove_file(place.path("b.img")).unwrap(),
                Some(bytes) => fs::write(place.path("b.img"), bytes).unwrap(),
            }
            holds(&place, "mirror:b.img,a.img");
            let (said, _) = place.ends(1, "mirror status mirror:a.img,b.img");
            assert!(said.contains("b.img: left out"), "{said}");
            place.works("mirror rebuild mirror:a.img,b.img");
            assert!(fs::read(place.path("a.img")).unwrap() == fs::read(place.path("b.img")).unwrap());
        }
        place.works("mirror add mirror:a.img,b.img c.img");
        holds(&place, "c.img");
    }
}

#[test]
fn a_scrub_overwrites_nothing_that_could_be_right() {
    let place = Place::new("mirror-scrub");
    let bytes = content(5, 12 << 20);
    fs::write(place.path("file"), &bytes).unwrap();
    place.works("mkfs refs mirror:a.img,b.img,c.img --size 320M");
    place.works("cp file mirror:a.img,b.img,c.img:/");
    let whole = fs::read(place.path("a.img")).unwrap();
    let at = whole.windows(64).position(|bytes_there| *bytes_there == bytes[..64]).unwrap();
    let mut damaged = whole.clone();
    damaged[at..at + (8 << 20)].fill(0);
    fs::write(place.path("b.img"), &damaged).unwrap();
    place.ends(1, "scrub mirror:a.img,b.img,c.img");
    for image in ["a.img", "b.img", "c.img"] {
        assert!(fs::read(place.path(image)).unwrap() == whole, "{image}");
    }
    // Of two copies that differ without a checksum, either may be the right one.
    place.works("mkfs refs mirror:d.img,e.img --size 320M");
    place.works("cp file mirror:d.img,e.img:/");
    let whole = fs::read(place.path("d.img")).unwrap();
    let at = whole.windows(64).position(|bytes_there| *bytes_there == bytes[..64]).unwrap();
    let mut damaged = whole.clone();
    damaged[at..at + (8 << 20)].fill(0);
    fs::write(place.path("d.img"), &damaged).unwrap();
    let (said, _) = place.ends(4, "scrub mirror:d.img,e.img");
    assert!(said.contains("/file: bytes 0 to 8388608") && said.contains("nothing was overwritten"), "{said}");
    assert!(
        fs::read(place.path("d.img")).unwrap() == damaged && fs::read(place.path("e.img")).unwrap() == whole
    );
}

/// A disk whose partition table is lost begins with zeroes, and a file of the user may have a name like that of a copy:
/// neither is overwritten, or lengthened, unless somebody says so.
#[test]
fn what_was_never_a_copy_is_not_overwritten() {
    let place = mirror("foreign", "ntfs");
    place.works("cp two mirror:a.img,b.img:/");
    let mut disk = vec![0; 64 << 20];
    disk[40 << 20..][..20_000].copy_from_slice(&content(3, 20_000));
    let longer = [&disk[..], &[0; 4096]].concat();
    for (name, bytes) in
        [("disk", &disk[..]), ("larger", &longer[..]), ("thesis", b"the only copy of a thesis")]
    {
        fs::write(place.path(name), bytes).unwrap();
        for command in ["rebuild mirror:a.img,", "add mirror:a.img,b.img "] {
            let said = place.fails(&format!("mirror {command}{name}"));
            assert!(said.contains(name) && said.contains("--force"), "{said}");
            assert!(fs::read(place.path(name)).unwrap() == bytes, "{command}{name}");
        }
    }
    for name in ["disk", "larger", "thesis"] {
        place.works(&format!("mirror add mirror:a.img,b.img {name} --force"));
        holds(&place, name);
        place.works(&format!("mirror drop mirror:a.img,b.img,{name} {name}"));
    }
    fs::write(place.path("thesis"), "the only copy of a thesis").unwrap();
    place.works("mirror rebuild mirror:a.img,thesis --force");
    holds(&place, "thesis");
}

/// Changes a byte of the file `one` on an image, as a medium does: the image's time stays.
fn rot(place: &Place, image: &str) {
    let mut bytes = fs::read(place.path(image)).unwrap();
    let begins = content(1, 64);
    let at = bytes.windows(64).position(|there| *there == begins).unwrap();
    bytes[at + 1] ^= 1;
    let time = fs::metadata(place.path(image)).unwrap().modified().unwrap();
    fs::write(place.path(image), bytes).unwrap();
    fs::File::options().write(true).open(place.path(image)).unwrap().set_modified(time).unwrap();
}

#[test]
fn a_rebuild_repairs_what_it_copies() {
    let place = mirror("source", "refs+integrity");
    fs::rename(place.path("b.img"), place.path("away")).unwrap();
    place.ends(0, "cp two mirror:a.img,b.img:/");
    fs::rename(place.path("away"), place.path("b.img")).unwrap();
    rot(&place, "a.img");
    // The outdated copy has what the current one has lost.
    let old = fs::read(place.path("b.img")).unwrap();
    place.works("mirror rebuild mirror:a.img,b.img");
    ["a.img", "b.img"].into_iter().for_each(|image| holds(&place, image));
    place.works("mirror status mirror:a.img,b.img");
    // Neither has it.
    fs::write(place.path("b.img"), &old[..1 << 20]).unwrap();
    rot(&place, "a.img");
    for command in ["rebuild mirror:a.img,b.img", "add mirror:a.img,b.img c.img"] {
        let said = place.fails(&format!("mirror {command}"));
        assert!(said.contains("a.img") && said.contains("/one") && said.contains("--force"), "{said}");
    }
    assert!(fs::read(place.path("b.img")).unwrap() == old[..1 << 20] && !place.path("c.img").exists());
    place.works("mirror rebuild mirror:a.img,b.img --force");
}

#[test]
fn the_last_current_copy_is_not_dropped_and_each_is_on_its_own() {
    let place = mirror("drop", "ntfs");
    fs::rename(place.path("b.img"), place.path("away")).unwrap();
    place.ends(0, "cp two mirror:a.img,b.img:/");
    fs::rename(place.path("away"), place.path("b.img")).unwrap();
    for command in ["mirror:a.img,b.img a.img", "mirror:a.img a.img"] {
        let said = place.fails(&format!("mirror drop {command}"));
        assert!(said.contains("a.img") && said.contains("--force"), "{said}");
        assert!(place.path("a.img.mirror").exists());
    }
    place.works("mirror drop mirror:a.img,b.img b.img");
    place.works("mirror drop mirror:a.img a.img --force");
    fs::hard_link(place.path("a.img"), place.path("same.img")).unwrap();
    for command in ["mirror status mirror:a.img,same.img", "ls mirror:a.img,same.img"] {
        let said = place.fails(command);
        assert!(said.contains("a.img and same.img are the same file"), "{said}");
    }
    assert!(place.fails("mkfs ntfs mirror:new.img --size 32M").contains("at least two copies"));
    assert!(place.fails("mirror add mirror:a.img,2,3,4,5,6,7,8 9").contains("at most 8 copies, not 9"));
    assert!(!place.path("new.img").exists() && !place.path("9").exists());
}

#[test]
fn new_copies_are_as_secret_as_the_others() {
    use std::os::unix::fs::PermissionsExt;
    let place = mirror("mode", "ntfs");
    for image in ["a.img", "b.img"] {
        fs::set_permissions(place.path(image), fs::Permissions::from_mode(0o600)).unwrap();
    }
    fs::remove_file(place.path("b.img")).unwrap();
    place.works("mirror rebuild mirror:a.img,b.img");
    place.works("mirror add mirror:a.img,b.img c.img");
    for image in ["b.img", "c.img"] {
        let mode = fs::metadata(place.path(image)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{image}");
    }
}

/// A disk that returns wrong bytes without an error leaves no trace in the records: only the check of each copy tells.
#[test]
fn a_repair_writes_nothing_while_the_copies_have_different_damage() {
    for format in ["ntfs", "exfat", "fat32"] {
        let place = mirror("unlike", format);
        let (_, before) = (place.works("check mirror:a.img,b.img"), fs::read(place.path("b.img")).unwrap());
        let image = fs::File::options().write(true).read(true).open(place.path("a.img")).unwrap();
        let written = image.metadata().unwrap().modified().unwrap();
        let name: &[u8] = if format == "fat32" { b"ONE        " } else { b"o\0n\0e\0" };
        let mut damaged = before.clone();
        for sector in damaged.chunks_mut(512) {
            if sector.windows(name.len()).any(|bytes| bytes == name) {
                sector.fill(0x5A);
            }
        }
        assert!(damaged != before, "{format}");
        fs::write(place.path("a.img"), &damaged).unwrap();
        image.set_modified(written).unwrap();
        let (_, said) = place.ends(8, "check --repair mirror:a.img,b.img");
        assert!(said.contains("the copies have different damage: a.img has"), "{format}: {said}");
        assert!(
            said.contains("b.img has none") && said.contains("--from b.img` keeps what b.img holds"),
            "{said}"
        );
        assert!(fs::read(place.path("a.img")).unwrap() == damaged, "{format}: a copy is written to");
        assert!(fs::read(place.path("b.img")).unwrap() == before, "{format}: a copy is written to");
        place.works("mirror rebuild mirror:a.img,b.img --from b.img");
        assert!(place.platter("cat a.img:/one").stdout == content(1, 20_000), "{format}");
        assert!(place.works("check --repair mirror:a.img,b.img").contains("no damage"), "{format}");
        // What both copies have is repaired as on one disk.
        for copy in ["a.img", "b.img"] {
            fs::write(place.path(copy), &damaged).unwrap();
        }
        let output = place.platter("check --repair mirror:a.img,b.img");
        assert!(matches!(output.status.code(), Some(1 | 4)), "{format}: {output:?}");
    }
}

/// A copy that is out of service is said once, and is no damage of everything that the others have.
#[test]
fn a_scrub_reads_the_copies_that_are_there() {
    let place = Place::new("mirror-scrub-without");
    fs::write(place.path("one"), content(1, 3_000_000)).unwrap();
    let mirror = "mirror:a.img,b.img,c.img";
    place.works(&format!("mkfs refs+integrity {mirror} --size 320M"));
    place.works(&format!("cp one {mirror}:/"));
    fs::rename(place.path("b.img"), place.path("away")).unwrap();
    let (said, told) = place.ends(0, &format!("scrub {mirror}"));
    assert!(said.contains("no damage; ") && said.contains("in each of 2 copies"), "{said}");
    assert!(told.contains("b.img: this copy of the mirror is left out: it is missing"), "{told}");
    // Damage in one of the two others is found in that one alone, and repaired.
    let image = fs::File::options().read(true).write(true).open(place.path("a.img")).unwrap();
    let bytes = fs::read(place.path("a.img")).unwrap();
    let start = &content(1, 64)[..];
    let at = bytes.windows(64).position(|window| window == start).unwrap();
    let modified = image.metadata().unwrap().modified().unwrap();
    image.write_all_at(&[!bytes[at]], at as u64).unwrap();
    image.set_modified(modified).unwrap();
    let (said, _) = place.ends(1, &format!("scrub {mirror}"));
    assert!(said.contains("in copy 0 [") && said.contains("1 damaged, 1 repaired"), "{said}");
    assert!(place.ends(0, &format!("check --data {mirror}")).0.contains("no damage"));
}

/// The first copy in use has lost its first sectors without a trace in its record, so another one is the source.
#[test]
fn a_rebuild_copies_from_the_soundest_copy() {
    for format in FORMATS {
        let place = Place::new(&format!("mirror-soundest-{format}"));
        let mirror = "mirror:a.img,b.img,c.img";
        let size = if format.starts_with("refs") { "320M" } else { "64M" };
        fs::write(place.path("one"), content(1, 20_000)).unwrap();
        fs::write(place.path("two"), content(2, 20_000)).unwrap();
        place.works(&format!("mkfs {format} {mirror} --size {size}"));
        place.works(&format!("cp one {mirror}:/"));
        fs::rename(place.path("c.img"), place.path("away")).unwrap();
        place.ends(0, &format!("cp two {mirror}:/"));
        fs::rename(place.path("away"), place.path("c.img")).unwrap();
        let image = fs::File::options().write(true).open(place.path("a.img")).unwrap();
        let modified = image.metadata().unwrap().modified().unwrap();
        image.write_all_at(&[0x5A; 16384], 0).unwrap();
        image.set_modified(modified).unwrap();
        place.works(&format!("mirror rebuild {mirror}"));
        holds(&place, "c.img");
        holds(&place, "b.img");
    }
}

/// A copy that is rebuilt only in part looks like a volume, and holds parts of two contents.
#[test]
fn a_copy_that_is_half_rebuilt_says_so_when_it_is_used_alone() {
    for format in FORMATS {
        let place = mirror("half", format);
        let whole = fs::read(place.path("b.img")).unwrap();
        MirrorSet::note_unfinished(&FileRecord::of(&place.path("b.img"))).unwrap();
        fs::create_dir(place.path("m")).unwrap();
        let commands = [
            "cat b.img:/one",
            "ls b.img",
            "cp b.img:/one got",
            "cp two b.img:/",
            "info b.img",
            "mount b.img m",
            "serve b.img --nbd --port 0",
            "serve b.img --http",
        ];
        for command in commands {
            let said = place.fails(command);
            assert!(said.contains("b.img: is a copy of a mirror whose rebuild was not"), "{command}: {said}");
            assert!(said.contains("--force"), "{command}: {said}");
        }
        let (_, said) = place.ends(8, "check b.img");
        assert!(said.contains("whose rebuild was not completed"), "{said}");
        let error = platter::open(place.path("b.img")).err().unwrap();
        assert_eq!(error.kind(), platter::ErrorKind::Unfinished, "{error}");
        assert!(platter::open_rw(place.path("b.img")).is_err());
        for command in
            ["cat --force b.img:/one", "ls --force b.img", "cp --force b.img:/one got", "info --force b.img"]
        {
            // What cat prints is no text.
            let output = place.platter(command);
            let said = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(0), "{command}: {said}");
            assert!(said.contains("holds parts of two contents"), "{command}: {said}");
        }
        let (_, said) = place.ends(0, "check --force b.img");
        assert!(said.contains("holds parts of two contents"), "{said}");
        let options = platter::OpenOptions::new().unfinished(true);
        assert_eq!(options.open(place.path("b.img")).unwrap().read("/one").unwrap(), content(1, 20_000));
        // Whoever rescues takes what is there.
        let (_, said) = place.ends(0, "recover b.img saved");
        assert!(said.contains("holds parts of two contents"), "{said}");
        assert!(fs::read(place.path("saved/one")).unwrap() == content(1, 20_000));
        assert!(fs::read(place.path("b.img")).unwrap() == whole, "{format}: it was written to");
        place.works("mirror rebuild mirror:a.img,b.img");
        assert!(place.platter("cat b.img:/one").stdout == content(1, 20_000));
    }
}

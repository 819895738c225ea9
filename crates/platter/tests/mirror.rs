//! Mirrors in use: copies that are older, missing, blank, short, or written to by themselves.

mod common;

use common::{Place, content};
use std::fs;

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

//! Long names with characters that Windows does not allow, as other systems write them: they are shown and found, and a
//! repair replaces the characters.

use crate::judges::{ImageFile, fsck, run as tool};
use platter_device::{Device, MemoryDevice, Sectors};
use platter_fat::Fat;
use platter_vfs::{CheckOptions, Cursor, Error, Format, FormatOptions, Kind, Node, OpenOptions, Silent};
use std::sync::Arc;

/// The units of a long name as its first part has them, before and after.
fn replace(image: &mut [u8], from: &str, to: &str) {
    let bytes = |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
    let (from, to) = (bytes(from), bytes(to));
    let at = (0..image.len()).step_by(32).find(|at| image[at + 1..].starts_with(&from)).unwrap();
    image[at + 1..][..to.len()].copy_from_slice(&to);
}

#[test]
fn names_that_windows_does_not_allow_are_found_and_repaired() {
    let format = Fat::FAT16;
    let device = Arc::new(MemoryDevice::new(20 << 20, Sectors::SMALL));
    format.make(&*device, &FormatOptions::default(), &Silent).unwrap();
    let open = || format.open(device.clone(), OpenOptions::default()).unwrap();
    let system = open();
    // Of the last two, both become one name.
    for name in ["a=bcd and more.txt", "ab=d and more.txt", "ab_d and more.txt"] {
        let file = system.create(Node::ROOT, &name.into(), Kind::File).unwrap();
        system.write(file, 0, name.as_bytes()).unwrap();
    }
    system.unmount().unwrap();
    drop(system);
    let mut image = device.to_image();
    replace(&mut image, "a=bcd", "a:bcd");
    replace(&mut image, "ab=d ", "ab?d ");
    device.write_at(0, &image).unwrap();

    let names = ["a:bcd and more.txt", "ab?d and more.txt", "ab_d and more.txt"];
    let theirs = tool("mdir", &["-b", "-i", ImageFile::of(&*device).path(), "::/"]);
    let system = open();
    let mut entries = Vec::new();
    system.read_directory(Node::ROOT, Cursor::START, 100, &mut entries).unwrap();
    let last = entries.last().unwrap().next;
    system.read_directory(Node::ROOT, last, 100, &mut entries).expect("the directory has no damage");
    assert_eq!(entries.iter().map(|entry| entry.name.to_string()).collect::<Vec<_>>(), names);
    for name in names {
        // mtools shows the name too, with "_" in place of "?".
        assert!(theirs.contains(&name.replace('?', "_")), "{theirs}");
        let file = system.lookup(Node::ROOT, &name.into()).unwrap();
        let mut content = [0; 18];
        system.read(file, 0, &mut content).unwrap();
        assert_eq!(content[name.len() - 12..name.len()], name.as_bytes()[name.len() - 12..]);
    }
    for absent in ["a:b", "a\u{1}b", "what?"] {
        assert!(matches!(system.lookup(Node::ROOT, &absent.into()), Err(Error::NotFound)), "{absent}");
    }
    assert!(matches!(system.create(Node::ROOT, &"new?".into(), Kind::File), Err(Error::InvalidName { .. })));
    system.unmount().unwrap();
    drop(system);

    let check = |repair| {
        let report = format.check(&*device, CheckOptions { repair }, &Silent);
        report.unwrap().findings.iter().map(|finding| finding.code).collect::<Vec<_>>()
    };
    assert_eq!(check(false), ["bad-name", "bad-name"]);
    assert_eq!(check(true), ["bad-name", "bad-name", "duplicate-name"]);
    assert_eq!(check(false), [""; 0]);
    assert!(fsck(&ImageFile::of(&*device)).clean);
    let system = open();
    entries.clear();
    system.read_directory(Node::ROOT, Cursor::START, 100, &mut entries).unwrap();
    let shown: Vec<String> = entries.iter().map(|entry| entry.name.to_string()).collect();
    assert_eq!(shown[..2], ["a_bcd and more.txt", "ab_d and more.txt"]);
    assert_eq!(shown.len(), 3, "{shown:?}");
}

//! Tests of directory listings that pause while much else is listed, and then continue.

use super::counted::Counted;
use platter_vfs::{Cursor, FileSystem, Format, Kind, Name, Node};
use std::collections::BTreeSet;

fn directory(volume: &dyn FileSystem, name: &str, entries: u64, length: usize) -> Node {
    let directory = volume.create(Node::ROOT, &name.into(), Kind::Directory).expect("a directory");
    for number in 0..entries {
        let made = volume.create(directory, &entry(number, length), Kind::File).expect("a new file");
        volume.forget(made, 1);
    }
    directory
}

fn entry(number: u64, length: usize) -> Name {
    Name::from(format!("{number:0>length$}").as_str())
}

/// Continues a listing by up to `most` entries; returns whether there were any.
fn go_on(volume: &dyn FileSystem, of: Node, cursor: &mut Cursor, most: usize, to: &mut Vec<String>) -> bool {
    let mut entries = Vec::new();
    volume.read_directory(of, *cursor, most, &mut entries).expect("the listing goes on");
    *cursor = entries.last().map_or(*cursor, |entry| entry.next);
    to.extend(entries.iter().map(|entry| entry.name.to_string()));
    !entries.is_empty()
}

/// Continues sixty listings of a directory of 10,000 entries by rotation.
///
/// # Panics
/// If a listing does not have each entry exactly once.
pub fn in_turns(format: &dyn Format) {
    let volume = Counted::new(format).volume;
    let of = directory(&*volume, "many", 10_000, 40);
    let mut listings = vec![(Cursor::START, Vec::new()); 60];
    let mut is_more = true;
    while is_more {
        is_more = false;
        for (cursor, names) in &mut listings {
            is_more |= go_on(&*volume, of, cursor, 2_000, names);
        }
    }
    for (_, names) in listings {
        assert_eq!(names.len(), 10_000, "{}", format.name());
        assert_eq!(names.into_iter().collect::<BTreeSet<_>>().len(), 10_000, "{}", format.name());
    }
}

/// Pauses a listing until the keys of other listings have filled the memory for cursors. In a second run the entry at
/// which the listing stopped is removed meanwhile.
///
/// # Panics
/// If the listing leaves out an entry, or, where nothing was removed, has one twice.
pub fn after_a_rest(format: &dyn Format) {
    let volume = Counted::new(format).volume;
    let of = directory(&*volume, "rests", 1000, 40);
    let other = directory(&*volume, "other", 30_000, 230);
    for is_removed in [false, true] {
        let (mut cursor, mut names) = (Cursor::START, Vec::new());
        go_on(&*volume, of, &mut cursor, 300, &mut names);
        assert!(go_on(&*volume, other, &mut Cursor::START.clone(), usize::MAX, &mut Vec::new()));
        if is_removed {
            volume.unlink(of, &entry(299, 40)).expect("a file");
        }
        while go_on(&*volume, of, &mut cursor, 300, &mut names) {}
        let each: BTreeSet<_> = names.iter().collect();
        assert_eq!(each.len(), 1000, "{}: removed: {is_removed}", format.name());
        assert!(is_removed || names.len() == 1000, "{}: {} entries", format.name(), names.len());
    }
}

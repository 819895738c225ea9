//! Tests of directories that tell names apart by case, as Windows makes them from 3.14 on.

use super::versions::whole;
use super::*;
use crate::layout::bytes::u16_at;
use crate::layout::{NumberRow, Row};

const FILES: usize = 120;

/// The name of a file: of each two one is that of the other in another case.
fn called(index: usize) -> String {
    let initial = if index.is_multiple_of(2) { 'N' } else { 'n' };
    format!("{initial}ame{}", index / 2)
}

/// Makes a volume with a directory that tells names apart by case, and puts files into it whose content is their number.
fn cased() -> Arc<MemoryDevice> {
    let device = made();
    let volume = open(&device);
    let from = volume.create(Node::ROOT, &name("from"), Kind::Directory).unwrap();
    for index in 0..FILES {
        let node = volume.create(from, &name(&format!("f{index:03}")), Kind::File).unwrap();
        volume.write(node, 0, index.to_string().repeat(30).as_bytes()).unwrap();
        volume.forget(node, 1);
    }
    let to = volume.create(Node::ROOT, &name("cased"), Kind::Directory).unwrap();
    let object = |volume: &RefsVolume, node| volume.core().living_directory(node).unwrap();
    let objects = [object(&volume, from), object(&volume, to)];
    for node in [from, to] {
        volume.forget(node, 1);
    }
    volume.unmount().unwrap();
    let volume = open(&device);
    {
        let mut core = volume.core();
        let (tree, pages) = core.tree_mut(objects[1]).unwrap();
        let mut own = tree.get(pages, &key::OWN, |row| row.value.to_vec()).unwrap().unwrap();
        put(&mut own, 0x4C, 0x02u32);
        tree.put(pages, &key::OWN, Row::EMBEDDED, &own).unwrap();
    }
    volume.unmount().unwrap();
    let volume = open(&device);
    {
        let mut core = volume.core();
        let mut rows = Vec::new();
        let (tree, pages) = core.tree(objects[0]).unwrap();
        tree.scan(pages, &[], |row| {
            rows.push((row.key.to_vec(), row.flags, row.value.to_vec()));
            Ok(true)
        })
        .unwrap();
        let names = rows.iter().filter(|(key, ..)| u16_at(key, 0) == 0x30);
        let new: Vec<_> = names
            .enumerate()
            .map(|(index, (_, flags, value))| {
                let ordinal = Record::from_bytes(value, 0).unwrap().ordinal;
                let units: Vec<u16> = called(index).encode_utf16().collect();
                (key::name(key::LONG, &units), *flags, value.clone(), ordinal, units)
            })
            .collect();
        let last = new.iter().map(|(_, _, _, ordinal, _)| *ordinal).max();
        let (tree, pages) = core.tree_mut(objects[1]).unwrap();
        for (row_key, flags, value, ordinal, units) in new {
            tree.put(pages, &row_key, flags, &value).unwrap();
            let number = NumberRow::Name(units).to_bytes();
            tree.put(pages, &key::number(ordinal), 0, &number).unwrap();
        }
        core.object(objects[1]).unwrap().last_child = last;
    }
    volume.unmount().unwrap();
    device
}

#[test]
fn names_that_differ_in_case_are_different_names() {
    let device = cased();
    checked(&device, &[]);
    let volume = open(&device);
    let directory = volume.lookup(Node::ROOT, &name("CASED")).unwrap();
    let mut entries = Vec::new();
    let mut cursor = Cursor::START;
    loop {
        let before = entries.len();
        volume.read_directory(directory, cursor, 7, &mut entries).unwrap();
        if entries.len() == before {
            break;
        }
        cursor = entries[entries.len() - 1].next;
    }
    let listed: Vec<String> = entries.iter().map(|entry| entry.name.to_string()).collect();
    let mut wanted: Vec<String> = (0..FILES).map(called).collect();
    wanted.sort();
    assert_eq!(listed, wanted);
    for index in 0..FILES {
        let node = volume.lookup(directory, &name(&called(index))).unwrap();
        assert_eq!(content(&volume, node).unwrap(), index.to_string().repeat(30).into_bytes());
        volume.forget(node, 1);
    }
    assert!(matches!(volume.lookup(directory, &name("NAME3")), Err(Error::NotFound)));
}

#[test]
fn such_a_directory_is_only_read_and_a_repair_leaves_it() {
    let device = cased();
    let volume = open(&device);
    let directory = volume.lookup(Node::ROOT, &name("cased")).unwrap();
    let node = volume.lookup(directory, &name("Name3")).unwrap();
    let refused =
        |outcome: Result<()>| assert!(matches!(outcome, Err(Error::NotPermitted(_))), "{outcome:?}");
    refused(volume.write(node, 0, b"x"));
    refused(volume.unlink(directory, &name("Name3")));
    refused(volume.create(directory, &name("more"), Kind::File).map(drop));
    refused(volume.rename(directory, &name("Name3"), Node::ROOT, &name("moved"), Default::default()));
    refused(volume.link(node, Node::ROOT, &name("second")));
    refused(volume.rename(Node::ROOT, &name("cased"), Node::ROOT, &name("other"), Default::default()));
    // The rest of the volume can be changed.
    file(&volume, "beside", &[7; 9000]);
    for node in [node, directory] {
        volume.forget(node, 1);
    }
    volume.unmount().unwrap();
    checked(&device, &[]);
    let before = whole(&device);
    Refs::ANY.check(&*device, CheckOptions { repair: true }, &Silent).unwrap();
    assert!(whole(&device) == before, "a repair changes a healthy volume");
}

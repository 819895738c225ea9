//! An entry is there with everything that it was made with, or not at all, and attributes that are changed together are
//! changed together: also after a power cut, while another thread makes everything durable all the time.

use platter_device::{Device, Faults, Grain, MemoryDevice, Sectors, Survivors};
use platter_formats::by_name;
use platter_vfs::linux::{LinuxAttributes, Special, link_target, link_to};
use platter_vfs::{
    CheckOptions, Cursor, Error, FileSystem, FormatOptions, Kind, Name, NewEntry, Node, OpenOptions, Reparse,
    Silent,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

/// A recording device that holds a new volume.
fn volume(name: &str, size: u64) -> Arc<Faults> {
    let device = MemoryDevice::new(size, Sectors::SMALL);
    by_name(name).expect("registered").make(&device, &FormatOptions::default(), &Silent).unwrap();
    Arc::new(Faults::recording(Arc::new(device), 1, Grain::Logical))
}

/// Makes an entry with what `linux` says.
fn make(
    system: &dyn FileSystem,
    name: &str,
    kind: Kind,
    point: Option<&Reparse>,
    linux: &LinuxAttributes,
) -> platter_vfs::Result<Node> {
    let values = linux.extended();
    let extended: Vec<_> = values.iter().map(|(name, value)| (*name, &value[..])).collect();
    system.make(Node::ROOT, &Name::from(name), &NewEntry { kind, point, extended: &extended })
}

/// What entry `index` is made with, and what it has after a change.
fn linux(index: u32, is_changed: bool) -> LinuxAttributes {
    let step = if is_changed { 5000 } else { 0 };
    LinuxAttributes {
        uid: Some(1000 + step + index),
        gid: Some(2000 + step + index),
        mode: Some(0o600 + step),
        device: Some((1 + step, index)),
    }
}

fn target(index: u32) -> Vec<u8> {
    format!("somewhere/{index}").into_bytes()
}

/// The kind of entry `index`: file, directory, symbolic link or FIFO.
fn kind(index: u32) -> (Kind, Option<Reparse>) {
    match index % 4 {
        0 => (Kind::File, None),
        1 => (Kind::Directory, None),
        2 => (Kind::SymbolicLink, Some(link_to(&target(index)))),
        _ => (Kind::File, Some(Special::Fifo.reparse_point())),
    }
}

/// Checks all entries, and returns how many were made and how many of them have their later attributes.
fn judge(what: &str, system: &dyn FileSystem) -> (usize, usize) {
    let mut entries = Vec::new();
    system.read_directory(Node::ROOT, Cursor::START, usize::MAX, &mut entries).unwrap();
    let (mut made, mut changed) = (0, 0);
    for entry in entries {
        let Ok(index) = entry.name.to_string().parse() else { continue };
        let node = system.lookup(Node::ROOT, &entry.name).unwrap();
        let has = LinuxAttributes::read(system, node).unwrap();
        assert!(
            [false, true].map(|is_changed| linux(index, is_changed)).contains(&has),
            "{what}, {index}: {has:?}"
        );
        let (kind, point) = kind(index);
        assert_eq!(entry.attributes.kind, kind, "{what}, {index}");
        match kind {
            Kind::SymbolicLink => assert_eq!(link_target(system, node).unwrap(), target(index), "{what}"),
            _ => assert_eq!(system.reparse_points().unwrap().get(node).unwrap(), point, "{what}, {index}"),
        }
        system.forget(node, 1);
        made += 1;
        changed += usize::from(has == linux(index, true));
    }
    (made, changed)
}

#[test]
fn a_power_cut_leaves_no_entry_half_made_and_no_owner_half_changed() {
    const COUNT: u32 = 160;
    for name in ["ntfs", "refs", "refs+integrity"] {
        let format = by_name(name).expect("registered");
        let device = volume(name, 640 << 20);
        let system = format.open(device.clone(), OpenOptions::default()).unwrap();
        let (is_over, syncs) = (AtomicBool::new(false), AtomicUsize::new(0));
        thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    system.sync_all().unwrap();
                    syncs.fetch_add(1, Ordering::Relaxed);
                }
            });
            for index in 0..COUNT {
                // Each pair of entries is made durable, by a sync that begins at any moment.
                let seen = syncs.load(Ordering::Relaxed);
                while index % 2 == 0 && syncs.load(Ordering::Relaxed) == seen {
                    thread::yield_now();
                }
                let (kind, point) = kind(index);
                let node =
                    make(&*system, &index.to_string(), kind, point.as_ref(), &linux(index, false)).unwrap();
                linux(index, true).write(&*system, node).unwrap();
                system.forget(node, 1);
            }
            is_over.store(true, Ordering::Relaxed);
        });
        system.sync_all().unwrap();
        let log = device.log();
        let step = log.writes() / 150 + 1;
        let mut between = 0;
        for k in (0..=log.writes()).step_by(step) {
            for survivors in [Survivors::None, Survivors::All, Survivors::Random(k as u64)] {
                let what = format!("{name}, cut at write {k} of {}, {survivors:?}", log.writes());
                let cut: Arc<dyn Device> = Arc::new(log.cut(k, survivors));
                let system = format.open(cut.clone(), OpenOptions::default()).unwrap();
                let (made, changed) = judge(&what, &*system);
                between += usize::from((1..COUNT as usize).contains(&changed) && made > 0);
                drop(system);
                let report = format.check(&*cut, CheckOptions::default(), &Silent).unwrap();
                assert!(report.is_clean(), "{what}: {report:?}");
            }
        }
        assert!(between > 30, "{name}: only {between} cuts fell between the first and the last entry");
        assert_eq!(judge(name, &*system), (COUNT as usize, COUNT as usize), "{name}");
    }
}

#[test]
fn what_cannot_be_made_leaves_nothing() {
    let sizes = [("fat32", 512), ("exfat", 128), ("ntfs", 128), ("refs", 640), ("refs+integrity", 640)];
    for (name, size) in sizes {
        let format = by_name(name).expect("registered");
        let device = volume(name, size << 20);
        let system = format.open(device.clone(), OpenOptions::default()).unwrap();
        let (fifo, link) = (Special::Fifo.reparse_point(), link_to(b"target"));
        let some = LinuxAttributes { uid: Some(1000), ..LinuxAttributes::default() };
        let none = LinuxAttributes::default();
        let refused = |kind, point, linux| {
            let made = make(&*system, "refused", kind, point, linux);
            let gone = system.lookup(Node::ROOT, &Name::from("refused"));
            assert!(matches!(gone, Err(Error::NotFound)), "{name}: {kind:?} {made:?}: {gone:?}");
            made.expect_err("it cannot be made")
        };
        for (kind, point) in [
            (Kind::File, &link),
            (Kind::Directory, &fifo),
            (Kind::Directory, &link),
            (Kind::SymbolicLink, &fifo),
        ] {
            let error = refused(kind, Some(point), &none);
            assert!(matches!(error, Error::InvalidArgument(_)), "{name}: {kind:?} {point:?}: {error}");
        }
        assert!(matches!(refused(Kind::SymbolicLink, None, &none), Error::InvalidArgument(_)), "{name}");
        if !system.capabilities().extended_attributes {
            for (kind, point, linux) in [
                (Kind::File, None, &some),
                (Kind::File, Some(&fifo), &none),
                (Kind::SymbolicLink, Some(&link), &none),
            ] {
                let error = refused(kind, point, linux);
                assert!(matches!(error, Error::Unsupported { .. }), "{name}: {kind:?}: {error}");
            }
        } else {
            let large = vec![7; 40_000];
            for kind in [Kind::File, Kind::Directory] {
                for (extended, is_full) in [
                    ([("user.a", &large[..]), ("user.b", &large[..])], true),
                    ([("user.a", b"1"), ("", b"2")], false),
                ] {
                    let new = NewEntry { extended: &extended, ..NewEntry::of(kind) };
                    let error = system.make(Node::ROOT, &Name::from("refused"), &new).unwrap_err();
                    assert_eq!(matches!(error, Error::RecordFull { .. }), is_full, "{name}: {error}");
                    assert_eq!(matches!(error, Error::InvalidArgument(_)), !is_full, "{name}: {error}");
                    let gone = system.lookup(Node::ROOT, &Name::from("refused"));
                    assert!(matches!(gone, Err(Error::NotFound)), "{name}: {gone:?}");
                }
            }
            // Of changes of which one is refused, none is made.
            let node = make(&*system, "kept", Kind::File, None, &some).unwrap();
            let changes: [(&str, Option<&[u8]>); 2] = [("user.a", Some(b"1")), ("user.missing", None)];
            let error =
                system.extended_attributes().and_then(|part| part.set_several(node, &changes)).unwrap_err();
            assert!(matches!(error, Error::NotFound), "{name}: {error}");
            assert!(
                matches!(
                    system.extended_attributes().and_then(|part| part.get(node, "user.a")),
                    Err(Error::NotFound)
                ),
                "{name}"
            );
            assert_eq!(LinuxAttributes::read(&*system, node).unwrap(), some, "{name}");
            system.forget(node, 1);
        }
        // The volume goes on.
        let node = make(&*system, "another", Kind::File, None, &none).unwrap();
        system.write(node, 0, b"content").unwrap();
        system.forget(node, 1);
        system.unmount().unwrap();
        drop(system);
        let report = format.check(&*device, CheckOptions::default(), &Silent).unwrap();
        assert!(report.is_clean(), "{name}: {report:?}");
    }
}

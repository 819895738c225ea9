//! Tests of clusters with several owners: clones and snapshots.

use super::*;
use platter_testing::model;

/// Adds a snapshot to a file by hand, with the clusters of the file's data, which becomes empty. Only the record refers
/// to them: Windows counts references in a table of their own.
fn keep_version(device: &Arc<MemoryDevice>, called: &str, snapshot: &str) {
    change(device, called, |_, record| {
        let live = record.rows.iter().find(|row| row.flags & 1 != 0).unwrap().clone();
        let mut kept = live.clone();
        put(&mut kept.key, 0x10, 0x1001u64);
        let units: Vec<u8> = snapshot.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let mut head = vec![0; 0x74];
        for (at, word) in [(0x04, 0x68u32), (0x08, 0x0C), (0x0C, 0x30), (0x10, 2), (0x38, 2), (0x44, 0x1001)]
        {
            put(&mut head, at, word);
        }
        put(&mut head, 0x02, 0x1C00u16);
        for (at, from) in [(0x18, 0x30), (0x20, 0x38), (0x28, 0x40), (0x30, 0x30)] {
            put(&mut head, at, u64_at(&live.value, from));
        }
        put(&mut head, 0x4C, 0x01DC_0000_0000_0000u64);
        record.rows.push(Attribute::new(MULTIPLE, NAMED_DATA, 5, &units, 0, head));
        // The live data becomes empty.
        let own = record.rows.iter_mut().find(|row| row.flags & 1 != 0).unwrap();
        *own = Attribute::new(MULTIPLE, DATA, 0x0E, &own.key[16..], 1, {
            let mut value = vec![0; 0xF8];
            value[..0x88].copy_from_slice(&live.value[..0x88]);
            for at in [0x20, 0x30, 0x38, 0x40, 0x48] {
                put(&mut value, at, 0u64);
            }
            put(&mut value, 0x50, 2u32);
            TreeNodeMut::empty(&mut value[0x88..], 0, 6);
            value
        });
        (record.size, record.allocated) = (0, 0);
        record.rows.push(kept);
        None
    });
}

#[test]
fn snapshots_of_streams() {
    let device = made();
    let volume = open(&device);
    let wanted: Vec<u8> = (0..50_000u32).map(|at| at as u8).collect();
    file(&volume, "f", &wanted);
    volume.unmount().unwrap();
    keep_version(&device, "f", "before");
    checked(&device, &[]);
    let volume = open(&device);
    let free = volume.space().unwrap().free;
    let node = volume.lookup(Node::ROOT, &name("f")).unwrap();
    assert_eq!(volume.snapshots().unwrap().list(node).unwrap(), [name("before")]);
    assert_eq!(volume.streams().unwrap().list(node).unwrap().len(), 0);
    let kept = volume.streams().unwrap().open(node, &name("before"), false).unwrap();
    assert_eq!(content(&volume, kept).unwrap(), wanted);
    assert!(matches!(volume.write(kept, 0, b"x"), Err(Error::NotPermitted(_))));
    assert!(matches!(
        volume.streams().and_then(|part| part.remove(node, &name("before"))),
        Err(Error::NotFound)
    ));
    // The live data is written and the file moved; the snapshot keeps its content.
    volume.write(node, 0, &[1; 9000]).unwrap();
    let below = volume.create(Node::ROOT, &name("d"), Kind::Directory).unwrap();
    volume.rename(Node::ROOT, &name("f"), below, &name("g"), Default::default()).unwrap();
    for node in [node, kept, below] {
        volume.forget(node, 1);
    }
    volume.unmount().unwrap();
    checked(&device, &[]);
    let volume = open(&device);
    let below = volume.lookup(Node::ROOT, &name("d")).unwrap();
    let node = volume.lookup(below, &name("g")).unwrap();
    assert_eq!(content(&volume, node).unwrap(), [1; 9000]);
    let kept = volume.streams().unwrap().open(node, &name("before"), false).unwrap();
    assert_eq!(content(&volume, kept).unwrap(), wanted);
    volume.forget(kept, 1);
    volume.snapshots().unwrap().remove(node, &name("before")).unwrap();
    assert_eq!(volume.snapshots().unwrap().list(node).unwrap(), []);
    volume.forget(node, 1);
    volume.unlink(below, &name("g")).unwrap();
    volume.forget(below, 1);
    volume.rmdir(Node::ROOT, &name("d")).unwrap();
    volume.sync_all().unwrap();
    assert_eq!(volume.space().unwrap().free, free + 13);
    volume.unmount().unwrap();
    checked(&device, &[]);
}

/// The sum of all reference counts in the volume's table.
fn counted(volume: &RefsVolume) -> u64 {
    let mut sum = 0;
    let mut core = volume.core();
    let (tree, pages) = core.root(crate::layout::Root::References);
    tree.scan(pages, &[], |row| {
        sum += u64::from(u32_at(row.value, 0x18));
        Ok(true)
    })
    .unwrap();
    sum
}

#[test]
fn clones() {
    for integrity in [false, true] {
        let device = made();
        let volume = open(&device);
        let empty = volume.space().unwrap().free;
        let mut wanted: Vec<u8> = (0..400_000u32).map(|at| (at / 7) as u8).collect();
        let one = volume.create(Node::ROOT, &name("one"), Kind::File).unwrap();
        volume
            .integrity()
            .unwrap()
            .set(one, platter_vfs::Integrity { enabled: integrity, enforced: true })
            .unwrap();
        volume.write(one, 0, &wanted).unwrap();
        let two = volume.create(Node::ROOT, &name("two"), Kind::File).unwrap();
        volume
            .integrity()
            .unwrap()
            .set(two, platter_vfs::Integrity { enabled: integrity, enforced: true })
            .unwrap();
        volume.sync_all().unwrap();
        let before = volume.space().unwrap().free;
        volume.clone_range(one, 0, two, 0, 400_000).unwrap();
        volume.sync_all().unwrap();
        // 98 clusters are shared by two files, which takes only a row in a table.
        assert!(before - volume.space().unwrap().free <= 12);
        assert_eq!((content(&volume, two).unwrap(), counted(&volume)), (wanted.clone(), 196));
        volume.unmount().unwrap();
        checked(&device, &[]);
        // A write to one file does not change the other: whole clusters, parts of clusters, and at the end.
        let volume = open(&device);
        let (one, two) = (
            volume.lookup(Node::ROOT, &name("one")).unwrap(),
            volume.lookup(Node::ROOT, &name("two")).unwrap(),
        );
        let before = wanted.clone();
        for (at, length) in [(8192, 12288), (100_000, 5), (399_000, 3000)] {
            volume.write(one, at as u64, &vec![9; length]).unwrap();
            wanted.resize(wanted.len().max(at + length), 0);
            wanted[at..at + length].fill(9);
        }
        assert_eq!(content(&volume, one).unwrap(), wanted);
        assert_eq!(content(&volume, two).unwrap(), before);
        // Clones a part of a file to another place in it, over shared clusters.
        volume.clone_range(one, 0, one, 204_800, 16_384).unwrap();
        wanted.copy_within(0..16_384, 204_800);
        assert_eq!(content(&volume, one).unwrap(), wanted);
        assert!(volume.clone_range(one, 0, one, 4096, 8192).is_err());
        assert!(volume.clone_range(one, 1, two, 0, 4096).is_err());
        volume.punch(two, 0..40_960).unwrap();
        let mut other = before;
        other[..40_960].fill(0);
        // An open file keeps the clusters that it shares, even after its name and the other file are removed.
        volume.unlink(Node::ROOT, &name("one")).unwrap();
        volume.sync_all().unwrap();
        volume.write(two, 50_000, &[3; 100_000]).unwrap();
        other[50_000..150_000].fill(3);
        volume.sync_all().unwrap();
        let fill = file(&volume, "fill", &vec![0xAB; 3 << 20]);
        volume.sync_all().unwrap();
        assert_eq!(content(&volume, one).unwrap(), wanted);
        assert_eq!(content(&volume, two).unwrap(), other);
        volume.unlink(Node::ROOT, &name("two")).unwrap();
        volume.sync_all().unwrap();
        file(&volume, "more", &vec![0xCD; 3 << 20]);
        assert_eq!(content(&volume, one).unwrap(), wanted);
        assert_eq!(content(&volume, two).unwrap(), other);
        checked_beside(&volume, &device);
        for node in [one, two, fill] {
            volume.forget(node, 1);
        }
        for called in ["fill", "more"] {
            volume.unlink(Node::ROOT, &name(called)).unwrap();
        }
        assert_eq!(counted(&volume), 0);
        volume.unmount().unwrap();
        checked(&device, &[]);
        let free = open(&device).space().unwrap().free;
        assert!(empty - free <= 24, "{empty} {free}");
    }
}

/// The clone takes the place of whole leaves of runs, of which only those that it touches are in memory.
#[test]
fn clones_over_many_runs() {
    let device = made();
    let volume = open(&device);
    let mut wanted: [Vec<u8>; 2] = Default::default();
    for (index, called) in ["one", "two"].into_iter().enumerate() {
        let node = volume.create(Node::ROOT, &name(called), Kind::File).unwrap();
        volume
            .integrity()
            .unwrap()
            .set(node, platter_vfs::Integrity { enabled: true, enforced: true })
            .unwrap();
        wanted[index] = (0..4096 * 3000u32).map(|at| (at / 4096 * 7) as u8 ^ index as u8).collect();
        volume.write(node, 0, &wanted[index]).unwrap();
        volume.forget(node, 1);
    }
    volume.unmount().unwrap();
    for (from, count, to) in [(100usize, 1300, 600usize), (0, 500, 1000), (2000, 900, 450)] {
        let volume = open(&device);
        let [one, two] = ["one", "two"].map(|called| volume.lookup(Node::ROOT, &name(called)).unwrap());
        let [from, count, to] = [from, count, to].map(|clusters| clusters * 4096);
        volume.clone_range(one, from as u64, two, to as u64, count as u64).unwrap();
        let part = wanted[0][from..from + count].to_vec();
        wanted[1][to..to + count].copy_from_slice(&part);
        let mut found = vec![0; wanted[1].len()];
        assert_eq!(volume.read(two, 0, &mut found).unwrap(), found.len());
        assert!(found == wanted[1], "{from} {to}");
        for node in [one, two] {
            volume.forget(node, 1);
        }
        volume.unmount().unwrap();
        checked(&device, &[]);
    }
}

/// Commits, and checks the volume as a power cut would leave it at that time.
fn checked_beside(volume: &RefsVolume, device: &Arc<MemoryDevice>) {
    volume.sync_all().unwrap();
    let report = Refs::ANY.check(&**device, CheckOptions::default(), &Silent).unwrap();
    assert!(report.is_clean(), "{:#?}", report.findings);
}

#[test]
fn snapshots_that_are_made() {
    for size in [0, 700, 90_000] {
        let device = made();
        let volume = open(&device);
        let mut wanted: Vec<u8> = (0..size).map(|at: u32| at as u8).collect();
        let node = file(&volume, "f", &wanted);
        volume.snapshots().unwrap().create(node, &name("first")).unwrap();
        assert!(matches!(
            volume.snapshots().and_then(|part| part.create(node, &name("FIRST"))),
            Err(Error::Exists)
        ));
        let first = wanted.clone();
        volume.write(node, 10, &[1; 5000]).unwrap();
        wanted.resize(wanted.len().max(5010), 0);
        wanted[10..5010].fill(1);
        volume.snapshots().unwrap().create(node, &name("second")).unwrap();
        let second = wanted.clone();
        volume.write(node, 0, &[2; 4096]).unwrap();
        wanted[..4096].fill(2);
        volume.unmount().unwrap();
        checked(&device, &[]);
        let volume = open(&device);
        let node = volume.lookup(Node::ROOT, &name("f")).unwrap();
        assert_eq!(volume.snapshots().unwrap().list(node).unwrap(), [name("first"), name("second")]);
        for (called, kept) in [("first", &first), ("second", &second)] {
            let part = volume.streams().unwrap().open(node, &name(called), false).unwrap();
            assert_eq!(&content(&volume, part).unwrap(), kept, "{called}");
            volume.forget(part, 1);
        }
        assert_eq!(content(&volume, node).unwrap(), wanted);
        volume.snapshots().unwrap().remove(node, &name("first")).unwrap();
        volume.snapshots().unwrap().create(node, &name("third")).unwrap();
        volume.sync_all().unwrap();
        checked_beside(&volume, &device);
        volume.unlink(Node::ROOT, &name("f")).unwrap();
        assert_eq!(content(&volume, node).unwrap(), wanted);
        checked_beside(&volume, &device);
        volume.forget(node, 1);
        assert_eq!(counted(&volume), 0);
        volume.unmount().unwrap();
        checked(&device, &[]);
    }
}

#[test]
fn wrong_reference_counts_are_found_and_put_right() {
    for damage in [1u16, 3, 0] {
        let device = made();
        let volume = open(&device);
        let one = file(&volume, "one", &vec![7; 100_000]);
        let two = file(&volume, "two", b"");
        volume.clone_range(one, 0, two, 0, 100_000).unwrap();
        {
            let mut core = volume.core();
            let (tree, pages) = core.root(crate::layout::Root::References);
            let mut rows = Vec::new();
            tree.scan(pages, &[], |row| {
                rows.push((row.key.to_vec(), row.value.to_vec()));
                Ok(true)
            })
            .unwrap();
            let (row_key, value) = rows.remove(0);
            let mut row = crate::layout::ShareRow::from_bytes(&value, 0).unwrap();
            row.counts.iter_mut().filter(|count| **count > 0).for_each(|count| *count = damage);
            let (tree, pages) = core.root(crate::layout::Root::References);
            tree.put(pages, &row_key, 0, &row.to_bytes()).unwrap();
        }
        volume.unmount().unwrap();
        checked(&device, &["reference-count"]);
        let options = CheckOptions { repair: true };
        Refs::ANY.check(&*device, options, &Silent).unwrap();
        checked(&device, &[]);
        let volume = open(&device);
        assert_eq!(counted(&volume), 50);
    }
}

/// Changes a few files that share clusters at random, compares them with plain bytes, and checks the volume in between.
fn shared_files(seed: u64, operations: usize, integrity: bool) {
    struct Random(u64);
    impl Random {
        fn below(&mut self, bound: u64) -> u64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            self.0 % bound
        }
    }
    struct File {
        node: Node,
        called: String,
        bytes: Vec<u8>,
        kept: Vec<(String, Vec<u8>)>,
        is_named: bool,
    }
    let mut random = Random(seed | 1);
    let device = made();
    let mut volume = open(&device);
    let mut files: Vec<File> = Vec::new();
    let mut number = 0;
    for operation in 0..operations {
        while files.len() < 5 {
            number += 1;
            let called = format!("f{number}");
            let node = volume.create(Node::ROOT, &name(&called), Kind::File).unwrap();
            volume
                .integrity()
                .unwrap()
                .set(node, platter_vfs::Integrity { enabled: integrity, enforced: true })
                .unwrap();
            files.push(File { node, called, bytes: Vec::new(), kept: Vec::new(), is_named: true });
        }
        let one = random.below(files.len() as u64) as usize;
        let place = random.below(120_000) as usize;
        let length = [5, 4096, 9000, 40_960][random.below(4) as usize];
        match random.below(14) {
            0..=3 => {
                let place = if random.below(2) == 0 { place & !4095 } else { place };
                let byte = operation as u8;
                volume.write(files[one].node, place as u64, &vec![byte; length]).unwrap();
                let bytes = &mut files[one].bytes;
                bytes.resize(bytes.len().max(place + length), 0);
                bytes[place..place + length].fill(byte);
            }
            4..=7 => {
                let two = random.below(files.len() as u64) as usize;
                let (from, to) = (place & !4095, random.below(120_000) as usize & !4095);
                let mut length = (1 + random.below(12) as usize) * 4096;
                let size = files[one].bytes.len();
                if from + length > size && from < size && to + (size - from) >= files[two].bytes.len() {
                    length = size - from;
                }
                let cloned = volume.clone_range(
                    files[one].node,
                    from as u64,
                    files[two].node,
                    to as u64,
                    length as u64,
                );
                let is_apart = one != two || from + length <= to || to + length <= from;
                let is_allowed = from + length <= size && is_apart;
                assert_eq!(cloned.is_ok(), is_allowed, "{cloned:?} {from} {to} {length} {size}");
                if is_allowed {
                    let part = files[one].bytes[from..from + length].to_vec();
                    let bytes = &mut files[two].bytes;
                    bytes.resize(bytes.len().max(to + length), 0);
                    bytes[to..to + length].copy_from_slice(&part);
                }
            }
            8 => {
                let size = random.below(140_000) as usize;
                let change = platter_vfs::Change { size: Some(size as u64), ..Default::default() };
                volume.set_attributes(files[one].node, &change).unwrap();
                files[one].bytes.resize(size, 0);
            }
            9 => {
                volume.punch(files[one].node, place as u64..(place + length) as u64).unwrap();
                let end = files[one].bytes.len();
                files[one].bytes[place.min(end)..(place + length).min(end)].fill(0);
            }
            10 if files[one].is_named && files[one].kept.len() < 3 => {
                number += 1;
                let called = format!("s{number}");
                volume.snapshots().unwrap().create(files[one].node, &name(&called)).unwrap();
                let bytes = files[one].bytes.clone();
                files[one].kept.push((called, bytes));
            }
            11 if files[one].is_named && !files[one].kept.is_empty() => {
                let position = random.below(files[one].kept.len() as u64) as usize;
                let (called, _) = files[one].kept.remove(position);
                volume.snapshots().unwrap().remove(files[one].node, &name(&called)).unwrap();
            }
            12 => {
                let range = place as u64..(place + length) as u64;
                let allocated = volume.allocate(files[one].node, range, random.below(2) == 0);
                let has_integrity = volume.integrity().unwrap().get(files[one].node).unwrap().enabled;
                assert!(allocated.is_ok() != has_integrity, "{allocated:?}");
                let size = volume.attributes(files[one].node).unwrap().size as usize;
                files[one].bytes.resize(size, 0);
            }
            13 => {
                if std::mem::replace(&mut files[one].is_named, false) {
                    volume.unlink(Node::ROOT, &name(&files[one].called)).unwrap();
                    files[one].kept.clear();
                } else {
                    volume.forget(files[one].node, 1);
                    files.remove(one);
                }
            }
            _ => {}
        }
        if operation % 40 == 39 {
            for file in &files {
                assert!(
                    content(&volume, file.node).unwrap() == file.bytes,
                    "{} after {operation}",
                    file.called
                );
            }
            checked_beside(&volume, &device);
        }
        if operation % 120 == 119 {
            files.retain(|file| {
                volume.forget(file.node, 1);
                file.is_named
            });
            volume.unmount().unwrap();
            checked(&device, &[]);
            volume = open(&device);
            for file in &mut files {
                file.node = volume.lookup(Node::ROOT, &name(&file.called)).unwrap();
                assert!(content(&volume, file.node).unwrap() == file.bytes, "{} opened again", file.called);
                for (called, bytes) in &file.kept {
                    let part = volume.streams().unwrap().open(file.node, &name(called), false).unwrap();
                    assert!(&content(&volume, part).unwrap() == bytes, "{}:{called}", file.called);
                    volume.forget(part, 1);
                }
            }
        }
    }
    for file in &files {
        volume.forget(file.node, 1);
        if file.is_named {
            volume.unlink(Node::ROOT, &name(&file.called)).unwrap();
        }
    }
    assert_eq!(counted(&volume), 0);
    volume.unmount().unwrap();
    checked(&device, &[]);
}

#[test]
fn many_changes_of_shared_files() {
    for seed in 1..5 {
        shared_files(seed * 0x9E37_79B9, 600, seed % 2 == 0);
    }
}

#[test]
#[ignore = "a campaign"]
fn many_more_changes_of_shared_files() {
    for seed in 100..300 {
        shared_files(seed * 0x9E37_79B9, 3000, seed % 2 == 0);
    }
}

/// Clones of long runs, of which files keep and change parts: the runs lie in many ranges of reference counts, some with a
/// row in the table and some without.
#[test]
fn long_runs_of_which_parts_are_shared() {
    const PIECE: u64 = 1 << 20;
    for seed in 0..3 {
        let device = Arc::new(MemoryDevice::new(1 << 30, Sectors::SMALL));
        Refs::ANY.make(&*device, &FormatOptions::default(), &Silent).unwrap();
        let mut random = model::Random::new(seed);
        for round in 0..6 {
            let volume = open(&device);
            let nodes: Vec<Node> = (0..5)
                .map(|number| {
                    let called = name(&format!("file {number}"));
                    let there = volume.lookup(Node::ROOT, &called);
                    there.or_else(|_| volume.create(Node::ROOT, &called, Kind::File)).unwrap()
                })
                .collect();
            for _ in 0..6 {
                let (from, to) = (*random.pick(&nodes), *random.pick(&nodes));
                let at = random.below(24) * PIECE + 4096 * random.below(200);
                let length = PIECE * (1 + random.below(12)) - 4096 * random.below(200);
                match random.below(4) {
                    0 => volume.write(to, at, &vec![seed as u8; length as usize]).unwrap(),
                    1 => volume.write(to, at, &[seed as u8; 12288]).unwrap(),
                    2 if from != to => {
                        let size = volume.attributes(from).unwrap().size / 4096 * 4096;
                        let at = at.min(size);
                        if at < size {
                            volume.clone_range(from, at, to, at, length.min(size - at)).unwrap();
                        }
                    }
                    _ => {
                        let change = platter_vfs::Change { size: Some(at), ..Default::default() };
                        volume.set_attributes(to, &change).unwrap();
                    }
                }
            }
            volume.unmount().unwrap();
            let report = Refs::ANY.check(&*device, CheckOptions::default(), &Silent).unwrap();
            assert_eq!(report.found, 0, "seed {seed}, round {round}: {:#?}", report.findings);
        }
    }
}

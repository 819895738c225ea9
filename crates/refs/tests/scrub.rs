//! Tests of the scrub: damage is found and repaired from another copy of a mirror, or the files that have it are
//! removed.

use crate::common::{VOLUMES, Volume, check_clean, content, open};
use platter_device::{Device, MemoryDevice, Mirror, Queue, Recorder, Result, Sectors};
use platter_refs::Refs;
use platter_testing::model::{Random, seed};
use platter_vfs::{
    CheckOptions, Cursor, FileSystem, Format, Integrity, Kind, Name, Names, Node, Place, ScrubOptions,
    ScrubReport, Severity, Silent, SyncScope,
};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// A device that notes what is read.
struct Noted {
    device: Arc<dyn Device>,
    reads: Mutex<Vec<(u64, usize)>>,
}

impl Noted {
    fn new(device: Arc<dyn Device>) -> Arc<Noted> {
        Arc::new(Noted { device, reads: Mutex::default() })
    }
}

impl Device for Noted {
    fn name(&self) -> &str {
        self.device.name()
    }
    fn len(&self) -> u64 {
        self.device.len()
    }
    fn sectors(&self) -> Sectors {
        self.device.sectors()
    }
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.reads.lock().unwrap().push((offset, buffer.len()));
        self.device.read_at(offset, buffer)
    }
    fn write_at(&self, offset: u64, data: &[u8]) -> Result<()> {
        self.device.write_at(offset, data)
    }
    fn flush(&self) -> Result<()> {
        self.device.flush()
    }
    fn discard(&self, offset: u64, length: u64) -> Result<()> {
        self.device.discard(offset, length)
    }
    fn queue(&self, depth: usize) -> Result<Box<dyn Queue + '_>> {
        self.device.queue(depth)
    }
}

fn scrub(device: Arc<dyn Device>, options: ScrubOptions) -> ScrubReport {
    Refs::ANY.scrub(device, &options, &Silent).unwrap()
}

/// Makes files with content in the record and in clusters, in two directories, with several names and named streams.
/// Returns their contents by path.
fn plant(device: Arc<MemoryDevice>) -> BTreeMap<String, Vec<u8>> {
    let system = open(device);
    let mut planted = BTreeMap::new();
    let mut put = |path: String, node: Node, length: usize| {
        let bytes = content(planted.len() as u64, length);
        system.write(node, 0, &bytes).unwrap();
        planted.insert(path, bytes);
    };
    let make =
        |directory: Node, name: &str, kind: Kind| system.create(directory, &Name::from(name), kind).unwrap();
    let below = make(Node::ROOT, "below", Kind::Directory);
    for number in 0..60 {
        let node = make(below, &format!("small {number}"), Kind::File);
        put(format!("/below/small {number}"), node, 100 + 300 * number);
    }
    for number in 0..4 {
        let node = make(Node::ROOT, &format!("large {number}"), Kind::File);
        put(format!("/large {number}"), node, 3_000_000 + 12_345 * number);
    }
    let many = make(Node::ROOT, "names", Kind::File);
    put("/names".into(), many, 50_000);
    if system.capabilities().hard_links {
        system.link(many, below, &Name::from("other")).unwrap();
    }
    let streams = make(Node::ROOT, "streams", Kind::File);
    put("/streams".into(), streams, 10_000);
    let stream = system.streams().unwrap().open(streams, &Name::from("named"), true).unwrap();
    put("/streams:named".into(), stream, 2_500_000);
    system.unmount().unwrap();
    planted
}

fn find(system: &dyn FileSystem, path: &str) -> platter_vfs::Result<Node> {
    let (path, stream) = path.split_once(':').map_or((path, None), |(path, stream)| (path, Some(stream)));
    let names = path.split('/').filter(|name| !name.is_empty());
    let node = names.into_iter().try_fold(Node::ROOT, |node, name| system.lookup(node, &Name::from(name)))?;
    stream.map_or(Ok(node), |stream| {
        system.streams().and_then(|part| part.open(node, &Name::from(stream), false))
    })
}

fn read(system: &dyn FileSystem, path: &str, length: usize) -> platter_vfs::Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    let got = system.read(find(system, path)?, 0, &mut bytes)?;
    bytes.truncate(got);
    Ok(bytes)
}

/// Returns the clusters of all files: path, offset in the file, and offset on the device.
fn clusters(
    device: Arc<dyn Device>,
    planted: &BTreeMap<String, Vec<u8>>,
    cluster: u64,
) -> Vec<(String, u64, u64)> {
    let system = open(device);
    let mut all = Vec::new();
    for path in planted.keys() {
        for extent in system.extents(find(&system, path).unwrap()).unwrap() {
            if let Place::Device(place) = extent.place {
                let offsets = (0..extent.length).step_by(cluster as usize);
                all.extend(offsets.map(|at| (path.clone(), extent.offset + at, place + at)));
            }
        }
    }
    all
}

/// Returns the offsets of the metadata pages in use: the clusters that a scrub reads and that begin with a page's
/// signature.
fn pages(device: Arc<dyn Device>, cluster: u64) -> BTreeSet<u64> {
    let noted = Noted::new(device.clone());
    scrub(noted.clone(), ScrubOptions::default());
    let reads = std::mem::take(&mut *noted.reads.lock().unwrap());
    let places = reads
        .into_iter()
        .flat_map(|(start, length)| (start..start + length as u64).step_by(cluster as usize));
    let mut bytes = vec![0; 4096];
    places
        .filter(|&place| {
            place % cluster == 0 && device.read_at(place, &mut bytes).is_ok() && bytes.starts_with(b"MSB+")
        })
        .collect()
}

fn flip(device: &dyn Device, at: u64, mask: u8) {
    let mut bytes = vec![0; 4096];
    let start = at / 4096 * 4096;
    device.read_at(start, &mut bytes).unwrap();
    bytes[(at - start) as usize] ^= mask;
    device.write_at(start, &bytes).unwrap();
}

fn copy_of(device: &MemoryDevice) -> Arc<MemoryDevice> {
    let copy = Arc::new(MemoryDevice::new(device.len(), device.sectors()));
    let (mut bytes, zeroes) = (vec![0; 1 << 20], vec![0; 1 << 20]);
    for at in (0..device.len()).step_by(1 << 20) {
        device.read_at(at, &mut bytes).unwrap();
        if bytes != zeroes {
            copy.write_at(at, &bytes).unwrap();
        }
    }
    copy
}

fn assert_same(one: &dyn Device, other: &dyn Device) {
    let (mut left, mut right) = (vec![0; 1 << 20], vec![0; 1 << 20]);
    for at in (0..one.len()).step_by(1 << 20) {
        one.read_at(at, &mut left).unwrap();
        other.read_at(at, &mut right).unwrap();
        let differs = (0..1 << 20).find(|&index| left[index] != right[index]);
        assert_eq!(differs.map(|index| at + index as u64), None, "copies differ");
    }
}

fn with_integrity() -> impl Iterator<Item = Volume> {
    VOLUMES.into_iter().filter(|volume| volume.integrity)
}

#[test]
fn a_whole_volume_is_verified_and_nothing_found() {
    for volume in with_integrity() {
        let device = volume.make();
        let planted = plant(device.clone());
        let clusters = clusters(device.clone(), &planted, volume.cluster);
        let report = scrub(device, ScrubOptions::default());
        assert_eq!((report.found, report.exit_code(), report.copies), (0, 0, 1), "{:#?}", report.damaged);
        assert_eq!(report.data, clusters.len() as u64 * volume.cluster, "{volume:?}");
        assert!(report.metadata > 0 && report.next.is_none());
    }
}

#[test]
fn what_lies_together_is_read_together() {
    let device = VOLUMES[1].make();
    plant(device.clone());
    let noted = Noted::new(device);
    let report = scrub(noted.clone(), ScrubOptions::default());
    let reads = noted.reads.lock().unwrap();
    let large = reads.iter().filter(|(_, length)| *length == 1 << 20).count() as u64;
    assert!(large >= report.data / (1 << 20) / 2, "{large} of {}", report.data);
    assert!(reads.iter().all(|(_, length)| *length <= 1 << 20));
}

#[test]
fn every_flip_in_data_is_found_with_its_place() {
    for volume in with_integrity() {
        let device = volume.make();
        let planted = plant(device.clone());
        let all = clusters(device.clone(), &planted, volume.cluster);
        let mut random = Random::new(seed());
        let chosen: BTreeSet<usize> = (0..60).map(|_| random.below(all.len() as u64) as usize).collect();
        for &index in &chosen {
            flip(&*device, all[index].2 + random.below(volume.cluster), 1 << random.below(8));
        }
        let report = scrub(device, ScrubOptions::default());
        let mut told: BTreeSet<(String, u64)> = BTreeSet::new();
        for damaged in &report.damaged {
            let finding = &damaged.finding;
            assert_eq!((finding.code, finding.severity), ("data-checksum", Severity::DataLoss));
            let Range { start, end } = damaged.range.clone().unwrap();
            let path = finding.path.clone().unwrap();
            assert!(all.contains(&(path.clone(), start, damaged.place)), "{damaged:?}");
            told.extend((start..end).step_by(volume.cluster as usize).map(|at| (path.clone(), at)));
        }
        let flipped: BTreeSet<(String, u64)> =
            chosen.iter().map(|&index| (all[index].0.clone(), all[index].1)).collect();
        assert_eq!(told, flipped, "{volume:?}");
        assert_eq!(report.exit_code(), 4);
        assert!(report.lost > 0);
    }
}

#[test]
fn a_mirror_is_made_whole_again() {
    for volume in with_integrity() {
        let good = volume.make();
        let planted = plant(good.clone());
        let mut places: Vec<u64> =
            clusters(good.clone(), &planted, volume.cluster).into_iter().map(|(_, _, place)| place).collect();
        let pages = pages(good.clone(), volume.cluster);
        assert!(pages.len() > 20, "{} pages", pages.len());
        places.truncate(500);
        places.extend(pages);
        let copies = [copy_of(&good), copy_of(&good), copy_of(&good)];
        let mut random = Random::new(seed());
        // Each place stays good in one copy at least.
        for &place in &places {
            let spared = random.below(3) as usize;
            for (number, copy) in copies.iter().enumerate() {
                if number != spared && random.below(3) > 0 {
                    flip(&**copy, place + random.below(volume.cluster), 1 << random.below(8));
                }
            }
        }
        // A boot record and a superblock are damaged too, in bytes that their checksums cover.
        flip(&*copies[0], 0x40, 1);
        flip(&*copies[1], 0x1E * volume.cluster + 0x60, 1);
        let devices = copies.iter().map(|copy| copy.clone() as Arc<dyn Device>).collect();
        let mirror = Arc::new(Mirror::new(devices).unwrap());
        let report = scrub(mirror.clone(), ScrubOptions::default());
        assert!(report.found > 10, "{volume:?}");
        assert_eq!((report.repaired, report.remaining), (report.found, None), "{:#?}", report.damaged);
        assert_eq!((report.exit_code(), report.copies, report.lost), (1, 3, 0));
        for copy in &copies {
            assert_same(&**copy, &*good);
        }
        assert_eq!(scrub(mirror, ScrubOptions::default()).found, 0);
    }
}

/// Writers work while one copy is damaged again and again and scrubbed: they notice nothing, and all is repaired.
#[test]
fn a_copy_is_mended_while_the_volume_is_in_use() {
    for volume in with_integrity() {
        let good = volume.make();
        let planted = plant(good.clone());
        let mut places: Vec<u64> =
            clusters(good.clone(), &planted, volume.cluster).into_iter().map(|(_, _, place)| place).collect();
        places.extend(pages(good.clone(), volume.cluster));
        let damaged = copy_of(&good);
        let mirror: Arc<dyn Device> = Arc::new(Mirror::new(vec![good.clone(), damaged.clone()]).unwrap());
        let system = open(mirror.clone());
        let (is_over, mut repaired) = (AtomicBool::new(false), 0);
        thread::scope(|scope| {
            for writer in 0..2_u64 {
                let (system, is_over) = (&system, &is_over);
                scope.spawn(move || change_until(system, writer, is_over));
            }
            // Also if an assertion below fails: otherwise the writers would never end.
            let _over = Over(&is_over);
            let mut random = Random::new(seed());
            for _ in 0..12 {
                for _ in 0..5 {
                    flip(
                        &*damaged,
                        *random.pick(&places) + random.below(volume.cluster),
                        1 << random.below(8),
                    );
                }
                let mut options =
                    ScrubOptions { checksums_only: true, limit: Some(2 << 20), ..ScrubOptions::default() };
                loop {
                    let report = system.integrity().unwrap().scrub(&options).unwrap();
                    assert_eq!((report.lost, report.remaining), (0, None), "{:#?}", report.damaged);
                    repaired += report.repaired;
                    options.from = report.next;
                    if options.from.is_none() {
                        break;
                    }
                }
            }
        });
        assert!(repaired >= 12, "{volume:?}: {repaired} repaired");
        for (path, bytes) in &planted {
            assert!(read(&system, path, bytes.len()).unwrap() == *bytes, "{volume:?}: {path}");
        }
        system.unmount().unwrap();
        drop(system);
        // Free clusters that were damaged still differ.
        let checksums = ScrubOptions { checksums_only: true, ..ScrubOptions::default() };
        assert_eq!(scrub(mirror, checksums).remaining, None);
        for copy in [good, damaged] {
            check_clean(&*copy).unwrap_or_else(|fault| panic!("{volume:?}: {fault}"));
        }
    }
}

/// Says that the time is over when this is dropped.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Overwrites parts of a file, makes and removes others, and syncs, until the time is over; reads what it wrote.
fn change_until(system: &dyn FileSystem, writer: u64, is_over: &AtomicBool) {
    const LENGTH: usize = 1 << 20;
    let name = |what: &str| Name::from(format!("{what} {writer}").as_str());
    let node = system.create(Node::ROOT, &name("changed"), Kind::File).unwrap();
    let mut expected = vec![0; LENGTH];
    system.write(node, 0, &expected).unwrap();
    let mut random = Random::new(writer);
    while !is_over.load(Ordering::Relaxed) {
        let length = 1 + random.below(100_000) as usize;
        let at = random.below((LENGTH - length) as u64) as usize;
        let bytes = content(random.number(), length);
        system.write(node, at as u64, &bytes).unwrap();
        expected[at..at + length].copy_from_slice(&bytes);
        if random.chance(20) {
            system.sync(node, SyncScope::Data).unwrap();
        }
        if random.chance(20) {
            let other = system.create(Node::ROOT, &name("other"), Kind::File).unwrap();
            system.write(other, 0, &bytes).unwrap();
            system.unlink(Node::ROOT, &name("other")).unwrap();
            system.forget(other, 1);
            system.sync_all().unwrap();
        }
        let mut found = vec![0; LENGTH];
        system.read(node, 0, &mut found).unwrap();
        assert!(found == expected, "writer {writer}: other data than was written");
    }
    system.forget(node, 1);
}

/// Where two copies differ and no checksum tells which one is right, both stay as they are, and the difference is
/// reported.
#[test]
fn what_has_no_checksum_is_compared() {
    let good = VOLUMES[0].make();
    let mut planted = plant(good.clone());
    let system = open(good.clone());
    let file = find(&system, "/large 1").unwrap();
    system.integrity().unwrap().set(file, Integrity { enabled: true, enforced: true }).unwrap();
    system.unmount().unwrap();
    let free = (300 << 20) + 123;
    planted.retain(|path, _| path == "/large 0" || path == "/large 1");
    let all = clusters(good.clone(), &planted, 4096);
    let place = |path: &str, at: u64| all.iter().find(|one| (&one.0[..], one.1) == (path, at)).unwrap().2;
    let (plain, other) = (place("/large 0", 40960), place("/large 0", 2 << 20));
    let lost = place("/large 1", 8192);
    let copies = [copy_of(&good), copy_of(&good)];
    flip(&*copies[0], free, 1);
    flip(&*copies[1], free + 4096, 1);
    flip(&*copies[0], plain, 1);
    flip(&*copies[1], plain + 4096, 1);
    flip(&*copies[1], other, 1);
    flip(&*copies[0], lost, 1);
    flip(&*copies[1], lost + 600, 1);
    // A byte behind the first boot record, which nothing uses.
    flip(&*copies[1], 3000, 1);
    let devices = copies.iter().map(|copy| copy.clone() as Arc<dyn Device>).collect();
    let mirror: Arc<Mirror> = Arc::new(Mirror::new(devices).unwrap());
    // The reads are of one cluster each, since one copy answers the whole of a larger read.
    let answers = || -> Vec<Vec<u8>> {
        let one = |at: u64| {
            let mut bytes = vec![0; 4096];
            mirror.read_at(plain + 4096 * at, &mut bytes).unwrap();
            bytes
        };
        (0..600).map(one).collect()
    };
    let before = answers();
    let as_they_were = copies.each_ref().map(|copy| copy_of(copy));

    let only = scrub(mirror.clone(), ScrubOptions { checksums_only: true, ..ScrubOptions::default() });
    assert_eq!((only.found, only.compared), (1, 0), "{:#?}", only.damaged);
    let (mut from, mut found) = (None, Vec::new());
    loop {
        // The scrub goes on several times from where it stopped at its limit, and compares no place twice.
        let limit = Some(200 << 20);
        let report = scrub(mirror.clone(), ScrubOptions { limit, from, ..ScrubOptions::default() });
        assert!(report.compared <= 200 << 20);
        found.extend(report.damaged.into_iter().filter(|damaged| damaged.finding.code == "mirror-differs"));
        from = report.next;
        if from.is_none() {
            break;
        }
    }
    let told: Vec<_> = found.iter().map(|one| (one.finding.path.as_deref(), one.range.clone())).collect();
    let large = Some("/large 0");
    assert!(told.contains(&(large, Some(40960..49152))), "{found:#?}");
    assert!(told.contains(&(large, Some(2 << 20..(2 << 20) + 4096))), "{found:#?}");
    assert_eq!(told.iter().filter(|(path, _)| path.is_none()).count(), told.len() - 2, "{found:#?}");
    assert!(found.iter().all(|one| !one.finding.repaired));
    assert!(before == answers(), "what reads answer stays the same");
    copies.iter().zip(&as_they_were).for_each(|(copy, before)| assert_same(&**copy, &**before));
}

/// Where two of three copies agree, their content is written to the third. Where all three differ, nothing is written.
#[test]
fn most_copies_decide_where_there_is_no_checksum() {
    let good = VOLUMES[0].make();
    let mut planted = plant(good.clone());
    planted.retain(|path, _| path == "/large 0");
    let all = clusters(good.clone(), &planted, 4096);
    let place = |at: u64| all.iter().find(|one| one.1 == at).unwrap().2;
    let copies = [copy_of(&good), copy_of(&good), copy_of(&good)];
    flip(&*copies[0], place(40960), 1);
    flip(&*copies[2], place(2 << 20) + 600, 1);
    let free = (300 << 20) + 123;
    flip(&*copies[1], free, 1);
    // Two copies are damaged in different sectors of one cluster, so that two copies still agree on each sector.
    flip(&*copies[0], place(57344), 1);
    flip(&*copies[1], place(57344) + 1000, 1);
    // Here all three copies differ.
    flip(&*copies[0], place(73728), 1);
    flip(&*copies[1], place(73728), 2);
    let mirror =
        Arc::new(Mirror::new(copies.iter().map(|one| one.clone() as Arc<dyn Device>).collect()).unwrap());
    let report = scrub(mirror, ScrubOptions::default());
    let mut left = report.damaged.iter().filter(|one| !one.finding.repaired);
    assert_eq!(left.next().map(|one| one.range.clone()), Some(Some(73728..77824)), "{report:#?}");
    assert!(left.next().is_none() && report.exit_code() == 4, "{report:#?}");
    flip(&*copies[0], place(73728), 1);
    flip(&*copies[1], place(73728), 2);
    copies.iter().for_each(|copy| assert_same(&**copy, &*good));
}

#[test]
fn damaged_metadata_is_answered_from_another_copy_while_reading() {
    let good = VOLUMES[1].make();
    let planted = plant(good.clone());
    let copies = [copy_of(&good), copy_of(&good)];
    let pages = pages(good.clone(), 4096);
    for (number, &page) in pages.iter().enumerate() {
        flip(&*copies[number % 2], page + 0x123, 0x10);
    }
    let devices = copies.iter().map(|copy| copy.clone() as Arc<dyn Device>).collect();
    let mirror = Arc::new(Mirror::new(devices).unwrap());
    let system = open(mirror);
    for (path, bytes) in &planted {
        assert_eq!(read(&system, path, bytes.len()).unwrap(), *bytes, "{path}");
    }
    assert!(system.healed() > 0);
    drop(system);
    let damaged = |device: &dyn Device| {
        let mut bytes = ([0; 4096], [0; 4096]);
        let differs = |page: &&u64| {
            device.read_at(**page, &mut bytes.0).unwrap();
            good.read_at(**page, &mut bytes.1).unwrap();
            bytes.0 != bytes.1
        };
        pages.iter().filter(differs).count()
    };
    // Only pages that were not read, or that the undamaged copy answered, are still damaged.
    assert!(damaged(&*copies[0]) + damaged(&*copies[1]) < pages.len());
}

#[test]
fn salvage_leaves_a_volume_that_is_whole() {
    for volume in with_integrity() {
        let device = volume.make();
        let planted = plant(device.clone());
        let all = clusters(device.clone(), &planted, volume.cluster);
        let lost = ["/large 2", "/below/small 59", "/names", "/streams:named"];
        for path in lost {
            let (.., place) = all.iter().rev().find(|(of, ..)| of == path).unwrap();
            flip(&*device, place + 5, 0x80);
        }
        let before = scrub(device.clone(), ScrubOptions::default());
        assert_eq!((before.found, before.removed.len()), (4, 0), "{:#?}", before.damaged);
        let report = scrub(device.clone(), ScrubOptions { salvage: true, ..ScrubOptions::default() });
        let removed: BTreeSet<&str> = report.removed.iter().map(String::as_str).collect();
        let mut expected = BTreeSet::from(lost);
        if volume.version == "3.14" {
            expected.insert("/below/other");
        }
        assert_eq!(removed, expected);
        assert_eq!((&report.stuck, report.exit_code()), (&Vec::new(), 1));
        assert_eq!(scrub(device.clone(), ScrubOptions::default()).found, 0);
        check_clean(&*device).unwrap();
        let system = open(device);
        for (path, bytes) in &planted {
            match lost.contains(&path.as_str()) {
                true => assert!(find(&system, path).is_err(), "{path}"),
                false => assert_eq!(read(&system, path, bytes.len()).unwrap(), *bytes, "{path}"),
            }
        }
        let mut entries = Vec::new();
        system.read_directory(Node::ROOT, Cursor::START, 100, &mut entries).unwrap();
        assert_eq!(entries.len(), 5);
    }
}

#[test]
fn it_stops_at_a_limit_and_goes_on_from_there() {
    let device = VOLUMES[1].make();
    let planted = plant(device.clone());
    let all = clusters(device.clone(), &planted, 4096);
    let chosen: Vec<usize> = (0..all.len()).step_by(97).collect();
    chosen.iter().for_each(|&index| flip(&*device, all[index].2, 1));
    let whole = scrub(device.clone(), ScrubOptions::default());
    assert_eq!((whole.data, whole.found), (all.len() as u64 * 4096, chosen.len() as u64));
    // However small the limit is, each part comes forward.
    for (limit, least) in [(1_500_000, 6), (1000, all.len()), (0, all.len())] {
        let (parts, [metadata, data, found]) = in_parts(&(device.clone() as Arc<dyn Device>), limit);
        assert_eq!([metadata, data, found], [whole.metadata, whole.data, whole.found], "parts of {limit}");
        assert!(parts >= least, "{parts} parts of {limit} bytes");
    }
    let wrong = ScrubOptions { from: Some("somewhere".into()), ..ScrubOptions::default() };
    assert!(Refs::ANY.scrub(device, &wrong, &Silent).is_err());
}

/// Scrubs a device in parts. Returns their number, and the sums of metadata, data and findings.
fn in_parts(device: &Arc<dyn Device>, limit: u64) -> (usize, [u64; 3]) {
    let (mut from, mut parts, mut sums) = (None, 0, [0; 3]);
    loop {
        let options = ScrubOptions { limit: Some(limit), from, ..ScrubOptions::default() };
        let report = scrub(device.clone(), options);
        assert!(report.data <= limit.max(4096));
        let part = [report.metadata, report.data, report.found];
        sums = std::array::from_fn(|index| sums[index] + part[index]);
        (from, parts) = (report.next, parts + 1);
        if from.is_none() {
            return (parts, sums);
        }
    }
}

/// A scrub in parts reads everything once, whether there are many directories, many files in one, or many runs in one
/// file; on the way to where it goes on it reads little.
#[test]
fn parts_read_hardly_more_than_the_whole() {
    let device = VOLUMES[1].make();
    let system = open(device.clone());
    let make =
        |directory: Node, name: &str, kind: Kind| system.create(directory, &Name::from(name), kind).unwrap();
    for number in 0..600 {
        let directory = make(Node::ROOT, &format!("directory {number}"), Kind::Directory);
        let file = make(directory, "file", Kind::File);
        system.write(file, 0, &content(number, 5000)).unwrap();
    }
    let many = make(Node::ROOT, "many", Kind::Directory);
    for number in 0..3000 {
        let file = make(many, &format!("a file with a longer name, number {number}"), Kind::File);
        system.write(file, 0, &content(number, 5000)).unwrap();
        system.forget(file, 1);
    }
    let large = make(Node::ROOT, "large", Kind::File);
    for piece in 0..64 {
        system.write(large, piece << 20, &content(piece, 1 << 20)).unwrap();
    }
    system.unmount().unwrap();
    drop(system);
    let recorders = [(); 2].map(|()| Arc::new(Recorder::new(device.clone())));
    let whole = scrub(recorders[0].clone(), ScrubOptions::default());
    let (parts, sums) = in_parts(&(recorders[1].clone() as Arc<dyn Device>), 2 << 20);
    assert_eq!(whole.found, 0, "{:?}", whole.damaged);
    assert_eq!(sums, [whole.metadata, whole.data, 0]);
    assert!(parts > 50, "{parts} parts");
    let [at_once, bytes] = recorders.map(|recorder| recorder.traffic().read.bytes);
    let more = (bytes - at_once) / parts as u64;
    println!("{at_once} bytes at once, {bytes} in {parts} parts: {more} more in each");
    assert!(more < 1 << 20, "{at_once} bytes at once, {bytes} in {parts} parts");
}

#[test]
fn it_reads_no_faster_than_told() {
    let device = VOLUMES[1].make();
    plant(device.clone());
    let started = Instant::now();
    scrub(device, ScrubOptions { rate: Some(30 << 20), ..ScrubOptions::default() });
    assert!(started.elapsed() > Duration::from_millis(300), "{:?}", started.elapsed());
}

#[test]
fn lost_metadata_is_reported_with_what_it_belongs_to() {
    let device = VOLUMES[1].make();
    let planted = plant(device.clone());
    let pages = pages(device.clone(), 4096);
    let mut paths = BTreeSet::new();
    for &page in &pages {
        flip(&*device, page + 0x200, 4);
        let Ok(report) = Refs::ANY.scrub(device.clone(), &ScrubOptions::default(), &Silent) else {
            flip(&*device, page + 0x200, 4);
            continue;
        };
        assert!(report.found > 0, "page at {page:#x}");
        assert!(report.damaged.iter().any(|damaged| damaged.place == page), "{:#?}", report.damaged);
        paths.extend(report.damaged.into_iter().filter_map(|damaged| damaged.finding.path));
        flip(&*device, page + 0x200, 4);
    }
    assert!(paths.contains("/below") && paths.contains("/large 1"), "{paths:?}");
    assert!(
        paths.iter().all(|path| path == "/below" || path == "/" || planted.contains_key(path)),
        "{paths:?}"
    );
}

#[test]
fn salvage_removes_files_whose_extents_are_lost() {
    let good = VOLUMES[1].make();
    let planted = plant(good.clone());
    let pages = pages(good.clone(), 4096);
    let mut seen = BTreeSet::new();
    for &page in &pages {
        let device = copy_of(&good);
        flip(&*device, page + 0x200, 4);
        let Ok(report) = Refs::ANY.scrub(device.clone(), &ScrubOptions::default(), &Silent) else { continue };
        let Some(lost) = report.damaged.iter().find(|damaged| damaged.finding.code == "extents-page") else {
            continue;
        };
        let lost = lost.finding.path.clone().unwrap();
        if !seen.insert(lost.clone()) {
            continue;
        }
        let report = scrub(device.clone(), ScrubOptions { salvage: true, ..ScrubOptions::default() });
        assert_eq!((&report.removed, &report.stuck), (&vec![lost.clone()], &Vec::new()));
        assert_eq!(report.remaining, Some(Severity::Inconsistent));
        assert_eq!(scrub(device.clone(), ScrubOptions::default()).found, 0);
        // A repair frees the clusters that the lost pages led to.
        let repaired = Refs::ANY.check(&*device, CheckOptions { repair: true }, &Silent).unwrap();
        assert_eq!(repaired.remaining, None, "{:#?}", repaired.findings);
        check_clean(&*device).unwrap();
        let system = open(device);
        for (path, bytes) in &planted {
            match *path == lost {
                true => assert!(find(&system, path).is_err(), "{path}"),
                false => assert_eq!(read(&system, path, bytes.len()).unwrap(), *bytes, "{path}"),
            }
        }
    }
    assert!(seen.contains("/large 1") && seen.contains("/streams:named"), "{seen:?}");
}

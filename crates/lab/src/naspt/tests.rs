//! The loads, by their operations and by the traffic of the device.

use super::*;
use platter_device::{Device, MemoryDevice, Sectors};
use platter_vfs::{FormatOptions, Kind, Name, Node, OpenOptions, Silent};
use std::sync::Arc;

/// A new volume of a format in memory, on a recorder.
fn volume(format: &str, bytes: u64) -> crate::target::Ready {
    let device: Arc<dyn Device> = Arc::new(MemoryDevice::new(bytes, Sectors::SMALL));
    let format = platter_formats::by_name(format).unwrap();
    format.make(&*device, &FormatOptions::default(), &Silent).unwrap();
    let recorder = Arc::new(Recorder::new(device));
    let system = format.open(recorder.clone(), OpenOptions::default()).unwrap();
    let node = system.create(Node::ROOT, &Name::from("file"), Kind::File).unwrap();
    let subject = crate::Subject::File { system, node };
    crate::target::Ready {
        subject,
        recorder: Some(recorder),
        description: report::Target::default(),
        mounted: None,
    }
}

fn load(name: &str) -> &'static Load {
    LOADS.iter().find(|load| load.name == name).unwrap()
}

/// Runs a load at a sixteenth of its size; returns its operations and the traffic of the device.
fn replayed(load: &Load, format: &str, policy: Policy) -> (files::Done, platter_device::Traffic) {
    let ready = volume(format, 1 << 30);
    let recorder = ready.recorder.clone().unwrap();
    let mut files = Files::of_volume(&ready, policy, format).unwrap();
    let mut prepared = load.prepare(&mut files, 16, SEED, &|| false).unwrap();
    files.sync().unwrap();
    files.take_done();
    let before = recorder.traffic();
    load.replay(&mut files, &mut prepared, 16, SEED ^ 1).unwrap();
    files.sync().unwrap();
    let seen = recorder.traffic().since(&before);
    load.clear(&files, &prepared).unwrap();
    let done = files.take_done();
    drop(files);
    ready.tear_down().unwrap();
    (done, seen)
}

#[test]
fn each_load_moves_what_it_says() {
    let mb = |bytes: u64| bytes as f64 / 1e6 * 16.0;
    for (name, reads, writes) in [
        ("HD Video Playback", 1300.0, 0.0),
        ("2x HD Playback", 1400.0, 0.0),
        ("4x HD Playback", 1240.0, 0.0),
        ("HD Video Record", 0.0, 1600.0),
        ("HD Playback and Record", 1000.0, 1000.0),
        ("File copy to NAS", 0.0, 1400.0),
        ("File copy from NAS", 1400.0, 0.0),
    ] {
        let (done, _) = replayed(load(name), "exfat", Policy::BetterPerformance);
        let close = |found: f64, expected: f64| (found - expected).abs() <= expected * 0.01;
        assert!(close(mb(done.read_bytes), reads) && close(mb(done.write_bytes), writes), "{name}");
    }
    let (to, _) = replayed(load("Dir copy to NAS"), "exfat", Policy::BetterPerformance);
    assert_eq!(to.opens, 2833 / 16);
    assert!((mb(to.write_bytes) / 247.0 - 1.0).abs() < 0.02, "{}", mb(to.write_bytes));
    let (from, _) = replayed(load("Dir copy from NAS"), "exfat", Policy::BetterPerformance);
    assert_eq!((from.opens, from.read_bytes, from.writes), (to.opens, to.write_bytes, 0));
    let (photos, _) = replayed(load("Photo Album"), "exfat", Policy::BetterPerformance);
    assert_eq!(photos.opens, 2 * (169 / 16));
    let (content, _) = replayed(load("Content Creation"), "exfat", Policy::BetterPerformance);
    let share = content.writes as f64 / (content.writes + content.reads) as f64;
    assert!((share - 0.95).abs() < 0.02, "{share}");
    let (office, _) = replayed(load("Office Productivity"), "exfat", Policy::BetterPerformance);
    let share = office.read_bytes as f64 / (office.read_bytes + office.write_bytes) as f64;
    assert!((share - 0.5).abs() < 0.1, "{share}");
}

/// A single stream is sequential; several streams alternate after almost every I/O, with the published shares.
#[test]
fn streams_interleave_as_published() {
    let one = replayed(load("HD Video Playback"), "exfat", Policy::BetterPerformance).1.read;
    assert!(one.sequential_share() > 0.95, "{}", one.sequential_share());
    assert_eq!(load("2x HD Playback").what.switch_percent(), Some(82));
    assert_eq!(load("4x HD Playback").what.switch_percent(), Some(90));
}

/// The published finding: copying a directory to FAT32 is several times slower where the system writes each file's
/// metadata when the file is closed. It shows in the number of writes and flushes of the device.
#[test]
fn quick_removal_makes_a_directory_copy_three_times_the_work_on_fat32() {
    let seen = |format: &str, policy: Policy| replayed(load("Dir copy to NAS"), format, policy);
    let writes = |format: &str, policy: Policy| {
        let (done, seen) = seen(format, policy);
        (seen.write.count, seen.flushes, done.opens)
    };
    let data = seen("fat32", Policy::BetterPerformance).0.writes;
    let (better, few, _) = writes("fat32", Policy::BetterPerformance);
    let (quick, flushes, files) = writes("fat32", Policy::QuickRemoval);
    println!(
        "{files} files, {data} writes of data: {better} writes and {few} flushes; {quick} and {flushes}"
    );
    // Compares writes and flushes together, and the writes of metadata alone.
    assert!(quick + flushes >= 3 * (better + few), "{quick} + {flushes} against {better} + {few}");
    assert!(quick - data >= 5 * (better - data), "{quick} and {better} writes, {data} of them data");
    // There is at least one flush for each closed file, against a handful at the end.
    assert!(flushes >= files && few < 10, "{flushes} flushes against {few}, of {files} files");
    // NTFS makes no difference between the policies, as its journal suffices; exFAT writes metadata at each write.
    let of = |format, policy| writes(format, policy).0;
    assert_eq!(of("ntfs", Policy::QuickRemoval), of("ntfs", Policy::BetterPerformance));
    assert!(of("exfat", Policy::QuickRemoval) > 2 * of("exfat", Policy::BetterPerformance));
    let (through, ..) = writes("fat32", Policy::WriteThrough);
    assert!(through >= quick, "{through} writes against {quick}");
    // Reading does not depend on the policy.
    let read = |policy| replayed(load("Dir copy from NAS"), "fat32", policy).1;
    assert_eq!(read(Policy::QuickRemoval).write.count, read(Policy::BetterPerformance).write.count);
}

#[test]
fn policies_have_names() {
    for policy in Policy::ALL {
        assert_eq!(policy.name().parse(), Ok(policy));
    }
    assert!("fast".parse::<Policy>().unwrap_err().contains("quick-removal"));
}

#[test]
fn small_files_are_made_looked_at_and_removed() {
    let count = 100_000 / 16;
    for format in ["fat32", "ntfs", "refs"] {
        let of = |name: &str| {
            let load = SMALL_LOADS.iter().find(|load| load.name == name).unwrap();
            replayed(load, format, Policy::BetterPerformance)
        };
        let (created, seen) = of("create");
        assert_eq!(
            (created.opens, created.writes, created.write_bytes),
            (count, count, count * 4096),
            "{format}"
        );
        assert!(seen.write.bytes >= count * 4096);
        assert_eq!((of("list").0.looks, of("stat").0.looks), (count, count), "{format}");
        assert_eq!((of("rename").0.changes, of("delete").0.changes), (count, count), "{format}");
        let (read, seen) = of("read");
        assert_eq!((read.opens, read.read_bytes), (count, count * 4096), "{format}");
        assert!(seen.read.bytes >= count * 4096);
    }
}

/// Runs a load of [`Today`] on a volume; `None` if the format lacks what the load needs.
fn today(name: &str, format: &str) -> Option<(files::Done, platter_device::Traffic)> {
    let all = Set::ALL.into_iter().flat_map(|set| set.loads());
    let load = all.into_iter().find(|load| load.name == name).unwrap();
    let What::Today(what) = load.what else { panic!("{name} is no load of today") };
    let ready = volume(format, 384 << 20);
    let files = Files::of_volume(&ready, Policy::BetterPerformance, format).unwrap();
    let lacks = what.lacks(&files);
    drop((files, ready));
    lacks.is_none().then(|| replayed(load, format, Policy::BetterPerformance))
}

#[test]
fn images_are_read_and_written_all_over_and_have_snapshots_where_there_are_any() {
    let (done, seen) = today("images", "ntfs").unwrap();
    assert_eq!(done.reads + done.writes, 10_000);
    assert!((done.reads as f64 / 10_000.0 - 0.7).abs() < 0.02, "{} reads", done.reads);
    assert_eq!((done.read_bytes, done.write_bytes), (done.reads * 8192, done.writes * 8192));
    assert!(seen.read.sequential_share() < 0.05 && seen.read.count >= done.reads);
    assert!(today("images with snapshots", "ntfs").is_none());
    // Eight snapshots of each of the four images, taken while the load runs.
    let (with, _) = today("images with snapshots", "refs").unwrap();
    assert_eq!((with.changes, with.reads + with.writes), (8 * 4, 10_000));
}

#[test]
fn each_commit_is_durable_before_the_next() {
    for format in ["exfat", "ntfs", "refs"] {
        let (done, seen) = today("commit", format).unwrap();
        assert_eq!((done.syncs, done.reads, done.writes), (1000, 4000, 1000), "{format}");
        assert_eq!((done.read_bytes, done.write_bytes), (4000 * 8192, 1000 * 4096), "{format}");
        assert!(seen.flushes >= 1000, "{format}: {} flushes", seen.flushes);
    }
}

#[test]
fn a_backup_of_clones_moves_no_data() {
    let (copied, seen) = today("synthetic full by copying", "refs").unwrap();
    assert_eq!(copied.read_bytes, copied.write_bytes);
    assert_eq!(copied.write_bytes, 4_000_000_000 / 16 / (512 << 10) * (512 << 10));
    assert!(seen.write.bytes >= copied.write_bytes);
    let (cloned, seen) = today("synthetic full by block clone", "refs").unwrap();
    assert_eq!((cloned.cloned_bytes, cloned.reads, cloned.writes), (copied.write_bytes, 0, 0));
    assert!(seen.write.bytes < copied.write_bytes / 20, "{} bytes", seen.write.bytes);
    assert!(today("synthetic full by block clone", "ntfs").is_none());
}

#[test]
fn a_tree_is_unpacked_built_and_cleaned() {
    let files = 40_000 / 16;
    for format in ["exfat", "ntfs"] {
        let (unpacked, _) = today("unpack", format).unwrap();
        assert_eq!(unpacked.opens, files, "{format}");
        let (built, _) = today("build", format).unwrap();
        // For each source: the source, eight headers, the object that is made, and the object read again; and once the
        // binary.
        assert_eq!(built.opens, files * (1 + 8 + 1 + 1) + 1, "{format}");
        assert_eq!(built.looks, 2 * files, "{format}");
        assert!(built.write_bytes > unpacked.write_bytes * 29 / 10, "{format}");
        assert_eq!(today("clean", format).unwrap().0.changes, files / 2, "{format}");
    }
}

#[test]
fn on_an_aged_volume_files_lie_in_pieces() {
    for format in ["exfat", "ntfs", "refs"] {
        let ready = volume(format, 384 << 20);
        let mut files = Files::of_volume(&ready, Policy::BetterPerformance, format).unwrap();
        let keep = 100 << 20;
        let aged = ageing::age(&mut files, keep, SEED, &|| false).unwrap();
        assert!(aged.files > 500, "{format}: {} files", aged.files);
        assert!(files.free().unwrap().0 > keep - (8 << 20), "{format}");
        let [before, after] = [aged.pieces_before, aged.pieces_after].map(Option::unwrap);
        assert!(before < 4 && after > 8 * before, "{format}: {before} and {after} pieces");
        // The same seed makes the same files.
        let ready = volume(format, 384 << 20);
        let mut files = Files::of_volume(&ready, Policy::BetterPerformance, format).unwrap();
        let again = ageing::age(&mut files, keep, SEED, &|| false).unwrap();
        assert_eq!((again.files, again.pieces_after), (aged.files, aged.pieces_after), "{format}");
    }
}

/// Asks to end once it was asked so often since a stage whose name has this part.
struct Impatient(&'static str, std::sync::atomic::AtomicU32);

impl crate::Observer for Impatient {
    fn stage(&self, what: &str, _done: Duration, _total: Duration) {
        if what.contains(self.0) {
            self.1.store(1, std::sync::atomic::Ordering::Relaxed);
        }
    }
    fn result(&self, _target: &str, _workload: &str, _case: &str, _iops: f64, _mb_per_s: f64) {}
    fn stop(&self) -> bool {
        let asked = &self.1;
        asked.load(std::sync::atomic::Ordering::Relaxed) > 0
            && asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed) > 2
    }
}

#[test]
fn a_wish_to_end_is_seen_while_files_are_made() {
    let naspt = |ages| Naspt {
        stand: Stand::Memory(1 << 30),
        targets: vec![Target::parse("exfat").unwrap()],
        policies: vec![Policy::BetterPerformance],
        ages,
        sets: vec![Set::Naspt],
        preset: Preset::Quick,
        repeats: 1,
        base: None,
        discard: false,
        command: "platter run naspt".into(),
    };
    let error = run(&naspt(false), &Impatient("HD Video Playback", 0.into())).unwrap_err();
    assert!(matches!(error, Error::Interrupted), "{error}");
    // What was measured before is kept.
    let document = run(&naspt(true), &Impatient("aged: ageing", 0.into())).unwrap();
    assert_eq!(document.partial.as_deref(), Some("it was interrupted"));
    assert_eq!(document.targets.len(), 2);
}

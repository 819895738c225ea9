//! The database engine is tested by what it keeps after power cuts and kills, the load by its counts.

use super::database::{Database, Shape, key_of};
use super::load::{self, MIX, Mix};
use super::page::PAGE;
use super::store::Store;
use crate::{Result, Subject};
use fastrand::Rng;
use platter_device::{
    Device, Faults, FileDevice, FileOptions, Grain, MemoryDevice, Partition, Recorder, Sectors, Survivors,
};
use platter_vfs::{FormatOptions, Kind, Name, Node, OpenOptions, Silent};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

const SHAPE: fn() -> Shape = || Shape::of(2_000, 2 << 20, 256 << 10);

fn on(device: Arc<dyn Device>) -> Store {
    Store::new(Subject::Device { device, free: None })
}

/// The two files of a database, one after the other on a device.
fn halves(device: Arc<dyn Device>, shape: &Shape) -> [Store; 2] {
    let split = shape.file_bytes();
    let part = |start: u64, length: u64| {
        on(Arc::new(Partition::new(device.clone(), start, length, "part".into()).unwrap()))
    };
    [part(0, split), part(split, shape.log_bytes())]
}

fn memory(shape: &Shape) -> Arc<dyn Device> {
    Arc::new(MemoryDevice::new(shape.file_bytes() + shape.log_bytes(), Sectors::SMALL))
}

/// The keys and versions in a new database of this shape.
fn beginning(shape: &Shape) -> BTreeMap<u64, u64> {
    (0..shape.records).map(|number| (key_of(number, shape.records), 1)).collect()
}

/// Draws a random key to put or to delete, and changes the model accordingly; returns the key and whether it is
/// deleted.
fn draw(rng: &mut Rng, version: u64, model: &mut BTreeMap<u64, u64>) -> (u64, bool) {
    let known = model.range(rng.u64(..)..).next().map_or(7, |(key, _)| *key);
    let (key, is_gone) = match rng.u8(..4) {
        0 => (known, true),
        1 => (known, false),
        _ => (rng.u64(..), false),
    };
    match is_gone {
        true => model.remove(&key),
        false => model.insert(key, version),
    };
    (key, is_gone)
}

/// Makes one random change in the database and in the model; returns the position that the log must be durable up to.
fn change(rng: &mut Rng, version: u64, database: &Database, model: &mut BTreeMap<u64, u64>) -> Result<u64> {
    match draw(rng, version, model) {
        (key, true) => database.delete(key),
        (key, false) => database.put(key, version),
    }
}

fn content(database: &Database) -> BTreeMap<u64, u64> {
    database.all().unwrap().into_iter().collect()
}

#[test]
fn a_database_holds_what_was_put_into_it() {
    let shape = SHAPE();
    let device = memory(&shape);
    let [file, log] = halves(device.clone(), &shape);
    let database = Database::create(file, log, 11, shape).unwrap();
    let mut model = beginning(&shape);
    assert_eq!(content(&database), model);
    let mut rng = Rng::with_seed(1);
    for version in 2..6_000 {
        change(&mut rng, version, &database, &mut model).unwrap();
        if version % 16 == 0 {
            database.checkpoint().unwrap();
        }
    }
    // Keys in ascending order split the same page again and again, and also the root.
    for key in 0..400 {
        model.insert(key, 9);
        database.put(key, 9).unwrap();
    }
    assert!(model.len() > shape.records as usize + 1_000);
    assert_eq!(content(&database), model);
    let nearest = model.range(1 << 40..).next().map(|(key, version)| (*key, *version));
    assert!(database.seek(nearest.unwrap().0, false).unwrap() == nearest);
    database.close().unwrap();
    drop(database);
    let [file, log] = halves(device.clone(), &shape);
    let database = Database::open(file, log, shape).unwrap();
    assert_eq!(content(&database), model);
    drop(database);
    // A database that was not closed has all changes that its log holds durably.
    let [file, log] = halves(device.clone(), &shape);
    let database = Database::open(file, log, shape).unwrap();
    for version in 10_000..11_000 {
        let position = change(&mut rng, version, &database, &mut model).unwrap();
        database.log.flush(position).unwrap();
    }
    drop(database);
    let [file, log] = halves(device, &shape);
    assert_eq!(content(&Database::open(file, log, shape).unwrap()), model);
}

/// The model's states after each change, and pairs of the number of device writes so far and the index of the state
/// that was committed by then.
struct History {
    states: Vec<BTreeMap<u64, u64>>,
    durable: Vec<(usize, usize)>,
}

/// After a power cut the database must equal one of the states from the last committed one on.
fn judge(history: &History, cut: usize, found: &BTreeMap<u64, u64>) {
    let committed =
        history.durable.iter().rev().find(|(writes, _)| *writes <= cut).map_or(0, |(_, state)| *state);
    let is_one = history.states[committed..].iter().any(|state| state == found);
    assert!(is_one, "cut at write {cut}: nothing after change {committed} looks like this");
}

/// Makes changes on a recording device, and judges the database that `open` finds after each power cut.
fn cuts(
    faults: &Arc<Faults>,
    database: &Database,
    shape: &Shape,
    count: u64,
    every: usize,
    open: &dyn Fn(Arc<dyn Device>) -> Database,
) {
    let mut model = beginning(shape);
    let before = faults.log().writes();
    let mut history = History { states: vec![model.clone()], durable: vec![(before, 0)] };
    let mut rng = Rng::with_seed(8664);
    for version in 2..2 + count {
        let position = change(&mut rng, version, database, &mut model).unwrap();
        history.states.push(model.clone());
        if rng.u8(..100) >= MIX.lazy {
            database.log.flush(position).unwrap();
            history.durable.push((faults.log().writes(), history.states.len() - 1));
        }
        if version % 8 == 0 {
            database.checkpoint().unwrap();
        }
    }
    let log = faults.log();
    for cut in (before..=log.writes()).step_by(every) {
        for survivors in [Survivors::None, Survivors::Random(cut as u64), Survivors::All] {
            let device: Arc<dyn Device> = Arc::new(log.cut(cut, survivors));
            judge(&history, cut, &content(&open(device)));
        }
    }
}

fn small() -> Shape {
    // The cache is smaller than the database, and the log wraps around.
    Shape { cache: 8, ..Shape::of(400, 0, 64 << 10) }
}

#[test]
fn a_power_cut_takes_nothing_that_was_committed() {
    let shape = small();
    let faults = Arc::new(Faults::recording(memory(&shape), 1, Grain::Logical));
    let [file, log] = halves(faults.clone(), &shape);
    let database = Database::create(file, log, 5, shape).unwrap();
    cuts(&faults, &database, &shape, 150, 5, &|device| {
        let [file, log] = halves(device, &shape);
        Database::open(file, log, shape).unwrap()
    });
}

/// The same with the files on a volume of Platter, whose device has the power cuts.
#[test]
fn a_power_cut_of_a_volume_takes_nothing_that_was_committed() {
    for format in ["ntfs", "refs+integrity"] {
        let shape = small();
        let format = platter_formats::by_name(format).unwrap();
        let base: Arc<dyn Device> = Arc::new(MemoryDevice::new(640 << 20, Sectors::SMALL));
        format.make(&*base, &FormatOptions::default(), &Silent).unwrap();
        let faults = Arc::new(Faults::recording(base, 1, Grain::Logical));
        let files = |device: Arc<dyn Device>, is_new: bool| {
            let system = format.open(device, OpenOptions::default()).unwrap();
            ["db", "log"].map(|name| {
                let node = match is_new {
                    true => system.create(Node::ROOT, &Name::from(name), Kind::File).unwrap(),
                    false => system.lookup(Node::ROOT, &Name::from(name)).unwrap(),
                };
                Store::new(Subject::File { system: system.clone(), node })
            })
        };
        let [file, log] = files(faults.clone(), true);
        let database = Database::create(file, log, 5, shape).unwrap();
        cuts(&faults, &database, &shape, 60, 37, &|device| {
            let [file, log] = files(device, false);
            Database::open(file, log, shape).unwrap()
        });
    }
}

/// The mix has its shares, also of lazy commits, and the storage receives whole pages and whole segments.
#[test]
fn the_load_has_its_shape() {
    // The shares are those of the mix as long as the file has room for insertions, however fast the machine is.
    let shape = Shape { pages: 1 << 17, ..Shape::of(20_000, 4 << 20, 1 << 20) };
    let [file, log] = [shape.file_bytes(), shape.log_bytes()]
        .map(|bytes| Arc::new(Recorder::new(Arc::new(MemoryDevice::new(bytes, Sectors::SMALL)))));
    let database = [Database::create(on(file.clone()), on(log.clone()), 3, shape).unwrap()];
    let before = [&file, &log].map(|recorder| recorder.traffic());
    let times = [Duration::ZERO, Duration::from_millis(1500)];
    let done = load::run(&database, shape.records, MIX, 8, times, 1, &|| false).unwrap();
    assert!(database[0].has_room());
    let [of_file, of_log] =
        [(&file, &before[0]), (&log, &before[1])].map(|(recorder, before)| recorder.traffic().since(before));
    let all = (done.inserts + done.deletes + done.replaces + done.seeks) as f64;
    let share = |count: u64| count as f64 / all * 100.0;
    assert!(all > 500.0, "{all} operations");
    for (name, count, percent) in [
        ("insert", done.inserts, 40.0),
        ("delete", done.deletes, 20.0),
        ("replace", done.replaces, 5.0),
        ("seek", done.seeks, 35.0),
    ] {
        assert!((share(count) - percent).abs() < 6.0, "{name}: {} %", share(count));
    }
    let changes = (done.inserts + done.deletes + done.replaces) as f64;
    assert!((done.lazy as f64 / changes - 0.7).abs() < 0.08, "{} of {changes}", done.lazy);
    let (reads, writes) = (&done.database.reads, &done.database.writes);
    assert_eq!(reads.bytes, reads.count * PAGE as u64);
    // The writes are pages, with an occasional head of 4 KiB.
    assert!(writes.bytes <= writes.count * PAGE as u64 && writes.bytes > writes.count * 30_000);
    assert!(done.log.writes.bytes.is_multiple_of(4096) && done.log.writes.count > 0);
    assert!(done.database.maintenance.count > 0);
    // Threads share groups of the log, so there are not many more log writes than commits that wait.
    let waiting = changes - done.lazy as f64;
    assert!((done.log.writes.count as f64) < waiting * 1.5, "{} writes", done.log.writes.count);
    // The devices saw all counted transfers, and some more that came after the count ended.
    assert!(of_file.write.count >= writes.count && of_file.flushes >= writes.count);
    assert!(of_log.write.count >= done.log.writes.count);
}

/// With many threads, a small cache and a log that wraps around, the tree is intact before and after a stop.
#[test]
fn many_threads_leave_a_whole_tree() {
    let shape = Shape { cache: 96, ..Shape::of(6_000, 0, 256 << 10) };
    let device = memory(&shape);
    let [file, log] = halves(device.clone(), &shape);
    let database = [Database::create(file, log, 5, shape).unwrap()];
    let mix = Mix { lazy: 95, ..MIX };
    let times = [Duration::ZERO, Duration::from_millis(1500)];
    let done = load::run(&database, shape.records, mix, 16, times, 2, &|| false).unwrap();
    assert!(done.inserts > 200 && done.database.reads.count > 100);
    let [database] = database;
    database.log.flush(database.log.end()).unwrap();
    let there = content(&database);
    drop(database);
    let [file, log] = halves(device, &shape);
    assert_eq!(content(&Database::open(file, log, shape).unwrap()), there);
}

#[test]
fn damage_is_told() {
    let shape = small();
    let device = memory(&shape);
    let open = || {
        let [file, log] = halves(device.clone(), &shape);
        Database::open(file, log, shape).map(|database| database.all().map(drop))
    };
    let [file, log] = halves(device.clone(), &shape);
    Database::create(file, log, 5, shape).unwrap().close().unwrap();
    open().unwrap().unwrap();
    // Page 4, a leaf, has one damaged place and one that was never written.
    let at = (64 << 10) + 3 * 2 * PAGE as u64;
    device.write_at(at + 512, &[7; 512]).unwrap();
    assert!(open().unwrap().unwrap_err().to_string().contains("page 4: neither of its places"));
    device.write_at(0, &[0; 8192]).unwrap();
    assert!(open().err().unwrap().to_string().contains("head"));
    // Random bytes decode to nothing, or to a change that encodes to the same length, and never cause a panic.
    let mut rng = Rng::with_seed(3);
    let mut bytes = vec![0; 4096];
    for _ in 0..2_000 {
        rng.fill(&mut bytes);
        bytes[..4].copy_from_slice(&rng.u32(..5000).to_le_bytes());
        bytes[4..12].copy_from_slice(&rng.u64(..6).to_le_bytes());
        let decoded = super::change::Change::decode(&bytes);
        assert!(decoded.is_none_or(|(change, length)| change.encode().len() == length));
    }
}

const KILLED: &str = "PLATTER_KILLED_DATABASE";

/// Opens the database on the volume in an image file.
fn in_image(path: &Path, shape: Shape, is_new: bool) -> Database {
    let device = Arc::new(FileDevice::open(path, FileOptions::default()).unwrap());
    let system = platter_formats::open(device, OpenOptions::default()).unwrap();
    let [file, log] = ["db", "log"].map(|name| {
        let node = match is_new {
            true => system.create(Node::ROOT, &Name::from(name), Kind::File).unwrap(),
            false => system.lookup(Node::ROOT, &Name::from(name)).unwrap(),
        };
        Store::new(Subject::File { system: system.clone(), node })
    });
    match is_new {
        true => {
            let database = Database::create(file, log, 5, shape).unwrap();
            system.sync_all().unwrap();
            database
        }
        false => Database::open(file, log, shape).unwrap(),
    }
}

/// A child process that changes a database until it is killed, and prints which changes it has committed.
#[test]
#[ignore = "a process of the tests that kill it"]
fn a_process_that_is_killed() {
    let Ok(image) = std::env::var(KILLED) else { return };
    let (image, seed) = image.split_once('@').unwrap();
    let database = in_image(Path::new(image), small(), false);
    let mut model = content(&database);
    let mut rng = Rng::with_seed(seed.parse().unwrap());
    println!("committed 0");
    for number in 1..1_000_000u64 {
        let position = change(&mut rng, number + 1, &database, &mut model).unwrap();
        if number % 3 == 0 {
            database.log.flush(position).unwrap();
            println!("committed {number}");
        }
        if number % 8 == 0 {
            database.checkpoint().unwrap();
        }
        // Deletes records beyond a limit, as the database would become full otherwise.
        if model.len() > 600 {
            let key = *model.keys().next().unwrap();
            model.remove(&key);
            database.delete(key).unwrap();
        }
    }
}

/// Kills a process that changes a database `times` times, and checks the database each time.
fn killed(format: &str, times: u64) {
    let here = tempfile::tempdir().unwrap();
    let image = here.path().join("disk.img");
    let device = FileDevice::create(&image, 640 << 20, FileOptions::default()).unwrap();
    let format = platter_formats::by_name(format).unwrap();
    format.make(&device, &FormatOptions::default(), &Silent).unwrap();
    drop(device);
    let mut state = content(&in_image(&image, small(), true));
    let mut changes = 0;
    for round in 0..times {
        let name = "jetstress::tests::a_process_that_is_killed";
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name, "--ignored", "--nocapture", "--test-threads=1"])
            .env(KILLED, format!("{}@{round}", image.display()))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(process.stdout.take().unwrap()).lines().map(|line| line.unwrap());
        let is_ready = said.any(|line| line.contains("committed 0"));
        assert!(is_ready, "round {round}: the database could not be opened");
        // The process is killed after some commits, however slow the machine is, and then at any moment of the next
        // ones.
        let number = |line: String| line.strip_prefix("committed ")?.parse::<u64>().ok();
        let mut numbers = said.filter_map(number);
        let seen = numbers.by_ref().take(round as usize % 8).last().unwrap_or(0);
        std::thread::sleep(Duration::from_micros(round * 7919 % 20_000));
        process.kill().unwrap();
        process.wait().unwrap();
        let committed = numbers.last().unwrap_or(seen);
        let found = content(&in_image(&image, small(), false));
        // The same changes are made on the model: one of its states from the last commit on must equal the database.
        let mut rng = Rng::with_seed(round);
        let mut is_one = committed == 0 && state == found;
        for number in 1..=committed + 40 {
            if is_one {
                break;
            }
            draw(&mut rng, number + 1, &mut state);
            is_one = number >= committed && state == found;
            if state.len() > 600 {
                let key = *state.keys().next().unwrap();
                state.remove(&key);
                is_one |= number >= committed && state == found;
            }
        }
        assert!(is_one, "round {round}: nothing after change {committed} looks like this");
        changes += committed;
        state = found;
    }
    assert!(changes > times, "{changes} changes in {times} rounds");
    println!("{changes} changes were committed before {times} kills");
}

#[test]
fn a_database_is_whole_after_its_process_was_killed() {
    killed("ntfs", 3);
}

#[test]
#[ignore = "a campaign of minutes"]
fn a_database_is_whole_after_200_kills() {
    killed("ntfs", 100);
    killed("refs+integrity", 100);
}

/// Asks to end as soon as a stage begins whose name has this part.
struct Impatient(&'static str, std::sync::atomic::AtomicBool);

impl crate::Observer for Impatient {
    fn stage(&self, what: &str, _done: Duration, _total: Duration) {
        self.1.fetch_or(what.contains(self.0), std::sync::atomic::Ordering::Relaxed);
    }
    fn result(&self, _target: &str, _workload: &str, _case: &str, _iops: f64, _mb_per_s: f64) {}
    fn stop(&self) -> bool {
        self.1.load(std::sync::atomic::Ordering::Relaxed)
    }
}

#[test]
fn a_wish_to_end_is_seen_while_databases_are_made() {
    let jetstress = super::Jetstress {
        stand: crate::Stand::Memory(2 << 30),
        volumes: vec!["ntfs".parse().unwrap()],
        preset: crate::Preset::Quick,
        repeats: 1,
        time: None,
        threads: Vec::new(),
        base: None,
        discard: false,
        command: "platter run jetstress".into(),
    };
    for stage in ["making volumes", "making databases"] {
        let error = super::run(&jetstress, &Impatient(stage, false.into())).unwrap_err();
        assert!(matches!(error, crate::Error::Interrupted), "{stage}: {error}");
    }
}

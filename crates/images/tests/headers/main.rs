//! Images of every kind whose fields lie, as one finds them on the internet: whatever they say, nothing panics, memory is bounded,
//! no input takes long, and what is written is read again. A program of its own, since it is run by itself for hours.

mod extremes;
mod kinds;

use kinds::{Good, Kind};
use platter_device::{Device, FileDevice, FileOptions, PartitionTable, contents};
use platter_images::fuzzing::{Changes, mend, mend_dynamic_disk};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The most bytes that are allocated at a time while an image is used.
const MOST_MEMORY: u64 = 64 << 20;
/// The most time of the processor for one image, of which reading and writing all its disk is no part.
const MOST_TIME: Duration = Duration::from_secs(10);

/// The time that the processor has given to this thread (proc(5), `schedstat`): others that run cost no time.
fn used() -> Duration {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").expect("the time of a thread");
    Duration::from_nanos(told.split_whitespace().next().and_then(|first| first.parse().ok()).expect("a time"))
}

/// The disks in an image: one, or the volumes of a group of dynamic disks.
fn disks(good: &Good, folder: &Path, read_only: bool) -> platter_device::Result<Vec<Arc<dyn Device>>> {
    let options = FileOptions { read_only, ..FileOptions::default() };
    if good.kind != Kind::Dynamic {
        return Ok(vec![platter_images::open(&folder.join(&good.files[0].0), options)?.device]);
    }
    let open = |(name, _): &(String, _)| {
        FileDevice::open(folder.join(name), options).map(|file| Arc::new(file) as _)
    };
    let group = platter_images::disk_group(good.files.iter().map(open).collect::<Result<_, _>>()?)?;
    Ok((1..=group.volumes.len().min(4) as u32).filter_map(|number| group.open(Some(number)).ok()).collect())
}

/// Reads from places all over a disk, and writes to some.
fn exercise(disk: &dyn Device, changes: &mut Changes) {
    let _ = (contents(disk), PartitionTable::read(disk), disk.why_read_only());
    let sector = u64::from(disk.sectors().logical);
    let sectors = disk.len() / sector;
    let mut buffer = vec![0; 64 << 10];
    for part in 0..12 {
        let at = match part {
            0 => 0,
            1 => sectors.saturating_sub(16),
            part => sectors / 12 * part,
        } * sector;
        let length = (buffer.len() as u64).min(disk.len() - at) / sector * sector;
        let buffer = &mut buffer[..length as usize];
        let _ = disk.read_at(at, buffer);
        if part % 4 == 0 {
            let _ = disk.next_data(at);
        }
        let written = vec![part as u8 + 1; buffer.len().min(4096)];
        if !disk.read_only() && changes.below(3) == 0 && disk.write_at(at, &written).is_ok() {
            let mut found = vec![0xEE; written.len()];
            disk.read_at(at, &mut found).expect("what was written is read");
            assert!(found == written, "other bytes than were written at {at}");
        }
    }
    let _ = disk.flush();
}

/// Puts the files of an image on a directory, one of them with changes.
fn put(good: &Good, folder: &Path, changes: &mut Changes) {
    let changed = if changes.below(3) == 0 { changes.below(good.files.len()) } else { 0 };
    let is_mended = changes.below(4) > 0;
    for (number, (name, file)) in good.files.iter().enumerate() {
        let path = folder.join(name);
        if number != changed {
            file.write(&path, &file.bytes, file.length).unwrap();
            continue;
        }
        let content = changes.content(file);
        file.write(&path, &content, changes.length(file.length)).unwrap();
        let options = FileOptions { bytewise: true, ..FileOptions::default() };
        if is_mended && let Ok(file) = FileDevice::open(&path, options) {
            match good.kind {
                Kind::In(container) => mend(&file, container),
                Kind::Dynamic => mend_dynamic_disk(&file),
                Kind::Split => {}
            }
        }
    }
}

/// What the inputs of a kind cost at most.
#[derive(Default)]
struct Most {
    memory: u64,
    time: Duration,
    opened: u64,
}

/// One image that lies, used for reading and, where that is allowed, for writing.
fn run(goods: &[Good], folder: &Path, seed: u64, most: &mut Most) {
    let mut changes = Changes::new(seed);
    let good = &goods[changes.below(goods.len())];
    put(good, folder, &mut changes);
    let mut is_opened = false;
    let before = used();
    let use_it = || {
        for read_only in [true, false] {
            let Ok(disks) = disks(good, folder, read_only) else { continue };
            is_opened = true;
            disks.iter().for_each(|disk| exercise(&**disk, &mut changes));
        }
    };
    let outcome = catch_unwind(AssertUnwindSafe(|| allocation_counter::measure(use_it).bytes_max));
    let what = || format!("{}, PLATTER_SEED={seed}", good.name);
    let memory = outcome.unwrap_or_else(|panic| {
        println!("{} panics", what());
        resume_unwind(panic)
    });
    let time = used() - before;
    assert!(memory < MOST_MEMORY, "{}: {memory} bytes of memory", what());
    assert!(time < MOST_TIME, "{}: {time:?}", what());
    most.memory = most.memory.max(memory);
    most.time = most.time.max(time);
    most.opened += u64::from(is_opened);
}

/// The input that is used, for messages on one that does not end.
static SEED: AtomicU64 = AtomicU64::new(0);

/// Ends the process if an input takes minutes.
fn watch() {
    let mut last = (u64::MAX, Instant::now());
    loop {
        std::thread::sleep(Duration::from_secs(1));
        let seed = SEED.load(Ordering::Relaxed);
        if last.0 != seed {
            last = (seed, Instant::now());
        }
        if last.1.elapsed() > Duration::from_secs(300) {
            eprintln!("PLATTER_SEED={seed} does not end");
            std::process::exit(1);
        }
    }
}

/// Runs inputs of a kind from a seed on, as long as `goes_on` says of their number.
fn inputs(kind: &str, first: u64, goes_on: impl Fn(u64) -> bool) {
    let folder = kinds::Place::new(kind);
    let goods = kinds::good(kind);
    let mut most = Most::default();
    let mut count = 0;
    while goes_on(count) {
        let seed = first.wrapping_add(count);
        SEED.store(seed, Ordering::Relaxed);
        run(&goods, &folder.0, seed, &mut most);
        count += 1;
    }
    let Most { memory, time, opened } = most;
    println!(
        "{kind}: {count} inputs from PLATTER_SEED={first} on, {opened} of them opened, at most {} KiB and {time:?}",
        memory >> 10
    );
    assert!(opened * 20 > count, "{kind}: most inputs are refused at once");
}

#[test]
fn headers_that_lie_cost_little_and_are_errors() {
    std::thread::spawn(watch);
    for kind in kinds::KINDS {
        inputs(kind, 1, |count| count < 60);
    }
}

/// `PLATTER_SECONDS` is the time for each kind, `PLATTER_KIND` one of them, and `PLATTER_SEED` the first input.
#[test]
#[ignore = "a campaign"]
fn campaign_of_headers_that_lie() {
    std::thread::spawn(watch);
    let given = |name| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    let seconds = given("PLATTER_SECONDS").unwrap_or(1800);
    let wanted = std::env::var("PLATTER_KIND").ok();
    for kind in kinds::KINDS.into_iter().filter(|kind| wanted.as_ref().is_none_or(|wanted| wanted == kind)) {
        let end = Instant::now() + Duration::from_secs(seconds);
        inputs(kind, given("PLATTER_SEED").unwrap_or(1 << 32), |_| Instant::now() < end);
    }
}

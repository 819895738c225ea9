//! How much of its speed does a volume keep when a file that fills nine tenths of it is overwritten at random again and
//! again?
//!
//!     cargo run --release -p platterfs-lab --example overwrite -- PATH [--times N] [--format NAME]
//!
//! PATH is a block device or a file; **its content is overwritten**. A volume is made on it (ReFS with integrity unless
//! a format is named), and a file that takes nine tenths of its space is written and read in order. Then 4 KiB blocks
//! are written at random (4 workers with 16 in flight each, as in the published comparisons in which volumes froze)
//! until N times (20) the file's size is written. The program prints the seconds without progress, the throughput of
//! each tenth, the free space before and after, and how fast the file is read in order, both at once and after a pause
//! in which the volume may defragment it.

use platter_device::{Caching, Device, FileDevice, FileOptions};
use platter_lab::{Durability, Job, Measured, Pattern, Stop, Subject, prepare, run};
use platter_vfs::{FileSystem, FormatOptions, Kind, Name, Node, OpenOptions, Silent};
use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

const BLOCK: u32 = 4096;
const PIECE: u32 = 1 << 20;

fn main() -> ExitCode {
    match measure() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("overwrite: {error}");
            ExitCode::from(8)
        }
    }
}

fn measure() -> Result<bool, Box<dyn Error>> {
    let (mut path, mut times, mut format) = (None, 20, "refs+integrity".to_string());
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
        match argument.as_str() {
            "--times" => times = value()?.parse()?,
            "--format" => format = value()?,
            _ => path = Some(argument),
        }
    }
    let path = path.ok_or("which PATH? its content is overwritten")?;
    let format = platter_formats::by_name(&format).ok_or(format!("no format {format}"))?;
    let options = FileOptions { caching: Caching::Direct, exclusive: true, ..FileOptions::default() };
    let device: Arc<dyn Device> = Arc::new(FileDevice::open(std::path::Path::new(&path), options)?);
    device.discard(0, device.len())?;
    format.make(&*device, &FormatOptions::default(), &Silent)?;
    let system: Arc<dyn FileSystem> = format.open(device, OpenOptions::default())?;
    let node = system.create(Node::ROOT, &Name::from("file"), Kind::File)?;
    let subject = Subject::File { system: system.clone(), node };
    let space = system.space()?;
    let size = space.free * space.cluster / 10 * 9 / u64::from(PIECE) * u64::from(PIECE);
    println!(
        "{}: a file of {} MiB on {} MiB",
        system.info()?.format,
        size >> 20,
        (space.total * space.cluster) >> 20
    );
    prepare(&subject, &(0..size), 8664, &mut |_, _| {})?;
    subject.sync()?;
    system.sync_all()?;
    let free = system.space()?.free;
    let fresh = read_in_order(&subject, size)?;
    println!("read in order when fresh: {fresh:.0} MB/s");

    let mut speeds = Vec::new();
    let (mut stalls, mut longest) = (0u64, 0.0f64);
    for tenth in 0..10 {
        let count = size / u64::from(BLOCK) * times / 10;
        let measured = run(&subject, &job(size, BLOCK, 0, 100, (4, 16), Stop::Count(count), tenth), &())?;
        let worst = measured.latencies().max() as f64 / 1e6;
        stalls += measured.stalled;
        longest = longest.max(worst);
        speeds.push(speed(&measured));
        println!("tenth {}: {:.0} MB/s, longest write {worst:.0} ms", tenth + 1, speeds[tenth as usize]);
    }
    let before_sync = Instant::now();
    system.sync_all()?;
    println!("sync: {:.0} ms", before_sync.elapsed().as_secs_f64() * 1e3);
    let left = system.space()?.free;
    println!("free clusters: {free} before, {left} after");
    println!("the file lies in {} extents", system.extents(node)?.len());
    let at_once = read_in_order(&subject, size)?;
    println!("read in order at once: {at_once:.0} MB/s, {:.2} of fresh", at_once / fresh);
    let mut later = at_once;
    let waiting = Instant::now();
    while waiting.elapsed() < Duration::from_secs(60) && later < 0.9 * fresh {
        std::thread::sleep(Duration::from_secs(5));
        later = read_in_order(&subject, size)?;
        println!(
            "after {:.0} s: {later:.0} MB/s, {:.2} of fresh",
            waiting.elapsed().as_secs_f64(),
            later / fresh
        );
    }
    println!("the file lies in {} extents", system.extents(node)?.len());
    let last = speeds[9] / speeds[0];
    println!(
        "last tenth {last:.2} of the first; {stalls} seconds without progress; longest write {longest:.0} ms"
    );
    system.unmount()?;
    Ok(stalls == 0 && last >= 0.8 && free.abs_diff(left) <= 256 && later >= 0.5 * fresh)
}

fn speed(measured: &Measured) -> f64 {
    measured.bytes() as f64 / measured.elapsed.as_secs_f64() / 1e6
}

fn read_in_order(subject: &Subject, size: u64) -> Result<f64, Box<dyn Error>> {
    let count = size / u64::from(PIECE);
    Ok(speed(&run(subject, &job(size, PIECE, 100, 0, (1, 8), Stop::Count(count), 0), &())?))
}

fn job(
    size: u64,
    block: u32,
    read: u8,
    random: u8,
    (workers, depth): (u32, u32),
    stop: Stop,
    seed: u64,
) -> Job {
    Job {
        pattern: Pattern {
            block,
            read_percent: read,
            random_percent: random,
            queue_depth: depth,
            workers,
            align: 0,
            own_span: false,
            ..Pattern::default()
        },
        range: 0..size,
        seed: 8664 + seed,
        ramp_up: Duration::ZERO,
        stop,
        durability: Durability::Direct,
        verify: false,
        touch: false,
        interval: Duration::from_secs(1),
    }
}

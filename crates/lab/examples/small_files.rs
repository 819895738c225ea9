//! How fast are many small files made, listed with their attributes, and removed: directly in Platter, and through the
//! mount of a FUSE driver?
//!
//!     cargo run --release -p platterfs-lab --example small_files -- IMAGE FORMAT [--count N] [--rounds N]
//!         [--peer 'ntfs-3g IMAGE DIR']
//!
//! IMAGE is made anew for each run (8 GiB, sparse). Files of 1 KiB (100,000) go into directories of 1,000. Both sides
//! write through the page cache, and each phase ends when all data is on the storage. The runs alternate (3 rounds);
//! the program prints the medians of files per second and their ratio. `IMAGE` and `DIR` in the command of the peer are
//! replaced by the image and the directory to mount it on; the command must return when the image is mounted.
//!
//! The cost of a request through the kernel is measured too: lookups of names that do not exist, in an empty directory,
//! one request each. A file takes about five requests to make (lookup, create, write, flush, release), one to list, one
//! to remove.

use platter_device::{Device, FileDevice, FileOptions};
use platter_lab::statistics::median;
use platter_vfs::{Cursor, FileSystem, Format, FormatOptions, Kind, Name, Node, OpenOptions, Silent};
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::{Duration, Instant};

const BYTES: u64 = 8 << 30;
const IN_EACH: u64 = 1000;
const CONTENT: [u8; 1024] = [0x5A; 1024];
const PHASES: [(&str, f64); 3] = [("made", 5.0), ("listed", 1.0), ("removed", 1.0)];
const LOOKUPS: u32 = 20_000;

/// Seconds of each phase.
type Times = [f64; 3];
type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> ExitCode {
    match measure() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("small_files: {error}");
            ExitCode::from(8)
        }
    }
}

fn measure() -> Outcome<()> {
    let (mut paths, mut count, mut rounds, mut peer) = (Vec::new(), 100_000, 3, None);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
        match argument.as_str() {
            "--count" => count = value()?.parse()?,
            "--rounds" => rounds = value()?.parse()?,
            "--peer" => peer = Some(value()?),
            _ => paths.push(argument),
        }
    }
    let [image, format] = &paths[..] else {
        return Err("which IMAGE and FORMAT? the image is made anew".into());
    };
    let format = platter_formats::by_name(format).ok_or(format!("no format {format}"))?;
    let image = Path::new(image);
    let (mut ours, mut theirs, mut trips) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        ours.push(here(format, image, count)?);
        if let Some(command) = &peer {
            let (times, trip) = mounted(format, image, count, command)?;
            theirs.push(times);
            trips.push(trip);
        }
    }
    fs::remove_file(image)?;
    println!("{count} files of {} bytes, files a second, medians of {rounds}", CONTENT.len());
    for (phase, (what, requests)) in PHASES.iter().enumerate() {
        let rate =
            |all: &[Times]| count as f64 / median(&all.iter().map(|times| times[phase]).collect::<Vec<_>>());
        print!("{what:>8}: {} {:>9.0}", format.name(), rate(&ours));
        if theirs.is_empty() {
            println!();
            continue;
        }
        // The share of the peer's time for each file that its requests through the kernel take.
        let share = requests * median(&trips) * rate(&theirs);
        println!(
            ", peer {:>9.0}, ratio {:.1}; about {:.0} % of the peer's time is requests of {:.1} µs",
            rate(&theirs),
            rate(&ours) / rate(&theirs),
            100.0 * share.min(1.0),
            1e6 * median(&trips)
        );
    }
    Ok(())
}

fn volume(format: &dyn Format, image: &Path) -> Outcome<Arc<dyn Device>> {
    if image.exists() {
        fs::remove_file(image)?;
    }
    let device: Arc<dyn Device> = Arc::new(FileDevice::create(image, BYTES, FileOptions::default())?);
    format.make(&*device, &FormatOptions::default(), &Silent)?;
    device.flush()?;
    Ok(device)
}

fn directory_name(file: u64) -> String {
    format!("directory {}", file / IN_EACH)
}

fn file_name(file: u64) -> String {
    format!("small file {file}.txt")
}

/// Seconds that each phase takes.
fn timed(phases: [&mut dyn FnMut() -> Outcome<()>; 3]) -> Outcome<Times> {
    let mut times = Times::default();
    for (phase, time) in phases.into_iter().zip(&mut times) {
        let start = Instant::now();
        phase()?;
        *time = start.elapsed().as_secs_f64();
    }
    Ok(times)
}

fn here(format: &dyn Format, image: &Path, count: u64) -> Outcome<Times> {
    let system = format.open(volume(format, image)?, OpenOptions::default())?;
    let system: &dyn FileSystem = &*system;
    let times = timed([
        &mut || {
            let mut directory = Node::ROOT;
            for file in 0..count {
                if file % IN_EACH == 0 {
                    directory =
                        system.create(Node::ROOT, &Name::from(&*directory_name(file)), Kind::Directory)?;
                }
                let node = system.create(directory, &Name::from(&*file_name(file)), Kind::File)?;
                system.write(node, 0, &CONTENT)?;
                system.forget(node, 1);
            }
            Ok(system.sync_all()?)
        },
        &mut || {
            let mut seen = 0;
            for first in (0..count).step_by(IN_EACH as usize) {
                let directory = system.lookup(Node::ROOT, &Name::from(&*directory_name(first)))?;
                let mut entries = Vec::new();
                system.read_directory(directory, Cursor::START, usize::MAX, &mut entries)?;
                seen += entries.iter().filter(|entry| entry.attributes.size == CONTENT.len() as u64).count()
                    as u64;
            }
            if seen == count { Ok(()) } else { Err(format!("{seen} of {count} files are listed").into()) }
        },
        &mut || {
            for first in (0..count).step_by(IN_EACH as usize) {
                let name = Name::from(&*directory_name(first));
                let directory = system.lookup(Node::ROOT, &name)?;
                for file in first..(first + IN_EACH).min(count) {
                    system.unlink(directory, &Name::from(&*file_name(file)))?;
                }
                system.rmdir(Node::ROOT, &name)?;
            }
            Ok(system.sync_all()?)
        },
    ])?;
    system.unmount()?;
    Ok(times)
}

/// Runs the phases through a mount; returns their times, and the seconds that one request takes.
fn mounted(format: &dyn Format, image: &Path, count: u64, command: &str) -> Outcome<(Times, f64)> {
    drop(volume(format, image)?);
    let mount = Mount::new(command, image)?;
    let root = &mount.directory;
    let times = timed([
        &mut || {
            for file in 0..count {
                let directory = root.join(directory_name(file));
                if file % IN_EACH == 0 {
                    fs::create_dir(&directory)?;
                }
                fs::write(directory.join(file_name(file)), CONTENT)?;
            }
            sync(root)
        },
        &mut || {
            let mut seen = 0;
            for first in (0..count).step_by(IN_EACH as usize) {
                for entry in fs::read_dir(root.join(directory_name(first)))? {
                    seen += u64::from(entry?.metadata()?.len() == CONTENT.len() as u64);
                }
            }
            if seen == count { Ok(()) } else { Err(format!("{seen} of {count} files are listed").into()) }
        },
        &mut || {
            for first in (0..count).step_by(IN_EACH as usize) {
                let directory = root.join(directory_name(first));
                for file in first..(first + IN_EACH).min(count) {
                    fs::remove_file(directory.join(file_name(file)))?;
                }
                fs::remove_dir(&directory)?;
            }
            sync(root)
        },
    ])?;
    let empty = root.join("empty");
    fs::create_dir(&empty)?;
    let start = Instant::now();
    for number in 0..LOOKUPS {
        if empty.join(number.to_string()).exists() {
            return Err("an empty directory has entries".into());
        }
    }
    Ok((times, start.elapsed().as_secs_f64() / f64::from(LOOKUPS)))
}

fn sync(root: &Path) -> Outcome<()> {
    run(Command::new("sync").arg("--file-system").arg(root))
}

fn run(command: &mut Command) -> Outcome<()> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr)).into()),
    }
}

/// A mount, which is unmounted when dropped.
struct Mount {
    directory: PathBuf,
}

impl Mount {
    fn new(command: &str, image: &Path) -> Outcome<Mount> {
        let directory = std::env::temp_dir().join(format!("platter-small-files-{}", std::process::id()));
        fs::create_dir_all(&directory)?;
        let mut words = command.split_whitespace().map(|word| match word {
            "IMAGE" => image.as_os_str().to_owned(),
            "DIR" => directory.as_os_str().to_owned(),
            word => word.into(),
        });
        run(Command::new(words.next().ok_or("--peer is empty")?).args(words))?;
        Ok(Mount { directory })
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let unmount = || run(Command::new("umount").arg(&self.directory));
        // The driver may still write for a moment.
        let mut ended = unmount();
        for _ in 0..50 {
            if ended.is_ok() {
                break;
            }
            std::thread::sleep(Duration::from_millis(100));
            ended = unmount();
        }
        if let Err(error) = ended.and_then(|()| Ok(fs::remove_dir(&self.directory)?)) {
            eprintln!("small_files: {error}");
        }
    }
}

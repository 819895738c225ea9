//! A crowd of real threads on one volume of each format.
//!
//! The campaign (`cargo xtask campaign threads`) runs 64 threads for ten minutes on each format, on a loop device and
//! on a mirror of two: it needs root and the programs `losetup` and `truncate`. `PLATTER_SECONDS` sets another time,
//! and `PLATTER_CROWD` the places: `loop`, `mirror` and `memory`, separated by commas. `PLATTER_VOLUME` is one of the
//! kinds alone, as in [`KINDS`].

use platter_device::{Device, FileDevice, FileOptions, MemoryDevice, Mirror, Sectors};
use platter_formats::by_name;
use platter_testing::crowd::{Crowd, gather};
use platter_vfs::{FormatOptions, Silent};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

/// The kinds of volume: a format, and "toggled" if integrity is turned on and off meanwhile.
const KINDS: [&str; 6] = ["fat32", "exfat", "ntfs", "refs", "refs+integrity", "refs toggled"];

const SIZE: u64 = 1 << 30;

fn run(kind: &str, crowd: &Crowd, device: &Arc<dyn Device>) {
    let toggled = kind.strip_suffix(" toggled");
    let format = by_name(toggled.unwrap_or(kind)).expect("registered");
    let options = FormatOptions { serial: Some(1), ..FormatOptions::default() };
    format.make(&**device, &options, &Silent).unwrap();
    let crowd = Crowd { toggles: toggled.is_some(), ..crowd.clone() };
    match gather(&crowd, format, device) {
        Ok(done) => eprintln!("{kind}: {done} operations of {} threads", crowd.threads),
        Err(wrong) => panic!("{kind}, {crowd:?}: {wrong}"),
    }
}

/// Twelve threads, for a second and a half on each format.
#[test]
fn every_thread_finds_what_it_wrote() {
    let round = Duration::from_millis(750);
    let crowd =
        Crowd { threads: 12, lasts: 2 * round, round, toggles: false, seed: platter_testing::model::seed() };
    for kind in KINDS {
        let device: Arc<dyn Device> = Arc::new(MemoryDevice::new(SIZE, Sectors::SMALL));
        run(kind, &crowd, &device);
    }
}

/// A loop device over a file in memory, detached when this is dropped.
struct Loop {
    device: String,
    file: PathBuf,
}

/// Runs a program that must succeed; returns what it printed.
fn output(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    let output = output.unwrap_or_else(|error| panic!("{program}, which this needs: {error}"));
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_string()
}

impl Loop {
    fn new(number: usize) -> Loop {
        let file = PathBuf::from(format!("/dev/shm/platter-crowd-{}-{number}", std::process::id()));
        let path = file.to_str().expect("it is text");
        output("truncate", &["--size", &SIZE.to_string(), path]);
        let device = output("losetup", &["--find", "--show", "--direct-io=off", path]);
        Loop { device, file }
    }

    fn open(&self) -> Arc<dyn Device> {
        Arc::new(FileDevice::open(&self.device, FileOptions::default()).unwrap())
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let detached = Command::new("losetup").args(["--detach", &self.device]).status();
        let removed = std::fs::remove_file(&self.file);
        if !detached.is_ok_and(|status| status.success()) || removed.is_err() {
            eprintln!("{} on {} was left behind", self.device, self.file.display());
        }
    }
}

#[test]
#[ignore = "a campaign: takes two hours, and needs root"]
fn every_thread_finds_what_it_wrote_for_ten_minutes() {
    let seconds = std::env::var("PLATTER_SECONDS").map_or(600, |text| text.parse().expect("seconds"));
    let places = std::env::var("PLATTER_CROWD").unwrap_or_else(|_| "loop,mirror".into());
    let crowd = Crowd {
        threads: 64,
        lasts: Duration::from_secs(seconds),
        round: Duration::from_secs(20),
        toggles: false,
        seed: platter_testing::model::seed(),
    };
    let only = std::env::var("PLATTER_VOLUME").ok();
    let kinds: Vec<_> =
        KINDS.into_iter().filter(|kind| only.as_deref().is_none_or(|only| only == *kind)).collect();
    assert!(!kinds.is_empty(), "{only:?} is none of {KINDS:?}");
    for kind in kinds {
        for place in places.split(',') {
            eprintln!("{kind} on {place}, seed {}", crowd.seed);
            match place {
                "memory" => {
                    let device: Arc<dyn Device> = Arc::new(MemoryDevice::new(SIZE, Sectors::SMALL));
                    run(kind, &crowd, &device);
                }
                "loop" => run(kind, &crowd, &Loop::new(0).open()),
                "mirror" => {
                    let copies = [Loop::new(0), Loop::new(1)];
                    let mirror = Mirror::new(copies.iter().map(Loop::open).collect()).unwrap();
                    let mirror: Arc<dyn Device> = Arc::new(mirror);
                    run(kind, &crowd, &mirror);
                    drop(mirror);
                    output("cmp", &[&copies[0].device, &copies[1].device]);
                }
                other => panic!("{other}: the places are loop, mirror and memory"),
            }
        }
    }
}

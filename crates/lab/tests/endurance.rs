//! An endurance run of seconds: after a stop, a kill and a resume it continues where it was.

use platter_lab::endurance::{COLUMNS, Endurance, Goal, Record, html, resume, summary};
use platter_lab::{Observer, Pattern, Target};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

const BLOCK: u64 = 4096;

fn endurance(device: &Path, target: &str, seconds: f64) -> Endurance {
    std::fs::File::create(device).unwrap().set_len(64 << 20).unwrap();
    Endurance {
        device: device.into(),
        force: false,
        target: Target::parse(target).unwrap(),
        full_percent: 90,
        pattern: Pattern {
            block: BLOCK as u32,
            random_percent: 100,
            workers: 2,
            queue_depth: 4,
            ..Pattern::default()
        },
        seed: 8664,
        sample: Duration::from_millis(100),
        goal: Goal { seconds: Some(seconds), volumes: None },
        command: "platter endurance".into(),
    }
}

/// Asks to end when it was called a certain number of times since the load began.
struct Impatient(AtomicU32, u32);

impl Impatient {
    fn after(asked: u32) -> Impatient {
        Impatient(AtomicU32::new(0), asked)
    }
}

impl Observer for Impatient {
    fn stage(&self, what: &str, _done: Duration, _total: Duration) {
        if what.starts_with("writing the ") {
            self.0.store(0, Relaxed);
        }
    }
    fn result(&self, _target: &str, _workload: &str, _case: &str, _iops: f64, _mb_per_s: f64) {}
    fn stop(&self) -> bool {
        self.0.fetch_add(1, Relaxed) >= self.1
    }
}

fn place() -> (tempfile::TempDir, PathBuf, PathBuf) {
    let place = tempfile::tempdir().unwrap();
    let (device, out) = (place.path().join("disk.img"), place.path().join("run"));
    (place, device, out)
}

/// The page of a run of half a second.
pub(crate) fn page() -> String {
    let (_place, device, out) = place();
    let record = endurance(&device, "ntfs", 0.5).begin(&out, &Impatient::after(u32::MAX)).unwrap();
    html(&record)
}

/// The samples are consistent with the run: whole blocks, times without gaps, and a volume as full as was asked for.
fn assert_sound(record: &Record) {
    let mut at = 0.0;
    for sample in &record.samples {
        assert!((sample.at - at).abs() < 0.002, "{sample:?} does not begin at {at}");
        at = sample.at + sample.seconds;
        assert_eq!((sample.reads, sample.written), (0, sample.writes * BLOCK), "{sample:?}");
        assert!(sample.device_written >= sample.written, "{sample:?}");
        assert!(sample.p50_us <= sample.p99_us && sample.p99_us <= sample.max_us, "{sample:?}");
    }
    if let Some(free) = record.samples.first().and_then(|sample| sample.free) {
        let total = record.plan.volume_bytes as f64;
        assert!((0.08..0.11).contains(&(free as f64 / total)), "{free} of {total} are free");
        assert!(record.samples[0].pieces.is_some_and(|pieces| pieces > 0));
    }
}

#[test]
fn a_run_that_was_stopped_goes_on() {
    let (_place, device, out) = place();
    let record = endurance(&device, "ntfs", 0.8).begin(&out, &Impatient::after(3)).unwrap();
    assert_sound(&record);
    let before = record.samples.len();
    assert!(record.seconds() < 0.7 && before > 0, "{before} samples");
    assert_eq!(record.plan.ended.as_deref(), Some("it was stopped"));
    // A killed run leaves half a line in the samples, and a plan without an end.
    let samples = out.join("samples.csv");
    let whole = std::fs::read_to_string(&samples).unwrap();
    std::fs::write(&samples, format!("{whole}0,17,0.3")).unwrap();
    drop(record);
    let record = resume(&out, None, false, &()).unwrap();
    assert_sound(&record);
    assert!(record.seconds() >= 0.8 && record.seconds() < 1.5, "{}", record.seconds());
    assert_eq!(record.samples[before].part, 1);
    assert_eq!(record.plan.ended.as_deref(), Some("it reached its goal"));
    let text = summary(&record, false);
    for part in ["ntfs on ", "90 % full", "resumed once", "reached its goal", "times the volume"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let page = html(&record);
    assert!(page.contains("IOPS over time") && page.contains("Free space over time"), "{page}");
    // The run is resumed with another goal, one of written bytes.
    let goal = Goal { seconds: None, volumes: Some(record.volumes() + 0.1) };
    let longer = resume(&out, Some(goal), false, &()).unwrap();
    assert!(longer.volumes() >= goal.volumes.unwrap() && longer.samples.last().unwrap().part == 2);
    let header = std::fs::read_to_string(&samples).unwrap().lines().next().unwrap().to_string();
    assert_eq!(header, COLUMNS.join(","));
}

#[test]
fn it_goes_on_only_on_its_own_volume() {
    let (_place, device, out) = place();
    endurance(&device, "ntfs", 0.1).begin(&out, &()).unwrap();
    let error = |what: &str| {
        let error = resume(&out, Some(Goal { seconds: Some(9.0), volumes: None }), false, &()).unwrap_err();
        assert!(error.to_string().contains(what), "{error}");
    };
    let again = endurance(&device, "ntfs", 0.1).begin(&out, &()).unwrap_err().to_string();
    assert!(again.contains("--resume"), "{again}");
    endurance(&device, "ntfs", 0.1).begin(&out.join("other"), &()).unwrap();
    error("it holds volume");
    std::fs::File::create(&device).unwrap().set_len(32 << 20).unwrap();
    error("33554432 bytes, the run had 67108864");
    std::fs::remove_file(&device).unwrap();
    error("is not there");
}

#[test]
fn the_raw_device_and_what_cannot_be() {
    let (_place, device, out) = place();
    let record = endurance(&device, "raw", 0.3).begin(&out, &()).unwrap();
    assert_sound(&record);
    assert!(record.samples.iter().all(|sample| sample.pieces.is_none() && sample.free.is_none()));
    assert_eq!(record.plan.span, (64 << 20) * 90 / 100 / BLOCK * BLOCK);
    let refused = |endurance: Endurance, what: &str| {
        let error = endurance.begin(&out.join("no"), &()).unwrap_err().to_string();
        assert!(error.contains(what), "{error}");
        assert!(!out.join("no").exists());
    };
    let endless = Endurance { goal: Goal::default(), ..endurance(&device, "raw", 1.0) };
    refused(endless, "when the run is to end");
    let full = Endurance { full_percent: 1, ..endurance(&device, "ntfs", 1.0) };
    refused(full, "too small for a file");
    let directory = endurance(&device, "dir:.", 1.0);
    refused(directory, "raw device or on a volume");
}

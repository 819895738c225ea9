//! The record of an endurance run: its plan, and a line for each sample, so that the run can be resumed after any stop.

use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

/// The file with the plan, and how the run ended.
const PLAN: &str = "endurance.json";
/// The file with a line for each sample.
const SAMPLES: &str = "samples.csv";
/// The version of the format of both files.
pub const SCHEMA: &str = "platter-endurance-1";

/// When a run ends: as soon as one of the goals is reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Goal {
    /// Seconds under load, all parts of the run together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// Bytes written, as a multiple of the volume's size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volumes: Option<f64>,
}

impl Goal {
    /// How much of the goal is reached, from 0 to 1.
    pub fn share(&self, seconds: f64, volumes: f64) -> f64 {
        let parts = [(seconds, self.seconds), (volumes, self.volumes)];
        parts.into_iter().filter_map(|(done, goal)| Some(done / goal?)).fold(0.0, f64::max).min(1.0)
    }
}

/// The settings of the run, and how it ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EndurancePlan {
    /// The version of the format: [`SCHEMA`].
    pub schema: String,
    /// When the run began, RFC 3339.
    pub created: String,
    /// The version of Platter that began the run.
    pub platter_version: String,
    /// The command line that began the run.
    pub command: String,
    /// The image or block device.
    pub device: PathBuf,
    /// The size of the device in bytes.
    pub device_bytes: u64,
    /// The target, as on the command line.
    pub target: String,
    /// The volume's own identifier; empty for the raw device.
    pub identifier: String,
    /// The bytes of all clusters of the volume, or of the raw device.
    pub volume_bytes: u64,
    /// The percentage of those bytes in use when the load began.
    pub full_percent: u32,
    /// The length of the file under load in bytes.
    pub span: u64,
    /// Bytes of an I/O.
    pub block: u32,
    /// Share of reads in percent; the others are writes.
    pub read_percent: u8,
    /// Share of I/Os at random places, in percent.
    pub random_percent: u8,
    /// The number of workers, each a thread.
    pub workers: u32,
    /// The number of I/Os that each worker keeps in flight.
    pub queue_depth: u32,
    /// The seed of random places and data.
    pub seed: u64,
    /// The length of a sample in seconds.
    pub sample_seconds: f64,
    /// When the run is to end.
    pub goal: Goal,
    /// How the last part of the run ended; `None` while it runs, or if it was killed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
    /// Whether that end was a failure.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub failed: bool,
}

/// The measurements of one sample.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    /// The number of the part of the run: 0 until it was stopped and resumed for the first time.
    pub part: u32,
    /// When the sample began, in seconds since 1970.
    pub clock: u64,
    /// When the sample began, in seconds under load.
    pub at: f64,
    /// How long the sample took, until its last I/O had completed.
    pub seconds: f64,
    /// The number of reads that completed.
    pub reads: u64,
    /// The number of writes that completed.
    pub writes: u64,
    /// The bytes that the load wrote.
    pub written: u64,
    /// The mean response time in microseconds, as all that follow.
    pub mean_us: f64,
    /// The median of the response times.
    pub p50_us: f64,
    /// The 99th percentile of the response times.
    pub p99_us: f64,
    /// The 99.9th percentile of the response times.
    pub p99_9_us: f64,
    /// The longest response time.
    pub max_us: f64,
    /// Seconds without progress: whole intervals in which nothing completed, or a long wait for the last I/Os.
    pub stalled: f64,
    /// The number of bytes free on the volume at the end of the sample.
    pub free: Option<u64>,
    /// The number of pieces of the file, in samples in which they were counted.
    pub pieces: Option<u64>,
    /// Bytes that the device was asked to read.
    pub device_read: u64,
    /// Bytes that the device was asked to write.
    pub device_written: u64,
    /// The number of flushes that the device was asked for.
    pub flushes: u64,
    /// The resident memory of this process in bytes.
    pub resident: Option<u64>,
}

/// The names of the columns of `samples.csv`, in their order.
pub const COLUMNS: [&str; 19] = [
    "part",
    "clock",
    "at_seconds",
    "seconds",
    "reads",
    "writes",
    "written_bytes",
    "mean_us",
    "p50_us",
    "p99_us",
    "p99_9_us",
    "max_us",
    "stalled_seconds",
    "free_bytes",
    "pieces",
    "device_read_bytes",
    "device_written_bytes",
    "flushes",
    "resident_bytes",
];

impl Sample {
    /// I/Os per second.
    pub fn iops(&self) -> f64 {
        (self.reads + self.writes) as f64 / self.seconds.max(1e-9)
    }

    fn line(&self) -> String {
        let known = |value: Option<u64>| value.map_or_else(String::new, |value| value.to_string());
        let mut line = format!("{},{},{:.3},{:.3}", self.part, self.clock, self.at, self.seconds);
        let _ = write!(line, ",{},{},{}", self.reads, self.writes, self.written);
        for us in [self.mean_us, self.p50_us, self.p99_us, self.p99_9_us, self.max_us] {
            let _ = write!(line, ",{us:.1}");
        }
        let _ = write!(line, ",{:.3},{},{}", self.stalled, known(self.free), known(self.pieces));
        let _ = write!(line, ",{},{},{}", self.device_read, self.device_written, self.flushes);
        let _ = writeln!(line, ",{}", known(self.resident));
        line
    }

    /// Parses a line; `None` for anything but a complete line.
    fn parse(line: &str) -> Option<Sample> {
        let fields: Vec<&str> = line.split(',').collect();
        let fields: [&str; COLUMNS.len()] = fields.try_into().ok()?;
        let whole = |at: usize| fields[at].parse::<u64>().ok();
        let real =
            |at: usize| fields[at].parse::<f64>().ok().filter(|value| value.is_finite() && *value >= 0.0);
        let known = |at: usize| match fields[at] {
            "" => Some(None),
            _ => whole(at).map(Some),
        };
        Some(Sample {
            part: fields[0].parse().ok()?,
            clock: whole(1)?,
            at: real(2)?,
            seconds: real(3)?,
            reads: whole(4)?,
            writes: whole(5)?,
            written: whole(6)?,
            mean_us: real(7)?,
            p50_us: real(8)?,
            p99_us: real(9)?,
            p99_9_us: real(10)?,
            max_us: real(11)?,
            stalled: real(12)?,
            free: known(13)?,
            pieces: known(14)?,
            device_read: whole(15)?,
            device_written: whole(16)?,
            flushes: whole(17)?,
            resident: known(18)?,
        })
    }
}

/// A run's record in its directory.
#[derive(Debug)]
pub struct Record {
    directory: PathBuf,
    samples_file: File,
    /// The plan of the run.
    pub plan: EndurancePlan,
    /// The samples so far.
    pub samples: Vec<Sample>,
}

fn failed(path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    let what = path.display().to_string();
    move |source| Error::Io { what, source }
}

impl Record {
    /// Refuses a directory that already holds a run.
    ///
    /// # Errors
    /// [`Error::Input`] that says how to proceed.
    pub fn refuse_existing(directory: &Path) -> Result<()> {
        let there = [PLAN, SAMPLES].map(|name| directory.join(name));
        match there.iter().find(|path| path.symlink_metadata().is_ok()) {
            None => Ok(()),
            Some(path) => Err(Error::Input {
                name: path.display().to_string(),
                reason: format!(
                    "a run is recorded there already; go on with it by --resume {}, or name another directory",
                    directory.display()
                ),
            }),
        }
    }

    /// Begins a record.
    ///
    /// # Errors
    /// [`Error::Input`] if the directory holds a run already, [`Error::Io`] if the record cannot be written.
    pub fn begin(directory: &Path, plan: EndurancePlan) -> Result<Record> {
        Record::refuse_existing(directory)?;
        std::fs::create_dir_all(directory).map_err(failed(directory))?;
        let path = directory.join(SAMPLES);
        let mut samples_file =
            OpenOptions::new().append(true).create_new(true).open(&path).map_err(failed(&path))?;
        writeln!(samples_file, "{}", COLUMNS.join(",")).map_err(failed(&path))?;
        let record = Record { directory: directory.into(), samples_file, plan, samples: Vec::new() };
        record.save_plan()?;
        Ok(record)
    }

    /// Reads a record. A last line that was not written completely is ignored and removed from the file.
    ///
    /// # Errors
    /// [`Error::Input`] with the invalid line, [`Error::Io`] if the record cannot be read.
    pub fn open(directory: &Path) -> Result<Record> {
        let path = directory.join(PLAN);
        let text = std::fs::read_to_string(&path).map_err(failed(&path))?;
        let wrong = |path: &Path, reason: String| Error::Input { name: path.display().to_string(), reason };
        let plan: EndurancePlan =
            serde_json::from_str(&text).map_err(|error| wrong(&path, error.to_string()))?;
        if plan.schema != SCHEMA {
            return Err(wrong(&path, format!("schema {:?}, expected {SCHEMA:?}", plan.schema)));
        }
        let path = directory.join(SAMPLES);
        let text = std::fs::read_to_string(&path).map_err(failed(&path))?;
        let end = text.rfind('\n').map_or(0, |last| last + 1);
        let mut lines = text[..end].lines().enumerate();
        let header = COLUMNS.join(",");
        if lines.next().is_none_or(|(_, first)| first != header) {
            return Err(wrong(&path, format!("line 1: expected {header:?}")));
        }
        let sample = |(number, line): (usize, &str)| {
            Sample::parse(line)
                .ok_or_else(|| wrong(&path, format!("line {}: {line:?} is no sample", number + 1)))
        };
        let samples = lines.map(sample).collect::<Result<Vec<Sample>>>()?;
        let samples_file = OpenOptions::new().append(true).open(&path).map_err(failed(&path))?;
        samples_file.set_len(end as u64).map_err(failed(&path))?;
        Ok(Record { directory: directory.into(), samples_file, plan, samples })
    }

    /// The directory of the record.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Seconds under load so far.
    pub fn seconds(&self) -> f64 {
        self.samples.last().map_or(0.0, |last| last.at + last.seconds)
    }

    /// Bytes that the load has written so far.
    pub fn written(&self) -> u64 {
        self.samples.iter().map(|sample| sample.written).sum()
    }

    /// The bytes that the load has written so far, as a multiple of the volume's size.
    pub fn volumes(&self) -> f64 {
        self.written() as f64 / self.plan.volume_bytes.max(1) as f64
    }

    pub(super) fn add(&mut self, sample: Sample) -> Result<()> {
        let path = self.directory.join(SAMPLES);
        self.samples_file.write_all(sample.line().as_bytes()).map_err(failed(&path))?;
        self.samples.push(sample);
        Ok(())
    }

    /// Writes the plan to a new file, which then replaces the old one.
    pub(super) fn save_plan(&self) -> Result<()> {
        let text = serde_json::to_string_pretty(&self.plan).expect("a plan has no maps") + "\n";
        let (new, path) = (self.directory.join(".endurance.json.new"), self.directory.join(PLAN));
        std::fs::write(&new, text).map_err(failed(&new))?;
        std::fs::rename(&new, &path).map_err(failed(&path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at: f64) -> Sample {
        Sample { part: 1, at, seconds: 10.0, writes: 7, free: Some(9), max_us: 1.5, ..Sample::default() }
    }

    #[test]
    fn a_line_that_was_cut_off_is_left_out() {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().join("run");
        let plan = EndurancePlan { schema: SCHEMA.into(), volume_bytes: 100, ..EndurancePlan::default() };
        let mut record = Record::begin(&directory, plan.clone()).unwrap();
        record.add(sample(0.0)).unwrap();
        record.add(sample(10.0)).unwrap();
        let path = directory.join(SAMPLES);
        let whole = std::fs::read_to_string(&path).unwrap();
        for cut in 1..sample(10.0).line().len() {
            std::fs::write(&path, &whole[..whole.len() - cut]).unwrap();
            let mut again = Record::open(&directory).unwrap();
            assert_eq!((again.plan.clone(), again.samples.clone()), (plan.clone(), vec![sample(0.0)]));
            again.add(sample(10.0)).unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), whole);
        }
        let error = Record::begin(&directory, plan).unwrap_err().to_string();
        assert!(error.contains("--resume"), "{error}");
        std::fs::write(&path, whole.replace(",7,", ",x,")).unwrap();
        let error = Record::open(&directory).unwrap_err().to_string();
        assert!(error.contains("line 2"), "{error}");
    }

    #[test]
    fn a_goal_is_whichever_comes_first() {
        let goal = Goal { seconds: Some(100.0), volumes: Some(4.0) };
        assert_eq!(goal.share(50.0, 1.0), 0.5);
        assert_eq!(goal.share(50.0, 3.0), 0.75);
        assert_eq!(goal.share(500.0, 3.0), 1.0);
        assert_eq!(Goal::default().share(5.0, 3.0), 0.0);
    }
}

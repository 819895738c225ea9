//! The JSON document: the measurements of a comparison, and the conditions under which they were made.
//!
//! Units are part of the names: `_bytes` are bytes, `mb` is 1,000,000 bytes (as CrystalDiskMark and Iometer's "MBps
//! (Decimal)" count), `_us` microseconds, `_s` and `_seconds` seconds, `_percent` 0 to 100. All numbers are finite.
//!
//! The same types read and write the document. Reading ignores fields that this version does not have, so a report of a
//! later version with the same schema name can be opened; [`JSON_SCHEMA`] describes exactly the fields that this
//! version writes.

mod names;

use crate::estimate::ERRORS;
pub use crate::experiment::{Direction, Scoring};
use crate::format;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The value of [`Document::schema`].
pub const SCHEMA: &str = "platter-report/2";

/// The published JSON Schema (draft 2020-12) of the document.
pub const JSON_SCHEMA: &str = include_str!("../../schema/platter-report-2.schema.json");

/// The name of the raw device as a target.
pub const RAW: &str = "raw";

/// Lower edges of Iometer's response-time bins, in microseconds. The last bin has no upper edge.
pub const RESPONSE_TIME_BINS_US: [u64; 21] = [
    0, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 15_000, 20_000, 30_000, 50_000, 100_000, 200_000,
    500_000, 1_000_000, 2_000_000, 4_700_000, 5_000_000, 10_000_000,
];

/// Returns the index of the response-time bin for a request that took `us` microseconds.
pub fn response_time_bin(us: u64) -> usize {
    RESPONSE_TIME_BINS_US.partition_point(|&edge| edge <= us) - 1
}

/// A saved or finished comparison: settings, measurements and conclusions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Document {
    /// The schema of the document: [`SCHEMA`].
    pub schema: String,
    /// When the comparison started, RFC 3339 in UTC.
    pub created: String,
    /// The command line that repeats the comparison.
    pub command: String,
    /// Why the document holds less than was asked for; absent if it is complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partial: Option<String>,
    /// Labels that the user gave the report, for comparing many: `--label rack=b7`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// The machine and the device of the comparison.
    pub environment: Environment,
    /// The settings that were the same for every target.
    pub settings: Settings,
    /// Lower edges of the bins that [`Round::response_times`] counts, in microseconds.
    pub response_time_bins_us: Vec<u64>,
    /// The targets that were compared, in the order in which reports show them.
    pub targets: Vec<Target>,
    /// Pairs of targets that the report compares, besides each target with the base.
    pub pairs: Vec<Pair>,
    /// One entry for each target and case.
    pub results: Vec<CaseResult>,
    /// The significance level of differences and intervals: see [`crate::estimate`].
    pub level: f64,
    /// The answer that the report begins with, in sentences.
    pub answer: Vec<String>,
    /// Sentences about how the machine may have influenced the figures.
    pub machine: Vec<String>,
    /// Sentences that a reader should know before trusting the figures.
    pub warnings: Vec<String>,
    /// What was published of the same load on the device that is modelled; absent if no post is repeated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published_beside: Option<Beside>,
}

/// What was published, beside what was measured here.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Beside {
    /// The number of the post.
    pub post: String,
    /// The title of the publication.
    pub title: String,
    /// Published figures, each beside that of this document.
    pub figures: Vec<BesideFigure>,
    /// What the publication states in words, where its figures are not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub statements: Vec<BesideStatement>,
    /// What to know about the figures, in sentences.
    pub notes: Vec<String>,
}

/// A published figure, and the same one of this document.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BesideFigure {
    /// The case, with its direction.
    pub case: String,
    /// The target's name, as in [`Target::name`].
    pub target: String,
    /// `IOPS`, `MB/s` (10^6 bytes), `ms`, or `IOPS of the device`.
    pub unit: String,
    /// The published figure.
    pub published: f64,
    /// The figure of this document.
    pub measured: f64,
    /// What is wrong with the published figure, in a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// A statement of a publication.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BesideStatement {
    /// The statement.
    pub text: String,
    /// Whether it holds for the figures of this document.
    pub holds: bool,
}

/// One target that is compared with another.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pair {
    /// The target's name, as in [`Target::name`].
    pub target: String,
    /// The name of the target that the ratio is relative to.
    pub base: String,
}

/// The machine and the device of a comparison.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// Name of the machine.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub host: String,
    /// An identifier of the machine's installation, the same in every report of it: a hash of machine-id(5), which itself is
    /// not to be shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine_id: Option<String>,
    /// Model name of the processor.
    pub cpu: String,
    /// Processors that the process may run on.
    pub cores: u32,
    /// Main memory of the machine.
    pub memory_bytes: u64,
    /// Kernel name and release.
    pub kernel: String,
    /// Operating system or distribution.
    pub os: String,
    /// Version of Platter that made the measurements.
    pub platter_version: String,
    /// How I/O was done: `io_uring`, `memory`, or `threads in place of io_uring` with the reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub io: Option<String>,
    /// The quota of processor time of the process' control group, in processors; absent where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_quota: Option<f64>,
    /// The number of periods in which that quota stopped the process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttled_periods: Option<u64>,
    /// Processors that other programs used meanwhile, on average.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_load: Option<f64>,
    /// The limit on memory of the process' control groups, where it is below the machine's memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_limit_bytes: Option<u64>,
    /// The governors of the processors' frequency, where the kernel sets it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub governor: Option<String>,
    /// The active power plan of Windows, or `unknown`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power_plan: Option<String>,
    /// Whether real-time protection of Windows Defender is on, as the registry has it: `on`, `off`, `off by policy` or
    /// `unknown`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub real_time_protection: Option<String>,
    /// The device that the targets are on.
    pub device: DeviceInfo,
}

/// The device that the targets are on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DeviceInfo {
    /// Path, `mirror:PATH,PATH`, `mem:SIZE`, or `directories of the host` where no target is on a device.
    pub name: String,
    /// `image`, `block device`, `mirror`, `memory` or `no device`.
    pub kind: String,
    /// Size of the device in bytes.
    pub size_bytes: u64,
    /// Size of a logical sector in bytes.
    pub logical_sector: u32,
    /// Size of a physical sector in bytes.
    pub physical_sector: u32,
    /// Model of the drive, where the host reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Version of the drive's firmware, where the host reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub firmware: Option<String>,
    /// Whether the drive has rotating platters, where the host reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rotational: Option<bool>,
    /// File system of the host that holds an image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_file_system: Option<String>,
    /// What that file system does with data on the way, in words: compression, writing to new places.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_ways: Option<String>,
    /// The memory that a device or an image is held in: `tmpfs`, `zram0`; absent where it is on a disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_memory: Option<String>,
    /// The write cache of the disk: `write back` (volatile until a flush) or `write through`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_cache: Option<String>,
}

/// The settings that were the same for every target.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// `quick` or `full`.
    pub preset: String,
    /// The name of the target that all others are compared with.
    pub base: String,
    /// The number of rounds: how often all cases were run.
    pub rounds: u32,
    /// Seed of offsets, data and the order of slices.
    pub seed: u64,
    /// Whether the caches of the host were bypassed.
    pub direct: bool,
    /// Whether each target had a region of the device (or memory) of its own, so that slices of all targets alternated;
    /// otherwise one region was made anew for each target, and all cases ran on it before the next target.
    pub own_regions: bool,
    /// The largest of the workloads' spans, for which every target was made.
    pub span_bytes: u64,
    /// Whether each target's region was discarded (TRIM) before it was made; absent in reports of earlier versions, which
    /// discarded it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub discarded: Option<bool>,
    /// How the device was preconditioned before anything was made on it; absent if it was not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preconditioning: Option<Preconditioning>,
    /// The difference in percent that was to be told, if one was asked for: each case was measured until then, or until its
    /// time was over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until_percent: Option<f64>,
    /// How programs were run; absent where the load is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub programs: Option<ProgramSettings>,
    /// The settings of each workload.
    pub workloads: Vec<WorkloadSettings>,
}

/// How programs were run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProgramSettings {
    /// Whether what is cached of a target was forgotten before each run.
    pub cold: bool,
    /// What was in the caches, in words.
    pub caches: String,
    /// Whether a run ended when everything it wrote was durable, rather than when the program did.
    pub durable: bool,
    /// The command that ran once on each target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setup: Option<String>,
    /// The commands that ran before each run, in the order of the programs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prepare: Vec<String>,
    /// The commands that ran after each run, in the order of the programs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conclude: Vec<String>,
}

/// The writes that brought a device into a steady state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Preconditioning {
    /// Bytes that were written from the beginning to the end first.
    pub filled_bytes: u64,
    /// Length of a round of random writes of 4 KiB.
    pub round_seconds: f64,
    /// The throughput of each round, in units of 1,000,000 bytes per second.
    pub rounds_mb_per_s: Vec<f64>,
    /// Whether the last five rounds are a steady state, by range and slope.
    pub is_steady: bool,
}

/// The settings of a workload.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkloadSettings {
    /// The workload's name, as in [`Case::workload`].
    pub name: String,
    /// The workload's title, for people.
    pub title: String,
    /// When a write must have become durable: `direct`, `write-through` or `fsync_every=N`.
    pub durability: String,
    /// The number of bytes that offsets are drawn from.
    pub span_bytes: u64,
    /// Measured time of a case on each target in a round; 0 where cases end by count.
    pub seconds: f64,
}

/// A target of the comparison.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Target {
    /// The name on the command line: `raw`, `fat32`, `dir:/tmp`.
    pub name: String,
    /// The title for people: `FAT32, 32 KiB clusters`.
    pub title: String,
    /// The heading of the target's column, which no other target has: the name, or `dir:ext4` for a directory if it is
    /// the only one on ext4, and otherwise the end of its path that tells it from the others.
    pub short: String,
    /// `raw`, `volume` (a file system of Platter on the device) or `directory` (of a mounted file system).
    pub kind: String,
    /// How the target was made: cluster size, file system and mount options.
    pub details: String,
}

/// The load of a case: the requests that the application makes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// The workload that the case belongs to: `iometer`.
    pub workload: String,
    /// Name of the case inside its workload, without the direction: `SEQ1M Q8T1`.
    #[serde(rename = "case")]
    pub name: String,
    /// Reads, writes or both.
    pub direction: Direction,
    /// Bytes of a request; of the largest request if sizes differ.
    pub block_bytes: u64,
    /// The command line of a program that is the load: its runs are the requests, and their number in a second the rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// Further properties of the load in words: sizes that differ, the spread of places, a rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shape: Option<String>,
    /// The number of requests that each worker keeps in flight.
    pub queue_depth: u32,
    /// The number of workers, each a thread.
    pub workers: u32,
    /// Share of requests at random offsets, in percent; each of the others follows the request before it.
    pub random_percent: u8,
    /// Share of reads, in percent.
    pub read_percent: u8,
    /// When a write must have become durable: `direct`, `write-through` or `fsync_every=N`; of programs in words.
    pub durability: String,
    /// The scoring rule of the tool that the case comes from, if that tool does not show a plain median.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scoring: Option<Scoring>,
    /// The labels of the cases of the workload that ran at the same time. Processor time and traffic of the device then
    /// belong to all of them together.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<String>,
}

impl Case {
    /// The block size in words, with the shape of the load.
    pub fn block_words(&self) -> String {
        let size = format::size(self.block_bytes);
        match &self.shape {
            Some(shape) => format!("{size} ({shape})"),
            None => size,
        }
    }

    /// Whether both are the same case of the same workload, by name and direction.
    pub fn is_same(&self, other: &Case) -> bool {
        self.workload == other.workload && self.name == other.name && self.direction == other.direction
    }

    /// The case's name with the direction: `SEQ1M Q8T1 read`. Unique inside its workload. A direction that the name
    /// contains already is not repeated.
    pub fn label(&self) -> String {
        if self.program.is_some() {
            return self.name.clone();
        }
        let direction = self.direction.name();
        let mut words = self.name.split(|c: char| !c.is_alphanumeric());
        if words.any(|word| word.eq_ignore_ascii_case(direction)) {
            self.name.clone()
        } else {
            format!("{} {direction}", self.name)
        }
    }
}

/// The measurements of one case on one target.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CaseResult {
    /// The target's name, as in [`Target::name`].
    pub target: String,
    /// The case.
    #[serde(flatten)]
    pub case: Case,
    /// The measurements of each round.
    pub runs: Vec<Round>,
    /// Requests per second. This figure, [`CaseResult::mb_per_s`] and all ratios come from one fit over all slices of
    /// the case: see [`crate::estimate`].
    pub iops: f64,
    /// Throughput in units of 1,000,000 bytes per second.
    pub mb_per_s: f64,
    /// Response times of the requests of all slices together.
    pub latency_us: Latency,
    /// The durations of the syncs that the durability asks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sync_latency_us: Option<Latency>,
    /// Processor time of all rounds together.
    pub cpu: Cpu,
    /// Bytes transferred by the device for each byte that was requested: written bytes in a case that only writes, read
    /// bytes in one that only reads; absent where the device's traffic cannot be observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub amplification: Option<f64>,
    /// The comparison with the base, and with the base of each pair that has this target.
    pub estimates: Vec<Estimate>,
    /// The score that the tool which the case comes from would show.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<Score>,
    /// Sentences about problems of these runs.
    pub warnings: Vec<String>,
}

/// The ratio of a target's rate to another target's, with its uncertainty.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The name of the target that the ratio is relative to.
    pub base: String,
    /// The quotient of the rates.
    pub ratio: f64,
    /// The lower end of the interval at [`Document::level`]; absent where too few slices ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low: Option<f64>,
    /// The upper end of the interval; absent where too few slices ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high: Option<f64>,
    /// The number of passes in which both targets had a slice.
    pub passes: u32,
    /// The smallest difference in percent that would have been significant; absent where too few slices ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolution_percent: Option<f64>,
    /// The conclusion from the interval.
    pub verdict: Verdict,
    /// An explanation of how the target can be faster than the raw device, or a remark that it is implausible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remark: Option<String>,
}

/// The conclusion from an estimate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The target's rate is lower: the interval lies below 1.
    Slower,
    /// The target's rate is higher: the interval lies above 1.
    Faster,
    /// The interval includes 1; a difference of more than [`Estimate::resolution_percent`] would have been significant.
    NoDifference,
    /// The interval includes 1 and is so wide that a difference of more than a tenth is possible, or too few slices
    /// ran.
    #[default]
    Unclear,
}

/// Where the interval includes 1 but extends further from it than this share, the verdict is [`Verdict::Unclear`].
const TELLING: f64 = 0.10;

impl Verdict {
    /// The verdict on a ratio whose logarithm is `logarithm`, with half the width of its interval. Every view and every
    /// sentence of a report has its verdicts from here.
    pub fn of(logarithm: f64, half: f64) -> Verdict {
        // Where the interval ends at 1 in the numbers of the document, it does not leave out 1 there either.
        let (low, high) = ((logarithm - half).exp(), (logarithm + half).exp());
        match () {
            () if !half.is_finite() || half >= 100.0 => Verdict::Unclear,
            () if high < 1.0 => Verdict::Slower,
            () if low > 1.0 => Verdict::Faster,
            () if half.exp_m1() <= TELLING => Verdict::NoDifference,
            () => Verdict::Unclear,
        }
    }

    /// The verdict as in the document.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Slower => "slower",
            Verdict::Faster => "faster",
            Verdict::NoDifference => "no-difference",
            Verdict::Unclear => "unclear",
        }
    }

    /// Whether the verdict says that the rates differ.
    pub fn is_difference(self) -> bool {
        matches!(self, Verdict::Slower | Verdict::Faster)
    }
}

/// All slices of a case on a target in one round, combined.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Round {
    /// The number of the round, from 1.
    pub repeat: u32,
    /// When the first slice of the round began, counted from the start of the comparison.
    pub started_at_seconds: f64,
    /// Measured time of all slices together.
    pub seconds: f64,
    /// Requests per second.
    pub iops: f64,
    /// Throughput in units of 1,000,000 bytes per second.
    pub mb_per_s: f64,
    /// Response times, from submission to completion.
    pub latency_us: Latency,
    /// The reads of a mixed case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reads: Option<Side>,
    /// The writes of a mixed case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub writes: Option<Side>,
    /// The durations of syncs, where the durability asks for syncs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sync_latency_us: Option<Latency>,
    /// The number of requests in each bin of [`Document::response_time_bins_us`].
    pub response_times: Vec<u64>,
    /// The slices of the round.
    pub slices: Vec<Slice>,
    /// The timeline, interval by interval. Its time is measured time only: the time of other targets between slices is
    /// left out.
    pub timeline: Vec<Second>,
    /// The length of all intervals in which no request completed, and of the waits for the last requests of a slice
    /// that exceeded a quarter of a second.
    pub stalled_seconds: f64,
    /// Time that the volume went on working by itself after slices; it is included in [`Round::seconds`].
    pub background_seconds: f64,
    /// Processor time of the whole process.
    pub cpu: Cpu,
    /// The measurements of each worker.
    pub workers: Vec<Worker>,
    /// The requests of the application, including those that do not count in the rates.
    pub requested: Requested,
    /// The requests of this and all other cases that ran at the same time, if there were others: the traffic of the
    /// device belongs to these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requested_together: Option<Requested>,
    /// The transfers of the device meanwhile; absent where they cannot be observed (a directory of the host).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<Traffic>,
    /// The number of requests that failed.
    pub errors: u64,
    /// The number of blocks whose content was verified.
    pub verified_blocks: u64,
    /// The number of blocks that did not hold what was last written there.
    pub corrupted_blocks: u64,
}

impl Round {
    /// The requests that the device's traffic belongs to.
    pub fn requested_of_device(&self) -> &Requested {
        self.requested_together.as_ref().unwrap_or(&self.requested)
    }
}

/// One slice: a short run of a case on one target, shortly before or after those of the other targets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Slice {
    /// The number of the pass in its round, from 1: the slices of a pass ran on all targets one after the other.
    pub pass: u32,
    /// When the slice began, counted from the start of the comparison.
    pub started_at_seconds: f64,
    /// Measured time.
    pub seconds: f64,
    /// Requests per second.
    pub iops: f64,
    /// Mean response time.
    pub latency_us: f64,
    /// The exit code of a program that did not end with 0; 128 and the number of the signal that ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
}

/// A distribution of response times, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// The number of response times.
    pub count: u64,
    /// Arithmetic mean.
    pub mean: f64,
    /// Standard deviation; absent in reports of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stddev: Option<f64>,
    /// The shortest response time; absent in reports of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<f64>,
    /// Median.
    pub p50: f64,
    /// 90th percentile. A percentile is absent if fewer than [`BEYOND`] requests lie beyond it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p90: Option<f64>,
    /// 95th percentile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p95: Option<f64>,
    /// 99th percentile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99: Option<f64>,
    /// The interval of the 99th percentile from the scatter between parts of the run, which leaves out the true one in one of
    /// twenty; absent where too few requests lie in each part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99_interval: Option<[f64; 2]>,
    /// 99.9th percentile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99_9: Option<f64>,
    /// 99.99th percentile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99_99: Option<f64>,
    /// The longest response time.
    pub max: f64,
}

/// The least number of requests that must lie beyond a percentile; with fewer it would depend on chance.
pub const BEYOND: u64 = 5;

impl Latency {
    /// All figures with their names: the mean first, then percentiles in ascending order.
    pub fn figures(&self) -> [(&'static str, Option<f64>); 8] {
        [
            ("mean", Some(self.mean)),
            ("p50", Some(self.p50)),
            ("p90", self.p90),
            ("p95", self.p95),
            ("p99", self.p99),
            ("p99.9", self.p99_9),
            ("p99.99", self.p99_99),
            ("max", Some(self.max)),
        ]
    }
}

/// One direction of a mixed case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Side {
    /// Requests per second.
    pub iops: f64,
    /// Throughput in units of 1,000,000 bytes per second.
    pub mb_per_s: f64,
    /// Response times, from submission to completion.
    pub latency_us: Latency,
}

/// One interval of a timeline, usually a second long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Second {
    /// The start of the interval, in seconds of measured time.
    pub second: f64,
    /// Completed requests per second in the interval.
    pub iops: f64,
    /// Throughput in units of 1,000,000 bytes per second.
    pub mb_per_s: f64,
    /// Mean response time of the requests that completed in the interval.
    pub latency_us: f64,
    /// Free space of the file system at the end of the interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free_bytes: Option<u64>,
}

/// Processor time of the whole process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cpu {
    /// In user mode.
    pub user_s: f64,
    /// In the kernel.
    pub system_s: f64,
    /// User and system time together, per request.
    pub us_per_io: f64,
    /// User and system time together as a share of one processor's time: above 100 when several processors are busy.
    pub percent: f64,
}

/// The rates of one worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Worker {
    /// Requests per second.
    pub iops: f64,
    /// Throughput in units of 1,000,000 bytes per second.
    pub mb_per_s: f64,
    /// Mean response time.
    pub latency_us: f64,
}

/// The requests of the application during a round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Requested {
    /// The number of read requests.
    pub reads: u64,
    /// The number of write requests.
    pub writes: u64,
    /// Bytes of read requests.
    pub read_bytes: u64,
    /// Bytes of write requests.
    pub write_bytes: u64,
}

/// The transfers of the device during a round.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Traffic {
    /// The number of transfers from the device.
    pub reads: u64,
    /// The number of transfers to the device.
    pub writes: u64,
    /// Bytes read from the device.
    pub read_bytes: u64,
    /// Bytes written to the device.
    pub write_bytes: u64,
    /// The numbers of transfers from the device by size, ascending.
    pub read_sizes: Vec<SizeCount>,
    /// The numbers of transfers to the device by size, ascending.
    pub write_sizes: Vec<SizeCount>,
    /// Share of reads that start where the read before ended, in percent of all reads.
    pub sequential_read_percent: f64,
    /// Share of writes that start where the write before ended, in percent of all writes.
    pub sequential_write_percent: f64,
    /// The number of flushes.
    pub flushes: u64,
    /// The number of discards.
    pub discards: u64,
}

/// The number of transfers of one size, or of sizes from this one up to the next in the list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SizeCount {
    /// Bytes of a transfer.
    pub bytes: u64,
    /// The number of transfers.
    pub count: u64,
}

/// The score that the tool which the case comes from would show.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Score {
    /// The rule of the tool.
    pub rule: Scoring,
    /// Requests per second.
    pub iops: f64,
    /// Throughput in units of 1,000,000 bytes per second.
    pub mb_per_s: f64,
    /// Mean response time.
    pub latency_us: f64,
}

/// Why a saved report cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The text is not JSON, or the JSON is not a report.
    #[error("not a report: {0}")]
    Json(#[from] serde_json::Error),
    /// The report has another schema, of another tool or version.
    #[error("the report says its schema is {found:?}; this version reads {SCHEMA:?}")]
    Schema {
        /// The schema that the document states.
        found: String,
    },
}

impl Document {
    /// Makes a document without results. After adding the `results`, call [`Document::conclude`].
    pub fn new(
        started: SystemTime,
        command: impl Into<String>,
        environment: Environment,
        settings: Settings,
        targets: Vec<Target>,
    ) -> Self {
        Document {
            schema: SCHEMA.into(),
            created: rfc3339(started),
            command: command.into(),
            partial: None,
            labels: BTreeMap::new(),
            environment,
            settings,
            response_time_bins_us: RESPONSE_TIME_BINS_US.to_vec(),
            targets,
            pairs: Vec::new(),
            results: Vec::new(),
            level: ERRORS,
            answer: Vec::new(),
            machine: Vec::new(),
            warnings: Vec::new(),
            published_beside: None,
        }
    }

    /// Reads a saved document.
    pub fn from_json(text: &str) -> Result<Self, ReadError> {
        // The schema's name is checked first: details that do not match in a report of another schema would only
        // confuse.
        #[derive(Deserialize)]
        struct Named {
            schema: String,
        }
        let found = serde_json::from_str::<Named>(text)?.schema;
        if found != SCHEMA {
            return Err(ReadError::Schema { found });
        }
        let mut document: Document = serde_json::from_str(text)?;
        document.tell_targets_apart();
        Ok(document)
    }

    /// The document as JSON, indented, ending in a line feed.
    pub fn to_json(&self) -> String {
        let mut text =
            serde_json::to_string_pretty(self).expect("plain data with string keys always serialises");
        text.push('\n');
        text
    }

    /// The result of a case on a target.
    pub fn find(&self, target: &str, case: &Case) -> Option<&CaseResult> {
        self.results.iter().find(|result| result.target == target && result.case.is_same(case))
    }

    /// The names of the workloads, in the order in which they first occur.
    pub fn workloads(&self) -> Vec<&str> {
        let mut names = Vec::new();
        for result in &self.results {
            if !names.contains(&result.case.workload.as_str()) {
                names.push(&result.case.workload);
            }
        }
        names
    }

    /// The cases of a workload, over all targets, in the order in which they first occur.
    pub fn cases(&self, workload: &str) -> Vec<&Case> {
        let mut cases: Vec<&Case> = Vec::new();
        for CaseResult { case, .. } in self.results.iter().filter(|result| result.case.workload == workload) {
            if !cases.iter().any(|seen| seen.is_same(case)) {
                cases.push(case);
            }
        }
        cases
    }

    /// The name of the target that all others are compared with.
    pub fn base(&self) -> &str {
        &self.settings.base
    }

    /// Whether the device is memory, whatever it is called: then nothing here tells what a disk does.
    pub fn is_in_memory(&self) -> bool {
        self.environment.device.kind == "memory" || self.environment.device.in_memory.is_some()
    }

    /// Returns the target with this name.
    pub fn target(&self, name: &str) -> Option<&Target> {
        self.targets.iter().find(|target| target.name == name)
    }

    /// Returns the heading of a target's column.
    pub fn short<'a>(&'a self, name: &'a str) -> &'a str {
        self.target(name).map_or(name, |target| &target.short)
    }

    /// Returns the settings of a workload by its name.
    pub fn workload(&self, name: &str) -> Option<&WorkloadSettings> {
        self.settings.workloads.iter().find(|workload| workload.name == name)
    }
}

impl CaseResult {
    /// Returns the comparison of this result with the target `base`.
    pub fn against(&self, base: &str) -> Option<&Estimate> {
        self.estimates.iter().find(|estimate| estimate.base == base)
    }

    /// All slices, each with the number of its round.
    pub fn slices(&self) -> impl Iterator<Item = (u32, &Slice)> {
        self.runs.iter().flat_map(|run| run.slices.iter().map(|slice| (run.repeat, slice)))
    }
}

/// A time as RFC 3339 in UTC, to the second. Times before 1970 are shown as 1970-01-01.
pub fn rfc3339(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs();
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = platter_vfs::calendar::date(days as i64);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", second / 3_600, second / 60 % 60, second % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_hold_their_lower_edge() {
        assert_eq!(response_time_bin(0), 0);
        assert_eq!(response_time_bin(49), 0);
        assert_eq!(response_time_bin(50), 1);
        assert_eq!(response_time_bin(4_699_999), 17);
        assert_eq!(response_time_bin(4_700_000), 18);
        assert_eq!(response_time_bin(u64::MAX), 20);
    }

    #[test]
    fn times_are_written_as_the_standard_says() {
        let at = |seconds| rfc3339(UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(at(0), "1970-01-01T00:00:00Z");
        assert_eq!(at(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(at(1_694_217_599), "2023-09-08T23:59:59Z");
        assert_eq!(at(4_107_542_400), "2100-03-01T00:00:00Z");
    }

    #[test]
    fn labels_name_the_direction_once() {
        let label = |name: &str, direction| Case { name: name.into(), direction, ..Case::default() }.label();
        assert_eq!(label("SEQ1M Q8T1", Direction::Mix), "SEQ1M Q8T1 mix");
        assert_eq!(label("4K read QD32", Direction::Read), "4K read QD32");
    }
}

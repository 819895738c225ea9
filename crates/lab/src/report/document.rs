//! The JSON document: what a comparison measured, and under which conditions.
//!
//! Units are part of the names: `_bytes` are bytes, `mb` is 1,000,000 bytes (as CrystalDiskMark and Iometer's "MBps
//! (Decimal)" count), `_us` microseconds, `_s` and `_seconds` seconds, `_percent` 0 to 100. All numbers are finite.
//!
//! The same types read and write the document. A field that this version does not know is ignored on reading, so a
//! report of a later version with the same schema name can be opened; [`JSON_SCHEMA`] describes exactly what this
//! version writes.

use crate::estimate::ERRORS;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The value of [`Document::schema`].
pub const SCHEMA: &str = "platter-report/2";

/// The published JSON Schema (draft 2020-12) of the document.
pub const JSON_SCHEMA: &str = include_str!("../../schema/platter-report-2.schema.json");

/// The name of the target that others are compared with.
pub const RAW: &str = "raw";

/// Lower edges of Iometer's response-time bins, in microseconds. The last bin has no upper edge.
pub const RESPONSE_TIME_BINS_US: [u64; 21] = [
    0, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 15_000, 20_000, 30_000, 50_000, 100_000, 200_000,
    500_000, 1_000_000, 2_000_000, 4_700_000, 5_000_000, 10_000_000,
];

/// The response-time bin that a request of this many microseconds falls into.
pub fn response_time_bin(us: u64) -> usize {
    RESPONSE_TIME_BINS_US.partition_point(|&edge| edge <= us) - 1
}

/// What a comparison measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Document {
    /// [`SCHEMA`].
    pub schema: String,
    /// When the comparison started, RFC 3339 in UTC.
    pub created: String,
    /// The command line that repeats it.
    pub command: String,
    /// Why it holds less than was asked for; absent if it is whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partial: Option<String>,
    /// What the person who ran it said of it, for comparing many: `--label rack=b7`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// The machine and the device.
    pub environment: Environment,
    /// What was the same for every target.
    pub settings: Settings,
    /// Lower edges of the bins that [`Round::response_times`] counts, in microseconds.
    pub response_time_bins_us: Vec<u64>,
    /// What was compared, in the order in which reports show it.
    pub targets: Vec<Target>,
    /// Comparisons that the report answers beside those with the base.
    pub pairs: Vec<Pair>,
    /// One entry for each target and case.
    pub results: Vec<CaseResult>,
    /// The level at which differences are told and intervals are given: see [`crate::estimate`].
    pub level: f64,
    /// What it comes to, in sentences.
    pub answer: Vec<String>,
    /// What the machine had to do with the figures, as far as it tells.
    pub machine: Vec<String>,
    /// What to know before trusting the figures.
    pub warnings: Vec<String>,
}

/// One target against another.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pair {
    /// [`Target::name`].
    pub target: String,
    /// The target that stands for 1.
    pub base: String,
}

/// The machine and the device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// Name of the machine.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub host: String,
    /// Model name of the processor.
    pub cpu: String,
    /// Processors that the process may run on.
    pub cores: u32,
    /// Main memory.
    pub memory_bytes: u64,
    /// Kernel name and release.
    pub kernel: String,
    /// Operating system or distribution.
    pub os: String,
    /// Version of Platter that measured.
    pub platter_version: String,
    /// The device that every target lies on.
    pub device: DeviceInfo,
}

/// The device that every target lies on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DeviceInfo {
    /// Path, `mirror:PATH,PATH`, `mem:SIZE`, or `directories of the host` where no target lies on a device.
    pub name: String,
    /// `image`, `block device`, `mirror`, `memory` or `no device`.
    pub kind: String,
    /// Size of the region that was used.
    pub size_bytes: u64,
    /// Logical sector in bytes.
    pub logical_sector: u32,
    /// Physical sector in bytes.
    pub physical_sector: u32,
    /// Model of the drive, where the host tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Version of its firmware, where the host tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub firmware: Option<String>,
    /// Whether the drive has platters, where the host tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rotational: Option<bool>,
    /// File system of the host that holds an image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_file_system: Option<String>,
}

/// What was the same for every target.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// `quick` or `full`.
    pub preset: String,
    /// The target that stands for 1.
    pub base: String,
    /// How often all cases were gone through.
    pub rounds: u32,
    /// Seed of offsets, data and the order of slices.
    pub seed: u64,
    /// Whether the caches of the host were bypassed.
    pub direct: bool,
    /// Whether each target had a region of the device (or memory) of its own, so that all took turns slice by slice;
    /// otherwise the same region was made anew for each, and all cases ran on it in a row.
    pub own_regions: bool,
    /// The largest of the workloads' spans, for which every target was made.
    pub span_bytes: u64,
    /// What each workload asked for.
    pub workloads: Vec<WorkloadSettings>,
}

/// What a workload asked for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkloadSettings {
    /// [`Case::workload`].
    pub name: String,
    /// As people call it.
    pub title: String,
    /// When a write counts as done: `direct`, `write-through` or `fsync_every=N`.
    pub durability: String,
    /// Bytes that offsets are drawn from.
    pub span_bytes: u64,
    /// Measured time of a case on each target in a round; 0 where cases end by count.
    pub seconds: f64,
}

/// What was compared.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Target {
    /// As on the command line: `raw`, `fat32`, `dir:/tmp`.
    pub name: String,
    /// As a person would say it: `FAT32, 32 KiB clusters`.
    pub title: String,
    /// What heads its column: the name, or `dir:ext4` for a directory.
    pub short: String,
    /// `raw`, `volume` (a file system of ours on the device) or `directory` (of a mounted file system).
    pub kind: String,
    /// How it was made: cluster size, file system and options of a mount.
    pub details: String,
}

/// Whether a case reads, writes or does both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// Reads only.
    #[default]
    Read,
    /// Writes only.
    Write,
    /// Both.
    Mix,
}

impl Direction {
    /// All, in the order in which reports show them.
    pub const ALL: [Direction; 3] = [Direction::Read, Direction::Write, Direction::Mix];

    /// `read`, `write` or `mix`.
    pub fn name(self) -> &'static str {
        match self {
            Direction::Read => "read",
            Direction::Write => "write",
            Direction::Mix => "mix",
        }
    }
}

/// How a tool makes one figure of several runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scoring {
    /// CrystalDiskMark's rule: of all loops the highest throughput, the highest IOPS and the lowest mean latency.
    Best,
}

/// The load: what the application asks for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// The workload that the case belongs to: `iometer`.
    pub workload: String,
    /// Name of the case inside its workload, without the direction: `SEQ1M Q8T1`.
    #[serde(rename = "case")]
    pub name: String,
    /// Reads, writes or both.
    pub direction: Direction,
    /// Bytes of a request; of the largest if they differ.
    pub block_bytes: u64,
    /// What more there is to say of the load: sizes that differ, how places are spread, a rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shape: Option<String>,
    /// Requests that each worker keeps outstanding.
    pub queue_depth: u32,
    /// Workers, each a thread.
    pub workers: u32,
    /// Share of requests at random offsets; the others follow their predecessor.
    pub random_percent: u8,
    /// Share of reads.
    pub read_percent: u8,
    /// When a write counts as done: `direct`, `write-through` or `fsync_every = N`.
    pub durability: String,
    /// The rule of the tool that the case comes from, if it has one beside the median.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scoring: Option<Scoring>,
    /// Labels of the cases of its workload that ran at the same time: processor time, what was asked for and what the
    /// storage saw are of all of them together.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<String>,
}

impl Case {
    /// The size of its requests in words.
    pub fn block_words(&self) -> String {
        let size = super::format::size(self.block_bytes);
        match &self.shape {
            Some(shape) => format!("{size} ({shape})"),
            None => size,
        }
    }

    /// Whether both are the same case of the same workload.
    pub fn is_same(&self, other: &Case) -> bool {
        self.workload == other.workload && self.name == other.name && self.direction == other.direction
    }

    /// `SEQ1M Q8T1 read`: unique inside its workload. A name that has the direction keeps it once.
    pub fn label(&self) -> String {
        let direction = self.direction.name();
        let mut words = self.name.split(|c: char| !c.is_alphanumeric());
        if words.any(|word| word.eq_ignore_ascii_case(direction)) {
            self.name.clone()
        } else {
            format!("{} {direction}", self.name)
        }
    }
}

/// What one case gave on one target.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CaseResult {
    /// [`Target::name`].
    pub target: String,
    /// The load.
    #[serde(flatten)]
    pub case: Case,
    /// One for each round.
    pub runs: Vec<Round>,
    /// Requests a second. This, [`CaseResult::mb_per_s`] and all ratios come from one fit over all slices of the case: see
    /// [`crate::estimate`].
    pub iops: f64,
    /// 1,000,000 bytes a second.
    pub mb_per_s: f64,
    /// Response times of all slices together.
    pub latency_us: Latency,
    /// How long the syncs took that the durability asks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sync_latency_us: Option<Latency>,
    /// Over all runs.
    pub cpu: Cpu,
    /// Bytes at the device for each byte that was asked for, writes in a case that only writes, reads in one that only
    /// reads; absent where it cannot be watched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub amplification: Option<f64>,
    /// Against the base, and against the bases of pairs that it is the target of.
    pub estimates: Vec<Estimate>,
    /// The figure that the tool which the case comes from would show.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<Score>,
    /// What to know about these runs.
    pub warnings: Vec<String>,
}

/// A rate as a multiple of another target's, and how sure that is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The target that stands for 1.
    pub base: String,
    /// The quotient of the rates.
    pub ratio: f64,
    /// The interval at [`Document::level`]; absent where too few slices ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low: Option<f64>,
    /// Its upper end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high: Option<f64>,
    /// Passes in which both had a slice.
    pub passes: u32,
    /// The smallest difference in percent that would have been told; absent where too few slices ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolution_percent: Option<f64>,
    /// What it says.
    pub verdict: Verdict,
    /// Why it is faster than the raw device, or that nothing explains it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remark: Option<String>,
}

/// What an estimate says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Its rate is lower: the interval lies below 1.
    Slower,
    /// Its rate is higher: the interval lies above 1.
    Faster,
    /// A difference of more than [`Estimate::resolution_percent`] would have been told.
    NoDifference,
    /// A difference of more than a tenth could hide.
    #[default]
    Unclear,
}

impl Verdict {
    /// As in the document.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Slower => "slower",
            Verdict::Faster => "faster",
            Verdict::NoDifference => "no-difference",
            Verdict::Unclear => "unclear",
        }
    }

    /// Whether it tells a difference.
    pub fn is_difference(self) -> bool {
        matches!(self, Verdict::Slower | Verdict::Faster)
    }
}

/// The slices of a case on a target in one round, put together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Round {
    /// The round, from 1.
    pub repeat: u32,
    /// When its first slice began, from the start of the comparison.
    pub started_at_seconds: f64,
    /// Measured time of all slices.
    pub seconds: f64,
    /// Requests a second.
    pub iops: f64,
    /// 1,000,000 bytes a second.
    pub mb_per_s: f64,
    /// From submission to completion.
    pub latency_us: Latency,
    /// The reads of a mix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reads: Option<Side>,
    /// The writes of a mix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub writes: Option<Side>,
    /// How long syncs took, where the durability asks for them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sync_latency_us: Option<Latency>,
    /// Requests in each bin of [`Document::response_time_bins_us`].
    pub response_times: Vec<u64>,
    /// Slice by slice.
    pub slices: Vec<Slice>,
    /// Interval by interval: measured time, in which what others did between slices is left out.
    pub timeline: Vec<Second>,
    /// Length of all intervals in which no request completed, and of the waits for the last requests of a slice beyond a
    /// quarter of a second.
    pub stalled_seconds: f64,
    /// Time that the volume went on working by itself after slices; it is in [`Round::seconds`].
    pub background_seconds: f64,
    /// Processor time of the whole process.
    pub cpu: Cpu,
    /// Worker by worker.
    pub workers: Vec<Worker>,
    /// What the application asked for, what did not count included.
    pub requested: Requested,
    /// What the storage saw meanwhile; absent where it cannot be watched (a directory of the host).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<Traffic>,
    /// Requests that failed.
    pub errors: u64,
    /// Blocks that were read back and compared.
    pub verified_blocks: u64,
    /// Blocks that did not hold what was written there.
    pub corrupted_blocks: u64,
}

/// One slice: a short run whose figures stand beside those of the other targets a moment before and after.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Slice {
    /// The pass in its round, from 1: slices of one pass ran one after the other on all targets.
    pub pass: u32,
    /// From the start of the comparison.
    pub started_at_seconds: f64,
    /// Measured time.
    pub seconds: f64,
    /// Requests a second.
    pub iops: f64,
    /// Mean response time.
    pub latency_us: f64,
}

/// Response times in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// How many there are.
    pub count: u64,
    /// Arithmetic mean.
    pub mean: f64,
    /// Standard deviation; reports of earlier versions have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stddev: Option<f64>,
    /// The fastest request; reports of earlier versions have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<f64>,
    /// Median.
    pub p50: f64,
    /// 90th percentile. Percentiles that fewer than [`BEYOND`] requests lie beyond are absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p90: Option<f64>,
    /// 95th percentile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p95: Option<f64>,
    /// 99th percentile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99: Option<f64>,
    /// 99.9th percentile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99_9: Option<f64>,
    /// 99.99th percentile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99_99: Option<f64>,
    /// The slowest request.
    pub max: f64,
}

/// A percentile that fewer requests lie beyond is luck.
pub const BEYOND: u64 = 5;

impl Latency {
    /// Every figure with its name, in ascending order of percentile, the mean first.
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

/// One direction of a mix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Side {
    /// Requests a second.
    pub iops: f64,
    /// 1,000,000 bytes a second.
    pub mb_per_s: f64,
    /// From submission to completion.
    pub latency_us: Latency,
}

/// One interval of a run, usually a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Second {
    /// When the interval starts, in seconds from the start of measuring.
    pub second: f64,
    /// Requests that completed in it, a second.
    pub iops: f64,
    /// 1,000,000 bytes a second.
    pub mb_per_s: f64,
    /// Mean of the requests that completed in it.
    pub latency_us: f64,
    /// Free space of the file system at its end.
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
    /// Both, for each request.
    pub us_per_io: f64,
    /// Both, of one processor: above 100 when several are busy.
    pub percent: f64,
}

/// One worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Worker {
    /// Requests a second.
    pub iops: f64,
    /// 1,000,000 bytes a second.
    pub mb_per_s: f64,
    /// Mean response time.
    pub latency_us: f64,
}

/// What the application asked for in the measured time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Requested {
    /// Read requests.
    pub reads: u64,
    /// Write requests.
    pub writes: u64,
    /// Bytes of read requests.
    pub read_bytes: u64,
    /// Bytes of write requests.
    pub write_bytes: u64,
}

/// What the storage saw in the measured time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Traffic {
    /// Transfers from the device.
    pub reads: u64,
    /// Transfers to the device.
    pub writes: u64,
    /// Bytes from the device.
    pub read_bytes: u64,
    /// Bytes to the device.
    pub write_bytes: u64,
    /// Transfers from the device by size, ascending.
    pub read_sizes: Vec<SizeCount>,
    /// Transfers to the device by size, ascending.
    pub write_sizes: Vec<SizeCount>,
    /// Reads that start where the one before ended, of all reads.
    pub sequential_read_percent: f64,
    /// Writes that start where the one before ended, of all writes.
    pub sequential_write_percent: f64,
    /// Flushes.
    pub flushes: u64,
    /// Discards.
    pub discards: u64,
}

/// Transfers of one size, or of sizes up to the next in the list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SizeCount {
    /// Bytes of a transfer.
    pub bytes: u64,
    /// How many.
    pub count: u64,
}

/// The figure that the tool which the case comes from would show.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Score {
    /// How it was made.
    pub rule: Scoring,
    /// Requests a second.
    pub iops: f64,
    /// 1,000,000 bytes a second.
    pub mb_per_s: f64,
    /// Mean response time.
    pub latency_us: f64,
}

/// Why a saved report cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// Not JSON, or not a report.
    #[error("not a report: {0}")]
    Json(#[from] serde_json::Error),
    /// A report of another kind or age.
    #[error("the report says its schema is {found:?}; this version reads {SCHEMA:?}")]
    Schema {
        /// What the document calls itself.
        found: String,
    },
}

impl Document {
    /// A document without results. Add them to `results`, then call [`Document::conclude`].
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
        }
    }

    /// Reads a saved document.
    pub fn from_json(text: &str) -> Result<Self, ReadError> {
        // The name comes first: what is wrong with a report of another schema would only confuse.
        #[derive(Deserialize)]
        struct Named {
            schema: String,
        }
        let found = serde_json::from_str::<Named>(text)?.schema;
        if found != SCHEMA {
            return Err(ReadError::Schema { found });
        }
        Ok(serde_json::from_str(text)?)
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

    /// The workloads in the order in which they first occur.
    pub fn workloads(&self) -> Vec<&str> {
        let mut names = Vec::new();
        for result in &self.results {
            if !names.contains(&result.case.workload.as_str()) {
                names.push(&result.case.workload);
            }
        }
        names
    }

    /// The cases of a workload in the order in which they first occur, over all targets.
    pub fn cases(&self, workload: &str) -> Vec<&Case> {
        let mut cases: Vec<&Case> = Vec::new();
        for CaseResult { case, .. } in self.results.iter().filter(|result| result.case.workload == workload) {
            if !cases.iter().any(|seen| seen.is_same(case)) {
                cases.push(case);
            }
        }
        cases
    }

    /// The target that stands for 1.
    pub fn base(&self) -> &str {
        &self.settings.base
    }

    /// A target by name.
    pub fn target(&self, name: &str) -> Option<&Target> {
        self.targets.iter().find(|target| target.name == name)
    }

    /// What heads a target's column.
    pub fn short<'a>(&'a self, name: &'a str) -> &'a str {
        self.target(name).map_or(name, |target| &target.short)
    }

    /// What a workload asked for.
    pub fn workload(&self, name: &str) -> Option<&WorkloadSettings> {
        self.settings.workloads.iter().find(|workload| workload.name == name)
    }
}

impl CaseResult {
    /// How it compares with a target.
    pub fn against(&self, base: &str) -> Option<&Estimate> {
        self.estimates.iter().find(|estimate| estimate.base == base)
    }

    /// All slices, with the round that each belongs to.
    pub fn slices(&self) -> impl Iterator<Item = (u32, &Slice)> {
        self.runs.iter().flat_map(|run| run.slices.iter().map(|slice| (run.repeat, slice)))
    }
}

/// A time as RFC 3339 in UTC, to the second. Times before 1970 are shown as 1970-01-01.
pub fn rfc3339(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs();
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Counting years from March puts the leap day last, so that month lengths follow one formula.
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let day_of_era = shifted % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
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

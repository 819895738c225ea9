//! The JSON document: what a comparison measured, and under which conditions.
//!
//! Units are part of the names: `_bytes` are bytes, `mb` is 1,000,000 bytes (as CrystalDiskMark and Iometer's "MBps
//! (Decimal)" count), `_us` microseconds, `_s` and `_seconds` seconds, `_percent` 0 to 100. All numbers are finite.
//!
//! The same types read and write the document. A field that this version does not know is ignored on reading, so a
//! report of a later version with the same schema name can be opened; [`JSON_SCHEMA`] describes exactly what this
//! version writes.

use serde::{Deserialize, Serialize};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The value of [`Document::schema`].
pub const SCHEMA: &str = "platter-report/1";

/// The published JSON Schema (draft 2020-12) of the document.
pub const JSON_SCHEMA: &str = include_str!("../../schema/platter-report-1.schema.json");

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
    /// The machine and the device.
    pub environment: Environment,
    /// What was the same for every target.
    pub settings: Settings,
    /// Lower edges of the bins that [`Run::response_times`] counts, in microseconds.
    pub response_time_bins_us: Vec<u64>,
    /// What was compared, in the order in which reports show it.
    pub targets: Vec<Target>,
    /// One entry for each target and case.
    pub results: Vec<CaseResult>,
    /// What it comes to, one entry for each workload.
    pub verdicts: Vec<Verdict>,
    /// What to know before trusting the figures.
    pub warnings: Vec<String>,
}

/// The machine and the device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Environment {
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
    /// Path, `mirror:PATH,PATH`, or `mem:SIZE`.
    pub name: String,
    /// `image`, `block device`, `mirror` or `memory`.
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
    /// `quick`, `standard` or `full`, or what the user called it.
    pub preset: String,
    /// Runs of each case on each target.
    pub repeats: u32,
    /// Seed of offsets and data.
    pub seed: u64,
    /// When a write counts as done: `direct`, `write-through` or `fsync_every = N`; what a workload asks for itself
    /// stands in [`Case::durability`].
    pub durability: String,
    /// Whether the caches of the host were bypassed.
    pub direct: bool,
    /// Bytes that offsets are drawn from.
    pub span_bytes: u64,
    /// Measured time of a run.
    pub seconds_per_run: f64,
    /// Load before measuring starts.
    pub ramp_up_seconds: f64,
    /// The turns as they ran, one entry each: `TARGET WORKLOAD #REPEAT`.
    pub order: Vec<String>,
}

/// What was compared.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Target {
    /// As on the command line: `raw`, `fat32`, `dir:/tmp`.
    pub name: String,
    /// As a person would say it: `FAT32, 32 KiB clusters`.
    pub title: String,
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
    /// Bytes of a request.
    pub block_bytes: u64,
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
}

impl Case {
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
    /// Every run, in the order they ran.
    pub runs: Vec<Run>,
    /// Median of the runs.
    pub iops: f64,
    /// Median of the runs.
    pub mb_per_s: f64,
    /// Each figure is the median of the runs' figures.
    pub latency_us: Latency,
    /// Each figure is the median of the runs' figures.
    pub cpu: Cpu,
    /// How far the runs lie apart.
    pub spread: Spread,
    /// The same case on the raw device = 1; absent for the raw device and where it was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relative_to_raw: Option<Relative>,
    /// The figure that the tool which the case comes from would show.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<Score>,
    /// What to know about these runs.
    pub warnings: Vec<String>,
}

/// One run of a case.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// From 1.
    pub repeat: u32,
    /// When the run started, from the start of the comparison.
    pub started_at_seconds: f64,
    /// Measured time, without ramp-up.
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
    /// Requests in each bin of [`Document::response_time_bins_us`].
    pub response_times: Vec<u64>,
    /// Interval by interval, usually seconds.
    pub timeline: Vec<Second>,
    /// Length of all intervals in which no request completed.
    pub stalled_seconds: f64,
    /// Processor time of the whole process.
    pub cpu: Cpu,
    /// Worker by worker.
    pub workers: Vec<Worker>,
    /// What the application asked for.
    pub requested: Requested,
    /// What the storage saw; absent where it cannot be watched (a directory of the host).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<Traffic>,
    /// Requests that failed.
    pub errors: u64,
    /// Blocks that were read back and compared.
    pub verified_blocks: u64,
    /// Blocks that did not hold what was written there.
    pub corrupted_blocks: u64,
}

/// Response times in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Arithmetic mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p99_9: f64,
    /// 99.99th percentile.
    pub p99_99: f64,
    /// The slowest request.
    pub max: f64,
}

impl Latency {
    /// Every figure with its name, in ascending order of percentile, the mean first.
    pub fn figures(&self) -> [(&'static str, f64); 8] {
        [
            ("mean", self.mean),
            ("p50", self.p50),
            ("p90", self.p90),
            ("p95", self.p95),
            ("p99", self.p99),
            ("p99.9", self.p99_9),
            ("p99.99", self.p99_99),
            ("max", self.max),
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

/// How far runs lie apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Of IOPS.
    pub iops: Range,
    /// Of throughput.
    pub mb_per_s: Range,
    /// Of the mean latency.
    pub latency_us: Range,
}

/// Smallest, largest and typical distance from the median.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Range {
    /// The smallest run.
    pub min: f64,
    /// The largest run.
    pub max: f64,
    /// Median of the distances from the median (median absolute deviation).
    pub mad: f64,
}

/// A rate as a multiple of another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Relative {
    /// Median over the rounds of the quotient of throughputs, see [`crate::statistics::relative_in_turns`]; of two
    /// reports, the quotient of the medians.
    pub ratio: f64,
    /// The smallest quotient that the runs allow, see [`crate::statistics::relative`].
    pub low: f64,
    /// The largest quotient that the runs allow.
    pub high: f64,
    /// Whether the runs do not tell which one is faster: 1 lies between `low` and `high`.
    pub within_noise: bool,
}

impl Relative {
    /// The difference in percent, `-27.3` for a ratio of 0.727.
    pub fn percent(&self) -> f64 {
        (self.ratio - 1.0) * 100.0
    }
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

/// What a workload comes to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The workload.
    pub workload: String,
    /// For people.
    pub sentence: String,
    /// The same in figures, one entry for each target that was compared with the baseline.
    pub targets: Vec<TargetVerdict>,
}

/// What a workload comes to on one target.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TargetVerdict {
    /// The target.
    pub target: String,
    /// What it was compared with: `raw`, or the first target where the raw device was not measured.
    pub baseline: String,
    /// Geometric mean of the ratios of throughput over all cases.
    pub ratio: f64,
    /// How many cases.
    pub cases: u32,
    /// In how many of them the difference is within the noise.
    pub within_noise: u32,
    /// The case with the lowest ratio, with its direction.
    pub lowest_case: String,
    /// Its ratio.
    pub lowest_ratio: f64,
    /// The case with the highest ratio, with its direction.
    pub highest_case: String,
    /// Its ratio.
    pub highest_ratio: f64,
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
            environment,
            settings,
            response_time_bins_us: RESPONSE_TIME_BINS_US.to_vec(),
            targets,
            results: Vec::new(),
            verdicts: Vec::new(),
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
        self.results.iter().find(|result| {
            result.target == target
                && result.case.workload == case.workload
                && result.case.name == case.name
                && result.case.direction == case.direction
        })
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
            if !cases.iter().any(|seen| seen.name == case.name && seen.direction == case.direction) {
                cases.push(case);
            }
        }
        cases
    }

    /// What others are compared with: the raw device, or the first target where it was not measured.
    pub fn baseline(&self) -> Option<&str> {
        let raw = self.targets.iter().find(|target| target.name == RAW);
        raw.or(self.targets.first()).map(|target| target.name.as_str())
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

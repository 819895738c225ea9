//! The settings of a command line or an XML profile of DiskSpd.

/// A profile: one or several runs, one after the other.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// The command line, for the header of the results.
    pub command: String,
    pub(super) time_spans: Vec<TimeSpan>,
    /// Whether results are printed as XML instead of text.
    pub xml: bool,
    /// Whether only the profile itself is to be printed, without a run (`-Rp`).
    pub only_profile: bool,
    pub(super) verbose: bool,
    pub(super) progress: u32,
}

/// One run: the targets in it are used at the same time.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TimeSpan {
    pub targets: Vec<Target>,
    /// Measured time in seconds.
    pub duration: u32,
    pub warmup: u32,
    pub cooldown: u32,
    pub seed: u32,
    /// The number of threads for all targets together (`-F`); 0 if not given.
    pub threads: u32,
    /// The number of I/Os that each of these threads keeps in flight (`-O`); 0 if not given.
    pub requests: u32,
    pub latency: bool,
    pub iops_deviation: bool,
    /// Length of an interval in milliseconds.
    pub bucket: u32,
    pub random_data: bool,
    pub completion_routines: bool,
    pub affinity: bool,
}

impl Default for TimeSpan {
    fn default() -> TimeSpan {
        TimeSpan {
            targets: Vec::new(),
            duration: 10,
            warmup: 5,
            cooldown: 0,
            seed: 0,
            threads: 0,
            requests: 0,
            latency: false,
            iops_deviation: false,
            bucket: 1000,
            random_data: false,
            completion_routines: false,
            affinity: true,
        }
    }
}

/// Which caches a target is opened past.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Caches {
    /// Whether I/O bypasses the cache of the operating system.
    pub no_buffering: bool,
    pub write_through: bool,
}

/// The content of writes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum WriteContent {
    /// The bytes 0 to 255, repeated.
    #[default]
    Sequence,
    /// A part of a buffer of random bytes, which has this length.
    Random(u64),
}

/// A file, and the load on it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Target {
    pub path: String,
    pub block: u64,
    /// The alignment of random I/Os in bytes; `None` if I/O is sequential.
    pub random: Option<u64>,
    /// Share of random I/Os in percent, if not all are random.
    pub random_ratio: Option<u8>,
    /// Bytes from one sequential I/O to the next; the block size if `None`.
    pub stride: Option<u64>,
    pub interlocked: bool,
    pub thread_stride: u64,
    pub base: u64,
    /// The end of the range of I/Os in bytes; 0 for the end of the file.
    pub max: u64,
    /// The size in bytes that the file is created with (`-c`); 0 for an existing file.
    pub size: u64,
    pub requests: u32,
    pub threads: u32,
    pub write_ratio: u8,
    pub caches: Caches,
    pub content: WriteContent,
    pub burst: u32,
    /// The length of a pause in milliseconds.
    pub think: u32,
    pub throughput: Option<Throughput>,
    pub distribution: Vec<(f64, Length)>,
    pub sequential_scan: bool,
    pub random_access: bool,
    pub temporary: bool,
    pub large_pages: bool,
    pub weight: u32,
}

/// The greatest rate of each thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Throughput {
    BytesPerMs(u64),
    Iops(u64),
}

/// The length of a part of a distribution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Length {
    Percent(f64),
    Bytes(u64),
}

impl Default for Target {
    fn default() -> Target {
        Target {
            path: String::new(),
            block: 64 << 10,
            random: None,
            random_ratio: None,
            stride: None,
            interlocked: false,
            thread_stride: 0,
            base: 0,
            max: 0,
            size: 0,
            requests: 2,
            threads: 1,
            write_ratio: 0,
            caches: Caches::default(),
            content: WriteContent::default(),
            burst: 0,
            think: 0,
            throughput: None,
            distribution: Vec::new(),
            sequential_scan: false,
            random_access: false,
            temporary: false,
            large_pages: false,
            weight: 1,
        }
    }
}

impl Profile {
    pub(super) fn new(command: String) -> Profile {
        Profile {
            command,
            time_spans: Vec::new(),
            xml: false,
            only_profile: false,
            verbose: false,
            progress: 0,
        }
    }

    /// The paths of all targets, in their order.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.time_spans.iter().flat_map(|span| &span.targets).map(|target| target.path.as_str())
    }
}

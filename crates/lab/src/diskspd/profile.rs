//! What a command line or an XML file of DiskSpd asks for.

/// A whole profile: one or several runs, one after the other.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// The command line, for the results.
    pub command: String,
    pub(super) time_spans: Vec<TimeSpan>,
    /// Whether results are XML, and not text.
    pub xml: bool,
    /// The profile itself is asked for in that form, and no run.
    pub only_profile: bool,
    pub(super) verbose: bool,
    pub(super) progress: u32,
}

/// Targets that run at the same time.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TimeSpan {
    pub targets: Vec<Target>,
    /// Seconds.
    pub duration: u32,
    pub warmup: u32,
    pub cooldown: u32,
    pub seed: u32,
    /// Threads of all targets together (`-F`), if given.
    pub threads: u32,
    /// I/Os outstanding of each of them (`-O`), if given.
    pub requests: u32,
    pub latency: bool,
    pub iops_deviation: bool,
    /// Milliseconds of an interval.
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

/// How a target is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Caches {
    /// Past the operating system's.
    pub no_buffering: bool,
    pub write_through: bool,
}

/// What writes hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum WriteContent {
    /// The bytes 0 to 255 again and again.
    #[default]
    Sequence,
    /// From a buffer of random bytes of this length.
    Random(u64),
}

/// A file, and the load on it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Target {
    pub path: String,
    pub block: u64,
    /// Alignment of random I/Os, if they are.
    pub random: Option<u64>,
    /// Share of I/Os at random, if not all are.
    pub random_ratio: Option<u8>,
    /// From one sequential I/O to the next; the block if `None`.
    pub stride: Option<u64>,
    pub interlocked: bool,
    pub thread_stride: u64,
    pub base: u64,
    /// Up to where I/Os go; 0 is the whole.
    pub max: u64,
    /// The size it is made with (`-c`); 0 if it is there.
    pub size: u64,
    pub requests: u32,
    pub threads: u32,
    pub write_ratio: u8,
    pub caches: Caches,
    pub content: WriteContent,
    pub burst: u32,
    /// Milliseconds.
    pub think: u32,
    pub throughput: Option<Throughput>,
    pub distribution: Vec<(f64, Length)>,
    pub sequential_scan: bool,
    pub random_access: bool,
    pub temporary: bool,
    pub large_pages: bool,
    pub weight: u32,
}

/// What each thread does at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Throughput {
    BytesPerMs(u64),
    Iops(u64),
}

/// How long a part of a distribution is.
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

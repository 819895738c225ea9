//! CPU time of this process, kernel work done for it included.

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use std::time::Duration;

/// CPU time spent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTime {
    /// In the program.
    pub user: Duration,
    /// In the kernel on its behalf. Work that the kernel does in threads of its own is not counted.
    pub system: Duration,
}

impl CpuTime {
    /// So far, all threads.
    pub fn now() -> CpuTime {
        let usage = getrusage(UsageWho::RUSAGE_SELF).expect("a process can ask for its own usage");
        let duration =
            |time: nix::sys::time::TimeVal| Duration::from_micros(time.num_microseconds().max(0) as u64);
        CpuTime { user: duration(usage.user_time()), system: duration(usage.system_time()) }
    }

    /// What was spent after `earlier`.
    pub fn since(self, earlier: CpuTime) -> CpuTime {
        CpuTime {
            user: self.user.saturating_sub(earlier.user),
            system: self.system.saturating_sub(earlier.system),
        }
    }

    /// User and system together.
    pub fn total(self) -> Duration {
        self.user + self.system
    }
}

/// What one processor of the machine spent on whatever ran on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessorTime {
    /// In programs, in units of the system (1/100 s on Linux).
    pub user: u64,
    /// In the kernel.
    pub kernel: u64,
    /// With nothing to do, or waiting for I/O.
    pub idle: u64,
}

/// What each processor has done since the machine started: proc(5), `/proc/stat`.
pub(crate) fn processors() -> Vec<ProcessorTime> {
    let Ok(text) = std::fs::read_to_string("/proc/stat") else { return Vec::new() };
    let of_processor = |line: &str| {
        let (name, rest) = line.split_once(' ')?;
        name.strip_prefix("cpu").filter(|number| !number.is_empty())?;
        // user, nice, system, idle, iowait, irq, softirq, steal.
        let times: Vec<u64> = rest.split_whitespace().map_while(|time| time.parse().ok()).collect();
        let time = |index: usize| times.get(index).copied().unwrap_or(0);
        Some(ProcessorTime {
            user: time(0) + time(1),
            kernel: time(2) + time(5) + time(6) + time(7),
            idle: time(3) + time(4),
        })
    };
    text.lines().filter_map(of_processor).collect()
}

/// What they have done between two looks.
pub(crate) fn since(now: &[ProcessorTime], before: &[ProcessorTime]) -> Vec<ProcessorTime> {
    let difference = |(now, before): (&ProcessorTime, &ProcessorTime)| ProcessorTime {
        user: now.user.saturating_sub(before.user),
        kernel: now.kernel.saturating_sub(before.kernel),
        idle: now.idle.saturating_sub(before.idle),
    };
    now.iter().zip(before).map(difference).collect()
}

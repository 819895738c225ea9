//! CPU time of this process, with the kernel work done on its behalf, and of each processor of the machine.

use crate::host;
use std::time::Duration;

/// CPU time spent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTime {
    /// In user mode.
    pub user: Duration,
    /// In the kernel on behalf of the process. Work that the kernel does in threads of its own is not counted.
    pub system: Duration,
}

impl CpuTime {
    /// The CPU time of all threads of the process so far; none in virtual time, in which processors take none.
    pub fn now() -> CpuTime {
        if platter_device::sync::is_virtual() {
            return CpuTime::default();
        }
        CpuTime::of(host::cpu())
    }

    /// The CPU time so far of the processes that this one started and waited for, and of those that they waited for.
    pub(crate) fn of_children() -> CpuTime {
        CpuTime::of(host::cpu_of_children())
    }

    /// The CPU time as the system tells it.
    pub(crate) fn of((user, system): host::UserAndSystem) -> CpuTime {
        CpuTime { user, system }
    }

    /// Returns the CPU time spent between `earlier` and `self`.
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

/// How one processor of the machine spent its time, whichever programs ran on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessorTime {
    /// In user mode, in units of the system (1/100 s on Linux).
    pub user: u64,
    /// In the kernel, in the same units.
    pub kernel: u64,
    /// Idle, or waiting for I/O, in the same units.
    pub idle: u64,
}

/// Returns the times of each processor since the machine started: proc(5), `/proc/stat`. Empty if they cannot be read.
pub(crate) fn processors() -> Vec<ProcessorTime> {
    if !cfg!(target_os = "linux") || platter_device::sync::is_virtual() {
        return Vec::new();
    }
    let Ok(text) = std::fs::read_to_string("/proc/stat") else { return Vec::new() };
    let of_processor = |line: &str| {
        let (name, rest) = line.split_once(' ')?;
        name.strip_prefix("cpu").filter(|number| !number.is_empty())?;
        // The columns of the line: user, nice, system, idle, iowait, irq, softirq, steal.
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

/// Returns each processor's times between two samples.
pub(crate) fn since(now: &[ProcessorTime], before: &[ProcessorTime]) -> Vec<ProcessorTime> {
    let difference = |(now, before): (&ProcessorTime, &ProcessorTime)| ProcessorTime {
        user: now.user.saturating_sub(before.user),
        kernel: now.kernel.saturating_sub(before.kernel),
        idle: now.idle.saturating_sub(before.idle),
    };
    now.iter().zip(before).map(difference).collect()
}

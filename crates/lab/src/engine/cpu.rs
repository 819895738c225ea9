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

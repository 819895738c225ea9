//! What this process uses, and what the machine has.

use std::time::Duration;
use windows_sys::Win32::Foundation::FILETIME;
use windows_sys::Win32::System::SystemInformation::{GlobalMemoryStatusEx, MEMORYSTATUSEX};
use windows_sys::Win32::System::Threading::{GetCurrentProcess, GetProcessTimes};

/// CPU time of this process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTimes {
    /// In user mode.
    pub user: Duration,
    /// In the kernel on behalf of the process.
    pub system: Duration,
}

/// The CPU time of all threads of this process so far.
pub fn cpu_times() -> CpuTimes {
    let mut times = [FILETIME { dwLowDateTime: 0, dwHighDateTime: 0 }; 4];
    let [made, ended, kernel, user] = &mut times;
    // SAFETY: the pseudo handle is always valid, and the call fills four structures, which are live.
    unsafe { GetProcessTimes(GetCurrentProcess(), made, ended, kernel, user) };
    // Units of 100 ns.
    let duration = |time: &FILETIME| {
        let units = u64::from(time.dwHighDateTime) << 32 | u64::from(time.dwLowDateTime);
        Duration::from_nanos(units.saturating_mul(100))
    };
    CpuTimes { user: duration(user), system: duration(kernel) }
}

/// The memory of the machine and what of it is available, in bytes; 0 for what is unknown.
pub fn memory() -> (u64, u64) {
    let mut status =
        MEMORYSTATUSEX { dwLength: size_of::<MEMORYSTATUSEX>() as u32, ..MEMORYSTATUSEX::default() };
    // SAFETY: the call fills one structure, which is live and names its own length.
    match unsafe { GlobalMemoryStatusEx(&raw mut status) } {
        0 => (0, 0),
        _ => (status.ullTotalPhys, status.ullAvailPhys),
    }
}

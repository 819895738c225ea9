//! What this process uses, and what the machine has.

use std::io;
use std::os::windows::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;
use windows_sys::Win32::Foundation::FILETIME;
use windows_sys::Win32::Storage::FileSystem::{GetDiskFreeSpaceExW, GetDiskFreeSpaceW, GetVolumePathNameW};
use windows_sys::Win32::System::SystemInformation::{GlobalMemoryStatusEx, MEMORYSTATUSEX};
use windows_sys::Win32::System::Threading::{GetCurrentProcess, GetProcessTimes};

/// The CPU time of all threads of this process so far: in user mode, and in the kernel on its behalf.
pub fn cpu_times() -> (Duration, Duration) {
    let mut times = [FILETIME { dwLowDateTime: 0, dwHighDateTime: 0 }; 4];
    let [made, ended, kernel, user] = &mut times;
    // SAFETY: the pseudo handle is always valid, and the call fills four structures, which are live.
    unsafe { GetProcessTimes(GetCurrentProcess(), made, ended, kernel, user) };
    // Units of 100 ns.
    let duration = |time: &FILETIME| {
        let units = u64::from(time.dwHighDateTime) << 32 | u64::from(time.dwLowDateTime);
        Duration::from_nanos(units.saturating_mul(100))
    };
    (duration(user), duration(kernel))
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

/// The bytes that are free for this user in the file system that holds a path, and the bytes of its allocation unit.
///
/// # Errors
/// The errors of the system.
pub fn free_space(path: &Path) -> io::Result<(u64, u64)> {
    let path: Vec<u16> = std::path::absolute(path)?.as_os_str().encode_wide().chain([0]).collect();
    let mut root = vec![0_u16; path.len() + 260];
    // SAFETY: the path ends with a zero, and the buffer is live and of the length that is named.
    if unsafe { GetVolumePathNameW(path.as_ptr(), root.as_mut_ptr(), root.len() as u32) } == 0 {
        return Err(io::Error::last_os_error());
    }
    let (mut free, mut sectors, mut bytes, mut unused) = (0, 0, 0, [0; 2]);
    let [free_clusters, clusters] = &mut unused;
    // SAFETY: the path ends with a zero, the numbers are live, and what is not wanted is null.
    let is_told = unsafe {
        GetDiskFreeSpaceExW(root.as_ptr(), &raw mut free, std::ptr::null_mut(), std::ptr::null_mut()) != 0
            && GetDiskFreeSpaceW(root.as_ptr(), &raw mut sectors, &raw mut bytes, free_clusters, clusters)
                != 0
    };
    if is_told { Ok((free, u64::from(sectors) * u64::from(bytes))) } else { Err(io::Error::last_os_error()) }
}

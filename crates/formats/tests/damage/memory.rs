//! Measuring how much memory some work takes.

use std::fs;

/// Returns the most bytes that `work` holds at a time: the larger of what its own thread has allocated and what the
/// whole process grows by. Only the latter includes other threads that `work` starts.
pub(crate) fn measure(work: impl FnOnce()) -> u64 {
    // "5" sets the peak to what the process has now (proc(5)).
    fs::write("/proc/self/clear_refs", "5").expect("a peak that can be set");
    let before = peak();
    let own = allocation_counter::measure(work).bytes_max;
    own.max(peak().saturating_sub(before))
}

/// Returns the most memory that the process has had, in bytes.
fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("a status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
    let number = line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number");
    number << 10
}

//! The processor time of a process.

use std::time::Duration;

/// Returns the processor time of a process and all its threads, which is more meaningful than elapsed time on a machine
/// with other load.
///
/// Source: proc_pid_stat(5), fields 14 and 15, in units of 10 ms on every architecture of Linux that this runs on.
///
/// # Panics
/// If the process does not exist.
pub fn processor_time(process: u32) -> Duration {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat"))
        .expect("a process that nobody has waited for");
    // The name of the program is in parentheses and may contain anything.
    let fields = text.rsplit_once(')').expect("a name in parentheses").1.split_whitespace();
    let ticks: u64 = fields.skip(11).take(2).map(|field| field.parse::<u64>().expect("a number")).sum();
    Duration::from_millis(10 * ticks)
}

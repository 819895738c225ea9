//! Systems without control groups of processes.

/// The memory in bytes that a limit on the group of this process leaves it: there is no such limit.
pub fn memory_left() -> u64 {
    u64::MAX
}

/// The limit in bytes on the memory of the group of this process: there is none.
pub fn memory_limit() -> Option<u64> {
    None
}

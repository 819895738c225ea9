//! What the lab asks of the operating system: one module for Linux, and one for all others, with the same functions.

#[cfg(not(target_os = "linux"))]
mod elsewhere;
#[cfg(target_os = "linux")]
mod linux;

#[cfg(not(target_os = "linux"))]
pub(crate) use elsewhere::{
    Beneath, allocated, copy_range, cpu, cpu_of_children, end_group, file_system_number, forget_cached,
    free_space, is_missing_device, is_root, make_private_directory, memory_limit_of_process, mount,
    own_group, page_size, signal_of, statistics_of_block, sync_file_system, system, unmount, wait_for_end,
};
#[cfg(target_os = "linux")]
pub(crate) use linux::{
    Beneath, allocated, copy_range, cpu, cpu_of_children, end_group, file_system_number, forget_cached,
    free_space, is_missing_device, is_root, make_private_directory, memory_limit_of_process, mount,
    own_group, page_size, signal_of, statistics_of_block, sync_file_system, system, unmount, wait_for_end,
};

use std::time::Duration;

/// CPU time, in user mode and in the kernel.
pub(crate) type UserAndSystem = (Duration, Duration);

/// What the system tells of itself.
pub(crate) struct System {
    pub host: String,
    pub machine_id: String,
    pub cpu: Option<String>,
    /// Name and version of the kernel.
    pub kernel: String,
    pub os: Option<String>,
}

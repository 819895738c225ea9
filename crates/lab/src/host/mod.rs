//! What the lab asks of the operating system: one module for Linux, one for Windows and one for others, with the same
//! functions. What the latter two have in common stands in `elsewhere`.

#[cfg(not(target_os = "linux"))]
mod elsewhere;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(not(any(target_os = "linux", windows)))]
mod plain;
#[cfg(windows)]
mod windows;

#[cfg(not(target_os = "linux"))]
use elsewhere as common;
#[cfg(target_os = "linux")]
use linux as common;
#[cfg(target_os = "linux")]
use linux as system;
#[cfg(not(any(target_os = "linux", windows)))]
use plain as system;
#[cfg(windows)]
use windows as system;

pub(crate) use common::{
    allocated, copy_range, cpu, cpu_of_children, file_system_number, forget_cached, free_space,
    is_missing_device, is_root, make_private_directory, memory_limit_of_process, mount, own_group, page_size,
    statistics_of_block, system, unmount,
};
pub(crate) use system::{
    Beneath, FORGETS, MOUNTS, Running, SHELL, directory_for_programs, shell, sync_file_system,
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

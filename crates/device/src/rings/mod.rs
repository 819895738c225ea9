//! Transfers that a thread hands to the operating system many at a time, where it has a way for that.

#[cfg(windows)]
mod iocp;
#[cfg(not(target_os = "linux"))]
mod none;
#[cfg(any(target_os = "linux", windows))]
mod slots;
#[cfg(target_os = "linux")]
mod uring;

#[cfg(windows)]
pub(crate) use iocp::queue;
#[cfg(not(target_os = "linux"))]
pub(crate) use none::Pool;
#[cfg(not(any(target_os = "linux", windows)))]
pub(crate) use none::queue;
#[cfg(target_os = "linux")]
pub(crate) use uring::{Pool, queue};

//! Transfers that a thread hands to the operating system many at a time, where it has a way for that.

#[cfg(not(target_os = "linux"))]
mod none;
#[cfg(target_os = "linux")]
mod uring;

#[cfg(not(target_os = "linux"))]
pub(crate) use none::{Pool, queue};
#[cfg(target_os = "linux")]
pub(crate) use uring::{Pool, queue};

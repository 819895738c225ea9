//! Which file system is on this device.
#![forbid(unsafe_code)]

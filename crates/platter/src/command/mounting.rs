//! Helpers of mounting: the background process, its log, the programs that use a mount, and remounting.

pub mod daemon;
pub mod log;
pub mod remount;
pub mod scrubbing;
pub mod users;

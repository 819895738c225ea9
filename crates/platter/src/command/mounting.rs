//! What mounting needs beside the volume: a process in the background, its log, who uses a mount, and changing one.

pub mod daemon;
pub mod log;
pub mod remount;
pub mod users;

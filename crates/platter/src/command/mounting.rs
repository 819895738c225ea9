//! What mounting needs beside the volume: a process in the background, its log, and who uses a mount.

pub mod daemon;
pub mod log;
pub mod users;

//! One file a command.

pub mod completions;
pub mod man;

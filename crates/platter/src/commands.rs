//! One file a command.

pub mod compare;
pub mod completions;
mod lab;
pub mod man;
pub mod report;
pub mod run;

//! One module for each command.

pub mod attr;
pub mod cat;
pub mod check;
pub mod compare;
pub mod completions;
pub mod cp;
pub mod endurance;
pub mod info;
pub mod integrity;
mod lab;
pub mod ls;
pub mod man;
pub mod mirror;
pub mod mkdir;
pub mod mkfs;
pub mod mount;
pub mod mv;
pub mod recover;
pub mod report;
pub mod rm;
pub mod run;
pub mod scrub;
pub mod status;
pub mod umount;
pub mod undo;
pub mod windows_kit;
pub mod windows_verdict;

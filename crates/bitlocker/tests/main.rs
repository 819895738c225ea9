//! The tests of this crate are modules of one program.

mod common;
mod contract;
mod hostile;
mod judges;
mod power;
mod specimens;

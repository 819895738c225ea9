//! The tests of this crate are modules of one program.

mod common;
mod hostile;
mod judges;
mod model;
mod power;
mod speed;

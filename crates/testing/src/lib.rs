//! What Platter's tests share and nobody ships.
#![forbid(unsafe_code)]

pub mod crowd;
pub mod simulation;

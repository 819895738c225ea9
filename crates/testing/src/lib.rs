//! What Platter's tests share and nobody ships.
#![forbid(unsafe_code)]

pub mod simulation;

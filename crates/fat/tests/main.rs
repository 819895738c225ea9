//! The tests of this crate are modules of one program: that is compiled in a fraction of the time of many programs.

mod bits;
mod check;
mod common;
mod cost;
mod damaged;
mod foreign_names;
mod format;
mod free_count;
mod fuzz;
mod growth;
mod interchange;
mod judges;
mod model;
mod power;
mod recover;
mod shared_clusters;
mod short_fat;
mod small_sectors;
mod threads;
mod upper_half;

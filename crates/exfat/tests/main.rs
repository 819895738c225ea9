//! The tests of this crate are modules of one program: that is compiled in a fraction of the time of many programs.
//! Those with `cfg` ask other projects' programs about volumes, or have them make some: these run on Linux.

mod bits;
#[cfg(target_os = "linux")]
mod check;
mod common;
mod cost;
#[cfg_attr(not(target_os = "linux"), allow(dead_code))]
mod damaged;
#[cfg(target_os = "linux")]
mod foreign;
#[cfg(target_os = "linux")]
mod format;
mod fuzz;
mod growth;
#[cfg(target_os = "linux")]
mod interchange;
#[cfg(target_os = "linux")]
mod judges;
mod model;
mod power;
mod recover;
mod shared_clusters;
mod small_sectors;
mod threads;

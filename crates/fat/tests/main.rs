//! The tests of this crate are modules of one program: that is compiled in a fraction of the time of many programs.
//! Those with `cfg` ask other projects' programs about volumes, or have them make some: these run on Linux.

#[cfg(target_os = "linux")]
mod bits;
#[cfg(target_os = "linux")]
mod check;
mod common;
mod cost;
#[cfg(target_os = "linux")]
mod damaged;
#[cfg(target_os = "linux")]
mod foreign_names;
#[cfg(target_os = "linux")]
mod format;
mod free_count;
mod fuzz;
mod growth;
#[cfg(target_os = "linux")]
mod interchange;
#[cfg(target_os = "linux")]
mod judges;
mod model;
mod power;
#[cfg(target_os = "linux")]
mod recover;
#[cfg(target_os = "linux")]
mod shared_clusters;
#[cfg(target_os = "linux")]
mod short_fat;
#[cfg(target_os = "linux")]
mod small_sectors;
mod threads;
mod upper_half;

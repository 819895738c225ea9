//! The tests of this crate are modules of one program: that is compiled in a fraction of the time of many programs.
//! Those with `cfg` ask other projects' programs about volumes, or have them make some: these run on Linux.

mod callers;
#[cfg(target_os = "linux")]
mod check;
mod common;
mod cost;
mod cut;
#[cfg(target_os = "linux")]
mod damage;
#[cfg_attr(not(target_os = "linux"), allow(dead_code))]
mod damaged;
#[cfg(target_os = "linux")]
mod dos_names;
mod elsewhere;
mod faults;
#[cfg(target_os = "linux")]
mod filled;
#[cfg(target_os = "linux")]
mod format;
#[cfg(target_os = "linux")]
mod former;
mod fuzz;
#[cfg(target_os = "linux")]
mod grown;
#[cfg(target_os = "linux")]
mod growth;
#[cfg(target_os = "linux")]
mod indexes;
#[cfg(target_os = "linux")]
mod interchange;
#[cfg(target_os = "linux")]
mod judges;
mod large;
#[cfg(target_os = "linux")]
mod limits;
#[cfg(target_os = "linux")]
mod log;
mod model;
mod power;
#[cfg(target_os = "linux")]
mod reading;
#[cfg(target_os = "linux")]
mod recover;
#[cfg(target_os = "linux")]
mod resized;
mod shared_clusters;
#[cfg(target_os = "linux")]
mod surface;
mod threads;
mod unfinished;
#[cfg(target_os = "linux")]
mod wof;

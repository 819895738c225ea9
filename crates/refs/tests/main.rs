//! The tests of this crate are modules of one program: that is compiled in a fraction of the time of many programs.
//! Those with `cfg` ask other projects' programs about volumes, or have them make some: these run on Linux.

mod bytes;
mod check;
mod common;
mod cost;
mod damage;
mod damaged;
mod forms;
mod fresh;
mod full;
mod fuzz;
mod growth;
mod homes;
mod in_flight;
mod judged;
#[cfg(target_os = "linux")]
mod judges_by_path;
mod large;
mod limits;
mod model;
mod node_numbers;
mod overwrite;
mod power;
mod prereads;
mod recover;
mod room;
mod salvage;
mod scrub;
mod sync_log;
mod threads;
mod unchanged;
mod work_beside;

//! The tests of this crate are modules of one program: that is compiled in a fraction of the time of many programs.

mod bytes;
mod check;
mod common;
mod cost;
mod damage;
mod damaged;
mod full;
mod fuzz;
mod growth;
mod homes;
mod in_flight;
mod judged;
mod judges_by_path;
mod large;
mod limits;
mod model;
mod node_numbers;
mod overwrite;
mod power;
mod recover;
mod room;
mod salvage;
mod scrub;
mod sync_log;
mod threads;
mod work_beside;

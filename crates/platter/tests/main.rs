//! Most tests of this crate are modules of one program: that is compiled in a fraction of the time of many programs.

mod common;
mod copy;
mod damage;
mod doubt;
mod files;
mod first_sector;
mod habits;
mod helpers;
mod images;
mod mirror;
mod mount_kernel;
mod mount_names;
mod mount_place;
mod mount_programs;
mod mount_scrub;
mod mount_streams;
mod ntfs;
mod recover;
mod refs;
mod refusals;
mod safety;
mod streams;
mod undo;
mod windows_kit;
mod windows_script;

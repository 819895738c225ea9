//! The tests of this crate are modules of one program.

mod common;
mod dirty;
mod evidence;
mod hostile;
mod judges;
mod ldm;
mod model;
mod power;
mod qcow2;
mod speed;
mod split;
mod vmdk;

//! The browser for volumes in the terminal.
//!
//! [`Model`](model::Model) is all that there is to see, and changes by keys and by what was read; it knows no terminal.
//! [`draw`] shows it, [`work`] reads the volume in threads of its own, so that the screen never waits for a disk, and
//! [`terminal`] brings them together. Nothing is written but copies on the host.

mod backend;
mod draw;
mod key;
mod lines;
mod model;
mod pick;
mod target;
mod terminal;
mod viewer;
mod watch;
mod work;

pub(super) use terminal::run;

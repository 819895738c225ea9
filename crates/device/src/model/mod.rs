//! Models of devices, in virtual time.
//!
//! A [`ModelDevice`] holds its content in sparse memory and has the service times of a model: of a hard disk, of
//! flash, of a card or of an array, behind a link, with parameters by name. [`VirtualTime`] is the clock: while it passes, whatever
//! runs on such a device takes the time that the model says, and none of the machine's. What is modelled and what is not, and
//! the source of each parameter, is in docs/models.md.

mod array;
mod card;
mod content;
mod device;
mod disk;
mod drive;
mod flash;
mod link;
mod parameters;
mod time;

pub use device::ModelDevice;
pub use parameters::{Parameters, Value};
pub use time::VirtualTime;

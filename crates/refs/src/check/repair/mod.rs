//! Carrying out the repairs that were noted while a volume was checked.
//!
//! Copies of the first structures are written back as they are. Everything else goes the way of any other change of the
//! volume: through [`crate::core`], copy on write, with one commit at the end. Before that nothing is overwritten, so a
//! repair that does not get that far leaves the volume as it was. A repair that could lose content is not made.

mod apply;
mod log;
mod names;
mod numbers;
mod plan;
pub(super) mod relay;
mod tables;

pub(super) use apply::apply;
pub(super) use log::{Log, carry_out_log};

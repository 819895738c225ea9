//! A simulator that runs many callers on one volume, in an order that depends on a seed alone.
//!
//! [`run`] starts callers that make all kinds of calls on the same few files at once. The seed decides what they tend
//! to do (`habits`) and, at each lock and each device call, which of them goes on (`order`); it decides when each
//! request of a queue completes and in which order ([`device`]), which transfers fail, and where the power is cut
//! afterwards. Everything that the callers saw is judged: every byte must have a value that *some* order of the calls
//! explains, and after a power cut everything that a returned sync covers must be there (`judge`). A run with the
//! same seed is the same run, so a finding is replayed with its seed.
//!
//! [`device`]: SimulatedDevice

mod caller;
mod device;
mod explore;
mod habits;
mod history;
mod judge;
mod moment;
mod names;
mod naming;
mod order;
mod run;
mod schedule;
mod script;
mod setting;
mod stage;
mod transfers;
mod verdict;

pub use device::SimulatedDevice;
pub use explore::{explore, survey};
pub use run::{run, trace};
pub use schedule::Tasks;
pub use script::Abilities;
pub use setting::{Setting, Volume};

//! When something happened in a run.

/// A moment of a run: how many calls began or returned before it, and how many writes the device had seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment {
    /// Calls that had begun or returned.
    pub tick: u64,
    /// Writes of the device.
    pub writes: usize,
}

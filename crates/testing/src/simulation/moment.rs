//! Points in time of a run.

/// A moment of a run, given by how many calls began or returned before it and how many writes the device had done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Moment {
    /// The number of calls that had begun or returned.
    pub tick: u64,
    /// The number of writes of the device.
    pub writes: usize,
}

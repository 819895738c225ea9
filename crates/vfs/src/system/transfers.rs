//! Transfers: the two halves of reads, writes and syncs, between which a device carries out many requests at once.

#[cfg(doc)]
use crate::FileSystem;
use crate::{Error, Node, Plan, Result};
use platter_device::{Buffer, Device, Queue};
use std::sync::Arc;

/// Data in two halves: a *plan* turns a request into device segments, the code that drives the device carries them out,
/// and *finish* verifies and records the result. Whatever was planned must be finished.
pub trait Transfers: Send + Sync {
    /// The device of the volume, on which plans are carried out.
    fn device(&self) -> &Arc<dyn Device>;

    /// A queue on the volume's device for at most `depth` plans in flight, for use by one thread. For a format that
    /// places new data behind the last written data, the queue joins the adjacent writes of different plans.
    fn queue(&self, depth: usize) -> Result<Box<dyn Queue + '_>> {
        Ok(self.device().queue(depth)?)
    }

    /// Waits until no caller has claimed a range of the node's content; to be called after [`Error::Busy`], and without
    /// a plan in flight on the node, because the claim may be waiting for that plan.
    fn wait_until_free(&self, _node: Node) {}

    /// First half of a read: fills `plan` with the device segments for `length` bytes from `offset`, or as many as
    /// there are before the end of the file. Both are multiples of the device's logical sector.
    ///
    /// # Errors
    /// [`Error::Busy`] while another caller has claimed part of the range: see [`Transfers::wait_until_free`].
    fn plan_read(&self, node: Node, offset: u64, length: usize, plan: &mut Plan) -> Result<()>;

    /// Second half of a read: `buffer` holds the data of the segments, or `done` is the error of the transfers.
    /// Verifies the data where the file has checksums, fills holes with zeroes, and returns how many bytes of the
    /// buffer belong to the file.
    fn finish_read(
        &self,
        plan: &mut Plan,
        buffer: &mut [u8],
        done: platter_device::Result<()>,
    ) -> Result<usize>;

    /// First half of a write of `data` at `offset`: allocates what is needed and fills `plan`. `offset` and the length
    /// are multiples of the device's logical sector. Until the second half, a reader sees the old content or, where
    /// clusters are overwritten in place, the old or the new.
    ///
    /// # Errors
    /// [`Error::Busy`] while another caller has claimed part of the range: see [`Transfers::wait_until_free`].
    fn plan_write(&self, node: Node, offset: u64, data: &[u8], plan: &mut Plan) -> Result<()>;

    /// Does the long computations on a planned request's data, such as checksums, ahead of its second half. For a write
    /// it is called with all data while the device carries the write out ([`Queue::submit_beside`]); for a read it is
    /// called with each part that has arrived, which begins at byte `at` of the buffer, while other parts are in flight
    /// ([`Queue::submit_in_parts`]). If it is not called, the second half does the same work and takes longer.
    fn work_beside(&self, _plan: &mut Plan, _at: usize, _data: &[u8]) {}

    /// Second half of a write, with the same data: records what was written (size, extents, checksums, times), or
    /// undoes the first half if `done` is an error. Returns whether [`FileSystem::sync`] is needed before the data that
    /// the device has made durable can be found after a power cut: `false` for clusters overwritten in place whose
    /// metadata is durable already.
    fn finish_write(&self, plan: &mut Plan, data: &[u8], done: platter_device::Result<()>) -> Result<bool>;

    /// First half of a sync of writes that are planned and not finished, for those that need one
    /// [beside](crate::SyncNeed::Beside) them: fills `buffer` with the log entry that describes the writes, and `plan`
    /// with the entry's place. The caller writes the buffer like their data, durable on the device, and at the same
    /// time; so a write that waits until it is durable waits no longer than one that needs no sync.
    ///
    /// Returns `false` if such a sync is not possible now or the [work beside](Transfers::work_beside) one of the
    /// writes is not done; then the writes need [`FileSystem::sync`] when they are finished. Other callers that sync
    /// meanwhile wait a little until this sync is finished, by whichever thread; if it is not finished by then they go
    /// on without it, and the writes are made durable once more when it is.
    fn plan_sync(
        &self,
        _writes: &mut dyn Iterator<Item = &mut Plan>,
        _plan: &mut Plan,
        _buffer: &mut Buffer,
    ) -> Result<bool> {
        Ok(false)
    }

    /// Second half of a planned sync, after all its writes are finished: when it returns, the writes survive a power
    /// cut. If one of them failed, the others do.
    fn finish_sync(&self, _plan: &mut Plan, _done: platter_device::Result<()>) -> Result<()> {
        Err(Error::InvalidArgument("no sync was planned"))
    }
}

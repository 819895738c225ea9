//! Plans: data requests as device transfers, which a file system makes and the driver of the device carries out.

use crate::{Error, Result};
use platter_device::{Buffer, Device, Segments};
use smallvec::SmallVec;
use std::any::Any;
use std::ops::Range;

/// What a planned write needs to survive a power cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SyncNeed {
    /// Its transfers must be durable on the device (forced unit access, or a flush after them); no sync is needed.
    #[default]
    None,
    /// The write needs a sync after it is finished. The sync makes the data durable too, so the transfers need not be
    /// durable by themselves.
    After,
    /// Its transfers must be durable on the device, and it needs a sync: one planned while the transfers are in flight
    /// ([`plan_sync`](crate::Transfers::plan_sync)), or else one after it is finished.
    Beside,
}

/// What has to be read from the device before a request can be planned: a page of a file's table of runs, or the clusters
/// with checksums of which the request is a part.
pub struct Preread {
    /// Transfers from the device into `buffer`.
    pub segments: Segments,
    /// As long as the transfers need.
    pub buffer: Buffer,
    /// Whether `buffer` holds what the segments name. If the transfers fail it stays `false`: then the volume reads by
    /// itself, and its error says what could not be read.
    pub is_read: bool,
}

/// A read or write as transfers of the device.
///
/// A plan is made once and reused for many requests, so that the hot path allocates nothing. Every plan that
/// `plan_read` or `plan_write` filled must be given to `finish_read` or `finish_write`, whatever became of its I/O:
/// until then the file system counts it as in flight, and anything that would move the file's clusters waits.
///
/// # Prereads
/// A driver that sets [`Plan::prereads`] may get a plan back with a [`Preread`] and nothing else: it carries out the
/// preread, puts it back with `is_read` set, and makes the same plan once more, until none is left. Meanwhile no lock is
/// held and nothing counts as in flight, so the plan may also be dropped. For other drivers the volume reads by itself
/// while it makes the plan.
#[derive(Default)]
pub struct Plan {
    /// The number of the file's node.
    pub node: u64,
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// Bytes of the caller's request that this plan covers. A read that meets the end of the file covers fewer than
    /// were asked for; a write covers all.
    pub length: usize,
    /// Transfers, each a multiple of the device's logical sector. A read's last one may reach past `length`, but
    /// never past the caller's buffer.
    pub segments: Segments,
    /// For reads: ranges of the buffer that no segment fills and that read as zeroes. `finish_read` clears them.
    pub holes: SmallVec<[Range<u32>; 2]>,
    /// For writes: what else is needed if the write is to be durable.
    pub sync: SyncNeed,
    /// Whether there is work on the data, such as checksums, that is best done while the transfers are in flight
    /// ([`work_beside`](crate::Transfers::work_beside)).
    pub work_beside: bool,
    /// Whether the driver carries out prereads and writes [`Plan::content`]; the driver sets it once.
    pub prereads: bool,
    /// What has to be read before the request can be planned; only with [`Plan::prereads`].
    pub preread: Option<Preread>,
    /// For writes: what the segments write instead of the caller's data, which is a part of it; only with
    /// [`Plan::prereads`].
    pub content: Option<Buffer>,
    /// What the file system keeps from plan to finish, and between requests so that its memory is reused. Only the
    /// volume that made the plan knows its type.
    state: Option<Box<dyn Any + Send>>,
}

impl Plan {
    /// The error of the second half of a plan whose first half was not made, or that is finished already.
    pub const FINISHED: Error = Error::InvalidArgument("the plan has no request under way");

    /// An empty plan of a driver that carries out prereads.
    pub fn with_prereads() -> Plan {
        Plan { prereads: true, ..Plan::default() }
    }

    /// Puts the file system's state into the plan.
    pub fn keep<K: Any + Send>(&mut self, state: Box<K>) {
        self.state = Some(state);
    }

    /// The state that the file system kept in the plan, if it has the type `K`.
    pub fn state<K: Any + Send>(&self) -> Option<&K> {
        self.state.as_ref()?.downcast_ref()
    }

    /// The state that the file system kept in the plan, to be changed, if it has the type `K`.
    pub fn state_mut<K: Any + Send>(&mut self) -> Option<&mut K> {
        self.state.as_mut()?.downcast_mut()
    }

    /// Takes the state that the file system kept in the plan, if it has the type `K` and `suits` accepts it.
    pub fn kept<K: Any + Send>(&mut self, suits: impl FnOnce(&K) -> bool) -> Option<Box<K>> {
        let kept = self.state.take()?.downcast::<K>().ok()?;
        suits(&kept).then_some(kept)
    }

    /// Takes the state that the file system kept in the plan when it made the plan.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if another volume made the plan.
    pub fn own<K: Any + Send>(&mut self, suits: impl FnOnce(&K) -> bool) -> Result<Box<K>> {
        self.kept(suits).ok_or(Error::InvalidArgument("the plan is not one of this volume's"))
    }

    /// Checks that a plan can cover this range of a file on a device with logical sectors of `sector` bytes.
    ///
    /// # Errors
    /// [`Error::Misaligned`]; [`Error::InvalidArgument`] if the range is 4 GiB or longer, or its end beyond 2^64.
    pub fn check_range(sector: u32, offset: u64, length: usize) -> Result<()> {
        if (offset | length as u64) & (u64::from(sector) - 1) != 0 {
            return Err(Error::Misaligned { offset, length: length as u64, sector });
        }
        if u32::try_from(length).is_err() {
            return Err(Error::InvalidArgument("a plan covers less than 4 GiB"));
        }
        if offset.checked_add(length as u64).is_none() {
            return Err(Error::InvalidArgument("offset and length together are beyond 2^64"));
        }
        Ok(())
    }

    /// Empties the plan for a new request, keeping its memory.
    pub fn start(&mut self, node: u64, offset: u64, length: usize) {
        debug_assert!(
            offset.checked_add(length as u64).is_some(),
            "the end of a plan is a position in a file"
        );
        self.node = node;
        self.offset = offset;
        self.length = length;
        self.segments.clear();
        self.holes.clear();
        self.sync = SyncNeed::None;
        self.work_beside = false;
        self.content = None;
    }

    /// Appends a transfer of `length` bytes between device offset `offset` and buffer position `at`, joined with the
    /// transfer before it where both the offsets and the positions are adjacent.
    pub fn push(&mut self, offset: u64, at: u32, length: u32) {
        debug_assert!(length > 0, "a transfer moves something");
        debug_assert!(at.checked_add(length).is_some(), "a transfer lies in a buffer below 4 GiB");
        debug_assert!(offset.checked_add(length.into()).is_some(), "a transfer lies on a device");
        if let Some(last) = self.segments.last_mut()
            && last.offset + u64::from(last.length) == offset
            && last.at + last.length == at
        {
            last.length += length;
            return;
        }
        self.segments.push(platter_device::Segment { offset, at, length });
    }

    /// Has `make` make the plan, and carries out its prereads with blocking calls, until it is whole.
    ///
    /// # Errors
    /// Any error of `make`.
    pub fn make_whole(
        &mut self,
        device: &dyn Device,
        mut make: impl FnMut(&mut Plan) -> Result<()>,
    ) -> Result<()> {
        self.prereads = true;
        loop {
            make(self)?;
            let Some(preread) = &mut self.preread else { return Ok(()) };
            preread.is_read = read_segments(&preread.segments, device, &mut preread.buffer).is_ok();
        }
    }

    /// Carries out a planned read with blocking calls.
    ///
    /// # Errors
    /// The device's error, which the caller passes to `finish_read`.
    pub fn read_from(&self, device: &dyn Device, buffer: &mut [u8]) -> platter_device::Result<()> {
        read_segments(&self.segments, device, buffer)
    }

    /// Carries out a planned write with blocking calls.
    ///
    /// # Errors
    /// The device's error, which the caller passes to `finish_write`.
    pub fn write_to(&self, device: &dyn Device, data: &[u8]) -> platter_device::Result<()> {
        let data = self.content.as_deref().unwrap_or(data);
        self.segments.iter().try_for_each(|segment| {
            let at = segment.at as usize;
            device.write_at(segment.offset, &data[at..at + segment.length as usize])
        })
    }

    /// Zeroes the parts of a read's buffer that no segment filled.
    pub fn clear_holes(&self, buffer: &mut [u8]) {
        for hole in &self.holes {
            buffer[hole.start as usize..hole.end as usize].fill(0);
        }
    }
}

/// Reads each segment into its place in the buffer.
fn read_segments(segments: &Segments, device: &dyn Device, buffer: &mut [u8]) -> platter_device::Result<()> {
    segments.iter().try_for_each(|segment| {
        let at = segment.at as usize;
        device.read_at(segment.offset, &mut buffer[at..at + segment.length as usize])
    })
}

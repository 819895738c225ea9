//! Block devices: everything below a file system.
//!
//! A [`Device`] is an array of sectors that can be read, written, flushed and discarded from many threads at once.
//! Image files and Linux block devices ([`FileDevice`]) and memory ([`MemoryDevice`]) hold the content; the other
//! devices wrap one, to show a part of it, to record its transfers or to make it fail, or combine several as copies of
//! the same content ([`Mirror`]).
//!
//! There are two ways to do I/O. The blocking calls (`read_at`, `write_at` and their batches) suit metadata and
//! interactive use. A [`Queue`] keeps many requests in flight from a single thread; it owns each request's [`Buffer`]
//! until it returns the completion, so no caller needs `unsafe`.
//!
//! This crate does not interpret the file systems on a device. It is the only crate that contains `unsafe` code.
//!
//! # Example
//!
//! A custom device has to implement nine methods; everything in this crate and above then works on it.
//!
//! ```
//! use platter_device::{Device, Immediate, Operation, Queue, Result, Sectors, check_transfer};
//! use std::sync::Mutex;
//!
//! struct Ram(Mutex<Vec<u8>>);
//!
//! impl Device for Ram {
//!     fn name(&self) -> &str {
//!         "ram"
//!     }
//!
//!     fn len(&self) -> u64 {
//!         self.0.lock().unwrap().len() as u64
//!     }
//!
//!     fn sectors(&self) -> Sectors {
//!         Sectors::SMALL
//!     }
//!
//!     fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
//!         check_transfer(self, Operation::Read, offset, buffer.len() as u64)?;
//!         buffer.copy_from_slice(&self.0.lock().unwrap()[offset as usize..][..buffer.len()]);
//!         Ok(())
//!     }
//!
//!     fn write_at(&self, offset: u64, data: &[u8]) -> Result<()> {
//!         check_transfer(self, Operation::Write, offset, data.len() as u64)?;
//!         self.0.lock().unwrap()[offset as usize..][..data.len()].copy_from_slice(data);
//!         Ok(())
//!     }
//!
//!     fn flush(&self) -> Result<()> {
//!         Ok(())
//!     }
//!
//!     fn discard(&self, offset: u64, length: u64) -> Result<()> {
//!         check_transfer(self, Operation::Discard, offset, length)
//!     }
//!
//!     fn queue(&self, depth: usize) -> Result<Box<dyn Queue + '_>> {
//!         Ok(Box::new(Immediate::new(self, depth)))
//!     }
//! }
//!
//! # fn main() -> Result<()> {
//! let device = Ram(Mutex::new(vec![0; 1 << 20]));
//! device.write_at(512, &[1; 512])?;
//! device.flush()?;
//! assert!(device.read_at(100, &mut [0; 512]).is_err()); // sectors only
//! # Ok(())
//! # }
//! ```

mod any;
mod blank_first;
mod buffer;
mod contents;
mod descriptor;
mod error;
mod faults;
mod file;
#[doc(hidden)]
pub mod fuzzing;
mod gather;
mod gpt;
pub mod host;
mod marks;
mod memory;
mod mirror;
#[cfg(feature = "model")]
pub mod model;
mod overlay;
mod partition;
mod placed;
mod positional;
mod power;
mod protect;
mod queue;
mod recorder;
mod response;
mod rings;
mod size;
mod stoppable;
mod stripes;
pub mod sync;
mod table;
mod temporary;
mod undo;

pub use any::{read_any, write_any};
pub use blank_first::BlankFirstSector;
pub use buffer::Buffer;
pub use contents::{contents, is_damaged_like, is_left_over};
pub use error::{Error, Operation, Result};
pub use faults::{Fault, Faults, When};
pub use file::{Caching, FileDevice, FileOptions};
pub use gather::Gather;
pub use gpt::{gpt_partition, make_gpt};
pub use host::{
    Ending, Hardware, IN_USE, file_behind, hardware, host_file_system, inherit_standard_files_only,
    is_claimed, is_ending, share_memory, writer_of,
};
pub use marks::is_encrypted;
pub use memory::MemoryDevice;
pub use mirror::{
    FileRecord, MetadataSum, Mirror, MirrorCopy, MirrorEvent, MirrorJudge, MirrorRecord, MirrorSet,
    Soundness, Standing,
};
pub use overlay::OverlayDevice;
pub use partition::Partition;
pub use power::{Grain, Log, Survivors};
pub use protect::{
    refuse_any_data, refuse_contents, refuse_data, refuse_evidence, refuse_in_use, refuse_unlike_copies,
};
pub use queue::{Completion, Immediate, Kind, Queue, Request, Segment, Segments, Work};
pub use recorder::{DirectionTraffic, Recorder, SizeBin, Traffic};
pub use size::{parse_size, show_size};
pub use stoppable::Stoppable;
pub use stripes::Stripes;
pub use table::{PartitionEntry, PartitionTable, Scheme, select_partition};
pub use undo::{Restored, UndoDevice, UndoFile};

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Sector sizes of a device, in bytes. Both are powers of two from 512 to 65,536, and `physical >= logical`; or both
/// are 1, for a file that is no disk image ([`FileOptions::bytewise`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sectors {
    /// The unit of addressing: offsets and lengths of every transfer are multiples of it.
    pub logical: u32,
    /// The unit that the medium writes without a read-modify-write of its own, and that a power cut leaves whole.
    pub physical: u32,
}

impl Sectors {
    /// 512-byte logical and physical sectors.
    pub const SMALL: Sectors = Sectors { logical: 512, physical: 512 };
    /// 4,096-byte logical and physical sectors ("4Kn").
    pub const LARGE: Sectors = Sectors { logical: 4096, physical: 4096 };
}

/// An array of sectors, usable from many threads at once.
///
/// Every offset and length must be a multiple of [`Sectors::logical`] and lie inside [`Device::len`]; otherwise the
/// call fails with [`Error::Misaligned`] or [`Error::OutOfRange`] and nothing is transferred. Buffers may lie at any
/// memory address; a [`Buffer`] avoids a copy where the device needs aligned memory.
///
/// A write is *volatile* until [`Device::flush`] returns, or until it completes if it was sent through a queue with
/// [`Request::durable`]. Before that, a power cut may keep any part of it, sector by sector, in any order relative to
/// other unflushed writes. Overlapping transfers in flight together have no defined order.
pub trait Device: Send + Sync {
    /// The name for error messages: a path, `mem:64M`, or the name of the device that this one wraps.
    fn name(&self) -> &str;

    /// Size in bytes, a multiple of the logical sector.
    fn len(&self) -> u64;

    /// The device that this one lies over, for a layer in which every offset is the same as in the device below. What
    /// such a layer does not say itself is asked of that device: all provided methods but the batches, which call
    /// [`Device::read_at`] and [`Device::write_at`] of the layer. A layer that changes what is read or written, or where,
    /// therefore has its own [`Device::read_copy`], [`Device::repair_copy`] and [`Device::next_data`] too.
    fn below(&self) -> Option<&dyn Device> {
        None
    }

    /// Whether the device has no bytes at all.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Sector sizes.
    fn sectors(&self) -> Sectors;

    /// The offset up to which the device can be read. It is less than [`Device::len`] on a truncated device that is
    /// shown at its original length ([`Partition::reaching`]).
    fn end(&self) -> u64 {
        self.below().map_or_else(|| self.len(), Device::end)
    }

    /// The reason why the device is read-only, as the end of a sentence; `None` if it is writable.
    fn why_read_only(&self) -> Option<String> {
        let missing = self.len().saturating_sub(self.end());
        match (missing, self.read_only()) {
            (0, true) => {
                let below = self.below().and_then(Device::why_read_only);
                Some(below.unwrap_or_else(|| "the device is".into()))
            }
            (0, false) => None,
            _ => Some(format!("the device ends {missing} bytes before the volume on it does")),
        }
    }

    /// Whether writes are refused with [`Error::ReadOnly`].
    fn read_only(&self) -> bool {
        self.below().is_some_and(Device::read_only)
    }

    /// Fills `buffer` from `offset`.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()>;

    /// Writes `data` at `offset`. Volatile until [`Device::flush`].
    fn write_at(&self, offset: u64, data: &[u8]) -> Result<()>;

    /// Fills several buffers, each from its own offset, in any order and, where the device can, at once.
    /// On an error the content of the buffers is unspecified.
    fn read_batch(&self, reads: &mut [(u64, &mut [u8])]) -> Result<()> {
        reads.iter_mut().try_for_each(|(offset, buffer)| self.read_at(*offset, buffer))
    }

    /// Writes several pieces, each at its own offset, in any order and, where the device can, at once.
    /// On an error any subset of them may have been written.
    fn write_batch(&self, writes: &[(u64, &[u8])]) -> Result<()> {
        writes.iter().try_for_each(|(offset, data)| self.write_at(*offset, data))
    }

    /// How many copies of its content the device keeps, at least 1. The number never changes; a copy that is out of
    /// service keeps its number.
    ///
    /// A file system with checksums finds a good copy of damaged data with [`Device::read_copy`] and repairs the
    /// damaged copy with [`Device::repair_copy`]. To all other callers the copies are one device.
    fn copies(&self) -> usize {
        self.below().map_or(1, Device::copies)
    }

    /// Fills `buffer` from `offset` of one given copy, counted from 0.
    ///
    /// # Errors
    /// [`Error::Unusable`] if there is no such copy or it is out of service, and the errors of [`Device::read_at`].
    fn read_copy(&self, copy: usize, offset: u64, buffer: &mut [u8]) -> Result<()> {
        check_copy(self.name(), copy, self.copies())?;
        match self.below() {
            Some(below) => below.read_copy(copy, offset, buffer),
            None => self.read_at(offset, buffer),
        }
    }

    /// Whether [`Device::read_at`] reads from this copy. A copy of which this is false may hold another state of the
    /// content, which its checksums do not tell from the present one.
    fn is_read(&self, copy: usize) -> bool {
        copy < self.copies() && self.below().is_none_or(|below| below.is_read(copy))
    }

    /// Writes `data`, which was read from another copy at `offset`, over the damaged data in this copy. Volatile until
    /// [`Device::flush`]. The caller makes sure that the range is not written meanwhile, which would make `data`
    /// outdated.
    ///
    /// # Errors
    /// [`Error::Unusable`] if there is no such copy or it is out of service, and the errors of [`Device::write_at`].
    fn repair_copy(&self, copy: usize, offset: u64, data: &[u8]) -> Result<()> {
        check_copy(self.name(), copy, self.copies())?;
        match self.below() {
            Some(below) if !self.read_only() => below.repair_copy(copy, offset, data),
            _ => self.write_at(offset, data),
        }
    }

    /// Returns the first offset from `offset` on that may read as anything but zeroes; [`Device::len`] if there is
    /// none. It lets a caller that reads a whole device skip parts that were never written. A device that does not know
    /// returns `offset`.
    fn next_data(&self, offset: u64) -> u64 {
        self.below().map_or(offset, |below| below.next_data(offset)).min(self.len())
    }

    /// Returns the offset in bytes at which the device begins on the disk of which it is a part: the start of a partition. 0
    /// for a whole disk, and where it is not known. Boot sectors record it, and clusters are aligned by it.
    fn start(&self) -> u64 {
        self.below().map_or(0, Device::start)
    }

    /// Makes durable every write that completed before the call: when it returns, they survive a power cut.
    fn flush(&self) -> Result<()>;

    /// Tells the device that the content of this range is no longer needed. What the range reads as afterwards is
    /// unspecified. A device without such an operation does nothing and succeeds.
    fn discard(&self, offset: u64, length: u64) -> Result<()>;

    /// A queue for at most `depth` requests in flight at once, for use by one thread.
    fn queue(&self, depth: usize) -> Result<Box<dyn Queue + '_>>;

    /// The time since 1970-01-01 00:00 UTC. A device that models time returns virtual time, so that everything that
    /// takes its time from here is the same on every run.
    fn now(&self) -> Duration {
        let here = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.below().map_or_else(here, Device::now)
    }
}

/// A device that can be made longer, as a file can.
pub trait Growing: Device {
    /// Makes the device `length` bytes long, in whole logical sectors and not less than before. What is new reads as
    /// zeroes. The new length is durable with the next [`Device::flush`]. One caller at a time may call this; transfers
    /// may go on beside it.
    ///
    /// # Errors
    /// [`Error::Unusable`] for a length that it cannot have, and the errors of the host.
    fn grow(&self, length: u64) -> Result<()>;
}

/// Refuses the number of a copy that does not exist.
pub(crate) fn check_copy(device: &str, copy: usize, copies: usize) -> Result<()> {
    if copy < copies {
        return Ok(());
    }
    let there = if copies == 1 { "only copy 0".to_string() } else { format!("only 0 to {}", copies - 1) };
    Err(Error::Unusable { device: device.into(), reason: format!("has no copy {copy}, {there}") })
}

/// Checks a transfer against the contract of [`Device`]. Every device calls it first.
pub fn check_transfer(device: &dyn Device, operation: Operation, offset: u64, length: u64) -> Result<()> {
    let sector = device.sectors().logical;
    if !offset.is_multiple_of(u64::from(sector)) || !length.is_multiple_of(u64::from(sector)) {
        return Err(Error::Misaligned { device: device.name().into(), operation, offset, length, sector });
    }
    if offset.checked_add(length).is_none_or(|end| end > device.len()) {
        let size = device.len();
        return Err(Error::OutOfRange { device: device.name().into(), operation, offset, length, size });
    }
    if device.read_only() && !matches!(operation, Operation::Read | Operation::Flush) {
        return Err(Error::ReadOnly { device: device.name().into() });
    }
    Ok(())
}

//! Content of files.

use crate::errors::{Answer, Errno};
use crate::served::Served;
use platter_vfs::{Node, Place, SyncScope};
use std::ops::Range;

/// How often the kernel is asked for what it holds of holes, while programs write to them through mappings.
const HANDED_OVER: usize = 4;

/// A change of a byte range of a file, as in fallocate(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangeChange {
    /// Allocates clusters for the range. A file that is shorter than the end of the range grows to it.
    Allocate,
    /// Allocates clusters for the range, also past the end of the file, whose size stays.
    AllocateKeepingSize,
    /// Frees the clusters of the range, which becomes a hole.
    Punch,
    /// Makes the range read as zeroes, with clusters allocated for it.
    Zero {
        /// Whether the size of the file stays, even if the range ends past it.
        keep_size: bool,
    },
}

impl Served {
    /// Reads bytes of a file. Returns how many: fewer than the length of `buffer` only at the end of the file.
    /// `is_noted` says whether the read changes the file's access time.
    pub fn read(&self, node: Node, offset: u64, buffer: &mut [u8], is_noted: bool) -> Answer<usize> {
        let got = self.told(self.system.read(node, offset, buffer))?;
        if is_noted {
            self.note_read(node);
        }
        Ok(got)
    }

    /// Notes a read, for the file's access time. If that fails, the program still gets its data, and the failure goes
    /// to the log.
    fn note_read(&self, node: Node) {
        if self.stream(node).is_some() {
            return;
        }
        let _ = self.told(self.accesses.read(&*self.system, node));
    }

    /// Writes all of `data`. `drops_privileges` says whether the write clears set-user-id and set-group-id of the file.
    pub fn write(&self, node: Node, offset: u64, data: &[u8], drops_privileges: bool) -> Answer<()> {
        self.change()?;
        if drops_privileges {
            self.drop_privileges(node, None)?;
        }
        let done = self.told(self.system.write(node, offset, data));
        self.accesses.changed(node);
        done
    }

    /// Makes a node durable. For the root directory, all of the volume is made durable: the kernel does not pass
    /// syncfs(2) on, and a program can sync the root directory instead.
    pub fn sync(&self, node: Node, scope: SyncScope) -> Answer<()> {
        match node {
            _ if self.options.read_only => Ok(()),
            Node::ROOT => self.sync_all(),
            _ => self.promise().and_then(|()| self.told(self.system.sync(node, scope))),
        }
    }

    /// Changes a byte range of a file. `stranger` is the group of a caller other than root, whose change clears
    /// set-user-id and set-group-id of the file; `None` for root.
    pub fn change_range(
        &self,
        node: Node,
        offset: u64,
        length: u64,
        change: RangeChange,
        stranger: Option<u32>,
    ) -> Answer<()> {
        self.change()?;
        let end =
            offset.checked_add(length).filter(|end| *end <= i64::MAX as u64).ok_or(Errno(libc::EFBIG))?;
        if length == 0 {
            return Err(Errno::INVALID);
        }
        if let Some(group) = stranger {
            self.drop_privileges(node, Some(group))?;
        }
        let allocate = |keep_size| self.told(self.system.allocate(node, offset..end, keep_size));
        let done = match change {
            RangeChange::Allocate => allocate(false),
            RangeChange::AllocateKeepingSize => allocate(true),
            RangeChange::Punch => self.punch(node, offset, end),
            RangeChange::Zero { keep_size } => {
                self.punch(node, offset, end).and_then(|()| allocate(keep_size))
            }
        };
        self.accesses.changed(node);
        done
    }

    fn punch(&self, node: Node, offset: u64, end: u64) -> Answer<()> {
        let size = self.told(self.system.attributes(node))?.size;
        if offset >= size {
            return Ok(());
        }
        self.told(self.system.punch(node, offset..end.min(size)))
    }

    /// Returns the offset of the first byte from `offset` on that belongs to data or, if `hole` is set, to a hole, as
    /// lseek(2) does.
    pub fn seek(&self, node: Node, offset: u64, hole: bool) -> Answer<u64> {
        let size = self.told(self.system.attributes(node))?.size;
        if offset >= size {
            return Err(Errno(libc::ENXIO));
        }
        // What programs have written to a hole through a mapping is in the kernel alone. It is handed over before the hole
        // is reported; then there may be data.
        let mut flushed = offset..offset;
        for _ in 0..HANDED_OVER {
            let (found, holes) = self.look_for(node, offset, size, hole)?;
            let is_known = holes.is_empty() || flushed.start <= holes.start && holes.end <= flushed.end;
            if is_known {
                return match found {
                    Some(found) => Ok(found),
                    None => end_or_nothing(size, hole),
                };
            }
            if !self.hand_over(node, holes.clone()) {
                break;
            }
            flushed = holes;
        }
        // What cannot be known counts as data.
        Ok(if hole { size } else { offset })
    }

    /// Returns the first byte from `offset` on that is in data or, with `hole`, in a hole, as the volume has it, and the
    /// hole on which that depends: the one that is passed over, or the one that is found.
    fn look_for(&self, node: Node, offset: u64, size: u64, hole: bool) -> Answer<(Option<u64>, Range<u64>)> {
        /// The bytes that are looked at first; each further look is at twice as many. So a step over a small part of a
        /// file costs little, however many parts the file has.
        const FIRST_LOOK: u64 = 1 << 20;
        let mut holes = offset..offset;
        let (mut at, mut length) = (offset, FIRST_LOOK);
        while at < size {
            let end = at.saturating_add(length).min(size);
            for extent in self.told(self.system.extents_in(node, at..end))? {
                let is_hole = matches!(extent.place, Place::Hole | Place::Unwritten(_));
                if is_hole {
                    let from = if holes.is_empty() { extent.offset } else { holes.start };
                    holes = from..extent.offset + extent.length;
                }
                if is_hole == hole {
                    return Ok((Some(extent.offset), holes));
                }
            }
            (at, length) = (end, length.saturating_mul(2));
        }
        Ok((None, holes))
    }

    /// Copies a byte range by sharing its clusters. Returns how many of the `length` bytes were copied: whole clusters
    /// only. `stranger` is as in [`Served::change_range`].
    ///
    /// # Errors
    /// [`Errno::UNSUPPORTED`] if no cluster can be shared; the kernel then copies the bytes itself.
    pub fn clone_range(
        &self,
        (from, offset): (Node, u64),
        (to, to_offset): (Node, u64),
        length: u64,
        stranger: Option<u32>,
    ) -> Answer<u64> {
        self.change()?;
        if !self.system.capabilities().clone {
            return Err(Errno::UNSUPPORTED);
        }
        let cluster = self.told(self.system.space())?.cluster;
        let size = self.told(self.system.attributes(from))?.size;
        let whole = length.min(size.saturating_sub(offset)) / cluster * cluster;
        let aligned = offset.is_multiple_of(cluster) && to_offset.is_multiple_of(cluster);
        let overlap = from == to && offset.abs_diff(to_offset) < whole;
        if !aligned || overlap || whole == 0 {
            return Err(Errno::UNSUPPORTED);
        }
        // The length in the reply has 32 bits. The kernel asks again for the remaining bytes.
        let whole = whole.min((1 << 30) / cluster * cluster);
        if let Some(group) = stranger {
            self.drop_privileges(to, Some(group))?;
        }
        // Files of which only one has checksums share no clusters: the kernel copies their bytes.
        self.told(self.system.clone_range(from, offset, to, to_offset, whole)).map_err(
            |error| match error {
                Errno::INVALID => Errno::UNSUPPORTED,
                other => other,
            },
        )?;
        self.note_read(from);
        self.accesses.changed(to);
        Ok(whole)
    }
}

/// Returns the result of a seek for which no extent was found: the end of the file, which counts as a hole, or `ENXIO`
/// if data was sought.
fn end_or_nothing(size: u64, hole: bool) -> Answer<u64> {
    if hole { Ok(size) } else { Err(Errno(libc::ENXIO)) }
}

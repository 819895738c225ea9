//! Content of files.

use crate::errors::{Answer, Errno};
use crate::served::Served;
use platter_vfs::{Node, Place, SyncScope};

/// What to do with a range of a file: fallocate(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangeChange {
    /// Take clusters for it; the size grows with it.
    Allocate,
    /// Take clusters for it, also past the end.
    AllocateKeepingSize,
    /// Give its clusters back.
    Punch,
    /// Make it read as zeroes, with clusters.
    Zero {
        /// Leave the size alone.
        keep_size: bool,
    },
}

impl Served {
    /// Reads; fewer bytes only at the end of the file. `is_noted`: the file's time of reading follows.
    pub fn read(&self, node: Node, offset: u64, buffer: &mut [u8], is_noted: bool) -> Answer<usize> {
        let got = self.told(self.system.read(node, offset, buffer))?;
        if is_noted {
            self.note_read(node);
        }
        Ok(got)
    }

    /// What was read is told whatever becomes of its time; why that is not known is in the log.
    fn note_read(&self, node: Node) {
        let _ = self.told(self.accesses.read(&*self.system, node));
    }

    /// Writes all of it.
    pub fn write(&self, node: Node, offset: u64, data: &[u8], drops_privileges: bool) -> Answer<()> {
        self.change()?;
        if drops_privileges {
            self.drop_privileges(node, None)?;
        }
        let done = self.told(self.system.write(node, offset, data));
        self.accesses.changed(node);
        done
    }

    /// Makes a node durable; the root with all of the volume, for whoever wants syncfs(2), which the kernel does not pass
    /// on.
    pub fn sync(&self, node: Node, scope: SyncScope) -> Answer<()> {
        match node {
            _ if self.options.read_only => Ok(()),
            Node::ROOT => self.sync_all(),
            _ => self.promise().and_then(|()| self.told(self.system.sync(node, scope))),
        }
    }

    /// Changes a range of a file. `stranger`: the group of a caller who must not keep set-user-id by it.
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

    /// The first byte from `offset` on that is data (or, for `hole`, that is none), as lseek(2) finds it.
    pub fn seek(&self, node: Node, offset: u64, hole: bool) -> Answer<u64> {
        let size = self.told(self.system.attributes(node))?.size;
        if offset >= size {
            return Err(Errno(libc::ENXIO));
        }
        let extents = self.told(self.system.extents(node))?;
        let first = extents.partition_point(|extent| extent.offset + extent.length <= offset);
        for extent in &extents[first..] {
            let is_hole = matches!(extent.place, Place::Hole | Place::Unwritten(_));
            if is_hole == hole {
                let found = extent.offset.max(offset);
                return if found < size { Ok(found) } else { end_or_nothing(size, hole) };
            }
        }
        end_or_nothing(size, hole)
    }

    /// Copies by sharing clusters, as far as that goes; returns how much of `length` that was. `stranger` as for
    /// [`Served::change_range`].
    ///
    /// # Errors
    /// [`Errno::UNSUPPORTED`] where nothing can be shared, which tells the kernel to copy.
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
        // A reply counts in 32 bits; the kernel asks again for the rest.
        let whole = whole.min((1 << 30) / cluster * cluster);
        if let Some(group) = stranger {
            self.drop_privileges(to, Some(group))?;
        }
        self.told(self.system.clone_range(from, offset, to, to_offset, whole))?;
        self.note_read(from);
        self.accesses.changed(to);
        Ok(whole)
    }
}

/// The end of a file is a hole, and behind the last data there is none.
fn end_or_nothing(size: u64, hole: bool) -> Answer<u64> {
    if hole { Ok(size) } else { Err(Errno(libc::ENXIO)) }
}

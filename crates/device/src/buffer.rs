//! Buffers: memory that any device can transfer to and from without a copy.

use crate::host;
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

/// An allocation that contains one or several buffers.
struct Memory {
    start: NonNull<u8>,
    layout: Layout,
}

/// Bytes of a huge page, where the processor has them.
const HUGE: usize = 2 << 20;

impl Memory {
    /// Allocates at least `length` bytes and at least one page; the first `length` bytes are zeroed.
    fn new(length: usize) -> Memory {
        let length = length.max(Buffer::ALIGNMENT);
        let alignment = if length < HUGE / 2 { Buffer::ALIGNMENT } else { HUGE };
        let layout =
            Layout::from_size_align(length, alignment).expect("buffer length fits a layout").pad_to_align();
        // SAFETY: the layout's size is not zero.
        let start = unsafe { alloc(layout) };
        let Some(start) = NonNull::new(start) else { handle_alloc_error(layout) };
        if alignment == HUGE {
            // A transfer to or from scattered pages is split where it has more pieces than the device takes, so its
            // speed would depend on which pages were free. Huge pages avoid that.
            host::advise_large_pages(start.as_ptr(), layout.size());
        }
        // SAFETY: `start` points to at least `length` bytes of memory that nothing else refers to yet.
        unsafe { start.as_ptr().write_bytes(0, length) };
        Memory { start, layout }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this very layout, and dropped once.
        unsafe { dealloc(self.start.as_ptr(), self.layout) }
    }
}

// SAFETY: nothing is read or written through this type; it only frees the memory, once, on any thread.
unsafe impl Send for Memory {}
// SAFETY: as above: a shared reference to this type allows no access.
unsafe impl Sync for Memory {}

/// Owned, zero-initialised memory aligned to [`Buffer::ALIGNMENT`], as direct I/O wants it.
pub struct Buffer {
    start: NonNull<u8>,
    length: usize,
    /// Keeps the allocation alive as long as this buffer lies in it.
    _memory: Arc<Memory>,
}

impl Buffer {
    /// The alignment of every buffer: one page, which direct I/O on no device of the supported systems exceeds.
    pub const ALIGNMENT: usize = 4096;

    /// A zeroed buffer of `length` bytes. A length of zero is allowed and allocates one page.
    pub fn new(length: usize) -> Buffer {
        let memory = Arc::new(Memory::new(length));
        Buffer { start: memory.start, length, _memory: memory }
    }

    /// `count` zeroed buffers of `length` bytes each, next to each other in one allocation that is freed when the last
    /// of them is dropped. If the allocation is 1 MiB or more, it uses huge pages where the system has them.
    pub fn several(count: usize, length: usize) -> Vec<Buffer> {
        let step = length.max(1).checked_next_multiple_of(Buffer::ALIGNMENT);
        let step = step.expect("a buffer fits the address space");
        let memory = Arc::new(Memory::new(count.checked_mul(step).expect("buffers fit the address space")));
        (0..count)
            .map(|index| {
                // SAFETY: the memory has `count` times `step` bytes, and `index` is less than `count`.
                let start = unsafe { memory.start.add(index * step) };
                Buffer { start, length, _memory: Arc::clone(&memory) }
            })
            .collect()
    }

    /// Returns a part of the buffer without creating a reference to the other bytes, to which the kernel may be
    /// writing.
    ///
    /// # Panics
    /// If the range does not lie in the buffer.
    #[cfg_attr(not(target_os = "linux"), allow(dead_code))]
    pub(crate) fn part(&self, range: std::ops::Range<usize>) -> &[u8] {
        assert!(
            range.start <= range.end && range.end <= self.length,
            "a part of {} bytes: {range:?}",
            self.length
        );
        // SAFETY: these bytes lie in this buffer, which is initialised and belongs to nobody else.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().add(range.start), range.len()) }
    }

    /// Returns the address of a part of the buffer, for the kernel to write to, without creating a reference to the
    /// other bytes, to which the kernel may already be writing.
    ///
    /// # Panics
    /// If the range does not lie in the buffer.
    #[cfg_attr(not(target_os = "linux"), allow(dead_code))]
    pub(crate) fn place(&mut self, range: std::ops::Range<usize>) -> *mut u8 {
        assert!(
            range.start <= range.end && range.end <= self.length,
            "a part of {} bytes: {range:?}",
            self.length
        );
        // SAFETY: the address lies in this buffer.
        unsafe { self.start.as_ptr().add(range.start) }
    }
}

impl From<&[u8]> for Buffer {
    fn from(data: &[u8]) -> Buffer {
        let mut buffer = Buffer::new(data.len());
        buffer.copy_from_slice(data);
        buffer
    }
}

impl Deref for Buffer {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: `start` points to at least `length` initialised bytes that belong to this buffer and no other.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`; `&mut self` makes this the only reference.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.length) }
    }
}

// SAFETY: these bytes belong to this buffer alone, even if other buffers lie in the same allocation; references to them
// follow the borrow rules of `Deref`.
unsafe impl Send for Buffer {}
// SAFETY: as above: shared references only read.
unsafe impl Sync for Buffer {}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Buffer({} bytes)", self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_of_one_allocation_do_not_overlap_and_outlive_each_other() {
        for (count, length) in [(0, 4096), (3, 0), (5, 1), (7, 4097), (4, 1 << 20)] {
            let mut buffers = Buffer::several(count, length);
            assert_eq!(buffers.len(), count);
            for (number, buffer) in buffers.iter_mut().enumerate() {
                assert_eq!((buffer.len(), buffer.as_ptr() as usize % Buffer::ALIGNMENT), (length, 0));
                assert!(buffer.iter().all(|&byte| byte == 0), "{count} of {length}");
                buffer.fill(number as u8 + 1);
            }
            while let Some(last) = buffers.pop() {
                let expected = buffers.len() as u8 + 1;
                assert!(last.iter().all(|&byte| byte == expected), "{count} of {length}");
            }
        }
    }

    #[test]
    fn large_memory_can_be_of_huge_pages() {
        for (count, length, is_huge) in
            [(1, 1 << 20, true), (32, 64 << 10, true), (1, 3 << 20, true), (1, 512 << 10, false)]
        {
            let memory = Memory::new(count * length);
            assert_eq!(memory.layout.align() == HUGE, is_huge, "{count} of {length}");
            assert!(!is_huge || memory.layout.size().is_multiple_of(HUGE), "{count} of {length}");
        }
    }
}

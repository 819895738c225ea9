//! Memory that any device can transfer to and from without a copy.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// Owned, zero-initialised memory aligned to [`Buffer::ALIGNMENT`], as direct I/O wants it.
pub struct Buffer {
    start: NonNull<u8>,
    length: usize,
}

impl Buffer {
    /// The alignment of every buffer: the page, which no device's direct I/O exceeds on the systems supported.
    pub const ALIGNMENT: usize = 4096;

    /// A zeroed buffer of `length` bytes. A length of zero is allowed and allocates one page.
    pub fn new(length: usize) -> Buffer {
        let layout = Buffer::layout(length);
        // SAFETY: the layout's size is never zero (see `layout`).
        let start = unsafe { alloc_zeroed(layout) };
        let Some(start) = NonNull::new(start) else { handle_alloc_error(layout) };
        Buffer { start, length }
    }

    fn layout(length: usize) -> Layout {
        Layout::from_size_align(length.max(Buffer::ALIGNMENT), Buffer::ALIGNMENT)
            .expect("buffer length fits a layout")
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
        // SAFETY: `start` points to at least `length` initialised bytes that this buffer owns.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`; `&mut self` makes this the only reference.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.length) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this very layout, and dropped once.
        unsafe { dealloc(self.start.as_ptr(), Buffer::layout(self.length)) }
    }
}

// SAFETY: the buffer owns its memory alone; references to it follow the borrow rules of `Deref`.
unsafe impl Send for Buffer {}
// SAFETY: as above: shared references only read.
unsafe impl Sync for Buffer {}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Buffer({} bytes)", self.length)
    }
}

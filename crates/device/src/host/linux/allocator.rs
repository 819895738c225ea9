//! Settings of the memory of this process.

/// Makes all threads share one pool of memory (arena) from now on, if the allocator is that of glibc. This is for
/// processes that keep much memory for long, and whose threads free what other threads allocated. By default, glibc
/// makes up to eight pools for each processor; each stays as large as it ever was, and memory that was freed to one
/// pool cannot be used by threads of another.
///
/// Source: mallopt(3), `M_ARENA_MAX`.
pub fn share_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: the call only sets a number, which the allocator reads, under its own lock, when a thread allocates
    // memory for the first time.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}

/// Advises the kernel to hold this memory in huge pages. It is advice only; everything works without it.
pub(crate) fn advise_large_pages(start: *mut u8, length: usize) {
    // SAFETY: the advice changes neither the content of the memory nor who may use it.
    unsafe { libc::madvise(start.cast(), length, libc::MADV_HUGEPAGE) };
}

//! The allocator of this process.

/// Has all threads share one pool of memory from now on, where the allocator is that of glibc: for a process that keeps much for
/// long, and whose threads hand it on to each other. Pools of their own, of which it makes eight for each processor, are each
/// as large as it ever was, and what one thread has given back to its own the others cannot use.
///
/// Source: mallopt(3), `M_ARENA_MAX`.
pub fn share_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: it sets a number that the allocator looks at when a thread asks for the first time, under a lock of its own.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}

//! Tests how many pools of memory the allocator of this process has. The test is alone in this file, and so in its
//! process, because threads of other tests would add pools.
#![cfg(all(target_os = "linux", target_env = "gnu"))]

use std::sync::{Arc, Barrier};
use std::thread;

/// Returns the number of pools of memory that the allocator has.
fn pools() -> usize {
    let (mut text, mut length) = (std::ptr::null_mut(), 0);
    // SAFETY: `malloc_info` writes to an open stream. Closing the stream makes `text` and `length` valid, and the text
    // is freed only after it was copied.
    let told = unsafe {
        let stream = libc::open_memstream(&mut text, &mut length);
        assert!(!stream.is_null());
        assert_eq!(libc::malloc_info(0, stream), 0);
        assert_eq!(libc::fclose(stream), 0);
        let told = std::slice::from_raw_parts(text.cast::<u8>(), length).to_vec();
        libc::free(text.cast());
        told
    };
    String::from_utf8(told).unwrap().matches("<heap nr=").count()
}

#[test]
fn threads_share_the_pools_that_are_there() {
    const THREADS: usize = 16;
    platter_device::share_memory();
    let before = pools();
    let together = Arc::new(Barrier::new(THREADS + 1));
    let threads: Vec<_> = (0..THREADS)
        .map(|number| {
            let together = together.clone();
            thread::spawn(move || {
                let held = vec![number as u8; 50_000];
                together.wait();
                together.wait();
                assert_eq!(held[7], number as u8);
            })
        })
        .collect();
    together.wait();
    let now = pools();
    together.wait();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(now, before, "{THREADS} threads");
}

//! Tests of the cost of reading and overwriting, for formats that overwrite content in place.

use super::counted::{Counted, counts};
use platter_device::Buffer;
use platter_vfs::{Format, Node, Plan, SyncScope};

/// Asserts that an aligned overwrite is one write to the device, and that a sync then is one flush and nothing else:
/// only a time has changed.
///
/// # Panics
/// If it costs anything else.
pub fn overwrite(format: &dyn Format) {
    let counted = Counted::new(format);
    let node = counted.file(1 << 20);
    let data = Buffer::from(&[7; 4096][..]);
    let seen = counted.seen(|| counted.volume.write(node, 8192, &data).expect("a write in place"));
    assert_eq!(counts(&seen), (0, 0, 1, 4096, 0));
    let seen = counted.seen(|| counted.volume.sync(node, SyncScope::Data).expect("a sync"));
    assert_eq!(counts(&seen), (0, 0, 0, 0, 1));
}

/// Asserts that a read of a contiguous range is one read from the device.
///
/// # Panics
/// If it costs anything else.
pub fn read(format: &dyn Format) {
    let counted = Counted::new(format);
    let node = counted.file(4 << 20);
    assert_eq!(counted.volume.extents(node).expect("the extents of a file").len(), 1);
    let mut buffer = Buffer::new(1 << 20);
    let seen =
        counted.seen(|| assert_eq!(counted.volume.read(node, 1 << 20, &mut buffer).ok(), Some(1 << 20)));
    assert_eq!(counts(&seen), (1, 1 << 20, 0, 0, 0));
}

/// Measures both halves of planned reads and overwrites of a file, with one plan and one buffer.
pub struct Planned {
    counted: Counted,
    node: Node,
    size: u64,
}

/// The plan and the buffer that a thread of [`Planned`] reuses.
pub struct Hand {
    plan: Plan,
    buffer: Buffer,
}

impl Default for Hand {
    fn default() -> Hand {
        Hand { plan: Plan::default(), buffer: Buffer::new(4096) }
    }
}

impl Planned {
    /// Creates a file of this size on a new volume.
    ///
    /// # Panics
    /// If the file cannot be written.
    pub fn new(format: &dyn Format, size: u64) -> Planned {
        let counted = Counted::new(format);
        let node = counted.file(size);
        Planned { counted, node, size }
    }

    /// Plans and finishes a transfer of 4 KiB, without any transfer of the device.
    ///
    /// # Panics
    /// If the plan has more than one segment, or the write needs a sync.
    pub fn once(&self, write: bool, block: u64, hand: &mut Hand) {
        let (volume, Hand { plan, buffer }) = (&self.counted.volume, hand);
        let offset = block * 4096 % self.size;
        if write {
            volume.plan_write(self.node, offset, buffer, plan).expect("a plan");
            assert_eq!(plan.segments.len(), 1);
            assert!(!volume.finish_write(plan, buffer, Ok(())).expect("its end"));
        } else {
            volume.plan_read(self.node, offset, 4096, plan).expect("a plan");
            assert_eq!(plan.segments.len(), 1);
            assert_eq!(volume.finish_read(plan, buffer, Ok(())).expect("its end"), 4096);
        }
    }

    /// Prints the time of a planned read or overwrite, with this many threads on one file. Batches are timed one by
    /// one, and the least and the median are printed, so that other load on the machine has little effect.
    ///
    /// # Panics
    /// Like [`Planned::once`].
    pub fn tell_nanoseconds(&self, threads: u64, write: bool) {
        const BATCHES: usize = 200;
        const ROUNDS: u64 = 5_000;
        let life = |thread: u64| {
            let mut hand = Hand::default();
            let batch = |_| {
                let start = std::time::Instant::now();
                (0..ROUNDS).for_each(|round| self.once(write, round * 7919 + thread * 104_729, &mut hand));
                start.elapsed().as_nanos() as u64 / ROUNDS
            };
            let mut batches: Vec<u64> = (0..BATCHES).map(batch).collect();
            batches.sort_unstable();
            (batches[0], batches[BATCHES / 2])
        };
        let results: Vec<(u64, u64)> = std::thread::scope(|scope| {
            let life = &life;
            let workers: Vec<_> = (0..threads).map(|thread| scope.spawn(move || life(thread))).collect();
            workers.into_iter().map(|worker| worker.join().expect("a thread that ends")).collect()
        });
        let what = if write { "write" } else { "read" };
        println!("{threads} threads, {what}: (least, median) ns per plan and finish {results:?}");
    }
}

//! Which ranges of a mirror are being written or repaired.

use crate::sync::{Condvar, Mutex, MutexGuard};
use std::ops::Range;

/// The ranges of a mirror in use.
///
/// They are kept for two reasons. First, a repair, which writes good data back to a copy, must not overlap a write: it
/// would restore what the write replaced. So a write waits for a repair in progress, and no repair begins where a write
/// is in flight. A repair never waits for a write, because the write may be in a queue whose owner is busy elsewhere.
///
/// Second, two overlapping writes may reach the copies in different orders, so that the copies end up different. The
/// last of such writes to end gets the overlapping range reserved, to make the other copies equal to the one that is
/// read there, so that what has been read from it stays true. Until then, a range that is being written must be read
/// from that copy alone.
#[derive(Default)]
pub(super) struct Busy {
    entries: Mutex<Entries>,
    /// Notified when a reserved range is released.
    freed: Condvar,
}

#[derive(Default)]
struct Entries {
    next: u64,
    list: Vec<BusyRange>,
}

struct BusyRange {
    id: u64,
    range: Range<u64>,
    alone: bool,
    /// The range where this write overlapped others, including ranges left to it by overlapping writes that have ended.
    met: Option<Range<u64>>,
}

/// A reserved range: nobody else writes to it until this is dropped.
pub(super) struct Alone<'b> {
    busy: &'b Busy,
    id: u64,
    pub range: Range<u64>,
}

impl Drop for Alone<'_> {
    fn drop(&mut self) {
        let taken = self.busy.lock().take(self.id);
        debug_assert!(taken.is_some_and(|entry| entry.alone), "a reserved range is released once");
        self.busy.freed.notify_all();
    }
}

impl Busy {
    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock()
    }

    /// Begins a write; waits while a part of the range is reserved. Returns the number of the write.
    pub(super) fn begin(&self, range: Range<u64>) -> u64 {
        let mut entries = self.lock();
        while entries.list.iter().any(|entry| entry.alone && meet(&entry.range, &range).is_some()) {
            entries = self.freed.wait(entries);
        }
        let mut met = None;
        for entry in &mut entries.list {
            if let Some(both) = meet(&entry.range, &range) {
                join(&mut entry.met, both.clone());
                join(&mut met, both);
            }
        }
        entries.add(range, false, met)
    }

    /// Ends a write. If it was the last of several that overlapped, returns the range of the overlaps, reserved for the
    /// caller.
    pub(super) fn end(&self, id: u64) -> Option<Alone<'_>> {
        let mut entries = self.lock();
        let range = entries.take(id)?.met?;
        if let Some(other) = entries.list.iter_mut().find(|entry| meet(&entry.range, &range).is_some()) {
            // That write overlapped a part of the range, so it takes over the range: all of it stays in use until the
            // last of the overlapping writes has ended.
            debug_assert!(!other.alone, "a range that was written is not reserved");
            other.range = other.range.start.min(range.start)..other.range.end.max(range.end);
            join(&mut other.met, range);
            return None;
        }
        let id = entries.add(range.clone(), true, None);
        Some(Alone { busy: self, id, range })
    }

    /// Whether a part of the range is in use.
    pub(super) fn meets(&self, range: &Range<u64>) -> bool {
        self.lock().list.iter().any(|entry| meet(&entry.range, range).is_some())
    }

    /// Reserves a range, unless a part of it is in use.
    pub(super) fn try_alone(&self, range: Range<u64>) -> Option<Alone<'_>> {
        let mut entries = self.lock();
        if entries.list.iter().any(|entry| meet(&entry.range, &range).is_some()) {
            return None;
        }
        let id = entries.add(range.clone(), true, None);
        Some(Alone { busy: self, id, range })
    }
}

impl Entries {
    fn add(&mut self, range: Range<u64>, alone: bool, met: Option<Range<u64>>) -> u64 {
        debug_assert!(
            !alone || self.list.iter().all(|entry| meet(&entry.range, &range).is_none()),
            "a reserved range is nobody else's"
        );
        debug_assert!(
            self.list.iter().all(|entry| !entry.alone || meet(&entry.range, &range).is_none()),
            "nothing begins in a reserved range"
        );
        let id = self.next;
        self.next += 1;
        self.list.push(BusyRange { id, range, alone, met });
        id
    }

    fn take(&mut self, id: u64) -> Option<BusyRange> {
        let place = self.list.iter().position(|entry| entry.id == id)?;
        Some(self.list.swap_remove(place))
    }
}

fn meet(one: &Range<u64>, two: &Range<u64>) -> Option<Range<u64>> {
    let both = one.start.max(two.start)..one.end.min(two.end);
    (!both.is_empty()).then_some(both)
}

/// Extends `range` to cover `more`. Overlapping writes form a contiguous range, so the parts between are part of them
/// too.
fn join(range: &mut Option<Range<u64>>, more: Range<u64>) {
    *range = Some(match range.take() {
        Some(range) => range.start.min(more.start)..range.end.max(more.end),
        None => more,
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_apart_have_nothing_to_do_with_each_other() {
        let busy = Busy::default();
        let (one, two) = (busy.begin(0..10), busy.begin(10..20));
        assert!(busy.end(one).is_none());
        assert!(busy.end(two).is_none());
        assert!(busy.lock().list.is_empty());
    }

    #[test]
    fn the_last_of_writes_that_met_is_told_where() {
        let busy = Busy::default();
        let one = busy.begin(0..10);
        let two = busy.begin(5..15);
        let three = busy.begin(12..20);
        assert!(busy.end(one).is_none());
        // The overlap of the first two is left to the third, which did not overlap the first.
        assert!(busy.end(two).is_none());
        assert!(busy.try_alone(6..7).is_none());
        let alone = busy.end(three).expect("it was the last");
        assert_eq!(alone.range, 5..15);
        assert!(busy.try_alone(0..6).is_none());
        drop(alone);
        assert!(busy.try_alone(0..6).is_some());
        assert!(busy.lock().list.is_empty());
    }

    #[test]
    fn a_write_keeps_others_from_being_alone_and_waits_for_who_is() {
        let busy = Busy::default();
        let write = busy.begin(0..10);
        assert!(busy.try_alone(9..11).is_none());
        assert!(busy.end(write).is_none());
        let alone = busy.try_alone(9..11).expect("nobody writes there");
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| busy.begin(10..12));
            std::thread::sleep(std::time::Duration::from_millis(20));
            assert!(!waiting.is_finished());
            drop(alone);
            assert!(busy.end(waiting.join().unwrap()).is_none());
        });
    }
}

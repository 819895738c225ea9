//! Which parts of a mirror are being written, and by whom.

use crate::sync::{Condvar, Mutex, MutexGuard};
use std::ops::Range;

/// The ranges in use.
///
/// Two things need them. Good bytes that are written back to a copy must not meet a write: they would bring back what
/// it replaced. So a write waits for them to be there, and they are not written back where a write is under way. The
/// other way round nobody waits, because a write may be in a queue whose owner is busy elsewhere.
///
/// And two writes that meet reach each copy in an order of its own, so that copies may end up with another of them. The
/// last one to end is told where, and has the range alone to make the others like the copy that is read there: what has
/// been seen of it stays true. Until then a place that is being written must be read from that copy and no other.
#[derive(Default)]
pub(super) struct Busy {
    entries: Mutex<Entries>,
    /// Someone who had a range alone is done.
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
    /// Where this write met others, and where others that met have left it to this one.
    met: Option<Range<u64>>,
}

/// A range that nobody else writes to until this goes away.
pub(super) struct Alone<'b> {
    busy: &'b Busy,
    id: u64,
    pub range: Range<u64>,
}

impl Drop for Alone<'_> {
    fn drop(&mut self) {
        self.busy.lock().take(self.id);
        self.busy.freed.notify_all();
    }
}

impl Busy {
    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock()
    }

    /// Begins a write, after whoever has a part of the range alone.
    pub fn begin(&self, range: Range<u64>) -> u64 {
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

    /// Ends a write. Where it was the last of writes that met, the range is the caller's alone.
    pub fn end(&self, id: u64) -> Option<Alone<'_>> {
        let mut entries = self.lock();
        let range = entries.take(id)?.met?;
        if let Some(other) = entries.list.iter_mut().find(|entry| meet(&entry.range, &range).is_some()) {
            // It has met part of the range, so the two hang together. All of it stays in use until the last has ended.
            other.range = other.range.start.min(range.start)..other.range.end.max(range.end);
            join(&mut other.met, range);
            return None;
        }
        let id = entries.add(range.clone(), true, None);
        Some(Alone { busy: self, id, range })
    }

    /// Whether somebody writes to a part of the range.
    pub fn meets(&self, range: &Range<u64>) -> bool {
        self.lock().list.iter().any(|entry| meet(&entry.range, range).is_some())
    }

    /// Takes a range alone, unless any of it is in use.
    pub fn try_alone(&self, range: Range<u64>) -> Option<Alone<'_>> {
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

/// Writes that meet hang together, so what lies between two of their parts is no more than they wrote.
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
        // What the first two did to each other is left to the third, which did not meet the first.
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

//! The updates of the records of a mirror's copies while the mirror is written.

use super::history::{CopyState, History, Intent};
use super::record::MirrorRecord;
use super::{Mirror, bit};
use crate::sync::Mutex;
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// One period during which a set is open for writing. It leaves the records as they are until the first write.
pub(super) struct Session {
    records: Vec<Arc<dyn MirrorRecord>>,
    notes: Mutex<Notes>,
}

struct Notes {
    /// The histories of the copies; `None` for a copy that does not take part.
    histories: Vec<Option<History>>,
    has_begun: bool,
    /// Whether a write failed on all copies, so that it is unknown what each of them holds there.
    is_spoilt: bool,
}

impl Session {
    /// A session of the copies that have a history.
    pub(super) fn new(records: Vec<Arc<dyn MirrorRecord>>, histories: Vec<Option<History>>) -> Session {
        Session { records, notes: Mutex::new(Notes { histories, has_begun: false, is_spoilt: false }) }
    }

    /// Records that a range is about to be written. What cannot be recorded on every copy must not be written: a copy
    /// that lacks an event counts as older than the others, and one that lacks a region is not compared there.
    ///
    /// # Errors
    /// The number of a copy whose record cannot be saved, and why. The records then are as they were, as far as that is
    /// possible, and the next write tries again.
    pub(super) fn begin(&self, range: &Range<u64>) -> Result<(), (usize, io::Error)> {
        let mut notes = self.notes.lock();
        let is_first = !notes.has_begun;
        let is_new = |history: &History| is_first || { history.intent }.add(range, history.length);
        if !notes.histories.iter().flatten().any(is_new) {
            return Ok(());
        }
        let before = notes.histories.clone();
        let Notes { histories, has_begun, .. } = &mut *notes;
        if is_first {
            History::add_event(histories.iter_mut().flatten());
        }
        for history in histories.iter_mut().flatten() {
            if is_first {
                (history.state, history.intent) = (CopyState::Open, Intent::default());
            }
            history.intent.add(range, history.length);
        }
        let saved = self.save_all(histories, is_first);
        match saved {
            Ok(()) => *has_begun = true,
            Err(_) => *histories = before,
        }
        saved
    }

    /// Records that these copies, as bits, no longer hold the same as the others.
    ///
    /// # Errors
    /// The number of a copy whose record cannot be saved, and why, if that is so for all of them: then no record tells
    /// that the copies which failed are older.
    pub(super) fn leave_out(&self, failed: u8) -> Result<(), (usize, io::Error)> {
        let mut notes = self.notes.lock();
        for copy in (0..notes.histories.len()).filter(|&copy| failed & bit(copy) != 0) {
            notes.histories[copy] = None;
        }
        if !notes.has_begun {
            return Ok(());
        }
        History::add_event(notes.histories.iter_mut().flatten());
        let (mut is_noted, mut first) = (false, None);
        for (copy, history) in notes.histories.iter().enumerate() {
            let Some(history) = history else { continue };
            match self.records[copy].save(&history.to_bytes()) {
                Ok(()) => is_noted = true,
                Err(why) => drop(first.get_or_insert((copy, why))),
            }
        }
        first.filter(|_| !is_noted).map_or(Ok(()), Err)
    }

    /// Notes that a write failed on all copies: the session is not closed, so the copies are compared at the next
    /// opening.
    pub(super) fn spoil(&self) {
        self.notes.lock().is_spoilt = true;
    }

    /// Records durably that all remaining copies hold the same.
    pub(super) fn close(&self) {
        let mut histories = {
            let mut notes = self.notes.lock();
            if notes.is_spoilt || !std::mem::take(&mut notes.has_begun) {
                return;
            }
            notes.histories.clone()
        };
        // Without the lock: a stamp may read the volumes on the copies.
        for (copy, history) in histories.iter_mut().enumerate() {
            if let Some(history) = history {
                close(history, &*self.records[copy]);
            }
        }
        self.notes.lock().histories = histories;
    }

    /// Saves the records of all copies. If one cannot be saved and `puts_back` says so, those before it become what
    /// they were: a copy whose record has the event would count as newer than one whose record lacks it.
    fn save_all(&self, histories: &[Option<History>], puts_back: bool) -> Result<(), (usize, io::Error)> {
        let mut before: Vec<(usize, Vec<u8>)> = Vec::new();
        for (copy, history) in histories.iter().enumerate() {
            let Some(history) = history else { continue };
            let record = &self.records[copy];
            let old = if puts_back { record.load().ok().flatten() } else { None };
            if let Err(why) = record.save(&history.to_bytes()) {
                for (copy, old) in before {
                    let _: io::Result<()> = self.records[copy].save(&old);
                }
                return Err((copy, why));
            }
            before.extend(old.map(|old| (copy, old)));
        }
        Ok(())
    }
}

/// Records that a copy was closed in order. If its stamp cannot be read, it stays open, so that it is compared at the
/// next opening.
pub(super) fn close(history: &mut History, record: &dyn MirrorRecord) {
    let Ok(stamp) = record.stamp() else { return };
    history.set_stamp(stamp);
    (history.state, history.intent) = (CopyState::Closed, Intent::default());
    let _ = record.save(&history.to_bytes());
}

impl Drop for Mirror {
    fn drop(&mut self) {
        if let Some(session) = &self.session
            && self.flush_all().is_ok()
        {
            session.close();
        }
    }
}

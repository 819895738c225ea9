//! What a mirror notes in the records of its copies while it is written to.

use super::history::{CopyState, History, Intent};
use super::record::MirrorRecord;
use super::{Mirror, bit};
use crate::sync::Mutex;
use std::ops::Range;
use std::sync::Arc;

/// One time that a set is open for writing. Until the first write it notes nothing.
pub(super) struct Session {
    records: Vec<Arc<dyn MirrorRecord>>,
    notes: Mutex<Notes>,
}

struct Notes {
    /// By copy. `None` for one that does not take part.
    histories: Vec<Option<History>>,
    has_begun: bool,
    /// A write failed on all copies, so nobody knows what each holds there.
    is_spoilt: bool,
}

impl Session {
    /// Of the copies that have a history.
    pub fn new(records: Vec<Arc<dyn MirrorRecord>>, histories: Vec<Option<History>>) -> Session {
        Session { records, notes: Mutex::new(Notes { histories, has_begun: false, is_spoilt: false }) }
    }

    /// Notes that a range is about to be written. A record that cannot be saved is no reason not to write: its copy
    /// will be older than those whose records were, or changed since it was closed, and either is noticed.
    pub fn begin(&self, range: &Range<u64>) {
        let mut notes = self.notes.lock();
        let Notes { histories, has_begun, .. } = &mut *notes;
        let mut is_new = !*has_begun;
        if is_new {
            *has_begun = true;
            History::add_event(histories.iter_mut().flatten());
            for history in histories.iter_mut().flatten() {
                (history.state, history.intent) = (CopyState::Open, Intent::default());
            }
        }
        for history in histories.iter_mut().flatten() {
            is_new |= history.intent.add(range, history.length);
        }
        if is_new {
            self.save(histories);
        }
    }

    /// Notes that copies, as bits, no longer hold what the others do.
    pub fn leave_out(&self, failed: u8) {
        let mut notes = self.notes.lock();
        for copy in (0..notes.histories.len()).filter(|&copy| failed & bit(copy) != 0) {
            notes.histories[copy] = None;
        }
        if notes.has_begun {
            History::add_event(notes.histories.iter_mut().flatten());
            self.save(&notes.histories);
        }
    }

    /// Notes that a write failed on all copies: they will be compared when the mirror is opened again.
    pub fn spoil(&self) {
        self.notes.lock().is_spoilt = true;
    }

    /// Notes that all copies left hold the same, for good.
    pub fn close(&self) {
        let mut notes = self.notes.lock();
        if notes.is_spoilt || !std::mem::take(&mut notes.has_begun) {
            return;
        }
        for (copy, history) in notes.histories.iter_mut().enumerate() {
            if let Some(history) = history {
                close(history, &*self.records[copy]);
            }
        }
    }

    fn save(&self, histories: &[Option<History>]) {
        for (record, history) in self.records.iter().zip(histories) {
            if let Some(history) = history {
                let _ = record.save(&history.to_bytes());
            }
        }
    }
}

/// Notes that a copy holds what its history says. Without a stamp it stays open, which asks for a comparison.
pub(super) fn close(history: &mut History, record: &dyn MirrorRecord) {
    let Ok(stamp) = record.stamp() else { return };
    if history.stamp != History::DAMAGED {
        history.stamp = stamp;
    }
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

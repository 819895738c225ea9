//! The updates of the records of a mirror's copies while the mirror is written.

use super::history::{CopyState, History, Intent};
use super::record::MirrorRecord;
use super::{Mirror, bit};
use crate::sync::Mutex;
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
    pub fn new(records: Vec<Arc<dyn MirrorRecord>>, histories: Vec<Option<History>>) -> Session {
        Session { records, notes: Mutex::new(Notes { histories, has_begun: false, is_spoilt: false }) }
    }

    /// Records that a range is about to be written. A record that cannot be saved does not prevent the write: at the
    /// next opening its copy is found to be older than those whose records were saved, or changed since it was closed.
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

    /// Records that these copies, as bits, no longer hold the same as the others.
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

    /// Notes that a write failed on all copies: the session is not closed, so the copies are compared at the next
    /// opening.
    pub fn spoil(&self) {
        self.notes.lock().is_spoilt = true;
    }

    /// Records durably that all remaining copies hold the same.
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

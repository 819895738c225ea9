//! The change journal, which Platter does not write to: whoever reads it is told that it is not complete.
//!
//! NTFS stamps a journal with a new identifier where its records "either are or may be unusable", keeps its numbers going
//! on from where they are, and reads records for the identifier only that they were written under (Microsoft, "Using the
//! Change Journal Identifier" and `USN_JOURNAL_DATA_V1`). The first commit of a session does the same: so an indexer or a
//! backup finds another identifier than the one it remembers and looks through the volume anew, and no record of the time
//! before is taken for one of now.

use super::*;
use crate::layout::bytes::{put, u64_at};

/// Names of the journal's streams: its identifier and limits, and its records.
const LIMITS: &str = "$Max";
const RECORDS: &str = "$J";
/// Bytes of `$Max`: maximum size, allocation delta, identifier (a file time), lowest valid number.
const LENGTH: usize = 32;
const IDENTIFIER: usize = 0x10;
const LOWEST: usize = 0x18;

impl NtfsVolume {
    /// Gives the journal, if there is one, another identifier. Its records begin where they end now.
    pub(super) fn stamp_journal(&self, core: &mut Core) -> Result<()> {
        let Some(number) = core.journal.take() else { return Ok(()) };
        let stamped = self.stamp_journal_of(core, number);
        if stamped.is_err() {
            core.journal = Some(number);
        }
        stamped
    }

    fn stamp_journal_of(&self, core: &mut Core, number: u64) -> Result<()> {
        let mut file = (*core.file(number)?).clone();
        let end = file.find(Type::DATA, &wide(RECORDS)).map_or(0, Attr::size);
        let Some(Attr { body: Body::Resident { value, .. }, .. }) = file.find_mut(Type::DATA, &wide(LIMITS))
        else {
            return Ok(());
        };
        if value.len() < LENGTH {
            return Ok(());
        }
        let identifier = self.now().max(u64_at(value, IDENTIFIER).wrapping_add(1));
        put(value, IDENTIFIER, identifier);
        put(value, LOWEST, end);
        core.transact(|core| core.store(file))
    }
}

fn wide(name: &str) -> Vec<u16> {
    name.encode_utf16().collect()
}

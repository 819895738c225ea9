//! The first change of a session marks the change journal as not complete; see [`journal`].

use super::*;
use crate::layout::journal;

impl NtfsVolume {
    /// Gives the change journal, if there is one, another identifier. Its valid records begin where the present ones
    /// end.
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
        let end = file.find(Type::DATA, &wide(journal::RECORDS)).map_or(0, Attr::size);
        let limits = file.find_mut(Type::DATA, &wide(journal::LIMITS));
        let Some(Attr { body: Body::Resident { value, .. }, .. }) = limits else { return Ok(()) };
        journal::stamp(value, self.now(), end);
        core.transact(|core| core.store(file))
    }
}

fn wide(name: &str) -> Vec<u16> {
    name.encode_utf16().collect()
}

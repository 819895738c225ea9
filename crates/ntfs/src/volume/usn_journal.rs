//! The change journal: it is listed, and the first change of a session marks it as not complete; see [`journal`].

use super::NtfsVolume;
use crate::core::Core;
use crate::file::{Attr, Body};
use crate::layout::bytes::u64_at;
use crate::layout::{Kind as Type, journal, record_number};
use platter_vfs::{ChangeJournal, ChangeRecord, Result};

/// Bytes of the journal that are read at once.
const READ: u64 = 1 << 20;

// Reads are whole sectors, of which none is larger than 4096 bytes.
const _: () = assert!(READ.is_multiple_of(4096));

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

    /// Lists the records. The beginning of a journal, which is a hole, is skipped without reading anything.
    pub(super) fn list_journal(
        &self,
        visit: &mut dyn FnMut(Result<ChangeRecord>) -> Result<()>,
    ) -> Result<Option<ChangeJournal>> {
        let (file, device) = {
            let mut core = self.core();
            let Some(entry) = core.find_name(record_number::EXTEND, &wide(journal::NAME))? else {
                return Ok(None);
            };
            (core.file(u64_at(&entry, 0) & 0xFFFF_FFFF_FFFF)?, core.device.clone())
        };
        let limits = file.find(Type::DATA, &wide(journal::LIMITS)).and_then(Attr::value).unwrap_or(&[]);
        let records = file.find(Type::DATA, &wide(journal::RECORDS));
        let limits = ChangeJournal {
            identifier: u64_at(limits, journal::IDENTIFIER),
            lowest: u64_at(limits, journal::LOWEST),
            next: records.map_or(0, Attr::size),
        };
        let Some(attr) = records else { return Ok(Some(limits)) };
        let Some(outside) = attr.outside() else {
            list_pages(attr.value().unwrap_or(&[]), 0, visit)?;
            return Ok(Some(limits));
        };
        let end = outside.valid.min(outside.size);
        for run in outside.runs.iter().filter(|run| run.lcn.is_some()) {
            let stop = (run.end() * self.cluster).min(end);
            let mut at = run.vcn * self.cluster;
            while at < stop {
                // A page may begin in another run where clusters are smaller than pages: the run that it begins in reads
                // it whole.
                let page = ChangeRecord::PAGE as u64;
                at = at.next_multiple_of(page);
                if at >= stop {
                    break;
                }
                let length = READ.min((stop - at).next_multiple_of(page)).min(end - at);
                let mut bytes = vec![0; length as usize];
                let read = crate::core::read_pieces(&*device, self.cluster, &outside.runs, at, &mut bytes);
                match read {
                    Ok(()) => list_pages(&bytes, at, visit)?,
                    Err(error) => visit(Err(error))?,
                }
                at += length;
            }
        }
        Ok(Some(limits))
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

/// Lists the records of whole pages, of which the first is at offset `at` of the journal.
fn list_pages(
    bytes: &[u8],
    at: u64,
    visit: &mut dyn FnMut(Result<ChangeRecord>) -> Result<()>,
) -> Result<()> {
    for (page, start) in bytes.chunks(ChangeRecord::PAGE).zip((at..).step_by(ChangeRecord::PAGE)) {
        let mut done = 0;
        while done < page.len() {
            match ChangeRecord::from_bytes(&page[done..], start + done as u64) {
                Ok(None) => break,
                Ok(Some((record, length))) => {
                    visit(Ok(record))?;
                    done += length;
                }
                Err(error) => {
                    visit(Err(error))?;
                    break;
                }
            }
        }
    }
    Ok(())
}

fn wide(name: &str) -> Vec<u16> {
    name.encode_utf16().collect()
}

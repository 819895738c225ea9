//! Whether Windows is hibernated on the volume.
//!
//! A hibernated Windows has in its memory changes that it did not write, and writes them when it wakes: a repair in
//! between would be overwritten in part, and the rest of the repair would be damage.

use super::file::Assembled;
use super::{Check, Kind, READ, RecordState};
use crate::layout::{FileName, Reference, fixup, record_number};
use crate::open::HIBERNATED;
use platter_device::Device;
use platter_vfs::{Error, Progress, Result};

const NAME: &str = "hiberfil.sys";

/// Refuses a repair of a volume on which Windows is hibernated. A volume whose records cannot be read is not refused.
///
/// # Errors
/// [`Error::ReadOnly`] for such a volume.
pub(super) fn refuse(device: &dyn Device, progress: &dyn Progress) -> Result<()> {
    let look = || {
        let mut check = Check::new(device, progress, false)?;
        check.look()?;
        is_hibernated(&check)
    };
    match look() {
        Ok(true) => Err(Error::ReadOnly(HIBERNATED.into())),
        Ok(false) | Err(_) => Ok(()),
    }
}

fn is_hibernated(check: &Check<'_>) -> Result<bool> {
    let size = u64::from(check.geometry.record);
    let per_read = (READ / size).max(1);
    for first in (0..check.table.count).step_by(per_read as usize) {
        let mut bytes = vec![0; (per_read.min(check.table.count - first) * size) as usize];
        check.table.read(&check.disk, &check.geometry, first, &mut bytes)?;
        for (number, record) in (first..).zip(bytes.chunks_exact_mut(size as usize)) {
            let may_be = check.state(number) == RecordState::Base
                && fixup::remove(record, "file record", 0).is_ok()
                && mentions(record);
            if may_be && sleeps(check, number) {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// Whether a record contains the name anywhere, in upper or lower case: most do not, and need not be parsed.
fn mentions(record: &[u8]) -> bool {
    let units = record.as_chunks::<2>().0;
    let is_unit = |(unit, letter): (&[u8; 2], u8)| unit[1] == 0 && unit[0].eq_ignore_ascii_case(&letter);
    units.windows(NAME.len()).any(|part| part.iter().zip(NAME.bytes()).all(is_unit))
}

/// Whether a file is `hiberfil.sys` of the root directory and begins as that file does while Windows is hibernated.
fn sleeps(check: &Check<'_>, number: u64) -> bool {
    let Ok(file) = Assembled::read(check, number, &mut Vec::new()) else { return false };
    let is_it = |name: FileName| {
        Reference::number(name.parent) == record_number::ROOT
            && String::from_utf16_lossy(&name.name).eq_ignore_ascii_case(NAME)
    };
    let mut names = file.of(Kind::FILE_NAME).into_iter();
    if !names.any(|place| {
        let value = file.attribute(place).value();
        value.and_then(|value| FileName::from_bytes(value, file.at).ok()).is_some_and(is_it)
    }) {
        return false;
    }
    let Some((runs, header)) = file.runs(check.geometry.clusters, &(Kind::DATA, Box::default())) else {
        return false;
    };
    let mut start = [0; 4];
    header.valid >= 4
        && check.disk.read_runs(&check.geometry, &runs, 0, &mut start).is_ok()
        && start.eq_ignore_ascii_case(b"hibr")
}

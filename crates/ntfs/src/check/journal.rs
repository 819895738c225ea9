//! The change journal after a repair: it does not have what that changed, and says so.

use super::Check;
use super::file::{Assembled, key};
use crate::layout::{Content, Kind, journal, record_number as known, timestamp_to_file_time};
use platter_vfs::Result;

/// Gives the journal, if there is one, another identifier.
pub fn stamp(check: &mut Check<'_>) -> Result<()> {
    let units: Box<[u16]> = journal::NAME.encode_utf16().collect();
    let is_it = |file: &super::File| {
        file.names.iter().any(|name| name.parent.number() == known::EXTEND && name.units == units)
    };
    let Some(number) = check.files.iter().find(|(_, file)| is_it(file)).map(|(number, _)| *number) else {
        return Ok(());
    };
    let records = key(Kind::DATA, journal::RECORDS);
    let file = Assembled::read(check, number, &mut Vec::new())?;
    let end = file.runs(check.geometry.clusters, &records).map_or(0, |(_, header)| header.size);
    let now = timestamp_to_file_time(check.disk.now().into()).0;
    check.edit(number, |file| {
        let Some(&place) = file.find(&key(Kind::DATA, journal::LIMITS)).first() else { return };
        if let Content::Resident { value, .. } = &mut file.attribute_mut(place).content {
            journal::stamp(value, now, end);
        }
    })
}

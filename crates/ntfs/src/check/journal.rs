//! The change journal after a repair: it has no record of the repair's changes, and is marked as not complete. So are
//! the counts of quotas, since files may have changed.

use super::file::{Assembled, key};
use super::{Check, views};
use crate::layout::{AttributeContent, Kind, journal, quota, timestamp_to_file_time};
use platter_vfs::Result;

/// Gives the change journal, if there is one, another identifier.
pub(super) fn stamp(check: &mut Check<'_>) -> Result<()> {
    let Some(number) = views::find(check, journal::NAME) else { return Ok(()) };
    let records = key(Kind::DATA, journal::RECORDS);
    let file = Assembled::read(check, number, &mut Vec::new())?;
    let end = file.runs(check.geometry.clusters, &records).map_or(0, |(_, header)| header.size);
    let now = timestamp_to_file_time(check.disk.now().into()).0;
    check.edit(number, |file| {
        let Some(&place) = file.find(&key(Kind::DATA, journal::LIMITS)).first() else { return };
        if let AttributeContent::Resident { value, .. } = &mut file.attribute_mut(place).content {
            journal::stamp(value, now, end);
        }
    })
}

/// Marks what `$Quota` counts as out of date, if bytes are counted. An index of so many owners that the entry is not in its
/// root is left as it is.
pub(super) fn mark_quota(check: &mut Check<'_>) -> Result<()> {
    let Some(number) = views::find(check, quota::NAME) else { return Ok(()) };
    check.edit(number, |file| {
        let Some(&place) = file.find(&key(Kind::INDEX_ROOT, "$Q")).first() else { return };
        if let AttributeContent::Resident { value, .. } = &mut file.attribute_mut(place).content
            && let Some(entry) = quota::defaults_in_root(value)
        {
            quota::mark(&mut value[entry]);
        }
    })
}

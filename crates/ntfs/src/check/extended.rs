//! Extended attributes: whether they are all inside their value.

use super::file::{Assembled, key};
use super::{Check, Severity};
use crate::layout::{Attribute, AttributeContent, ExtendedAttribute, Kind};
use platter_vfs::{Error, Result};

/// Checks a file's extended attributes. A repair keeps those that can be read.
pub fn examine(check: &mut Check<'_>, file: &mut Assembled) -> Result<()> {
    let own = key(Kind::EA, "");
    let Some(place) = file.find(&own).first().copied() else { return Ok(()) };
    let size = match &file.attribute(place).content {
        AttributeContent::Resident { value, .. } => value.len() as u64,
        AttributeContent::NonResident(outside) => outside.size,
    };
    let Some(bytes) = file.bytes(check, &own, ExtendedAttribute::LONGEST)? else { return Ok(()) };
    let mut sound = Vec::new();
    let read = ExtendedAttribute::read_into(&mut sound, &bytes, file.at);
    let fault = match read {
        Err(error) => error,
        Ok(()) if size > ExtendedAttribute::LONGEST => {
            let expected = format!("at most {} bytes", ExtendedAttribute::LONGEST);
            Error::damaged("$EA", file.at, expected, size)
        }
        Ok(()) => return Ok(()),
    };
    check.find("ea", Severity::DataLoss, Some(file.number), fault.to_string(), check.is_repairing);
    if !check.is_repairing {
        return Ok(());
    }
    if sound.is_empty() {
        file.remove(&own);
        file.remove(&key(Kind::EA_INFORMATION, ""));
        return Ok(());
    }
    file.put(Attribute::resident(Kind::EA_INFORMATION, ExtendedAttribute::information(&sound)));
    let kept = ExtendedAttribute::write_all(&sound);
    match file.runs(check.geometry.clusters, &own) {
        None => file.put(Attribute::resident(Kind::EA, kept)),
        Some((runs, _)) => {
            check.disk.write_runs(&check.geometry, &runs, 0, &kept)?;
            let Some(place) = file.find(&own).first().copied() else { return Ok(()) };
            if let AttributeContent::NonResident(outside) = &mut file.attribute_mut(place).content {
                let length = (kept.len() as u64).min(outside.allocated);
                (outside.size, outside.valid) = (length, length);
            }
        }
    }
    Ok(())
}

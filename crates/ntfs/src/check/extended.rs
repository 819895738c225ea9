//! Extended attributes: whether they are all inside their value.

use super::file::{Assembled, key};
use super::{Check, Severity};
use crate::layout::{Attribute, AttributeContent, ExtendedAttribute, Kind};
use platter_vfs::{Error, Result};

/// Checks a file's extended attributes, and `$EA_INFORMATION`, which states their lengths. A repair keeps the
/// attributes before the damage.
pub(super) fn examine(check: &mut Check<'_>, file: &mut Assembled) -> Result<()> {
    let own = key(Kind::EA, "");
    let Some(place) = file.find(&own).first().copied() else {
        compare(check, file, &[], 0);
        return Ok(());
    };
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
        Ok(()) => {
            compare(check, file, &sound, size);
            return Ok(());
        }
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

/// Compares `$EA_INFORMATION` with the attributes. It states their length when packed, their length as `$EA` stores
/// them ([MS-FSCC] 2.4.12), and how many have the flag [`ExtendedAttribute::NEEDED`]. Programs that ask for the length
/// of the attributes, or whether there are any, get their answer from `$EA_INFORMATION`. `size` is the length of `$EA`.
fn compare(check: &mut Check<'_>, file: &mut Assembled, attributes: &[ExtendedAttribute], size: u64) {
    let own = key(Kind::EA_INFORMATION, "");
    let is_there = !file.find(&own).is_empty();
    let found = file.value(Kind::EA_INFORMATION).map(<[u8]>::to_vec);
    let information = ExtendedAttribute::information(attributes);
    // A system that does not pad the last attribute to a multiple of four bytes states the length of `$EA` without this
    // padding.
    let as_it_stands = [&information[..4], &(size as u32).to_le_bytes()].concat();
    let is_right = found.as_ref().is_some_and(|found| *found == information || *found == as_it_stands);
    if is_right || attributes.is_empty() && !is_there {
        return;
    }
    let expected = (!attributes.is_empty()).then_some(information);
    let told =
        |value: &Option<Vec<u8>>| value.as_ref().map_or("none".into(), |bytes| format!("{bytes:02X?}"));
    let message = format!(
        "$EA_INFORMATION of the file record at offset {}: expected {}, found {}",
        file.at,
        told(&expected),
        told(&found)
    );
    check.find("ea-information", Severity::Inconsistent, Some(file.number), message, check.is_repairing);
    match expected {
        Some(value) => file.put(Attribute::resident(Kind::EA_INFORMATION, value)),
        None => file.remove(&own),
    }
}

//! `$VOLUME_NAME`: the volume's label, in UTF-16 units without an end.

use platter_vfs::{Error, NameRule, Result};

/// The most units of a label that is set: Windows takes no longer ones
/// (<https://learn.microsoft.com/windows/win32/api/winbase/nf-winbase-setvolumelabelw>), though `$AttrDef` has room for
/// 128, and other programs make such labels.
pub(super) const LONGEST_LABEL: usize = 32;

/// A label in UTF-16 units, as it is stored.
///
/// # Errors
/// [`Error::InvalidName`] if it is too long, or has a character that names cannot have either: programs that read a
/// label may use it as the name of a folder.
pub fn label_units(label: &str) -> Result<Vec<u16>> {
    let units: Vec<u16> = label.encode_utf16().collect();
    let wrong = |rule, reason| Err(Error::InvalidName { name: label.into(), rule, reason });
    if units.len() > LONGEST_LABEL {
        return wrong(NameRule::Length, "a label is too long with more than 32 units");
    }
    if label.chars().any(|char| char < ' ' || "\"*/:<>?\\|".contains(char)) {
        return wrong(
            NameRule::Characters,
            "a label has no control characters and none of \" * / : < > ? \\ |",
        );
    }
    Ok(units)
}

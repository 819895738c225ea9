//! The volume information (objects 0x500 and 0x501): label, versions, times.
//!
//! Source: forefst `docs/structures/volume_info.md` and `docs/attributes/VOLUME_INFORMATION.md`, volumes made by
//! Windows 10 and 11.

use super::SystemRow;
use crate::layout::Version;
use crate::layout::bytes::{put, u16_at};
use platter_vfs::NameRule;

/// The key of the row with the label.
const LABEL: u16 = 0x510;
/// The key of the row with versions and times.
const METADATA: u16 = 0x520;
/// The key of a row whose purpose is not understood.
const COUNTS: u16 = 0x540;

/// The number at the beginning of that row: the same on volumes of every version, whatever their schema table holds.
const SCHEMAS: u32 = 35;

/// The rows of a volume with this label, made and last mounted at these times, in units of 100 ns since 1601.
pub(crate) fn volume_information_rows(
    label: &[u16],
    version: Version,
    created: u64,
    mounted: u64,
) -> Vec<SystemRow> {
    let mut metadata = vec![0; 0x1C0];
    put(&mut metadata, 0x80, version.major);
    put(&mut metadata, 0x81, version.minor);
    // The version of the newest driver that ever mounted the volume.
    put(&mut metadata, 0x82, version.major);
    put(&mut metadata, 0x83, version.minor);
    put(&mut metadata, 0x84, if version < Version::V3_10 { 0x180u32 } else { 0 });
    put(&mut metadata, 0x90, created);
    put(&mut metadata, 0xA0, mounted);
    let mut counts = vec![0; 0x10];
    put(&mut counts, 0x00, SCHEMAS);
    put(&mut counts, 0x08, 1u32);
    vec![label_row(label), (key(METADATA), metadata), (key(COUNTS), counts)]
}

/// Compares rows of a volume of this version with what is known of them on every volume. Returns what is wrong with the
/// first that is not so, and the row as it must be.
pub(crate) fn wrong_information(rows: &[SystemRow], version: Version) -> Option<(String, Vec<SystemRow>)> {
    let row = |kind: u16| rows.iter().find(|(found, _)| *found == key(kind)).map(|(_, value)| value);
    let model = |kind: u16| {
        let mut rows = volume_information_rows(&[], version, 0, 0);
        rows.retain(|(found, _)| *found == key(kind));
        rows
    };
    for (kind, length) in [(METADATA, 0x1C0), (COUNTS, 0x10)] {
        match row(kind) {
            Some(value) if value.len() == length => {}
            found => {
                let found = found.map_or_else(|| "none".into(), |value| format!("{} bytes", value.len()));
                return Some((format!("row {kind:#x}: expected {length} bytes, found {found}"), model(kind)));
            }
        }
    }
    let mended = |kind: u16, change: &dyn Fn(&mut [u8])| {
        let mut value = row(kind).cloned().unwrap_or_default();
        change(&mut value);
        vec![(key(kind), value)]
    };
    let metadata = row(METADATA)?;
    let found = Version { major: metadata[0x80], minor: metadata[0x81] };
    if found != version {
        let rows = mended(METADATA, &|value| (value[0x80], value[0x81]) = (version.major, version.minor));
        return Some((format!("version: expected {version}, found {found}"), rows));
    }
    let found = u16_at(row(COUNTS)?, 0);
    if found != SCHEMAS as u16 {
        let rows = mended(COUNTS, &|value| put(value, 0, SCHEMAS));
        return Some((format!("row {COUNTS:#x}: expected {SCHEMAS}, found {found}"), rows));
    }
    None
}

/// Checks that these units can be a label. The error is the rule that they break, also in words.
pub(crate) fn check_label(label: &[u16]) -> std::result::Result<(), (NameRule, &'static str)> {
    match (label.len() > 32, label.contains(&0)) {
        (true, _) => Err((NameRule::Length, "a label is at most 32 UTF-16 units long")),
        // Readers would end the label at the NUL.
        (_, true) => Err((NameRule::Characters, "a label has no NUL in it")),
        _ => Ok(()),
    }
}

/// Whether a key is that of the row with the label.
pub(crate) fn is_label(key: &[u8]) -> bool {
    u16_at(key, 0) == LABEL
}

/// The row of a label.
pub(crate) fn label_row(label: &[u16]) -> SystemRow {
    // No zero is stored at the end. forefst says that Windows stores one; refsprogs, which was written against volumes
    // of Windows, takes the whole value for the label, and would show it.
    (key(LABEL), label.iter().flat_map(|unit| unit.to_le_bytes()).collect())
}

/// The label in a row's value: it ends with the value or before the first zero.
pub(crate) fn read_label(value: &[u8]) -> Vec<u16> {
    value.chunks_exact(2).map(|unit| u16_at(unit, 0)).take_while(|&unit| unit != 0).collect()
}

fn key(kind: u16) -> Vec<u8> {
    u64::from(kind).to_le_bytes().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows() {
        let rows = volume_information_rows(&[0x61, 0x62], Version::V3_14, 0x1122_3344, 0x5566_7788);
        assert_eq!(rows.iter().map(|(key, _)| u16_at(key, 0)).collect::<Vec<_>>(), [0x510, 0x520, 0x540]);
        assert_eq!(rows.iter().map(|(_, value)| value.len()).collect::<Vec<_>>(), [4, 448, 16]);
        let metadata = &rows[1].1;
        assert_eq!(metadata[0x80..0x88], [3, 14, 3, 14, 0, 0, 0, 0]);
        assert_eq!(
            metadata[0x90..0xA8],
            [[0x44, 0x33, 0x22, 0x11, 0, 0, 0, 0], [0; 8], [0x88, 0x77, 0x66, 0x55, 0, 0, 0, 0]].concat()
        );
        assert_eq!(rows[2].1, [35, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
        let old = volume_information_rows(&[], Version::V3_4, 0, 0);
        assert_eq!(old[1].1[0x80..0x88], [3, 4, 3, 4, 0x80, 1, 0, 0]);
    }

    #[test]
    fn labels_that_would_come_back_otherwise_are_none() {
        assert_eq!(check_label(&[0x61; 32]), Ok(()));
        assert!(check_label(&[0x61; 33]).is_err());
        assert!(check_label(&[0]).is_err() && check_label(&[0x61, 0, 0x62]).is_err());
    }

    #[test]
    fn labels() {
        let label = [0x61, 0xD800, 0x20AC];
        let value = label_row(&label).1;
        assert_eq!(read_label(&value), label);
        assert_eq!(read_label(&[&value[..], &[0, 0, 7]].concat()), label);
        assert_eq!(read_label(&value[..3]), label[..1]);
        assert_eq!(read_label(&[]), []);
    }
}

//! The change journal of a volume (USN journal): what Windows notes about each change of a file.
//!
//! Source: Microsoft, `USN_RECORD_V2`, `USN_RECORD_V3`, `USN_RECORD_V4` and [MS-FSCC] 2.3.62.

use crate::bytes::{u16_at, u32_at, u64_at};
use crate::{Error, Name, Result, Timestamp};

/// A record of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeRecord {
    /// Its offset in the journal in bytes, by which it is known (USN).
    pub usn: u64,
    /// 2, 3 or 4.
    pub version: u16,
    /// The file that changed: its number in the lower 48 bits, and a sequence number (version 2); 128 bits from version 3
    /// on.
    pub file: u128,
    /// The directory that its name is in.
    pub parent: u128,
    /// When it changed; a record of version 4 does not say it.
    pub time: Option<Timestamp>,
    /// What changed since the file was opened: a bit for each reason.
    pub reasons: u32,
    /// Flags that say on whose behalf it changed.
    pub source: u32,
    /// The attribute flags of the file.
    pub attributes: u32,
    /// The file's name; empty in a record of version 4.
    pub name: Name,
}

/// The limits of a change journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChangeJournal {
    /// Identifies the journal: when it was made, as Windows counts time.
    pub identifier: u64,
    /// The lowest offset whose record belongs to this identifier.
    pub lowest: u64,
    /// The offset that the next record gets.
    pub next: u64,
}

/// The names of the reasons, without the prefix `USN_REASON_`, each with its bit.
pub(crate) const REASONS: [(u32, &str); 24] = [
    (0x0000_0001, "DATA_OVERWRITE"),
    (0x0000_0002, "DATA_EXTEND"),
    (0x0000_0004, "DATA_TRUNCATION"),
    (0x0000_0010, "NAMED_DATA_OVERWRITE"),
    (0x0000_0020, "NAMED_DATA_EXTEND"),
    (0x0000_0040, "NAMED_DATA_TRUNCATION"),
    (0x0000_0100, "FILE_CREATE"),
    (0x0000_0200, "FILE_DELETE"),
    (0x0000_0400, "EA_CHANGE"),
    (0x0000_0800, "SECURITY_CHANGE"),
    (0x0000_1000, "RENAME_OLD_NAME"),
    (0x0000_2000, "RENAME_NEW_NAME"),
    (0x0000_4000, "INDEXABLE_CHANGE"),
    (0x0000_8000, "BASIC_INFO_CHANGE"),
    (0x0001_0000, "HARD_LINK_CHANGE"),
    (0x0002_0000, "COMPRESSION_CHANGE"),
    (0x0004_0000, "ENCRYPTION_CHANGE"),
    (0x0008_0000, "OBJECT_ID_CHANGE"),
    (0x0010_0000, "REPARSE_POINT_CHANGE"),
    (0x0020_0000, "STREAM_CHANGE"),
    (0x0040_0000, "TRANSACTED_CHANGE"),
    (0x0080_0000, "INTEGRITY_CHANGE"),
    (0x0100_0000, "DESIRED_STORAGE_CLASS_CHANGE"),
    (0x8000_0000, "CLOSE"),
];

impl ChangeRecord {
    /// Records do not cross the bounds of pages of this many bytes; what a page has left behind its last record is zero.
    pub const PAGE: usize = 0x1000;
    /// Bytes of the shortest record.
    const SHORTEST: usize = 0x30;

    /// Reads the record that `page` begins with, which is at offset `usn` of the journal; `page` ends where the page of
    /// the journal does. Returns the record with its length; `None` if the rest of the page is empty.
    ///
    /// # Errors
    /// [`Error::Damaged`], with the offset in the journal, for anything else.
    pub fn from_bytes(page: &[u8], usn: u64) -> Result<Option<(ChangeRecord, usize)>> {
        const STRUCTURE: &str = "record of the change journal";
        let length = u32_at(page, 0) as usize;
        if length == 0 {
            return Ok(None);
        }
        if length < ChangeRecord::SHORTEST || length > page.len() || !length.is_multiple_of(8) {
            let most = page.len();
            let expected = format!("a length of {} to {most} bytes in steps of 8", ChangeRecord::SHORTEST);
            return Err(Error::damaged(STRUCTURE, usn, expected, length));
        }
        let record = &page[..length];
        let wide = |at: usize| u128::from(u64_at(record, at)) | u128::from(u64_at(record, at + 8)) << 64;
        let version = u16_at(record, 4);
        // Where the fields are that come after the two references.
        let (file, parent, fields) = match version {
            2 => (u64_at(record, 8).into(), u64_at(record, 0x10).into(), 0x18),
            3 | 4 => (wide(8), wide(0x18), 0x28),
            other => return Err(Error::damaged(STRUCTURE, usn + 4, "version 2, 3 or 4", other)),
        };
        let stated = u64_at(record, fields);
        if stated != usn {
            return Err(Error::damaged(STRUCTURE, usn + fields as u64, format!("its offset {usn}"), stated));
        }
        let mut found = ChangeRecord {
            usn,
            version,
            file,
            parent,
            time: None,
            reasons: u32_at(record, fields + 8),
            source: u32_at(record, fields + 12),
            attributes: 0,
            name: Name::from_units(&[]),
        };
        if version == 4 {
            return Ok(Some((found, length)));
        }
        found.time = Some(Timestamp::from_file_time(u64_at(record, fields + 8)));
        found.reasons = u32_at(record, fields + 0x10);
        found.source = u32_at(record, fields + 0x14);
        found.attributes = u32_at(record, fields + 0x1C);
        let (bytes, start) =
            (usize::from(u16_at(record, fields + 0x20)), usize::from(u16_at(record, fields + 0x22)));
        let Some(name) = record.get(start..start + bytes).filter(|_| start >= fields + 0x24) else {
            let expected = format!("a name in its {length} bytes");
            let found = format!("{bytes} bytes at {start}");
            return Err(Error::damaged(STRUCTURE, usn + fields as u64 + 0x20, expected, found));
        };
        let units: Vec<u16> = name.as_chunks::<2>().0.iter().map(|unit| u16::from_le_bytes(*unit)).collect();
        found.name = Name::from_units(&units);
        Ok(Some((found, length)))
    }

    /// The names of its reasons; bits that have none are left out.
    pub fn reason_names(&self) -> Vec<&'static str> {
        REASONS.iter().filter(|(bit, _)| self.reasons & bit != 0).map(|(_, name)| *name).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::put;

    const USN: u64 = 0x5000;

    fn record(version: u16, name: &str) -> Vec<u8> {
        let fields = if version == 2 { 0x18 } else { 0x28 };
        let units: Vec<u16> = name.encode_utf16().collect();
        let start = fields + 0x24;
        let mut bytes = vec![0; (start + 2 * units.len()).next_multiple_of(8)];
        let length = bytes.len() as u32;
        put(&mut bytes, 0, length);
        put(&mut bytes, 4, version);
        put(&mut bytes, 8, 0x0005_0000_0000_0027u64);
        put(&mut bytes, if version == 2 { 0x10 } else { 0x18 }, 0x0007_0000_0000_0005u64);
        put(&mut bytes, fields, USN);
        put(&mut bytes, fields + 8, 132_000_000_000_000_000u64);
        put(&mut bytes, fields + 0x10, 0x8000_0100u32);
        put(&mut bytes, fields + 0x1C, 0x20u32);
        put(&mut bytes, fields + 0x20, 2 * units.len() as u16);
        put(&mut bytes, fields + 0x22, start as u16);
        for (index, unit) in units.into_iter().enumerate() {
            put(&mut bytes, start + 2 * index, unit);
        }
        bytes
    }

    #[test]
    fn records_of_both_versions() {
        for version in [2, 3] {
            let bytes = record(version, "größe.txt");
            let (found, length) = ChangeRecord::from_bytes(&bytes, USN).unwrap().unwrap();
            assert_eq!(length, bytes.len());
            assert_eq!(found.name.to_string(), "größe.txt");
            assert_eq!((found.file, found.parent), (0x0005_0000_0000_0027, 0x0007_0000_0000_0005));
            assert_eq!(found.reason_names(), ["FILE_CREATE", "CLOSE"]);
            assert_eq!(found.time, Some(Timestamp::from_file_time(132_000_000_000_000_000)));
            assert_eq!((found.attributes, found.usn, found.version), (0x20, USN, version));
        }
        assert_eq!(ChangeRecord::from_bytes(&[0; 64], USN).unwrap(), None);
        assert_eq!(ChangeRecord::from_bytes(&[], USN).unwrap(), None);
    }

    #[test]
    fn no_bytes_panic_and_damage_names_its_place() {
        for version in [2, 3] {
            let good = record(version, "name");
            for at in 0..good.len() {
                for bit in 0..8 {
                    let mut bytes = good.clone();
                    bytes[at] ^= 1 << bit;
                    for cut in [bytes.len(), bytes.len() - 8, 5] {
                        if let Err(error) = ChangeRecord::from_bytes(&bytes[..cut], USN) {
                            let told = error.to_string();
                            assert!(told.contains("record of the change journal"), "{told}");
                        }
                    }
                }
            }
            let at = ChangeRecord::from_bytes(&good, USN + 8).unwrap_err().to_string();
            assert!(at.contains("its offset 20488"), "{at}");
        }
    }
}

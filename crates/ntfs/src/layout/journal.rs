//! The change journal, `$Extend\$UsnJrnl`, which Platter does not write to: programs that read it are told that it is
//! not complete.
//!
//! NTFS stamps a journal with a new identifier where its records "either are or may be unusable", goes on with the
//! journal's numbers from where they are, and reads records only for the identifier that they were written under
//! (Microsoft, "Using the Change Journal Identifier" and `USN_JOURNAL_DATA_V1`). The first commit of a session and a
//! repair do the same: so an indexer or a backup finds another identifier than the one it remembers and looks through
//! the volume anew, and no older record is taken for a current one.

use super::bytes::{put, u64_at};

/// The name of the journal's file in `$Extend`.
pub const NAME: &str = "$UsnJrnl";
/// The stream that has the journal's identifier and limits.
pub const LIMITS: &str = "$Max";
/// The stream that has the journal's records.
pub const RECORDS: &str = "$J";

/// Bytes of `$Max`: maximum size, allocation delta, identifier (a file time), lowest valid number.
const LENGTH: usize = 32;
/// Where `$Max` has the identifier.
pub const IDENTIFIER: usize = 0x10;
/// Where `$Max` has the lowest valid number.
pub const LOWEST: usize = 0x18;

// Both numbers are in the value of $Max.
const _: () = assert!(IDENTIFIER + 8 <= LENGTH && LOWEST + 8 <= LENGTH);

/// Gives the journal with these limits another identifier: the file time `now`, or a later one if the old identifier is
/// not before it. The valid records begin at `end`, the size of the stream that has them. Limits that are too short are
/// left as they are.
pub fn stamp(limits: &mut [u8], now: u64, end: u64) {
    if limits.len() < LENGTH {
        return;
    }
    let identifier = now.max(u64_at(limits, IDENTIFIER).wrapping_add(1));
    put(limits, IDENTIFIER, identifier);
    put(limits, LOWEST, end);
}

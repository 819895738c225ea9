//! The owner of records and runs: a file, and a name of it for messages.

/// The place of a file's or directory's record, and one of its names.
#[derive(Clone, Copy)]
pub(super) struct Spot<'s> {
    /// The directory in whose tree the record is.
    pub table: u64,
    /// The key of the record's row.
    pub row: &'s [u8],
    /// A directory that the file has a name in.
    pub directory: u64,
    /// The name in that directory; empty if the record is that directory's own.
    pub name: &'s [u16],
    /// The offset of the record on the device, in bytes.
    pub at: u64,
}

/// The owner of runs: the data of a file, or one of its named streams.
pub(super) struct Owner<'o> {
    /// The file's record.
    pub spot: Spot<'o>,
    /// The name of the stream; empty for the file's own data.
    pub stream: &'o [u16],
    /// The key of the attribute that holds the stream.
    pub attribute: &'o [u8],
    /// Whether the file has integrity, so that each of its runs must have a checksum.
    pub integrity: bool,
    /// The size in bytes that something else than the stream gives for it: the file's record.
    pub said: Option<u64>,
    /// Whether the stream is a snapshot, whose clusters may belong to other streams too.
    pub is_snapshot: bool,
    /// Whether the stream is a version of data whose versions take clusters from each other.
    pub is_spread: bool,
    /// Whether the stream is one of several versions of a file's data.
    pub has_versions: bool,
}

/// Returns the name by which messages call a file whose names are not known.
pub(super) fn nameless(ordinal: u64) -> Vec<u16> {
    units(&format!("<file {ordinal:#x}>"))
}

/// Returns the UTF-16 units of a text.
pub(super) fn units(text: &str) -> Vec<u16> {
    text.encode_utf16().collect()
}

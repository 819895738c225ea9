//! Whose data it is: the file, and its names.

/// Where a file's record stands, and which name of the file is known.
#[derive(Clone, Copy)]
pub struct Spot<'s> {
    /// The directory in whose tree it is.
    pub table: u64,
    /// The key of its row.
    pub row: &'s [u8],
    /// A directory that the file has a name in, and the name.
    pub directory: u64,
    pub name: &'s [u16],
    /// Where its value stands on the device.
    pub at: u64,
}

/// Whose runs they are.
pub struct Owner<'o> {
    /// The file's record.
    pub spot: Spot<'o>,
    /// The name of the stream; empty for the file's own data.
    pub stream: &'o [u16],
    /// The key of the attribute that holds it.
    pub attribute: &'o [u8],
    /// The file has integrity.
    pub integrity: bool,
    /// Its clusters may belong to others too.
    pub is_snapshot: bool,
}

/// The name that stands for a file whose names are not known.
pub fn nameless(ordinal: u64) -> Vec<u16> {
    units(&format!("<file {ordinal:#x}>"))
}

/// The units of a text.
pub fn units(text: &str) -> Vec<u16> {
    text.encode_utf16().collect()
}

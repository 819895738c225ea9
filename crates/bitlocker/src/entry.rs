//! Entries of metadata: lists of values, some of which have lists inside.

use crate::bytes::le16;

/// Bytes of the header before the entries of a metadata block or of a key file.
pub(crate) const METADATA_HEAD: usize = 48;

/// Value types: \[BDE\], "FVE metadata value types".
pub(crate) const KEY: u16 = 0x0001;
pub(crate) const TEXT: u16 = 0x0002;
pub(crate) const STRETCH_KEY: u16 = 0x0003;
pub(crate) const SEALED_KEY: u16 = 0x0005;
pub(crate) const MASTER_KEY: u16 = 0x0008;
pub(crate) const EXTERNAL_KEY: u16 = 0x0009;
pub(crate) const OFFSET_AND_SIZE: u16 = 0x000F;

/// Types of entries: \[BDE\], "FVE metadata entry types".
pub(crate) const VOLUME_MASTER_KEY: u16 = 0x0002;
pub(crate) const VOLUME_ENCRYPTION_KEY: u16 = 0x0003;
pub(crate) const DESCRIPTION: u16 = 0x0007;
pub(crate) const VOLUME_HEADER: u16 = 0x000F;

/// One entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MetadataEntry<'b> {
    /// What the entry is for; 0 inside of others.
    pub kind: u16,
    /// The type of its value.
    pub value: u16,
    /// The value.
    pub data: &'b [u8],
}

impl<'b> MetadataEntry<'b> {
    /// The entries in the value, from this position on.
    pub(crate) fn inside(&self, at: usize) -> impl Iterator<Item = MetadataEntry<'b>> + use<'b> {
        entries(self.data.get(at..).unwrap_or_default())
    }
}

/// The entries in these bytes, up to the first one that cannot be one. Each has at least 8 bytes.
pub(crate) fn entries(mut bytes: &[u8]) -> impl Iterator<Item = MetadataEntry<'_>> {
    const HEAD: usize = 8;
    std::iter::from_fn(move || {
        let size = usize::from(le16(bytes, 0)?);
        let data = bytes.get(HEAD..size)?;
        let entry = MetadataEntry { kind: le16(bytes, 2)?, value: le16(bytes, 4)?, data };
        bytes = &bytes[size..];
        Some(entry)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_end_where_none_can_be() {
        let entry = |size: u16, kind: u16, value: u16| [size, kind, value, 1].map(u16::to_le_bytes).concat();
        let mut bytes = entry(10, 2, 8);
        bytes.extend([0xAA, 0xBB]);
        bytes.extend(entry(8, 7, 2));
        for end in [&[][..], &[0; 8], &entry(7, 1, 1), &entry(9, 1, 1), &[1]] {
            let all = [&bytes[..], end].concat();
            let found: Vec<_> = entries(&all).map(|one| (one.kind, one.value, one.data.to_vec())).collect();
            assert_eq!(found, [(2, 8, vec![0xAA, 0xBB]), (7, 2, vec![])]);
        }
    }
}

//! `$AttrDef`: the attribute types that a volume has.

use super::Kind;
use super::bytes::put;

/// One row of the table, 160 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Definition {
    /// The attribute's name, with the dollar sign.
    pub name: &'static str,
    /// The type.
    pub kind: Kind,
    /// 0x02: an index may have it as its key; 0x40: always resident; 0x80: may be non-resident.
    pub flags: u32,
    /// Smallest size of its value in bytes.
    pub smallest: u64,
    /// Largest size of its value in bytes; `u64::MAX` for no limit.
    pub largest: u64,
}

impl Definition {
    /// Bytes of a row.
    pub const LENGTH: usize = 160;

    /// The row's bytes.
    pub fn to_bytes(&self) -> [u8; Definition::LENGTH] {
        let mut bytes = [0; Definition::LENGTH];
        for (index, unit) in self.name.encode_utf16().take(63).enumerate() {
            put(&mut bytes, index * 2, unit);
        }
        put(&mut bytes, 0x80, self.kind.0);
        put(&mut bytes, 0x8C, self.flags);
        put(&mut bytes, 0x90, self.smallest);
        put(&mut bytes, 0x98, self.largest);
        bytes
    }
}

impl Kind {
    /// Whether NTFS has attributes of this type; 0xF0 is one of Windows NT 4.
    pub fn is_known(self) -> bool {
        definitions().iter().any(|definition| definition.kind == self) || self == Kind::PROPERTY_SET
    }
}

/// The table of NTFS 3.1, as Windows 10 writes it.
pub fn definitions() -> [Definition; 15] {
    const NONE: u64 = u64::MAX;
    fn row(name: &'static str, kind: Kind, flags: u32, smallest: u64, largest: u64) -> Definition {
        Definition { name, kind, flags, smallest, largest }
    }
    [
        row("$STANDARD_INFORMATION", Kind::STANDARD_INFORMATION, 0x40, 0x30, 0x48),
        row("$ATTRIBUTE_LIST", Kind::ATTRIBUTE_LIST, 0x80, 0, NONE),
        row("$FILE_NAME", Kind::FILE_NAME, 0x42, 0x44, 0x242),
        row("$OBJECT_ID", Kind::OBJECT_ID, 0x40, 0, 0x100),
        row("$SECURITY_DESCRIPTOR", Kind::SECURITY_DESCRIPTOR, 0x80, 0, NONE),
        row("$VOLUME_NAME", Kind::VOLUME_NAME, 0x40, 2, 0x100),
        row("$VOLUME_INFORMATION", Kind::VOLUME_INFORMATION, 0x40, 0x0C, 0x0C),
        row("$DATA", Kind::DATA, 0, 0, NONE),
        row("$INDEX_ROOT", Kind::INDEX_ROOT, 0x40, 0, NONE),
        row("$INDEX_ALLOCATION", Kind::INDEX_ALLOCATION, 0x80, 0, NONE),
        row("$BITMAP", Kind::BITMAP, 0x80, 0, NONE),
        row("$REPARSE_POINT", Kind::REPARSE_POINT, 0x80, 0, 0x4000),
        row("$EA_INFORMATION", Kind::EA_INFORMATION, 0x40, 8, 8),
        row("$EA", Kind::EA, 0, 0, 0x10000),
        row("$LOGGED_UTILITY_STREAM", Kind::LOGGED_UTILITY_STREAM, 0x80, 0, 0x10000),
    ]
}

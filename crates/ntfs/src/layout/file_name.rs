//! `$FILE_NAME`: one name of a file, in its record and as the key of its directory's index.

use super::bytes::{put, u32_at, u64_at};
use super::{FileTime, Reference};
use platter_vfs::{Error, Result};

/// Flags of a file, in `$STANDARD_INFORMATION` and `$FILE_NAME` ([MS-FSCC] 2.6).
pub mod file_flags {
    /// Read-only, hidden, system, archive: the flags that all Windows formats share.
    pub const DOS: u32 = 0x27;
    /// Read-only.
    pub const READ_ONLY: u32 = 0x01;
    /// Hidden.
    pub const HIDDEN: u32 = 0x02;
    /// System.
    pub const SYSTEM: u32 = 0x04;
    /// Archive.
    pub const ARCHIVE: u32 = 0x20;
    /// Has holes.
    pub const SPARSE: u32 = 0x200;
    /// Has a reparse point.
    pub const REPARSE: u32 = 0x400;
    /// Compressed; for a directory: new files in it will be compressed.
    pub const COMPRESSED: u32 = 0x800;
    /// Encrypted; for a directory: new files in it will be encrypted.
    pub const ENCRYPTED: u32 = 0x4000;
    /// Only in `$FILE_NAME`: a directory.
    pub const DIRECTORY: u32 = 0x1000_0000;
    /// Only in `$FILE_NAME`: has an index of something other than names.
    pub const VIEW_INDEX: u32 = 0x2000_0000;
}

/// The four kinds of names.
pub mod namespace {
    /// Any units but NUL and `/`: a name without a short one, as Windows makes it where short names are off, and as WSL
    /// does.
    pub const POSIX: u8 = 0;
    /// A long name.
    pub const WIN32: u8 = 1;
    /// The short name to a long one.
    pub const DOS: u8 = 2;
    /// A name that is short and long at once.
    pub const WIN32_AND_DOS: u8 = 3;
}

/// The value of `$FILE_NAME`.
///
/// Times, sizes and flags are copies from when the name was last touched, so that a listing needs no other record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileName {
    /// The directory, at 0x00.
    pub parent: Reference,
    /// When the file was created, at 0x08.
    pub created: FileTime,
    /// When its content changed, at 0x10.
    pub modified: FileTime,
    /// When its record changed, at 0x18.
    pub changed: FileTime,
    /// When it was last read, at 0x20.
    pub accessed: FileTime,
    /// Bytes allocated to its unnamed `$DATA`, at 0x28; of a compressed or sparse file without the holes.
    pub allocated: u64,
    /// Size of its unnamed `$DATA`, at 0x30.
    pub size: u64,
    /// The file's [`file_flags`], at 0x38.
    pub flags: u32,
    /// Size of its packed extended attributes or, if it has a reparse point, the tag of that point, at 0x3C.
    pub tag: u32,
    /// The [`namespace`] of the name, at 0x41.
    pub namespace: u8,
    /// UTF-16 units, 1 to 255.
    pub name: Box<[u16]>,
}

impl FileName {
    /// Bytes before the name.
    pub const HEADER: usize = 0x42;
    /// The most names that a file gets, short ones not counted: Windows makes 1,023 besides the first
    /// (`CreateHardLink`, <https://learn.microsoft.com/windows/win32/api/winbase/nf-winbase-createhardlinkw>). A file
    /// that has more already is no damage.
    pub const MOST: usize = 1024;

    /// Reads a value.
    ///
    /// # Errors
    /// [`Error::Damaged`] if the name is not inside the value.
    pub fn from_bytes(bytes: &[u8], at: u64) -> Result<FileName> {
        let Some(name) = FileName::units_of(bytes) else {
            let expected = "a name of 1 to 255 units inside the value";
            let found = format!("{} bytes", bytes.len());
            return Err(Error::damaged("$FILE_NAME", at + 0x40, expected, found));
        };
        let time = |at| FileTime(u64_at(bytes, at));
        Ok(FileName {
            parent: Reference(u64_at(bytes, 0)),
            created: time(8),
            modified: time(0x10),
            changed: time(0x18),
            accessed: time(0x20),
            allocated: u64_at(bytes, 0x28),
            size: u64_at(bytes, 0x30),
            flags: u32_at(bytes, 0x38),
            tag: u32_at(bytes, 0x3C),
            namespace: bytes[0x41],
            name: name.iter().map(|unit| u16::from_le_bytes(*unit)).collect(),
        })
    }

    /// Only the name's units, as bytes; `None` if there is none or it is not inside.
    pub fn units_of(bytes: &[u8]) -> Option<&[[u8; 2]]> {
        let length = usize::from(*bytes.get(0x40)?);
        let name = bytes.get(FileName::HEADER..FileName::HEADER + length * 2)?;
        (length > 0).then_some(name.as_chunks::<2>().0)
    }

    /// The value's bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; FileName::HEADER + self.name.len() * 2];
        put(&mut bytes, 0, self.parent.0);
        put(&mut bytes, 8, self.created.0);
        put(&mut bytes, 0x10, self.modified.0);
        put(&mut bytes, 0x18, self.changed.0);
        put(&mut bytes, 0x20, self.accessed.0);
        put(&mut bytes, 0x28, self.allocated);
        put(&mut bytes, 0x30, self.size);
        put(&mut bytes, 0x38, self.flags);
        put(&mut bytes, 0x3C, self.tag);
        bytes[0x40] = self.name.len() as u8;
        bytes[0x41] = self.namespace;
        for (unit, place) in self.name.iter().zip(bytes[FileName::HEADER..].as_chunks_mut::<2>().0) {
            *place = unit.to_le_bytes();
        }
        bytes
    }
}

const _: () = assert!(FileName::HEADER + 2 * u8::MAX as usize <= FileName::MOST, "the longest name fits");

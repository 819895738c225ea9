//! `$STANDARD_INFORMATION`: times and flags.

use super::FileTime;
use super::bytes::{put, u32_at, u64_at};
use platter_vfs::{Error, Result};

/// Flag of a directory, at 0x28: its names are case-sensitive (`FILE_CS_FLAG_CASE_SENSITIVE_DIR` of Windows 10).
/// Microsoft documents the flag and what it does, not its place on disk; this is the place from which MFTECmd shows it.
pub const CASE_SENSITIVE: u32 = 1;

/// The value of `$STANDARD_INFORMATION`: 72 bytes since NTFS 3.0, 48 before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StandardInformation {
    /// When the file was created, at 0x00.
    pub created: FileTime,
    /// When its content changed, at 0x08.
    pub modified: FileTime,
    /// When its record changed, at 0x10.
    pub changed: FileTime,
    /// When it was last read, at 0x18.
    pub accessed: FileTime,
    /// The file's [`super::file_flags`], at 0x20.
    pub flags: u32,
    /// How many versions may be kept, at 0x24.
    pub versions: u32,
    /// At 0x28, where documentation of NTFS before Windows 10 has a version number: [`CASE_SENSITIVE`], or 0.
    pub version: u32,
    /// The file's class, at 0x2C.
    pub class: u32,
    /// The fields that are not in the 48 bytes of volumes before 3.0.
    pub extended: Option<StandardExtended>,
}

/// The part of `$STANDARD_INFORMATION` that came with NTFS 3.0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StandardExtended {
    /// The number of the owner whose quota is charged, at 0x30.
    pub owner: u32,
    /// Number of its security descriptor in `$Secure`, at 0x34; 0 for none.
    pub security: u32,
    /// Bytes charged to the quota, at 0x38.
    pub charged: u64,
    /// The number of its last record in the change journal, at 0x40.
    pub usn: u64,
}

impl StandardInformation {
    /// Whether a value is that of a directory whose names are case-sensitive.
    pub fn is_case_sensitive(bytes: &[u8]) -> bool {
        bytes.get(0x28..0x2C).is_some_and(|field| u32_at(field, 0) & CASE_SENSITIVE != 0)
    }

    /// Reads a value.
    ///
    /// # Errors
    /// [`Error::Damaged`] if it is too short.
    pub fn from_bytes(bytes: &[u8], at: u64) -> Result<StandardInformation> {
        if bytes.len() < 0x30 {
            return Err(Error::damaged("$STANDARD_INFORMATION", at, "48 or 72 bytes", bytes.len()));
        }
        let time = |at| FileTime(u64_at(bytes, at));
        Ok(StandardInformation {
            created: time(0),
            modified: time(8),
            changed: time(0x10),
            accessed: time(0x18),
            flags: u32_at(bytes, 0x20),
            versions: u32_at(bytes, 0x24),
            version: u32_at(bytes, 0x28),
            class: u32_at(bytes, 0x2C),
            extended: (bytes.len() >= 0x48).then(|| StandardExtended {
                owner: u32_at(bytes, 0x30),
                security: u32_at(bytes, 0x34),
                charged: u64_at(bytes, 0x38),
                usn: u64_at(bytes, 0x40),
            }),
        })
    }

    /// The value's bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; if self.extended.is_some() { 0x48 } else { 0x30 }];
        put(&mut bytes, 0, self.created.0);
        put(&mut bytes, 8, self.modified.0);
        put(&mut bytes, 0x10, self.changed.0);
        put(&mut bytes, 0x18, self.accessed.0);
        put(&mut bytes, 0x20, self.flags);
        put(&mut bytes, 0x24, self.versions);
        put(&mut bytes, 0x28, self.version);
        put(&mut bytes, 0x2C, self.class);
        if let Some(extended) = self.extended {
            put(&mut bytes, 0x30, extended.owner);
            put(&mut bytes, 0x34, extended.security);
            put(&mut bytes, 0x38, extended.charged);
            put(&mut bytes, 0x40, extended.usn);
        }
        bytes
    }
}

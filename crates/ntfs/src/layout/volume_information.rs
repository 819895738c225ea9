//! `$VOLUME_INFORMATION`: version and flags.

use super::bytes::{put, u16_at};
use platter_vfs::{Error, Result};

/// Flags of a volume.
pub mod volume_flags {
    /// To be checked before use.
    pub const DIRTY: u16 = 0x0001;
    /// The log is to be made larger or smaller.
    pub const RESIZE_LOG: u16 = 0x0002;
    /// To be upgraded when mounted.
    pub const UPGRADE: u16 = 0x0004;
    /// Mounted by Windows NT 4.
    pub const MOUNTED_ON_NT4: u16 = 0x0008;
    /// The change journal is being deleted.
    pub const DELETE_USN: u16 = 0x0010;
    /// Object identifiers are to be repaired.
    pub const REPAIR_OBJECT_IDS: u16 = 0x0020;
    /// A check is under way.
    pub const CHECKING: u16 = 0x4000;
    /// Changed by a check.
    pub const CHECKED: u16 = 0x8000;
}

/// The value of `$VOLUME_INFORMATION`, 12 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VolumeInformation {
    /// Major and minor version of the format, at 0x08: 3.1 since Windows XP.
    pub version: (u8, u8),
    /// The volume's [`volume_flags`], at 0x0A.
    pub flags: u16,
}

impl VolumeInformation {
    /// Reads a value.
    ///
    /// # Errors
    /// [`Error::Damaged`] if it is too short.
    pub fn from_bytes(bytes: &[u8], at: u64) -> Result<VolumeInformation> {
        if bytes.len() < 12 {
            return Err(Error::damaged("$VOLUME_INFORMATION", at, "12 bytes", bytes.len()));
        }
        Ok(VolumeInformation { version: (bytes[8], bytes[9]), flags: u16_at(bytes, 10) })
    }

    /// The value's bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; 12];
        (bytes[8], bytes[9]) = self.version;
        put(&mut bytes, 10, self.flags);
        bytes
    }
}

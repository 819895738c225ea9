//! File references.

use std::fmt;

/// A record of `$MFT`, and the sequence number that it must have: 48 bits record number, 16 bits sequence number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reference(pub u64);

impl Reference {
    /// A reference to a record (with a number below 2^48) that has the sequence number `sequence`.
    pub fn new(number: u64, sequence: u16) -> Reference {
        Reference(number & 0xFFFF_FFFF_FFFF | u64::from(sequence) << 48)
    }

    /// The record's number.
    pub fn number(self) -> u64 {
        self.0 & 0xFFFF_FFFF_FFFF
    }

    /// The record's sequence number; 0 matches every one.
    pub fn sequence(self) -> u16 {
        (self.0 >> 48) as u16
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.number(), self.sequence())
    }
}

/// The records that every volume has.
pub mod record_number {
    /// `$MFT`, the table of records itself.
    pub const MFT: u64 = 0;
    /// `$MFTMirr`, a copy of its first records.
    pub const MFT_MIRROR: u64 = 1;
    /// `$LogFile`.
    pub const LOG_FILE: u64 = 2;
    /// `$Volume`: label, version and flags.
    pub const VOLUME: u64 = 3;
    /// `$AttrDef`: the attribute types there are.
    pub const ATTRIBUTE_DEFINITIONS: u64 = 4;
    /// The root directory.
    pub const ROOT: u64 = 5;
    /// `$Bitmap`: which clusters are taken.
    pub const BITMAP: u64 = 6;
    /// `$Boot`: the boot sector and what follows it.
    pub const BOOT: u64 = 7;
    /// `$BadClus`: clusters not to be used.
    pub const BAD_CLUSTERS: u64 = 8;
    /// `$Secure`: security descriptors.
    pub const SECURE: u64 = 9;
    /// `$UpCase`: the upper case of every UTF-16 unit.
    pub const UPCASE: u64 = 10;
    /// `$Extend`: the directory of further system files.
    pub const EXTEND: u64 = 11;
    /// The first record that is not reserved for the system.
    pub const FIRST_FREE: u64 = 24;
}

//! The position at which a scrub ended, from which the next one continues.

use platter_vfs::{Error, Result};
use std::fmt;
use std::str::FromStr;

/// A position in the order in which data is verified: the directory, the number of a record in it, and the number of a
/// cluster in that record. A directory of `u64::MAX` means that all data is verified; see [`Position::comparing`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    pub directory: u64,
    pub record: u64,
    pub cluster: u64,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}.{}.{}", self.directory, self.record, self.cluster)
    }
}

impl Position {
    /// The position after all data at which the copies have been compared up to this cluster of the device.
    pub fn comparing(cluster: u64) -> Position {
        Position { directory: u64::MAX, record: 0, cluster }
    }

    /// The cluster of the device up to which the copies have been compared.
    pub fn compared(self) -> u64 {
        if self.directory == u64::MAX { self.cluster } else { 0 }
    }
}

impl FromStr for Position {
    type Err = Error;

    fn from_str(text: &str) -> Result<Position> {
        let mut parts = text.split('.');
        let mut next = |radix| parts.next().and_then(|part| u64::from_str_radix(part, radix).ok());
        match (next(16), next(10), next(10), parts.next()) {
            (Some(directory), Some(record), Some(cluster), None) => {
                Ok(Position { directory, record, cluster })
            }
            _ => Err(Error::InvalidArgument("a position to go on from is one that an earlier scrub gave")),
        }
    }
}

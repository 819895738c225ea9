//! How far a scrub has come, for the next one to go on from.

use platter_vfs::{Error, Result};
use std::fmt;
use std::str::FromStr;

/// A place in the order of the data: the directory, which of its records, and which of that record's clusters.
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
    /// Behind all data: the copies have been compared up to this cluster of the device.
    pub fn comparing(cluster: u64) -> Position {
        Position { directory: u64::MAX, record: 0, cluster }
    }

    /// Up to which cluster of the device the copies have been compared.
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

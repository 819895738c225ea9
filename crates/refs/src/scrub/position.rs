//! The position at which a scrub ended, from which the next one continues.

use platter_vfs::{Error, Result};
use std::fmt;
use std::str::FromStr;

/// A position in the order in which a volume is scrubbed: all metadata, then data with checksums, then the comparison of
/// the copies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Position {
    /// The trees of the objects from this number on are next; from 0 on, also what is above the objects.
    Metadata(u64),
    /// All metadata is verified, and the data from here on is next.
    Data(DataPosition),
    /// All data is verified, and the copies are compared from this cluster of the device on.
    Copies(u64),
}

/// A position in the data of a volume, in the order of directories, of records in a directory, and of clusters in a record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct DataPosition {
    /// The object number of the directory.
    pub directory: u64,
    /// The key of the record's row in the directory; empty for the first record.
    pub row: Vec<u8>,
    /// The number of the stream in the record.
    pub stream: usize,
    /// The cluster of the stream.
    pub cluster: u32,
}

impl Position {
    /// The beginning.
    pub(super) const START: Position = Position::Metadata(0);
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Position::Metadata(object) => write!(f, "metadata.{object:x}"),
            Position::Data(DataPosition { directory, row, stream, cluster }) => {
                write!(f, "data.{directory:x}.")?;
                row.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
                write!(f, ".{stream}.{cluster}")
            }
            Position::Copies(cluster) => write!(f, "copies.{cluster}"),
        }
    }
}

/// The bytes that are written as pairs of hexadecimal digits.
fn bytes(text: &str) -> Option<Vec<u8>> {
    let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    text.len().is_multiple_of(2).then(|| text.as_bytes().chunks(2).map(pair).collect())?
}

impl FromStr for Position {
    type Err = Error;

    fn from_str(text: &str) -> Result<Position> {
        let parts: Vec<&str> = text.split('.').collect();
        let hex = |text| u64::from_str_radix(text, 16).ok();
        let position = match parts[..] {
            ["metadata", object] => hex(object).map(Position::Metadata),
            ["data", directory, row, stream, cluster] => (|| {
                Some(Position::Data(DataPosition {
                    directory: hex(directory)?,
                    row: bytes(row)?,
                    stream: stream.parse().ok()?,
                    cluster: cluster.parse().ok()?,
                }))
            })(),
            ["copies", cluster] => cluster.parse().ok().map(Position::Copies),
            _ => None,
        };
        position.ok_or(Error::InvalidArgument("a position to go on from is one that an earlier scrub gave"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_read_back() {
        let place = DataPosition { directory: 0x701, row: vec![0x30, 0, 0xAB], stream: 2, cluster: 4096 };
        let positions = [
            (Position::Metadata(0x702), "metadata.702"),
            (Position::Data(place), "data.701.3000ab.2.4096"),
            (Position::Data(DataPosition::default()), "data.0..0.0"),
            (Position::Copies(77), "copies.77"),
        ];
        for (position, text) in positions {
            assert_eq!(position.to_string(), text);
            assert_eq!(text.parse::<Position>().unwrap(), position);
        }
        for wrong in ["", "701", "701.3.1", "metadata.x", "data.1.abc.0.0", "data.1.é.0.0", "copies.1.2"] {
            assert!(wrong.parse::<Position>().is_err(), "{wrong}");
        }
    }
}

//! Attributes, of which file records are made.

use super::bytes::{put, u16_at, u32_at, u64_at};
use platter_vfs::{Error, Result};
use std::fmt;

const STRUCTURE: &str = "attribute";

/// An attribute's type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kind(pub u32);

#[allow(missing_docs)] // The names are the format's own.
impl Kind {
    pub const STANDARD_INFORMATION: Kind = Kind(0x10);
    pub const ATTRIBUTE_LIST: Kind = Kind(0x20);
    pub const FILE_NAME: Kind = Kind(0x30);
    pub const OBJECT_ID: Kind = Kind(0x40);
    pub const SECURITY_DESCRIPTOR: Kind = Kind(0x50);
    pub const VOLUME_NAME: Kind = Kind(0x60);
    pub const VOLUME_INFORMATION: Kind = Kind(0x70);
    pub const DATA: Kind = Kind(0x80);
    pub const INDEX_ROOT: Kind = Kind(0x90);
    pub const INDEX_ALLOCATION: Kind = Kind(0xA0);
    pub const BITMAP: Kind = Kind(0xB0);
    pub const REPARSE_POINT: Kind = Kind(0xC0);
    pub const EA_INFORMATION: Kind = Kind(0xD0);
    pub const EA: Kind = Kind(0xE0);
    pub const LOGGED_UTILITY_STREAM: Kind = Kind(0x100);
    /// `$PROPERTY_SET`, which NTFS before version 3 reserved and nothing uses.
    pub const PROPERTY_SET: Kind = Kind(0xF0);
    /// The mark that ends a record's attributes.
    pub const END: Kind = Kind(0xFFFF_FFFF);
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match *self {
            Kind::STANDARD_INFORMATION => "$STANDARD_INFORMATION",
            Kind::ATTRIBUTE_LIST => "$ATTRIBUTE_LIST",
            Kind::FILE_NAME => "$FILE_NAME",
            Kind::OBJECT_ID => "$OBJECT_ID",
            Kind::SECURITY_DESCRIPTOR => "$SECURITY_DESCRIPTOR",
            Kind::VOLUME_NAME => "$VOLUME_NAME",
            Kind::VOLUME_INFORMATION => "$VOLUME_INFORMATION",
            Kind::DATA => "$DATA",
            Kind::INDEX_ROOT => "$INDEX_ROOT",
            Kind::INDEX_ALLOCATION => "$INDEX_ALLOCATION",
            Kind::BITMAP => "$BITMAP",
            Kind::REPARSE_POINT => "$REPARSE_POINT",
            Kind::EA_INFORMATION => "$EA_INFORMATION",
            Kind::EA => "$EA",
            Kind::LOGGED_UTILITY_STREAM => "$LOGGED_UTILITY_STREAM",
            Kind(other) => return write!(f, "attribute type {other:#x}"),
        })
    }
}

/// Flags of an attribute.
pub mod attribute_flags {
    /// Compressed by LZNT1; the method's number is in the low byte.
    pub const COMPRESSED: u16 = 0x0001;
    /// All bits that give the method of compression.
    pub const COMPRESSION_MASK: u16 = 0x00FF;
    /// Encrypted by EFS.
    pub const ENCRYPTED: u16 = 0x4000;
    /// Has holes.
    pub const SPARSE: u16 = 0x8000;
}

/// One attribute, or one piece of an attribute whose runs are spread over records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attribute {
    /// The attribute's type.
    pub kind: Kind,
    /// The attribute's name in UTF-16 units, at most 255; empty for most attributes.
    pub name: Box<[u16]>,
    /// The attribute's [`attribute_flags`].
    pub flags: u16,
    /// The attribute's number within the record.
    pub id: u16,
    /// The attribute's value, or its clusters and sizes.
    pub content: AttributeContent,
}

/// Where an attribute's bytes are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttributeContent {
    /// The value is in the record.
    Resident {
        /// The bytes.
        value: Vec<u8>,
        /// Whether an index has the value as a key (of file names).
        indexed: bool,
    },
    /// The value is in clusters.
    NonResident(NonResident),
}

/// The fields of a non-resident attribute's header, and its mapping pairs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NonResident {
    /// First virtual cluster of this piece.
    pub first: u64,
    /// Virtual cluster after the piece's last one.
    pub end: u64,
    /// The base-2 logarithm of the number of clusters in a compression unit; 0 without compression.
    pub unit: u8,
    /// Bytes of whole clusters from the first to the last, holes included. Like the other sizes it counts only in the
    /// first piece.
    pub allocated: u64,
    /// Bytes of content.
    pub size: u64,
    /// Bytes from the start that were ever written; those after it read as zeroes.
    pub valid: u64,
    /// For compressed and sparse attributes: bytes of the clusters that are allocated, holes not included.
    pub taken: Option<u64>,
    /// Mapping pairs with the 0 that ends them: see [`super::runs`].
    pub pairs: Vec<u8>,
}

impl Attribute {
    /// A resident attribute without a name, flags 0, number 0.
    pub fn resident(kind: Kind, value: Vec<u8>) -> Attribute {
        let content = AttributeContent::Resident { value, indexed: kind == Kind::FILE_NAME };
        Attribute { kind, name: Box::default(), flags: 0, id: 0, content }
    }

    /// The attribute with this name.
    pub fn named(mut self, name: &str) -> Attribute {
        self.name = name.encode_utf16().collect();
        self
    }

    /// The value, if it is in the record.
    pub fn value(&self) -> Option<&[u8]> {
        match &self.content {
            AttributeContent::Resident { value, .. } => Some(value),
            AttributeContent::NonResident(_) => None,
        }
    }

    /// Bytes that it takes in a record.
    pub fn length(&self) -> usize {
        self.pairs_or_value_offset() + self.tail().len().next_multiple_of(8)
    }

    fn tail(&self) -> &[u8] {
        match &self.content {
            AttributeContent::Resident { value, .. } => value,
            AttributeContent::NonResident(outside) => &outside.pairs,
        }
    }

    fn header_length(&self) -> usize {
        match &self.content {
            AttributeContent::Resident { .. } => 0x18,
            AttributeContent::NonResident(NonResident { taken: Some(_), .. }) => 0x48,
            AttributeContent::NonResident(_) => 0x40,
        }
    }

    fn pairs_or_value_offset(&self) -> usize {
        (self.header_length() + self.name.len() * 2).next_multiple_of(8)
    }

    /// Reads the attribute at the start of `bytes`, which reach to the end of the record's used part, and returns it
    /// with its length there.
    ///
    /// # Errors
    /// [`Error::Damaged`] if a part of it lies outside `bytes`.
    pub fn from_bytes(bytes: &[u8], at: u64) -> Result<(Attribute, usize)> {
        let length = u32_at(bytes, 4) as usize;
        if length < 0x18 || length > bytes.len() || !length.is_multiple_of(8) {
            let expected = format!("a length of 24 to {}, a multiple of 8", bytes.len());
            return Err(Error::damaged(STRUCTURE, at + 4, expected, length));
        }
        let bytes = &bytes[..length];
        let (name_length, name_at) = (usize::from(bytes[9]), usize::from(u16_at(bytes, 10)));
        let name = match name_length {
            0 => Box::default(),
            _ => {
                let Some(name) = bytes.get(name_at..name_at + name_length * 2) else {
                    let expected = format!("a name inside {length} bytes");
                    return Err(Error::damaged(STRUCTURE, at + 10, expected, name_at));
                };
                name.as_chunks::<2>().0.iter().map(|unit| u16::from_le_bytes(*unit)).collect()
            }
        };
        let (kind, flags, id) = (Kind(u32_at(bytes, 0)), u16_at(bytes, 12), u16_at(bytes, 14));
        let content = match bytes[8] {
            0 => {
                let (size, place) = (u32_at(bytes, 0x10) as usize, usize::from(u16_at(bytes, 0x14)));
                let Some(value) = place.checked_add(size).and_then(|end| bytes.get(place..end)) else {
                    let expected = format!("a value inside {length} bytes");
                    return Err(Error::damaged(STRUCTURE, at + 0x10, expected, format!("{size} at {place}")));
                };
                AttributeContent::Resident { value: value.to_vec(), indexed: bytes[0x16] & 1 != 0 }
            }
            1 => AttributeContent::NonResident(NonResident::from_bytes(bytes, flags, at)?),
            other => return Err(Error::damaged(STRUCTURE, at + 8, "0 (resident) or 1", other)),
        };
        Ok((Attribute { kind, name, flags, id, content }, length))
    }

    /// Appends the attribute's bytes.
    pub fn append_to(&self, record: &mut Vec<u8>) {
        let start = record.len();
        let length = self.length();
        record.resize(start + length, 0);
        let bytes = &mut record[start..];
        put(bytes, 0, self.kind.0);
        put(bytes, 4, length as u32);
        bytes[9] = self.name.len() as u8;
        // In an attribute without a name, this offset still says where a name would be.
        put(bytes, 10, self.header_length() as u16);
        put(bytes, 12, self.flags);
        put(bytes, 14, self.id);
        for (index, unit) in self.name.iter().enumerate() {
            put(bytes, self.header_length() + index * 2, *unit);
        }
        let place = self.pairs_or_value_offset();
        match &self.content {
            AttributeContent::Resident { value, indexed } => {
                put(bytes, 0x10, value.len() as u32);
                put(bytes, 0x14, place as u16);
                bytes[0x16] = u8::from(*indexed);
                bytes[place..place + value.len()].copy_from_slice(value);
            }
            AttributeContent::NonResident(outside) => {
                bytes[8] = 1;
                put(bytes, 0x10, outside.first);
                put(bytes, 0x18, outside.end.wrapping_sub(1));
                put(bytes, 0x20, place as u16);
                bytes[0x22] = outside.unit;
                put(bytes, 0x28, outside.allocated);
                put(bytes, 0x30, outside.size);
                put(bytes, 0x38, outside.valid);
                if let Some(taken) = outside.taken {
                    put(bytes, 0x40, taken);
                }
                bytes[place..place + outside.pairs.len()].copy_from_slice(&outside.pairs);
            }
        }
    }
}

impl NonResident {
    fn from_bytes(bytes: &[u8], flags: u16, at: u64) -> Result<NonResident> {
        if bytes.len() < 0x40 {
            return Err(Error::damaged(STRUCTURE, at + 4, "at least 64 bytes", bytes.len()));
        }
        let pairs_at = usize::from(u16_at(bytes, 0x20));
        if pairs_at < 0x40 || pairs_at > bytes.len() {
            let expected = format!("mapping pairs inside {} bytes", bytes.len());
            return Err(Error::damaged(STRUCTURE, at + 0x20, expected, pairs_at));
        }
        let first = u64_at(bytes, 0x10);
        let end = u64_at(bytes, 0x18).wrapping_add(1);
        // Without any clusters the end is 0.
        if end < first || end > i64::MAX as u64 {
            let expected = format!("a last virtual cluster from {} on", first.wrapping_sub(1) as i64);
            return Err(Error::damaged(STRUCTURE, at + 0x18, expected, end.wrapping_sub(1)));
        }
        let (allocated, size, valid) = (u64_at(bytes, 0x28), u64_at(bytes, 0x30), u64_at(bytes, 0x38));
        if first == 0 && (allocated > i64::MAX as u64 || size > i64::MAX as u64 || valid > i64::MAX as u64) {
            let found = format!("{allocated}, {size} and {valid}");
            return Err(Error::damaged(STRUCTURE, at + 0x28, "sizes below 2^63", found));
        }
        let extended = flags & (attribute_flags::COMPRESSION_MASK | attribute_flags::SPARSE) != 0;
        Ok(NonResident {
            first,
            end,
            unit: bytes[0x22],
            allocated,
            size,
            valid,
            taken: (extended && pairs_at >= 0x48 && first == 0).then(|| u64_at(bytes, 0x40)),
            pairs: bytes[pairs_at..].to_vec(),
        })
    }
}

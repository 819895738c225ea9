//! The layout of an undo file.
//!
//! A header of 4 KiB contains the magic, the length of the device and of a block, the device's name, the time, and a
//! CRC32 of all that. Records follow, each a head of 24 bytes (kind, length of the content, number of the block, CRC32
//! of the content, CRC32 of the head before it) and its content. All numbers are little-endian. The file ends at the
//! first record that is cut short or damaged: the changes that it describes had not begun, because the file is made
//! durable before them.

/// The usual block size in bytes: the unit in which old content is saved. It is larger if the device's sectors are, and
/// the last block of a device may be shorter.
pub(super) const BLOCK: u64 = 4096;
/// The largest block size: that of the largest sector.
pub(super) const LARGEST: u64 = 64 << 10;
/// The number of bytes covered by one checksum of new content: a power cut leaves each such unit whole.
pub(super) const SECTOR: usize = 512;
/// The size of the header in bytes.
pub(super) const HEADER: usize = 4096;
/// The size of the head of a record in bytes.
pub(super) const HEAD: usize = 24;

// Records follow the header at whole blocks, and hold whole blocks.
const _: () = assert!((HEADER as u64).is_multiple_of(BLOCK) && LARGEST.is_multiple_of(BLOCK));
// The name of the device is in the header.
const _: () = assert!(NAME < HEADER && HEAD < SECTOR);

const MAGIC: &[u8; 16] = b"PLATTER UNDO 1\n\0";
/// The most bytes of the name that are kept.
const NAME: usize = 1024;

/// The kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The content of a block before its first change; empty if the block could not be read.
    Old = 1,
    /// The CRC32s of the sectors of a block as it is about to be written.
    New = 2,
    /// All changes are complete; the content is the stamp of the device after them.
    Finished = 3,
    /// Reverting the changes is about to begin.
    TakenBack = 4,
}

/// The header of an undo file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// The length of the device in bytes.
    pub length: u64,
    /// The block size in bytes.
    pub block: u64,
    /// The time when the changes began, in seconds since 1970.
    pub time: u64,
    /// The name of the device for messages.
    pub name: String,
}

impl Header {
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let end =
            self.name.char_indices().map(|(at, _)| at).chain([self.name.len()]).take_while(|&at| at <= NAME);
        let name = &self.name.as_bytes()[..end.last().unwrap_or(0)];
        let mut bytes = vec![0; HEADER];
        bytes[..16].copy_from_slice(MAGIC);
        bytes[16..24].copy_from_slice(&self.length.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.time.to_le_bytes());
        bytes[32..36].copy_from_slice(&(self.block as u32).to_le_bytes());
        bytes[36..40].copy_from_slice(&(name.len() as u32).to_le_bytes());
        bytes[40..40 + name.len()].copy_from_slice(name);
        let crc = crc32fast::hash(&bytes[..HEADER - 4]);
        bytes[HEADER - 4..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Parses the header; the error says what is wrong with it.
    pub(super) fn from_bytes(bytes: &[u8]) -> Result<Header, String> {
        if bytes.len() < MAGIC.len() || bytes[..16] != *MAGIC {
            return Err("is no undo file: it does not begin with \"PLATTER UNDO 1\"".into());
        }
        if bytes.len() < HEADER {
            return Err(format!(
                "the header is cut off: it has {} bytes, expected {HEADER}; either the changes had not begun, or \
                 the file is damaged",
                bytes.len()
            ));
        }
        let (stored, crc) = (u32_at(bytes, HEADER - 4), crc32fast::hash(&bytes[..HEADER - 4]));
        if stored != crc {
            return Err(format!(
                "the header is damaged: CRC32 at offset {} is {stored:#010x}, expected {crc:#010x}",
                HEADER - 4
            ));
        }
        let block = u64::from(u32_at(bytes, 32));
        if !block.is_power_of_two() || !(BLOCK..=LARGEST).contains(&block) {
            return Err(format!(
                "the size of a block at offset 32 is {block}, expected a power of two from {BLOCK} to {LARGEST}"
            ));
        }
        let name = &bytes[40..40 + (u32_at(bytes, 36) as usize).min(NAME)];
        let name = String::from_utf8_lossy(name).into_owned();
        Ok(Header { length: u64_at(bytes, 16), block, time: u64_at(bytes, 24), name })
    }

    /// The size of block `number` in bytes: the last one may be shorter.
    pub(super) fn size_of(&self, number: u64) -> usize {
        self.length.saturating_sub(number * self.block).min(self.block) as usize
    }
}

/// The head of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub kind: Kind,
    /// The length of the content in bytes.
    pub length: u32,
    /// The number of the block; 0 for records that concern no block.
    pub block: u64,
    /// CRC32 of the content.
    pub crc: u32,
}

impl Head {
    /// The head of a record with this content.
    pub(super) fn of(kind: Kind, block: u64, content: &[u8]) -> Head {
        Head { kind, length: content.len() as u32, block, crc: crc32fast::hash(content) }
    }

    pub(super) fn to_bytes(self) -> [u8; HEAD] {
        let mut bytes = [0; HEAD];
        bytes[..4].copy_from_slice(&(self.kind as u32).to_le_bytes());
        bytes[4..8].copy_from_slice(&self.length.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.block.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.crc.to_le_bytes());
        let crc = crc32fast::hash(&bytes[..20]);
        bytes[20..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Parses the head; `None` if it is damaged.
    pub(super) fn from_bytes(bytes: &[u8; HEAD]) -> Option<Head> {
        let kind = match u32_at(bytes, 0) {
            1 => Kind::Old,
            2 => Kind::New,
            3 => Kind::Finished,
            4 => Kind::TakenBack,
            _ => return None,
        };
        let head = Head { kind, length: u32_at(bytes, 4), block: u64_at(bytes, 8), crc: u32_at(bytes, 16) };
        (u32_at(bytes, 20) == crc32fast::hash(&bytes[..20]) && u64::from(head.length) <= LARGEST)
            .then_some(head)
    }
}

/// The CRC32s of the sectors of a block.
pub(super) fn sums(block: &[u8]) -> impl Iterator<Item = u32> {
    block.chunks(SECTOR).map(crc32fast::hash)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_and_heads_come_back_and_damage_is_noticed() {
        let header = Header { length: 1 << 40, block: 4096, time: 1_700_000_000, name: "a.img".into() };
        let bytes = header.to_bytes();
        assert_eq!(Header::from_bytes(&bytes), Ok(header.clone()));
        for at in [0, 16, 30, 33, 40, HEADER - 1] {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert!(Header::from_bytes(&damaged).is_err(), "byte {at}");
        }
        let long = Header { name: "ä".repeat(2000), ..header };
        assert_eq!(Header::from_bytes(&long.to_bytes()).unwrap().name, "ä".repeat(512));

        let head = Head::of(Kind::Old, 77, b"content");
        let bytes = head.to_bytes();
        assert_eq!(Head::from_bytes(&bytes), Some(head));
        for at in 0..HEAD {
            let mut damaged = bytes;
            damaged[at] ^= 1;
            assert_eq!(Head::from_bytes(&damaged), None, "byte {at}");
        }
    }
}

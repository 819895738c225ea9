//! The header (2.2.2): two copies, of which the one with the greater sequence number counts. A change goes to the other
//! copy, so that one is always whole.

use super::MIB;
use crate::bytes::{damaged, field, is_inside, le16, le32, le64, read};
use crate::guid::Guid;
use platter_device::{Device, Result};

/// The header as it is in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub sequence: u64,
    /// Changes whenever the file is opened and changed.
    pub file_write: Guid,
    /// Changes whenever the content of the disk is changed; children know their parent by it.
    pub data_write: Guid,
    /// The identifier of the entries of the log that count; zero if none does.
    pub log: Guid,
    pub log_offset: u64,
    pub log_length: u64,
    /// Which copy this is, 0 or 1.
    copy: u64,
}

const LENGTH: usize = 4096;
const SIGNATURE: &[u8] = b"head";
/// The offset of the first copy; the second follows at twice this.
const PLACE: u64 = 64 << 10;

/// The most bytes of a log that are supported. Windows makes logs of 1 MiB.
const MOST_LOG: u64 = 16 << 20;

/// The CRC-32C of a structure whose own checksum, which counts as zero, is at this position.
pub(crate) fn checksum(bytes: &[u8], at: usize) -> u32 {
    let sum = crc32c::crc32c(&bytes[..at]);
    crc32c::crc32c_append(crc32c::crc32c_append(sum, &[0; 4]), &bytes[at + 4..])
}

impl Guid {
    pub(crate) fn is_zero(&self) -> bool {
        *self == Guid::ZERO
    }
}

impl Header {
    /// A header for a new file, of which no copy is written yet.
    pub(super) fn new(log_offset: u64, log_length: u64) -> Header {
        let (file_write, data_write) = (Guid::random(), Guid::random());
        Header { sequence: 0, file_write, data_write, log: Guid::ZERO, log_offset, log_length, copy: 1 }
    }

    /// Reads both copies and returns the current one.
    pub(super) fn read(file: &dyn Device) -> Result<Header> {
        let copies: Vec<Result<Header>> = (0..2).map(|copy| Header::read_copy(file, copy)).collect();
        let mut copies = copies.into_iter();
        match (copies.next().expect("two"), copies.next().expect("two")) {
            (Ok(one), Ok(two)) => Ok(if two.sequence > one.sequence { two } else { one }),
            (Ok(one), Err(_)) => Ok(one),
            (Err(_), Ok(two)) => Ok(two),
            (Err(error), Err(_)) => Err(error),
        }
    }

    fn read_copy(file: &dyn Device, copy: u64) -> Result<Header> {
        let place = PLACE * (copy + 1);
        let bytes = read(file, place, LENGTH)?;
        let wrong =
            |expected: String, found: String| Err(damaged(file.name(), "the header", place, expected, found));
        if &bytes[..4] != SIGNATURE {
            return wrong("the signature \"head\"".into(), format!("{:02x?}", &bytes[..4]));
        }
        let (stored, computed) = (le32(&bytes, 4), checksum(&bytes, 4));
        if stored != computed {
            return wrong(format!("the checksum {computed:#010x}"), format!("{stored:#010x}"));
        }
        let (log_version, version) = (le16(&bytes, 64), le16(&bytes, 66));
        if (log_version, version) != (0, 1) {
            return wrong(
                "version 1, with a log of version 0".into(),
                format!("{version} and {log_version}"),
            );
        }
        let (log_length, log_offset) = (u64::from(le32(&bytes, 68)), le64(&bytes, 72));
        let is_aligned = log_length.is_multiple_of(MIB) && log_offset.is_multiple_of(MIB);
        if !is_aligned
            || log_offset < MIB
            || log_length == 0
            || !is_inside(log_offset, log_length, file.len())
        {
            let expected = format!("a log of whole MiB in the file's {} bytes", file.len());
            return wrong(expected, format!("{log_length} bytes from {log_offset} on"));
        }
        if log_length > MOST_LOG {
            return wrong(format!("a log of at most {MOST_LOG} bytes"), format!("{log_length} bytes"));
        }
        Ok(Header {
            sequence: le64(&bytes, 8),
            file_write: Guid(field(&bytes, 16)),
            data_write: Guid(field(&bytes, 32)),
            log: Guid(field(&bytes, 48)),
            log_offset,
            log_length,
            copy,
        })
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; LENGTH];
        bytes[..4].copy_from_slice(SIGNATURE);
        bytes[8..16].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[16..32].copy_from_slice(&self.file_write.0);
        bytes[32..48].copy_from_slice(&self.data_write.0);
        bytes[48..64].copy_from_slice(&self.log.0);
        bytes[66..68].copy_from_slice(&1_u16.to_le_bytes());
        bytes[68..72].copy_from_slice(&(self.log_length as u32).to_le_bytes());
        bytes[72..80].copy_from_slice(&self.log_offset.to_le_bytes());
        let sum = checksum(&bytes, 4);
        bytes[4..8].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Writes the header over the copy that is not current, durably.
    fn replace(&mut self, file: &dyn Device) -> Result<()> {
        self.sequence = self.sequence.saturating_add(1);
        self.copy ^= 1;
        file.write_at(PLACE * (self.copy + 1), &self.bytes())?;
        file.flush()
    }

    /// Writes both copies, one after the other. All that was written before is durable then, too.
    pub(super) fn write(&mut self, file: &dyn Device) -> Result<()> {
        self.replace(file)?;
        self.replace(file)
    }

    /// Notes which entries of the log count, durably and in one copy: what the other says of the log is older, and comes
    /// to the same, since an entry that is in its place already may be replayed again.
    pub(super) fn name_log(&mut self, file: &dyn Device, log: Guid) -> Result<()> {
        self.log = log;
        self.replace(file)
    }

    /// Notes that no entry of the log counts any more.
    pub(super) fn forget_log(&mut self, file: &dyn Device) -> Result<()> {
        self.log = Guid::ZERO;
        self.write(file)
    }
}

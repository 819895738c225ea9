//! The metadata of an encrypted volume, of which there are three copies.

use crate::bytes::{damaged, field, le16, le32, le64, read, unusable, utf16};
use crate::entry::{self, METADATA_HEAD};
use crate::header::{SIGNATURE, VolumeHeader};
use crate::protector::Protector;
use crate::seal::Sealed;
use platter_device::{Device, Error, Result};
use platter_images::Guid;

/// Bytes of a block's header, which the metadata's own header follows.
pub(crate) const BLOCK_HEAD: usize = 64;
/// The bytes that each copy has for itself on the volume: \[BDE\], "Metadata files".
pub(crate) const REGION: u64 = 64 << 10;
pub(crate) const REGION_OF_VISTA: u64 = 16 << 10;

/// The state of a volume whose conversion is complete: \[BDE\], "FVE metadata block header version 2".
pub(crate) const COMPLETE: u16 = 4;
/// The state of one of which nothing is encrypted, though it has structures of BitLocker.
pub(crate) const DECRYPTED: u16 = 1;

/// One copy: \[BDE\], "FVE metadata block".
#[derive(Clone, Debug)]
pub(crate) struct Metadata {
    /// 1 is that of Vista, 2 that of later ones.
    pub version: u16,
    /// The present state, and the one that it is to come to.
    pub states: [u16; 2],
    /// Bytes from the beginning of the volume on that are encrypted, if it is not all.
    pub encrypted: u64,
    /// The offsets of the copies.
    pub blocks: [u64; 3],
    /// Where the first sectors stand; on Vista the cluster of NTFS' copy of its file table.
    pub first_at: u64,
    /// How many sectors those are, or 0.
    pub first_count: u32,
    /// How many bytes they are by an entry that not every volume has, or 0.
    pub first_size: u64,
    /// The identifier of the volume.
    pub id: Guid,
    /// The number of the method.
    pub method: u16,
    /// What Windows called the volume: machine, letter and date.
    pub description: String,
    pub protectors: Vec<Protector>,
    /// The key of the sectors, encrypted with the master key.
    pub key: Option<SealedKey>,
}

/// A sealed key that says nothing of itself.
#[derive(Clone)]
pub(crate) struct SealedKey(pub Sealed);

impl std::fmt::Debug for SealedKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SealedKey(..)")
    }
}

/// What a block says of its own length and check sum.
#[derive(Clone, Copy)]
struct Sum {
    length: usize,
    stored: u32,
    computed: u32,
}

/// The block covers the bytes before its check sum, which is that of Ethernet. Vista counts single bytes, later ones units
/// of 16.
fn sum(bytes: &[u8]) -> Option<Sum> {
    let size = usize::from(le16(bytes, 8)?);
    let length = if le16(bytes, 10)? == 1 { size } else { size * 16 };
    let stored = le32(bytes, length + 4)?;
    let computed = crc32fast::hash(bytes.get(..length)?);
    (length >= BLOCK_HEAD + METADATA_HEAD).then_some(Sum { length, stored, computed })
}

impl Metadata {
    /// Reads the first copy that is whole.
    ///
    /// # Errors
    /// If none is, with what is wrong with the first one.
    pub(crate) fn read(device: &dyn Device, header: &VolumeHeader) -> Result<Metadata> {
        let mut first = None;
        for offset in header.blocks {
            match Metadata::read_at(device, offset) {
                Ok(metadata) => return Ok(metadata),
                Err(error) => first = first.or(Some(error)),
            }
        }
        Err(first.unwrap_or_else(|| unusable(device.name(), "has no metadata of BitLocker")))
    }

    fn read_at(device: &dyn Device, offset: u64) -> Result<Metadata> {
        let name = device.name();
        let there = device.len().saturating_sub(offset).min(REGION);
        if offset == 0 || there < REGION_OF_VISTA {
            let why = format!("metadata of BitLocker at {offset} is behind the end at {}", device.len());
            return Err(unusable(name, why));
        }
        let bytes = read(device, offset, there as usize)?;
        Metadata::parse(name, offset, &bytes)
    }

    /// Parses the block at this offset.
    pub(crate) fn parse(name: &str, offset: u64, bytes: &[u8]) -> Result<Metadata> {
        let wrong = |expected: String, found: String| -> Error {
            damaged(name, "metadata of BitLocker", offset, expected, found)
        };
        if field(bytes, 0) != Some(SIGNATURE) {
            let found = field::<8>(bytes, 0).unwrap_or_default();
            return Err(wrong("the signature -FVE-FS-".into(), format!("{found:02x?}")));
        }
        let version = le16(bytes, 10).unwrap_or(0);
        if !matches!(version, 1 | 2) {
            return Err(unusable(
                name,
                format!("has metadata of BitLocker of version {version}: 1 and 2 are known here"),
            ));
        }
        let Some(sum) = sum(bytes) else {
            return Err(wrong("a length that has room for headers".into(), "another".into()));
        };
        if sum.stored != sum.computed {
            return Err(wrong(
                format!("the check sum {:#010x}", sum.computed),
                format!("{:#010x}", sum.stored),
            ));
        }
        let block = &bytes[..sum.length];
        let number = |at| le64(block, at).unwrap_or(0);
        let rest = &block[BLOCK_HEAD..];
        let size = le32(rest, 0).unwrap_or(0) as usize;
        let Some(entries) = rest.get(METADATA_HEAD..size) else {
            return Err(wrong(
                format!("metadata of {METADATA_HEAD} to {} bytes", rest.len()),
                size.to_string(),
            ));
        };
        let mut metadata = Metadata {
            version,
            states: [12, 14].map(|at| le16(block, at).unwrap_or(0)),
            encrypted: if version == 1 { 0 } else { number(16) },
            blocks: [32, 40, 48].map(number),
            first_at: number(56),
            first_count: if version == 1 { 0 } else { le32(block, 28).unwrap_or(0) },
            first_size: 0,
            id: Guid(field(rest, 16).unwrap_or_default()),
            // The upper half has another number, which is the same as the lower one or 0.
            method: le16(rest, 36).unwrap_or(0),
            description: String::new(),
            protectors: Vec::new(),
            key: None,
        };
        for entry in entry::entries(entries) {
            match (entry.kind, entry.value) {
                (entry::VOLUME_MASTER_KEY, entry::MASTER_KEY) => {
                    metadata.protectors.extend(Protector::parse(entry));
                }
                (entry::VOLUME_ENCRYPTION_KEY, entry::SEALED_KEY) => {
                    metadata.key = metadata.key.take().or_else(|| Sealed::parse(entry.data).map(SealedKey));
                }
                (entry::DESCRIPTION, entry::TEXT) => metadata.description = utf16(entry.data),
                (entry::VOLUME_HEADER, entry::OFFSET_AND_SIZE) => {
                    metadata.first_size = le64(entry.data, 8).unwrap_or(0);
                }
                _ => {}
            }
        }
        Ok(metadata)
    }

    /// Whether no sector is encrypted, and none is to be.
    pub(crate) fn is_decrypted(&self) -> bool {
        self.states == [DECRYPTED; 2]
    }

    /// The bytes that each copy has for itself.
    pub(crate) fn region(&self) -> u64 {
        if self.version == 1 { REGION_OF_VISTA } else { REGION }
    }
}

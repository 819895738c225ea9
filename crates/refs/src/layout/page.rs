//! Metadata pages: their common header, and the references that lead to them.
//!
//! Source: forefst `docs/structures/page_header.md` and `page_references.md`, and pages that Windows wrote.

use super::bytes::{put, u16_at, u32_at, u64_at};
use super::{Algorithm, Checksum};
use platter_vfs::{Error, Result};

/// Bytes of the header that every metadata page begins with.
pub const HEADER: usize = 0x50;

/// The first four bytes of a superblock.
pub const SUPERBLOCK: [u8; 4] = *b"SUPB";
/// The first four bytes of a checkpoint.
pub const CHECKPOINT: [u8; 4] = *b"CHKP";
/// The first four bytes of a page with a node of a B+-tree.
pub const NODE: [u8; 4] = *b"MSB+";

/// The header of a metadata page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageHeader {
    /// The kind of page: [`SUPERBLOCK`], [`CHECKPOINT`] or [`NODE`].
    pub signature: [u8; 4],
    /// The volume signature, which distinguishes the pages of this volume from those of others: the four words of the
    /// superblock's GUID, combined by XOR.
    pub volume: u32,
    /// The checkpoint's clock when the page was written.
    pub clock: u64,
    /// The clock of the table's last change.
    pub tree_clock: u64,
    /// The page's clusters, in the numbers that its table uses (virtual or real); unused ones are zero.
    pub clusters: [u64; 4],
    /// The number of the table that a node belongs to.
    pub table: u64,
}

impl PageHeader {
    /// Reads the header of a page that is at least [`HEADER`] bytes long.
    pub fn from_bytes(bytes: &[u8]) -> PageHeader {
        PageHeader {
            signature: bytes[..4].try_into().expect("4 bytes"),
            volume: u32_at(bytes, 0x0C),
            clock: u64_at(bytes, 0x10),
            tree_clock: u64_at(bytes, 0x18),
            clusters: std::array::from_fn(|index| u64_at(bytes, 0x20 + 8 * index)),
            table: u64_at(bytes, 0x48),
        }
    }

    /// Stores the header at the start of a page.
    pub fn store(&self, page: &mut [u8]) {
        page[..4].copy_from_slice(&self.signature);
        put(page, 0x04, 2u32);
        put(page, 0x08, 0u32);
        put(page, 0x0C, self.volume);
        put(page, 0x10, self.clock);
        put(page, 0x18, self.tree_clock);
        self.clusters.iter().enumerate().for_each(|(index, cluster)| put(page, 0x20 + 8 * index, *cluster));
        put(page, 0x40, 0u64);
        put(page, 0x48, self.table);
    }
}

/// Where a page is, and the checksum that its content must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageReference {
    /// The page's clusters; unused ones are zero.
    pub clusters: [u64; 4],
    /// The checksum of the whole page.
    pub checksum: Checksum,
}

impl PageReference {
    /// Bytes of a reference on volumes up to 3.9, whatever the checksum.
    pub const LEGACY: usize = 104;

    /// Bytes of a compact reference with this checksum.
    pub fn compact(algorithm: Algorithm) -> usize {
        0x28 + algorithm.size().max(8)
    }

    /// Reads a reference. `at` is where it stands on the device, for the error.
    pub fn from_bytes(bytes: &[u8], at: u64) -> Result<PageReference> {
        let clusters = std::array::from_fn(|index| u64_at(bytes, 8 * index));
        let code = bytes.get(0x22).copied().unwrap_or(0);
        let Some(algorithm) = Algorithm::from_code(code) else {
            return Err(Error::damaged("checksum type of a page reference", at + 0x22, "0, 1, 2 or 4", code));
        };
        let start = 0x20 + usize::from(bytes.get(0x23).copied().unwrap_or(0));
        let mut checksum = Checksum { algorithm, value: [0; 32] };
        if algorithm != Algorithm::None {
            let length = u32_at(bytes, 0x24) as usize;
            if length != algorithm.size() {
                let (expected, found) = (algorithm.size(), length);
                return Err(Error::damaged(
                    "checksum length of a page reference",
                    at + 0x24,
                    expected,
                    found,
                ));
            }
            let Some(value) = bytes.get(start..start + length) else {
                return Err(Error::damaged("page reference", at, start + length, bytes.len()));
            };
            checksum.value[..length].copy_from_slice(value);
        }
        Ok(PageReference { clusters, checksum })
    }

    /// Stores the reference and fills the rest of `bytes` with zeroes.
    pub fn store(&self, bytes: &mut [u8]) {
        bytes.fill(0);
        self.clusters.iter().enumerate().for_each(|(index, cluster)| put(bytes, 8 * index, *cluster));
        store_checksum(&mut bytes[0x20..], &self.checksum);
    }
}

/// Stores a checksum with its descriptor: type, offset, length, value.
fn store_checksum(bytes: &mut [u8], checksum: &Checksum) {
    put(bytes, 0x02, checksum.algorithm.code());
    put(bytes, 0x03, 8u8);
    put(bytes, 0x04, checksum.algorithm.size() as u32);
    bytes[8..8 + checksum.algorithm.size()].copy_from_slice(checksum.bytes());
}

/// Stores a superblock's or checkpoint's own checksum, which is over the first `covered` bytes with the descriptor
/// zeroed.
pub fn seal(
    page: &mut [u8],
    descriptor: std::ops::Range<usize>,
    covered: usize,
    algorithm: Algorithm,
    cluster: u64,
) {
    page[descriptor.clone()].fill(0);
    let checksum = algorithm.of(&page[..covered]);
    PageReference { clusters: [cluster, 0, 0, 0], checksum }.store(&mut page[descriptor]);
}

/// Checks that a superblock or checkpoint has the checksum that it stores of itself.
///
/// # Errors
/// [`Error::Damaged`] if the checksum differs or its descriptor is not inside the page. `at` is where the page stands
/// on the device.
pub fn check_seal(
    page: &[u8],
    covered: usize,
    structure: &'static str,
    fields: (usize, usize),
    at: u64,
) -> Result<()> {
    let (start, length) = (u32_at(page, fields.0) as usize, u32_at(page, fields.1) as usize);
    let Some(end) =
        start.checked_add(length).filter(|&end| end <= covered && length >= 0x28 && start >= HEADER)
    else {
        return Err(Error::damaged(
            structure,
            at + fields.0 as u64,
            "a descriptor inside the page",
            format!("{start:#x}+{length:#x}"),
        ));
    };
    let stored = PageReference::from_bytes(&page[start..end], at + start as u64)?.checksum;
    let mut bytes = page[..covered].to_vec();
    bytes[start..end].fill(0);
    let found = stored.algorithm.of(&bytes);
    if stored.algorithm == Algorithm::None || found != stored {
        return Err(Error::damaged(structure, at + start as u64, stored, found));
    }
    Ok(())
}

/// The volume signature that the superblock's GUID gives.
pub fn volume_signature(guid: &[u8; 16]) -> u32 {
    (0..4).fold(0, |sum, word| sum ^ u32_at(guid, 4 * word))
}

/// The word of a page header at offset 4. Only the value 2 is known.
pub fn header_version(page: &[u8]) -> u16 {
    u16_at(page, 4)
}

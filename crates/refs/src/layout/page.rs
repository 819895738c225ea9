//! Metadata pages: their common header, and the references that lead to them.
//!
//! Source: forefst `docs/structures/page_header.md` and `page_references.md`, and pages that Windows wrote.

use super::bytes::{FieldAt, put, u16_at, u32_at, u64_at};
use super::{Algorithm, Checksum, header};
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
    /// The form of the header, 2 in every page.
    pub const FORM: FieldAt<u32> = FieldAt::new(0x04);
    /// A word that is 0 in every page.
    pub const WORD: FieldAt<u32> = FieldAt::new(0x08);
    /// The volume signature.
    pub const VOLUME: FieldAt<u32> = FieldAt::new(0x0C);
    /// The checkpoint's clock.
    pub const CLOCK: FieldAt<u64> = FieldAt::new(0x10);
    const TREE_CLOCK: FieldAt<u64> = FieldAt::new(0x18);
    /// The first of the page's clusters.
    pub const CLUSTER: FieldAt<u64> = FieldAt::new(0x20);
    /// The third of the page's clusters.
    pub const THIRD_CLUSTER: FieldAt<u64> = FieldAt::new(0x30);
    /// The upper half of the table's number, always 0.
    pub const TABLE_UPPER: FieldAt<u64> = FieldAt::new(0x40);
    /// The number of the table that a node belongs to.
    pub const TABLE: FieldAt<u64> = FieldAt::new(0x48);

    /// Reads the header of a page that is at least [`HEADER`] bytes long.
    pub fn from_bytes(bytes: &[u8]) -> PageHeader {
        PageHeader {
            signature: bytes[..4].try_into().expect("4 bytes"),
            volume: PageHeader::VOLUME.of(bytes),
            clock: PageHeader::CLOCK.of(bytes),
            tree_clock: PageHeader::TREE_CLOCK.of(bytes),
            clusters: std::array::from_fn(|index| PageHeader::CLUSTER.within(8 * index).of(bytes)),
            table: PageHeader::TABLE.of(bytes),
        }
    }

    /// Stores the header at the start of a page.
    pub fn store(&self, page: &mut [u8]) {
        put_signature(page, self.signature);
        PageHeader::FORM.put(page, 2);
        PageHeader::WORD.put(page, 0);
        PageHeader::VOLUME.put(page, self.volume);
        PageHeader::CLOCK.put(page, self.clock);
        PageHeader::TREE_CLOCK.put(page, self.tree_clock);
        for (index, cluster) in self.clusters.iter().enumerate() {
            PageHeader::CLUSTER.within(8 * index).put(page, *cluster);
        }
        PageHeader::TABLE_UPPER.put(page, 0);
        PageHeader::TABLE.put(page, self.table);
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
    /// Where the checksum stands in a reference that this code writes.
    pub const CHECKSUM: usize = 0x28;

    /// Bytes of a compact reference with this checksum.
    pub fn compact(algorithm: Algorithm) -> usize {
        PageReference::CHECKSUM + algorithm.size().max(8)
    }

    /// The cluster at this position of a reference.
    pub fn cluster(bytes: &[u8], position: usize) -> u64 {
        u64_at(bytes, 8 * position)
    }

    /// Reads a reference. `at` is where it stands on the device, for the error.
    pub fn from_bytes(bytes: &[u8], at: u64) -> Result<PageReference> {
        let clusters = std::array::from_fn(|index| PageReference::cluster(bytes, index));
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

/// Stores the first four bytes of a page.
pub fn put_signature(page: &mut [u8], signature: [u8; 4]) {
    page[..4].copy_from_slice(&signature);
}

/// Stores a checksum with its descriptor: type, offset, length, value.
fn store_checksum(bytes: &mut [u8], checksum: &Checksum) {
    put(bytes, 0x02, checksum.algorithm.code());
    put(bytes, 0x03, 8u8);
    put(bytes, 0x04, checksum.algorithm.size() as u32);
    bytes[8..8 + checksum.algorithm.size()].copy_from_slice(checksum.bytes());
}

/// The fields of a superblock or checkpoint that say where its reference to itself is.
#[derive(Clone, Copy)]
pub struct SealFields {
    /// The offset in the page.
    pub place: FieldAt<u32>,
    /// The length in bytes.
    pub length: FieldAt<u32>,
}

/// A superblock's or checkpoint's page for another place, sealed anew. Its seal must be whole; `covered` bytes go into
/// the checksum.
pub fn moved(page: &[u8], cluster: u64, fields: SealFields, covered: usize) -> Vec<u8> {
    let mut page = page.to_vec();
    PageHeader::CLUSTER.put(&mut page, cluster);
    let start = fields.place.of(&page) as usize;
    let own = start..start + fields.length.of(&page) as usize;
    let sealed = PageReference::from_bytes(&page[own.clone()], 0).expect("the seal was verified");
    seal(&mut page, own, covered, sealed.checksum.algorithm, cluster);
    page
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
    fields: SealFields,
    at: u64,
) -> Result<()> {
    let (start, length) = (fields.place.of(page) as usize, fields.length.of(page) as usize);
    let Some(end) =
        start.checked_add(length).filter(|&end| end <= covered && length >= 0x28 && start >= HEADER)
    else {
        return Err(Error::damaged(
            structure,
            at + fields.place.at() as u64,
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

/// An identifier made of two words.
pub fn identifier(first: u64, second: u64) -> [u8; 16] {
    let mut guid = [0; 16];
    put(&mut guid, 0, first);
    put(&mut guid, 8, second);
    guid
}

/// The volume signature that the superblock's GUID gives.
pub fn volume_signature(guid: &[u8; 16]) -> u32 {
    (0..4).fold(0, |sum, word| sum ^ u32_at(guid, 4 * word))
}

/// Where the node of a page begins: behind the page header and the tree header, as far as that states its length.
pub fn node_start(page: &[u8]) -> usize {
    HEADER.saturating_add(tree_header_length(page) as usize)
}

/// The length of a page's tree header, as it states it.
pub fn tree_header_length(page: &[u8]) -> u32 {
    header::LENGTH.within(HEADER).of(page)
}

/// The word of a page header at offset 4. Only the value 2 is known.
pub fn header_version(page: &[u8]) -> u16 {
    u16_at(page, 4)
}

const _: () = assert!(PageHeader::TABLE.end() == HEADER, "the table is the last field of a page header");
const _: () = assert!(
    PageReference::CHECKSUM + 32 <= PageReference::LEGACY,
    "the longest checksum fits an old reference"
);

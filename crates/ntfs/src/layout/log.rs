//! The log, `$LogFile`: its pages, its records, and the operations that NTFS writes into them.
//!
//! The log file service (LFS) keeps two restart pages, two *tail pages*, which hold copies of record pages that are
//! about to be written anew, and a ring of record pages. A log sequence number (LSN) has in its lower bits a place in
//! the ring, in units of 8 bytes, and in its upper bits a number that grows each time the ring begins anew; so LSNs
//! only ever grow. NTFS writes *redo* and *undo* operations, chained into transactions, and *restart records*, which
//! say where recovery begins.
//!
//! Sources: the Linux-NTFS documentation of `$LogFile`
//! (<https://flatcap.github.io/linux-ntfs/ntfs/files/logfile.html>), M. Suhanov, "How the $LogFile works?"
//! (<https://dfir.ru/2019/02/16/how-the-logfile-works/>), and the 1,100 records that are in the log of a volume used
//! by Windows 10.

use super::bytes::{put, u16_at, u32_at, u64_at};
use super::{Reference, fixup};
use platter_vfs::{Error, Result};

/// Bytes of a page. Other sizes are possible; nothing writes them.
pub const PAGE: usize = 4096;
/// Where the records of a page begin.
pub const PAGE_DATA: usize = 0x40;
/// Bytes of a record's header.
pub const RECORD_HEADER: usize = 0x30;

// A page has room for the header of a record behind its own.
const _: () = assert!(PAGE_DATA + RECORD_HEADER < PAGE);

/// The first page of the ring: after two restart pages and two for copies.
pub const FIRST_PAGE: u64 = 4;
/// The tail pages of version 1.1: a copy of the last page of the ring, while that page is being written. A copy has the
/// offset of the page that it copies in the field where that page has its last LSN. Source: the Linux-NTFS
/// documentation, "tail copies".
pub const TAIL_PAGES: std::ops::Range<u64> = 2..FIRST_PAGE;
/// The fewest pages of a log that NTFS accepts.
pub const LEAST_PAGES: u64 = FIRST_PAGE + 0x30;
/// The offset of the first entry in NTFS's tables of attributes and transactions: entries are referred to by their
/// offset.
pub const FIRST_ENTRY: u32 = 0x18;
/// Bytes of an entry of the open attribute table.
pub const OPEN_ATTRIBUTE: usize = 0x28;

const NO_CLIENT: u16 = 0xFFFF;
const RESTART_AREA: usize = 0x30;
const CLIENTS: usize = 0x40;
const CLIENT_SIZE: usize = 0xA0;
const CLIENT: usize = RESTART_AREA + CLIENTS;

// The restart page, with its one client, is the first page of the log.
const _: () = assert!(CLIENT + CLIENT_SIZE <= PAGE);

/// The fields of a restart page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestartPage {
    /// Version of the log file service: 1 and 1 here; 2 and 0 while Windows 8 or later has the volume open.
    pub version: (i16, i16),
    /// The greatest LSN there was when the page was written.
    pub current: u64,
    /// Whether NTFS is a client of the log at all. If not, the log holds nothing to recover.
    pub in_use: bool,
    /// Flags: [`RestartPage::CLEAN`].
    pub flags: u16,
    /// Bytes of the log.
    pub file_size: u64,
    /// Bytes of the client's data in the record of the LSN `current`.
    pub last_length: u32,
    /// A number that is new each time the log is opened.
    pub opened: u32,
    /// The oldest LSN that the client needs.
    pub oldest: u64,
    /// The LSN of the client's last restart record.
    pub restart: u64,
}

impl RestartPage {
    /// The bytes that a restart page begins with.
    pub const SIGNATURE: &'static [u8; 4] = b"RSTR";
    /// The bytes that a restart page begins with after chkdsk changed the volume.
    pub const CHKDSK: &'static [u8; 4] = b"CHKD";
    /// Flag: the volume was closed cleanly.
    pub const CLEAN: u16 = 0x0002;

    const NAME: &str = "log restart page";

    /// How many bits of an LSN count the times that the ring began anew, for a log of `file_size` bytes.
    pub fn sequence_bits(file_size: u64) -> u32 {
        // An LSN has 64 bits. The count has those that the offset does not take, and the offset, a multiple of 8, is
        // kept without its lowest three bits.
        67 - (u64::BITS - file_size.leading_zeros())
    }

    /// Reads a page, whose update sequence is still in place.
    ///
    /// # Errors
    /// If it was not written whole or contradicts itself.
    pub fn from_bytes(page: &[u8; PAGE], at: u64) -> Result<RestartPage> {
        let refuse = |offset: usize, expected: &str, found: u64| {
            Err(Error::damaged(RestartPage::NAME, at + offset as u64, expected, format!("{found:#x}")))
        };
        let mut page = *page;
        if ![RestartPage::SIGNATURE, RestartPage::CHKDSK]
            .iter()
            .any(|signature| page.starts_with(&signature[..]))
        {
            return refuse(0, "RSTR", u64::from(u32_at(&page, 0)));
        }
        fixup::remove(&mut page, RestartPage::NAME, at)?;
        for offset in [0x10, 0x14] {
            if u32_at(&page, offset) as usize != PAGE {
                return refuse(offset, "pages of 4,096 bytes", u64::from(u32_at(&page, offset)));
            }
        }
        let area = usize::from(u16_at(&page, 0x18));
        let field = |offset: usize| area + offset;
        let clients = area + usize::from(u16_at(&page, field(0x16)));
        if !area.is_multiple_of(8) || field(CLIENTS) > 510 || clients + CLIENT_SIZE > PAGE {
            return refuse(0x18, "a restart area inside the page", area as u64);
        }
        let file_size = u64_at(&page, field(0x18));
        let bits = u32_at(&page, field(0x10));
        if !(PAGE as u64..1 << 48).contains(&file_size) || bits != RestartPage::sequence_bits(file_size) {
            return refuse(field(0x10), "sequence number bits that fit the log's size", u64::from(bits));
        }
        if usize::from(u16_at(&page, field(0x24))) != RECORD_HEADER
            || usize::from(u16_at(&page, field(0x26))) != PAGE_DATA
        {
            return refuse(field(0x24), "headers of 48 and 64 bytes", u64::from(u32_at(&page, field(0x24))));
        }
        Ok(RestartPage {
            version: (u16_at(&page, 0x1C) as i16, u16_at(&page, 0x1A) as i16),
            current: u64_at(&page, area),
            in_use: u16_at(&page, field(0x0C)) != NO_CLIENT,
            flags: u16_at(&page, field(0x0E)),
            file_size,
            last_length: u32_at(&page, field(0x20)),
            opened: u32_at(&page, field(0x28)),
            oldest: u64_at(&page, clients),
            restart: u64_at(&page, clients + 8),
        })
    }

    /// The page as it is written. `number` is put into its update sequence.
    pub fn to_bytes(&self, number: u16) -> [u8; PAGE] {
        let mut page = [0; PAGE];
        page[..4].copy_from_slice(RestartPage::SIGNATURE);
        put(&mut page, 4, 0x1Eu16);
        put(&mut page, 6, fixup::fields(PAGE) as u16);
        put(&mut page, 0x10, PAGE as u32);
        put(&mut page, 0x14, PAGE as u32);
        put(&mut page, 0x18, RESTART_AREA as u16);
        put(&mut page, 0x1A, self.version.1 as u16);
        put(&mut page, 0x1C, self.version.0 as u16);
        put(&mut page, 0x1E, number);
        let area = &mut page[RESTART_AREA..];
        put(area, 0, self.current);
        put(area, 8, 1u16);
        put(area, 0x0A, if self.in_use { NO_CLIENT } else { 0 });
        put(area, 0x0C, if self.in_use { 0 } else { NO_CLIENT });
        put(area, 0x0E, self.flags);
        put(area, 0x10, RestartPage::sequence_bits(self.file_size));
        put(area, 0x14, (CLIENTS + CLIENT_SIZE) as u16);
        put(area, 0x16, CLIENTS as u16);
        put(area, 0x18, self.file_size);
        put(area, 0x20, self.last_length);
        put(area, 0x24, RECORD_HEADER as u16);
        put(area, 0x26, PAGE_DATA as u16);
        put(area, 0x28, self.opened);
        let client = &mut page[CLIENT..];
        put(client, 0, self.oldest);
        put(client, 8, self.restart);
        put(client, 0x10, NO_CLIENT);
        put(client, 0x12, NO_CLIENT);
        let name: Vec<u8> = "NTFS".encode_utf16().flat_map(u16::to_le_bytes).collect();
        put(client, 0x1C, name.len() as u32);
        client[0x20..0x20 + name.len()].copy_from_slice(&name);
        fixup::apply(&mut page);
        page
    }
}

/// The header of a page of the ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordPage {
    /// The LSN of the last record that has bytes in the page.
    pub last: u64,
    /// The LSN of the last record that ends in the page, or 0.
    pub last_end: u64,
    /// The offset where the next record can begin, behind the records that end in the page.
    pub next: u16,
}

impl RecordPage {
    /// The bytes that a page of the ring begins with.
    pub const SIGNATURE: &'static [u8; 4] = b"RCRD";
    const NAME: &str = "log record page";
    /// Flag: a record ends in the page.
    const RECORD_END: u32 = 1;

    /// Reads the header and takes the page's update sequence away.
    ///
    /// # Errors
    /// If it is no page of the ring or was not written whole.
    pub fn open(page: &mut [u8; PAGE], at: u64) -> Result<RecordPage> {
        if !page.starts_with(RecordPage::SIGNATURE) {
            let found = format!("{:#010x}", u32_at(page, 0));
            return Err(Error::damaged(RecordPage::NAME, at, "RCRD", found));
        }
        fixup::remove(page, RecordPage::NAME, at)?;
        Ok(RecordPage { last: u64_at(page, 8), last_end: u64_at(page, 0x20), next: u16_at(page, 0x18) })
    }

    /// The page that a tail page with this header is a copy of: its number, and the header that it has in its own
    /// place. A copy is made of a page that is written last, so that a record ends in it.
    pub fn copied(self) -> Option<(u64, RecordPage)> {
        let number = self.last / PAGE as u64;
        let is_copy = self.last.is_multiple_of(PAGE as u64) && number >= FIRST_PAGE && self.last_end != 0;
        is_copy.then_some((number, RecordPage { last: self.last_end, ..self }))
    }

    /// Writes the header and protects the page. `number` is put into its update sequence.
    pub fn seal(&self, page: &mut [u8; PAGE], number: u16) {
        page[..4].copy_from_slice(RecordPage::SIGNATURE);
        put(page, 4, 0x28u16);
        put(page, 6, fixup::fields(PAGE) as u16);
        put(page, 8, self.last);
        put(page, 0x10, if self.last_end == 0 { 0 } else { RecordPage::RECORD_END });
        // Page 1 of 1: every page is written by itself.
        put(page, 0x14, 1u16);
        put(page, 0x16, 1u16);
        put(page, 0x18, self.next);
        put(page, 0x20, self.last_end);
        put(page, 0x28, number);
        fixup::apply(page);
    }
}

/// The header of a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordHeader {
    /// The record's own LSN.
    pub lsn: u64,
    /// The LSN of the previous record of the transaction, or 0.
    pub previous: u64,
    /// The LSN of the record with which undoing goes on, or 0.
    pub undo_next: u64,
    /// Bytes of data behind the header.
    pub length: u32,
    /// [`RecordHeader::OPERATION`] or [`RecordHeader::RESTART`].
    pub kind: u32,
    /// The transaction that the record belongs to.
    pub transaction: u32,
    /// The record's flags.
    pub flags: u16,
}

impl RecordHeader {
    /// The record holds an [`Operation`].
    pub const OPERATION: u32 = 1;
    /// The record holds a [`RestartRecord`].
    pub const RESTART: u32 = 2;
    /// The record goes on in the next page.
    pub const GOES_ON: u16 = 1;
    /// There is nothing to redo.
    pub const NO_REDO: u16 = 2;
    /// There is nothing to undo.
    pub const NO_UNDO: u16 = 4;

    /// Reads a header.
    pub fn from_bytes(bytes: &[u8; RECORD_HEADER]) -> RecordHeader {
        RecordHeader {
            lsn: u64_at(bytes, 0),
            previous: u64_at(bytes, 8),
            undo_next: u64_at(bytes, 0x10),
            length: u32_at(bytes, 0x18),
            kind: u32_at(bytes, 0x20),
            transaction: u32_at(bytes, 0x24),
            flags: u16_at(bytes, 0x28),
        }
    }

    /// The header as it is written, for the log's only client.
    pub fn to_bytes(&self) -> [u8; RECORD_HEADER] {
        let mut bytes = [0; RECORD_HEADER];
        put(&mut bytes, 0, self.lsn);
        put(&mut bytes, 8, self.previous);
        put(&mut bytes, 0x10, self.undo_next);
        put(&mut bytes, 0x18, self.length);
        put(&mut bytes, 0x20, self.kind);
        put(&mut bytes, 0x24, self.transaction);
        put(&mut bytes, 0x28, self.flags);
        bytes
    }
}

/// The data of a restart record: where recovery begins, and the sizes of the tables that it begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestartRecord {
    /// Version of NTFS's records: 1 with entries of [`OPEN_ATTRIBUTE`] bytes, 0 with others.
    pub major: u32,
    /// The LSN of the record after which reading begins.
    pub start: u64,
    /// Bytes of the tables of open attributes, their names, dirty pages, and transactions.
    pub tables: [u32; 4],
    /// Bytes of a cluster.
    pub cluster: u32,
}

impl RestartRecord {
    /// Bytes of the record.
    pub const SIZE: usize = 0x70;

    /// Reads the data behind a record's header; `None` if it is too short.
    pub fn from_bytes(bytes: &[u8]) -> Option<RestartRecord> {
        (bytes.len() >= 0x40).then(|| RestartRecord {
            major: u32_at(bytes, 0),
            start: u64_at(bytes, 8),
            tables: [0x30, 0x34, 0x38, 0x3C].map(|at| u32_at(bytes, at)),
            cluster: u32_at(bytes, 0x50),
        })
    }

    /// The data of a record that needs no tables: all changes before it are in their places.
    pub fn to_bytes(&self) -> [u8; RestartRecord::SIZE] {
        let mut bytes = [0; RestartRecord::SIZE];
        put(&mut bytes, 0, self.major);
        put(&mut bytes, 8, self.start);
        put(&mut bytes, 0x50, self.cluster);
        put(&mut bytes, 0x68, self.start);
        bytes
    }
}

/// The numbers of operations; only those that are written or replayed here.
pub mod operation {
    /// Does nothing.
    pub const NOOP: u16 = 0x00;
    /// Marks a compensation record: the record says that an operation was undone.
    pub const COMPENSATION: u16 = 0x01;
    /// Writes a file record.
    pub const INITIALIZE_RECORD: u16 = 0x02;
    /// Writes bytes of a non-resident attribute.
    pub const UPDATE_VALUE: u16 = 0x08;
    /// Ends the transaction.
    pub const FORGET: u16 = 0x1B;
    /// Writes an entry of the open attribute table.
    pub const OPEN_ATTRIBUTE: u16 = 0x1C;

    const NAMES: [&str; 35] = [
        "Noop",
        "CompensationLogRecord",
        "InitializeFileRecordSegment",
        "DeallocateFileRecordSegment",
        "WriteEndOfFileRecordSegment",
        "CreateAttribute",
        "DeleteAttribute",
        "UpdateResidentValue",
        "UpdateNonresidentValue",
        "UpdateMappingPairs",
        "DeleteDirtyClusters",
        "SetNewAttributeSizes",
        "AddIndexEntryRoot",
        "DeleteIndexEntryRoot",
        "AddIndexEntryAllocation",
        "DeleteIndexEntryAllocation",
        "WriteEndOfIndexBuffer",
        "SetIndexEntryVcnRoot",
        "SetIndexEntryVcnAllocation",
        "UpdateFileNameRoot",
        "UpdateFileNameAllocation",
        "SetBitsInNonresidentBitMap",
        "ClearBitsInNonresidentBitMap",
        "HotFix",
        "EndTopLevelAction",
        "PrepareTransaction",
        "CommitTransaction",
        "ForgetTransaction",
        "OpenNonresidentAttribute",
        "OpenAttributeTableDump",
        "AttributeNamesDump",
        "DirtyPageTableDump",
        "TransactionTableDump",
        "UpdateRecordDataRoot",
        "UpdateRecordDataAllocation",
    ];

    /// The name of an operation as the documentation of NTFS has it.
    pub fn name(operation: u16) -> &'static str {
        NAMES.get(usize::from(operation)).copied().unwrap_or("an operation without a known name")
    }
}

/// One step of a transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Operation {
    /// The redo operation: one of [`operation`].
    pub redo: u16,
    /// The undo operation: one of [`operation`].
    pub undo: u16,
    /// The entry of the open attribute table for the attribute that is changed.
    pub target: u32,
    /// The virtual cluster of the attribute where the changed structure begins.
    pub vcn: u64,
    /// Where in that cluster the structure begins, in units of 512 bytes.
    pub block: u16,
    /// Bytes of the structure in units of 512 bytes, or 0.
    pub blocks: u16,
    /// Where in the structure the change begins, in bytes.
    pub record_offset: u16,
    /// Where in an attribute or entry at `record_offset` the change begins, in bytes.
    pub attribute_offset: u16,
    /// The clusters on the volume that hold the changed structure.
    pub lcns: Vec<u64>,
    /// The bytes that redoing the change writes.
    pub redo_data: Vec<u8>,
    /// The bytes that undoing the change writes.
    pub undo_data: Vec<u8>,
}

impl Operation {
    const FIXED: usize = 0x20;

    /// Reads the data behind a record's header; `None` if a part of the operation lies outside.
    pub fn from_bytes(bytes: &[u8]) -> Option<Operation> {
        let field = |at| u16_at(bytes, at);
        let piece = |at: usize| {
            let (offset, length) = (usize::from(field(at)), usize::from(field(at + 2)));
            if length == 0 {
                Some(Vec::new())
            } else {
                bytes.get(offset..offset + length).map(<[u8]>::to_vec)
            }
        };
        let lcns = bytes.get(Operation::FIXED..Operation::FIXED + 8 * usize::from(field(0x0E)))?;
        Some(Operation {
            redo: field(0),
            undo: field(2),
            target: u32::from(field(0x0C)),
            vcn: u64_at(bytes, 0x18),
            block: field(0x14),
            blocks: field(0x16),
            record_offset: field(0x10),
            attribute_offset: field(0x12),
            lcns: lcns.chunks_exact(8).map(|lcn| u64_at(lcn, 0)).collect(),
            redo_data: piece(4)?,
            undo_data: piece(8)?,
        })
    }

    /// Bytes that it takes without the record's header.
    pub fn size(&self) -> usize {
        self.header_size()
            + self.redo_data.len().next_multiple_of(8)
            + self.undo_data.len().next_multiple_of(8)
    }

    /// Bytes before the data. There is always room for one cluster.
    fn header_size(&self) -> usize {
        Operation::FIXED + 8 * self.lcns.len().max(1)
    }

    /// The operation as it is written; data has at most 65,000 bytes altogether.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.size()];
        let redo = self.header_size();
        let undo = redo + self.redo_data.len().next_multiple_of(8);
        put(&mut bytes, 0, self.redo);
        put(&mut bytes, 2, self.undo);
        put(&mut bytes, 4, redo as u16);
        put(&mut bytes, 6, self.redo_data.len() as u16);
        put(&mut bytes, 8, undo as u16);
        put(&mut bytes, 0x0A, self.undo_data.len() as u16);
        put(&mut bytes, 0x0C, self.target as u16);
        put(&mut bytes, 0x0E, self.lcns.len() as u16);
        put(&mut bytes, 0x10, self.record_offset);
        put(&mut bytes, 0x12, self.attribute_offset);
        put(&mut bytes, 0x14, self.block);
        put(&mut bytes, 0x16, self.blocks);
        put(&mut bytes, 0x18, self.vcn);
        for (index, lcn) in self.lcns.iter().enumerate() {
            put(&mut bytes, Operation::FIXED + 8 * index, *lcn);
        }
        bytes[redo..redo + self.redo_data.len()].copy_from_slice(&self.redo_data);
        bytes[undo..undo + self.undo_data.len()].copy_from_slice(&self.undo_data);
        bytes
    }

    /// The flags of the operation in its record's header.
    pub fn flags(&self) -> u16 {
        let none = |operation, flag| if operation <= operation::COMPENSATION { flag } else { 0 };
        let redo = if self.redo == operation::FORGET {
            RecordHeader::NO_REDO
        } else {
            none(self.redo, RecordHeader::NO_REDO)
        };
        let undo = if self.undo == operation::NOOP { RecordHeader::NO_UNDO } else { 0 };
        redo | undo
    }
}

/// Bytes of a file record that are used, its header included; `None` if the record is shorter than that.
pub fn used_of_record(record: &[u8]) -> Option<usize> {
    Some(u32_at(record, 0x18) as usize).filter(|used| (0x18..=record.len()).contains(used))
}

/// Bytes of an index block that are used, its header included; `None` if the block is shorter than that.
pub fn used_of_block(block: &[u8]) -> Option<usize> {
    (u32_at(block, 0x1C) as usize).checked_add(0x18).filter(|used| (0x28..=block.len()).contains(used))
}

/// An entry of the open attribute table, version 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenAttribute {
    /// The file's base record, or the record that holds the attribute's first part.
    pub file: Reference,
    /// Type of the attribute.
    pub kind: u32,
    /// Bytes of a block if it is an index, or 0.
    pub index_block: u32,
    /// An LSN from before the attribute was opened.
    pub lsn: u64,
}

impl OpenAttribute {
    /// Reads an entry; `None` if it is not in use or too short.
    pub fn from_bytes(bytes: &[u8]) -> Option<OpenAttribute> {
        (bytes.len() >= OPEN_ATTRIBUTE && u32_at(bytes, 0) == u32::MAX).then(|| OpenAttribute {
            file: Reference(u64_at(bytes, 0x10)),
            kind: u32_at(bytes, 8),
            index_block: u32_at(bytes, 4),
            lsn: u64_at(bytes, 0x18),
        })
    }

    /// The entry as it is written.
    pub fn to_bytes(&self) -> [u8; OPEN_ATTRIBUTE] {
        let mut bytes = [0; OPEN_ATTRIBUTE];
        put(&mut bytes, 0, u32::MAX);
        put(&mut bytes, 4, self.index_block);
        put(&mut bytes, 8, self.kind);
        put(&mut bytes, 0x10, self.file.0);
        put(&mut bytes, 0x18, self.lsn);
        bytes
    }
}

const _: () = assert!(
    PAGE_DATA.is_multiple_of(8) && RECORD_HEADER.is_multiple_of(8),
    "records begin at words of 8 bytes"
);
const _: () = assert!(
    CLIENT + CLIENT_SIZE <= 512 - 2,
    "the restart area and its client are in the first sector, whose last two bytes are a number"
);

//! The log of an open volume: groups of changes that are all there or not at all.
//!
//! # What is written
//! A *group* holds the new content of the metadata that a commit changed: whole file records and index blocks, pieces
//! of other attributes. Groups are written as NTFS writes transactions, with its own operations, so that Windows and
//! other drivers replay them too.
//!
//! # Why a group needs no undo
//! Replay redoes all records up to the log's end and then undoes transactions that have not ended. Here a group begins
//! on a page of its own, which is written last, after the group's other pages have been flushed: the log ends before a
//! group or behind it, never inside. Metadata are written to their places only after their group is durable (and read
//! only by drivers that have replayed the log), so there is nothing to undo.
//!
//! # Why old pages are never taken for new ones
//! The upper bits of an LSN count the *turns* of the ring: how often its pages were begun anew from the first one, and
//! how often a session began. So a page that an interrupted session left has an LSN of an older turn, wherever it is.
//!
//! # Why a session does not begin at the ring's first page
//! Until the restart pages lead to a new session's first record, the old session's records are the log: if the power
//! fails before, they are replayed again, whole. So a session begins behind the last page that holds such a record.

mod compose;
mod place;
mod replay;
mod scan;

pub use place::LogPlace;
pub use replay::Replay;

use crate::layout::Reference;
use crate::layout::log::{
    FIRST_ENTRY, FIRST_PAGE, OPEN_ATTRIBUTE, OpenAttribute, Operation, PAGE, RecordHeader, RestartPage,
    RestartRecord, TAIL_PAGES, operation, used_of_block, used_of_record,
};
use compose::{Composer, Ring, Sealed, Spot};
use platter_device::Device;
use platter_vfs::{Error, Result};
use std::collections::HashMap;

/// The number of the only transaction: its offset in the table of transactions, which is never written.
const TRANSACTION: u32 = FIRST_ENTRY;
/// Pages of the ring that are kept free: one for the next restart record, one so that a full ring is not an empty one.
const KEPT: u64 = 2;
/// Attributes that can be named between two checkpoints: the log refers to their entries by a 16-bit offset.
pub const MOST_ATTRIBUTES: usize = (u16::MAX as usize - FIRST_ENTRY as usize) / OPEN_ATTRIBUTE - 1;

// An attribute that the log names is told by the offset of its entry, in 16 bits.
const _: () = assert!(FIRST_ENTRY as usize + MOST_ATTRIBUTES * OPEN_ATTRIBUTE <= u16::MAX as usize);

/// Pages of one write, at most.
const MOST_TOGETHER: usize = 64;
/// Type of an index's blocks, `$INDEX_ALLOCATION`.
const INDEX: u32 = 0xA0;
/// Type of data, `$DATA`.
const DATA: u32 = 0x80;

/// The attribute that a change is made in.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// A file record; the offset of a change is that in `$MFT`.
    FileRecord,
    /// A block of an index, in the attribute `$INDEX_ALLOCATION`.
    Index {
        /// The file that has the index.
        file: Reference,
        /// The index's name in UTF-16.
        name: Box<[u16]>,
        /// Bytes of a block.
        block: u32,
    },
    /// Bytes of any other non-resident attribute.
    Value {
        /// The file that has the attribute.
        file: Reference,
        /// The attribute's type.
        kind: u32,
        /// The attribute's name in UTF-16.
        name: Box<[u16]>,
    },
}

/// The new content of a piece of metadata, for a group.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    /// The attribute that the piece belongs to.
    pub target: &'a Target,
    /// Where in that attribute's data the piece begins, in bytes.
    pub offset: u64,
    /// Every cluster of the volume that the piece touches, in the attribute's order.
    pub lcns: &'a [u64],
    /// A whole file record or index block without its update sequence in place, or bytes as they are on the device
    /// (at most 65,000).
    pub bytes: &'a [u8],
}

/// The state of a volume according to its log.
#[derive(Debug)]
pub enum LogState {
    /// The volume was closed, or the log is empty.
    Clean,
    /// The volume was not closed; applying this replay makes it consistent.
    Unclean(Replay),
    /// The volume was not closed, and only other drivers can replay its log. It must not be written to; the text is the
    /// reason.
    Foreign(String),
}

/// The log of an open volume. The caller makes sure that only one thread uses it.
#[derive(Debug)]
pub struct Log {
    place: LogPlace,
    ring: Ring,
    /// No LSN in the log is greater than this one.
    greatest: u64,
    /// The first page behind those that the log needs as it is.
    behind: u64,
    session: Option<Session>,
}

/// The state of a log that is written to.
#[derive(Debug)]
struct Session {
    /// Where the next group begins.
    head: Spot,
    /// The LSN of the last restart record.
    restart: u64,
    opened: u32,
    /// Counts the restart pages that were written, for the numbers of their update sequences.
    written: u16,
    /// Attributes that were named since the last restart record, and their entries in the table of open attributes.
    attributes: HashMap<Target, u32>,
    /// Whether a write failed, so that the content of the log is unknown.
    broken: bool,
}

impl Log {
    /// Reads the log and says what state the volume is in.
    ///
    /// # Errors
    /// Errors of the device. A damaged log is not an error but [`LogState::Foreign`].
    pub fn open(device: &dyn Device, place: LogPlace) -> Result<(Log, LogState)> {
        let bytes = place.bytes() / PAGE as u64 * PAGE as u64;
        let ring = Ring::new(bytes);
        let log = |greatest, behind, place| Log { place, ring, greatest, behind, session: None };
        if let Err(reason) = Ring::check(bytes) {
            return Ok((log(0, FIRST_PAGE, place), LogState::Foreign(reason)));
        }
        let (page, state) = scan::state(device, &place, bytes)?;
        let (greatest, behind) = match (&page, &state) {
            (_, LogState::Unclean(replay)) => (replay.greatest(), replay.behind()),
            (Some(page), _) => (page.current, ring.after(ring.spot(page.current)).page),
            (None, _) => (0, FIRST_PAGE),
        };
        Ok((log(greatest, behind.max(FIRST_PAGE), place), state))
    }

    /// Whether a log may have this number of bytes.
    pub fn is_possible(bytes: u64) -> bool {
        Ring::check(bytes / PAGE as u64 * PAGE as u64).is_ok()
    }

    /// Makes the log of a new volume, on clusters that read as zeroes: closed and empty.
    ///
    /// # Errors
    /// Errors of the device, and [`Error::CannotMake`] for a size that no log can have.
    pub fn create(device: &dyn Device, place: LogPlace) -> Result<()> {
        let bytes = place.bytes() / PAGE as u64 * PAGE as u64;
        if let Err(reason) = Ring::check(bytes) {
            return Err(Error::CannotMake { format: "NTFS", reason });
        }
        let mut log = Log { place, ring: Ring::new(bytes), greatest: 0, behind: FIRST_PAGE, session: None };
        log.begin(device, 0)?;
        log.end(device)
    }

    /// Begins to write: the restart pages say from now on that the volume is in use. The changes that the log held must
    /// be in place and flushed. `floor` is an LSN that no structure of the volume exceeds, as far as known.
    ///
    /// # Errors
    /// [`Error::ReadOnly`] if LSNs are used up. Errors of the device.
    pub fn begin(&mut self, device: &dyn Device, floor: u64) -> Result<()> {
        let turn = self.ring.turn(self.greatest.max(floor)) + 1;
        if turn >= self.ring.turns() {
            return Err(Error::ReadOnly("the numbers of the log are used up".into()));
        }
        let opened = device.now().as_secs() as u32;
        self.session = Some(Session {
            head: Spot { page: self.behind, turn },
            restart: 0,
            opened,
            written: opened as u16,
            attributes: HashMap::new(),
            broken: false,
        });
        self.restart(device, 0)?;
        // Copies of pages that an older session left are not valid any more. Before, its log may need them.
        self.place.write(device, TAIL_PAGES.start * PAGE as u64, &[0xFF; 2 * PAGE])
    }

    /// Bytes of groups for which an empty log has room.
    pub fn capacity(&self) -> u64 {
        (self.ring.pages() - FIRST_PAGE - KEPT - 1) * PAGE as u64
    }

    /// Bytes of the log that are taken by groups which the last checkpoint does not cover.
    pub fn used(&self) -> u64 {
        let since = |session: &Session| self.ring.distance(self.ring.spot(session.restart), session.head) - 1;
        self.session.as_ref().map_or(0, |session| since(session) * PAGE as u64)
    }

    /// Bytes of the log that a group takes, at most, if its changes and their headers have `bytes` bytes.
    pub fn group(bytes: u64) -> u64 {
        // Each page has a header, and may end with unused bytes, fewer than the header of a log record has.
        ((bytes + 0x58).div_ceil((PAGE - 0x40 - 0x30) as u64) + 1) * PAGE as u64
    }

    /// Bytes of changes and their headers for which an empty log has room in one group.
    pub fn most_in_group(&self) -> u64 {
        (self.capacity() / PAGE as u64).saturating_sub(2) * (PAGE - 0x40 - 0x30) as u64
    }

    /// Writes one group. When this returns, the group and everything that was written to the device before are durable;
    /// until then neither the device nor a replay shows any part of the group. Returns the LSN that records and index
    /// blocks of the group get, at offset 8, when they are written in place.
    ///
    /// # Errors
    /// [`Error::NoSpace`] if there is no room before the next checkpoint, with nothing written. Errors of the device:
    /// then nothing more can be written, as the content of the log is unknown.
    pub fn append(&mut self, device: &dyn Device, changes: &[Change]) -> Result<u64> {
        let ring = self.ring;
        let session = self.session.as_mut().filter(|session| !session.broken).ok_or_else(not_open)?;
        let mut composer = Composer::new(ring, session.head);
        let mut new = HashMap::new();
        for change in changes {
            let known = session.attributes.get(change.target).or_else(|| new.get(change.target));
            let target = match known {
                Some(&target) => target,
                None => {
                    let index = session.attributes.len() + new.len();
                    if index >= MOST_ATTRIBUTES {
                        return Err(Error::NoSpace);
                    }
                    let target = FIRST_ENTRY + (index * OPEN_ATTRIBUTE) as u32;
                    composer.step(TRANSACTION, &opening(change.target, target, self.greatest));
                    new.insert(change.target.clone(), target);
                    target
                }
            };
            composer.step(TRANSACTION, &redo(change, target, &self.place)?);
        }
        let forget = Operation {
            redo: operation::FORGET,
            undo: operation::COMPENSATION,
            target: FIRST_ENTRY,
            ..Operation::default()
        };
        let lsn = composer.step(TRANSACTION, &forget);
        let (pages, head) = composer.finish();
        debug_assert!(
            pages.iter().all(|(page, _)| (FIRST_PAGE..ring.pages()).contains(page)),
            "groups are written behind the pages of the log's own"
        );
        let taken = ring.distance(ring.spot(session.restart), session.head);
        if taken + pages.len() as u64 + KEPT > ring.pages() - FIRST_PAGE {
            return Err(Error::NoSpace);
        }
        session.broken = true;
        if let Some((first, rest)) = pages.split_first() {
            write_pages(&self.place, device, rest)?;
            device.flush()?;
            self.place.write(device, first.0 * PAGE as u64, &first.1[..])?;
            device.flush()?;
        }
        assert!(lsn > self.greatest, "each group has greater numbers than the one before");
        session.broken = false;
        session.head = head;
        session.attributes.extend(new);
        self.greatest = lsn;
        Ok(lsn)
    }

    /// Forgets all groups, whose changes must be in place and flushed.
    ///
    /// # Errors
    /// Errors of the device.
    pub fn checkpoint(&mut self, device: &dyn Device) -> Result<()> {
        self.restart(device, 0)
    }

    /// Says in the log that the volume is closed. All changes that the log holds must be in place and flushed.
    ///
    /// # Errors
    /// Errors of the device.
    pub fn end(&mut self, device: &dyn Device) -> Result<()> {
        self.restart(device, RestartPage::CLEAN)?;
        self.session = None;
        Ok(())
    }

    /// Writes a restart record, then both restart pages, so that one of them is whole at any time.
    fn restart(&mut self, device: &dyn Device, flags: u16) -> Result<()> {
        let session = self.session.as_mut().filter(|session| !session.broken).ok_or_else(not_open)?;
        session.broken = true;
        let mut composer = Composer::new(self.ring, session.head);
        let lsn = composer.next();
        let record = RestartRecord { major: 1, start: lsn, tables: [0; 4], cluster: self.place.cluster };
        let header = RecordHeader { kind: RecordHeader::RESTART, ..RecordHeader::default() };
        composer.push(header, &record.to_bytes());
        let (pages, head) = composer.finish();
        write_pages(&self.place, device, &pages)?;
        device.flush()?;
        let page = RestartPage {
            version: (1, 1),
            current: lsn,
            in_use: true,
            flags,
            file_size: self.ring.pages() * PAGE as u64,
            last_length: RestartRecord::SIZE as u32,
            opened: session.opened,
            oldest: lsn,
            restart: lsn,
        };
        for copy in 0..2 {
            session.written = session.written.wrapping_add(1);
            self.place.write(device, copy * PAGE as u64, &page.to_bytes(session.written))?;
            device.flush()?;
        }
        session.broken = false;
        session.head = head;
        assert!(lsn > self.greatest || self.greatest == 0, "a restart is behind all that it makes needless");
        session.restart = lsn;
        session.attributes.clear();
        self.greatest = lsn;
        Ok(())
    }
}

/// Writes pages, adjacent ones in one write.
fn write_pages(place: &LogPlace, device: &dyn Device, pages: &[Sealed]) -> Result<()> {
    for row in pages.chunk_by(|(one, _), (next, _)| one + 1 == *next) {
        for part in row.chunks(MOST_TOGETHER) {
            let bytes: Vec<&[u8]> = part.iter().map(|(_, bytes)| &bytes[..]).collect();
            place.write(device, part[0].0 * PAGE as u64, &bytes.concat())?;
        }
    }
    Ok(())
}

fn not_open() -> Error {
    Error::ReadOnly("the log could not be written".into())
}

/// The operation that names an attribute in the log.
fn opening(target: &Target, entry: u32, lsn: u64) -> Operation {
    let (attribute, name) = match target {
        Target::FileRecord => {
            (OpenAttribute { file: Reference::new(0, 1), kind: DATA, index_block: 0, lsn }, &[][..])
        }
        Target::Index { file, name, block } => {
            (OpenAttribute { file: *file, kind: INDEX, index_block: *block, lsn }, &name[..])
        }
        Target::Value { file, kind, name } => {
            (OpenAttribute { file: *file, kind: *kind, index_block: 0, lsn }, &name[..])
        }
    };
    Operation {
        redo: operation::OPEN_ATTRIBUTE,
        undo: operation::NOOP,
        target: entry,
        blocks: (attribute.index_block / 512) as u16,
        redo_data: attribute.to_bytes().to_vec(),
        undo_data: name.iter().flat_map(|unit| unit.to_le_bytes()).collect(),
        ..Operation::default()
    }
}

/// The operation by which a replay makes a change.
fn redo(change: &Change, target: u32, place: &LogPlace) -> Result<Operation> {
    let cluster = u64::from(place.cluster);
    let within = change.offset % cluster;
    let whole = match change.target {
        Target::FileRecord => Some(used_of_record(change.bytes)),
        Target::Index { .. } => Some(used_of_block(change.bytes)),
        Target::Value { .. } => None,
    };
    let used = match whole {
        Some(used) => used.ok_or(Error::InvalidArgument("a block to log has a header"))?,
        None => change.bytes.len(),
    };
    if change.lcns.len() as u64 != (within + change.bytes.len() as u64).div_ceil(cluster) || used > 65_000 {
        return Err(Error::InvalidArgument("a change to log names the clusters that it touches"));
    }
    Ok(Operation {
        redo: if *change.target == Target::FileRecord {
            operation::INITIALIZE_RECORD
        } else {
            operation::UPDATE_VALUE
        },
        undo: operation::NOOP,
        target,
        vcn: change.offset / cluster,
        block: (within / 512) as u16,
        blocks: if whole.is_some() { (change.bytes.len() / 512) as u16 } else { 0 },
        record_offset: (within % 512) as u16,
        attribute_offset: 0,
        lcns: change.lcns.to_vec(),
        redo_data: change.bytes[..used].to_vec(),
        undo_data: Vec::new(),
    })
}

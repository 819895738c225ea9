//! A stream's data: its size, and where it is. Reading and writing in place need nothing but this.

use crate::extents::Extents;
use crate::geometry::Geometry;
use crate::layout::PageReference;
use crate::layout::bytes::{put, u32_at, u64_at};
use crate::layout::record::{self, Attribute, DATA, MULTIPLE, NAMED_DATA, SINGLE, STREAM_EXTENTS};
use crate::pages::Pages;
use crate::tree::tree_header;
use platter_vfs::{Error, Result};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// The extents of the live data among those of snapshots.
const LIVE: u64 = 0x1000;
/// Bytes of a stream summary.
const SUMMARY: usize = 0x3C;

/// Where a stream's bytes are.
pub enum Content {
    /// In the record.
    Inline(Vec<u8>),
    /// In clusters.
    Extents(Extents),
}

/// What is behind a stream's lock.
pub struct StreamState {
    /// Bytes.
    pub size: u64,
    /// Where they are.
    pub content: Content,
    /// New data gets checksums.
    pub integrity: bool,
    /// The pages of the extents at the last commit.
    pub pages: Vec<PageReference>,
    /// Nothing leads to it any more: what it takes is given back when it is let go.
    pub orphan: bool,
    /// Changes whenever clusters of it move.
    pub generation: u64,
}

/// A stream, shared between those who use it.
pub struct Stream {
    /// The node that it is the data of.
    pub node: u64,
    state: RwLock<StreamState>,
    in_flight: AtomicUsize,
    quiet: Mutex<()>,
    quieted: Condvar,
    /// When it was last written, in units of 100 ns since 1601, if that is not in the record yet.
    pub modified: AtomicU64,
    /// Whether the time is news.
    pub touched: AtomicBool,
    /// The read-only attribute.
    pub read_only: AtomicBool,
    /// It is that of a symbolic link.
    pub is_link: AtomicBool,
    /// Its node waits for the last plan to end.
    pub is_forgotten: AtomicBool,
    /// Parts of it were written to other places since it was last put together.
    pub is_scattered: AtomicBool,
}

impl Stream {
    /// A stream.
    pub fn new(node: u64, state: StreamState, read_only: bool) -> Stream {
        Stream {
            node,
            state: RwLock::new(state),
            in_flight: AtomicUsize::new(0),
            quiet: Mutex::new(()),
            quieted: Condvar::new(),
            modified: AtomicU64::new(0),
            touched: AtomicBool::new(false),
            read_only: AtomicBool::new(read_only),
            is_link: AtomicBool::new(false),
            is_forgotten: AtomicBool::new(false),
            is_scattered: AtomicBool::new(false),
        }
    }

    /// Looks at the state.
    pub fn read(&self) -> RwLockReadGuard<'_, StreamState> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state. Whoever holds the core's lock too has taken that first.
    pub fn write(&self) -> RwLockWriteGuard<'_, StreamState> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a plan in. Called with the state locked, so that nobody who waits for silence misses it.
    pub fn begin(&self) {
        self.in_flight.fetch_add(1, Ordering::SeqCst);
    }

    /// Counts a plan out.
    pub fn end(&self) {
        if self.in_flight.fetch_sub(1, Ordering::SeqCst) == 1 {
            let _quiet = self.quiet.lock().unwrap_or_else(PoisonError::into_inner);
            self.quieted.notify_all();
        }
    }

    /// Whether no plan is under way.
    pub fn is_quiet(&self) -> bool {
        self.in_flight.load(Ordering::SeqCst) == 0
    }

    /// Waits until no plan is under way. New ones may begin at once: look again with the state locked.
    pub fn wait_quiet(&self) {
        let mut quiet = self.quiet.lock().unwrap_or_else(PoisonError::into_inner);
        while !self.is_quiet() {
            quiet = self.quieted.wait(quiet).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl StreamState {
    /// An empty stream.
    pub fn empty(integrity: bool) -> StreamState {
        StreamState {
            size: 0,
            content: Content::Inline(Vec::new()),
            integrity,
            pages: Vec::new(),
            orphan: false,
            generation: 0,
        }
    }

    /// The extents, which are there for everything that is not in the record.
    pub fn extents(&self) -> Option<&Extents> {
        match &self.content {
            Content::Extents(extents) => Some(extents),
            Content::Inline(_) => None,
        }
    }

    /// Bytes that it takes on the volume.
    pub fn allocated(&self, geometry: &Geometry) -> u64 {
        match &self.content {
            Content::Inline(bytes) => (bytes.len() as u64).next_multiple_of(8),
            Content::Extents(extents) => extents.clusters() * u64::from(geometry.cluster),
        }
    }

    /// Whether something of it is a hole.
    pub fn is_sparse(&self, geometry: &Geometry) -> bool {
        self.extents()
            .is_some_and(|extents| extents.clusters() < self.size.div_ceil(u64::from(geometry.cluster)))
    }
}

/// A stream summary, as it stands before inline content.
fn summary(length: usize, allocated: u64, size: u64, flags: u32) -> Vec<u8> {
    let mut value = vec![0; length];
    put(&mut value, 0x04, length as u32 - 12);
    put(&mut value, 0x08, 0x0Cu32);
    put(&mut value, 0x0C, 0x30u32);
    put(&mut value, 0x18, allocated);
    put(&mut value, 0x20, size);
    put(&mut value, 0x28, size);
    put(&mut value, 0x30, allocated);
    put(&mut value, 0x38, flags);
    value
}

/// The flags of a stream summary: which checksum its data has, or would have.
fn summary_flags(geometry: &Geometry, integrity: bool) -> u32 {
    let kind = if geometry.algorithm == crate::layout::Algorithm::Sha256 { 4 } else { 2 };
    kind | if integrity { 0x1_0000 } else { 0 }
}

/// The value that holds a stream's extents: a tree header with its sizes, and the node.
fn extents_value(state: &StreamState, geometry: &Geometry, stored: &crate::extents::Stored) -> Vec<u8> {
    let allocated = state.allocated(geometry);
    let mut extra = [0; 0x60];
    put(&mut extra, 0x04, 0x28u32);
    put(&mut extra, 0x08, allocated);
    put(&mut extra, 0x10, state.size);
    put(&mut extra, 0x18, state.size);
    put(&mut extra, 0x20, allocated);
    put(&mut extra, 0x28, 1u32 | if state.is_sparse(geometry) { 1 << 31 } else { 0 });
    put(&mut extra, 0x30, summary_flags(geometry, state.integrity));
    let mut value = tree_header(0x200, 1, &extra);
    put(&mut value, 0x18, stored.leaf_pages);
    put(&mut value, 0x20, stored.runs);
    value.extend_from_slice(&stored.node);
    value
}

/// Reads the value that holds a stream's extents.
fn open_extents(pages: &mut Pages, table: u64, value: &[u8], integrity: bool) -> Result<StreamState> {
    let start = u32_at(value, 0) as usize;
    let (Some(area), 0x88) = (value.get(start..), start) else {
        return Err(Error::damaged("stream's header", 0, "0x88 bytes", format!("{start:#x}")));
    };
    let cluster = u64::from(pages.geometry.cluster);
    let size = u64_at(value, 0x38);
    if size > LARGEST {
        return Err(Error::damaged("stream's size", 0x38, format!("at most {LARGEST}"), size));
    }
    let extents = Extents::open(pages, table, area, (u64_at(value, 0x30) / cluster, u64_at(value, 0x20)))?;
    let kept = extents.pages();
    Ok(StreamState {
        size,
        content: Content::Extents(extents),
        integrity,
        pages: kept,
        orphan: false,
        generation: 0,
    })
}

/// The largest file: 2^32 − 2 clusters of 4 KiB, whatever the cluster size.
pub const LARGEST: u64 = (u32::MAX as u64 - 1) << 12;

/// The attributes of a file's own data.
pub fn store_data(state: &mut StreamState, pages: &mut Pages, clock: u64) -> Result<Vec<Attribute>> {
    if let Content::Inline(content) = &state.content {
        let allocated = content.len().next_multiple_of(8);
        let mut value = summary(
            SUMMARY + allocated,
            allocated as u64,
            content.len() as u64,
            summary_flags(&pages.geometry, state.integrity),
        );
        value[SUMMARY..SUMMARY + content.len()].copy_from_slice(content);
        return Ok(vec![Attribute::new(SINGLE, DATA, 0, &[], 0, value)]);
    }
    let value = store_extents(state, pages, clock)?;
    let mut number = [0; 24];
    put(&mut number, 0, 8u64);
    // The row that names the next number of a set of extents; its exact content is not known.
    let mut next = vec![0; 40];
    put(&mut next, 0x20, LIVE + 1);
    let counter = Attribute::new(MULTIPLE, DATA, 0x0E, &number, 0, next);
    put(&mut number, 0, LIVE);
    Ok(vec![counter, Attribute::new(MULTIPLE, DATA, 0x0E, &number, 1, value)])
}

/// Stores the extents and returns the value that holds them.
fn store_extents(state: &mut StreamState, pages: &mut Pages, clock: u64) -> Result<Vec<u8>> {
    let mut before = std::mem::take(&mut state.pages);
    let Content::Extents(extents) = &mut state.content else {
        return Err(Error::InvalidArgument("an inline stream has no extents"));
    };
    let stored = extents.store(pages, clock, &mut before)?;
    state.pages = before;
    Ok(extents_value(state, &pages.geometry, &stored))
}

/// The attributes of a named stream; `number` ties a large one to its extents.
pub fn store_named(
    state: &mut StreamState,
    name: &[u16],
    number: u64,
    pages: &mut Pages,
    clock: u64,
) -> Result<Vec<Attribute>> {
    let units: Vec<u8> = name.iter().flat_map(|unit| unit.to_le_bytes()).collect();
    let flags = summary_flags(&pages.geometry, state.integrity);
    if let Content::Inline(content) = &state.content {
        // The exact size stands in both places, which is how others tell content from extents.
        let size = content.len() as u64;
        let mut value = summary(SUMMARY + content.len(), size, size, flags);
        value[SUMMARY..].copy_from_slice(content);
        return Ok(vec![Attribute::new(MULTIPLE, NAMED_DATA, 5, &units, 0, value)]);
    }
    let mut value = store_extents(state, pages, clock)?;
    pad_named(&mut value);
    let mut key = [0; 0x40];
    put(&mut key, 0x20, number);
    let extents = Attribute::new(MULTIPLE, STREAM_EXTENTS, 0, &key, 1, value);
    let mut head = summary(0x74, state.allocated(&pages.geometry), state.size, flags);
    put(&mut head, 0x02, 0x1000u16);
    put(&mut head, 0x3C, number);
    put(&mut head, 0x44, number);
    Ok(vec![Attribute::new(MULTIPLE, NAMED_DATA, 5, &units, 0, head), extents])
}

/// Gives the node of a named stream's extents free space: another reader takes the length of the value for the bound
/// of offsets that count from the start of the row.
fn pad_named(value: &mut Vec<u8>) {
    let area = value.len() - 0x88;
    let (index, count) = (u32_at(value, 0x88 + 0x10) as usize, u32_at(value, 0x88 + 0x14) as usize);
    let places: Vec<u8> = value[0x88 + index..].to_vec();
    let more = 0x60;
    value.resize(value.len() + more, 0);
    value[0x88 + index..].fill(0);
    let length = value.len();
    value[length - places.len()..].copy_from_slice(&places);
    let node = &mut value[0x88..];
    put(node, 0x08, u32_at(node, 0x08) + more as u32);
    put(node, 0x10, (index + more) as u32);
    put(node, 0x20, (area + more) as u64);
    debug_assert_eq!(u32_at(node, 0x14) as usize, count);
}

/// A named stream as it is found in a record.
pub struct FoundStream {
    /// Its name.
    pub name: Vec<u16>,
    /// Its state.
    pub state: StreamState,
}

/// Takes the data out of a record's attributes: the file's own, and the named streams.
pub fn take_streams(
    record: &mut record::Record,
    pages: &mut Pages,
    table: u64,
) -> Result<(Option<StreamState>, Vec<FoundStream>)> {
    let integrity = record.attributes & record::Record::INTEGRITY != 0;
    let mut own = None;
    let mut named = Vec::new();
    let mut rest = Vec::new();
    let rows = std::mem::take(&mut record.rows);
    let mut spare: Vec<(u64, &Attribute)> = rows
        .iter()
        .filter(|row| row.kind() == STREAM_EXTENTS && row.rest().len() == 0x40)
        .map(|row| (u64_at(row.rest(), 0x20), row))
        .collect();
    for row in &rows {
        match row.kind() {
            DATA if row.is_single() => {
                let size = u64_at(&row.value, 0x20) as usize;
                let Some(content) = row.value.get(SUMMARY..SUMMARY.saturating_add(size)) else {
                    return Err(Error::damaged(
                        "inline data",
                        0,
                        format!("{size} bytes in the record"),
                        row.value.len(),
                    ));
                };
                let state = StreamState::empty(integrity);
                own.get_or_insert(StreamState {
                    size: size as u64,
                    content: Content::Inline(content.to_vec()),
                    ..state
                });
            }
            DATA if u64_at(row.rest(), 0) == LIVE => {
                own = Some(open_extents(pages, table, &row.value, integrity)?)
            }
            DATA if u64_at(row.rest(), 0) == 8 => {}
            NAMED_DATA if u32_at(&row.value, 0x10) & 0xFFFF == 0 => {
                let size = u64_at(&row.value, 0x20);
                let number = u64_at(&row.value, 0x3C);
                let large = u32_at(&row.value, 0) & 0x1000_0000 != 0 && row.value.len() == 0x74;
                let extents = spare
                    .iter()
                    .position(|(other, row)| large && (*other == number || u64_at(&row.value, 0x38) == size));
                let found = match extents {
                    Some(position) => {
                        let (_, row) = spare.swap_remove(position);
                        open_extents(pages, table, &row.value, integrity)?
                    }
                    None if large => {
                        return Err(Error::damaged(
                            "named stream",
                            0,
                            format!("the extents with number {number:#x}"),
                            "none",
                        ));
                    }
                    None => {
                        let Some(content) =
                            row.value.get(SUMMARY..).and_then(|content| content.get(..size as usize))
                        else {
                            return Err(Error::damaged(
                                "inline stream",
                                0,
                                format!("{size} bytes in the record"),
                                row.value.len(),
                            ));
                        };
                        StreamState {
                            size,
                            content: Content::Inline(content.to_vec()),
                            ..StreamState::empty(integrity)
                        }
                    }
                };
                named.push(FoundStream { name: row.name(), state: found });
            }
            STREAM_EXTENTS if row.rest().len() == 0x40 => {}
            _ => rest.push(row.clone()),
        }
    }
    record.rows = rest;
    Ok((own, named))
}

//! A stream's data: its size, and where its bytes are. Reading, and writing in place, need no other structure.

use crate::attributes;
use crate::extents::{Extents, Form};
use crate::geometry::Geometry;
use crate::layout::attribute::{Attribute, COUNTER, DATA, LIVE, NAMED_DATA, SINGLE, STREAM_EXTENTS, SUMMARY};
use crate::layout::record::{self};
use crate::layout::stream::{
    Sizes, counter_row, extents, extents_area, extents_number, extents_row, extents_value, inline_content,
    is_outside, is_snapshot, kind_word, named_row, outside_head, pad_named, raise_next_version,
    snapshot_head, snapshot_number, summary, version_number, version_row,
};
use crate::pages::Pages;
use crate::versions;
use platter_device::sync::{FILE, RwLock, RwLockReadGuard, RwLockWriteGuard};
use platter_vfs::{Access, Claim, Error, Noted, Pass, RangeLock, Result};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Where a stream's bytes are.
pub(crate) enum StreamContent {
    /// In the record.
    Inline(Vec<u8>),
    /// In clusters.
    Extents(Extents),
}

/// The part of a stream that its lock protects.
pub(crate) struct StreamState {
    /// The size of the stream in bytes.
    pub size: u64,
    /// Where the stream's bytes are.
    pub content: StreamContent,
    /// The valid data length: from this byte on the stream reads as zeroes, whatever its clusters hold. `None` if
    /// everything was written.
    pub unwritten: Option<u64>,
    /// Whether new data gets checksums.
    pub integrity: bool,
    /// Whether other streams may share some of the clusters.
    pub shared: bool,
    /// Whether no name leads to the stream any more: its clusters are given back when the last user is done.
    pub orphan: bool,
    /// Changes whenever clusters of the stream move.
    pub generation: Generation,
}

/// Counts how often clusters of a stream moved. A reader of clusters without checksums compares the count before and
/// after, without the stream's lock, to see whether they still belonged to the stream.
#[derive(Clone, Debug, Default)]
pub(crate) struct Generation(Arc<AtomicU64>);

impl Generation {
    /// The present generation.
    pub(crate) fn now(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    /// Begins a new generation, because clusters have moved. Called with the stream locked, before the old clusters are
    /// given up.
    pub(crate) fn advance(&self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }
}

/// Operations that a stream refuses, with the reason of each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Why the content cannot be read, if the clusters do not hold it as it is.
    pub unreadable: Option<&'static str>,
    /// Why the stream cannot be changed, if so.
    pub only_read: Option<&'static str>,
}

/// A stream, shared by all its users.
pub(crate) struct Stream {
    /// The node whose data the stream is.
    pub node: u64,
    state: RwLock<StreamState, FILE>,
    /// The same counter as in the state, readable without the lock.
    pub generation: Generation,
    /// The ranges in use by plans under way, and those claimed by a caller.
    ranges: RangeLock,
    /// When the stream was last written, in units of 100 ns since 1601, if `touched` is set.
    pub modified: AtomicU64,
    /// Whether the record does not have the time in `modified` yet.
    pub touched: AtomicBool,
    /// Whether the file has the read-only attribute.
    pub read_only: AtomicBool,
    /// Whether the stream is that of a symbolic link.
    pub is_link: AtomicBool,
    /// Operations that the stream refuses.
    pub limits: Limits,
    /// When the stream last got other clusters, in the order of commits.
    pub moved: Noted,
    /// Whether the node is to be forgotten once the last plan has ended.
    pub is_forgotten: AtomicBool,
    /// Whether the volume's list of streams leads to this one. A node keeps its number when it is forgotten and looked
    /// up again, and gets another stream; a plan that remembers the former one must not use it.
    pub is_listed: AtomicBool,
    /// Whether parts of the stream were written to other places since its clusters were last put together.
    pub is_scattered: AtomicBool,
}

impl Stream {
    /// A stream with this state, which no plan uses yet.
    pub(crate) fn new(node: u64, state: StreamState, read_only: bool, limits: Limits) -> Stream {
        Stream {
            node,
            generation: state.generation.clone(),
            state: RwLock::new(state),
            ranges: RangeLock::default(),
            modified: AtomicU64::new(0),
            touched: AtomicBool::new(false),
            read_only: AtomicBool::new(read_only),
            is_link: AtomicBool::new(false),
            limits,
            moved: Noted::default(),
            is_forgotten: AtomicBool::new(false),
            is_listed: AtomicBool::new(false),
            is_scattered: AtomicBool::new(false),
        }
    }

    /// Locks the state for reading.
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, StreamState, FILE> {
        self.state.read()
    }

    /// Locks the state for writing. A caller that needs the core's lock too takes that first.
    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, StreamState, FILE> {
        self.state.write()
    }

    /// Enters a plan into a range, see [`RangeLock::enter`].
    pub(crate) fn enter(
        &self,
        range: Range<u64>,
        access: Access,
        within: Option<&Claim<'_>>,
    ) -> Result<Pass> {
        self.ranges.enter(range, access, within)
    }

    /// Ends a plan's use of its range.
    pub(crate) fn leave(&self, pass: Pass) {
        self.ranges.leave(pass);
    }

    /// Whether no plan is under way.
    pub(crate) fn is_quiet(&self) -> bool {
        self.ranges.is_quiet()
    }

    /// Waits until no range is claimed. The caller must hold no lock and have no plan under way in the stream.
    pub(crate) fn wait_free(&self) {
        self.ranges.wait_free();
    }

    /// Claims a range that does not depend on the state, see [`RangeLock::claim`].
    pub(crate) fn claim(&self, range: Range<u64>, waits_for: Access) -> Claim<'_> {
        self.ranges.claim(&self.state, |_| range.clone(), waits_for)
    }

    /// Waits until the caller has the whole stream to itself.
    pub(crate) fn claim_all(&self) -> Claim<'_> {
        self.claim(0..u64::MAX, Access::Read)
    }
}

impl StreamState {
    /// Whether a write of whole clusters must have the stream to itself. It must if it begins after the end of a stream
    /// that ends inside a cluster, since the rest of that cluster must become zeroes, and if it ends after the valid
    /// data length, since everything unwritten before it must too. Without integrity it must also if it makes a stream
    /// longer that ends inside a cluster: the rest of that cluster is zeroed in place, where others may be writing.
    pub(crate) fn is_alone(&self, offset: u64, end: u64, geometry: &Geometry) -> bool {
        let ends_inside = !self.size.is_multiple_of(u64::from(geometry.cluster));
        let is_over_end = offset > self.size || !self.integrity && end > self.size;
        ends_inside && is_over_end || self.unwritten.is_some_and(|from| end > from)
    }

    /// An empty stream.
    pub(crate) fn empty(integrity: bool) -> StreamState {
        StreamState {
            size: 0,
            content: StreamContent::Inline(Vec::new()),
            unwritten: None,
            integrity,
            shared: false,
            orphan: false,
            generation: Generation::default(),
        }
    }

    /// The extents, unless the content is in the record.
    pub(crate) fn extents(&self) -> Option<&Extents> {
        match &self.content {
            StreamContent::Extents(extents) => Some(extents),
            StreamContent::Inline(_) => None,
        }
    }

    /// The valid data length: the bytes after it read as zeroes.
    pub(crate) fn valid(&self) -> u64 {
        self.unwritten.unwrap_or(self.size).min(self.size)
    }

    /// Notes that the stream was written up to the byte `end`, without a gap that would have to read as zeroes.
    pub(crate) fn extend(&mut self, end: u64, cluster: u64) {
        self.size = self.size.max(end);
        debug_assert!(self.size <= LARGEST, "no stream is larger than its runs can be");
        let Some(from) = self.unwritten else { return };
        self.unwritten = Some(from.max(end));
        // Clusters allocated after the end stay unwritten; without any, the whole stream is written.
        let StreamContent::Extents(extents) = &self.content else { return };
        if from.max(end) >= self.size && extents.end() <= self.size.div_ceil(cluster) {
            self.unwritten = None;
        }
    }

    /// If the stream has clusters after its end, notes that they are unwritten.
    pub(crate) fn note_ahead(&mut self, cluster: u64) {
        if self.extents().is_some_and(|extents| extents.end() > self.size.div_ceil(cluster)) {
            self.unwritten.get_or_insert(self.size);
        }
    }

    /// The bytes that the stream takes on the volume.
    pub(crate) fn allocated(&self, geometry: &Geometry) -> u64 {
        match &self.content {
            StreamContent::Inline(bytes) => (bytes.len() as u64).next_multiple_of(8),
            StreamContent::Extents(extents) => extents.clusters() * u64::from(geometry.cluster),
        }
    }

    /// The stream's sizes, as its row says them.
    fn sizes(&self, geometry: &Geometry) -> Sizes {
        Sizes { size: self.size, valid: self.valid(), allocated: self.allocated(geometry) }
    }

    /// Whether the stream has holes, as far as the number of clusters shows.
    pub(crate) fn is_sparse(&self, geometry: &Geometry) -> bool {
        let needed = self.size.div_ceil(u64::from(geometry.cluster));
        // Clusters after the end can hide holes before it, so the flag is then set in doubt: it does no harm.
        self.extents().is_some_and(|extents| {
            extents.clusters() < needed || self.unwritten.is_some() && extents.clusters() > needed
        })
    }
}

/// How the streams of a record are stored.
pub(crate) struct Storing<'a> {
    /// The form of the nodes that hold runs.
    pub form: Form,
    /// Whether the record has the integrity attribute. While the checksums of a file are computed or dropped, its streams
    /// differ from it.
    pub integrity: bool,
    /// Where pages with runs are stored.
    pub pages: &'a mut Pages,
    /// The clock of the checkpoint that the pages belong to.
    pub clock: u64,
}

impl Storing<'_> {
    /// The word of a stream that says which checksums its data has or would have.
    fn kind_word(&self) -> u32 {
        kind_word(self.pages.geometry.algorithm, self.integrity)
    }
}

/// Reads the value that holds a stream's extents.
fn open_extents(pages: &mut Pages, table: u64, value: &[u8], integrity: bool) -> Result<StreamState> {
    let area = extents_area(value)
        .map_err(|found| Error::damaged("stream's header", 0, "0x88 bytes", format!("{found:#x}")))?;
    let cluster = u64::from(pages.geometry.cluster);
    let size = extents::SIZE.of(value);
    if size > LARGEST {
        let at = extents::SIZE.at() as u64;
        return Err(Error::damaged("stream's size", at, format!("at most {LARGEST}"), size));
    }
    let counts = (extents::ALLOCATED.of(value) / cluster, extents::RUNS.of(value));
    let mut runs = Extents::open(pages, table, area, counts)?;
    // Whether the allocated size of Windows counts holes that have rows is not known. It may where a stream with holes
    // seems to have none. Leaves that cannot be read are reported when they are needed.
    if extents::VERSIONS.of(value) & extents::SPARSE != 0 && runs.clusters() >= runs.end() {
        runs.recount(pages).ok();
    }
    // Clusters after the end were allocated ahead: a stream that grows over them must not show their old content.
    let valid = extents::VALID.of(value);
    let is_ahead = valid < size || runs.end() > size.div_ceil(cluster);
    Ok(StreamState {
        size,
        content: StreamContent::Extents(runs),
        unwritten: is_ahead.then_some(valid.min(size)),
        integrity,
        shared: false,
        orphan: false,
        generation: Generation::default(),
    })
}

/// The largest size of a file in bytes: 2^32 − 2 clusters of 4 KiB, whatever the cluster size.
pub(crate) const LARGEST: u64 = (u32::MAX as u64 - 1) << 12;

/// Makes the attributes of a file's own data. `versions` is the number of its versions, snapshots included.
pub(crate) fn store_data(
    state: &mut StreamState,
    versions: u32,
    storing: &mut Storing<'_>,
) -> Result<Vec<Attribute>> {
    if let StreamContent::Inline(content) = &state.content {
        let allocated = content.len().next_multiple_of(8);
        let size = content.len() as u64;
        let mut value =
            summary::make(SUMMARY + allocated, allocated as u64, (size, size), storing.kind_word());
        value[SUMMARY..SUMMARY + content.len()].copy_from_slice(content);
        return Ok(vec![Attribute::new(SINGLE, DATA, 0, &[], 0, value)]);
    }
    let value = store_extents(state, versions, storing)?;
    Ok(vec![version_row(LIVE, 1, value)])
}

/// Updates the counter row of a record with runs, which holds the number for the next version of the data; adds one if
/// there is none.
pub(crate) fn store_counter(rows: &mut Vec<Attribute>) {
    let numbers = rows.iter().filter(|row| row.kind() == DATA && !row.is_single()).map(version_number);
    let Some(next) = numbers.filter(|&number| number != COUNTER).max().map(|last| last + 1) else { return };
    let position = rows.iter().position(is_counter).unwrap_or_else(|| {
        rows.push(counter_row(COUNTER));
        rows.len() - 1
    });
    raise_next_version(&mut rows[position].value, next);
}

/// Whether a row is the counter row, with the number for the next version of the data.
pub(crate) fn is_counter(row: &Attribute) -> bool {
    row.kind() == DATA && !row.is_single() && version_number(row) == COUNTER
}

/// The number for the next version of the data, from the attributes of a record; 0 if there is no counter row.
pub(crate) fn next_version(rows: &[Attribute]) -> u64 {
    let versions = rows.iter().filter(|row| row.kind() == DATA && !row.is_single());
    versions
        .map(
            |row| {
                if version_number(row) == COUNTER {
                    crate::layout::stream::next_version(&row.value)
                } else {
                    0
                }
            },
        )
        .max()
        .unwrap_or(0)
}

/// A snapshot of a file's data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Snapshot {
    /// The number of the version of the data that holds the snapshot's runs.
    pub number: u64,
    /// The value of the row that names the snapshot.
    pub head: Vec<u8>,
}

impl Snapshot {
    /// The reason in the error for a change of a snapshot.
    pub(crate) const KEPT: &str = "a snapshot stays as it was made";

    /// A snapshot of a stream in this state, with the runs under this number.
    pub(crate) fn new(number: u64, state: &StreamState, now: u64, geometry: &Geometry) -> Snapshot {
        let kind = kind_word(geometry.algorithm, state.integrity);
        let head = snapshot_head(number, state.sizes(geometry), kind, now);
        Snapshot { number, head }
    }
}

/// Makes the attributes of a snapshot: the row that names it, and its runs.
pub(crate) fn store_snapshot(
    state: &mut StreamState,
    name: &[u16],
    snapshot: &Snapshot,
    storing: &mut Storing<'_>,
) -> Result<Vec<Attribute>> {
    let value = store_extents(state, 1, storing)?;
    Ok(vec![named_row(name, snapshot.head.clone()), version_row(snapshot.number, 1, value)])
}

/// Stores the extents in pages where needed, and returns the value of the row that holds them.
fn store_extents(state: &mut StreamState, versions: u32, storing: &mut Storing<'_>) -> Result<Vec<u8>> {
    let StreamContent::Extents(extents) = &mut state.content else {
        return Err(Error::InvalidArgument("an inline stream has no extents"));
    };
    let stored = extents.store(storing.form, storing.pages, storing.clock)?;
    let geometry = &storing.pages.geometry;
    let holes = if state.is_sparse(geometry) { extents::SPARSE } else { 0 };
    let counts = (stored.leaf_pages, stored.runs);
    Ok(extents_value(state.sizes(geometry), versions | holes, storing.kind_word(), counts, &stored.node))
}

/// Makes the attributes of a named stream. `number` stands in both rows of one whose content is in clusters.
pub(crate) fn store_named(
    state: &mut StreamState,
    name: &[u16],
    number: u64,
    storing: &mut Storing<'_>,
) -> Result<Vec<Attribute>> {
    if let StreamContent::Inline(content) = &state.content {
        // The allocated size is exact here, by which other readers tell content in the record from extents.
        let size = content.len() as u64;
        let mut value = summary::make(SUMMARY + content.len(), size, (size, size), storing.kind_word());
        value[SUMMARY..].copy_from_slice(content);
        return Ok(vec![named_row(name, value)]);
    }
    let mut value = store_extents(state, 1, storing)?;
    pad_named(&mut value);
    let head = outside_head(number, state.sizes(&storing.pages.geometry), storing.kind_word());
    Ok(vec![named_row(name, head), extents_row(number, value)])
}

/// A named stream or a snapshot, read from a record.
pub(crate) struct FoundStream {
    /// The stream's name.
    pub name: Vec<u16>,
    /// The stream's size and content.
    pub state: StreamState,
    /// For a snapshot of the file's data, the fields that only a snapshot has.
    pub snapshot: Option<Snapshot>,
}

/// All streams read from a record.
pub(crate) struct FoundStreams {
    /// The file's own data.
    pub own: Option<StreamState>,
    /// The named streams, and the snapshots.
    pub named: Vec<FoundStream>,
    /// The reason why the node may only be read, if so.
    pub only_read: Option<&'static str>,
}

/// Moves the streams out of a record's attributes: the file's own data, the named streams and the snapshots.
pub(crate) fn take_streams(
    record: &mut record::Record,
    pages: &mut Pages,
    table: u64,
) -> Result<FoundStreams> {
    attributes::complete(record, pages)?;
    let are_spread = versions::are_spread(&record.rows);
    let mut taking = Taking {
        pages,
        table,
        integrity: record.attributes & record::Record::INTEGRITY != 0,
        spare: Vec::new(),
        versions: Vec::new(),
        lacking: Vec::new(),
    };
    let mut found = FoundStreams { own: None, named: Vec::new(), only_read: None };
    let (mut live, mut rest) = (None, Vec::new());
    let mut rows = Vec::new();
    for row in std::mem::take(&mut record.rows) {
        match row.kind() {
            STREAM_EXTENTS => match extents_number(&row) {
                Some(number) => taking.spare.push((number, row)),
                None => rest.push(row),
            },
            DATA if row.is_single() => {
                found.own.get_or_insert(taking.inline(&row.value, "inline data")?);
            }
            DATA if version_number(&row) == LIVE => live = Some(row),
            DATA if version_number(&row) != COUNTER => taking.versions.push((version_number(&row), row)),
            NAMED_DATA => rows.push(row),
            _ => rest.push(row),
        }
    }
    if let Some(row) = live {
        let state = taking.version(LIVE, &row.value)?;
        match &found.own {
            // Content that moved back into the record leaves a row with runs that hold none of it.
            Some(own) if own.size == state.size && extents::OWN.of(&row.value) == 0 && own.size > 0 => {
                rest.push(row)
            }
            _ => found.own = Some(state),
        }
    }
    for row in rows {
        match taking.named(&row)? {
            Some(stream) => found.named.push(stream),
            None => rest.push(row),
        }
    }
    if are_spread {
        taking.gather(&mut found)?;
    } else if found.named.iter().any(|named| named.snapshot.is_some())
        && let Some(StreamContent::Extents(extents)) = found.own.as_mut().map(|own| &mut own.content)
    {
        extents.give_holes_rows();
    }
    rest.extend(taking.spare.into_iter().chain(taking.versions).map(|(_, row)| row));
    found.only_read = attributes::only_read(record, &rest).or(are_spread.then_some(versions::SPREAD));
    record.rows = rest;
    Ok(found)
}

/// The state of taking streams out of a record.
struct Taking<'p> {
    pages: &'p mut Pages,
    table: u64,
    integrity: bool,
    /// The rows with runs of large named streams, by number.
    spare: Vec<(u64, Attribute)>,
    /// The rows with runs of snapshots, by number.
    versions: Vec<(u64, Attribute)>,
    /// The numbers of the versions that have runs for only a part of their clusters.
    lacking: Vec<u64>,
}

impl Taking<'_> {
    /// Reads content that stands in the record after a summary.
    fn inline(&self, value: &[u8], what: &'static str) -> Result<StreamState> {
        let size = summary::SIZE.of(value);
        let Some(content) = inline_content(value) else {
            return Err(Error::damaged(what, 0, format!("{size} bytes in the record"), value.len()));
        };
        let content = StreamContent::Inline(content.to_vec());
        Ok(StreamState { size, content, ..StreamState::empty(self.integrity) })
    }

    fn extents(&mut self, value: &[u8]) -> Result<StreamState> {
        open_extents(self.pages, self.table, value, self.integrity)
    }

    /// Reads the version of the data with this number.
    fn version(&mut self, number: u64, value: &[u8]) -> Result<StreamState> {
        if versions::lacks_runs(value) {
            self.lacking.push(number);
        }
        self.extents(value)
    }

    /// Gives each version of the data the runs that it takes from older ones.
    fn gather(&mut self, found: &mut FoundStreams) -> Result<()> {
        let kept =
            found.named.iter_mut().filter_map(|one| Some((one.snapshot.as_ref()?.number, &mut one.state)));
        let mut versions: Vec<(u64, &mut StreamState)> = kept.collect();
        versions.sort_by_key(|(number, _)| *number);
        versions.extend(found.own.as_mut().map(|own| (LIVE, own)));
        let cluster = u64::from(self.pages.geometry.cluster);
        let mut older = Vec::new();
        for (number, state) in versions {
            let end = state.size.div_ceil(cluster).min(u64::from(u32::MAX)) as u32;
            if let StreamContent::Extents(extents) = &mut state.content {
                versions::resolve(extents, self.lacking.contains(&number), end, &mut older, self.pages)?;
            }
        }
        Ok(())
    }

    /// Reads a named stream or a snapshot; `None` if the row is neither.
    fn named(&mut self, row: &Attribute) -> Result<Option<FoundStream>> {
        let name = row.name();
        if is_snapshot(&row.value) {
            let number = snapshot_number(&row.value);
            let Some(position) = self.versions.iter().position(|(other, _)| *other == number) else {
                return Ok(None);
            };
            let (_, runs) = self.versions.swap_remove(position);
            let state = self.version(number, &runs.value)?;
            let snapshot = Some(Snapshot { number, head: row.value.clone() });
            return Ok(Some(FoundStream { name, state, snapshot }));
        }
        if summary::NAMED.of(&row.value) != 0 {
            return Ok(None);
        }
        let (size, number) = (summary::SIZE.of(&row.value), summary::NUMBER.of(&row.value));
        let large = is_outside(&row.value);
        let of = |is_its: &dyn Fn(&(u64, Attribute)) -> bool| self.spare.iter().position(is_its);
        let runs = of(&|(other, _)| *other == number)
            .or_else(|| of(&|(_, runs)| extents::SIZE.of(&runs.value) == size));
        let state = match runs.filter(|_| large) {
            Some(position) => {
                let (_, runs) = self.spare.swap_remove(position);
                self.extents(&runs.value)?
            }
            // A stream in the record whose row is just as long as the row of a large stream is told from it by its
            // size.
            None if large && size != (row.value.len() - SUMMARY) as u64 => {
                let expected = format!("the extents with number {number:#x}");
                return Err(Error::damaged("named stream", 0, expected, "none"));
            }
            None => self.inline(&row.value, "inline stream")?,
        };
        Ok(Some(FoundStream { name, state, snapshot: None }))
    }
}

//! A database: a B+-tree of pages in a file, a cache of a given size, and a log from which a crash is recovered.
//!
//! A page has two places in the file and is written to them alternately, so that a torn write leaves the older copy
//! intact. (ESE overwrites pages in place, and relies on the storage not to tear them.) A page is written only after
//! the log holds its changes durably.

use super::change::Change;
use super::log::{CONTENT, Log};
use super::page::{Kind, PAGE, Page, record, version};
use super::store::{Store, Whose};
use crate::{Error, Result};
use platter_device::Buffer;
use platter_device::sync::{self, Condvar, Mutex, MutexGuard};
use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::time::Duration;

/// The parameters that a database is created with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// The number of records in a new database.
    pub records: u64,
    /// The number of pages that the database can grow to.
    pub pages: u64,
    /// The number of pages in the cache.
    pub cache: usize,
    /// The bytes of log that a replay may have to read; when there are more, the pages that were changed earliest are
    /// written.
    pub depth: u64,
}

impl Shape {
    /// Returns the shape for so many records, a cache of so many bytes, and a replay of at most `depth` bytes.
    pub(super) fn of(records: u64, cache: u64, depth: u64) -> Shape {
        // New leaves are three quarters full, and the file has room for twice as many pages.
        let leaves = records.div_ceil(FILLED as u64);
        Shape {
            records,
            pages: leaves * 2 + leaves / 64 + 512,
            cache: (cache as usize / PAGE).max(64),
            depth,
        }
    }

    /// The length of the database's file in bytes.
    pub(super) fn file_bytes(&self) -> u64 {
        PAGES_AT + self.pages * 2 * PAGE as u64
    }

    fn segments(&self) -> u64 {
        // Changes wait for a checkpoint when half of the segments are in use; the other half has room for changes that
        // are made while the checkpoint is written.
        (self.depth * 4 / CONTENT) + (32 << 20) / CONTENT
    }

    /// The length of the log's file in bytes.
    pub(super) fn log_bytes(&self) -> u64 {
        self.segments() * super::log::SEGMENT as u64
    }
}

/// The number of records on each leaf of a new database.
const FILLED: usize = 24;
/// The offset of the first page in the file. Before it there are places for two heads, which hold the information for
/// opening.
const PAGES_AT: u64 = 64 << 10;
const HEAD: usize = 4096;

// The head is before the pages, which are aligned.
const _: () = assert!(HEAD as u64 <= PAGES_AT && PAGES_AT.is_multiple_of(4096));

/// The rank of a lock that is held while files are written, and so is taken before every lock of a volume.
const BEFORE_ALL: u8 = 0;

const MAGIC: u64 = u64::from_le_bytes(*b"plattrdb");
const ROOT: u64 = 1;
/// The number of pages that maintenance reads at once (256 KiB with both places of each), and the pause after that:
/// ESE's defaults.
const SCANNED: u64 = 4;
const SCAN_PAUSE: Duration = Duration::from_millis(20);

/// A page in the cache.
struct Frame {
    page: Page,
    /// The log position of the first change that the page's copy in the file lacks; `None` if it lacks none.
    since: Option<u64>,
    /// The same position for changes that were made while the page was being written.
    next_since: Option<u64>,
    is_writing: bool,
    /// Whether the page was used since the cache last considered dropping it.
    is_used: bool,
}

impl Frame {
    fn clean(page: Page) -> Frame {
        Frame { page, since: None, next_since: None, is_writing: false, is_used: true }
    }
}

#[derive(Default)]
struct DatabaseState {
    frames: HashMap<u64, Frame>,
    /// The pages of the cache, in the order in which they are considered for dropping (the clock algorithm).
    clock: VecDeque<u64>,
    /// For each page, which of its two places has the newer copy, if that is known.
    sides: Vec<Option<u8>>,
    loading: HashSet<u64>,
    /// The pages whose copy in the file lacks changes, ordered by the log position of the first of these changes.
    unwritten: BTreeSet<(u64, u64)>,
    /// The number of the last page in use.
    last: u64,
    /// The sequence number of the head that was written last.
    sequence: u64,
}

impl DatabaseState {
    fn insert(&mut self, number: u64, page: Page) {
        self.frames.insert(number, Frame::clean(page));
        self.clock.push_back(number);
    }
}

/// The result of an attempt at an operation under the lock.
enum Outcome<T> {
    Done(T),
    /// The operation made no change, because this page must be read into the cache first.
    Needs(u64),
}

/// A database with its log, open.
pub(super) struct Database {
    pub store: Store,
    pub log: Log,
    stamp: u64,
    shape: Shape,
    state: Mutex<DatabaseState>,
    changed: Condvar,
    /// Held while a head is written, so that heads are written one at a time and one of the two is always intact.
    heads: Mutex<(), BEFORE_ALL>,
}

impl Database {
    #[cfg(test)]
    pub(super) fn create(file: Store, log: Store, stamp: u64, shape: Shape) -> Result<Database> {
        Database::create_unless(file, log, stamp, shape, &|| false)
    }

    /// Creates a database in two files that are as long as its [`Shape`] says.
    ///
    /// # Errors
    /// [`Error::Interrupted`] when `stop` says so.
    pub(super) fn create_unless(
        file: Store,
        log: Store,
        stamp: u64,
        shape: Shape,
        stop: &dyn Fn() -> bool,
    ) -> Result<Database> {
        let database = Database::new(file, log, stamp, shape, 0);
        let mut writer =
            Writer { database: &database, buffer: Buffer::new(1 << 20), first: 2, count: 0, stop };
        let mut level: Vec<(u64, u64)> = Vec::new();
        let mut next = 2;
        let keys: Vec<u64> = (0..shape.records).map(|number| key_of(number, shape.records)).collect();
        for keys in keys.chunks(FILLED) {
            let mut page = Page::new(Kind::Leaf, next, stamp);
            for &key in keys {
                page.put(key, &record(key, 1));
            }
            writer.add(&mut page)?;
            level.push((keys[0], next));
            next += 1;
        }
        while level.len() > 1024 {
            let mut above = Vec::new();
            for children in level.chunks(1024) {
                let mut page = Page::new(Kind::Branch, next, stamp);
                children.iter().for_each(|(key, child)| page.put(*key, &child.to_le_bytes()));
                writer.add(&mut page)?;
                above.push((children[0].0, next));
                next += 1;
            }
            level = above;
        }
        // All pages that the database can grow to are written too, because a file that grows would be another load.
        for number in next..=shape.pages {
            writer.add(&mut Page::new(Kind::Leaf, number, stamp.wrapping_add(1)))?;
        }
        writer.end()?;
        let kind = if level.is_empty() { Kind::Leaf } else { Kind::Branch };
        let mut root = Page::new(kind, ROOT, stamp);
        for (index, (key, child)) in level.iter().enumerate() {
            // The first entry of a branch has the key 0, because all smaller keys belong below it too.
            root.put(if index == 0 { 0 } else { *key }, &child.to_le_bytes());
        }
        let mut both = Buffer::new(2 * PAGE);
        both.fill(0);
        both[..PAGE].copy_from_slice(root.sealed());
        database.store.write_loosely(PAGES_AT, &both)?;
        // The zeroes allocate the space of the whole log. Segments of an earlier log would be ignored, as their stamp
        // differs.
        let zeroes = Buffer::new(1 << 20);
        for offset in (0..shape.log_bytes()).step_by(1 << 20) {
            let length = (shape.log_bytes() - offset).min(1 << 20) as usize;
            database.log.store.write_loosely(offset, &zeroes[..length])?;
        }
        database.log.store.sync()?;
        database.store.sync()?;
        {
            let mut state = database.lock();
            state.last = next - 1;
            state.sides = vec![Some(0); next as usize];
        }
        database.write_head()?;
        Ok(database)
    }

    fn new(file: Store, log: Store, stamp: u64, shape: Shape, first: u64) -> Database {
        let log = Log::new(log, stamp, shape.segments(), first);
        let (state, changed) = (Mutex::default(), Condvar::new());
        Database { store: file, log, stamp, shape, state, changed, heads: Mutex::default() }
    }

    /// Opens a database, and applies the changes that its log holds and its pages lack.
    ///
    /// # Errors
    /// [`Error::Job`] that states the damage.
    pub(super) fn open(file: Store, log: Store, shape: Shape) -> Result<Database> {
        let mut head = Buffer::new(2 * HEAD);
        file.read(0, &mut head, Whose::Work)?;
        let heads = head.chunks(HEAD).filter_map(Head::read);
        let Some(head) = heads.max_by_key(|head| head.sequence) else {
            return Err(Error::Job("neither head of the database is whole".into()));
        };
        if head.last > shape.pages || head.segments != shape.segments() {
            return Err(Error::Job("the database has another shape".into()));
        }
        let mut database = Database::new(file, log, head.stamp, shape, head.needed / CONTENT);
        {
            let mut state = database.lock();
            (state.last, state.sequence) = (head.last, head.sequence);
            state.sides = vec![None; shape.pages as usize + 1];
        }
        // A killed process may have written log segments that are not durable yet; they must be durable before pages
        // are written.
        database.log.store.sync()?;
        let next = database
            .log
            .replay(head.needed, &mut |begin, end, change| database.again(begin, end, &change))?;
        // The log continues a whole ring later: then segments that a crash left behind have numbers that the log never
        // reaches.
        let first = next + shape.segments();
        database.log.go_on(first);
        database.write_all()?;
        database.write_head()?;
        Ok(database)
    }

    fn lock(&self) -> MutexGuard<'_, DatabaseState> {
        self.state.lock()
    }

    /// Applies a change from the log to those of its pages that lack it.
    fn again(&self, begin: u64, end: u64, change: &Change) -> Result<()> {
        for number in change.pages() {
            if number == 0 || number > self.shape.pages {
                return Err(Error::Job(format!(
                    "the log at {begin}: expected a page up to {}, found {number}",
                    self.shape.pages
                )));
            }
            self.load(number, change.made() == Some(number))?;
            let mut state = self.lock();
            state.last = state.last.max(number);
            let Some(frame) = state.frames.get_mut(&number) else { continue };
            if frame.page.position() < end {
                change.apply(number, &mut frame.page);
                self.mark(&mut state, number, begin, end);
            }
        }
        Ok(())
    }

    /// Logs a change and applies it; returns the log position after it. All pages of the change must be in the cache,
    /// or new.
    fn make(&self, state: &mut DatabaseState, change: &Change) -> u64 {
        let (begin, end) = self.log.append(change);
        if let Some(made) = change.made() {
            state.insert(made, Page::new(Kind::Leaf, made, self.stamp));
            state.last = made;
            if state.sides.len() <= made as usize {
                state.sides.resize(made as usize + 1, None);
            }
            // Neither place holds the page yet; with 1 as the newer one, the first write goes to place 0.
            state.sides[made as usize] = Some(1);
        }
        for number in change.pages() {
            if let Some(frame) = state.frames.get_mut(&number) {
                change.apply(number, &mut frame.page);
            }
            self.mark(state, number, begin, end);
        }
        end
    }

    /// Notes that a page in the cache was modified by the change that lies in the log from `begin` to `end`.
    fn mark(&self, state: &mut DatabaseState, number: u64, begin: u64, end: u64) {
        let Some(frame) = state.frames.get_mut(&number) else { return };
        frame.page.set_position(end);
        frame.is_used = true;
        if frame.is_writing {
            frame.next_since.get_or_insert(begin);
        } else if frame.since.is_none() {
            frame.since = Some(begin);
            state.unwritten.insert((begin, number));
        }
    }

    /// Runs an operation under the lock; reads the pages that it needs into the cache and tries again until it is done.
    fn with<T>(&self, mut act: impl FnMut(&mut DatabaseState) -> Result<Outcome<T>>) -> Result<T> {
        loop {
            let outcome = act(&mut self.lock())?;
            match outcome {
                Outcome::Done(value) => return Ok(value),
                Outcome::Needs(number) => self.load(number, false)?,
            }
        }
    }

    /// Returns the pages on the path from the root to the leaf that a key belongs to.
    fn way(&self, state: &mut DatabaseState, key: u64) -> Result<Outcome<Vec<u64>>> {
        let mut way = vec![ROOT];
        loop {
            let number = way[way.len() - 1];
            let Some(frame) = state.frames.get_mut(&number) else { return Ok(Outcome::Needs(number)) };
            frame.is_used = true;
            if frame.page.kind() == Kind::Leaf {
                return Ok(Outcome::Done(way));
            }
            if frame.page.count() == 0 || way.len() > 8 {
                return Err(Error::Job(format!("page {number}: a branch leads nowhere")));
            }
            way.push(frame.page.child(frame.page.way(key)));
        }
    }

    /// Returns a key with the version of its record; with `nearest`, of the next existing key if the key itself does
    /// not exist.
    pub(super) fn seek(&self, key: u64, nearest: bool) -> Result<Option<(u64, u64)>> {
        self.with(|state| {
            let way = match self.way(state, key)? {
                Outcome::Done(way) => way,
                Outcome::Needs(number) => return Ok(Outcome::Needs(number)),
            };
            let leaf = way[way.len() - 1];
            let page = &state.frames[&leaf].page;
            let index = match page.find(key) {
                Ok(index) => Some(index),
                Err(index) if nearest => index.min(page.count().saturating_sub(1)).into(),
                Err(_) => None,
            };
            let Some(index) = index.filter(|&index| index < page.count()) else {
                return Ok(Outcome::Done(None));
            };
            let found = page.key(index);
            match version(found, page.value(index)) {
                Some(version) => Ok(Outcome::Done(Some((found, version)))),
                None => Err(Error::Job(format!("page {leaf}: the record of key {found} is damaged"))),
            }
        })
    }

    /// Inserts or replaces a key's record; returns the position up to which the log must be durable for that.
    pub(super) fn put(&self, key: u64, version: u64) -> Result<u64> {
        let value = record(key, version).to_vec();
        self.await_room()?;
        self.with(|state| {
            loop {
                let way = match self.way(state, key)? {
                    Outcome::Done(way) => way,
                    Outcome::Needs(number) => return Ok(Outcome::Needs(number)),
                };
                // The topmost full page on the path is divided first, so that every parent has room for one more entry.
                let full = way.iter().position(|number| {
                    let page = &state.frames[number].page;
                    page.is_full() && (page.kind() == Kind::Branch || page.find(key).is_err())
                });
                let Some(full) = full else {
                    let leaf = way[way.len() - 1];
                    return Ok(Outcome::Done(
                        self.make(state, &Change::Put { leaf, key, value: value.clone() }),
                    ));
                };
                let change = self.divide(state, &way, full)?;
                self.make(state, &change);
            }
        })
    }

    /// Returns the change that makes room in the full page at index `full` of the path.
    fn divide(&self, state: &DatabaseState, way: &[u64], full: usize) -> Result<Change> {
        let made = state.last + 1;
        if made > self.shape.pages {
            return Err(Error::Job(format!("the database is full: it has {} pages", self.shape.pages)));
        }
        let page = &state.frames[&way[full]].page;
        let kind = page.kind();
        if full == 0 {
            return Ok(Change::Grow { root: ROOT, child: made, kind, entries: page.entries(0).to_vec() });
        }
        let kept = page.count() / 2;
        Ok(Change::Split {
            left: way[full],
            kept: kept as u32,
            right: made,
            kind,
            parent: way[full - 1],
            separator: page.key(kept),
            entries: page.entries(kept).to_vec(),
        })
    }

    /// Whether enough pages are left for more records.
    pub(super) fn has_room(&self) -> bool {
        self.lock().last + 256 < self.shape.pages
    }

    /// Deletes a key if it exists; returns the position up to which the log must be durable for that.
    pub(super) fn delete(&self, key: u64) -> Result<u64> {
        self.await_room()?;
        self.with(|state| {
            let way = match self.way(state, key)? {
                Outcome::Done(way) => way,
                Outcome::Needs(number) => return Ok(Outcome::Needs(number)),
            };
            let leaf = way[way.len() - 1];
            Ok(Outcome::Done(match state.frames[&leaf].page.find(key) {
                Ok(_) => self.make(state, &Change::Delete { leaf, key }),
                Err(_) => self.log.end(),
            }))
        })
    }

    /// Waits for checkpoints while the log has too little room for further changes.
    fn await_room(&self) -> Result<()> {
        while self.log.is_crowded() {
            self.checkpoint()?;
        }
        Ok(())
    }

    /// Reads a page into the cache. With `may_be_new`, it may be in neither place, because a change of the log creates
    /// it.
    fn load(&self, number: u64, may_be_new: bool) -> Result<()> {
        let mut state = self.lock();
        loop {
            if state.frames.contains_key(&number) {
                return Ok(());
            }
            if state.loading.insert(number) {
                break;
            }
            state = self.changed.wait(state);
        }
        drop(state);
        let read = self.make_room().and_then(|()| self.read(number, may_be_new));
        let mut state = self.lock();
        state.loading.remove(&number);
        let outcome = read.map(|(page, side)| {
            state.sides[number as usize] = Some(side);
            state.insert(number, page);
        });
        self.changed.notify_all();
        outcome
    }

    fn place(number: u64, side: u8) -> u64 {
        PAGES_AT + ((number - 1) * 2 + u64::from(side)) * PAGE as u64
    }

    /// Returns the newer intact copy of a page, and in which of its two places that is.
    fn read(&self, number: u64, may_be_new: bool) -> Result<(Page, u8)> {
        let side = match self.lock().sides.get(number as usize) {
            Some(side) => *side,
            None => return Err(Error::Job(format!("page {number}: the database has no such page"))),
        };
        if let Some(side) = side {
            let mut bytes = Buffer::new(PAGE);
            self.store.read(Self::place(number, side), &mut bytes, Whose::Work)?;
            return match Page::of(&bytes, number, self.stamp) {
                Some(page) => Ok((page, side)),
                None => Err(Error::Job(format!("page {number}: its checksum is wrong"))),
            };
        }
        let mut both = Buffer::new(2 * PAGE);
        self.store.read(Self::place(number, 0), &mut both, Whose::Work)?;
        let there = (0..2).zip(both.chunks(PAGE));
        let whole =
            there.filter_map(|(side, bytes)| Page::of(bytes, number, self.stamp).map(|page| (page, side)));
        match whole.max_by_key(|(page, _)| page.position()) {
            Some(found) => Ok(found),
            None if may_be_new => Ok((Page::new(Kind::Leaf, number, self.stamp), 1)),
            None => Err(Error::Job(format!("page {number}: neither of its places holds it whole"))),
        }
    }

    /// Drops pages from the cache until there is room for one more; a changed page is written before it is dropped.
    fn make_room(&self) -> Result<()> {
        let mut looked = 0;
        loop {
            let mut state = self.lock();
            if state.frames.len() < self.shape.cache {
                return Ok(());
            }
            let Some(number) = state.clock.pop_front() else { return Ok(()) };
            let most = 3 * state.frames.len();
            let Some(frame) = state.frames.get_mut(&number) else { continue };
            looked += 1;
            if frame.is_writing || std::mem::take(&mut frame.is_used) || number == ROOT {
                state.clock.push_back(number);
                if looked > most {
                    // All pages that could be dropped are being written.
                    let wait = Duration::from_millis(1);
                    drop(self.changed.wait_timeout(state, wait));
                    looked = 0;
                }
                continue;
            }
            if frame.since.is_none() {
                state.frames.remove(&number);
                continue;
            }
            state.clock.push_front(number);
            drop(state);
            self.write_page(number)?;
        }
    }

    /// Writes a page to the place with its older copy, after making the log durable up to the page's last change.
    fn write_page(&self, number: u64) -> Result<()> {
        let mut state = self.lock();
        let Some(frame) = state.frames.get_mut(&number).filter(|frame| frame.since.is_some()) else {
            return Ok(());
        };
        if frame.is_writing {
            drop(self.changed.wait_timeout(state, Duration::from_millis(1)));
            return Ok(());
        }
        frame.is_writing = true;
        let mut page = frame.page.copy();
        let side = 1 - state.sides[number as usize].unwrap_or(1);
        drop(state);
        let written = self
            .log
            .flush(page.position())
            .and_then(|()| self.store.write(Self::place(number, side), page.sealed()));
        let mut guard = self.lock();
        let state = &mut *guard;
        if let Some(frame) = state.frames.get_mut(&number) {
            frame.is_writing = false;
            let changed = frame.next_since.take();
            if written.is_ok() {
                if let Some(since) = std::mem::replace(&mut frame.since, changed) {
                    state.unwritten.remove(&(since, number));
                }
                if let Some(since) = changed {
                    state.unwritten.insert((since, number));
                }
                state.sides[number as usize] = Some(side);
            }
        }
        self.changed.notify_all();
        written
    }

    /// Writes all pages whose copy in the file lacks changes.
    fn write_all(&self) -> Result<()> {
        loop {
            let oldest = self.lock().unwritten.first().copied();
            match oldest {
                Some((_, number)) => self.write_page(number)?,
                None => return Ok(()),
            }
        }
    }

    /// Writes the pages that were changed earliest until a replay would read no more than [`Shape::depth`] bytes of
    /// log, and records in the head where a replay begins.
    pub(super) fn checkpoint(&self) -> Result<()> {
        loop {
            let oldest = self.lock().unwritten.first().copied();
            match oldest {
                Some((since, number)) if self.log.end().saturating_sub(since) > self.shape.depth => {
                    self.write_page(number)?;
                }
                _ => break,
            }
        }
        match self.log.depth() > self.shape.depth + self.shape.depth / 8 {
            true => self.write_head(),
            false => Ok(()),
        }
    }

    /// Writes a head with the log position from which a replay begins.
    fn write_head(&self) -> Result<()> {
        let _alone = self.heads.lock();
        let (needed, last, sequence) = {
            let mut state = self.lock();
            let needed = state.unwritten.first().map_or_else(|| self.log.end(), |(since, _)| *since);
            state.sequence += 1;
            (needed, state.last, state.sequence)
        };
        self.log.flush(needed)?;
        let head = Head { sequence, stamp: self.stamp, needed, last, segments: self.shape.segments() };
        self.store.write(sequence % 2 * HEAD as u64, &head.bytes())?;
        self.log.forget(needed);
        Ok(())
    }

    /// Writes all changes, so that the next opening has nothing to replay.
    pub(super) fn close(&self) -> Result<()> {
        self.log.flush(self.log.end())?;
        self.write_all()?;
        self.write_head()
    }

    /// Reads some pages of the file in order and verifies their checksums, as ESE does in the background; returns the
    /// number of the page to continue with.
    pub(super) fn maintain(&self, from: u64) -> Result<u64> {
        let (last, before) = {
            let state = self.lock();
            let last = state.last;
            let from = if from > last { 1 } else { from };
            let range = from..(from + SCANNED).min(last + 1);
            let sides: Vec<Option<u8>> = range.clone().map(|number| state.sides[number as usize]).collect();
            (last, (range, sides))
        };
        let (range, sides) = before;
        let mut bytes = Buffer::new(((range.end - range.start) as usize * 2 * PAGE).max(PAGE));
        self.store.read(Self::place(range.start, 0), &mut bytes, Whose::Maintenance)?;
        for ((number, side), both) in range.clone().zip(sides).zip(bytes.chunks(2 * PAGE)) {
            let Some(side) = side else { continue };
            // Copies that were never written, or that were written since they were read, are not verified.
            let is_same = self.lock().sides[number as usize] == Some(side);
            let is_new = self.lock().frames.get(&number).is_some_and(|frame| frame.since.is_some());
            let place = &both[usize::from(side) * PAGE..][..PAGE];
            if is_same && !is_new && Page::of(place, number, self.stamp).is_none() {
                return Err(Error::Job(format!("page {number}: its checksum is wrong")));
            }
        }
        sync::sleep(SCAN_PAUSE);
        Ok(if range.end > last { 1 } else { range.end })
    }

    /// Walks the whole tree; returns all keys in order, with the versions of their records.
    ///
    /// # Errors
    /// [`Error::Job`] for the first page that is damaged or out of order.
    pub(super) fn all(&self) -> Result<Vec<(u64, u64)>> {
        let mut found = Vec::new();
        let mut open = vec![(ROOT, 0, u64::MAX)];
        let mut pages = 0;
        while let Some((number, from, to)) = open.pop() {
            pages += 1;
            if number == 0 || number > self.shape.pages || pages > self.shape.pages {
                return Err(Error::Job(format!("page {number}: the tree has no end")));
            }
            let page = self.with(|state| {
                Ok(match state.frames.get(&number) {
                    Some(frame) => Outcome::Done(frame.page.copy()),
                    None => Outcome::Needs(number),
                })
            })?;
            let keys: Vec<u64> = (0..page.count()).map(|index| page.key(index)).collect();
            let in_order = keys.windows(2).all(|pair| pair[0] < pair[1]);
            let inside = keys.iter().all(|key| (from..=to).contains(key));
            if !in_order || !inside {
                return Err(Error::Job(format!("page {number}: its keys are out of order")));
            }
            match page.kind() {
                Kind::Leaf => {
                    for (index, key) in keys.into_iter().enumerate() {
                        let Some(version) = version(key, page.value(index)) else {
                            return Err(Error::Job(format!(
                                "page {number}: the record of key {key} is damaged"
                            )));
                        };
                        found.push((key, version));
                    }
                }
                Kind::Branch => {
                    for index in (0..page.count()).rev() {
                        let end = keys.get(index + 1).map_or(to, |next| next - 1);
                        open.push((page.child(index), if index == 0 { from } else { keys[index] }, end));
                    }
                }
            }
        }
        Ok(found)
    }
}

/// Returns the key of a record in a new database: the keys are evenly spaced, in the order of `number`.
pub(super) fn key_of(number: u64, records: u64) -> u64 {
    (u64::MAX / (records + 1)) * (number + 1)
}

/// A head: the information for opening a database.
struct Head {
    sequence: u64,
    stamp: u64,
    /// The log position from which a replay begins.
    needed: u64,
    last: u64,
    segments: u64,
}

impl Head {
    fn bytes(&self) -> Buffer {
        let mut bytes = Buffer::new(HEAD);
        bytes.fill(0);
        let words = [MAGIC, self.sequence, self.stamp, self.needed, self.last, self.segments];
        for (word, at) in words.iter().zip((8..).step_by(8)) {
            bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
        }
        let sum = crc32fast::hash(&bytes[8..]);
        bytes[..4].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    fn read(bytes: &[u8]) -> Option<Head> {
        let word = |index: usize| {
            let at = 8 + index * 8;
            u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
        };
        let sum = u32::from_le_bytes(bytes[..4].try_into().expect("four bytes"));
        let is_it = word(0) == MAGIC && crc32fast::hash(&bytes[8..]) == sum;
        is_it.then(|| Head {
            sequence: word(1),
            stamp: word(2),
            needed: word(3),
            last: word(4),
            segments: word(5),
        })
    }
}

/// Writes consecutive pages of a new database, each with both its places.
struct Writer<'a> {
    database: &'a Database,
    buffer: Buffer,
    first: u64,
    count: usize,
    stop: &'a dyn Fn() -> bool,
}

impl Writer<'_> {
    fn add(&mut self, page: &mut Page) -> Result<()> {
        let at = self.count * 2 * PAGE;
        self.buffer[at..at + PAGE].copy_from_slice(page.sealed());
        // The second place is written too, so that its space is allocated from the beginning.
        self.buffer[at + PAGE..at + 2 * PAGE].fill(0);
        self.count += 1;
        match (self.count + 1) * 2 * PAGE > self.buffer.len() {
            true => self.end(),
            false => Ok(()),
        }
    }

    fn end(&mut self) -> Result<()> {
        if (self.stop)() {
            return Err(Error::Interrupted);
        }
        let length = self.count * 2 * PAGE;
        self.database.store.write_loosely(Database::place(self.first, 0), &self.buffer[..length])?;
        self.first += self.count as u64;
        self.count = 0;
        Ok(())
    }
}

//! A database: a B+-tree of pages in a file, a cache of stated size, and a log that puts right what a stop cut off.
//!
//! A page has two places in the file and is written to them in turn, so that one that was torn leaves the one before it. (ESE
//! overwrites in place, and leaves it to the storage not to tear.) It is written after the log holds its changes.

use super::change::Change;
use super::log::{CONTENT, Log};
use super::page::{Kind, PAGE, Page, record, version};
use super::store::{Store, Whose};
use crate::{Error, Result};
use platter_device::Buffer;
use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

/// What a database is made with.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Records that it begins with.
    pub records: u64,
    /// Pages that it can grow to.
    pub pages: u64,
    /// Pages that its cache holds.
    pub cache: usize,
    /// Bytes of log that a replay may have to read: when there are more, the pages that were changed first are written.
    pub depth: u64,
}

impl Shape {
    /// Of so many records, and a cache of so many bytes.
    pub fn of(records: u64, cache: u64, depth: u64) -> Shape {
        // Filled to three quarters, and twice as many for what is added.
        let leaves = records.div_ceil(FILLED as u64);
        Shape {
            records,
            pages: leaves * 2 + leaves / 64 + 512,
            cache: (cache as usize / PAGE).max(64),
            depth,
        }
    }

    /// Bytes of its file.
    pub fn file_bytes(&self) -> u64 {
        PAGES_AT + self.pages * 2 * PAGE as u64
    }

    fn segments(&self) -> u64 {
        // What changes do not wait for, and as much again while a checkpoint is on its way.
        (self.depth * 4 / CONTENT) + (32 << 20) / CONTENT
    }

    /// Bytes of its log.
    pub fn log_bytes(&self) -> u64 {
        self.segments() * super::log::SEGMENT as u64
    }
}

/// Records of a page when a database is made.
const FILLED: usize = 24;
/// Where pages begin; before them are two places for what opening needs to know.
const PAGES_AT: u64 = 64 << 10;
const HEAD: usize = 4096;
const MAGIC: u64 = u64::from_le_bytes(*b"plattrdb");
const ROOT: u64 = 1;
/// Pages that maintenance reads at once (256 KiB with both places of each), and how long it waits then: ESE's default.
const SCANNED: u64 = 4;
const SCAN_PAUSE: Duration = Duration::from_millis(20);

/// A page in the cache.
struct Frame {
    page: Page,
    /// Where in the log the first change begins that its place in the file lacks.
    since: Option<u64>,
    /// The same of changes that came while it was being written.
    next_since: Option<u64>,
    is_writing: bool,
    /// Used since the cache last looked for one to give up.
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
    /// Pages of the cache, in the order in which they are looked at to be given up.
    clock: VecDeque<u64>,
    /// Which place of each page is the newer one, where that is known.
    sides: Vec<Option<u8>>,
    loading: HashSet<u64>,
    /// Pages that lack something in the file, by where in the log that begins.
    unwritten: BTreeSet<(u64, u64)>,
    /// The last page.
    last: u64,
    /// Of the head that was written last.
    sequence: u64,
}

impl DatabaseState {
    fn insert(&mut self, number: u64, page: Page) {
        self.frames.insert(number, Frame::clean(page));
        self.clock.push_back(number);
    }
}

/// What an operation came to under the lock.
enum Outcome<T> {
    Done(T),
    /// The operation stopped: this page must be read first.
    Needs(u64),
}

/// A database.
pub struct Database {
    pub store: Store,
    pub log: Log,
    stamp: u64,
    shape: Shape,
    state: Mutex<DatabaseState>,
    changed: Condvar,
    /// Held while a head is written: of the two one is always whole.
    heads: Mutex<()>,
}

impl Database {
    /// Makes one in two files that are as long as its [`Shape`] says.
    pub fn create(file: Store, log: Store, stamp: u64, shape: Shape) -> Result<Database> {
        let database = Database::new(file, log, stamp, shape, 0);
        let mut writer = Writer { database: &database, buffer: Buffer::new(1 << 20), first: 2, count: 0 };
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
        // What the database can grow to is there too: a file that grows is another load.
        for number in next..=shape.pages {
            writer.add(&mut Page::new(Kind::Leaf, number, stamp.wrapping_add(1)))?;
        }
        writer.end()?;
        let kind = if level.is_empty() { Kind::Leaf } else { Kind::Branch };
        let mut root = Page::new(kind, ROOT, stamp);
        for (index, (key, child)) in level.iter().enumerate() {
            // Whatever is below the first key is below its page too.
            root.put(if index == 0 { 0 } else { *key }, &child.to_le_bytes());
        }
        let mut both = Buffer::new(2 * PAGE);
        both.fill(0);
        both[..PAGE].copy_from_slice(root.sealed());
        database.store.write_loosely(PAGES_AT, &both)?;
        // Nothing of an earlier log is taken for this one's: its stamp is another. All of it has its place now.
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

    /// Opens one, and makes all changes again that its log holds and its pages lack.
    ///
    /// # Errors
    /// [`Error::Job`] that says what is damaged.
    pub fn open(file: Store, log: Store, shape: Shape) -> Result<Database> {
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
        // What a process that was killed had written may not be on the storage yet.
        database.log.store.sync()?;
        let next = database
            .log
            .replay(head.needed, &mut |begin, end, change| database.again(begin, end, &change))?;
        // Segments that a stop left behind have numbers that the log does not come to again.
        let first = next + shape.segments();
        database.log.go_on(first);
        database.write_all()?;
        database.write_head()?;
        Ok(database)
    }

    fn lock(&self) -> MutexGuard<'_, DatabaseState> {
        self.state.lock().expect("no panic while locked")
    }

    /// Makes a change of the log again where it is lacking.
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

    /// Logs a change and makes it. All its pages are in the cache, or new.
    fn make(&self, state: &mut DatabaseState, change: &Change) -> u64 {
        let (begin, end) = self.log.append(change);
        if let Some(made) = change.made() {
            state.insert(made, Page::new(Kind::Leaf, made, self.stamp));
            state.last = made;
            if state.sides.len() <= made as usize {
                state.sides.resize(made as usize + 1, None);
            }
            // Neither place holds anything.
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

    /// A page was changed.
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

    /// Does something under the lock, with the pages that it asks for in the cache.
    fn with<T>(&self, mut act: impl FnMut(&mut DatabaseState) -> Result<Outcome<T>>) -> Result<T> {
        loop {
            let outcome = act(&mut self.lock())?;
            match outcome {
                Outcome::Done(value) => return Ok(value),
                Outcome::Needs(number) => self.load(number, false)?,
            }
        }
    }

    /// The leaf that a key belongs to, and the branches above it, from the root.
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

    /// The version of a record; of the next one that is there with `nearest`.
    pub fn seek(&self, key: u64, nearest: bool) -> Result<Option<(u64, u64)>> {
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

    /// Gives a key a record; returns the position that the log must be durable up to.
    pub fn put(&self, key: u64, version: u64) -> Result<u64> {
        let value = record(key, version).to_vec();
        self.await_room()?;
        self.with(|state| {
            loop {
                let way = match self.way(state, key)? {
                    Outcome::Done(way) => way,
                    Outcome::Needs(number) => return Ok(Outcome::Needs(number)),
                };
                // From the root on, so that there is always room above for one more.
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

    /// What makes room in a full page on the way.
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

    /// Whether there are pages for more records.
    pub fn has_room(&self) -> bool {
        self.lock().last + 256 < self.shape.pages
    }

    /// Takes a key away, if it is there.
    pub fn delete(&self, key: u64) -> Result<u64> {
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

    /// Waits for a checkpoint where the log has grown too long.
    fn await_room(&self) -> Result<()> {
        while self.log.is_crowded() {
            self.checkpoint()?;
        }
        Ok(())
    }

    /// Brings a page into the cache. One that the log makes may be in neither place.
    fn load(&self, number: u64, may_be_new: bool) -> Result<()> {
        let mut state = self.lock();
        loop {
            if state.frames.contains_key(&number) {
                return Ok(());
            }
            if state.loading.insert(number) {
                break;
            }
            state = self.changed.wait(state).expect("no panic while locked");
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

    /// The newer of a page's two places, and which it is.
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

    /// Gives up pages until there is room for one more.
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
                    // All that could go is being written.
                    let wait = Duration::from_millis(1);
                    drop(self.changed.wait_timeout(state, wait).expect("no panic while locked"));
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

    /// Writes a page to its other place, after the log holds what was changed in it.
    fn write_page(&self, number: u64) -> Result<()> {
        let mut state = self.lock();
        let Some(frame) = state.frames.get_mut(&number).filter(|frame| frame.since.is_some()) else {
            return Ok(());
        };
        if frame.is_writing {
            drop(self.changed.wait_timeout(state, Duration::from_millis(1)).expect("no panic while locked"));
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

    /// Writes all that is not written.
    fn write_all(&self) -> Result<()> {
        loop {
            let oldest = self.lock().unwritten.first().copied();
            match oldest {
                Some((_, number)) => self.write_page(number)?,
                None => return Ok(()),
            }
        }
    }

    /// Writes the pages that were changed first until the log is no deeper than asked, and notes how far.
    pub fn checkpoint(&self) -> Result<()> {
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

    /// Notes on disk from where the log is needed.
    fn write_head(&self) -> Result<()> {
        let _alone = self.heads.lock().expect("no panic while locked");
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

    /// Writes everything, so that opening has nothing to do.
    pub fn close(&self) -> Result<()> {
        self.log.flush(self.log.end())?;
        self.write_all()?;
        self.write_head()
    }

    /// Reads some pages of the file in order and compares their checksums, as ESE does in the background; returns where to go on.
    pub fn maintain(&self, from: u64) -> Result<u64> {
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
            // What was never written, and what was written meanwhile, is not compared.
            let is_same = self.lock().sides[number as usize] == Some(side);
            let is_new = self.lock().frames.get(&number).is_some_and(|frame| frame.since.is_some());
            let place = &both[usize::from(side) * PAGE..][..PAGE];
            if is_same && !is_new && Page::of(place, number, self.stamp).is_none() {
                return Err(Error::Job(format!("page {number}: its checksum is wrong")));
            }
        }
        std::thread::sleep(SCAN_PAUSE);
        Ok(if range.end > last { 1 } else { range.end })
    }

    /// Goes through the whole tree: all keys in order with their versions.
    ///
    /// # Errors
    /// [`Error::Job`] for the first page that is damaged or out of order.
    pub fn all(&self) -> Result<Vec<(u64, u64)>> {
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

/// The key of one of the records that a database begins with: evenly apart, in order.
pub fn key_of(number: u64, records: u64) -> u64 {
    (u64::MAX / (records + 1)) * (number + 1)
}

/// What opening needs to know.
struct Head {
    sequence: u64,
    stamp: u64,
    /// From where the log is needed.
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

/// Writes pages that follow each other, each with both its places.
struct Writer<'a> {
    database: &'a Database,
    buffer: Buffer,
    first: u64,
    count: usize,
}

impl Writer<'_> {
    fn add(&mut self, page: &mut Page) -> Result<()> {
        let at = self.count * 2 * PAGE;
        self.buffer[at..at + PAGE].copy_from_slice(page.sealed());
        // The other place is written too, so that it is the storage's own from the beginning.
        self.buffer[at + PAGE..at + 2 * PAGE].fill(0);
        self.count += 1;
        match (self.count + 1) * 2 * PAGE > self.buffer.len() {
            true => self.end(),
            false => Ok(()),
        }
    }

    fn end(&mut self) -> Result<()> {
        let length = self.count * 2 * PAGE;
        self.database.store.write_loosely(Database::place(self.first, 0), &self.buffer[..length])?;
        self.first += self.count as u64;
        self.count = 0;
        Ok(())
    }
}

//! Which clusters are free.
//!
//! A cluster that was given up stays untouched for a while: one with data until the commit that gave it up is on disk,
//! for an older state may still need it; one with logged metadata until the log no longer has it, for a replay would
//! write it again.

mod away;

use crate::bits::{Bits, PAGE};
use away::Away;
pub(crate) use away::ReadBitmap;
use platter_vfs::Result;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Clusters that lie together: the first and how many.
pub(crate) type Clusters = (u64, u64);

/// The number of pages kept in memory, of those where free and taken clusters alternate: 64 MiB.
const KEPT: u64 = 1 << 14;

/// The number of pages where free and taken clusters alternate that a search looks at before it accepts fewer clusters
/// together than are wanted. Looking at one page takes 0.1 ms and more.
const PATIENCE: u64 = 16;

/// After this many pages were read back into memory, a search first drops others from memory.
const BROUGHT: u64 = 1 << 10;

// A search that sends pages away leaves room for those that it brings back.
const _: () = assert!(BROUGHT < KEPT);

/// The former content of clusters that are given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Held {
    /// Data, which no replay writes again.
    Data,
    /// Metadata of which the log may have images.
    Metadata,
}

/// A search for free clusters.
struct Search {
    /// How many clusters are wanted.
    most: u64,
    /// The longest run that was found; the first, if several are as long.
    best: Option<Clusters>,
    /// The page that is being looked at; `left` says how many more will be.
    page: Option<u64>,
    left: u64,
}

/// Which clusters of a volume are free.
pub(crate) struct Space {
    /// Clusters that must not be handed out: those in use, and those that were given up and are not free yet.
    used: Bits,
    /// Clusters that `$Bitmap` says are taken.
    disk: Bits,
    /// Pages of `$Bitmap` that changed since the last commit.
    changed: BTreeSet<u64>,
    /// Pages whose latest bits may not be in their place on the device, because the log still has them.
    in_log: BTreeSet<u64>,
    /// Pages that are not in memory: all their bits are 1 in `used` and `disk`.
    away: Away,
    read: ReadBitmap,
    kept: u64,
    patience: u64,
    /// The number of pages that were read back since pages were last sent away.
    brought: u64,
    free: u64,
    parked: Vec<(Clusters, Held)>,
    /// All clusters that were given up and are not free yet, by the first of each run, with its end.
    given_up: BTreeMap<u64, u64>,
    /// Clusters of data given up by the commit that is being written.
    committing: Vec<Clusters>,
    /// Clusters of metadata given up by a commit, of which the log still has images.
    logged: Vec<Clusters>,
    waiting: u64,
    /// The zone where `$MFT` is to grow: other files get its clusters only when no others are free.
    pub zone: Range<u64>,
    next: u64,
}

impl Default for Space {
    fn default() -> Space {
        Space {
            used: Bits::default(),
            disk: Bits::default(),
            changed: BTreeSet::new(),
            in_log: BTreeSet::new(),
            away: Away::default(),
            read: Box::new(|_, _| Ok(())),
            kept: KEPT,
            patience: PATIENCE,
            brought: 0,
            free: 0,
            parked: Vec::new(),
            given_up: BTreeMap::new(),
            committing: Vec::new(),
            logged: Vec::new(),
            waiting: 0,
            zone: 0..0,
            next: 0,
        }
    }
}

impl Space {
    /// The state of `total` clusters according to `$Bitmap`, whose bytes `read` reads.
    ///
    /// # Errors
    /// Errors of `read`.
    pub(crate) fn open(total: u64, read: ReadBitmap) -> Result<Space> {
        Space::keeping(total, read, KEPT)
    }

    fn keeping(total: u64, read: ReadBitmap, kept: u64) -> Result<Space> {
        let (mut away, mut mixed) = (Away::default(), 0);
        let last = total / PAGE;
        let disk = Bits::read_some(total, &read, |page, words| {
            mixed += 1;
            // The last page may reach past the last cluster: it stays in memory.
            let keeps = mixed <= kept || page == last;
            if !keeps {
                away.send(page, words);
            }
            keeps
        })?;
        let free = total - disk.ones(0..total) + away.free();
        Ok(Space { used: disk.clone(), disk, away, read, kept, free, ..Space::default() })
    }

    /// The first cluster of a range that is free, as far as the pages in memory tell.
    pub(crate) fn first_free(&self, range: Range<u64>) -> Option<u64> {
        let first = self.used.next(false, range.start, range.end);
        (first < range.end).then_some(first)
    }

    /// Brings a page back into memory if it is away.
    fn bring(&mut self, page: u64) -> Result<()> {
        let Some((words, changes)) = self.away.bring(page, &self.read)? else { return Ok(()) };
        self.used.put_page(page, words.clone());
        self.disk.put_page(page, words);
        self.brought += 1;
        for (range, taken) in changes {
            self.disk.put(range, taken);
        }
        Ok(())
    }

    /// Sends away pages whose bits are on the device too, if too many pages are in memory.
    fn send_away(&mut self) {
        let pages = self.used.len().div_ceil(PAGE);
        self.brought = 0;
        if pages <= self.kept {
            return;
        }
        let mixed = (0..pages).filter(|page| self.used.page(*page).is_some()).count() as u64;
        // More than necessary, so as not to do this again at once.
        let mut left = if mixed > self.kept { mixed - self.kept * 3 / 4 } else { 0 };
        // The last page may reach past the last cluster: it stays in memory.
        for page in (0..self.used.len() / PAGE).rev() {
            if left == 0 {
                break;
            }
            let (Some(words), Some(disk)) = (self.used.page(page), self.disk.page(page)) else { continue };
            if words == disk && !self.changed.contains(&page) && !self.in_log.contains(&page) {
                let taken = words[0] != 0;
                let is_even = words.iter().all(|word| *word == if taken { u64::MAX } else { 0 });
                if !is_even {
                    self.away.send(page, words);
                }
                let whole = page * PAGE..(page + 1) * PAGE;
                self.used.put(whole.clone(), taken || !is_even);
                self.disk.put(whole, taken || !is_even);
                left -= 1;
            }
        }
    }

    /// The number of clusters of the volume.
    pub(crate) fn total(&self) -> u64 {
        self.used.len()
    }

    /// How many clusters are free, or will be when those that were given up can be used again.
    pub(crate) fn free(&self) -> u64 {
        self.free + self.waiting
    }

    /// How many clusters can be handed out now.
    pub(crate) fn at_hand(&self) -> u64 {
        self.free
    }

    /// Finds free clusters that lie together, at most `most`: those from `near` on if that cluster is free, otherwise
    /// the first `most` in a row, or the longest run if none is so long. They are not taken yet.
    ///
    /// # Errors
    /// Errors of reading `$Bitmap`.
    pub(crate) fn find(&mut self, near: Option<u64>, most: u64) -> Result<Option<Clusters>> {
        if self.free == 0 || most == 0 {
            return Ok(None);
        }
        if self.brought >= BROUGHT {
            self.send_away();
        }
        let total = self.used.len();
        if let Some(near) = near.filter(|near| *near < total) {
            self.bring(near / PAGE)?;
            if !self.used.get(near) {
                let end = self.end_of_free(near, (near + most).min(total))?;
                return Ok(Some((near, end - near)));
            }
        }
        let start = near.unwrap_or(self.next).min(total);
        let zone = self.zone.clone();
        let mut search = Search { most, best: None, page: None, left: self.patience };
        for range in
            [start..zone.start, start.max(zone.end)..total, 0..start.min(zone.start), zone.end..start]
        {
            if self.search(range, &mut search)? {
                return Ok(search.best);
            }
        }
        if search.best.is_none() {
            // Last the zone, its second half first, which `$MFT` reaches last.
            let half = zone.start + (zone.end - zone.start) / 2;
            let _ =
                self.search(half..zone.end, &mut search)? || self.search(zone.start..half, &mut search)?;
        }
        Ok(search.best)
    }

    /// The end of the free clusters from `from` on, at most `to`.
    fn end_of_free(&mut self, from: u64, to: u64) -> Result<u64> {
        let mut at = from;
        loop {
            at = self.used.next(true, at, to);
            let goes_on =
                self.away.get(at / PAGE).is_some_and(|page| !at.is_multiple_of(PAGE) || page.first > 0);
            if at >= to || !goes_on {
                return Ok(at);
            }
            self.bring(at / PAGE)?;
        }
    }

    /// Looks for free clusters that lie together. Returns whether the search is over: as many were found as are wanted,
    /// or some after a long search.
    fn search(&mut self, range: Range<u64>, search: &mut Search) -> Result<bool> {
        let mut at = range.start;
        while at < range.end {
            let away = self.away.next(at..range.end);
            at = self.used.next(false, at, away);
            if at >= range.end {
                break;
            }
            let page = at / PAGE;
            if search.page != Some(page) && (at == away || self.used.page(page).is_some()) {
                search.page = Some(page);
                if search.left == 0 && search.best.is_some() {
                    return Ok(true);
                }
                search.left = search.left.saturating_sub(1);
            }
            if at == away {
                match search.best {
                    Some((_, length)) if self.longest_from(page) <= length => at = (page + 1) * PAGE,
                    _ => self.bring(page)?,
                }
                continue;
            }
            let end = self.end_of_free(at, (at + search.most).min(range.end))?;
            if search.best.is_none_or(|(_, length)| end - at > length) {
                search.best = Some((at, end - at));
            }
            if end - at >= search.most {
                return Ok(true);
            }
            at = end;
        }
        Ok(false)
    }

    /// An upper bound for the length of a free run that begins in a page which is away: the longest run in the page, or
    /// the run at its end with the free clusters behind the page.
    fn longest_from(&self, page: u64) -> u64 {
        let summary = self.away.get(page).expect("a page that is away");
        let end = (page + 1) * PAGE;
        let beyond = self.used.next(true, end, self.used.len());
        // No page that is away is all free.
        let first = self.away.get(beyond / PAGE).filter(|_| beyond.is_multiple_of(PAGE));
        let beyond = beyond - end + first.map_or(0, |page| u64::from(page.first));
        let last = u64::from(summary.last);
        let joined = if last > 0 { last + beyond } else { 0 };
        u64::from(summary.longest).max(joined)
    }

    /// Sets the cluster where the next search begins.
    #[cfg(test)]
    pub(crate) fn go_on_at(&mut self, cluster: u64) {
        self.next = cluster;
    }

    /// Takes free clusters. `on_disk` sets their bits in `$Bitmap` too; it is false if nothing on disk will lead to
    /// them.
    pub(crate) fn take(&mut self, (start, length): Clusters, on_disk: bool) {
        assert!(start + length <= self.used.len(), "clusters are taken that the volume has");
        assert!(length <= self.free, "the count of free clusters covers those that the bitmap has");
        assert_eq!(self.used.ones(start..start + length), 0, "clusters are taken that are in use");
        self.used.put(start..start + length, true);
        self.free -= length;
        self.next = start + length;
        if on_disk {
            self.mark((start, length), true);
        }
    }

    /// Undoes [`Space::take`].
    pub(crate) fn untake(&mut self, (start, length): Clusters, on_disk: bool) {
        debug_assert_eq!(self.used.ones(start..start + length), length, "what is put back was taken");
        self.used.put(start..start + length, false);
        self.free += length;
        if on_disk {
            self.mark((start, length), false);
        }
    }

    /// Gives clusters up. `on_disk` clears their bits in `$Bitmap` too. Returns `false`, and does nothing, if some of
    /// them are free or given up already.
    #[must_use]
    pub(crate) fn give(&mut self, clusters: Clusters, held: Held, on_disk: bool) -> bool {
        let range = clusters.0..clusters.0.saturating_add(clusters.1);
        let before = self.given_up.range(..range.end).next_back();
        // The clusters of a page that is away count as taken here. `release` looks again, when the page is in memory.
        let is_used = range.end <= self.used.len()
            && before.is_none_or(|(_, &end)| end <= range.start)
            && self.used.ones(range.clone()) == clusters.1;
        if !is_used {
            return false;
        }
        self.given_up.insert(range.start, range.end);
        if on_disk {
            self.mark(clusters, false);
        }
        self.waiting += clusters.1;
        self.parked.push((clusters, held));
        true
    }

    /// Undoes the last [`Space::give`].
    pub(crate) fn ungive(&mut self, clusters: Clusters, on_disk: bool) {
        let last = self.parked.pop();
        debug_assert_eq!(last.map(|(last, _)| last), Some(clusters), "undone in order");
        self.waiting -= clusters.1;
        self.given_up.remove(&clusters.0);
        if on_disk {
            self.mark(clusters, true);
        }
    }

    /// Sets the bits of clusters in `$Bitmap`.
    pub(crate) fn mark(&mut self, (start, length): Clusters, taken: bool) {
        let mut at = start;
        while at < start + length {
            let end = (at / PAGE * PAGE + PAGE).min(start + length);
            if !self.away.change(&(at..end), taken) {
                self.disk.put(at..end, taken);
            }
            at = end;
        }
        self.changed.extend(start / PAGE..=(start + length - 1) / PAGE);
    }

    /// Returns the pages of `$Bitmap` that changed, for a commit. The clusters given up so far become a part of that
    /// commit.
    ///
    /// # Errors
    /// Errors of reading `$Bitmap`; then nothing is changed.
    pub(crate) fn gather(&mut self) -> Result<Vec<u64>> {
        let changed: Vec<u64> = self.changed.iter().copied().collect();
        changed.iter().try_for_each(|page| self.bring(*page))?;
        for (clusters, held) in self.parked.drain(..) {
            match held {
                Held::Data => self.committing.push(clusters),
                Held::Metadata => self.logged.push(clusters),
            }
        }
        self.changed.clear();
        self.in_log.extend(&changed);
        Ok(changed)
    }

    /// How many pages of `$Bitmap` changed since the last commit.
    pub(crate) fn changed(&self) -> usize {
        self.changed.len()
    }

    /// The bytes of `$Bitmap` from a byte on.
    pub(crate) fn bytes(&self, from: u64, length: usize) -> Vec<u8> {
        self.disk.bytes(from, length, true)
    }

    /// Called when a commit is on disk: frees the clusters of data that it gave up. Returns `false` if some of them were
    /// free already; those stay as they are.
    #[must_use]
    pub(crate) fn committed(&mut self) -> bool {
        let clusters = std::mem::take(&mut self.committing);
        self.release(clusters)
    }

    /// Called when the log is empty: frees the clusters of metadata that were given up. Returns `false` if some of them
    /// were free already; those stay as they are.
    #[must_use]
    pub(crate) fn checkpointed(&mut self) -> bool {
        let clusters = std::mem::take(&mut self.logged);
        let were_used = self.release(clusters);
        self.in_log.clear();
        self.send_away();
        were_used
    }

    /// What holds between two commits: every run given up waits in exactly one of the lists, and the count is theirs. A run
    /// that is in none would never be free again, one that is in two would be allocated twice.
    #[cfg(any(test, debug_assertions))]
    pub(crate) fn check(&self) {
        let waiting =
            self.parked.iter().map(|(clusters, _)| clusters).chain(&self.committing).chain(&self.logged);
        let (mut runs, mut clusters) = (0, 0);
        for &(start, length) in waiting {
            assert_eq!(self.given_up.get(&start), Some(&(start + length)), "what waits was given up");
            (runs, clusters) = (runs + 1, clusters + length);
        }
        assert_eq!((runs, clusters), (self.given_up.len(), self.waiting), "what was given up waits once");
        assert!(self.free + self.waiting <= self.used.len(), "no cluster is counted twice");
        assert!(self.zone.start <= self.zone.end, "the zone of the file table has a beginning and an end");
    }

    fn release(&mut self, clusters: Vec<Clusters>) -> bool {
        let mut were_used = true;
        for (start, length) in clusters {
            let range = start..start + length;
            self.given_up.remove(&start);
            assert!(length <= self.waiting, "what becomes free was counted as given up");
            self.waiting -= length;
            if self.used.ones(range.clone()) != length {
                were_used = false;
                continue;
            }
            self.used.put(range, false);
            self.free += length;
        }
        #[cfg(debug_assertions)]
        self.check();
        were_used
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use platter_testing::model::Random;
    use std::sync::{Arc, Mutex};

    /// A space over a bitmap in memory, which keeps `kept` pages in memory.
    fn space(bitmap: &Arc<Mutex<Vec<u8>>>, total: u64, kept: u64) -> Space {
        let bitmap = bitmap.clone();
        let read = move |at: u64, bytes: &mut [u8]| {
            bytes.copy_from_slice(&bitmap.lock().unwrap()[at as usize..at as usize + bytes.len()]);
            Ok(())
        };
        Space { patience: u64::MAX, ..Space::keeping(total, Box::new(read), kept).unwrap() }
    }

    /// Commits, and returns the pages that a checkpoint is to write.
    fn commit(space: &mut Space, bitmap: &Arc<Mutex<Vec<u8>>>) -> Vec<(u64, Vec<u8>)> {
        let length = bitmap.lock().unwrap().len() as u64;
        let pages = space.gather().unwrap().into_iter().map(|page| {
            let at = page * PAGE / 8;
            (at, space.bytes(at, (length - at).min(PAGE / 8) as usize))
        });
        let pages = pages.collect();
        assert!(space.committed());
        pages
    }

    /// A space with four pages in memory does the same as one with all pages in memory.
    #[test]
    fn pages_that_are_away_make_no_difference() {
        let total = 24 * PAGE + 1000;
        let mut random = Random::new(77);
        let mut bytes = vec![0; total.div_ceil(64) as usize * 8];
        for (page, bytes) in bytes.chunks_mut(PAGE as usize / 8).enumerate() {
            match page % 5 {
                0 => bytes.fill(0xFF),
                1 => {}
                2 => bytes.iter_mut().for_each(|byte| *byte = random.number() as u8),
                _ => bytes.fill(0xFF),
            }
            // Runs at the borders of pages, of any length.
            for _ in 0..3 {
                let (from, length) = (random.below(bytes.len() as u64) as usize, random.below(900) as usize);
                let end = (from + length).min(bytes.len());
                bytes[from..end].fill(random.below(2) as u8 * 0xFF);
            }
        }
        let bitmaps = [Arc::new(Mutex::new(bytes.clone())), Arc::new(Mutex::new(bytes))];
        let mut spaces = [space(&bitmaps[0], total, u64::MAX), space(&bitmaps[1], total, 4)];
        assert!(spaces[0].away.is_empty() && !spaces[1].away.is_empty());
        let mut pending: [Vec<(u64, Vec<u8>)>; 2] = Default::default();
        let mut taken: Vec<(Clusters, bool)> = Vec::new();
        let mut was_sent = 0;
        for step in 0..4000 {
            assert_eq!(spaces[0].free(), spaces[1].free(), "step {step}");
            match random.below(100) {
                0..50 => {
                    let near = random.chance(40).then(|| random.below(total + 10));
                    let most = *random.pick(&[3, 700, 3 * PAGE]);
                    let most = 1 + random.below(most);
                    let [one, other] = &mut spaces;
                    let found = one.find(near, most).unwrap();
                    assert_eq!(found, other.find(near, most).unwrap(), "step {step}: {near:?}, {most}");
                    let Some(found) = found else { continue };
                    let on_disk = random.chance(80);
                    spaces.iter_mut().for_each(|space| space.take(found, on_disk));
                    match random.chance(20) {
                        true => spaces.iter_mut().for_each(|space| space.untake(found, on_disk)),
                        false => taken.push((found, on_disk)),
                    }
                }
                50..80 if !taken.is_empty() => {
                    let (clusters, on_disk) = taken.swap_remove(random.below(taken.len() as u64) as usize);
                    let held = if random.chance(50) { Held::Data } else { Held::Metadata };
                    for space in &mut spaces {
                        assert!(space.give(clusters, held, on_disk));
                    }
                    if random.chance(20) {
                        spaces.iter_mut().for_each(|space| space.ungive(clusters, on_disk));
                        taken.push((clusters, on_disk));
                    }
                }
                80..95 => {
                    for (number, space) in spaces.iter_mut().enumerate() {
                        pending[number].extend(commit(space, &bitmaps[number]));
                    }
                    assert_eq!(pending[0], pending[1], "step {step}");
                }
                _ => {
                    for (number, space) in spaces.iter_mut().enumerate() {
                        let mut bitmap = bitmaps[number].lock().unwrap();
                        for (at, bytes) in pending[number].drain(..) {
                            bitmap[at as usize..at as usize + bytes.len()].copy_from_slice(&bytes);
                        }
                        drop(bitmap);
                        assert!(space.checkpointed());
                    }
                    was_sent += u64::from(!spaces[1].away.is_empty());
                }
            }
        }
        assert!(was_sent > 20, "pages were away after {was_sent} checkpoints");
    }
}

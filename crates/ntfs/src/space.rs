//! Which clusters are free.
//!
//! A cluster that was given up stays untouched for a while: one with data until the commit that gave it up is on disk,
//! for an older state may still need it; one with logged metadata until the log no longer has it, for a replay would
//! write it again.

use crate::bits::Bits;
use std::collections::BTreeSet;
use std::ops::Range;

/// Clusters that lie together: the first and how many.
pub type Clusters = (u64, u64);

/// Clusters whose bits are in one page of `$Bitmap` as it is logged: 4096 bytes.
pub const PAGE: u64 = 4096 * 8;

/// What clusters that are given up held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// Data, which nobody writes again.
    Data,
    /// Metadata that the log may have.
    Metadata,
}

/// The clusters of a volume.
pub struct Space {
    /// Those not to be handed out.
    used: Bits,
    /// Those that `$Bitmap` says are taken.
    disk: Bits,
    /// Pages of `$Bitmap` that changed since the last commit.
    changed: BTreeSet<u64>,
    free: u64,
    parked: Vec<(Clusters, Held)>,
    /// Given up by the commit that is being written.
    committing: Vec<Clusters>,
    /// Given up by a commit that is on disk, still in the log.
    logged: Vec<Clusters>,
    waiting: u64,
    /// Where `$MFT` is to grow: for others only when there is nothing else.
    pub zone: Range<u64>,
    next: u64,
}

impl Space {
    /// The clusters that `bitmap` says are taken.
    pub fn new(bitmap: Bits) -> Space {
        let free = bitmap.len() - bitmap.ones(0..bitmap.len());
        Space {
            used: bitmap.clone(),
            disk: bitmap,
            changed: BTreeSet::new(),
            free,
            parked: Vec::new(),
            committing: Vec::new(),
            logged: Vec::new(),
            waiting: 0,
            zone: 0..0,
            next: 0,
        }
    }

    /// How many there are.
    pub fn total(&self) -> u64 {
        self.used.len()
    }

    /// How many are free, or will be when what is given up is on disk.
    pub fn free(&self) -> u64 {
        self.free + self.waiting
    }

    /// How many can be handed out now.
    pub fn at_hand(&self) -> u64 {
        self.free
    }

    /// Finds free clusters, at most `most`: those at `near` if that one is free, otherwise together if that can be. They
    /// are not taken yet.
    pub fn find(&self, near: Option<u64>, most: u64) -> Option<Clusters> {
        if self.free == 0 || most == 0 {
            return None;
        }
        let total = self.used.len();
        if let Some(near) = near
            && near < total
            && !self.used.get(near)
        {
            let end = self.used.next(true, near, (near + most).min(total));
            return Some((near, end - near));
        }
        let start = near.unwrap_or(self.next).min(total);
        let mut best: Option<Clusters> = None;
        let zone = self.zone.clone();
        for range in
            [start..zone.start, start.max(zone.end)..total, 0..start.min(zone.start), zone.end..start]
        {
            if self.search(range, most, &mut best) {
                return best;
            }
        }
        if best.is_none() {
            // From the end of the zone, which `$MFT` reaches last.
            let half = zone.start + (zone.end - zone.start) / 2;
            let _ = self.search(half..zone.end, most, &mut best)
                || self.search(zone.start..half, most, &mut best);
        }
        best
    }

    /// Looks for clusters that lie together; whether as many were found as are wanted.
    fn search(&self, range: Range<u64>, most: u64, best: &mut Option<Clusters>) -> bool {
        let mut at = range.start;
        while at < range.end {
            at = self.used.next(false, at, range.end);
            if at >= range.end {
                break;
            }
            let end = self.used.next(true, at, (at + most).min(range.end));
            if best.is_none_or(|(_, length)| end - at > length) {
                *best = Some((at, end - at));
            }
            if end - at >= most {
                return true;
            }
            at = end;
        }
        false
    }

    /// Takes free clusters; `on_disk` unless nothing on disk will lead to them.
    pub fn take(&mut self, (start, length): Clusters, on_disk: bool) {
        self.used.put(start..start + length, true);
        self.free -= length;
        self.next = start + length;
        if on_disk {
            self.mark((start, length), true);
        }
    }

    /// Undoes [`Space::take`].
    pub fn untake(&mut self, (start, length): Clusters, on_disk: bool) {
        self.used.put(start..start + length, false);
        self.free += length;
        if on_disk {
            self.mark((start, length), false);
        }
    }

    /// Gives clusters up.
    pub fn give(&mut self, clusters: Clusters, held: Held, on_disk: bool) {
        if on_disk {
            self.mark(clusters, false);
        }
        self.waiting += clusters.1;
        self.parked.push((clusters, held));
    }

    /// Undoes the last [`Space::give`].
    pub fn ungive(&mut self, clusters: Clusters, on_disk: bool) {
        let last = self.parked.pop();
        debug_assert_eq!(last.map(|(last, _)| last), Some(clusters), "undone in order");
        self.waiting -= clusters.1;
        if on_disk {
            self.mark(clusters, true);
        }
    }

    /// Stores what `$Bitmap` says of clusters.
    pub fn mark(&mut self, (start, length): Clusters, taken: bool) {
        self.disk.put(start..start + length, taken);
        self.changed.extend(start / PAGE..=(start + length - 1) / PAGE);
    }

    /// For a commit: the pages of `$Bitmap` that changed. What was given up so far becomes a part of that commit.
    pub fn gather(&mut self) -> Vec<u64> {
        for (clusters, held) in self.parked.drain(..) {
            match held {
                Held::Data => self.committing.push(clusters),
                Held::Metadata => self.logged.push(clusters),
            }
        }
        std::mem::take(&mut self.changed).into_iter().collect()
    }

    /// How many pages of `$Bitmap` changed.
    pub fn changed(&self) -> usize {
        self.changed.len()
    }

    /// The bytes of `$Bitmap` from a byte on.
    pub fn bytes(&self, from: u64, length: usize) -> Vec<u8> {
        self.disk.bytes(from, length, true)
    }

    /// The commit is on disk.
    pub fn committed(&mut self) {
        let clusters = std::mem::take(&mut self.committing);
        self.release(clusters);
    }

    /// The log is empty.
    pub fn checkpointed(&mut self) {
        let clusters = std::mem::take(&mut self.logged);
        self.release(clusters);
    }

    fn release(&mut self, clusters: Vec<Clusters>) {
        for (start, length) in clusters {
            self.used.put(start..start + length, false);
            self.free += length;
            self.waiting -= length;
        }
    }
}

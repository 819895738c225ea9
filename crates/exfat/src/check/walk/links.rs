//! FAT entries in which one bit or one byte is wrong.
//!
//! A chain that breaks off leaves behind clusters that are taken in the bitmap and belong to no file. If the entry of its
//! last cluster, or of the one before, leads to them with one bit or one byte changed, in exactly one way, and from there
//! the chain has exactly the clusters that the file still needs, then that entry is wrong. Which clusters belong to no
//! file is known when the whole tree was walked, so the check of such files is put off until then.

use super::{FREE, Walk};
use crate::layout::{EntrySet, FileInfo};
use platter_clusters::{Claims as _, Link, Stop};
use platter_vfs::{Name, Result, Severity};
use std::collections::BTreeSet;

/// A file whose chain has fewer clusters than its length needs.
pub(super) struct Broken {
    pub dir: u32,
    pub name: Name,
    /// The device offsets of its first two slots.
    pub slots: [u64; 2],
    pub set: EntrySet,
    /// The number of clusters found, the last of them, and why there are no more.
    pub count: u32,
    pub last: u32,
    pub stop: Stop,
}

/// The most files of which the check is put off: a bound on memory. Damage of single bits concerns a few.
pub(super) const MOST_BROKEN: usize = 1 << 12;
/// The most steps along chains in search of wrong links: a bound on time.
const MOST_FOLLOWED: u64 = 1 << 26;

/// A wrong link, and what it should be.
struct Wrong {
    from: u32,
    value: u32,
    right: u32,
    /// The cluster to which it leads by mistake, if the file has claimed that.
    claimed: Option<u32>,
}

impl Walk<'_, '_> {
    /// Checks the files whose chains break off: a wrong link is put right, or the file is cut.
    pub(super) fn broken_chains(&mut self) -> Result<()> {
        let mut cut = Vec::new();
        let mut given_up = BTreeSet::new();
        for broken in std::mem::take(&mut self.broken) {
            match self.wrong_link(&broken)? {
                Some(wrong) => given_up.extend(self.put_right(&broken, &wrong)?),
                None => cut.push(broken),
            }
        }
        for broken in cut {
            match broken.stop {
                // It is its own again; the next round goes on there.
                Stop::Claimed(next) if given_up.contains(&next) => {}
                // The copy of shared clusters changes the entry itself.
                Stop::Claimed(_) => drop(self.break_off(&broken)),
                _ => {
                    let info = self.break_off(&broken);
                    let mut set = broken.set.clone();
                    set.set_info(&info);
                    let changed = broken.slots.into_iter().zip(set.slots());
                    let repairs = self.findings.repair && info != broken.set.info();
                    changed.filter(|_| repairs).for_each(|(offset, slot)| self.disk.edit(offset, *slot));
                }
            }
        }
        Ok(())
    }

    /// Returns the link that is wrong, if there is exactly one that can be.
    fn wrong_link(&mut self, broken: &Broken) -> Result<Option<Wrong>> {
        let info = broken.set.info();
        if info.contiguous {
            return Ok(None);
        }
        let missing = self.clusters.heap.clusters_for(info.length) - u64::from(broken.count);
        let mut places = Vec::new();
        match broken.stop {
            Stop::Free => places.push((broken.last, 0, missing, None)),
            Stop::Invalid(value) | Stop::Claimed(value) | Stop::Loop(value) => {
                places.push((broken.last, value, missing, None));
            }
            Stop::End | Stop::Bad | Stop::More(_) => {}
        }
        if broken.count >= 2 {
            let mut from = info.cluster;
            for _ in 2..broken.count {
                let Link::Next(next) = self.clusters.link(from)? else { return Ok(None) };
                from = next;
            }
            places.push((from, broken.last, missing + 1, Some(broken.last)));
        }
        // What differs in one bit is likelier.
        let bits: Vec<u32> = (0..u32::BITS).map(|bit| 1 << bit).collect();
        let bytes = (0..4).flat_map(|byte| (1..=255_u32).map(move |value| value << (8 * byte)));
        for changes in [bits, bytes.collect()] {
            let mut found = Vec::new();
            for &(from, value, count, claimed) in &places {
                for right in changes.iter().map(|change| value ^ change) {
                    if self.clusters.heap.has(right) && self.is_lost_chain(right, count)? {
                        found.push(Wrong { from, value, right, claimed });
                    }
                }
            }
            // A cluster to which the chain of another leads is not where a chain begins.
            let mut behind = BTreeSet::new();
            for wrong in &found {
                if let Link::Next(next) = self.clusters.link(wrong.right)? {
                    behind.insert(next);
                }
            }
            found.retain(|wrong| !behind.contains(&wrong.right));
            if found.len() == 1 {
                return Ok(found.pop());
            }
        }
        Ok(None)
    }

    fn is_lost_chain(&mut self, first: u32, count: u64) -> Result<bool> {
        let mut at = first;
        for number in 1..=count {
            self.followed += 1;
            if self.followed > MOST_FOLLOWED || !self.clusters.is_lost(at)? {
                return Ok(false);
            }
            match self.clusters.link(at)? {
                Link::Next(next) if number < count => at = next,
                Link::End if number == count => return Ok(true),
                _ => return Ok(false),
            }
        }
        Ok(false)
    }

    /// Reports a wrong link, and puts it right in a repair. Returns the cluster that the file had by mistake.
    fn put_right(&mut self, broken: &Broken, wrong: &Wrong) -> Result<Option<u32>> {
        let Wrong { from, value, right, claimed } = *wrong;
        let message = || {
            format!(
                "a bit is wrong in the FAT entry of its cluster {from}: it is {value}, and should be {right}"
            )
        };
        if self.find("link-bit", Severity::Inconsistent, Some((broken.dir, Some(&broken.name))), message) {
            self.clusters.set_link(from, right);
        }
        if let Some(other) = claimed {
            // Whose cluster that is, the next round finds out.
            self.clusters.unclaim(other);
            self.contested.remove(&other);
            self.unsettled = true;
        }
        let mut at = right;
        loop {
            self.clusters.claim(at);
            match self.clusters.link(at)? {
                Link::Next(next) if !self.clusters.is_claimed(next) => at = next,
                _ => return Ok(claimed),
            }
        }
    }

    /// Reports a chain that breaks off; a repair cuts the file there, or copies the clusters that it shares. Returns the
    /// values that the entry should have.
    pub(super) fn break_off(&mut self, broken: &Broken) -> FileInfo {
        let &Broken { dir, ref name, slots, ref set, count, last, stop } = broken;
        let mut info = set.info();
        let place = Some((dir, Some(name)));
        if let Stop::Claimed(next) = stop {
            let message = || format!("it shares clusters from {next} with another");
            self.share((dir, name), (slots, set, count), message);
            return info;
        }
        let (length, held) = (info.length, u64::from(count) << self.clusters.heap.shift);
        let message = || format!("{length} bytes break off after {held}: cluster {last} {}", stop.told(FREE));
        let code = if stop == Stop::End { "size-beyond-chain" } else { stop.code() };
        if self.find(code, Severity::DataLoss, place, message) {
            if !info.contiguous && stop != Stop::End {
                self.cuts.push(last);
            }
            info.length = held;
            info.valid = info.valid.min(held);
        }
        info
    }
}

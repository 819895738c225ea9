//! Clusters that several streams share: clones and snapshots.
//!
//! A table of the volume counts the references to such clusters; a cluster that is not in it has one owner. A shared
//! cluster is never overwritten, and only its last owner gives it back.
//!
//! A file that lost its name while it is in use no longer counts on disk, and still has its clusters. If they were
//! shared, it *pins* them: when the last stream that counts on disk gives them up, they stay held until the pin is
//! removed.

use crate::core::Core;
use crate::extents::Extents;
use crate::layout::{Root, ShareRow};
use crate::reference_counts::Pin;
use platter_vfs::{Error, Result};
use std::collections::BTreeSet;

/// The most rows that are read when a volume is opened, to find out whether their form is known.
const SAMPLE: usize = 4096;

impl Core {
    /// Reads the first rows of the reference counts. Returns the reason why the volume can only be read, if so.
    pub(crate) fn open_shares(&mut self) -> Result<Option<String>> {
        let (mut rows, mut reason) = (0, None);
        let (tree, pages) = self.root(Root::References);
        tree.scan(pages, &[], |row| {
            rows += 1;
            match ShareRow::from_bytes(row.value, 0) {
                Ok(known) if known.is_deduplicated() => {
                    reason = Some("its data is deduplicated, which is only read".to_string());
                }
                Ok(_) => {}
                Err(error) => {
                    reason = Some(format!("what files share is counted in a form not known: {error}"))
                }
            }
            Ok(rows < SAMPLE && reason.is_none())
        })?;
        self.shares.any = rows > 0;
        Ok(reason)
    }

    fn share_row(&mut self, cluster: u64) -> Result<&mut ShareRow> {
        let start = cluster / ShareRow::CLUSTERS * ShareRow::CLUSTERS;
        if !self.shares.rows.contains_key(&start) {
            let (tree, pages) = self.root(Root::References);
            let found = tree.get(pages, &ShareRow::key(start), |row| ShareRow::from_bytes(row.value, 0))?;
            let row = found.transpose()?.unwrap_or_else(|| ShareRow::new(start));
            if row.is_deduplicated() {
                return Err(Error::NotPermitted("its clusters are deduplicated, which is only read"));
            }
            self.shares.rows.insert(start, row);
        }
        Ok(self.shares.rows.get_mut(&start).expect("there now"))
    }

    /// The number of streams on disk that have a cluster, to be changed: 0 stands for one.
    fn count(&mut self, cluster: u64) -> Result<&mut u16> {
        let row = self.share_row(cluster)?;
        Ok(&mut row.counts[(cluster % ShareRow::CLUSTERS) as usize])
    }

    /// Whether the first cluster of a run is shared, and for how many clusters from it on that is the same.
    pub(crate) fn shared(&mut self, cluster: u64, count: u32) -> Result<(bool, u32)> {
        if self.shares.is_trivial() {
            return Ok((false, count));
        }
        let is_shared = |core: &mut Core, at: u32| -> Result<bool> {
            let cluster = cluster + u64::from(at);
            Ok(*core.count(cluster)? >= 2 || core.shares.pins.contains_key(&cluster))
        };
        let first = is_shared(self, 0)?;
        for at in 1..count {
            if is_shared(self, at)? != first {
                return Ok((first, at));
            }
        }
        Ok((first, count))
    }

    /// Whether the first cluster of a stream's run may not be overwritten because other streams share it, in memory or
    /// still on disk; and for how many clusters from it on that is the same.
    pub(crate) fn is_others_too(&mut self, cluster: u64, count: u32) -> Result<(bool, u32)> {
        let (is_shared, mut length) = self.shared(cluster, count)?;
        if is_shared {
            return Ok((true, length));
        }
        let shares = &self.shares;
        let is_kept = |at: u32| {
            let cluster = cluster + u64::from(at);
            shares.lately.contains(&cluster) || shares.leaving.contains(&cluster)
        };
        if shares.lately.is_empty() && shares.leaving.is_empty() {
            return Ok((false, length));
        }
        let first = is_kept(0);
        length = (1..length).find(|&at| is_kept(at) != first).unwrap_or(length);
        Ok((first, length))
    }

    /// Counts one more owner of each of these runs.
    ///
    /// # Errors
    /// [`Error::NoSpace`], and [`Error::NotPermitted`] if a cluster has as many owners as can be counted: then nothing
    /// is changed.
    pub(crate) fn share(&mut self, runs: &[(u64, u32)]) -> Result<()> {
        let each = || runs.iter().flat_map(|&(start, count)| start..start + u64::from(count));
        let mut ranges = BTreeSet::new();
        for cluster in each() {
            ranges.insert(cluster / ShareRow::CLUSTERS);
            if *self.count(cluster)? >= ShareRow::COUNT {
                return Err(Error::NotPermitted("a cluster has as many owners as can be counted"));
            }
        }
        // Every row may take a page of its own, and some above.
        if !self.spares(2 * ranges.len() as u64 + 16) {
            return Err(Error::NoSpace);
        }
        for cluster in each() {
            let count = self.count(cluster)?;
            *count = (*count).max(1) + 1;
            self.shares.changed.insert(cluster / ShareRow::CLUSTERS * ShareRow::CLUSTERS);
        }
        self.store_shares()
    }

    /// The most pages that giving up a range of a stream takes: those of rows of the table, where clusters are shared.
    pub(crate) fn pages_to_give_up(&mut self, extents: &Extents, range: std::ops::Range<u32>) -> Result<u64> {
        if self.shares.is_trivial() {
            return Ok(0);
        }
        let mut runs = Vec::new();
        // Runs that are not in memory are counted by the caller that loads them.
        let _ = extents.walk(range.start, range.end, |piece| {
            runs.extend(piece.run.map(|run| (run.cluster, run.count)));
            Ok(())
        });
        let mut rows = BTreeSet::new();
        for (start, count) in runs {
            // Checks that the run lies in the volume before its clusters are looked up.
            self.run(start, count)?;
            let end = start + u64::from(count);
            for row in start / ShareRow::CLUSTERS..end.div_ceil(ShareRow::CLUSTERS) {
                let first = row * ShareRow::CLUSTERS;
                let counts = &self.share_row(first)?.counts;
                let from = start.saturating_sub(first) as usize;
                let to = (end - first).min(ShareRow::CLUSTERS) as usize;
                if counts[from..to].iter().any(|count| *count >= 2) {
                    rows.insert(row);
                }
            }
        }
        Ok(if rows.is_empty() { 0 } else { 2 * rows.len() as u64 + 16 })
    }

    /// Returns an error if there is no room to store the changes of giving up a range of a stream.
    pub(crate) fn can_give_up(&mut self, extents: &Extents, range: std::ops::Range<u32>) -> Result<()> {
        let pages = self.pages_to_give_up(extents, range)?;
        if pages == 0 || self.spares(pages) { Ok(()) } else { Err(Error::NoSpace) }
    }

    /// Gives up runs of a stream: clusters that no other stream has are free once the next checkpoint is on disk.
    /// `is_nameless` says that the stream does not count on disk any more.
    pub(crate) fn park(&mut self, gone: &[(u64, u32)], is_nameless: bool) -> Result<()> {
        self.news |= !gone.is_empty();
        self.park_written(gone, is_nameless)
    }

    /// Like [`Core::park`], for runs that were replaced by other runs of the stream: an entry of the log of syncs can
    /// make that durable, so no commit is needed for it.
    pub(crate) fn park_written(&mut self, gone: &[(u64, u32)], is_nameless: bool) -> Result<()> {
        for &(cluster, count) in gone {
            self.each_part(cluster, count, |core, cluster, count, is_shared| {
                if !is_shared {
                    let run = core.run(cluster, count)?;
                    core.pages.space.park(run);
                    return Ok(());
                }
                (cluster..cluster + u64::from(count)).try_for_each(|cluster| match is_nameless {
                    true => core.unpin(cluster),
                    false => core.unshare(cluster),
                })
            })?;
        }
        self.store_shares()
    }

    /// Removes the runs of a stream that lost its name from those that count on disk. The stream keeps their clusters
    /// while it is in use.
    pub(crate) fn disown(&mut self, runs: &[(u64, u32)]) -> Result<()> {
        for &(cluster, count) in runs {
            self.each_part(cluster, count, |core, cluster, count, is_shared| {
                if !is_shared {
                    let run = core.run(cluster, count)?;
                    core.pages.space.hold(run);
                    return Ok(());
                }
                for cluster in cluster..cluster + u64::from(count) {
                    core.shares.pins.entry(cluster).or_insert(Pin { count: 0, is_last: false }).count += 1;
                    core.unshare(cluster)?;
                }
                Ok(())
            })?;
        }
        self.store_shares()
    }

    fn each_part(
        &mut self,
        cluster: u64,
        count: u32,
        mut with: impl FnMut(&mut Core, u64, u32, bool) -> Result<()>,
    ) -> Result<()> {
        // Checks that the run lies in the volume before its clusters are looked up one by one.
        self.run(cluster, count)?;
        let mut at = 0;
        while at < count {
            let first = cluster + u64::from(at);
            let (is_shared, length) = self.shared(first, count - at)?;
            with(self, first, length, is_shared)?;
            at += length;
        }
        Ok(())
    }

    /// Gives up a shared cluster of a stream that counts on disk.
    fn unshare(&mut self, cluster: u64) -> Result<()> {
        let count = self.count(cluster)?;
        if *count >= 2 {
            let is_last = *count == 2;
            *count = if is_last { 0 } else { *count - 1 };
            if is_last {
                self.shares.lately.insert(cluster);
            }
            self.shares.changed.insert(cluster / ShareRow::CLUSTERS * ShareRow::CLUSTERS);
            return Ok(());
        }
        // Only files without a name still have the cluster.
        if let Some(pin) = self.shares.pins.get_mut(&cluster) {
            pin.is_last = true;
            let run = self.run(cluster, 1)?;
            self.pages.space.hold(run);
        }
        Ok(())
    }

    fn unpin(&mut self, cluster: u64) -> Result<()> {
        let Some(pin) = self.shares.pins.get_mut(&cluster) else { return Ok(()) };
        pin.count -= 1;
        if pin.count > 0 {
            return Ok(());
        }
        let is_last = pin.is_last;
        self.shares.pins.remove(&cluster);
        if is_last {
            let run = self.run(cluster, 1)?;
            self.pages.space.park(run);
        }
        Ok(())
    }

    /// Stores changed counts in the table.
    fn store_shares(&mut self) -> Result<()> {
        if self.shares.changed.is_empty() {
            return Ok(());
        }
        let stamp = self.checkpoint.clock + 1;
        for start in std::mem::take(&mut self.shares.changed) {
            let row = self.share_row(start)?;
            row.stamp = stamp;
            let (is_empty, key, value) = (row.is_empty(), ShareRow::key(start), row.to_bytes());
            let (tree, pages) = self.root(Root::References);
            let stored = match is_empty {
                true => tree.remove(pages, &key).map(drop),
                false => tree.put(pages, &key, 0, &value).map(drop),
            };
            if let Err(error) = stored {
                // Streams and counts now contradict each other in memory; on disk they do not.
                self.pages.is_broken = true;
                return Err(error);
            }
            self.shares.any |= !is_empty;
        }
        self.news = true;
        Ok(())
    }
}

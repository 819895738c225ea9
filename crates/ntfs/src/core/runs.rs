//! Runs of clusters: read, written, taken and given up.

use super::{Core, Segments, Undo};
use crate::file::{Attr, File, Outside};
use crate::layout::{Kind, Run};
use crate::runlist::Runs;
use crate::space::{Clusters, Held};
use platter_device::{Device, read_any, write_any};
use platter_vfs::{Error, Health, Result};

impl Core {
    /// Reads bytes of an attribute from the device.
    pub(crate) fn read_runs(&self, runs: &(impl Runs + ?Sized), at: u64, length: u64) -> Result<Vec<u8>> {
        let mut bytes = vec![0; length as usize];
        read_pieces(&*self.device, self.geometry.cluster, runs, at, &mut bytes)?;
        Ok(bytes)
    }

    /// Writes bytes of an attribute to the device at once, not with the next commit.
    pub(crate) fn write_runs(&self, runs: &(impl Runs + ?Sized), at: u64, bytes: &[u8]) -> Result<()> {
        let mut done = 0usize;
        for (offset, piece) in self.places(runs, at, bytes.len() as u64)? {
            write_any(&*self.device, offset, &bytes[done..done + piece as usize])?;
            done += piece as usize;
        }
        Ok(())
    }

    /// Where a range of bytes of an attribute is on the device; a hole is at `u64::MAX`.
    pub(crate) fn places(&self, runs: &(impl Runs + ?Sized), at: u64, length: u64) -> Result<Segments> {
        places(self.geometry.cluster, runs, at, length)
    }

    /// Clusters that data must leave free, so that metadata can grow.
    pub(crate) fn reserve(&self) -> u64 {
        (self.space.total() / 256).clamp(8, (4 << 20) / self.geometry.cluster.min(1 << 18))
    }

    /// Adds clusters at the end of an attribute: those right behind its last cluster, if they are free.
    pub(crate) fn extend(
        &mut self,
        outside: &mut Outside,
        clusters: u64,
        on_disk: bool,
        metadata: bool,
    ) -> Result<()> {
        let last = outside.runs.iter().rev().find_map(|run| run.lcn.map(|lcn| lcn + run.length));
        self.extend_near(outside, clusters, last, on_disk, metadata)
    }

    pub(super) fn extend_near(
        &mut self,
        outside: &mut Outside,
        clusters: u64,
        near: Option<u64>,
        on_disk: bool,
        metadata: bool,
    ) -> Result<()> {
        let mut near = near;
        let mut left = clusters;
        if !metadata && self.space.at_hand() < clusters + self.reserve() {
            return Err(Error::NoSpace);
        }
        while left > 0 {
            let found = self.take_clusters(near, left, on_disk)?;
            outside.push(Some(found.0), found.1);
            near = Some(found.0 + found.1);
            left -= found.1;
        }
        Ok(())
    }

    /// Takes up to `most` clusters that lie together, from `near` on if possible.
    pub(crate) fn take_clusters(&mut self, near: Option<u64>, most: u64, on_disk: bool) -> Result<Clusters> {
        let found = self.space.find(near, most)?.ok_or(Error::NoSpace)?;
        self.space.take(found, on_disk);
        self.undo.push(Undo::Take(found, on_disk));
        Ok(found)
    }

    /// Gives up the clusters of runs. If some are not in use, their run is not given up and the volume takes no more
    /// changes: another file may have them by now.
    pub(crate) fn give_runs(&mut self, runs: &[Run], held: Held, on_disk: bool) {
        for run in runs {
            if let Some(lcn) = run.lcn {
                match self.space.give((lcn, run.length), held, on_disk) {
                    true => self.undo.push(Undo::Give((lcn, run.length), on_disk)),
                    false => _ = self.health.stop(Health::SPACE_IS_WRONG),
                }
            }
        }
    }

    /// Marks the clusters of runs as free on disk; in memory they stay taken as long as the file is held.
    pub(crate) fn hide_runs(&mut self, runs: &[Run]) {
        for run in runs {
            if let Some(lcn) = run.lcn {
                self.space.mark((lcn, run.length), false);
                self.undo.push(Undo::Hide((lcn, run.length)));
            }
        }
    }
}

/// Where a range of bytes of these runs is on the device; a hole is at `u64::MAX`.
pub(super) fn places(cluster: u64, runs: &(impl Runs + ?Sized), at: u64, length: u64) -> Result<Segments> {
    let mut places = Segments::new();
    let (mut position, end) = (at, at + length);
    let mut ahead = runs.from(at / cluster);
    while position < end {
        let Some(run) = ahead.next() else {
            let last = runs.end() * cluster;
            return Err(Error::damaged("run list", position, format!("{end} bytes in runs"), last));
        };
        let stop = (run.end() * cluster).min(end);
        let offset = run.lcn.map_or(u64::MAX, |lcn| lcn * cluster + (position - run.vcn * cluster));
        match places.last_mut() {
            Some(last) if offset != u64::MAX && last.0 != u64::MAX && last.0 + last.1 == offset => {
                last.1 += stop - position;
            }
            _ => places.push((offset, stop - position)),
        }
        position = stop;
    }
    Ok(places)
}

/// Reads bytes of runs; holes are zeroes.
pub(crate) fn read_pieces(
    device: &dyn Device,
    cluster: u64,
    runs: &(impl Runs + ?Sized),
    at: u64,
    bytes: &mut [u8],
) -> Result<()> {
    let mut done = 0usize;
    for (offset, piece) in places(cluster, runs, at, bytes.len() as u64)? {
        let bytes = &mut bytes[done..done + piece as usize];
        match offset {
            u64::MAX => bytes.fill(0),
            _ => read_any(device, offset, bytes)?,
        }
        done += piece as usize;
    }
    Ok(())
}

/// The runs of a file's unnamed `$DATA`.
pub(crate) fn data_runs(file: &File) -> Vec<Run> {
    file.find(Kind::DATA, &[]).and_then(Attr::outside).map_or_else(Vec::new, |data| data.runs.to_vec())
}

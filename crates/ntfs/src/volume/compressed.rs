//! Compressed content, read and written in compression units.

use super::NtfsVolume;
use crate::core::Core;
use crate::file::Outside;
use crate::layout::Run;
use crate::lznt1;
use crate::runlist::Runs;
use crate::space::Held;
use crate::stream::{StreamPlace, StreamState};
use platter_device::read_any;
use platter_vfs::{Error, Result};

/// The base-2 logarithm of the number of clusters in a compression unit.
pub(super) const UNIT: u8 = 4;
/// The largest cluster in bytes with which NTFS compresses files.
pub(super) const LARGEST_COMPRESSED: u64 = 4096;

// A unit of the largest clusters is 64 KiB.
const _: () = assert!(LARGEST_COMPRESSED << UNIT == 64 << 10);

impl NtfsVolume {
    pub(super) fn unit_clusters(&self, state: &StreamState) -> u64 {
        1 << state.unit.clamp(1, 16)
    }

    /// The content of one compression unit, with zeroes past the valid length.
    fn read_unit(&self, state: &StreamState, unit: u64) -> Result<Vec<u8>> {
        let bytes = self.unit_clusters(state) * self.cluster;
        let start = unit * bytes;
        if start >= state.valid {
            return Ok(vec![0; bytes as usize]);
        }
        let mut content = self.stored_unit(state, unit)?;
        content[(state.valid - start).min(bytes) as usize..].fill(0);
        Ok(content)
    }

    /// The decompressed content of a unit as it is stored, past the valid length too.
    fn stored_unit(&self, state: &StreamState, unit: u64) -> Result<Vec<u8>> {
        let clusters = self.unit_clusters(state);
        let mut content = vec![0; (clusters * self.cluster) as usize];
        let runs = state.runs().part(unit * clusters, (unit + 1) * clusters);
        let packed: Vec<Run> = runs.into_iter().filter(|run| run.lcn.is_some()).collect();
        let taken: u64 = packed.iter().map(|run| run.length).sum();
        let mut stream = Vec::with_capacity((taken * self.cluster) as usize);
        for run in &packed {
            let from = stream.len();
            stream.resize(from + (run.length * self.cluster) as usize, 0);
            read_any(&*self.device, run.lcn.unwrap_or(0) * self.cluster, &mut stream[from..])?;
        }
        if taken == clusters {
            content = stream;
        } else if let Some(first) = packed.first() {
            lznt1::decompress(&stream, &mut content, first.lcn.unwrap_or(0) * self.cluster)?;
        }
        Ok(content)
    }

    /// Moves the valid length of a compressed stream up to `end`, or to its size if that is less. Stored bytes from the
    /// old valid length up to `end` become zeroes, whichever driver wrote them. So a compressed stream's valid length
    /// is always its size: ntfs-3g does not append to a stream where it is less.
    pub(super) fn clear_to(
        &self,
        core: &mut Core,
        node: u64,
        state: &mut StreamState,
        end: u64,
    ) -> Result<()> {
        let cluster = self.cluster;
        let clusters = self.unit_clusters(state);
        let bytes = clusters * cluster;
        let mut at = state.valid;
        while at < end {
            let stored = state.runs().from(at / cluster).find(|run| run.lcn.is_some());
            let Some(unit) = stored.map(|run| run.vcn.max(at / cluster) / clusters) else { break };
            let start = unit * bytes;
            let (from, to) = (at.max(start), end.min(start + bytes));
            if from >= to {
                break;
            }
            let range = (from - start) as usize..(to - start) as usize;
            if self.stored_unit(state, unit)?[range.clone()].iter().any(|byte| *byte != 0) {
                self.write_compressed(core, node, state, from, &vec![0; range.len()])?;
            }
            at = to;
        }
        let end = end.min(state.size);
        if state.valid >= end {
            return Ok(());
        }
        self.remake(core, node, state, |_, state| {
            (state.valid, state.planned) = (end, end);
            Ok(())
        })
    }

    pub(super) fn read_compressed(&self, state: &StreamState, offset: u64, length: usize) -> Result<Vec<u8>> {
        let bytes = self.unit_clusters(state) * self.cluster;
        let end = offset + length as u64;
        let mut content = Vec::with_capacity(length);
        for unit in offset / bytes..end.div_ceil(bytes) {
            let whole = self.read_unit(state, unit)?;
            let from = offset.saturating_sub(unit * bytes) as usize;
            let to = (end - unit * bytes).min(bytes) as usize;
            content.extend_from_slice(&whole[from..to]);
        }
        Ok(content)
    }

    /// Writes into a compressed stream: its units are read, changed, packed, and written to new clusters.
    pub(super) fn write_compressed(
        &self,
        core: &mut Core,
        node: u64,
        state: &mut StreamState,
        offset: u64,
        data: &[u8],
    ) -> Result<()> {
        let cluster = self.cluster;
        let clusters = self.unit_clusters(state);
        let bytes = clusters * cluster;
        let end = offset + data.len() as u64;
        let on_disk = self.is_on_disk(core, node)?;
        let mut packer = lznt1::Packer::default();
        for unit in offset / bytes..end.div_ceil(bytes) {
            let start = unit * bytes;
            let mut content = self.read_unit(state, unit)?;
            let (from, to) = (offset.max(start), end.min(start + bytes));
            content[(from - start) as usize..(to - start) as usize]
                .copy_from_slice(&data[(from - offset) as usize..(to - offset) as usize]);
            let mut packed = vec![0; (bytes - cluster) as usize];
            let is_zero = content.iter().all(|byte| *byte == 0);
            let length = if is_zero { Some(0) } else { packer.compress(&content, &mut packed) };
            let image = match length {
                Some(length) => {
                    packed.truncate(length);
                    packed.resize(length.next_multiple_of(cluster as usize), 0);
                    packed
                }
                None => content,
            };
            self.remake(core, node, state, |core, state| {
                let mut new = Outside::default();
                new.push(None, unit * clusters);
                let wanted = image.len() as u64 / cluster;
                if core.space.at_hand() < wanted + core.reserve() {
                    return Err(Error::NoSpace);
                }
                while new.clusters() < unit * clusters + wanted {
                    let found =
                        core.take_clusters(None, unit * clusters + wanted - new.clusters(), on_disk)?;
                    new.push(Some(found.0), found.1);
                }
                core.write_runs(&new.runs, start, &image)?;
                new.push(None, clusters - wanted);
                let StreamPlace::Runs(runs) = &mut state.place else { return Ok(()) };
                let known = runs.end();
                if known < (unit + 1) * clusters {
                    runs.push(Run { vcn: known, lcn: None, length: (unit + 1) * clusters - known });
                }
                let new = new.runs.part(unit * clusters, (unit + 1) * clusters);
                let old = runs.splice(unit * clusters, (unit + 1) * clusters, &new);
                core.give_runs(&old, Held::Data, on_disk);
                state.valid = state.valid.max(to);
                state.planned = state.valid;
                state.size = state.size.max(to);
                Ok(())
            })?;
        }
        Ok(())
    }
}

//! Compressed content: read and written in units.

use super::*;
use crate::core::read_any;
use crate::file::Outside;
use crate::lznt1;
use crate::runlist::{part, splice};
use crate::space::Held;
use crate::stream::Place;

/// Exponent of two of the clusters in a compression unit.
pub(super) const UNIT: u8 = 4;
/// The largest cluster that compressed files have.
pub(super) const LARGEST_COMPRESSED: u64 = 4096;

impl NtfsVolume {
    pub(super) fn unit_clusters(&self, state: &State) -> u64 {
        1 << state.unit.clamp(1, 16)
    }

    /// The content of one compression unit.
    pub(super) fn read_unit(&self, state: &State, unit: u64) -> Result<Vec<u8>> {
        let clusters = self.unit_clusters(state);
        let bytes = clusters * self.cluster;
        let mut content = vec![0; bytes as usize];
        let start = unit * bytes;
        if start >= state.valid {
            return Ok(content);
        }
        let runs = part(state.runs(), unit * clusters, (unit + 1) * clusters);
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
        let valid = (state.valid - start).min(bytes) as usize;
        content[valid..].fill(0);
        Ok(content)
    }

    pub(super) fn read_compressed(&self, state: &State, offset: u64, length: usize) -> Result<Vec<u8>> {
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
        state: &mut State,
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
                let Place::Runs(runs) = &mut state.place else { return Ok(()) };
                let known = runs.last().map_or(0, Run::end);
                if known < (unit + 1) * clusters {
                    crate::layout::runs::push(
                        runs,
                        Run { vcn: known, lcn: None, length: (unit + 1) * clusters - known },
                    );
                }
                let new = part(&new.runs, unit * clusters, (unit + 1) * clusters);
                let old = splice(runs, unit * clusters, (unit + 1) * clusters, &new);
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

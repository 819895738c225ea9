//! Where the log is on the device.

use crate::layout::{Geometry, Run};
use platter_device::Device;
use platter_vfs::{Error, Result};

/// Where the log is on the device, and the sizes of clusters and records on its volume.
#[derive(Clone, Debug)]
pub struct LogPlace {
    /// The pieces of the log in order: device offset and length in bytes, multiples of the cluster.
    pub runs: Vec<(u64, u64)>,
    /// Bytes of a cluster.
    pub cluster: u32,
    /// Bytes of a file record.
    pub record: u32,
}

impl LogPlace {
    /// The place of a log with these runs; `None` if they have a hole.
    pub fn of_runs(runs: &[Run], geometry: &Geometry) -> Option<LogPlace> {
        let cluster = geometry.cluster;
        let place = |run: &Run| Some((run.lcn? * cluster, run.length * cluster));
        let runs = runs.iter().map(place).collect::<Option<Vec<_>>>()?;
        Some(LogPlace { runs, cluster: cluster as u32, record: geometry.record })
    }

    /// Bytes of the log.
    pub fn bytes(&self) -> u64 {
        self.runs.iter().map(|run| run.1).sum()
    }

    /// Fills `buffer` from `offset` of the log.
    pub(super) fn read(&self, device: &dyn Device, offset: u64, buffer: &mut [u8]) -> Result<()> {
        for (place, from, length) in self.pieces(offset, buffer.len())? {
            device.read_at(place, &mut buffer[from..from + length])?;
        }
        Ok(())
    }

    /// Writes `bytes` at `offset` of the log.
    pub(super) fn write(&self, device: &dyn Device, offset: u64, bytes: &[u8]) -> Result<()> {
        for (place, from, length) in self.pieces(offset, bytes.len())? {
            device.write_at(place, &bytes[from..from + length])?;
        }
        Ok(())
    }

    /// Where a range of the log is: device offset, position in the range, length.
    fn pieces(&self, offset: u64, length: usize) -> Result<Vec<(u64, usize, usize)>> {
        let (mut skip, mut done, mut pieces) = (offset, 0, Vec::new());
        for &(start, bytes) in &self.runs {
            if skip >= bytes {
                skip -= bytes;
                continue;
            }
            let take = (bytes - skip).min((length - done) as u64) as usize;
            pieces.push((start + skip, done, take));
            (skip, done) = (0, done + take);
            if done == length {
                return Ok(pieces);
            }
        }
        Err(Error::damaged("$LogFile", offset, format!("{length} bytes"), "its end"))
    }
}

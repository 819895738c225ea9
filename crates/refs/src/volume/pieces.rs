//! Writes of any bytes, planned where they can be and cluster by cluster where not.

use super::Volume;
use super::around::is_around;
use crate::stream::Stream;
use platter_vfs::blocking::{is_one_step, plan_when_free, write_in_steps};
use platter_vfs::{Access, Claim, Node, Plan, Result};

impl Volume {
    pub(super) fn write_bytes(&self, node: Node, offset: u64, data: &[u8]) -> Result<()> {
        let stream = self.data_of(node)?;
        self.may_write(&stream)?;
        let end = self.check_size(offset.checked_add(data.len() as u64))?;
        let cluster = u64::from(self.geometry.cluster);
        let sector = u64::from(self.device.sectors().logical);
        // A write in several steps, or into part of a cluster, claims its range: nobody may cut the file short between two
        // steps, and a write in flight to other sectors of the same cluster would be lost. One whose clusters are read
        // ahead is one plan, which sees to that itself.
        let is_one = is_one_step(offset, data.len(), cluster)
            || is_one_step(offset, data.len(), sector) && is_around(&stream.read(), &(offset..end), cluster);
        let claim = (!is_one).then(|| {
            let whole = offset - offset % cluster..end.checked_next_multiple_of(cluster).unwrap_or(end);
            stream.claim(whole, Access::Write)
        });
        self.write_within(&stream, offset, data, claim.as_ref())
    }

    /// Writes bytes at any offset. `within` is the caller's claim that covers all clusters of the range; without one,
    /// the write is one step.
    pub(super) fn write_within(
        &self,
        stream: &Stream,
        offset: u64,
        data: &[u8],
        within: Option<&Claim<'_>>,
    ) -> Result<()> {
        self.may_write(stream)?;
        let node = Node(stream.node);
        let mut plan = Plan::default();
        let mut planned = |at: u64, piece: &[u8]| {
            let make = |plan: &mut Plan| self.plan_writing(node, at, piece, plan, within);
            plan_when_free(&mut plan, &*self.device, make, || stream.wait_free())?;
            let done = plan.write_to(&*self.device, piece);
            self.finish_writing(&mut plan, piece, done).map(drop)
        };
        if within.is_none() && !data.is_empty() {
            return planned(offset, data);
        }
        let slowly =
            |at: u64, piece: &[u8]| self.with_space(|lacks| self.write_slowly(stream, at, piece, lacks));
        write_in_steps(offset, data, u64::from(self.geometry.cluster), planned, slowly)
    }
}

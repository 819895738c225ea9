//! Reading content, in two halves: planning and finishing.

use super::NtfsVolume;
use super::planned::{Memory, Planned, keep};
use crate::runlist::{RunList, Runs};
use crate::stream::{Stream, StreamPlace, StreamState};
use crate::wof::{self, Packing};
use platter_vfs::{Access, Error, FileSystem, Name, Node, Pass, Plan, Result};
use std::ops::Range;
use std::sync::atomic::Ordering;

impl NtfsVolume {
    pub(super) fn plan_reading(&self, node: Node, offset: u64, length: usize, plan: &mut Plan) -> Result<()> {
        Plan::check_range(self.sector, offset, length)?;
        let mut memory = self.memory(node, plan)?;
        let planned = self.fill_read(&mut memory, node, offset, length, plan);
        keep(plan, memory, planned)
    }

    fn fill_read(
        &self,
        memory: &mut Memory,
        node: Node,
        offset: u64,
        length: usize,
        plan: &mut Plan,
    ) -> Result<(Planned, Pass)> {
        let packed = {
            let state = memory.stream.read();
            state.packed.map(|packing| (packing, state.size))
        };
        if let Some((packing, size)) = packed {
            let covered = size.saturating_sub(offset).min(length as u64) as usize;
            plan.start(node.0, offset, covered);
            if covered > 0 {
                memory.bounce = self.read_packed(node, packing, size, (offset, covered))?;
            }
            let pass = memory.stream.enter(offset..offset + length as u64, Access::Read, None)?;
            return Ok((Planned::Bounced, pass));
        }
        let state = memory.stream.read();
        let covered = state.size.saturating_sub(offset).min(length as u64);
        plan.start(node.0, offset, covered as usize);
        let mut planned = Planned::Read { exchanges: memory.stream.exchanges.load(Ordering::SeqCst) };
        let end = offset + covered;
        if covered > 0 {
            state.check_plain()?;
        }
        match &state.place {
            _ if covered == 0 => {}
            StreamPlace::Resident(content) => {
                memory.bounce.extend_from_slice(&content[offset as usize..end as usize]);
                planned = Planned::Bounced;
            }
            StreamPlace::Runs(_) if state.is_compressed() => {
                memory.bounce = self.read_compressed(&state, offset, covered as usize)?;
                planned = Planned::Bounced;
            }
            StreamPlace::Runs(runs) => {
                self.fill_parts(&state, runs, (offset, offset..end), length, plan)?;
            }
        }
        let pass = memory.stream.enter(offset..offset + length as u64, Access::Read, None)?;
        Ok((planned, pass))
    }

    /// The content of a file that Windows Overlay Filter packed; its `size` is that of the unnamed stream. The caller
    /// holds no lock: the packed stream is read like any other.
    fn read_packed(
        &self,
        node: Node,
        packing: Packing,
        size: u64,
        (offset, length): (u64, usize),
    ) -> Result<Vec<u8>> {
        let missing = || Error::damaged(wof::STREAM, 0, "a stream of the file", "none");
        let stream = match self.open_stream(node, &Name::from(wof::STREAM), false) {
            Err(Error::NotFound) => return Err(missing()),
            stream => stream?,
        };
        let read = || {
            let packed = self.attributes_of(&mut self.core(), stream.0)?.size;
            wof::read(packing, (size, packed), (offset, length), &mut |at, buffer| match self
                .read(stream, at, buffer)?
            {
                read if read == buffer.len() => Ok(()),
                read => {
                    let expected = format!("{} bytes", buffer.len());
                    Err(Error::damaged(wof::STREAM, at, expected, read))
                }
            })
        };
        let content = read();
        self.let_go(stream, 1);
        content
    }

    /// Adds to a plan the segments and holes of a byte range of a stream, without what was never written. The plan's
    /// buffer has room for `length` bytes from `start`.
    fn fill_parts(
        &self,
        state: &StreamState,
        runs: &RunList,
        (start, range): (u64, Range<u64>),
        length: usize,
        plan: &mut Plan,
    ) -> Result<()> {
        for (part, is_written) in state.parts(range) {
            match is_written {
                true => self.fill_segments(runs, start, part, length, plan)?,
                false => plan.holes.push((part.start - start) as u32..(part.end - start) as u32),
            }
        }
        Ok(())
    }

    /// Adds to a plan the segments and holes of a byte range of a stream. The last transfer may reach to the end of its
    /// sector, never past the buffer, which has room for `length` bytes from `start`.
    pub(super) fn fill_segments(
        &self,
        runs: &RunList,
        start: u64,
        range: Range<u64>,
        length: usize,
        plan: &mut Plan,
    ) -> Result<()> {
        let (shift, mask) = (self.shift, u64::from(self.sector) - 1);
        let end = ((range.end + mask) & !mask).min(start + length as u64);
        let mut at = range.start;
        let mut ahead = runs.from(at >> shift);
        while at < range.end {
            let Some(run) = ahead.next() else {
                let found = runs.end() << shift;
                return Err(Error::damaged(
                    "run list",
                    0,
                    format!("clusters for {} bytes", range.end),
                    found,
                ));
            };
            let stop = (run.end() << shift).min(end);
            match run.lcn {
                Some(lcn) => {
                    let offset = (lcn << shift) + (at - (run.vcn << shift));
                    plan.push(offset, (at - start) as u32, (stop - at) as u32);
                }
                None => plan.holes.push((at - start) as u32..(stop - start) as u32),
            }
            at = stop;
        }
        Ok(())
    }

    pub(super) fn finish_reading(
        &self,
        plan: &mut Plan,
        buffer: &mut [u8],
        done: platter_device::Result<()>,
    ) -> Result<usize> {
        let (memory, planned, pass) = self.finishing(plan)?;
        let finished = match (planned, done) {
            (_, Err(error)) => Err(error.into()),
            (Planned::Read { exchanges }, Ok(())) => {
                plan.clear_holes(buffer);
                match exchanges == memory.stream.exchanges.load(Ordering::SeqCst) {
                    true => Ok(plan.length),
                    false => self.read_again(&memory.stream, plan, exchanges, buffer).map(|()| plan.length),
                }
            }
            (_, Ok(())) => {
                buffer[..memory.bounce.len()].copy_from_slice(&memory.bounce);
                Ok(plan.length)
            }
        };
        memory.stream.leave(pass);
        plan.keep(memory);
        finished
    }

    /// Reads again the parts of a plan whose clusters a sync exchanged since the read was planned. The old clusters may
    /// hold what a write under way has put there since, which others do not see before that write has finished: it
    /// would be seen, and then be gone again.
    fn read_again(&self, stream: &Stream, plan: &Plan, exchanges: u64, buffer: &mut [u8]) -> Result<()> {
        let state = stream.read();
        let StreamPlace::Runs(runs) = &state.place else { return Ok(()) };
        let mut again = Plan::default();
        let range = plan.offset..plan.offset + plan.length as u64;
        for exchanged in state.exchanged_since(exchanges, &range) {
            self.fill_parts(&state, runs, (plan.offset, exchanged), buffer.len(), &mut again)?;
        }
        again.read_from(&*self.device, buffer)?;
        again.clear_holes(buffer);
        Ok(())
    }
}

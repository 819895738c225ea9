//! What a plan keeps between its two halves. A write is of one of three kinds:
//!
//! * In place: over allocated clusters, up to the valid length. Takes the stream's lock only.
//! * Appending: past the valid length, over clusters that are allocated or taken now. The length moves when the data is
//!   written.
//! * A rewrite: over content that is resident, compressed, or a hole. Done when the plan is finished, with core and
//!   stream locked.

use super::NtfsVolume;
use crate::stream::Stream;
use platter_vfs::{Node, Pass, Plan, Result};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The state of a plan between its two halves; a plan keeps it from one request to the next.
pub(super) struct Memory {
    pub volume: u64,
    pub stream: Arc<Stream>,
    /// For reads of resident and compressed content: the bytes, which were read when the read was planned.
    pub bounce: Vec<u8>,
    /// The plan that is under way, if one is, and its place among those that use the stream.
    pub planned: Option<(Planned, Pass)>,
}

/// What a plan is to do, from its first half to its second. `exchanges` is the stream's count of exchanged clusters when
/// the plan was made.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Planned {
    Read {
        exchanges: u64,
    },
    /// A read whose bytes are in memory already.
    Bounced,
    InPlace {
        exchanges: u64,
    },
    Append {
        exchanges: u64,
    },
    /// A write that is carried out when it is finished.
    Rewrite,
}

impl NtfsVolume {
    pub(super) fn memory(&self, node: Node, plan: &mut Plan) -> Result<Box<Memory>> {
        let suits = |memory: &Memory| {
            let stream = &memory.stream;
            memory.volume == self.id && stream.node == node.0 && stream.is_listed.load(Ordering::Relaxed)
        };
        if let Some(mut memory) = plan.kept(suits) {
            memory.bounce.clear();
            return Ok(memory);
        }
        Ok(Box::new(Memory {
            volume: self.id,
            stream: self.data_of(node)?,
            bounce: Vec::new(),
            planned: None,
        }))
    }

    /// Takes what a plan that is being finished was made for. The caller puts the memory back into the plan.
    pub(super) fn finishing(&self, plan: &mut Plan) -> Result<(Box<Memory>, Planned, Pass)> {
        let node = plan.node;
        let mut memory =
            plan.own(|memory: &Memory| memory.volume == self.id && memory.stream.node == node)?;
        let (planned, pass) = memory.planned.take().ok_or(Plan::FINISHED)?;
        Ok((memory, planned, pass))
    }
}

/// Puts the memory of a plan back into it, with what was planned if that could be done.
pub(super) fn keep(plan: &mut Plan, mut memory: Box<Memory>, planned: Result<(Planned, Pass)>) -> Result<()> {
    let planned = planned.map(|planned| memory.planned = Some(planned));
    plan.keep(memory);
    planned
}

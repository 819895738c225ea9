//! The parts that reads and writes of file data have in common. Plans are made and finished in `reading` and `writing`,
//! or carried out in `slowly` with the stream locked; `size` resizes streams, punches holes and lists extents. There
//! are three ways to write:
//!
//! * In place: to existing clusters of a stream without integrity.
//! * To new clusters: all other writes of whole clusters. The old clusters are given back when the new ones are on
//!   record, and handed out again only after the next commit.
//!   A write of part of a cluster with a checksum becomes one of whole clusters, see `around`.
//! * *Slowly*, with the stream locked: writes that begin or end inside a hole or a shared cluster, and those of content
//!   in the record.

use super::Volume;
use super::ahead::{Ahead, Rows};
use crate::core::Core;
use crate::extents::Extent;
use crate::space::{ContainerRun, WRITERS};
use crate::stream::{LARGEST, Stream, StreamContent};
use platter_vfs::{Error, Kind, Node, Pass, Plan, Result};
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Runs of clusters that were taken, each with its first cluster in the stream.
pub(super) type Taken = SmallVec<[(u32, ContainerRun); 2]>;

/// The state of a plan between its two halves. The plan keeps it for the next request.
pub(super) struct Memory {
    pub(super) volume: u64,
    pub(super) stream: Arc<Stream>,
    /// For reads: the checksum that each cluster must have, with its place on the volume.
    pub(super) expected: Vec<(u32, u64)>,
    /// What was read from the device before the plan could be made.
    pub(super) ahead: Ahead,
    /// For reads of content in the record, and of parts of clusters with checksums: the bytes that were read when
    /// planning.
    pub(super) bounce: Vec<u8>,
    /// For writes: the runs taken.
    pub(super) taken: Taken,
    /// For writes: the rows that are to go into the stream's runs, with their checksums if they need them.
    pub(super) rows: Vec<Extent>,
    /// For writes: the clusters that these rows replaced, as first virtual cluster and number.
    pub(super) gone: Vec<(u64, u32)>,
    /// For writes of part of a cluster with a checksum: the rows that were read. If the stream has others when the new
    /// ones are recorded, another write came between.
    pub(super) before: Option<Rows>,
    /// For writes: the number of metadata pages that are reserved for the rows until these are on record.
    pub(super) owes: u64,
    /// Whether the last write went to new clusters because the stream has integrity. The next one is then planned for
    /// new clusters without a look at the stream's runs.
    pub(super) is_moving: bool,
    /// For writes that there was no room for: the number of clusters that were missing.
    pub(super) lacks: u64,
    /// The plan that is under way, if one is, and its place among those that use the stream.
    pub(super) planned: Option<(Planned, Pass)>,
}

/// What a plan is to do, from its first half to its second.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Planned {
    Read {
        /// The stream's generation when the read was planned.
        generation: u64,
        /// Whether each of its clusters has a checksum that is compared. Else it would go unnoticed if they had become
        /// another file's by the time that the device reads them.
        is_vouched: bool,
    },
    /// A read whose bytes are in memory already.
    Bounced,
    InPlace,
    /// A write to new clusters.
    New {
        /// Whether the stream has integrity.
        integrity: bool,
        /// Whether an entry of the log of syncs has its rows already.
        is_beside: bool,
    },
    /// A write that is carried out when it is finished.
    Slowly,
}

impl Volume {
    fn stream_of(&self, node: Node) -> Result<Arc<Stream>> {
        if let Some(stream) = self.streams.read().get(&node.0) {
            return Ok(stream.clone());
        }
        let core = self.core();
        let entity = core.entity(node.0)?;
        match (entity.kind(), &entity.stream) {
            (Kind::Directory, _) => Err(Error::IsADirectory),
            (_, Some(stream)) => Ok(stream.clone()),
            _ => Err(Error::NotFound),
        }
    }

    /// Returns the stream of a node, if its content can be read and written.
    pub(super) fn data_of(&self, node: Node) -> Result<Arc<Stream>> {
        let stream = self.stream_of(node)?;
        if stream.is_link.load(Ordering::Relaxed) {
            return Err(Error::InvalidArgument("a symbolic link has no content"));
        }
        match stream.limits.unreadable {
            Some(why) => Err(Error::Unreadable(why)),
            None => Ok(stream),
        }
    }

    /// Returns the memory of the plan's last request if that was of the same stream, else a new one.
    pub(super) fn memory(&self, node: Node, plan: &mut Plan) -> Result<Box<Memory>> {
        let suits = |memory: &Memory| {
            let stream = &memory.stream;
            memory.volume == self.id && stream.node == node.0 && stream.is_listed.load(Ordering::Relaxed)
        };
        if let Some(mut memory) = plan.kept(suits) {
            memory.expected.clear();
            memory.bounce.clear();
            memory.taken.clear();
            memory.rows.clear();
            memory.lacks = 0;
            memory.before = None;
            return Ok(memory);
        }
        let stream = self.data_of(node)?;
        Ok(Box::new(Memory {
            volume: self.id,
            stream,
            expected: Vec::new(),
            ahead: Ahead::default(),
            bounce: Vec::new(),
            taken: SmallVec::new(),
            rows: Vec::new(),
            gone: Vec::new(),
            before: None,
            owes: 0,
            is_moving: false,
            lacks: 0,
            planned: None,
        }))
    }

    /// Has the next commit store a stream's size and runs, which have changed or are about to. The caller has the
    /// stream locked for the change. Until that commit a write in place is durable only after a sync, not with its
    /// device write.
    pub(super) fn mark_moved(&self, core: &mut Core, stream: &Stream) {
        core.mark(stream.node);
        self.commits.note(&stream.moved);
    }

    pub(super) fn check_size(&self, end: Option<u64>) -> Result<u64> {
        match end {
            Some(end) if end <= LARGEST => Ok(end),
            _ => Err(Error::FileTooLarge { format: "ReFS", limit: LARGEST, wanted: end.unwrap_or(u64::MAX) }),
        }
    }

    /// Loads the runs of a range of a stream, if they are not in memory.
    pub(super) fn load(&self, stream: &Stream, from: u32, to: u32) -> Result<()> {
        let mut core = self.core();
        let mut state = stream.write();
        match &mut state.content {
            StreamContent::Extents(extents) => extents.load_range(&mut core.pages, from, to),
            StreamContent::Inline(_) => Ok(()),
        }
    }

    pub(super) fn clusters(&self, range: Range<u64>) -> (u32, u32) {
        let cluster = u64::from(self.geometry.cluster);
        ((range.start / cluster) as u32, range.end.div_ceil(cluster) as u32)
    }

    /// Returns the byte offset of a virtual cluster on the device. Containers do not move while a volume is open.
    pub(super) fn device_offset(&self, cluster: u64) -> Result<u64> {
        if self.map.is_compressed(&self.geometry, cluster) {
            return Err(Error::Unreadable("its clusters are in a container that is compressed"));
        }
        Ok(self.geometry.offset(self.map.real(&self.geometry, cluster, 1)?))
    }

    /// Takes what a plan that is being finished was made for. The caller puts the memory back into the plan.
    pub(super) fn finishing(&self, plan: &mut Plan) -> Result<(Box<Memory>, Planned, Pass)> {
        let node = plan.node;
        let mut memory =
            plan.own(|memory: &Memory| memory.volume == self.id && memory.stream.node == node)?;
        let (planned, pass) = memory.planned.take().ok_or(Plan::FINISHED)?;
        Ok((memory, planned, pass))
    }

    /// Drops a stream whose node was forgotten while plans of it were under way, once none is.
    pub(super) fn let_go_quiet(&self, stream: &Stream) {
        if stream.is_forgotten.load(Ordering::Acquire) && stream.is_quiet() {
            let _ = self.core().forget_idle(stream.node);
        }
    }
}

/// Puts the memory of a plan back into it, with what was planned if that could be done. Nothing is planned where the
/// plan asks for a preread.
pub(super) fn keep(
    plan: &mut Plan,
    mut memory: Box<Memory>,
    planned: Result<Option<(Planned, Pass)>>,
) -> Result<()> {
    let planned = planned.map(|planned| memory.planned = planned);
    plan.keep(memory);
    planned
}

/// Returns the number of the calling thread as a writer, for [`Space::take_data`].
///
/// [`Space::take_data`]: crate::space::Space::take_data
pub(super) fn writer() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static WRITER: usize = NEXT.fetch_add(1, Ordering::Relaxed) % WRITERS;
    }
    WRITER.with(|writer| *writer)
}

/// In [`Memory::expected`], the place of a cluster that has no checksum, or whose checksum has been compared already.
pub(super) const UNCHECKED: u64 = u64::MAX;

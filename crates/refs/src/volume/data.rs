//! Data: what the ways it takes have in common. A plan is made and finished in `reading` and `writing`, or carried out
//! in `slowly` with everything locked; `size` resizes, punches holes and says where a stream lies.
//!
//! * In place: clusters that are there, of a stream without integrity.
//! * To new clusters: everything else that is whole clusters. The old ones are given back when the new ones are on
//!   record, and handed out again only after the next commit.
//! * *Slowly*, with the stream locked: what begins or ends inside a cluster, and content that stands in the record.

use super::*;
use crate::extents::Extent;
use crate::space::{ContainerRun, WRITERS};
use crate::stream::StreamContent;
use smallvec::SmallVec;
use std::sync::atomic::AtomicUsize;

/// Runs of clusters that were taken, each with its first cluster in the stream.
pub(super) type Taken = SmallVec<[(u32, ContainerRun); 2]>;

/// What a plan remembers between its halves, kept from request to request.
pub(super) struct Memory {
    pub(super) volume: u64,
    pub(super) stream: Arc<Stream>,
    /// For reads: the checksum that each cluster must have, with its place on the volume.
    pub(super) expected: Vec<(u32, u64)>,
    /// For reads that are not whole clusters, and content in records: what was read.
    pub(super) bounce: Vec<u8>,
    /// For writes: the runs taken.
    pub(super) taken: Taken,
    /// For writes: what goes on record, once there are checksums for it if it needs any; and what that puts out of use.
    pub(super) rows: Vec<Extent>,
    pub(super) gone: Vec<(u64, u32)>,
    /// For writes: pages that are owed for their runs until these are on record.
    pub(super) owes: u64,
    /// Whether the last write of this stream, which had integrity, went to new clusters: then so will the next.
    pub(super) is_moving: bool,
    /// For writes that there was no room for: clusters that there were too few.
    pub(super) lacks: u64,
}

/// Kinds of plan, in its first note.
pub(super) const READ: u64 = 1;
pub(super) const BOUNCED: u64 = 2;
pub(super) const IN_PLACE: u64 = 3;
pub(super) const NEW: u64 = 4;
pub(super) const SLOWLY: u64 = 5;
/// In the third note of a write: an entry of the log tells of it already.
pub(super) const BESIDE: u64 = 1;
/// In the third note of a read: no checksum vouches for some of it, and its clusters may be another file's by now.
pub(super) const UNVOUCHED: u64 = 1;
/// Which note of a plan is its [`Pass`].
pub(super) const PASS: usize = 3;

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

    /// The stream of a node whose content can be read and written.
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

    /// The plan's memory, of this stream.
    pub(super) fn memory(&self, node: Node, plan: &mut Plan) -> Result<Box<Memory>> {
        let suits = |memory: &Memory| memory.volume == self.id && memory.stream.node == node.0;
        if let Some(mut memory) = plan.kept(suits) {
            memory.expected.clear();
            memory.bounce.clear();
            memory.taken.clear();
            memory.rows.clear();
            memory.lacks = 0;
            return Ok(memory);
        }
        let stream = self.data_of(node)?;
        Ok(Box::new(Memory {
            volume: self.id,
            stream,
            expected: Vec::new(),
            bounce: Vec::new(),
            taken: SmallVec::new(),
            rows: Vec::new(),
            gone: Vec::new(),
            owes: 0,
            is_moving: false,
            lacks: 0,
        }))
    }

    /// Has the next commit tell of a stream's size and clusters, which changed or are about to. The stream is locked for a
    /// change: what is written in place from now on needs a sync until then.
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

    /// Byte offset of a virtual cluster on the device. Containers do not move while a volume is open.
    pub(super) fn device_offset(&self, cluster: u64) -> Result<u64> {
        if self.map.is_compressed(&self.geometry, cluster) {
            return Err(Error::Unreadable("its clusters are in a container that is compressed"));
        }
        Ok(self.geometry.offset(self.map.real(&self.geometry, cluster, 1)?))
    }

    pub(super) fn taken_memory(&self, plan: &mut Plan) -> Result<Box<Memory>> {
        let node = plan.node;
        plan.own(|memory: &Memory| memory.volume == self.id && memory.stream.node == node)
    }

    /// Lets go of a stream that was removed while a plan was under way.
    pub(super) fn let_go_quiet(&self, stream: &Stream) {
        if stream.is_forgotten.load(Ordering::Acquire) && stream.is_quiet() {
            let _ = self.core().forget_idle(stream.node);
        }
    }
}

/// Which writer the calling thread is, for [`Space::take_data`].
///
/// [`Space::take_data`]: crate::space::Space::take_data
pub(super) fn writer() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static WRITER: usize = NEXT.fetch_add(1, Ordering::Relaxed) % WRITERS;
    }
    WRITER.with(|writer| *writer)
}

/// Stands for the place of a cluster that has no checksum.
pub(super) const UNCHECKED: u64 = u64::MAX;

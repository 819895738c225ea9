//! The streams in memory, by node; and what a write to one of them has to note for the next commit.

use super::attributes::{is_link, packing_of, standard, tag_of};
use super::{NTFS, NtfsVolume};
use crate::core::Core;
use crate::layout::{Kind as Type, file_flags, record_flags};
use crate::stream::{LARGEST, Stream, StreamState};
use platter_vfs::{Error, Node, Result};
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl NtfsVolume {
    /// Returns the stream of a node, which is made if the node has none in memory.
    fn stream_in(&self, core: &mut Core, node: u64) -> Result<Arc<Stream>> {
        let entity = core.nodes.get(node)?;
        if let Some(stream) = &entity.stream {
            return Ok(stream.clone());
        }
        let (number, part) = (entity.file, entity.part.clone());
        let file = core.file(number)?;
        let name = part.map(|(_, name)| name).unwrap_or_default();
        if name.is_empty() && file.flags & record_flags::DIRECTORY != 0 {
            return Err(if is_link(core, &file)? {
                Error::InvalidArgument("a symbolic link has no content")
            } else {
                Error::IsADirectory
            });
        }
        let mut state = StreamState::of(file.find(Type::DATA, &name));
        let (tag, packed) = match name.is_empty() {
            true => (tag_of(core, &file)?, packing_of(core, &file)),
            false => (None, None),
        };
        state.set_tag(tag, packed, self.cluster);
        let stream = Stream::new(node, state);
        stream.read_only.store(standard(&file)?.flags & file_flags::READ_ONLY != 0, Ordering::SeqCst);
        stream.is_link.store(tag.is_some_and(platter_vfs::reparse::is_link), Ordering::SeqCst);
        let stream = Arc::new(stream);
        core.nodes.get_mut(node)?.stream = Some(stream.clone());
        stream.is_listed.store(true, Ordering::Relaxed);
        self.streams.write().insert(node, stream.clone());
        Ok(stream)
    }

    /// Takes the streams of these nodes off the volume's list of streams.
    pub(super) fn unlist(&self, nodes: impl IntoIterator<Item = u64>) {
        let mut streams = self.streams.write();
        for stream in nodes.into_iter().filter_map(|node| streams.remove(&node)) {
            stream.is_listed.store(false, Ordering::Relaxed);
        }
    }

    /// Returns the stream of a node. Fails for a directory or symbolic link, which has no content.
    pub(super) fn data_of(&self, node: Node) -> Result<Arc<Stream>> {
        let known = self.streams.read().get(&node.0).cloned();
        let stream = match known {
            Some(stream) => stream,
            None => self.stream_in(&mut self.core(), node.0)?,
        };
        if stream.is_link.load(Ordering::Relaxed) {
            return Err(Error::InvalidArgument("a symbolic link has no content"));
        }
        Ok(stream)
    }

    pub(super) fn check_size(&self, end: Option<u64>) -> Result<u64> {
        match end {
            Some(end) if end <= LARGEST => Ok(end),
            _ => Err(Error::FileTooLarge { format: NTFS, limit: LARGEST, wanted: end.unwrap_or(u64::MAX) }),
        }
    }

    pub(super) fn may_write(&self, stream: &Stream) -> Result<()> {
        self.health.writable()?;
        if stream.read_only.load(Ordering::Relaxed) {
            return Err(Error::NotPermitted("it has the read-only attribute"));
        }
        Ok(())
    }

    /// Notes a write that moved a stream's size or valid length, with the state locked, before other threads see it: a
    /// commit that does not include the length must not count as one that covers it.
    pub(super) fn note_growth(&self, stream: &Stream) {
        self.note_write(stream);
        self.commits.note(&stream.resized);
    }

    /// Notes the time of a write to a stream, for the next commit.
    pub(super) fn note_write(&self, stream: &Stream) {
        stream.stamp(self.now());
        if !stream.is_touched.load(Ordering::SeqCst) {
            // The node is noted and the mark is set under one lock: another writer that finds the mark set does not
            // note the node again, and may sync at once.
            let mut touched = self.touched();
            touched.insert(stream.node);
            stream.is_touched.store(true, Ordering::SeqCst);
        }
    }

    /// Waits until no other caller has claimed a part of a stream.
    pub(super) fn wait_for_plans(&self, node: Node) {
        if let Ok(stream) = self.data_of(node) {
            stream.wait_free();
        }
    }
}

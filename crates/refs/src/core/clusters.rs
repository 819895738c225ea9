//! The clusters and pages of streams: giving them back, moving them to another directory, or hiding them from the
//! checkpoint.

use super::Core;
use super::changed::Changed;
use crate::space::ContainerRun;
use crate::stream::{Stream, StreamContent};
use platter_vfs::{Error, Result};
use std::sync::Arc;

/// The most pages for the rows of a change of a node, in two directories.
const SOME: u64 = 48;

impl Core {
    /// The run of `count` clusters from the virtual number `cluster` on.
    pub(crate) fn run(&self, cluster: u64, count: u32) -> Result<ContainerRun> {
        let geometry = self.geometry();
        let (container, start) = geometry.split(cluster);
        let index = container.wrapping_sub(crate::geometry::ContainerMap::FIRST);
        if index >= self.pages.map.len() as u64
            || start.checked_add(count).is_none_or(|end| end > geometry.per_container)
        {
            return Err(Error::damaged(
                "run of clusters",
                0,
                "inside a container",
                format!("{cluster:#x}+{count}"),
            ));
        }
        Ok(ContainerRun { container: index as u32, start, count })
    }

    /// The virtual number of a run's first cluster.
    pub(crate) fn cluster(&self, run: &ContainerRun) -> u64 {
        self.geometry().number(run.container, run.start)
    }

    /// Gives back all clusters and pages of a stream.
    pub(crate) fn release_stream(&mut self, stream: &Stream) -> Result<()> {
        let mut state = stream.write();
        let mut gone = Vec::new();
        if let StreamContent::Extents(extents) = &mut state.content {
            extents.load_range(&mut self.pages, 0, u32::MAX)?;
            extents.destroy(&mut self.pages, &mut gone)?;
        }
        state.size = 0;
        state.content = StreamContent::Inline(Vec::new());
        let is_nameless = state.orphan;
        drop(state);
        self.park(&gone, is_nameless)
    }

    /// Loads all extents of a node's streams, and checks that there is room for giving up all of them or, with
    /// `is_moved`, for moving them to another directory. So neither fails half-way.
    pub(crate) fn load_streams(&mut self, node: u64, is_moved: bool) -> Result<()> {
        let streams: Vec<Arc<Stream>> = self.entity(node)?.all_streams().cloned().collect();
        let mut pages = 0;
        for stream in streams {
            if let StreamContent::Extents(extents) = &mut stream.write().content {
                extents.load_range(&mut self.pages, 0, u32::MAX)?;
                pages += match is_moved {
                    true => 0,
                    false => self.pages_to_give_up(extents, 0..u32::MAX)?,
                };
            }
        }
        if is_moved {
            pages += self.pages_to_move(node)?;
        }
        // Giving up a file takes room beforehand only where it shares clusters, whose counts must be stored.
        if pages == 0 || self.spares(SOME + pages) { Ok(()) } else { Err(Error::NoSpace) }
    }

    /// The most pages that storing a node in another directory takes.
    pub(crate) fn pages_to_move(&self, node: u64) -> Result<u64> {
        let entity = self.entity(node)?;
        let of = |stream: &Arc<Stream>| match &stream.read().content {
            StreamContent::Extents(extents) => extents.pages() + 4,
            StreamContent::Inline(_) => 0,
        };
        let streams: u64 = entity.all_streams().map(of).sum();
        Ok(streams + Changed::of_rows(4 + entity.rows()))
    }

    /// Marks the pages of a stream's extents to be written anew, with the number of another directory.
    pub(crate) fn move_stream(&mut self, stream: &Stream, table: u64) -> Result<()> {
        let mut state = stream.write();
        if let StreamContent::Extents(extents) = &mut state.content {
            extents.load_range(&mut self.pages, 0, u32::MAX)?;
            extents.forget_pages();
            extents.set_table(table);
        }
        Ok(())
    }

    /// Hides the clusters of a stream from the rows on disk: nothing on disk refers to the stream any more, but it is
    /// still in use.
    pub(crate) fn orphan_stream(&mut self, stream: &Stream) -> Result<()> {
        let mut state = stream.write();
        state.orphan = true;
        let mut runs = Vec::new();
        if let StreamContent::Extents(extents) = &mut state.content {
            extents.load_range(&mut self.pages, 0, u32::MAX)?;
            runs.extend(extents.iter().map(|row| (row.cluster, row.count)));
            extents.forget_pages();
            extents.free_left(&mut self.pages)?;
        }
        drop(state);
        self.disown(&runs)
    }
}

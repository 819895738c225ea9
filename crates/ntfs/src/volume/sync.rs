//! Syncs of a node and of all nodes, and the end of the volume.

use super::NtfsVolume;
use super::commit::Left;
use crate::stream::Stream;
use platter_vfs::{Access, Result};
use std::sync::Arc;

impl NtfsVolume {
    /// [`NtfsVolume::commit`], which fails if this node had to be left, whichever caller led the commit.
    fn commit_with(&self, node: u64) -> Result<()> {
        self.commit()?.without(node)?;
        if !self.touched().contains(&node) {
            return Ok(());
        }
        // The node was left by a commit that another caller led, or was written meanwhile.
        let mut left = Left::default();
        self.group.alone(|turn| {
            left = self.commit_in(turn)?;
            Ok(())
        })?;
        left.without(node)
    }

    /// Makes all changes of one node up to now survive a power cut.
    pub(super) fn sync_node(&self, node: u64) -> Result<()> {
        {
            let mut core = self.core();
            core.nodes.get(node)?;
            self.make_valid(&mut core, node)?;
        }
        self.commit_with(node)
    }

    /// Makes all changes of all nodes up to now survive a power cut.
    pub(super) fn sync_nodes(&self) -> Result<()> {
        self.make_all_valid()?;
        self.commit()?.none()
    }

    /// Closes the volume: refuses changes, waits for the plans that were accepted, commits, writes everything to its
    /// place, and notes on disk that the volume is closed, all before any other caller can make changes durable. A
    /// second caller runs the same steps again, and so returns no earlier than all is done.
    pub(super) fn close(&self) -> Result<()> {
        self.health.close("it is unmounted");
        let streams: Vec<Arc<Stream>> = self.streams.read().values().cloned().collect();
        for stream in streams {
            drop(stream.claim(|_| 0..u64::MAX, Access::Write));
        }
        self.health.promise()?;
        if !self.is_written {
            return Ok(());
        }
        self.make_all_valid()?;
        self.give_back_ahead();
        let mut left = Left::default();
        self.group.alone(|turn| {
            left = self.commit_in(turn)?;
            self.checkpoint(turn)?;
            if turn.is_live && !turn.is_begun {
                self.begin_log(turn)?;
            }
            if turn.is_begun
                && let Some(log) = &mut turn.log
            {
                log.end(&*self.device).map_err(|error| self.health.fail(error))?;
                turn.is_begun = false;
            }
            turn.is_live = false;
            self.health.flush(&*self.device)
        })?;
        left.none()
    }
}

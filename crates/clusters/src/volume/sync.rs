//! Syncs of a node and of all nodes, and the end of the volume.

use super::Volume;
use crate::Family;
use platter_vfs::{Access, Kind, Need, Node, Result, SyncScope};
use std::sync::atomic::Ordering;

impl<F: Family> Volume<F> {
    /// Makes all changes of one node up to now survive a power cut.
    pub(super) fn sync_node(&self, node: Node, scope: SyncScope) -> Result<()> {
        if let Some(file) = self.files.get(node.0) {
            self.make_valid(&file)?;
        }
        let pressing = {
            let mut core = self.core();
            core.entity(node.0)?;
            core.absorb(node.0);
            let all = scope == SyncScope::All;
            if all && core.entity(node.0)?.lazy && self.health.writable().is_ok() {
                core.mark_times(node.0);
            }
            let entity = core.entity(node.0)?;
            let uncommitted = entity.changed_in > self.committed.load(Ordering::SeqCst);
            // The content of a directory is its entries; if any of them changed, the directory is pinned.
            let whole = all || entity.kind == Kind::Directory;
            uncommitted || (whole && entity.pins > 0)
        };
        self.make_durable(if pressing { Need::Commit } else { Need::Flush })
    }

    /// Makes all changes of all nodes up to now survive a power cut.
    pub(super) fn sync_nodes(&self) -> Result<()> {
        for file in self.files.all() {
            self.make_valid(&file)?;
        }
        // Also on a volume that refuses changes: another caller may be unmounting it at this moment.
        self.core().mark_all();
        self.make_durable(Need::Commit)
    }

    /// Closes the volume: refuses changes, waits for the plans that were accepted, commits, and marks it as not in use.
    pub(super) fn close(&self) -> Result<()> {
        // A second caller of `unmount` does everything again, so that it does not return before all is done.
        self.health.close("it is unmounted");
        // From now on every change, which is made under a lock, is refused; here the plans that were accepted before
        // are waited for.
        for file in self.files.all() {
            drop(file.claim(|_| 0..u64::MAX, Access::Write));
        }
        let removed = {
            let mut core = self.core();
            core.mark_all();
            core.drop_removed()
        };
        for (number, entity) in &removed {
            self.reap(*number, entity);
        }
        self.group.alone(|()| {
            self.commit()?;
            self.seal()
        })
    }
}

//! Nodes that are given back. A node that nobody holds is forgotten, and its file is freed if it has no name.

use super::NtfsVolume;
use crate::core::{Core, DETACHED};
use crate::file::Attr;
use crate::space::Held;
use platter_vfs::Node;

impl NtfsVolume {
    /// Takes back `count` hand-outs of a node. A node that nobody holds is forgotten, and its file is freed if it has
    /// no name.
    pub(super) fn let_go(&self, node: Node, count: u64) {
        let mut core = self.core();
        if node == Node::ROOT {
            return;
        }
        let Ok(entity) = core.nodes.get_mut(node.0) else { return };
        entity.handed_out = entity.handed_out.saturating_sub(count);
        let owner = entity.part.as_ref().map(|(owner, _)| *owner);
        self.reap(&mut core, node.0);
        if let Some(owner) = owner {
            self.reap(&mut core, owner);
        }
    }

    fn reap(&self, core: &mut Core, node: u64) {
        if node == Node::ROOT.0 || core.nodes.get(node).is_err() || self.is_held(core, node) {
            return;
        }
        let Ok(entity) = core.nodes.get(node) else { return };
        let (number, is_part, parts) = (entity.file, entity.part.is_some(), entity.parts.clone());
        for node in parts.iter().copied().chain([node]) {
            self.release(core, node);
        }
        if number < DETACHED || is_part {
            for node in parts.iter().copied().chain([node]) {
                if self.is_written {
                    // A change that cannot be recorded now waits for the commit, and so does the node.
                    if self.make_valid(core, node).is_err()
                        || self.trim(core, node).is_err()
                        || self.absorb_touched(core, node).is_err()
                    {
                        return;
                    }
                }
            }
        } else if let Ok(file) = core.file(number) {
            let runs = file.attributes.iter().filter_map(Attr::outside).map(|outside| outside.runs.to_vec());
            let runs: Vec<_> = runs.collect();
            let _ = core.transact(|core| {
                runs.iter().for_each(|runs| core.give_runs(runs, Held::Data, false));
                core.forget_file(number);
                Ok(())
            });
        }
        // A node of a file with a name stays in memory for a while: its number may be asked for again soon.
        let is_named = number < DETACHED && !is_part;
        if !is_named {
            self.drop_node(core, node);
            return;
        }
        self.unlist(parts.iter().copied().chain([node]));
        for node in parts.into_iter().chain([node]) {
            if let Ok(entity) = core.nodes.get_mut(node) {
                entity.stream = None;
            }
        }
        if let Some(oldest) = core.nodes.set_idle(node)
            && !self.is_held(core, oldest)
            && core.nodes.get(oldest).is_ok_and(|entity| entity.stream.is_none())
            && !self.touched.lock().contains(&oldest)
        {
            self.drop_node(core, oldest);
        }
    }

    fn drop_node(&self, core: &mut Core, node: u64) {
        let parts = core.nodes.get(node).map(|entity| entity.parts.clone()).unwrap_or_default();
        for node in parts.iter().copied().chain([node]) {
            self.release(core, node);
        }
        self.unlist(parts.iter().copied().chain([node]));
        for node in parts.into_iter().chain([node]) {
            core.nodes.remove(node);
        }
    }

    /// Called after a file was removed: leads its node, if there is one, to the file that stays in memory, or drops the
    /// node.
    pub(super) fn moved_away(&self, core: &mut Core, number: u64, kept: Option<u64>) {
        let Some(node) = core.nodes.of_file(number) else { return };
        match kept {
            Some(kept) => core.nodes.move_file(node, kept),
            None => self.drop_node(core, node),
        }
    }

    /// Whether a file's node, or that of one of its streams, is held or has plans under way.
    pub(super) fn is_held(&self, core: &Core, node: u64) -> bool {
        let one = |node: u64| {
            core.nodes.get(node).is_ok_and(|entity| {
                entity.handed_out > 0 || entity.stream.as_ref().is_some_and(|stream| !stream.is_quiet())
            })
        };
        let parts = core.nodes.get(node).map(|entity| entity.parts.clone()).unwrap_or_default();
        one(node) || parts.into_iter().any(one)
    }
}

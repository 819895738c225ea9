//! Nodes that are given back. What nobody holds leaves memory, and what has no name gives up its clusters.

use super::Volume;
use crate::Family;
use crate::core::{Entity, ROOT};
use platter_vfs::{Kind, Node};
use std::sync::atomic::Ordering;

impl<F: Family> Volume<F> {
    /// Takes back `count` hand-outs of a node.
    pub(super) fn give_back(&self, node: Node, count: u64) {
        let idle = {
            let mut core = self.core();
            let Ok(entity) = core.entity_mut(node.0) else { return };
            entity.handed = entity.handed.saturating_sub(count);
            entity.handed == 0
        };
        if idle {
            self.let_go(node.0);
        }
    }

    /// Drops an entity from memory if nothing needs it there, and frees the clusters of one without a name. Continues
    /// with its parent.
    pub(super) fn let_go(&self, number: u64) {
        let mut next = Some(number);
        while let Some(number) = next.take() {
            let mut core = self.core();
            let Some(entity) = core.nodes.get(&number) else { return };
            // An entity without a name has nothing to commit: its clusters are freed right away.
            let pinned = entity.pins > 0 && entity.linked;
            if number == ROOT || entity.handed > 0 || entity.children > 0 || pinned {
                return;
            }
            if let Some(file) = &entity.file {
                // The last plan to finish calls this function again.
                file.released.store(true, Ordering::SeqCst);
                if file.busy() {
                    return;
                }
            }
            core.absorb(number);
            let Some(entity) = core.nodes.get(&number) else { return };
            if entity.linked && entity.lazy && self.health.writable().is_ok() {
                core.mark_times(number);
                return;
            }
            if entity.linked && entity.kind == Kind::Directory {
                match core.rest(number) {
                    Some(oldest) if oldest != number => {
                        // The directory may have come into use again meanwhile.
                        let unused = core.nodes.get(&oldest).is_some_and(|entity| {
                            entity.handed == 0 && entity.children == 0 && entity.pins == 0 && entity.linked
                        });
                        if unused && let Some(entity) = core.drop_entity(oldest) {
                            core.directories.remove(&oldest);
                            next = Some(entity.parent);
                        }
                    }
                    _ => {}
                }
                continue;
            }
            let Some(entity) = core.drop_entity(number) else { return };
            next = Some(entity.parent);
            drop(core);
            if entity.linked {
                continue;
            }
            self.reap(number, &entity);
        }
    }

    /// Frees the clusters of an entity that has no name and is not handed out. A chain that cannot be read stays
    /// allocated; a check finds it as lost.
    pub(super) fn reap(&self, number: u64, entity: &Entity<F::Entry>) {
        let Some(file) = &entity.file else {
            let mut core = self.core();
            core.directories.remove(&number);
            if let Ok(mut content) = F::content(&mut core, &entity.entry, true) {
                let linked = content.runs.clusters();
                core.give_up(&content.runs.split_off(0), linked);
            }
            F::removed(&mut core, &entity.entry);
            return;
        };
        let mut core = self.core();
        let mut state = file.write();
        state.dead = true;
        if !state.loaded
            && let Ok(content) = F::content(&mut core, &entity.entry, true)
        {
            state.linked = content.runs.clusters();
            state.runs = content.runs;
        }
        let linked = state.linked;
        core.give_up(&state.runs.split_off(0), linked);
        F::removed(&mut core, &entity.entry);
    }
}

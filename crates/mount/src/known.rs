//! The files that the kernel has in its cache, and which of them it is asked to forget.
//!
//! This process keeps data for each file that the kernel has in its cache, and the kernel drops a file only when it
//! needs the memory for itself. So if the kernel has more than some [`MOST`] files, it is asked to forget those that it
//! has had longest, and forgets those that no program uses. Kernels before Linux 6.18 do not understand such a request;
//! on them the number of files has no limit.

use platter_vfs::Node;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// The number of files that the kernel may have in its cache before it is asked to forget some. Whoever works in a tree
/// of fewer files has all of them in the cache.
const MOST: usize = 1 << 15;
/// The number of parts of [`KnownNodes`], each with a lock of its own, so that threads that look up different files
/// seldom wait for each other.
const PARTS: usize = 16;
/// The number of files that the kernel is asked to forget at a time.
const BATCH: usize = 256;

/// The files that the kernel has in its cache and may be asked to forget.
#[derive(Default)]
pub(crate) struct KnownNodes {
    parts: [Mutex<Part>; PARTS],
    /// Whether the kernel does not support requests to forget files.
    is_off: AtomicBool,
}

#[derive(Default)]
struct Part {
    /// For each node number: the lookup count of the node, and the value of `clock` when the count was last 0.
    known: HashMap<u64, (u64, u64)>,
    /// All nodes in the order in which the kernel is to be asked to forget them, each with its value of `clock`. Nodes
    /// that the kernel has forgotten may still be among them.
    order: VecDeque<(u64, u64)>,
    /// Nodes that the next request asks the kernel to forget.
    chosen: Vec<u64>,
    clock: u64,
}

impl KnownNodes {
    /// Adds 1 to the lookup count of a node. Returns nodes that the kernel is to be asked to forget, if there are
    /// enough of them for a request.
    pub(crate) fn came(&self, node: Node) -> Option<Vec<u64>> {
        if node == Node::ROOT || self.is_off.load(Ordering::Relaxed) {
            return None;
        }
        self.part(node, |part| part.came(node.0))
    }

    /// Lowers the lookup count of a node by `count`.
    pub(crate) fn left(&self, node: Node, count: u64) {
        self.part(node, |part| part.left(node.0, count));
    }

    /// Removes a node whose file has got a second name, so that the kernel is not asked to forget the node.
    pub(crate) fn take_out(&self, node: Node) {
        self.part(node, |part| part.known.remove(&node.0));
    }

    /// Stops collecting nodes, since the kernel does not support requests to forget them.
    pub(crate) fn turn_off(&self) {
        self.is_off.store(true, Ordering::Relaxed);
        for part in &self.parts {
            *part.lock().unwrap_or_else(PoisonError::into_inner) = Part::default();
        }
    }

    fn part<T>(&self, node: Node, act: impl FnOnce(&mut Part) -> T) -> T {
        // The node numbers of neighbouring files may differ by a multiple of `PARTS`, so their higher bits count too.
        let part = (node.0 ^ node.0 >> 4) as usize % PARTS;
        act(&mut self.parts[part].lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Part {
    fn came(&mut self, node: u64) -> Option<Vec<u64>> {
        self.clock += 1;
        let (count, since) = self.known.entry(node).or_insert((0, self.clock));
        *count += 1;
        if *since == self.clock {
            self.order.push_back((node, self.clock));
        }
        if self.order.len() > 2 * (MOST / PARTS).max(self.known.len()) {
            self.order.retain(|(node, since)| self.known.get(node).is_some_and(|known| known.1 == *since));
        }
        if self.known.len() <= MOST / PARTS {
            return None;
        }
        // Two nodes are chosen for each lookup, since the kernel keeps those that are in use. A chosen node goes to the
        // end of the order, so that the kernel is asked again later.
        let mut named = 0;
        while named < 2 {
            let Some((node, since)) = self.order.pop_front() else { break };
            if self.known.get(&node).is_some_and(|known| known.1 == since) {
                self.order.push_back((node, since));
                self.chosen.push(node);
                named += 1;
            }
        }
        (self.chosen.len() >= BATCH).then(|| std::mem::take(&mut self.chosen))
    }

    fn left(&mut self, node: u64, count: u64) {
        if let Some(known) = self.known.get_mut(&node) {
            known.0 = known.0.saturating_sub(count);
            if known.0 == 0 {
                self.known.remove(&node);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks up so many files in a row, for a kernel that keeps the files for which `keeps` is true and forgets all
    /// others that it is asked to forget. Returns how many files the kernel has in its cache at the end.
    fn look_up(all: &KnownNodes, files: u64, keeps: impl Fn(u64) -> bool) -> usize {
        for file in 0..files {
            for named in all.came(Node(file + 2)).into_iter().flatten().filter(|named| !keeps(*named)) {
                all.left(Node(named), 1);
            }
        }
        all.parts.iter().map(|part| part.lock().unwrap().known.len()).sum()
    }

    fn queued(all: &KnownNodes) -> usize {
        all.parts.iter().map(|part| part.lock().unwrap().order.len()).sum()
    }

    #[test]
    fn of_many_files_the_kernel_is_asked_to_forget_the_first() {
        let few = KnownNodes::default();
        assert_eq!(look_up(&few, 1 << 14, |_| panic!("it is asked to forget one of few")), 1 << 14);
        let all = KnownNodes::default();
        let known = look_up(&all, 1 << 20, |_| false);
        assert!(known <= MOST + 2 * PARTS * BATCH, "{known}");
        assert!(queued(&all) <= 2 * (MOST + 2 * PARTS * BATCH));
        // The files that are in use stay in the cache, and the others are forgotten as before.
        let used = 1000;
        let all = KnownNodes::default();
        let known = look_up(&all, 1 << 20, |node| node < used);
        assert!(known <= MOST + 2 * PARTS * BATCH, "{known}");
        assert!((2..used).all(|node| all.part(Node(node), |part| part.known.contains_key(&node))));
    }

    #[test]
    fn the_kernel_is_not_asked_to_forget_what_was_taken_out() {
        let all = KnownNodes::default();
        assert_eq!(all.came(Node(2)), None);
        all.take_out(Node(2));
        let mut named = (3..1 << 20).filter_map(|file| all.came(Node(file))).flatten();
        assert!(named.all(|node| node != 2));
        // When the kernel drops the node, it lowers the lookup count of the removed node all the same.
        all.left(Node(2), 1);
    }

    #[test]
    fn files_that_come_and_go_take_no_memory() {
        let all = KnownNodes::default();
        for _ in 0..1 << 20 {
            assert_eq!(all.came(Node(7)), None);
            assert_eq!(all.came(Node(7)), None);
            all.left(Node(7), 2);
        }
        assert!(queued(&all) <= 2 * MOST, "{}", queued(&all));
        // A node with a lookup count of 2 stays known when the count is lowered by 1.
        all.came(Node(9));
        all.came(Node(9));
        all.left(Node(9), 1);
        assert!(all.part(Node(9), |part| part.known.contains_key(&9)));
    }
}

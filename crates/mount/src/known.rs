//! How many files the kernel knows, and which of them it is asked to forget.
//!
//! Who serves keeps what it knows of each file that the kernel knows, and the kernel forgets none until it needs the memory for
//! itself. So of more than some [`MOST`] files those that came first are named to it, and it forgets those that no program uses.
//! Kernels before Linux 6.18 do not understand this, and all is as it was.

use platter_vfs::Node;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// Files that the kernel may know without being asked to forget some: whoever works in a tree of fewer has it all at hand.
const MOST: usize = 1 << 15;
/// Threads that look up different files should seldom wait for each other.
const PARTS: usize = 16;
/// How many are named at a time.
const BATCH: usize = 256;

/// Files that the kernel knows.
#[derive(Default)]
pub struct KnownNodes {
    parts: [Mutex<Part>; PARTS],
    /// Whether the kernel cannot be asked.
    is_off: AtomicBool,
}

#[derive(Default)]
struct Part {
    /// How often each was handed out, and when it came.
    known: HashMap<u64, (u64, u64)>,
    /// All, in the order in which they came, and some that are forgotten.
    order: VecDeque<(u64, u64)>,
    /// To be named.
    chosen: Vec<u64>,
    clock: u64,
}

impl KnownNodes {
    /// A node was handed out. Returns nodes to be named to the kernel, if they are enough.
    pub fn came(&self, node: Node) -> Option<Vec<u64>> {
        if node == Node::ROOT || self.is_off.load(Ordering::Relaxed) {
            return None;
        }
        self.part(node, |part| part.came(node.0))
    }

    /// The kernel gave back hand-outs of a node.
    pub fn left(&self, node: Node, count: u64) {
        self.part(node, |part| part.left(node.0, count));
    }

    /// The kernel cannot be asked to forget anything.
    pub fn turn_off(&self) {
        self.is_off.store(true, Ordering::Relaxed);
        for part in &self.parts {
            *part.lock().unwrap_or_else(PoisonError::into_inner) = Part::default();
        }
    }

    fn part<T>(&self, node: Node, act: impl FnOnce(&mut Part) -> T) -> T {
        // Numbers of neighbours may differ by a multiple of what they are counted by.
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
        // Two for each that comes: some are in use, and asked for again when it is their turn.
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

    /// Files looked up in a row, of which the kernel keeps those that `keeps` says and forgets what else it is named.
    /// Returns how many it knows at the end.
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
        // Those that are in use stay, and the others go all the same.
        let used = 1000;
        let all = KnownNodes::default();
        let known = look_up(&all, 1 << 20, |node| node < used);
        assert!(known <= MOST + 2 * PARTS * BATCH, "{known}");
        assert!((2..used).all(|node| all.part(Node(node), |part| part.known.contains_key(&node))));
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
        // A second hand-out is given back before it is forgotten.
        all.came(Node(9));
        all.came(Node(9));
        all.left(Node(9), 1);
        assert!(all.part(Node(9), |part| part.known.contains_key(&9)));
    }
}

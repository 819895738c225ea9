//! The scheduler for the crate `shuttle`, which decides which caller goes on.
//!
//! One strategy rarely finds what another finds soon, so each seed chooses one. [`Way::Fair`] chooses a caller anew at
//! each point. [`Way::Steady`] lets a caller go on for a while, so that it gets far while others are in the middle of
//! something. [`Way::Stalling`] makes callers pause for long, wherever they are, while the others go on; several may
//! pause at once. [`Way::Ranked`] lets the caller with the highest rank go on until it waits, and lowers that rank at a
//! few points: many failures need only one caller that pauses at one place until all others have finished.
//!
//! Source of [`Way::Ranked`]: Burckhardt et al., "A Randomized Scheduler with Probabilistic Guarantees of Finding
//! Bugs", ASPLOS 2010. The implementation in `shuttle` changes no rank in the first run of a scheduler, and here each
//! scheduler has only one run.

use crate::model::Random;
use shuttle::scheduler::{Schedule, Scheduler, Task, TaskId};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The most steps in a row of the caller with the highest rank: it may be polling for something that another caller has
/// to do.
const MOST_IN_A_ROW: u64 = 3000;

#[derive(Clone, Debug)]
enum Way {
    Fair,
    /// A caller goes on for this many steps, on average.
    Steady(u64),
    Stalling {
        /// One in this many steps begins a pause of its caller.
        seldom: u64,
        /// The longest pause, in steps of other callers.
        most: u64,
        /// The step until which each caller pauses.
        until: Vec<u64>,
    },
    Ranked {
        /// The steps at which the rank of the running caller is lowered.
        falls: Vec<u64>,
        /// The rank of each caller; the caller with the highest rank goes on.
        ranks: Vec<u64>,
        /// The rank of the caller whose rank was lowered last; the next one gets a lower one.
        lowest: u64,
    },
}

/// The scheduler of one run.
pub(super) struct Order {
    random: Random,
    way: Way,
    is_point: Arc<AtomicBool>,
    started: bool,
    steps: u64,
    in_a_row: u64,
}

impl Order {
    /// The scheduler of a seed. `is_point` is set by a caller that gives way without having to wait.
    pub(super) fn new(seed: u64, is_point: Arc<AtomicBool>) -> Order {
        let mut random = Random::new(!seed);
        let way = match random.below(10) {
            0..2 => Way::Fair,
            2..4 => Way::Steady(1 << (1 + random.below(6))),
            4..7 => {
                let (seldom, most) = (1 << (3 + random.below(5)), 1 << (5 + random.below(6)));
                Way::Stalling { seldom, most, until: Vec::new() }
            }
            _ => {
                // The length of the run is unknown beforehand.
                let length = 1 << (6 + random.below(7));
                let falls = (0..random.below(6)).map(|_| random.below(length)).collect();
                Way::Ranked { falls, ranks: Vec::new(), lowest: 1 << 32 }
            }
        };
        Order { random, way, is_point, started: false, steps: 0, in_a_row: 0 }
    }
}

impl Scheduler for Order {
    fn new_execution(&mut self) -> Option<Schedule> {
        (!std::mem::replace(&mut self.started, true)).then(|| Schedule::new(0))
    }

    fn next_task(&mut self, runnable: &[&Task], current: Option<TaskId>, _: bool) -> Option<TaskId> {
        let is_point = self.is_point.swap(false, Ordering::Relaxed);
        let number = |task: &&Task| usize::from(task.id());
        let current =
            current.map(usize::from).filter(|current| runnable.iter().any(|task| number(task) == *current));
        self.steps += 1;
        let next = match (&mut self.way, current) {
            (Way::Fair | Way::Steady(_), _) if runnable.len() == 1 => number(&runnable[0]),
            (Way::Steady(steps), Some(current)) if is_point && self.random.below(*steps) > 0 => current,
            (Way::Fair | Way::Steady(_), _) => number(self.random.pick(runnable)),
            (Way::Stalling { seldom, most, until }, current) => {
                until.resize(until.len().max(1 + runnable.iter().map(number).max()?), 0);
                if let Some(current) = current
                    && self.random.below(*seldom) == 0
                {
                    until[current] = self.steps + self.random.below(*most);
                }
                let awake: Vec<usize> =
                    runnable.iter().map(number).filter(|&task| until[task] <= self.steps).collect();
                match awake.is_empty() {
                    true => runnable.iter().map(number).min_by_key(|&task| until[task])?,
                    false => *self.random.pick(&awake),
                }
            }
            (Way::Ranked { falls, ranks, lowest }, current) => {
                let known = 1 + runnable.iter().map(number).max()?;
                while ranks.len() < known {
                    ranks.push((1 << 32) + self.random.below(1 << 32));
                }
                if let Some(current) = current
                    && (!is_point || falls.contains(&self.steps) || self.in_a_row > MOST_IN_A_ROW)
                {
                    *lowest -= 1;
                    ranks[current] = *lowest;
                }
                runnable.iter().map(number).max_by_key(|&task| ranks[task])?
            }
        };
        self.in_a_row = if current == Some(next) { self.in_a_row + 1 } else { 0 };
        Some(TaskId::from(next))
    }

    fn next_u64(&mut self) -> u64 {
        self.random.number()
    }
}

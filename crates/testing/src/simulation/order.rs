//! In which order callers go on: what the scheduler of `shuttle` is here.
//!
//! One way of choosing finds rarely what another finds soon, so each seed draws one. [`Way::Fair`] chooses anew at each
//! point. [`Way::Steady`] lets a caller go on for a while, so that one gets far while another is in the middle of
//! something. [`Way::Stalling`] has callers stand still for long, wherever they are, while the others go on: several may
//! do so at once. [`Way::Ranked`] lets whoever has the highest rank go on until it waits, and lowers that rank at a few
//! points: what it takes to fail is often that one caller stands still at one place until all others have finished.
//!
//! Source of the last: Burckhardt et al., "A Randomized Scheduler with Probabilistic Guarantees of Finding Bugs", ASPLOS
//! 2010. The one of `shuttle` changes no rank in the first run of a scheduler, and here each has one run alone.

use crate::model::Random;
use shuttle::scheduler::{Schedule, Scheduler, Task, TaskId};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A caller that is ranked highest and never waits goes on for no more steps than this: it may be one that looks again
/// and again for something that another has to do.
const MOST_IN_A_ROW: u64 = 3000;

#[derive(Clone, Debug)]
enum Way {
    Fair,
    /// It goes on so many steps, on average.
    Steady(u64),
    Stalling {
        /// One in so many steps is the last of a caller for a while.
        seldom: u64,
        /// Steps of others until it goes on, at most.
        most: u64,
        /// Until which step each caller stands still.
        until: Vec<u64>,
    },
    Ranked {
        /// At which steps the rank of whoever goes on falls.
        falls: Vec<u64>,
        /// The rank of each caller: the highest goes on.
        ranks: Vec<u64>,
        /// The rank that the next one gets that falls: lower than all others.
        lowest: u64,
    },
}

/// See the module.
pub(super) struct Order {
    random: Random,
    way: Way,
    is_point: Arc<AtomicBool>,
    started: bool,
    steps: u64,
    in_a_row: u64,
}

impl Order {
    /// The order that a seed gives. `is_point` is set by whoever gives way without waiting for anything.
    pub fn new(seed: u64, is_point: Arc<AtomicBool>) -> Order {
        let mut random = Random::new(!seed);
        let way = match random.below(10) {
            0..2 => Way::Fair,
            2..4 => Way::Steady(1 << (1 + random.below(6))),
            4..7 => {
                let (seldom, most) = (1 << (3 + random.below(5)), 1 << (5 + random.below(6)));
                Way::Stalling { seldom, most, until: Vec::new() }
            }
            _ => {
                // Nobody knows how long it will be.
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

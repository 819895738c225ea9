//! Changes of run lists.

use crate::layout::{Run, runs};

/// Replaces virtual clusters `from..to`, all of which the list has, by `new` runs of as many, and returns what was there.
pub fn splice(list: &mut Vec<Run>, from: u64, to: u64, new: &[Run]) -> Vec<Run> {
    let first = list.partition_point(|run| run.end() <= from);
    let last = list.partition_point(|run| run.vcn < to);
    let mut old = Vec::new();
    let mut put = Vec::new();
    let part = |run: &Run, start: u64, end: u64| Run {
        vcn: start,
        lcn: run.lcn.map(|lcn| lcn + (start - run.vcn)),
        length: end - start,
    };
    for run in &list[first..last] {
        if run.vcn < from {
            runs::push(&mut put, part(run, run.vcn, from));
        }
        old.push(part(run, run.vcn.max(from), run.end().min(to)));
    }
    for run in new {
        runs::push(&mut put, *run);
    }
    if let Some(run) = list[first..last].last()
        && run.end() > to
    {
        runs::push(&mut put, part(run, to, run.end()));
    }
    // What touches on either side may join with it.
    let before = first.saturating_sub(1);
    let after = (last + 1).min(list.len());
    let mut joined: Vec<Run> = list[before..first].to_vec();
    for run in put.into_iter().chain(list[last..after].iter().copied()) {
        runs::push(&mut joined, run);
    }
    list.splice(before..after, joined);
    old
}

/// The parts of a list in `from..to`.
pub fn part(list: &[Run], from: u64, to: u64) -> Vec<Run> {
    let first = list.partition_point(|run| run.end() <= from);
    let inside = list[first..].iter().take_while(|run| run.vcn < to);
    inside
        .map(|run| {
            let (start, end) = (run.vcn.max(from), run.end().min(to));
            Run { vcn: start, lcn: run.lcn.map(|lcn| lcn + (start - run.vcn)), length: end - start }
        })
        .collect()
}

/// Cuts a list off, and returns what was behind.
pub fn cut(list: &mut Vec<Run>, at: u64) -> Vec<Run> {
    let old = part(list, at, u64::MAX);
    let mut kept = part(list, 0, at);
    std::mem::swap(list, &mut kept);
    old
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_replaced_and_joins_its_neighbours() {
        let run = |vcn, lcn, length| Run { vcn, lcn, length };
        let mut list = vec![run(0, Some(100), 10), run(10, None, 10), run(20, Some(300), 10)];
        let old = splice(&mut list, 10, 15, &[run(10, Some(110), 5)]);
        assert_eq!(old, [run(10, None, 5)]);
        assert_eq!(list, [run(0, Some(100), 15), run(15, None, 5), run(20, Some(300), 10)]);
        let old = splice(&mut list, 12, 22, &[run(12, None, 10)]);
        assert_eq!(old, [run(12, Some(112), 3), run(15, None, 5), run(20, Some(300), 2)]);
        assert_eq!(list, [run(0, Some(100), 12), run(12, None, 10), run(22, Some(302), 8)]);
        assert_eq!(cut(&mut list, 25), [run(25, Some(305), 5)]);
        assert_eq!(list.last().map(Run::end), Some(25));
    }
}

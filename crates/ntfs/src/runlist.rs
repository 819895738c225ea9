//! Run lists, and changes of them.

use crate::layout::{Run, runs};
use std::sync::Arc;

/// The number of runs of a piece, at most; a piece that gets more is divided.
const MOST: usize = 256;

// A piece that is divided in parts of three quarters leaves room for more runs.
const _: () = assert!(MOST.is_multiple_of(4));

/// The runs of an attribute from virtual cluster 0 on, without a gap.
///
/// They are kept in pieces that copies of the list share until one of them changes: a change of a list of 100,000 runs
/// touches two or three pieces, and so does a comparison with the list before the change.
#[derive(Clone, Debug, Default)]
pub(crate) struct RunList {
    pieces: Vec<Arc<Piece>>,
}

/// Runs that follow each other in a file, at least one. The list is kept in such pieces, so that a change copies one
/// piece and not the whole list.
#[derive(Clone, Debug)]
struct Piece {
    runs: Vec<Run>,
    /// The number of clusters in these runs that are not holes.
    taken: u64,
    /// Bytes that these runs take when packed, at most.
    packed: usize,
}

impl Piece {
    fn new(runs: Vec<Run>) -> Piece {
        let mut piece = Piece { runs, taken: 0, packed: 0 };
        piece.count();
        piece
    }

    fn count(&mut self) {
        let taken = self.runs.iter().filter(|run| run.lcn.is_some());
        self.taken = taken.map(|run| run.length).sum();
        // The place of the first run is packed as a distance from a run in another piece: eight bytes at most.
        self.packed = runs::packed_length(&self.runs, usize::MAX / 2) + 8;
    }

    fn start(&self) -> u64 {
        self.runs.first().map_or(0, |run| run.vcn)
    }

    fn end(&self) -> u64 {
        self.runs.last().map_or(0, Run::end)
    }
}

/// Runs that are looked up by virtual cluster.
pub(crate) trait Runs {
    /// The runs from the one on that contains a virtual cluster.
    fn from(&self, vcn: u64) -> impl Iterator<Item = &Run>;
    /// The virtual cluster after the last run.
    fn end(&self) -> u64;
}

impl Runs for [Run] {
    fn from(&self, vcn: u64) -> impl Iterator<Item = &Run> {
        self[self.partition_point(|run| run.end() <= vcn)..].iter()
    }

    fn end(&self) -> u64 {
        self.last().map_or(0, Run::end)
    }
}

impl Runs for Vec<Run> {
    fn from(&self, vcn: u64) -> impl Iterator<Item = &Run> {
        Runs::from(&self[..], vcn)
    }

    fn end(&self) -> u64 {
        Runs::end(&self[..])
    }
}

impl Runs for RunList {
    fn from(&self, vcn: u64) -> impl Iterator<Item = &Run> {
        // Most files are in one piece.
        let first = match &self.pieces[..] {
            [only] => usize::from(only.end() <= vcn),
            pieces => pieces.partition_point(|piece| piece.end() <= vcn),
        };
        let inside = self.pieces.get(first).map_or(0, |piece| match &piece.runs[..] {
            [only] => usize::from(only.end() <= vcn),
            runs => runs.partition_point(|run| run.end() <= vcn),
        });
        self.pieces[first..].iter().flat_map(|piece| &piece.runs).skip(inside)
    }

    fn end(&self) -> u64 {
        self.pieces.last().map_or(0, |piece| piece.end())
    }
}

impl PartialEq for RunList {
    fn eq(&self, other: &RunList) -> bool {
        let (one, two) = (&self.pieces[..], &other.pieces[..]);
        let alike = one.iter().zip(two).take_while(|(one, two)| Arc::ptr_eq(one, two)).count();
        let (one, two) = (&one[alike..], &two[alike..]);
        let ends = one.iter().rev().zip(two.iter().rev());
        let alike = ends.take_while(|(one, two)| Arc::ptr_eq(one, two)).count();
        let middle = |pieces: &[Arc<Piece>]| pieces.len() - alike;
        let runs =
            |pieces: &'_ [Arc<Piece>]| pieces.iter().flat_map(|piece| piece.runs.clone()).collect::<Vec<_>>();
        let (one, two) = (&one[..middle(one)], &two[..middle(two)]);
        one.is_empty() && two.is_empty() || runs(one) == runs(two)
    }
}

impl std::iter::FromIterator<Run> for RunList {
    fn from_iter<T: IntoIterator<Item = Run>>(runs: T) -> RunList {
        let mut list = RunList::default();
        runs.into_iter().for_each(|run| list.push(run));
        list
    }
}

impl RunList {
    /// The empty list.
    pub(crate) const NONE: &'static RunList = &RunList { pieces: Vec::new() };

    /// All runs.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &Run> {
        self.pieces.iter().flat_map(|piece| &piece.runs)
    }

    /// All runs, copied into one vector.
    pub(crate) fn to_vec(&self) -> Vec<Run> {
        self.iter().copied().collect()
    }

    /// The last run.
    pub(crate) fn last(&self) -> Option<&Run> {
        self.pieces.last().and_then(|piece| piece.runs.last())
    }

    /// The number of clusters that are not holes.
    pub(crate) fn taken(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.taken).sum()
    }

    /// Bytes that the list takes when packed, at most.
    pub(crate) fn most_packed(&self) -> usize {
        1 + self.pieces.iter().map(|piece| piece.packed).sum::<usize>()
    }

    /// Bytes that the list takes when packed, with the 0 at the end; if that is more than `most`, only a number above
    /// `most`.
    pub(crate) fn packed_length(&self, most: usize) -> usize {
        // A few pieces may show that the list takes more than `most`. Their bytes count without those that the places
        // of their first runs may not take.
        let mut least = 0;
        for piece in &self.pieces {
            least += piece.packed.saturating_sub(16);
            if least > most {
                return least;
            }
        }
        runs::packed_length(self.iter(), most)
    }

    /// Appends a run, joined with the last one if the two are adjacent.
    pub(crate) fn push(&mut self, run: Run) {
        match self.pieces.last_mut() {
            Some(last) if last.runs.len() < MOST => {
                let last = Arc::make_mut(last);
                runs::push(&mut last.runs, run);
                last.count();
            }
            last => {
                // The run may continue the last run of a full piece.
                let mut both: Vec<Run> =
                    last.into_iter().filter_map(|last| last.runs.last().copied()).collect();
                let before = both.len();
                runs::push(&mut both, run);
                if both.len() > before {
                    self.pieces.push(Arc::new(Piece::new(vec![run])));
                } else if let (Some(last), Some(joined)) = (self.pieces.last_mut(), both.pop()) {
                    let last = Arc::make_mut(last);
                    last.runs.pop();
                    last.runs.push(joined);
                    last.count();
                }
            }
        }
    }

    /// Replaces virtual clusters `from..to`, all of which the list has, by `new` runs for the same clusters, and
    /// returns the replaced runs.
    pub(crate) fn splice(&mut self, from: u64, to: u64, new: &[Run]) -> Vec<Run> {
        // Pieces that only touch the range are included, as their runs may join with the new ones.
        let first = self.pieces.partition_point(|piece| piece.end() < from);
        let last = self.pieces.partition_point(|piece| piece.start() <= to).max(first);
        let mut all: Vec<Run> =
            self.pieces[first..last].iter().flat_map(|piece| piece.runs.clone()).collect();
        let old = splice(&mut all, from, to, new);
        let count = all.len().div_ceil(MOST * 3 / 4).max(1);
        let pieces = all.chunks(all.len().div_ceil(count).max(1));
        let end = Runs::end(self);
        self.pieces.splice(first..last, pieces.map(|runs| Arc::new(Piece::new(runs.to_vec()))));
        debug_assert_eq!(Runs::end(self), end.max(to), "the list is as long as before");
        #[cfg(debug_assertions)]
        self.check_around(from, to);
        old
    }

    /// What holds of every list, looked at where it was changed: pieces have runs, and each run begins where the one before
    /// it ends.
    #[cfg(any(test, debug_assertions))]
    fn check_around(&self, from: u64, to: u64) {
        let first = self.pieces.partition_point(|piece| piece.end() < from);
        let near = || self.pieces[first..].iter().take_while(|piece| piece.start() <= to);
        assert!(near().all(|piece| !piece.runs.is_empty()), "a piece has runs");
        assert!(
            near().all(|piece| piece.taken <= piece.end() - piece.start()),
            "a piece counts its own clusters"
        );
        let runs: Vec<&Run> = near().flat_map(|piece| &piece.runs).collect();
        assert!(
            runs.windows(2).all(|two| two[0].end() == two[1].vcn),
            "runs follow each other without a gap"
        );
    }

    /// The parts of the runs in `from..to`.
    pub(crate) fn part(&self, from: u64, to: u64) -> Vec<Run> {
        part_of(Runs::from(self, from), from, to)
    }

    /// Cuts the list off at virtual cluster `at`, and returns the runs behind it.
    pub(crate) fn cut(&mut self, at: u64) -> Vec<Run> {
        let old = self.part(at, u64::MAX);
        let index = self.pieces.partition_point(|piece| piece.end() <= at);
        if let Some(piece) = self.pieces.get(index) {
            let kept = part(&piece.runs, piece.start(), at);
            self.pieces.truncate(index);
            if !kept.is_empty() {
                self.pieces.push(Arc::new(Piece::new(kept)));
            }
        }
        old
    }
}

/// Replaces virtual clusters `from..to`, all of which the list has, by `new` runs for them, and returns the replaced
/// runs.
fn splice(list: &mut Vec<Run>, from: u64, to: u64, new: &[Run]) -> Vec<Run> {
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
    // The runs that touch on either side may join with the new ones.
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
pub(crate) fn part(list: &[Run], from: u64, to: u64) -> Vec<Run> {
    part_of(Runs::from(list, from), from, to)
}

fn part_of<'r>(runs: impl Iterator<Item = &'r Run>, from: u64, to: u64) -> Vec<Run> {
    let inside = runs.take_while(|run| run.vcn < to);
    inside
        .map(|run| {
            let (start, end) = (run.vcn.max(from), run.end().min(to));
            Run { vcn: start, lcn: run.lcn.map(|lcn| lcn + (start - run.vcn)), length: end - start }
        })
        .collect()
}

/// Cuts a list off at virtual cluster `at`, and returns the runs behind it.
pub(crate) fn cut(list: &mut Vec<Run>, at: u64) -> Vec<Run> {
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

    /// A list in many pieces has the same runs as a plain one after any change, and copies from before the change stay
    /// as they were.
    #[test]
    fn a_list_in_pieces_is_like_a_plain_one() {
        let mut random = platter_testing::model::Random::new(3);
        let (mut list, mut plain) = (RunList::default(), Vec::new());
        let mut next = 0;
        for step in 0..9000u64 {
            let end = plain.last().map_or(0, Run::end);
            let lcn = (random.below(3) > 0).then(|| 5 * (step + random.below(2)) + 1);
            match random.below(10) {
                0..6 => {
                    let run = Run { vcn: end, lcn, length: random.below(4) + 1 };
                    list.push(run);
                    runs::push(&mut plain, run);
                }
                6..9 if end > 3 => {
                    let from = random.below(end - 2);
                    let to = (from + 1 + random.below(20)).min(end);
                    let copy = list.clone();
                    let before = plain.clone();
                    let new = [Run { vcn: from, lcn, length: to - from }];
                    assert_eq!(list.splice(from, to, &new), splice(&mut plain, from, to, &new));
                    assert_eq!(copy.to_vec(), before);
                    assert_eq!(copy == list, before == plain);
                }
                _ if step > next => {
                    next = step + 2000;
                    let at = end - random.below(end / 9 + 1);
                    assert_eq!(list.cut(at), cut(&mut plain, at));
                }
                _ => {}
            }
            if step % 50 == 0 {
                let at = random.below(plain.last().map_or(0, Run::end) + 2);
                assert_eq!(list.to_vec(), plain);
                assert!(list == plain.iter().copied().collect::<RunList>());
                assert_eq!(list.part(at, at + 9), part(&plain, at, at + 9));
                let exact = runs::packed_length(&plain, usize::MAX / 2);
                assert_eq!(list.packed_length(usize::MAX / 2), exact);
                assert!((exact..exact * 5 / 4 + 40).contains(&list.most_packed()), "{exact}");
            }
        }
        assert!(list.pieces.len() > 3, "{} pieces", list.pieces.len());
    }
}

//! Replacing runs of a stream by others, in memory.

use super::{Extent, Extents, Leaf, MOST_ROWS, News, RunKind, first_from};
use crate::layout::extent::MARKED;
use std::ops::RangeInclusive;

/// From this end on a range means all that follows: no stream has as many clusters.
const ENDLESS: u32 = u32::MAX - 1;

impl Leaf {
    /// The leaf's rows from the first cluster of `new` on, at most as many as `new` has, and the position of the first.
    fn overwritten_by(&self, new: &[Extent]) -> Option<(usize, &[Extent])> {
        let rows = self.rows.as_ref()?;
        let position = first_from(rows, self.first, new.first()?.at);
        let rest = rows.get(position..)?;
        Some((position, &rest[..rest.len().min(new.len())]))
    }
}

impl Extents {
    /// Replaces whatever is between the clusters `from` and `to` of the stream by the runs `new`, which are in order.
    /// The replaced runs are appended to `gone` as (virtual cluster, count). The range must be loaded.
    pub(crate) fn replace(&mut self, from: u32, to: u32, new: &[Extent], gone: &mut Vec<(u64, u32)>) {
        if from >= to {
            return;
        }
        debug_assert!(
            new.iter().all(|run| run.count > 0 && from <= run.at && run.end() <= to),
            "new runs lie in the range that they replace"
        );
        debug_assert!(new.windows(2).all(|two| two[0].end() <= two[1].at), "new runs are in order");
        if self.leaves.is_empty() {
            self.leaves.push(Leaf::new(from, from, Vec::new()));
            self.is_regular = false;
        }
        let (start, end) = self.span(from, to).into_inner();
        let marked = self.marked(start, from, new);
        let new = marked.as_deref().unwrap_or(new);
        let filled = self.holes_have_rows.then(|| with_holes(from, to, new)).flatten();
        let new = filled.as_deref().unwrap_or(new);
        if new.len() != (to - from) as usize || !self.replace_alike(start..=end, new, gone) {
            self.replace_any((start, end), (from, to), new, gone);
        }
        // A stream whose runs stand in its row is stored anew with every change of them.
        self.changed = self.changed.max(1);
        self.owe();
    }

    /// The runs `new` with the flags of the run in whose place they come, or else of the run before or after them, if
    /// that has the flag 0x10. What the flag says is not known, so a change of a file does not drop it.
    fn marked(&self, leaf: usize, from: u32, new: &[Extent]) -> Option<Vec<Extent>> {
        let is_plain = |row: &Extent| row.kind == RunKind::PLAIN;
        if !new.iter().any(is_plain) {
            return None;
        }
        let rows = self.leaves[leaf].rows.as_ref()?;
        let at = rows.partition_point(|row| row.end() <= from);
        let here = rows.get(at).filter(|row| row.at <= from);
        let near = here.or_else(|| at.checked_sub(1).and_then(|at| rows.get(at))).or_else(|| rows.get(at))?;
        if near.kind != RunKind::Plain(MARKED) {
            return None;
        }
        let mark =
            |row: &Extent| if is_plain(row) { Extent { kind: RunKind::Plain(MARKED), ..*row } } else { *row };
        Some(new.iter().map(mark).collect())
    }

    fn replace_any(
        &mut self,
        (start, end): (usize, usize),
        (from, to): (u32, u32),
        new: &[Extent],
        gone: &mut Vec<(u64, u32)>,
    ) {
        self.clusters += new.iter().filter(|row| !row.is_hole()).map(|row| u64::from(row.count)).sum::<u64>();
        for index in start..=end {
            let leaf = &mut self.leaves[index];
            let rows = leaf.rows.as_mut().expect("loaded");
            let before = rows.len() as u64;
            let low = rows.partition_point(|row| row.end() <= from);
            let high = rows.partition_point(|row| row.at < to);
            let mut middle: [Option<Extent>; 2] = [None; 2];
            for row in &rows[low..high] {
                let (cut_from, cut_to) = (row.at.max(from), row.end().min(to));
                if !row.is_hole() {
                    leave(gone, row.cluster + u64::from(cut_from - row.at), cut_to - cut_from);
                    self.clusters = self.clusters.saturating_sub(u64::from(cut_to - cut_from));
                }
                if row.at < from {
                    middle[0] = Some(row.part(row.at, from));
                }
                if row.end() > to {
                    middle[1] = Some(row.part(to, row.end()));
                }
            }
            let [head, tail] = middle;
            let here: &[Extent] = if index == start { new } else { &[] };
            if low == high && here.is_empty() {
                continue;
            }
            if here.len() == 1 && high == low + 1 && head.is_none() && tail.is_none() {
                rows[low] = here[0];
            } else {
                rows.splice(low..high, head.into_iter().chain(here.iter().copied()).chain(tail));
            }
            let position = low.saturating_sub(1);
            join(rows, position, low + here.len() + 3);
            self.runs = (self.runs + rows.len() as u64).saturating_sub(before);
            self.changed += usize::from(leaf.news == News::Nothing);
            leaf.news = News::All;
        }
        self.mend(start, end);
    }

    /// Replaces runs of one cluster with checksums by as many others, if all of them are such. This is the commonest
    /// change, and the leaves keep their shape. Returns whether it was done.
    fn replace_alike(
        &mut self,
        leaves: RangeInclusive<usize>,
        new: &[Extent],
        gone: &mut Vec<(u64, u32)>,
    ) -> bool {
        let leaves = &mut self.leaves[leaves];
        let mut rest = new;
        let is_alike = leaves.iter().all(|leaf| {
            let Some((_, old)) = leaf.overwritten_by(rest) else { return false };
            let here;
            (here, rest) = rest.split_at(old.len());
            old.iter().zip(here).all(|(old, new)| {
                old.at == new.at
                    && (old.count, new.count) == (1, 1)
                    && old.checksum().is_some()
                    && new.checksum().is_some()
            })
        });
        // A leaf with more rows than fit a page is split first.
        let is_alike = is_alike && leaves.iter().all(|leaf| leaf.unfolded == 0);
        if !is_alike || !rest.is_empty() {
            return false;
        }
        let mut rest = new;
        for leaf in leaves {
            let (position, old) = leaf.overwritten_by(rest).expect("seen just now");
            let count = old.len();
            old.iter().for_each(|row| leave(gone, row.cluster, 1));
            let here;
            (here, rest) = rest.split_at(count);
            leaf.rows.as_mut().expect("seen just now")[position..][..count].copy_from_slice(here);
            self.changed += usize::from(leaf.news == News::Nothing);
            match &mut leaf.news {
                News::All => {}
                News::Rows(changed) if changed.len() + count > MOST_ROWS => leaf.news = News::All,
                News::Nothing if count > MOST_ROWS => leaf.news = News::All,
                News::Rows(changed) => changed.extend(numbers(position, count)),
                News::Nothing => leaf.news = News::Rows(numbers(position, count).collect()),
            }
        }
        true
    }

    /// Updates the bounds of leaves after a change, splits those that are too large and drops empty ones.
    pub(super) fn mend(&mut self, start: usize, end: usize) {
        let mut index = start;
        let mut end = end;
        while index <= end && index < self.leaves.len() {
            let is_last = index + 1 == self.leaves.len();
            let Some(rows) = &mut self.leaves[index].rows else {
                index += 1;
                continue;
            };
            if rows.is_empty() {
                let leaf = self.leaves.remove(index);
                self.changed = self.changed.saturating_sub(usize::from(leaf.news != News::Nothing));
                self.left.extend(leaf.page);
                self.is_regular = false;
                if end == 0 {
                    break;
                }
                end -= 1;
                continue;
            }
            let bytes: usize = rows.iter().map(|row| row.size() + 4).sum();
            if bytes > self.capacity {
                // At the end of a stream that grows, leaves are left nearly full.
                let mut room = self.capacity * 15 / 16;
                let fits = rows.iter().take_while(|row| {
                    let bytes = row.size() + 4;
                    let fits = bytes <= room;
                    room = room.saturating_sub(bytes);
                    fits
                });
                let fits = fits.count();
                let keep = if is_last { fits } else { fits.min(rows.len() / 2) };
                let rest = rows.split_off(keep);
                let (first, last) = (rest[0].at, rest[rest.len() - 1].end() - 1);
                self.leaves.insert(index + 1, Leaf::new(first, last, rest));
                self.changed += 1;
                self.is_regular = false;
                end += 1;
            }
            let leaf = &mut self.leaves[index];
            let rows = leaf.rows.as_ref().expect("seen just now");
            leaf.first = rows[0].at;
            let last = rows[rows.len() - 1].end() - 1;
            self.is_regular &= leaf.last == last;
            leaf.last = last;
            index += 1;
        }
    }
}

/// The positions of `count` rows from `position` on. A page has fewer rows than `u16` can count.
fn numbers(position: usize, count: usize) -> impl Iterator<Item = u16> {
    (position..position + count).map(|position| position as u16)
}

/// Adds a run that is given up to `gone`, joined with the run before it where they touch.
fn leave(gone: &mut Vec<(u64, u32)>, cluster: u64, count: u32) {
    match gone.last_mut() {
        Some(last) if last.0 + u64::from(last.1) == cluster => last.1 += count,
        _ => gone.push((cluster, count)),
    }
}

/// The runs `new`, with rows for what they leave free between two clusters of a stream; `None` if that is nothing. What
/// is taken away up to the end of every stream, as a smaller size does, gets no row: there is nothing to read.
fn with_holes(from: u32, to: u32, new: &[Extent]) -> Option<Vec<Extent>> {
    let covered: u64 = new.iter().map(|row| u64::from(row.count)).sum();
    if to >= ENDLESS || covered == u64::from(to - from) {
        return None;
    }
    let mut rows = Vec::with_capacity(2 * new.len() + 1);
    let mut at = from;
    for row in new {
        rows.extend((row.at > at).then(|| Extent::hole(at, row.at)));
        rows.push(*row);
        at = row.end();
    }
    rows.extend((to > at).then(|| Extent::hole(at, to)));
    Some(rows)
}

/// Joins neighbouring runs between these positions that follow each other on the volume as in the stream, and holes.
fn join(rows: &mut Vec<Extent>, from: usize, to: usize) {
    let mut index = from;
    let mut to = to.min(rows.len());
    while index + 1 < to {
        let (one, next) = (rows[index], rows[index + 1]);
        let follows = match one.kind {
            RunKind::Plain(_) => one.cluster + u64::from(one.count) == next.cluster,
            RunKind::Hole(_) => true,
            RunKind::Checked(_) => false,
        };
        let touch = one.kind == next.kind && one.end() == next.at && follows;
        if touch {
            rows[index].count += next.count;
            rows.remove(index + 1);
            to -= 1;
        } else {
            index += 1;
        }
    }
}

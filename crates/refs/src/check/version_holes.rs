//! Holes of a file's versions: where a version has no row, Windows takes the clusters of the newest version before it that
//! has one. So a hole where an older version has content needs a row of its own.
//!
//! Source: forefst `docs/concepts/snapshots_versioning.md` (August 2026).

use super::Check;
use super::owner::Owner;
use crate::layout::attribute::LIVE;
use platter_vfs::Severity;

/// Clusters of a version that one or several rows cover, and whether these are runs rather than holes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Covered {
    pub at: u64,
    pub end: u64,
    pub is_run: bool,
}

/// What the rows of a version of a file's data cover.
pub(crate) struct VersionRows {
    /// The number of the version.
    pub number: u64,
    /// Its size in bytes.
    pub size: u64,
    pub covered: Vec<Covered>,
}

/// Adds the clusters of a row, which comes after those before it.
pub(crate) fn cover(covered: &mut Vec<Covered>, row: Covered) {
    match covered.last_mut() {
        Some(last) if last.end == row.at && last.is_run == row.is_run => last.end = row.end,
        _ => covered.push(row),
    }
}

impl Check<'_> {
    /// Compares the versions of a file's data, the live one among them. All of them have all their runs.
    pub(crate) fn version_holes(&mut self, owner: &Owner<'_>, mut versions: Vec<VersionRows>) {
        versions.sort_by_key(|version| (version.number == LIVE, version.number));
        let cluster = u64::from(self.geometry.cluster);
        let (mut older, mut first, mut count) = (Vec::new(), None, 0);
        for VersionRows { number, size, covered } in versions {
            let end = size.div_ceil(cluster);
            let bare = without(&older, &covered, end);
            first = first.or(bare.first().map(|bare| (number, bare.at)));
            count += bare.iter().map(|bare| bare.end - bare.at).sum::<u64>();
            older = bare;
            older.extend(covered.iter().filter(|own| own.is_run && own.at < end));
            older.sort_by_key(|one| one.at);
        }
        if let Some((number, at)) = first {
            let message = format!(
                "holes of version {number:#x} of the data, the first at cluster {at}: expected rows for {count} clusters \
                 that an older version has, found none; Windows shows the older content there"
            );
            self.find_in(owner, "hole", Severity::Notice, message);
        }
    }
}

/// What `older` has before `end` and no row of `own` covers. Both are in order.
fn without(older: &[Covered], own: &[Covered], end: u64) -> Vec<Covered> {
    let mut bare = Vec::new();
    let mut own = own.iter().peekable();
    for one in older {
        let (mut at, stop) = (one.at, one.end.min(end));
        while at < stop {
            match own.peek() {
                Some(row) if row.end <= at => {
                    own.next();
                }
                Some(row) if row.at <= at => at = row.end,
                row => {
                    let next = row.map_or(stop, |row| row.at.min(stop));
                    bare.push(Covered { at, end: next, is_run: true });
                    at = next;
                }
            }
        }
    }
    bare
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(at: u64, end: u64) -> Covered {
        Covered { at, end, is_run: true }
    }

    #[test]
    fn what_no_row_covers_is_bare() {
        let hole = |at, end| Covered { is_run: false, ..run(at, end) };
        let older = [run(0, 10), run(12, 20)];
        assert_eq!(without(&older, &[], 15), [run(0, 10), run(12, 15)]);
        assert_eq!(without(&older, &[hole(0, 20)], 20), []);
        assert_eq!(
            without(&older, &[run(2, 3), hole(9, 13), run(30, 40)], 20),
            [run(0, 2), run(3, 9), run(13, 20)]
        );
    }
}

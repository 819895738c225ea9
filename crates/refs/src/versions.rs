//! The versions of a file's data: the live one, and those that snapshots keep.
//!
//! Windows gives each version only the runs of what was written since the snapshot before it. A cluster for which the
//! live version has no run is that of the newest snapshot that has one; a snapshot takes what it lacks from older ones.
//! Of the two allocated sizes in a version's row one counts all of its clusters, the other only its own. Platter
//! gives each version all of its runs, and both sizes are the same.
//!
//! Source: forefst `docs/concepts/snapshots_versioning.md` and `placement_and_residency.md` (August 2026).

use crate::extents::{Extent, Extents};
use crate::layout::Attribute;
use crate::layout::attribute::{COUNTER, DATA};
use crate::layout::stream;
use crate::pages::Pages;
use platter_vfs::Result;

/// The reason in the error for a change of a file whose versions lack runs.
pub(crate) const SPREAD: &str =
    "its content is spread over its snapshots as Windows does it, and is only read";

/// Whether a version has runs for only a part of its clusters, from the value of its row.
pub(crate) fn lacks_runs(value: &[u8]) -> bool {
    value.len() >= stream::extents::OWN.end()
        && stream::extents::OWN.of(value) < stream::extents::ALLOCATED.of(value)
}

/// Whether the versions of a file's data, from the attributes of its record, take clusters from each other.
pub(crate) fn are_spread(rows: &[Attribute]) -> bool {
    are_several(rows) && versions(rows).any(|row| lacks_runs(&row.value))
}

/// Whether a file's data has several versions, from the attributes of its record.
pub(crate) fn are_several(rows: &[Attribute]) -> bool {
    versions(rows).nth(1).is_some()
}

/// The versions of a file's data, the live one among them.
fn versions(rows: &[Attribute]) -> impl Iterator<Item = &Attribute> {
    let data = rows.iter().filter(|row| row.kind() == DATA && !row.is_single());
    data.filter(|row| row.rest().len() >= 8 && stream::version_number(row) != COUNTER)
}

/// Gives a version its own runs and, where it lacks some, those of `older`. Its clusters from `end` on are left out: what
/// a shorter version does not have, a later one does not take from before it. `older` becomes the runs of this version.
pub(crate) fn resolve(
    extents: &mut Extents,
    lacks_runs: bool,
    end: u32,
    older: &mut Vec<Extent>,
    pages: &mut Pages,
) -> Result<()> {
    extents.load_range(pages, 0, u32::MAX)?;
    let own: Vec<Extent> = extents.rows().collect();
    if !lacks_runs {
        *older = own;
        return Ok(());
    }
    let mut rows = over(older, &own);
    rows.retain(|row| row.at < end);
    if let Some(last) = rows.last_mut().filter(|last| last.end() > end) {
        *last = last.part(last.at, end);
    }
    let runs: Vec<Extent> = rows.iter().filter(|row| !row.is_hole()).copied().collect();
    *extents = extents.only_read(&runs);
    *older = rows;
    Ok(())
}

/// Lays rows over others, both in order: what `own` has no row for stays as it was.
fn over(older: &[Extent], own: &[Extent]) -> Vec<Extent> {
    let mut rows = own.to_vec();
    let mut first = 0;
    for row in older {
        while own.get(first).is_some_and(|own| own.end() <= row.at) {
            first += 1;
        }
        let mut at = row.at;
        for own in own[first..].iter().take_while(|own| own.at < row.end()) {
            if own.at > at {
                rows.push(row.part(at, own.at));
            }
            at = own.end();
        }
        if at < row.end() {
            rows.push(row.part(at, row.end()));
        }
    }
    rows.sort_by_key(|row| row.at);
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extents::RunKind;

    fn row(at: u32, count: u32, cluster: u64) -> Extent {
        let kind = if cluster == 0 { RunKind::Hole(0x60) } else { RunKind::PLAIN };
        Extent { at, count, cluster, kind }
    }

    #[test]
    fn own_rows_stand_before_older_ones() {
        let older = [row(0, 4, 100), row(6, 2, 200), row(10, 10, 300)];
        assert_eq!(over(&older, &[]), older);
        assert_eq!(over(&[], &older), older);
        let own = [row(1, 1, 500), row(3, 4, 0), row(12, 1, 600), row(14, 20, 700)];
        let wanted = [
            row(0, 1, 100),
            row(1, 1, 500),
            row(2, 1, 102),
            row(3, 4, 0),
            row(7, 1, 201),
            row(10, 2, 300),
            row(12, 1, 600),
            row(13, 1, 303),
            row(14, 20, 700),
        ];
        assert_eq!(over(&older, &own), wanted);
    }
}

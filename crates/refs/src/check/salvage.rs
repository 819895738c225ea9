//! Directories of which pages are lost: a repair makes their trees anew, from the pages that are left and from the rows
//! that older pages have for the lost parts.

use super::Check;
use super::lost::LostRow;
use super::repair::relay;
use crate::container::Tier;
use platter_vfs::{Result, Severity};

/// Has lost parts of directories made anew. Everything else has been walked before, so that the clusters of all
/// existing files are known: an old row that leads to one of these clusters is of a file that was deleted.
pub(super) fn find(check: &mut Check<'_>) {
    let Some(find) = check.find_lost else { return };
    let trees = std::mem::take(&mut check.lost_trees);
    // Where several files can have the same clusters, a row that leads to clusters in use may be of an existing file
    // all the same.
    if trees.is_empty() || check.shares.is_needed() || check.is_crossed || check.is_compressed {
        return;
    }
    let upper = check.upper.clone();
    let found = relay::lend(check.device, move |device| (find.rows)(device, &trees, &upper));
    let Some(Ok(found)) = found else { return };
    for (table, lost) in found {
        let count = lost.len();
        let rows: Vec<LostRow> = lost.into_iter().filter(|row| claim(check, row)).collect();
        let doubtful = rows.iter().filter(|row| row.is_damaged).count();
        let mut message = format!(
            "directory: pages of it are lost; it is made anew from the others, with {} of {count} rows that older pages have",
            rows.len()
        );
        if doubtful > 0 {
            message += &format!(
                "; {doubtful} of them stand in pages that fail their checksums: their names, sizes and content in records \
                 may be wrong"
            );
        }
        let path = check.path(table, None);
        check.find("directory-lost", Severity::DataLoss, Some(path), message);
        check.repair.salvage(table, rows.into_iter().map(|lost| lost.row).collect());
    }
}

/// Counts the clusters that a row leads to as used, and returns true, if nothing else has them.
fn claim(check: &mut Check<'_>, row: &LostRow) -> bool {
    let Some(places) = &row.places else { return false };
    let places: Result<Vec<(u64, u64)>> = places
        .iter()
        .map(|&(cluster, count)| Ok((check.real(cluster, count.max(1), Tier::Medium)?, count)))
        .collect();
    let is_free = |&(real, count): &(u64, u64)| check.used.taken(real, count) == 0;
    let Some(places) = places.ok().filter(|places| places.iter().all(is_free)) else { return false };
    for (real, count) in places {
        check.used.claim(real, count, Some(Tier::Medium));
    }
    true
}

//! First clusters that more than one entry names, or that lie inside another file's clusters.
//!
//! A move or a rename that a power cut interrupted leaves one file or directory under two names, with the same length
//! and modification time. Then exactly one of the entries is kept, whole, and nothing is cut or copied. Two entries
//! that name the same first cluster but differ otherwise are two files, one of which has lost its clusters: each gets
//! the content that is readable under its entry.
//!
//! A sector that was written to a wrong place gives entries of one directory to another too: see [`Piece`].

use super::listing::Listing;
use super::walk::Walk;
use crate::layout::{EntrySet, FileInfo, Primary};
use platter_clusters::{Claims, Fit, Link, PIECE_SLOTS, Piece, SLOT, is_found, likeness};
use platter_vfs::{Result, Severity};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Range;

/// An entry that names a contested cluster.
struct Claimant {
    dir: u32,
    slots: Range<usize>,
    offsets: [u64; 2],
    set: EntrySet,
    /// The sector of the entry.
    piece: Piece,
}

/// Resolves every contested cluster.
pub(super) fn resolve(walk: &mut Walk) -> Result<()> {
    if walk.contested.is_empty() {
        return Ok(());
    }
    let mut claimants: BTreeMap<u32, Vec<Claimant>> = BTreeMap::new();
    for dir in 0..walk.dirs.len() as u32 {
        let listing = walk.listing(dir)?;
        let end = listing.end();
        let mut at = 0;
        while at < end {
            let rest = &listing.slots()[at..end];
            if Primary::of(&rest[0]) == Primary::File
                && let Ok(set) = EntrySet::read_loosely(rest)
            {
                let slots = at..at + set.slots().len();
                at = slots.end;
                let info = set.info();
                let start = info.cluster;
                // An empty file has no content that another could have.
                if (info.length > 0 || info.attributes.directory())
                    && start != 0
                    && walk.contested.contains(&start)
                {
                    let offsets = [listing.offset(slots.start), listing.offset(slots.start + 1)];
                    let piece = piece(walk, &listing, slots.start)?;
                    claimants.entry(start).or_default().push(Claimant { dir, slots, offsets, set, piece });
                }
            } else {
                at += 1;
            }
        }
    }
    for (cluster, claimants) in claimants {
        let root = cluster == walk.clusters.geometry.root_cluster;
        match &claimants[..] {
            _ if root => {
                for claimant in &claimants {
                    if !claimant.set.info().attributes.directory() {
                        empty_entry(walk, cluster, claimant)?;
                        continue;
                    }
                    let message = || "it starts at the root directory's cluster".to_owned();
                    drop_entry(walk, claimant, "bad-start", message)?;
                }
            }
            [one] => inside_another(walk, cluster, one),
            _ => keep_best(walk, cluster, &claimants)?,
        }
    }
    Ok(())
}

/// Reads the sector of a slot, and judges whether it belongs where it is.
fn piece(walk: &Walk, listing: &Listing, slot: usize) -> Result<Piece> {
    let between = |both: &[[u8; SLOT]]| {
        let mut fit = Fit::default();
        let (mut before, mut behind) = (None, None);
        let mut at = 0;
        while at < both.len() && Primary::of(&both[at]) != Primary::End {
            let mut end = at + 1;
            if Primary::of(&both[at]) == Primary::File {
                match EntrySet::read(&both[at..], &walk.upcase) {
                    Ok(set) => {
                        end = at + set.slots().len();
                        match at < PIECE_SLOTS {
                            true => before = Some(set.name()),
                            false => behind = behind.or_else(|| Some(set.name())),
                        }
                    }
                    // The second byte is the number of entries that follow.
                    Err(_) if at < PIECE_SLOTS => {
                        fit.faults += usize::from(at + usize::from(both[at][1]) >= PIECE_SLOTS);
                    }
                    Err(_) => {}
                }
            } else if at == PIECE_SLOTS && matches!(Primary::of(&both[at]), Primary::Secondary(_)) {
                // The entry before it, to which it belongs, is not there.
                fit.faults += 1;
            }
            at = end;
        }
        if let (Some(before), Some(behind)) = (before, behind) {
            fit.likeness = likeness(&before, &behind);
        }
        fit
    };
    let offset = |slot| listing.offset(slot);
    Piece::read(walk.disk, slot, listing.capacity(), offset, |_, _| 0, between)
}

fn drop_entry(
    walk: &mut Walk,
    claimant: &Claimant,
    code: &'static str,
    message: impl FnOnce() -> String,
) -> Result<()> {
    let name = claimant.set.name();
    if walk.find(code, Severity::Inconsistent, Some((claimant.dir, Some(&name))), message) {
        let mut listing = walk.listing(claimant.dir)?;
        listing.delete(walk.disk, claimant.slots.clone());
        // Other changes take away what tells the right entry from the wrong one.
        claimant.slots.clone().for_each(|slot| walk.disk.write_first(listing.offset(slot)));
    }
    Ok(())
}

/// Keeps a file that starts at a directory's cluster, without content: its own, if there is any, belongs to no entry.
fn empty_entry(walk: &mut Walk, cluster: u32, claimant: &Claimant) -> Result<()> {
    let (name, mut info) = (claimant.set.name(), claimant.set.info());
    let message = || format!("{} bytes start at cluster {cluster}, which is a directory's", info.length);
    if walk.find("bad-start", Severity::DataLoss, Some((claimant.dir, Some(&name))), message) {
        (info.cluster, info.length, info.valid, info.contiguous) = (0, 0, 0, false);
        let mut set = claimant.set.clone();
        set.set_info(&info);
        let mut listing = walk.listing(claimant.dir)?;
        listing.put(walk.disk, claimant.slots.start, &set);
        claimant.slots.clone().for_each(|slot| walk.disk.write_first(listing.offset(slot)));
    }
    Ok(())
}

/// Keeps one of several entries that name the same first cluster.
fn keep_best(walk: &mut Walk, cluster: u32, claimants: &[Claimant]) -> Result<()> {
    let rank = |claimant: &Claimant| {
        let info = claimant.set.info();
        let stamp = info.modified;
        (
            !walk.is_inside_itself(claimant.dir, cluster),
            !is_found(claimant.dir, |at| (walk.dirs[at as usize].parent, &walk.dirs[at as usize].name)),
            claimant.piece.rank(claimants.iter().map(|other| &other.piece)),
            info.valid <= info.length,
            info.length,
            info.valid,
            (stamp.local.date, stamp.local.time, stamp.local.hundredths),
            // A damaged directory comes last: one of its sectors may be a copy of another directory's sector.
            !walk.dirs[claimant.dir as usize].is_damaged,
            Reverse((claimant.dir, claimant.slots.start)),
        )
    };
    let Some(best) = (0..claimants.len()).max_by_key(|&at| rank(&claimants[at])) else { return Ok(()) };
    let kept = walk.path(claimants[best].dir, Some(&claimants[best].set.name()));
    let of_best = claimants[best].set.info();
    keep_chain(walk, &of_best)?;
    let is_one = |other: &FileInfo| {
        (other.length, other.valid, other.modified) == (of_best.length, of_best.valid, of_best.modified)
            || other.attributes.directory()
            || of_best.attributes.directory()
    };
    for (at, claimant) in claimants.iter().enumerate() {
        if at != best && !is_one(&claimant.set.info()) {
            inside_another(walk, cluster, claimant);
        } else if at != best && of_best.attributes.directory() && !claimant.set.info().attributes.directory()
        {
            empty_entry(walk, cluster, claimant)?;
        } else if at != best {
            let message = || format!("a second entry for what {kept} is, at cluster {cluster}");
            drop_entry(walk, claimant, "duplicate-entry", message)?;
        }
    }
    Ok(())
}

/// Claims all clusters of a file, and cancels a truncation of its chain: the walk may have met a shorter entry for
/// the same clusters first.
fn keep_chain(walk: &mut Walk, info: &FileInfo) -> Result<()> {
    let heap = walk.clusters.heap;
    let wanted = heap.clusters_for(info.length).min(u64::from(heap.count));
    let mut cluster = info.cluster;
    for number in 1..=wanted {
        if !heap.has(cluster) {
            break;
        }
        walk.clusters.claim(cluster);
        if number == wanted {
            break;
        }
        cluster = match info.contiguous {
            true => cluster + 1,
            false => match walk.clusters.link(cluster)? {
                Link::Next(next) => {
                    walk.cuts.retain(|&last| last != cluster);
                    next
                }
                _ => break,
            },
        };
    }
    Ok(())
}

/// Reports an entry whose first cluster is in the middle of another file's clusters; a repair copies what they share.
fn inside_another(walk: &mut Walk, cluster: u32, claimant: &Claimant) {
    let name = claimant.set.name();
    let message = || format!("it shares clusters from {cluster}, its first, with another");
    walk.share((claimant.dir, &name), (claimant.offsets, &claimant.set, 0), message);
}

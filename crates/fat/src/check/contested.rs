//! First clusters that more than one entry names, or that lie inside another chain.
//!
//! A move or a rename that a power cut interrupted leaves one file or directory under two names, with the same size
//! and modification time. Then exactly one of the entries is kept, whole, and nothing is cut or copied. Two entries
//! that name the same first cluster but differ otherwise are two files, one of which has lost its clusters: each gets
//! the content that is readable under its entry.
//!
//! A sector that was written to a wrong place gives entries of one directory to another too: see [`Piece`].

use super::listing::{Item, Listing};
use super::walk::{Lead, Walk};
use crate::layout::{Link, SLOT, ShortEntry, ShortName, Slot};
use platter_clusters::{Fit, PIECE_SLOTS, Piece, is_found, is_inside, likeness};
use platter_vfs::{Name, Result, Severity};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Range;

/// An entry that names a contested cluster.
struct Claimant {
    dir: u32,
    slots: Range<usize>,
    short: ShortEntry,
    name: Name,
    /// Whether the entry is whole: it has its long name, or none was ever written for it.
    whole: bool,
    /// Whether the entry is on the device where the walk has it. Otherwise it was moved to make room for another.
    is_there: bool,
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
        let listing = read(walk, dir)?;
        for item in listing.items(if dir == 0 { 0 } else { 2.min(listing.len()) }) {
            let Item::Entry { first, slot, short, long, torn } = item else { continue };
            let start = walk.geometry.first_cluster(&short);
            // An empty file has no content that another could have.
            let is_empty = short.size == 0 && !short.attributes.directory();
            let is_other = short.attributes.label() || short.name.is_dots() || is_empty;
            if is_other || !walk.contested.contains(&start) {
                continue;
            }
            let is_usual = short.name.is_valid() && !short.name.has_small_letters();
            let whole = !torn && is_usual && (long.is_some() || !short.name.0.contains(&b'~'));
            let name = long.unwrap_or_else(|| short.name.to_name(short.nt));
            let mut on_device = [0; SLOT];
            walk.disk.read(listing.offset(slot), &mut on_device)?;
            let first_cluster = walk.geometry.first_cluster(&ShortEntry::from_bytes(&on_device));
            claimants.entry(start).or_default().push(Claimant {
                is_there: first_cluster == start,
                piece: piece(walk, dir, &listing, slot)?,
                dir,
                slots: first..slot + 1,
                short,
                name,
                whole,
            });
        }
    }
    for (cluster, claimants) in claimants {
        if cluster == walk.geometry.root_cluster {
            for claimant in claimants {
                if !claimant.short.attributes.directory() {
                    empty_entry(walk, cluster, &claimant)?;
                    continue;
                }
                drop_entry(walk, &claimant, "bad-start", || {
                    "it starts at the root directory's cluster".into()
                })?;
            }
        } else if claimants.len() > 1 {
            keep_best(walk, cluster, claimants)?;
        } else {
            inside_another(walk, cluster, &claimants[0])?;
        }
    }
    Ok(())
}

fn read(walk: &Walk, dir: u32) -> Result<Listing> {
    let known = &walk.dirs[dir as usize];
    Listing::read(walk.disk, walk.geometry, walk.table, known.first, known.count)
}

/// Reads the sector of a slot, and judges whether it belongs where it is.
fn piece(walk: &Walk, dir: u32, listing: &Listing, slot: usize) -> Result<Piece> {
    let (is_root, cluster) = (dir == 0, walk.dirs[dir as usize].first);
    let inside = |slots: &[[u8; SLOT]], first| {
        let faults = slots.iter().enumerate().map(|(at, slot)| {
            let wanted = match first + at {
                0 if !is_root => Some(ShortName::DOT),
                1 if !is_root => Some(ShortName::DOT_DOT),
                _ => None,
            };
            match Slot::from_bytes(slot) {
                Slot::Short(short) if wanted == Some(short.name) => {
                    short.name == ShortName::DOT && walk.geometry.first_cluster(&short) != cluster
                }
                Slot::Short(short) if short.name.is_dots() || short.attributes.label() && !is_root => true,
                _ => wanted.is_some(),
            }
        });
        faults.filter(|is_fault| *is_fault).count()
    };
    let between = |both: &[[u8; SLOT]]| {
        let mut fit = Fit::default();
        let (mut before, mut behind) = (None, None);
        for item in Listing::of(both.as_flattened().to_vec()).items(0) {
            match item {
                Item::Orphan { slots, .. } if slots.start <= PIECE_SLOTS && slots.end >= PIECE_SLOTS => {
                    fit.faults += 1;
                }
                Item::Orphan { .. } => {}
                Item::Entry { slot, short, long, .. } => {
                    let name = long.unwrap_or_else(|| short.name.to_name(short.nt));
                    match slot < PIECE_SLOTS {
                        true => before = Some(name),
                        false => behind = behind.or(Some(name)),
                    }
                }
            }
        }
        if let (Some(before), Some(behind)) = (before, behind) {
            fit.likeness = likeness(&before, &behind);
        }
        fit
    };
    Piece::read(walk.disk, slot, listing.len(), |slot| listing.offset(slot), inside, between)
}

fn drop_entry(
    walk: &mut Walk,
    claimant: &Claimant,
    code: &'static str,
    message: impl FnOnce() -> String,
) -> Result<()> {
    if walk.find(code, Severity::Inconsistent, Some((claimant.dir, Some(&claimant.name))), message) {
        let mut listing = read(walk, claimant.dir)?;
        listing.delete(walk.disk, claimant.slots.clone());
        // Other changes take away what tells the right entry from the wrong one.
        claimant.slots.clone().for_each(|slot| walk.disk.write_first(listing.offset(slot)));
    }
    Ok(())
}

/// Keeps a file that starts at a directory's cluster, without content: its own, if there is any, belongs to no entry.
fn empty_entry(walk: &mut Walk, cluster: u32, claimant: &Claimant) -> Result<()> {
    let place = Some((claimant.dir, Some(&claimant.name)));
    let size = claimant.short.size;
    let message = || format!("a file of {size} bytes starts at cluster {cluster}, which is a directory's");
    if walk.find("bad-start", Severity::DataLoss, place, message) {
        let mut listing = read(walk, claimant.dir)?;
        let slot = claimant.slots.end - 1;
        let empty = ShortEntry { cluster: 0, size: 0, ..claimant.short.clone() };
        listing.change(walk.disk, slot, empty.to_bytes());
        walk.disk.write_first(listing.offset(slot));
    }
    Ok(())
}

/// Returns the cluster that ".." names in the directory that starts at `cluster`; `None` if no directory starts
/// there.
fn dot_dot(walk: &Walk, cluster: u32) -> Result<Option<u32>> {
    // Read from the device: the walk has changed ".." in memory to fit the entry that it met first.
    let mut slots = [[0; SLOT]; 2];
    walk.disk.read(walk.geometry.cluster_offset(cluster), slots.as_flattened_mut())?;
    let [Slot::Short(dot), Slot::Short(above)] = slots.map(|slot| Slot::from_bytes(&slot)) else {
        return Ok(None);
    };
    let is_directory = dot.name == ShortName::DOT
        && dot.attributes.directory()
        && walk.geometry.first_cluster(&dot) == cluster
        && above.name == ShortName::DOT_DOT;
    Ok(is_directory.then(|| walk.geometry.first_cluster(&above)))
}

/// Undoes the walk's change to the ".." of a directory, which fitted the entry that the walk met first.
fn leave_dot_dot(walk: &mut Walk, cluster: u32) -> Result<()> {
    let offset = walk.geometry.cluster_offset(cluster) + SLOT as u64;
    let mut slot = [0; SLOT];
    walk.disk.read(offset, &mut slot)?;
    walk.disk.edit(offset, slot);
    Ok(())
}

/// Keeps one of several entries that name the same first cluster.
fn keep_best(walk: &mut Walk, cluster: u32, claimants: Vec<Claimant>) -> Result<()> {
    let above = dot_dot(walk, cluster)?;
    // The first sector of a directory, with the entry "..", may be lost.
    let is_directory =
        above.is_some() || claimants.iter().all(|claimant| claimant.short.attributes.directory());
    let wanted = claimants.iter().map(|claimant| u64::from(claimant.short.size)).max().unwrap_or(0);
    let held = chain_length(walk, cluster, walk.geometry.clusters_for(wanted))
        * u64::from(walk.geometry.cluster_size);
    let rank = |claimant: &Claimant| {
        let parent = &walk.dirs[claimant.dir as usize];
        let parent_cluster = if claimant.dir == 0 { 0 } else { parent.first };
        let size = u64::from(claimant.short.size);
        (
            claimant.short.attributes.directory() == is_directory && !lies_below(walk, claimant.dir, cluster),
            !is_found(claimant.dir, |at| (walk.dirs[at as usize].parent, &walk.dirs[at as usize].name)),
            // An entry that is not yet on the device must not outlive one that is: the power may fail between the two.
            claimant.is_there,
            claimant.piece.rank(claimants.iter().map(|other| &other.piece)),
            claimant.whole,
            above == Some(parent_cluster),
            size <= held,
            size,
            (claimant.short.modified.date, claimant.short.modified.time),
            // A damaged directory comes last: one of its sectors may be a copy of another directory's sector.
            !parent.is_damaged,
            Reverse((claimant.dir, claimant.slots.start)),
        )
    };
    let Some(best) = (0..claimants.len()).max_by_key(|&at| rank(&claimants[at])) else { return Ok(()) };
    let kept = walk.path(claimants[best].dir, Some(&claimants[best].name));
    let of_best = &claimants[best].short;
    keep_chain(walk, cluster, walk.geometry.clusters_for(u64::from(of_best.size)));
    let is_one = |other: &ShortEntry| other.size == of_best.size && other.modified == of_best.modified;
    let best_parent =
        if claimants[best].dir == 0 { 0 } else { walk.dirs[claimants[best].dir as usize].first };
    if walk.findings.repair && above == Some(best_parent) {
        leave_dot_dot(walk, cluster)?;
    }
    for (at, claimant) in claimants.iter().enumerate() {
        if at != best && !is_directory && !claimant.short.attributes.directory() && !is_one(&claimant.short) {
            share(walk, cluster, claimant)?;
        } else if at != best && is_directory && !claimant.short.attributes.directory() {
            empty_entry(walk, cluster, claimant)?;
        } else if at != best {
            let message = || format!("a second entry for what {kept} is, at cluster {cluster}");
            drop_entry(walk, claimant, "duplicate-entry", message)?;
        }
    }
    Ok(())
}

/// Claims the first `wanted` clusters of a chain, and cancels cuts among them: the walk may have met a smaller file
/// with the same first cluster before.
fn keep_chain(walk: &mut Walk, first: u32, wanted: u64) {
    let mut cluster = first;
    for _ in 1..wanted.min(u64::from(walk.geometry.clusters)) {
        walk.claimed.set(cluster);
        let Link::Next(next) = walk.table.link(walk.geometry, cluster) else { return };
        walk.cuts.retain(|&(last, _)| last != cluster);
        cluster = next;
    }
    walk.claimed.set(cluster);
}

/// Whether a directory starts at `cluster` or lies below the one that does.
fn lies_below(walk: &Walk, dir: u32, cluster: u32) -> bool {
    is_inside(dir, cluster, |at| (walk.dirs[at as usize].parent, walk.dirs[at as usize].first))
}

/// Returns the number of clusters in a chain, counted up to `most`.
fn chain_length(walk: &Walk, first: u32, most: u64) -> u64 {
    let mut count = 1;
    let mut cluster = first;
    while count < most
        && let Link::Next(next) = walk.table.link(walk.geometry, cluster)
    {
        count += 1;
        cluster = next;
    }
    count
}

/// Resolves an entry whose first cluster is in the middle of another file's chain.
fn inside_another(walk: &mut Walk, cluster: u32, claimant: &Claimant) -> Result<()> {
    let place = Some((claimant.dir, Some(&claimant.name)));
    if claimant.short.attributes.directory() {
        if dot_dot(walk, cluster)?.is_none() || lies_below(walk, claimant.dir, cluster) {
            let message =
                || format!("it starts at cluster {cluster}, which is another's and holds no directory");
            return drop_entry(walk, claimant, "bad-start", message);
        }
        let message =
            || format!("the directory's first cluster {cluster} is also in another's chain, which is cut");
        if walk.find("cross-link", Severity::DataLoss, place, message) {
            let end = walk.geometry.kind.end();
            let before = (2..=walk.geometry.last_cluster()).filter(|&before| {
                walk.claimed.get(before) && walk.table.link(walk.geometry, before) == Link::Next(cluster)
            });
            walk.cuts.extend(before.map(|before| (before, end)));
        }
        return Ok(());
    }
    share(walk, cluster, claimant)
}

/// Reports a file whose clusters, from the first on, belong to another file; a repair gives it copies of them.
fn share(walk: &mut Walk, cluster: u32, claimant: &Claimant) -> Result<()> {
    let place = Some((claimant.dir, Some(&claimant.name)));
    let mut listing = read(walk, claimant.dir)?;
    let slot = claimant.slots.end - 1;
    let count = walk.geometry.clusters_for(u64::from(claimant.short.size));
    let message = || format!("the file shares clusters from {cluster}, its first, with another");
    if count > 0 {
        let from = Lead::Entry(listing.offset(slot));
        walk.share((claimant.dir, &claimant.name), (from, cluster, count), message);
    } else if walk.find("cross-link", Severity::DataLoss, place, message) {
        listing.change(walk.disk, slot, ShortEntry { cluster: 0, ..claimant.short.clone() }.to_bytes());
    }
    Ok(())
}

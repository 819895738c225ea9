//! The number of pages that a change of single rows writes, and that the pages have the runs in memory afterwards.

use super::stored::Stored;
use super::*;
use crate::{Refs, RefsVolume};
use platter_device::{MemoryDevice, Sectors};
use platter_testing::model::Random;
use platter_vfs::{Format, FormatOptions, OpenOptions, Silent};
use std::sync::Arc;

const TABLE: u64 = 0x600;

fn run(at: u32, cluster: u64) -> Extent {
    Extent { at, count: 1, cluster, kind: RunKind::Checked(cluster as u32 ^ 0x5A5A) }
}

#[test]
fn a_change_of_few_rows_changes_the_pages_above_them_alone() {
    let device = Arc::new(MemoryDevice::new(512 << 20, Sectors::SMALL));
    Refs::ANY.make(&*device, &FormatOptions::default(), &Silent).unwrap();
    let volume = RefsVolume::open(device, OpenOptions::default()).unwrap();
    let mut core = volume.core();
    let pages = &mut core.pages;
    let mut extents = Extents::new(pages, TABLE);
    let mut gone = Vec::new();
    // Runs enough for two levels of inner pages.
    let mut rows: Vec<Extent> = (0..800_000).map(|at| run(at, 0x10_0000 + u64::from(at))).collect();
    for piece in rows.chunks(4096) {
        extents.replace(piece[0].at, piece[0].at + piece.len() as u32, piece, &mut gone);
    }
    let leaf_pages = extents.store(Form::Roomy, pages, 2).unwrap().leaf_pages;
    let all = pages.take_dirty().unwrap().len() as u64;
    let between = all - leaf_pages;
    assert!(between > 8 && extents.inner.len() == 2, "{between} pages between");
    let mut random = Random::new(8664);
    for clock in 3..40 {
        let mut leaves = std::collections::BTreeSet::new();
        let count = random.below(40);
        for _ in 0..count {
            let at = random.below(rows.len() as u64) as u32;
            let row = run(at, 0x200_0000 + random.below(1 << 20));
            rows[at as usize] = row;
            extents.replace(at, at + 1, &[row], &mut gone);
            leaves.insert(extents.leaf(at));
        }
        extents.store(Form::Roomy, pages, clock).unwrap();
        let changed = pages.take_dirty().unwrap().len();
        let most = leaves.len() + if leaves.is_empty() { 0 } else { between as usize };
        assert!((leaves.len()..=most).contains(&changed), "{changed} pages for {} leaves", leaves.len());
        if leaves.len() == 1 {
            assert_eq!(changed, 3, "a leaf and one page on each level above");
        }
    }
    // Runs that overwrite those of two leaves change few pages too; the leaves keep their bounds.
    let border = extents.leaves[7].first;
    let shape =
        |extents: &Extents| extents.leaves.iter().map(|leaf| (leaf.first, leaf.last)).collect::<Vec<_>>();
    let before = shape(&extents);
    let new: Vec<Extent> =
        (border - 100..border + 156).map(|at| run(at, 0x280_0000 + u64::from(at))).collect();
    gone.clear();
    extents.replace(border - 100, border + 156, &new, &mut gone);
    assert_eq!(gone.iter().map(|(_, count)| count).sum::<u32>(), 256);
    rows[border as usize - 100..][..256].copy_from_slice(&new);
    assert_eq!(shape(&extents), before);
    let mut stored = extents.store(Form::Roomy, pages, 40).unwrap();
    assert!((4..=5).contains(&pages.take_dirty().unwrap().len()));
    let again = |extents: &Extents, pages: &mut Pages, stored: &Stored| {
        let mut again = Extents::open(pages, TABLE, &stored.node, (extents.clusters, stored.runs)).unwrap();
        again.load_range(pages, 0, u32::MAX).unwrap();
        assert!(again.is_regular);
        again
    };
    assert!(again(&extents, pages, &stored).iter().eq(rows.iter().copied()));
    // Many rows of one leaf, and a removal that changes the bounds of leaves.
    for at in 1000..1100 {
        rows[at as usize] = run(at, 0x300_0000 + u64::from(at));
        extents.replace(at, at + 1, &[rows[at as usize]], &mut gone);
    }
    rows.drain(2000..2010);
    extents.replace(2000, 2010, &[], &mut gone);
    stored = extents.store(Form::Roomy, pages, 42).unwrap();
    pages.take_dirty().unwrap();
    let mut reopened = again(&extents, pages, &stored);
    assert!(reopened.iter().eq(rows.iter().copied()));
    // Extents that were opened from disk behave as those built in memory.
    reopened.replace(7, 8, &[run(7, 0x400_0000)], &mut gone);
    rows[7] = run(7, 0x400_0000);
    stored = reopened.store(Form::Roomy, pages, 43).unwrap();
    assert_eq!(pages.take_dirty().unwrap().len(), 3);
    assert!(again(&reopened, pages, &stored).iter().eq(rows.iter().copied()));
    // Pages that are not in memory are not read to be changed: they are built anew.
    pages.forget_clean();
    reopened.replace(7, 8, &[run(7, 0x500_0000)], &mut gone);
    reopened.store(Form::Roomy, pages, 43).unwrap();
    assert_eq!(pages.take_dirty().unwrap().len() as u64, 1 + between);
}

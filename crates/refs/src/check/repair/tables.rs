//! Whole tables: copies made alike, trees written anew.

use super::apply::{Plan, tier};
use crate::core::{Core, ROOT_DIRECTORY};
use crate::format::parent_child;
use crate::layout::Root;
use crate::layout::bytes::put;
use crate::pages::Pages;
use crate::system;
use crate::tree::{Order, Tree};
use platter_vfs::Result;
use std::collections::BTreeSet;

/// A row, as it is put into a tree.
type Row = (Vec<u8>, u16, Vec<u8>);

/// More rows than this are not written anew: they would all be in memory.
const MOST_ROWS: usize = 1 << 22;

/// Makes copies alike, and writes trees anew whose order or counts are wrong.
pub fn mend(core: &mut Core, plan: &mut Plan) -> Result<()> {
    // The volume's own tables come before the objects that they lead to.
    let copies = std::mem::take(&mut plan.repair.copies);
    let (tables, objects): (Vec<_>, Vec<_>) =
        copies.into_iter().partition(|copies| root_of(copies.0).is_some());
    for (first, second, damaged) in tables.into_iter().chain(objects) {
        alike(core, first, second, damaged)?;
    }
    for table in std::mem::take(&mut plan.repair.rebuilds) {
        let is_renewed = root_of(table).is_some_and(|root| plan.repair.renewed.contains(&(root as usize)));
        if !plan.damaged.contains(&table) && !is_renewed {
            rebuild(core, table)?;
        }
    }
    Ok(())
}

fn root_of(table: u64) -> Option<Root> {
    Root::ALL.into_iter().find(|root| root.table() == table)
}

/// The tree with this number, if there is one.
fn tree(core: &mut Core, table: u64) -> Option<Tree> {
    match root_of(table) {
        Some(root) => Some(core.roots[root as usize].clone()),
        None => core.tree(table).ok().map(|(tree, _)| tree.clone()),
    }
}

fn set_tree(core: &mut Core, table: u64, tree: Tree) -> Result<()> {
    match root_of(table) {
        Some(root) => core.roots[root as usize] = tree,
        None => *core.tree_mut(table)?.0 = tree,
    }
    Ok(())
}

fn rows(pages: &mut Pages, tree: &Tree) -> Result<Option<Vec<Row>>> {
    let mut rows = Vec::new();
    tree.scan(pages, &[], |row| {
        rows.push((row.key.to_vec(), row.flags, row.value.to_vec()));
        Ok(rows.len() <= MOST_ROWS)
    })?;
    Ok((rows.len() <= MOST_ROWS).then_some(rows))
}

/// A tree with these rows under the header of another; `None` if two of them have the same key.
fn filled(pages: &mut Pages, like: &Tree, table: u64, rows: &[Row]) -> Result<Option<Tree>> {
    let header = like.header(pages)?;
    let mut new = like.emptied(pages, &header)?;
    new.table = table;
    for (key, flags, value) in rows {
        if new.put(pages, key, *flags, value)? {
            new.destroy(pages)?;
            return Ok(None);
        }
    }
    Ok(Some(new))
}

/// Makes two copies of a table alike. Where both can be read, each gets what the other has more; where they
/// contradict each other, the first counts.
fn alike(core: &mut Core, first: u64, second: u64, damaged: (bool, bool)) -> Result<()> {
    let good = if damaged.0 { second } else { first };
    let Some(source) = tree(core, good) else { return Ok(()) };
    let Some(mut all) = rows(&mut core.pages, &source)? else { return Ok(()) };
    let mut outdated = Vec::new();
    if damaged == (false, false)
        && let Some(other) = tree(core, second)
    {
        let Some(more) = rows(&mut core.pages, &other)? else { return Ok(()) };
        for row in more {
            if source.get(&mut core.pages, &row.0, |_| ())?.is_none() {
                all.push(row);
            }
        }
        outdated.push(other);
        outdated.push(source.clone());
    }
    for (table, is_damaged) in [(first, damaged.0), (second, damaged.1)] {
        if !is_damaged && damaged != (false, false) {
            continue;
        }
        let Some(new) = filled(&mut core.pages, &source, table, &all)? else { return Ok(()) };
        if root_of(table).is_none() && core.object(table).is_err() {
            let order = core_order(core, table);
            core.add_object(table, 0x150, order, 0, 0, None)?;
        }
        set_tree(core, table, new)?;
    }
    // What a damaged copy took is found as lost by the next round.
    outdated.into_iter().try_for_each(|tree| tree.destroy(&mut core.pages))
}

fn core_order(core: &Core, table: u64) -> Order {
    match table {
        0x530 => Order::SecondWord,
        0..=0x541 => Order::Words,
        _ => core.order(),
    }
}

/// Writes a tree anew from its own rows.
fn rebuild(core: &mut Core, table: u64) -> Result<()> {
    let Some(old) = tree(core, table) else { return Ok(()) };
    let Some(all) = rows(&mut core.pages, &old)? else { return Ok(()) };
    let Some(new) = filled(&mut core.pages, &old, table, &all)? else { return Ok(()) };
    set_tree(core, table, new)?;
    old.destroy(&mut core.pages)
}

/// Makes roots anew from what the check found out.
pub fn renew(core: &mut Core, plan: &Plan) -> Result<()> {
    for &index in &plan.repair.renewed {
        let root = Root::ALL[index];
        let rows: Vec<Row> = match root {
            // Their rows are those of all containers, which the commit writes.
            Root::MediumAllocator | Root::ContainerAllocator | Root::SmallAllocator => Vec::new(),
            Root::ParentChild if !plan.is_directory_lost => parents(plan),
            Root::IntegrityState => {
                let clusters = core.pages.map.len() as u64 * u64::from(plan.geometry.per_container);
                let (key, value) = system::integrity_state_row(clusters);
                vec![(key, 0, value)]
            }
            Root::ContainerIndex => Vec::new(),
            // What files share cannot be found out again.
            _ => continue,
        };
        let minor = plan.geometry.version.minor;
        let length = system::schema(minor, root.schema()).map_or(0, |schema| schema.root_extra as usize);
        let mut extra = vec![0; length];
        if root.schema() == 0xE0C0 {
            put(&mut extra, 0x28, 0x0Fu32);
        }
        let old = core.roots[index].clone();
        let pages = &mut core.pages;
        let mut new = Tree::create(pages, root.table(), root.schema(), Order::Words, tier(root), &extra, 0)?;
        for (key, flags, value) in rows {
            new.put(pages, &key, flags, &value)?;
        }
        if !plan.damaged.contains(&root.table()) {
            old.destroy(pages)?;
        }
        core.roots[index] = new;
    }
    Ok(())
}

/// The rows of the parent-child table.
fn parents(plan: &Plan) -> Vec<Row> {
    let found = plan.reached.iter().filter(|(child, _)| **child != ROOT_DIRECTORY);
    let pairs: BTreeSet<(u64, u64)> = found.map(|(child, (above, _))| (*above, *child)).collect();
    let row = |(above, child)| {
        let row = parent_child(above, child).to_vec();
        (row.clone(), 0, row)
    };
    pairs.into_iter().map(row).collect()
}

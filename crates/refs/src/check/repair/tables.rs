//! Repairs of whole tables: copies are made alike, trees written anew.

use super::plan::{RepairPlan, tier};
use crate::check::forms;
use crate::check::known::{METADATA_DIRECTORY, SECURITY, TRASH};
use crate::check::noted::{Mend, NotedRow, Remade, Task};
use crate::container::Tier;
use crate::core::{Core, ROOT_DIRECTORY};
use crate::layout::system;
use crate::layout::{CompressionPolicy, ParentChildRow, Root, ShareRow, Version, header};
use crate::pages::Pages;
use crate::tree::{Order, Tree};
use platter_vfs::Result;
use std::collections::{BTreeSet, HashSet};

/// The most rows of a tree that is written anew, since all of them are held in memory; a tree with more is left as it
/// is.
const MOST_ROWS: usize = 1 << 22;

/// The number that "FS Metadata" last gave to a child, which is the same on every volume.
const LAST_METADATA: u64 = 0x500;

/// Makes copies alike, and writes trees anew whose order or counts are wrong.
pub(super) fn mend(core: &mut Core, plan: &mut RepairPlan) -> Result<()> {
    // Tables that are roots come before the objects that they lead to.
    let copies = std::mem::take(&mut plan.repair.copies);
    let (tables, objects): (Vec<_>, Vec<_>) =
        copies.into_iter().partition(|mend| root_of(mend.from).is_some());
    for mend in tables.into_iter().chain(objects) {
        alike(core, mend, &plan.damaged)?;
    }
    if plan.repair.is_security_lost {
        renew_security(core)?;
        plan.damaged.remove(&SECURITY);
    }
    for one in std::mem::take(&mut plan.repair.remade) {
        remake(core, plan, &one)?;
    }
    // "FS Metadata" has nothing in it but its own record, which is made anew like that of any directory.
    if plan.repair.is_metadata_lost {
        plan.damaged.remove(&METADATA_DIRECTORY);
        let extra =
            system::schema(plan.geometry.version.minor, 0x130).map_or(0, |schema| schema.root_extra as usize);
        let (order, pages) = (core.order(), &mut core.pages);
        let new = Tree::create(pages, METADATA_DIRECTORY, 0x130, order, Tier::Medium, &vec![0; extra], 1)?;
        if tree(core, METADATA_DIRECTORY).is_none() {
            core.add_object(METADATA_DIRECTORY, 0x130, core.order(), extra, 1, Some(LAST_METADATA))?;
        }
        set_tree(core, METADATA_DIRECTORY, new)?;
        plan.reached.entry(METADATA_DIRECTORY).or_insert_with(|| (ROOT_DIRECTORY, [].into()));
        plan.repair.add(Task::Own { directory: METADATA_DIRECTORY });
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

fn rows(pages: &mut Pages, tree: &Tree) -> Result<Option<Vec<NotedRow>>> {
    let mut rows = Vec::new();
    tree.scan(pages, &[], |row| {
        rows.push((row.key.to_vec(), row.flags, row.value.to_vec()));
        Ok(rows.len() <= MOST_ROWS)
    })?;
    Ok((rows.len() <= MOST_ROWS).then_some(rows))
}

/// Returns a new tree with these rows and the tree header of `like`; `None` if two rows have the same key.
fn filled(pages: &mut Pages, like: &Tree, table: u64, rows: &[NotedRow]) -> Result<Option<Tree>> {
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

/// Writes copies of a table anew from the one that counts.
fn alike(core: &mut Core, mend: Mend, damaged: &HashSet<u64>) -> Result<()> {
    let Some(source) = tree(core, mend.from) else { return Ok(()) };
    let Some(mut all) = rows(&mut core.pages, &source)? else { return Ok(()) };
    let order = order(core, mend.from);
    let gone: HashSet<&[u8]> =
        mend.rows.iter().map(|(key, ..)| key).chain(&mend.without).map(|key| &key[..]).collect();
    all.retain(|(key, ..)| !mend.is_whole && !gone.contains(&key[..]));
    drop(gone);
    all.extend(mend.rows);
    for table in mend.to {
        let Some(new) = filled(&mut core.pages, &source, table, &all)? else { return Ok(()) };
        if tree(core, table).is_none() {
            core.add_object(table, 0, order.clone(), 0, 0, None)?;
        }
        let old = tree(core, table).expect("it is there now");
        set_tree(core, table, new)?;
        // The pages of a damaged copy are not freed here: the next round finds that nothing leads to them.
        if !damaged.contains(&table) {
            old.destroy(&mut core.pages)?;
        }
    }
    Ok(())
}

/// How the rows of a table are ordered.
fn order(core: &mut Core, table: u64) -> Order {
    match table {
        0x530 => Order::SecondWord,
        0..=0x541 => Order::Words,
        _ => core.tree(table).map(|(tree, _)| tree.order()).unwrap_or_else(|_| core.order()),
    }
}

/// Writes a tree anew from its own rows.
fn rebuild(core: &mut Core, table: u64) -> Result<()> {
    let Some(old) = tree(core, table) else { return Ok(()) };
    let Some(all) = rows(&mut core.pages, &old)? else { return Ok(()) };
    let Some(mut new) = filled(&mut core.pages, &old, table, &all)? else { return Ok(()) };
    let header = new.header(&mut core.pages)?;
    let mended = forms::mended(&header, table, core.geometry().algorithm.code());
    if core.geometry().version == Version::V3_14
        && core.checkpoint.echo
        && !header::is_same_but_counts(&header, &mended)
    {
        // A header of another size moves everything in the page, so the tree is built again with this one.
        new.destroy(&mut core.pages)?;
        new = old.emptied(&mut core.pages, &mended)?;
        for (key, flags, value) in &all {
            new.put(&mut core.pages, key, *flags, value)?;
        }
    }
    set_tree(core, table, new)?;
    old.destroy(&mut core.pages)
}

/// Makes the trees of directories anew, from the rows that can be read and those that were found elsewhere for the lost
/// parts. The next round finds that nothing leads to the pages of the old trees.
pub(super) fn salvage(core: &mut Core, plan: &mut RepairPlan) -> Result<()> {
    for (table, lost) in std::mem::take(&mut plan.repair.salvaged) {
        let Some(old) = tree(core, table) else { continue };
        let mut all: Vec<NotedRow> = Vec::new();
        let header = old.header(&mut core.pages).ok();
        if header.is_some() {
            old.scan_past_damage(&mut core.pages, &[], |row| {
                all.push((row.key.to_vec(), row.flags, row.value.to_vec()));
                Ok(all.len() <= MOST_ROWS)
            })?;
        }
        if all.len() > MOST_ROWS {
            continue;
        }
        let mut new = match header {
            Some(header) => old.emptied(&mut core.pages, &header)?,
            None => {
                let number = if table == TRASH { 0xE0D0 } else { 0x130 };
                let schema = system::schema(plan.geometry.version.minor, number);
                let extra = vec![0; schema.map_or(0, |schema| schema.root_extra as usize)];
                let kind = schema.map_or(0, |schema| schema.word_8 as u16);
                let order = order(core, table);
                Tree::create(&mut core.pages, table, number, order, Tier::Medium, &extra, kind)?
            }
        };
        for (key, flags, value) in all.iter().chain(&lost) {
            if new.get(&mut core.pages, key, |_| ())?.is_none() {
                new.put(&mut core.pages, key, *flags, value)?;
            }
        }
        set_tree(core, table, new)?;
        plan.damaged.remove(&table);
    }
    Ok(())
}

/// Makes the table of security descriptors anew, with the descriptors that every volume has.
fn renew_security(core: &mut Core) -> Result<()> {
    let extra =
        system::schema(core.geometry().version.minor, 0x140).map_or(0, |schema| schema.root_extra as usize);
    let order = Order::SecondWord;
    let mut new =
        Tree::create(&mut core.pages, SECURITY, 0x140, order.clone(), Tier::Medium, &vec![0; extra], 0)?;
    for (key, value) in system::security_rows() {
        new.put(&mut core.pages, &key, 0, &value)?;
    }
    if tree(core, SECURITY).is_none() {
        core.add_object(SECURITY, 0x140, order, extra, 0, None)?;
    }
    set_tree(core, SECURITY, new)
}

/// Makes a table and its copy anew. The next round finds that nothing leads to the pages of the old ones.
fn remake(core: &mut Core, plan: &mut RepairPlan, one: &Remade) -> Result<()> {
    let schema = system::schema(plan.geometry.version.minor, one.schema);
    let length = schema.map_or(0, |schema| schema.root_extra as usize);
    let kind = schema.map_or(0, |schema| schema.word_8 as u16);
    for table in one.tables {
        let (extra, pages) = (vec![0; length], &mut core.pages);
        let mut new = Tree::create(pages, table, one.schema, Order::Words, Tier::Medium, &extra, kind)?;
        for (key, value) in &one.rows {
            new.put(pages, key, 0, value)?;
        }
        if tree(core, table).is_none() {
            core.add_object(table, one.schema, Order::Words, length, kind, None)?;
        }
        set_tree(core, table, new)?;
        plan.damaged.remove(&table);
    }
    Ok(())
}

/// Makes roots anew from what the check found out.
pub(super) fn renew(core: &mut Core, plan: &RepairPlan) -> Result<()> {
    for &index in &plan.repair.renewed {
        let root = Root::ALL[index];
        let rows: Vec<NotedRow> = match root {
            // The allocators' rows are written at the end, from the used clusters of all containers.
            Root::MediumAllocator | Root::ContainerAllocator | Root::SmallAllocator => Vec::new(),
            Root::ParentChild if !plan.is_directory_lost => parents(plan),
            Root::IntegrityState => {
                let clusters = core.pages.map.len() as u64 * u64::from(plan.geometry.per_container);
                let (key, value) = system::integrity_state_row(clusters);
                vec![(key, 0, value)]
            }
            Root::ContainerIndex => Vec::new(),
            Root::Schemas | Root::SchemasCopy => {
                let rows = system::schema_rows(plan.geometry.version.minor, plan.geometry.page() as u32);
                rows.into_iter().map(|(key, value)| (key, 0, value)).collect()
            }
            Root::References => match &plan.shares {
                Some(rows) => {
                    rows.iter().map(|row| (ShareRow::key(row.start).to_vec(), 0, row.to_bytes())).collect()
                }
                // Where files share no clusters, the table has no rows.
                None if !plan.is_crossed && !plan.is_shared => Vec::new(),
                None => continue,
            },
            _ => continue,
        };
        let minor = plan.geometry.version.minor;
        let length = system::schema(minor, root.schema()).map_or(0, |schema| schema.root_extra as usize);
        let mut extra = vec![0; length];
        if root.schema() == 0xE0C0 {
            CompressionPolicy::put_none(&mut extra, plan.geometry.version < Version::V3_7);
        }
        let old = core.roots[index].clone();
        let pages = &mut core.pages;
        let schema = if root == Root::References { 0 } else { root.schema() };
        let mut new = Tree::create(pages, root.table(), schema, Order::Words, tier(root), &extra, 0)?;
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
fn parents(plan: &RepairPlan) -> Vec<NotedRow> {
    let found = plan.reached.iter().filter(|(child, _)| **child != ROOT_DIRECTORY);
    let pairs: BTreeSet<(u64, u64)> = found.map(|(child, (above, _))| (*above, *child)).collect();
    let row = |(above, child)| {
        let row = ParentChildRow { above, child }.to_bytes().to_vec();
        (row.clone(), 0, row)
    };
    pairs.into_iter().map(row).collect()
}

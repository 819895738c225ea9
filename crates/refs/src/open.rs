//! Opening a volume, from the boot record to the trees, falling back on every copy that the format keeps.

use crate::anchor;
use crate::container::Container;
use crate::container::Tier;
use crate::core::{Core, ROOT_DIRECTORY};
use crate::geometry::{ContainerMap, Geometry, of_superblocks};
use crate::layout::system;
use crate::layout::{
    AllocatorPart, AllocatorRow, BootRecord, Checkpoint, ContainerRow, PageReference, Root, Superblock,
};
use crate::live_log;
use crate::memory;
use crate::pages::Pages;
use crate::ranges::Ranges;
use crate::restored;
use crate::space::Space;
use crate::space_rows::ALLOCATORS;
use crate::tree::{Order, Tree};
use platter_device::Device;
use platter_vfs::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Notes about damage that was found on opening and replaced by a copy.
#[derive(Default)]
pub(crate) struct Notes(pub Vec<String>);

impl Notes {
    fn add(&mut self, what: &Error, instead: &str) {
        self.0.push(format!("{what}; {instead}"));
    }

    /// Reads one of the first structures, and notes if a copy of the device has it damaged.
    fn read<T>(
        &mut self,
        device: &dyn Device,
        place: (u64, usize),
        parse: &dyn Fn(&[u8]) -> Result<T>,
        clock: &dyn Fn(&T) -> u64,
    ) -> (Option<Vec<u8>>, Result<T>) {
        let anchor = anchor::read(device, place, parse, clock);
        for (copy, error) in &anchor.damaged {
            self.add(error, &format!("this is copy {copy} of the device, and another was used"));
        }
        (anchor.bytes, anchor.found)
    }
}

/// The lowest offset in bytes at which the first partition of a disk begins: after one track of 63 sectors, where DOS
/// placed it.
const LEAST_START: u64 = 63 * 512;

/// Reads the boot record, or its copy in the last sector.
pub(crate) fn boot_record(device: &dyn Device, notes: &mut Notes) -> Result<BootRecord> {
    let sector = device.sectors().logical.max(BootRecord::SIZE as u32) as usize;
    let at = |offset: u64, notes: &mut Notes| -> Result<BootRecord> {
        let parse = |bytes: &[u8]| BootRecord::from_bytes(bytes.first_chunk().expect("a sector"), offset);
        notes.read(device, (offset, sector), &parse, &|_| 0).1
    };
    if device.len() < 64 << 12 {
        return Err(Error::NotThisFormat {
            format: "ReFS",
            reason: format!("the device has only {} bytes", device.len()),
        });
    }
    let first = match at(0, notes) {
        Ok(record) => return fits(record, device),
        Err(error) => error,
    };
    for end in BootRecord::ends(device.len(), sector as u64) {
        let read = |place| at(place, notes).and_then(|record| fits(record, device));
        let copy = end.checked_sub(sector as u64).map(read);
        // A copy that belongs to a volume in a partition of this device ends at an offset that exceeds the volume's
        // length by at least the offset of the partition.
        if let Some(Ok(record)) = copy
            && end.saturating_sub(record.sectors * u64::from(record.sector)) < LEAST_START
        {
            notes.add(&first, "the copy of the boot record was used");
            return Ok(record);
        }
    }
    Err(first)
}

fn fits(record: BootRecord, device: &dyn Device) -> Result<BootRecord> {
    let length = record.sectors * u64::from(record.sector);
    if length > device.len() {
        return Err(Error::damaged(
            "sectors of the volume",
            BootRecord::SECTORS.at() as u64,
            format!("at most {}", device.len() / u64::from(record.sector)),
            record.sectors,
        ));
    }
    if record.sector < device.sectors().logical {
        let reason =
            format!("it has {}-byte sectors, the device {}", record.sector, device.sectors().logical);
        return Err(Error::NotThisFormat { format: "ReFS", reason });
    }
    Ok(record)
}

/// The first structures: sizes, the superblock, and those of the two checkpoints that are good.
pub(crate) struct Anchors {
    /// The boot record.
    pub boot: BootRecord,
    /// The sizes of the volume.
    pub geometry: Geometry,
    /// The newest good superblock.
    pub superblock: Superblock,
    /// The good checkpoints, newest first, each with the index (0 or 1) of its place.
    pub checkpoints: Vec<(usize, Checkpoint)>,
    /// Whether no copy of the superblock, or of the newest checkpoint, is whole.
    pub is_damaged: bool,
}

/// Reads the first structures.
pub(crate) fn anchors(device: &dyn Device, notes: &mut Notes) -> Result<Anchors> {
    let boot = boot_record(device, notes)?;
    let cluster = boot.cluster();
    let clusters = boot.clusters();
    let mut best: Option<Superblock> = None;
    let mut worst = None;
    let mut copies = [None, None, None];
    let places = Superblock::places(clusters);
    for (place, copy) in places.into_iter().zip(&mut copies) {
        let at = place * u64::from(cluster);
        let parse = |bytes: &[u8]| Superblock::from_bytes(bytes, place, at);
        let (bytes, read) = notes.read(device, (at, cluster as usize), &parse, &|found| found.generation);
        *copy = bytes;
        match read {
            Ok(found) if best.as_ref().is_none_or(|best| found.generation > best.generation) => {
                best = Some(found)
            }
            Ok(_) => {}
            Err(error) => {
                notes.add(&error, "another copy of the superblock was used");
                worst = Some(error);
            }
        }
    }
    let mut is_damaged = best.is_none();
    let restored = || restored::superblock(&copies, places, of_superblocks(&boot)).map(|(found, _)| found);
    let superblock = best.or_else(restored).ok_or_else(|| worst.take().expect("none was good"))?;
    let geometry = Geometry::without_checkpoint(&boot, &superblock);
    let (mut checkpoints, mut bad, mut pages) = (Vec::new(), Vec::new(), [None, None]);
    for (slot, &place) in superblock.checkpoints.iter().enumerate() {
        let at = place.saturating_mul(u64::from(cluster));
        let parse =
            |bytes: &[u8]| Checkpoint::from_bytes(bytes, place, cluster as usize, geometry.signature, at);
        let read = match place.checked_add(u64::from(geometry.page_clusters())) {
            Some(end) if end <= clusters => {
                let (bytes, read) = notes.read(device, (at, geometry.page()), &parse, &|found| found.clock);
                pages[slot] = bytes;
                read
            }
            _ => Err(Error::damaged(
                "place of a checkpoint",
                Superblock::checkpoint_at(slot),
                format!("below {clusters}"),
                place,
            )),
        };
        match read {
            Ok(found) => checkpoints.push((slot, found)),
            Err(error) => bad.push((slot, error)),
        }
    }
    let is_other_whole = !checkpoints.is_empty();
    is_damaged |= !is_other_whole;
    for (slot, error) in bad {
        match restored::checkpoint_in(slot, &geometry, superblock.checkpoints, &pages, is_other_whole) {
            Some((found, _)) => {
                notes.add(&error, "what it was is known for all that");
                checkpoints.push((slot, found));
            }
            None => {
                notes.add(&error, "the other checkpoint was used");
                worst = Some(error);
            }
        }
    }
    checkpoints.sort_by_key(|(_, checkpoint)| std::cmp::Reverse(checkpoint.clock));
    let Some((_, newest)) = checkpoints.first() else { return Err(worst.expect("none was good")) };
    let geometry = geometry.at_checkpoint(newest);
    Ok(Anchors { boot, geometry, superblock, checkpoints, is_damaged })
}

/// The tree of a root, by the reference to its page.
pub(crate) fn root_tree(root: Root, reference: PageReference) -> Tree {
    let tier = match root {
        root if root.is_real() => Tier::Small,
        Root::MediumAllocator | Root::ContainerAllocator => Tier::Container,
        _ => Tier::Medium,
    };
    Tree::open(root.table(), Order::Words, tier, reference)
}

/// The content of the container table: where the containers lie, and which of them are set apart for pages.
#[derive(Default)]
struct Containers {
    map: ContainerMap,
    for_pages: Vec<bool>,
}

/// Reads the container table.
fn containers(pages: &mut Pages, tree: &Tree) -> Result<Containers> {
    let geometry = pages.geometry.clone();
    let most = geometry.clusters / u64::from(geometry.per_container) + 1;
    let (mut starts, mut for_pages, mut compressed) = (Vec::new(), Vec::new(), Vec::new());
    tree.scan(pages, &[], |row| {
        let found = ContainerRow::from_bytes(row.value, 0)?;
        let expected = ContainerMap::FIRST + starts.len() as u64;
        if found.number != expected || starts.len() as u64 >= most {
            return Err(Error::damaged("number of a container", 0, expected, found.number));
        }
        let end = found.start.checked_add(u64::from(geometry.per_container));
        if found.count != geometry.per_container
            || end.is_none_or(|end| end > geometry.clusters)
            || found.start % u64::from(geometry.per_container) != 0
        {
            return Err(Error::damaged(
                "place of a container",
                0,
                format!("{} clusters inside the volume", geometry.per_container),
                found.start,
            ));
        }
        starts.push(found.start);
        compressed.extend((found.flags & ContainerRow::COMPRESSED != 0).then_some(found.number));
        for_pages.push(found.flags & (ContainerRow::METADATA | ContainerRow::DATA) == ContainerRow::METADATA);
        Ok(true)
    })?;
    let map = ContainerMap::new(starts, geometry.per_container).with_compressed(compressed);
    Ok(Containers { map, for_pages })
}

/// Reads the rows of all allocators, calls `each` on every row, and returns the ranges of containers of each allocator.
pub(crate) fn ranges(
    pages: &mut Pages,
    roots: &[Tree],
    mut each: impl FnMut(&Pages, Tier, &AllocatorRow, bool) -> Result<()>,
) -> Result<[Ranges; 3]> {
    let mut ranges = <[Ranges; 3]>::default();
    let version = pages.geometry.version;
    for (tier, root) in ALLOCATORS {
        let mut rows = Vec::new();
        roots[root as usize].scan(pages, &[], |row| {
            let found = AllocatorRow::from_bytes(row.value, 0)?;
            let is_formed = found.form(row.value, version, tier == Tier::Medium).is_ok();
            rows.push((found, is_formed));
            Ok(true)
        })?;
        for (row, is_formed) in rows {
            match row.range(pages.geometry.per_container) {
                Some((range, says)) => ranges[tier as usize].read(range, says),
                None => ranges[tier as usize].read_odd(row.start, row.count),
            }
            each(pages, tier, &row, is_formed)?;
        }
    }
    Ok(ranges)
}

/// The most containers whose rows are written anew by the next commit because an earlier version gave them another
/// form. More are left to a repair: their pages are not owed by any change.
const MOST_REFORMED: usize = 256;

/// What the rows of one allocator that do not cover whole containers say of the containers, by their indices.
type Odd = BTreeMap<usize, AllocatorPart>;

/// Reads from the allocators which clusters are free, and which rows they have.
fn space(pages: &mut Pages, roots: &[Tree], for_pages: Vec<bool>) -> Result<(Space, [Ranges; 3])> {
    let clusters = pages.geometry.per_container;
    let mut all: Vec<Container> =
        (0..pages.map.len()).map(|_| Container::uniform(Tier::Medium, clusters, false)).collect();
    let mut odd = <[Odd; 3]>::default();
    let mut unformed = BTreeSet::new();
    let ranges = ranges(pages, roots, |pages, tier, row, is_formed| {
        let outside = || {
            let found = format!("{:#x}+{}", row.start, row.count);
            Error::damaged("range of an allocator row", 0, "containers of the volume", found)
        };
        let whole = row.range(clusters).map(|(range, _)| range);
        let (first, count) = whole.or_else(|| row.around(clusters)).ok_or_else(outside)?;
        for piece in 0..count {
            let index = pages.map.at(first + piece).ok_or_else(outside)?;
            match (whole, row.bits_of(piece, clusters)) {
                (None, _) => {
                    let start = u64::from(first + piece) * u64::from(clusters);
                    let part = row.part(start, clusters);
                    odd[tier as usize]
                        .entry(index)
                        .or_insert_with(|| AllocatorPart::none(clusters))
                        .add(&part);
                }
                (Some(_), Some(bits)) => all[index] = Container::mapped(tier, clusters, bits.into()),
                (Some(_), None) => all[index] = Container::uniform(tier, clusters, row.used == 0),
            }
            if !is_formed && unformed.len() <= MOST_REFORMED {
                unformed.insert(index);
            }
        }
        Ok(())
    })?;
    let mut renewed = if unformed.len() <= MOST_REFORMED { unformed } else { BTreeSet::new() };
    for (tier, _) in ALLOCATORS {
        for (index, part) in std::mem::take(&mut odd[tier as usize]) {
            if !part.is_whole(clusters) {
                let found = format!("a part of that at {:#x}", pages.map.start(index));
                return Err(Error::damaged("rows of an allocator", 0, "every cluster of a container", found));
            }
            all[index] = Container::mapped(tier, clusters, part.used);
            renewed.insert(index);
        }
    }
    all.iter_mut().zip(for_pages).for_each(|(one, for_pages)| one.for_pages = for_pages);
    let mut space = Space::new(all, &pages.geometry);
    space.renew_rows(renewed);
    Ok((space, ranges))
}

/// Opens the metadata of a volume. Copies of tables that reading does not need are verified only with `to_write`, so
/// that no change meets damage half-way.
pub(crate) fn core(
    device: &Arc<dyn Device>,
    anchors: &Anchors,
    notes: &mut Notes,
    to_write: bool,
) -> Result<Core> {
    let mut first_error = None;
    for (slot, checkpoint) in &anchors.checkpoints {
        match core_at(device, anchors, (*slot, checkpoint), notes, to_write) {
            Ok(core) => {
                if let Some(error) = first_error {
                    // Clusters that the newer checkpoint freed may have been used again.
                    core.health.close(format!("the newest checkpoint leads to damage ({error}); see check"));
                }
                return Ok(core);
            }
            Err(error) => {
                first_error.get_or_insert(error);
            }
        }
    }
    Err(first_error.expect("there is a checkpoint"))
}

fn core_at(
    device: &Arc<dyn Device>,
    anchors: &Anchors,
    (slot, checkpoint): (usize, &Checkpoint),
    notes: &mut Notes,
    to_write: bool,
) -> Result<Core> {
    let geometry = anchors.geometry.clone();
    let (none, limit) = (Space::new(Vec::new(), &geometry), memory::for_pages(&geometry));
    let mut pages = Pages::new(geometry, ContainerMap::default(), none, device.clone(), limit);
    let mut roots: Vec<Tree> =
        Root::ALL.iter().map(|&root| root_tree(root, checkpoint.roots[root as usize])).collect();
    let mut doubled = Vec::new();
    let mut either = |pages: &mut Pages,
                      roots: &mut Vec<Tree>,
                      root: Root,
                      copy: Root,
                      with: &mut dyn FnMut(&mut Pages, &Tree) -> Result<()>|
     -> Result<()> {
        let first = match with(pages, &roots[root as usize].clone()) {
            Ok(()) if !to_write => return Ok(()),
            Ok(()) => match whole(pages, &roots[copy as usize].clone()) {
                Ok(()) => return Ok(()),
                Err(error) => {
                    notes.add(&error, &format!("the {} is whole", root.name()));
                    doubled.push((copy, root));
                    return Ok(());
                }
            },
            Err(error) => error,
        };
        with(pages, &roots[copy as usize].clone())?;
        notes.add(&first, &format!("the {} was used", copy.name()));
        doubled.push((root, copy));
        Ok(())
    };
    let mut found = Containers::default();
    either(&mut pages, &mut roots, Root::Containers, Root::ContainersCopy, &mut |pages, tree| {
        found = containers(pages, tree)?;
        Ok(())
    })?;
    pages.map = found.map;
    either(&mut pages, &mut roots, Root::Objects, Root::ObjectsCopy, &mut whole)?;
    let schemas = either(&mut pages, &mut roots, Root::Schemas, Root::SchemasCopy, &mut whole);
    let (mut only_read, mut ranges) = (None, Default::default());
    if let Err(error) = schemas {
        only_read = Some(no_more_than_read("both schema tables are damaged", error, notes)?);
    }
    match space(&mut pages, &roots, found.for_pages) {
        Ok((space, found)) => (pages.space, ranges) = (space, found),
        Err(error) => only_read = Some(no_more_than_read("what is free is not known", error, notes)?),
    }
    let upper: Arc<[u16]> = Arc::from([]);
    let mut core = Core::new(pages, roots, checkpoint.clone(), anchors.superblock.clone(), slot, upper);
    // A damaged copy is built anew from the other one. A check finds the clusters that its pages took.
    for (damaged, good) in doubled {
        match only_read {
            None => core.copy_root(damaged, good)?,
            Some(_) => core.roots[damaged as usize] = core.roots[good as usize].clone(),
        }
    }
    core.ranges = ranges;
    core.count_space();
    let only_read = only_read.or_else(|| {
        // A commit would write its checkpoint to a place where none may be.
        let error = commits(anchors, checkpoint).err()?;
        notes.add(&error, "the volume is only read");
        Some(format!("a commit has no good place ({error}); see check"))
    });
    if let Some(reason) = only_read {
        core.health.close(reason);
    }
    if anchors.is_damaged {
        core.health.close("no copy of its superblock, or of its checkpoint, is whole; see check");
    }
    core.upper = upcase(&mut core, notes)?;
    if let Some(reason) = live_log(&mut core, device) {
        core.is_dirty = true;
        core.health.close(reason);
    }
    core.find_last_object()?;
    if let Err(error) = core.open_directory(ROOT_DIRECTORY) {
        core.health.close(no_more_than_read("the root directory is damaged", error, notes)?);
        core.open_root_without_record();
    }
    core.news = false;
    Ok(core)
}

/// Checks that there are a place and a clock for the next checkpoint.
fn commits(anchors: &Anchors, checkpoint: &Checkpoint) -> Result<()> {
    let geometry = &anchors.geometry;
    let page = u64::from(geometry.page_clusters());
    let taken = Superblock::places(geometry.clusters).into_iter().map(|place| (place, 1));
    let places = anchors.superblock.checkpoints;
    for (slot, place) in places.into_iter().enumerate() {
        let other = (places[1 - slot], page);
        let overlaps =
            |(start, count): (u64, u64)| place < start.saturating_add(count) && start < place + page;
        let is_inside = place > 0 && place.checked_add(page).is_some_and(|end| end <= geometry.clusters);
        if !is_inside || taken.clone().chain([other]).any(overlaps) {
            let field = Superblock::checkpoint_at(slot);
            let expected = format!("{page} clusters of its own inside the volume");
            return Err(Error::damaged("place of a checkpoint", field, expected, format!("{place:#x}")));
        }
    }
    match checkpoint.clock {
        0..=LAST_CLOCK => Ok(()),
        clock => Err(Error::damaged("clock of a checkpoint", 0, format!("at most {LAST_CLOCK}"), clock)),
    }
}

/// The largest clock of a checkpoint that is accepted: no volume sees as many commits, and more can follow.
const LAST_CLOCK: u64 = 1 << 62;

/// Returns the reason why a volume is only read after an error of a damaged structure that reading does not need and of
/// which there is no good copy. Other errors are returned as they are.
fn no_more_than_read(what: &str, error: Error, notes: &mut Notes) -> Result<String> {
    if !matches!(error, Error::Damaged(_) | Error::Device(_)) {
        return Err(error);
    }
    notes.add(&error, "the volume is only read");
    Ok(format!("{what} ({error}); see check"))
}

/// The reason why the log keeps the volume from being written, if so: it holds changes that the checkpoint does not
/// contain, or that cannot be told.
fn live_log(core: &mut Core, device: &Arc<dyn Device>) -> Option<String> {
    let found = [0x09, 0x0A].into_iter().find_map(|object| log_area(core, object));
    let inside =
        |area: &system::LogArea| area.data.start < area.data.end && area.data.end <= core.geometry().clusters;
    let Some(area) = found.filter(inside) else {
        return Some("where its log is cannot be read, so that nobody knows what it holds; see check".into());
    };
    let (geometry, oldest) = (core.geometry(), core.checkpoint.log);
    match live_log::read(&**device, &area, live_log::Owner::of(geometry, oldest)) {
        Ok(None) => None,
        Ok(Some(live)) => Some(format!(
            "its log holds {} that its checkpoint does not contain; Windows carries them out when it mounts it",
            live.describe(geometry.version)
        )),
        Err(error) => Some(format!("what its log holds cannot be read ({error}); see check")),
    }
}

/// Reads the place of the log from one of the two objects that hold it.
fn log_area(core: &mut Core, object: u64) -> Option<system::LogArea> {
    let mut rows = Vec::new();
    let (tree, pages) = core.tree(object).ok()?;
    let scanned = tree.scan(pages, &[], |row| {
        rows.push((row.key.to_vec(), row.value.to_vec()));
        Ok(rows.len() < 16)
    });
    scanned.ok()?;
    system::LogArea::from_rows(rows.iter().map(|(key, value)| (&key[..], &value[..])))
}

/// Reads every page of a tree, which verifies it.
fn whole(pages: &mut Pages, tree: &Tree) -> Result<()> {
    tree.scan(pages, &[], |_| Ok(true))
}

/// The volume's own table of upper-case letters, from either copy.
fn upcase(core: &mut Core, notes: &mut Notes) -> Result<Arc<[u16]>> {
    let mut read = |object: u64| -> Result<Arc<[u16]>> {
        let (tree, pages) = core.tree(object)?;
        let mut rows = Vec::new();
        tree.scan(pages, &[], |row| {
            rows.push((row.key.to_vec(), row.value.to_vec()));
            if rows.len() > 65536 {
                Err(Error::damaged("upcase table", 0, "at most 65536 rows", "more"))
            } else {
                Ok(true)
            }
        })?;
        let table = system::read_upcase(rows.iter().map(|(key, value)| (&key[..], &value[..])));
        table.map(Arc::from).ok_or_else(|| Error::damaged("upcase table", 0, "65536 units", "fewer"))
    };
    match read(0x07) {
        Ok(table) => Ok(table),
        Err(error) => {
            notes.add(&error, "the copy of the upcase table was used");
            read(0x08).or_else(|error| {
                let reason = no_more_than_read("both upcase tables are damaged", error, notes)?;
                core.health.close(reason);
                Ok((0..=u16::MAX).map(system::windows_upper).collect())
            })
        }
    }
}

/// The volume's label.
pub(crate) fn label(core: &mut Core) -> Result<String> {
    let mut found = Vec::new();
    for object in [0x500, 0x501] {
        let Ok((tree, pages)) = core.tree(object) else { continue };
        let scanned = tree.scan(pages, &[], |row| {
            if system::is_label(row.key) {
                found = system::read_label(row.value);
            }
            Ok(true)
        });
        if scanned.is_ok() {
            break;
        }
    }
    Ok(char::decode_utf16(found).map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER)).collect())
}

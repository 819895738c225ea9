//! Looking through a whole device for metadata pages.

use crate::geometry::{ContainerMap, Geometry};
use crate::layout::node::{self, ROOT, STREAM};
use crate::layout::page::NODE;
use crate::layout::{
    Algorithm, Checksum, ContainerRow, ObjectRow, PageHeader, PageReference, Root, Version, page,
};
use crate::open::{self, Notes};
use crate::pages::{Page, Pages};
use crate::scrub::reader::{Piece, Reader};
use crate::seen::Seen;
use crate::space::Space;
use platter_device::{Device, Partition};
use platter_vfs::{Error, Progress, Result};
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The number of bytes of the device that are looked through at a time.
const WINDOW: u64 = 256 << 20;
/// The number of bytes of clean pages that are kept in memory.
const CACHE: usize = 16 << 20;

/// A metadata page, as its own header describes it.
#[derive(Clone, Copy, Debug)]
pub(super) struct FoundPage {
    /// The page's offset on the device, in bytes.
    pub place: u64,
    /// The page's first cluster: a virtual number, or a real one if its table uses those.
    pub cluster: u64,
    /// The number of the page's table.
    pub table: u64,
    /// The clock of the checkpoint that the page was written for.
    pub clock: u64,
    /// The number of levels below the page; 0 for a leaf.
    pub level: u8,
    /// Whether the page is the root of its table.
    pub is_root: bool,
    volume: u32,
    /// Whether the page has runs of a stream.
    is_stream: bool,
    /// Whether the page is one cluster long, as with clusters of 64 KiB.
    is_single: bool,
}

/// The pages that a scan has found.
pub(super) struct Scan {
    /// Reads pages of the device by their references.
    pub pages: Pages,
    /// Roots and leaves by table, the newest first.
    pub tables: BTreeMap<u64, Vec<FoundPage>>,
    /// The real clusters in use: those of all pages, of whatever age, and those of existing files once they are
    /// recovered.
    pub used: Seen,
    /// The references that inner nodes and the object table have to pages below them, by the first cluster of the page
    /// below.
    references: HashMap<u64, Vec<Reference>>,
}

/// The reference that a page has to one below it.
struct Reference {
    /// The clock of the page that has the reference.
    clock: u64,
    checksum: Checksum,
}

/// A page that was found by its own header, and not through a reference.
pub(super) struct Loose {
    /// The page.
    pub page: Page,
    /// Whether checksums are known for the page, and none of them matches.
    pub is_damaged: bool,
}

impl Scan {
    /// Reads a page that was found, from the first copy of the device in which it is whole. Returns `None` if it is not a
    /// valid page in any copy; a page that fails its checksum in all of them is marked as damaged.
    pub(super) fn page(&self, found: &FoundPage) -> Option<Loose> {
        let mut clusters = [0; 4];
        for (index, cluster) in
            clusters.iter_mut().take(self.pages.geometry.page_clusters() as usize).enumerate()
        {
            *cluster = found.cluster.checked_add(index as u64)?;
        }
        let reference = PageReference { clusters, checksum: Checksum::NONE };
        let (device, geometry) = (self.pages.device(), &self.pages.geometry);
        let mut damaged = None;
        for copy in 0..device.copies() {
            let mut bytes = vec![0; geometry.page()];
            if device.read_copy(copy, found.place, &mut bytes).is_err() {
                continue;
            }
            let is_damaged = self.fails(found, &bytes);
            match Page::from_bytes(bytes, geometry, &reference, found.table, found.place) {
                Ok(page) if !is_damaged => return Some(Loose { page, is_damaged }),
                Ok(page) => damaged = damaged.or(Some(Loose { page, is_damaged })),
                Err(_) => {}
            }
        }
        damaged
    }

    /// Whether checksums are known for a page, and none of them matches. References that are older than the page are
    /// left out: they lead to another page that was in its place before.
    fn fails(&self, found: &FoundPage, bytes: &[u8]) -> bool {
        let all = self.references.get(&found.cluster).map_or(&[][..], |all| all);
        let mut its = all.iter().filter(|reference| reference.clock >= found.clock).peekable();
        its.peek().is_some() && !its.any(|reference| reference.checksum.matches(bytes))
    }

    /// Notes the references, with their checksums, that inner nodes and the object table have to pages that were found.
    /// Pages with runs of streams, and tables with real cluster numbers, are left out.
    fn note_references(&mut self, found: &[FoundPage]) {
        let objects = [Root::Objects, Root::ObjectsCopy].map(Root::table);
        let wanted: HashSet<u64> =
            found.iter().filter(|page| !page.is_stream).map(|page| page.cluster).collect();
        for above in found.iter().filter(|page| !page.is_stream && !is_real(page.table)) {
            let is_object = objects.contains(&above.table) && above.level == 0;
            if above.level == 0 && !is_object {
                continue;
            }
            let Some(Loose { page, .. }) = self.page(above) else { continue };
            for row in page.node().rows() {
                let reference = match is_object {
                    true => ObjectRow::from_bytes(row.value, 0).map(|row| row.root),
                    false => PageReference::from_bytes(row.value, 0),
                };
                let Ok(reference) = reference else { continue };
                if wanted.contains(&reference.clusters[0]) {
                    let all = self.references.entry(reference.clusters[0]).or_default();
                    all.push(Reference { clock: above.clock, checksum: reference.checksum });
                }
            }
        }
    }
}

/// Whether the table's cluster numbers are real ones.
fn is_real(table: u64) -> bool {
    Root::ALL.iter().any(|root| root.table() == table && root.is_real())
}

/// Looks through the device for the metadata pages of one volume.
pub(super) fn scan(device: &Arc<dyn Device>, progress: &dyn Progress) -> Result<Scan> {
    let mut found = headers(&**device, progress);
    if progress.is_stopped() {
        return Err(Error::Stopped);
    }
    let device = &from_start(device, &mut found)?;
    let mut notes = Notes::default();
    let boot = open::boot_record(&**device, &mut notes).ok();
    let anchors = open::anchors(&**device, &mut notes).ok();
    let volume = match &anchors {
        Some(anchors) => anchors.geometry.signature,
        None => most(found.iter().map(|page| page.volume)).ok_or_else(|| Error::NotThisFormat {
            format: "ReFS",
            reason: "no metadata page of ReFS is on the device".into(),
        })?,
    };
    found.retain(|page| page.volume == volume);
    let cluster = match &boot {
        Some(boot) => boot.cluster(),
        None if most(found.iter().map(|page| page.is_single)) == Some(true) => 65536,
        None => 4096,
    };
    found.retain(|page| page.is_single == (cluster == 65536) && page.place % u64::from(cluster) == 0);
    let container = boot.as_ref().map_or(CONTAINER, |boot| boot.container);
    let clusters = match &boot {
        Some(boot) => boot.clusters(),
        // If the device ends before the volume does, its last container is there in part only.
        None => device.len().next_multiple_of(container) / u64::from(cluster),
    };
    let geometry = Geometry {
        version: boot.as_ref().map_or(Version::V3_14, |boot| boot.version),
        cluster,
        clusters,
        per_container: (container / u64::from(cluster)) as u32,
        // Any algorithm will do here, since each reference has its own.
        algorithm: Algorithm::Crc64,
        reference: PageReference::compact(Algorithm::Crc64),
        signature: volume,
    };
    let mut used = Seen::default();
    let mut tables: BTreeMap<u64, Vec<FoundPage>> = BTreeMap::new();
    for page in &found {
        let first = page.place / u64::from(cluster);
        for cluster in first..first + u64::from(geometry.page_clusters()) {
            used.insert(cluster);
        }
        if !page.is_stream && (page.is_root || page.level == 0) {
            tables.entry(page.table).or_default().push(*page);
        }
    }
    tables.values_mut().for_each(|pages| pages.sort_by_key(|page| std::cmp::Reverse(page.clock)));
    let none = Space::new(Vec::new(), &geometry);
    let pages = Pages::new(geometry, ContainerMap::default(), none, device.clone(), CACHE);
    let mut scan = Scan { pages, tables, used, references: HashMap::new() };
    scan.pages.map = container_map(&scan, &found);
    scan.note_references(&found);
    Ok(scan)
}

/// Returns the device from the start of the volume on, which is elsewhere than the device's own on a disk whose partition
/// table is lost, and makes the places of pages count from there. Every page has its own place, in clusters from the
/// start of the volume.
fn from_start(device: &Arc<dyn Device>, found: &mut Vec<FoundPage>) -> Result<Arc<dyn Device>> {
    let mut notes = Notes::default();
    if open::boot_record(&**device, &mut notes).is_ok() || open::anchors(&**device, &mut notes).is_ok() {
        return Ok(device.clone());
    }
    let volume = most(found.iter().map(|page| page.volume));
    let its = || found.iter().filter(|page| Some(page.volume) == volume);
    let real = its().filter(|page| is_real(page.table)).filter_map(|page| start(page, page.cluster));
    // Without a page that has its real place, containers are taken to lie in order of their numbers, as in most volumes.
    let in_order = |page: &FoundPage| {
        let per_container = CONTAINER / cluster_of(page);
        // As in `Geometry::shift`.
        let shift = per_container.trailing_zeros() + 1;
        let index = (page.cluster >> shift).checked_sub(ContainerMap::FIRST)?;
        let inside = page.cluster & ((1 << shift) - 1);
        start(page, index.checked_mul(per_container)?.checked_add(inside)?)
    };
    let ordered = || its().filter(|page| !is_real(page.table)).filter_map(in_order);
    let start = most(real).or_else(|| most(ordered())).unwrap_or(0);
    if start == 0 {
        return Ok(device.clone());
    }
    found.retain_mut(|page| {
        let place = page.place.checked_sub(start);
        page.place = place.unwrap_or(0);
        place.is_some()
    });
    let sector = u64::from(device.sectors().logical);
    let length = (device.len() - start) / sector * sector;
    let name = format!("{} from offset {start}", device.name());
    Ok(Arc::new(Partition::new(device.clone(), start, length, name)?))
}

/// The length of a container in bytes, which only the boot record tells: what every volume has.
const CONTAINER: u64 = 64 << 20;

fn cluster_of(page: &FoundPage) -> u64 {
    if page.is_single { 65536 } else { 4096 }
}

/// Returns where the volume begins if a page is in this cluster of it.
fn start(page: &FoundPage, cluster: u64) -> Option<u64> {
    page.place.checked_sub(cluster.checked_mul(cluster_of(page))?)
}

/// Returns the most frequent value.
fn most<T: std::hash::Hash + Eq>(all: impl Iterator<Item = T>) -> Option<T> {
    let mut counts: HashMap<T, u64> = HashMap::new();
    all.for_each(|one| *counts.entry(one).or_default() += 1);
    counts.into_iter().max_by_key(|(_, count)| *count).map(|(one, _)| one)
}

/// Returns the headers of all blocks of the device that look like a page in one of its copies, in order of their offsets,
/// up to where `progress` asks for the end.
fn headers(device: &dyn Device, progress: &dyn Progress) -> Vec<FoundPage> {
    const STEP: u64 = 4096;
    let length = device.len() / STEP * STEP;
    let reader = Reader::new(device, None, progress);
    let (all, done) = (Mutex::new(Vec::new()), AtomicU64::new(0));
    let mut window = 0;
    loop {
        // A sparse image of terabytes is mostly holes, which need no reading.
        let data = device.next_data(window) / STEP * STEP;
        done.fetch_add(data.min(length).saturating_sub(window), Ordering::Relaxed);
        window = data.max(window);
        if window >= length || progress.is_stopped() {
            break;
        }
        let end = length.min(window + WINDOW);
        let pieces: Vec<Piece> = (window..end)
            .step_by(STEP as usize)
            .map(|offset| Piece { offset, length: STEP as u32 })
            .collect();
        reader.read(
            &pieces,
            // Called for each copy: one may have a page that is damaged in another. No copy is to be repaired here.
            &|number, bytes| {
                if let Some(header) = header(pieces[number].offset, bytes) {
                    all.lock().unwrap_or_else(PoisonError::into_inner).push(header);
                }
                Ok(())
            },
            &|_, _| (),
            &|bytes| {
                let done = done.fetch_add(bytes, Ordering::Relaxed) + bytes;
                progress.progress("looking for metadata", done, length);
            },
        );
        window = end;
    }
    let mut all = all.into_inner().unwrap_or_else(PoisonError::into_inner);
    // Where copies differ, the newest counts.
    all.sort_unstable_by_key(|found| (found.place, Reverse(found.clock)));
    all.dedup_by_key(|found| found.place);
    all
}

fn header(place: u64, bytes: &[u8]) -> Option<FoundPage> {
    if !bytes.starts_with(&NODE) || page::header_version(bytes) != 2 {
        return None;
    }
    let header = PageHeader::from_bytes(bytes);
    let node = bytes.get(page::node_start(bytes)..).filter(|node| node.len() >= node::FLAGS.end())?;
    let flags = node::FLAGS.of(node);
    Some(FoundPage {
        place,
        cluster: header.clusters[0],
        table: header.table,
        clock: header.clock,
        level: node::LEVEL.of(node),
        is_root: flags & ROOT != 0,
        volume: header.volume,
        is_stream: flags & STREAM != 0,
        is_single: header.clusters[1] == 0,
    })
}

/// Returns where containers lie: as the newest rows of the container tables have it, else as the pages found in the
/// containers have it, else in order of their numbers.
fn container_map(scan: &Scan, found: &[FoundPage]) -> ContainerMap {
    let geometry = &scan.pages.geometry;
    let per_container = u64::from(geometry.per_container);
    let count = geometry.containers();
    let mut starts: Vec<u64> = (0..count).map(|index| index * per_container).collect();
    let mut put = |number: u64, start: u64| {
        let index = number.wrapping_sub(ContainerMap::FIRST);
        let fits = start.is_multiple_of(per_container)
            && start.checked_add(per_container).is_some_and(|end| end <= geometry.clusters);
        if let (Some(slot), true) = (starts.get_mut(index as usize), fits) {
            *slot = start;
        }
    };
    let mut pages: Vec<&FoundPage> = found.iter().filter(|page| !is_real(page.table)).collect();
    pages.sort_by_key(|page| page.clock);
    for page in pages {
        let (number, inside) = geometry.split(page.cluster);
        if let Some(start) = (page.place / u64::from(geometry.cluster)).checked_sub(u64::from(inside)) {
            put(number, start);
        }
    }
    let tables = [Root::Containers, Root::ContainersCopy].map(Root::table);
    let leaves = tables.iter().filter_map(|table| scan.tables.get(table)).flatten();
    let mut leaves: Vec<&FoundPage> = leaves.filter(|page| page.level == 0).collect();
    leaves.sort_by_key(|page| page.clock);
    let mut compressed = Vec::new();
    for Loose { page, .. } in leaves.into_iter().filter_map(|found| scan.page(found)) {
        for row in page.node().rows() {
            if let Ok(row) = ContainerRow::from_bytes(row.value, 0) {
                put(row.number, row.start);
                compressed.extend((row.flags & ContainerRow::COMPRESSED != 0).then_some(row.number));
            }
        }
    }
    ContainerMap::new(starts, geometry.per_container).with_compressed(compressed)
}

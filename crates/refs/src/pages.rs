//! The metadata pages in memory: read once and verified, changed only as copies at new places, and limited in number.
//!
//! A page is identified by its address. The first change after a commit gives the page a new address (*copy on write*):
//! the caller stores this in the page above, which therefore changes too, up to the root. Checksums are filled in from
//! the leaves up when a commit seals the tree.

use crate::anchor::in_copies;
use crate::container::Tier;
use crate::geometry::{ContainerMap, Geometry};
use crate::layout::page::{self, HEADER, NODE};
use crate::layout::{Algorithm, Checksum, PageHeader, PageReference, TreeNode, TreeNodeMut, Version};
use crate::space::{ContainerRun, Space};
use platter_device::{Buffer, Device, Kind, Request, Segment, Segments};
use platter_vfs::{Error, Result};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The fewest pages for which sealing starts a further thread.
const FEWEST_PER_THREAD: usize = 16;

/// Stands for a table's number where the number that a page carries is not known: in the pages of a tree in a row's
/// value. Platter writes the directory's number there; what Windows writes is not known, and the reference's checksum
/// shows that the page is the right one.
pub(crate) const ANY_TABLE: u64 = u64::MAX;

/// Where a page is: its first cluster, and how clusters are numbered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Address {
    /// Real cluster numbers (the container tables and the small allocator) or virtual ones.
    pub real: bool,
    /// The first cluster.
    pub cluster: u64,
}

/// A page of a tree.
#[derive(Clone)]
pub(crate) struct Page {
    bytes: Vec<u8>,
    /// The offset in the page at which the node begins.
    start: usize,
}

impl Page {
    /// An empty node without a tree header.
    pub(crate) fn new(size: usize, level: u8) -> Page {
        Page::with_header(size, &[8, 0, 0, 0, 0, 0, 0, 0], level, if level > 0 { 1 } else { 0 })
    }

    /// An empty node under this tree header.
    pub(crate) fn with_header(size: usize, header: &[u8], level: u8, flags: u8) -> Page {
        let mut bytes = vec![0; size];
        let start = HEADER + header.len();
        bytes[HEADER..start].copy_from_slice(header);
        TreeNodeMut::fresh(&mut bytes[start..], level, flags);
        Page { bytes, start }
    }

    /// The page's node, to be read.
    pub(crate) fn node(&self) -> TreeNode<'_> {
        TreeNode::new(&self.bytes[self.start..])
    }

    /// The whole area of the node, for nodes of streams, whose rows have no headers and are read by other code.
    pub(crate) fn area(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    /// The page's node, to be changed.
    pub(crate) fn node_mut(&mut self) -> TreeNodeMut<'_> {
        TreeNodeMut::new(&mut self.bytes[self.start..])
    }

    /// Lets `with` build the node in its whole area.
    pub(crate) fn with_area(&mut self, with: impl FnOnce(&mut [u8])) {
        with(&mut self.bytes[self.start..]);
    }

    /// The tree header, to be changed; 8 bytes on pages that are no root.
    pub(crate) fn tree_header(&mut self) -> &mut [u8] {
        &mut self.bytes[HEADER..self.start]
    }

    /// The tree header, to be read.
    pub(crate) fn tree_header_view(&self) -> &[u8] {
        &self.bytes[HEADER..self.start]
    }

    /// The number of bytes for rows and their entries in the index.
    pub(crate) fn capacity(&self) -> usize {
        self.bytes.len() - self.start - crate::layout::node::NODE_HEADER
    }

    /// The page as it stands on disk.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Verifies a page that was read for a reference.
    ///
    /// # Errors
    /// [`Error::Damaged`]; `at` is where the page stands on the device.
    pub(crate) fn from_bytes(
        bytes: Vec<u8>,
        geometry: &Geometry,
        reference: &PageReference,
        table: u64,
        at: u64,
    ) -> Result<Page> {
        if !reference.checksum.matches(&bytes) {
            let found = reference.checksum.algorithm.of(&bytes);
            return Err(Error::damaged("metadata page checksum", at, reference.checksum, found));
        }
        let header = PageHeader::from_bytes(&bytes);
        if header.signature != NODE {
            return Err(Error::damaged(
                "metadata page",
                at,
                "MSB+",
                String::from_utf8_lossy(&header.signature),
            ));
        }
        if header.clusters[0] != reference.clusters[0] {
            let (expected, found) = (reference.clusters[0], header.clusters[0]);
            return Err(Error::damaged(
                "page's own cluster",
                at + PageHeader::CLUSTER.at() as u64,
                format!("{expected:#x}"),
                format!("{found:#x}"),
            ));
        }
        if header.table != table && table != ANY_TABLE {
            return Err(Error::damaged(
                "page's table",
                at + PageHeader::TABLE.at() as u64,
                format!("{table:#x}"),
                format!("{:#x}", header.table),
            ));
        }
        if header.volume != geometry.signature {
            let (expected, found) = (geometry.signature, header.volume);
            return Err(Error::damaged(
                "page's volume signature",
                at + PageHeader::VOLUME.at() as u64,
                format!("{expected:#x}"),
                format!("{found:#x}"),
            ));
        }
        let start = page::node_start(&bytes);
        if start < HEADER + 8 || start > bytes.len() / 2 || !start.is_multiple_of(8) {
            return Err(Error::damaged(
                "size of the tree header",
                at + HEADER as u64,
                "8 to half a page",
                start - HEADER.min(start),
            ));
        }
        TreeNode::check(&bytes[start..]).map_err(|(offset, expected, found)| {
            Error::damaged("node", at + (start + offset) as u64, expected, found)
        })?;
        Ok(Page { bytes, start })
    }
}

/// The pages of a volume.
pub(crate) struct Pages {
    /// The sizes of the volume.
    pub geometry: Geometry,
    /// Where each container lies on the device.
    pub map: ContainerMap,
    /// Which clusters are free.
    pub space: Space,
    device: Arc<dyn Device>,
    dirty: HashMap<Address, Arc<Page>>,
    clean: HashMap<Address, (Arc<Page>, u64)>,
    tick: u64,
    limit: usize,
    /// The number of rows that were put into trees or removed from them.
    pub edits: u64,
    /// Whether a change failed half-way: then the pages in memory must not be written.
    pub is_broken: bool,
    healed: AtomicU64,
}

impl Pages {
    /// Begins without pages. Clean pages are kept up to about `limit` bytes, and of those that changed as many before they are
    /// too many.
    pub(crate) fn new(
        geometry: Geometry,
        map: ContainerMap,
        space: Space,
        device: Arc<dyn Device>,
        limit: usize,
    ) -> Pages {
        let limit = (limit / geometry.page()).max(16);
        Pages {
            geometry,
            map,
            space,
            device,
            dirty: HashMap::new(),
            clean: HashMap::new(),
            tick: 0,
            limit,
            edits: 0,
            is_broken: false,
            healed: AtomicU64::new(0),
        }
    }

    /// The device with the volume.
    pub(crate) fn device(&self) -> &Arc<dyn Device> {
        &self.device
    }

    /// The byte offset of a page on the device.
    pub(crate) fn offset(&self, address: Address) -> Result<u64> {
        let clusters = u64::from(self.geometry.page_clusters());
        let cluster = match address.real {
            true if address.cluster + clusters <= self.geometry.clusters => address.cluster,
            true => {
                return Err(Error::damaged(
                    "real cluster",
                    0,
                    format!("below {}", self.geometry.clusters),
                    address.cluster,
                ));
            }
            false => self.map.real(&self.geometry, address.cluster, clusters)?,
        };
        Ok(self.geometry.offset(cluster))
    }

    /// The page that a reference leads to.
    pub(crate) fn get(&mut self, reference: &PageReference, table: u64, real: bool) -> Result<Arc<Page>> {
        let address = Address { real, cluster: reference.clusters[0] };
        if let Some(page) = self.dirty.get(&address) {
            return Ok(page.clone());
        }
        self.tick += 1;
        if let Some((page, tick)) = self.clean.get_mut(&address) {
            *tick = self.tick;
            return Ok(page.clone());
        }
        let page = Arc::new(self.read(reference, table, real)?);
        self.keep(address, page.clone());
        Ok(page)
    }

    /// Adds a page that was read by somebody else, and that a reference in use leads to.
    pub(crate) fn offer(&mut self, reference: &PageReference, page: Page) {
        let address = Address { real: false, cluster: reference.clusters[0] };
        if self.dirty.contains_key(&address) || self.clean.contains_key(&address) {
            return;
        }
        self.tick += 1;
        self.keep(address, Arc::new(page));
    }

    /// Adds a page that was just read to the clean ones.
    fn keep(&mut self, address: Address, page: Arc<Page>) {
        self.make_room();
        debug_assert!(!self.dirty.contains_key(&address), "a page that changed is not read again");
        self.clean.insert(address, (page, self.tick));
    }

    /// Reads pages ahead that [`Pages::get`] will be called for next, all in flight at once. They fill half of the
    /// limit at most; of more references the last ones are taken. Errors are left to [`Pages::get`], which meets them
    /// again and reports them.
    pub(crate) fn bring(&mut self, references: &[PageReference], table: u64) {
        let size = self.geometry.page();
        let device = self.device.clone();
        let most = references.len().min(self.limit / 2);
        let references = &references[references.len() - most..];
        let Ok(mut queue) = device.queue(most.max(1)) else { return };
        for (reference, tag) in references.iter().zip(0..) {
            let is_there = self.at_hand(reference, Tier::Medium).is_some();
            if let (false, Ok(offset)) = (is_there, self.place_of(reference, false)) {
                let segments = Segments::from_slice(&[Segment { offset, at: 0, length: size as u32 }]);
                let buffer = Buffer::new(size);
                queue.submit(Request { tag, kind: Kind::Read, durable: false, segments, buffer });
            }
        }
        let mut done = Vec::new();
        while queue.in_flight() > 0 && queue.wait(1, &mut done).is_ok() {}
        for completion in done.into_iter().filter(|completion| completion.result.is_ok()) {
            let (reference, at) = (&references[completion.tag as usize], completion.segments[0].offset);
            if let Ok(page) =
                Page::from_bytes(completion.buffer.to_vec(), &self.geometry, reference, table, at)
            {
                self.tick += 1;
                self.keep(Address { real: false, cluster: reference.clusters[0] }, Arc::new(page));
            }
        }
    }

    /// The page that a reference leads to, if it is in memory.
    pub(crate) fn at_hand(&self, reference: &PageReference, tier: Tier) -> Option<&Page> {
        let address = Address { real: tier == Tier::Small, cluster: reference.clusters[0] };
        let clean = || self.clean.get(&address).map(|(page, _)| page);
        self.dirty.get(&address).or_else(clean).map(|page| &**page)
    }

    /// Reads a page from the device, whether or not it is in memory, and verifies it.
    pub(crate) fn read(&self, reference: &PageReference, table: u64, real: bool) -> Result<Page> {
        let offset = self.place_of(reference, real)?;
        let mut bytes = vec![0; self.geometry.page()];
        let read = self.device.read_at(offset, &mut bytes).map_err(Error::from);
        let page = read.and_then(|()| Page::from_bytes(bytes, &self.geometry, reference, table, offset));
        page.or_else(|error| self.heal(reference, table, offset).ok_or(error))
    }

    /// Where the page of a reference stands on the device, in bytes.
    pub(crate) fn place_of(&self, reference: &PageReference, real: bool) -> Result<u64> {
        let contiguous = (1..self.geometry.page_clusters() as usize)
            .all(|index| reference.clusters[index] == reference.clusters[0] + index as u64);
        if !contiguous {
            let found = format!("{:x?}", reference.clusters);
            return Err(Error::damaged("page reference", 0, "clusters one after the other", found));
        }
        self.offset(Address { real, cluster: reference.clusters[0] })
    }

    /// Looks for a good copy of a damaged page on the other copies of the device, and writes it over the damaged ones.
    fn heal(&self, reference: &PageReference, table: u64, offset: u64) -> Option<Page> {
        if self.device.copies() < 2 {
            return None;
        }
        let parse = |bytes: &[u8]| Page::from_bytes(bytes.to_vec(), &self.geometry, reference, table, offset);
        let found = in_copies(&*self.device, (offset, self.geometry.page()), &parse);
        let (_, _, good) = found.whole.into_iter().next()?;
        for (copy, _) in found.damaged {
            if self.device.repair_copy(copy, offset, good.bytes()).is_ok() {
                self.healed.fetch_add(1, Ordering::Relaxed);
            }
        }
        Some(good)
    }

    /// The number of copies of pages that were repaired from another copy of the device.
    pub(crate) fn healed(&self) -> u64 {
        self.healed.load(Ordering::Relaxed)
    }

    /// Makes a page changeable: unless it is a copy made since the last commit already, it is copied to a new place.
    /// Returns its reference, which the page above must hold from now on.
    pub(crate) fn change(
        &mut self,
        reference: &PageReference,
        table: u64,
        tier: Tier,
    ) -> Result<PageReference> {
        let real = tier == Tier::Small;
        let address = Address { real, cluster: reference.clusters[0] };
        if self.dirty.contains_key(&address) {
            return Ok(*reference);
        }
        let page = self.get(reference, table, real)?;
        let place = self.place(tier)?;
        self.clean.remove(&address);
        self.park(address)?;
        let before = self.dirty.insert(Address { real, cluster: place.clusters[0] }, page);
        debug_assert!(before.is_none(), "a page that changes goes to a place that no other has");
        Ok(place)
    }

    /// Adds a new page, which gets clusters of the tier, and returns its reference.
    pub(crate) fn add(&mut self, page: Page, tier: Tier) -> Result<PageReference> {
        let place = self.place(tier)?;
        debug_assert_eq!(page.bytes().len(), self.geometry.page(), "all pages are of one size");
        let address = Address { real: tier == Tier::Small, cluster: place.clusters[0] };
        let before = self.dirty.insert(address, Arc::new(page));
        debug_assert!(before.is_none(), "a new page goes to a place that no other has");
        Ok(place)
    }

    /// The page of a reference that [`Pages::change`] or [`Pages::add`] returned, to be changed.
    pub(crate) fn dirty(&mut self, reference: &PageReference, tier: Tier) -> &mut Page {
        let address = Address { real: tier == Tier::Small, cluster: reference.clusters[0] };
        Arc::make_mut(self.dirty.get_mut(&address).expect("changed before"))
    }

    /// Whether the page of this reference waits to be written.
    pub(crate) fn is_dirty(&self, reference: &PageReference, tier: Tier) -> bool {
        self.dirty.contains_key(&Address { real: tier == Tier::Small, cluster: reference.clusters[0] })
    }

    /// The number of pages that wait to be written.
    pub(crate) fn dirty_count(&self) -> usize {
        self.dirty.len()
    }

    /// Whether so many pages changed that a commit should be made, which need not come at once.
    pub(crate) fn is_much_dirty(&self) -> bool {
        self.dirty.len() >= self.limit
    }

    /// Sets how many clean pages are kept, and how many changed ones are much.
    #[cfg(test)]
    pub(crate) fn limit_to(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Gives a page's clusters back.
    pub(crate) fn free(&mut self, reference: &PageReference, tier: Tier) -> Result<()> {
        let address = Address { real: tier == Tier::Small, cluster: reference.clusters[0] };
        self.clean.remove(&address);
        if self.dirty.remove(&address).is_some() {
            let run = self.run(address)?;
            self.space.give_back(run);
            return Ok(());
        }
        self.park(address)
    }

    /// Gives pages of a tree their headers and checksums, and returns the references that the pages above them hold.
    pub(crate) fn seal(
        &mut self,
        references: &[PageReference],
        table: u64,
        tier: Tier,
        clock: u64,
    ) -> Vec<PageReference> {
        let (volume, algorithm) = (self.geometry.signature, self.geometry.algorithm);
        let is_marked = self.geometry.version >= Version::V3_10;
        let address =
            |reference: &PageReference| Address { real: tier == Tier::Small, cluster: reference.clusters[0] };
        let take = |reference: &PageReference| {
            (*reference, self.dirty.remove(&address(reference)).expect("changed before"))
        };
        let mut pages: Vec<(PageReference, Arc<Page>)> = references.iter().map(take).collect();
        let seal = |(reference, page): &mut (PageReference, Arc<Page>)| {
            let page = Arc::make_mut(page);
            let header = PageHeader {
                signature: NODE,
                volume,
                clock,
                tree_clock: clock,
                clusters: reference.clusters,
                table,
            };
            header.store(&mut page.bytes);
            if is_marked {
                page.node_mut().mark_last_child();
            }
            reference.checksum = algorithm.of(&page.bytes);
        };
        // Any checksum but SHA-256 takes less time than a thread takes to start.
        let threads = match algorithm {
            Algorithm::Sha256 => std::thread::available_parallelism().map_or(1, usize::from),
            _ => 1,
        };
        let share = pages.len().div_ceil(threads).max(FEWEST_PER_THREAD);
        let middle = pages.len().saturating_sub(share);
        let (rest, first) = pages.split_at_mut(middle);
        std::thread::scope(|scope| {
            for chunk in rest.chunks_mut(share) {
                scope.spawn(|| chunk.iter_mut().for_each(seal));
            }
            first.iter_mut().for_each(seal);
        });
        let sealed = pages.iter().map(|(reference, _)| *reference).collect();
        self.dirty.extend(pages.into_iter().map(|(reference, page)| (address(&reference), page)));
        sealed
    }

    /// Returns all pages that wait to be written, with their byte offsets on the device, in this order. They count as
    /// clean from now on.
    pub(crate) fn take_dirty(&mut self) -> Result<Vec<(u64, Arc<Page>)>> {
        let mut writes = Vec::with_capacity(self.dirty.len());
        for (address, page) in std::mem::take(&mut self.dirty) {
            writes.push((self.offset(address)?, page.clone()));
            self.clean.insert(address, (page, self.tick));
        }
        writes.sort_unstable_by_key(|(offset, _)| *offset);
        Ok(writes)
    }

    /// Forgets all clean pages: for a caller whose references may be out of date, and lead to places where another page
    /// is by now.
    pub(crate) fn forget_clean(&mut self) {
        self.clean.clear();
    }

    /// Forgets clean pages beyond the limit. Not to be called while pages taken by [`Pages::take_dirty`] are not yet
    /// on the device.
    pub(crate) fn make_room(&mut self) {
        if self.clean.len() < self.limit {
            return;
        }
        let mut ticks: Vec<u64> = self.clean.values().map(|(_, tick)| *tick).collect();
        let keep = self.limit - self.limit / 4;
        let oldest = self.clean.len() - keep;
        let (_, &mut bound, _) = ticks.select_nth_unstable(oldest);
        self.clean.retain(|_, (page, tick)| *tick >= bound || Arc::strong_count(page) > 1);
    }

    fn place(&mut self, tier: Tier) -> Result<PageReference> {
        let count = self.geometry.page_clusters();
        let run = self.space.take_page(tier, count)?;
        let first = match tier {
            Tier::Small => {
                let number = self.geometry.number(run.container, run.start);
                self.map.real(&self.geometry, number, u64::from(count))?
            }
            _ => self.geometry.number(run.container, run.start),
        };
        let mut clusters = [0; 4];
        clusters.iter_mut().take(count as usize).zip(first..).for_each(|(slot, cluster)| *slot = cluster);
        Ok(PageReference { clusters, checksum: Checksum::NONE })
    }

    fn park(&mut self, address: Address) -> Result<()> {
        let run = self.run(address)?;
        self.space.park(run);
        Ok(())
    }

    fn run(&self, address: Address) -> Result<ContainerRun> {
        let count = self.geometry.page_clusters();
        let (container, start) = match address.real {
            false => {
                let (container, start) = self.geometry.split(address.cluster);
                (container.wrapping_sub(ContainerMap::FIRST), start)
            }
            true => self.map.containing(&self.geometry, address.cluster)?,
        };
        if container >= self.map.len() as u64 || start + count > self.geometry.per_container {
            return Err(Error::damaged(
                "cluster of a page",
                0,
                "inside a container",
                format!("{:#x}", address.cluster),
            ));
        }
        Ok(ContainerRun { container: container as u32, start, count })
    }
}

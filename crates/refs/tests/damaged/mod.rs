//! Damages volumes precisely: bytes of a page are changed, and the checksums from that page up to the checkpoint are
//! computed anew, so that nothing else is wrong.

use platter_device::Device;
use platter_refs::layout::bytes::{put, u32_at, u64_at};
use platter_refs::layout::record::key;
use platter_refs::layout::{
    Algorithm, AllocatorRow, BootRecord, Checkpoint, ObjectRow, PageReference, Record, Root, Superblock,
    TreeNode, TreeNodeMut, attribute::Attribute, page,
};

/// A tree of the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Of {
    /// A root of the checkpoint.
    Root(Root),
    /// An object, by its number.
    Object(u64),
}

/// What a change did to a page.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Did {
    /// Nothing: the next page is tried.
    Nothing,
    /// The page was changed, and all checksums are to be computed anew.
    Sealed,
    /// The page was changed, and its checksum stays wrong.
    Broken,
}

/// A volume about to be damaged.
pub(crate) struct Surgeon<'d> {
    pub device: &'d dyn Device,
    pub boot: BootRecord,
    pub superblock: Superblock,
    pub checkpoint: Checkpoint,
    pub slot: usize,
    pub cluster: u64,
    pub clusters: u64,
    per_container: u64,
}

impl<'d> Surgeon<'d> {
    pub(crate) fn new(device: &'d dyn Device) -> Surgeon<'d> {
        let mut sector = vec![0; device.sectors().logical.max(512) as usize];
        device.read_at(0, &mut sector).unwrap();
        let boot = BootRecord::from_bytes(sector[..512].try_into().unwrap(), 0).unwrap();
        let cluster = u64::from(boot.cluster());
        let clusters = boot.sectors * u64::from(boot.sector) / cluster;
        let mut bytes = vec![0; cluster as usize];
        device.read_at(Superblock::CLUSTER * cluster, &mut bytes).unwrap();
        let superblock = Superblock::from_bytes(&bytes, Superblock::CLUSTER, 0).unwrap();
        let signature = page::volume_signature(&superblock.guid);
        let read = |slot: usize| {
            let place = superblock.checkpoints[slot];
            device.read_at(place * cluster, &mut vec![0; cluster as usize]).unwrap();
            let mut bytes = vec![0; cluster as usize];
            device.read_at(place * cluster, &mut bytes).unwrap();
            Checkpoint::from_bytes(&bytes, place, cluster as usize, signature, 0).unwrap()
        };
        let (first, second) = (read(0), read(1));
        let slot = usize::from(second.clock > first.clock);
        let checkpoint = if slot == 0 { first } else { second };
        let per_container = boot.container / cluster;
        Surgeon { device, boot, superblock, checkpoint, slot, cluster, clusters, per_container }
    }

    pub(crate) fn page_size(&self) -> usize {
        if self.cluster == 4096 { 16384 } else { 65536 }
    }

    pub(crate) fn read(&self, at: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.device.read_at(at, &mut bytes).unwrap();
        bytes
    }

    /// Returns the offset of a page on the device. Containers lie in the order of their numbers.
    pub(crate) fn offset(&self, cluster: u64, of: Of) -> u64 {
        let shift = self.per_container.trailing_zeros() + 1;
        match of {
            Of::Root(root) if root.is_real() => cluster * self.cluster,
            _ => {
                ((cluster >> shift).wrapping_sub(2) * self.per_container + (cluster & ((1 << shift) - 1)))
                    * self.cluster
            }
        }
    }

    /// Returns the reference to the root page of a tree.
    pub(crate) fn root(&self, of: Of) -> PageReference {
        match of {
            Of::Root(root) => self.checkpoint.roots[root as usize],
            Of::Object(number) => {
                let mut found = None;
                self.each_row(Of::Root(Root::Objects), &mut |row, value| {
                    if u64_at(row, 8) == number {
                        found = Some(ObjectRow::from_bytes(value, 0).unwrap().root);
                    }
                });
                found.unwrap_or_else(|| panic!("no object {number:#x}"))
            }
        }
    }

    /// Returns the references to all pages of a tree, root first.
    pub(crate) fn pages(&self, of: Of) -> Vec<PageReference> {
        let mut all = vec![self.root(of)];
        let mut next = 0;
        while next < all.len() {
            let bytes = self.read(self.offset(all[next].clusters[0], of), self.page_size());
            let node = TreeNode::new(&bytes[start(&bytes)..]);
            if node.is_inner() {
                all.extend(node.rows().map(|row| PageReference::from_bytes(row.value, 0).unwrap()));
            }
            next += 1;
        }
        all
    }

    /// Calls `each` on all rows: key and value.
    pub(crate) fn each_row(&self, of: Of, each: &mut dyn FnMut(&[u8], &[u8])) {
        for reference in self.pages(of) {
            let bytes = self.read(self.offset(reference.clusters[0], of), self.page_size());
            let node = TreeNode::new(&bytes[start(&bytes)..]);
            if !node.is_inner() {
                node.rows().for_each(|row| each(row.key, row.value));
            }
        }
    }

    /// All rows of a tree.
    pub(crate) fn rows(&self, of: Of) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut rows = Vec::new();
        self.each_row(of, &mut |key, value| rows.push((key.to_vec(), value.to_vec())));
        rows
    }

    /// Calls `change` on the pages of a tree, root first, until it has changed one.
    pub(crate) fn edit(&mut self, of: Of, change: &mut dyn FnMut(&mut [u8]) -> Did) {
        let root = self.root(of);
        let edited = self.edit_page(of, &root, change);
        let (new, did) = edited.unwrap_or_else(|| panic!("nothing of {of:?} was changed"));
        if did == Did::Broken {
            return;
        }
        match of {
            Of::Root(root) => {
                self.checkpoint.roots[root as usize] = new;
                self.store_checkpoint();
            }
            Of::Object(number) => {
                for root in [Root::Objects, Root::ObjectsCopy] {
                    self.edit_value(
                        Of::Root(root),
                        |key| u64_at(key, 8) == number,
                        |value| {
                            let length = u32_at(value, 0x0C) as usize;
                            new.store(&mut value[0x20..0x20 + length]);
                        },
                    );
                }
            }
        }
    }

    fn edit_page(
        &self,
        of: Of,
        reference: &PageReference,
        change: &mut dyn FnMut(&mut [u8]) -> Did,
    ) -> Option<(PageReference, Did)> {
        let at = self.offset(reference.clusters[0], of);
        let mut bytes = self.read(at, self.page_size());
        let start = start(&bytes);
        let mut did = change(&mut bytes);
        if did == Did::Nothing {
            let children: Vec<PageReference> = match TreeNode::new(&bytes[start..]) {
                node if node.is_inner() => {
                    node.rows().map(|row| PageReference::from_bytes(row.value, 0).unwrap()).collect()
                }
                _ => Vec::new(),
            };
            for (position, child) in children.iter().enumerate() {
                if let Some((new, below)) = self.edit_page(of, child, change) {
                    if below == Did::Broken {
                        return Some((*reference, below));
                    }
                    new.store(TreeNodeMut::new(&mut bytes[start..]).value_mut(position));
                    did = below;
                    break;
                }
            }
        }
        if did == Did::Nothing {
            return None;
        }
        self.device.write_at(at, &bytes).unwrap();
        let checksum = reference.checksum.algorithm.of(&bytes);
        Some((PageReference { clusters: reference.clusters, checksum }, did))
    }

    /// Changes the leaf with the first row whose key suits. `change` gets the page, the offset in it at which the node
    /// begins, and the row's position in the node.
    fn edit_row(
        &mut self,
        of: Of,
        suits: impl Fn(&[u8]) -> bool,
        change: impl FnOnce(&mut [u8], usize, usize),
    ) {
        let mut change = Some(change);
        self.edit(of, &mut |bytes| {
            let start = start(bytes);
            let node = TreeNode::new(&bytes[start..]);
            if node.is_inner() {
                return Did::Nothing;
            }
            let Some(position) = node.rows().position(|row| suits(row.key)) else { return Did::Nothing };
            change.take().expect("once")(bytes, start, position);
            Did::Sealed
        });
    }

    /// Changes the value of the first row whose key suits.
    pub(crate) fn edit_value(
        &mut self,
        of: Of,
        suits: impl Fn(&[u8]) -> bool,
        change: impl FnOnce(&mut [u8]),
    ) {
        self.edit_row(of, suits, |bytes, start, position| {
            change(TreeNodeMut::new(&mut bytes[start..]).value_mut(position))
        });
    }

    /// Removes the first row whose key suits, and counts it out of the tree header if its page is the root. Returns its
    /// key, flags and value.
    pub(crate) fn remove_row(&mut self, of: Of, suits: impl Fn(&[u8]) -> bool) -> (Vec<u8>, u16, Vec<u8>) {
        let mut removed = None;
        self.edit_row(of, suits, |bytes, start, position| {
            let row = TreeNode::new(&bytes[start..]).row(position);
            removed = Some((row.key.to_vec(), row.flags, row.value.to_vec()));
            TreeNodeMut::new(&mut bytes[start..]).remove(position);
            count(bytes, -1);
        });
        removed.expect("removed")
    }

    /// Puts a row into the first leaf with room, at the position that `at` returns for the leaf's node.
    pub(crate) fn insert_row(
        &mut self,
        of: Of,
        at: impl Fn(&TreeNode<'_>) -> usize,
        row: (&[u8], u16, &[u8]),
    ) {
        self.edit(of, &mut |bytes| {
            let start = start(bytes);
            let node = TreeNode::new(&bytes[start..]);
            if node.is_inner() {
                return Did::Nothing;
            }
            let position = at(&node);
            if !TreeNodeMut::new(&mut bytes[start..]).insert(position, row.0, row.1, row.2) {
                return Did::Nothing;
            }
            count(bytes, 1);
            Did::Sealed
        });
    }

    /// Gives a row another value.
    pub(crate) fn replace_value(&mut self, of: Of, suits: impl Fn(&[u8]) -> bool, value: &[u8]) {
        self.edit_row(of, suits, |bytes, start, position| {
            let flags = TreeNode::new(&bytes[start..]).row(position).flags;
            assert!(TreeNodeMut::new(&mut bytes[start..]).replace(position, flags, value), "room");
        });
    }

    /// Changes the record in a row.
    pub(crate) fn edit_record(
        &mut self,
        of: Of,
        suits: impl Fn(&[u8]) -> bool,
        change: impl FnOnce(&mut Record),
    ) {
        let value = self.rows(of).into_iter().find(|(key, _)| suits(key)).expect("the row").1;
        let mut record = Record::from_bytes(&value, 0).unwrap();
        change(&mut record);
        self.replace_value(of, suits, &record.to_bytes());
    }

    /// Flips two bits of the page at this position of a tree and leaves all checksums as they are.
    pub(crate) fn flip(&self, of: Of, position: usize, bit: usize) {
        let pages = self.pages(of);
        let at = self.offset(pages[position % pages.len()].clusters[0], of);
        self.flip_at(at, self.page_size(), bit);
        // A second bit is flipped, since a single wrong bit is corrected by the page's checksum.
        self.flip_at(at, self.page_size(), bit + 4099);
    }

    pub(crate) fn flip_at(&self, at: u64, length: usize, bit: usize) {
        let mut bytes = self.read(at, length);
        bytes[bit / 8 % length] ^= 1 << (bit % 8);
        self.device.write_at(at, &bytes).unwrap();
    }

    /// Writes [`Surgeon::checkpoint`] over the newest checkpoint of the volume, with its checksum computed anew.
    pub(crate) fn store_checkpoint(&self) {
        let place = self.superblock.checkpoints[self.slot];
        let signature = page::volume_signature(&self.superblock.guid);
        let sizes = (self.cluster as usize, self.page_size());
        let algorithm = match (self.boot.checksum, self.cluster) {
            (4, _) => Algorithm::Sha256,
            (_, 4096) => Algorithm::Crc32c,
            _ => Algorithm::Crc64,
        };
        let bytes = self.checkpoint.to_bytes(place, signature, sizes, algorithm);
        self.device.write_at(place * self.cluster, &bytes).unwrap();
    }

    /// Returns the object number of the directory at a path, which is given as names from the root down.
    pub(crate) fn directory(&self, path: &[&str]) -> u64 {
        path.iter().fold(0x600, |above, name| {
            let wanted = units(name);
            let rows = self.rows(Of::Object(above));
            let row = rows.into_iter().find(|(key, _)| is_name(&wanted, key));
            u64_at(&row.unwrap_or_else(|| panic!("no {name}")).1, 8)
        })
    }

    /// Changes the row of a container in the medium allocator.
    pub(crate) fn edit_medium(&mut self, container: u64, change: impl FnOnce(&mut AllocatorRow)) {
        let start = (container - 2) * self.per_container;
        let suits = |key: &[u8]| u64_at(key, 0) == start;
        let of = Of::Root(Root::MediumAllocator);
        let value = self.rows(of).into_iter().find(|(key, _)| suits(key)).expect("the row").1;
        let mut row = AllocatorRow::from_bytes(&value, 0).unwrap();
        change(&mut row);
        let count = |bits: &[u64]| bits.iter().map(|word| u64::from(word.count_ones())).sum();
        row.used = row.bits.as_deref().map_or(row.used, count);
        self.replace_value(of, suits, &row.to_bytes(self.boot.version, true));
    }
}

/// Returns the offset in a page at which its node begins.
pub(crate) fn start(bytes: &[u8]) -> usize {
    0x50 + u32_at(bytes, 0x50) as usize
}

fn count(bytes: &mut [u8], change: i64) {
    if u32_at(bytes, 0x50) > 8 {
        let rows = u64_at(bytes, 0x70);
        put(bytes, 0x70, rows.wrapping_add_signed(change));
    }
}

/// The units of a text.
pub(crate) fn units(text: &str) -> Vec<u16> {
    text.encode_utf16().collect()
}

/// Whether a key is that of the row of this name.
pub(crate) fn is_name(wanted: &[u16], row: &[u8]) -> bool {
    row[..2] == [0x30, 0] && key::units(row) == wanted
}

/// Whether a key is that of a record of a file with several names.
pub(crate) fn is_body(row: &[u8]) -> bool {
    row[..2] == [0x40, 0]
}

/// The longest attribute of a kind, to be changed.
pub(crate) fn attribute(record: &mut Record, kind: u16) -> &mut Attribute {
    let rows = record.rows.iter_mut().filter(|row| row.kind() == kind);
    rows.max_by_key(|row| row.value.len()).expect("the attribute")
}

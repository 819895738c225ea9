//! Entry points for fuzzing: each takes arbitrary bytes and must neither panic nor hang nor use memory without bound.
//!
//! The package `fuzz/` calls them under libFuzzer; the tests replay its corpus and mutations of it on stable Rust. A
//! volume is too large to be the input: the input is a list of patches of a small volume that is made once. The page
//! references of that volume say that pages have no checksum, so that patched pages are accepted.

use crate::geometry::Geometry;
use crate::layout::bytes::{put, u32_at};
use crate::layout::page::HEADER;
use crate::layout::{
    BootRecord, Checkpoint, Checksum, PageReference, Root, Superblock, TreeNode, TreeNodeMut, boot_checksum,
    page,
};
use crate::open::{self, Notes};
use crate::{Refs, RefsVolume};
use platter_device::{Device, MemoryDevice, OverlayDevice, Sectors};
use platter_vfs::{
    Change, CheckOptions, Cursor, FileSystem, Format, FormatOptions, Integrity, Kind, Name, Names, Node,
    OpenOptions, RenameFlags, ScrubOptions, Silent, SyncScope,
};
use std::sync::{Arc, OnceLock};

/// Bytes of a patch: the structure (2), the offset in it (2), the number of bytes (1), and the bytes (8).
const PATCH: usize = 13;
/// The number of patches of one input that are applied.
const MOST: usize = 32;
/// The size of the volume in bytes, a little above the smallest possible.
const BYTES: u64 = 384 << 20;

/// The volume to which patches are applied.
struct Base {
    device: Arc<dyn Device>,
    geometry: Geometry,
    /// Byte offsets of the volume's structures: boot record, superblock, both checkpoints, and every page in use.
    places: Vec<u64>,
}

fn base() -> &'static Base {
    static BASE: OnceLock<Base> = OnceLock::new();
    BASE.get_or_init(|| {
        let device = Arc::new(MemoryDevice::new(BYTES, Sectors::SMALL));
        let options = FormatOptions { serial: Some(8664), ..FormatOptions::default() };
        Refs::ANY.make(&*device, &options, &Silent).expect("it is large enough");
        let volume = RefsVolume::open(device.clone(), OpenOptions::default()).expect("it was just made");
        populate(&volume).expect("there is room");
        volume.unmount().expect("memory does not fail");
        Base::of(device)
    })
}

/// A volume of which the page references say that pages have no checksum, so that whatever a page holds is read.
pub struct Unsealed(Base);

impl Unsealed {
    /// Takes the checksums from the references of the volume on a device, which was just made or filled.
    pub fn of(device: Arc<dyn Device>) -> Unsealed {
        Unsealed(Base::of(device))
    }

    /// The offsets and lengths of the structures in bytes: boot record, superblock, both checkpoints, every page in use.
    pub fn places(&self) -> Vec<(u64, usize)> {
        (0..self.0.places.len()).map(|place| (self.0.places[place], self.0.size(place))).collect()
    }

    /// Corrects the checksum that the structure of this number has of itself, so that it is accepted.
    pub fn seal(&self, place: usize, bytes: &mut [u8]) {
        self.0.seal(place, bytes);
    }
}

impl Base {
    fn of(device: Arc<dyn Device>) -> Base {
        let anchors = open::anchors(&*device, &mut Notes::default()).expect("it was just written");
        let geometry = anchors.geometry.clone();
        let checkpoints = anchors.superblock.checkpoints.map(|place| geometry.offset(place));
        let places = vec![0, geometry.offset(Superblock::CLUSTER), checkpoints[0], checkpoints[1]];
        let mut base = Base { device, geometry, places };
        // Both checkpoints refer to the newest state, so that a patch of one is not hidden by the other.
        let newest = &anchors.checkpoints[0].1;
        let mut roots = newest.roots;
        for (root, reference) in Root::ALL.into_iter().zip(&mut roots) {
            base.unseal(reference, root.is_real(), root);
        }
        for (slot, clock) in [newest.clock + 1, newest.clock].into_iter().enumerate() {
            let checkpoint = Checkpoint { clock, roots, ..newest.clone() };
            let place = anchors.superblock.checkpoints[slot];
            let sizes = (base.geometry.cluster as usize, base.geometry.page());
            let own = base.geometry.own_algorithm();
            let bytes = checkpoint.to_bytes(place, base.geometry.signature, sizes, own);
            base.device.write_at(base.geometry.offset(place), &bytes).expect("inside");
        }
        // The boot record says too that there are no checksums: otherwise a check would find every page damaged.
        let boot = BootRecord { checksum: 0, ..anchors.boot.clone() };
        let last = (boot.sectors - 1) * u64::from(boot.sector);
        for at in [0, last] {
            base.device.write_at(at, &boot.to_bytes()).expect("inside");
        }
        base
    }

    /// The bytes of a structure.
    fn size(&self, place: usize) -> usize {
        match place {
            0 => BootRecord::SIZE,
            1..4 => self.geometry.cluster as usize,
            _ => self.geometry.page(),
        }
    }

    /// Removes the checksum from a reference, and from all references below it.
    fn unseal(&mut self, reference: &mut PageReference, real: bool, root: Root) {
        reference.checksum = Checksum::NONE;
        let cluster = match self.geometry.split(reference.clusters[0]) {
            _ if real => reference.clusters[0],
            // The containers of a new volume lie in the order of their numbers.
            (container, inside) => {
                (container - 2) * u64::from(self.geometry.per_container) + u64::from(inside)
            }
        };
        let offset = self.geometry.offset(cluster);
        if self.places.contains(&offset) {
            return;
        }
        self.places.push(offset);
        let mut bytes = vec![0; self.geometry.page()];
        self.device.read_at(offset, &mut bytes).expect("inside");
        let start = HEADER + u32_at(&bytes, HEADER) as usize;
        let (count, inner) = {
            let node = TreeNode::new(&bytes[start..]);
            (node.len(), node.is_inner())
        };
        let objects = matches!(root, Root::Objects | Root::ObjectsCopy);
        // Rows of the object table have the reference after some fields.
        let at = if inner { 0 } else { 0x20 };
        for position in (0..count).filter(|_| inner || objects) {
            let length = self.geometry.reference;
            let mut node = TreeNodeMut::new(&mut bytes[start..]);
            let Ok(mut below) = PageReference::from_bytes(&node.value_mut(position)[at..at + length], 0)
            else {
                continue;
            };
            let kind = if inner { root } else { Root::ParentChild };
            self.unseal(&mut below, real, kind);
            below.store(&mut TreeNodeMut::new(&mut bytes[start..]).value_mut(position)[at..at + length]);
        }
        self.device.write_at(offset, &bytes).expect("inside");
    }

    /// A copy of the volume with the patches of this input.
    fn patched(&self, input: &[u8]) -> platter_device::Result<Arc<OverlayDevice>> {
        let device = Arc::new(OverlayDevice::new(self.device.clone()));
        for patch in input.as_chunks::<PATCH>().0.iter().take(MOST) {
            let [place, place_high, at, at_high, length, bytes @ ..] = patch;
            let place = usize::from(u16::from_le_bytes([*place, *place_high])) % self.places.len();
            let length = usize::from(*length % 8) + 1;
            let size = self.size(place);
            let at = usize::from(u16::from_le_bytes([*at, *at_high])) % (size - length);
            let mut structure = vec![0; size];
            device.read_at(self.places[place], &mut structure)?;
            structure[at..at + length].copy_from_slice(&bytes[..length]);
            self.seal(place, &mut structure);
            device.write_at(self.places[place], &structure)?;
        }
        Ok(device)
    }

    /// Corrects the checksum that a structure has of itself, so that its patch is accepted.
    fn seal(&self, place: usize, bytes: &mut [u8]) {
        let (descriptor, length) = match place {
            0 => {
                let sum = boot_checksum(bytes.first_chunk().expect("a sector"));
                return put(bytes, 0x16, sum);
            }
            1 => (0x78, 0x7C),
            2 | 3 => (0x58, 0x5C),
            _ => return,
        };
        let (start, length) = (u32_at(bytes, descriptor) as usize, u32_at(bytes, length) as usize);
        let cluster = self.places[place] / u64::from(self.geometry.cluster);
        if let Some(end) = start.checked_add(length).filter(|&end| end <= bytes.len() && length >= 0x30) {
            let covered = bytes.len();
            page::seal(bytes, start..end, covered, self.geometry.own_algorithm(), cluster);
        }
    }
}

/// Fills the volume with directories, files, streams and attributes of every kind.
fn populate(volume: &RefsVolume) -> platter_vfs::Result<()> {
    let make = |directory, name: &str, kind| volume.create(directory, &Name::from(name), kind);
    let below = make(Node::ROOT, "below", Kind::Directory)?;
    let deep = make(below, "deep", Kind::Directory)?;
    for number in 0..150 {
        let file = make(deep, &format!("{}{number}", "long ".repeat(number % 30)), Kind::File)?;
        volume.write(file, 0, &vec![7; 20 * number])?;
    }
    let large = make(Node::ROOT, "large", Kind::File)?;
    volume.integrity()?.set(large, Integrity { enabled: true, enforced: true })?;
    for number in 0..20 {
        volume.write(large, 3 * 4096 * number, &[1; 5000])?;
    }
    volume.link(large, below, &Name::from("other name"))?;
    let scattered = make(below, "scattered", Kind::File)?;
    for number in 0..500 {
        volume.write(scattered, 2 * 4096 * number, &[2; 4096])?;
    }
    volume.snapshots()?.create(scattered, &Name::from("kept"))?;
    let clone = make(below, "clone", Kind::File)?;
    volume.clone_range(scattered, 0, clone, 0, 100 * 4096)?;
    for (name, length) in [("small", 50), ("stream", 20_000)] {
        let stream = volume.streams()?.open(large, &Name::from(name), true)?;
        volume.write(stream, 0, &vec![3; length])?;
    }
    volume.symlink(below, &Name::from("link"), "some/where")?;
    volume.extended_attributes()?.set(large, "user.color", Some(b"green"))
}

/// Fuzzes the open volume: everything is read, and some of it written; then scrub, at once and in parts, check and repair
/// must end.
pub fn volume(input: &[u8]) {
    let Ok(device) = base().patched(input) else { return };
    if let Ok(volume) = RefsVolume::open(device.clone(), OpenOptions::default()) {
        read_all(&volume);
        write_some(&volume);
        let _ = volume.unmount();
    }
    let mut options = ScrubOptions::default();
    let _ = Refs::ANY.scrub(device.clone(), &options, &Silent);
    options.limit = Some(1 << 20);
    while let Ok(part) = Refs::ANY.scrub(device.clone(), &options, &Silent) {
        options.from = part.next;
        if options.from.is_none() {
            break;
        }
    }
    let _ = Refs::ANY.check(&*device, CheckOptions { repair: true }, &Silent);
}

/// Fuzzes the check: without repair, with it, and again. After a repair that claims to be complete nothing may be
/// found.
pub fn check(input: &[u8]) {
    let Ok(device) = base().patched(input) else { return };
    let run = |repair| Refs::ANY.check(&*device, CheckOptions { repair }, &Silent);
    if run(false).is_err() {
        return;
    }
    let Ok(repaired) = run(true) else { return };
    if repaired.remaining.is_none() {
        let again = run(false).expect("a repaired volume is a volume");
        assert!(again.is_clean(), "repaired {repaired:?}, then found {again:?}");
    }
}

/// Reads everything that can be reached, within bounds of depth and number that the unpatched volume does not exceed.
fn read_all(volume: &RefsVolume) {
    let mut todo = vec![(Node::ROOT, 0)];
    let mut buffer = vec![0; 65536];
    let mut seen = 0;
    while let Some((directory, depth)) = todo.pop() {
        let mut entries = Vec::new();
        if volume.read_directory(directory, Cursor::START, 512, &mut entries).is_err() || depth > 8 {
            continue;
        }
        for entry in entries {
            seen += 1;
            if seen > 512 {
                return;
            }
            let Ok(node) = volume.lookup(directory, &entry.name) else { continue };
            let _ = (
                volume.attributes(node),
                volume.integrity().and_then(|part| part.get(node)),
                volume.extents(node),
            );
            let _ = (volume.read_link(node), volume.extended_attributes().and_then(|part| part.list(node)));
            let _ = (
                volume.reparse_points().and_then(|part| part.get(node)),
                volume.security_descriptors().and_then(|part| part.get(node)),
            );
            if entry.attributes.kind == Kind::Directory {
                todo.push((node, depth + 1));
                continue;
            }
            let size = entry.attributes.size;
            for at in [0, size / 2, size.saturating_sub(100)] {
                let _ = volume.read(node, at, &mut buffer);
            }
            let streams = volume
                .streams()
                .and_then(|part| part.list(node))
                .unwrap_or_default()
                .into_iter()
                .map(|stream| stream.name);
            for stream in
                streams.chain(volume.snapshots().and_then(|part| part.list(node)).unwrap_or_default()).take(8)
            {
                if let Ok(stream) = volume.streams().and_then(|part| part.open(node, &stream, false)) {
                    let _ = volume.read(stream, 0, &mut buffer);
                }
            }
        }
    }
    let _ = (volume.info(), volume.space());
}

fn write_some(volume: &RefsVolume) {
    let name = |text: &str| Name::from(text);
    let Ok(directory) = volume.create(Node::ROOT, &name("new"), Kind::Directory) else { return };
    if let Ok(file) = volume.create(directory, &name("a new file"), Kind::File) {
        let _ = volume.write(file, 100, &[7; 30_000]);
        let _ = volume.sync(file, SyncScope::All);
        let _ = volume.set_attributes(file, &Change { size: Some(10), ..Change::default() });
    }
    let below = volume.lookup(Node::ROOT, &name("below")).unwrap_or(Node::ROOT);
    for from in [Node::ROOT, below] {
        let mut entries = Vec::new();
        let _ = volume.read_directory(from, Cursor::START, 8, &mut entries);
        for (number, entry) in entries.iter().enumerate() {
            if let Ok(node) = volume.lookup(from, &entry.name) {
                let _ = volume.write(node, 4096, &[1; 6000]);
                let _ = volume.punch(node, 8192..20_000);
                let _ = volume
                    .integrity()
                    .and_then(|part| part.set(node, Integrity { enabled: number % 2 == 0, enforced: true }));
                let _ = volume.clone_range(node, 0, node, 40_960, 8192);
                let _ = volume.snapshots().and_then(|part| part.create(node, &name("another")));
                let _ = volume.write(node, 4096, &[2; 6000]);
                let _ = volume.snapshots().and_then(|part| part.remove(node, &name("kept")));
                let _ = volume.reparse_points().and_then(|part| part.set(node, None));
                let _ = volume.link(node, directory, &name(&format!("linked {number}")));
            }
            let new = name(&format!("renamed {number}"));
            let _ = volume.rename(from, &entry.name, directory, &new, RenameFlags::Replace);
            let _ = volume.unlink(directory, &new);
        }
        let _ = volume.sync_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The unpatched volume must be clean: where a check finds damage, it looks no further.
    #[test]
    fn without_patches_nothing_is_found() {
        let device = base().patched(&[]).unwrap();
        let report = Refs::ANY.check(&*device, CheckOptions::default(), &Silent).unwrap();
        assert!(report.is_clean(), "{:#?}", report.findings);
        assert!(report.files > 150 && report.directories > 2, "{report:?}");
    }

    #[test]
    fn what_is_patched_is_read() {
        let device = base().patched(&[0; PATCH]).unwrap();
        let volume = RefsVolume::open(device, OpenOptions::default()).unwrap();
        let below = volume.lookup(Node::ROOT, &Name::from("below")).unwrap();
        let deep = volume.lookup(below, &Name::from("deep")).unwrap();
        let mut entries = Vec::new();
        volume.read_directory(deep, Cursor::START, 500, &mut entries).unwrap();
        assert_eq!(entries.len(), 150);
        // A patch that changes a name in a page has its effect, and no checksum rejects it.
        let mut page = vec![0; base().geometry.page()];
        let found = (4..base().places.len()).any(|place| {
            base().device.read_at(base().places[place], &mut page).unwrap();
            let Some(at) = page.windows(10).position(|bytes| bytes == b"b\0e\0l\0o\0w\0") else {
                return false;
            };
            let mut patch = [0; PATCH];
            put(&mut patch, 0, place as u16);
            put(&mut patch, 2, at as u16);
            patch[5] = b'B';
            let volume = RefsVolume::open(base().patched(&patch).unwrap(), OpenOptions::default()).unwrap();
            let mut entries = Vec::new();
            volume.read_directory(Node::ROOT, Cursor::START, 500, &mut entries).unwrap();
            entries.iter().any(|entry| entry.name == Name::from("Below"))
        });
        assert!(found);
    }
}

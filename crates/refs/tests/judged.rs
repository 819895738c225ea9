//! Volumes that Platter made, read by the crate `refs-core`, which shares no code with it.
//!
//! `refs-core` reads whole images with 4 KiB clusters: boot record, superblock, the places of the checkpoints,
//! container and object tables of one page, and names of directories of any size. It does not read records and content
//! as 3.x has them.

use crate::common::{V3_14, VOLUMES, Volume, open};
use platter_device::Device;
use platter_refs::layout::bytes::{u16_at, u64_at};
use platter_refs::layout::{Checkpoint, Root};
use platter_vfs::{Cursor, FileSystem, Kind, Name, Node};
use refs_core::{
    BootSector, Checkpoint as TheirCheckpoint, ContainerResolver, ContainerTable, MetaBlock, MinstorePage,
    ObjectTable, Superblock, walk_directory,
};

const CLUSTER: usize = 4096;
const PAGE: usize = 4 * CLUSTER;

/// Makes directories inside each other with few, some and thousands of names, of 1 to 255 units.
fn populate(volume: &impl FileSystem) {
    let mut above = Node::ROOT;
    for (depth, directory) in ["one", "Ünïcödé", "日本語", &"x".repeat(255)].into_iter().enumerate() {
        above = volume.create(above, &Name::from(directory), Kind::Directory).unwrap();
        for index in 0..[3, 40, 3000, 200][depth] {
            let name = format!("{index} {}", "name ".repeat(index % 40));
            let node = volume.create(above, &Name::from(name.trim_end()), Kind::File).unwrap();
            volume.write(node, 0, &vec![7; 37 * (index % 100)]).unwrap();
            volume.forget(node, 1);
        }
        for index in (0..100).step_by(7) {
            let _ = volume.unlink(above, &Name::from(format!("{index}").as_str()));
        }
        volume.symlink(above, &Name::from("leads away"), "elsewhere").unwrap();
        let first = volume.create(above, &Name::from("two names"), Kind::File).unwrap();
        if volume.capabilities().hard_links {
            volume.link(first, above, &Name::from("the other name")).unwrap();
        }
    }
}

/// Collects the paths below a directory as this crate reads them, and whether each is a directory.
fn ours(volume: &impl FileSystem, directory: Node, path: &str, all: &mut Vec<(String, bool)>) {
    let (mut cursor, mut entries) = (Cursor::START, Vec::new());
    loop {
        entries.clear();
        volume.read_directory(directory, cursor, 500, &mut entries).unwrap();
        let Some(last) = entries.last() else { return };
        cursor = last.next;
        for entry in &entries {
            let path = format!("{path}/{}", entry.name);
            let is_directory = entry.attributes.kind == Kind::Directory;
            all.push((path.clone(), is_directory));
            if is_directory {
                let node = volume.lookup(directory, &entry.name).unwrap();
                ours(volume, node, &path, all);
            }
        }
    }
}

/// An image as `refs-core` reads it.
struct Judge<'i> {
    image: &'i [u8],
    resolver: ContainerResolver,
    objects: ObjectTable<'i>,
}

impl Judge<'_> {
    fn page(&self, block: u64) -> &[u8] {
        let at = self.resolver.resolve_virtual(block).unwrap() as usize;
        MetaBlock::parse(&self.image[at..at + PAGE], "MSB+", at as u64).unwrap();
        &self.image[at..at + PAGE]
    }

    /// Collects the names in a directory's tree that have short entries, with the object that each leads to.
    fn below(&self, block: u64, all: &mut Vec<(String, u64)>) {
        let page = MinstorePage::parse(self.page(block), 0).unwrap();
        for row in page.rows() {
            if page.is_branch() {
                self.below(u64_at(row.value, 0), all);
            } else if u16_at(row.key, 0) == 0x30 && u16_at(row.key, 2) == 2 {
                let units: Vec<u16> = row.key[4..].chunks(2).map(|unit| u16_at(unit, 0)).collect();
                all.push((String::from_utf16(&units).unwrap(), u64_at(row.value, 8)));
            }
        }
    }

    fn names(&self, object: u64, path: &str, all: &mut Vec<(String, bool)>) {
        let root = self.objects.lookup(object).unwrap_or_else(|| panic!("object {object:#x}")).block_number;
        let mut directories = Vec::new();
        self.below(root, &mut directories);
        for entry in walk_directory(self.image, root).unwrap() {
            let path = format!("{path}/{}", entry.name);
            // The names of a file with several have short entries, as directories do: only the object that they lead to
            // tells the two apart.
            let below = directories.iter().find(|(name, _)| *name == entry.name && entry.is_directory);
            let is_directory = below.is_some_and(|&(_, other)| other != object);
            all.push((path.clone(), is_directory));
            if let Some(&(_, below)) = below.filter(|_| is_directory) {
                self.names(below, &path, all);
            }
        }
    }
}

#[test]
fn refs_core_reads_what_is_written() {
    let none = Volume { checksum: "none", ..V3_14 };
    for volume in VOLUMES.into_iter().filter(|volume| volume.cluster == 4096).chain([none]) {
        let device = volume.make();
        let system = open(device.clone());
        populate(&system);
        let mut expected = Vec::new();
        ours(&system, Node::ROOT, "", &mut expected);
        system.unmount().unwrap();
        let mut image = vec![0; device.len() as usize];
        device.read_at(0, &mut image).unwrap();

        let boot = BootSector::parse(&image).unwrap();
        boot.require_v3().unwrap();
        assert_eq!((boot.cluster_size(), boot.container_size), (4096, 64 << 20));
        assert_eq!(boot.num_sectors * u64::from(boot.bytes_per_sector), device.len());
        let superblock = boot.superblock_offset();
        assert_eq!(Superblock::parse_at(&image, superblock).unwrap().block.block_number, 30);
        let places = TheirCheckpoint::locations_from_superblock(&image[superblock as usize..]).unwrap();
        let mut newest: Option<Checkpoint> = None;
        for &place in &places {
            let at = place as usize * CLUSTER;
            assert_eq!(MetaBlock::parse(&image[at..], "CHKP", at as u64).unwrap().block_number, place);
            // `refs-core` does not read the references to the roots.
            let signature = platter_refs::layout::PageHeader::from_bytes(&image[at..]).volume;
            let found =
                Checkpoint::from_bytes(&image[at..at + PAGE], place, CLUSTER, signature, at as u64).unwrap();
            if newest.as_ref().is_none_or(|newest| newest.clock < found.clock) {
                newest = Some(found);
            }
        }
        let roots = newest.unwrap().roots;

        for root in [Root::Containers, Root::ContainersCopy] {
            let at = roots[root as usize].clusters[0] as usize * CLUSTER;
            MetaBlock::parse(&image[at..], "MSB+", at as u64).unwrap();
            // Rows of volumes with SHA-256 are longer than `refs-core` expects.
            if volume.checksum != "sha256" {
                let table = ContainerTable::parse(&image[at..at + PAGE], at as u64).unwrap();
                for (index, row) in table.records().enumerate() {
                    assert_eq!((row.band_id, row.cluster_count), (2 + index as u64, 16384));
                    assert_eq!(row.physical_lcn, 16384 * index as u64);
                }
                assert_eq!(table.records().count() as u64, device.len() / (64 << 20));
            }
        }
        let resolver = ContainerResolver::from_resident_image(&image, 16384);
        let at = resolver.resolve_virtual(roots[Root::Objects as usize].clusters[0]).unwrap() as usize;
        let objects = ObjectTable::parse(&image[at..at + PAGE], at as u64).unwrap();
        let mut found = Vec::new();
        Judge { image: &image, resolver, objects }.names(0x600, "", &mut found);
        found.sort();
        expected.sort();
        assert!(found.len() > 3000);
        assert_eq!(found, expected, "{volume:?}");
    }
}

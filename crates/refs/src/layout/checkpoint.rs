//! The checkpoint: one page that refers to the roots that make up the volume. It is written to two places alternately,
//! and the one with the higher clock counts.
//!
//! Source: forefst `docs/structures/chkp.md` and libfsrefs' documentation, which agree once two lengths are added up:
//! the roots are found through a list of 4-byte offsets, which stands at 0x94 or, from 3.14 on, at an offset that is
//! stored there; after it, on the next 16 bytes, comes the page's own reference, and then the roots'.

use super::bytes::FieldAt;
use super::page::{self, PageHeader, SealFields};
use super::{Algorithm, PageReference, Version};
use platter_vfs::{Error, Result};

/// The number of roots in a checkpoint.
pub const ROOTS: usize = 13;

/// The roots, in the order of the checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Root {
    /// Objects by number.
    Objects = 0,
    /// Free clusters for files and most metadata.
    MediumAllocator = 1,
    /// Free clusters for the allocators' own pages.
    ContainerAllocator = 2,
    /// The schemas: how each kind of table orders its keys.
    Schemas = 3,
    /// For each directory, the directory above it.
    ParentChild = 4,
    /// Second copy of the object table.
    ObjectsCopy = 5,
    /// Reference counts of clusters that several files share.
    References = 6,
    /// The container table: where each container lies.
    Containers = 7,
    /// Second copy of the container table.
    ContainersCopy = 8,
    /// Second copy of the schema table.
    SchemasCopy = 9,
    /// The container index: containers by state; empty on an unmounted volume.
    ContainerIndex = 10,
    /// The integrity state of ranges of clusters.
    IntegrityState = 11,
    /// Free clusters for the container tables and for this allocator's own pages.
    SmallAllocator = 12,
}

impl Root {
    /// All roots, in the order of the checkpoint.
    pub const ALL: [Root; ROOTS] = [
        Root::Objects,
        Root::MediumAllocator,
        Root::ContainerAllocator,
        Root::Schemas,
        Root::ParentChild,
        Root::ObjectsCopy,
        Root::References,
        Root::Containers,
        Root::ContainersCopy,
        Root::SchemasCopy,
        Root::ContainerIndex,
        Root::IntegrityState,
        Root::SmallAllocator,
    ];

    /// The table's number, which stands in the header of each of its pages.
    pub fn table(self) -> u64 {
        [0x02, 0x21, 0x20, 0x01, 0x03, 0x04, 0x05, 0x0B, 0x0C, 0x06, 0x0E, 0x0F, 0x22][self as usize]
    }

    /// The table's schema.
    pub fn schema(self) -> u32 {
        let schemas = [
            0xE030, 0xE010, 0xE010, 0xE060, 0xE040, 0xE030, 0xE0B0, 0xE0C0, 0xE0C0, 0xE060, 0xE100, 0xE080,
            0xE010,
        ];
        schemas[self as usize]
    }

    /// Whether the table's pages are addressed by real cluster numbers: such tables are needed before the container
    /// table can translate virtual ones.
    pub fn is_real(self) -> bool {
        matches!(self, Root::Containers | Root::ContainersCopy | Root::SmallAllocator)
    }

    /// The table's name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Root::Objects => "object table",
            Root::MediumAllocator => "medium allocator",
            Root::ContainerAllocator => "container allocator",
            Root::Schemas => "schema table",
            Root::ParentChild => "parent-child table",
            Root::ObjectsCopy => "object table (copy)",
            Root::References => "block reference count table",
            Root::Containers => "container table",
            Root::ContainersCopy => "container table (copy)",
            Root::SchemasCopy => "schema table (copy)",
            Root::ContainerIndex => "container index",
            Root::IntegrityState => "integrity state table",
            Root::SmallAllocator => "small allocator",
        }
    }
}

/// A checkpoint, as its page holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// The version of the format, from 0x54; with `echo` the page repeats it at 0x50.
    pub version: Version,
    /// Whether 0x50 repeats the version: on volumes made as 3.10 or later.
    pub echo: bool,
    /// The number of this checkpoint: each has a higher one than the one before.
    pub clock: u64,
    /// The clock of the last change of an allocator.
    pub allocator_clock: u64,
    /// The oldest record of the log that is still needed.
    pub log: u64,
    /// 0x002 always, 0x080 made as 3.10 or later, 0x200 offsets found through a pointer, 0x400 checksums are verified.
    pub flags: u32,
    /// Where the list of the roots' offsets stands and where the page's own reference stands, in bytes from the start
    /// of the page.
    pub places: (usize, usize),
    /// Bytes of a page reference on this volume.
    pub reference: usize,
    /// The references to the roots' pages, in the order of [`Root`].
    pub roots: [PageReference; ROOTS],
}

impl Checkpoint {
    /// Flag: the roots' offsets are found through a pointer.
    pub const INDIRECT: u32 = 0x200;
    /// Flag of every checkpoint.
    const ALWAYS: u32 = 0x002;
    /// Flag: the volume was made as 3.10 or later, and not as an older one that Windows has upgraded.
    const NATIVE: u32 = 0x080;
    /// Flag: checksums of pages are verified.
    pub const VERIFIED: u32 = 0x400;
    const KNOWN: u32 = Checkpoint::ALWAYS | Checkpoint::NATIVE | Checkpoint::INDIRECT | Checkpoint::VERIFIED;
    /// The version of the format to which all writers keep; 0 where nothing was verified.
    pub const ECHO: FieldAt<u32> = FieldAt::new(0x50);
    /// The version of the format.
    pub const VERSION: FieldAt<u32> = FieldAt::new(0x54);
    /// Where the checkpoint's reference to itself is.
    pub const SEAL: SealFields = SealFields { place: FieldAt::new(0x58), length: FieldAt::new(0x5C) };
    /// The clock, as in the page header.
    pub const CLOCK: FieldAt<u64> = FieldAt::new(0x60);
    /// The clock of the allocators.
    pub const ALLOCATOR_CLOCK: FieldAt<u64> = FieldAt::new(0x68);
    /// The sequence number of the oldest record of the log that is needed.
    pub const LOG: FieldAt<u64> = FieldAt::new(0x70);
    /// The flags.
    pub const FLAGS: FieldAt<u32> = FieldAt::new(0x78);
    /// Where the last root's reference ends.
    pub const END: FieldAt<u32> = FieldAt::new(0x88);
    /// A word that is 32 in every checkpoint.
    pub const WORD: FieldAt<u32> = FieldAt::new(0x8C);
    /// The number of roots.
    pub const COUNT: FieldAt<u32> = FieldAt::new(0x90);
    /// Where the list of the roots' places is, with the flag [`Checkpoint::INDIRECT`].
    pub const LIST: FieldAt<u32> = FieldAt::new(Checkpoint::FIXED);
    /// The place of a root, from its place in the list.
    const ROOT: FieldAt<u32> = FieldAt::new(0x00);
    /// Where the list of the roots' places is without the flag.
    const FIXED: usize = 0x94;
    const INDIRECT_LIST: usize = 0xA8;

    /// Reads the checkpoint at `cluster` from its page. `at` is its place on the device.
    pub fn from_bytes(
        bytes: &[u8],
        cluster: u64,
        cluster_size: usize,
        volume: u32,
        at: u64,
    ) -> Result<Checkpoint> {
        let header = PageHeader::from_bytes(bytes);
        if header.signature != page::CHECKPOINT {
            return Err(Error::damaged("checkpoint", at, "CHKP", String::from_utf8_lossy(&header.signature)));
        }
        page::check_seal(bytes, cluster_size, "checkpoint checksum", Checkpoint::SEAL, at)?;
        if header.clusters[0] != cluster {
            return Err(Error::damaged(
                "checkpoint's own cluster",
                at + PageHeader::CLUSTER.at() as u64,
                cluster,
                header.clusters[0],
            ));
        }
        if header.volume != volume {
            let (expected, found) = (format!("{volume:#010x}"), format!("{:#010x}", header.volume));
            return Err(Error::damaged(
                "checkpoint's volume signature",
                at + PageHeader::VOLUME.at() as u64,
                expected,
                found,
            ));
        }
        let reference = Checkpoint::SEAL.length.of(bytes) as usize;
        if !matches!(reference, 0x30 | 0x48 | 0x68) {
            return Err(Error::damaged(
                "size of page references",
                at + Checkpoint::SEAL.length.at() as u64,
                "0x30, 0x48 or 0x68",
                format!("{reference:#x}"),
            ));
        }
        let count = Checkpoint::COUNT.of(bytes);
        if count as usize != ROOTS {
            return Err(Error::damaged("number of roots", at + Checkpoint::COUNT.at() as u64, ROOTS, count));
        }
        let flags = Checkpoint::FLAGS.of(bytes);
        let list = match flags & Checkpoint::INDIRECT {
            0 => Checkpoint::FIXED,
            _ => Checkpoint::LIST.of(bytes) as usize,
        };
        let mut roots = [PageReference { clusters: [0; 4], checksum: super::Checksum::NONE }; ROOTS];
        for (index, root) in roots.iter_mut().enumerate() {
            let field = list.saturating_add(Checkpoint::place_of(index));
            let offset = Checkpoint::ROOT.within(field).of(bytes) as usize;
            let Some(stored) = bytes[..cluster_size].get(offset..offset.saturating_add(reference)) else {
                return Err(Error::damaged(
                    "offset of a root",
                    at + field as u64,
                    "inside the checkpoint",
                    format!("{offset:#x}"),
                ));
            };
            *root = PageReference::from_bytes(stored, at + offset as u64)?;
        }
        Ok(Checkpoint {
            version: Checkpoint::version_of(Checkpoint::VERSION.of(bytes)),
            echo: Checkpoint::ECHO.of(bytes) != 0,
            clock: Checkpoint::CLOCK.of(bytes),
            allocator_clock: Checkpoint::ALLOCATOR_CLOCK.of(bytes),
            log: Checkpoint::LOG.of(bytes),
            flags,
            places: (list, Checkpoint::SEAL.place.of(bytes) as usize),
            reference,
            roots,
        })
    }

    /// Returns a reason if the checkpoint has flags or a layout that are not known: then no changed one can be written.
    /// An Insider build of Windows (29574) sets the flag 0x2000 and has the list at 0xB0 and the reference at 0xE8.
    pub fn unknown(&self) -> Option<String> {
        let flags = self.flags & !Checkpoint::KNOWN;
        if flags != 0 {
            return Some(format!("its flags {:#x} are not known", flags));
        }
        let expected = Checkpoint::places(self.flags);
        (self.places != expected).then(|| {
            let ((list, own), found) = (expected, self.places);
            format!("its list of roots and its own reference stand at {:#x} and {:#x}, where {list:#x} and {own:#x} are known", found.0, found.1)
        })
    }

    /// The offset of a root's place from the beginning of the list.
    fn place_of(index: usize) -> usize {
        4 * index
    }

    /// Stores the offset of a root in the list.
    pub fn put_place(bytes: &mut [u8], list: usize, index: usize, offset: usize) {
        Checkpoint::ROOT.within(list + Checkpoint::place_of(index)).put(bytes, offset as u32);
    }

    /// Where a list of the places of all roots ends.
    pub fn list_end(list: usize) -> usize {
        list + Checkpoint::place_of(ROOTS)
    }

    /// A version as the words of [`Checkpoint::VERSION`] have it.
    pub fn version_word(version: Version) -> u32 {
        u32::from(version.major) | u32::from(version.minor) << 16
    }

    fn version_of(word: u32) -> Version {
        Version { major: word as u8, minor: (word >> 16) as u8 }
    }

    /// Where the list of roots and the page's own reference stand under these flags, as far as is known.
    pub fn places(flags: u32) -> (usize, usize) {
        let list =
            if flags & Checkpoint::INDIRECT != 0 { Checkpoint::INDIRECT_LIST } else { Checkpoint::FIXED };
        (list, Checkpoint::list_end(list).next_multiple_of(16))
    }

    /// The flags of a new volume.
    pub fn flags(version: Version, is_verified: bool) -> u32 {
        match (version >= Version::V3_14, is_verified) {
            (false, _) => Checkpoint::ALWAYS,
            (true, false) => Checkpoint::ALWAYS | Checkpoint::INDIRECT,
            (true, true) => {
                Checkpoint::ALWAYS | Checkpoint::NATIVE | Checkpoint::INDIRECT | Checkpoint::VERIFIED
            }
        }
    }

    /// Returns the page to write at `cluster`. `geometry` is the size of a cluster and of a page in bytes.
    pub fn to_bytes(
        &self,
        cluster: u64,
        volume: u32,
        geometry: (usize, usize),
        algorithm: Algorithm,
    ) -> Vec<u8> {
        let (cluster_size, page_size) = geometry;
        let mut bytes = vec![0; page_size];
        let header = PageHeader {
            signature: page::CHECKPOINT,
            volume,
            clock: self.clock,
            tree_clock: 0,
            clusters: [cluster, 0, 0, 0],
            table: 0,
        };
        header.store(&mut bytes);
        let version = Checkpoint::version_word(self.version);
        if self.echo {
            Checkpoint::ECHO.put(&mut bytes, version);
        }
        Checkpoint::VERSION.put(&mut bytes, version);
        let (list, own) = Checkpoint::places(self.flags);
        if self.flags & Checkpoint::INDIRECT != 0 {
            Checkpoint::LIST.put(&mut bytes, list as u32);
        }
        let first = own + self.reference;
        Checkpoint::SEAL.place.put(&mut bytes, own as u32);
        Checkpoint::SEAL.length.put(&mut bytes, self.reference as u32);
        Checkpoint::CLOCK.put(&mut bytes, self.clock);
        Checkpoint::ALLOCATOR_CLOCK.put(&mut bytes, self.allocator_clock);
        Checkpoint::LOG.put(&mut bytes, self.log);
        Checkpoint::FLAGS.put(&mut bytes, self.flags);
        Checkpoint::END.put(&mut bytes, (first + ROOTS * self.reference) as u32);
        Checkpoint::WORD.put(&mut bytes, 32);
        Checkpoint::COUNT.put(&mut bytes, ROOTS as u32);
        for (index, root) in self.roots.iter().enumerate() {
            let offset = first + index * self.reference;
            Checkpoint::put_place(&mut bytes, list, index, offset);
            root.store(&mut bytes[offset..offset + self.reference]);
        }
        page::seal(&mut bytes, own..own + self.reference, cluster_size, algorithm, cluster);
        bytes
    }
}

const _: () =
    assert!(Checkpoint::COUNT.end() == Checkpoint::FIXED, "the list, or where it is, follows the fields");
const _: () =
    assert!(Checkpoint::LIST.end() <= Checkpoint::INDIRECT_LIST, "the list is behind where its place stands");

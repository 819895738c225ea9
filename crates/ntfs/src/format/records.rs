//! The system files of a new volume.

use super::measures::{Measures, Piece};
use crate::layout::index::{IndexBlock, collation, last_entry, name_entry, vcn_unit, view_entry};
use crate::layout::runs::{Run, pack};
use crate::layout::{
    Attribute, AttributeContent, Definition, DescriptorHeader, FileName, FileTime, Kind, NonResident, Record,
    Reference, StandardExtended, StandardInformation, VolumeInformation, definitions, descriptor_hash,
    file_flags, index, namespace, record_flags, record_number,
};
use platter_vfs::security::{Ace, Sid, descriptor, directory_descriptor, file_descriptor};
use platter_vfs::windows_upper;

/// The numbers of the security descriptors on a new volume.
pub mod security {
    /// The descriptor of system files that nobody changes: reading for the system and Administrators.
    pub const SYSTEM: u32 = 0x100;
    /// The descriptor of other system files: reading and writing for the system and Administrators.
    pub const SYSTEM_WRITABLE: u32 = 0x101;
    /// The descriptor of the root and new directories.
    pub const DIRECTORY: u32 = 0x102;
    /// The descriptor of new files.
    pub const FILE: u32 = 0x103;
}

/// The name of the root directory in its own index.
const ROOT_NAME: &str = ".";

/// The content of a new volume.
pub(super) struct New<'a> {
    pub measures: &'a Measures,
    pub label: &'a [u16],
    pub time: FileTime,
    /// Whether new files in the root are compressed.
    pub compress: bool,
}

/// A system file.
struct System {
    number: u64,
    name: &'static str,
    parent: u64,
    flags: u32,
    security: u32,
    attributes: Vec<Attribute>,
}

/// The descriptors of a new volume, by their numbers from [`security::SYSTEM`] on.
fn descriptor_list() -> [Vec<u8>; 4] {
    let system = |mask| {
        let entries =
            [Sid::SYSTEM, Sid::ADMINISTRATORS].map(|trustee| Ace { flags: Ace::HERE, mask, trustee });
        descriptor(Sid::SYSTEM, Sid::ADMINISTRATORS, &entries)
    };
    // Access masks: reading; and reading and writing without changing the rights.
    [system(0x0012_0089), system(0x0012_019F), directory_descriptor(), file_descriptor()]
}

/// Bytes of `$AttrDef`: its rows, and an empty one at the end.
pub(super) fn definitions_bytes() -> u64 {
    ((definitions().len() + 1) * Definition::LENGTH) as u64
}

/// The headers of these descriptors.
fn headers() -> Vec<DescriptorHeader> {
    let mut offset = 0u64;
    descriptor_list()
        .iter()
        .zip(DescriptorHeader::FIRST_ID..)
        .map(|(descriptor, id)| {
            let length = (DescriptorHeader::LENGTH + descriptor.len()) as u32;
            let header = DescriptorHeader { hash: descriptor_hash(descriptor), id, offset, length };
            offset = (offset + u64::from(length)).next_multiple_of(DescriptorHeader::ALIGN);
            header
        })
        .collect()
}

/// The content of `$SDS`.
pub(super) fn descriptors() -> Vec<u8> {
    let mut stream = Vec::new();
    for (header, descriptor) in headers().iter().zip(descriptor_list()) {
        stream.resize(header.offset as usize, 0);
        stream.extend(header.to_bytes());
        stream.extend(descriptor);
    }
    let copy = stream.clone();
    stream.resize(DescriptorHeader::BLOCK as usize, 0);
    stream.extend(copy);
    stream
}

/// An attribute with one run of clusters, valid as a whole.
fn placed(kind: Kind, name: &str, piece: &Piece, size: u64, cluster: u64) -> Attribute {
    let run = Run { vcn: 0, lcn: Some(piece.start), length: piece.length };
    non_resident(kind, name, &run, size, size, cluster)
}

fn non_resident(kind: Kind, name: &str, run: &Run, size: u64, valid: u64, cluster: u64) -> Attribute {
    let data = NonResident {
        first: 0,
        end: run.length,
        unit: 0,
        allocated: run.length * cluster,
        size,
        valid,
        taken: None,
        pairs: pack(std::slice::from_ref(run), usize::MAX).0,
    };
    Attribute {
        content: AttributeContent::NonResident(data),
        ..Attribute::resident(kind, Vec::new()).named(name)
    }
}

/// An index whose entries, in their order, fit into the record.
fn small_index(name: &str, rule: u32, measures: &Measures, entries: &[Vec<u8>]) -> Attribute {
    let kind = if rule == collation::FILE_NAME { Kind::FILE_NAME } else { Kind(0) };
    let mut root = index::IndexRoot::new(kind, rule, measures.index, measures.cluster);
    root.node.entries = [entries.concat(), last_entry(None)].concat();
    Attribute::resident(Kind::INDEX_ROOT, root.to_bytes()).named(name)
}

impl New<'_> {
    /// The records of `$MFT`, unused ones included.
    pub(super) fn records(&self) -> Vec<Record> {
        let count = self.measures.record_count();
        let mut records: Vec<Record> = (0..count).map(|number| self.unused(number)).collect();
        for system in self.systems() {
            records[system.number as usize] = self.record(&system);
        }
        records
    }

    /// The content of all structures in clusters, except records, `$Bitmap` and the log.
    pub(super) fn contents(&self) -> Vec<(&Piece, Vec<u8>)> {
        let measures = self.measures;
        let mut taken = vec![0u8; measures.records_bytes() as usize];
        // Unlike in `$Bitmap`, the bits behind the last one in use are clear: `$MFT` grows into them.
        for number in (0..measures.record_count()).filter(|&number| is_taken(number)) {
            taken[(number / 8) as usize] |= 1 << (number % 8);
        }
        let mut table: Vec<u8> = definitions().iter().flat_map(|definition| definition.to_bytes()).collect();
        table.resize(definitions_bytes() as usize, 0);
        let upcase: Vec<u8> = (0..=u16::MAX).flat_map(|unit| windows_upper(unit).to_le_bytes()).collect();
        vec![
            (&measures.records, taken),
            (&measures.definitions, table),
            (&measures.upcase, upcase),
            (&measures.descriptors, descriptors()),
            (&measures.root, self.root_block()),
        ]
    }

    /// A record without a file. The reserved ones are marked as in use, so that nobody takes them.
    fn unused(&self, number: u64) -> Record {
        let mut record = Record::new(number);
        // Reserved records have their number as sequence number, as the system files have.
        record.sequence = if number < record_number::FIRST_FREE { number.max(1) as u16 } else { 1 };
        if (record_number::EXTEND + 1..16).contains(&number) {
            record.flags = record_flags::IN_USE;
            record.add(self.standard(file_flags::HIDDEN | file_flags::SYSTEM, security::SYSTEM_WRITABLE));
            record.add(Attribute::resident(Kind::DATA, Vec::new()));
        }
        record
    }

    fn standard(&self, flags: u32, security: u32) -> Attribute {
        let time = self.time;
        let information = StandardInformation {
            created: time,
            modified: time,
            changed: time,
            accessed: time,
            flags,
            versions: 0,
            version: 0,
            class: 0,
            extended: Some(StandardExtended { owner: 0, security, charged: 0, usn: 0 }),
        };
        Attribute::resident(Kind::STANDARD_INFORMATION, information.to_bytes())
    }

    /// The name of a system file, with the sizes of its data.
    fn file_name(&self, system: &System) -> FileName {
        let time = self.time;
        let data = system.attributes.iter().find(|it| it.kind == Kind::DATA && it.name.is_empty());
        let (allocated, size) = match data.map(|data| &data.content) {
            Some(AttributeContent::NonResident(data)) => (data.allocated, data.size),
            Some(AttributeContent::Resident { value, .. }) => {
                (value.len().next_multiple_of(8) as u64, value.len() as u64)
            }
            None => (0, 0),
        };
        FileName {
            parent: life(system.parent),
            created: time,
            modified: time,
            changed: time,
            accessed: time,
            allocated,
            size,
            flags: system.flags,
            tag: 0,
            namespace: namespace::WIN32_AND_DOS,
            name: system.name.encode_utf16().collect(),
        }
    }

    fn record(&self, system: &System) -> Record {
        let mut record = Record::new(system.number);
        record.sequence = life(system.number).sequence();
        record.links = 1;
        record.flags = record_flags::IN_USE;
        for (flag, bit) in [
            (file_flags::DIRECTORY, record_flags::DIRECTORY),
            (file_flags::VIEW_INDEX, record_flags::VIEW_INDEX),
        ] {
            if system.flags & flag != 0 {
                record.flags |= bit;
            }
        }
        if system.parent == record_number::EXTEND {
            record.flags |= record_flags::EXTEND;
        }
        // The flag of a directory is in its name only.
        let mut flags = system.flags & !file_flags::DIRECTORY;
        if system.number == record_number::ROOT && self.compress {
            flags |= file_flags::COMPRESSED;
        }
        record.add(self.standard(flags, system.security));
        let name = self.file_name(system).to_bytes();
        let content = AttributeContent::Resident { value: name, indexed: true };
        record.add(Attribute { content, ..Attribute::resident(Kind::FILE_NAME, Vec::new()) });
        for attribute in &system.attributes {
            record.add(attribute.clone());
        }
        record
    }

    /// All system files that have a name.
    fn systems(&self) -> Vec<System> {
        let measures = self.measures;
        let cluster = measures.cluster;
        let usual = file_flags::HIDDEN | file_flags::SYSTEM;
        let data = |piece: &Piece, size| placed(Kind::DATA, "", piece, size, cluster);
        let whole = |piece: &Piece| data(piece, piece.length * cluster);
        let root = |number, name, attributes| {
            let security = match number {
                record_number::VOLUME => security::SYSTEM_WRITABLE,
                _ => security::SYSTEM,
            };
            System { number, name, parent: record_number::ROOT, flags: usual, security, attributes }
        };
        let mut volume = vec![
            Attribute::resident(
                Kind::VOLUME_INFORMATION,
                VolumeInformation { version: (3, 1), flags: 0 }.to_bytes(),
            ),
            Attribute::resident(Kind::DATA, Vec::new()),
        ];
        if !self.label.is_empty() {
            let label = self.label.iter().flat_map(|unit| unit.to_le_bytes()).collect();
            volume.push(Attribute::resident(Kind::VOLUME_NAME, label));
        }
        let bad = Run { vcn: 0, lcn: None, length: measures.clusters };
        let mut systems = vec![
            root(
                record_number::MFT,
                "$MFT",
                vec![
                    whole(&measures.mft),
                    placed(Kind::BITMAP, "", &measures.records, measures.records_bytes(), cluster),
                ],
            ),
            root(
                record_number::MFT_MIRROR,
                "$MFTMirr",
                vec![data(&measures.mirror, measures.mirrored() * u64::from(measures.record))],
            ),
            root(record_number::LOG_FILE, "$LogFile", vec![whole(&measures.log)]),
            root(record_number::VOLUME, "$Volume", volume),
            root(
                record_number::ATTRIBUTE_DEFINITIONS,
                "$AttrDef",
                vec![data(&measures.definitions, definitions_bytes())],
            ),
            root(record_number::BITMAP, "$Bitmap", vec![data(&measures.bitmap, measures.bitmap_bytes())]),
            root(record_number::BOOT, "$Boot", vec![data(&measures.boot, 8192)]),
            root(
                record_number::BAD_CLUSTERS,
                "$BadClus",
                vec![
                    Attribute::resident(Kind::DATA, Vec::new()),
                    non_resident(Kind::DATA, "$Bad", &bad, measures.clusters * cluster, 0, cluster),
                ],
            ),
            root(record_number::UPCASE, "$UpCase", vec![data(&measures.upcase, 2 << 16)]),
            System {
                number: record_number::SECURE,
                flags: usual | file_flags::VIEW_INDEX,
                security: security::SYSTEM_WRITABLE,
                ..root(record_number::SECURE, "$Secure", self.secure())
            },
            System {
                flags: usual | file_flags::DIRECTORY,
                security: security::DIRECTORY,
                ..root(record_number::ROOT, ROOT_NAME, self.root_index())
            },
        ];
        let views = self.views();
        let mut entries: Vec<(&str, Vec<u8>)> = views
            .iter()
            .map(|view| (view.name, name_entry(life(view.number), &self.file_name(view).to_bytes())))
            .collect();
        entries.sort_by_key(|entry| entry.0);
        let entries: Vec<Vec<u8>> = entries.into_iter().map(|entry| entry.1).collect();
        systems.push(System {
            flags: usual | file_flags::DIRECTORY,
            security: security::SYSTEM_WRITABLE,
            ..root(
                record_number::EXTEND,
                "$Extend",
                vec![small_index("$I30", collation::FILE_NAME, measures, &entries)],
            )
        });
        systems.extend(views);
        systems
    }

    /// The files in `$Extend`.
    fn views(&self) -> [System; 3] {
        let index = |name, rule, entries: &[Vec<u8>]| small_index(name, rule, self.measures, entries);
        let view = |number, name, attributes| System {
            number,
            name,
            parent: record_number::EXTEND,
            flags: file_flags::HIDDEN | file_flags::SYSTEM | file_flags::VIEW_INDEX,
            security: security::SYSTEM_WRITABLE,
            attributes,
        };
        let administrators = Sid::ADMINISTRATORS.bytes();
        let owner = 0x100u32.to_le_bytes();
        let quota = vec![
            index("$O", collation::SID, &[view_entry(&administrators, &owner)]),
            index(
                "$Q",
                collation::NUMBER,
                &[
                    view_entry(&1u32.to_le_bytes(), &self.quota(&[])),
                    view_entry(&owner, &self.quota(&administrators)),
                ],
            ),
        ];
        let first = record_number::FIRST_FREE;
        [
            view(first, "$Quota", quota),
            view(first + 1, "$ObjId", vec![index("$O", collation::NUMBERS, &[])]),
            view(first + 2, "$Reparse", vec![index("$R", collation::NUMBERS, &[])]),
        ]
    }

    /// An entry of `$Quota` that limits nothing.
    fn quota(&self, owner: &[u8]) -> Vec<u8> {
        let mut row = Vec::from(2u32.to_le_bytes()); // version
        row.extend(1u32.to_le_bytes()); // the default limits hold
        row.extend(0u64.to_le_bytes()); // bytes used
        row.extend(self.time.0.to_le_bytes());
        row.extend([u64::MAX; 2].map(u64::to_le_bytes).concat()); // warning and limit
        row.extend(0u64.to_le_bytes()); // exceeded since
        row.extend(owner);
        row
    }

    fn secure(&self) -> Vec<Attribute> {
        let measures = self.measures;
        let headers = headers();
        let by_id: Vec<Vec<u8>> = headers.iter().map(DescriptorHeader::id_entry).collect();
        let mut sorted = headers.clone();
        sorted.sort_by_key(|header| (header.hash, header.id));
        let by_hash: Vec<Vec<u8>> = sorted.iter().map(DescriptorHeader::hash_entry).collect();
        vec![
            placed(Kind::DATA, "$SDS", &measures.descriptors, descriptors().len() as u64, measures.cluster),
            small_index("$SDH", collation::SECURITY_HASH, measures, &by_hash),
            small_index("$SII", collation::NUMBER, measures, &by_id),
        ]
    }

    /// The root directory's index: one block.
    fn root_index(&self) -> Vec<Attribute> {
        let measures = self.measures;
        let mut root =
            index::IndexRoot::new(Kind::FILE_NAME, collation::FILE_NAME, measures.index, measures.cluster);
        root.node.entries = last_entry(Some(0));
        let size = u64::from(measures.index).next_multiple_of(vcn_unit(measures.index, measures.cluster));
        vec![
            Attribute::resident(Kind::INDEX_ROOT, root.to_bytes()).named("$I30"),
            placed(Kind::INDEX_ALLOCATION, "$I30", &measures.root, size, measures.cluster),
            Attribute::resident(Kind::BITMAP, 1u64.to_le_bytes().to_vec()).named("$I30"),
        ]
    }

    /// The block of the root directory's index.
    fn root_block(&self) -> Vec<u8> {
        let mut entries: Vec<(Vec<u16>, Vec<u8>)> = self
            .systems()
            .iter()
            .filter(|system| system.parent == record_number::ROOT)
            .map(|system| {
                let name = system.name.encode_utf16().map(windows_upper).collect();
                (name, name_entry(life(system.number), &self.file_name(system).to_bytes()))
            })
            .collect();
        entries.sort();
        let mut node = index::IndexNode::empty();
        node.entries = entries.into_iter().flat_map(|entry| entry.1).chain(last_entry(None)).collect();
        let block = IndexBlock { lsn: 0, vcn: 0, update: 1, node };
        let mut bytes = block.to_bytes(self.measures.index).unwrap_or_default();
        crate::layout::fixup::apply(&mut bytes);
        bytes
    }
}

/// Whether a record of a new volume is marked as taken.
fn is_taken(number: u64) -> bool {
    !(16..record_number::FIRST_FREE).contains(&number) && number < record_number::FIRST_FREE + 3
}

/// The reference to a system file: its sequence number is its record number if that is reserved, else 1.
fn life(number: u64) -> Reference {
    let sequence = if number < record_number::FIRST_FREE { number.max(1) } else { 1 };
    Reference::new(number, sequence as u16)
}

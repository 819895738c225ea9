//! Structures that Windows wrote are read and written back: nothing may be lost, and checksums must be the same.
//!
//! `tests/data/README.md` says where the bytes come from. Six further pages of the same volume are known only by their
//! checksums in its object table; the pages that are built here for them must have these checksums.

use crate::layout::bytes::{put, u16_at, u32_at, u64_at};
use crate::layout::node::{NODE_HEADER, ROOT};
use crate::layout::page::{HEADER, NODE, volume_signature};
use crate::layout::record::key;
use crate::layout::system::{LogArea, directory_descriptor, security_row, system_descriptor};
use crate::layout::tree_header;
use crate::layout::{
    Algorithm, BootRecord, ContainerRow, ObjectRow, PageHeader, PageReference, Record, Row, Superblock,
    TreeNode, TreeNodeMut, Version,
};
use crate::pages::Page;

const BOOT_RECORD: &[u8; BootRecord::SIZE] = include_bytes!("../../tests/data/boot_record.bin");
const SUPERBLOCK: &[u8; 4096] = include_bytes!("../../tests/data/superblock.bin");
const OBJECTS: &[u8; PAGE] = include_bytes!("../../tests/data/object_table.bin");
const DIRECTORY: &[u8; PAGE] = include_bytes!("../../tests/data/directory_0x600.bin");
const CONTAINERS: &[u8; PAGE] = include_bytes!("../../tests/data/container_table_leaf.bin");

const PAGE: usize = 16 << 10;
/// Bytes of a page reference with CRC-64.
const REFERENCE: usize = 48;
/// The volume signature of the three pages.
const VOLUME: u32 = 0x936E_6F4C;

#[test]
fn boot_record() {
    let boot = BootRecord::from_bytes(BOOT_RECORD, 0).unwrap();
    assert_eq!((boot.version, boot.cluster(), boot.container), (Version::V3_14, 4096, 64 << 20));
    assert_eq!((boot.sectors, boot.serial, boot.checksum), (125_698_048, 0x4E32_FC44_32FC_3317, 2));
    assert_eq!(boot.to_bytes(), *BOOT_RECORD);
    for at in 0..BOOT_RECORD.len() {
        let mut damaged = *BOOT_RECORD;
        damaged[at] ^= 4;
        assert!(at < 3 || BootRecord::from_bytes(&damaged, 0).is_err(), "byte {at:#x}");
    }
}

#[test]
fn superblock() {
    let superblock = Superblock::from_bytes(SUPERBLOCK, Superblock::CLUSTER, 0x1E000).unwrap();
    assert_eq!(volume_signature(&superblock.guid), 0xF890_EC89);
    assert_eq!((superblock.generation, superblock.checkpoints), (1, [0x265E4, 0x1C_C53C]));
    assert_eq!(superblock.to_bytes(Superblock::CLUSTER, 4096, REFERENCE, Algorithm::Crc32c), SUPERBLOCK);
    for at in 0..SUPERBLOCK.len() {
        let mut damaged = *SUPERBLOCK;
        damaged[at] ^= 4;
        // The superblock's checksum does not cover its own descriptor, in which the numbers of clusters are not checked
        // either.
        let covered = !(0xD0..0xF2).contains(&at) && !(0xFC..0x100).contains(&at);
        assert!(
            !covered || Superblock::from_bytes(&damaged, Superblock::CLUSTER, 0).is_err(),
            "byte {at:#x}"
        );
    }
}

/// Builds a page again through the types of the layout, row by row in the order in which the rows stand in the page.
fn rebuilt(page: &[u8]) -> Vec<u8> {
    let start = HEADER + u32_at(page, HEADER) as usize;
    let area = &page[start..];
    TreeNode::check(area).unwrap();
    let node = TreeNode::new(area);
    let mut again = Page::with_header(page.len(), &page[HEADER..start], node.level(), node.flags());
    let mut places: Vec<(usize, usize)> = (0..node.len()).map(|index| (node.offset(index), index)).collect();
    places.sort();
    let mut there: Vec<usize> = Vec::new();
    let (mut at, mut gaps) = (NODE_HEADER, Vec::new());
    for (place, index) in places {
        if place > at {
            // A row was removed here: a row of its size, without key, is inserted now and removed in the end.
            let gap = vec![0; place - at - 16];
            assert!(again.node_mut().insert(0, &[], 0, &gap));
            there.insert(0, usize::MAX);
            gaps.push(at..place);
        }
        let before = there.iter().filter(|&&other| other == usize::MAX || other < index).count();
        let row = node.row(index);
        assert!(again.node_mut().insert(before, row.key, row.flags, row.value));
        there.insert(before, index);
        at = place + u32_at(area, place) as usize;
    }
    gaps.iter().for_each(|_| again.node_mut().remove(0));
    let mut bytes = again.bytes().to_vec();
    PageHeader::from_bytes(page).store(&mut bytes);
    // Bytes of earlier rows and indices have no meaning, but the checksum covers them. A gap after the last row has
    // such bytes too: Windows leaves the end of the data area where it was, while here it moves back.
    let index = start + u32_at(area, 0x10) as usize;
    bytes[start + at..index].copy_from_slice(&page[start + at..index]);
    put(&mut bytes, start + 4, u32_at(area, 4));
    for gap in gaps {
        let gap = start + gap.start..start + gap.end;
        bytes[gap.clone()].copy_from_slice(&page[gap]);
    }
    bytes
}

#[test]
fn pages_rebuilt_row_by_row_are_the_same() {
    for (name, page) in [("objects", OBJECTS), ("directory", DIRECTORY), ("containers", CONTAINERS)] {
        let again = rebuilt(page);
        let differs: Vec<usize> = (0..PAGE).filter(|&at| again[at] != page[at]).collect();
        assert_eq!(differs, [0; 0], "{name}");
    }
}

fn rows(page: &'static [u8; PAGE]) -> impl Iterator<Item = Row<'static>> {
    TreeNode::new(&page[HEADER + u32_at(page, HEADER) as usize..]).rows()
}

#[test]
fn object_rows() {
    assert_eq!(PageHeader::from_bytes(OBJECTS).volume, VOLUME);
    assert_eq!(rows(OBJECTS).count(), 12);
    for row in rows(OBJECTS) {
        let object = ObjectRow::from_bytes(row.value, 0).unwrap();
        let number = u64_at(row.key, 8);
        assert_eq!(row.key, ObjectRow::key(number), "{number:#x}");
        assert_eq!(object.to_bytes(REFERENCE), row.value, "{number:#x}");
        let mut reference = [0; REFERENCE];
        object.root.store(&mut reference);
        assert_eq!(reference, row.value[0x20..][..REFERENCE], "{number:#x}");
    }
}

#[test]
fn container_rows() {
    let mut numbers = Vec::new();
    for row in rows(CONTAINERS) {
        let container = ContainerRow::from_bytes(row.value, 0).unwrap();
        assert_eq!(row.value[..ContainerRow::KEY], *row.key);
        assert_eq!((container.count, container.free), (16384, u64::MAX));
        assert_eq!(container.to_bytes(ContainerRow::size(4096, REFERENCE)), row.value, "{container:?}");
        numbers.push(container.number);
    }
    assert_eq!(numbers, (2..90).collect::<Vec<u64>>());
}

#[test]
fn the_directory_has_the_checksum_that_the_object_table_says() {
    let row = rows(OBJECTS).find(|row| u64_at(row.key, 8) == 0x600).unwrap();
    let object = ObjectRow::from_bytes(row.value, 0).unwrap();
    assert_eq!(object.root.checksum.bytes(), &OBJECTS[1672..1680]);
    assert!(object.root.checksum.matches(DIRECTORY));
    assert_eq!(object.root.clusters, PageHeader::from_bytes(DIRECTORY).clusters);
    for bit in (0..8 * PAGE).step_by(997) {
        let mut damaged = *DIRECTORY;
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert!(!object.root.checksum.matches(&damaged), "bit {bit}");
    }
}

#[test]
fn the_directory_s_own_record() {
    let row = rows(DIRECTORY).next().unwrap();
    assert_eq!((row.key, row.flags), (&key::OWN[..], Row::EMBEDDED));
    let record = Record::from_bytes(row.value, 0).unwrap();
    assert_eq!((record.schema, record.links, record.rows.len()), (0x1F0, 1, 2));
    assert_eq!(record.to_bytes(), row.value);
}

/// Builds a page of the volume from the fields of its header and its rows, each with the position in the index at which
/// it is inserted.
fn page(
    object: u64,
    first: u64,
    (clock, tree_clock): (u64, u64),
    (schema, extra, kind): (u32, usize, u16),
    rows: &[(usize, Vec<u8>, Vec<u8>)],
) -> Vec<u8> {
    let mut header = tree_header(schema, kind, &vec![0; extra]);
    put(&mut header, 0x20, rows.len() as u64);
    let mut page = Page::with_header(PAGE, &header, 0, ROOT);
    for (position, key, value) in rows {
        let mut node: TreeNodeMut<'_> = page.node_mut();
        assert!(node.insert(*position, key, 0, value));
    }
    let mut bytes = page.bytes().to_vec();
    let clusters = std::array::from_fn(|index| first + index as u64);
    let signature = NODE;
    PageHeader { signature, volume: VOLUME, clock, tree_clock, clusters, table: object }.store(&mut bytes);
    bytes
}

#[test]
fn pages_known_by_their_checksums() {
    let in_order = |rows: Vec<(Vec<u8>, Vec<u8>)>| -> Vec<(usize, Vec<u8>, Vec<u8>)> {
        rows.into_iter().enumerate().map(|(index, (key, value))| (index, key, value)).collect()
    };
    let log = in_order(LogArea { data: 0x28000..0x48000, control: [0x30, 0x31] }.rows());
    // Windows added the descriptor of directories first; that of the system has the smaller number.
    let security = [directory_descriptor(), system_descriptor()]
        .map(|descriptor| security_row(&descriptor))
        .map(|(key, value)| (0, key, value));
    let (logs, trash, descriptors, index) =
        ((0xE090, 0x48, 0), (0xE0D0, 0xC0, 0), (0x140, 0xC0, 1), (0x160, 0xC0, 1));
    for (object, first, clocks, table, rows, checksum) in [
        (0x9, 0x100A8, (0, 3), logs, &log[..], 0xFB9E_7ACC_554B_41F0u64),
        (0xA, 0x100A4, (0, 3), logs, &log, 0x86A9_EBDB_E831_1CFC),
        (0xD, 0x100AC, (0, 5), trash, &[], 0x9798_8AF6_8079_3358),
        (0x530, 0x10E04, (6, 5), descriptors, &security, 0x5809_C2B6_2A9E_127C),
        (0x540, 0x13204, (6, 6), index, &[], 0xB2F1_7DEB_28F5_15F9),
        (0x541, 0x13608, (6, 6), index, &[], 0x6D6A_7C55_6018_21A5),
    ] {
        let row = self::rows(OBJECTS).find(|row| u64_at(row.key, 8) == object).unwrap();
        let stored = ObjectRow::from_bytes(row.value, 0).unwrap().root;
        assert_eq!((stored.clusters[0], stored.checksum.bytes()), (first, &checksum.to_le_bytes()[..]));
        let built = page(object, first, clocks, table, rows);
        assert_eq!(Algorithm::Crc64.of(&built), stored.checksum, "object {object:#x}");
    }
}

#[test]
fn unknown_words_of_the_headers_are_as_they_are_written() {
    for page in [OBJECTS, DIRECTORY, CONTAINERS] {
        assert_eq!((u16_at(page, 4), u32_at(page, 8)), (2, 0));
        let mut again = *page;
        PageHeader::from_bytes(page).store(&mut again);
        assert_eq!(again, *page);
        assert!(PageReference::compact(Algorithm::Crc64) == REFERENCE);
    }
}

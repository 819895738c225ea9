//! Dynamic disks for tests, made from the documented layout: see [`disk_group`](crate::disk_group) for its source.

use std::ops::Range;

const SECTOR: usize = 512;
const HOST: &str = "06495a84-fbfd-11e1-8cf9-52540061f5db";
/// The sectors of a disk's data.
pub const DATA: u64 = 16_384;
/// The sector at which they begin.
pub const FIRST: u64 = 63;
/// The sectors of the private region.
const PRIVATE: u64 = 2048;
/// The sectors of the partition "LDM metadata" of a disk with a GPT, which is the private region.
pub const GPT_PRIVATE: Range<u64> = 34..34 + PRIVATE;
/// The sectors of its partition "LDM data".
pub const GPT_DATA: Range<u64> = GPT_PRIVATE.end..GPT_PRIVATE.end + DATA;

/// A partition: the number of its disk, and in sectors where it begins on the disk's data and in its component, and its size;
/// and its column.
pub type Part = (u64, u64, u64, u64, u64);

/// A component of a volume: its kind (1 striped, 2 spanned, 3 parity), the sectors of a stripe, and its partitions.
pub type Component = (u8, Option<u64>, Vec<Part>);

/// A volume: its size in sectors and its components.
pub struct Made {
    /// In sectors.
    pub size: u64,
    /// Each with its partitions.
    pub components: Vec<Component>,
}

fn counted(value: u64) -> Vec<u8> {
    let bytes = value.to_be_bytes();
    let from = bytes.iter().position(|&byte| byte != 0).unwrap_or(7);
    [&[(8 - from) as u8], &bytes[from..]].concat()
}

fn text(text: &str) -> Vec<u8> {
    [&[text.len() as u8], text.as_bytes()].concat()
}

/// The text and the 16 bytes of an identifier whose last byte is `number`; that of the group is 255.
pub fn identifier(number: u64) -> (String, [u8; 16]) {
    let mut bytes = [6; 16];
    bytes[15] = number as u8;
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let text = [0..8, 8..12, 12..16, 16..20, 20..32].map(|range| digits[range].to_string()).join("-");
    (text, bytes)
}

fn record(kind: u8, flags: u8, rest: &[Vec<u8>]) -> Vec<u8> {
    let rest = rest.concat();
    [&[0, 0, flags, kind][..], &(rest.len() as u32).to_be_bytes(), &rest].concat()
}

/// The records of a group with so many disks.
pub fn records(disks: u64, volumes: &[Made]) -> Vec<Vec<u8>> {
    let group = identifier(0xFF).1.to_vec();
    let mut all = vec![record(0x45, 0, &[counted(1), text("Group-Dg0"), group, vec![7; 16], vec![0; 12]])];
    for disk in 1..=disks {
        let own = identifier(disk).1.to_vec();
        let name = text(&format!("Disk{disk}"));
        all.push(record(0x44, 0, &[counted(100 + disk), name, own.clone(), own, vec![0; 13]]));
    }
    let mut next = 1000;
    for (number, volume) in (1..).zip(volumes) {
        all.push(volume_record(number, volume));
        for component in &volume.components {
            add_component(&mut all, number, component, &mut next);
        }
    }
    all
}

fn volume_record(number: u64, volume: &Made) -> Vec<u8> {
    let is_parity = volume.components.iter().any(|(kind, ..)| *kind == 3);
    let fields = [
        counted(number),
        text(&format!("Volume{number}")),
        text(if is_parity { "raid5" } else { "gen" }),
        b"\0ACTIVE\0\0\0\0\0\0\0\0".to_vec(),
        vec![if is_parity { 4 } else { 3 }, 1, number as u8, 0, 0, 0, 0x11],
        counted(volume.components.len() as u64),
        vec![0; 16],
        counted(volume.size),
        vec![0, 0, 0, 0, 7],
        identifier(0x40 + number).1.to_vec(),
        text("E:"),
    ];
    record(0x51, 0x02, &fields)
}

fn add_component(all: &mut Vec<Vec<u8>>, volume: u64, component: &Component, next: &mut u64) {
    let (kind, stripe, parts) = component;
    *next += 1;
    let id = *next;
    let mut fields = vec![
        counted(id),
        text(&format!("Volume{volume}-{id}")),
        text("ACTIVE"),
        vec![*kind, 0, 0, 0, 0],
        counted(parts.len() as u64),
        vec![0; 16],
        counted(volume),
        vec![0],
    ];
    fields.extend(stripe.iter().flat_map(|stripe| [counted(*stripe), counted(parts.len() as u64)]));
    all.push(record(0x32, if stripe.is_some() { 0x10 } else { 0 }, &fields));
    for &(disk, start, offset, size, index) in parts {
        *next += 1;
        let fields = [
            counted(*next),
            text(&format!("Disk{disk}-{next}")),
            vec![0; 12],
            start.to_be_bytes().to_vec(),
            offset.to_be_bytes().to_vec(),
            counted(size),
            counted(id),
            counted(100 + disk),
            counted(index),
        ];
        all.push(record(0x33, 0x08, &fields));
    }
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

fn sum(sector: &[u8]) -> [u8; 4] {
    sector.iter().map(|&byte| u32::from(byte)).sum::<u32>().to_be_bytes()
}

/// The bytes of the disk with this number, counted from 1, whose data area is `data`.
pub fn disk(number: u64, data: &[u8], records: &[Vec<u8>]) -> Vec<u8> {
    let private = FIRST + DATA;
    let mut all = vec![0; (private + PRIVATE) as usize * SECTOR];
    put(&mut all, FIRST as usize * SECTOR, data);
    // One partition of the type 0x42 (LDM) over all but the private region.
    put(&mut all, 446, &[0, 1, 1, 0, 0x42, 0xFE, 0xFF, 0xFF]);
    put(&mut all, 454, &(FIRST as u32).to_le_bytes());
    put(&mut all, 458, &(DATA as u32).to_le_bytes());
    put(&mut all, 510, &[0x55, 0xAA]);
    let head = private_header(number, FIRST, private);
    put(&mut all, 6 * SECTOR, &head);
    put_private(&mut all, private, &head, records);
    all
}

/// The bytes of such a disk whose partition table is to be a GPT, without that: the first partition has the sectors
/// [`GPT_PRIVATE`], the second [`GPT_DATA`].
pub fn disk_for_gpt(number: u64, data: &[u8], records: &[Vec<u8>]) -> Vec<u8> {
    let mut all = vec![0; (GPT_DATA.end + 33) as usize * SECTOR];
    put(&mut all, GPT_DATA.start as usize * SECTOR, data);
    let head = private_header(number, GPT_DATA.start, GPT_PRIVATE.start);
    put_private(&mut all, GPT_PRIVATE.start, &head, records);
    all
}

fn put_private(all: &mut [u8], private: u64, head: &[u8], records: &[Vec<u8>]) {
    for sector in [1856, 2047] {
        put(all, (private + sector) as usize * SECTOR, head);
    }
    let contents = table_of_contents();
    for sector in [1, 2, 2045, 2046] {
        put(all, (private + sector) as usize * SECTOR, &contents);
    }
    put(all, (private + 17) as usize * SECTOR, &database(records));
}

fn private_header(number: u64, data: u64, private: u64) -> Vec<u8> {
    let mut head = vec![0; SECTOR];
    put(&mut head, 0, b"PRIVHEAD");
    put(&mut head, 0x0C, &[0, 2, 0, 12]);
    put(&mut head, 0x20, &2047_u64.to_be_bytes());
    put(&mut head, 0x28, &1856_u64.to_be_bytes());
    put(&mut head, 0x30, identifier(number).0.as_bytes());
    put(&mut head, 0x70, HOST.as_bytes());
    put(&mut head, 0xB0, identifier(0xFF).0.as_bytes());
    put(&mut head, 0xF0, b"Group-Dg0");
    put(&mut head, 0x10F, &512_u32.to_be_bytes());
    for (at, value) in (0x11B..).step_by(8).zip([data, DATA, private, PRIVATE, 1, 2046]) {
        put(&mut head, at, &u64::to_be_bytes(value));
    }
    put(&mut head, 0x14B, &[0, 0, 0, 1, 0, 0, 0, 1]);
    put(&mut head, 0x153, &1481_u64.to_be_bytes());
    put(&mut head, 0x15B, &224_u64.to_be_bytes());
    let sum = sum(&head);
    put(&mut head, 8, &sum);
    head
}

fn table_of_contents() -> Vec<u8> {
    let mut contents = vec![0; SECTOR];
    put(&mut contents, 0, b"TOCBLOCK");
    for (at, name, start, length) in [(0x24, &b"config"[..], 17_u64, 1481_u64), (0x46, b"log", 1498, 224)] {
        put(&mut contents, at, name);
        put(&mut contents, at + 10, &start.to_be_bytes());
        put(&mut contents, at + 18, &length.to_be_bytes());
    }
    let sum = sum(&contents);
    put(&mut contents, 8, &sum);
    contents
}

fn database(records: &[Vec<u8>]) -> Vec<u8> {
    let mut blocks: Vec<Vec<u8>> = Vec::new();
    for (group, record) in (1_u32..).zip(records) {
        let parts = record.chunks(112).count() as u16;
        for (part, bytes) in (0_u16..).zip(record.chunks(112)) {
            let mut block = vec![0; 128];
            put(&mut block, 0, b"VBLK");
            put(&mut block, 4, &(4 + blocks.len() as u32).to_be_bytes());
            put(&mut block, 8, &group.to_be_bytes());
            put(&mut block, 12, &part.to_be_bytes());
            put(&mut block, 14, &parts.to_be_bytes());
            put(&mut block, 16, bytes);
            blocks.push(block);
        }
    }
    // The parts of a record need not lie together.
    blocks.rotate_left(1);
    let mut header = vec![0; SECTOR];
    put(&mut header, 0, b"VMDB");
    put(&mut header, 4, &(4 + blocks.len() as u32).to_be_bytes());
    put(&mut header, 8, &128_u32.to_be_bytes());
    put(&mut header, 12, &512_u32.to_be_bytes());
    put(&mut header, 16, &[0, 1, 0, 4, 0, 10]);
    put(&mut header, 0x16, b"Group-Dg0");
    put(&mut header, 0x35, identifier(0xFF).0.as_bytes());
    put(&mut header, 0x75, &9_u64.to_be_bytes());
    put(&mut header, 0x7D, &9_u64.to_be_bytes());
    for (at, kind) in [(0x85, 0x51), (0x89, 0x32), (0x8D, 0x33), (0x91, 0x44)] {
        let count = records.iter().filter(|record| record[3] == kind).count() as u32;
        put(&mut header, at, &count.to_be_bytes());
    }
    [header, blocks.concat()].concat()
}

//! The metadata (2.6): what the virtual disk is like, and which disk is its parent.

use crate::bytes::{damaged, field, is_inside, le16, le32, le64, read, unusable, utf16};
use crate::container::Container;
use crate::form::Shape;
use crate::guid::Guid;
use crate::parent::{ParentLink, Wanted};
use platter_device::{Device, Result, Sectors};
use std::collections::HashMap;
use std::ops::Range;

/// What the metadata says.
#[derive(Debug)]
pub(crate) struct Metadata {
    pub shape: Shape,
    /// Whether every block has its place in the file from the beginning (LeaveBlockAllocated).
    pub is_fixed: bool,
    pub parent: Option<ParentLink>,
}

const SIGNATURE: &[u8] = b"metadata";
/// The table of items, before the items.
const TABLE: usize = 64 << 10;
const MOST: u16 = 2047;
/// The most bytes of an item that are read. The longest is the locator of a parent, with a few paths.
const MOST_ITEM: u32 = 1 << 20;
/// The largest disk: 64 TiB.
pub(crate) const MOST_SIZE: u64 = 64 << 40;

/// CAA16737-FA36-4D43-B3B6-33F0AA44E76B: the size of a block, and flags.
const PARAMETERS: Guid = Guid(*b"\x37\x67\xA1\xCA\x36\xFA\x43\x4D\xB3\xB6\x33\xF0\xAA\x44\xE7\x6B");
/// 2FA54224-CD1B-4876-B211-5DBED83BF4B8: the size of the disk.
const SIZE: Guid = Guid(*b"\x24\x42\xA5\x2F\x1B\xCD\x76\x48\xB2\x11\x5D\xBE\xD8\x3B\xF4\xB8");
/// BECA12AB-B2E6-4523-93EF-C309E000C746: the identifier of the disk.
const DISK: Guid = Guid(*b"\xAB\x12\xCA\xBE\xE6\xB2\x23\x45\x93\xEF\xC3\x09\xE0\x00\xC7\x46");
/// 8141BF1D-A96F-4709-BA47-F233A8FAAB5F: the logical sector.
const LOGICAL: Guid = Guid(*b"\x1D\xBF\x41\x81\x6F\xA9\x09\x47\xBA\x47\xF2\x33\xA8\xFA\xAB\x5F");
/// CDA348C7-445D-4471-9CC9-E9885251C556: the physical sector.
const PHYSICAL: Guid = Guid(*b"\xC7\x48\xA3\xCD\x5D\x44\x71\x44\x9C\xC9\xE9\x88\x52\x51\xC5\x56");
/// A8D35F2D-B30B-454D-ABF7-D3D84834AB0C: the locator of the parent.
const LOCATOR: Guid = Guid(*b"\x2D\x5F\xD3\xA8\x0B\xB3\x4D\x45\xAB\xF7\xD3\xD8\x48\x34\xAB\x0C");
/// B04AEFB7-D19E-4A81-B789-25B8E9445913: the type of a locator that names a VHDX.
const LOCATOR_TYPE: Guid = Guid(*b"\xB7\xEF\x4A\xB0\x9E\xD1\x81\x4A\xB7\x89\x25\xB8\xE9\x44\x59\x13");

impl Metadata {
    pub(super) fn read(file: &dyn Device, region: &Range<u64>) -> Result<Metadata> {
        let name = file.name();
        let place = region.start;
        let length = region.end - region.start;
        let wrong = |expected: String, found: String| {
            Err(damaged(name, "the table of metadata", place, expected, found))
        };
        let table = read(file, place, TABLE)?;
        if &table[..8] != SIGNATURE {
            return wrong("the signature \"metadata\"".into(), format!("{:02x?}", &table[..8]));
        }
        let count = le16(&table, 10);
        if count > MOST {
            return wrong(format!("at most {MOST} items"), count.to_string());
        }
        let mut items: HashMap<Guid, (u64, u32)> = HashMap::new();
        for entry in table[32..].chunks_exact(32).take(usize::from(count)) {
            let (id, offset, size) = (Guid(field(entry, 0)), le32(entry, 16), le32(entry, 20));
            const REQUIRED: u32 = 4;
            let is_known = [PARAMETERS, SIZE, DISK, LOGICAL, PHYSICAL, LOCATOR].contains(&id);
            if !is_known && le32(entry, 24) & REQUIRED != 0 {
                return Err(unusable(name, format!("needs the metadata {id}, which is not known here")));
            }
            let is_there =
                size == 0 || offset >= TABLE as u32 && is_inside(offset.into(), size.into(), length);
            if !is_there || is_known && size > MOST_ITEM {
                let expected = format!("an item in the region's {length} bytes");
                return wrong(expected, format!("{size} bytes from {offset} on"));
            }
            items.insert(id, (place + u64::from(offset), size));
        }
        let item = |id: Guid, what: &str, least: u32| match items.get(&id) {
            Some(&(at, size)) if size >= least => read(file, at, size as usize),
            found => {
                let found = found.map_or("none".to_string(), |(_, size)| format!("{size} bytes"));
                Err(damaged(name, "the table of metadata", place, format!("{what}, {least} bytes"), found))
            }
        };
        let parameters = item(PARAMETERS, "the file parameters", 8)?;
        let (block, flags) = (u64::from(le32(&parameters, 0)), le32(&parameters, 4));
        if !block.is_power_of_two() || !(1 << 20..=256 << 20).contains(&block) {
            return wrong("blocks of a power of two, from 1 to 256 MiB".into(), format!("{block} bytes"));
        }
        let size = le64(&item(SIZE, "the size of the disk", 8)?, 0);
        let logical = le32(&item(LOGICAL, "the logical sector", 4)?, 0);
        let physical = le32(&item(PHYSICAL, "the physical sector", 4)?, 0);
        let is_sector = |sector: u32| matches!(sector, 512 | 4096);
        if !is_sector(logical) || !is_sector(physical) {
            return wrong("sectors of 512 or 4096 bytes".into(), format!("{logical} and {physical}"));
        }
        if size == 0 || size > MOST_SIZE || !size.is_multiple_of(u64::from(logical)) {
            return wrong(
                format!("a disk of whole sectors, of up to {MOST_SIZE} bytes"),
                format!("{size} bytes"),
            );
        }
        const FIXED: u32 = 1;
        const HAS_PARENT: u32 = 2;
        let parent = match flags & HAS_PARENT != 0 {
            false => None,
            true => Some(locator(name, &item(LOCATOR, "the locator of the parent", 20)?)?),
        };
        let sectors = Sectors { logical, physical: physical.max(logical) };
        Ok(Metadata { shape: Shape { size, block, sectors }, is_fixed: flags & FIXED != 0, parent })
    }

    /// The bytes of the region for a new file, up to the end of the last item.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut flags = u32::from(self.is_fixed);
        let mut items = vec![
            (SIZE, VIRTUAL, self.shape.size.to_le_bytes().to_vec()),
            (DISK, VIRTUAL, Guid::random().0.to_vec()),
            (LOGICAL, VIRTUAL, self.shape.sectors.logical.to_le_bytes().to_vec()),
            (PHYSICAL, VIRTUAL, self.shape.sectors.physical.min(4096).to_le_bytes().to_vec()),
        ];
        if let Some(parent) = &self.parent {
            flags |= 2;
            items.push((LOCATOR, OF_FILE, locator_bytes(parent)));
        }
        let parameters = [(self.shape.block as u32).to_le_bytes(), flags.to_le_bytes()].concat();
        items.insert(0, (PARAMETERS, OF_FILE, parameters));
        // Bits 1 and 2: of the disk and not of the file, and required.
        const VIRTUAL: u32 = 6;
        const OF_FILE: u32 = 4;
        let mut bytes = vec![0; TABLE];
        bytes[..8].copy_from_slice(SIGNATURE);
        bytes[10..12].copy_from_slice(&(items.len() as u16).to_le_bytes());
        for (number, (id, flags, content)) in items.into_iter().enumerate() {
            let offset = bytes.len() as u32;
            let entry = &mut bytes[32 * (number + 1)..][..32];
            entry[..16].copy_from_slice(&id.0);
            entry[16..20].copy_from_slice(&offset.to_le_bytes());
            entry[20..24].copy_from_slice(&(content.len() as u32).to_le_bytes());
            entry[24..28].copy_from_slice(&flags.to_le_bytes());
            bytes.extend(content);
            bytes.resize(bytes.len().next_multiple_of(16), 0);
        }
        bytes
    }
}

/// Reads the locator of a parent (2.6.2.6): pairs of texts in UTF-16.
fn locator(name: &str, bytes: &[u8]) -> Result<ParentLink> {
    let kind = Guid(field(bytes, 0));
    if kind != LOCATOR_TYPE {
        return Err(unusable(name, format!("has a parent that is named in a way not known here, {kind}")));
    }
    let text = |offset: u32, length: u16| -> Option<String> {
        let bytes = bytes.get(offset as usize..)?.get(..usize::from(length))?;
        Some(utf16(bytes.chunks_exact(2).map(|unit| le16(unit, 0))))
    };
    let mut pairs = HashMap::new();
    // Texts may overlap, so their lengths together are not bounded by the item's: a locator has few.
    const MOST: usize = 64;
    for entry in bytes[20..].chunks_exact(12).take(usize::from(le16(bytes, 18)).min(MOST)) {
        let key = text(le32(entry, 0), le16(entry, 8));
        let value = text(le32(entry, 4), le16(entry, 10));
        if let (Some(key), Some(value)) = (key, value) {
            pairs.insert(key, value);
        }
    }
    let identities: Vec<Guid> = ["parent_linkage", "parent_linkage2"]
        .iter()
        .filter_map(|key| Guid::parse(pairs.get(*key)?).filter(|guid| !guid.is_zero()))
        .collect();
    if identities.is_empty() {
        return Err(unusable(name, "has a parent, and does not say by what it is known (parent_linkage)"));
    }
    let paths =
        ["relative_path", "volume_path", "absolute_win32_path"].iter().filter_map(|key| pairs.remove(*key));
    Ok(ParentLink { paths: paths.collect(), wanted: Wanted::Is(Container::Vhdx), identities, modified: 0 })
}

/// The bytes of a locator.
fn locator_bytes(parent: &ParentLink) -> Vec<u8> {
    let keys = ["relative_path", "absolute_win32_path"];
    let mut pairs: Vec<(&str, String)> = vec![("parent_linkage", parent.identities[0].to_string())];
    pairs.extend(keys.into_iter().zip(parent.paths.iter().cloned()));
    let mut bytes = [&LOCATOR_TYPE.0[..], &[0, 0], &(pairs.len() as u16).to_le_bytes()].concat();
    let mut texts: Vec<u8> = Vec::new();
    let start = bytes.len() + 12 * pairs.len();
    for (key, value) in pairs {
        let [key, value] =
            [key, &value].map(|text| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>());
        let at = (start + texts.len()) as u32;
        bytes.extend(at.to_le_bytes());
        bytes.extend((at + key.len() as u32).to_le_bytes());
        bytes.extend((key.len() as u16).to_le_bytes());
        bytes.extend((value.len() as u16).to_le_bytes());
        texts.extend(key);
        texts.extend(value);
    }
    bytes.extend(texts);
    bytes
}

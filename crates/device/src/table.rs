//! Partition tables: GPT as the UEFI specification (chapter 5) describes it, and MBR with logical partitions.
//!
//! The parser is Platter's own: the existing libraries panic on damaged tables or allocate memory by their unchecked
//! fields. The tests use those libraries to make tables.

use crate::marks::{HEAD, TAIL, far_marks, is_boot_sector, marks, read_bytes};
use crate::{Device, Error, Partition, Result, show_size};
use std::fmt;
use std::sync::Arc;

/// The format of a partition table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// GUID partition table.
    Gpt,
    /// Master boot record.
    Mbr,
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Scheme::Gpt => "GPT",
            Scheme::Mbr => "MBR",
        })
    }
}

/// One partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionEntry {
    /// The number as Linux counts: from 1; logical partitions of an MBR from 5.
    pub number: u32,
    /// The start in bytes.
    pub start: u64,
    /// The length in bytes.
    pub length: u64,
    /// The purpose by its type, for example "EFI system" or "type 0x39".
    pub kind: String,
    /// The name, if it has one; only GPT has names.
    pub name: Option<String>,
}

impl fmt::Display for PartitionEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PartitionEntry { number, start, length, kind, name } = self;
        write!(f, "{number}: {kind}, {} at {}", show_size(*length), show_size(*start))?;
        if let Some(name) = name { write!(f, ", named {name:?}") } else { Ok(()) }
    }
}

/// The partitions of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionTable {
    /// The format of the table.
    pub scheme: Scheme,
    /// The partitions in use, by number.
    pub partitions: Vec<PartitionEntry>,
    /// The size in bytes of the sectors in which the table counts: those of the disk for which it was made.
    pub sector: u64,
}

impl PartitionTable {
    /// Reads the partition table of a device; `None` if it has none, for example because a file system takes the whole
    /// device.
    ///
    /// # Errors
    /// [`Error::Unusable`] if there is a damaged table, and the errors of reading the device.
    pub fn read(device: &dyn Device) -> Result<Option<PartitionTable>> {
        let sector = u64::from(device.sectors().logical);
        if device.len() < 2 * sector {
            return Ok(None);
        }
        match FirstSector::read(device)? {
            FirstSector::Volume => Ok(None),
            FirstSector::Mbr(slots) if slots.iter().any(|slot| slot.kind == PROTECTIVE) => {
                read_protected(device, slots).map(Some)
            }
            FirstSector::Mbr(slots) => match read_mbr(device, &slots)? {
                Some(table) => Ok(Some(table)),
                None => read_bare_gpt(device),
            },
            FirstSector::Other => read_bare_gpt(device),
        }
    }

    /// The partition with this number, as a device.
    ///
    /// # Errors
    /// [`Error::Unusable`], with a list of the partitions, if there is none with this number or it is not inside the
    /// device.
    pub fn open(&self, device: Arc<dyn Device>, number: u32) -> Result<Partition> {
        let Some(entry) = self.partitions.iter().find(|entry| entry.number == number) else {
            return Err(unusable(&*device, format!("has no partition {number}; {self}")));
        };
        let name = format!("{} partition {number}", device.name());
        Partition::reaching(device, entry.start, entry.length, name)
    }
}

impl fmt::Display for PartitionTable {
    /// The list of partitions, as the end of a sentence.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.partitions.is_empty() {
            return write!(f, "its {} partition table is empty", self.scheme);
        }
        write!(f, "its {} partition table has", self.scheme)?;
        for (place, entry) in self.partitions.iter().enumerate() {
            write!(f, "{} {entry}", if place == 0 { "" } else { ";" })?;
        }
        Ok(())
    }
}

/// The device or partition that the user means: the partition with `number`; without a number, the whole device if it
/// has no partition table, or else the only partition for which `holds_volume` returns true.
///
/// # Errors
/// [`Error::Unusable`], with a list of the partitions, if no partition or several would do.
pub fn select_partition(
    device: Arc<dyn Device>,
    number: Option<u32>,
    holds_volume: &dyn Fn(&dyn Device) -> bool,
) -> Result<Arc<dyn Device>> {
    let Some(table) = PartitionTable::read(&*device)? else {
        let Some(number) = number else { return Ok(device) };
        let reason = format!("has no partition table, and so no partition {number}");
        return Err(unusable(&*device, reason));
    };
    if let Some(number) = number {
        return Ok(Arc::new(table.open(device, number)?));
    }
    // A GPT that no first sector announces may be left over from before a volume took the whole device.
    let is_announced = matches!(FirstSector::read(&*device)?, FirstSector::Mbr(slots) if slots.iter().any(|slot| slot.is_used()));
    if !is_announced && holds_volume(&*device) {
        return Ok(device);
    }
    let mut found: Vec<Partition> = Vec::new();
    for entry in &table.partitions {
        // A partition that cannot be opened is not considered.
        if let Ok(partition) = table.open(device.clone(), entry.number)
            && holds_volume(&partition)
        {
            found.push(partition);
        }
    }
    match found.len() {
        1 => Ok(Arc::new(found.remove(0))),
        0 if !is_announced => Ok(device),
        0 => Err(unusable(&*device, format!("no partition holds a file system that is known here; {table}"))),
        _ => Err(unusable(
            &*device,
            format!("several partitions could be meant, so say which with --partition; {table}"),
        )),
    }
}

fn unusable(device: &dyn Device, reason: String) -> Error {
    Error::Unusable { device: device.name().into(), reason }
}

/// What the first sector of a device says about partitions.
enum FirstSector {
    /// It is that of a volume.
    Volume,
    Mbr([Slot; 4]),
    Other,
}

impl FirstSector {
    fn read(device: &dyn Device) -> Result<FirstSector> {
        let first = read_bytes(device, 0, 512)?;
        if first[510..] == [0x55, 0xAA] && is_boot_sector(&first) {
            return Ok(FirstSector::Volume);
        }
        Ok(mbr_slots(&first, 4).map_or(FirstSector::Other, FirstSector::Mbr))
    }
}

// MBR

/// The type of the MBR entry that protects a GPT.
const PROTECTIVE: u8 = 0xEE;
/// The most logical partitions that are read: the chain may be a loop.
const MOST_LOGICAL: usize = 128;

#[derive(Clone, Copy)]
struct Slot {
    kind: u8,
    start: u32,
    count: u32,
}

impl Slot {
    fn is_used(self) -> bool {
        self.kind != 0 && self.count != 0
    }

    fn is_extended(self) -> bool {
        matches!(self.kind, 0x05 | 0x0F | 0x85)
    }
}

/// The four entries of a table sector, or `None` if the bytes cannot be a table. Of the entries, the first `sure` ones
/// are sure to be entries.
fn mbr_slots(sector: &[u8], sure: usize) -> Option<[Slot; 4]> {
    if sector.get(510..512) != Some(&[0x55, 0xAA]) {
        return None;
    }
    let entry = |number: usize| &sector[446 + 16 * number..][..16];
    let number = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().expect("four bytes"));
    // The boot indicator has only two valid values, which the text or code of a boot sector is unlikely to have in all
    // places.
    if (0..sure).any(|place| !matches!(entry(place)[0], 0x00 | 0x80)) {
        return None;
    }
    Some(std::array::from_fn(|place| Slot {
        kind: entry(place)[4],
        start: number(&entry(place)[8..12]),
        count: number(&entry(place)[12..16]),
    }))
}

fn read_mbr(device: &dyn Device, slots: &[Slot; 4]) -> Result<Option<PartitionTable>> {
    let used = || slots.iter().enumerate().filter(|(_, slot)| slot.is_used());
    // Entries count in sectors of the disk on which the table was made; an image of it may be opened with another
    // sector size.
    let fits =
        |unit: &u64| used().all(|(_, slot)| slot.start > 0 && u64::from(slot.start) * unit < device.len());
    let Some(unit) = [u64::from(device.sectors().logical), 512].into_iter().find(fits) else {
        return Ok(None);
    };
    let mut partitions = Vec::new();
    let mut logical = Vec::new();
    for (place, slot) in used() {
        if slot.is_extended() {
            read_logical(device, *slot, unit, &mut logical)?;
        } else {
            partitions.push(mbr_entry(place as u32 + 1, u64::from(slot.start), *slot, unit));
        }
    }
    if partitions.is_empty() && logical.is_empty() {
        return Ok(None);
    }
    partitions.append(&mut logical);
    Ok(Some(PartitionTable { scheme: Scheme::Mbr, partitions, sector: unit }))
}

/// Follows the chain of table sectors in an extended partition. Each holds one logical partition, counted from that
/// sector, and a link to the next table sector, counted from the start of the extended partition. A partition that was
/// made later may lie before others, so links may lead backward. Some programs write the link first, and some leave
/// anything in the last two entries.
fn read_logical(
    device: &dyn Device,
    extended: Slot,
    unit: u64,
    found: &mut Vec<PartitionEntry>,
) -> Result<()> {
    let start = u64::from(extended.start);
    let mut links = vec![0];
    while let Some(&link) = links.last() {
        let place = start + link;
        if place * unit + 512 > device.len() {
            break;
        }
        let sector = read_bytes(device, place * unit, 512)?;
        if is_boot_sector(&sector) {
            break;
        }
        let Some(slots) = mbr_slots(&sector, 2) else { break };
        for (number, slot) in slots.iter().enumerate() {
            let (first, count) = (place + u64::from(slot.start), u64::from(slot.count));
            let is_inside = first > place && first + count <= start + u64::from(extended.count);
            if slot.is_used() && !slot.is_extended() && (number < 2 || is_inside) {
                found.push(mbr_entry(5 + found.len() as u32, first, *slot, unit));
            }
        }
        let next = slots.iter().find(|slot| slot.is_extended() && slot.start != 0);
        let Some(next) = next.map(|slot| u64::from(slot.start)) else { break };
        // A second time at the same sector: a loop.
        if links.len() >= MOST_LOGICAL || links.contains(&next) {
            break;
        }
        links.push(next);
    }
    Ok(())
}

fn mbr_entry(number: u32, start: u64, slot: Slot, unit: u64) -> PartitionEntry {
    let kind = match slot.kind {
        0x01 => "FAT12",
        0x04 | 0x06 | 0x0E => "FAT16",
        0x0B | 0x0C => "FAT32",
        0x07 => "NTFS, exFAT or ReFS",
        0x27 => "Windows recovery",
        0x42 => "LDM data",
        0x82 => "Linux swap",
        0x83 => "Linux",
        0x8E => "Linux LVM",
        0xA5 => "FreeBSD",
        0xAF => "HFS+",
        0xEF => "EFI system",
        0xFD => "Linux RAID",
        _ => "",
    };
    let kind = if kind.is_empty() { format!("type {:#04x}", slot.kind) } else { kind.to_string() };
    PartitionEntry { number, start: start * unit, length: u64::from(slot.count) * unit, kind, name: None }
}

// GPT

/// The most bytes of entries that are read: the usual 128 entries take 16 KiB.
const MOST_ENTRIES: u64 = 1 << 20;

/// Reads the GPT that a protective entry announces. Some disks have some of the partitions in their MBR as well (hybrid
/// MBR), where they are found if both copies of the GPT are lost.
fn read_protected(device: &dyn Device, mut slots: [Slot; 4]) -> Result<PartitionTable> {
    let damage = match read_gpt(device) {
        Ok(table) => return Ok(table),
        Err(damage) => damage,
    };
    for slot in slots.iter_mut().filter(|slot| slot.kind == PROTECTIVE) {
        slot.kind = 0;
    }
    match read_mbr(device, &slots)? {
        Some(table) => Ok(table),
        None => Err(damage),
    }
}

/// Reads the GPT of a disk whose first sector is lost, and with it the protective entry, unless something else is
/// recognised on the disk, as then the GPT may be left over from before.
fn read_bare_gpt(device: &dyn Device) -> Result<Option<PartitionTable>> {
    let Ok(table) = read_gpt(device) else { return Ok(None) };
    let head = read_bytes(device, 0, HEAD.min(device.len()))?;
    let tail_length = TAIL.min(device.len());
    let tail = read_bytes(device, device.len() - tail_length, tail_length)?;
    let is_other = marks(&head, &tail, device.len()).or_else(|| far_marks(device)).is_some();
    Ok((!is_other).then_some(table))
}

fn read_gpt(device: &dyn Device) -> Result<PartitionTable> {
    // The image of a disk does not contain the disk's sector size.
    let units = [u64::from(device.sectors().logical), 512, 4096];
    let backups = units.map(|unit| (unit, (device.len() / unit).saturating_sub(1)));
    let copies = units.map(|unit| (unit, 1)).into_iter().chain(backups);
    let mut damage = "neither header is there".to_string();
    let mut unreadable = None;
    for (unit, place) in copies {
        match read_gpt_copy(device, unit, place) {
            Ok(Ok(partitions)) => {
                return Ok(PartitionTable { scheme: Scheme::Gpt, partitions, sector: unit });
            }
            Ok(Err(Some(reason))) => damage = reason,
            Ok(Err(None)) => {}
            // The other copy may be readable.
            Err(error) => unreadable = unreadable.or(Some(error)),
        }
    }
    Err(unreadable.unwrap_or_else(|| unusable(device, format!("damaged GPT partition table: {damage}"))))
}

/// Reads one copy of the table. The inner error is `None` if there is no header, and otherwise says what is wrong with
/// it.
fn read_gpt_copy(
    device: &dyn Device,
    unit: u64,
    place: u64,
) -> Result<std::result::Result<Vec<PartitionEntry>, Option<String>>> {
    if (place + 1).checked_mul(unit).is_none_or(|end| end > device.len()) {
        return Ok(Err(None));
    }
    let header = read_bytes(device, place * unit, 512)?;
    if !header.starts_with(b"EFI PART") {
        return Ok(Err(None));
    }
    let wrong = |what: &str| Ok(Err(Some(format!("header in sector {place}: {what}"))));
    let size = le32(&header, 12) as usize;
    if !(92..=512).contains(&size) {
        return wrong(&format!("size of {size} bytes"));
    }
    let mut summed = header[..size].to_vec();
    summed[16..20].fill(0);
    if crc32fast::hash(&summed) != le32(&header, 16) {
        return wrong("checksum does not match");
    }
    if le64(&header, 24) != place {
        return wrong("says that it stands elsewhere");
    }
    let (count, each) = (u64::from(le32(&header, 80)), u64::from(le32(&header, 84)));
    let length = count * each;
    if each < 128 || !each.is_multiple_of(8) || length > MOST_ENTRIES {
        return wrong(&format!("{count} entries of {each} bytes"));
    }
    let start = le64(&header, 72).checked_mul(unit);
    let Some(start) = start.filter(|start| start.checked_add(length).is_some_and(|end| end <= device.len()))
    else {
        return wrong("entries lie outside the device");
    };
    let entries = read_bytes(device, start, length)?;
    if crc32fast::hash(&entries) != le32(&header, 88) {
        return wrong("checksum of the entries does not match");
    }
    let mut partitions = Vec::new();
    for (entry, number) in entries.chunks_exact(each as usize).zip(1..) {
        let (first, last) = (le64(entry, 32), le64(entry, 40));
        if entry[..16] == [0; 16] {
            continue;
        }
        let start = first.checked_mul(unit);
        let length = last.checked_sub(first).and_then(|count| (count + 1).checked_mul(unit));
        let (Some(start), Some(length)) = (start, length) else {
            return wrong(&format!("partition {number} from sector {first} to {last}"));
        };
        let units = entry[56..128].chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]]));
        let units: Vec<u16> = units.take_while(|&unit| unit != 0).collect();
        let name = (!units.is_empty()).then(|| String::from_utf16_lossy(&units));
        partitions.push(PartitionEntry { number, start, length, kind: gpt_kind(&entry[..16]), name });
    }
    Ok(Ok(partitions))
}

fn le32(data: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(data[at..at + 4].try_into().expect("four bytes"))
}

fn le64(data: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(data[at..at + 8].try_into().expect("eight bytes"))
}

/// The name of a partition type. The first three numbers of a GUID are little-endian on disk.
fn gpt_kind(guid: &[u8]) -> String {
    let numbers =
        (le32(guid, 0), u16::from_le_bytes([guid[4], guid[5]]), u16::from_le_bytes([guid[6], guid[7]]));
    let rest: String = guid[8..].iter().map(|byte| format!("{byte:02X}")).collect();
    let text = format!("{:08X}-{:04X}-{:04X}-{}-{}", numbers.0, numbers.1, numbers.2, &rest[..4], &rest[4..]);
    match text.as_str() {
        "C12A7328-F81F-11D2-BA4B-00A0C93EC93B" => "EFI system",
        "EBD0A0A2-B9E5-4433-87C0-68B6B72699C7" => "basic data",
        "E3C9E316-0B5C-4DB8-817D-F92DF00215AE" => "Microsoft reserved",
        "DE94BBA4-06D1-4D40-A16A-BFD50179D6AC" => "Windows recovery",
        "E75CAF8F-F680-4CEE-AFA3-B001E56EFC2D" => "Storage Spaces",
        "5808C8AA-7E8F-42E0-85D2-E1E90434CFB3" => "LDM metadata",
        "AF9B60A0-1431-4F62-BC68-3311714A69AD" => "LDM data",
        "0FC63DAF-8483-4772-8E79-3D69D8477DE4" => "Linux",
        "0657FD6D-A4AB-43C4-84E5-0933C84B4F4F" => "Linux swap",
        "E6D6D379-F507-44C2-A23C-238F2A3DF928" => "Linux LVM",
        "A19D880F-05FC-4D3B-A006-743F0F84911E" => "Linux RAID",
        "21686148-6449-6E6F-744E-656564454649" => "BIOS boot",
        _ => return format!("type {text}"),
    }
    .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MemoryDevice, OverlayDevice, Sectors, contents};
    use std::io::Cursor;

    const MIB: u64 = 1 << 20;
    /// EBD0A0A2-B9E5-4433-87C0-68B6B72699C7 as stored on disk.
    const BASIC_DATA: [u8; 16] =
        [0xA2, 0xA0, 0xD0, 0xEB, 0xE5, 0xB9, 0x33, 0x44, 0x87, 0xC0, 0x68, 0xB6, 0xB7, 0x26, 0x99, 0xC7];
    const EFI_SYSTEM: [u8; 16] =
        [0x28, 0x73, 0x2A, 0xC1, 0x1F, 0xF8, 0xD2, 0x11, 0xBA, 0x4B, 0x00, 0xA0, 0xC9, 0x3E, 0xC9, 0x3B];

    /// A disk of 8 MiB with two partitions, made by another implementation.
    fn gpt_image(unit: u64) -> Vec<u8> {
        let mut disk = Cursor::new(vec![0; 8 * MIB as usize]);
        let mut gpt = gptman::GPT::new_from(&mut disk, unit, [7; 16]).unwrap();
        let mut add = |number, kind, start: u64, length: u64, name: &str| {
            gpt[number] = gptman::GPTPartitionEntry {
                partition_type_guid: kind,
                unique_partition_guid: [number as u8; 16],
                starting_lba: start / unit,
                ending_lba: (start + length) / unit - 1,
                attribute_bits: 0,
                partition_name: name.into(),
            };
        };
        add(1, EFI_SYSTEM, MIB, MIB, "boot");
        add(3, BASIC_DATA, 3 * MIB, 4 * MIB, "Daten ⛁");
        gpt.write_into(&mut disk).unwrap();
        gptman::GPT::write_protective_mbr_into(&mut disk, unit).unwrap();
        disk.into_inner()
    }

    fn mbr_image() -> Vec<u8> {
        let mut disk = Cursor::new(vec![0; 16 * MIB as usize]);
        let mut mbr = mbrman::MBR::new_from(&mut disk, 512, [1, 2, 3, 4]).unwrap();
        let entry = |kind, start: u64, length: u64| mbrman::MBRPartitionEntry {
            boot: mbrman::BOOT_INACTIVE,
            first_chs: mbrman::CHS::empty(),
            sys: kind,
            last_chs: mbrman::CHS::empty(),
            starting_lba: (start / 512) as u32,
            sectors: (length / 512) as u32,
        };
        mbr[1] = entry(0x0C, MIB, 2 * MIB);
        mbr[2] = entry(0x05, 4 * MIB, 8 * MIB);
        mbr[4] = entry(0x39, 13 * MIB, MIB);
        // The table sectors of the logical partitions take the first MiB of each.
        for (start, kind) in [(5, 0x06), (8, 0x83)] {
            let (first_lba, sectors) = ((start * MIB / 512) as u32, (2 * MIB / 512) as u32);
            mbr.push(kind, first_lba, sectors).unwrap();
        }
        mbr.write_into(&mut disk).unwrap();
        disk.into_inner()
    }

    fn read(image: &[u8], sectors: Sectors) -> Result<Option<PartitionTable>> {
        PartitionTable::read(&MemoryDevice::from_image(image, sectors))
    }

    #[test]
    fn reads_gpt_with_either_sector_from_either_copy() {
        // An image of a disk with 4,096-byte sectors may be opened with 512-byte ones, and the other way round.
        for (unit, sectors) in
            [(512, Sectors::SMALL), (4096, Sectors::LARGE), (4096, Sectors::SMALL), (512, Sectors::LARGE)]
        {
            let image = gpt_image(unit);
            let table = read(&image, sectors).unwrap().unwrap();
            assert_eq!((table.scheme, table.sector), (Scheme::Gpt, unit));
            let [boot, data] = &table.partitions[..] else { panic!("{table:?}") };
            assert_eq!((boot.number, boot.start, boot.length), (1, MIB, MIB));
            assert_eq!((data.number, data.start, data.length), (3, 3 * MIB, 4 * MIB));
            assert_eq!(boot.to_string(), "1: EFI system, 1 MiB at 1 MiB, named \"boot\"");
            assert_eq!((data.kind.as_str(), data.name.as_deref()), ("basic data", Some("Daten ⛁")));
            let mut damaged = image.clone();
            damaged[unit as usize + 60] ^= 1;
            assert_eq!(read(&damaged, sectors).unwrap().unwrap(), table, "from the backup");
            damaged[8 * MIB as usize - unit as usize + 60] ^= 1;
            let error = read(&damaged, sectors).unwrap_err().to_string();
            assert!(error.contains("damaged GPT") && error.contains("checksum"), "{error}");
            let device = MemoryDevice::from_image(&damaged, sectors);
            assert_eq!(contents(&device).unwrap().as_deref(), Some("a damaged partition table"));
        }
    }

    #[test]
    fn reads_mbr_with_logical_partitions() {
        let table = read(&mbr_image(), Sectors::SMALL).unwrap().unwrap();
        let seen: Vec<_> = table
            .partitions
            .iter()
            .map(|e| (e.number, e.start / MIB, e.length / MIB, e.kind.as_str()))
            .collect();
        assert_eq!(
            seen,
            [(1, 1, 2, "FAT32"), (4, 13, 1, "type 0x39"), (5, 6, 1, "FAT16"), (6, 9, 1, "Linux")]
        );
        let device = MemoryDevice::from_image(&mbr_image(), Sectors::SMALL);
        let known = contents(&device).unwrap();
        assert_eq!(known.as_deref(), Some("an MBR partition table with 4 partitions"));
    }

    #[test]
    fn selects_by_number_or_the_only_one() {
        let mut image = mbr_image();
        image[6 * MIB as usize] = 0xAB;
        let device: Arc<dyn Device> = Arc::new(MemoryDevice::from_image(&image, Sectors::SMALL));
        let first = |device: &dyn Device| read_bytes(device, 0, 1).unwrap()[0];
        let marked = |device: &dyn Device| first(device) == 0xAB;
        let select =
            |number, holds: &dyn Fn(&dyn Device) -> bool| select_partition(device.clone(), number, holds);
        let found = select(None, &marked).unwrap();
        assert_eq!((found.name(), found.len()), ("mem:16777216 partition 5", MIB));
        assert_eq!(select(Some(6), &|_| false).unwrap().len(), MIB);
        let error = |result: Result<Arc<dyn Device>>| result.err().expect("refused").to_string();
        let many = error(select(None, &|_| true));
        assert!(many.contains("--partition") && many.contains("5: FAT16, 1 MiB at 6 MiB"), "{many}");
        let none = error(select(None, &|_| false));
        assert!(none.contains("no partition holds") && none.contains("1: FAT32"), "{none}");
        let missing = error(select(Some(3), &|_| true));
        assert!(missing.contains("has no partition 3") && missing.contains("4: type 0x39"), "{missing}");
        let whole: Arc<dyn Device> = Arc::new(MemoryDevice::new(MIB, Sectors::SMALL));
        assert_eq!(select_partition(whole.clone(), None, &|_| false).unwrap().len(), MIB);
        assert!(error(select_partition(whole, Some(1), &|_| true)).contains("no partition table"));
    }

    #[test]
    fn a_partition_that_reaches_past_the_end_is_only_read() {
        let image = &mbr_image()[..6 * MIB as usize];
        let error = read(image, Sectors::SMALL).unwrap();
        assert!(error.is_none(), "a partition that starts past the end: no table of this device");
        let image = &mbr_image()[..13 * MIB as usize + 4096];
        let device: Arc<dyn Device> = Arc::new(MemoryDevice::from_image(image, Sectors::SMALL));
        let part = select_partition(device, Some(4), &|_| true).unwrap();
        assert!(part.end() < part.len() && part.read_only());
        let why = part.why_read_only().unwrap();
        assert!(why.contains("bytes before the volume"), "{why}");
    }

    /// A GPT is found without the first sector, by either copy, unless the whole device is a volume.
    #[test]
    fn reads_gpt_without_its_first_sector() {
        let image = gpt_image(512);
        let table = read(&image, Sectors::SMALL).unwrap();
        for lost in [512, 34 * 512] {
            let mut wiped = image.clone();
            wiped[..lost].fill(0);
            assert_eq!(read(&wiped, Sectors::SMALL).unwrap(), table, "{lost}");
            let device: Arc<dyn Device> = Arc::new(MemoryDevice::from_image(&wiped, Sectors::SMALL));
            assert_eq!(
                contents(&*device).unwrap().as_deref(),
                Some("a GPT partition table with 2 partitions")
            );
            let select = |holds: &dyn Fn(&dyn Device) -> bool| {
                select_partition(device.clone(), None, holds).unwrap().name().to_string()
            };
            assert_eq!(select(&|device| device.len() == 4 * MIB), "mem:8388608 partition 3");
            // A volume takes the whole device, or what it was is to be found out.
            assert_eq!(select(&|device| device.len() == 8 * MIB), "mem:8388608");
            assert_eq!(select(&|_| false), "mem:8388608");
        }
        // The GPT is left over: ext4, whose first sector is empty, has taken the disk.
        let mut other = image.clone();
        other[..34 * 512].fill(0);
        other[1080..1082].copy_from_slice(&[0x53, 0xEF]);
        assert_eq!(read(&other, Sectors::SMALL).unwrap(), None);
    }

    /// A hybrid MBR names partitions beside the protective entry: they are used if both copies of the GPT are lost.
    #[test]
    fn reads_a_hybrid_mbr_without_its_gpt() {
        let mut image = gpt_image(512);
        let mut slot = [0; 16];
        slot[4] = 0x07;
        slot[8..12].copy_from_slice(&((3 * MIB / 512) as u32).to_le_bytes());
        slot[12..16].copy_from_slice(&((4 * MIB / 512) as u32).to_le_bytes());
        image[446 + 16..446 + 32].copy_from_slice(&slot);
        let table = read(&image, Sectors::SMALL).unwrap().unwrap();
        assert_eq!((table.scheme, table.partitions.len()), (Scheme::Gpt, 2));
        image[512 + 60] ^= 1;
        image[8 * MIB as usize - 512 + 60] ^= 1;
        let table = read(&image, Sectors::SMALL).unwrap().unwrap();
        let [part] = &table.partitions[..] else { panic!("{table:?}") };
        assert_eq!((table.scheme, part.number, part.start), (Scheme::Mbr, 2, 3 * MIB));
    }

    /// A sector of the first copy cannot be read: the second one is used.
    #[test]
    fn reads_the_backup_of_a_gpt_that_cannot_be_read() {
        use crate::{Fault, Faults, Operation, When};
        let device = Arc::new(MemoryDevice::from_image(&gpt_image(512), Sectors::SMALL));
        let whole = PartitionTable::read(&*device).unwrap();
        for sector in [1, 2] {
            let faulty = Faults::new(device.clone(), 1);
            faulty.inject(When::within(Operation::Read, sector * 512..(sector + 1) * 512), Fault::Fail);
            assert_eq!(PartitionTable::read(&faulty).unwrap(), whole, "sector {sector}");
        }
    }

    /// A logical partition that was deleted and made again is the last of the chain, though it lies before others.
    #[test]
    fn a_chain_of_logical_partitions_may_lead_backward() {
        let start = |sector: u64| (4 * MIB + sector * 512) as usize;
        let entry = |kind: u8, first: u32, count: u32| {
            let mut slot = [0; 16];
            slot[4] = kind;
            slot[8..12].copy_from_slice(&first.to_le_bytes());
            slot[12..16].copy_from_slice(&count.to_le_bytes());
            slot
        };
        let mut image = mbr_image();
        image[start(0)..start(0) + 8 * MIB as usize].fill(0);
        // At sector 0 the first one; then 8192; then 4096, whose link stands before its partition and behind which are
        // leftovers.
        for (sector, slots) in [
            (0, [entry(7, 64, 1000), entry(5, 8192, 2000), [0; 16], [0; 16]]),
            (8192, [entry(7, 64, 1900), entry(5, 4096, 2000), [0; 16], [0; 16]]),
            (4096, [entry(5, 0, 0), entry(7, 64, 1800), [0xA5; 16], [0; 16]]),
        ] {
            let at = start(sector);
            image[at + 446..at + 510].copy_from_slice(slots.as_flattened());
            image[at + 510..at + 512].copy_from_slice(&[0x55, 0xAA]);
        }
        let table = read(&image, Sectors::SMALL).unwrap().unwrap();
        let logical: Vec<_> = table
            .partitions
            .iter()
            .filter(|entry| entry.number > 4)
            .map(|it| (it.number, it.start))
            .collect();
        let at = |sector: u64| start(sector + 64) as u64;
        assert_eq!(logical, [(5, at(0)), (6, at(8192)), (7, at(4096))]);
    }

    #[test]
    fn a_chain_of_logical_partitions_that_loops_ends() {
        let mut image = mbr_image();
        // The second table sector of the chain, which has no next one, is made to link to itself.
        let second = (0..image.len() / 512)
            .map(|sector| sector * 512)
            .rfind(|&at| at > 4 * MIB as usize && image[at + 510..at + 512] == [0x55, 0xAA])
            .unwrap();
        let relative = ((second as u64 - 4 * MIB) / 512) as u32;
        image[second + 446 + 16 + 4] = 0x05;
        image[second + 446 + 16 + 8..second + 446 + 16 + 12].copy_from_slice(&relative.to_le_bytes());
        image[second + 446 + 16 + 12] = 1;
        assert_eq!(read(&image, Sectors::SMALL).unwrap().unwrap().partitions.len(), 4);
    }

    #[test]
    fn no_bytes_make_it_panic() {
        let mut readable = 0;
        let mut state = 8664_u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize
        };
        for unit in [512, 4096] {
            // Only the first bytes of the device and the first table sector of the chain are changed.
            let device = |image| Arc::new(MemoryDevice::from_image(image, Sectors::SMALL));
            let (gpt, mbr) = (device(&gpt_image(unit)), device(&mbr_image()));
            for round in 0..4000 {
                let base = if round % 2 == 0 { gpt.clone() } else { mbr.clone() };
                let device = Arc::new(OverlayDevice::new(base));
                let mut image = vec![0; 64 << 10];
                device.read_at(0, &mut image).unwrap();
                let mut chain = vec![0; 512];
                device.read_at(4 * MIB, &mut chain).unwrap();
                // In half of the rounds the checksums are made valid again.
                for _ in 0..=random() % 6 {
                    let spots = [446, unit as usize, 2 * unit as usize];
                    let value = [0, 0xFF, 0x7F, random() as u8][random() % 4];
                    match spots.get(random() % 4) {
                        Some(spot) => image[spot + random() % 128] = value,
                        None => chain[446 + random() % 66] = value,
                    }
                }
                if random().is_multiple_of(2) {
                    let header = unit as usize;
                    let entries = 2 * unit as usize;
                    let sum = crc32fast::hash(&image[entries..entries + 128 * 128]);
                    image[header + 88..header + 92].copy_from_slice(&sum.to_le_bytes());
                    image[header + 16..header + 20].fill(0);
                    let sum = crc32fast::hash(&image[header..header + 92]);
                    image[header + 16..header + 20].copy_from_slice(&sum.to_le_bytes());
                }
                device.write_at(0, &image).unwrap();
                device.write_at(4 * MIB, &chain).unwrap();
                let _ = contents(&*device);
                if let Ok(Some(table)) = PartitionTable::read(&*device) {
                    readable += 1;
                    for entry in &table.partitions {
                        let _ = (entry.to_string(), table.open(device.clone(), entry.number));
                    }
                }
            }
        }
        assert!(readable > 1000, "{readable} of 8000: the changes leave too little to read");
    }
}

//! Where the database of a dynamic disk is: the private header, the table of contents and the database's header.

use crate::bytes::{be32, be64, damaged, is_inside, read};
use platter_device::{Device, PartitionTable, Result};

/// The unit of every place in these structures.
pub(crate) const SECTOR: u64 = 512;
/// The first bytes of a private header.
const PRIVATE: &[u8] = b"PRIVHEAD";
/// The sector of a disk with an MBR that has the first copy of the private header.
const FIRST: u64 = 6;
/// The sectors of the private region that have the other two.
const OTHERS: [u64; 2] = [1856, 2047];
/// The longest database that is read: the private region has 1 MiB on every disk that Windows makes.
const LONGEST: u64 = 1 << 20;

/// The private header: what a disk is in its group, and where its database and its data are.
#[derive(Clone, Debug)]
pub(crate) struct PrivateHeader {
    /// The identifiers of the disk and of its group, as text.
    pub disk: String,
    pub group: String,
    /// The sector from which places of data are counted, and the number of sectors there.
    pub data: (u64, u64),
    /// The first sector of the private region, and the number of its sectors.
    private: (u64, u64),
    /// The sector of the private region with the table of contents.
    contents: u64,
}

/// Text of a field of fixed length, up to the first zero.
fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// The checksum of a private header: the sum of its bytes but for those of the checksum.
fn sum(bytes: &[u8]) -> u32 {
    let all = |bytes: &[u8]| bytes.iter().map(|&byte| u32::from(byte)).sum::<u32>();
    all(bytes) - all(&bytes[0x08..0x0C])
}

/// Puts right the checksums of all private headers; for tests.
pub(crate) fn mend(disk: &dyn Device) {
    let mut places = vec![FIRST];
    if let Ok(Some(table)) = PartitionTable::read(disk) {
        let starts = table.partitions.iter().map(|entry| entry.start / SECTOR);
        places.extend(starts.flat_map(|start| OTHERS.map(|sector| start.saturating_add(sector))));
    }
    for place in places.into_iter().filter(|&place| is_inside(place, 1, disk.len() / SECTOR)) {
        let Ok(mut bytes) = read(disk, place * SECTOR, SECTOR as usize) else { continue };
        if bytes.starts_with(PRIVATE) {
            let right = sum(&bytes).to_be_bytes();
            bytes[0x08..0x0C].copy_from_slice(&right);
            let _ = disk.write_at(place * SECTOR, &bytes);
        }
    }
}

impl PrivateHeader {
    /// Finds the first good copy; `None` if the disk is no dynamic disk. Its partition table says whether it is one. A disk
    /// without any copy is none: others used the type 0x42 before, and there may be volumes in its partitions.
    pub(crate) fn find(disk: &dyn Device) -> Result<Option<PrivateHeader>> {
        let Some(table) = PartitionTable::read(disk)? else { return Ok(None) };
        if !table.partitions.iter().any(|entry| entry.kind.starts_with("LDM ")) {
            return Ok(None);
        }
        let mut places = vec![FIRST];
        let private = table.partitions.iter().filter(|entry| entry.kind == "LDM metadata");
        places.extend(private.flat_map(|entry| OTHERS.map(|sector| entry.start / SECTOR + sector)));
        // The last of an MBR's copies ends the disk.
        places.extend((disk.len() / SECTOR).checked_sub(1));
        let mut wrong = None;
        for place in places {
            if !is_inside(place * SECTOR, SECTOR, disk.len()) {
                continue;
            }
            let bytes = read(disk, place * SECTOR, SECTOR as usize)?;
            if !bytes.starts_with(PRIVATE) {
                continue;
            }
            match PrivateHeader::parse(disk, place * SECTOR, &bytes) {
                Ok(header) => return Ok(Some(header)),
                Err(error) => wrong = wrong.or(Some(error)),
            }
        }
        wrong.map_or(Ok(None), Err)
    }

    fn parse(disk: &dyn Device, at: u64, bytes: &[u8]) -> Result<PrivateHeader> {
        let (stored, sum) = (be32(bytes, 0x08), sum(bytes));
        if sum != stored {
            let (expected, found) = (format!("the sum {stored:#x}"), format!("{sum:#x}"));
            return Err(damaged(disk.name(), "the private header of a dynamic disk", at, expected, found));
        }
        let header = PrivateHeader {
            disk: text(&bytes[0x30..0x70]),
            group: text(&bytes[0xB0..0xF0]),
            data: (be64(bytes, 0x11B), be64(bytes, 0x123)),
            private: (be64(bytes, 0x12B), be64(bytes, 0x133)),
            contents: be64(bytes, 0x13B),
        };
        let sectors = disk.len() / SECTOR;
        for (what, (start, count)) in [("data", header.data), ("private region", header.private)] {
            if !is_inside(start, count, sectors) {
                let (expected, found) =
                    (format!("its {what} on {sectors} sectors"), format!("{count} from sector {start} on"));
                return Err(damaged(
                    disk.name(),
                    "the private header of a dynamic disk",
                    at,
                    expected,
                    found,
                ));
            }
        }
        Ok(header)
    }

    /// The range of the disk that the database is in, in bytes, by the table of contents.
    fn database(&self, disk: &dyn Device) -> Result<(u64, u64)> {
        let name = "the table of contents of a dynamic disk";
        let (start, count) = self.private;
        if self.contents >= count {
            let found = format!("sector {}", self.contents);
            return Err(damaged(disk.name(), name, start * SECTOR, format!("it in {count} sectors"), found));
        }
        let at = (start + self.contents) * SECTOR;
        let bytes = read(disk, at, SECTOR as usize)?;
        if !bytes.starts_with(b"TOCBLOCK") {
            return Err(damaged(disk.name(), name, at, "\"TOCBLOCK\"", format!("{:02x?}", &bytes[..8])));
        }
        let entries = [0x24, 0x46].into_iter().find(|&entry| text(&bytes[entry..entry + 8]) == "config");
        let Some(entry) = entries else {
            return Err(damaged(disk.name(), name, at, "an entry \"config\"", "none"));
        };
        let (first, length) = (be64(&bytes, entry + 10), be64(&bytes, entry + 18));
        if !is_inside(first, length, count) || length * SECTOR > LONGEST || length == 0 {
            let found = format!("{length} sectors from {first} on");
            return Err(damaged(disk.name(), name, at, format!("a database in {count} sectors"), found));
        }
        Ok(((start + first) * SECTOR, length * SECTOR))
    }
}

/// The database of a disk group, of which each of its disks has a copy.
pub(crate) struct Database {
    /// The name of the group.
    pub name: String,
    /// The number of the last change; of two copies the newer one counts.
    pub sequence: u64,
    /// Whether it was written while a change was under way.
    pub is_changing: bool,
    /// Where it is on its disk.
    pub at: u64,
    /// Its records, one after the other.
    pub records: Vec<u8>,
    /// The bytes of each of them.
    pub record: usize,
    /// The bytes before the first of them.
    pub first: u64,
}

impl Database {
    /// Reads the database of a disk.
    pub(crate) fn read(disk: &dyn Device, header: &PrivateHeader) -> Result<Database> {
        let (at, length) = header.database(disk)?;
        let bytes = read(disk, at, length as usize)?;
        let name = "the database of a disk group";
        if !bytes.starts_with(b"VMDB") {
            return Err(damaged(disk.name(), name, at, "\"VMDB\"", format!("{:02x?}", &bytes[..4])));
        }
        let (record, first) = (be32(&bytes, 0x08) as usize, be32(&bytes, 0x0C) as usize);
        if !(64..=4096).contains(&record) || first > bytes.len() || first < 0x80 {
            let found = format!("records of {record} bytes from {first} on");
            return Err(damaged(
                disk.name(),
                name,
                at,
                "records of 64 to 4096 bytes behind the header",
                found,
            ));
        }
        Ok(Database {
            name: text(&bytes[0x16..0x35]),
            sequence: be64(&bytes, 0x75),
            is_changing: bytes[0x10..0x12] != [0, 1],
            at,
            records: bytes[first..].to_vec(),
            record,
            first: first as u64,
        })
    }
}

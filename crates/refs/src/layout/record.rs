//! A file's or directory's record: a small tree inside a row's value, with the standard information in its header and
//! an attribute in each row.
//!
//! Source: forefst `docs/structures/directory_entries.md` and `docs/attributes/`, libfsrefs' documentation, and a
//! root directory that Windows wrote.

use super::bytes::{FieldAt, put, u32_at, u64_at};
use super::node::{NODE_HEADER, ROOT, row_size};
use super::{Attribute, PageReference, TreeNode, TreeNodeMut, header, legacy, object_links};
use crate::layout::tree_header;
use platter_vfs::{Error, Result};

/// The record of a file or directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The schema in the record's header: [`Version::file_schema`](super::Version::file_schema) of the version that
    /// made the record.
    pub schema: u32,
    /// Creation, modification, change and access, each in units of 100 ns since 1601.
    pub times: [u64; 4],
    /// Attribute flags.
    pub attributes: u32,
    /// Internal flags of the driver.
    pub internal: u32,
    /// The identifier of the security descriptor.
    pub security: u64,
    /// The size of the content in bytes.
    pub size: u64,
    /// The number of bytes allocated.
    pub allocated: u64,
    /// The file's last entry in the volume's change journal, and the number of that journal.
    pub journal: [u64; 2],
    /// Packed size of the extended attributes.
    pub ea_size: u32,
    /// The reparse tag.
    pub reparse: u32,
    /// For a file its number in its directory; for a directory the highest number given to a child.
    pub ordinal: u64,
    /// Where a file that was copied from another volume came from.
    pub origin: [u64; 2],
    /// The number of names that lead to the record.
    pub links: u32,
    /// The next number for streams, as the driver counts them; kept as it was read.
    pub next_stream: u64,
    /// The record's attributes, in order.
    pub rows: Vec<Attribute>,
    /// The pages that hold the attributes where these do not fit into the record: then `rows` is empty until the pages
    /// are read.
    pub outside: Vec<PageReference>,
}

impl Record {
    /// Bytes of the header: the tree header, and the standard information.
    pub const HEADER: usize = 0xA8;

    /// Attribute flag: the record is that of a directory.
    pub const DIRECTORY: u32 = 0x1000_0000;
    /// Attribute flag: the data may have holes.
    pub const SPARSE: u32 = 0x200;
    /// Attribute flag: the file is a reparse point.
    pub const REPARSE_POINT: u32 = 0x400;
    /// Attribute flag: the data is checksummed.
    pub const INTEGRITY: u32 = 0x8000;
    /// Attribute flag: the file has extended attributes.
    pub const HAS_EA: u32 = 0x4_0000;

    /// Internal flag of a directory's own record, from 3.14 on: names that differ in case alone are different names.
    /// Source: forefst `docs/structures/upcase_table.md` (August 2026).
    const CASED: u32 = 0x02;

    /// The number of the record's attributes, in its tree header.
    pub const COUNT: FieldAt<u64> = header::ROWS;
    /// The attribute flags.
    pub const FLAGS: FieldAt<u32> = FieldAt::new(0x48);
    const INTERNAL: FieldAt<u32> = FieldAt::new(0x4C);

    /// Whether the value of the row with a directory's own record says that it tells names apart by case.
    pub fn tells_case(value: &[u8]) -> bool {
        value.len() >= Record::HEADER && Record::INTERNAL.of(value) & Record::CASED != 0
    }

    /// The number of names of a file with this record: its links, or the one name that the record stands in the row of.
    /// On volumes of Windows the field for it is 1 however many names there are, or 0 (forefst
    /// `docs/concepts/hard_links.md`).
    pub fn names(&self) -> u32 {
        (object_links(&self.rows).count() as u32).max(1)
    }

    /// A record without attributes.
    pub fn new(schema: u32, now: u64, attributes: u32, security: u64) -> Record {
        Record {
            schema,
            times: [now; 4],
            attributes,
            internal: 0,
            security,
            size: 0,
            allocated: 0,
            journal: [0; 2],
            ea_size: 0,
            reparse: 0,
            ordinal: 0,
            origin: [0; 2],
            links: 1,
            next_stream: 0,
            rows: Vec::new(),
            outside: Vec::new(),
        }
    }

    /// Reads a row's value. `at` is where it stands on the device, for the error.
    pub fn from_bytes(value: &[u8], at: u64) -> Result<Record> {
        let header = u32_at(value, 0) as usize;
        if header != Record::HEADER || value.len() < Record::HEADER + NODE_HEADER {
            return Err(Error::damaged(
                "record's header",
                at,
                format!("{:#x} bytes", Record::HEADER),
                format!("{header:#x} of {:#x}", value.len()),
            ));
        }
        let area = &value[header..];
        TreeNode::check(area).map_err(|(offset, expected, found)| {
            Error::damaged("record's node", at + (header + offset) as u64, expected, found)
        })?;
        let node = TreeNode::new(area);
        let schema = u32_at(value, 0x0C);
        let below = |row: super::Row<'_>| PageReference::from_bytes(row.value, at);
        let (mut rows, outside) = match node.is_inner() {
            true => (Vec::new(), node.rows().map(below).collect::<Result<_>>()?),
            false => (node.rows().map(Attribute::from).collect(), Vec::new()),
        };
        let mut ea_size = u32_at(value, 0x78);
        if legacy::is_legacy(schema) {
            rows = legacy::to_modern(rows);
            // Before 3.7 this field holds the low half of the reparse tag.
            ea_size = 0;
        }
        let times = std::array::from_fn(|index| u64_at(value, 0x28 + 8 * index));
        Ok(Record {
            schema,
            times,
            attributes: Record::FLAGS.of(value),
            internal: Record::INTERNAL.of(value),
            security: u64_at(value, 0x50),
            size: u64_at(value, 0x58),
            allocated: u64_at(value, 0x60),
            journal: [u64_at(value, 0x68), u64_at(value, 0x70)],
            ea_size,
            reparse: u32_at(value, 0x7C),
            ordinal: u64_at(value, 0x80),
            origin: [u64_at(value, 0x88), u64_at(value, 0x90)],
            links: u32_at(value, 0x98),
            next_stream: u64_at(value, 0x9C),
            rows,
            outside,
        })
    }

    /// Returns the value of the row that holds the record. The node's index is at its very end, where other readers
    /// look for it.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut standard = [0; Record::HEADER - 0x28];
        self.times.iter().enumerate().for_each(|(index, time)| put(&mut standard, 8 * index, *time));
        put(&mut standard, 0x20, self.attributes);
        put(&mut standard, 0x24, self.internal);
        put(&mut standard, 0x28, self.security);
        put(&mut standard, 0x30, self.size);
        put(&mut standard, 0x38, self.allocated);
        put(&mut standard, 0x40, self.journal[0]);
        put(&mut standard, 0x48, self.journal[1]);
        let is_legacy = legacy::is_legacy(self.schema);
        put(&mut standard, 0x50, if is_legacy { self.reparse & 0xFFFF } else { self.ea_size });
        put(&mut standard, 0x54, self.reparse);
        put(&mut standard, 0x58, self.ordinal);
        put(&mut standard, 0x60, self.origin[0]);
        put(&mut standard, 0x68, self.origin[1]);
        put(&mut standard, 0x70, self.links);
        put(&mut standard, 0x74, self.next_stream);
        let mut value = tree_header(self.schema, 1, &standard);
        let framed = is_legacy
            .then(|| legacy::to_legacy(&self.rows, self.times[0], self.attributes | Record::DIRECTORY));
        let mut rows: Vec<&Attribute> = framed.as_ref().unwrap_or(&self.rows).iter().collect();
        if !is_legacy {
            rows.sort_by(|left, right| left.order().cmp(&right.order()));
        }
        Record::COUNT.put(&mut value, rows.len() as u64);
        let size: usize = rows.iter().map(|row| row_size(&row.key, &row.value) + 4).sum();
        value.resize((Record::HEADER + NODE_HEADER + size).next_multiple_of(8), 0);
        let mut node = TreeNodeMut::empty(&mut value[Record::HEADER..], 0, ROOT);
        for (position, row) in rows.iter().enumerate() {
            assert!(node.insert(position, &row.key, row.flags, &row.value), "sized for its rows");
        }
        value
    }

    /// The attribute of a type of which a record has one at most.
    pub fn single(&self, kind: u16) -> Option<&Attribute> {
        self.rows.iter().find(|row| row.is_single() && row.kind() == kind)
    }

    /// Removes every attribute for which `gone` returns true.
    pub fn take(&mut self, mut gone: impl FnMut(&Attribute) -> bool) {
        self.rows.retain(|row| !gone(row));
    }
}

/// A short entry: the value of a name whose record is elsewhere. Directories have them, and files that have several
/// names or were moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShortEntry {
    /// The number of a file in its home directory. Directories have none: it is 0, or a number in the directory above
    /// on volumes up to 3.10 and those that earlier versions of Platter changed.
    pub ordinal: u64,
    /// The object number of the directory itself, or of the home directory of a file.
    pub object: u64,
    /// The times, as in the record.
    pub times: [u64; 4],
    /// The bytes allocated, as in the record.
    pub allocated: u64,
    /// The size, as in the record.
    pub size: u64,
    /// The attribute flags, as in the record; [`Record::DIRECTORY`] tells a directory from a file.
    pub attributes: u32,
}

impl ShortEntry {
    /// The entry of a name of a file whose record is in a row of its own in the home directory.
    pub fn of_body(home: u64, ordinal: u64, record: &Record) -> ShortEntry {
        ShortEntry {
            ordinal,
            object: home,
            times: record.times,
            allocated: record.allocated,
            size: record.size,
            attributes: record.attributes,
        }
    }

    /// Reads a row's value.
    pub fn from_bytes(value: &[u8], at: u64) -> Result<ShortEntry> {
        if !(72..=84).contains(&value.len()) {
            return Err(Error::damaged("short directory entry", at, "72 to 84 bytes", value.len()));
        }
        Ok(ShortEntry {
            ordinal: u64_at(value, 0x00),
            object: u64_at(value, 0x08),
            times: std::array::from_fn(|index| u64_at(value, 0x10 + 8 * index)),
            allocated: u64_at(value, 0x30),
            size: u64_at(value, 0x38),
            attributes: u32_at(value, 0x40),
        })
    }

    /// The row's value, `size` bytes long: 84 from 3.10 on, 72 before.
    pub fn to_bytes(&self, size: usize) -> Vec<u8> {
        let mut value = vec![0; size];
        put(&mut value, 0x00, self.ordinal);
        put(&mut value, 0x08, self.object);
        self.times.iter().enumerate().for_each(|(index, time)| put(&mut value, 0x10 + 8 * index, *time));
        put(&mut value, 0x30, self.allocated);
        put(&mut value, 0x38, self.size);
        put(&mut value, 0x40, self.attributes);
        value
    }

    /// Whether the name is that of a directory.
    pub fn is_directory(&self) -> bool {
        self.attributes & Record::DIRECTORY != 0
    }
}

/// The keys of a directory's rows.
pub mod key {
    use super::super::bytes::{FieldAt, put, u16_at};

    /// The first word of the key of the directory's own record.
    pub const RECORD: u16 = 0x10;
    /// The first word of the keys of numbers, see [`NumberRow`](crate::layout::NumberRow).
    pub const NUMBER: u16 = 0x20;
    /// The first word of the keys of names.
    pub const NAME: u16 = 0x30;
    /// The first word of the keys of records of files that have several names or were moved.
    pub const BODY: u16 = 0x40;
    /// The key of the directory's own record.
    pub const OWN: [u8; 4] = [RECORD as u8, 0, 0, 0];
    /// A key before those of all names.
    pub const FIRST_NAME: [u8; 4] = [NAME as u8, 0, 0, 0];
    /// The second word of a name's key where the row's value is the record.
    pub const LONG: u16 = 1;
    /// The second word of a name's key where the record is elsewhere and the row's value is a short entry.
    pub const SHORT: u16 = 2;

    const KIND: FieldAt<u16> = FieldAt::new(0);
    const FORM: FieldAt<u16> = FieldAt::new(2);
    const ORDINAL: FieldAt<u64> = FieldAt::new(8);
    const HOME: FieldAt<u64> = FieldAt::new(16);
    /// The upper half of the first four bytes in the keys of numbers and bodies.
    const UPPER: u32 = 0x8000_0000;
    /// Where the units of a name begin.
    const UNITS: usize = 4;

    /// The first word of a key: which row it is.
    #[inline]
    pub fn kind(key: &[u8]) -> u16 {
        KIND.of(key)
    }

    /// The first word of a key of which the second byte, always 0, may be damaged.
    pub fn likely_kind(key: &[u8]) -> u16 {
        key.first().map_or(0, |&kind| u16::from(kind))
    }

    /// The second word of a name's key of which the second byte, always 0, may be damaged.
    pub fn likely_form(key: &[u8]) -> u16 {
        form(key) & 0xFF
    }

    /// The second word of a name's key: [`LONG`] or [`SHORT`].
    pub fn form(key: &[u8]) -> u16 {
        FORM.of(key)
    }

    /// The number in the key of a number or a body.
    pub fn ordinal(key: &[u8]) -> u64 {
        ORDINAL.of(key)
    }

    /// The home directory in the key of a body.
    pub fn home(key: &[u8]) -> u64 {
        HOME.of(key)
    }

    /// The unit at this position of the name in a name's key; `None` behind its end.
    #[inline]
    pub fn unit(key: &[u8], position: usize) -> Option<u16> {
        let at = UNITS + 2 * position;
        key.get(at..at + 2).map(|unit| u16_at(unit, 0))
    }

    /// The key of a name.
    pub fn name(flags: u16, units: &[u16]) -> Vec<u8> {
        let mut key = vec![0; UNITS + 2 * units.len()];
        KIND.put(&mut key, NAME);
        FORM.put(&mut key, flags);
        units.iter().enumerate().for_each(|(index, unit)| put(&mut key, UNITS + 2 * index, *unit));
        key
    }

    /// The key of the row that leads from a file's number to its name or record.
    /// See [`NumberRow`](crate::layout::NumberRow).
    pub fn number(ordinal: u64) -> [u8; 24] {
        let mut key = [0; 24];
        put(&mut key, 0, UPPER | u32::from(NUMBER));
        ORDINAL.put(&mut key, ordinal);
        key
    }

    /// The key of the record of a file that has several names or was moved, in its home directory.
    pub fn body(ordinal: u64, home: u64) -> [u8; 24] {
        let mut key = [0; 24];
        put(&mut key, 0, UPPER | u32::from(BODY));
        ORDINAL.put(&mut key, ordinal);
        HOME.put(&mut key, home);
        key
    }

    /// The units of the name in a name row's key.
    pub fn units(key: &[u8]) -> Vec<u16> {
        each_unit(key).collect()
    }

    /// The units of the name in a name row's key, one after the other.
    pub fn each_unit(key: &[u8]) -> impl Iterator<Item = u16> {
        key.get(UNITS..).unwrap_or(&[]).chunks_exact(2).map(|unit| u16_at(unit, 0))
    }
}

const _: () = assert!(
    Record::FLAGS.end() <= Record::HEADER && header::FIXED < Record::HEADER,
    "a record begins with a tree header"
);

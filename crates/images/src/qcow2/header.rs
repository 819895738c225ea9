//! The header and its extensions.

use crate::bytes::{be32, be64, damaged, is_inside, read, unusable};
use crate::container::Container;
use crate::parent::Wanted;
use platter_device::{Device, Result};

/// The offsets of fields that are written.
pub(super) const REFCOUNT_TABLE: u64 = 48;
pub(super) const AUTOCLEAR: u64 = 88;

/// The most bytes of the table of the first level, and of that of counters, as QEMU has them.
const MOST_L1: u64 = 32 << 20;
pub(super) const MOST_TABLE: u64 = 8 << 20;
/// The most bytes of the name of a backing file, and of all extensions.
const MOST_NAME: u32 = 1023;
const MOST_EXTENSIONS: u64 = 64 << 10;

/// Features that a reader must know.
mod feature {
    pub(super) const DIRTY: u64 = 1 << 0;
    pub(super) const CORRUPT: u64 = 1 << 1;
    pub(super) const DATA_FILE: u64 = 1 << 2;
    pub(super) const COMPRESSION: u64 = 1 << 3;
    pub(super) const EXTENDED: u64 = 1 << 4;
    pub(super) const KNOWN: u64 = DIRTY | CORRUPT | COMPRESSION;
}

/// How clusters are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Compression {
    Deflate,
    Zstd,
}

/// The image that this one begins with.
#[derive(Clone, Debug)]
pub(super) struct Backing {
    pub name: String,
    /// The format that the image says it has.
    format: Option<String>,
}

impl Backing {
    /// The kind that it must be of.
    pub(super) fn wanted(&self, file: &str) -> Result<Wanted> {
        Ok(match self.format.as_deref() {
            None => Wanted::Any,
            Some("raw" | "file" | "host_device") => Wanted::Raw,
            Some("qcow2") => Wanted::Is(Container::Qcow2),
            Some("vhdx") => Wanted::Is(Container::Vhdx),
            Some("vmdk") => Wanted::Is(Container::Vmdk),
            Some("vpc") => Wanted::Is(Container::Vhd),
            Some(other) => {
                let reason = format!("has a backing file of the format {other:?}, which is not supported");
                return Err(unusable(file, reason));
            }
        })
    }
}

/// What the header says.
#[derive(Clone, Debug)]
pub(super) struct Header {
    pub version: u32,
    pub cluster_bits: u32,
    /// The size of the disk in bytes.
    pub size: u64,
    /// The table of the first level: its offset and the number of its entries.
    pub l1: u64,
    pub l1_entries: u64,
    /// The table of counters: its offset and length in bytes.
    pub table: u64,
    pub table_length: u64,
    /// The bits of a counter are 1 shifted by this.
    pub order: u32,
    pub snapshots: u32,
    pub autoclear: u64,
    pub is_dirty: bool,
    pub is_corrupt: bool,
    pub compression: Compression,
    pub backing: Option<Backing>,
}

impl Header {
    /// The bytes of a cluster.
    pub(super) fn cluster(&self) -> u64 {
        1 << self.cluster_bits
    }

    pub(super) fn read(file: &dyn Device) -> Result<Header> {
        const SHORT: u64 = 72;
        const LONG: u64 = 104;
        let name = file.name();
        let wrong = |what: &str, expected: String, found: String| {
            Err(damaged(name, &format!("the {what} in the header"), 0, expected, found))
        };
        if file.len() < LONG {
            return Err(unusable(name, format!("ends after {} bytes, in the header of a qcow2", file.len())));
        }
        let bytes = read(file, 0, LONG as usize)?;
        let version = be32(&bytes, 4);
        if ![2, 3].contains(&version) {
            return Err(unusable(
                name,
                format!("is a qcow of version {version}, and versions 2 and 3 are supported"),
            ));
        }
        let is_long = version > 2;
        let features = if is_long { be64(&bytes, 72) } else { 0 };
        let order = if is_long { be32(&bytes, 96) } else { 4 };
        let length = if is_long { u64::from(be32(&bytes, 100)) } else { SHORT };
        refuse_unknown(name, features, be32(&bytes, 32))?;
        let cluster_bits = be32(&bytes, 20);
        if !(9..=21).contains(&cluster_bits) {
            return wrong("size of a cluster", "9 to 21 bits".into(), cluster_bits.to_string());
        }
        let cluster = 1_u64 << cluster_bits;
        if length > cluster || is_long && (length < LONG || !length.is_multiple_of(8)) || order > 6 {
            let expected = "a header in the first cluster, and counters of at most 64 bits".into();
            return wrong("length", expected, format!("{length} bytes, and 2 to the {order} bits"));
        }
        let (size, l1, l1_entries) = (be64(&bytes, 24), be64(&bytes, 40), u64::from(be32(&bytes, 36)));
        let reach = u128::from(l1_entries) * u128::from(cluster) * u128::from(cluster / 8);
        if size == 0 || !size.is_multiple_of(512) || i64::try_from(size).is_err() || reach < size.into() {
            let expected = "whole sectors that the table of the first level reaches".into();
            return wrong("size", expected, format!("{size} bytes, and {l1_entries} entries"));
        }
        let table_length = u64::from(be32(&bytes, 56)) << cluster_bits;
        let table = be64(&bytes, 48);
        for (what, at, length, most) in [
            ("table of the first level", l1, l1_entries * 8, MOST_L1),
            ("table of counters", table, table_length, MOST_TABLE),
        ] {
            let is_there = is_inside(at, length, file.len()) && at.is_multiple_of(cluster) && at >= cluster;
            if length > most || !is_there {
                let expected =
                    format!("at most {most} bytes behind the header, in the file's {}", file.len());
                return wrong(what, expected, format!("{length} bytes at {at}"));
            }
        }
        let compression = compression(file, features, length)?;
        Ok(Header {
            version,
            cluster_bits,
            size,
            l1,
            l1_entries,
            table,
            table_length,
            order,
            snapshots: be32(&bytes, 60),
            autoclear: if is_long { be64(&bytes, 88) } else { 0 },
            is_dirty: features & feature::DIRTY != 0,
            is_corrupt: features & feature::CORRUPT != 0,
            compression,
            backing: backing(file, &bytes, length, cluster)?,
        })
    }
}

/// Fails if the image needs something that is not known here.
fn refuse_unknown(file: &str, features: u64, cipher: u32) -> Result<()> {
    let what = match features & !feature::KNOWN {
        _ if cipher != 0 => "is encrypted by QEMU, which is not supported".into(),
        0 => return Ok(()),
        unknown if unknown & feature::DATA_FILE != 0 => {
            "keeps its data in another file, which is not supported".to_string()
        }
        unknown if unknown & feature::EXTENDED != 0 => {
            "has subclusters (extended L2 entries), which are not supported: `qemu-img convert` makes an image without"
                .into()
        }
        unknown => format!("needs features that are not known here, {unknown:#x}"),
    };
    Err(unusable(file, what))
}

/// Reads how clusters are compressed.
fn compression(file: &dyn Device, features: u64, length: u64) -> Result<Compression> {
    /// The offset of the field.
    const AT: u64 = 104;
    if features & feature::COMPRESSION == 0 {
        return Ok(Compression::Deflate);
    }
    if length < AT + 8 {
        let expected = "a header with a type of compression";
        return Err(damaged(file.name(), "the header", 0, expected, format!("{length} bytes")));
    }
    match read(file, AT, 1)?[0] {
        0 => Ok(Compression::Deflate),
        1 => Ok(Compression::Zstd),
        other => Err(unusable(file.name(), format!("is compressed in an unknown way, {other}"))),
    }
}

/// Reads the name of the backing file, and its format from the extensions.
fn backing(file: &dyn Device, header: &[u8], length: u64, cluster: u64) -> Result<Option<Backing>> {
    const FORMAT: u32 = 0xE279_2ACA;
    let (at, size) = (be64(header, 8), be32(header, 16));
    if at == 0 {
        return Ok(None);
    }
    if size > MOST_NAME || !is_inside(at, size.into(), cluster) || !is_inside(at, size.into(), file.len()) {
        let expected = format!("at most {MOST_NAME} bytes in the first cluster");
        return Err(damaged(
            file.name(),
            "the name of the backing file",
            at,
            expected,
            format!("{size} bytes"),
        ));
    }
    let name = String::from_utf8_lossy(&read(file, at, size as usize)?).into_owned();
    let mut format = None;
    let mut place = length;
    let end = at.min(cluster).min(file.len()).min(MOST_EXTENSIONS);
    while is_inside(place, 8, end) {
        let bytes = read(file, place, 8)?;
        let (kind, length) = (be32(&bytes, 0), be32(&bytes, 4));
        if kind == 0 || !is_inside(place + 8, length.into(), end) {
            break;
        }
        if kind == FORMAT {
            format = Some(String::from_utf8_lossy(&read(file, place + 8, length as usize)?).into_owned());
        }
        place += 8 + u64::from(length).next_multiple_of(8);
    }
    Ok(Some(Backing { name, format }))
}

//! Dynamic disks of Windows: volumes over several disks, simple, spanned, striped and mirrored, by the logical disk manager
//! (LDM). They are read.
//!
//! Source: "LDM Documentation" of the Linux-NTFS project, <https://flatcap.github.io/linux-ntfs/ldm/>. Each disk has a private
//! region of 1 MiB with a copy of the database of its group. All numbers are big-endian, and all places are in sectors of 512
//! bytes.

mod header;
mod record;
mod volume;

use crate::bytes::{is_inside, unusable};
pub(crate) use header::mend;
use header::{Database, PrivateHeader, SECTOR};
use platter_device::{Device, Result};
use record::Record;
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use volume::{Layout, Piece, Volume};

/// A group of dynamic disks, of which some may be missing.
pub struct DiskGroup {
    /// Its name.
    pub name: String,
    /// All its disks.
    pub disks: Vec<GroupDisk>,
    /// All its volumes; they are numbered from 1 on.
    pub volumes: Vec<GroupVolume>,
    records: Vec<Record>,
}

/// A disk of a group.
pub struct GroupDisk {
    /// Its name, for example "Disk1".
    pub name: String,
    /// Its identifier (GUID), as text.
    pub identifier: String,
    id: u64,
    device: Option<(Arc<dyn Device>, PrivateHeader)>,
}

impl GroupDisk {
    /// Whether it is among the disks that were named.
    pub fn is_there(&self) -> bool {
        self.device.is_some()
    }
}

/// A volume of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupVolume {
    /// Its name, for example "Volume1".
    pub name: String,
    /// How it lies on the disks.
    pub kind: VolumeKind,
    /// Its size in bytes.
    pub size: u64,
    /// The letter that Windows gave it last, if any.
    pub letter: String,
    /// The names of its disks that are not there.
    pub missing: Vec<String>,
    /// Whether it can be read: of a mirror, one copy whose disks are there is enough.
    pub is_readable: bool,
    id: u64,
}

/// How a volume lies on its disks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VolumeKind {
    /// In one piece.
    Simple,
    /// In several pieces, one after the other.
    Spanned,
    /// In stripes that alternate between disks.
    Striped,
    /// The same on several disks.
    Mirrored,
    /// In stripes with parity (RAID-5), which is not read here.
    Parity,
}

impl fmt::Display for VolumeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            VolumeKind::Simple => "simple",
            VolumeKind::Spanned => "spanned",
            VolumeKind::Striped => "striped",
            VolumeKind::Mirrored => "mirrored",
            VolumeKind::Parity => "RAID-5",
        })
    }
}

/// A component of a volume with its partitions, each with its disk, in the order of the component.
struct Component<'r> {
    kind: u8,
    stripe: Option<(u64, u64)>,
    parts: Vec<&'r Record>,
}

/// Whether a disk is a dynamic disk.
///
/// # Errors
/// The errors of reading it, and [`Error::Unusable`](platter_device::Error::Unusable) for a damaged partition table and for one
/// whose private headers are all damaged.
pub fn is_dynamic(disk: &dyn Device) -> Result<bool> {
    Ok(PrivateHeader::find(disk)?.is_some())
}

/// Opens dynamic disks of one group, in any order.
///
/// # Errors
/// [`Error::Unusable`](platter_device::Error::Unusable) if one is no dynamic disk, or of another group, or is damaged, and the
/// errors of reading.
pub fn disk_group(disks: Vec<Arc<dyn Device>>) -> Result<DiskGroup> {
    let mut found: Vec<(Arc<dyn Device>, PrivateHeader)> = Vec::new();
    let mut newest: Option<(Database, String)> = None;
    for disk in disks {
        let Some(header) = PrivateHeader::find(&*disk)? else {
            return Err(unusable(disk.name(), "is no dynamic disk: it has no private header"));
        };
        if let Some((first, other)) = found.iter().find(|(_, other)| other.group != header.group) {
            let reason =
                format!("is of the disk group {}, and {} is of {}", header.group, first.name(), other.group);
            return Err(unusable(disk.name(), reason));
        }
        let database = Database::read(&*disk, &header)?;
        if newest.as_ref().is_none_or(|(newest, _)| newest.sequence < database.sequence) {
            newest = Some((database, disk.name().to_string()));
        }
        found.push((disk, header));
    }
    let Some((database, on)) = newest else { return Err(unusable("a disk group", "has no disks")) };
    if database.is_changing {
        return Err(unusable(
            &on,
            "has the database of a disk group in the middle of a change, which Windows completes",
        ));
    }
    let mut records = database.parse(&on)?;
    records.sort_by_key(|record| match record {
        Record::Volume { id, .. } | Record::Disk { id, .. } | Record::Component { id, .. } => *id,
        Record::Partition { offset, .. } => *offset,
        Record::Group => 0,
    });
    refuse_twice(&records, &on)?;
    let disks = records.iter().filter_map(|record| match record {
        Record::Disk { id, name, identifier } => {
            let device =
                found.iter().find(|(_, header)| header.disk.eq_ignore_ascii_case(identifier)).cloned();
            Some(GroupDisk { name: name.clone(), identifier: identifier.clone(), id: *id, device })
        }
        _ => None,
    });
    let disks: Vec<GroupDisk> = disks.collect();
    if let Some((disk, header)) = found
        .iter()
        .find(|(_, header)| !disks.iter().any(|disk| header.disk.eq_ignore_ascii_case(&disk.identifier)))
    {
        return Err(unusable(
            disk.name(),
            format!("is disk {}, which its group does not have any more", header.disk),
        ));
    }
    let mut group = DiskGroup { name: database.name, disks, volumes: Vec::new(), records };
    group.volumes = group.records.iter().filter_map(|record| group.volume(record)).collect();
    Ok(group)
}

/// Fails if two volumes, or two components, have one number: the parts of one would be those of the other, and all its volumes
/// would have all its components.
fn refuse_twice(records: &[Record], disk: &str) -> Result<()> {
    let mut known = HashSet::new();
    for record in records {
        let (what, id) = match record {
            Record::Volume { id, .. } => ("volume", *id),
            Record::Component { id, .. } => ("component", *id),
            _ => continue,
        };
        if !known.insert((what, id)) {
            return Err(unusable(
                disk,
                format!("has a disk group in which more than one {what} has the number {id}"),
            ));
        }
    }
    Ok(())
}

impl DiskGroup {
    fn components(&self, volume: u64) -> Vec<Component<'_>> {
        let of = |record: &Record| match *record {
            Record::Component { id, volume: own, kind, stripe, .. } if own == volume => {
                let is_own = |record: &&Record| matches!(record, Record::Partition { component, .. } if *component == id);
                Some(Component { kind, stripe, parts: self.records.iter().filter(is_own).collect() })
            }
            _ => None,
        };
        self.records.iter().filter_map(of).collect()
    }

    fn disk(&self, id: u64) -> Option<&GroupDisk> {
        self.disks.iter().find(|disk| disk.id == id)
    }

    fn volume(&self, record: &Record) -> Option<GroupVolume> {
        let Record::Volume { id, name, kind, size, hint } = record else { return None };
        let components = self.components(*id);
        let kind = match (&components[..], kind.as_str()) {
            (_, "raid5") => VolumeKind::Parity,
            (components, _) if components.iter().any(|component| component.kind == 3) => VolumeKind::Parity,
            ([_, _, ..], _) => VolumeKind::Mirrored,
            (components, _) if components.iter().any(|component| component.kind == 1) => VolumeKind::Striped,
            (components, _) if components.iter().any(|component| component.parts.len() > 1) => {
                VolumeKind::Spanned
            }
            _ => VolumeKind::Simple,
        };
        let missing_of = |component: &Component<'_>| {
            let name = |record: &&Record| match record {
                Record::Partition { disk, .. } => match self.disk(*disk) {
                    Some(disk) if disk.is_there() => None,
                    Some(disk) => Some(disk.name.clone()),
                    None => Some(format!("a disk with the number {disk}")),
                },
                _ => None,
            };
            component.parts.iter().filter_map(name).collect::<Vec<String>>()
        };
        let all: Vec<Vec<String>> = components.iter().map(missing_of).collect();
        let is_readable = kind != VolumeKind::Parity && all.iter().any(Vec::is_empty);
        let mut missing = all.concat();
        missing.sort();
        missing.dedup();
        let size = size.saturating_mul(SECTOR);
        Some(GroupVolume {
            name: name.clone(),
            kind,
            size,
            letter: hint.clone(),
            missing,
            is_readable,
            id: *id,
        })
    }

    /// The volume that is meant: the one with this number, counted from 1, or without a number the only one that can be read.
    ///
    /// # Errors
    /// [`Error::Unusable`](platter_device::Error::Unusable) for a number that no volume has, for a volume that cannot be read,
    /// with what is missing, and if several can be read and none is named.
    pub fn open(&self, number: Option<u32>) -> Result<Arc<dyn Device>> {
        let wrong = |reason: String| Err(unusable(&format!("the disk group {}", self.name), reason));
        let readable: Vec<&GroupVolume> = self.volumes.iter().filter(|volume| volume.is_readable).collect();
        let volume = match (number, &readable[..]) {
            (Some(number), _) => {
                match (number as usize).checked_sub(1).and_then(|number| self.volumes.get(number)) {
                    Some(volume) => volume,
                    None => {
                        return wrong(format!("has {} volumes, and no volume {number}", self.volumes.len()));
                    }
                }
            }
            (None, [one]) => one,
            (None, []) => {
                let first = self.volumes.iter().min_by_key(|volume| volume.missing.len());
                match first {
                    Some(volume) => volume,
                    None => return wrong("has no volumes".into()),
                }
            }
            (None, several) => {
                return wrong(format!("has {} volumes that can be read; name one: @1", several.len()));
            }
        };
        if volume.kind == VolumeKind::Parity {
            return wrong(format!("has in {} a RAID-5 volume, which is not read here", volume.name));
        }
        if !volume.is_readable {
            return wrong(format!("lacks {}, which {} lies on", self.named(&volume.missing), volume.name));
        }
        let components = self.components(volume.id);
        let copies = components.iter().filter_map(|component| self.layout(volume, component).transpose());
        let copies = copies.collect::<Result<Vec<Layout>>>()?;
        let (name, length) = (format!("{} of the disk group {}", volume.name, self.name), volume.size);
        Ok(Arc::new(Volume { name, length, copies }))
    }

    /// Disks by name, with the identifiers by which a user finds them.
    fn named(&self, names: &[String]) -> String {
        let shown = |name: &String| match self.disks.iter().find(|disk| disk.name == *name) {
            Some(disk) => format!("{name} {{{}}}", disk.identifier),
            None => name.clone(),
        };
        names.iter().map(shown).collect::<Vec<_>>().join(" and ")
    }

    /// Where a component lies; `None` if one of its disks is missing.
    fn layout(&self, volume: &GroupVolume, component: &Component<'_>) -> Result<Option<Layout>> {
        let wrong = |reason: String| Err(unusable(&volume.name, reason));
        let mut pieces = Vec::new();
        for record in &component.parts {
            let Record::Partition { start, offset, size, disk, index, .. } = record else { continue };
            let Some((device, header)) = self.disk(*disk).and_then(|disk| disk.device.as_ref()) else {
                return Ok(None);
            };
            if *size == 0 || !is_inside(*start, *size, header.data.1) {
                return wrong(format!(
                    "has a part of {size} sectors from {start} on, where a disk has {}",
                    header.data.1
                ));
            }
            let piece = Piece {
                disk: device.clone(),
                start: (header.data.0 + start) * SECTOR,
                length: size * SECTOR,
            };
            pieces.push((*index, *offset, piece));
        }
        let layout = match component.stripe {
            Some((stripe, columns)) if component.kind == 1 => {
                pieces.sort_by_key(|(index, ..)| *index);
                let is_whole = (0..).zip(&pieces).all(|(number, (index, ..))| *index == number);
                if !is_whole || columns != pieces.len() as u64 || stripe == 0 || stripe > 1 << 20 {
                    return wrong(format!(
                        "has {} parts in {columns} columns of stripes of {stripe} sectors",
                        pieces.len()
                    ));
                }
                Layout {
                    stripe: stripe * SECTOR,
                    columns: pieces.into_iter().map(|(.., piece)| vec![piece]).collect(),
                }
            }
            _ => {
                let mut end = 0;
                for (_, offset, piece) in &pieces {
                    if offset.checked_mul(SECTOR) != Some(end) {
                        return wrong(format!(
                            "has a part at sector {offset}, where {} was expected",
                            end / SECTOR
                        ));
                    }
                    end += piece.length;
                }
                Layout { stripe: 0, columns: vec![pieces.into_iter().map(|(.., piece)| piece).collect()] }
            }
        };
        let lengths =
            layout.columns.iter().map(|column| column.iter().map(|piece| piece.length).sum::<u64>());
        let shortest = lengths.min().unwrap_or(0);
        if shortest.saturating_mul(layout.columns.len() as u64) < volume.size {
            return wrong(format!("has {} bytes, and its parts are shorter", volume.size));
        }
        Ok(Some(layout))
    }
}

//! `platter info`

use crate::command::failure::printable;
use crate::command::failure::{About, Failure, Outcome};
use crate::command::keys::keys;
use crate::command::output::{Output, grouped};
use crate::command::volume::{ReadOptions, device_options, open_options, open_unfinished, source_of};
use clap::Args;
use platter::bitlocker::Encrypted;
use platter::{Access, Source, SourceKind, look_at_copies, open_group};
use platter_device::show_size;
use platter_device::{Caching, Device, Error, FileOptions, PartitionTable, contents};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Show what a device holds: partitions, and each volume's format, label and space
///
/// Exit codes: 0 all volumes that were recognised were opened, 1 one cannot be.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Image file, block device or mirror:IMAGE,IMAGE
    image: PathBuf,
    /// As JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    volume: ReadOptions,
}

#[derive(Serialize)]
struct Document {
    device: String,
    /// What kind of file it is, unless its bytes are those of the disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    container: Option<String>,
    size: u64,
    logical_sector: u32,
    physical_sector: u32,
    /// The content of the whole device, if it has no partitions.
    #[serde(skip_serializing_if = "Option::is_none")]
    holds: Option<Holds>,
    #[serde(skip_serializing_if = "Option::is_none")]
    partition_table: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    partitions: Vec<Part>,
    /// The group of a dynamic disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    disk_group: Option<Group>,
}

/// A group of dynamic disks.
#[derive(Serialize)]
struct Group {
    name: String,
    disks: Vec<GroupDisk>,
    volumes: Vec<GroupVolume>,
}

#[derive(Serialize)]
struct GroupDisk {
    name: String,
    identifier: String,
    is_there: bool,
}

#[derive(Serialize)]
struct GroupVolume {
    number: u32,
    name: String,
    layout: String,
    size: u64,
    letter: String,
    /// The names of its disks that are not there.
    missing: Vec<String>,
    /// What it holds, if it can be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    holds: Option<Holds>,
}

#[derive(Serialize)]
struct Part {
    number: u32,
    start: u64,
    size: u64,
    #[serde(rename = "type")]
    kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    holds: Holds,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Holds {
    /// A volume that was opened.
    Volume(Volume),
    /// A volume of a known format that cannot be opened, and the reason.
    Damaged(String),
    /// Content that is recognised but is no volume of a known format, and its name.
    Other(String),
    /// A volume that BitLocker encrypts.
    Encrypted(Locked),
    /// Nothing that is recognised.
    Unknown,
}

#[derive(Serialize)]
struct Locked {
    layout: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    method: Option<String>,
    identifier: String,
    description: String,
    /// What it can be opened with: what each key is, and its identifier.
    protectors: Vec<(String, String)>,
    /// Why Windows has to do with it first.
    #[serde(skip_serializing_if = "Option::is_none")]
    conversion: Option<String>,
    /// What is in it, if a key is given or its protection is suspended.
    #[serde(skip_serializing_if = "Option::is_none")]
    opened: Option<Box<Holds>>,
}

#[derive(Serialize)]
struct Volume {
    format: String,
    label: String,
    identifier: String,
    cluster: u64,
    clusters: u64,
    free_clusters: u64,
    dirty: bool,
    details: BTreeMap<String, String>,
    #[serde(skip)]
    ordered: Vec<(&'static str, String)>,
}

impl Arguments {
    pub(crate) fn run(mut self) -> Outcome {
        let Source { partition, .. } = source_of(&self.image, self.volume.partition)?;
        self.volume.partition = partition;
        let (whole, _) = Source::split_partition(&self.image);
        let source = Source::whole(&whole)?;
        if source.kind == SourceKind::Dynamic {
            let disks = open_group(&source, &device_options(Access::Read, Caching::default()))?;
            return self.show(&Document::of_group(&source, group(&disks)?));
        }
        let device = open_unfinished(&whole, Access::Read, self.volume.force)?;
        look_at_copies(&*device, &device_options(Access::Read, Caching::default()))?;
        let mut document = self.look(device)?;
        document.container = kind_of(&whole);
        self.show(&document)
    }

    fn show(&self, document: &Document) -> Outcome {
        let mut output = Output::new();
        if self.json {
            output.json(document)?
        } else {
            print(&mut output, document)?
        }
        output.finish()?;
        let parts = document.partitions.iter().map(|part| &part.holds);
        let is_damaged = parts.chain(&document.holds).any(is_damaged);
        Ok(u8::from(is_damaged))
    }

    fn look(&self, device: Arc<dyn Device>) -> Result<Document, Failure> {
        if platter_images::is_dynamic(&*device)? {
            let disks = platter_images::disk_group(vec![device.clone()])?;
            let mut document = Document::of_device(&*device);
            document.disk_group = Some(group(&disks)?);
            return Ok(document);
        }
        let table = PartitionTable::read(&*device)?;
        if let (None, Some(number)) = (&table, self.volume.partition) {
            let reason = format!("has no partition table, and so no partition {number}");
            return Err(Failure::new(device.name(), reason));
        }
        let mut partitions = Vec::new();
        for entry in table.iter().flat_map(|table| &table.partitions) {
            if self.volume.partition.is_none_or(|number| number == entry.number) {
                let opened = table.as_ref().expect("it has entries").open(device.clone(), entry.number);
                let holds = match opened {
                    // What is on a disk of a pool looks like nothing, or like what was there before.
                    Ok(_) if entry.kind == STORAGE_SPACES => Holds::Other(POOL.into()),
                    Ok(partition) => holds(Arc::new(partition))?,
                    Err(error) => Holds::Damaged(error.to_string()),
                };
                let (number, start, size) = (entry.number, entry.start, entry.length);
                let (kind, name) = (entry.kind.clone(), entry.name.clone());
                partitions.push(Part { number, start, size, kind, name, holds });
            }
        }
        if let (Some(table), Some(number), true) = (&table, self.volume.partition, partitions.is_empty()) {
            // Opening a partition that does not exist fails with an error that lists those that do.
            table.open(device.clone(), number)?;
        }
        let mut document = Document::of_device(&*device);
        document.partition_table = table.as_ref().map(|table| table.scheme.to_string());
        document.holds = if table.is_none() { Some(holds(device)?) } else { None };
        document.partitions = partitions;
        Ok(document)
    }
}

impl Document {
    /// What is known of a device before its content is looked at.
    fn of_device(device: &dyn Device) -> Document {
        let sectors = device.sectors();
        Document {
            device: device.name().to_string(),
            container: None,
            size: device.len(),
            logical_sector: sectors.logical,
            physical_sector: sectors.physical,
            partition_table: None,
            holds: None,
            partitions: Vec::new(),
            disk_group: None,
        }
    }

    /// Several dynamic disks, whose volumes are all that is shown of them.
    fn of_group(source: &Source, group: Group) -> Document {
        let size =
            group.volumes.iter().filter(|volume| volume.holds.is_some()).map(|volume| volume.size).sum();
        Document {
            device: source.to_string(),
            container: None,
            size,
            logical_sector: 512,
            physical_sector: 512,
            partition_table: None,
            holds: None,
            partitions: Vec::new(),
            disk_group: Some(group),
        }
    }
}

/// What there is to say of a group of dynamic disks.
fn group(disks: &platter_images::DiskGroup) -> Result<Group, Failure> {
    let disk = |disk: &platter_images::GroupDisk| GroupDisk {
        name: disk.name.clone(),
        identifier: disk.identifier.clone(),
        is_there: disk.is_there(),
    };
    let mut volumes = Vec::new();
    for (number, volume) in (1..).zip(&disks.volumes) {
        let holds = match disks.open(Some(number)) {
            Ok(device) => Some(holds(device)?),
            Err(error) if volume.is_readable => Some(Holds::Damaged(error.to_string())),
            Err(_) => None,
        };
        let (name, layout, size) = (volume.name.clone(), volume.kind.to_string(), volume.size);
        let (letter, missing) = (volume.letter.clone(), volume.missing.clone());
        volumes.push(GroupVolume { number, name, layout, size, letter, missing, holds });
    }
    Ok(Group { name: disks.name.clone(), disks: disks.disks.iter().map(disk).collect(), volumes })
}

fn print_group(output: &mut Output, group: &Group) -> Result<(), Failure> {
    output.line(format_args!("disk group {}", printable(&group.name)))?;
    for GroupDisk { name, identifier, is_there } in &group.disks {
        let state = if *is_there { "there" } else { "missing" };
        output.line(format_args!("{} {{{}}}: {state}", printable(name), printable(identifier)))?;
    }
    for volume in &group.volumes {
        let GroupVolume { number, name, layout, size, letter, missing, holds } = volume;
        let letter = if letter.is_empty() { String::new() } else { format!(", {}", printable(letter)) };
        let missing = match &missing[..] {
            [] => String::new(),
            missing => format!(", without {}", printable(&missing.join(" and "))),
        };
        let size = show_size(*size);
        output
            .line(format_args!("volume {number}: {}, {layout}, {size}{letter}{missing}", printable(name)))?;
        match holds {
            Some(holds) => print_holds(output, holds, "  ")?,
            None => output.line(format_args!("  cannot be read"))?,
        }
    }
    Ok(())
}

/// The type of a partition that is a disk of a pool.
const STORAGE_SPACES: &str = "Storage Spaces";
const POOL: &str = "a disk of a Storage Spaces pool, which is not read here: its structures (which spaces the pool has, and where their \
                    slabs and copies lie) are not public, and Windows alone can open it";

fn is_damaged(holds: &Holds) -> bool {
    match holds {
        Holds::Damaged(_) => true,
        Holds::Encrypted(Locked { opened: Some(inside), .. }) => is_damaged(inside),
        _ => false,
    }
}

/// What kind of file a single image is, unless its bytes are those of the disk.
fn kind_of(image: &Path) -> Option<String> {
    let source = Source::whole(image).ok().filter(|source| source.kind != SourceKind::Mirror)?;
    let reading = FileOptions { read_only: true, ..FileOptions::default() };
    platter_images::open(&source.paths[0], reading).ok()?.kind
}

fn holds(device: Arc<dyn Device>) -> Result<Holds, Failure> {
    let name = device.name().to_string();
    match Encrypted::look(&*device) {
        Ok(Some(encrypted)) => return Ok(Holds::Encrypted(locked(&encrypted, device))),
        Err(error @ Error::Unusable { .. }) => return Ok(Holds::Damaged(error.to_string())),
        // A sector that cannot be read is told of below.
        Ok(None) | Err(_) => {}
    }
    let Some((format, recognised)) = platter_formats::recognise(&*device).about(&name)? else {
        let Some(known) = contents(&*device)? else { return Ok(Holds::Unknown) };
        return Ok(match platter_formats::fault(&*device, &known) {
            Some(error) => Holds::Damaged(format!("{known}: {error}")),
            None => Holds::Other(known),
        });
    };
    let whole = platter_formats::whole(device, &recognised);
    let opened = whole.and_then(|whole| format.open(whole, open_options(true)));
    let volume = opened.and_then(|system| {
        let (info, space) = (system.info()?, system.space()?);
        let shown = info.shown();
        Ok(Volume {
            format: info.format,
            label: info.label,
            identifier: info.identifier,
            cluster: space.cluster,
            clusters: space.total,
            free_clusters: space.free,
            dirty: info.dirty,
            details: shown.iter().map(|(name, value)| ((*name).to_string(), value.clone())).collect(),
            ordered: shown,
        })
    });
    Ok(volume.map_or_else(|error| Holds::Damaged(error.to_string()), Holds::Volume))
}

/// Names an encrypted volume, which needs no key, and looks into it if there is one. Nobody is asked for it.
fn locked(encrypted: &Encrypted, device: Arc<dyn Device>) -> Locked {
    let opened = match encrypted.clear_key() {
        Some(key) => encrypted.open(device, &key).map(|volume| Some(Arc::new(volume) as Arc<dyn Device>)),
        None if keys().is_empty() => Ok(None),
        None => match keys().unlocked_if_given(device) {
            Ok(volume) => Ok(Some(volume)),
            Err(error) => {
                return Locked { opened: Some(Box::new(Holds::Damaged(error.to_string()))), ..of(encrypted) };
            }
        },
    };
    let opened = match opened {
        Ok(None) => None,
        Ok(Some(volume)) => Some(holds(volume).unwrap_or_else(|failure| Holds::Damaged(failure.to_string()))),
        Err(error) => Some(Holds::Damaged(error.to_string())),
    };
    Locked { opened: opened.map(Box::new), ..of(encrypted) }
}

/// What an encrypted volume says of itself.
fn of(encrypted: &Encrypted) -> Locked {
    let protectors = encrypted.protectors().iter();
    Locked {
        layout: encrypted.layout().to_string(),
        method: match encrypted.method() {
            Some(method) => Some(method.to_string()),
            None => encrypted.is_decrypted().then(|| "none".to_string()),
        },
        identifier: encrypted.id().to_string(),
        description: encrypted.description().to_string(),
        protectors: protectors.map(|one| (one.protection().to_string(), one.id().to_string())).collect(),
        conversion: encrypted.conversion(),
        opened: None,
    }
}

fn print(output: &mut Output, document: &Document) -> Result<(), Failure> {
    let Document { device, container, size, logical_sector, physical_sector, .. } = document;
    let sectors = if logical_sector == physical_sector {
        format!("sectors of {logical_sector} bytes")
    } else {
        format!("sectors of {logical_sector} bytes, physically {physical_sector}")
    };
    output.line(format_args!("{device}: {} ({} bytes), {sectors}", show_size(*size), grouped(*size)))?;
    if let Some(container) = container {
        output.line(format_args!("image: {container}"))?;
    }
    if let Some(holds) = &document.holds {
        print_holds(output, holds, "")?;
    }
    if let Some(scheme) = &document.partition_table {
        output.line(format_args!("{scheme} partition table"))?;
    }
    for part in &document.partitions {
        let Part { number, start, size, kind, name, holds } = part;
        let name = name.as_ref().map_or_else(String::new, |name| format!(", named {name:?}"));
        output.line(format_args!(
            "partition {number}: {kind}, {} at {}{name}",
            show_size(*size),
            show_size(*start)
        ))?;
        print_holds(output, holds, "  ")?;
    }
    match &document.disk_group {
        Some(group) => print_group(output, group),
        None => Ok(()),
    }
}

fn print_locked(output: &mut Output, locked: &Locked, indent: &str) -> Result<(), Failure> {
    let Locked { layout, method, identifier, description, protectors, conversion, opened } = locked;
    output.line(format_args!("{indent}holds a volume encrypted by BitLocker"))?;
    let mut facts = vec![
        ("layout", layout.clone()),
        ("method", method.clone().unwrap_or_else(|| "not known here".into())),
        ("identifier", identifier.clone()),
    ];
    if !description.is_empty() {
        facts.push(("encrypted as", printable(description)));
    }
    facts.extend(protectors.iter().map(|(kind, id)| ("protected by", format!("{kind} {id}"))));
    facts.extend(conversion.iter().map(|why| ("conversion", why.clone())));
    output.facts(indent, facts.iter().map(|(name, value)| (*name, value.as_str())))?;
    match opened {
        Some(inside) => print_holds(output, inside, indent),
        None => Ok(()),
    }
}

fn print_holds(output: &mut Output, holds: &Holds, indent: &str) -> Result<(), Failure> {
    let volume = match holds {
        Holds::Volume(volume) => volume,
        Holds::Damaged(why) => return output.line(format_args!("{indent}cannot be opened: {why}")),
        Holds::Other(what) => return output.line(format_args!("{indent}holds {what}")),
        Holds::Unknown => return output.line(format_args!("{indent}nothing is recognised")),
        Holds::Encrypted(locked) => return print_locked(output, locked, indent),
    };
    let bytes = |clusters: u64| show_size(clusters.saturating_mul(volume.cluster));
    let facts = [
        ("format", volume.format.clone()),
        ("label", if volume.label.is_empty() { "none".into() } else { format!("{:?}", volume.label) }),
        ("identifier", volume.identifier.clone()),
        ("cluster", show_size(volume.cluster)),
        ("space", format!("{} in {} clusters", bytes(volume.clusters), grouped(volume.clusters))),
        ("free", format!("{} in {} clusters", bytes(volume.free_clusters), grouped(volume.free_clusters))),
        ("clean", if volume.dirty { "no: not unmounted".into() } else { "yes".into() }),
    ];
    output.facts(indent, facts.iter().chain(&volume.ordered).map(|(name, value)| (*name, value.as_str())))
}

//! `platter mkfs`

use crate::failure::{About, Failure, Outcome, shown, tell};
use crate::image::Image;
use crate::output::Output;
use crate::progress::{Bar, Unit};
use crate::volume::{Access, open_file, open_options, refuse_mounted, wait_until_closed};
use clap::Args;
use platter_device::{
    Device, Error, Fault, Faults, FileDevice, FileOptions, Operation, OverlayDevice, Partition,
    PartitionTable, Scheme, When, contents, refuse_contents, refuse_in_use,
};
use platter_device::{parse_size, show_size};
use platter_vfs::{Format, FormatOptions, Silent};
use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Make a file system
///
/// An image file that does not exist is made, sparse, if --size is given; one that exists keeps its size or takes the
/// one given. Refuses a device that is in use or holds a file system or partition table, unless --force. All this is
/// done with each copy of a mirror.
///
/// refs+integrity is refs with --integrity on.
#[derive(Args)]
#[command(disable_version_flag = true)]
pub struct Arguments {
    /// The file system
    #[arg(value_parser = format_parser())]
    file_system: String,
    /// Image file, block device or mirror:IMAGE,IMAGE
    image: PathBuf,
    /// Size of the image file
    #[arg(long, value_parser = parse_size)]
    size: Option<u64>,
    /// Version or kind: 3.14 (the default) or 3.4 for refs; 12, 16 or 32 for fat, which chooses by size
    #[arg(long)]
    version: Option<String>,
    /// Cluster size; the format chooses by default. 4k or 64k for refs, 512 to 64k for FAT, 512 to 32M for exfat, 512 to
    /// 2M for ntfs
    #[arg(long, value_parser = parse_size)]
    cluster: Option<u64>,
    /// Checksum of metadata, for refs only: crc64 (the default at 3.14), sha256 or none (all that 3.4 has)
    #[arg(long, value_name = "ALGORITHM")]
    checksum: Option<String>,
    /// Whether the data of new files is checksummed, for refs only; off by default. What was made can be changed with
    /// `platter integrity`
    #[arg(long, value_name = "on|off", value_parser = parse_switch)]
    integrity: Option<bool>,
    /// Size of a record of the master file table, for ntfs only: 1k (the default, but for 4k sectors) or 4k
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    mft_record: Option<u64>,
    /// Compress new files, for ntfs only: what is made in the root is, and what is made in that
    #[arg(long)]
    compress: bool,
    /// What clusters begin on a multiple of, for exfat only: 1M by default; 16M suits cards over 32 GB
    #[arg(long, value_parser = parse_size)]
    align: Option<u64>,
    /// Volume label: up to 32 UTF-16 units for refs and ntfs, 11 letters for FAT, 11 UTF-16 units for exfat
    #[arg(long)]
    label: Option<String>,
    /// Serial number in hexadecimal, with or without a hyphen; from the time by default
    #[arg(long, value_parser = parse_serial)]
    serial: Option<u64>,
    /// Overwrite every cluster, not only the file system's own structures
    #[arg(long)]
    full: bool,
    /// Make it in this partition
    #[arg(long, value_name = "N")]
    partition: Option<u32>,
    /// Overwrite what is there, even if it is in use
    #[arg(long)]
    force: bool,
}

pub fn format_parser() -> clap::builder::PossibleValuesParser {
    clap::builder::PossibleValuesParser::new(platter_formats::registry().iter().map(|format| format.name()))
}

/// On or off.
pub fn parse_switch(text: &str) -> Result<bool, String> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err("expected on or off".to_string()),
    }
}

/// Says so if others would not look for this format in a partition of this type: Windows gives it no letter then.
fn hint(image: &Path, format: &str, (scheme, kind): &(Scheme, String)) {
    let expected: &[&str] = match (scheme, format) {
        (Scheme::Gpt, _) => &["basic data", "EFI system", "Windows recovery"],
        (Scheme::Mbr, "ntfs" | "exfat" | "refs" | "refs+integrity") => {
            &["NTFS, exFAT or ReFS", "Windows recovery"]
        }
        (Scheme::Mbr, _) => &["FAT12", "FAT16", "FAT32", "EFI system"],
    };
    if !expected.contains(&kind.as_str()) {
        let kind = if kind.is_empty() { "unknown" } else { kind };
        tell(format_args!(
            "platter: {}: the partition's type is {kind}, where {} is expected: other systems may not look for a volume there",
            shown(image),
            expected[0]
        ));
    }
}

fn parse_serial(text: &str) -> Result<u64, String> {
    u64::from_str_radix(&text.replacen('-', "", 1), 16)
        .map_err(|_| "expected a hexadecimal number such as 1A2B-3C4D".to_string())
}

impl Arguments {
    pub fn run(self) -> Outcome {
        let format = platter_formats::by_name(&self.file_system).expect("clap allows these names only");
        let mut made = Made::default();
        let options = FormatOptions {
            cluster: self.cluster,
            label: self.label.clone(),
            serial: self.serial,
            variant: self.version.clone(),
            checksum: self.checksum.clone(),
            integrity: self.integrity,
            align: self.align,
            record: self.mft_record,
            compress: self.compress.then_some(true),
            full: self.full,
        };
        let device = self.device(&mut made, |device| rehearse(format, device, &options))?;
        let kind = self.kind_of_partition()?;
        let bar = Bar::new(Unit::Steps);
        format.make(&*device, &options, &bar).about(device.name())?;
        device.flush()?;
        drop(bar);
        made.keep()?;
        // A partition is a part of copies, of which the rest stays what it was.
        if self.partition.is_none() {
            crate::mirror::found(&Image::parse(&self.image)?, device.len())?;
        }
        let code = report(format, device)?;
        if let Some(kind) = kind {
            hint(&self.image, format.name(), &kind);
        }
        Ok(code)
    }

    /// What the table says of the partition that is meant.
    fn kind_of_partition(&self) -> Result<Option<(Scheme, String)>, Failure> {
        let Some(number) = self.partition else { return Ok(None) };
        let Some(path) = Image::parse(&self.image)?.paths.into_iter().next() else { return Ok(None) };
        let device = FileDevice::open(path, FileOptions { read_only: true, ..FileOptions::default() })?;
        let Some(table) = PartitionTable::read(&device)? else { return Ok(None) };
        let entry = table.partitions.iter().find(|entry| entry.number == number);
        Ok(entry.map(|entry| (table.scheme, entry.kind.clone())))
    }

    /// The device to make it on, with nothing on it that may not be lost, and nothing that others would take it for.
    /// Before anything is destroyed, `rehearse` says whether a volume can be made there.
    fn device(
        &self,
        made: &mut Made,
        rehearse: impl Fn(Arc<dyn Device>) -> Result<(), Failure>,
    ) -> Result<Arc<dyn Device>, Failure> {
        let image = Image::parse(&self.image)?;
        // Each copy is asked before the first is touched.
        image.paths.iter().try_for_each(|path| self.ask(path))?;
        let parts = image.paths.iter().map(|path| self.part(path, made)).collect::<Result<Vec<_>, _>>()?;
        if !self.force {
            parts.iter().try_for_each(|part| refuse_contents(&**part))?;
        }
        parts.iter().try_for_each(|part| rehearse(part.clone()))?;
        if self.force {
            parts.iter().try_for_each(|part| wipe(&**part))?;
        }
        image.device(parts)
    }

    /// Whether an image file or block device can be what the arguments say, and may be.
    fn ask(&self, path: &Path) -> Result<(), Failure> {
        let metadata = match fs::metadata(path) {
            Ok(metadata) => Some(metadata),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => return Err(error).about(shown(path)),
        };
        refuse_mounted(path)?;
        wait_until_closed(path);
        let is_block = metadata.as_ref().is_some_and(|data| data.file_type().is_block_device());
        let wrong = |why| Err(Failure::new(shown(path), why));
        match (self.size, metadata) {
            (None, None) => wrong("does not exist; to make it, give --size"),
            (Some(_), Some(_)) if is_block => {
                wrong("a block device has the size it has; --size is for images")
            }
            (Some(_), _) if self.partition.is_some() => wrong("--size and --partition exclude each other"),
            (Some(_), Some(_)) if !self.force => {
                refuse_in_use(path)?;
                // Before its size changes: what it holds may be at the end.
                let options = FileOptions { read_only: true, ..FileOptions::default() };
                Ok(refuse_contents(&FileDevice::open(path, options)?)?)
            }
            _ => Ok(()),
        }
    }

    /// Opens an image file or block device, after making the image file if that is what is asked for, and in it the
    /// partition that is meant.
    fn part(&self, path: &Path, made: &mut Made) -> Result<Arc<dyn Device>, Failure> {
        let device = match self.size {
            None => open_file(path, Access::Write { force: self.force })?,
            Some(size) => {
                let options = FileOptions { exclusive: true, ..FileOptions::default() };
                made.device(path, size, options)?
            }
        };
        let Some(number) = self.partition else { return Ok(device) };
        match PartitionTable::read(&*device)? {
            Some(table) => {
                let part = table.open(device, number)?;
                match part.len().checked_sub(part.end()) {
                    Some(0) => Ok(Arc::new(part)),
                    missing => {
                        let missing = missing.unwrap_or(0);
                        let why = format!("the device ends {missing} bytes before the partition does");
                        Err(Failure::new(part.name(), why))
                    }
                }
            }
            None => Err(Failure::new(shown(path), "has no partition table")),
        }
    }
}

/// What became of image files for a volume that is not made yet. Unless they are kept, they are as they were before when
/// this is dropped: those that were made are removed, and those that were there have their old length.
#[derive(Default)]
struct Made {
    new: Vec<PathBuf>,
    /// Made longer, with the length before.
    longer: Vec<(PathBuf, u64)>,
    /// To be cut to this length once the volume is made: what is cut off is gone for good.
    shorter: Vec<(PathBuf, u64)>,
}

impl Made {
    /// An image of this size, made if it is not there.
    fn device(&mut self, path: &Path, size: u64, options: FileOptions) -> Result<Arc<dyn Device>, Failure> {
        if path.symlink_metadata().is_err() {
            let device = FileDevice::create_new(path, size, options)?;
            self.new.push(path.to_owned());
            return Ok(Arc::new(device));
        }
        let before = fs::metadata(path).about(shown(path))?.len();
        if size < before {
            let whole = Arc::new(FileDevice::open(path, options)?);
            let name = whole.name().to_string();
            self.shorter.push((path.to_owned(), size));
            return Ok(Arc::new(Partition::new(whole, 0, size, name)?));
        }
        let device = FileDevice::create(path, size, options)?;
        if size > before {
            self.longer.push((path.to_owned(), before));
        }
        Ok(Arc::new(device))
    }

    /// The volume is made.
    fn keep(&mut self) -> Result<(), Failure> {
        self.new.clear();
        self.longer.clear();
        self.shorter.drain(..).try_for_each(|(path, length)| set_length(&path, length).about(shown(&path)))
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        for path in &self.new {
            let _ = fs::remove_file(path);
        }
        for (path, length) in &self.longer {
            let _ = set_length(path, *length);
        }
    }
}

fn set_length(path: &Path, length: u64) -> std::io::Result<()> {
    fs::File::options().write(true).open(path)?.set_len(length)
}

/// Whether a volume with these options can be made on a device, on which nothing is written: a format writes when it has
/// found nothing wrong, and then this has seen enough.
fn rehearse(format: &dyn Format, device: Arc<dyn Device>, options: &FormatOptions) -> Result<(), Failure> {
    let name = device.name().to_string();
    let stage = Faults::new(Arc::new(OverlayDevice::new(device)), 0);
    stage.inject(When::from(Operation::Write, 0), Fault::Fail);
    match format.make(&stage, options, &Silent) {
        Err(platter_vfs::Error::Device(Error::Io { operation: Operation::Write, .. })) => Ok(()),
        done => done.about(name),
    }
}

/// Clears the places where other formats leave their marks, so that nobody takes the device for what it was before.
fn wipe(device: &dyn Device) -> Result<(), Failure> {
    const ENDS: u64 = 1 << 20;
    if contents(device)?.is_none() {
        return Ok(());
    }
    let zeroes = vec![0; ENDS.min(device.len()) as usize];
    device.write_at(0, &zeroes)?;
    device.write_at(device.len() - zeroes.len() as u64, &zeroes)?;
    Ok(())
}

/// Opens what was made, which is the first check of it, and says what it is.
fn report(format: &dyn Format, device: Arc<dyn Device>) -> Outcome {
    let (name, size) = (device.name().to_string(), device.len());
    let system = format.open(device, open_options(true)).about(&name)?;
    let info = system.info().about(&name)?;
    let space = system.space().about(&name)?;
    let mut output = Output::new();
    output.line(format_args!(
        "{name}: {}, {}, clusters of {}, {} free, {}",
        info.format,
        show_size(size),
        show_size(info.cluster),
        show_size(space.free * space.cluster),
        info.identifier
    ))?;
    output.finish()?;
    Ok(0)
}

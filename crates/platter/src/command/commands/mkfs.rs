//! `platter mkfs`

use crate::command::failure::{About, Failure, Outcome, shown, tell};
use crate::command::image::listener;
use crate::command::output::Output;
use crate::command::progress::{Bar, Unit};
use crate::command::volume::{open_options, refuse_any_mounted, source_of};
use clap::Args;
use platter::{ErrorKind, MakeOptions, Source, make};
use platter_device::{Device, FileOptions, PartitionTable, Scheme, parse_size, show_size};
use platter_vfs::{Format, FormatOptions, Node};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Make a file system
///
/// An image file that does not exist is made, sparse, if --size is given; one that exists keeps its size or takes the
/// one given. Refuses a device that holds a file system or partition table, and an image file that holds anything, unless
/// --force; and always what is mounted or otherwise in use. All this is done with each copy of a mirror.
/// IMAGE@2 is partition 2, as --partition 2.
///
/// A file that is made with the ending .vhdx or .vhd is a virtual disk of Hyper-V that grows as it is written, with a
/// partition table and one partition, in which the volume is: Windows attaches it as it is. One that exists is treated
/// the same.
///
/// refs+integrity is refs with --integrity on.
///
/// Called as mkfs.platter, as mkfs(8) does it, it takes the same arguments, options first: mkfs -t platter --label
/// DATA ntfs /dev/sdX1.
#[derive(Args)]
#[command(disable_version_flag = true)]
pub(crate) struct Arguments {
    /// The file system
    #[arg(value_parser = format_parser(), ignore_case = true)]
    file_system: String,
    /// Image file, block device or mirror:IMAGE,IMAGE
    image: PathBuf,
    /// Size of the image file
    #[arg(long, value_parser = parse_size)]
    size: Option<u64>,
    /// Version or kind of the format: 3.14 (the default) or 3.4 for refs; 12, 16 or 32 for fat, which chooses by size
    #[arg(long, alias = "version", value_name = "VERSION")]
    format_version: Option<String>,
    /// Cluster size; the format chooses by default. 4k or 64k for refs, 512 to 64k for FAT, 512 to 32M for exfat, 512
    /// to 2M for ntfs
    #[arg(long, value_parser = parse_size)]
    cluster: Option<u64>,
    /// Checksum of metadata, for refs only: crc64 (the default at 3.14), sha256 or none (all that 3.4 has)
    #[arg(long, value_name = "ALGORITHM")]
    checksum: Option<String>,
    /// Whether the data of new files is checksummed, for refs only; off by default. `platter integrity` changes it
    /// for files that exist. Proven on Windows' volumes for clusters of 4k with crc64 or none; with 64k or sha256
    /// Windows may keep other checksums
    #[arg(long, value_name = "on|off", value_parser = parse_switch)]
    integrity: Option<bool>,
    /// Size of a record of the master file table, for ntfs only: 1k (the default, but for 4k sectors) or 4k
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    mft_record: Option<u64>,
    /// Compress new files, for ntfs only: the root directory is marked as compressed, and new entries inherit that
    #[arg(long)]
    compress: bool,
    /// The alignment of the cluster heap, for exfat only: 1M by default; 16M suits cards over 32 GB
    #[arg(long, value_parser = parse_size)]
    align: Option<u64>,
    /// Volume label: up to 32 UTF-16 units for refs and ntfs, 11 letters for FAT, 11 UTF-16 units for exfat
    #[arg(short = 'L', long)]
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
    /// Overwrite what is there; never what is in use
    #[arg(long)]
    force: bool,
}

pub(crate) fn format_parser() -> clap::builder::PossibleValuesParser {
    clap::builder::PossibleValuesParser::new(platter_formats::registry().iter().map(|format| format.name()))
}

/// Parses "on" or "off".
pub(crate) fn parse_switch(text: &str) -> Result<bool, String> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err("expected on or off".to_string()),
    }
}

/// Prints a hint if the partition's type is unusual for this format: Windows then gives the volume no drive letter.
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
    // A sign is none of a serial number's: a hyphen stands between digits.
    let is_separated = text.split('-').all(|digits| !digits.is_empty() && !digits.starts_with('+'));
    Some(text.replacen('-', "", 1))
        .filter(|_| is_separated)
        .and_then(|digits| u64::from_str_radix(&digits, 16).ok())
        .ok_or_else(|| "expected a hexadecimal number such as 1A2B-3C4D".to_string())
}

impl Arguments {
    pub(crate) fn run(self) -> Outcome {
        let format = platter_formats::by_name(&self.file_system).expect("clap allows these names only");
        let options = FormatOptions {
            cluster: self.cluster,
            label: self.label.clone(),
            serial: self.serial,
            variant: self.format_version.clone(),
            checksum: self.checksum.clone(),
            integrity: self.integrity,
            align: self.align,
            record: self.mft_record,
            compress: self.compress.then_some(true),
            full: self.full,
        };
        let source = source_of(&self.image, self.partition)?;
        refuse_any_mounted(&source)?;
        let options =
            MakeOptions { size: self.size, force: self.force, format: options, listener: listener() };
        let kind = self.kind_of_partition(&source)?;
        let bar = Bar::interruptible(Unit::Steps);
        let is_new = !self.image.exists() && source.partition.is_none();
        let device = make(&source, format, &options, &bar).map_err(|error| match error.kind() {
            ErrorKind::Stopped => {
                let left = if is_new { "it is removed again" } else { "it holds no volume now" };
                Failure::interrupted(format_args!("{}: {}; {left}", shown(&self.image), bar.standing()))
            }
            ErrorKind::NotFound if self.size.is_none() => {
                Failure::new(error.about(), "does not exist; to make it, give --size")
            }
            _ => error.into(),
        })?;
        drop(bar);
        let code = report(format, device)?;
        if let Some(kind) = kind {
            hint(&self.image, format.name(), &kind);
        }
        Ok(code)
    }

    /// Returns the scheme of the partition table and the type that it records for the chosen partition.
    fn kind_of_partition(&self, source: &Source) -> Result<Option<(Scheme, String)>, Failure> {
        let Some(number) = source.partition else { return Ok(None) };
        let reading = FileOptions { read_only: true, ..FileOptions::default() };
        let device = platter_images::open(&source.paths[0], reading)?.device;
        let Some(table) = PartitionTable::read(&*device)? else { return Ok(None) };
        let entry = table.partitions.iter().find(|entry| entry.number == number);
        Ok(entry.map(|entry| (table.scheme, entry.kind.clone())))
    }
}

/// Opens the new volume, which is a first check of it, and prints its parameters.
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
    let has_integrity =
        system.integrity().and_then(|part| part.get(Node::ROOT)).is_ok_and(|integrity| integrity.enabled);
    let is_sha256 = info.metadata_checksum == Some("SHA-256");
    if has_integrity && (info.cluster > 4096 || is_sha256) {
        let with = if is_sha256 { "on volumes with SHA-256" } else { "with clusters of 64 KiB" };
        tell(format_args!(
            "platter: {name}: which checksums Windows keeps of file data {with} is not proven: it may take files with \
             integrity for damaged"
        ));
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serial_numbers_have_no_sign() {
        assert_eq!(
            ["1A2B-3C4D", "1a2b3c4d", "0"].map(parse_serial),
            [Ok(0x1A2B_3C4D), Ok(0x1A2B_3C4D), Ok(0)]
        );
        for wrong in ["-1", "+1", "1-", "-", "", "1-+2", "1-2-3", "xyz"] {
            assert!(parse_serial(wrong).is_err(), "{wrong}");
        }
    }
}

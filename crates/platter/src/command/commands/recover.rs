//! `platter recover`

use crate::command::failure::{Outcome, shown};
use crate::command::image::listener;
use crate::command::output::{Output, grouped};
use crate::command::progress::{Bar, Unit};
use crate::command::volume::{ReadOptions, source_of};
use clap::Args;
use platter::{RecoverOptions, RecoveredTo, Trouble};
use platter_device::show_size;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// How many files with the same trouble are named; the others are counted.
const SAME: u64 = 20;

/// Copy out what is still readable of a damaged volume
///
/// ReFS and NTFS: searches the whole device for metadata, and needs neither superblocks nor checkpoints nor tables.
/// Deleted files that are not known to be overwritten go to the directory `deleted`; without integrity it is not
/// certain that they are intact. Files from metadata that fails its checksum (ReFS), or from partly invalid records
/// (NTFS), go to `damaged` and are reported: name, size and content may be wrong. Deleted files of FAT and exFAT of which
/// the place is a guess go to `deleted/likely`. FAT and exFAT: follows the
/// directories that can still be reached, then those recognised by their content, which go to `found`, then chains of
/// clusters without a name, which go to `chains`; files that share clusters with others go to `overlapping`. If the
/// boot sector is lost with its copy, the sizes and places of everything are found from directories and FATs, also on
/// a disk whose partition table is lost. Where a file of the volume has the name of one of these directories, `deleted`
/// and `damaged` are called `deleted (2)` and so on. Parts of files that cannot be read are left as zeroes and reported;
/// files that cannot be written are removed again and reported. A file is called NAME.partial until it is whole. Named streams become files named FILE:STREAM. Nothing is written to the device. Without --as, a device on which no file
/// system is recognised is searched for ReFS, NTFS, exFAT and FAT, in this order.
///
/// Exit codes: 0 all that was found was copied, 1 something could not be.
#[derive(Args)]
pub struct Arguments {
    /// Image file, block device or mirror:IMAGE,IMAGE
    image: PathBuf,
    /// Where to copy to: a directory that is empty or does not exist
    directory: PathBuf,
    /// Take the volume for this file system instead of recognising it
    #[arg(long = "as", value_name = "FILE_SYSTEM", value_parser = super::mkfs::format_parser(), ignore_case = true)]
    format: Option<String>,
    /// What becomes of files whose metadata is damaged: a copy in the directory `damaged`, or none
    #[arg(long, value_enum, default_value_t)]
    damaged: Damaged,
    #[command(flatten)]
    volume: ReadOptions,
}

/// What `--damaged` does with files whose metadata is damaged.
#[derive(clap::ValueEnum, Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Damaged {
    /// They are copied to the directory `damaged`.
    #[default]
    Mark,
    /// They are reported, and not copied.
    Skip,
}

impl Arguments {
    pub fn run(self) -> Outcome {
        let source = source_of(&self.image, self.volume.partition)?;
        let bar = Bar::new(Unit::Steps);
        let skip_damaged = self.damaged == Damaged::Skip;
        let options = RecoverOptions { format: self.format, skip_damaged, listener: listener() };
        let recovered = platter::recover_to(&source, &self.directory, &options, &bar)?;
        drop(bar);
        let RecoveredTo { device, report, troubles, damaged, saved, failed, bytes, renamed } = recovered;
        let mut output = Output::new();
        for (path, why) in &report.lost {
            output.line(format_args!("{path}: {why}"))?;
        }
        let mut kinds: BTreeMap<&str, u64> = BTreeMap::new();
        for trouble in &troubles {
            let Trouble { path, unread, why } = trouble;
            let kind = kinds.entry(why).or_default();
            *kind += 1;
            match unread {
                // A full target has one reason for thousands of files.
                _ if *kind > SAME => {}
                0 => output.line(trouble)?,
                _ => output.line(format_args!(
                    "{path}: {} bytes are zeroes because they cannot be read: {why}",
                    grouped(*unread)
                ))?,
            }
        }
        for (why, count) in kinds.into_iter().filter(|(_, count)| *count > SAME) {
            output.line(format_args!("{} more files: {why}", grouped(count - SAME)))?;
        }
        for (usual, path) in &renamed {
            output.line(format_args!(
                "{}: {usual} files are here, since a file of the volume is called {usual}",
                shown(path)
            ))?;
        }
        output.line(format_args!(
            "{device}: {} files with {}, {} directories{}; {} of the files were deleted, and {} more are overwritten; the \
             metadata of {} is damaged",
            grouped(saved),
            show_size(bytes),
            grouped(report.directories),
            if failed > 0 { format!("; {} of the files that were found are not copied", grouped(failed)) } else { String::new() },
            grouped(report.deleted),
            grouped(report.overwritten),
            grouped(damaged)
        ))?;
        output.finish()?;
        Ok(u8::from(!report.lost.is_empty() || !troubles.is_empty()))
    }
}

//! `platter recover`

use crate::command::failure::{Failure, Outcome, printable, shown};
use crate::command::image::listener;
use crate::command::keys::keys;
use crate::command::output::{Output, grouped, kind_word, local_time, utc_time};
use crate::command::progress::{Bar, Unit};
use crate::command::view::sureness;
use crate::command::volume::{ReadOptions, source_of};
use clap::Args;
use platter::{
    ErrorKind, Pattern, RecoverOptions, RecoveredTo, Source, Trouble, TroubleKind, kind_of, recover_source,
};
use platter_device::show_size;
use platter_vfs::{Kind, Recovered};
use serde::Serialize;
use std::collections::HashMap;
use std::path::PathBuf;

/// How many files with the same trouble are named one by one; more of them are one line.
const FEW: u64 = 5;

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
/// files that cannot be written are removed again and reported. Named streams become files named FILE:STREAM. Nothing is
/// written to the device. Without --as, a device on which no file system is recognised is searched for ReFS, NTFS, exFAT
/// and FAT, in this order.
///
/// With --list nothing is copied, and a line tells of each file and directory: d or -, what is known of it, its size, the
/// time of its last change, and its path. `certain` is what the volume leaves no doubt of; `likely` a deleted file that
/// may hold something else by now; `damaged` what damaged metadata tells.
///
/// A file is called NAME.partial until it is whole. If the command is interrupted, or the target becomes full, the same
/// command with the same directory goes on from there: what is whole is not copied again, and what could not be read is tried
/// again. Until all is copied, the directory has a file `.platter-recover`.
///
/// Exit codes: 0 all that was found (or chosen) was copied, 1 something could not be, 130 interrupted.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Image file, block device or mirror:IMAGE,IMAGE
    image: PathBuf,
    /// Where to copy to: a directory that is empty or does not exist, or that an earlier run copied to
    #[arg(required_unless_present = "list")]
    directory: Option<PathBuf>,
    /// Only list what would be copied
    #[arg(long)]
    list: bool,
    /// As JSON (with --list)
    #[arg(long, requires = "list")]
    json: bool,
    /// Only files that match; may be given several times. *, ? and [a-z] as in a shell, whatever the case of letters; a
    /// pattern with a slash is one for the whole path, as in '/photos/**/*.jpg'; one that matches a directory takes
    /// everything in it
    #[arg(long = "match", value_name = "GLOB", value_parser = Pattern::parse)]
    patterns: Vec<Pattern>,
    /// Name every file that could not be copied as it was, however many have the same trouble
    #[arg(short, long)]
    verbose: bool,
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
    pub(crate) fn run(self) -> Outcome {
        let source = source_of(&self.image, self.volume.partition)?;
        let skip_damaged = self.damaged == Damaged::Skip;
        let (format, patterns) = (self.format.clone(), self.patterns.clone());
        let options = RecoverOptions { format, skip_damaged, patterns, listener: listener(), keys: keys() };
        match &self.directory {
            Some(directory) if !self.list => self.copy(&source, directory, &options),
            _ => self.list(&source, &options),
        }
    }

    fn copy(&self, source: &Source, directory: &std::path::Path, options: &RecoverOptions) -> Outcome {
        let bar = Bar::interruptible(Unit::Steps);
        let recovered = platter::recover_to(source, directory, options, &bar)?;
        let standing = bar.standing();
        drop(bar);
        let RecoveredTo { device, report, troubles, kinds, damaged, renamed, .. } = &recovered;
        let mut output = Output::new();
        let lost =
            report.lost.iter().map(|(path, why)| Trouble { path: path.clone(), unread: 0, why: why.clone() });
        let lost: Vec<Trouble> = lost.collect();
        self.tell(&mut output, &lost, &counted(&lost))?;
        self.tell(&mut output, troubles, kinds)?;
        for (usual, path) in renamed {
            output.line(format_args!(
                "{}: {usual} files are here, since a file of the volume is called {usual}",
                shown(path)
            ))?;
        }
        let RecoveredTo { saved, there_before, failed, not_chosen, bytes, stopped, under_way, .. } =
            &recovered;
        let some = |count: u64, what: &str| match count {
            0 => String::new(),
            _ => format!("; {} {what}", grouped(count)),
        };
        let there = some(*there_before, "of them were there already");
        let failed = some(*failed, "of the files that were found are not copied");
        let not_chosen = some(*not_chosen, "were not chosen");
        let what = format!("{} files with {}", grouped(*saved), show_size(*bytes));
        if *stopped {
            output.finish()?;
            let under_way = under_way
                .as_ref()
                .map_or(String::new(), |path| format!("; a part of the next one is in {}", shown(path)));
            return Err(Failure::interrupted(format_args!(
                "{device}: {standing}; {what} are in {}{there}{failed}{under_way}; the same command goes on from there",
                shown(directory)
            )));
        }
        output.line(format_args!(
            "{device}: {what}, {} directories{there}{failed}{not_chosen}; {} of the files were deleted, and {} more are \
             overwritten; the metadata of {} is damaged",
            grouped(report.directories),
            grouped(report.deleted),
            grouped(report.overwritten),
            grouped(*damaged)
        ))?;
        output.finish()?;
        Ok(u8::from(!report.lost.is_empty() || !troubles.is_empty()))
    }

    /// Prints what is wrong with files: a line each for a few, one line for many of one kind.
    fn tell(&self, output: &mut Output, troubles: &[Trouble], kinds: &[TroubleKind]) -> Result<(), Failure> {
        let counts: HashMap<String, u64> = kinds.iter().map(|kind| (kind.first.kind(), kind.files)).collect();
        for trouble in troubles {
            if self.verbose || counts.get(&trouble.kind()).is_none_or(|files| *files <= FEW) {
                let Trouble { path, unread, why } = trouble;
                match unread {
                    0 => output.line(trouble)?,
                    _ => output.line(format_args!(
                        "{path}: {} bytes are zeroes because they cannot be read: {why}",
                        grouped(*unread)
                    ))?,
                }
            }
        }
        for TroubleKind { files, unread, first } in
            kinds.iter().filter(|kind| kind.files > FEW && !self.verbose)
        {
            let Trouble { path, why, .. } = first;
            let zeroes = match unread {
                0 => String::new(),
                _ => format!("{} bytes are zeroes because they cannot be read: ", grouped(*unread)),
            };
            output.line(format_args!(
                "{} files, {path} the first of them (--verbose names them): {zeroes}{why}",
                grouped(*files)
            ))?;
        }
        Ok(())
    }

    /// Prints what would be copied as soon as it is found.
    fn list(&self, source: &Source, options: &RecoverOptions) -> Outcome {
        let bar = Bar::interruptible(Unit::Steps);
        let mut output = Output::new();
        if self.json {
            output.bytes(b"{\"found\":[")?;
        }
        let (mut files, mut bytes, mut broken) = (0u64, 0u64, None);
        let listed = recover_source(source, options, &bar, &mut |found, _| {
            let is_left_out = options.skip_damaged && found.damaged;
            if is_left_out || !options.is_chosen(&found.path) || found.path.is_empty() {
                return Ok(());
            }
            let is_first = files == 0;
            files += 1;
            bytes = bytes.saturating_add(found.size);
            let told = match self.json {
                true => json(&mut output, found, is_first),
                false => line(&mut output, found),
            };
            // The reader of the list is gone, so nothing more is looked for.
            told.map_err(|failure| {
                broken = Some(failure);
                platter_vfs::Error::Stopped
            })
        });
        let standing = bar.standing();
        drop(bar);
        if let Some(failure) = broken {
            return Err(failure);
        }
        let is_stopped = matches!(&listed, Err(error) if error.kind() == ErrorKind::Stopped);
        if self.json {
            let lost: &[_] = listed.as_ref().map_or(&[], |(_, report)| &report.lost[..]);
            let lost: Vec<Lost> = lost.iter().map(|(path, reason)| Lost { path, reason }).collect();
            let lost = serde_json::to_string(&lost).expect("plain data has a JSON form");
            let is_complete = listed.is_ok();
            output.bytes(format!("\n],\"lost\":{lost},\"complete\":{is_complete}}}\n").as_bytes())?;
        }
        if is_stopped {
            output.finish()?;
            return Err(Failure::interrupted(format_args!("{source}: {standing}; the list is not complete")));
        }
        let (device, report) = listed?;
        if !self.json {
            let lost = report.lost.iter().map(|(path, why)| Trouble {
                path: path.clone(),
                unread: 0,
                why: why.clone(),
            });
            let lost: Vec<Trouble> = lost.collect();
            self.tell(&mut output, &lost, &counted(&lost))?;
            output.line(format_args!(
                "{device}: {} entries with {} would be copied; {} deleted files are overwritten",
                grouped(files),
                show_size(bytes),
                grouped(report.overwritten)
            ))?;
        }
        output.finish()?;
        Ok(u8::from(!report.lost.is_empty()))
    }
}

/// Counts troubles by kind.
fn counted(troubles: &[Trouble]) -> Vec<TroubleKind> {
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut kinds: Vec<TroubleKind> = Vec::new();
    for trouble in troubles {
        let place = *places.entry(kind_of(&trouble.why)).or_insert_with(|| {
            kinds.push(TroubleKind { files: 0, unread: 0, first: trouble.clone() });
            kinds.len() - 1
        });
        kinds[place].files += 1;
    }
    kinds
}

fn path(found: &Recovered) -> String {
    let mut path: String = found.path.iter().map(|name| format!("/{name}")).collect();
    if let Some(stream) = &found.stream {
        path += &format!(":{stream}");
    }
    path
}

fn line(output: &mut Output, found: &Recovered) -> Result<(), Failure> {
    let kind = match found.kind {
        Kind::File => '-',
        Kind::Directory => 'd',
        Kind::SymbolicLink => 'l',
    };
    let deleted = if found.deleted { "deleted" } else { "" };
    let target = found.target.as_ref().map_or(String::new(), |target| format!(" -> {target}"));
    output.line(format_args!(
        "{kind} {:<7} {deleted:<7} {:>14} {:<19} {}{}",
        sureness(found),
        grouped(found.size),
        local_time(found.modified),
        printable(&path(found)),
        printable(&target)
    ))
}

/// One entry of the list as JSON, for scripts.
#[derive(Serialize)]
struct Listed {
    path: String,
    kind: &'static str,
    size: u64,
    modified: String,
    deleted: bool,
    /// "certain", "likely" or "damaged".
    sureness: &'static str,
    target: Option<String>,
}

#[derive(Serialize)]
struct Lost<'a> {
    path: &'a str,
    reason: &'a str,
}

fn json(output: &mut Output, found: &Recovered, is_first: bool) -> Result<(), Failure> {
    let listed = Listed {
        path: path(found),
        kind: match found.kind {
            Kind::File if found.stream.is_some() => "stream",
            kind => kind_word(kind),
        },
        size: found.size,
        modified: utc_time(found.modified),
        deleted: found.deleted,
        sureness: sureness(found),
        target: found.target.clone(),
    };
    let text = serde_json::to_string(&listed).expect("plain data has a JSON form");
    let gap = if is_first { "\n" } else { ",\n" };
    output.bytes(format!("{gap}{text}").as_bytes())
}

//! `platter scrub`

use super::check::word;
#[cfg(target_os = "linux")]
use crate::command::failure::{About, shown};
use crate::command::failure::{CHECK_FAILED, Failure, INTERRUPTED, Outcome};
#[cfg(target_os = "linux")]
use crate::command::mounting::{mounted_at, scrubbing};
use crate::command::output::{Output, grouped};
use crate::command::progress::{Bar, Unit};
use crate::command::volume::{WriteOptions, device_options, refuse_any_mounted, source_of};
use clap::Args;
use platter::{Access, DeviceOptions, Scrubbed};
use platter_device::{Caching, parse_size, show_size};
#[cfg(target_os = "linux")]
use platter_mount::MountPoint;
use platter_vfs::{ScrubOptions, ScrubReport};
use serde::Serialize;
#[cfg(target_os = "linux")]
use std::fs;
use std::path::PathBuf;

/// Verify everything that has a checksum (ReFS)
///
/// Reads all metadata, and the data of all files with integrity, in order of their places on the device. On a mirror
/// every copy is read; damage in one copy is repaired from another. Data of files without integrity has no checksum,
/// so it is not verified; on a mirror, its copies are compared, and those of free space too: the content that most
/// copies have is written to the others, and where there is no majority nothing is written and the file is named.
///
/// DIR is where a ReFS volume is mounted: it is scrubbed while programs use it, by checksums alone, in parts of 64 MiB
/// for which programs that sync wait. Ctrl-C ends that too.
///
/// Exit codes are those of check: 0 nothing found, 1 all damage was repaired or removed, 4 damage is left, 8 the scrub
/// could not be carried out, 16 wrong arguments; 130 interrupted, with the position to go on from.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Image file, block device, mirror:IMAGE,IMAGE or DIR of a mount
    #[arg(value_name = "IMAGE|DIR")]
    image: PathBuf,
    /// Read at most so many bytes a second from each copy
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    rate: Option<u64>,
    /// Stop after about so many bytes (of each copy), and print the position to go on from
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    limit: Option<u64>,
    /// Go on from a position that an earlier scrub printed
    #[arg(long, value_name = "POSITION")]
    from: Option<String>,
    /// Do not compare the copies of a mirror where there is no checksum
    #[arg(long)]
    checksums_only: bool,
    /// Remove files and named streams whose data is lost, and list them; without it only copies of a mirror are written
    #[arg(long)]
    salvage: bool,
    /// As JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    volume: WriteOptions,
}

/// The result of a scrub as JSON, for scripts.
#[derive(Serialize)]
struct Document<'a> {
    device: &'a str,
    format: String,
    found: u64,
    repaired: u64,
    /// The bytes of file data that are readable in no copy.
    lost_bytes: u64,
    /// The worst severity among the findings that are neither repaired nor removed: null, "notice", "inconsistent" or
    /// "data-loss".
    remaining: Option<&'static str>,
    exit_code: u8,
    /// Bytes of metadata (then of data) verified in each copy.
    metadata_bytes: u64,
    data_bytes: u64,
    /// Bytes compared between the copies of a mirror.
    compared_bytes: u64,
    copies: usize,
    /// The position to go on from with `--from`; null if all was scrubbed.
    next: Option<&'a str>,
    damaged: Vec<Range<'a>>,
    removed: &'a [String],
    not_removed: Vec<Stuck<'a>>,
}

#[derive(Serialize)]
struct Range<'a> {
    code: &'a str,
    severity: &'static str,
    path: Option<&'a str>,
    /// The first byte of the damaged range in the file (and the first behind it in `end`); null for metadata.
    start: Option<u64>,
    end: Option<u64>,
    /// The position of the range's first byte on the volume.
    device_offset: u64,
    /// The damaged copies of a mirror, counted from 0.
    copies: &'a [usize],
    message: &'a str,
    repaired: bool,
}

#[derive(Serialize)]
struct Stuck<'a> {
    path: &'a str,
    reason: &'a str,
}

impl Arguments {
    pub(crate) fn run(self) -> Outcome {
        self.scrub().map_err(|failure| failure.with_code(CHECK_FAILED))
    }

    fn scrub(self) -> Outcome {
        #[cfg(target_os = "linux")]
        if self.image.is_dir() {
            let at = fs::canonicalize(&self.image).about(shown(&self.image))?;
            return self.scrub_mounted(&mounted_at(&at)?);
        }
        let Arguments { image, rate, limit, from, checksums_only, salvage, json, volume } = self;
        let options = ScrubOptions { rate, limit, from, checksums_only, salvage };
        let source = source_of(&image, volume.partition)?;
        if salvage || source.kind == platter::SourceKind::Mirror {
            refuse_any_mounted(&source)?;
        }
        let opening = device_options(Access::Read, Caching::default());
        let opening = DeviceOptions { unfinished: volume.force, ..opening };
        let bar = Bar::interruptible(Unit::Bytes);
        let scrubbed = platter::scrub_source(&source, &options, &opening, &bar)?;
        let Scrubbed { device: name, format, report } = scrubbed;
        drop(bar);
        let mut output = Output::new();
        match json {
            true => output.json(&document(&name, format, &report))?,
            false => print(&mut output, &name, &format, &report)?,
        }
        output.finish()?;
        if report.stopped {
            let next = report.next.as_deref().unwrap_or_default();
            return Err(Failure::interrupted(format_args!("{name}: to go on: --from {next}")));
        }
        Ok(report.exit_code())
    }
}

#[cfg(target_os = "linux")]
impl Arguments {
    fn scrub_mounted(&self, mount: &MountPoint) -> Outcome {
        if self.salvage || self.limit.is_some() || self.from.is_some() || self.volume.partition.is_some() {
            let why = "--salvage, --limit, --from and --partition are for volumes that are not mounted";
            return Err(Failure::new(shown(&mount.at), why));
        }
        let bar = Bar::new(Unit::Bytes);
        let state = scrubbing::scrub(&mount.at, self.rate, &bar)?;
        drop(bar);
        let device = mount.source.to_string_lossy();
        let mut output = Output::new();
        match self.json {
            true => output.json(&MountedDocument {
                device: &device,
                mounted_at: &mount.at.display().to_string(),
                found: state.found,
                repaired: state.repaired,
                lost_bytes: state.lost,
                exit_code: state.exit_code,
                metadata_bytes: state.metadata,
                data_bytes: state.data,
                copies: state.copies,
                damaged: &state.told,
            })?,
            false => {
                state.told.iter().try_for_each(|line| output.line(line))?;
                let more = state.found.saturating_sub(state.told.len() as u64);
                if more > 0 {
                    output.line(format_args!("and {} more", grouped(more)))?;
                }
                let verdict = verdict(state.found, state.repaired, state.lost);
                let read = read(state.metadata, state.data, state.copies);
                output.line(format_args!("{device}: {verdict}; {read}"))?;
            }
        }
        output.finish()?;
        Ok(u8::try_from(state.exit_code).unwrap_or(CHECK_FAILED))
    }
}

/// The result of a scrub of a mounted volume as JSON.
#[cfg(target_os = "linux")]
#[derive(Serialize)]
struct MountedDocument<'a> {
    device: &'a str,
    mounted_at: &'a str,
    found: u64,
    repaired: u64,
    /// The bytes of file data that are readable in no copy.
    lost_bytes: u64,
    exit_code: u64,
    /// Bytes of metadata (then of data) verified in each copy.
    metadata_bytes: u64,
    data_bytes: u64,
    copies: u64,
    /// The first findings.
    damaged: &'a [String],
}

fn document<'a>(device: &'a str, format: String, report: &'a ScrubReport) -> Document<'a> {
    Document {
        device,
        format,
        found: report.found,
        repaired: report.repaired,
        lost_bytes: report.lost,
        remaining: report.remaining.map(word),
        exit_code: if report.stopped { INTERRUPTED } else { report.exit_code() },
        metadata_bytes: report.metadata,
        data_bytes: report.data,
        compared_bytes: report.compared,
        copies: report.copies,
        next: report.next.as_deref(),
        damaged: report
            .damaged
            .iter()
            .map(|damaged| Range {
                code: damaged.finding.code,
                severity: word(damaged.finding.severity),
                path: damaged.finding.path.as_deref(),
                start: damaged.range.as_ref().map(|range| range.start),
                end: damaged.range.as_ref().map(|range| range.end),
                device_offset: damaged.place,
                copies: &damaged.copies,
                message: &damaged.finding.message,
                repaired: damaged.finding.repaired,
            })
            .collect(),
        removed: &report.removed,
        not_removed: report.stuck.iter().map(|(path, reason)| Stuck { path, reason }).collect(),
    }
}

fn print(output: &mut Output, device: &str, format: &str, report: &ScrubReport) -> Result<(), Failure> {
    for damaged in &report.damaged {
        output.line(&damaged.finding)?;
    }
    let kept = report.damaged.len() as u64;
    if report.found > kept {
        output.line(format_args!("and {} more", grouped(report.found - kept)))?;
    }
    for path in &report.removed {
        output.line(format_args!("removed {path}"))?;
    }
    for (path, reason) in &report.stuck {
        output.line(format_args!("could not remove {path}: {reason}"))?;
    }
    let mut verdict = verdict(report.found, report.repaired, report.lost);
    if !report.removed.is_empty() {
        verdict += &format!(", {} removed", grouped(report.removed.len() as u64));
    }
    let read = read(report.metadata, report.data, report.copies as u64);
    output.line(format_args!("{device}: {format}, {verdict}; {read}"))?;
    if report.compared > 0 {
        output.line(format_args!("{} of each copy compared", show_size(report.compared)))?;
    }
    match &report.next {
        Some(next) => output.line(format_args!("not all was read; to go on: --from {next}")),
        None => Ok(()),
    }
}

fn verdict(found: u64, repaired: u64, lost: u64) -> String {
    let mut verdict = match (found, repaired) {
        (0, _) => "no damage".to_string(),
        (found, 0) => format!("{} damaged, nothing repaired", grouped(found)),
        (found, repaired) => format!("{} damaged, {} repaired", grouped(found), grouped(repaired)),
    };
    if lost > 0 {
        verdict += &format!(", {} of file data lost", show_size(lost));
    }
    verdict
}

fn read(metadata: u64, data: u64, copies: u64) -> String {
    let each = if copies > 1 { format!(" in each of {copies} copies") } else { String::new() };
    format!("{} of metadata and {} of file data verified{each}", show_size(metadata), show_size(data))
}

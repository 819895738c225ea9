//! `platter scrub`

use super::check::word;
use crate::command::failure::{CHECK_FAILED, Failure, Outcome};
use crate::command::image::listener;
use crate::command::output::{Output, grouped};
use crate::command::progress::{Bar, Unit};
use crate::command::volume::{WriteOptions, refuse_any_mounted};
use clap::Args;
use platter::{Scrubbed, Source};
use platter_device::{parse_size, show_size};
use platter_vfs::{ScrubOptions, ScrubReport};
use serde::Serialize;
use std::path::PathBuf;

/// Verify everything that has a checksum (ReFS)
///
/// Reads all metadata, and the data of all files with integrity, in order of their places on the device. On a mirror
/// every copy is read; damage in one copy is repaired from another. Data of files without integrity has no checksum,
/// so it is not verified; on a mirror, its copies are compared, and those of free space too: the content that most
/// copies have is written to the others, and where there is no majority nothing is written and the file is named.
///
/// Exit codes are those of check: 0 nothing found, 1 all damage was repaired or removed, 4 damage is left, 8 the scrub
/// could not be carried out, 16 wrong arguments.
#[derive(Args)]
pub struct Arguments {
    /// Image file, block device or mirror:IMAGE,IMAGE
    image: PathBuf,
    /// Read at most so many bytes a second from each copy
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    rate: Option<u64>,
    /// Stop after about so many bytes of file data (or compared between copies), and print the position to go on from
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    limit: Option<u64>,
    /// Go on with file data from a position that an earlier scrub printed; metadata is always read
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
    pub fn run(self) -> Outcome {
        self.scrub().map_err(|failure| failure.with_code(CHECK_FAILED))
    }

    fn scrub(self) -> Outcome {
        let Arguments { image, rate, limit, from, checksums_only, salvage, json, volume } = self;
        let options = ScrubOptions { rate, limit, from, checksums_only, salvage };
        let source = Source::whole(&image)?.with_partition(volume.partition);
        if salvage || source.is_mirror {
            refuse_any_mounted(&source)?;
        }
        let bar = Bar::new(Unit::Bytes);
        let scrubbed = platter::scrub_source(&source, &options, volume.force, &listener(), &bar)?;
        let Scrubbed { device: name, format, report } = scrubbed;
        drop(bar);
        let mut output = Output::new();
        match json {
            true => output.json(&document(&name, format, &report))?,
            false => print(&mut output, &name, &format, &report)?,
        }
        output.finish()?;
        Ok(report.exit_code())
    }
}

fn document<'a>(device: &'a str, format: String, report: &'a ScrubReport) -> Document<'a> {
    Document {
        device,
        format,
        found: report.found,
        repaired: report.repaired,
        lost_bytes: report.lost,
        remaining: report.remaining.map(word),
        exit_code: report.exit_code(),
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
    let mut verdict = match (report.found, report.repaired) {
        (0, _) => "no damage".to_string(),
        (found, 0) => format!("{} damaged, nothing repaired", grouped(found)),
        (found, repaired) => format!("{} damaged, {} repaired", grouped(found), grouped(repaired)),
    };
    if report.lost > 0 {
        verdict += &format!(", {} of file data lost", show_size(report.lost));
    }
    if !report.removed.is_empty() {
        verdict += &format!(", {} removed", grouped(report.removed.len() as u64));
    }
    let copies =
        if report.copies > 1 { format!(" in each of {} copies", report.copies) } else { String::new() };
    output.line(format_args!(
        "{device}: {format}, {verdict}; {} of metadata and {} of file data verified{copies}",
        show_size(report.metadata),
        show_size(report.data)
    ))?;
    if report.compared > 0 {
        output.line(format_args!("{} of each copy compared", show_size(report.compared)))?;
    }
    match &report.next {
        Some(next) => output.line(format_args!("not all was read; to go on: --from {next}")),
        None => Ok(()),
    }
}

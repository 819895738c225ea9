//! `platter check`

use crate::failure::{About, CHECK_FAILED, Failure, Outcome, shown};
use crate::output::{Output, grouped};
use crate::progress::{Bar, Unit};
use crate::volume::{Access, WriteOptions, open_part};
use clap::Args;
use platter_vfs::{CheckOptions, CheckReport, Format, Severity};
use serde::Serialize;
use std::path::PathBuf;

/// Check a volume for damage, and repair it
///
/// Exit codes are those of fsck(8): 0 nothing found, 1 everything was repaired, 4 damage is left, 8 the check could not
/// be carried out, 16 wrong arguments.
#[derive(Args)]
pub struct Arguments {
    /// Image file, block device or mirror:IMAGE,IMAGE
    image: PathBuf,
    /// Repair what can be; without it nothing is written
    #[arg(long)]
    repair: bool,
    /// Read every cluster too; bad ones are told with the files on them, and, with --repair, not used any more (NTFS)
    #[arg(long)]
    surface: bool,
    /// Take it for this file system instead of recognising it
    #[arg(long = "as", value_name = "FILE_SYSTEM", value_parser = super::mkfs::format_parser())]
    format: Option<String>,
    /// As JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    volume: WriteOptions,
}

/// The outcome, for scripts.
#[derive(Serialize)]
struct Document<'a> {
    device: &'a str,
    format: String,
    found: u64,
    repaired: u64,
    /// The worst that is left: null, "notice", "inconsistent" or "data-loss".
    remaining: Option<&'static str>,
    exit_code: u8,
    files: u64,
    directories: u64,
    used_clusters: u64,
    total_clusters: u64,
    findings: Vec<Found<'a>>,
}

#[derive(Serialize)]
struct Found<'a> {
    code: &'a str,
    severity: &'static str,
    path: Option<&'a str>,
    message: &'a str,
    repaired: bool,
}

/// A severity, for scripts.
pub fn word(severity: Severity) -> &'static str {
    match severity {
        Severity::Notice => "notice",
        Severity::Inconsistent => "inconsistent",
        Severity::DataLoss => "data-loss",
    }
}

impl Arguments {
    pub fn run(self) -> Outcome {
        self.check().map_err(|failure| failure.with_code(CHECK_FAILED))
    }

    fn check(&self) -> Outcome {
        let access = if self.repair { Access::Write { force: self.volume.force } } else { Access::Read };
        let device = open_part(&self.image, self.volume.partition, access)?;
        let (format, name): (&dyn Format, String) = match &self.format {
            Some(name) => {
                (platter_formats::by_name(name).expect("clap allows these names only"), name.clone())
            }
            None => match platter_formats::recognise(&*device).about(shown(&self.image))? {
                Some((format, recognised)) => (format, recognised.format),
                None => {
                    let error = platter_formats::unknown(&*device).about(shown(&self.image))?;
                    return Err(Failure::new(shown(&self.image), error));
                }
            },
        };
        let bar = Bar::new(Unit::Steps);
        let options = CheckOptions { repair: self.repair };
        let report = match self.surface {
            true => format.check_surface(&*device, options, &bar),
            false => format.check(&*device, options, &bar),
        }
        .about(device.name())?;
        if self.repair {
            device.flush()?;
        }
        drop(bar);
        let mut output = Output::new();
        if self.json {
            output.json(&document(device.name(), name, &report))?;
        } else {
            print(&mut output, device.name(), &name, &report)?;
        }
        output.finish()?;
        Ok(report.exit_code())
    }
}

fn document<'a>(device: &'a str, format: String, report: &'a CheckReport) -> Document<'a> {
    Document {
        device,
        format,
        found: report.found,
        repaired: report.repaired,
        remaining: report.remaining.map(word),
        exit_code: report.exit_code(),
        files: report.files,
        directories: report.directories,
        used_clusters: report.used_clusters,
        total_clusters: report.total_clusters,
        findings: report
            .findings
            .iter()
            .map(|finding| Found {
                code: finding.code,
                severity: word(finding.severity),
                path: finding.path.as_deref(),
                message: &finding.message,
                repaired: finding.repaired,
            })
            .collect(),
    }
}

fn print(output: &mut Output, device: &str, format: &str, report: &CheckReport) -> Result<(), Failure> {
    for finding in &report.findings {
        output.line(finding)?;
    }
    let kept = report.findings.len() as u64;
    if report.found > kept {
        output.line(format_args!("and {} more", grouped(report.found - kept)))?;
    }
    let verdict = match (report.found, report.repaired, report.exit_code()) {
        (0, ..) => "no damage".to_string(),
        (found, 0, 4) => format!("{} found, nothing repaired", grouped(found)),
        (found, 0, _) => format!("no damage, {} worth knowing", grouped(found)),
        (found, repaired, _) => format!("{} found, {} repaired", grouped(found), grouped(repaired)),
    };
    output.line(format_args!(
        "{device}: {format}, {verdict}; {} files, {} directories, {} of {} clusters used",
        grouped(report.files),
        grouped(report.directories),
        grouped(report.used_clusters),
        grouped(report.total_clusters)
    ))
}

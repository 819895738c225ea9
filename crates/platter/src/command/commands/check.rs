//! `platter check`

use crate::command::failure::{CHECK_FAILED, Failure, Outcome, shown};
use crate::command::image::listener;
use crate::command::keys::keys;
use crate::command::output::Output;
use crate::command::progress::{Bar, Unit};
use crate::command::verdict;
use crate::command::volume::{device_options, open_options, refuse_any_mounted};
use clap::Args;
use platter::{Access, CheckOptions, Checked, ErrorKind, Source, Undo};
use platter_device::{Caching, show_size};
use platter_vfs::{CheckReport, Severity};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Check a volume for damage, and repair it
///
/// A repair first saves the bytes that it overwrites to an undo file, with which `platter undo` restores the image
/// byte for byte, also after a repair that was interrupted. The undo file is beside the image as IMAGE.undo
/// (IMAGE.undo-2 and so on if there is one), for a block device in /var/lib/platter/undo. A repair that changes
/// nothing makes none.
///
/// Ctrl-C ends the check, and a repair as a power cut would: it can be carried out again, or taken back.
///
/// A volume that is mounted or otherwise in use is not checked: changes in progress would look like damage.
///
/// Exit codes are those of fsck(8): 0 nothing found, 1 everything was repaired, 4 damage is left, 8 the check could not
/// be carried out, 16 wrong arguments; 130 interrupted.
///
/// Called as fsck.platter, as fsck(8) does it for /etc/fstab, it takes the options that checkers share: -y is
/// --repair, -a and -p are --repair --if-dirty (--repair if -f is given too), and -n, like no option, only checks; -C
/// and -v change nothing, and -V is --version.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Image file, block device or mirror:IMAGE,IMAGE
    image: PathBuf,
    /// Repair what can be; without it nothing is written
    #[arg(long)]
    repair: bool,
    /// Save what the repair overwrites to this file, which must not exist yet
    #[arg(long, value_name = "FILE", requires = "repair")]
    undo: Option<PathBuf>,
    /// Repair without an undo file: the repair cannot be taken back
    #[arg(long, requires = "repair", conflicts_with = "undo")]
    no_undo: bool,
    /// Do nothing if the volume was closed and is not marked as damaged
    #[arg(long, conflicts_with_all = ["surface", "data", "format", "json"])]
    if_dirty: bool,
    /// Read every cluster too; bad clusters are reported with the files on them, and, with --repair, not used any
    /// more (NTFS)
    #[arg(long)]
    surface: bool,
    /// Read the data of all files too, and verify what has a checksum (ReFS with integrity), as `platter scrub` does; of
    /// evidence (E01) also verify the hashes of the disk
    #[arg(long)]
    data: bool,
    /// Take the volume for this file system instead of recognising it
    #[arg(long = "as", value_name = "FILE_SYSTEM", value_parser = super::mkfs::format_parser(), ignore_case = true)]
    format: Option<String>,
    /// As JSON
    #[arg(long)]
    json: bool,
    /// Use this partition instead of the only one with a known file system
    #[arg(long, value_name = "N")]
    partition: Option<u32>,
    /// Check a device that is mounted or otherwise in use, where changes in progress look like damage, or a copy of a mirror
    /// whose rebuild was not completed. With --repair, go on
    /// although the copies of a mirror differ; what is in use is never repaired
    #[arg(long)]
    force: bool,
    /// Repair a volume of which Windows keeps shadow copies: they show something else then
    #[arg(long)]
    lose_shadow_copies: bool,
}

/// The result of a check as JSON, for scripts.
#[derive(Serialize)]
struct Document<'a> {
    device: &'a str,
    format: String,
    found: u64,
    /// The number of findings that are no damage.
    notices: u64,
    repaired: u64,
    /// The worst severity among the findings that are not repaired: null, "notice", "inconsistent" or "data-loss".
    remaining: Option<&'static str>,
    exit_code: u8,
    files: u64,
    directories: u64,
    used_clusters: u64,
    total_clusters: u64,
    /// Bytes of file data that have checksums and were not read.
    unread_bytes: u64,
    /// The undo file, which takes the repair back; `None` if the repair wrote nothing.
    undo: Option<String>,
    findings: Vec<CheckedFinding<'a>>,
}

#[derive(Serialize)]
struct CheckedFinding<'a> {
    code: &'a str,
    severity: &'static str,
    path: Option<&'a str>,
    message: &'a str,
    repaired: bool,
}

/// Returns the name of a severity in JSON documents.
pub(crate) fn word(severity: Severity) -> &'static str {
    match severity {
        Severity::Notice => "notice",
        Severity::Inconsistent => "inconsistent",
        Severity::DataLoss => "data-loss",
    }
}

/// Returns the format of a volume that was closed cleanly; `None` if it was not, or cannot be opened: the check
/// then deals with it.
fn format_if_clean(source: &Source) -> Option<String> {
    let device = platter::open_device(source, &device_options(Access::Read, Caching::default())).ok()?;
    let info = platter_formats::open(device, open_options(true)).ok()?.info().ok()?;
    // Failures of the medium are recorded apart from whether the volume was closed, and the check reports both.
    (!info.dirty && !info.has_media_failures).then_some(info.format)
}

impl Arguments {
    pub(crate) fn run(self) -> Outcome {
        self.check().map_err(|failure| failure.with_code(CHECK_FAILED))
    }

    fn check(&self) -> Outcome {
        let mut source = Source::parse(&self.image)?;
        if self.partition.is_some() {
            source = source.with_partition(self.partition);
        }
        if self.repair || !self.force {
            refuse_any_mounted(&source)?;
        }
        if self.if_dirty
            && let Some(format) = format_if_clean(&source)
        {
            let mut output = Output::new();
            output.line(format_args!("{}: {format}, was closed and is not checked", shown(&self.image)))?;
            output.finish()?;
            return Ok(0);
        }
        let undo = match &self.undo {
            _ if self.no_undo => Undo::Nowhere,
            Some(path) => Undo::At(path.clone()),
            None => Undo::Beside,
        };
        let options = CheckOptions {
            repair: self.repair,
            surface: self.surface,
            data: self.data,
            format: self.format.clone(),
            undo,
            force: self.force,
            lose_shadow_copies: self.lose_shadow_copies,
            listener: listener(),
            keys: keys(),
        };
        let bar = Bar::interruptible(Unit::Steps);
        let checked = platter::check_source(&source, &options, &bar);
        let standing = bar.standing();
        drop(bar);
        let checked = match checked {
            Err(error) if !self.repair && matches!(error.kind(), ErrorKind::InUse | ErrorKind::Locked) => {
                let hint = "what others change meanwhile looks like damage; --force checks it all the same";
                return Err(Failure::new(error, hint));
            }
            Err(error) if error.kind() == ErrorKind::Stopped => {
                let image = shown(&self.image);
                let left = match (self.repair, self.no_undo) {
                    (false, _) => "nothing was written",
                    (true, false) => "repair it again, or take back what is repaired with the undo file",
                    (true, true) => "repair it again",
                };
                return Err(Failure::interrupted(format_args!("{image}: {standing}; {left}")));
            }
            checked => checked?,
        };
        let Checked { device, format, report, undo } = checked;
        self.report(&device, (format, report), undo)
    }

    fn report(
        &self,
        device: &str,
        (format, report): (String, CheckReport),
        saved: Option<(PathBuf, u64)>,
    ) -> Outcome {
        let mut output = Output::new();
        let undo = saved.as_ref().map(|(path, _)| shown(path).to_string());
        if self.json {
            output.json(&document(device, format, &report, undo))?;
        } else {
            verdict::lines(device, &format, &report).iter().try_for_each(|line| output.line(line))?;
            if let Some((path, saved)) = saved {
                let (path, image): (&Path, &Path) = (&path, &self.image);
                output.line(format_args!(
                    "what was overwritten ({}) is in {path}; `platter undo {path} {image}` takes the repair back",
                    show_size(saved),
                    path = shown(path),
                    image = shown(image)
                ))?;
            }
        }
        output.finish()?;
        Ok(report.exit_code())
    }
}

fn document<'a>(
    device: &'a str,
    format: String,
    report: &'a CheckReport,
    undo: Option<String>,
) -> Document<'a> {
    Document {
        device,
        format,
        found: report.found,
        notices: report.notices,
        repaired: report.repaired,
        remaining: report.remaining.map(word),
        exit_code: report.exit_code(),
        files: report.files,
        directories: report.directories,
        used_clusters: report.used_clusters,
        total_clusters: report.total_clusters,
        unread_bytes: report.unread,
        undo,
        findings: report
            .findings
            .iter()
            .map(|finding| CheckedFinding {
                code: finding.code,
                severity: word(finding.severity),
                path: finding.path.as_deref(),
                message: &finding.message,
                repaired: finding.repaired,
            })
            .collect(),
    }
}

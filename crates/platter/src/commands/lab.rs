//! What the lab's commands share: the choices of a comparison, its progress, and its reports on disk.

use crate::failure::{About, Failure};
use crate::image::Image;
use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use platter_device::{FileDevice, FileOptions, parse_size, refuse_contents, refuse_in_use};
use platter_lab::report::{Document, csv, html, markdown};
use platter_lab::workload::parse_durability;
use platter_lab::{Comparison, Durability, Observer, Preset, Stand, Target, Workload};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// On what and how a comparison runs.
#[derive(Args)]
pub struct Choices {
    /// Small span and short runs, three rounds: minutes. The default
    #[arg(long, conflicts_with = "full")]
    quick: bool,

    /// The spans and times of the published comparisons: hours
    #[arg(long)]
    full: bool,

    /// The device: an image file (made if it is not there), a block device, several of them as mirror:IMAGE,IMAGE, or
    /// mem:SIZE; its content is lost [default: a temporary image file]
    #[arg(long, value_name = "IMAGE|DEVICE|mem:SIZE")]
    device: Option<String>,

    /// Overwrite a device that is in use, or that holds a file system or a partition table
    #[arg(long)]
    force: bool,

    /// Rounds, instead of the workload's own number
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    repeat: Option<u32>,

    /// When a write counts as done, instead of the workload's own rule: direct (past the caches, volatile until a
    /// flush), write-through (durable when the call returns), or fsync_every=N
    #[arg(long, value_name = "RULE", value_parser = parse_durability)]
    durability: Option<Durability>,

    /// Through the host's page cache instead of past it: what an ordinary program sees, memory included
    #[arg(long)]
    buffered: bool,

    /// Bytes that I/Os are spread over, instead of the workload's own
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    span: Option<u64>,

    /// Measured seconds of each run, instead of the workload's own
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    time: Option<Duration>,

    /// Check every block that is read against what was last written there; exit code 1 if one is wrong
    #[arg(long)]
    verify: bool,

    /// Touch every cache line of what is read, and of what is written before it is, as programs do that use their data
    /// and benchmarks do not
    #[arg(long)]
    touch: bool,
}

fn parse_seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "expected a number of seconds".to_string())?;
    if seconds > 0.0 && seconds < 1e9 {
        Ok(Duration::from_secs_f64(seconds))
    } else {
        Err("expected more than 0 seconds".into())
    }
}

impl Choices {
    /// The comparison that was asked for. A directory that a temporary image or the reports need is made.
    pub fn comparison(
        self,
        targets: &[String],
        workloads: &[String],
        out: &Path,
    ) -> Result<Comparison, Failure> {
        let preset = if self.full { Preset::Full } else { Preset::Quick };
        let workloads =
            workloads.iter().map(|name| Workload::load(name, preset)).collect::<Result<Vec<_>, _>>()?;
        std::fs::create_dir_all(out).about(out.display())?;
        let targets = targets.iter().map(|name| Target::parse(name)).collect::<Result<Vec<_>, _>>()?;
        let stand = self.stand(out)?;
        Ok(Comparison {
            stand,
            targets,
            workloads,
            preset,
            repeats: self.repeat,
            durability: self.durability,
            span: self.span,
            time: self.time,
            buffered: self.buffered,
            verify: self.verify,
            touch: self.touch,
            command: command_line(),
        })
    }

    fn stand(&self, out: &Path) -> Result<Stand, Failure> {
        let Some(device) = &self.device else { return Ok(Stand::TemporaryImage(out.into())) };
        if let Some(size) = device.strip_prefix("mem:") {
            return parse_size(size).map(Stand::Memory).map_err(|error| Failure::new(device, error));
        }
        let mut image = Image::parse(Path::new(device))?;
        for path in image.paths.iter().filter(|path| !self.force && path.exists()) {
            refuse_in_use(path)?;
            let options = FileOptions { read_only: true, ..FileOptions::default() };
            refuse_contents(&FileDevice::open(path, options)?)?;
        }
        Ok(if image.is_mirror { Stand::Mirror(image.paths) } else { Stand::Path(image.paths.remove(0)) })
    }
}

/// The command as it was typed, with the program's own name.
fn command_line() -> String {
    let arguments = std::env::args().skip(1).map(|argument| {
        let plain = argument.chars().all(|c| c.is_ascii_alphanumeric() || "-_=:./,@+".contains(c));
        if plain && !argument.is_empty() {
            argument
        } else {
            format!("'{}'", argument.replace('\'', r"'\''"))
        }
    });
    std::iter::once("platter".to_string()).chain(arguments).collect::<Vec<_>>().join(" ")
}

/// One progress bar for a whole comparison; nothing without a terminal.
struct Meter(ProgressBar);

impl Meter {
    fn new() -> Meter {
        let style = ProgressStyle::with_template("{bar:24} {percent:>3} %  {msg}  ({eta} left)")
            .expect("a constant template is valid");
        let bar = ProgressBar::with_draw_target(Some(1), ProgressDrawTarget::stderr_with_hz(8));
        bar.set_style(style);
        Meter(bar)
    }

    fn finish(self) {
        self.0.finish_and_clear();
    }
}

impl Observer for Meter {
    fn stage(&self, what: &str, done: Duration, total: Duration) {
        self.0.set_length(total.as_millis() as u64);
        self.0.set_position(done.as_millis() as u64);
        self.0.set_message(what.to_string());
    }

    fn result(&self, target: &str, workload: &str, case: &str, iops: f64, mb_per_s: f64) {
        let case = format!("{workload} {case}");
        self.0.println(format!("{target:<20} {case:<40} {mb_per_s:>9.1} MB/s {iops:>10.0} IOPS"));
    }
}

/// Runs a comparison under a progress bar.
pub fn measure(comparison: &Comparison) -> Result<Document, Failure> {
    let meter = Meter::new();
    let document = platter_lab::compare(comparison, &meter);
    meter.finish();
    Ok(document?)
}

/// 1 if a block did not read back as it was written, otherwise 0.
pub fn exit_code(document: &Document) -> u8 {
    let mut runs = document.results.iter().flat_map(|result| &result.runs);
    u8::from(runs.any(|run| run.corrupted_blocks > 0))
}

/// Writes a report in every form; returns the paths.
pub fn save(document: &Document, out: &Path, published: bool) -> Result<Vec<PathBuf>, Failure> {
    std::fs::create_dir_all(out).about(out.display())?;
    let forms = [
        ("report.json", document.to_json()),
        ("report.html", html::render(document, published)),
        ("report.md", markdown::render(document, published)),
        ("report.csv", csv::render(document)),
    ];
    forms
        .into_iter()
        .map(|(name, text)| {
            let path = out.join(name);
            std::fs::write(&path, text).about(path.display())?;
            Ok(path)
        })
        .collect()
}

/// Reads a saved report.
pub fn load(path: &Path) -> Result<Document, Failure> {
    let text = std::fs::read_to_string(path).about(path.display())?;
    Document::from_json(&text).map_err(|error| Failure::new(path.display(), error))
}

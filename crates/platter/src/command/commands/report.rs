//! `platter report`: saved results, rendered again or compared.

use super::lab::{Reports, has_colours, load, write};
use crate::command::failure::{About, Failure, Outcome, USAGE, tell};
use crate::command::output::Output;
use clap::Args;
use platter_lab::fleet::{Fleet, Key, Rates};
use platter_lab::report::terminal::{self, View};
use platter_lab::report::{Diff, Document, fio, markdown};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::thread;

/// Render a saved report again, compare two, or show published figures
///
/// One report.json is printed as a table, or written in every form with --out. Two are compared case by case. With
/// --published alone, the figures that others published are shown, with their sources.
///
/// With --group-by any number of reports are put together, those in directories too: for each case the distribution
/// of the machines of each group, and the machines that deviate from their group. A machine is a device of a
/// host, or of what --machine names; several reports of one machine count as their median. A file that is no report is skipped and counted.
#[derive(Args)]
pub(crate) struct Arguments {
    /// One saved report.json or the directory that has it, or two to compare: before and after; any number, and
    /// directories of them, with --group-by
    #[arg(required_unless_present = "published")]
    reports: Vec<PathBuf>,

    /// Put reports of many machines together in groups: host, cpu, kernel, os, version, device.model, device.firmware,
    /// device.kind, device.name, label.NAME
    #[arg(
        long,
        value_name = "KEY,...",
        value_delimiter = ',',
        value_parser = Key::parse,
        conflicts_with_all = ["base", "details", "published"]
    )]
    group_by: Vec<Key>,

    /// What tells machines apart, with --group-by: the same keys. Reports that agree in all of them, and in the device, are
    /// of one machine [default: label.machine, or else label.node, or else the host's name and identifier]
    #[arg(long, value_name = "KEY,...", value_delimiter = ',', value_parser = Key::parse, requires = "group_by")]
    machine: Vec<Key>,

    /// Write report.json, .html, .md and .csv there instead of printing; of many machines machines.html and machines.md
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Print fio's JSON of one report, for the tools that read it
    #[arg(long, conflicts_with_all = ["out", "markdown", "group_by", "published", "details"])]
    fio_json: bool,

    /// Append every report to a directory of Parquet files, for query engines and data frames; any number of reports,
    /// and directories of them. The columns are in docs/machines.md
    #[cfg(feature = "parquet")]
    #[arg(
        long,
        value_name = "DIR",
        conflicts_with_all = ["base", "details", "published", "group_by", "out", "markdown", "fio_json"]
    )]
    parquet: Option<PathBuf>,

    /// Print Markdown instead of a table
    #[arg(long, conflicts_with = "out")]
    markdown: bool,

    /// The target that the others are compared with, instead of the report's own
    #[arg(long, value_name = "TARGET")]
    base: Option<String>,

    /// Print response times, processor time, what the storage saw and all conditions too
    #[arg(long)]
    details: bool,

    /// Show the figures that others published
    #[arg(long)]
    published: bool,
}

/// Adds a file, or every `.json` file below a directory in order of names, to `all`.
fn files(path: &Path, all: &mut Vec<PathBuf>) -> Result<(), Failure> {
    if !path.is_dir() {
        all.push(path.to_owned());
        return Ok(());
    }
    let entries = std::fs::read_dir(path).about(path.display())?;
    let mut below = Vec::new();
    for entry in entries {
        let entry = entry.about(path.display())?;
        // `file_type` does not follow symbolic links: a link to a directory could lead back here.
        let kind = entry.file_type().about(path.display())?;
        if kind.is_dir() || entry.path().extension().is_some_and(|extension| extension == "json") {
            below.push(entry.path());
        }
    }
    below.sort();
    below.iter().try_for_each(|path| files(path, all))
}

/// The most bytes that are read of a file; no report of a comparison is as large.
const LARGEST: u64 = 1 << 30;

/// The number of files that are read at the same time, each by a thread.
fn threads() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Returns the rates of a report, or the reason why the file is no report; fails only if the file cannot be read.
fn rates(path: &Path) -> Result<Result<Rates, String>, Failure> {
    let mut text = Vec::new();
    let file = File::open(path).about(path.display())?;
    file.take(LARGEST + 1).read_to_end(&mut text).about(path.display())?;
    Ok(match text.len() as u64 > LARGEST {
        true => Err(format!("it has more than {LARGEST} bytes")),
        false => Rates::of(&text),
    })
}

/// Reads the rates of several files at the same time; the results are in the order of `paths`.
fn rates_of(paths: &[PathBuf]) -> Vec<Result<Result<Rates, String>, Failure>> {
    thread::scope(|scope| {
        let readers: Vec<_> = paths.iter().map(|path| scope.spawn(|| rates(path))).collect();
        readers.into_iter().map(|reader| reader.join().expect("reading does not panic")).collect()
    })
}

impl Arguments {
    /// Groups the reports of many machines, and prints or writes the distributions.
    fn many(self) -> Outcome {
        let mut all = Vec::new();
        self.reports.iter().try_for_each(|path| files(path, &mut all))?;
        let mut fleet = Fleet::new(self.group_by).identified_by(self.machine);
        let mut others = 0;
        for paths in all.chunks(threads()) {
            for (path, read) in paths.iter().zip(rates_of(paths)) {
                match read? {
                    Ok(rates) => fleet.add(rates),
                    Err(why) if self.reports.contains(path) => return Err(Failure::new(path.display(), why)),
                    Err(_) => others += 1,
                }
            }
        }
        if others > 0 {
            tell(format_args!("platter: {others} of {} files are no reports of this version", all.len()));
        }
        if fleet.reports() == 0 {
            return Err(Failure::new("report", "there is no report among what was named"));
        }
        let fleet = fleet.summary();
        let mut output = Output::new();
        match self.out {
            Some(out) => {
                std::fs::create_dir_all(&out).about(out.display())?;
                for (name, text) in [("machines.html", fleet.html()), ("machines.md", fleet.markdown())] {
                    let path = out.join(name);
                    write(&path, &text)?;
                    output.line(format!("wrote {}", path.display()))?;
                }
            }
            None if self.markdown => output.bytes(fleet.markdown().as_bytes())?,
            None => {
                let colour = has_colours(&output);
                output.bytes(fleet.terminal(colour).as_bytes())?;
            }
        }
        output.finish()?;
        Ok(0)
    }

    /// Appends the reports to Parquet files in `directory`.
    #[cfg(feature = "parquet")]
    fn append(&self, directory: &Path) -> Outcome {
        let mut all = Vec::new();
        self.reports.iter().try_for_each(|path| files(path, &mut all))?;
        let (mut written, mut others) = (0, 0);
        for path in &all {
            match load(path) {
                Ok(document) => {
                    platter_lab::report::parquet::append(&document, directory).about(directory.display())?;
                    written += 1;
                }
                Err(why) if self.reports.contains(path) => return Err(why),
                Err(_) => others += 1,
            }
        }
        if others > 0 {
            tell(format_args!("platter: {others} of {} files are no reports of this version", all.len()));
        }
        let mut output = Output::new();
        output.line(format!("{written} files were added to {}", directory.display()))?;
        output.finish()?;
        Ok(0)
    }

    pub(crate) fn run(self) -> Outcome {
        #[cfg(feature = "parquet")]
        if let Some(directory) = &self.parquet {
            return self.append(directory);
        }
        if !self.group_by.is_empty() {
            return self.many();
        }
        if self.reports.len() > 2 {
            return Err(Failure::new("report", "more than two reports need --group-by").with_code(USAGE));
        }
        let mut output = Output::new();
        let colour = has_colours(&output);
        let view = View {
            width: output.width().unwrap_or(terminal::WIDTH),
            colour,
            details: self.details,
            published: self.published,
        };
        let document = |path: &Path| -> Result<Document, Failure> {
            let mut document = load(path)?;
            if let Some(base) = &self.base {
                let names: Vec<&str> = document.targets.iter().map(|target| target.name.as_str()).collect();
                if !names.contains(&base.as_str()) {
                    return Err(Failure::new(
                        "--base",
                        format!("{base:?} is not among {}", names.join(", ")),
                    ));
                }
                document.settings.base = base.clone();
                document.conclude();
            }
            Ok(document)
        };
        let text = match (&self.reports[..], &self.out) {
            ([one], None) if self.fio_json => fio::render(&document(one)?),
            (_, None) if self.fio_json => {
                return Err(Failure::new("--fio-json", "needs exactly one report").with_code(USAGE));
            }
            ([one], Some(out)) => {
                let document = document(one)?;
                for path in Reports::prepare(out)?.save(&document, self.published)? {
                    output.line(format!("wrote {}", path.display()))?;
                }
                output.finish()?;
                return Ok(0);
            }
            (_, Some(_)) => return Err(Failure::new("--out", "needs exactly one report").with_code(USAGE)),
            ([], None) if self.markdown => markdown::published_section(),
            ([], None) => terminal::published_section(view.width, colour),
            ([one], None) if self.markdown => markdown::render(&document(one)?, self.published),
            ([one], None) => terminal::render(&document(one)?, view),
            ([before, after, ..], None) => {
                let diff = Diff::new(&load(before)?, &load(after)?);
                if self.markdown { diff.markdown() } else { diff.terminal(colour) }
            }
        };
        output.bytes(text.as_bytes())?;
        output.finish()?;
        Ok(0)
    }
}

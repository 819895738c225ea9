//! `platter run`: one workload on one target.

use super::lab::{
    Choices, JETSTRESS, Marks, Policies, exit_code, has_colours, measure, measure_and, measure_databases,
    measure_files, on_files, targets_help, workloads_help,
};
use crate::command::failure::{About, Failure, Outcome, USAGE, tell};
use crate::command::output::Output;
use clap::Args;
use platter_lab::Runs;
use platter_lab::diskspd::Profile;
use platter_lab::iometer::Config;
use platter_lab::report::terminal::{self, View};
use platter_lab::report::{Document, fio};
use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Run one workload on one target and print what it measured
///
/// The same as `compare` with one target and one workload, without reports on disk. With --json the whole document goes
/// to standard output, for a script.
///
/// `platter run diskspd -- OPTIONS FILE` takes DiskSpd's own options and prints results in its format: see
/// docs/diskspd.md. FILE is not changed: the load runs on a new file in FILE's directory, or on the --target on the
/// --device that is named.
#[derive(Args)]
pub(crate) struct Arguments {
    #[arg(help = workloads_help("The load"))]
    workload: OsString,

    #[arg(long, help = targets_help("What to run it on") + " [default: raw, or ntfs for loads on files]")]
    target: Option<OsString>,

    #[command(flatten)]
    choices: Choices,

    #[command(flatten)]
    policies: Policies,

    /// Print the JSON document instead of the table
    #[arg(long)]
    json: bool,

    /// Print fio's JSON instead of the table, for the tools that read it
    #[arg(long, conflicts_with = "json")]
    fio_json: bool,

    /// Write Iometer's results.csv, for a load that is an .icf file. An existing FILE is not overwritten
    #[arg(long, value_name = "FILE")]
    results: Option<PathBuf>,

    /// The options of diskspd
    #[arg(last = true, value_name = "OPTIONS")]
    options: Vec<OsString>,
}

impl Arguments {
    fn form(&self) -> Form {
        match (self.json, self.fio_json) {
            (true, _) => Form::Json,
            (_, true) => Form::FioJson,
            _ => Form::Text,
        }
    }

    pub(crate) fn run(self) -> Outcome {
        let form = self.form();
        if self.policies.age && on_files(&self.workload).is_none() {
            return Err(Failure::new("--age", "only loads on files are run on aged volumes").with_code(USAGE));
        }
        if !self.policies.threads.is_empty() && self.workload != JETSTRESS {
            return Err(Failure::new("--threads", "of jetstress; other loads say their threads themselves")
                .with_code(USAGE));
        }
        if self.workload == "diskspd" {
            return self.diskspd();
        }
        if let Some(path) = self.results.clone() {
            return self.iometer(&path);
        }
        if let Some(option) = self.options.first() {
            return Err(Failure::new(option.display(), "only diskspd has options behind --").with_code(USAGE));
        }
        let marks = self.choices.marks()?;
        if self.workload == JETSTRESS {
            let target = self.target.unwrap_or_else(|| "refs:64k".into());
            let jetstress = self.choices.jetstress(self.policies, &[target], Path::new("."))?;
            return show(&marks.on(measure_databases(&jetstress)?), &marks, form);
        }
        if let Some(set) = on_files(&self.workload) {
            let target = self.target.unwrap_or_else(|| "ntfs".into());
            let naspt = self.choices.naspt(vec![set], &[target], self.policies, Path::new("."))?;
            return show(&marks.on(measure_files(&naspt)?), &marks, form);
        }
        let is_chosen = self.target.is_some();
        let target = self.target.unwrap_or_else(|| "raw".into());
        let comparison = self.choices.comparison(&[target], is_chosen, &[self.workload], Path::new("."))?;
        show(&marks.on(measure(&comparison)?), &marks, form)
    }

    /// Runs a configuration of Iometer, prints the results, and writes Iometer's results.csv to `results`.
    fn iometer(self, results: &Path) -> Outcome {
        let form = self.form();
        let marks = self.choices.marks()?;
        let path = Path::new(&self.workload);
        let wrong = |reason: String| Failure::new(path.display(), reason).with_code(USAGE);
        let is_icf = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("icf"));
        if !is_icf {
            return Err(wrong("--results is for an .icf file of Iometer".into()));
        }
        let config = Config::load(path).map_err(wrong)?;
        let target = self.target.unwrap_or_else(|| "raw".into());
        let comparison =
            self.choices.comparison(&[target], true, std::slice::from_ref(&self.workload), Path::new("."))?;
        // Created before anything is measured, so that a path that cannot be written does not lose a long
        // measurement.
        let mut file = File::create_new(results).about(results.display())?;
        let mut runs = Runs::default();
        let measured =
            measure_and(&comparison, &mut |workload, case, measured| runs.add(workload, case, measured));
        let written = measured.and_then(|document| {
            let text = config.results(&runs, &document).map_err(wrong)?;
            file.write_all(text.as_bytes()).about(results.display())?;
            Ok(document)
        });
        if written.is_err() {
            // An empty results file would mislead; the returned error is printed.
            let _ = std::fs::remove_file(results);
        }
        show(&marks.on(written?), &marks, form)
    }

    /// Runs the load that a DiskSpd command line describes.
    fn diskspd(self) -> Outcome {
        let form = self.form();
        let wrong = |reason: String| Failure::new("diskspd", reason).with_code(USAGE);
        let as_text = |option: OsString| {
            option.into_string().map_err(|option| wrong(format!("{} is no UTF-8", option.display())))
        };
        let options = self.options.into_iter().map(as_text).collect::<Result<Vec<String>, Failure>>()?;
        let profile = Profile::from_arguments(&options).map_err(wrong)?;
        let mut output = Output::new();
        if profile.only_profile {
            output.bytes(profile.shown().as_bytes())?;
            output.finish()?;
            return Ok(0);
        }
        let target = match self.target {
            Some(target) => target,
            None if self.choices.has_device() => "raw".into(),
            None => match profile.device() {
                Some(device) => {
                    let why = "a device is named with --device too, as what it holds is lost";
                    return Err(Failure::new(device, why).with_code(USAGE));
                }
                None => beside(profile.paths().next().unwrap_or_default()),
            },
        };
        let workloads = profile.workloads().map_err(wrong)?;
        let notes: Vec<String> = workloads.iter().flat_map(|workload| workload.notes.clone()).collect();
        for note in &notes {
            tell(format_args!("platter: diskspd: {note}"));
        }
        let marks = self.choices.marks()?;
        let comparison = self.choices.comparison_of(&[target], workloads, Path::new("."))?;
        let mut runs = Runs::default();
        let document =
            measure_and(&comparison, &mut |workload, case, measured| runs.add(workload, case, measured))?;
        let document = marks.on(document);
        let appended = marks.append(&document);
        let text = match form {
            Form::Json => document.to_json(),
            Form::FioJson => fio::render(&document),
            Form::Text => {
                // DiskSpd's tables have no place for what went wrong.
                let wrong = document.partial.iter().chain(&document.warnings);
                for sentence in wrong.filter(|sentence| !notes.contains(sentence)) {
                    tell(format_args!("platter: diskspd: {sentence}"));
                }
                profile.results(&runs, &document)
            }
        };
        output.bytes(text.as_bytes())?;
        output.finish()?;
        appended?;
        Ok(exit_code(&document))
    }
}

/// The form in which results are printed.
#[derive(Clone, Copy)]
enum Form {
    Text,
    Json,
    FioJson,
}

/// Prints the results, and returns the exit code.
fn show(document: &Document, marks: &Marks, form: Form) -> Outcome {
    let appended = marks.append(document);
    let mut output = Output::new();
    let text = match form {
        Form::Json => document.to_json(),
        Form::FioJson => fio::render(document),
        Form::Text => {
            let width = output.width().unwrap_or(terminal::WIDTH);
            let view = View { width, colour: has_colours(&output), details: true, ..View::default() };
            terminal::render(document, view)
        }
    };
    output.bytes(text.as_bytes())?;
    output.finish()?;
    appended?;
    Ok(exit_code(document))
}

/// Returns the target `dir:` of the directory that a file is in.
fn beside(file: &str) -> OsString {
    let directory = Path::new(file).parent().filter(|parent| !parent.as_os_str().is_empty());
    let mut target = OsString::from("dir:");
    target.push(directory.unwrap_or(Path::new(".")));
    target
}

//! `platter run`: one workload on one target.

use super::lab::{Choices, exit_code, measure, measure_and, targets_help, workloads_help};
use crate::failure::{Failure, Outcome, USAGE, tell};
use crate::output::Output;
use clap::Args;
use platter_lab::diskspd::{Profile, Runs};
use platter_lab::report::terminal::{self, View};
use std::ffi::OsString;
use std::path::Path;

/// Run one workload on one target and print what it measured
///
/// The same as `compare` with one target and one workload, without reports on disk. With --json the whole document goes
/// to standard output, for a script.
///
/// `platter run diskspd -- OPTIONS FILE` takes DiskSpd's own options and prints results in its format: see docs/diskspd.md.
/// What FILE holds stays as it is: the load runs on a new file in FILE's directory, or on the --target on the --device that
/// is named.
#[derive(Args)]
pub struct Arguments {
    #[arg(help = workloads_help("The load"))]
    workload: OsString,

    #[arg(long, help = targets_help("What to run it on") + " [default: raw]")]
    target: Option<OsString>,

    #[command(flatten)]
    choices: Choices,

    /// Print the JSON document instead of the table
    #[arg(long)]
    json: bool,

    /// The options of diskspd
    #[arg(last = true, value_name = "OPTIONS")]
    options: Vec<OsString>,
}

impl Arguments {
    pub fn run(self) -> Outcome {
        if self.workload == "diskspd" {
            return self.diskspd();
        }
        if let Some(option) = self.options.first() {
            return Err(Failure::new(option.display(), "only diskspd has options behind --").with_code(USAGE));
        }
        let target = self.target.unwrap_or_else(|| "raw".into());
        let comparison = self.choices.comparison(&[target], &[self.workload], Path::new("."))?;
        let document = measure(&comparison)?;
        let mut output = Output::new();
        let text = if self.json {
            document.to_json()
        } else {
            terminal::render(
                &document,
                View {
                    width: output.width().unwrap_or(terminal::WIDTH),
                    colour: output.is_terminal(),
                    details: true,
                    ..View::default()
                },
            )
        };
        output.bytes(text.as_bytes())?;
        output.finish()?;
        Ok(exit_code(&document))
    }

    /// Runs what a command line of DiskSpd says.
    fn diskspd(self) -> Outcome {
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
            None => beside(profile.paths().next().unwrap_or_default()),
        };
        let workloads = profile.workloads().map_err(wrong)?;
        for note in workloads.iter().flat_map(|workload| &workload.notes) {
            tell(format_args!("platter: diskspd: {note}"));
        }
        let comparison = self.choices.comparison_of(&[target], workloads, Path::new("."))?;
        let mut runs = Runs::default();
        let document =
            measure_and(&comparison, &mut |workload, case, measured| runs.add(workload, case, measured))?;
        let text = if self.json { document.to_json() } else { profile.results(&runs, &document) };
        output.bytes(text.as_bytes())?;
        output.finish()?;
        Ok(exit_code(&document))
    }
}

/// The directory that a file is in, as a target.
fn beside(file: &str) -> OsString {
    let directory = Path::new(file).parent().filter(|parent| !parent.as_os_str().is_empty());
    let mut target = OsString::from("dir:");
    target.push(directory.unwrap_or(Path::new(".")));
    target
}

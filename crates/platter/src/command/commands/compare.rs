//! `platter compare`: which file system should I put here, and what does it cost?

use super::lab::{
    Choices, JETSTRESS, Marks, Policies, Reports, Runs, exit_code, has_colours, measure, measure_databases,
    measure_files, measure_post, measure_programs, on_files, targets_help, workloads_help, write,
};
use crate::command::failure::{Failure, Outcome, USAGE};
use crate::command::output::Output;
use clap::Args;
use platter_lab::naspt;
use platter_lab::post::Post;
use platter_lab::report::Document;
use platter_lab::report::terminal::{self, View};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Compare the raw device, Platter's file systems on it, and directories of mounted ones under the same load
///
/// Every target is prepared first, each in a region of the device of its own; then, case by case, all targets run
/// alternately in short slices, so that other load on the machine affects all alike. The outcome is written as
/// report.json, report.html, report.md and report.csv; an older report there is kept under the time at which it was
/// made.
///
/// Without --device everything happens on a temporary image file in the output directory, and the host's own file
/// system is compared there too: this needs no root, and changes no existing file.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Repeat a published comparison on models of its devices, in virtual time: 000 to 004 (docs/posts.md). Its device,
    /// targets, loads, spans and times are those of the post, shorter without --full, and the report has the published
    /// figures beside the model's; --set and --time change its models and times. (--setup is a command before programs, and no part of this)
    #[arg(
        long,
        value_name = "NUMBER",
        conflicts_with_all = ["device", "targets", "workloads", "policy", "volumes", "threads", "age", "commands"]
    )]
    post: Option<String>,

    #[command(flatten)]
    choices: Choices,

    // The help texts of these arguments list the targets and workloads that exist.
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "TARGET,...",
        help = targets_help("What to compare"),
        long_help = targets_help("What to compare") + "\n\n[default: " + &DEFAULT.join(",") + ",dir:OUT]"
    )]
    targets: Vec<OsString>,

    #[arg(
        long,
        value_delimiter = ',',
        value_name = "WORKLOAD,...",
        default_values = WORKLOADS,
        help = workloads_help("Loads")
    )]
    workloads: Vec<OsString>,

    #[command(flatten)]
    policies: Policies,

    #[command(flatten)]
    programs: Runs,

    /// The directory for the reports; made if it does not exist
    #[arg(long, value_name = "DIR", default_value = "platter-report")]
    out: PathBuf,

    /// Print response times, processor time, what the storage saw and all conditions too
    #[arg(long)]
    details: bool,

    /// Add the tables that others published
    #[arg(long)]
    published: bool,
}

/// The workloads if none are named.
const WORKLOADS: [&str; 2] = ["iometer", "crystaldiskmark"];

/// The targets if none are named; the directory of the reports is one more.
const DEFAULT: [&str; 6] = ["raw", "ntfs", "refs", "refs+integrity", "exfat", "fat32"];

/// The targets of loads on files if none are named.
const WITH_FILES: [&str; 4] = ["ntfs", "refs", "exfat", "fat32"];

/// The targets of Jetstress if none are named.
const FOR_DATABASES: [&str; 2] = ["ntfs:64k", "refs:64k"];

/// Returns the name of the file for a target's results in NASPT's own format; the target and the time make it unique.
fn table_name(target: &str, created: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "+-. ".contains(c) { c } else { '-' };
    format!("NASPerf-APP {target} {created}.csv").chars().map(plain).collect()
}

impl Arguments {
    pub(crate) fn run(self) -> Outcome {
        if let Some(name) = &self.post {
            let post = Post::named(name).map_err(|error| Failure::from(error).with_code(USAGE))?;
            let repeat = self.choices.repeat()?;
            let reports = Reports::prepare(&self.out)?;
            let marks = self.choices.marks()?;
            let document = marks.on(measure_post(&post, &repeat)?);
            return finish(&reports, &document, &marks, self.published, self.details, None);
        }
        if !self.programs.commands.is_empty() {
            return self.programs();
        }
        let sets: Vec<naspt::Set> = self.workloads.iter().filter_map(|name| on_files(name)).collect();
        let is_jetstress = self.workloads.iter().any(|name| name == JETSTRESS);
        if (!sets.is_empty() && sets.len() < self.workloads.len())
            || (is_jetstress && self.workloads.len() > 1)
        {
            let why = "loads on files (naspt, small-files and others; jetstress alone) are no part of a comparison with others";
            return Err(Failure::new("--workloads", why).with_code(USAGE));
        }
        if !self.policies.volumes.is_empty() && (!is_jetstress || !self.targets.is_empty()) {
            let why = "volumes are what jetstress runs on, instead of --targets";
            return Err(Failure::new("--volumes", why).with_code(USAGE));
        }
        if !self.policies.threads.is_empty() && !is_jetstress {
            return Err(Failure::new("--threads", "of jetstress; other loads say their threads themselves")
                .with_code(USAGE));
        }
        if self.policies.age && sets.is_empty() {
            return Err(Failure::new("--age", "only loads on files are run on aged volumes").with_code(USAGE));
        }
        let reports = Reports::prepare(&self.out)?;
        let mut targets = self.targets;
        let is_chosen = !targets.is_empty();
        if is_jetstress {
            if targets.is_empty() {
                targets = FOR_DATABASES.iter().map(OsString::from).collect();
            }
        } else if !sets.is_empty() {
            if targets.is_empty() {
                targets = WITH_FILES.iter().map(OsString::from).collect();
            }
        } else if targets.is_empty() {
            targets = DEFAULT.iter().map(OsString::from).collect();
            let mut directory = OsString::from("dir:");
            directory.push(&self.out);
            targets.push(directory);
        }
        let has_naspt = sets.contains(&naspt::Set::Naspt);
        let marks = self.choices.marks()?;
        let document = marks.on(match sets.is_empty() {
            _ if is_jetstress => {
                measure_databases(&self.choices.jetstress(self.policies, &targets, &self.out)?)?
            }
            true => measure(&self.choices.comparison(&targets, is_chosen, &self.workloads, &self.out)?)?,
            false => measure_files(&self.choices.naspt(sets, &targets, self.policies, &self.out)?)?,
        });
        let has_naspt = has_naspt.then_some(self.out.as_path());
        finish(&reports, &document, &marks, self.published, self.details, has_naspt)
    }

    /// Compares the targets under programs of the user's.
    fn programs(self) -> Outcome {
        if self.workloads != [WORKLOADS[0], WORKLOADS[1]] {
            let why = "a load of its own; --command is another one, and both are two comparisons";
            return Err(Failure::new("--workloads", why).with_code(USAGE));
        }
        let Policies { volumes, threads, age, .. } = &self.policies;
        let is_given =
            [("--age", *age), ("--volumes", !volumes.is_empty()), ("--threads", !threads.is_empty())];
        if let Some((option, _)) = is_given.into_iter().find(|(_, is_given)| *is_given) {
            let why = "of loads on files; it has no meaning for --command";
            return Err(Failure::new(option, why).with_code(USAGE));
        }
        let reports = Reports::prepare(&self.out)?;
        let mut targets = self.targets;
        if targets.is_empty() {
            targets = WITH_FILES.iter().map(OsString::from).collect();
            let mut directory = OsString::from("dir:");
            directory.push(&self.out);
            targets.push(directory);
        }
        let marks = self.choices.marks()?;
        let programs = self.choices.programs(self.programs, &targets, &self.out)?;
        let document = marks.on(measure_programs(&programs)?);
        finish(&reports, &document, &marks, self.published, self.details, None)
    }
}

/// Saves and prints the report, and returns the exit code. `naspt` is the directory for the results in NASPT's own format, if
/// its loads ran.
fn finish(
    reports: &Reports,
    document: &Document,
    marks: &Marks,
    published: bool,
    details: bool,
    naspt: Option<&Path>,
) -> Outcome {
    // The reports are saved before anything is printed, so that a closed pipe does not lose a long measurement;
    // and the results are printed even if saving failed.
    let saved = reports.save(document, published);
    let appended = marks.append(document);
    let mut output = Output::new();
    let view = View {
        width: output.width().unwrap_or(terminal::WIDTH),
        colour: has_colours(&output),
        details,
        published,
    };
    output.bytes(terminal::render(document, view).as_bytes())?;
    output.line("")?;
    for path in saved.iter().flatten().chain(appended.iter().flatten()) {
        output.line(format!("wrote {}", path.display()))?;
    }
    if let Some(directory) = naspt {
        for target in &document.targets {
            let path = directory.join(table_name(&target.name, &document.created));
            write(&path, &platter_lab::naspt::csv(document, &target.name))?;
            output.line(format!("wrote {}", path.display()))?;
        }
    }
    output.finish()?;
    saved?;
    appended?;
    Ok(exit_code(document))
}

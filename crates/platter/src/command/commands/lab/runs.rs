//! The options of a comparison under programs of the user's.

use super::{Choices, Meter, command_line};
use crate::command::failure::{About, Failure, USAGE};
use clap::Args;
use platter_lab::programs::{Program, Programs, ROOM};
use platter_lab::report::Document;
use std::ffi::OsString;
use std::path::Path;

/// Programs of the user's as the load, instead of workloads.
#[derive(Args)]
#[command(next_help_heading = "Programs as the load")]
pub(crate) struct Runs {
    /// Run this command in turns in a folder on each target, instead of a workload, and compare how long it takes: 'git
    /// status'. Runs through sh, on Windows through cmd /d /s /c; may be given several times. Volumes of Platter are used
    /// through `platter mount`, so on Linux only. In the environment PLATTER_FROM is the directory in which platter was called,
    /// PLATTER_TARGET the target's name
    #[arg(long = "command", value_name = "COMMAND")]
    pub commands: Vec<String>,

    /// Run this once on each target before anything is measured, as to put a tree there
    #[arg(long, value_name = "COMMAND", requires = "commands")]
    pub setup: Option<String>,

    /// Run this before each run, outside of the measured time. One for all commands, or one for each
    #[arg(long, value_name = "COMMAND", requires = "commands")]
    pub prepare: Vec<String>,

    /// Run this after each run, outside of the measured time. One for all commands, or one for each
    #[arg(long, value_name = "COMMAND", requires = "commands")]
    pub conclude: Vec<String>,

    /// Forget what is cached of the target before each run: what was made for the comparison is mounted anew; for directories
    /// of the host the caches of the whole machine are dropped, which needs root (without, only the content of files is
    /// forgotten). On Linux only
    #[arg(long, requires = "commands")]
    pub cold: bool,

    /// A run ends when all that it wrote is on the device, not when the program ends. On Windows for administrators only
    #[arg(long, requires = "commands")]
    pub durable: bool,

    /// Runs of each command on each target before those that count [default: 1; none with --cold]
    #[arg(long, value_name = "N", requires = "commands", conflicts_with = "cold")]
    pub warmup: Option<u32>,

    /// Count runs that end with another exit code than 0 too
    #[arg(long, short = 'i', requires = "commands")]
    pub ignore_failure: bool,
}

/// Returns for each of `count` commands what goes before or after it.
fn one_each(option: &str, given: Vec<String>, count: usize) -> Result<Vec<Option<String>>, Failure> {
    match given.len() {
        0 => Ok(vec![None; count]),
        1 => Ok(vec![given.into_iter().next(); count]),
        given_count if given_count == count => Ok(given.into_iter().map(Some).collect()),
        given_count => {
            let why = format!(
                "given {given_count} times for {count} commands; one for all of them, or one for each"
            );
            Err(Failure::new(option, why).with_code(USAGE))
        }
    }
}

impl Choices {
    /// Builds a comparison under programs. Temporary images are made in `directory`.
    pub(crate) fn programs(
        self,
        runs: Runs,
        targets: &[OsString],
        directory: &Path,
    ) -> Result<Programs, Failure> {
        let no_meaning = [
            (
                "--durability",
                self.durability.is_some(),
                "the program decides what it makes durable; see --durable",
            ),
            ("--buffered", self.buffered, "programs use files as they are used to; see --cold"),
            ("--verify", self.verify, "the program reads what it reads; let it compare"),
            ("--precondition", self.precondition.is_some(), "of loads on blocks"),
            ("--touch", self.touch, "of loads on blocks"),
        ];
        if let Some((option, _, why)) = no_meaning.into_iter().find(|(_, is_given, _)| *is_given) {
            return Err(Failure::new(option, format!("has no meaning for --command: {why}")).with_code(USAGE));
        }
        if let Some(empty) = runs.commands.iter().find(|command| command.trim().is_empty()) {
            return Err(Failure::new("--command", format!("{empty:?} is no command")).with_code(USAGE));
        }
        let count = runs.commands.len();
        let prepare = one_each("--prepare", runs.prepare, count)?;
        let conclude = one_each("--conclude", runs.conclude, count)?;
        let around = prepare.into_iter().zip(conclude);
        let commands = runs.commands.into_iter().zip(around);
        Ok(Programs {
            stand: self.stand(directory)?,
            targets: self.targets(targets)?,
            commands: commands
                .map(|(command, (prepare, conclude))| Program { command, prepare, conclude })
                .collect(),
            setup: runs.setup,
            platter: std::env::current_exe().about("platter")?,
            room: self.span.unwrap_or(ROOM),
            passes: self.repeat,
            time: self.time,
            until: self.until,
            warmups: runs.warmup.unwrap_or(1),
            cold: runs.cold,
            durable: runs.durable,
            ignore_failure: runs.ignore_failure,
            preset: self.preset(),
            base: self.base,
            discard: self.discard,
            command: command_line(),
        })
    }
}

/// Runs a comparison under programs, with a progress bar.
pub(crate) fn measure_programs(programs: &Programs) -> Result<Document, Failure> {
    let meter = Meter::new();
    let document = platter_lab::programs::run(programs, &meter);
    meter.finish();
    Ok(document?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_for_all_commands_and_several_for_each() {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<String>>();
        let of = |given: &[&str], count| one_each("--prepare", words(given), count).ok();
        assert_eq!(of(&[], 2), Some(vec![None, None]));
        assert_eq!(of(&["a"], 2), Some(vec![Some("a".into()), Some("a".into())]));
        assert_eq!(of(&["a", "b"], 2), Some(vec![Some("a".into()), Some("b".into())]));
        assert_eq!(of(&["a", "b"], 3), None);
    }
}

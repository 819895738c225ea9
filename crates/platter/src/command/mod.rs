//! The command line: arguments, progress and printing over the other crates.
//!
//! Each file in `commands` holds one command: its arguments and its code. [`run`] is the whole program.

mod browse;
mod cli;
mod commands;
mod complete;
mod copying;
mod facts;
mod failure;
mod helper;
mod host;
mod image;
mod interrupt;
mod keys;
mod manual;
mod mistakes;
#[cfg(target_os = "linux")]
mod mounting;
#[cfg(not(target_os = "linux"))]
#[path = "no_mounting.rs"]
mod mounting;
mod output;
mod page;
mod progress;
mod serving;
mod verdict;
mod view;
mod volume;
mod windows_kit;

use std::ffi::OsString;
use std::process::ExitCode;

/// Carries out the command in `arguments` (the first is the program's name), and returns the program's exit code.
pub(crate) fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    host::begin();
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let arguments = helper::arguments(&arguments).unwrap_or(arguments);
    let cli = match cli::parse(&arguments) {
        Ok(cli) => cli,
        Err(error) => {
            let error = mistakes::explained(error, &arguments);
            if let Err(why) = error.print()
                && !error.use_stderr()
            {
                return end(&output::failure(why));
            }
            let is_check = arguments.get(1).is_some_and(|command| command == "check" || command == "scrub");
            return ExitCode::from(match (error.use_stderr(), is_check) {
                (false, _) => 0,
                (true, false) => failure::USAGE,
                (true, true) => failure::CHECK_USAGE,
            });
        }
    };
    match cli.run() {
        Ok(0) if image::has_lost_a_copy() => ExitCode::from(failure::FAILED),
        Ok(code) => ExitCode::from(code),
        Err(failure) => end(&failure),
    }
}

fn end(failure: &failure::Failure) -> ExitCode {
    failure.print();
    ExitCode::from(failure.code())
}

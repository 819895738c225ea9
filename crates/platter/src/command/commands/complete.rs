//! `platter complete`

use crate::command::complete::scripts::{Script, for_bash};
use crate::command::complete::{complete, words};
use crate::command::failure::Outcome;
use crate::command::output::Output;
use clap::{Args, Command};
use platter_device::host::HostBytes;
use std::ffi::OsString;

/// Print the words that may come at the cursor; the scripts of `platter completions` call this
#[derive(Args)]
#[command(hide = true)]
pub(crate) struct Arguments {
    /// The shell that asks
    shell: Script,
    /// The words up to the cursor, without the program's name; of bash, the characters that break words, and the line
    #[arg(allow_hyphen_values = true, trailing_var_arg = true)]
    words: Vec<OsString>,
}

impl Arguments {
    pub(crate) fn run(self, mut program: Command) -> Outcome {
        let mut output = Output::new();
        if let (Script::Bash, [breaks, line, ..]) = (self.shell, &self.words[..]) {
            let given = words(line.as_bytes());
            let typed = given.last().cloned().unwrap_or_default();
            for found in complete(&mut program, given.get(1..).unwrap_or_default()) {
                output.bytes(&for_bash(&found.value, typed.as_bytes(), breaks.as_bytes()))?;
                output.bytes(b"\n")?;
            }
            output.finish()?;
            return Ok(0);
        }
        // PowerShell drops empty arguments.
        let given: Vec<OsString> = match self.shell {
            Script::PowerShell => self
                .words
                .into_iter()
                .map(|word| if word == "\"\"" { OsString::new() } else { word })
                .collect(),
            _ => self.words,
        };
        for found in complete(&mut program, &given) {
            output.bytes(&found.value)?;
            if !found.help.is_empty() {
                output.bytes(format!("\t{}", found.help).as_bytes())?;
            }
            output.bytes(b"\n")?;
        }
        output.finish()?;
        Ok(0)
    }
}

//! Running programs, and files and directories for them.

use crate::Outcome;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A directory of this process that goes away with it.
pub struct Scratch(PathBuf);

impl Scratch {
    /// One with this in its name.
    pub fn new(name: &str) -> Result<Scratch, String> {
        let path = std::env::temp_dir().join(format!("platter-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Scratch(path))
    }

    /// A directory in it, made if it is not there.
    pub fn folder(&self, name: &str) -> Result<PathBuf, String> {
        let path = self.0.join(name);
        std::fs::create_dir_all(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs a command to its end, showing it and its output.
pub fn run(program: &str, arguments: &[&str], environment: &[(&str, &str)]) -> Outcome {
    eprintln!("+ {program} {}", arguments.join(" "));
    let status = Command::new(program)
        .args(arguments)
        .envs(environment.iter().copied())
        .status()
        .map_err(|error| format!("{program}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{program} {}: {status}", arguments.join(" "))) }
}

/// Runs a command to its end without showing it; returns what it printed.
pub fn said(command: &mut Command) -> Result<String, String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| format!("{program}: {error}"))?;
    match output.status.success() {
        true => {
            String::from_utf8(output.stdout).map_err(|_| format!("{program}: what it printed is no text"))
        }
        false => Err(format!("{program}: {}", String::from_utf8_lossy(&output.stderr))),
    }
}

/// A path as an argument of a program.
pub fn text(path: &Path) -> Result<&str, String> {
    path.to_str().ok_or_else(|| format!("{}: not a path that can be given to programs", path.display()))
}

/// Writes a whole file.
pub fn write(path: &Path, content: &str) -> Outcome {
    std::fs::write(path, content).map_err(|error| format!("{}: {error}", path.display()))
}

/// The name of the cargo that runs this.
pub fn cargo_program() -> String {
    std::env::var("CARGO").unwrap_or_else(|_| "cargo".into())
}

/// The cargo that runs this.
pub fn cargo(arguments: &[&str]) -> Outcome {
    cargo_with(arguments, &[])
}

/// The same, with an environment.
pub fn cargo_with(arguments: &[&str], environment: &[(&str, &str)]) -> Outcome {
    run(&cargo_program(), arguments, environment)
}

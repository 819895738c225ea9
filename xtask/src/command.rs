//! Running programs, and temporary files and directories for them.

use crate::Outcome;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A temporary directory of this process, which is removed when it is dropped.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    /// Makes a directory with `name` in its name.
    pub(crate) fn new(name: &str) -> Result<Scratch, String> {
        let path = std::env::temp_dir().join(format!("platter-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Scratch(path))
    }

    /// Returns a subdirectory, made if it does not exist.
    pub(crate) fn folder(&self, name: &str) -> Result<PathBuf, String> {
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

/// Runs a command to its end, and shows the command and its output.
pub(crate) fn run(program: &str, arguments: &[&str], environment: &[(&str, &str)]) -> Outcome {
    eprintln!("+ {program} {}", arguments.join(" "));
    let status = Command::new(program)
        .args(arguments)
        .envs(environment.iter().copied())
        .status()
        .map_err(|error| format!("{program}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{program} {}: {status}", arguments.join(" "))) }
}

/// Runs a command to its end without showing it; returns its standard output.
pub(crate) fn said(command: &mut Command) -> Result<String, String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| format!("{program}: {error}"))?;
    match output.status.success() {
        true => {
            String::from_utf8(output.stdout).map_err(|_| format!("{program}: what it printed is no text"))
        }
        false => Err(format!("{program}: {}", String::from_utf8_lossy(&output.stderr))),
    }
}

/// Returns a path as text, for use as an argument of a program.
pub(crate) fn text(path: &Path) -> Result<&str, String> {
    path.to_str().ok_or_else(|| format!("{}: not a path that can be given to programs", path.display()))
}

/// Writes a whole file.
pub(crate) fn write(path: &Path, content: &str) -> Outcome {
    std::fs::write(path, content).map_err(|error| format!("{}: {error}", path.display()))
}

/// Returns the name of the cargo that runs this task.
pub(crate) fn cargo_program() -> String {
    std::env::var("CARGO").unwrap_or_else(|_| "cargo".into())
}

/// Runs the cargo that runs this task.
pub(crate) fn cargo(arguments: &[&str]) -> Outcome {
    cargo_with(arguments, &[])
}

/// As [`cargo`], with environment variables.
pub(crate) fn cargo_with(arguments: &[&str], environment: &[(&str, &str)]) -> Outcome {
    let mut environment = environment.to_vec();
    let is_given = std::env::var_os("CARGO_INCREMENTAL").is_some();
    if !is_given && !compiles_in_parts() {
        environment.push(("CARGO_INCREMENTAL", "0"));
    }
    run(&cargo_program(), arguments, &environment)
}

/// Whether the crates were compiled in parts before, so that later changes take less time. Where they were not, as in a
/// fresh clone, that would take a tenth more time and half as much space again.
fn compiles_in_parts() -> bool {
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    let parts = std::fs::read_dir(Path::new(&target).join("debug/incremental"));
    // This program itself may have been.
    parts.is_ok_and(|mut parts| {
        parts.any(|part| part.is_ok_and(|part| part.file_name().to_string_lossy().starts_with("platter")))
    })
}

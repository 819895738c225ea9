//! The test programs of the workspace. `cargo test` runs one after the other; here several run at once.

use crate::Outcome;
use crate::command::cargo_program;
use crate::parts::Part;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A test program.
struct Program {
    /// The package and the target, for people.
    name: String,
    executable: PathBuf,
    /// The package's directory, in which cargo runs its tests.
    directory: PathBuf,
}

/// The programs that take longest, which begin first: what takes longest must not begin last.
const LONGEST: [&str; 5] = [
    "platterfs-ntfs suite",
    "platterfs documents",
    "platterfs suite",
    "platterfs-lab suite",
    "platterfs-testing defects",
];

/// Builds the test programs; returns a part of the test for each, those that take longest first.
pub(crate) fn parts() -> Result<Vec<Part>, String> {
    let mut all = built()?;
    let place =
        |program: &Program| LONGEST.iter().position(|name| *name == program.name).unwrap_or(LONGEST.len());
    all.sort_by_key(place);
    if all.iter().filter(|program| place(program) < LONGEST.len()).count() != LONGEST.len() {
        return Err(format!("not all of these test programs are there: {LONGEST:?}"));
    }
    let part = |program: Program| Part::new(program.name.clone(), move || tested(&program));
    Ok(all.into_iter().map(part).collect())
}

/// Builds the test programs, with the features of all crates together: with fewer features, everything would be compiled once
/// more.
fn built() -> Result<Vec<Program>, String> {
    let build = ["test", "--workspace", "--no-run", "--message-format=json-render-diagnostics"];
    eprintln!("+ cargo {}", build.join(" "));
    let output = Command::new(cargo_program()).args(build).stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| format!("cargo test: {error}"))?;
    if !output.status.success() {
        return Err(format!("cargo {}: {}", build.join(" "), output.status));
    }
    let told = String::from_utf8_lossy(&output.stdout);
    told.lines().filter_map(|line| program(line).transpose()).collect()
}

/// Reads one message of cargo, the JSON of `cargo build --message-format`: the program that it tells of, if it is one of tests.
fn program(line: &str) -> Result<Option<Program>, String> {
    let message: serde_json::Value = serde_json::from_str(line).map_err(|error| format!("cargo: {error}"))?;
    if message["profile"]["test"] != true {
        return Ok(None);
    }
    let Some(executable) = message["executable"].as_str() else { return Ok(None) };
    let manifest = message["manifest_path"].as_str().map(Path::new).and_then(Path::parent);
    let directory = manifest.ok_or_else(|| format!("cargo named no package of {executable}"))?;
    let folder = directory.file_name().unwrap_or_default().to_string_lossy();
    let package = match &*folder {
        "platter" => "platterfs".to_string(),
        "xtask" => folder.into_owned(),
        crate_name => format!("platterfs-{crate_name}"),
    };
    let target = message["target"]["name"].as_str().unwrap_or_default();
    let name = format!("{package} {target}");
    Ok(Some(Program { name, executable: executable.into(), directory: directory.into() }))
}

/// Runs a program, and prints what it said when it has ended.
fn tested(program: &Program) -> Outcome {
    let output = Command::new(&program.executable)
        .current_dir(&program.directory)
        .env("CARGO_MANIFEST_DIR", &program.directory)
        .output()
        .map_err(|error| format!("{}: {error}", program.executable.display()))?;
    eprintln!(
        "     Running {} ({})\n{}{}",
        program.name,
        program.executable.display(),
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    if output.status.success() { Ok(()) } else { Err(output.status.to_string()) }
}

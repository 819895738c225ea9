//! Runs the test programs of the workspace. `cargo test` runs one after the other; some wait most of the time for a mount, an
//! emulated machine or a measurement, so here those run beside the others, which compute.

use crate::command::{cargo, cargo_program};
use crate::{Outcome, both};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// A test program.
struct Program {
    /// The package and the target, for people.
    name: String,
    executable: PathBuf,
    /// The package's directory, in which cargo runs its tests.
    directory: PathBuf,
}

/// The packages of which most tests wait.
const WAITING: [&str; 2] = ["platterfs ", "platterfs-lab "];

/// The programs that take minutes by themselves: one runs the commands of all documents, one builds the simulator with known
/// defects.
const LONGEST: [&str; 2] = ["platterfs documents", "platterfs-testing defects"];

/// Runs all tests but the longest, those that wait beside those that compute, and then the examples of the documentation.
pub(crate) fn most() -> Outcome {
    let all = built()?;
    let is_long = |program: &Program| LONGEST.contains(&program.name.as_str());
    let waits = |program: &Program| WAITING.iter().any(|package| program.name.starts_with(package));
    let (waiting, computing): (Vec<_>, Vec<_>) =
        all.iter().filter(|program| !is_long(program)).partition(|program| waits(program));
    let times = Mutex::new(Vec::new());
    let (one, two) = std::thread::scope(|scope| {
        let beside = scope.spawn(|| each(&waiting, &times));
        (each(&computing, &times), beside.join())
    });
    let two = two.unwrap_or_else(|_| Err("the programs that wait: a panic".into()));
    print_times(times);
    both(both(one, two), cargo(&["test", "--workspace", "--doc", "--quiet"]))
}

/// Runs the longest tests.
pub(crate) fn longest() -> Outcome {
    let all = built()?;
    let longest: Vec<_> = all.iter().filter(|program| LONGEST.contains(&program.name.as_str())).collect();
    if longest.len() != LONGEST.len() {
        return Err(format!("of {LONGEST:?}, {} are there", longest.len()));
    }
    each(&longest, &Mutex::default())
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

/// Runs programs one after the other, also after one that failed, and prints what each said when it has ended.
fn each(programs: &[&Program], times: &Mutex<Vec<(Duration, String)>>) -> Outcome {
    let mut failed = Vec::new();
    for program in programs {
        let start = Instant::now();
        let output = Command::new(&program.executable)
            .current_dir(&program.directory)
            .env("CARGO_MANIFEST_DIR", &program.directory)
            .output()
            .map_err(|error| format!("{}: {error}", program.executable.display()))?;
        let took = start.elapsed();
        eprintln!(
            "     Running {} ({})\n{}{}",
            program.name,
            program.executable.display(),
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr),
        );
        times.lock().expect("nothing panics with it").push((took, program.name.clone()));
        if !output.status.success() {
            failed.push(format!("{}: {}", program.name, output.status));
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(format!("these tests failed: {}", failed.join(", "))) }
}

/// Prints which programs took the most time.
fn print_times(times: Mutex<Vec<(Duration, String)>>) {
    let mut times = times.into_inner().expect("nothing panics with it");
    times.sort_unstable_by(|one, two| two.cmp(one));
    for (took, name) in times.iter().take(20) {
        eprintln!("xtask: {:>4} s {name}", took.as_secs());
    }
}

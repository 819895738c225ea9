//! The library for other languages: built, and tested from there.

use crate::command::{cargo_with, run, text};
use crate::{Outcome, tools};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What the Python tests need, with the versions that they were written for.
const FOR_PYTHON: [&str; 4] = ["maturin==1.16.0", "pytest==9.2.0", "fsspec==2026.9.0", "pandas==3.1.1"];

/// The header and the static library, with a program in C; the package, with programs in Python.
pub fn test() -> Outcome {
    let whole = target_directory()?;
    // Apart from the program: they have other features, and locks of their own.
    let target = whole.join("bindings");
    let environment = [("CARGO_TARGET_DIR", text(&target)?)];
    for manifest in ["bindings/c/Cargo.toml", "bindings/python/Cargo.toml"] {
        cargo_with(&["fmt", "--manifest-path", manifest, "--check"], &[])?;
        let lints =
            ["clippy", "--locked", "--manifest-path", manifest, "--all-targets", "--", "-D", "warnings"];
        cargo_with(&lints, &environment)?;
    }
    cargo_with(&["test", "--locked", "--manifest-path", "bindings/c/Cargo.toml"], &environment)?;
    // What Python reads is compared with what the command does. With the tests, as alone it would have other features, and
    // all that it stands on would be built a second time.
    cargo_with(&["test", "--workspace", "--no-run", "--quiet"], &[])?;
    python(&target, &whole.join("debug/platter"))
}

/// Builds the wheel, installs it in an environment in which nothing else of it is, and runs the tests there.
fn python(target: &Path, command: &Path) -> Outcome {
    let python = environment(&target.join("python"), &FOR_PYTHON)?;
    let python = python.as_str();
    let wheels = target.join("wheels");
    let _ = std::fs::remove_dir_all(&wheels);
    let manifest = "bindings/python/Cargo.toml";
    let build =
        ["-m", "maturin", "build", "--quiet", "--locked", "--profile", "dev", "--manifest-path", manifest];
    let target = [("CARGO_TARGET_DIR", text(target)?)];
    run(python, &[&build[..], &["--out", text(&wheels)?]].concat(), &target)?;
    let wheel = std::fs::read_dir(&wheels).map_err(|error| format!("{}: {error}", wheels.display()))?;
    let wheel = wheel.flatten().next().ok_or("maturin made no wheel")?.path();
    run(python, &[&INSTALL[..], &["--force-reinstall", "--no-deps", text(&wheel)?]].concat(), &[])?;
    run(
        python,
        &["-m", "pytest", "-q", "-p", "no:cacheprovider", "bindings/python/tests"],
        &[("PLATTER", text(command)?)],
    )
}

/// What installs packages, with their names behind it.
const INSTALL: [&str; 5] = ["-m", "pip", "install", "-q", "--disable-pip-version-check"];

/// An environment of Python that has these packages; returns its interpreter.
pub fn environment(at: &Path, packages: &[&str]) -> Result<String, String> {
    let python = at.join("bin/python");
    if !python.exists() {
        make_environment(at)?;
    }
    run(text(&python)?, &[&INSTALL[..], packages].concat(), &[])?;
    Ok(text(&python)?.to_owned())
}

/// Where cargo puts what it builds.
pub fn target_directory() -> Result<PathBuf, String> {
    absolute(&std::env::var("CARGO_TARGET_DIR").unwrap_or_else(|_| "target".into()))
}

fn make_environment(at: &Path) -> Outcome {
    let make = ["-m", "venv", text(at)?];
    if run("python3", &make, &[]).is_ok() {
        return Ok(());
    }
    // Debian has what this needs in a package of its own, which brings no program.
    let _ = std::fs::remove_dir_all(at);
    let debian =
        Command::new("apt-get").arg("--version").output().is_ok_and(|output| output.status.success());
    if !debian || !tools::is_root() {
        return Err("these Debian packages are needed: python3-venv".into());
    }
    run("apt-get", &["install", "-y", "-qq", "python3-venv"], &[("DEBIAN_FRONTEND", "noninteractive")])?;
    run("python3", &make, &[])
}

fn absolute(path: &str) -> Result<PathBuf, String> {
    std::path::absolute(path).map_err(|error| format!("{path}: {error}"))
}

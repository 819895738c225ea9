//! The library for other languages: built, and tested from there.

use crate::command::{cargo_with, run, text};
use crate::{Outcome, tools};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What the Python tests need, with the versions that they were written for.
const FOR_PYTHON: [&str; 4] = ["maturin==1.16.0", "pytest==9.2.0", "fsspec==2026.9.0", "pandas==3.1.1"];

/// The header and the static library, with a program in C; the package, with programs in Python.
pub fn test() -> Outcome {
    build()?;
    run_python()
}

/// What needs no program of the workspace: lints, the program in C, and the package for Python. It is built apart from the
/// workspace, with other features and locks of its own, so that both can be built at once.
pub fn build() -> Outcome {
    let target = directory()?;
    let environment = [("CARGO_TARGET_DIR", text(&target)?)];
    for manifest in ["bindings/c/Cargo.toml", "bindings/python/Cargo.toml"] {
        cargo_with(&["fmt", "--manifest-path", manifest, "--check"], &[])?;
        let lints =
            ["clippy", "--locked", "--manifest-path", manifest, "--all-targets", "--", "-D", "warnings"];
        cargo_with(&lints, &environment)?;
    }
    cargo_with(&["test", "--locked", "--manifest-path", "bindings/c/Cargo.toml"], &environment)?;
    install_wheel(&target)
}

/// Where the bindings are built.
fn directory() -> Result<PathBuf, String> {
    Ok(target_directory()?.join("bindings"))
}

/// Where the package for Python and what its tests need are installed.
fn python(target: &Path) -> Result<String, String> {
    environment(&target.join("python"), &FOR_PYTHON)
}

/// Builds the wheel, and installs it in an environment in which nothing else of it is.
fn install_wheel(target: &Path) -> Outcome {
    let python = python(target)?;
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
    run(python, &[&INSTALL[..], &["--force-reinstall", "--no-deps", text(&wheel)?]].concat(), &[])
}

/// The tests in Python. What is read there is compared with what the command does.
pub fn run_python() -> Outcome {
    // With the tests, as alone the command would have other features, and all that it stands on would be built a second time.
    cargo_with(&["test", "--workspace", "--no-run", "--quiet"], &[])?;
    let command = target_directory()?.join("debug/platter");
    run(
        &python(&directory()?)?,
        &["-m", "pytest", "-q", "-p", "no:cacheprovider", "bindings/python/tests"],
        &[("PLATTER", text(&command)?)],
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

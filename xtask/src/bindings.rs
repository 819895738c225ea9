//! Building and testing the bindings for Python and C.

use crate::command::{cargo_with, run, text};
use crate::{Outcome, bill, clibrary, dist, tools};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The packages that the Python tests need, with the versions that they were written for.
const FOR_PYTHON: [&str; 6] =
    ["maturin==1.16.0", "pytest==9.2.0", "fsspec==2026.9.0", "pandas==3.1.1", "mypy==2.4.1", "twine==7.0.0"];

/// Tests the bindings: the header and the static library with a program in C, and the package with programs in
/// Python.
pub(crate) fn test() -> Outcome {
    build()?;
    run_python()
}

/// Builds and checks everything that does not need the program of the workspace: lints, the program in C, and the
/// package for Python. The target directory is not that of the workspace, since features and lock files differ; so
/// both can be built at the same time.
pub(crate) fn build() -> Outcome {
    let target = directory()?;
    let environment = [("CARGO_TARGET_DIR", text(&target)?)];
    for manifest in ["bindings/c/Cargo.toml", "bindings/python/Cargo.toml"] {
        cargo_with(&["fmt", "--manifest-path", manifest, "--check"], &[])?;
        let lints =
            ["clippy", "--locked", "--manifest-path", manifest, "--all-targets", "--", "-D", "warnings"];
        cargo_with(&lints, &environment)?;
    }
    test_c()?;
    install_wheel(&target)
}

/// Tests the library for C, by itself and as it is installed.
pub(crate) fn test_c() -> Outcome {
    let target = directory()?;
    let environment = [("CARGO_TARGET_DIR", text(&target)?)];
    cargo_with(&["test", "--locked", "--manifest-path", "bindings/c/Cargo.toml"], &environment)?;
    clibrary::test(&target)
}

/// Returns the target directory of the bindings.
fn directory() -> Result<PathBuf, String> {
    Ok(target_directory()?.join("bindings"))
}

/// Returns the Python interpreter of an environment with the packages that the tests need.
fn python(target: &Path) -> Result<String, String> {
    environment(&target.join("python"), &FOR_PYTHON)
}

/// Builds the wheel, and installs it in that environment in place of an older one.
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
    run(python, &["-m", "twine", "check", "--strict", text(&wheel)?], &[])?;
    run(python, &[&INSTALL[..], &["--force-reinstall", "--no-deps", text(&wheel)?]].concat(), &[])
}

/// Makes the wheel that people install, with the static program in it: who installs it has the command too.
pub(crate) fn wheel(out: &Path, program: &Path, epoch: &str) -> Outcome {
    for old in std::fs::read_dir(out).map_err(|error| format!("{}: {error}", out.display()))?.flatten() {
        if old.path().extension().is_some_and(|kind| kind == "whl") {
            std::fs::remove_file(old.path()).map_err(|error| format!("{}: {error}", old.path().display()))?;
        }
    }
    let python = python(&directory()?)?;
    // What is in such a directory beside the package is installed in the places of its kind.
    let data = Path::new("bindings/python/platterfs._platter.data");
    let scripts = data.join("scripts");
    let documents = data.join("data/share/doc/platterfs");
    let licences = bill::licences_of_wheel(dist::TARGET)?;
    let copied = std::fs::create_dir_all(&scripts)
        .and_then(|()| std::fs::copy(program, scripts.join("platter")))
        .and_then(|_| std::fs::create_dir_all(&documents))
        .and_then(|()| std::fs::write(documents.join("licences.txt"), licences));
    let built = copied.map_err(|error| format!("{}: {error}", data.display())).and_then(|()| {
        let manifest = "bindings/python/Cargo.toml";
        let build = [
            "-m",
            "maturin",
            "build",
            "--quiet",
            "--locked",
            "--release",
            "--strip",
            "--manifest-path",
            manifest,
        ];
        let (flags, target) = (dist::flags()?, target_directory()?.join("dist"));
        let environment = [
            ("RUSTFLAGS", flags.as_str()),
            ("CARGO_TARGET_DIR", text(&target)?),
            ("CARGO_INCREMENTAL", "0"),
            ("SOURCE_DATE_EPOCH", epoch),
        ];
        run(&python, &[&build[..], &["--out", text(out)?]].concat(), &environment)
    });
    let removed = std::fs::remove_dir_all(data).map_err(|error| format!("{}: {error}", data.display()));
    built.and(removed)
}

/// Runs the tests in Python, which compare the package's results with those of the program `platter`.
pub(crate) fn run_python() -> Outcome {
    // Built together with the workspace's tests: built alone, the program would have other features, and all its
    // dependencies would be compiled a second time.
    cargo_with(&["test", "--workspace", "--no-run", "--quiet"], &[])?;
    let command = target_directory()?.join("debug/platter");
    // The tests in C leave an encrypted volume there.
    let encrypted = directory()?.join("tmp");
    run(
        &python(&directory()?)?,
        &["-m", "pytest", "-q", "-p", "no:cacheprovider", "bindings/python/tests"],
        &[("PLATTER", text(&command)?), ("PLATTER_ENCRYPTED", text(&encrypted)?)],
    )
}

/// The arguments of Python that install packages; the packages' names follow.
const INSTALL: [&str; 5] = ["-m", "pip", "install", "-q", "--disable-pip-version-check"];

/// Makes a Python environment with these packages; returns its interpreter.
pub(crate) fn environment(at: &Path, packages: &[&str]) -> Result<String, String> {
    let python = at.join("bin/python");
    if !python.exists() {
        make_environment(at)?;
    }
    run(text(&python)?, &[&INSTALL[..], packages].concat(), &[])?;
    Ok(text(&python)?.to_owned())
}

/// Returns cargo's target directory.
pub(crate) fn target_directory() -> Result<PathBuf, String> {
    absolute(&std::env::var("CARGO_TARGET_DIR").unwrap_or_else(|_| "target".into()))
}

fn make_environment(at: &Path) -> Outcome {
    let make = ["-m", "venv", text(at)?];
    if run("python3", &make, &[]).is_ok() {
        return Ok(());
    }
    // On Debian, venv needs a package of its own, which contains no program that could be looked for.
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

//! Tests of the crates as people get them: from a registry, by the names under which they are published. The registry is a
//! directory that stands for crates.io, with the archives that `cargo package` makes beside all that they depend on.

use crate::bindings::target_directory;
use crate::command::{Scratch, cargo_program, cargo_with, run, said, text, write};
use crate::{Outcome, PUBLISHED};
use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) fn judge() -> Outcome {
    // Cargo publishes them in order, each after those that it needs, and compiles each from its archive.
    cargo_with(&[&["publish", "--dry-run", "--allow-dirty"], &PUBLISHED[..]].concat(), &[])?;
    let here = Scratch::new("registry")?;
    let registry = registry(&here)?;
    program(&here, &registry)?;
    library(&here, &registry)
}

/// Makes the directory that stands for crates.io.
fn registry(here: &Scratch) -> Result<PathBuf, String> {
    let registry = here.folder("registry")?;
    let vendor = Command::new(cargo_program()).args(["vendor", "--locked", text(&registry)?]).output();
    vendor.map_err(|error| format!("cargo vendor: {error}")).and_then(|output| {
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        output.status.success().then_some(()).ok_or(told)
    })?;
    let archives = target_directory()?.join("package");
    let listed = std::fs::read_dir(&archives).map_err(|error| format!("{}: {error}", archives.display()))?;
    let version = concat!("-", env!("CARGO_PKG_VERSION"), ".crate");
    for archive in listed.flatten().map(|entry| entry.path()) {
        let Some(name) = archive.file_name().and_then(|name| name.to_str()?.strip_suffix(version)) else {
            continue;
        };
        run("tar", &["-xzf", text(&archive)?, "-C", text(&registry)?], &[])?;
        let sum = said(Command::new("sha256sum").arg(&archive))?;
        let sum = sum.split_whitespace().next().ok_or("sha256sum said nothing")?;
        let unpacked = registry.join(format!("{name}-{}", env!("CARGO_PKG_VERSION")));
        let sums = format!("{{\"files\":{{}},\"package\":\"{sum}\"}}");
        write(&unpacked.join(".cargo-checksum.json"), &sums)?;
    }
    Ok(registry)
}

/// Runs cargo in a directory outside the workspace, with the registry in place of crates.io.
fn cargo_there(at: &Path, registry: &Path, arguments: &[&str]) -> Outcome {
    let replaced = [
        "source.crates-io.replace-with=\"here\"".to_owned(),
        format!("source.here.directory={:?}", text(registry)?),
    ];
    let with = replaced.iter().flat_map(|line| ["--config", line]);
    eprintln!("+ cargo {} (from the registry)", arguments.join(" "));
    let status = Command::new(cargo_program())
        .args(arguments)
        .arg("--offline")
        .args(with)
        .current_dir(at)
        .env("CARGO_TARGET_DIR", at.join("target"))
        .status()
        .map_err(|error| format!("cargo: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("cargo {}: {status}", arguments.join(" "))) }
}

/// Installs the program as README says.
fn program(here: &Scratch, registry: &Path) -> Outcome {
    let at = here.folder("program")?;
    cargo_there(&at, registry, &["install", "platterfs", "--root", "."])?;
    let installed = at.join("bin/platter");
    let version = said(Command::new(&installed).arg("--version"))?;
    eprint!("installed: {version}");
    let image = at.join("disk.img");
    run(text(&installed)?, &["mkfs", "ntfs", text(&image)?, "--size", "64M"], &[])?;
    run(text(&installed)?, &["check", text(&image)?], &[])
}

/// Adds the library to a new program, as README and the cookbook say, and runs the cookbook's tasks.
fn library(here: &Scratch, registry: &Path) -> Outcome {
    let at = here.folder("library")?;
    cargo_there(&at, registry, &["init", "--name", "cookbook", "--vcs", "none"])?;
    cargo_there(&at, registry, &["add", "platterfs", "--no-default-features", "--features", "ntfs"])?;
    let cookbook = std::fs::read_to_string("docs/for-programs.md").map_err(|error| error.to_string())?;
    let block = cookbook.split("```rust\n").nth(1).and_then(|rest| rest.split("```").next());
    write(&at.join("src/main.rs"), block.ok_or("docs/for-programs.md has no program in Rust")?)?;
    cargo_there(&at, registry, &["run", "--quiet"])
}

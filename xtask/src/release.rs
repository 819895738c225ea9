//! Tests of what a release promises about building: it builds with the oldest toolchain that `Cargo.toml` names, the
//! documents build as a book, and embedding the library for one format does not take long to compile.

use crate::Outcome;
use crate::command::{Scratch, cargo_program, cargo_with, run, text};
use std::time::Instant;

/// The most seconds that building the library with NTFS alone may take, from nothing, in release mode on two
/// processors.
const SECONDS: f64 = 40.0;

pub(crate) fn judge() -> Outcome {
    oldest_toolchain()?;
    let book = Scratch::new("release")?;
    crate::book::make(text(&book.folder("book")?)?)?;
    one_format()?;
    crate::registry::judge()
}

/// Checks that all published crates compile with the toolchain of `rust-version`.
fn oldest_toolchain() -> Outcome {
    let version = env!("CARGO_PKG_RUST_VERSION");
    run("rustup", &["toolchain", "install", version, "--profile", "minimal", "--no-self-update"], &[])?;
    let here = Scratch::new("oldest")?;
    let target = here.folder("target")?;
    let check = ["run", version, "cargo", "check", "--locked", "--all-features"];
    let environment = [("CARGO_TARGET_DIR", text(&target)?), ("CARGO_INCREMENTAL", "0")];
    run("rustup", &[&check[..], &crate::PUBLISHED].concat(), &environment)?;
    eprintln!("built with Rust {version}");
    Ok(())
}

/// Builds the library with NTFS alone in an empty target directory, and measures the time.
fn one_format() -> Outcome {
    // Downloads are not part of the measured time.
    run(&cargo_program(), &["fetch", "--locked", "--quiet"], &[])?;
    let here = Scratch::new("embedding")?;
    let target = here.folder("target")?;
    let began = Instant::now();
    let build = ["build", "--release", "--locked", "--package", "platterfs", "--lib"];
    let features = ["--no-default-features", "--features", "ntfs"];
    cargo_with(&[&build[..], &features].concat(), &[("CARGO_TARGET_DIR", text(&target)?)])?;
    let seconds = began.elapsed().as_secs_f64();
    eprintln!("the library with NTFS alone is built in {seconds:.1} s");
    match seconds < SECONDS {
        true => Ok(()),
        false => Err(format!("the library with NTFS alone took {seconds:.1} s, more than {SECONDS} s")),
    }
}

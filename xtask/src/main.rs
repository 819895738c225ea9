//! Project tasks: `cargo xtask TASK`.
#![forbid(unsafe_code)]

mod accuracy;
mod archives;
mod bill;
mod bindings;
mod book;
mod by_windows;
mod clibrary;
mod command;
mod deploy;
mod dist;
mod kernel;
mod packages;
mod parts;
mod programs;
mod recipes;
mod registry;
mod release;
mod specimens;
mod tables;
mod tools;
mod windows;
mod wine;

use command::{cargo, cargo_program, cargo_with, run, said, write};
use parts::Part;
use std::path::Path;
use std::process::{Command, ExitCode};

const HELP: &str = "\
cargo xtask test                     everything a change must pass; installs the Debian packages it needs where it may
cargo xtask accuracy [--rounds N]    the engine against fio on a loop device and on ext4 (root; half an hour)
cargo xtask accuracy aa [OPTIONS]    one target under three names: is any called different? (20 comparisons, 20 minutes)
cargo xtask accuracy ab [OPTIONS]    is one that is slower by a tenth found? OPTIONS: --compares N, --time SECONDS,
                                     --slower 5|10|20, --beside (another process uses all processors in bursts)
cargo xtask campaign [SEED]          the long campaigns of every format: model, callers, judges, power cuts, damage (hours)
cargo xtask campaign threads [S]     64 threads on a volume of each format for S seconds (600), on a loop device and a mirror (root)
cargo xtask campaign mount [S]       for S seconds (600) each on mounts of every format: fsx, with integrity of ReFS changed meanwhile,
                                     what serves the mount killed under writers, fsx and PostgreSQL, and power cuts; programs on a
                                     mirror of which one copy is damaged all the time and scrubbed (root)
cargo xtask campaign races [S]       the same in memory for S seconds (60), under ThreadSanitizer (needs a nightly toolchain with
                                     the sources of the standard library)
cargo xtask campaign windows         all tests of the device and of the formats that need no program of Linux, under Wine
cargo xtask campaign arm             the program for Linux on ARM: built, and run by QEMU as that for Windows is under Wine
cargo xtask campaign tables          DuckDB and Polars read the Parquet files, and fio-plot fio's JSON (needs PyPI)
cargo xtask campaign deploy          the files in deploy/: Slurm runs 20 tasks here, Kubernetes' schema, systemd and Ansible judge
                                     theirs (root; needs PyPI)
cargo xtask campaign packages [DIR]  what dist makes, or made in DIR: the same twice (without DIR), clean by lintian, installed, used and
                                     removed in a clean root, and from there to a first ls, mount and compare in a minute each; the
                                     recipes by the programs that read them (root; debootstrap)
cargo xtask campaign recipes         the recipes of other packagers, each by the program that reads it (root)
cargo xtask campaign release         all that is published is compiled with the toolchain of rust-version (rustup), the book is made,
                                     the library with NTFS alone is built from nothing in 40 s, and program and library are
                                     installed from a registry
cargo xtask fuzz [SECONDS]           every fuzz target for so long (600 s; needs cargo-fuzz and a nightly toolchain)
cargo xtask bindings [c]             the library for Python and C, or C alone: built, and tested from there (part of test)
cargo xtask windows                  the program for Windows: built, and run under Wine (part of test)
cargo xtask package                  every crate as it would be published (part of test)
cargo xtask c PREFIX                 the library for C: header, shared and static library, and pkg-config's file, below PREFIX
cargo xtask dist DIR                 a static program, a Debian package, an image for containers, the program for Windows, an archive of
                                     the sources, a list of what is in them, its licences, and the sums of all
cargo xtask recipes DIR ADDRESS      the recipes of Homebrew, Arch, Nix, winget and Scoop for what dist made in DIR and will be at
                                     ADDRESS (https://…), in DIR/recipes
cargo xtask book DIR                 the documents as a book of HTML pages, by mdBook, which is installed below target once
cargo xtask docs DIR                 manual pages and shell completions
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words[..] {
        ["test"] => test(),
        ["accuracy", "aa" | "ab", ..] => accuracy::trust(&words[1..]),
        ["accuracy", ref rest @ ..] => accuracy::run(rest),
        ["campaign"] => campaign(None),
        ["campaign", seed] if is_number(seed) => campaign(Some(seed)),
        ["campaign", "threads"] => threads("600"),
        ["campaign", "threads", seconds] if is_number(seconds) => threads(seconds),
        ["campaign", "mount"] => mount("600"),
        ["campaign", "mount", seconds] if is_number(seconds) => mount(seconds),
        ["campaign", "races"] => races("60"),
        ["campaign", "races", seconds] if is_number(seconds) => races(seconds),
        ["campaign", "windows"] => windows::campaign(),
        ["campaign", "arm"] => windows::arm(),
        ["campaign", "arm", program, linux] => windows::judge_arm(program.as_ref(), linux.as_ref()),
        ["campaign", "tables"] => tables::judge(),
        ["campaign", "deploy"] => deploy::judge(),
        ["campaign", "packages"] => packages::judge(None),
        ["campaign", "packages", directory] => packages::judge(Some(directory)),
        ["campaign", "recipes"] => recipes::campaign(),
        ["campaign", "release"] => release::judge(),
        ["fuzz"] => fuzz("600"),
        ["fuzz", seconds] if is_number(seconds) => fuzz(seconds),
        ["bindings"] => bindings::test(),
        ["bindings", "c"] => bindings::test_c(),
        ["package"] => package(),
        ["windows"] => windows::test(),
        ["windows", program, linux] => windows::judge(program.as_ref(), linux.as_ref()),
        ["book", directory] => book::make(directory),
        ["dist", directory] => dist::make(directory),
        ["c", prefix] => clibrary::install(prefix),
        ["recipes", directory, address] => recipes::fill(directory, address),
        ["docs", directory] => docs(directory),
        _ => {
            eprint!("{HELP}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::from(1)
        }
    }
}

fn is_number(word: &str) -> bool {
    word.parse::<u64>().is_ok()
}

/// The result of a task: an error is the reason of its failure.
type Outcome = Result<(), String>;

fn test() -> Outcome {
    tools::provide(tools::FOR_TESTS)?;
    tools::provide_judges()?;
    tools::open_fuse()?;
    kernel::provide()?;
    specimens::provide()?;
    cargo(&["fmt", "--all", "--check"])?;
    cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])?;
    // What compiles for minutes begins first.
    let mut all =
        vec![Part::new("the program for Windows", windows::test), Part::new("the bindings", bindings::test)];
    all.extend(programs::parts()?);
    all.push(Part::new("the examples of the library", || {
        cargo(&["test", "--workspace", "--doc", "--quiet"])
    }));
    all.push(Part::new("the pages of the library", pages));
    all.push(Part::new("the archives", package));
    parts::run_all(all)
}

/// Makes the pages of the public library, without a warning.
fn pages() -> Outcome {
    let pages = [&["doc", "--lib", "--no-deps", "--quiet"], &PUBLISHED[..]].concat();
    cargo_with(&pages, &[("RUSTDOCFLAGS", "-D warnings")])
}

/// The crates that are published.
const PUBLISHED: [&str; 5] = ["--workspace", "--exclude", "xtask", "--exclude", "platterfs-testing"];

/// Makes the archive of every crate that is published. The archives are not built: they have the same sources as the
/// workspace, and building all of them a second time takes minutes.
fn package() -> Outcome {
    // Tested sources need not be committed, and their dependencies were downloaded for the tests.
    let how = ["--no-verify", "--allow-dirty", "--offline", "--quiet"];
    cargo(&[&["package"], &PUBLISHED[..], &how].concat())
}

fn campaign(seed: Option<&str>) -> Outcome {
    tools::provide(tools::FOR_TESTS)?;
    tools::provide_judges()?;
    tools::open_fuse()?;
    kernel::provide()?;
    specimens::provide()?;
    let seed = seed.map(|seed| ("PLATTER_SEED", seed));
    let arguments = [
        "test",
        "--release",
        "-p",
        "platterfs-fat",
        "-p",
        "platterfs-exfat",
        "-p",
        "platterfs-ntfs",
        "-p",
        "platterfs-refs",
        "-p",
        "platterfs-testing",
        "--",
        "--ignored",
        "--nocapture",
        "--test-threads=1",
        // The test with many threads is a campaign of its own.
        "--skip",
        "every_thread_finds",
    ];
    cargo_with(&arguments, seed.as_slice())
}

/// The test that the campaigns with real threads run.
const CROWD: [&str; 5] = ["-p", "platterfs-testing", "--test", "crowd", "--"];
const CROWD_OPTIONS: [&str; 3] = ["--ignored", "--nocapture", "--test-threads=1"];

fn threads(seconds: &str) -> Outcome {
    if !tools::is_root() {
        return Err("loop devices need root".into());
    }
    let arguments = [&["test", "--release"], &CROWD[..], &CROWD_OPTIONS].concat();
    cargo_with(&arguments, &[("PLATTER_SECONDS", seconds)])
}

/// Runs each campaign of mounts for so many seconds on every format. `PLATTER_SEED` applies as it is set.
fn mount(seconds: &str) -> Outcome {
    if !tools::is_root() {
        return Err("killing what serves a mount and PostgreSQL on one need root".into());
    }
    tools::provide(tools::FOR_TESTS)?;
    tools::provide_judges()?;
    tools::open_fuse()?;
    let programs = ["--test", "mount_campaign", "--test", "mount_database", "--test", "mount_soak", "--"];
    let tests = [&["test", "--release", "-p", "platterfs"], &programs[..]].concat();
    cargo_with(&[&tests, &CROWD_OPTIONS[..]].concat(), &[("PLATTER_SECONDS", seconds)])
}

fn races(seconds: &str) -> Outcome {
    // The standard library is compiled with the sanitizer too: otherwise it does not see the library's locks, and
    // reports all data that they protect.
    let build = ["+nightly", "test", "-Zbuild-std", "--target", "x86_64-unknown-linux-gnu"];
    let environment = [
        ("PLATTER_SECONDS", seconds),
        ("PLATTER_CROWD", "memory"),
        ("RUSTFLAGS", "-Zsanitizer=thread"),
        ("TSAN_OPTIONS", "halt_on_error=1"),
    ];
    run("cargo", &[&build, &CROWD[..], &CROWD_OPTIONS].concat(), &environment)
}

fn fuzz(seconds: &str) -> Outcome {
    let limit = format!("-max_total_time={seconds}");
    let targets =
        std::fs::read_dir("fuzz/fuzz_targets").map_err(|error| format!("fuzz/fuzz_targets: {error}"))?;
    let mut names: Vec<String> = targets
        .filter_map(|entry| Some(entry.ok()?.path().file_stem()?.to_string_lossy().into_owned()))
        .collect();
    names.sort();
    for name in names {
        // Only the crate `device` has unsafe code, so only there the address sanitizer can find something.
        let sanitizer = if name == "device" { "address" } else { "none" };
        let build = ["+nightly", "fuzz", "run", "--sanitizer", sanitizer, &name];
        run("cargo", &[&build[..], &["--", &limit, "-timeout=10", "-rss_limit_mb=1024"]].concat(), &[])?;
    }
    Ok(())
}

fn docs(directory: &str) -> Outcome {
    std::fs::create_dir_all(directory).map_err(|error| format!("{directory}: {error}"))?;
    cargo(&["build", "--release"])?;
    cargo(&["run", "--release", "--quiet", "--", "man", directory])?;
    for shell in ["bash", "zsh", "fish"] {
        let arguments = ["run", "--release", "--quiet", "--", "completions", shell];
        let script = said(Command::new(cargo_program()).args(arguments))?;
        write(Path::new(&format!("{directory}/platter.{shell}")), &script)?;
    }
    Ok(())
}

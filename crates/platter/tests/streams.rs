//! Standard output and standard error that are full, or closed by their reader.

use crate::common::Place;
use std::fs::File;
use std::process::Stdio;

const COMMANDS: [&str; 9] = [
    "--help",
    "--version",
    "completions fish",
    "completions bash",
    "help compare",
    "report --published",
    "ls -l v.img:/",
    "info v.img",
    "run j.fio --device mem:8M --json",
];

fn place(name: &str) -> Place {
    let here = Place::new(name);
    here.works("mkfs exfat v.img --size 8M");
    std::fs::write(here.path("j.fio"), "[a]\ndirect=1\nsize=1m\ntime_based\nruntime=0.01\nbs=4k\n").unwrap();
    std::fs::write(here.path("f"), [7; 100]).unwrap();
    here.works("cp f v.img:/f");
    here
}

#[test]
fn a_full_standard_output_is_an_error_in_words() {
    let here = place("full");
    for line in COMMANDS {
        let arguments: Vec<&str> = line.split(' ').collect();
        let mut command = here.command(env!("CARGO_BIN_EXE_platter"), &arguments);
        let full = File::options().write(true).open("/dev/full").unwrap();
        let output = command.stdout(full).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "platter {line}: {error}");
        assert_eq!(error, "platter: standard output: No space left on device\n", "platter {line}");
    }
}

#[test]
fn a_reader_that_goes_away_ends_a_command_quietly() {
    let here = place("closed");
    for line in COMMANDS {
        let arguments: Vec<&str> = line.split(' ').collect();
        let mut command = here.command(env!("CARGO_BIN_EXE_platter"), &arguments);
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = command.stdout(writer).output().unwrap();
        assert!(output.stderr.is_empty(), "platter {line}: {output:?}");
        assert!(output.status.code().is_some_and(|code| code < 100), "platter {line}: {output:?}");
    }
}

#[test]
fn a_full_standard_error_changes_nothing() {
    let here = place("full-error");
    for (line, code) in [("ls nowhere.img:/", 1), ("frobnicate", 2), ("run none", 2), ("info v.img", 0)] {
        let arguments: Vec<&str> = line.split(' ').collect();
        let mut command = here.command(env!("CARGO_BIN_EXE_platter"), &arguments);
        let full = File::options().write(true).open("/dev/full").unwrap();
        let output = command.stderr(full).stdin(Stdio::null()).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "platter {line}");
    }
}

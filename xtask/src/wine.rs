//! The tests of the crates, as programs for Windows under Wine.

use crate::Outcome;
use crate::command::{Scratch, cargo_with, run, text, write};
use crate::windows::TARGET;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Wine 8 lacks the library from which the standard library takes random numbers.
const RANDOM: &str = "\
#include <windows.h>
BOOLEAN NTAPI SystemFunction036(PVOID, ULONG);
__declspec(dllexport) BOOL WINAPI ProcessPrng(BYTE *data, SIZE_T length) {
    return SystemFunction036(data, (ULONG)length);
}
";

/// The crates whose tests run: the one that asks the system, and the formats with what they share.
const TESTED: [&str; 8] = [
    "platterfs-device",
    "platterfs-vfs",
    "platterfs-clusters",
    "platterfs-fat",
    "platterfs-exfat",
    "platterfs-ntfs",
    "platterfs-refs",
    "platterfs-formats",
];
/// Unit tests that take seconds where nothing is optimised, and ask nothing of the system: they are part of the campaign. Those
/// of `tests::windows` have volumes as Windows leaves them, which are made and changed for long.
const LONG: [&str; 12] = [
    "long_name::tests::every_name_that",
    "short_name::tests::all_taken",
    "lznt1::",
    "space::tests::pages_that_are_away",
    "volume::tests::a_volume_of_alternating",
    "volume::tests::what_is_kept_of_many",
    "volume::tests::a_file_too_large",
    "index::join::tests::an_index_shrinks",
    "restored::tests::what_several",
    "tests::kept::",
    "tests::a_change_of_few_rows",
    "tests::windows::",
];

/// The model tests: streams of operations on a volume of each kind, compared with the reference.
const MODELS: &str = "model::every_kind";

/// The server of Wine for one prefix, which runs as long as this exists. One that is not told to stay ends by itself some seconds
/// after the last program, and a program that begins at that moment fails.
pub(crate) struct Server(PathBuf);

impl Server {
    /// Starts the server of a prefix, a directory that Wine makes a Windows in.
    pub(crate) fn start(prefix: &Path) -> Result<Server, String> {
        let server = Server(prefix.to_path_buf());
        server.tell("--persistent")?;
        Ok(server)
    }

    fn tell(&self, option: &str) -> Outcome {
        let mut command = Command::new("wineserver");
        silently(command.arg(option).env("WINEPREFIX", &self.0).env("WINEDEBUG", "-all"))
    }
}

/// Runs a program whose outputs go nowhere: the server and the services that it starts have them as long as they run, so the end
/// of a pipe would not come.
fn silently(command: &mut Command) -> Outcome {
    let program = command.get_program().to_string_lossy().into_owned();
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{program}: {status}")),
        Err(error) => Err(format!("{program}: {error}")),
    }
}

impl Drop for Server {
    /// Ends it, with every program that still runs there.
    fn drop(&mut self) {
        if let Err(error) = self.tell("--kill") {
            eprintln!("xtask: {error}");
        }
    }
}

/// Runs the unit tests, those of the contract that every queue keeps, and the model tests of the formats.
pub(crate) fn test(level: (&str, &str)) -> Outcome {
    let short: Vec<&str> = LONG.iter().flat_map(|name| ["--skip", *name]).collect();
    crates(level, &[(&["--lib", "--test", "files"], &short), (&["--test", "suite"], &[MODELS])])
}

/// Runs all tests of the crates that need no program of Linux.
pub(crate) fn campaign() -> Outcome {
    let all = ["--lib", "--test", "files", "--test", "suite"];
    crates(("CARGO_PROFILE_DEV_OPT_LEVEL", "1"), &[(&all, &[])])
}

/// A selection of test programs for cargo, and the options for these.
type Selected<'a> = (&'a [&'a str], &'a [&'a str]);

fn crates(level: (&str, &str), selections: &[Selected<'_>]) -> Outcome {
    let scratch = Scratch::new("windows-tests")?;
    let prefix = scratch.folder("prefix")?;
    let environment = [
        ("CARGO_TARGET_X86_64_PC_WINDOWS_GNU_RUNNER", "wine"),
        ("WINEPREFIX", text(&prefix)?),
        ("WINEDEBUG", "-all"),
        level,
    ];
    let _server = Server::start(&prefix)?;
    // It makes the directories of a Windows.
    silently(Command::new("wine").args(["cmd", "/c", "ver"]).envs(environment))?;
    make_random(&scratch.folder("prefix/drive_c/windows/system32")?)?;
    let packages: Vec<&str> = TESTED.iter().flat_map(|package| ["-p", *package]).collect();
    for (selected, options) in selections {
        let tests = [&["test", "--target", TARGET], &packages[..], selected, &["--"], options].concat();
        cargo_with(&tests, &environment)?;
    }
    Ok(())
}

/// Makes the library that Wine lacks in a directory.
pub(crate) fn make_random(directory: &Path) -> Outcome {
    let (source, library) = (directory.join("random.c"), directory.join("bcryptprimitives.dll"));
    write(&source, RANDOM)?;
    let arguments = ["-shared", "-o", text(&library)?, text(&source)?, "-ladvapi32"];
    run("x86_64-w64-mingw32-gcc", &arguments, &[])
}

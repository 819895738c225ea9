//! The program for Windows, built here and run under Wine, and the one for Linux on ARM, run by QEMU. What they make is
//! judged by the program of Linux.
//!
//! Wine is no Windows: it has neither its file systems nor its disks, and speeds say nothing. What is tested is that the
//! program's own calls are right as far as Wine has them, and that a volume made there is one here.

use crate::command::{Scratch, cargo, cargo_with, run, said, text, write};
use crate::tools::{self, Tool};
use crate::{Outcome, bindings, by_windows, wine};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

pub(crate) const TARGET: &str = "x86_64-pc-windows-gnu";
const ARM: &str = "aarch64-unknown-linux-musl";
/// What runs programs for Linux on ARM.
const QEMU: &str = "qemu-aarch64-static";
/// What the other program is called in its directory.
const PROGRAM: &str = "platter.exe";

/// What building and running the program needs.
const TOOLS: &[Tool] = &[
    ("x86_64-w64-mingw32-gcc", "gcc-mingw-w64-x86-64"),
    ("wine", "wine"),
    ("wineserver", "wine"),
    ("/usr/lib/wine/wine64", "wine64"),
];

/// The formats whose volumes go both ways, with the size of each.
const FORMATS: [(&str, &str); 4] =
    [("fat32", "64M"), ("exfat", "64M"), ("ntfs", "64M"), ("refs+integrity", "400M")];

/// Paths of Linux that the program for Windows must not have: a file there would be another one, or Linux' under Wine.
const PATHS_OF_LINUX: [&str; 6] = ["/proc/", "/sys/", "/var/lib", "/var/log", "/etc/", "/dev/"];
/// Where help texts and shell scripts name such paths, which nobody opens on Windows, and the names of source files of the crate
/// crossterm, which say where it panics.
const IN_TEXTS: [&str; 9] = [
    "/sys/windows",
    "/dev/sd",
    "/dev/fuse",
    "/dev/null",
    "/dev/cpu_dma_latency",
    "/etc/fstab",
    "/etc/passwd",
    "/var/lib/platter/undo",
    "/var/lib/platter/mirrors. A copy",
];

/// Two short cases, each with four I/Os in flight.
const JOBS: &str = "\
[global]
bs=4k
ioengine=libaio
iodepth=4
direct=1
stonewall
[read]
rw=randread
[write]
rw=randwrite
";

/// What runs here is little, and to optimise the program for it takes several times as long.
const NOT_OPTIMISED: (&str, &str) = ("CARGO_PROFILE_DEV_OPT_LEVEL", "0");

/// Builds the program and puts it to the test.
pub(crate) fn test() -> Outcome {
    tools::provide(TOOLS)?;
    let targets = ["x86_64-apple-darwin", "x86_64-unknown-freebsd"];
    [TARGET].iter().chain(&targets).try_for_each(|target| provide_target(target))?;
    // The program is compiled for the tests anyway, with the features of what they need.
    cargo(&["test", "--workspace", "--no-run", "--quiet"])?;
    cargo_with(&["build", "-p", "platterfs", "--target", TARGET], &[NOT_OPTIMISED])?;
    // Type checks: nothing is run on these systems.
    for target in targets {
        cargo(&["check", "-p", "platterfs", "--target", target])?;
    }
    let built = bindings::target_directory()?;
    judge(&built.join(TARGET).join("debug/platter.exe"), &built.join("debug/platter"))?;
    wine::test(NOT_OPTIMISED)
}

/// The lints of what is compiled for Windows alone, and all tests of the crates that run there.
pub(crate) fn campaign() -> Outcome {
    tools::provide(TOOLS)?;
    provide_target(TARGET)?;
    // All libraries of this project are compiled for the program, so that clippy looks at them too.
    cargo(&["clippy", "-p", "platterfs", "--target", TARGET, "--", "-D", "warnings"])?;
    wine::campaign()
}

/// Has rustup install the standard library for a target, if it is missing.
fn provide_target(target: &str) -> Outcome {
    let library = said(Command::new("rustc").args(["--print", "target-libdir", "--target", target]))?;
    if Path::new(library.trim()).is_dir() { Ok(()) } else { run("rustup", &["target", "add", target], &[]) }
}

/// Puts a program for Windows to the test, with one of Linux as the judge.
pub(crate) fn judge(program: &Path, linux: &Path) -> Outcome {
    holds_no_paths_of_linux(program)?;
    let room = Room::new("wine", program, linux)?;
    wine::make_random(&room.at)?;
    round_trips(&room)?;
    by_windows::judge(&room)?;
    programs(&room)?;
    hostile_names(&room)
}

/// Builds the program for Linux on ARM, and puts it to the test in QEMU.
pub(crate) fn arm() -> Outcome {
    provide_target(ARM)?;
    cargo(&["build", "--workspace", "--bin", "platter"])?;
    // The linker of the toolchain: with this C library nothing of the system is linked.
    let linker = ("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER", "rust-lld");
    cargo_with(&["build", "-p", "platterfs", "--target", ARM], &[NOT_OPTIMISED, linker])?;
    let built = bindings::target_directory()?;
    judge_arm(&built.join(ARM).join("debug/platter"), &built.join("debug/platter"))
}

/// Puts a program for Linux on ARM to the test, with one of this machine as the judge.
pub(crate) fn judge_arm(program: &Path, linux: &Path) -> Outcome {
    tools::provide(&[(QEMU, "qemu-user-static")])?;
    round_trips(&Room::new(QEMU, program, linux)?)
}

/// Everything that a program does alike on all systems.
fn round_trips(room: &Room) -> Outcome {
    for (format, size) in FORMATS {
        there_and_back(room, format, size)?;
    }
    repair_and_undo(room)?;
    mirror(room)?;
    recover(room)?;
    compare(room)
}

/// A directory with the program of each system, and a Windows of its own.
pub(crate) struct Room {
    /// What runs the program.
    runner: &'static str,
    /// The server of Wine, which ends before its directory is removed.
    _server: Option<wine::Server>,
    scratch: Scratch,
    pub(crate) at: PathBuf,
    pub(crate) prefix: PathBuf,
    linux: PathBuf,
}

impl Room {
    fn new(runner: &'static str, program: &Path, linux: &Path) -> Result<Room, String> {
        let scratch = Scratch::new("windows")?;
        let at = scratch.folder("work")?;
        let prefix = scratch.folder("prefix")?;
        fs::copy(program, at.join(PROGRAM)).map_err(|error| format!("{}: {error}", program.display()))?;
        let server = if runner == QEMU { None } else { Some(wine::Server::start(&prefix)?) };
        // It is called from the room's directory, where a relative path would lead elsewhere.
        let linux = std::path::absolute(linux).map_err(|error| format!("{}: {error}", linux.display()))?;
        Ok(Room { runner, _server: server, scratch, at, prefix, linux })
    }

    /// Runs the other program in the directory. What it prints goes to files: a process of Wine that outlasts the program has its
    /// outputs too, and the end of a pipe could be waited for without end.
    fn output(&self, arguments: &[&str]) -> Result<Output, String> {
        let [told, errors] = ["told", "errors"].map(|name| self.prefix.join(name));
        let failed = |error: std::io::Error| format!("{}: {error}", self.runner);
        let [to_told, to_errors] = [&told, &errors].map(fs::File::create);
        let mut runner = Command::new(self.runner);
        runner.arg(PROGRAM).args(arguments).current_dir(&self.at);
        runner.env("WINEPREFIX", &self.prefix).env("WINEDEBUG", "-all").env("NO_COLOR", "1");
        runner.stdin(Stdio::null()).stdout(to_told.map_err(failed)?).stderr(to_errors.map_err(failed)?);
        let status = runner.status().map_err(failed)?;
        let [stdout, stderr] = [&told, &errors].map(fs::read);
        Ok(Output { status, stdout: stdout.map_err(failed)?, stderr: stderr.map_err(failed)? })
    }

    /// Runs it, and expects this exit code; returns what it printed, to both of its outputs.
    pub(crate) fn ends(&self, arguments: &[&str], code: i32) -> Result<String, String> {
        eprintln!("+ {} {PROGRAM} {}", self.runner, arguments.join(" "));
        let output = self.output(arguments)?;
        let told =
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        match output.status.code() {
            Some(got) if got == code => Ok(told.replace("\r\n", "\n")),
            got => {
                Err(format!("{PROGRAM} {}: exit code {got:?}, expected {code}: {told}", arguments.join(" ")))
            }
        }
    }

    /// Runs the program of Linux in the directory; it must succeed.
    pub(crate) fn judge(&self, arguments: &[&str]) -> Result<String, String> {
        let output = Command::new(&self.linux)
            .args(arguments)
            .current_dir(&self.at)
            .output()
            .map_err(|error| format!("{}: {error}", self.linux.display()))?;
        let told =
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        if output.status.success() {
            Ok(told)
        } else {
            Err(format!("platter {}: {told}", arguments.join(" ")))
        }
    }

    /// A directory with some files, made once.
    fn tree(&self) -> Result<&'static str, String> {
        let tree = self.scratch.folder("work/tree/in side")?;
        let long: Vec<u8> = (0..300_000_u32).flat_map(u32::to_le_bytes).collect();
        let files: [(&str, &[u8]); 4] =
            [("empty", b""), ("ä Straße €.txt", b"text\r\n"), ("long.bin", &long), ("a.b.c", &[7; 4096])];
        for (name, content) in files {
            fs::write(tree.join(name), content).map_err(|error| format!("{name}: {error}"))?;
        }
        Ok("tree")
    }
}

pub(crate) fn expect(is_so: bool, what: impl FnOnce() -> String) -> Outcome {
    if is_so { Ok(()) } else { Err(what()) }
}

/// A tree goes to a volume that was made under Wine and back; Linux finds the volume sound and the same tree on it.
fn there_and_back(room: &Room, format: &str, size: &str) -> Outcome {
    let tree = room.tree()?;
    let image = format!("{}.img", format.replace('+', "-"));
    room.ends(&["mkfs", format, &image, "--size", size, "--label", "WINE"], 0)?;
    room.ends(&["cp", "-r", tree, &format!("{image}:/")], 0)?;
    let listed = room.ends(&["ls", "-lR", &format!("{image}:/")], 0)?;
    expect(listed.contains("ä Straße €.txt"), || format!("ls shows another name: {listed}"))?;
    let shown = room.ends(&["cat", &format!("{image}:/tree/in side/ä Straße €.txt")], 0)?;
    expect(shown == "text\n", || format!("cat shows {shown:?}"))?;
    room.ends(&["check", &image], 0)?;
    let back = format!("back-{format}");
    room.ends(&["cp", "-r", &format!("{image}:/tree"), &back], 0)?;
    run("diff", &["-r", text(&room.at.join(tree))?, text(&room.at.join(&back))?], &[])?;
    room.judge(&["check", &image])?;
    room.judge(&["diff", tree, &format!("{image}:/tree")]).map(drop)
}

/// Damage is found and repaired, and the repair taken back byte for byte.
fn repair_and_undo(room: &Room) -> Outcome {
    let image = "exfat.img";
    let path = room.at.join(image);
    let mut bytes = fs::read(&path).map_err(|error| format!("{image}: {error}"))?;
    // The checksum of the main boot region, in its sector 11.
    bytes[11 * 512..12 * 512].fill(0xA5);
    fs::write(&path, &bytes).map_err(|error| format!("{image}: {error}"))?;
    room.ends(&["check", image], 4)?;
    room.ends(&["check", "--repair", image], 1)?;
    room.judge(&["check", image])?;
    let repaired = fs::read(&path).map_err(|error| format!("{image}: {error}"))?;
    expect(repaired != bytes, || "the repair changed nothing".into())?;
    room.ends(&["undo", "exfat.img.undo", image], 0)?;
    let now = fs::read(&path).map_err(|error| format!("{image}: {error}"))?;
    expect(now == bytes, || "undo did not bring the bytes back".into())
}

/// Both copies of a mirror hold the same, and one that is missing is rebuilt.
fn mirror(room: &Room) -> Outcome {
    let mirror = "mirror:one.img,two.img";
    room.ends(&["mkfs", "ntfs", mirror, "--size", "32M"], 0)?;
    room.ends(&["cp", "tree/in side/a.b.c", &format!("{mirror}:/")], 0)?;
    room.ends(&["mirror", "status", mirror], 0)?;
    fs::remove_file(room.at.join("two.img")).map_err(|error| format!("two.img: {error}"))?;
    room.ends(&["mirror", "rebuild", mirror], 0)?;
    for image in ["one.img", "two.img"] {
        room.judge(&["check", image])?;
        room.judge(&["diff", "tree/in side/a.b.c", &format!("{image}:/a.b.c")])?;
    }
    Ok(())
}

/// A volume whose names would lead out of the target, to a device or to a stream.
fn hostile_names(room: &Room) -> Outcome {
    let image = "hostile.img";
    // Letters that are replaced by others which no interface would take; each name keeps its place among the others.
    let names = ["..QQQevilA", "CONX", "C9__evil", "ba^b", "dotQ", "good", "NUL.txt", "spaceQ"];
    let replaced: [(&str, &str); 6] = [
        ("..QQQevilA", r"..\..\evil"),
        ("CONX", "CON."),
        ("C9__evil", r"C:\\evil"),
        ("ba^b", "ba:b"),
        ("dotQ", "dot."),
        ("spaceQ", "space "),
    ];
    let from = room.scratch.folder("work/names")?;
    for name in names {
        fs::write(from.join(name), name).map_err(|error| format!("{name}: {error}"))?;
    }
    room.judge(&["mkfs", "ntfs", image, "--size", "32M"])?;
    room.judge(&["cp", "-r", "names", &format!("{image}:/")])?;
    let path = room.at.join(image);
    let mut bytes = fs::read(&path).map_err(|error| format!("{image}: {error}"))?;
    let wide = |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
    for (old, new) in replaced {
        let (old, new) = (wide(old), wide(new));
        let mut at = 0;
        while let Some(found) = bytes[at..].windows(old.len()).position(|part| part == old) {
            bytes[at + found..at + found + new.len()].copy_from_slice(&new);
            at += found + new.len();
        }
    }
    fs::write(&path, &bytes).map_err(|error| format!("{image}: {error}"))?;
    let target = room.scratch.folder("work/outer/target")?;
    let said = room.ends(&["cp", "-r", &format!("{image}:/names"), r"outer\target"], 1)?;
    for name in replaced.iter().map(|(_, name)| *name).chain(["NUL.txt"]) {
        expect(said.contains(&format!("{name:?}")), || format!("{name:?} is not named: {said}"))?;
    }
    let there: Vec<String> = walked(&room.at.join("outer"))?;
    let wanted = ["target", "target/names", "target/names/good"];
    expect(there == wanted, || format!("copied to {there:?}, expected {wanted:?}"))?;
    let elsewhere = walked(&room.prefix.join("drive_c"))?;
    expect(!elsewhere.iter().any(|path| path.contains("evil")), || "a name led to drive C".into())?;
    // On Linux all of these are names like others, and none leads anywhere else.
    fs::remove_dir_all(&target).map_err(|error| format!("outer: {error}"))?;
    room.scratch.folder("work/outer/target")?;
    room.judge(&["cp", "-r", &format!("{image}:/names"), "outer/target"])?;
    let there = walked(&room.at.join("outer"))?;
    expect(there.len() == 2 + names.len(), || format!("Linux copied {there:?}"))?;
    // A recovery gives them other names, and leads nowhere else either.
    fs::create_dir(room.at.join("beside")).map_err(|error| format!("beside: {error}"))?;
    room.ends(&["recover", image, r"beside\rescued"], 0)?;
    let there = walked(&room.at.join("beside"))?;
    expect(there.iter().all(|path| path.starts_with("rescued")), || format!("recovered {there:?}"))
}

/// The paths below a directory, sorted.
pub(crate) fn walked(top: &Path) -> Result<Vec<String>, String> {
    let (mut open, mut all) = (vec![top.to_path_buf()], Vec::new());
    while let Some(directory) = open.pop() {
        let entries =
            fs::read_dir(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
        for entry in entries.flatten() {
            let path = entry.path();
            all.push(path.strip_prefix(top).unwrap_or(&path).to_string_lossy().into_owned());
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                open.push(path);
            }
        }
    }
    all.sort();
    Ok(all)
}

/// What a volume holds comes back without opening it as one.
fn recover(room: &Room) -> Outcome {
    room.ends(&["recover", "ntfs.img", "rescued"], 0)?;
    run("diff", &["-r", text(&room.at.join("tree"))?, text(&room.at.join("rescued/tree"))?], &[])
}

/// A comparison runs to its end and writes its report. Its figures mean nothing here.
fn compare(room: &Room) -> Outcome {
    fs::create_dir(room.at.join("measured")).map_err(|error| format!("measured: {error}"))?;
    write(&room.at.join("two.fio"), JOBS)?;
    let what = ["compare", "--targets", "raw,ntfs,dir:measured", "--workloads", "two.fio"];
    let how = ["--span", "16M", "--time", "1s", "--out", "report"];
    let said = room.ends(&[&what[..], &how].concat(), 0)?;
    expect(said.contains("dir:measured"), || format!("the directory was not measured: {said}"))?;
    // No file system here has integrity streams, and the sentence says what to do.
    let refused =
        ["compare", "--targets", "dir:measured+integrity", "--workloads", "two.fio", "--out", "none"];
    let said = room.ends(&refused, 1)?;
    expect(said.contains("leave +integrity out"), || format!("integrity of a directory: {said}"))?;
    let run = ["run", "two.fio", "--target", "refs+integrity", "--span", "16M", "--time", "1s"];
    room.ends(&run, 0)?;
    room.ends(&["report", "report/report.json"], 0)?;
    room.judge(&["report", "report/report.json"]).map(drop)
}

/// Programs run in turns in two directories, through `cmd`, and the report has the settings that decide their figures.
fn programs(room: &Room) -> Outcome {
    for directory in ["first", "second"] {
        fs::create_dir(room.at.join(directory)).map_err(|error| format!("{directory}: {error}"))?;
    }
    let key = r"HKLM\SOFTWARE\Microsoft\Windows Defender\Real-Time Protection";
    let off = ["reg", "add", key, "/v", "DisableRealtimeMonitoring", "/t", "REG_DWORD", "/d", "1", "/f"];
    let mut registry = Command::new("wine");
    registry.args(off).env("WINEPREFIX", &room.prefix).env("WINEDEBUG", "-all");
    registry.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    expect(registry.status().is_ok_and(|status| status.success()), || "wine reg add failed".into())?;
    let common = ["compare", "--targets", "dir:first,dir:second", "--repeat", "4", "--warmup", "0"];
    let with = |rest: &[&'static str]| [&common[..], rest].concat();
    let load = [
        "--setup",
        r#"copy "%PLATTER_FROM%\tree\in side\a.b.c" "a file""#,
        "--command",
        r#"copy "a file" b"#,
    ];
    room.ends(&with(&[&load[..], &["--conclude", "del b", "--out", "programs"]].concat()), 0)?;
    let report =
        fs::read_to_string(room.at.join("programs/report.json")).map_err(|error| error.to_string())?;
    for part in [r#""io": "completion ports""#, r#""power_plan": ""#, r#""real_time_protection": "off""#] {
        expect(report.contains(part), || format!("the report has no {part}: {report}"))?;
    }
    expect(walked(&room.at.join("first"))?.is_empty(), || "the folder was left".into())?;
    let failing = ["--command", "echo no such thing& exit /b 5", "--out", "failing"];
    let told = room.ends(&with(&failing), 1)?;
    expect(told.contains("ended with exit code 5: no such thing"), || format!("a failing command: {told}"))?;
    let without = |rest: &[&'static str]| [&common[..3], rest].concat();
    let cold = room.ends(&without(&["--command", "ver", "--cold", "--out", "none"]), 2)?;
    expect(cold.contains("on Linux only: leave it out"), || format!("--cold: {cold}"))?;
    // Wine cannot flush a drive.
    let durable = room.ends(&with(&["--command", "ver", "--durable", "--out", "none"]), 1)?;
    expect(durable.contains("leave --durable out"), || format!("--durable: {durable}"))?;
    let mounted = ["compare", "--targets", "ntfs", "--command", "ver", "--out", "none"];
    let told = room.ends(&mounted, 2)?;
    expect(told.contains(r"as dir:X:\"), || format!("a volume for programs: {told}"))?;
    room.judge(&["report", "programs/report.json"]).map(drop)
}

/// A path of Linux that is forgotten in the program would be found under Wine, and be nothing on Windows.
fn holds_no_paths_of_linux(program: &Path) -> Outcome {
    let bytes = fs::read(program).map_err(|error| format!("{}: {error}", program.display()))?;
    for path in PATHS_OF_LINUX {
        for at in bytes
            .windows(path.len())
            .enumerate()
            .filter(|(_, part)| *part == path.as_bytes())
            .map(|(at, _)| at)
        {
            let rest = String::from_utf8_lossy(&bytes[at..(at + 40).min(bytes.len())]).into_owned();
            expect(IN_TEXTS.iter().any(|known| rest.starts_with(known)), || {
                let before = String::from_utf8_lossy(&bytes[at.saturating_sub(20)..at]).into_owned();
                format!("{} holds {before:?}{rest:?}", program.display())
            })?;
        }
    }
    Ok(())
}

//! Helpers that the tests of the commands share.
#![allow(dead_code, reason = "each test binary uses a part of this")]

pub(crate) mod durable;
pub(crate) mod mount;
pub(crate) mod volatile;

use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// A temporary directory, which is removed when the test ends.
pub(crate) struct Place(pub PathBuf);

impl Place {
    pub(crate) fn new(name: &str) -> Place {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let (process, number) = (std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(format!("platter-files-{process}-{number}-{name}"));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Place(path)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// A program that runs in this place and has its temporary files here, so that what one test leaves is not taken for
    /// what another left.
    pub(crate) fn command<S: AsRef<OsStr>>(&self, program: &str, arguments: &[S]) -> Command {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(&self.0).env("TMPDIR", &self.0);
        command.env("TZ", ZONE).env("MTOOLS_SKIP_CHECK", "1");
        command
    }

    /// Runs a tool that must succeed; the test also fails if the tool is not installed.
    pub(crate) fn tool<S: AsRef<OsStr>>(&self, program: &str, arguments: &[S]) -> String {
        let output = self.command(program, arguments).output();
        let output = output.unwrap_or_else(|error| panic!("{program} is needed for this test: {error}"));
        assert!(output.status.success(), "{program}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    pub(crate) fn platter(&self, line: &str) -> Output {
        let arguments: Vec<&str> = line.split(' ').collect();
        ended(self.command(env!("CARGO_BIN_EXE_platter"), &arguments))
    }

    /// Runs `platter`, which must end with this exit code, and returns its standard output and standard error.
    pub(crate) fn ends(&self, code: i32, line: &str) -> (String, String) {
        let output = self.platter(line);
        assert_eq!(output.status.code(), Some(code), "platter {line}: {output:?}");
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (text(output.stdout), text(output.stderr))
    }

    pub(crate) fn works(&self, line: &str) -> String {
        let (stdout, stderr) = self.ends(0, line);
        assert_eq!(stderr, "", "platter {line}");
        stdout
    }

    /// Runs `platter`, which must fail with one line on standard error, and returns that line.
    pub(crate) fn fails(&self, line: &str) -> String {
        let (_, stderr) = self.ends(1, line);
        assert!(stderr.starts_with("platter: ") && stderr.lines().count() == 1, "platter {line}: {stderr}");
        stderr
    }

    pub(crate) fn fsck(&self, image: &str) {
        self.tool("fsck.fat", &["-n", image]);
    }

    pub(crate) fn json(&self, line: &str) -> serde_json::Value {
        serde_json::from_str(&self.works(line)).unwrap()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The longest that a command may run. One that serves where it should have refused would hold up all tests.
const LONGEST: Duration = Duration::from_secs(900);

/// Runs a command until it ends, at the latest until it is killed.
fn ended(mut command: Command) -> Output {
    let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    let process = child.id();
    let (is_over, over) = channel::<()>();
    let watch = std::thread::spawn(move || {
        if over.recv_timeout(LONGEST) == Err(RecvTimeoutError::Timeout) {
            mount::kill("-KILL", process);
        }
    });
    let output = child.wait_with_output().unwrap();
    drop(is_over);
    watch.join().unwrap();
    output
}

/// A time zone three hours ahead of UTC: local times on FAT must come out right for Platter and for mtools.
const ZONE: &str = "TST-3";

/// Returns pseudo-random bytes.
pub(crate) fn content(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..length).map(|_| next()).collect()
}

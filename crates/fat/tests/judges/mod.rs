//! The other implementations that judge ours: dosfstools and mtools. A missing tool fails the test.
#![allow(dead_code, reason = "each test binary uses a part of this")]

use std::process::{Command, Output};

pub use platter_vfs::model::ImageFile;

fn output(program: &str, arguments: &[&str]) -> Output {
    Command::new(program)
        .args(arguments)
        .env("LC_ALL", "C.UTF-8")
        .env("MTOOLSRC", "/dev/null")
        // Its check of the table refuses links to the last cluster, because it compares cluster numbers, which start
        // at 2, with the count of clusters (check_fat in mtools 4.0.32). fsck.fat looks at the table instead.
        .env("MTOOLS_SKIP_CHECK", "1")
        .env("TZ", "UTC")
        .output()
        .unwrap_or_else(|error| panic!("{program} (from dosfstools or mtools) cannot be run: {error}"))
}

/// Runs a tool that must succeed, and returns what it printed.
pub fn run(program: &str, arguments: &[&str]) -> String {
    let output = output(program, arguments);
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?} failed:\n{text}");
    text
}

/// What fsck.fat says.
pub struct Verdict {
    /// Whether it found nothing to complain of.
    pub clean: bool,
    /// What it printed.
    pub output: String,
}

/// Has fsck.fat judge an image.
pub fn fsck(image: &ImageFile, options: &[&str]) -> Verdict {
    let mut arguments = options.to_vec();
    arguments.push(image.path());
    let output = output("fsck.fat", &arguments);
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    Verdict { clean: output.status.code() == Some(0), output: text }
}

//! The other implementations that judge ours: exfatprogs, exfat-fuse, dissect.fat and the Linux kernel. A missing one
//! fails the test.
#![allow(dead_code, reason = "each test binary uses a part of this")]

use std::process::{Command, Output};

pub use platter_vfs::model::ImageFile;

pub fn output(program: &str, arguments: &[&str]) -> Output {
    Command::new(program)
        .args(arguments)
        .env("LC_ALL", "C.UTF-8")
        .env("TZ", "UTC")
        .output()
        .unwrap_or_else(|error| panic!("{program} (from exfatprogs or exfat-fuse) cannot be run: {error}"))
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Runs a tool that must succeed, and returns what it printed.
pub fn run(program: &str, arguments: &[&str]) -> String {
    let output = output(program, arguments);
    let text = text(&output);
    assert!(output.status.success(), "{program} {arguments:?} failed:\n{text}");
    text
}

/// What fsck.exfat says.
pub struct Verdict {
    /// Whether it found nothing to complain of.
    pub clean: bool,
    /// What it printed.
    pub output: String,
}

/// Has fsck.exfat judge an image, changing nothing.
pub fn fsck(image: &ImageFile) -> Verdict {
    let output = output("fsck.exfat", &["-n", "-v", image.path()]);
    let text = text(&output);
    // It exits with 0 for some things that it reports and would repair.
    let quiet = !text.contains("ERROR") && !text.contains("corrupted") && !text.contains("Fix");
    Verdict { clean: output.status.code() == Some(0) && quiet, output: text }
}

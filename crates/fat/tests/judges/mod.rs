//! The other implementations that judge ours: dosfstools and mtools. A missing tool fails the test.
#![allow(dead_code, reason = "each test binary uses a part of this")]

use std::os::unix::fs::FileExt;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

/// A file that holds an image while it is judged.
pub struct ImageFile {
    path: String,
}

impl ImageFile {
    /// A file of these bytes. Zeroes are left out as holes.
    pub fn new(image: &[u8]) -> ImageFile {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("platter-fat-{}-{number}.img", std::process::id());
        let path = std::env::temp_dir().join(name).to_str().expect("a path in UTF-8").to_owned();
        let file = std::fs::File::create(&path).expect("a writable temporary directory");
        file.set_len(image.len() as u64).expect("a file system that takes images of this size");
        const PIECE: usize = 64 << 10;
        for (at, piece) in image.chunks(PIECE).enumerate() {
            if piece.iter().any(|&byte| byte != 0) {
                file.write_all_at(piece, (at * PIECE) as u64).expect("room in the temporary directory");
            }
        }
        ImageFile { path }
    }

    /// Where it is.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// What it holds now.
    pub fn bytes(&self) -> Vec<u8> {
        std::fs::read(&self.path).expect("the image is there")
    }
}

impl Drop for ImageFile {
    fn drop(&mut self) {
        drop(std::fs::remove_file(&self.path));
    }
}

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

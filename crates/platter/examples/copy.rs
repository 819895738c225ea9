//! Copies a directory of the host into a new volume in an image file, with progress: `cargo run --example copy disk.img DIRECTORY`.

use platter::copy::{CopyListener, Loss, Options};
use platter::{Error, MakeOptions, Progress, Silent};
use std::path::Path;

/// Prints what could not be copied, and what the volume has no place for.
struct Told;

impl Progress for Told {
    fn progress(&self, _what: &'static str, done: u64, total: u64) {
        eprint!("\r{done} of {total} bytes");
    }
}

impl CopyListener for Told {
    fn failed(&self, error: &Error) {
        eprintln!("\n{error}");
    }

    fn lost(&self, loss: Loss, at: &str) {
        eprintln!("\n{at}: {}", loss.words().0);
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(image), Some(directory)) = (arguments.next(), arguments.next()) else {
        return Err("copy IMAGE DIRECTORY".into());
    };
    if !Path::new(&image).exists() {
        let options = MakeOptions { size: Some(1 << 30), ..MakeOptions::default() };
        platter::mkfs(&image, "exfat", &options, &Silent)?;
    }
    let volume = platter::open_rw(&image)?;
    let options = Options { recursive: true, ..Options::default() };
    let outcome = volume.copy_in(&directory, "/", &options, &Told)?;
    volume.close()?;
    println!(
        "\n{} files, {} bytes, {} failures",
        outcome.copied.files, outcome.copied.bytes, outcome.failures
    );
    Ok(())
}

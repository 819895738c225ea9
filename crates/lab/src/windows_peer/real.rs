//! The Windows that this program runs on.

use super::Windows;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The Windows that this program runs on.
pub(crate) struct ThisWindows;

impl Windows for ThisWindows {
    fn letters(&self) -> u32 {
        platter_device::host::drive_letters()
    }

    fn diskpart(&self, script: &str, file: &Path) -> io::Result<(i32, String)> {
        // By its whole path: whoever is an administrator does not run what happens to have that name.
        let windows = std::env::var_os("SystemRoot").unwrap_or_else(|| r"C:\Windows".into());
        let program = PathBuf::from(windows).join("System32").join("diskpart.exe");
        std::fs::write(file, script)?;
        let output = Command::new(program).arg("/s").arg(file).stdin(Stdio::null()).output();
        let _ = std::fs::remove_file(file);
        let output = output?;
        Ok((output.status.code().unwrap_or(-1), String::from_utf8_lossy(&output.stdout).into_owned()))
    }

    fn root(&self, letter: char) -> PathBuf {
        PathBuf::from(format!("{letter}:\\"))
    }
}

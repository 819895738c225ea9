//! What Windows refuses while it makes a volume, and what to do about it.

use super::{Kind, Step};
use std::io;
use std::path::Path;

/// `ERROR_ELEVATION_REQUIRED`: what starting `diskpart` ends with where the user is no administrator or has not been asked
/// (Microsoft, "System Error Codes"; the program's manifest demands an administrator).
pub(super) const NOT_ELEVATED: i32 = 740;
/// `ERROR_ACCESS_DENIED`.
const ACCESS_DENIED: i32 = 5;

/// Why `diskpart` was not run.
pub(super) fn not_run(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(NOT_ELEVATED | ACCESS_DENIED) => {
            "Windows makes virtual disks for administrators only; open the terminal as administrator".into()
        }
        _ if error.kind() == io::ErrorKind::NotFound => {
            "diskpart is not there, which is in System32 of every Windows; format a drive by other means and name dir:X:\\".into()
        }
        _ => format!("diskpart cannot be run: {error}"),
    }
}

pub(super) fn no_letter() -> String {
    "all drive letters from D to Z are in use; free one (in Disk Management, or of a network drive: net use X: /delete)".into()
}

/// What was refused in a step.
pub(super) fn refused(step: Step, kind: &Kind, image: &Path) -> String {
    let (system, image) = (kind.file_system, image.display());
    match step {
        Step::Attach { length } => format!(
            "Windows made and attached no virtual disk of {} MiB at {image}; that drive needs the space, and NTFS or ReFS, \
             uncompressed and unencrypted: choose another directory with --out or --device",
            length >> 20
        ),
        Step::Partition => format!(
            "Windows made no partition on the virtual disk {image}; see in Disk Management whether a disk waits for an answer"
        ),
        Step::Format if system == "ReFS" => format!(
            "this Windows makes no ReFS volumes: Home and Pro do not; run it on Enterprise, Pro for Workstations or Server, or leave \
             {} out",
            kind.name
        ),
        Step::Format => format!("Windows did not format the volume as {system}; leave {} out", kind.name),
        Step::Letter(letter) => format!(
            "Windows did not give drive letter {letter}: to the volume, because something else has it; free it (a network drive: \
             net use {letter}: /delete) and begin anew"
        ),
        Step::Detach(letter) => format!(
            "the virtual disk {image} stays attached as drive {letter}:; close what has files open on it, detach it in Disk \
             Management, and remove the file"
        ),
    }
}

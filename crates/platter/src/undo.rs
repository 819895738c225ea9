//! Undo files: where they stand, and what they know a device by.

use crate::failure::{About, Failure};
use crate::image::Image;
use platter_device::{FileRecord, MirrorRecord};
use std::fmt;
use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// Where the undo files of block devices stand: /dev does not survive a restart.
const DEVICES: &str = "/var/lib/platter/undo";

/// Where the undo file of an image stands if nobody says otherwise: beside it, under the first name that is free. That of
/// a mirror stands beside its first copy.
pub fn default_path(image: &Path) -> Result<PathBuf, Failure> {
    let first = Image::parse(image)?.paths.swap_remove(0);
    let is_block = fs::metadata(&first).is_ok_and(|data| data.file_type().is_block_device());
    let beside = if is_block {
        let directory = Path::new(DEVICES);
        fs::create_dir_all(directory).about(DEVICES).map_err(|failure| cannot_save(&failure))?;
        directory.join(first.file_name().unwrap_or_default())
    } else {
        first
    };
    let numbered = |number: u32| {
        let mut path = beside.clone();
        path.as_mut_os_string().push(if number == 1 {
            ".undo".to_string()
        } else {
            format!(".undo-{number}")
        });
        path
    };
    // A link that leads nowhere is in the way too.
    let path = (1..u32::MAX).map(numbered).find(|path| path.symlink_metadata().is_err());
    Ok(path.expect("a directory does not hold so many files"))
}

/// What is another when somebody has written to an image, or to a copy of a mirror.
pub fn stamp(image: &Path) -> String {
    let paths = Image::parse(image).map(|image| image.paths).unwrap_or_default();
    let stamps = paths.iter().map(|path| FileRecord::of(path).stamp().unwrap_or_default());
    stamps.collect::<Vec<_>>().join("; ")
}

/// The failure of a repair that could not save what it was about to overwrite.
pub fn cannot_save(why: &dyn fmt::Display) -> Failure {
    let hint = "nothing is overwritten that was not saved; --undo FILE puts the undo file elsewhere, --no-undo repairs without one";
    Failure::new(format_args!("{why}"), hint)
}

/// How people write when a repair began.
pub fn shown_time(time: std::time::SystemTime) -> String {
    chrono::DateTime::<chrono::Local>::from(time).format("%Y-%m-%d %H:%M:%S").to_string()
}

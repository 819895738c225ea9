//! Taking repairs back.

use crate::error::{Error, Result};
use crate::event::Listener;
use crate::opening::{Access, DeviceOptions, open_whole, stamp};
use crate::source::Source;
use platter_device::{Device, Stoppable, UndoFile};
use platter_vfs::Progress;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

/// The options of taking a repair back.
#[derive(Clone, Debug, Default)]
pub struct UndoOptions {
    /// Whether to take it back even if the image was written to since: what was written there since is lost then.
    pub force: bool,
    /// The listener that is told of events of a mirror's copies.
    pub listener: Listener,
}

/// The result of [`undo`].
#[derive(Clone, Debug, Default)]
pub struct Undone {
    /// When the repair began; `None` if it ended before it changed anything, so that there was nothing to take back.
    pub began: Option<SystemTime>,
    /// The number of blocks that were given their old content.
    pub blocks: u64,
    /// The number of blocks that could not be read before the repair overwrote them, and that stay as they are.
    pub unknown: u64,
    /// The number of bytes at the end of the undo file that are no whole record.
    pub unused: u64,
    /// Whether the repair was cut off, or had been taken back in part before.
    pub was_cut_off: bool,
}

/// Takes a repair back: gives the image that a source names the bytes that it had before. `file` is the undo file that
/// [`check`](crate::check()) made; it is always of the whole image, so a partition in the source does not count. A repair that was
/// cut off is taken back too. No volume on the image may be open.
///
/// ```
/// use platter::{CheckOptions, MakeOptions, Silent, UndoOptions};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # #[cfg(feature = "fat")] {
/// # let directory = std::env::temp_dir().join(format!("platter-undo-page-{}", std::process::id()));
/// # std::fs::create_dir_all(&directory)?;
/// # let image = directory.join("disk.img");
/// let options = MakeOptions { size: Some(8 << 20), ..MakeOptions::default() };
/// platter::mkfs(&image, "fat", &options, &Silent)?;
/// # let mut bytes = std::fs::read(&image)?;
/// # let sector = usize::from(bytes[14]) * 512;
/// # bytes[sector + 6] = 0xFF; // a cluster that is taken by no file
/// # std::fs::write(&image, &bytes)?;
/// // Something damages it, and a check repairs that.
/// let options = CheckOptions { repair: true, ..CheckOptions::default() };
/// let checked = platter::check(&image, &options, &Silent)?;
/// let (file, _) = checked.undo.expect("the repair has overwritten something");
///
/// let undone = platter::undo(&file, &image, &UndoOptions::default(), &Silent)?;
/// assert!(undone.blocks > 0);
/// # assert_eq!(std::fs::read(&image)?, bytes);
/// # std::fs::remove_dir_all(&directory)?;
/// # }
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`Protected`](crate::ErrorKind::Protected) if the image was written to since, [`Stopped`](crate::ErrorKind::Stopped) if
/// `progress` asks for the end: another call takes back the rest. Also the errors of the undo file and of the device.
pub fn undo(
    file: impl AsRef<Path>,
    source: impl AsRef<Path>,
    options: &UndoOptions,
    progress: &dyn Progress,
) -> Result<Undone> {
    let (file, whole) = (file.as_ref(), Source::split_partition(source.as_ref()).0);
    let source = Source::whole(whole)?;
    if UndoFile::is_unbegun(file) {
        return Ok(Undone::default());
    }
    let undo = UndoFile::open(file)?;
    // The stamp is read first: opening the image for writing may be noted in the record of a mirror, which is no write
    // to the image.
    let stamp = match undo.stamp() {
        // It is of a repair of a caller's device, which has none.
        Some("") => String::new(),
        _ => stamp(&source),
    };
    let access = Access::Write { force: options.force };
    let opening = DeviceOptions { listener: options.listener.clone(), ..DeviceOptions::new(access) };
    let device = open_whole(&source, &opening)?;
    restore(undo, &*device, &stamp, options, progress)
}

/// Like [`undo`], on a device of the caller's, that a repair by [`check_on`](crate::check_on) changed. Only the content of the
/// device tells then whether it was written to since.
///
/// # Errors
/// As [`undo`]. A repair of an image that has a time of its last write is taken back here only with `force`.
pub fn undo_on(
    file: impl AsRef<Path>,
    device: Arc<dyn Device>,
    options: &UndoOptions,
    progress: &dyn Progress,
) -> Result<Undone> {
    if UndoFile::is_unbegun(file.as_ref()) {
        return Ok(Undone::default());
    }
    restore(UndoFile::open(file.as_ref())?, &*device, "", options, progress)
}

fn restore(
    mut undo: UndoFile,
    device: &dyn Device,
    stamp: &str,
    options: &UndoOptions,
    progress: &dyn Progress,
) -> Result<Undone> {
    let (began, was_cut_off) = (undo.time(), undo.stamp().is_none());
    // Each block is read, and written if it is not as it was.
    let total = undo.blocks() * 2;
    let transfers = AtomicU64::new(0);
    let is_asked = || {
        let done = transfers.fetch_add(1, Ordering::Relaxed);
        progress.step("taking back", done.min(total), total).is_err()
    };
    let stoppable = Stoppable::new(device, &is_asked);
    let restored = undo.restore(&stoppable, stamp, options.force).map_err(Error::from)?;
    progress.progress("taking back", total, total);
    Ok(Undone {
        began: Some(began),
        blocks: restored.blocks,
        unknown: restored.unknown,
        unused: undo.unused(),
        was_cut_off,
    })
}

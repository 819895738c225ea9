//! Which file system is on this device, and how to open or make one.
//!
//! The one list of the formats there are: a new one is added to [`registry`], and every door knows it.
#![forbid(unsafe_code)]

use platter_device::{Device, contents};
use platter_vfs::{Error, FileSystem, Format, OpenOptions, Recognised, Result};
use std::sync::Arc;

/// Every format.
pub fn registry() -> &'static [&'static dyn Format] {
    &[]
}

/// A format as a user names it: the format, and the variant of it that the name asks for.
#[derive(Clone, Copy)]
pub struct Named {
    /// The format.
    pub format: &'static dyn Format,
    /// For [`platter_vfs::FormatOptions::variant`].
    pub variant: Option<&'static str>,
}

/// Names of variants: what a user types, the format and its variant.
const VARIANTS: [(&str, &str, &str); 3] =
    [("fat12", "fat", "12"), ("fat16", "fat", "16"), ("fat32", "fat", "32")];

/// Every name that [`by_name`] knows.
pub fn names() -> Vec<&'static str> {
    let variants = VARIANTS.iter().filter(|(_, format, _)| plain(format).is_some()).map(|(name, ..)| *name);
    registry().iter().map(|format| format.name()).chain(variants).collect()
}

/// The format of this name, in any case.
pub fn by_name(name: &str) -> Option<Named> {
    let name = name.to_ascii_lowercase();
    if let Some(format) = plain(&name) {
        return Some(Named { format, variant: None });
    }
    let (_, format, variant) = VARIANTS.iter().find(|(variant, ..)| *variant == name)?;
    Some(Named { format: plain(format)?, variant: Some(variant) })
}

fn plain(name: &str) -> Option<&'static dyn Format> {
    registry().iter().copied().find(|format| format.name() == name)
}

/// The format whose volume the device holds, and what it was recognised as.
///
/// # Errors
/// What reading the device gives.
pub fn recognise(device: &dyn Device) -> Result<Option<(&'static dyn Format, Recognised)>> {
    for format in registry() {
        if let Some(recognised) = format.recognise(device)? {
            return Ok(Some((*format, recognised)));
        }
    }
    Ok(None)
}

/// Opens the volume on a device, whatever its format.
///
/// # Errors
/// [`Error::NotThisFormat`], which says what is there instead as far as that is known, and what opening gives.
pub fn open(device: Arc<dyn Device>, options: OpenOptions) -> Result<Arc<dyn FileSystem>> {
    match recognise(&*device)? {
        Some((format, _)) => format.open(device, options),
        None => Err(unknown(&*device)?),
    }
}

/// The error for a device that holds no volume of any format here.
///
/// # Errors
/// What reading the device gives.
pub fn unknown(device: &dyn Device) -> Result<Error> {
    let reason = match contents(device)? {
        Some(known) => format!("the device holds {known}"),
        None => "no file system is recognised on the device".to_string(),
    };
    Ok(Error::NotThisFormat { format: "Platter", reason })
}

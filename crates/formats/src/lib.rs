//! Which file system is on this device, and how to open or make one.
//!
//! This is the only list of the formats: one that is added to [`registry`] is available to everything that uses this
//! crate.
//!
//! # Example
//!
//! ```
//! use platter_device::{MemoryDevice, Sectors};
//! use platter_vfs::{FormatOptions, OpenOptions, Silent};
//! use std::sync::Arc;
//!
//! # fn main() -> platter_vfs::Result<()> {
//! # #[cfg(feature = "ntfs")] {
//! let device = Arc::new(MemoryDevice::new(64 << 20, Sectors::SMALL));
//! let ntfs = platter_formats::by_name("ntfs").expect("a format of this build");
//! ntfs.make(&*device, &FormatOptions { label: Some("DATA".into()), ..FormatOptions::default() }, &Silent)?;
//!
//! let (format, recognised) = platter_formats::recognise(&*device)?.expect("just made");
//! assert_eq!((format.name(), recognised.format.as_str()), ("ntfs", "NTFS 3.1"));
//! let volume = platter_formats::open(device, OpenOptions::default())?;
//! assert_eq!(volume.info()?.label, "DATA");
//! # }
//! # Ok(())
//! # }
//! ```
//!
//! # Features
//!
//! `refs`, `ntfs`, `exfat` and `fat`, all on by default: a build with fewer of them has fewer formats and dependencies.
#![forbid(unsafe_code)]

mod mirrors;
mod overheard;

pub use mirrors::{Judge, metadata_sum};

use platter_device::{Device, Partition, contents, is_encrypted};
#[cfg(feature = "exfat")]
use platter_exfat::Exfat;
#[cfg(feature = "fat")]
use platter_fat::Fat;
#[cfg(feature = "ntfs")]
use platter_ntfs::Ntfs;
#[cfg(feature = "refs")]
use platter_refs::Refs;
use platter_vfs::{Error, FileSystem, Format, OpenOptions, Recognised, Result};
use std::sync::Arc;

/// All formats, one for each name that a user may type. A format comes before its variants, so that [`recognise`] finds
/// the general one.
pub fn registry() -> &'static [&'static dyn Format] {
    &[
        #[cfg(feature = "fat")]
        &Fat::ANY,
        #[cfg(feature = "fat")]
        &Fat::FAT12,
        #[cfg(feature = "fat")]
        &Fat::FAT16,
        #[cfg(feature = "fat")]
        &Fat::FAT32,
        #[cfg(feature = "exfat")]
        &Exfat,
        #[cfg(feature = "ntfs")]
        &Ntfs,
        #[cfg(feature = "refs")]
        &Refs::ANY,
        #[cfg(feature = "refs")]
        &Refs::INTEGRITY,
    ]
}

/// Returns the format of this name; upper and lower case are the same.
pub fn by_name(name: &str) -> Option<&'static dyn Format> {
    registry().iter().copied().find(|format| format.name().eq_ignore_ascii_case(name))
}

/// Returns the format of the volume on a device, and what the volume was recognised as.
///
/// # Errors
/// The errors of reading the device.
pub fn recognise(device: &dyn Device) -> Result<Option<(&'static dyn Format, Recognised)>> {
    // A sector that cannot be read is reported by the formats.
    if is_encrypted(device).unwrap_or(false) {
        return Ok(None);
    }
    for format in registry() {
        if let Some(recognised) = format.recognise(device)? {
            return Ok(Some((*format, recognised)));
        }
    }
    Ok(None)
}

/// Whether volumes of a format have checksums of metadata, so that of several copies the good one is known.
pub fn has_checksums(format: &dyn Format) -> bool {
    format.name().starts_with(mirrors::WITH_CLOCK)
}

/// Returns the formats, without their variants, in the order in which a device that none of them recognises is searched
/// for their remains. Those of which the device has a copy of the first structures come first. Metadata of ReFS and NTFS
/// is recognised by itself, that of FAT by how it hangs together, and a file may hold an image of a FAT volume.
pub fn by_remains(device: &dyn Device) -> Vec<&'static dyn Format> {
    let is_variant =
        |name: &str| registry().iter().any(|format| name != format.name() && name.starts_with(format.name()));
    let mut formats: Vec<&dyn Format> =
        registry().iter().rev().copied().filter(|format| !is_variant(format.name())).collect();
    formats.sort_by_key(|format| !format.has_copy(device));
    formats
}

/// Opens the volume on a device, whatever its format.
///
/// # Errors
/// [`Error::Unrecognised`], which says what the device holds instead as far as that is known, and the errors of
/// opening.
pub fn open(device: Arc<dyn Device>, options: OpenOptions) -> Result<Arc<dyn FileSystem>> {
    match recognise(&*device)? {
        Some((format, recognised)) => format.open(whole(device, &recognised)?, options),
        None => Err(unknown(&*device)?),
    }
}

/// Returns the device as long as the volume that was recognised on it. If the volume's end is cut off, the device
/// returned reaches to that end all the same, and can only be read.
///
/// # Errors
/// [`Error::Device`] if the volume's length makes no sense on the device.
pub fn whole(device: Arc<dyn Device>, recognised: &Recognised) -> Result<Arc<dyn Device>> {
    let Some(length) = recognised.cut_off else { return Ok(device) };
    let name = device.name().to_string();
    Ok(Arc::new(Partition::reaching(device, 0, length, name)?))
}

/// Returns what is wrong with a device on which no volume is recognised, if its content, which [`contents`] calls
/// `known`, is of one of these formats.
pub fn fault(device: &dyn Device, known: &str) -> Option<Error> {
    let is_meant = |format: &&&dyn Format| known.to_lowercase().contains(format.name());
    registry().iter().find(is_meant).and_then(|format| format.fault(device))
}

/// Returns the error for a device that holds no volume of any of these formats.
///
/// # Errors
/// The errors of reading the device.
pub fn unknown(device: &dyn Device) -> Result<Error> {
    let (known, none) = match contents(device) {
        Err(error @ platter_device::Error::Io { .. }) => {
            (None, format!("no file system can be recognised on it ({error})"))
        }
        known => (known?, beginning(device)?),
    };
    let reason = match known {
        Some(known) => {
            // A device that begins like a volume of a known format has a damaged one, and the error then names the
            // fault too.
            let fault = fault(device, &known)
                .map_or_else(String::new, |error| format!(", which is damaged: {error}"));
            let instead = match &*known {
                // Platter knows these formats, and says what is wrong instead.
                _ if !fault.is_empty() => "",
                known if known.contains("BitLocker") => {
                    "; cryptsetup open --type bitlk makes a device of it that can be read and written"
                }
                known if known.contains("LUKS") => "; cryptsetup open makes a device of its content",
                known if known.contains("partition table") => "",
                "a gzip file" => ", which `gunzip -k` unpacks",
                "a zstd file" => ", which `zstd -d` unpacks",
                "an xz file" => ", which `xz -dk` unpacks",
                "an lz4 file" => ", which `lz4 -d` unpacks",
                "a ZIP archive" => ", which `unzip` unpacks",
                "a 7z archive" => ", which `7z x` unpacks",
                _ => ", and no FAT, exFAT, NTFS or ReFS",
            };
            format!("holds {known}{fault}{instead}")
        }
        None => match registry().iter().find(|format| format.has_copy(device)) {
            None => none,
            Some(format) => format!(
                "{none}; but there is a copy of the boot sector of a file system: `platter check --as {name}` tells more and with \
                 --repair puts it back, and `platter recover --as {name}` copies out what is left",
                name = format.name()
            ),
        },
    };
    Ok(Error::Unrecognised(reason))
}

/// Returns what the first bytes of a device say to a person, where no content is recognised.
fn beginning(device: &dyn Device) -> Result<String> {
    const NONE: &str = "no file system is recognised on it";
    // The bytes of a file of less than a sector are not read.
    if device.is_empty() {
        return Ok(format!("{NONE}: it is empty, or shorter than a sector"));
    }
    let mut head = vec![0; device.len().min(64 << 10) as usize];
    device.read_at(0, &mut head)?;
    if head.iter().all(|byte| *byte == 0) {
        return Ok(format!("{NONE}: it begins with zeroes, as before one is made"));
    }
    let is_text = |text: &str| text.chars().all(|c| !c.is_control() || matches!(c, '\n' | '\r' | '\t'));
    let text = match std::str::from_utf8(&head) {
        Ok(text) => Some(text),
        // A letter may be cut in two.
        Err(error) if error.error_len().is_none() => std::str::from_utf8(&head[..error.valid_up_to()]).ok(),
        Err(_) => None,
    };
    Ok(match text.is_some_and(is_text) {
        true => format!("{NONE}: it holds text"),
        false => NONE.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use platter_device::{MemoryDevice, Sectors};
    use platter_vfs::{FormatOptions, Silent};

    #[test]
    fn finds_what_it_made_by_its_general_name() {
        let sizes = [("fat12", 4), ("fat16", 64), ("FAT32", 300), ("fat", 64)];
        for (name, megabytes) in sizes {
            let device = MemoryDevice::new(megabytes << 20, Sectors::SMALL);
            assert!(recognise(&device).unwrap().is_none());
            let options = FormatOptions { label: Some("LABEL".into()), ..FormatOptions::default() };
            by_name(name).unwrap().make(&device, &options, &Silent).unwrap();
            let (format, recognised) = recognise(&device).unwrap().expect("just made");
            assert_eq!((format.name(), recognised.label.as_deref()), ("fat", Some("LABEL")), "{name}");
            assert!(recognised.format.eq_ignore_ascii_case(name) || name == "fat", "{}", recognised.format);
        }
        let device = MemoryDevice::new(8 << 20, Sectors::SMALL);
        let options = FormatOptions { label: Some("Label".into()), ..FormatOptions::default() };
        by_name("exFAT").unwrap().make(&device, &options, &Silent).unwrap();
        let (format, recognised) = recognise(&device).unwrap().expect("just made");
        assert_eq!((format.name(), recognised.label.as_deref()), ("exfat", Some("Label")));
        let device = MemoryDevice::new(8 << 20, Sectors::SMALL);
        by_name("NTFS").unwrap().make(&device, &options, &Silent).unwrap();
        let (format, recognised) = recognise(&device).unwrap().expect("just made");
        assert_eq!((format.name(), &*recognised.format), ("ntfs", "NTFS 3.1"));
        assert_eq!(recognised.label.as_deref(), Some("Label"));
        assert!(by_name("ext4").is_none());
    }

    /// BitLocker To Go shows a small FAT32 volume to those who do not know it. It is no volume to read or to write.
    #[test]
    fn an_encrypted_volume_is_not_taken_for_the_one_that_it_shows() {
        let identifiers: [[u8; 16]; 2] = [
            *b"\x3B\xD6\x67\x49\x29\x2E\xD8\x4A\x83\x99\xF6\xA3\x39\xE3\xD0\x01",
            *b"\x3B\x4D\xA8\x92\x80\xDD\x0E\x4D\x9E\x4E\xB1\xE3\x28\x4E\xAE\xD8",
        ];
        for identifier in identifiers {
            let device = MemoryDevice::new(64 << 20, Sectors::SMALL);
            by_name("fat32").unwrap().make(&device, &FormatOptions::default(), &Silent).unwrap();
            assert!(recognise(&device).unwrap().is_some());
            let mut sector = [0; 512];
            device.read_at(0, &mut sector).unwrap();
            sector[0x1A8..0x1B8].copy_from_slice(&identifier);
            device.write_at(0, &sector).unwrap();
            assert!(recognise(&device).unwrap().is_none());
            let told = unknown(&device).unwrap().to_string();
            assert!(told.contains("holds a BitLocker To Go volume; cryptsetup"), "{told}");
            sector[3..11].copy_from_slice(b"-FVE-FS-");
            device.write_at(0, &sector).unwrap();
            assert!(recognise(&device).unwrap().is_none());
            let told = unknown(&device).unwrap().to_string();
            assert!(told.contains("holds a BitLocker volume; cryptsetup"), "{told}");
        }
    }

    #[test]
    fn says_what_is_there_instead() {
        let device = MemoryDevice::new(1 << 20, Sectors::SMALL);
        let text = |device: MemoryDevice| match open(Arc::new(device), OpenOptions::default()) {
            Err(error) => error.to_string(),
            Ok(_) => panic!("opened nothing"),
        };
        let mut sector = [0; 512];
        sector[..4].copy_from_slice(b"XFSB");
        device.write_at(0, &sector).unwrap();
        assert!(text(device).contains("holds an XFS file system"));
        let device = MemoryDevice::new(1 << 20, Sectors::SMALL);
        device.write_at(0, "für Menschen\r\n".repeat(80).as_bytes()[..1024].as_ref()).unwrap();
        assert!(!text(device).contains("text"), "zeroes are none");
        let device = MemoryDevice::new(1024, Sectors::SMALL);
        device.write_at(0, "für Menschen\r\n".repeat(80).as_bytes()[..1024].as_ref()).unwrap();
        assert!(text(device).contains("it holds text"));
        assert!(text(MemoryDevice::new(1 << 20, Sectors::SMALL)).contains("it begins with zeroes"));
        assert!(text(MemoryDevice::new(0, Sectors::SMALL)).contains("no file system is recognised"));
    }
}

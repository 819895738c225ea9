//! Recognises what a device seems to hold, by the signatures of formats and by its partition table.
//!
//! The answer serves to avoid overwriting something by mistake; a recognised content may still be damaged.

use crate::marks::{HEAD, TAIL, marks, read_bytes};
use crate::{Device, Error, PartitionTable, Result, Scheme};

/// Returns what the first and last bytes of the device are recognised as, for example "an ext4 file system"; `None` if
/// nothing is recognised.
///
/// # Errors
/// The errors of reading the device.
pub fn contents(device: &dyn Device) -> Result<Option<String>> {
    let head = read_bytes(device, 0, HEAD.min(device.len()))?;
    let tail_length = TAIL.min(device.len());
    let tail = read_bytes(device, device.len() - tail_length, tail_length)?;
    if let Some(known) = marks(&head, &tail, device.len()) {
        return Ok(Some(known.to_string()));
    }
    // A damaged partition table must not be overwritten by mistake either, so an error counts as content.
    Ok(match PartitionTable::read(device) {
        Ok(Some(table)) => {
            let count = table.partitions.len();
            let scheme = match table.scheme {
                Scheme::Gpt => "a GPT",
                Scheme::Mbr => "an MBR",
            };
            Some(format!(
                "{scheme} partition table with {count} partition{}",
                if count == 1 { "" } else { "s" }
            ))
        }
        Ok(None) => None,
        Err(_) => Some("a damaged partition table".to_string()),
    })
}

/// Whether `sector`, the first one of a volume, differs from its `copy` by damage in a few places only: the bytes that
/// differ are at most a third as many as the bytes of the copy that are not zero. A sector that was overwritten with
/// other content or with zeroes differs in more bytes.
pub fn is_damaged_like(sector: &[u8], copy: &[u8]) -> bool {
    let differ = sector.iter().zip(copy).filter(|(one, two)| one != two).count();
    differ * 3 <= copy.iter().filter(|byte| **byte != 0).count()
}

/// Whether a copy of a volume's first sector remains from an earlier content of the device: the first bytes of the
/// device do not resemble the copy ([`is_damaged_like`]), and [`contents`] recognises the present content, or cannot tell
/// because a part of the device cannot be read.
///
/// # Errors
/// The errors of reading the device.
pub fn is_left_over(device: &dyn Device, copy: &[u8]) -> Result<bool> {
    let first = read_bytes(device, 0, (copy.len() as u64).min(device.len()))?;
    if is_damaged_like(&first, copy) {
        return Ok(false);
    }
    match contents(device) {
        Err(Error::Io { .. }) => Ok(true),
        known => Ok(known?.is_some()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MemoryDevice, Sectors};
    use std::process::Command;

    fn holds(image: &[u8], sectors: Sectors) -> Option<String> {
        contents(&MemoryDevice::from_image(image, sectors)).unwrap()
    }

    #[test]
    fn knows_every_mark_and_nothing_in_an_empty_or_tiny_device() {
        for sectors in [Sectors::SMALL, Sectors::LARGE] {
            assert_eq!(holds(&[0; 1 << 20], sectors), None);
            assert_eq!(holds(&[0; 512], sectors), None);
            assert_eq!(holds(&[], sectors), None);
            for (position, mark, known) in [
                (3, &b"NTFS    "[..], "an NTFS file system"),
                (3, b"ReFS\0\0\0\0", "a ReFS file system"),
                (0, b"XFSB", "an XFS file system"),
                (0x10040, b"_BHRfS_M", "a Btrfs file system"),
                (4086, b"SWAPSPACE2", "swap space"),
                (0, b"PK\x03\x04", "a ZIP archive"),
                (257, b"ustar", "a tar archive"),
                (65526, b"SWAPSPACE2", "swap space"),
                (0x438, b"\x53\xEF", "an ext2 file system"),
                ((128 << 10) + (7 << 12), b"\x0C\xB1\xBA\x00", "a ZFS pool member"),
                ((1 << 20) - (64 << 10), b"\xFC\x4E\x2B\xA9", "a member of a Linux RAID"),
                ((1 << 20) - 512, b"conectix", "a VHD disk image"),
            ] {
                let mut image = vec![0; 1 << 20];
                image[position..position + mark.len()].copy_from_slice(mark);
                assert_eq!(holds(&image, sectors).as_deref(), Some(known));
            }
        }
        let mut image = vec![0; 1 << 20];
        image[512..520].copy_from_slice(b"LABELONE");
        assert_eq!(holds(&image, Sectors::SMALL), None, "half a mark is none");
        image[536..544].copy_from_slice(b"LVM2 001");
        assert_eq!(holds(&image, Sectors::SMALL).as_deref(), Some("an LVM physical volume"));
    }

    #[test]
    fn knows_what_mkfs_fat_makes() {
        let directory = std::env::temp_dir().join(format!("platter-contents-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        for (bits, megabytes, sector) in
            [("12", 2, "512"), ("16", 32, "512"), ("32", 64, "512"), ("32", 512, "4096")]
        {
            let path = directory.join(format!("fat{bits}-{sector}.img"));
            std::fs::File::create(&path).unwrap().set_len(megabytes << 20).unwrap();
            let made = Command::new("mkfs.fat").args(["-F", bits, "-S", sector]).arg(&path).output();
            assert!(made.expect("dosfstools is installed").status.success());
            let device = crate::FileDevice::open(&path, crate::FileOptions::default()).unwrap();
            assert_eq!(contents(&device).unwrap().as_deref(), Some("a FAT file system"), "FAT{bits}");
            assert!(PartitionTable::read(&device).unwrap().is_none(), "FAT{bits} is no partition table");
        }
        std::fs::remove_dir_all(&directory).unwrap();
    }
}

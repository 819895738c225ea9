//! Recognises what a device seems to hold, by the signatures of formats and by its partition table.
//!
//! The answer serves to avoid overwriting something by mistake; a recognised content may still be damaged.

use crate::marks::{HEAD, TAIL, far_marks, marks, read_bytes};
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
    if let Some(known) = marks(&head, &tail, device.len()).or_else(|| far_marks(device)) {
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
    fn knows_the_marks_of_other_systems_and_of_members_of_raids() {
        const END: usize = 6 << 20;
        for (position, mark, known) in [
            (0x800, &b"OCFSV2"[..], "an OCFS2 file system"),
            (1 << 20, b"\x0D\xD0\x01\xC0", "a VMFS volume"),
            (2 << 20, b"\x5E\xF1\xAB\x2F", "a VMFS file system"),
            (8192 + 1372, b"\x54\x19\x01\x00", "a UFS file system"),
            (65536 + 1372, b"\x19\x01\x54\x19", "a UFS file system"),
            ((256 << 10) + 1372, b"\x19\x54\x01\x19", "a UFS file system"),
            (0x1F8 + 0x200, b"\x20\x7E\x18\xFD", "a System V file system"),
            (0, b"\x45\x3D\xCD\x28", "a cramfs file system"),
            (0, b"-rom1fs-", "a romfs file system"),
            (1024, b"\xF5\xFC\x01\xA5", "a VxFS file system"),
            (0, b"UBI#", "a UBI volume"),
            (0, b"\xCE\xFA\xAD\x1B", "a BFS file system"),
            (0x4000, b"SKUL\xBA\xBE\0\x02", "a LUKS volume"),
            (4 << 20, b"SKUL\xBA\xBE\0\x02", "a LUKS volume"),
            (0, b"HM\x01\0", "an LVM physical volume"),
            (0, b"dmvdo001", "a VDO volume"),
            (0, b"SnAp\x01\0\0\0", "the changes of a device-mapper snapshot"),
            (0, b"ER\x02\0", "an Apple partition map"),
            (512, b"PM\0\0\0\0\0\x03", "an Apple partition map"),
            (END - 1024, b"Intel Raid ISM Cfg Sig. 1.0.00", "a member of an Intel RAID"),
            (END - 512, b"\xDE\x11\xDE\x11", "a member of a DDF RAID"),
            (END - 257 * 512, b"\xDE\x11\xDE\x11", "a member of a DDF RAID"),
            (END - 4096 + 60, b"\x83\x74\x02\x6D", "a DRBD device"),
        ] {
            let mut image = vec![0; END];
            image[position..position + mark.len()].copy_from_slice(mark);
            assert_eq!(holds(&image, Sectors::LARGE).as_deref(), Some(known));
        }
    }

    #[test]
    fn knows_containers_of_disks_and_of_evidence() {
        const END: usize = 1 << 20;
        for (position, mark, known) in [
            (0, &b"vhdxfile"[..], "a VHDX disk image"),
            (0, b"conectix", "a VHD disk image"),
            (0, b"QFI\xFB\0\0\0\x03", "a QCOW2 disk image"),
            (0, b"QED\0", "a QED disk image"),
            (0, b"KDMV", "a VMDK disk image"),
            (0, b"COWD", "a VMDK disk image"),
            (0, b"# Disk DescriptorFile\nversion=1\n", "a VMDK disk image"),
            (0, b"WithoutFreeSpace", "a Parallels disk image"),
            (END - 512, b"koly\0\0\0\x04\0\0\x02\0", "a DMG disk image"),
            (0, b"encrcdsa", "an encrypted DMG disk image"),
            (0, b"EVF\x09\x0D\x0A\xFF\0", "an E01 evidence image"),
            (0, b"LVF\x09\x0D\x0A\xFF\0", "L01 logical evidence"),
            (0, b"EVF2\x0D\x0A\x81\0", "an Ex01 evidence image"),
            (0, b"LEF2\x0D\x0A\x81\0", "Lx01 logical evidence"),
            (0, b"AFF10\x0D\x0A\0", "an AFF evidence image"),
            (0, b"MSWIM\0\0\0", "a WIM archive"),
        ] {
            let mut image = vec![0; END];
            image[position..position + mark.len()].copy_from_slice(mark);
            assert_eq!(holds(&image, Sectors::SMALL).as_deref(), Some(known));
        }
    }

    #[test]
    fn a_mark_of_two_bytes_counts_only_beside_plausible_fields() {
        let marked = |fill: u8, marks: &[(usize, &[u8])]| {
            let mut image = vec![fill; 1 << 20];
            for (position, mark) in marks {
                image[*position..position + mark.len()].copy_from_slice(mark);
            }
            holds(&image, Sectors::SMALL)
        };
        // 5461 inodes and 16384 zones with bitmaps of 4 and 5 blocks, and data from block 516 on.
        let fields = [5461_u16, 16384, 4, 5, 516, 0].map(u16::to_le_bytes).concat();
        let minix = [(0x400, &fields[..]), (0x410, &b"\x7F\x13"[..])];
        assert_eq!(marked(0, &minix).as_deref(), Some("a Minix file system"));
        let name = [(0x400, &b"BD"[..]), (0x412, b"\x10\0\0\0\x10\0"), (0x424, b"\x04disk")];
        assert_eq!(marked(0, &name).as_deref(), Some("an HFS file system"));
        let label = [(508, &b"\xDA\xBE"[..]), (100, b"\xDA\xBE")];
        assert_eq!(marked(0, &label).as_deref(), Some("a Sun disk label"));
        for fill in [0, 0x5A, 0xFF] {
            for mark in [(0x410, &b"\x7F\x13"[..]), (0x418, b"\x5A\x4D"), (0x406, b"\x34\x34")] {
                assert_eq!(marked(fill, &[mark]), None, "{mark:?} in {fill:#x}");
            }
            for mark in [(0x400, &b"BD"[..]), (512, b"PM"), (0, b"ER"), (0, b"HM"), (508, b"\xDA\xBE")] {
                assert_eq!(marked(fill, &[mark]), None, "{mark:?} in {fill:#x}");
            }
        }
    }

    #[test]
    fn random_data_is_no_known_format() {
        let mut state = 8664_u64;
        let mut image = vec![0; 280 << 10];
        for _ in 0..40 {
            for word in image.chunks_exact_mut(8) {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                word.copy_from_slice(&(state ^ state >> 29).to_le_bytes());
            }
            assert_eq!(holds(&image, Sectors::SMALL), None);
        }
    }

    #[test]
    fn knows_what_mkfs_of_minix_bfs_and_cramfs_makes() {
        let directory = std::env::temp_dir().join(format!("platter-marks-{}", std::process::id()));
        std::fs::create_dir_all(directory.join("files")).unwrap();
        std::fs::write(directory.join("files/one"), "content").unwrap();
        let path = directory.join("made.img");
        let files = directory.join("files");
        let image = path.to_str().unwrap();
        for (arguments, known) in [
            (&["mkfs.minix", "-1", image][..], "a Minix file system"),
            (&["mkfs.minix", "-2", image], "a Minix file system"),
            (&["mkfs.minix", "-3", image], "a Minix file system"),
            (&["mkfs.bfs", image], "a BFS file system"),
            (&["mkfs.cramfs", files.to_str().unwrap(), image], "a cramfs file system"),
        ] {
            std::fs::File::create(&path).unwrap().set_len(32 << 20).unwrap();
            // Not every machine has these programs.
            let Ok(made) = Command::new(arguments[0]).args(&arguments[1..]).output() else { continue };
            assert!(made.status.success(), "{arguments:?}: {made:?}");
            let mut made = std::fs::read(&path).unwrap();
            made.resize(32 << 20, 0);
            assert_eq!(holds(&made, Sectors::SMALL).as_deref(), Some(known), "{arguments:?}");
        }
        std::fs::remove_dir_all(&directory).unwrap();
    }

    #[cfg(unix)]
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

//! Signatures by which formats are recognised, at the offsets that the formats' own public documentation gives.

use crate::{Device, Result};

/// Whether a sector is the boot sector of a volume and not a partition table, whose sector ends in the same two bytes.
pub(crate) fn is_boot_sector(sector: &[u8]) -> bool {
    boot_sector(sector).is_some()
}

/// The number of bytes examined at the start of a device: ZFS's ring of uberblocks ends at 256 KiB, where the last of
/// the possible superblocks of UFS begins.
pub(crate) const HEAD: u64 = 264 << 10;
/// The number of bytes examined at the end of a device: md's oldest superblock begins at most 128 KiB before the end,
/// and one of the headers of DDF 257 sectors.
pub(crate) const TAIL: u64 = 132 << 10;

// Transfers are whole sectors, of which none is larger than 4096 bytes.
const _: () = assert!(HEAD.is_multiple_of(4096) && TAIL.is_multiple_of(4096));

/// What the first and last bytes of a device of `length` bytes are recognised as.
pub(crate) fn marks(head: &[u8], tail: &[u8], length: u64) -> Option<&'static str> {
    boot_sector(head)
        .or_else(|| fixed(head))
        .or_else(|| ext(head))
        .or_else(|| weak(head))
        .or_else(|| unix(head))
        .or_else(|| other(head, tail, length))
        .or_else(|| raid(tail, length))
}

/// What a device is recognised as by signatures behind its first [`HEAD`] bytes. A place that cannot be read has none.
pub(crate) fn far_marks(device: &dyn Device) -> Option<&'static str> {
    const LUKS: &[u8] = b"SKUL\xBA\xBE";
    const MARKS: [(u64, &[u8], &str); 6] = [
        (1 << 20, b"\x0D\xD0\x01\xC0", "a VMFS volume"),
        (2 << 20, b"\x5E\xF1\xAB\x2F", "a VMFS file system"),
        // The second header of LUKS2 lies behind the first, whose size is a power of two.
        (512 << 10, LUKS, "a LUKS volume"),
        (1 << 20, LUKS, "a LUKS volume"),
        (2 << 20, LUKS, "a LUKS volume"),
        (4 << 20, LUKS, "a LUKS volume"),
    ];
    let holds = |position: u64, mark: &[u8]| {
        let length = mark.len() as u64;
        position + length <= device.len()
            && read_bytes(device, position, length).is_ok_and(|found| found == mark)
    };
    MARKS.iter().find(|(position, mark, _)| holds(*position, mark)).map(|(.., known)| *known)
}

fn at(data: &[u8], position: usize, mark: &[u8]) -> bool {
    data.get(position..).is_some_and(|rest| rest.starts_with(mark))
}

fn u16_at(data: &[u8], position: usize) -> u16 {
    data.get(position..position + 2).map_or(0, |bytes| u16::from_le_bytes([bytes[0], bytes[1]]))
}

fn u32_at(data: &[u8], position: usize) -> u32 {
    u32::from(u16_at(data, position)) | u32::from(u16_at(data, position + 2)) << 16
}

/// Whether a device's first sector is that of a volume that BitLocker encrypts.
///
/// BitLocker To Go has a boot sector of FAT32: whoever does not know it sees a small volume with the program that reads the
/// rest, and takes what is encrypted for free. Its identifier is where FAT32 has a boot program. Source: the libbde
/// project's format documentation, "Volume header".
fn bitlocker(head: &[u8]) -> Option<&'static str> {
    const IDENTIFIERS: [[u8; 16]; 2] = [
        // 4967d63b-2e29-4ad8-8399-f6a339e3d001
        [0x3B, 0xD6, 0x67, 0x49, 0x29, 0x2E, 0xD8, 0x4A, 0x83, 0x99, 0xF6, 0xA3, 0x39, 0xE3, 0xD0, 0x01],
        // 92a84d3b-dd80-4d0e-9e4e-b1e3284eaed8, where only what is in use is encrypted
        [0x3B, 0x4D, 0xA8, 0x92, 0x80, 0xDD, 0x0E, 0x4D, 0x9E, 0x4E, 0xB1, 0xE3, 0x28, 0x4E, 0xAE, 0xD8],
    ];
    match IDENTIFIERS.iter().any(|identifier| at(head, 0x1A8, identifier)) {
        _ if at(head, 3, b"-FVE-FS-") => Some("a BitLocker volume"),
        true => Some("a BitLocker To Go volume"),
        false => None,
    }
}

/// Whether a device holds a volume that BitLocker encrypts, also if it looks like another format to those who do not know
/// it.
///
/// # Errors
/// The errors of reading the device.
pub fn is_encrypted(device: &dyn Device) -> Result<bool> {
    let head = read_bytes(device, 0, 512.min(device.len()))?;
    Ok(bitlocker(&head).is_some())
}

fn boot_sector(head: &[u8]) -> Option<&'static str> {
    if let Some(known) = bitlocker(head) {
        return Some(known);
    }
    const NAMES: [(&[u8], &str); 3] = [
        (b"NTFS    ", "an NTFS file system"),
        (b"EXFAT   ", "an exFAT file system"),
        (b"ReFS\0\0\0\0", "a ReFS file system"),
    ];
    if let Some((_, known)) = NAMES.iter().find(|(name, _)| at(head, 3, name)) {
        return Some(known);
    }
    // FAT has no signature: every field of its parameter block must have a value that the format allows.
    let byte = |position: usize| head.get(position).copied().unwrap_or(0);
    let plausible = matches!(u16_at(head, 11), 512 | 1024 | 2048 | 4096)
        && byte(13).is_power_of_two()
        && u16_at(head, 14) != 0
        && matches!(byte(16), 1..=4)
        && matches!(byte(21), 0xF0 | 0xF8..=0xFF)
        && (u16_at(head, 19) != 0 || u32_at(head, 32) != 0);
    plausible.then_some("a FAT file system")
}

/// Signatures at a fixed offset: the offset, the bytes, and whose they are.
const MARKS: &[(usize, &[u8], &str)] = &[
    (0, b"XFSB", "an XFS file system"),
    (0x10040, b"_BHRfS_M", "a Btrfs file system"),
    (0, b"LUKS\xBA\xBE", "a LUKS volume"),
    (0, b"hsqs", "a SquashFS file system"),
    (0x400, b"\x10\x20\xF5\xF2", "an F2FS file system"),
    (0x400, b"\xE2\xE1\xF5\xE0", "an EROFS file system"),
    (0x8001, b"CD001", "an ISO 9660 file system"),
    (0x8001, b"BEA01", "a UDF file system"),
    (0x400, b"H+\0\x04", "an HFS+ file system"),
    (0x400, b"HX\0\x05", "an HFS+ file system"),
    (32, b"NXSB", "an APFS container"),
    (0x8000, b"JFS1", "a JFS file system"),
    (0x10034, b"ReIsErFs", "a ReiserFS file system"),
    (0x10034, b"ReIsEr2Fs", "a ReiserFS file system"),
    (0x10034, b"ReIsEr3Fs", "a ReiserFS file system"),
    (0x10000, b"\x01\x16\x19\x70", "a GFS2 file system"),
    // The superblock of OCFS2 is in its third block.
    (0x400, b"OCFSV2", "an OCFS2 file system"),
    (0x800, b"OCFSV2", "an OCFS2 file system"),
    (0x1000, b"OCFSV2", "an OCFS2 file system"),
    (0x2000, b"OCFSV2", "an OCFS2 file system"),
    (0x2000, b"OracleCFS", "an OCFS file system"),
    (32, b"ORCLDISK", "an Oracle ASM disk"),
    (0, b"\x45\x3D\xCD\x28", "a cramfs file system"),
    (0, b"\x28\xCD\x3D\x45", "a cramfs file system"),
    (0x200, b"\x45\x3D\xCD\x28", "a cramfs file system"),
    (0, b"-rom1fs-", "a romfs file system"),
    (0x400, b"\xF5\xFC\x01\xA5", "a VxFS file system"),
    (0x2000, b"\xA5\x01\xFC\xF5", "a VxFS file system"),
    (0, b"UBI#", "a UBI volume"),
    (0, b"\x31\x18\x10\x06", "a UBIFS file system"),
    (0, b"\xCE\xFA\xAD\x1B", "a BFS file system"),
    (0x220, b"1SFB", "a BeFS file system"),
    (0x20, b"BFS1", "a BeFS file system"),
    (0, b"EXFS", "an EXFS file system"),
    (0, b"SFOZ", "a zonefs file system"),
    (0x4000, b"\x49\xE8\x95\xF9", "an HPFS file system"),
    // The second header of LUKS2 lies behind the first, whose size is a power of two.
    (0x4000, b"SKUL\xBA\xBE", "a LUKS volume"),
    (0x8000, b"SKUL\xBA\xBE", "a LUKS volume"),
    (0x10000, b"SKUL\xBA\xBE", "a LUKS volume"),
    (0x20000, b"SKUL\xBA\xBE", "a LUKS volume"),
    (0x40000, b"SKUL\xBA\xBE", "a LUKS volume"),
    (0, b"HM\x01\0", "an LVM physical volume"),
    (0, b"HM\x02\0", "an LVM physical volume"),
    (0, b"dmvdo001", "a VDO volume"),
    (0, b"SnAp", "the changes of a device-mapper snapshot"),
    (0, b"integrt\0", "a dm-integrity volume"),
    (0, b"verity\0\0", "the hashes of a dm-verity volume"),
    (0x204, b"!Stra0tis\x86\xFF\x02^\x41rh", "a Stratis pool member"),
    (0x1204, b"!Stra0tis\x86\xFF\x02^\x41rh", "a Stratis pool member"),
    (0, b"\x0B\xE5\xA9\x41", "an SGI disk label"),
    (0x200, b"\x57\x45\x56\x82", "a BSD disk label"),
    (0x40, b"\x57\x45\x56\x82", "a BSD disk label"),
    (0x1018, b"\xC6\x85\x73\xF6\x4E\x1A\x45\xCA\x82\x65\xF5\x7F\x48\xBA\x6D\x81", "a bcache device"),
    (0x1018, b"\xC6\x85\x73\xF6\x66\xCE\x90\xA9\xD9\x6A\x60\xCF\x80\x3D\xF7\xEF", "a bcachefs file system"),
    (0, b"\xFC\x4E\x2B\xA9", "a member of a Linux RAID"),
    (0x1000, b"\xFC\x4E\x2B\xA9", "a member of a Linux RAID"),
    (0, b"bluestore block device", "a Ceph BlueStore device"),
    (0, b"QFI\xFB", "a QCOW2 disk image"),
    (0, b"KDMV", "a VMDK disk image"),
    (0, b"vhdxfile", "a VHDX disk image"),
    (0, b"conectix", "a VHD disk image"),
    (0x40, b"\x7F\x10\xDA\xBE", "a VDI disk image"),
    (0, b"COWD", "a VMDK disk image"),
    (0, b"\xBE\xBA\xFE\xCA\0\0\0\0", "a VMDK disk image"),
    (0, b"# Disk DescriptorFile", "a VMDK disk image"),
    (0, b"QED\0", "a QED disk image"),
    (0, b"WithoutFreeSpace", "a Parallels disk image"),
    (0, b"WithouFreSpacExt", "a Parallels disk image"),
    (0, b"Bochs Virtual HD Image", "a Bochs disk image"),
    (0, b"MComprHD", "a CHD disk image"),
    (0, b"encrcdsa", "an encrypted DMG disk image"),
    // Source: the libewf project's descriptions of both versions of the Expert Witness format, "File header".
    (0, b"EVF\t\r\n\xFF\0", "an E01 evidence image"),
    (0, b"LVF\t\r\n\xFF\0", "L01 logical evidence"),
    (0, b"EVF2\r\n\x81\0", "an Ex01 evidence image"),
    (0, b"LEF2\r\n\x81\0", "Lx01 logical evidence"),
    (0, b"AFF10\r\n\0", "an AFF evidence image"),
    (0, b"MSWIM\0\0\0", "a WIM archive"),
    (0, b"WLPWM\0\0\0", "a WIM archive"),
    (3, b"HPFS", "an HPFS file system"),
    (0, b"PK\x03\x04", "a ZIP archive"),
    (0, b"PK\x05\x06", "a ZIP archive"),
    (257, b"ustar", "a tar archive"),
    (0, b"\x1F\x8B\x08", "a gzip file"),
    (0, b"\xFD7zXZ\0", "an xz file"),
    (0, b"7z\xBC\xAF\x27\x1C", "a 7z archive"),
    (0, b"\x28\xB5\x2F\xFD", "a zstd file"),
    (0, b"\x04\x22\x4D\x18", "an lz4 file"),
];

/// What has a signature at a fixed offset.
fn fixed(head: &[u8]) -> Option<&'static str> {
    MARKS.iter().find(|(position, mark, _)| at(head, *position, mark)).map(|(_, _, known)| *known)
}

fn ext(head: &[u8]) -> Option<&'static str> {
    const SUPERBLOCK: usize = 0x400;
    const HAS_JOURNAL: u32 = 0x4;
    // Extents, 64 bit and flexible groups: features that only ext4 has.
    const EXT4_ONLY: u32 = 0x40 | 0x80 | 0x200;
    if !at(head, SUPERBLOCK + 0x38, b"\x53\xEF") {
        return None;
    }
    let compatible = u32_at(head, SUPERBLOCK + 0x5C);
    let incompatible = u32_at(head, SUPERBLOCK + 0x60);
    Some(if incompatible & EXT4_ONLY != 0 {
        "an ext4 file system"
    } else if compatible & HAS_JOURNAL != 0 {
        "an ext3 file system"
    } else {
        "an ext2 file system"
    })
}

/// Formats whose signature has two bytes, which random data has at one place of 65,536: the fields beside it must have
/// values that the format allows, too.
fn weak(head: &[u8]) -> Option<&'static str> {
    type Holds = fn(&[u8]) -> bool;
    let checks: [(Holds, &str); 5] = [
        (is_minix, "a Minix file system"),
        (is_nilfs, "a NILFS2 file system"),
        (is_hfs, "an HFS file system"),
        (is_apple_map, "an Apple partition map"),
        (is_sun_label, "a Sun disk label"),
    ];
    checks.into_iter().find(|(holds, _)| holds(head)).map(|(_, known)| known)
}

/// Whether the head has a superblock of Minix, of any version and byte order: its bitmaps have a bit for each inode and
/// zone, and its data begins behind them.
fn is_minix(head: &[u8]) -> bool {
    const SUPERBLOCK: usize = 0x400;
    let fits = |inodes: u32, zones: u32, first: u32, maps: [u16; 2], block: u32| {
        let [inode_map, zone_map] = maps.map(u32::from);
        let bits = block * 8;
        let least = 2 + inode_map + zone_map;
        inodes > 0
            && inode_map.saturating_mul(bits) > inodes
            && (least..zones).contains(&first)
            && zone_map.saturating_mul(bits) > zones - first
    };
    [false, true].into_iter().any(|swapped| {
        let short = |position: usize| match u16_at(head, SUPERBLOCK + position) {
            value if swapped => value.swap_bytes(),
            value => value,
        };
        let long = |position: usize| match u32_at(head, SUPERBLOCK + position) {
            value if swapped => value.swap_bytes(),
            value => value,
        };
        // The number of zones is in another field since the second version.
        let zones = match short(16) {
            0x137F | 0x138F => u32::from(short(2)),
            0x2468 | 0x2478 => long(20),
            _ if short(24) == 0x4D5A && short(28) >= 1024 && short(28).is_power_of_two() => {
                let maps = [short(6), short(8)];
                return fits(long(0), long(20), short(10).into(), maps, short(28).into());
            }
            _ => return false,
        };
        fits(short(0).into(), zones, short(8).into(), [short(4), short(6)], 1024)
    })
}

fn is_nilfs(head: &[u8]) -> bool {
    at(head, 0x406, b"\x34\x34") && u32_at(head, 0x400) == 2 && (0x100..=0x400).contains(&u16_at(head, 0x408))
}

/// Whether the head has a master directory block of HFS: its allocation blocks are whole sectors, and the volume's name
/// has 1 to 27 bytes.
fn is_hfs(head: &[u8]) -> bool {
    let block = u32_at(head, 0x414).swap_bytes();
    at(head, 0x400, b"BD")
        && u16_at(head, 0x412) != 0
        && block != 0
        && block.is_multiple_of(512)
        && head.get(0x424).is_some_and(|length| (1..=27).contains(length))
}

/// Whether the head has an Apple partition map: a driver descriptor with a plausible block size, or the first entry of
/// the map with a plausible number of entries.
fn is_apple_map(head: &[u8]) -> bool {
    let block = u16_at(head, 2).swap_bytes();
    let describes = at(head, 0, b"ER") && matches!(block, 512 | 1024 | 2048 | 4096);
    let is_entry = |position: usize| {
        at(head, position, b"PM\0\0") && (1..=1024).contains(&u32_at(head, position + 4).swap_bytes())
    };
    describes || [512, 1024, 2048, 4096].into_iter().any(is_entry)
}

/// Whether the first sector is a disk label of Sun: the exclusive or of all its words is 0.
fn is_sun_label(head: &[u8]) -> bool {
    at(head, 508, b"\xDA\xBE")
        && (0..512).step_by(2).fold(0, |sum, position| sum ^ u16_at(head, position)) == 0
}

/// Whether the head has a superblock of UFS, in either byte order, or of System V.
fn unix(head: &[u8]) -> Option<&'static str> {
    // UFS1, with more sectors, for long names, with labels, beyond 4 GB; UFS2, and UFS2 that is being made.
    const UFS: [u32; 7] =
        [0x0001_1954, 0x0019_5612, 0x0009_5014, 0x0061_2195, 0x0523_1994, 0x1954_0119, 0x1996_0408];
    let is_ufs = |start: usize| {
        let magic = u32_at(head, start + 1372);
        UFS.contains(&magic) || UFS.contains(&magic.swap_bytes())
    };
    if [0, 8 << 10, 64 << 10, 256 << 10].into_iter().any(is_ufs) {
        return Some("a UFS file system");
    }
    let is_system_v = |start: usize| {
        let magic = u32_at(head, start + 0x200 + 504);
        0xFD18_7E20 == magic || 0xFD18_7E20 == magic.swap_bytes()
    };
    [0, 9 << 10, 15 << 10, 18 << 10].into_iter().any(is_system_v).then_some("a System V file system")
}

/// Converts a distance from the end of a device to an index in its last bytes.
fn from_end(tail: &[u8], distance: u64) -> Option<usize> {
    (tail.len() as u64).checked_sub(distance).map(|place| place as usize)
}

/// Members of RAIDs and what else has its signature at the end of the device.
fn raid(tail: &[u8], length: u64) -> Option<&'static str> {
    const SECTOR: u64 = 512;
    // From the end: the distance in bytes, and the signature there.
    const MARKS: [(u64, &[u8], &str); 10] = [
        (2 * SECTOR, b"Intel Raid ISM Cfg Sig. ", "a member of an Intel RAID"),
        (2 * 4096, b"Intel Raid ISM Cfg Sig. ", "a member of an Intel RAID"),
        (SECTOR, b"\xDE\x11\xDE\x11", "a member of a DDF RAID"),
        (4096, b"\xDE\x11\xDE\x11", "a member of a DDF RAID"),
        (257 * SECTOR, b"\xDE\x11\xDE\x11", "a member of a DDF RAID"),
        (2 * SECTOR, b"NVIDIA  ", "a member of an NVIDIA RAID"),
        (SECTOR, b"$XIDE$", "a member of an LSI RAID"),
        (63 * SECTOR, b"Promise Technology, Inc.", "a member of a Promise RAID"),
        (255 * SECTOR, b"Promise Technology, Inc.", "a member of a Promise RAID"),
        (256 * SECTOR, b"Promise Technology, Inc.", "a member of a Promise RAID"),
    ];
    let holds =
        |distance: u64, mark: &[u8]| from_end(tail, distance).is_some_and(|place| at(tail, place, mark));
    if let Some((.., known)) =
        MARKS.iter().find(|(distance, mark, _)| holds(length % SECTOR + distance, mark))
    {
        return Some(known);
    }
    let drbd = from_end(tail, length % 4096 + 4096)
        .is_some_and(|place| (0x6A..=0x6D).any(|version| at(tail, place + 60, &[0x83, 0x74, 0x02, version])));
    drbd.then_some("a DRBD device")
}

/// Signatures whose offset depends on the page size, the device's length or the like.
fn other(head: &[u8], tail: &[u8], length: u64) -> Option<&'static str> {
    // The signature of swap space ends its first page, whose size is that of the machine that made it.
    let swap = [4096, 8192, 16384, 65536]
        .into_iter()
        .any(|page| at(head, page - 10, b"SWAPSPACE2") || at(head, page - 10, b"SWAP-SPACE"));
    if swap {
        return Some("swap space");
    }
    if (0..4).any(|sector| at(head, sector * 512, b"LABELONE") && at(head, sector * 512 + 24, b"LVM2 001")) {
        return Some("an LVM physical volume");
    }
    let uberblock =
        |place: usize| matches!(u32_at(head, place), 0x00BA_B10C) || at(head, place + 4, b"\x00\xBA\xB1\x0C");
    if (0..128).any(|slot| uberblock((128 + slot) << 10)) {
        return Some("a ZFS pool member");
    }
    let from_end = |distance: u64| from_end(tail, distance);
    let raid = b"\xFC\x4E\x2B\xA9";
    let oldest = length % (64 << 10) + (64 << 10);
    let newer = length % 4096 + (8 << 10);
    if [oldest, newer].into_iter().filter_map(from_end).any(|place| at(tail, place, raid)) {
        return Some("a member of a Linux RAID");
    }
    let ends = |mark: &[u8]| from_end(512).is_some_and(|place| at(tail, place, mark));
    match () {
        () if ends(b"conectix") => Some("a VHD disk image"),
        () if ends(b"koly\0\0\0\x04") => Some("a DMG disk image"),
        () => None,
    }
}

/// Reads any byte range of a device, by whole sectors.
pub(crate) fn read_bytes(device: &dyn Device, offset: u64, length: u64) -> Result<Vec<u8>> {
    let sector = u64::from(device.sectors().logical);
    let start = offset / sector * sector;
    let end = (offset + length).next_multiple_of(sector);
    let mut data = vec![0; (end - start) as usize];
    device.read_at(start, &mut data)?;
    data.drain(..(offset - start) as usize);
    data.truncate(length as usize);
    Ok(data)
}

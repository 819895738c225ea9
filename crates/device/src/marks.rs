//! Signatures by which formats are recognised, at the offsets that the formats' own public documentation gives.

use crate::{Device, Result};

/// Whether a sector is the boot sector of a volume and not a partition table, whose sector ends in the same two bytes.
pub(crate) fn is_boot_sector(sector: &[u8]) -> bool {
    boot_sector(sector).is_some()
}

/// The number of bytes examined at the start of a device: ZFS's ring of uberblocks ends there.
pub(crate) const HEAD: u64 = 256 << 10;
/// The number of bytes examined at the end of a device: md's oldest superblock begins at most this far before the end.
pub(crate) const TAIL: u64 = 128 << 10;

/// What the first and last bytes of a device of `length` bytes are recognised as.
pub(crate) fn marks(head: &[u8], tail: &[u8], length: u64) -> Option<&'static str> {
    boot_sector(head).or_else(|| fixed(head)).or_else(|| ext(head)).or_else(|| other(head, tail, length))
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

fn boot_sector(head: &[u8]) -> Option<&'static str> {
    const NAMES: [(&[u8], &str); 4] = [
        (b"NTFS    ", "an NTFS file system"),
        (b"EXFAT   ", "an exFAT file system"),
        (b"ReFS\0\0\0\0", "a ReFS file system"),
        (b"-FVE-FS-", "a BitLocker volume"),
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

/// Signatures at a fixed offset.
fn fixed(head: &[u8]) -> Option<&'static str> {
    const MARKS: [(usize, &[u8], &str); 34] = [
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
        (0x1018, b"\xC6\x85\x73\xF6\x4E\x1A\x45\xCA\x82\x65\xF5\x7F\x48\xBA\x6D\x81", "a bcache device"),
        (
            0x1018,
            b"\xC6\x85\x73\xF6\x66\xCE\x90\xA9\xD9\x6A\x60\xCF\x80\x3D\xF7\xEF",
            "a bcachefs file system",
        ),
        (0, b"\xFC\x4E\x2B\xA9", "a member of a Linux RAID"),
        (0x1000, b"\xFC\x4E\x2B\xA9", "a member of a Linux RAID"),
        (0, b"bluestore block device", "a Ceph BlueStore device"),
        (0, b"QFI\xFB", "a QCOW2 disk image"),
        (0, b"KDMV", "a VMDK disk image"),
        (0, b"vhdxfile", "a VHDX disk image"),
        (0, b"conectix", "a VHD disk image"),
        (0x40, b"\x7F\x10\xDA\xBE", "a VDI disk image"),
        (3, b"HPFS", "an HPFS file system"),
        (0, b"PK\x03\x04", "a ZIP archive"),
        (0, b"PK\x05\x06", "a ZIP archive"),
        (257, b"ustar", "a tar archive"),
        (0, b"\x1F\x8B\x08", "a gzip file"),
        (0, b"\xFD7zXZ\0", "an xz file"),
        (0, b"7z\xBC\xAF\x27\x1C", "a 7z archive"),
        (0, b"\x28\xB5\x2F\xFD", "a zstd file"),
    ];
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
    // Converts a distance from the end of the device to an index in `tail`.
    let from_end = |distance: u64| (tail.len() as u64).checked_sub(distance).map(|place| place as usize);
    let raid = b"\xFC\x4E\x2B\xA9";
    let oldest = length % (64 << 10) + (64 << 10);
    let newer = length % 4096 + (8 << 10);
    if [oldest, newer].into_iter().filter_map(from_end).any(|place| at(tail, place, raid)) {
        return Some("a member of a Linux RAID");
    }
    from_end(512).is_some_and(|place| at(tail, place, b"conectix")).then_some("a VHD disk image")
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

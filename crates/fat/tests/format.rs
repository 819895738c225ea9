//! New volumes, checked by dosfstools and mtools.

use crate::judges::{ImageFile, fsck, run};
use platter_device::{Device, Immediate, MemoryDevice, Queue, Sectors};
use platter_fat::Fat;
use platter_fat::layout::{BootSector, FatKind, Geometry};
use platter_vfs::{Error, Format, FormatOptions, Silent};
use std::collections::BTreeMap;
use std::sync::Mutex;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

fn geometry(device: &dyn Device) -> Geometry {
    let mut sector = vec![0; device.sectors().logical as usize];
    device.read_at(0, &mut sector).unwrap();
    BootSector::from_bytes(sector[..512].try_into().unwrap()).geometry(device.len()).unwrap()
}

/// Makes a volume and has it checked. `None` if the parameters do not fit together.
fn judged(format: Fat, length: u64, sector: u32, cluster: Option<u64>) -> Option<Geometry> {
    let sectors = Sectors { logical: sector, physical: sector.max(4096) };
    let device = MemoryDevice::new(length, sectors);
    let what = format!("{} of {length} bytes, {sector}-byte sectors, cluster {cluster:?}", format.name());
    let options = FormatOptions {
        cluster,
        label: Some("Office 1".into()),
        serial: Some(0x8664_ABCD),
        ..FormatOptions::default()
    };
    match format.make(&device, &options, &Silent) {
        Ok(()) => {}
        Err(Error::CannotMake { .. }) => return None,
        Err(error) => panic!("{what}: {error}"),
    }
    let geometry = geometry(&device);
    let recognised = format.recognise(&device).unwrap().unwrap();
    assert_eq!(
        (recognised.format.as_str(), recognised.label.as_deref()),
        (geometry.kind.name(), Some("OFFICE 1"))
    );
    let image = ImageFile::new(&device.to_image());
    let verdict = fsck(&image);
    assert!(verdict.clean, "{what}:\n{}", verdict.output);
    let listing = run("mdir", &["-i", image.path(), "::"]);
    assert!(listing.contains("8664-ABCD"), "{what}:\n{listing}");
    let info = run("minfo", &["-i", image.path(), "::"]);
    assert!(
        info.contains(&format!("cluster size: {} sectors", geometry.cluster_size / sector)),
        "{what}:\n{info}"
    );
    Some(geometry)
}

#[test]
fn a_matrix_of_sizes_sectors_and_clusters_is_clean() {
    let mut made = BTreeMap::new();
    for sector in [512, 1024, 2048, 4096] {
        for length in [160 * KIB, 1440 * KIB, 4 * MIB, 9 * MIB + 512 * 8, 33 * MIB, 70 * MIB, 300 * MIB] {
            // An odd number of sectors, too, so that no size is a round number.
            for length in [length, length - u64::from(sector) * 13] {
                for cluster in [None, Some(512), Some(4096), Some(65_536)] {
                    for format in [Fat::ANY, Fat::FAT12, Fat::FAT16, Fat::FAT32] {
                        if cluster.is_some() && (format == Fat::ANY || length % MIB != 0) {
                            continue;
                        }
                        if let Some(geometry) = judged(format, length, sector, cluster) {
                            *made.entry((format.name(), geometry.kind.name(), sector)).or_insert(0) += 1;
                            if length >= 8192 * u64::from(sector) {
                                let start = geometry.cluster_offset(2);
                                assert!(start.is_multiple_of(u64::from(geometry.cluster_size)));
                                assert!(geometry.fat_offset(0).is_multiple_of(4096));
                            }
                        }
                    }
                }
            }
        }
    }
    // Each kind was made with each sector size.
    for sector in [512, 1024, 2048, 4096] {
        for kind in ["fat12", "fat16", "fat32"] {
            assert!(
                made.keys().any(|&(name, _, size)| name == kind && size == sector),
                "{kind} {sector}: {made:?}"
            );
        }
    }
}

#[test]
fn what_is_left_open_is_chosen_by_size() {
    for (length, kind, cluster) in [
        (1440 * KIB, FatKind::Fat12, 512),
        (4 * MIB, FatKind::Fat12, 1024),
        (16 * MIB, FatKind::Fat16, 1024),
        (64 * MIB, FatKind::Fat16, 2048),
        (511 * MIB, FatKind::Fat16, 8192),
        (512 * MIB, FatKind::Fat32, 4096),
        (8192 * MIB, FatKind::Fat32, 4096),
        (16_384 * MIB, FatKind::Fat32, 8192),
        (65_536 * MIB, FatKind::Fat32, 32_768),
    ] {
        let device = Sparse::new(length, Sectors::SMALL);
        Fat::ANY.make(&device, &FormatOptions::default(), &Silent).unwrap();
        let geometry = geometry(&device);
        assert_eq!((geometry.kind, geometry.cluster_size), (kind, cluster), "{length} bytes");
    }
}

#[test]
fn the_limits_between_the_kinds_are_kept_at_a_distance() {
    // Sizes around both limits, one cluster at a time: every volume that is made stays 16 clusters away from them.
    for (clusters, size) in [(4085_u64, 4096_u64), (65_525, 512)] {
        for step in 0..400 {
            let device = Sparse::new((clusters - 100 + step) * size, Sectors::SMALL);
            let options = FormatOptions { cluster: Some(size), ..FormatOptions::default() };
            if Fat::ANY.make(&device, &options, &Silent).is_ok() {
                let count = geometry(&device).clusters;
                assert!(count.abs_diff(clusters as u32) >= 16, "{count} clusters");
            }
        }
    }
}

/// A device of any size that stores only the sectors that were written.
struct Sparse {
    length: u64,
    sectors: Sectors,
    written: Mutex<BTreeMap<u64, Vec<u8>>>,
}

impl Sparse {
    fn new(length: u64, sectors: Sectors) -> Sparse {
        Sparse { length, sectors, written: Mutex::default() }
    }
}

impl Device for Sparse {
    fn name(&self) -> &str {
        "sparse"
    }
    fn len(&self) -> u64 {
        self.length
    }
    fn sectors(&self) -> Sectors {
        self.sectors
    }
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> platter_device::Result<()> {
        buffer.fill(0);
        let size = self.sectors.logical as usize;
        for (at, sector) in self.written.lock().unwrap().range(offset..offset + buffer.len() as u64) {
            let at = (at - offset) as usize;
            buffer[at..at + size].copy_from_slice(sector);
        }
        Ok(())
    }
    fn write_at(&self, offset: u64, data: &[u8]) -> platter_device::Result<()> {
        let size = self.sectors.logical as usize;
        let mut written = self.written.lock().unwrap();
        for (at, sector) in data.chunks(size).enumerate() {
            written.insert(offset + (at * size) as u64, sector.to_vec());
        }
        Ok(())
    }
    fn flush(&self) -> platter_device::Result<()> {
        Ok(())
    }
    fn discard(&self, _offset: u64, _length: u64) -> platter_device::Result<()> {
        Ok(())
    }
    fn queue(&self, depth: usize) -> platter_device::Result<Box<dyn Queue + '_>> {
        Ok(Box::new(Immediate::new(self, depth)))
    }
}

#[test]
fn the_largest_volumes_stay_sparse() {
    // The largest volumes: 2 TiB less a sector with sectors of 512 bytes, 16 TiB less a sector with sectors of 4,096
    // bytes.
    let largest = u64::from(u32::MAX);
    for (sectors, length) in [(Sectors::SMALL, largest * 512), (Sectors::LARGE, largest * 4096)] {
        let device = Sparse::new(length, sectors);
        let options = FormatOptions { cluster: Some(65_536), ..FormatOptions::default() };
        Fat::FAT32.make(&device, &options, &Silent).unwrap();
        assert!(geometry(&device).clusters > 33_000_000);
        // The root directory's cluster and ten sectors.
        let written = device.written.lock().unwrap().len() * sectors.logical as usize;
        assert!(written <= 65_536 + 10 * sectors.logical as usize, "{written} bytes written");
        let more = Sparse::new(length + u64::from(sectors.logical), sectors);
        assert!(matches!(Fat::FAT32.make(&more, &options, &Silent), Err(Error::CannotMake { .. })));
    }
}

#[test]
fn what_does_not_fit_is_said_with_the_limits() {
    let device = MemoryDevice::new(16 * MIB, Sectors::SMALL);
    let message = |format: Fat, cluster| {
        let options = FormatOptions { cluster, ..FormatOptions::default() };
        format.make(&device, &options, &Silent).unwrap_err().to_string()
    };
    let small = message(Fat::FAT32, None);
    assert!(small.contains("FAT32 has 65541 to") && small.contains("16 MiB"), "{small}");
    let odd = message(Fat::ANY, Some(3000));
    assert!(odd.contains("power of two") && odd.contains("3000"), "{odd}");
    let variant = FormatOptions { variant: Some("fat12".into()), ..FormatOptions::default() };
    assert!(matches!(Fat::FAT32.make(&device, &variant, &Silent), Err(Error::InvalidArgument(_))));
    Fat::ANY.make(&device, &variant, &Silent).unwrap();
    assert_eq!(geometry(&device).kind, FatKind::Fat12);
    let label = FormatOptions { label: Some("a/b".into()), ..FormatOptions::default() };
    assert!(matches!(Fat::ANY.make(&device, &label, &Silent), Err(Error::InvalidName { .. })));
}

#[test]
fn full_overwrites_every_cluster_and_quick_only_structures() {
    let image = vec![0xA5; 20 << 20];
    for full in [false, true] {
        let device = MemoryDevice::from_image(&image, Sectors::SMALL);
        let options = FormatOptions { full, ..FormatOptions::default() };
        Fat::ANY.make(&device, &options, &Silent).unwrap();
        let geometry = geometry(&device);
        let start = geometry.cluster_offset(2) as usize;
        let end = geometry.end_offset() as usize;
        let expected = if full { 0 } else { 0xA5 };
        assert!(device.to_image()[start..end].iter().all(|&byte| byte == expected), "full: {full}");
        assert!(fsck(&ImageFile::new(&device.to_image())).clean);
    }
}

/// A device of the size of a floppy disk gets the boot sector of one, as mformat writes it.
#[test]
fn floppies_have_the_layout_of_their_drives() {
    for kib in [160, 180, 320, 360, 720, 1200, 1440, 2880] {
        let device = MemoryDevice::new(kib * KIB, Sectors::SMALL);
        Fat::ANY.make(&device, &FormatOptions::default(), &Silent).unwrap();
        let ours = device.to_image();
        let image = ImageFile::new(&vec![0; (kib * KIB) as usize]);
        run("mformat", &["-f", &kib.to_string(), "-i", image.path(), "::"]);
        let theirs = image.bytes();
        // From bytes per sector to hidden sectors, and the drive.
        assert_eq!((&ours[11..32], ours[36]), (&theirs[11..32], theirs[36]), "{kib} KiB");
        assert_eq!(ours[512], theirs[512], "{kib} KiB: the media byte in the FAT");
        let fsck = fsck(&ImageFile::new(&ours));
        assert!(fsck.clean, "{kib} KiB: {}", fsck.output);
        assert!(Fat::ANY.check(&device, platter_vfs::CheckOptions::default(), &Silent).unwrap().is_clean());
    }
}

/// The boot sector says where the partition begins, and clusters are aligned by the disk.
#[test]
fn a_partition_records_its_start() {
    let disk = std::sync::Arc::new(MemoryDevice::new(100 * MIB, Sectors::SMALL));
    for (format, start) in [(Fat::FAT16, 63 * 512), (Fat::FAT32, 63 * 512), (Fat::FAT32, MIB)] {
        let part = platter_device::Partition::new(disk.clone(), start, 64 * MIB, "part".into()).unwrap();
        let options = FormatOptions { cluster: Some(2048), ..FormatOptions::default() };
        let options = if start == MIB { FormatOptions { cluster: Some(512), ..options } } else { options };
        let Ok(()) = format.make(&part, &options, &Silent) else { continue };
        let mut sector = [0; 512];
        part.read_at(0, &mut sector).unwrap();
        let boot = BootSector::from_bytes(&sector);
        assert_eq!(u64::from(boot.hidden_sectors), start / 512);
        assert_eq!((start + geometry(&part).cluster_offset(2)) % 4096, 0);
    }
}

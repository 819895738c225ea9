//! New volumes, checked by exfatprogs.

use crate::judges::{ImageFile, fsck, run};
use platter_device::{Device, Immediate, MemoryDevice, Queue, Sectors};
use platter_exfat::Exfat;
use platter_exfat::layout::{BootSector, Geometry};
use platter_vfs::{CheckOptions, Error, Format, FormatOptions, Silent};
use std::sync::Mutex;

const MIB: u64 = 1 << 20;

fn geometry(device: &dyn Device) -> Geometry {
    let mut sector = vec![0; device.sectors().logical as usize];
    device.read_at(0, &mut sector).unwrap();
    BootSector::from_bytes(sector[..512].try_into().unwrap()).geometry(device.len()).unwrap()
}

fn make(length: u64, sector: u32, options: &FormatOptions) -> Result<MemoryDevice, Error> {
    let device = MemoryDevice::new(length, Sectors { logical: sector, physical: sector.max(4096) });
    Exfat.make(&device, options, &Silent).map(|()| device)
}

#[test]
fn a_matrix_of_sizes_sectors_and_clusters_is_clean() {
    let mut made = 0;
    for sector in [512, 4096] {
        for length in [MIB, 7 * MIB + 512 * 9, 65 * MIB, 260 * MIB] {
            for cluster in [None, Some(512), Some(4096), Some(128 << 10), Some(32 << 20)] {
                let label = Some("Büro 1".into());
                let options =
                    FormatOptions { cluster, label, serial: Some(0x8664_ABCD), ..Default::default() };
                let what = format!("{length} bytes, {sector}-byte sectors, cluster {cluster:?}");
                let device = match make(length, sector, &options) {
                    Ok(device) => device,
                    Err(Error::CannotMake { .. }) => continue,
                    Err(error) => panic!("{what}: {error}"),
                };
                made += 1;
                let geometry = geometry(&device);
                assert!(cluster.is_none_or(|cluster| cluster == geometry.heap.cluster_size()), "{what}");
                assert_eq!(Exfat.recognise(&device).unwrap().unwrap().label.as_deref(), Some("Büro 1"));
                let report = Exfat.check(&device, CheckOptions::default(), &Silent).unwrap();
                assert_eq!(report.found, 0, "{what}: {:?}", report.findings);
                let image = ImageFile::of(&device);
                let verdict = fsck(&image);
                assert!(verdict.clean, "{what}:\n{}", verdict.output);
                let dump = run("dump.exfat", &[image.path()]);
                assert!(dump.contains("0x8664abcd") && dump.contains("Büro 1"), "{what}:\n{dump}");
            }
        }
    }
    assert!(made > 20, "{made} volumes");
}

#[test]
fn clusters_are_as_windows_chooses_them_and_aligned() {
    for (length, cluster) in
        [(255 * MIB, 4 << 10), (257 * MIB, 32 << 10), (33 << 30, 128 << 10), (100 << 40, 128 << 10)]
    {
        let device = make(length, 512, &FormatOptions::default()).unwrap();
        let geometry = geometry(&device);
        assert_eq!(geometry.heap.cluster_size(), cluster, "{length}");
        assert_eq!((geometry.heap.start % MIB, geometry.fat_start % MIB), (0, 0), "{length}");
    }
    let options = FormatOptions { align: Some(16 * MIB), ..FormatOptions::default() };
    let device = make(64 << 30, 512, &options).unwrap();
    let geometry = geometry(&device);
    assert_eq!((geometry.fat_start, geometry.heap.start), (16 * MIB, 32 * MIB));
}

#[test]
fn what_does_not_fit_is_refused_with_what_would() {
    let refused = |length, options: FormatOptions| match make(length, 512, &options) {
        Err(Error::CannotMake { reason, .. }) => reason,
        other => panic!("{:?}", other.map(|_| ())),
    };
    assert!(refused(MIB / 2, FormatOptions::default()).contains("1 MiB"));
    assert!(
        refused(64 * MIB, FormatOptions { cluster: Some(5000), ..Default::default() }).contains("32 MiB")
    );
    assert!(
        refused(64 * MIB, FormatOptions { cluster: Some(32 * MIB), ..Default::default() })
            .contains("no room")
    );
    assert!(
        refused(64 * MIB, FormatOptions { align: Some(3000), ..Default::default() }).contains("power of two")
    );
    let label = Some("twelve units".into());
    let error = make(64 * MIB, 512, &FormatOptions { label, ..Default::default() }).map(|_| ());
    assert!(matches!(error, Err(Error::InvalidName { .. })));
    let options = FormatOptions { variant: Some("2".into()), ..Default::default() };
    assert!(matches!(make(64 * MIB, 512, &options), Err(Error::Unsupported { .. })));
}

#[test]
fn a_full_format_overwrites_every_cluster() {
    let device = MemoryDevice::from_image(&vec![0xAA; 4 << 20], Sectors::SMALL);
    Exfat.make(&device, &FormatOptions { full: true, ..Default::default() }, &Silent).unwrap();
    let image = device.to_image();
    let geometry = geometry(&device);
    let end = (geometry.heap.start + (u64::from(geometry.heap.count) << geometry.heap.shift)) as usize;
    let free = geometry.heap.offset(geometry.root_cluster + 1) as usize;
    assert!(image[free..end].iter().all(|&byte| byte == 0));
    assert!(fsck(&ImageFile::new(&image)).clean);
}

/// A device that records the offsets of its writes.
struct Noted<'d> {
    device: &'d MemoryDevice,
    writes: Mutex<Vec<u64>>,
}

impl Device for Noted<'_> {
    fn name(&self) -> &str {
        "noted"
    }
    fn len(&self) -> u64 {
        self.device.len()
    }
    fn sectors(&self) -> Sectors {
        self.device.sectors()
    }
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> platter_device::Result<()> {
        self.device.read_at(offset, buffer)
    }
    fn write_at(&self, offset: u64, data: &[u8]) -> platter_device::Result<()> {
        self.writes.lock().unwrap().push(offset);
        self.device.write_at(offset, data)
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
fn the_boot_sector_is_cleared_first_and_written_last() {
    let device = MemoryDevice::from_image(&vec![0xAA; 4 << 20], Sectors::SMALL);
    let noted = Noted { device: &device, writes: Mutex::default() };
    Exfat.make(&noted, &FormatOptions::default(), &Silent).unwrap();
    let writes = noted.writes.into_inner().unwrap();
    assert_eq!((writes.first(), writes.last()), (Some(&0), Some(&0)));
}

/// The boot sector says where the partition begins, and FAT and clusters are aligned by the disk.
#[test]
fn a_partition_records_its_start() {
    let disk = std::sync::Arc::new(MemoryDevice::new(256 * MIB, Sectors::SMALL));
    for (start, align) in [(63 * 512, None), (MIB, Some(16 * MIB)), (5 * MIB, None)] {
        let part = platter_device::Partition::new(disk.clone(), start, 128 * MIB, "part".into()).unwrap();
        let options = FormatOptions { align, ..FormatOptions::default() };
        Exfat.make(&part, &options, &Silent).unwrap();
        let mut sector = [0; 512];
        part.read_at(0, &mut sector).unwrap();
        let boot = platter_exfat::layout::BootSector::from_bytes(&sector);
        assert_eq!(boot.partition_offset, start / 512);
        let geometry = boot.geometry(part.len()).unwrap();
        let align = align.unwrap_or(MIB);
        assert_eq!([geometry.fat_start, geometry.heap.start].map(|at| (start + at) % align), [0, 0]);
        assert!(Exfat.check(&part, platter_vfs::CheckOptions::default(), &Silent).unwrap().is_clean());
    }
}

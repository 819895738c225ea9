//! Volumes that ntfsresize made smaller, and boot sectors that say another size.
//!
//! ntfsresize writes no copy of the new boot sector, and the copy of the former one stays in the last sector of the
//! device.

use crate::common::{USUAL, check_clean};
use crate::filled::filled;
use crate::judges::{ImageFile, Mount, output, text};
use platter_device::{Device, FileDevice, FileOptions, MemoryDevice, Sectors};
use platter_ntfs::check::check;
use platter_ntfs::layout::{BootSector, Geometry};
use platter_testing::model::Random;
use platter_vfs::{CheckOptions, CheckReport, Silent};
use std::io::Write;
use std::process::{Command, Stdio};

fn geometry(image: &[u8]) -> Geometry {
    BootSector::from_bytes(image).unwrap().geometry(image.len() as u64).unwrap()
}

fn codes(report: &CheckReport) -> Vec<&str> {
    report.findings.iter().map(|finding| finding.code).collect()
}

/// Makes the volume smaller. ntfsresize asks whether to go on.
fn shrink(image: &ImageFile, megabytes: u64) {
    let mut command = Command::new("ntfsresize");
    command.args(["-f", "-s", &format!("{megabytes}M"), image.path()]).stdin(Stdio::piped());
    let mut child = command.stdout(Stdio::null()).spawn().expect("ntfsresize (from ntfs-3g) runs");
    child.stdin.take().unwrap().write_all(b"y\n").unwrap();
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_volume_that_was_made_smaller_stays_smaller() {
    for cluster in [512, 4096] {
        let image = filled(64 << 20, cluster, 100);
        let former = geometry(&image.bytes());
        let before = Mount::reading(&image).unwrap().tree();
        shrink(&image, 30);
        let small = geometry(&image.bytes());
        assert!(small.length < former.length / 2);

        let device = FileDevice::open(image.path(), FileOptions::default()).unwrap();
        let report = check(&device, CheckOptions::default(), &Silent).unwrap();
        // Both are so: the new boot sector has no copy, and ntfsresize marks the volume as to be checked.
        assert_eq!(codes(&report), ["boot-copy", "dirty"], "{:#?}", report.findings);
        let report = check(&device, CheckOptions { repair: true }, &Silent).unwrap();
        assert_eq!(codes(&report), ["boot-copy", "dirty"], "{:#?}", report.findings);
        assert_eq!((report.exit_code(), report.total_clusters), (1, small.clusters));
        assert_eq!(check(&device, CheckOptions::default(), &Silent).unwrap().found, 0);
        assert_eq!(geometry(&image.bytes()), small);
        drop(device);
        assert!(Mount::reading(&image).unwrap().tree() == before);

        // The partition is made smaller too. The volume ends with the copy of its boot sector.
        let mut bytes = image.bytes();
        bytes.truncate((small.length as usize + 512).next_multiple_of(4096));
        let device = MemoryDevice::from_image(&bytes, Sectors::SMALL);
        check_clean(&device).unwrap();
        let image = ImageFile::new(&bytes);
        assert!(Mount::writing(&image).unwrap().tree() == before);
        let told = text(&output("ntfsresize", &["-i", "-f", image.path()]));
        assert!(told.contains("Current volume size"), "{told}");
    }
}

/// A boot sector whose size is damaged is restored from its copy: the system files have as many clusters as the copy
/// says.
#[test]
fn a_size_that_no_system_file_has_is_not_believed() {
    let sound = USUAL.make().to_image();
    let boot = BootSector::from_bytes(&sound).unwrap();
    let mut random = Random::new(8664);
    for round in 0..30 {
        // Most of the values are far from the right one, some are within its last cluster.
        let less = 1 + random.below(if round % 3 == 0 { 16 } else { boot.sectors * 9 / 10 });
        let damaged = BootSector { sectors: boot.sectors - less, ..boot.clone() };
        let mut image = sound.clone();
        image[..512].copy_from_slice(&damaged.to_bytes());
        let device = MemoryDevice::from_image(&image, Sectors::SMALL);
        let report = check(&device, CheckOptions { repair: true }, &Silent).unwrap();
        assert_eq!(codes(&report), ["boot"], "{less} sectors less: {:#?}", report.findings);
        let mut found = vec![0; 512];
        device.read_at(0, &mut found).unwrap();
        assert!(found == boot.to_bytes(), "{less} sectors less");
    }
}

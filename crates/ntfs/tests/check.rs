//! The check: volumes that others wrote are clean to it; what it repairs is accepted by them.

mod filled;
mod judges;

use filled::filled;
use platter_device::{Device, FileDevice, FileOptions, MemoryDevice, Partition, Sectors};
use platter_ntfs::check::check;
use platter_vfs::{CheckOptions, CheckReport, Silent};
use std::sync::Arc;

fn told(report: &CheckReport) -> String {
    report.findings.iter().map(|finding| format!("  {:?} {finding}\n", finding.severity)).collect()
}

/// The image of `tests/data`.
fn windows() -> Partition {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/windows-10.raw.gz");
    let output = judges::output("gzip", &["-dc", path]);
    assert!(output.status.success(), "{}", judges::text(&output));
    let disk: Arc<dyn Device> = Arc::new(MemoryDevice::from_image(&output.stdout, Sectors::SMALL));
    // As its partition table says.
    Partition::new(disk, 128 * 512, 518_144 * 512, "windows-10".into()).unwrap()
}

#[test]
fn what_windows_writes_is_clean() {
    let report = check(&windows(), CheckOptions::default(), &Silent).unwrap();
    assert_eq!(report.found, 0, "{}", told(&report));
    assert_eq!((report.files, report.directories), (26, 10));
}

#[test]
fn what_ntfs_3g_writes_is_clean() {
    for cluster in [512, 4096, 65536] {
        let image = filled(96 << 20, cluster, 1500);
        let device = FileDevice::open(image.path(), FileOptions::default()).unwrap();
        let report = check(&device, CheckOptions::default(), &Silent).unwrap();
        assert_eq!(report.found, 0, "clusters of {cluster}:\n{}", told(&report));
        assert!(report.files > 1000 && report.directories > 12, "{report:?}");
    }
}

//! The check finds nothing on volumes that Windows and ntfs-3g wrote.

mod filled;
mod judges;

use filled::filled;
use platter_device::{FileDevice, FileOptions};
use platter_ntfs::check::check;
use platter_vfs::{CheckOptions, CheckReport, Silent};

fn told(report: &CheckReport) -> String {
    report.findings.iter().map(|finding| format!("  {:?} {finding}\n", finding.severity)).collect()
}

#[test]
fn what_windows_writes_is_clean() {
    let report = check(&judges::windows(), CheckOptions::default(), &Silent).unwrap();
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

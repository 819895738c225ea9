//! The cost of I/O in counts: device requests and allocations. Nothing is timed, except in the campaign.

use platter_device::{MemoryDevice, Sectors};
use platter_exfat::Exfat;
use platter_testing::conformance;
use platter_testing::model::{Counted, counts};
use platter_vfs::{Change, CheckOptions, Format, FormatOptions, Kind, Name, Node, OpenOptions, Silent};
use std::sync::Arc;

conformance!(cost in place: Exfat);

#[test]
fn a_file_in_one_piece_costs_no_fat_and_a_larger_size_no_content() {
    let counted = Counted::new(&Exfat);
    let node = counted.file(4096);
    // A quarter of a gigabyte is allocated; only the bits of its clusters and the file's entry are written.
    let size = Some(256 << 20);
    let seen = counted.seen(|| {
        counted.volume.set_attributes(node, &Change { size, ..Change::default() }).unwrap();
        counted.volume.sync_all().unwrap();
    });
    let bits = (256 << 20) / 4096 / 8;
    assert!(seen.write.bytes <= bits + 3 * 512, "{:?}", counts(&seen));
    assert!(seen.write.count <= 3 && seen.flushes <= 3, "{:?}", counts(&seen));
}

/// Checks a directory with `most` long names, or with as many as fit.
fn check_directory(most: u64) -> u64 {
    let device = Arc::new(MemoryDevice::new(512 << 20, Sectors::SMALL));
    let options = FormatOptions { cluster: Some(32768), ..FormatOptions::default() };
    Exfat.make(&*device, &options, &Silent).unwrap();
    let system = Exfat.open(device.clone(), OpenOptions::default()).unwrap();
    let mut count = 0;
    while count < most {
        let name = format!("{count:06}{}", "n".repeat(249));
        match system.create(Node::ROOT, &Name::from(name.as_str()), Kind::File) {
            Ok(node) => system.forget(node, 1),
            Err(error) if error.is_full() => break,
            Err(error) => panic!("{error}"),
        }
        count += 1;
    }
    system.unmount().unwrap();
    let report = Exfat.check(&*device, CheckOptions::default(), &Silent).unwrap();
    assert!(report.is_clean(), "{:?}", report.findings);
    assert_eq!(report.files, count);
    count
}

/// The check must look at every name only a few times, not once for every other name, which took minutes.
#[test]
fn a_large_directory_is_checked() {
    check_directory(64_000);
}

#[test]
#[ignore = "takes some ten seconds; it never ended when every name was looked at for every other"]
fn the_largest_directory_is_checked() {
    assert!(check_directory(u64::MAX) > 430_000);
}

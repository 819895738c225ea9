//! New volumes, judged by other implementations.

use crate::judges::readers::{self, Tree};
use crate::judges::{ImageFile, Mount, ntfsfix, run};
use platter_device::{MemoryDevice, Sectors};
use platter_vfs::{CheckOptions, Error, FormatOptions, Silent};

const MIB: u64 = 1 << 20;

fn make(length: u64, sector: u32, options: &FormatOptions) -> Result<MemoryDevice, Error> {
    let device = MemoryDevice::new(length, Sectors { logical: sector, physical: sector });
    platter_ntfs::format::make(&device, options, &Silent).map(|()| device)
}

#[test]
fn a_matrix_of_sizes_sectors_clusters_and_records_is_accepted() {
    let mut made = 0;
    for (sector, length, cluster) in [
        (512, 2 * MIB, 512),
        (512, 2 * MIB, 1024),
        (512, 7 * MIB + 73_728, 4096),
        (512, 65 * MIB, 512),
        (512, 65 * MIB, 65536),
        (512, 260 * MIB, 2048),
        (512, 260 * MIB, 128 << 10),
        (512, 260 * MIB, 2 << 20),
        (4096, 7 * MIB, 4096),
        (4096, 65 * MIB, 65536),
        (4096, 260 * MIB, 2 << 20),
    ] {
        for record in [None, Some(4096)] {
            let what =
                format!("{length} bytes, sectors of {sector}, clusters of {cluster}, records of {record:?}");
            let options = FormatOptions {
                cluster: Some(cluster),
                label: Some("Büro 1".into()),
                record,
                ..FormatOptions::default()
            };
            let device = make(length, sector, &options).unwrap_or_else(|error| panic!("{what}: {error}"));
            made += 1;
            let report = platter_ntfs::check::check(&device, CheckOptions::default(), &Silent).unwrap();
            assert_eq!(report.found, 0, "{what}: {:#?}", report.findings);
            let image = ImageFile::of(&device);
            let verdict = ntfsfix(&image);
            assert!(
                verdict.clean && verdict.output.contains("processed successfully"),
                "{what}: {}",
                verdict.output
            );
            assert!(run("ntfsinfo", &["-m", image.path()]).contains("Büro 1"), "{what}");
            assert_eq!(readers::ntfs_3g(&image, &Tree::new()), Tree::new(), "{what}");
            // fsstat knows no clusters of more than 64 KiB, and takes the sector of an image file to be 512 bytes.
            if cluster <= 65536 && sector == 512 {
                assert!(run("fsstat", &["-f", "ntfs", image.path()]).contains("Büro 1"), "{what}");
            }
            assert_eq!(readers::libfsntfs(&image), Tree::new(), "{what}");
            assert_eq!(readers::dissect(&image), Tree::new(), "{what}");
            assert_eq!(readers::ntfs_crate(&image), Tree::new(), "{what}");
        }
    }
    assert_eq!(made, 22);
}

fn write_by_others(cluster: u64, record: u64) {
    let options = FormatOptions { cluster: Some(cluster), record: Some(record), ..FormatOptions::default() };
    let device = make(128 * MIB, 512, &options).unwrap();
    let image = ImageFile::of(&device);
    let script = "mkdir one two && for n in $(seq 300); do echo $n > one/$n; done && \
         dd if=/dev/zero of=two/large bs=1M count=20 2> /dev/null && rm one/1* && mv one/2 two/ && echo done";
    let judged = platter_testing::model::linux("ntfs3", "rw", &image, script);
    assert_eq!(judged.output.as_deref().map(str::trim), Some("done"), "{}", judged.messages);
    assert!(judged.unmounted, "{}", judged.messages);
    readers::assert_silent(&judged.messages);
    {
        let mount = Mount::writing(&image).unwrap();
        mount.script(
            "mkdir three; for n in $(seq 300); do echo $n > three/$n; done; rm three/2*; rm two/large",
        );
    }
    let device = MemoryDevice::from_image(&image.bytes(), Sectors::SMALL);
    let report = platter_ntfs::check::check(&device, CheckOptions::default(), &Silent).unwrap();
    assert_eq!(report.found, 0, "clusters of {cluster}: {:#?}", report.findings);
}

#[test]
fn linux_writes_to_a_new_volume_and_ntfs_3g_too() {
    write_by_others(65536, 4096);
}

/// Volumes with clusters and records of other sizes.
#[test]
#[ignore = "a campaign: starts Linux twice"]
fn linux_writes_to_other_new_volumes_and_ntfs_3g_too() {
    write_by_others(4096, 1024);
    write_by_others(512, 1024);
}

#[test]
fn what_does_not_fit_is_refused_with_what_would() {
    let refused = |length, options: FormatOptions| match make(length, 512, &options) {
        Err(Error::CannotMake { reason, .. }) => reason,
        other => panic!("{:?}", other.map(|_| ())),
    };
    assert!(refused(MIB / 2, FormatOptions::default()).contains("1 MiB"));
    let cluster = |cluster| FormatOptions { cluster: Some(cluster), ..FormatOptions::default() };
    assert!(refused(64 * MIB, cluster(4 << 20)).contains("2 MiB"));
    assert!(refused(64 * MIB, cluster(3000)).contains("power of two"));
    assert!(refused(8 * MIB, cluster(2 << 20)).contains("no room"));
    let record = FormatOptions { record: Some(2048), ..FormatOptions::default() };
    assert!(refused(64 * MIB, record).contains("4 KiB"));
    let label = FormatOptions { label: Some("x".repeat(33)), ..FormatOptions::default() };
    assert!(matches!(make(64 * MIB, 512, &label), Err(Error::InvalidName { .. })));
}

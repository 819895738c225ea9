//! New volumes, judged by others.

use platter_device::{MemoryDevice, Sectors};
use platter_vfs::model::ImageFile;
use platter_vfs::{Error, FormatOptions, Silent};
use std::process::Command;

const MIB: u64 = 1 << 20;

fn make(length: u64, sector: u32, options: &FormatOptions) -> Result<MemoryDevice, Error> {
    let device = MemoryDevice::new(length, Sectors { logical: sector, physical: sector });
    platter_ntfs::format::make(&device, options, &Silent).map(|()| device)
}

fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).env("LC_ALL", "C.UTF-8").output();
    let output = output.unwrap_or_else(|error| panic!("{program} cannot be run: {error}"));
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {text}");
    text
}

#[test]
fn a_matrix_of_sizes_sectors_and_clusters_is_accepted() {
    let mut made = 0;
    for sector in [512, 4096] {
        for (length, clusters) in [
            (2 * MIB, &[512, 1024][..]),
            (7 * MIB + 8192 * 9, &[512, 4096]),
            (65 * MIB, &[512, 4096, 65536]),
            (260 * MIB, &[2048, 128 << 10, 2 << 20]),
        ] {
            for &cluster in clusters {
                for record in [None, Some(4096)] {
                    let options = FormatOptions {
                        cluster: Some(cluster),
                        label: Some("Büro 1".into()),
                        record,
                        ..FormatOptions::default()
                    };
                    let what = format!(
                        "{length} bytes, sectors of {sector}, clusters of {cluster}, records of {record:?}"
                    );
                    let device = match make(length, sector, &options) {
                        Ok(device) => device,
                        Err(Error::CannotMake { reason, .. }) => {
                            println!("{what}: {reason}");
                            continue;
                        }
                        Err(error) => panic!("{what}: {error}"),
                    };
                    made += 1;
                    let image = ImageFile::of(&device);
                    println!("{what}");
                    let text = run("ntfsfix", &["-n", image.path()]);
                    assert!(text.contains("processed successfully"), "{what}: {text}");
                    let text = run("ntfsinfo", &["-m", image.path()]);
                    assert!(text.contains("Büro 1") || sector > 512, "{what}: {text}");
                }
            }
        }
    }
    assert!(made > 10, "{made}");
}

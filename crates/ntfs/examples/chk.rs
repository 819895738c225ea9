use platter_device::*;
use platter_vfs::*;
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let image = std::fs::read(&args[1]).unwrap();
    let device = MemoryDevice::from_image(&image, Sectors::SMALL);
    let repair = args.len() > 2;
    let start = std::time::Instant::now();
    let report = platter_ntfs::check::check(&device, CheckOptions { repair }, &Silent).unwrap();
    for f in report.findings.iter().take(60) {
        println!("{:?} {f}", f.severity);
    }
    println!(
        "files {} dirs {} used {}/{} found {} remaining {:?} {:?}",
        report.files,
        report.directories,
        report.used_clusters,
        report.total_clusters,
        report.found,
        report.remaining,
        start.elapsed()
    );
    if repair {
        std::fs::write(&args[2], device.to_image()).unwrap();
        let r = platter_ntfs::check::check(&device, CheckOptions { repair: false }, &Silent).unwrap();
        println!("again: {:?}", r.findings);
    }
}

use platter_device::*;
use platter_vfs::Format;
fn main() {
    let path = std::env::args().nth(1).unwrap();
    let size = parse_size(&std::env::args().nth(2).unwrap()).unwrap();
    let cluster = std::env::args().nth(3).map(|c| parse_size(&c).unwrap());
    let checksum = std::env::args().nth(4);
    let _ = std::fs::remove_file(&path);
    std::fs::File::create(&path).unwrap().set_len(size).unwrap();
    let device = FileDevice::open(&path, FileOptions::default()).unwrap();
    let options = platter_vfs::FormatOptions {
        cluster,
        checksum,
        label: Some("First light".into()),
        ..Default::default()
    };
    platter_refs::Refs::ANY.make(&device, &options, &platter_vfs::Silent).unwrap();
}

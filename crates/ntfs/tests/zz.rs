mod common;
use common::*;
use platter_vfs::*;
use std::sync::Arc;
#[test]
fn zz() {
    let device = USUAL.make();
    check_clean(&*device).unwrap();
    let v = open(device.clone());
    let d = v.create(Node::ROOT, &"hidden".into(), Kind::Directory).unwrap();
    let f = v.create(d, &"f".into(), Kind::File).unwrap();
    v.unlink(d, &"f".into()).unwrap();
    if false {}
    println!("{:?}", v.write(f, 100, &[7; 3790]));
    println!("{:?}", v.extents(f));
    v.forget(f, 1);
    v.forget(d, 1);
    println!("{:?}", v.info());
    println!("{:?}", v.unmount());
    println!("{:?}", v.info());
    println!("{:?}", check_clean(&*device));
    use platter_device::Device;
    let mut a = vec![0; 1024]; let mut b = vec![0; 1024];
    device.read_at(12288, &mut a).unwrap();
    device.read_at(16773120, &mut b).unwrap();
    for i in 0..1024 { if a[i] != b[i] { print!("{i:x}: {:x} {:x}; ", a[i], b[i]); } }
    device.read_at(12288+27*1024, &mut a).unwrap();
    println!("{:x?}", &a[..64]);
}

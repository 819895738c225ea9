//! What a container costs: random transfers of 4 KiB at depth 32, beside a plain file in the same run.

use crate::common::{Folder, Random};
use platter_device::{Buffer, Device, FileDevice, FileOptions, Kind, Request, Segment};
use platter_images::{Container, MakeOptions, make};
use std::time::Instant;

const SIZE: u64 = 1 << 30;

/// Transfers per second.
fn rate(device: &dyn Device, kind: Kind, count: u64, span: u64, seed: u64) -> f64 {
    let mut random = Random(seed);
    let mut queue = device.queue(32).unwrap();
    let (mut sent, mut done) = (0, Vec::new());
    let mut request = |buffer: Buffer| {
        let segment = Segment { offset: random.below(span >> 12) << 12, at: 0, length: 4096 };
        Request { tag: 0, kind, durable: false, segments: [segment].into_iter().collect(), buffer }
    };
    let start = Instant::now();
    for _ in 0..32 {
        queue.submit(request(Buffer::new(4096)));
        sent += 1;
    }
    while queue.in_flight() > 0 {
        queue.wait(1, &mut done).unwrap();
        for completion in done.drain(..) {
            completion.result.unwrap();
            if sent < count {
                queue.submit(request(completion.buffer));
                sent += 1;
            }
        }
    }
    count as f64 / start.elapsed().as_secs_f64()
}

#[test]
#[ignore = "prints figures"]
fn ratio_to_a_plain_file() {
    let folder = Folder::new("speed");
    for container in [Container::Vhdx, Container::Vhd, Container::Qcow2] {
        let mut ratios: [Vec<f64>; 3] = Default::default();
        for round in 0..5 {
            let (plain, image) = (folder.path("plain"), folder.path("image"));
            make(&image, &MakeOptions::new(container, SIZE)).unwrap();
            let image_device = platter_images::open(&image, FileOptions::default()).unwrap().device;
            let plain_device = FileDevice::create(&plain, SIZE, FileOptions::default()).unwrap();
            let first = |device: &dyn Device| {
                let start = Instant::now();
                rate(device, Kind::Write, 20_000, SIZE, round);
                device.flush().unwrap();
                20_000.0 / start.elapsed().as_secs_f64()
            };
            let (one, two) = match round % 2 {
                0 => (first(&*image_device), first(&plain_device)),
                _ => {
                    let two = first(&plain_device);
                    (first(&*image_device), two)
                }
            };
            ratios[0].push(one / two);
            // Allocated, and in the order of the disk, as what is copied to it is.
            for at in (0..SIZE).step_by(1 << 20) {
                for device in [&*image_device, &plain_device as &dyn Device] {
                    device.write_at(at, &vec![0x5A; 1 << 20]).unwrap();
                }
            }
            image_device.flush().unwrap();
            plain_device.flush().unwrap();
            for (at, kind) in [(1, Kind::Write), (2, Kind::Read)] {
                // Turns, so that both see the same neighbours.
                let (mut one, mut two) = (0.0, 0.0);
                for turn in 0..6 {
                    one += rate(&*image_device, kind, 20_000, SIZE, turn).recip();
                    two += rate(&plain_device, kind, 20_000, SIZE, turn).recip();
                }
                ratios[at].push(two / one);
            }
            drop((image_device, plain_device));
            std::fs::remove_file(plain).unwrap();
            std::fs::remove_file(image).unwrap();
        }
        for (what, ratios) in ["first writes and a flush", "writes", "reads"].iter().zip(&mut ratios) {
            ratios.sort_by(f64::total_cmp);
            println!(
                "{container:?}, {what}: {:.2} of a plain file ({:.2} to {:.2} in five rounds)",
                ratios[2], ratios[0], ratios[4]
            );
        }
    }
}

/// Evidence is read by decompressing a chunk for each transfer, or by checking it where it is not compressed.
#[test]
#[ignore = "prints figures"]
fn ratio_of_evidence_to_a_plain_file() {
    const SPAN: u64 = 256 << 20;
    let folder = Folder::new("speed-evidence");
    let plain = folder.path("plain");
    let device = FileDevice::create(&plain, SPAN, FileOptions::default()).unwrap();
    let mut random = Random(59);
    for at in (0..SPAN).step_by(1 << 20) {
        let piece: Vec<u8> = (0..1 << 17).flat_map(|_| random.below(u64::MAX).to_le_bytes()).collect();
        device.write_at(at, &piece).unwrap();
    }
    device.flush().unwrap();
    let target = folder.path("e").display().to_string();
    let acquired = std::process::Command::new("ewfacquire")
        .args(["-u", "-q", "-c", "none", "-S", "1900M", "-t", &target])
        .arg(&plain)
        .output()
        .unwrap();
    assert!(acquired.status.success(), "{acquired:?}");
    let image = platter_images::open(&folder.path("e.E01"), FileOptions::default());
    let image = image.unwrap().device;
    let mut ratios: Vec<f64> = (0..5)
        .map(|_| {
            let (mut one, mut two) = (0.0, 0.0);
            for turn in 0..6 {
                one += rate(&*image, Kind::Read, 4_000, SPAN, turn).recip();
                two += rate(&device, Kind::Read, 4_000, SPAN, turn).recip();
            }
            two / one
        })
        .collect();
    ratios.sort_by(f64::total_cmp);
    println!(
        "E01, reads: {:.2} of a plain file ({:.2} to {:.2} in five rounds)",
        ratios[2], ratios[0], ratios[4]
    );
}

//! Reading and writing by every call.

use crate::common::{LAYOUTS, MIB, expected, made, making, open};
use platter_bitlocker::{Layout, Method};
use platter_device::{Buffer, Device, Error, Kind, Request, Segment, Segments};
use smallvec::smallvec;

fn whole(device: &dyn Device) -> Vec<u8> {
    let mut bytes = vec![0; device.len() as usize];
    device.read_at(0, &mut bytes).unwrap();
    bytes
}

#[test]
fn every_layout_and_method_shows_what_was_encrypted() {
    for layout in LAYOUTS {
        for method in Method::ALL {
            let making = making(layout, method);
            let (device, file) = made(&making, 8 * MIB);
            let raw = whole(&*device);
            let volume = open(device, &file.unwrap());
            let expected = expected(&making, 8 * MIB);
            assert!(whole(&volume) == expected, "{layout} {method}");
            // Nothing of it is there in clear, but what Vista leaves so.
            let is_same = |(one, two): &(&[u8], &[u8])| one == two && one.iter().any(|&byte| byte != 0);
            let same = raw.chunks(512).zip(expected.chunks(512)).filter(is_same).count();
            assert_eq!(same, if layout == Layout::Vista { 15 } else { 0 }, "{layout} {method}");
        }
    }
}

#[test]
fn sectors_of_4096_bytes_are_units_of_encryption() {
    for method in Method::ALL {
        let making = platter_bitlocker::making::Making { sector: 4096, ..making(Layout::Seven, method) };
        let (device, file) = made(&making, 8 * MIB);
        let volume = open(device, &file.unwrap());
        assert_eq!(volume.sectors().logical, 4096);
        assert!(whole(&volume) == expected(&making, 8 * MIB), "{method}");
        assert!(volume.read_at(512, &mut [0; 512]).is_err());
    }
}

/// Every way to write is read back by every way to read, and the device below has it in the same places.
#[test]
fn every_way_in_is_encrypted() {
    for layout in LAYOUTS {
        let making = making(layout, Method::Xts128);
        let (device, file) = made(&making, 8 * MIB);
        let file = file.unwrap();
        let volume = open(device.clone(), &file);
        let mut model = expected(&making, 8 * MIB);
        let mut put = |offset: u64, data: &[u8]| {
            model[offset as usize..][..data.len()].copy_from_slice(data);
        };
        let [one, two, three, four] = [1, 2, 3, 4].map(|fill| vec![fill; 4096]);
        volume.write_at(MIB, &one).unwrap();
        put(MIB, &one);
        // From the first sectors into those that are where they belong.
        volume.write_batch(&[(8192 - 512, &two), (5 * MIB, &three)]).unwrap();
        put(8192 - 512, &two);
        put(5 * MIB, &three);
        let large = vec![5; 3 << 19];
        volume.write_batch(&[(7 * MIB - MIB / 2, &large)]).unwrap();
        put(7 * MIB - MIB / 2, &large);
        volume.repair_copy(0, 16384, &three).unwrap();
        put(16384, &three);
        let mut queue = volume.queue(4).unwrap();
        let segments: Segments = smallvec![
            Segment { offset: 32768, at: 0, length: 2048 },
            Segment { offset: 4096, at: 2048, length: 2048 }
        ];
        let buffer = Buffer::from(&four[..]);
        queue.submit(Request { tag: 9, kind: Kind::Write, durable: true, segments, buffer });
        let mut done = Vec::new();
        queue.wait(1, &mut done).unwrap();
        assert_eq!((done[0].tag, &done[0].buffer[..]), (9, &four[..]), "the caller has its content back");
        done[0].result.as_ref().unwrap();
        put(32768, &four[..2048]);
        put(4096, &four[..2048]);
        assert!(whole(&volume) == model, "{layout}");
        // Reads that reach across regions, by batch and by queue.
        let own = 2 * MIB - 1024;
        let (mut batch, mut copy) = (vec![1; 32 << 10], vec![1; 32 << 10]);
        volume.read_batch(&mut [(own, &mut batch), (0, &mut copy)]).unwrap();
        assert!(batch == model[own as usize..][..32 << 10] && copy == model[..32 << 10]);
        volume.read_copy(0, own, &mut copy).unwrap();
        assert!(copy == batch);
        let segments: Segments = smallvec![Segment { offset: own, at: 0, length: 32 << 10 }];
        let mut read = |kind| {
            let request = Request {
                tag: 3,
                kind,
                durable: false,
                segments: if kind == Kind::Flush { Segments::new() } else { segments.clone() },
                buffer: Buffer::new(32 << 10),
            };
            queue.submit_in_parts(request).unwrap();
            let mut done = Vec::new();
            queue.wait(1, &mut done).unwrap();
            done.remove(0)
        };
        assert!(read(Kind::Read).buffer[..] == batch[..]);
        read(Kind::Flush).result.unwrap();
        drop(queue);
        let again = open(device, &file);
        assert!(whole(&again) == model, "{layout}, opened anew");
        assert_eq!(again.next_data(100 * 512), 100 * 512, "nothing is known to be zeroes");
    }
}

#[test]
fn what_bitlocker_keeps_for_itself_is_not_written_to() {
    for layout in LAYOUTS {
        let making = making(layout, Method::Cbc128Diffuser);
        let (device, file) = made(&making, 8 * MIB);
        let volume = open(device.clone(), &file.unwrap());
        let before = whole(&*device);
        for at in making.blocks {
            let data = [7; 1024];
            let told = volume.write_at(at - 512, &data).unwrap_err();
            assert!(matches!(told, Error::Protected { .. }), "{told}");
            assert!(volume.write_batch(&[(MIB, &data), (at, &data)]).is_err());
            volume.write_at(at, &[0; 1024]).unwrap();
            let mut queue = volume.queue(1).unwrap();
            let segments: Segments = smallvec![Segment { offset: at, at: 0, length: 1024 }];
            let buffer = Buffer::from(&data[..]);
            queue.submit(Request { tag: 0, kind: Kind::Write, durable: false, segments, buffer });
            let mut done = Vec::new();
            queue.wait(1, &mut done).unwrap();
            assert!(done[0].result.is_err());
            volume.discard(at, 4096).unwrap();
        }
        assert!(whole(&*device) == before, "{layout}: nothing is changed");
        if layout == Layout::Vista {
            let mut sector = [0; 512];
            volume.read_at(0, &mut sector).unwrap();
            sector[100] ^= 1;
            volume.write_at(0, &sector).unwrap();
            let mut read = [0; 512];
            volume.read_at(0, &mut read).unwrap();
            assert_eq!(read, sector);
            assert_eq!(whole(&*device)[3..11], *b"-FVE-FS-");
            sector[56] ^= 1;
            assert!(volume.write_at(0, &sector).unwrap_err().to_string().contains("Vista"));
        }
    }
}

#[test]
fn a_conversion_that_is_not_complete_is_read_only() {
    let making = platter_bitlocker::making::Making {
        encrypted: Some(5 * MIB),
        ..making(Layout::Seven, Method::Cbc256)
    };
    let (device, file) = made(&making, 8 * MIB);
    let raw = whole(&*device);
    let volume = open(device, &file.unwrap());
    let expected = expected(&making, 8 * MIB);
    assert!(whole(&volume) == expected);
    assert!(raw[7 * MIB as usize..] == expected[7 * MIB as usize..]);
    assert!(volume.read_only() && volume.why_read_only().unwrap().contains("not complete"));
    assert!(matches!(volume.write_at(MIB, &[0; 512]), Err(Error::ReadOnly { .. })));
}

//! Image files as devices: every way of transferring, through the page cache and past it.

use platter_device::{
    Buffer, Caching, Completion, Device, Error, FileDevice, FileOptions, Kind, Partition, Queue, Recorder,
    Request, Segment, Segments,
};
use std::path::PathBuf;
use std::sync::Arc;

const SIZE: u64 = 4 << 20;

fn path(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_file(&path);
    path
}

/// Whether transfers of a queue run in parallel to its thread: where the system has io_uring, and with the completion ports of
/// Windows.
fn runs_beside() -> bool {
    #[cfg(target_os = "linux")]
    return io_uring::IoUring::new(1).is_ok();
    #[cfg(not(target_os = "linux"))]
    cfg!(windows)
}

fn on_each(name: &str, test: impl Fn(FileDevice)) {
    for (caching, which) in [(Caching::Buffered, "buffered"), (Caching::DirectIfPossible, "direct")] {
        let path = path(&format!("{name}-{which}"));
        test(FileDevice::create(&path, SIZE, FileOptions { caching, ..FileOptions::default() }).unwrap());
        std::fs::remove_file(path).unwrap();
    }
}

/// The device, and wrappers that pass everything on to it.
fn wrapped(device: FileDevice) -> [Arc<dyn Device>; 3] {
    let device: Arc<dyn Device> = Arc::new(device);
    let half = Partition::new(device.clone(), SIZE / 2, SIZE / 2, "half".into()).unwrap();
    [device.clone(), Arc::new(Recorder::new(device)), Arc::new(half)]
}

/// Bytes that depend on their offset.
fn pattern(offset: u64, length: usize) -> Vec<u8> {
    (offset..offset + length as u64).map(|at| (at / 512 * 31 + at % 512) as u8).collect()
}

#[test]
fn transfers_from_any_memory_address_arrive() {
    on_each("addresses", |device| {
        let sector = device.sectors().logical as usize;
        // One byte off any alignment.
        let mut memory = vec![0; 4 * sector + 1];
        memory[1..].copy_from_slice(&pattern(0, 4 * sector));
        device.write_at(sector as u64, &memory[1..]).unwrap();
        memory.fill(0);
        device.read_at(sector as u64, &mut memory[1..]).unwrap();
        assert!(memory[1..] == pattern(0, 4 * sector));
        device.flush().unwrap();
    });
}

#[test]
fn batches_larger_than_a_ring_arrive_whole() {
    on_each("batches", |device| {
        let sector = u64::from(device.sectors().logical);
        let pieces: Vec<(u64, Buffer)> = (0..200)
            .map(|piece| (piece * 2 * sector, Buffer::from(&pattern(piece, sector as usize)[..])))
            .collect();
        let writes: Vec<(u64, &[u8])> = pieces.iter().map(|(offset, data)| (*offset, &**data)).collect();
        device.write_batch(&writes).unwrap();
        let mut buffers: Vec<Buffer> = pieces.iter().map(|_| Buffer::new(sector as usize)).collect();
        let mut reads: Vec<(u64, &mut [u8])> =
            pieces.iter().zip(&mut buffers).map(|((offset, _), buffer)| (*offset, &mut **buffer)).collect();
        device.read_batch(&mut reads).unwrap();
        assert!(buffers.iter().zip(&pieces).all(|(read, (_, written))| **read == **written));
        // A piece outside the device fails before anything is transferred.
        assert!(matches!(
            device.write_batch(&[(0, writes[1].1), (SIZE, writes[0].1)]),
            Err(Error::OutOfRange { .. })
        ));
        let mut first = Buffer::new(sector as usize);
        device.read_at(0, &mut first).unwrap();
        assert!(*first == *pieces[0].1);
    });
}

fn write(tag: u64, segments: &[Segment], data: &[u8]) -> Request {
    Request {
        tag,
        kind: Kind::Write,
        durable: tag.is_multiple_of(2),
        segments: segments.into(),
        buffer: data.into(),
    }
}

fn wait_for(queue: &mut dyn Queue, count: usize) -> Vec<Completion> {
    let mut done = Vec::new();
    while done.len() < count {
        queue.wait(1, &mut done).unwrap();
    }
    done
}

#[test]
fn a_queue_carries_many_requests_of_many_pieces() {
    on_each("queue", |device| {
        let sector = device.sectors().logical;
        let piece = |offset: u64, at: u32| Segment { offset, at: at * sector, length: sector };
        let mut queue = device.queue(8).unwrap();
        let data = |tag: u64| pattern(tag * 1000, 3 * sector as usize);
        for round in 0..4 {
            for tag in round * 8..round * 8 + 8 {
                let start = tag * 3 * u64::from(sector);
                // The pieces have another order on the device than in the buffer, and not all are adjacent.
                let segments = [
                    piece(start + 2 * u64::from(sector), 0),
                    piece(start, 1),
                    piece(start + u64::from(sector), 2),
                ];
                queue.submit(write(tag, &segments, &data(tag)));
            }
            let done = wait_for(&mut *queue, 8);
            assert!(done.iter().all(|completion| completion.result.is_ok()));
            assert_eq!(queue.in_flight(), 0);
        }
        queue.submit(Request {
            tag: 99,
            kind: Kind::Flush,
            durable: false,
            segments: Segments::new(),
            buffer: Buffer::new(0),
        });
        assert_eq!(wait_for(&mut *queue, 1)[0].tag, 99);
        for tag in 0..32 {
            let mut back = Buffer::new(3 * sector as usize);
            device.read_at(tag * 3 * u64::from(sector), &mut back).unwrap();
            let (first, rest) = back.split_at(sector as usize);
            let expected = data(tag);
            assert!(first == &expected[sector as usize..2 * sector as usize]);
            assert!(rest[sector as usize..] == expected[..sector as usize]);
        }
    });
}

#[test]
fn work_beside_a_write_sees_its_content() {
    on_each("beside", |device| {
        for (device, round) in wrapped(device).into_iter().zip(0..) {
            let sector = device.sectors().logical;
            let mut queue = device.queue(4).unwrap();
            let data = pattern(round, 8 * sector as usize);
            let [first, rest] = [(0, 0, 3), (16, 3, 5)].map(|(place, at, count)| Segment {
                offset: place * u64::from(sector),
                at: at * sector,
                length: count * sector,
            });
            let mut seen = Vec::new();
            queue
                .submit_beside(write(1, &[first, rest], &data), &mut |content| {
                    seen.extend_from_slice(content)
                })
                .unwrap();
            assert!(seen == data);
            // A refused request completes like any other.
            let outside = Segment { offset: device.len(), ..first };
            queue.submit_beside(write(2, &[outside], &data), &mut |_| {}).unwrap();
            let mut done = wait_for(&mut *queue, 2);
            done.sort_by_key(|completion| completion.tag);
            assert!(done[0].result.is_ok() && *done[0].buffer == *data);
            assert!(matches!(done[1].result, Err(Error::OutOfRange { .. })));
            for segment in [first, rest] {
                let mut back = Buffer::new(segment.length as usize);
                device.read_at(segment.offset, &mut back).unwrap();
                assert!(*back == data[segment.at as usize..][..segment.length as usize]);
            }
        }
    });
}

#[test]
fn parts_of_a_read_are_seen_as_they_arrive() {
    on_each("parts", |device| {
        for (device, round) in wrapped(device).into_iter().zip(0..) {
            const PARTS: u32 = 9;
            let length = 32 * 1024;
            let data = pattern(round, (PARTS * length) as usize);
            device.write_at(0, &data).unwrap();
            let mut queue = device.queue(2).unwrap();
            let segments: Segments = (0..PARTS)
                .map(|part| part * length)
                .map(|at| Segment { offset: at.into(), at, length })
                .collect();
            let buffer = Buffer::new(data.len());
            let read =
                Request { tag: 7, kind: Kind::Read, durable: false, segments: segments.clone(), buffer };
            queue.submit_in_parts(read).unwrap();
            let (mut done, mut seen) = (Vec::new(), Vec::new());
            let mut work = |tag, at, part: &[u8]| {
                assert!(tag == 7 && *part == data[at..][..part.len()]);
                seen.push((at, part.len()));
            };
            queue.wait_beside(1, &mut done, &mut work).unwrap();
            let [only] = &done[..] else { panic!("{done:?}") };
            assert!(only.tag == 7 && only.result.is_ok() && *only.buffer == data[..]);
            assert_eq!(only.segments, segments);
            seen.sort_unstable();
            seen.dedup();
            // Otherwise no transfer runs in parallel to the caller, so no part is passed on.
            assert_eq!(seen.len() as u32, if runs_beside() { PARTS - 1 } else { 0 });
            assert!(seen.iter().all(|&(at, part)| at.is_multiple_of(part) && part as u32 == length));
            // A part of the buffer that two transfers write to is not passed on, since one of them may be doing so.
            let twice =
                Segments::from_slice(&[segments[0], segments[1], Segment { at: length, ..segments[2] }]);
            let buffer = Buffer::new(data.len());
            let read = Request { tag: 9, kind: Kind::Read, durable: false, segments: twice, buffer };
            queue.submit_in_parts(read).unwrap();
            done.clear();
            queue.wait_beside(1, &mut done, &mut |_, _, _| panic!("it may be written to")).unwrap();
            assert!(done[0].result.is_ok());
            // A request that fails completes like any other, and none of its parts is passed on.
            let outside =
                Segments::from_slice(&[segments[0], Segment { offset: device.len(), ..segments[1] }]);
            let buffer = Buffer::new(data.len());
            let read = Request { tag: 8, kind: Kind::Read, durable: false, segments: outside, buffer };
            queue.submit_in_parts(read).unwrap();
            done.clear();
            queue.wait_beside(1, &mut done, &mut |_, _, _| panic!("nothing was read")).unwrap();
            assert!(matches!(done[0].result, Err(Error::OutOfRange { .. })));
            assert_eq!(queue.in_flight(), 0);
        }
    });
}

/// The requests have many times the transfers that fit a ring, and nothing is reaped while they are submitted.
#[test]
fn requests_of_more_transfers_than_a_ring_has_room_for_all_end() {
    on_each("many", |device| {
        let sector = device.sectors().logical;
        let data = pattern(0, SIZE as usize);
        device.write_at(0, &data).unwrap();
        const DEPTH: u64 = 16;
        let each = (SIZE / DEPTH) as u32;
        let mut queue = device.queue(DEPTH as usize).unwrap();
        for tag in 0..DEPTH {
            let segments: Segments = (0..each / sector)
                .map(|part| part * sector)
                .map(|at| Segment { offset: tag * u64::from(each) + u64::from(at), at, length: sector })
                .collect();
            let buffer = Buffer::new(each as usize);
            queue.submit(Request { tag, kind: Kind::Read, durable: false, segments, buffer });
        }
        let mut done = Vec::new();
        queue.wait(DEPTH as usize, &mut done).unwrap();
        assert_eq!((done.len() as u64, queue.in_flight()), (DEPTH, 0));
        for completion in done {
            let at = completion.tag as usize * each as usize;
            assert!(completion.result.is_ok() && *completion.buffer == data[at..at + each as usize]);
        }
    });
}

#[test]
fn a_queue_refuses_what_the_contract_refuses_and_goes_on() {
    on_each("refused", |device| {
        let sector = device.sectors().logical;
        let mut queue = device.queue(4).unwrap();
        let bad = [
            Segment { offset: 1, at: 0, length: sector },
            Segment { offset: SIZE, at: 0, length: sector },
            Segment { offset: 0, at: sector, length: sector },
        ];
        for (tag, segment) in bad.into_iter().enumerate() {
            queue.submit(write(tag as u64, &[segment], &vec![7; sector as usize]));
        }
        queue.submit(write(3, &[Segment { offset: 0, at: 0, length: sector }], &vec![9; sector as usize]));
        let mut done = wait_for(&mut *queue, 4);
        done.sort_by_key(|completion| completion.tag);
        assert!(matches!(done[0].result, Err(Error::Misaligned { .. })));
        assert!(matches!(done[1].result, Err(Error::OutOfRange { .. })));
        assert!(matches!(done[2].result, Err(Error::Unusable { .. })));
        assert!(done[3].result.is_ok());
    });
}

#[test]
fn a_dropped_queue_waits_for_what_is_in_flight() {
    on_each("dropped", |device| {
        let mut queue = device.queue(16).unwrap();
        for tag in 0..16 {
            let segments = [Segment { offset: tag * (64 << 10), at: 0, length: 64 << 10 }];
            queue.submit(write(tag, &segments, &vec![tag as u8 + 1; 64 << 10]));
        }
        queue.kick().unwrap();
        drop(queue);
        let mut all = Buffer::new(1 << 20);
        device.read_at(0, &mut all).unwrap();
        assert!(
            all.chunks(64 << 10).enumerate().all(|(index, part)| part.iter().all(|&b| b == index as u8 + 1))
        );
    });
}

#[test]
fn what_was_discarded_of_an_image_is_a_hole() {
    on_each("discarded", |device| {
        device.write_at(0, &vec![1; 1 << 20]).unwrap();
        device.discard(0, 1 << 20).unwrap();
        let mut back = vec![1; 4096];
        device.read_at(512 << 10, &mut back).unwrap();
        // Wine has no holes, and what has no such operation keeps its content.
        assert!(back.iter().all(|&byte| byte == 0) || (cfg!(windows) && back.iter().all(|&byte| byte == 1)));
        assert!(matches!(device.discard(SIZE, 4096), Err(Error::OutOfRange { .. })));
    });
}

#[test]
fn a_file_shorter_than_it_was_is_an_error_and_not_zeroes() {
    let path = path("shrunk");
    let device = FileDevice::create(&path, SIZE, FileOptions::default()).unwrap();
    std::fs::File::options().write(true).open(&path).unwrap().set_len(SIZE / 2).unwrap();
    assert!(matches!(device.read_at(SIZE - 4096, &mut [0; 4096]), Err(Error::Io { .. })));
    let mut queue = device.queue(1).unwrap();
    let segments = [Segment { offset: SIZE - 4096, at: 0, length: 4096 }][..].into();
    queue.submit(Request { tag: 0, kind: Kind::Read, durable: false, segments, buffer: Buffer::new(4096) });
    assert!(matches!(wait_for(&mut *queue, 1)[0].result, Err(Error::Io { .. })));
    drop(queue);
    drop(device);
    std::fs::remove_file(path).unwrap();
}

#[test]
fn what_is_read_only_is_not_written() {
    let path = path("read-only");
    std::fs::write(&path, vec![5; 8192]).unwrap();
    let device = FileDevice::open(&path, FileOptions { read_only: true, ..FileOptions::default() }).unwrap();
    assert!(matches!(device.write_at(0, &[0; 512]), Err(Error::ReadOnly { .. })));
    let mut queue = device.queue(1).unwrap();
    queue.submit(write(0, &[Segment { offset: 0, at: 0, length: 512 }], &[0; 512]));
    assert!(matches!(wait_for(&mut *queue, 1)[0].result, Err(Error::ReadOnly { .. })));
    device.flush().unwrap();
    drop(queue);
    drop(device);
    assert!(std::fs::read(&path).unwrap().iter().all(|&byte| byte == 5));
    std::fs::remove_file(path).unwrap();
}

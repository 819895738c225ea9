//! Small writes that follow each other reach the device as one.

use platter_device::{
    Buffer, Completion, Device, Fault, Faults, Gather, Kind, MemoryDevice, Operation, Queue, Recorder,
    Request, Sectors, Segment, Segments, When,
};
use std::sync::Arc;

const CLUSTER: u32 = 4096;

fn memory() -> Arc<dyn Device> {
    Arc::new(MemoryDevice::new(16 << 20, Sectors::SMALL))
}

fn write(queue: &mut dyn Queue, tag: u64, place: u64, fill: u8) {
    let buffer = Buffer::from(&[fill; CLUSTER as usize][..]);
    let segment = Segment { offset: place * u64::from(CLUSTER), at: 0, length: CLUSTER };
    let segments = Segments::from_slice(&[segment]);
    queue.submit(Request { tag, kind: Kind::Write, durable: false, segments, buffer });
    queue.kick().unwrap();
}

fn all(queue: &mut dyn Queue) -> Vec<Completion> {
    let mut done = Vec::new();
    while queue.in_flight() > 0 {
        queue.wait(1, &mut done).unwrap();
    }
    done
}

fn content(device: &dyn Device, place: u64) -> u8 {
    let mut buffer = [0; CLUSTER as usize];
    device.read_at(place * u64::from(CLUSTER), &mut buffer).unwrap();
    assert!(buffer.iter().all(|&byte| byte == buffer[0]), "place {place} is torn");
    buffer[0]
}

#[test]
fn writes_in_a_row_go_as_one() {
    let recorder = Recorder::new(memory());
    {
        let mut queue = Gather::new(recorder.queue(64).unwrap(), 64);
        for tag in 0..33 {
            write(&mut queue, tag, 100 + tag, tag as u8 + 1);
        }
        let mut tags: Vec<u64> = all(&mut queue)
            .into_iter()
            .map(|done| {
                done.result.unwrap();
                assert_eq!(done.buffer[0], done.tag as u8 + 1, "each gets its own buffer back");
                assert_eq!(done.segments[0].offset, (100 + done.tag) * u64::from(CLUSTER));
                done.tag
            })
            .collect();
        tags.sort_unstable();
        assert_eq!(tags, (0..33).collect::<Vec<_>>());
    }
    // The first has nothing before it; the others are kept back until the caller waits.
    let traffic = recorder.traffic();
    assert_eq!((traffic.write.count, traffic.write.bytes), (2, 33 * 4096));
    (0..33).for_each(|place| assert_eq!(content(&recorder, 100 + place), place as u8 + 1));
}

#[test]
fn scattered_writes_and_reads_go_by_themselves() {
    let recorder = Recorder::new(memory());
    let mut queue = Gather::new(recorder.queue(64).unwrap(), 64);
    for tag in 0..16 {
        write(&mut queue, tag, tag * 7 % 16 * 2, 1);
        let (segments, buffer) =
            (Segments::from_slice(&[Segment { offset: 0, at: 0, length: 512 }]), Buffer::new(512));
        queue.submit(Request { tag: 100 + tag, kind: Kind::Read, durable: false, segments, buffer });
    }
    assert_eq!(all(&mut queue).len(), 32);
    drop(queue);
    assert_eq!((recorder.traffic().write.count, recorder.traffic().read.count), (16, 16));
}

#[test]
fn a_row_ends_at_half_the_depth_of_the_queue() {
    let recorder = Recorder::new(memory());
    let mut queue = Gather::new(recorder.queue(32).unwrap(), 32);
    (0..32).for_each(|tag| write(&mut queue, tag, tag, tag as u8));
    assert_eq!(all(&mut queue).len(), 32);
    drop(queue);
    // The first alone, two halves of which the second lacks it.
    assert_eq!(recorder.traffic().write.count, 3);
}

#[test]
fn a_row_ends_at_a_quarter_of_a_mebibyte() {
    let recorder = Recorder::new(memory());
    let mut queue = Gather::new(recorder.queue(256).unwrap(), 256);
    (0..1 + 64 + 64 + 10).for_each(|tag| write(&mut queue, tag, tag, tag as u8));
    assert_eq!(all(&mut queue).len(), 139);
    drop(queue);
    assert_eq!(recorder.traffic().write.count, 4);
}

#[test]
fn what_is_kept_back_is_written_when_the_queue_goes() {
    let recorder = Recorder::new(memory());
    let mut queue = Gather::new(recorder.queue(8).unwrap(), 8);
    (0..8).for_each(|tag| write(&mut queue, tag, tag, 9));
    drop(queue);
    (0..8).for_each(|place| assert_eq!(content(&recorder, place), 9));
}

/// A joined write that fails takes only those with it that fail by themselves.
#[test]
fn each_learns_its_own_outcome() {
    let faults = Faults::new(memory(), 8664);
    // Write 0 is the first alone, 1 the joined one, 2 to 9 its parts: the fourth part fails.
    faults.inject(When::nth(Operation::Write, 1), Fault::Fail);
    faults.inject(When::nth(Operation::Write, 5), Fault::Fail);
    let mut queue = Gather::new(faults.queue(16).unwrap(), 16);
    (0..9).for_each(|tag| write(&mut queue, tag, tag, 5));
    let failed: Vec<u64> =
        all(&mut queue).iter().filter(|done| done.result.is_err()).map(|done| done.tag).collect();
    drop(queue);
    assert_eq!(failed.len(), 1, "{failed:?}");
    for place in (0..9).filter(|place| !failed.contains(place)) {
        assert_eq!(content(&faults, place), 5);
    }
    assert_eq!(content(&faults, failed[0]), 0);
}

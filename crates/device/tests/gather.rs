//! Gathering: adjacent small writes reach the device as one, and requests to a busy device are started together.

use platter_device::{
    Buffer, Completion, Device, Fault, Faults, Gather, Kind, MemoryDevice, Operation, Queue, Recorder,
    Request, Result, Sectors, Segment, Segments, When, Work,
};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
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
    // The first write follows no other, so it is passed on at once; the others are held back until the caller waits.
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

/// A device that completes one request per wait, and counts how often it was told to start requests.
#[derive(Default)]
struct Slow {
    waiting: VecDeque<Request>,
    starts: Rc<Cell<usize>>,
}

impl Queue for Slow {
    fn submit(&mut self, request: Request) {
        self.waiting.push_back(request);
    }

    fn kick(&mut self) -> Result<()> {
        self.starts.set(self.starts.get() + 1);
        Ok(())
    }

    fn wait_beside(&mut self, least: usize, done: &mut Vec<Completion>, _: &mut Work<'_>) -> Result<()> {
        done.extend(self.waiting.drain(..least).map(|request| {
            let Request { tag, segments, buffer, .. } = request;
            Completion { tag, result: Ok(()), segments, buffer }
        }));
        Ok(())
    }

    fn in_flight(&self) -> usize {
        self.waiting.len()
    }
}

/// Submits reads and kicks after each; returns how often the device was told to start requests.
fn starts_of_reads(queue: &mut dyn Queue, starts: &Cell<usize>, tags: std::ops::Range<u64>) -> usize {
    starts_of_large_reads(queue, starts, tags, CLUSTER)
}

fn starts_of_large_reads(
    queue: &mut dyn Queue,
    starts: &Cell<usize>,
    tags: std::ops::Range<u64>,
    length: u32,
) -> usize {
    let before = starts.get();
    for tag in tags {
        let offset = tag * 2 * u64::from(length);
        let segments = Segments::from_slice(&[Segment { offset, at: 0, length }]);
        let buffer = Buffer::new(length as usize);
        queue.submit(Request { tag, kind: Kind::Read, durable: false, segments, buffer });
        queue.kick().unwrap();
    }
    starts.get() - before
}

#[test]
fn a_busy_device_is_told_of_a_quarter_of_the_depth_at_a_time() {
    let starts = Rc::new(Cell::new(0));
    let mut queue = Gather::new(Box::new(Slow { starts: starts.clone(), ..Slow::default() }), 32);
    assert_eq!(starts_of_reads(&mut queue, &starts, 0..8), 8, "an idle device gets each at once");
    assert_eq!(starts_of_reads(&mut queue, &starts, 8..15), 0, "a busy one does not");
    assert_eq!(starts_of_reads(&mut queue, &starts, 15..16), 1, "until there are eight");
    assert_eq!(starts_of_reads(&mut queue, &starts, 16..32), 2);
    assert_eq!(all(&mut queue).len(), 32);

    // At a small depth no request waits for another.
    let mut queue = Gather::new(Box::new(Slow { starts: starts.clone(), ..Slow::default() }), 4);
    assert_eq!(starts_of_reads(&mut queue, &starts, 0..4), 4);
    assert_eq!(all(&mut queue).len(), 4);
}

/// The device should not wait for the caller when so much is to be transferred.
#[test]
fn large_requests_wait_for_no_company() {
    let starts = Rc::new(Cell::new(0));
    let mut queue = Gather::new(Box::new(Slow { starts: starts.clone(), ..Slow::default() }), 32);
    assert_eq!(starts_of_reads(&mut queue, &starts, 0..8), 8);
    assert_eq!(starts_of_large_reads(&mut queue, &starts, 8..10, 128 << 10), 2);
    // Five requests of 16 KiB are more than 64 KiB.
    assert_eq!(starts_of_large_reads(&mut queue, &starts, 10..14, 16 << 10), 0);
    assert_eq!(starts_of_large_reads(&mut queue, &starts, 14..15, 16 << 10), 1);
    assert_eq!(starts_of_reads(&mut queue, &starts, 15..22), 0);
    assert_eq!(all(&mut queue).len(), 22);
}

#[test]
fn work_beside_a_write_sees_its_content_whether_it_is_kept_back_or_not() {
    let recorder = Recorder::new(memory());
    let mut queue = Gather::new(recorder.queue(8).unwrap(), 8);
    let mut seen = Vec::new();
    // The second write follows the first and is held back; the third is too large for that.
    for (tag, place, count) in [(1u8, 0, 1), (2, 1, 1), (3, 2, 32)] {
        let length = count * CLUSTER;
        let buffer = Buffer::from(&vec![tag; length as usize][..]);
        let segment = Segment { offset: place * u64::from(CLUSTER), at: 0, length };
        let segments = Segments::from_slice(&[segment]);
        let request = Request { tag: tag.into(), kind: Kind::Write, durable: false, segments, buffer };
        let mut work = |content: &[u8]| seen.push((content[0], content.len() as u32 / CLUSTER));
        queue.submit_beside(request, &mut work).unwrap();
    }
    let mut tags: Vec<u64> = all(&mut queue).iter().map(|done| done.tag).collect();
    tags.sort_unstable();
    drop(queue);
    assert_eq!((tags, seen), (vec![1, 2, 3], vec![(1, 1), (2, 1), (3, 32)]));
    assert_eq!([0, 1, 2, 33].map(|place| content(&recorder, place)), [1, 2, 3, 3]);
}

/// A queue that carries out requests at once and records the segments of each read in parts.
struct InParts {
    noted: Rc<RefCell<Vec<Segments>>>,
    taken: Vec<Completion>,
}

impl InParts {
    fn take(&mut self, request: Request) {
        let Request { tag, segments, buffer, .. } = request;
        self.taken.push(Completion { tag, result: Ok(()), segments, buffer });
    }
}

impl Queue for InParts {
    fn submit(&mut self, request: Request) {
        self.take(request);
    }

    fn submit_in_parts(&mut self, request: Request) -> Result<()> {
        self.noted.borrow_mut().push(request.segments.clone());
        self.take(request);
        Ok(())
    }

    fn kick(&mut self) -> Result<()> {
        Ok(())
    }

    fn wait_beside(&mut self, _: usize, done: &mut Vec<Completion>, work: &mut Work<'_>) -> Result<()> {
        for completion in self.taken.drain(..) {
            let Segment { at, length, .. } = completion.segments[0];
            work(completion.tag, at as usize, &completion.buffer[at as usize..][..length as usize]);
            done.push(completion);
        }
        Ok(())
    }

    fn in_flight(&self) -> usize {
        self.taken.len()
    }
}

fn read_in_parts(queue: &mut dyn Queue, tag: u64, pieces: &[(u64, u32, u32)]) -> Segments {
    let segments: Segments =
        pieces.iter().map(|&(offset, at, length)| Segment { offset, at, length }).collect();
    let buffer = Buffer::new(2 << 20);
    let request = Request { tag, kind: Kind::Read, durable: false, segments: segments.clone(), buffer };
    queue.submit_in_parts(request).unwrap();
    segments
}

/// With other requests in flight, the work on one read can be done while they are carried out, so it is not divided.
#[test]
fn a_read_goes_in_parts_where_the_device_is_idle() {
    let noted = Rc::new(RefCell::new(Vec::new()));
    let mut queue = Gather::new(Box::new(InParts { noted: noted.clone(), taken: Vec::new() }), 8);
    for round in 0..3 {
        // Segments of 300 KiB, of one cluster and of 1 MiB, as for a file in three runs.
        let pieces = [(1 << 20, 0, 300 << 10), (4 << 20, 300 << 10, 4096), (8 << 20, 304 << 10, 1 << 20)];
        let segments = read_in_parts(&mut queue, 5, &pieces);
        let others = [read_in_parts(&mut queue, 6, &pieces), read_in_parts(&mut queue, 7, &pieces[..1])];
        let (mut done, mut seen) = (Vec::new(), Vec::new());
        queue.wait_beside(3, &mut done, &mut |tag, at, part| seen.push((tag, at, part.len()))).unwrap();
        assert_eq!(seen, [(5, 0, 128 << 10)]);
        let ended: Vec<_> = done.iter().map(|done| (done.tag, &done.segments)).collect();
        assert_eq!(ended, [(5, &segments), (6, &others[0]), (7, &others[1])]);
        let noted = noted.borrow();
        assert_eq!(noted.len(), round + 1, "only the first of each round");
        let lengths: Vec<u32> = noted[round].iter().map(|part| part.length >> 10).collect();
        assert_eq!(lengths, [128, 128, 44, 4, 128, 128, 128, 128, 128, 128, 128, 128]);
        let mut at = 0;
        for part in &noted[round] {
            assert_eq!(part.at, at);
            at += part.length;
        }
        assert_eq!(
            (noted[round][2].offset, noted[round][11].offset),
            ((1 << 20) + (256 << 10), (9 << 20) - (128 << 10))
        );
    }
}

/// Requests that were held back are started when the caller waits.
#[test]
fn waiting_starts_everything() {
    let starts = Rc::new(Cell::new(0));
    let mut queue = Gather::new(Box::new(Slow { starts: starts.clone(), ..Slow::default() }), 32);
    starts_of_reads(&mut queue, &starts, 0..12);
    let mut done = Vec::new();
    queue.wait(1, &mut done).unwrap();
    assert_eq!(done.len(), 1);
    // Eleven requests are in flight, and none of them still counts as held back.
    assert_eq!(starts_of_reads(&mut queue, &starts, 12..19), 0);
    assert_eq!(starts_of_reads(&mut queue, &starts, 19..20), 1);
    assert_eq!(all(&mut queue).len(), 19);
}

#[test]
fn a_row_ends_at_half_the_depth_of_the_queue() {
    let recorder = Recorder::new(memory());
    let mut queue = Gather::new(recorder.queue(32).unwrap(), 32);
    (0..32).for_each(|tag| write(&mut queue, tag, tag, tag as u8));
    assert_eq!(all(&mut queue).len(), 32);
    drop(queue);
    // The first write alone, and two joined ones for the others.
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

/// When a joined write fails, only those of its requests fail that fail by themselves.
#[test]
fn each_learns_its_own_outcome() {
    let faults = Faults::new(memory(), 8664);
    // Write 0 is the first request alone, 1 the joined write, 2 to 9 its requests one by one: the fourth of them fails.
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

//! Mirrors: reads return the right bytes whatever happens to one copy, and the copies are equal afterwards.

use platter_device::{
    Buffer, Completion, Device, Error, Fault, Faults, FileDevice, FileOptions, Grain, Immediate, Kind,
    MemoryDevice, Mirror, MirrorCopy, MirrorJudge, MirrorRecord, MirrorSet, Operation, OverlayDevice,
    Partition, Queue, Recorder, Request, Result, Sectors, Segment, Segments, Soundness, Standing, Survivors,
    When, refuse_unlike_copies,
};
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const SIZE: u64 = 4 << 20;
const SECTOR: usize = 512;

struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }

    /// A random range of 1 to 64 whole sectors inside the device.
    fn range(&mut self) -> (u64, usize) {
        let sectors = SIZE / SECTOR as u64;
        let start = self.below(sectors);
        let length = 1 + self.below(64.min(sectors - start));
        (start * SECTOR as u64, length as usize * SECTOR)
    }

    fn data(&mut self, length: usize) -> Vec<u8> {
        let seed = self.below(u64::MAX);
        (0..length).map(|at| (seed >> (at % 8 * 8)) as u8 ^ (at / SECTOR) as u8).collect()
    }
}

fn memory() -> Arc<MemoryDevice> {
    Arc::new(MemoryDevice::new(SIZE, Sectors::SMALL))
}

fn mirror<D: Device + 'static>(copies: &[Arc<D>]) -> Mirror {
    Mirror::new(copies.iter().map(|copy| copy.clone() as Arc<dyn Device>).collect()).unwrap()
}

/// A mirror of two memory devices, each behind injected faults.
fn faulty() -> ([Arc<MemoryDevice>; 2], [Arc<Faults>; 2], Mirror) {
    let below = [memory(), memory()];
    let faults = [0, 1].map(|copy| Arc::new(Faults::new(below[copy].clone(), 8664 + copy as u64)));
    let mirror = mirror(&faults);
    (below, faults, mirror)
}

fn request(tag: u64, kind: Kind, offset: u64, data: &[u8]) -> Request {
    let mut segments = Segments::new();
    if kind != Kind::Flush {
        segments.push(Segment { offset, at: 0, length: data.len() as u32 });
    }
    Request { tag, kind, durable: tag.is_multiple_of(3), segments, buffer: data.into() }
}

/// A disk with sectors that cannot be read until they are written.
struct Worn {
    device: Arc<MemoryDevice>,
    bad: Mutex<HashSet<u64>>,
    dead: AtomicBool,
}

impl Worn {
    fn new() -> Arc<Worn> {
        Arc::new(Worn { device: memory(), bad: Mutex::default(), dead: AtomicBool::new(false) })
    }

    fn spoil(&self, sectors: impl IntoIterator<Item = u64>) {
        self.bad.lock().unwrap().extend(sectors);
    }

    fn fail(&self, operation: Operation, offset: u64, length: usize) -> Error {
        Error::io("worn", operation, offset, length as u64, std::io::Error::other("worn out"))
    }
}

fn sectors(offset: u64, length: usize) -> std::ops::Range<u64> {
    offset / SECTOR as u64..(offset + length as u64) / SECTOR as u64
}

impl Device for Worn {
    fn name(&self) -> &str {
        "worn"
    }
    fn len(&self) -> u64 {
        SIZE
    }
    fn sectors(&self) -> Sectors {
        Sectors::SMALL
    }
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let bad = self.bad.lock().unwrap();
        if self.dead.load(Ordering::Relaxed) || sectors(offset, buffer.len()).any(|at| bad.contains(&at)) {
            return Err(self.fail(Operation::Read, offset, buffer.len()));
        }
        self.device.read_at(offset, buffer)
    }
    fn write_at(&self, offset: u64, data: &[u8]) -> Result<()> {
        if self.dead.load(Ordering::Relaxed) {
            return Err(self.fail(Operation::Write, offset, data.len()));
        }
        sectors(offset, data.len()).for_each(|at| _ = self.bad.lock().unwrap().remove(&at));
        self.device.write_at(offset, data)
    }
    fn flush(&self) -> Result<()> {
        Ok(())
    }
    fn discard(&self, offset: u64, length: u64) -> Result<()> {
        self.device.discard(offset, length)
    }
    fn queue(&self, depth: usize) -> Result<Box<dyn Queue + '_>> {
        Ok(Box::new(Immediate::new(self, depth)))
    }
}

#[test]
fn a_mirror_has_copies_that_go_together() {
    let device = |size, sectors| Arc::new(MemoryDevice::new(size, sectors)) as Arc<dyn Device>;
    let refused = |copies| match Mirror::new(copies) {
        Err(Error::Unusable { reason, .. }) => reason,
        Err(error) => panic!("{error}"),
        Ok(mirror) => panic!("{} was made", mirror.name()),
    };
    assert!(refused(vec![]).contains("1 to 8 copies, not 0"));
    assert!(refused((0..9).map(|_| device(8192, Sectors::SMALL)).collect()).contains("not 9"));
    let unequal = refused(vec![device(8192, Sectors::SMALL), device(16384, Sectors::LARGE)]);
    assert!(unequal.contains("mem:8192 are 512") && unequal.contains("mem:16384 4096"), "{unequal}");

    let physical = Sectors { logical: 512, physical: 4096 };
    let mirror = Mirror::new(vec![device(8192, Sectors::SMALL), device(4096, physical)]).unwrap();
    assert_eq!((mirror.len(), mirror.sectors(), mirror.copies()), (4096, physical, 2));
    assert_eq!(mirror.name(), "mirror:mem:8192,mem:4096");
    assert!(matches!(mirror.write_at(4096, &[0; 512]), Err(Error::OutOfRange { size: 4096, .. })));
    let eight = Mirror::new((0..8).map(|_| device(8192, Sectors::SMALL)).collect()).unwrap();
    eight.write_at(512, &[7; 512]).unwrap();
    for copy in 0..8 {
        let mut data = [0; 512];
        eight.read_copy(copy, 512, &mut data).unwrap();
        assert_eq!(data, [7; 512]);
    }
}

/// Compares every way of reading and writing with a plain array, while one copy fails one read in `one_in`.
fn runs_as_an_array_does(one_in: u64) {
    let (below, faults, mirror) = faulty();
    faults[1].inject(When::one_in(Operation::Read, one_in), Fault::Fail);
    let mut model = vec![0; SIZE as usize];
    let mut random = Random(8664);
    for step in 0..4000 {
        let ranges: Vec<(u64, usize)> = (0..=random.below(4)).map(|_| random.range()).collect();
        let (offset, length) = ranges[0];
        let place = |offset: u64, length: usize| offset as usize..offset as usize + length;
        match random.below(7) {
            0 => {
                let mut buffer = vec![0; length];
                mirror.read_at(offset, &mut buffer).unwrap();
                assert!(buffer == model[place(offset, length)], "step {step}");
            }
            1 => {
                let data = random.data(length);
                mirror.write_at(offset, &data).unwrap();
                model[place(offset, length)].copy_from_slice(&data);
            }
            2 => {
                let mut buffers: Vec<Vec<u8>> = ranges.iter().map(|&(_, length)| vec![0; length]).collect();
                let mut reads: Vec<(u64, &mut [u8])> =
                    ranges.iter().zip(&mut buffers).map(|(&(at, _), buffer)| (at, &mut buffer[..])).collect();
                mirror.read_batch(&mut reads).unwrap();
                for (&(offset, length), buffer) in ranges.iter().zip(&buffers) {
                    assert!(*buffer == model[place(offset, length)], "step {step}");
                }
            }
            3 => {
                // Pieces of one batch have no order, so they must not overlap.
                let piece = 8 * SECTOR;
                let start = offset.min(SIZE - 16 * piece as u64);
                let pieces: Vec<(u64, Vec<u8>)> =
                    (0..4).map(|number| (start + number * 2 * piece as u64, random.data(piece))).collect();
                let writes: Vec<(u64, &[u8])> = pieces.iter().map(|(at, data)| (*at, &data[..])).collect();
                mirror.write_batch(&writes).unwrap();
                for (at, data) in &pieces {
                    model[place(*at, piece)].copy_from_slice(data);
                }
            }
            4 => {
                let mut queue = mirror.queue(ranges.len()).unwrap();
                for (tag, &(offset, length)) in ranges.iter().enumerate() {
                    queue.submit(request(tag as u64, Kind::Read, offset, &vec![0; length]));
                }
                let mut done = Vec::new();
                queue.wait(ranges.len(), &mut done).unwrap();
                assert_eq!(done.len(), ranges.len());
                for completion in done {
                    completion.result.unwrap();
                    let (offset, length) = ranges[completion.tag as usize];
                    assert_eq!(completion.segments[0].offset, offset);
                    assert!(completion.buffer[..] == model[place(offset, length)], "step {step}");
                }
            }
            5 => {
                let data = random.data(length);
                let mut queue = mirror.queue(2).unwrap();
                queue.submit(request(step, Kind::Write, offset, &data));
                let mut done = Vec::new();
                queue.wait(1, &mut done).unwrap();
                done.remove(0).result.unwrap();
                model[place(offset, length)].copy_from_slice(&data);
            }
            _ => mirror.flush().unwrap(),
        }
    }
    assert_eq!(mirror.out_of_service(), [None, None]);
    assert_eq!((mirror.failed()[0], mirror.repaired()[0]), (0, 0));
    assert!(mirror.failed()[1] > 20 && mirror.repaired()[1] > 20, "{:?}", mirror.repaired());
    assert!(below[0].to_image() == model, "copy 0 differs");
    assert!(below[1].to_image() == model, "copy 1 differs");
}

#[test]
fn random_transfers_come_out_right_while_a_copy_fails_to_read() {
    runs_as_an_array_does(7);
    // Every read of that copy fails.
    runs_as_an_array_does(1);
}

#[test]
fn a_copy_that_fails_a_write_is_out_of_service() {
    let (below, faults, plain) = faulty();
    let told = Arc::new(Mutex::new(Vec::new()));
    let mirror = {
        let told = told.clone();
        plain.on_event(move |event| told.lock().unwrap().push(event.to_string()))
    };
    let mut random = Random(1);
    let mut model = vec![0; SIZE as usize];
    faults[0].inject(When::nth(Operation::Write, 40), Fault::Tear);
    for step in 0..200 {
        let (offset, length) = random.range();
        let data = random.data(length);
        if step % 2 == 0 {
            mirror.write_at(offset, &data).unwrap();
        } else {
            let mut queue = mirror.queue(1).unwrap();
            queue.submit(request(step, Kind::Write, offset, &data));
            let mut done = Vec::new();
            queue.wait(1, &mut done).unwrap();
            done.remove(0).result.unwrap();
        }
        model[offset as usize..][..length].copy_from_slice(&data);
        let (offset, length) = random.range();
        let mut buffer = vec![0; length];
        mirror.read_at(offset, &mut buffer).unwrap();
        assert!(buffer == model[offset as usize..][..length], "step {step}");
    }
    assert_eq!(faults[0].count(Operation::Write), 41, "written after it failed");
    assert_eq!(faults[1].count(Operation::Write), 200);
    assert!(below[1].to_image() == model);
    assert_eq!((mirror.failed(), mirror.copies()), (vec![1, 0], 2));
    let why = mirror.out_of_service();
    assert!(why[0].as_ref().is_some_and(|why| why.contains("injected fault")) && why[1].is_none(), "{why:?}");
    let told = told.lock().unwrap();
    assert!(told.len() == 1 && told[0].contains("out of service"), "{told:?}");

    let error = mirror.read_copy(0, 0, &mut [0; SECTOR]).unwrap_err().to_string();
    assert!(error.contains("copy 0") && error.contains("out of service"), "{error}");
    assert!(mirror.repair_copy(0, 0, &[0; SECTOR]).is_err());
    mirror.read_copy(1, 0, &mut [0; SECTOR]).unwrap();
    // The last copy stays in service, and its errors are returned to the caller.
    faults[1].inject(When::nth(Operation::Write, 200), Fault::Fail);
    faults[1].inject(When::nth(Operation::Flush, 0), Fault::Fail);
    assert!(mirror.write_at(0, &[1; SECTOR]).is_err());
    mirror.write_at(0, &[2; SECTOR]).unwrap();
    let flushed = faults[1].count(Operation::Flush);
    faults[1].inject(When::nth(Operation::Flush, flushed), Fault::Fail);
    assert!(mirror.flush().is_err());
    mirror.flush().unwrap();
    assert_eq!(mirror.out_of_service()[1], None);
}

#[test]
fn what_fails_on_all_copies_takes_none_out_of_service() {
    let (_, faults, mirror) = faulty();
    for fault in &faults {
        fault.inject(When::nth(Operation::Write, 0), Fault::Fail);
        fault.inject(When::nth(Operation::Flush, 0), Fault::Fail);
        fault.inject(When::nth(Operation::Discard, 0), Fault::Fail);
    }
    assert!(matches!(mirror.write_at(0, &[1; SECTOR]), Err(Error::Io { operation: Operation::Write, .. })));
    assert!(matches!(mirror.flush(), Err(Error::Io { operation: Operation::Flush, .. })));
    assert!(matches!(mirror.discard(0, 4096), Err(Error::Io { operation: Operation::Discard, .. })));
    assert_eq!(mirror.out_of_service(), [None, None]);
    // A discard that fails on one copy leaves it in service.
    faults[0].inject(When::nth(Operation::Discard, 1), Fault::Fail);
    mirror.discard(0, 4096).unwrap();
    assert_eq!(mirror.out_of_service(), [None, None]);
    // A flush that fails takes the copy out of service: the writes that it should have made durable may be lost.
    faults[0].inject(When::nth(Operation::Flush, 1), Fault::Fail);
    mirror.flush().unwrap();
    assert!(mirror.out_of_service()[0].as_ref().is_some_and(|why| why.contains("flush failed")));
}

#[test]
fn sectors_that_cannot_be_read_are_repaired() {
    let copies = [Worn::new(), Worn::new()];
    let mirror = mirror(&copies);
    let data = Random(3).data(SIZE as usize);
    mirror.write_at(0, &data).unwrap();
    // Every fourth sector of one copy and different ones of the other: no copy has all sectors, but together they do.
    copies[0].spoil((0..1024).step_by(4));
    copies[1].spoil((2..1024).step_by(4));
    let mut buffer = vec![0; 256 << 10];
    mirror.read_at(0, &mut buffer).unwrap();
    assert!(buffer[..] == data[..buffer.len()]);
    let mut queue = mirror.queue(1).unwrap();
    queue.submit(request(0, Kind::Read, 256 << 10, &buffer));
    let mut done: Vec<Completion> = Vec::new();
    queue.wait(1, &mut done).unwrap();
    done[0].result.as_ref().unwrap();
    assert!(done[0].buffer[..] == data[256 << 10..512 << 10]);
    drop(queue);
    assert!(mirror.repaired().iter().sum::<u64>() >= 256, "{:?}", mirror.repaired());
    let failed = mirror.failed();
    mirror.read_batch(&mut [(0, &mut buffer[..]), (256 << 10, &mut vec![0; 256 << 10])]).unwrap();
    assert_eq!(mirror.failed(), failed, "what was repaired failed again");
    for copy in &copies {
        assert!(copy.device.to_image() == data);
        copy.bad.lock().unwrap().clear();
    }
    // A sector that no copy can read gives an error with its offset.
    copies.iter().for_each(|copy| copy.spoil([70]));
    match mirror.read_at(64 * 512, &mut [0; 16 * SECTOR]) {
        Err(Error::Io { offset, length, .. }) => assert_eq!((offset, length), (70 * 512, 512)),
        other => panic!("{other:?}"),
    }
    mirror.write_at(70 * 512, &data[70 * 512..][..512]).unwrap();
    // A copy that can be neither read nor written does not keep the mirror from reading.
    copies[0].dead.store(true, Ordering::Relaxed);
    for offset in (0..SIZE).step_by(64 << 10) {
        let mut buffer = vec![0; 64 << 10];
        mirror.read_at(offset, &mut buffer).unwrap();
        assert!(buffer[..] == data[offset as usize..][..buffer.len()]);
    }
    assert_eq!(mirror.out_of_service(), [None, None]);
    mirror.write_at(0, &data[..512]).unwrap();
    assert!(mirror.out_of_service()[0].is_some());
}

#[test]
fn a_read_only_mirror_answers_and_repairs_nothing() {
    let below = [memory(), memory()];
    // The mirror is read-only because one of its copies is.
    let faults = below.clone().map(|device| Arc::new(Faults::new(device, 5)));
    let path = std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("mirror-read-only");
    FileDevice::create(&path, SIZE, FileOptions::default()).unwrap();
    let file = FileDevice::open(&path, FileOptions { read_only: true, ..FileOptions::default() }).unwrap();
    let mirror = Mirror::new(vec![faults[0].clone(), Arc::new(file)]).unwrap();
    faults[0].inject(When::from(Operation::Read, 0), Fault::Fail);
    for offset in (0..SIZE).step_by(128 << 10) {
        mirror.read_at(offset, &mut [1; SECTOR]).unwrap();
    }
    assert!(mirror.failed()[0] > 0);
    assert_eq!((mirror.repaired(), faults[0].count(Operation::Write)), (vec![0, 0], 0));
    assert!(matches!(mirror.write_at(0, &[0; SECTOR]), Err(Error::ReadOnly { .. })));
    drop(mirror);
    std::fs::remove_file(path).unwrap();
}

#[test]
fn a_queue_keeps_its_depth_and_spreads_reads() {
    let recorders = [memory(), memory()].map(|device| Arc::new(Recorder::new(device)));
    let mirror = mirror(&recorders);
    let mut queue = mirror.queue(16).unwrap();
    let mut done = Vec::new();
    for tag in 0..256 {
        if queue.in_flight() == 16 {
            queue.wait(1, &mut done).unwrap();
        }
        queue.submit(request(tag, Kind::Write, tag * 16384, &[tag as u8; 16384]));
    }
    queue.wait(1, &mut done).unwrap();
    queue.submit(request(256, Kind::Flush, 0, &[]));
    queue.wait(16, &mut done).unwrap();
    assert_eq!((done.len(), queue.in_flight()), (257, 0));
    assert!(done.drain(..).all(|completion| completion.result.is_ok()));
    for tag in 0..256 {
        if queue.in_flight() == 16 {
            queue.wait(1, &mut done).unwrap();
        }
        queue.submit(request(tag, Kind::Read, tag * 16384, &[0; 16384]));
    }
    queue.wait(16, &mut done).unwrap();
    assert_eq!(done.len(), 256);
    for completion in done.drain(..) {
        assert!(completion.result.is_ok() && completion.buffer[..] == [completion.tag as u8; 16384]);
    }
    let traffic = [0, 1].map(|copy| recorders[copy].traffic());
    assert_eq!(traffic.each_ref().map(|traffic| (traffic.write.count, traffic.flushes)), [(256, 1); 2]);
    assert_eq!(traffic[0].read.count + traffic[1].read.count, 256);
    assert!(traffic.iter().all(|traffic| traffic.read.count > 64), "{traffic:?}");

    // A request that breaks the contract is refused and reaches no copy; one request may have several segments.
    queue.submit(request(0, Kind::Write, SIZE, &[1; 512]));
    queue.submit(request(1, Kind::Write, 1, &[1; 512]));
    let segments = [(0, 4096, 512), (SIZE - 512, 0, 512)];
    let segments = segments.map(|(offset, at, length)| Segment { offset, at, length });
    let mut pieces = request(2, Kind::Write, 0, &[2; 8192]);
    pieces.segments = segments[..].into();
    queue.submit(pieces);
    assert_eq!(queue.in_flight(), 3);
    queue.wait(3, &mut done).unwrap();
    done.sort_by_key(|completion| completion.tag);
    assert!(matches!(done[0].result, Err(Error::OutOfRange { .. })));
    assert!(matches!(done[1].result, Err(Error::Misaligned { .. })));
    assert!(done[2].result.is_ok() && done[2].segments[..] == segments && done[2].buffer.len() == 8192);
    // A queue dropped with requests in flight leaves no range in use that would prevent a repair.
    queue.submit(request(3, Kind::Write, 0, &[3; 8192]));
    drop(queue);
    mirror.repair_copy(0, 0, &[3; 8192]).unwrap();
    for copy in 0..2 {
        let mut data = [0; 512];
        mirror.read_copy(copy, SIZE - 512, &mut data).unwrap();
        assert_eq!(data, [2; 512]);
    }
}

#[test]
fn queues_of_files_work_together() {
    let path = |copy| std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("mirror-{copy}"));
    let files =
        [0, 1, 2].map(|copy| Arc::new(FileDevice::create(path(copy), SIZE, FileOptions::default()).unwrap()));
    let mirror = mirror(&files);
    let mut random = Random(5);
    let mut model = vec![0; SIZE as usize];
    let mut queue = mirror.queue(32).unwrap();
    let mut done = Vec::new();
    for _ in 0..20 {
        // Writes that do not overlap, then reads of everything.
        let each = SIZE / 32;
        for tag in 0..32 {
            let length = (1 + random.below(each / 512)) as usize * SECTOR;
            let data = random.data(length);
            queue.submit(request(tag, Kind::Write, tag * each, &data));
            model[(tag * each) as usize..][..length].copy_from_slice(&data);
        }
        queue.wait(32, &mut done).unwrap();
        for tag in 0..32 {
            queue.submit(request(tag, Kind::Read, tag * each, &vec![0; each as usize]));
        }
        queue.wait(32, &mut done).unwrap();
        assert_eq!(done.len(), 64);
        for completion in done.drain(..32) {
            completion.result.unwrap();
        }
        for completion in done.drain(..) {
            completion.result.unwrap();
            let offset = completion.segments[0].offset as usize;
            assert!(completion.buffer[..] == model[offset..][..each as usize]);
        }
    }
    drop(queue);
    for (copy, file) in files.iter().enumerate() {
        let mut image = vec![0; SIZE as usize];
        file.read_at(0, &mut image).unwrap();
        assert!(image == model, "copy {copy} differs");
    }
    drop((mirror, files));
    for copy in 0..3 {
        std::fs::remove_file(path(copy)).unwrap();
    }
}

/// The first offset that is read from copy 0.
fn place_of_copy_0(faults: &[Arc<Faults>; 2], mirror: &Mirror) -> u64 {
    let is_0 = |offset: &u64| {
        let before = faults[0].count(Operation::Read);
        mirror.read_at(*offset, &mut [0; SECTOR]).unwrap();
        faults[0].count(Operation::Read) > before
    };
    (0..SIZE).step_by(64 << 10).find(is_0).expect("reads are spread")
}

/// Makes the fault affect the next transfer of this operation. The returned function waits until that transfer has
/// begun.
fn next(faults: &Faults, operation: Operation, fault: Fault) -> impl Fn() {
    let number = faults.count(operation);
    faults.inject(When::nth(operation, number), fault);
    move || {
        while faults.count(operation) == number {
            std::thread::yield_now();
        }
    }
}

const LONG: Duration = Duration::from_millis(200);

#[test]
fn a_write_waits_for_a_repair_and_a_repair_does_not_meet_a_write() {
    let (below, faults, mirror) = faulty();
    let place = place_of_copy_0(&faults, &mirror);
    mirror.write_at(place, &[1; SECTOR]).unwrap();
    let contents = || [0, 1].map(|copy: usize| below[copy].to_image()[place as usize]);
    // The repair of copy 0 takes long, with data read from copy 1, while the place is written.
    let _ = next(&faults[0], Operation::Read, Fault::Fail);
    let repairing = next(&faults[0], Operation::Write, Fault::Delay(LONG));
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| mirror.read_at(place, &mut [0; SECTOR]));
        repairing();
        mirror.write_at(place, &[2; SECTOR]).unwrap();
        reader.join().unwrap().unwrap();
    });
    assert_eq!((contents(), mirror.repaired()), ([2, 2], vec![1, 0]));
    // The write is complete on copy 0 and takes long on copy 1 when a read of copy 0 fails.
    let writing = next(&faults[1], Operation::Write, Fault::Delay(LONG));
    let _ = next(&faults[0], Operation::Read, Fault::Fail);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| mirror.write_at(place, &[3; SECTOR]));
        writing();
        mirror.read_at(place, &mut [0; SECTOR]).unwrap();
        writer.join().unwrap().unwrap();
    });
    assert_eq!(contents(), [3, 3]);
}

#[test]
fn writes_that_overtake_each_other_leave_copies_alike() {
    let (below, faults, mirror) = faulty();
    let writing = next(&faults[1], Operation::Write, Fault::Delay(LONG));
    std::thread::scope(|scope| {
        // This write takes long on copy 1, so the next one overtakes it there.
        let slow = scope.spawn(|| mirror.write_at(0, &[1; 4096]));
        writing();
        mirror.write_at(2048, &[2; 4096]).unwrap();
        slow.join().unwrap().unwrap();
    });
    let images = below.map(|device| device.to_image());
    assert!(images[0] == images[1]);
    assert_eq!([0, 4096].map(|at: usize| images[0][at]), [1, 2]);
    assert_eq!(mirror.failed(), [0, 0]);
}

/// The start of each stripe, and the copy from which it is read.
fn stripes(faults: &[Arc<Faults>; 2], mirror: &Mirror) -> Vec<(u64, usize)> {
    let of = |place| {
        let before = faults[1].count(Operation::Read);
        mirror.read_at(place, &mut [0; SECTOR]).unwrap();
        (place, (faults[1].count(Operation::Read) - before) as usize)
    };
    (0..SIZE).step_by(256 << 10).map(of).collect()
}

#[test]
fn of_writes_that_meet_the_one_counts_that_was_seen() {
    let (below, faults, mirror) = faulty();
    let stripes = stripes(&faults, &mirror);
    for copy in 0..2 {
        let place = stripes.iter().find(|(_, read)| *read == copy).unwrap().0;
        let seen = || {
            let mut data = [0; SECTOR];
            mirror.read_at(place, &mut data).unwrap();
            data[0]
        };
        // This write is the first to reach copy 0, and the last to reach copy 1.
        let writing = next(&faults[1], Operation::Write, Fault::Delay(LONG));
        let mirror = &mirror;
        std::thread::scope(|scope| {
            let slow = scope.spawn(move || mirror.write_at(place, &[1; SECTOR]));
            writing();
            mirror.write_at(place, &[2; SECTOR]).unwrap();
            assert_eq!(seen(), 2);
            slow.join().unwrap().unwrap();
        });
        assert_eq!(
            seen(),
            if copy == 0 { 2 } else { 1 },
            "what copy {copy} has is seen from the first to the last"
        );
        let both = below.each_ref().map(|device| device.to_image()[place as usize]);
        assert_eq!(both, [seen(); 2]);
    }
}

#[test]
fn a_read_across_stripes_sees_what_others_have_seen() {
    let (_, faults, mirror) = faulty();
    let stripes = stripes(&faults, &mirror);
    let place = stripes.windows(2).find(|pair| (pair[0].1, pair[1].1) == (1, 0)).unwrap()[1].0;
    let writing = next(&faults[1], Operation::Write, Fault::Delay(LONG));
    let (start, length) = (place - SECTOR as u64, 2 * SECTOR);
    std::thread::scope(|scope| {
        let slow = scope.spawn(|| mirror.write_at(place, &[7; SECTOR]));
        writing();
        let mut data = vec![0; length];
        mirror.read_at(place, &mut data[SECTOR..]).unwrap();
        assert_eq!(data[SECTOR], 7, "copy 0 has it already");
        let is_seen = |data: &[u8]| data[..SECTOR] == [0; SECTOR] && data[SECTOR..] == [7; SECTOR];
        data.fill(0xEE);
        mirror.read_at(start, &mut data).unwrap();
        assert!(is_seen(&data));
        data.fill(0xEE);
        mirror.read_batch(&mut [(start, &mut data)]).unwrap();
        assert!(is_seen(&data));
        let mut queue = mirror.queue(1).unwrap();
        queue.submit(request(1, Kind::Read, start, &data));
        let mut done = Vec::new();
        queue.wait(1, &mut done).unwrap();
        assert!(done[0].result.is_ok() && is_seen(&done[0].buffer));
        slow.join().unwrap().unwrap();
    });
    let mut data = vec![0xEE; length];
    mirror.read_at(start, &mut data).unwrap();
    assert_eq!((data[0], data[SECTOR]), (0, 7));
}

#[test]
fn copies_are_alike_after_writes_that_met() {
    let below = [memory(), memory(), memory()];
    let mirror = mirror(&below);
    const RANGE: u64 = 64 << 10;
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let mirror = &mirror;
            scope.spawn(move || {
                let mut random = Random(100 + thread);
                let mut queue = mirror.queue(4).unwrap();
                let mut done = Vec::new();
                for step in 0..2000 {
                    let start = random.below(RANGE / 512 - 16) * 512;
                    let data = vec![random.below(256) as u8; 512 * (1 + random.below(16)) as usize];
                    if step % 3 == 0 {
                        mirror.write_at(start, &data).unwrap();
                        continue;
                    }
                    if queue.in_flight() == 4 {
                        queue.wait(1, &mut done).unwrap();
                    }
                    queue.submit(request(step, Kind::Write, start, &data));
                }
                queue.wait(4, &mut done).unwrap();
                assert!(done.iter().all(|completion| completion.result.is_ok()));
            });
        }
    });
    let images = below.map(|device| device.to_image());
    assert!(images[0] == images[1] && images[1] == images[2]);
}

#[test]
fn a_repair_brings_nothing_back_that_was_written_over() {
    let (below, faults, mirror) = faulty();
    faults[0].inject(When::one_in(Operation::Read, 2), Fault::Fail);
    faults[1].inject(When::one_in(Operation::Read, 3), Fault::Fail);
    const ROUNDS: u64 = 20_000;
    // Places in four stripes, of which some are read from copy 0 and some from copy 1.
    let place = |round: u64| round % 4 * (256 << 10);
    std::thread::scope(|scope| {
        for thread in 0..2_u64 {
            let mirror = &mirror;
            // Each writer writes its own half of a place, while the readers read and repair all of it.
            scope.spawn(move || {
                for round in 1..=ROUNDS {
                    let data = [(round % 251) as u8 + 1; 2048];
                    mirror.write_at(place(round) + thread * 2048, &data).unwrap();
                }
            });
            scope.spawn(move || {
                let mut buffer = vec![0; 4096];
                for round in 0..ROUNDS {
                    // The read fails if both copies fail at the same time.
                    let _ = mirror.read_at(place(round), &mut buffer);
                }
            });
        }
    });
    assert!(mirror.repaired().iter().all(|&count| count > 0), "{:?}", mirror.repaired());
    for (copy, device) in below.iter().enumerate() {
        let image = device.to_image();
        for round in ROUNDS - 3..=ROUNDS {
            let found = &image[place(round) as usize..][..4096];
            assert!(
                found.iter().all(|&byte| byte == (round % 251) as u8 + 1),
                "copy {copy} holds something old"
            );
        }
    }
}

#[test]
fn whoever_has_checksums_finds_the_good_copy_and_repairs_the_other() {
    let (below, faults, mirror) = faulty();
    let mirror = Arc::new(mirror);
    let good = Random(9).data(4096);
    mirror.write_at(8192, &good).unwrap();
    faults[1].flip(8192 + 700, 0x10).unwrap();
    let copy = |device: &dyn Device, copy: usize, offset: u64| {
        let mut data = vec![0; 4096];
        device.read_copy(copy, offset, &mut data).unwrap();
        data == good
    };
    assert_eq!([copy(&*mirror, 0, 8192), copy(&*mirror, 1, 8192)], [true, false]);
    let refused = mirror.read_copy(2, 0, &mut [0; SECTOR]).unwrap_err().to_string();
    assert!(refused.contains("has no copy 2, only 0 to 1"), "{refused}");
    assert!(matches!(mirror.read_copy(0, SIZE, &mut [0; SECTOR]), Err(Error::OutOfRange { .. })));
    assert!(matches!(mirror.repair_copy(0, 1, &[0; SECTOR]), Err(Error::Misaligned { .. })));
    assert!(memory().read_copy(1, 0, &mut [0; SECTOR]).unwrap_err().to_string().contains("only copy 0"));

    // The same through every kind of device that wraps another.
    let partition = Partition::new(mirror.clone(), 8192, 65536, "part".into()).unwrap();
    let recorder = Recorder::new(mirror.clone());
    let through = Faults::new(mirror.clone(), 1);
    let journal = Faults::recording(mirror.clone(), 1, Grain::Physical);
    let overlay = OverlayDevice::new(mirror.clone());
    let after_power_cut = journal.log().cut(0, Survivors::None);
    let wrappers: [(&dyn Device, u64); 6] = [
        (&partition, 0),
        (&recorder, 8192),
        (&through, 8192),
        (&journal, 8192),
        (&overlay, 8192),
        (&after_power_cut, 8192),
    ];
    for (device, offset) in wrappers {
        assert_eq!(device.copies(), 2);
        assert_eq!([copy(device, 0, offset), copy(device, 1, offset)], [true, false]);
        assert!(device.read_copy(2, offset, &mut [0; SECTOR]).is_err());
        assert!(device.repair_copy(2, offset, &[0; SECTOR]).is_err());
    }
    assert!(partition.read_copy(0, 65536, &mut [0; SECTOR]).is_err());
    assert!(partition.repair_copy(0, 65536, &[0; SECTOR]).is_err());

    // The wrappers that keep writes to themselves keep a repair, too.
    for device in [&journal as &dyn Device, &overlay, &after_power_cut] {
        device.repair_copy(1, 8192, &good).unwrap();
        assert_eq!([copy(device, 0, 8192), copy(device, 1, 8192)], [true, true]);
    }
    assert_eq!(mirror.repaired(), [0, 0]);
    // The other wrappers repair the given copy and no other.
    let recorded = recorder.traffic();
    let writes = faults[0].count(Operation::Write);
    for (repairs, (device, offset)) in wrappers[..3].iter().enumerate() {
        assert!(!copy(*device, 1, *offset));
        device.repair_copy(1, *offset, &good).unwrap();
        assert!(copy(*device, 1, *offset));
        assert_eq!(mirror.repaired(), [0, repairs as u64 + 1]);
        faults[1].flip(8192 + 700, 0x10).unwrap();
    }
    assert_eq!(faults[0].count(Operation::Write), writes);
    assert_eq!(recorder.traffic().since(&recorded).write.bytes, 4096);
    mirror.repair_copy(1, 8192, &good).unwrap();
    assert!(below[0].to_image() == below[1].to_image());

    // Injected faults affect these transfers like any other.
    through.inject(When::from(Operation::Read, through.count(Operation::Read)), Fault::Fail);
    through.inject(When::from(Operation::Write, through.count(Operation::Write)), Fault::Fail);
    assert!(through.read_copy(0, 0, &mut [0; SECTOR]).is_err());
    assert!(through.repair_copy(0, 0, &[9; SECTOR]).is_err());
    // A device that is no mirror has one copy.
    let plain = memory();
    plain.repair_copy(0, 0, &[5; SECTOR]).unwrap();
    assert_eq!((plain.copies(), plain.to_image()[0]), (1, 5));
    assert!(plain.repair_copy(1, 0, &[5; SECTOR]).is_err());
}

#[test]
fn what_is_being_written_is_not_repaired() {
    let (_, _, mirror) = faulty();
    let mut queue = mirror.queue(1).unwrap();
    queue.submit(request(0, Kind::Write, 4096, &[1; 4096]));
    let error = mirror.repair_copy(0, 4096, &[0; SECTOR]).unwrap_err().to_string();
    assert!(error.contains("offset 4096 are being written"), "{error}");
    mirror.repair_copy(0, 8192, &[0; SECTOR]).unwrap();
    queue.wait(1, &mut Vec::new()).unwrap();
    mirror.repair_copy(0, 4096, &[1; SECTOR]).unwrap();
}

#[test]
fn copies_that_do_not_begin_alike_are_refused() {
    let (below, faults, mirror) = faulty();
    let mirror: Arc<dyn Device> = Arc::new(mirror);
    mirror.write_at(0, &[0x55; 65536]).unwrap();
    refuse_unlike_copies(&*mirror).unwrap();
    refuse_unlike_copies(&*below[0]).unwrap();
    faults[1].flip(32768 + 71, 0xFF).unwrap();
    refuse_unlike_copies(&*mirror).unwrap();
    let partition = Partition::new(mirror.clone(), 32768, 8192, "part".into()).unwrap();
    let error = refuse_unlike_copies(&partition).unwrap_err();
    assert!(matches!(error, Error::Protected { .. }));
    let text = error.to_string();
    assert!(
        text.contains("copy 1 differs from copy 0, counted from 0, at offset 71 (expected 0x55, found 0xaa)"),
        "{text}"
    );
    // A copy that cannot be read does not count as different.
    faults[0].inject(When::from(Operation::Read, 0), Fault::Fail);
    refuse_unlike_copies(&partition).unwrap();
    faults[1].inject(When::from(Operation::Read, 0), Fault::Fail);
    assert!(matches!(refuse_unlike_copies(&partition), Err(Error::Io { .. })));
    // An empty device is smaller than the compared beginning.
    let empty = [(); 2].map(|()| Arc::new(MemoryDevice::new(0, Sectors::SMALL)));
    refuse_unlike_copies(&self::mirror(&empty)).unwrap();
}

#[test]
fn a_queue_goes_on_with_the_copies_left() {
    let (below, faults, mirror) = faulty();
    let mut queue = mirror.queue(4).unwrap();
    let mut done = Vec::new();
    faults[1].inject(When::nth(Operation::Flush, 0), Fault::Fail);
    queue.submit(request(1, Kind::Write, 0, &[1; 4096]));
    queue.submit(request(2, Kind::Flush, 0, &[]));
    queue.wait(2, &mut done).unwrap();
    assert!(done.iter().all(|completion| completion.result.is_ok()));
    assert!(mirror.out_of_service()[1].is_some());
    queue.submit(request(4, Kind::Write, 0, &[2; 4096]));
    queue.wait(1, &mut done).unwrap();
    for offset in (0..SIZE).step_by(256 << 10) {
        queue.submit(request(5, Kind::Read, offset, &[9; 4096]));
        queue.wait(1, &mut done).unwrap();
    }
    assert!(done.iter().all(|completion| completion.result.is_ok()));
    assert_eq!(faults[1].count(Operation::Read), 0);
    assert_eq!((below[0].to_image()[0], below[1].to_image()[0]), (2, 1));
    // A queue made now has only the copy that is left.
    let mut late = mirror.queue(1).unwrap();
    late.submit(request(7, Kind::Write, 0, &[3; 4096]));
    late.wait(1, &mut done).unwrap();
    assert_eq!((below[0].to_image()[0], below[1].to_image()[0]), (3, 1));
    let buffer: Buffer = done.pop().unwrap().buffer;
    assert_eq!(buffer[0], 3);
}

/// A record in memory, which fails to be saved when told so.
#[derive(Default)]
struct Record {
    bytes: Mutex<Option<Vec<u8>>>,
    is_full: AtomicBool,
    is_by_name: AtomicBool,
}

impl MirrorRecord for Record {
    fn load(&self) -> std::io::Result<Option<Vec<u8>>> {
        Ok(self.bytes.lock().unwrap().clone())
    }

    fn save(&self, bytes: &[u8]) -> std::io::Result<()> {
        if self.is_full.load(Ordering::Relaxed) {
            return Err(std::io::ErrorKind::StorageFull.into());
        }
        *self.bytes.lock().unwrap() = Some(bytes.to_vec());
        Ok(())
    }

    fn stamp(&self) -> std::io::Result<String> {
        Ok("as ever".into())
    }

    fn is_identified(&self) -> bool {
        !self.is_by_name.load(Ordering::Relaxed)
    }
}

struct NoJudge;

impl MirrorJudge for NoJudge {
    fn is_damage(&self, _: &Arc<dyn Device>, _: &Arc<dyn Device>) -> bool {
        false
    }

    fn soundness(&self, _: &Arc<dyn Device>) -> (Soundness, u64) {
        (Soundness::Sound, 0)
    }

    fn mend(&self, _: Arc<dyn Device>) -> Vec<String> {
        Vec::new()
    }
}

/// A copy whose record lacks what the others' have would count as older than they are, although the write succeeded.
#[test]
fn what_cannot_be_recorded_is_not_written() {
    let devices = [memory(), memory()];
    devices.iter().for_each(|device| device.write_at(0, &[1; 4096]).unwrap());
    let records = [0, 1].map(|_| Arc::new(Record::default()));
    let all: Vec<Arc<dyn MirrorRecord>> = records.iter().map(|record| record.clone() as _).collect();
    MirrorSet::found(&all, SIZE).unwrap();
    let look = || {
        let copy = |number: usize| MirrorCopy {
            name: format!("copy{number}"),
            device: Ok(devices[number].clone() as Arc<dyn Device>),
            record: records[number].clone(),
        };
        MirrorSet::look(vec![copy(0), copy(1)], &NoJudge)
    };
    let saved = || records.each_ref().map(|record| record.bytes.lock().unwrap().clone());
    let is_written = |at: u64| {
        devices.each_ref().map(|device| {
            let mut bytes = [0; SECTOR];
            device.read_at(at, &mut bytes).unwrap();
            bytes == [9; SECTOR]
        })
    };
    let before = saved();
    let mirror = look().open(true).unwrap();
    records[1].is_full.store(true, Ordering::Relaxed);
    let error = mirror.write_at(8192, &[9; SECTOR]).unwrap_err();
    assert!(matches!(&error, Error::Io { operation: Operation::Write, offset: 8192, .. }), "{error}");
    assert!(error.to_string().contains("record of this copy of the mirror cannot be saved"), "{error}");
    let mut queue = mirror.queue(1).unwrap();
    queue.submit(request(1, Kind::Write, 8192, &[9; SECTOR]));
    let mut done = Vec::new();
    queue.wait(1, &mut done).unwrap();
    assert!(done[0].result.is_err());
    drop(queue);
    assert!(mirror.discard(8192, SECTOR as u64).is_err());
    assert_eq!((is_written(8192), saved()), ([false; 2], before));
    // Once there is room again, the session begins; and then each of its regions is recorded before it is written.
    records[1].is_full.store(false, Ordering::Relaxed);
    mirror.write_at(8192, &[9; SECTOR]).unwrap();
    records[1].is_full.store(true, Ordering::Relaxed);
    mirror.write_at(8192 + SECTOR as u64, &[9; SECTOR]).unwrap();
    mirror.write_at(SIZE / 2, &[9; SECTOR]).unwrap_err();
    assert_eq!([8192, SIZE / 2].map(is_written), [[true; 2], [false; 2]]);
    records[1].is_full.store(false, Ordering::Relaxed);
    drop(mirror);
    assert!(look().standings().iter().all(|standing| *standing == Standing::Current));
}

/// Two disks without serial numbers: the first was away, the second had its name and was written to, and now each has
/// its own name again. The record of the newest content stands under the name of the outdated disk.
#[test]
fn a_record_found_by_name_alone_decides_no_rebuild() {
    for is_by_name in [false, true] {
        let devices = [memory(), memory()];
        devices.iter().for_each(|device| device.write_at(0, &[1; 4096]).unwrap());
        let records = [0, 1].map(|_| Arc::new(Record::default()));
        records.iter().for_each(|record| record.is_by_name.store(is_by_name, Ordering::Relaxed));
        let all: Vec<Arc<dyn MirrorRecord>> = records.iter().map(|record| record.clone() as _).collect();
        MirrorSet::found(&all, SIZE).unwrap();
        let copy = |record: usize, device: Option<usize>| MirrorCopy {
            name: format!("disk{record}"),
            device: device.map(|device| devices[device].clone() as Arc<dyn Device>).ok_or("away".to_string()),
            record: records[record].clone(),
        };
        let mirror = MirrorSet::look(vec![copy(0, Some(1)), copy(1, None)], &NoJudge).open(true).unwrap();
        mirror.write_at(8192, &[9; SECTOR]).unwrap();
        drop(mirror);
        let look = || MirrorSet::look(vec![copy(0, Some(0)), copy(1, Some(1))], &NoJudge);
        let mut set = look();
        assert_eq!([0, 1].map(|copy| set.is_identified(copy)), [!is_by_name; 2]);
        let prepared = set.prepare(None, false);
        if !is_by_name {
            // Records that are found by what the disks are do not change places.
            prepared.unwrap();
            continue;
        }
        let error = prepared.unwrap_err();
        assert!(
            matches!(&error, Error::Protected { device, reason }
            if &**device == "disk0" && reason.contains("--from")),
            "{error}"
        );
        assert_eq!(devices[1].to_image()[8192], 9);
        let mut set = look();
        set.prepare(Some(1), false).unwrap();
        set.rebuild(Some(1), &mut |_| true).unwrap();
        assert_eq!(devices.each_ref().map(|device| device.to_image()[8192]), [9, 9]);
    }
}

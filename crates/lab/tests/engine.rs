//! The engine in memory: it issues the I/Os that the job describes, and detects wrong blocks.

use platter_device::{Device, DirectionTraffic, FileDevice, FileOptions, MemoryDevice, Recorder, Sectors};
use platter_lab::{
    CELL, Comparison, Durability, Job, Measured, Pattern, Pause, Portion, Rate, Session, Stand, Stop,
    Subject, Target, Watch, Workload, compare, prepare, run,
};
use platter_vfs::{FormatOptions, Kind, Name, Node, OpenOptions, Silent};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

fn job(count: u64) -> Job {
    Job {
        pattern: Pattern {
            block: 4096,
            align: 0,
            read_percent: 70,
            random_percent: 100,
            workers: 3,
            queue_depth: 4,
            own_span: false,
            ..Pattern::default()
        },
        range: 0..8 << 20,
        seed: 8664,
        ramp_up: Duration::ZERO,
        stop: Stop::Count(count),
        durability: Durability::Direct,
        verify: false,
        touch: false,
        interval: Duration::from_secs(1),
    }
}

fn on_memory(job: &Job) -> (Measured, Arc<Recorder>) {
    let recorder = Arc::new(Recorder::new(Arc::new(MemoryDevice::new(8 << 20, Sectors::SMALL))));
    let subject = Subject::Device { device: recorder.clone(), free: None };
    (run(&subject, job, &()).unwrap(), recorder)
}

#[test]
fn a_count_is_kept_and_the_device_sees_what_was_asked() {
    let (measured, recorder) = on_memory(&job(10_001));
    assert_eq!(measured.ios(), 10_001);
    assert_eq!(measured.bytes(), 10_001 * 4096);
    assert_eq!(measured.workers.iter().map(|worker| worker.ios()).collect::<Vec<_>>(), [3334, 3334, 3333]);
    assert_eq!(measured.latencies().count(), 10_001);
    let traffic = recorder.traffic();
    assert_eq!((traffic.read.count, traffic.write.count), (measured.reads.ios, measured.writes.ios));
    assert_eq!(traffic.read.sizes.len(), 1);
    // Of 10,001 I/Os 70 % are reads, with a standard deviation of 46.
    assert!((6_700..7_300).contains(&measured.reads.ios), "{} reads", measured.reads.ios);
    assert_eq!(traffic.flushes, 0);
}

#[test]
fn the_same_seed_asks_for_the_same() {
    let writes = |seed| {
        let mut job = job(3_000);
        job.seed = seed;
        on_memory(&job).0.writes.ios
    };
    assert_eq!(writes(1), writes(1));
    assert_ne!(writes(1), writes(2));
}

#[test]
fn sequential_workers_go_on_where_they_were() {
    let mut job = job(1_500);
    job.pattern = Pattern { random_percent: 0, read_percent: 100, queue_depth: 1, ..job.pattern };
    let (_, recorder) = on_memory(&job);
    // Sequential are all reads but the first of each worker, those after a worker wraps around, and about one in a
    // hundred that the recorder cannot follow because several workers run in step.
    assert!(recorder.traffic().read.sequential_share() > 0.9, "{:?}", recorder.traffic().read);
    job.pattern.workers = 1;
    let (_, recorder) = on_memory(&job);
    assert!(recorder.traffic().read.sequential >= 1_498, "{:?}", recorder.traffic().read);
}

#[test]
fn each_durability_reaches_the_device() {
    let mut job = job(600);
    job.pattern = Pattern { read_percent: 0, workers: 1, queue_depth: 1, ..job.pattern };
    job.durability = Durability::WriteThrough;
    assert_eq!(on_memory(&job).1.traffic().durable_writes, 600);
    job.durability = Durability::FsyncEvery(20);
    let (measured, recorder) = on_memory(&job);
    assert_eq!((recorder.traffic().flushes, measured.syncs.count()), (30, 30));
    // In memory all writes in flight complete at once; each set of them has its sync all the same.
    for (depth, writes, syncs) in [(8, 1, 600), (32, 1, 600), (32, 5, 120), (32, 100, 6)] {
        job.pattern.queue_depth = depth;
        job.durability = Durability::FsyncEvery(writes);
        let (measured, recorder) = on_memory(&job);
        let found = (recorder.traffic().flushes, measured.syncs.count(), measured.writes.ios);
        assert_eq!(found, (syncs, syncs, 600), "every {writes} at a depth of {depth}");
    }
}

/// On a volume that writes to new places, the writes in flight share one sync. The first sync is a commit with two
/// flushes, which creates the sync log; each later one is an entry of the log beside the data, which takes three
/// transfers.
#[test]
fn writes_in_flight_share_a_sync() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("image");
    // A file, because its completions come one by one; in memory all requests complete at once.
    let file = FileDevice::create(&path, 512 << 20, FileOptions::default()).unwrap();
    let device: Arc<dyn Device> = Arc::new(file);
    let format = platter_formats::by_name("refs+integrity").unwrap();
    format.make(&*device, &FormatOptions::default(), &Silent).unwrap();
    let recorder = Arc::new(Recorder::new(device));
    let system = format.open(recorder.clone(), OpenOptions::default()).unwrap();
    let node = system.create(Node::ROOT, &Name::from("file"), Kind::File).unwrap();
    let subject = Subject::File { system: system.clone(), node };
    let mut job = job(640);
    prepare(&subject, &job.range, 1, &mut |_, _| {}).unwrap();
    subject.sync().unwrap();
    // Sequential, because two writes of one block in flight have no defined order, and ReFS syncs such writes
    // afterwards.
    job.pattern = Pattern { read_percent: 0, random_percent: 0, workers: 1, queue_depth: 32, ..job.pattern };
    job.durability = Durability::WriteThrough;
    let before = recorder.traffic();
    let measured = run(&subject, &job, &()).unwrap();
    let seen = recorder.traffic().since(&before);
    assert_eq!((measured.writes.ios, measured.syncs.count(), seen.flushes), (640, 20, 2));
    assert!(seen.durable_writes <= 3 + 19 * 4, "{} durable writes", seen.durable_writes);
    system.unmount().unwrap();
}

#[test]
fn a_job_by_time_keeps_its_time_and_its_timeline() {
    let mut job = job(0);
    job.stop = Stop::After(Duration::from_millis(300));
    job.ramp_up = Duration::from_millis(50);
    job.interval = Duration::from_millis(100);
    let (measured, _) = on_memory(&job);
    assert_eq!(measured.elapsed, Duration::from_millis(300));
    assert_eq!(measured.timeline.len(), 3);
    assert_eq!(measured.timeline.iter().map(|interval| interval.ios).sum::<u64>(), measured.ios());
}

/// A slice counts every I/O that it issued, until the last has completed; `issued` counts the ramp-up too, as the
/// device's traffic does.
#[test]
fn a_slice_counts_what_it_issued_and_the_next_goes_on() {
    let recorder = Arc::new(Recorder::new(Arc::new(MemoryDevice::new(8 << 20, Sectors::SMALL))));
    let subject = Subject::Device { device: recorder.clone(), free: None };
    let mut job = job(0);
    job.pattern = Pattern { read_percent: 100, random_percent: 0, workers: 1, ..job.pattern };
    let mut session = Session::new(subject, job).unwrap();
    let (mut issued, mut counted) = (0, 0);
    for _ in 0..3 {
        let time = Duration::from_millis(20);
        let slice = session.run(Duration::from_millis(5), Stop::Slice(time), time, &()).unwrap();
        assert!(slice.elapsed >= time && slice.whole >= slice.elapsed + Duration::from_millis(5));
        issued += slice.issued.reads;
        counted += slice.ios();
    }
    // On a busy machine a worker may sleep through a whole ramp-up or slice, but not through all of them.
    assert!(issued > counted && counted > 0);
    let seen = recorder.traffic().read;
    assert_eq!((seen.count, seen.bytes), (issued, issued * 4096));
    // The I/Os continue in order from slice to slice, except where the walk wraps around.
    let rounds = issued / (8 << 20 >> 12) + 1;
    assert!(seen.count - seen.sequential <= rounds + 1, "{} of {} in order", seen.sequential, seen.count);
}

/// An observer that asks for the end of a run as soon as it is asked.
struct Impatient;

impl Watch for Impatient {
    fn tick(&self, _elapsed: Duration, _whole: Option<Duration>) {}
    fn stop(&self) -> bool {
        true
    }
}

/// A run ends soon after its observer asks for it.
#[test]
fn a_run_ends_when_it_is_told_to() {
    let device = Arc::new(MemoryDevice::new(8 << 20, Sectors::SMALL));
    let subject = Subject::Device { device, free: None };
    for stop in [Stop::Count(u64::MAX), Stop::After(Duration::from_secs(3600))] {
        let mut job = job(0);
        job.stop = stop;
        let measured = run(&subject, &job, &Impatient).unwrap();
        assert!(measured.ios() > 0 && measured.elapsed < Duration::from_secs(60));
    }
}

/// I/Os of the ramp-up do not count towards the count that ends a job.
#[test]
fn a_count_begins_after_the_ramp_up() {
    let mut job = job(500);
    job.ramp_up = Duration::from_millis(30);
    let (measured, recorder) = on_memory(&job);
    assert_eq!(measured.ios(), 500);
    assert!(measured.issued.ios() > 500 && recorder.traffic().read.count == measured.issued.reads);
}

#[test]
fn impossible_jobs_are_refused() {
    let refused = |change: fn(&mut Job)| {
        let mut job = job(10);
        change(&mut job);
        let subject =
            Subject::Device { device: Arc::new(MemoryDevice::new(8 << 20, Sectors::SMALL)), free: None };
        run(&subject, &job, &()).err().map(|error| error.to_string()).unwrap_or_default()
    };
    assert!(refused(|job| job.pattern.block = 1000).contains("512-byte sector"));
    assert!(refused(|job| job.pattern.workers = 0).contains("at least 1"));
    assert!(refused(|job| job.range = 0..1024).contains("holds no block"));
    assert!(refused(|job| job.range = 0..1 << 30).contains("past the end"));
    assert!(refused(|job| (job.verify, job.pattern.align) = (true, 512)).contains("multiple of 512 bytes"));
    assert!(refused(|job| (job.verify, job.range) = (true, 1536..8 << 20)).contains("begin at 1536 bytes"));
}

#[test]
fn every_cache_line_is_touched_if_asked() {
    let device = MemoryDevice::new(1 << 20, Sectors::SMALL);
    let lines = 4096 / 64;
    // Each word is the square of its index; the engine reads the first word of each cache line. A single worker reads
    // each block once, in order.
    let content: Vec<u8> = (0..1_u64 << 17).flat_map(|word| (word * word).to_le_bytes()).collect();
    device.write_at(0, &content).unwrap();
    let expected = (0..256 * lines).map(|line| (line * 8) * (line * 8)).fold(0, |all, word: u64| all ^ word);
    let subject = Subject::Device { device: Arc::new(device), free: None };
    let mut job = job(256);
    job.range = 0..1 << 20;
    job.pattern.workers = 1;
    job.pattern.read_percent = 100;
    job.pattern.random_percent = 0;
    assert_eq!(run(&subject, &job, &()).unwrap().touched, 0);
    job.touch = true;
    assert_eq!(run(&subject, &job, &()).unwrap().touched, expected);

    // All writes use one buffer, so its lines differ from block to block only if each line was changed before each
    // write.
    job.pattern.read_percent = 0;
    job.pattern.queue_depth = 1;
    run(&subject, &job, &()).unwrap();
    let Subject::Device { device, .. } = &subject else { unreachable!("made above") };
    let mut written = vec![0; 1 << 20];
    device.read_at(0, &mut written).unwrap();
    assert!(written.chunks(64).zip(written[4096..].chunks(64)).all(|(line, next)| line != next));
}

#[test]
fn a_wrong_byte_is_caught_and_located() {
    let device = Arc::new(MemoryDevice::new(8 << 20, Sectors::SMALL));
    let subject = Subject::Device { device: device.clone(), free: None };
    let mut job = job(20_000);
    job.verify = true;
    prepare(&subject, &job.range, job.seed, &mut |_, _| {}).unwrap();
    let good = run(&subject, &job, &()).unwrap();
    assert_eq!((good.corrupted, good.verified), (0, good.reads.ios));

    prepare(&subject, &job.range, job.seed, &mut |_, _| {}).unwrap();
    let at = 777 * CELL as u64;
    let mut sector = [0; 512];
    device.read_at(at + 1024, &mut sector).unwrap();
    sector[5] ^= 0x10;
    device.write_at(at + 1024, &sector).unwrap();
    job.pattern.read_percent = 100;
    let bad = run(&subject, &job, &()).unwrap();
    assert!(bad.corrupted > 0 && bad.corruptions.iter().all(|corruption| corruption.offset == at));
}

#[test]
fn a_job_within_a_time_and_a_count_ends_at_whichever_comes_first() {
    let mut job = job(0);
    let hour = Duration::from_secs(3600);
    job.stop = Stop::Within { count: 100, time: hour };
    let (measured, _) = on_memory(&job);
    assert!(measured.ios() == 100 && measured.elapsed < hour);
    let short = Duration::from_millis(50);
    job.stop = Stop::Within { count: u64::MAX, time: short };
    let (measured, _) = on_memory(&job);
    assert!(measured.ios() > 100 && measured.elapsed == short);
}

/// A job that its time ends has taken that time, also if its last I/O completed long before.
#[test]
fn a_rate_is_counted_over_the_whole_time() {
    let mut job = job(0);
    let time = Duration::from_millis(250);
    job.pattern.workers = 1;
    job.pattern.shape.pace.limits[2] = Some(Rate::Ios(10.0));
    job.stop = Stop::Within { count: 1_000, time };
    let (measured, _) = on_memory(&job);
    assert_eq!((measured.elapsed, measured.stalled), (time, 0));
    // I/Os are due after 0, 100 and 200 ms; a busy machine may miss the last, but none comes before its time.
    assert!((1..=3).contains(&measured.ios()), "{} I/Os", measured.ios());

    // Interrupted by its observer, it has taken the time until then, which is about 100 ms, but less where the workers
    // begin late.
    let device = Arc::new(MemoryDevice::new(8 << 20, Sectors::SMALL));
    let subject = Subject::Device { device, free: None };
    job.pattern.shape.pace.limits[2] = Some(Rate::Ios(0.001));
    for stop in [Stop::Count(1_000), Stop::Within { count: 1_000, time: Duration::from_secs(3600) }] {
        let measured = run(&subject, &Job { stop, ..job.clone() }, &Impatient).unwrap();
        let ran = Duration::from_millis(1)..Duration::from_secs(600);
        assert!(measured.ios() == 1 && ran.contains(&measured.elapsed), "{:?}", measured.elapsed);
    }
}

/// Slices that are shorter than the time between two I/Os have together as many as the rate allows in their time.
#[test]
fn a_rate_goes_on_from_slice_to_slice() {
    let mut job = job(0);
    job.pattern.workers = 1;
    job.pattern.shape.pace.limits[2] = Some(Rate::Ios(20.0));
    let subject =
        Subject::Device { device: Arc::new(MemoryDevice::new(8 << 20, Sectors::SMALL)), free: None };
    let mut session = Session::new(subject, job).unwrap();
    let mut ios = 0;
    for _ in 0..20 {
        let time = Duration::from_millis(15);
        ios += session.run(Duration::ZERO, Stop::Slice(time), time, &()).unwrap().ios();
    }
    // 0.3 s with one I/O at the beginning and one every 50 ms; a busy machine may miss some, but none is too many.
    assert!((2..=6).contains(&ios), "{ios} I/Os");
}

/// A block that was drawn but whose time did not come before the end of a piece is not claimed for ever.
#[test]
fn a_verified_job_with_a_rate_keeps_its_blocks() {
    let mut job = job(0);
    job.verify = true;
    job.range = 0..2 * CELL as u64;
    job.pattern.workers = 1;
    job.pattern.queue_depth = 1;
    job.pattern.shape.pace.limits[2] = Some(Rate::Ios(1000.0));
    let subject =
        Subject::Device { device: Arc::new(MemoryDevice::new(8 << 20, Sectors::SMALL)), free: None };
    prepare(&subject, &job.range, job.seed, &mut |_, _| {}).unwrap();
    let mut session = Session::new(subject, job).unwrap();
    for _ in 0..20 {
        let time = Duration::from_millis(5);
        let slice = session.run(Duration::ZERO, Stop::Slice(time), time, &()).unwrap();
        assert_eq!(slice.corrupted, 0);
    }
    let rest = session.run(Duration::ZERO, Stop::Count(10), Duration::from_secs(1), &()).unwrap();
    assert_eq!(rest.ios(), 10);
}

/// Reads and writes have block sizes of their own, so the direction that is behind its rate needs an I/O of its own.
#[test]
fn each_direction_of_a_mix_keeps_its_rate() {
    let mut job = job(0);
    let of = |read_percent, block| Portion {
        weight: 1,
        least: block,
        most: block,
        align: 0,
        read_percent,
        random_percent: 100,
        burst: 1,
        delay: Duration::ZERO,
    };
    job.pattern.workers = 1;
    job.pattern.block = 8192;
    job.pattern.shape.mix = vec![of(100, 4096), of(0, 8192)];
    job.pattern.shape.pace.limits = [Some(Rate::Ios(900.0)), Some(Rate::Ios(100.0)), None];
    job.stop = Stop::After(Duration::from_millis(300));
    let (measured, recorder) = on_memory(&job);
    // A busy machine may miss some; but there are never more than the rates allow, and reads do not wait for writes.
    let (reads, writes) = (measured.issued.reads, measured.issued.writes);
    assert!(reads <= 271 && writes <= 31 && reads > 100, "{reads} reads and {writes} writes");
    let traffic = recorder.traffic();
    assert_eq!((traffic.read.bytes, traffic.write.bytes), (reads * 4096, writes * 8192));
}

/// A sequential mix in fio's way: each direction goes on where it was itself.
#[test]
fn reads_and_writes_may_have_positions_of_their_own() {
    let mut job = job(1_000);
    job.pattern = Pattern { random_percent: 0, read_percent: 50, workers: 1, queue_depth: 1, ..job.pattern };
    let in_order = |job: &Job| {
        let traffic = on_memory(job).1.traffic();
        let rest = |direction: &DirectionTraffic| direction.count - direction.sequential;
        (rest(&traffic.read), rest(&traffic.write))
    };
    let (reads, writes) = in_order(&job);
    assert!(reads > 200 && writes > 200, "{reads} {writes}");
    job.pattern.shape.own_positions = true;
    assert_eq!(in_order(&job), (1, 1));
}

/// No more I/Os than come before a pause are issued between two pauses, at any queue depth.
#[test]
fn a_burst_is_no_larger_at_a_greater_depth() {
    let mut job = job(0);
    job.pattern.workers = 1;
    job.stop = Stop::After(Duration::from_millis(250));
    for (queue_depth, drained, after, most) in [(32, true, 1, 3), (4, false, 1, 3), (32, true, 8, 24)] {
        job.pattern.queue_depth = queue_depth;
        let time = Duration::from_millis(100);
        job.pattern.shape.pace.pause = Some(Pause { after, time, busy: Duration::ZERO, drained });
        let (measured, _) = on_memory(&job);
        let issued = measured.issued.ios();
        assert!((1..=most).contains(&issued), "{issued} at a depth of {queue_depth}");
        assert_eq!(measured.stalled, 0);
    }
}

/// Where the system has no more threads, the job ends with a sentence, and the workers that were started end too. The
/// address space of a process of its own is limited for that. A thread's stack takes 64 MiB of it, so that what is left when
/// there is no room for another stack is enough for everything else.
#[test]
fn threads_that_the_system_refuses_are_an_error() {
    const FEW_THREADS: &str = "PLATTER_TEST_FEW_THREADS";
    if std::env::var_os(FEW_THREADS).is_none() {
        let name = "threads_that_the_system_refuses_are_an_error";
        let limited = "ulimit -v 1000000; exec timeout 60 \"$0\" --exact \"$1\" --test-threads=1";
        let me = std::env::current_exe().unwrap();
        let mut child = Command::new("sh");
        child.args(["-c", limited]).arg(me).arg(name).env(FEW_THREADS, "1").env("RUST_MIN_STACK", "67108864");
        let output = child.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        return;
    }
    let mut job = job(10_000);
    job.pattern.workers = 4_000;
    job.pattern.queue_depth = 1;
    let subject =
        Subject::Device { device: Arc::new(MemoryDevice::new(8 << 20, Sectors::SMALL)), free: None };
    let error = run(&subject, &job, &()).err().expect("4,000 stacks take 8 GB").to_string();
    assert!(error.contains("of 4000 workers were started"), "{error}");

    // A comparison of which nothing was measured has no report.
    let text = "[many]\nsize=1m\ndirect=1\nfilename=x\nnumjobs=4000\nrw=randread\n";
    let workload = Workload::from_fio("job", text, None).unwrap();
    let targets = vec![Target::parse("raw").unwrap()];
    let comparison = Comparison::new(Stand::Memory(8 << 20), targets, vec![workload]);
    let error = compare(&comparison, &()).expect_err("no worker issued an I/O").to_string();
    assert!(error.starts_with("nothing was measured: raw was left out"), "{error}");
    assert!(error.contains("of 4000 workers were started"), "{error}");
}

//! fio jobs with less common keys, by the traffic of the device: sizes, shares, order, rates.

use platter_device::{Device, MemoryDevice, Recorder, Sectors};
use platter_lab::{Durability, Job, Measured, Stop, Subject, Workload, prepare, run};
use platter_vfs::{FormatOptions, Kind, Name, Node, OpenOptions, Silent};
use std::sync::Arc;
use std::time::Duration;

/// The job of a fio job file with one section and these keys, over 8 MiB.
fn job(keys: &str, stop: Stop) -> Job {
    let text = format!("[a]\nsize=8m\ndirect=1\n{}\n", keys.replace(' ', "\n"));
    let case =
        Workload::from_fio("job", &text, None).unwrap_or_else(|error| panic!("{error}")).cases.remove(0);
    Job {
        pattern: case.pattern,
        range: 0..8 << 20,
        seed: 8664,
        ramp_up: Duration::ZERO,
        stop,
        durability: case.durability.unwrap_or(Durability::Direct),
        verify: false,
        touch: false,
        interval: Duration::from_secs(1),
    }
}

fn on_memory(keys: &str, stop: Stop) -> (Measured, Arc<Recorder>) {
    let recorder = Arc::new(Recorder::new(Arc::new(MemoryDevice::new(8 << 20, Sectors::SMALL))));
    let subject = Subject::Device { device: recorder.clone(), free: None };
    (run(&subject, &job(keys, stop), &()).unwrap(), recorder)
}

/// The sizes of the reads that the device saw, with their counts.
fn read_sizes(recorder: &Recorder) -> Vec<(u64, u64)> {
    recorder.traffic().read.sizes.iter().map(|(bin, count)| (bin.least, *count)).collect()
}

#[test]
fn blocks_split_by_share_reach_the_device_in_these_shares() {
    let (measured, recorder) = on_memory("rw=randread bssplit=4k/60:16k/30:64k/10", Stop::Count(10_000));
    let sizes = read_sizes(&recorder);
    assert_eq!(sizes.iter().map(|(size, _)| *size).collect::<Vec<_>>(), [4096, 16384, 65536]);
    for ((_, count), expected) in sizes.iter().zip([6000_u64, 3000, 1000]) {
        assert!(count.abs_diff(expected) < 200, "{sizes:?}");
    }
    let bytes: u64 = sizes.iter().map(|(size, count)| size * count).sum();
    assert_eq!((measured.ios(), measured.bytes(), recorder.traffic().read.bytes), (10_000, bytes, bytes));
}

#[test]
fn reads_and_writes_have_sizes_of_their_own() {
    let (measured, recorder) = on_memory("rw=randrw rwmixwrite=25 bs=4k,32k", Stop::Count(4_000));
    let traffic = recorder.traffic();
    assert_eq!((traffic.read.sizes.len(), traffic.write.sizes.len()), (1, 1));
    assert_eq!(traffic.read.bytes, measured.reads.ios * 4096);
    assert_eq!(traffic.write.bytes, measured.writes.ios * 32768);
    assert!(measured.writes.ios.abs_diff(1000) < 120, "{} writes", measured.writes.ios);
}

#[test]
fn a_rate_is_kept_by_each_job_and_direction() {
    // Two jobs with 500 reads per second each run for a fifth of a second.
    let time = Duration::from_millis(200);
    let (measured, _) = on_memory("rw=randread rate_iops=500 numjobs=2 iodepth=4", Stop::After(time));
    assert!((150..=202).contains(&measured.ios()), "{} I/Os", measured.ios());
    let (measured, _) = on_memory("rw=randrw bs=4k rate=2m,400k", Stop::After(time));
    assert!((80..=104).contains(&measured.reads.ios), "{} reads", measured.reads.ios);
    assert!((15..=21).contains(&measured.writes.ios), "{} writes", measured.writes.ios);
}

#[test]
fn a_pause_comes_after_every_so_many() {
    let time = Duration::from_millis(200);
    let (measured, _) = on_memory("rw=read thinktime=20ms thinktime_blocks=8", Stop::After(time));
    // There is time for ten pauses, with eight I/Os before each.
    assert!((48..=80).contains(&measured.ios()) && measured.ios() % 8 == 0, "{} I/Os", measured.ios());
}

#[test]
fn without_repetition_a_pass_comes_to_every_block_once() {
    // All 2,048 blocks must have been written once, so that none is still zero.
    let device = Arc::new(MemoryDevice::new(8 << 20, Sectors::SMALL));
    let subject = Subject::Device { device: device.clone(), free: None };
    run(&subject, &job("rw=randwrite bs=4k", Stop::Count(2048)), &()).unwrap();
    let untouched = |device: &MemoryDevice| {
        let mut block = vec![0; 4096];
        let blocks = (0..2048).filter(|block_number| {
            device.read_at(block_number * 4096, &mut block).unwrap();
            block.iter().all(|&byte| byte == 0)
        });
        blocks.count()
    };
    assert_eq!(untouched(&device), 0);
    let device = Arc::new(MemoryDevice::new(8 << 20, Sectors::SMALL));
    let subject = Subject::Device { device: device.clone(), free: None };
    run(&subject, &job("rw=randwrite bs=4k norandommap", Stop::Count(2048)), &()).unwrap();
    // With repetition, one block in e is never drawn.
    assert!(untouched(&device).abs_diff(753) < 80, "{}", untouched(&device));
}

#[test]
fn a_hot_spot_is_met_as_often_as_its_law_says() {
    // All I/Os go to the first tenth of the file, because the device shows places only by which blocks were written.
    let device = Arc::new(MemoryDevice::new(8 << 20, Sectors::SMALL));
    let recorder = Arc::new(Recorder::new(device.clone()));
    let subject = Subject::Device { device: recorder, free: None };
    let keys = "rw=randwrite bs=4k random_distribution=zoned:100/10";
    run(&subject, &job(keys, Stop::Count(4000)), &()).unwrap();
    let mut block = vec![0; 4096];
    let last = (0..2048).rev().find(|number| {
        device.read_at(number * 4096, &mut block).unwrap();
        block.iter().any(|&byte| byte != 0)
    });
    assert!(last.is_some_and(|last| (195..=205).contains(&last)), "{last:?}");
}

#[test]
fn files_and_distances_show_in_what_follows_what() {
    let sequential = |keys: &str| {
        let (_, recorder) = on_memory(keys, Stop::Count(1000));
        recorder.traffic().read.sequential
    };
    assert!(sequential("rw=read bs=4k") >= 998);
    assert_eq!(sequential("rw=read:4k bs=4k"), 0);
    // Sequential are seven of each run of eight, and the few runs that happen to begin where a recent one ended.
    let runs = sequential("rw=randread:8 bs=4k");
    assert!((870..=900).contains(&runs), "{runs}");
}

/// A volume that verifies its data gets blocks of many sizes in the same buffer, and every block reads back.
#[test]
fn blocks_of_many_sizes_read_back_from_every_format() {
    for name in ["fat32", "exfat", "ntfs", "refs", "refs+integrity"] {
        let device: Arc<dyn Device> = Arc::new(MemoryDevice::new(512 << 20, Sectors::SMALL));
        let format = platter_formats::by_name(name).unwrap();
        format.make(&*device, &FormatOptions::default(), &Silent).unwrap();
        let system = format.open(device, OpenOptions::default()).unwrap();
        let node = system.create(Node::ROOT, &Name::from("file"), Kind::File).unwrap();
        let subject = Subject::File { system: system.clone(), node };
        prepare(&subject, &(0..8 << 20), 1, &mut |_, _| {}).unwrap();
        subject.sync().unwrap();
        let keys = "rw=randrw bssplit=4k/50:12k/30:256k/20 iodepth=8 ioengine=io_uring numjobs=2 filename=x";
        let mut job = job(keys, Stop::Count(3000));
        job.verify = true;
        for durability in [Durability::Direct, Durability::WriteThrough, Durability::FsyncEvery(16)] {
            job.durability = durability;
            if durability != Durability::Direct {
                job.stop = Stop::Count(300);
            }
            prepare(&subject, &(0..8 << 20), 1, &mut |_, _| {}).unwrap();
            let measured = run(&subject, &job, &()).unwrap();
            assert_eq!(measured.corrupted, 0, "{name}: {:?}", measured.corruptions);
            assert!(measured.verified > measured.reads.ios, "{name}");
        }
        system.unmount().unwrap();
    }
}

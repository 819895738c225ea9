//! fio job files and the workloads that are read from them.

use super::parse;
use crate::experiment::Direction;
use crate::{Begin, Durability, NextFile, PartLength, Rate, Share, Spread, Workload};
use std::time::Duration;

/// Parses a job file of one section with these keys.
fn one(keys: &str) -> crate::Result<Workload> {
    parse("job", &format!("[a]\n{}\n", keys.replace(' ', "\n")), None)
}

fn read(keys: &str) -> Workload {
    one(keys).unwrap_or_else(|error| panic!("{keys}: {error}"))
}

fn refused(keys: &str) -> String {
    one(keys).err().unwrap_or_else(|| panic!("{keys} is not refused")).to_string()
}

const JOB: &str = "; a comment\n[global]\nioengine=io_uring\ndirect=1\nsize=1g\nruntime=30s\ntime_based\n\
                   randseed=7\n[mixed]\nrw=randrw\nrwmixread=70\nbs=4k\niodepth=32\nnumjobs=2\nfilename=x\n\
                   [seq]\nstonewall\nrw=read\nbs=1m\n";

#[test]
fn common_keys_mean_what_fio_means() {
    let workload = parse("job", JOB, None).unwrap();
    assert_eq!((workload.span, workload.seed, workload.cases.len()), (1 << 30, 7, 2));
    assert!(!workload.buffered && workload.notes.is_empty(), "{:?}", workload.notes);
    let mixed = &workload.cases[0];
    assert_eq!((mixed.direction, mixed.pattern.read_percent, mixed.pattern.workers), (Direction::Mix, 70, 2));
    assert_eq!((mixed.pattern.random_percent, mixed.pattern.queue_depth), (100, 32));
    assert_eq!((mixed.time, mixed.count, mixed.passes), (Duration::from_secs(30), None, None));
    let seq = &workload.cases[1];
    assert_eq!((seq.pattern.block, seq.pattern.random_percent, seq.pattern.queue_depth), (1 << 20, 0, 1));
}

#[test]
fn what_is_not_run_is_refused_by_name_and_line() {
    let unknown = JOB.replace("randseed=7", "no_such_key=zbd");
    let error = parse("job", &unknown, None).unwrap_err().to_string();
    assert!(error.contains("line 8: no_such_key=zbd") && error.contains("[mixed]"), "{error}");
    for (keys, line, words) in [
        ("size=1m rw=randtrim", 3, "trims"),
        ("rate_process=other size=1m", 2, "poisson"),
        ("size=1m ioengine=rdma", 3, "no storage in it"),
        ("size=1m ioengine=filecreate", 3, "small-files"),
        ("size=1m thinktime_iotime=10", 3, "thinktime_blocks"),
        ("size=1m bssplit=4k/50:8k/60", 3, "100 together"),
        ("size=1m random_distribution=zipf:1", 3, "theta"),
        ("size=1m random_distribution=bimodal", 3, "pareto"),
        ("size=1m zonemode=zbd", 3, "zones"),
        ("size=1m verify=crc32c", 3, "--verify"),
        ("size=1m ioengine=null", 3, "psync"),
        ("size=1m iodepth_batch=8", 3, "by itself"),
        ("size=1m cpus_allowed=0", 3, "taskset"),
        ("size=1m end_fsync=1", 3, "sync"),
        ("size=1m exitall", 3, "none ends another"),
        ("size=1m sync=perhaps", 3, "dsync"),
        ("size=1m direct=2", 3, "0 or 1"),
        ("size=1m filesize=4k-8k", 3, "not a range"),
        ("size=1m rw=read:x", 3, "whole number"),
        ("size=1m file_service_type=zipf:1.2", 3, "roundrobin"),
        ("size=1m kb_base=1001", 3, "1000 or 1024"),
        ("size=${NO_SUCH_VARIABLE}m", 2, "NO_SUCH_VARIABLE"),
        // The engine is the reason for the refusal, and not the engine's own key.
        ("nfs_url=nfs://127.0.0.1/x size=1m ioengine=nfs", 4, "ioengine=nfs"),
    ] {
        let error = refused(keys);
        assert!(error.contains(&format!("line {line}: ")) && error.contains(words), "{keys}: {error}");
    }
}

#[test]
fn keys_that_ask_for_nothing_do_no_harm() {
    read(
        "size=1m rate=0 thinktime=0 nrfiles=1 random_distribution=random verify=none zonemode=none offset=0 \
         startdelay=0 iodepth_batch=1 do_verify=0 group_reporting thread write_bw_log=x fallocate=none invalidate=0 \
         directory=/somewhere description=what name=other",
    );
}

#[test]
fn shares_and_counts_outside_of_their_range_are_refused() {
    for keys in [
        "rwmixread=150",
        "rwmixwrite=101",
        "percentage_random=200",
        "iodepth=0",
        "iodepth=4000000",
        "numjobs=5000",
        "numjobs=0",
        "size=101%",
        "size=0",
        "loops=0",
        "numjobs=5000000000",
        "bs=0",
        "bs=4g",
        "runtime=-1",
        "ramp_time=1y",
    ] {
        let error = refused(&format!("rw=randrw size=1m {keys}"));
        assert!(error.contains(&format!("line 4: {keys}")), "{error}");
    }
}

#[test]
fn of_two_keys_for_one_thing_the_later_counts() {
    assert!(!read("size=1m direct=0 buffered=0").buffered);
    assert!(read("size=1m direct=1 buffered=1").buffered);
    assert!(read("size=1m").buffered);
    let mix = |keys| read(&format!("size=1m rw=rw {keys}")).cases[0].pattern.read_percent;
    assert_eq!((mix("rwmixread=30 rwmixwrite=60"), mix("rwmixwrite=60 rwmixread=30"), mix("")), (40, 30, 50));
}

#[test]
fn a_synchronous_engine_holds_one_io() {
    let depth = |keys: &str| {
        let workload = read(&format!("size=1m rw=write direct=1 iodepth=32 {keys}"));
        (workload.cases[0].pattern.queue_depth, workload.notes.concat())
    };
    for engine in
        ["", "ioengine=sync", "ioengine=psync", "ioengine=vsync", "ioengine=pvsync", "ioengine=pvsync2"]
    {
        let (depth, notes) = depth(engine);
        assert!(
            depth == 1 && notes.contains("ioengine") && notes.contains("iodepth=32"),
            "{engine}: {notes}"
        );
    }
    assert_eq!(depth("ioengine=libaio"), (32, String::new()));
    assert_eq!(depth("ioengine=io_uring"), (32, String::new()));
    let buffered = read("size=1m rw=write iodepth=8 ioengine=libaio").notes.concat();
    assert!(buffered.contains("direct=1"), "{buffered}");
}

#[test]
fn a_job_without_time_ends_when_it_has_gone_over_its_size() {
    let workload = read("rw=write bs=64k size=1m direct=1 numjobs=3 filename=x fsync=4 loops=2");
    assert_eq!((workload.cases[0].passes, workload.cases[0].count), (Some(2), None));
    assert_eq!(workload.durability, Durability::FsyncEvery(4));
    let ends = |keys: &str| {
        let case = read(&format!("bs=64k size=1m direct=1 {keys}")).cases.remove(0);
        (case.passes, case.count, case.time.as_secs())
    };
    assert_eq!(ends("number_ios=10 numjobs=3 loops=2"), (Some(2), Some(60), 0));
    assert_eq!(ends("io_size=4m numjobs=2"), (None, Some(128), 0));
    assert_eq!(ends("io_size=4m number_ios=5"), (None, Some(5), 0));
    // A time and a size together: the job ends at whichever comes first.
    assert_eq!(ends("runtime=30"), (Some(1), None, 30));
    assert_eq!(ends("timeout=30 time_based io_size=4m"), (None, None, 30));
    assert!(refused("size=1m time_based").contains("runtime"));
    assert!(refused("size=1m time_based runtime=1 number_ios=4").contains("number_ios"));
    assert!(refused("size=1m io_size=1k").contains("no block"));
}

#[test]
fn each_of_numjobs_has_its_own_file_unless_a_filename_is_given() {
    let span = |keys: &str| {
        let workload = read(&format!("direct=1 numjobs=4 {keys}"));
        (workload.span, workload.share, workload.cases[0].pattern.own_span)
    };
    assert_eq!(span("size=16m directory=/somewhere"), (64 << 20, None, true));
    assert_eq!(span("size=16m"), (64 << 20, None, true));
    assert_eq!(span("size=16m filename=x"), (16 << 20, None, false));
    assert_eq!(span("size=16m filename=x offset_increment=16m"), (64 << 20, None, true));
    assert_eq!(span("size=25%"), (0, Some(Share(100)), true));
    assert_eq!(span("size=25% filename=x"), (0, Some(Share(25)), false));
    assert_eq!(span("filename=x"), (0, Some(Share(100)), false));
    assert_eq!(span("filesize=8m filename=x"), (8 << 20, None, false));
    assert!(refused("numjobs=4 size=26%").contains("more than there is"));
    assert!(refused("numjobs=4 size=16m filename=x offset_increment=1m").contains("offset_increment"));
    assert!(refused("nrfiles=2 size=16m filesize=17m").contains("filesize"));
    let shared = read("direct=1 numjobs=4 size=16m filename=x");
    assert_eq!((shared.cases[0].pattern.shape.begin, shared.notes.len()), (Begin::Together, 0));
}

#[test]
fn block_sizes_may_differ_by_direction_if_only_one_counts() {
    let block = |keys: &str| read(&format!("size=1m {keys}")).cases[0].pattern.block;
    assert_eq!((block("bs=4k,8k rw=read"), block("bs=4k,8k rw=write")), (4096, 8192));
    assert_eq!((block("bs=,8k rw=read"), block("bs=8k, rw=randwrite")), (4096, 4096));
    assert_eq!((block("bsrange=8k-8k"), block("bs=2300"), block("blocksize=$pagesize")), (8192, 2300, 4096));
    let align = |keys: &str| read(&format!("size=1m {keys}")).cases[0].pattern.align;
    assert_eq!((align("rw=randread blockalign=16k"), align("rw=read blockalign=16k")), (16384, 0));
}

#[test]
fn sections_without_stonewall_run_at_the_same_time() {
    let groups = |text: &str| -> Result<Vec<Vec<String>>, String> {
        let workload =
            parse("job", &format!("[global]\nsize=1m\n{text}"), None).map_err(|error| error.to_string())?;
        let names = |group: &[crate::workload::Case]| group.iter().map(|case| case.name.clone()).collect();
        Ok(workload.groups().map(names).collect())
    };
    let two = |keys: &str| groups(&format!("[writer]\nrw=write\n[reader]\nrw=randread\n{keys}\n"));
    assert_eq!(two("").unwrap(), [["writer", "reader"]]);
    for keys in ["stonewall", "wait_for_previous=1", "wait_for=writer"] {
        assert_eq!(two(keys).unwrap(), [["writer"], ["reader"]], "{keys}");
    }
    assert_eq!(two("stonewall=0").unwrap(), [["writer", "reader"]]);
    assert!(two("wait_for=other").unwrap_err().contains("no section before it"));
    // Both b and c wait for a, so they run together.
    assert_eq!(groups("[a]\n[b]\nwait_for=a\n[c]\nwait_for=a\n").unwrap(), [vec!["a"], vec!["b", "c"]]);
    assert_eq!(groups("[a]\n[b]\n[c]\nstonewall\n[d]\n").unwrap(), [["a", "b"], ["c", "d"]]);
    assert_eq!(groups("[a]\n[b]\nwait_for=a\n[c]\nwait_for=b\n").unwrap().len(), 3);
    // In each of these files the last section would start while a group is running; that is refused.
    for text in [
        "[a]\n[b]\n[c]\nwait_for=a\n",
        "[a]\n[b]\nwait_for=a\n[c]\n",
        "[a]\n[b]\nstonewall\n[c]\nwait_for=a\n",
    ] {
        assert!(groups(text).unwrap_err().contains("stonewall if that is meant"), "{text}");
    }
    let ramps = groups("[a]\n[b]\nramp_time=1\n").unwrap_err();
    assert!(ramps.contains("line 4, [b]: ramp_time"), "{ramps}");
    let both = parse("job", "[a]\nsize=1m\n[b]\nsize=1m\n", None).unwrap();
    assert!(both.notes.concat().contains("[a], [b] run at the same time"), "{:?}", both.notes);
}

#[test]
fn sections_have_files_of_their_own_unless_they_name_the_same() {
    let ranges = |text: &str| -> Result<(u64, Vec<std::ops::Range<u64>>), String> {
        let workload = parse("job", text, None).map_err(|error| error.to_string())?;
        let span = match workload.share {
            Some(Share(percent)) => 1_000_000 * u64::from(percent),
            None => workload.span,
        };
        Ok((span, workload.cases.iter().map(|case| case.range(span)).collect()))
    };
    let k = |start: u64, end: u64| start << 10..end << 10;
    let (span, own) = ranges("[a]\nsize=64k\n[b]\nsize=128k\nnumjobs=2\n[c]\nsize=8k\nstonewall\n").unwrap();
    assert_eq!((span, own), (320 << 10, vec![k(0, 64), k(64, 320), k(0, 8)]));
    let (_, same) =
        ranges("[global]\nfilename=f\n[a]\nsize=64k\n[b]\nsize=32k\n[c]\nfilename=g\nsize=8k\n").unwrap();
    assert_eq!(same, [k(0, 64), k(0, 32), k(64, 72)]);
    // A shared file is as long as the largest of its sections asks for.
    let (span, grown) = ranges("[global]\nfilename=f\n[a]\nsize=32k\n[b]\noffset=32k\nsize=64k\n").unwrap();
    assert_eq!((span, grown), (96 << 10, vec![k(0, 32), k(32, 96)]));
    let (_, halves) = ranges("[global]\nfilename=f\n[a]\nsize=50%\n[b]\noffset=50%\n").unwrap();
    assert_eq!((halves[0].end, halves[1].start), (50_000_000 / 4096 * 4096, 50_000_000 / 4096 * 4096));
    assert!(ranges("[a]\noffset=50%\nsize=60%\n").unwrap_err().contains("leaves no"));
    assert!(ranges("[a]\noffset=1m\n").unwrap_err().contains("offset is in bytes"));
    let (span, shares) = ranges("[a]\nsize=10%\n[b]\nsize=30%\n").unwrap();
    assert_eq!(shares, [0..span / 4 / 4096 * 4096, span / 4 / 4096 * 4096..span]);
    assert!(ranges("[a]\n[b]\n").unwrap_err().contains("200 % of the target"));
    assert_eq!(ranges("[global]\nfilename=f\n[a]\n[b]\n").unwrap().1, [0..100_000_000, 0..100_000_000]);
    assert!(ranges("[a]\nsize=1m\n[b]\nsize=10%\nstonewall\n").unwrap_err().contains("in bytes in one"));
}

#[test]
fn cases_of_a_file_share_what_a_workload_has_once() {
    let two = |first: &str, second: &str| {
        let text = format!("[a]\nsize=1m\n{first}\n[b]\nsize=1m\nstonewall\n{second}\n");
        parse("job", &text, None).map_err(|error| error.to_string())
    };
    assert!(two("direct=1", "direct=0").unwrap_err().contains("direct must be the same as of [a] (line 1)"));
    assert!(two("randseed=1", "randseed=2").unwrap_err().contains("randseed"));
    // Each section has its own durability for writes, and a durability does not apply to reads.
    let rules = |first: &str, second: &str| -> Vec<String> {
        let workload = two(first, second).unwrap();
        workload.cases.iter().map(|case| workload.durability_of(case).to_string()).collect()
    };
    assert_eq!(rules("rw=write\nfsync=1", "rw=write"), ["fsync_every=1", "direct"]);
    assert_eq!(rules("rw=write\nsync=dsync", "rw=write\nfdatasync=4"), ["write-through", "fsync_every=4"]);
    assert_eq!(two("rw=read", "rw=write\nfdatasync=1").unwrap().durability, Durability::FsyncEvery(1));
    assert!(refused("size=1m rw=write fsync=1 fdatasync=1").contains("one rule"));
    assert!(refused("size=1m rw=write fsync=1 sync=1").contains("one rule"));
}

/// Parses a job and returns least and most size, percentage of reads and weight of each kind of I/O.
fn kinds(keys: &str) -> Vec<(u32, u32, u8, u32)> {
    let case = read(&format!("size=64m {keys}")).cases.remove(0);
    let portions = case.pattern.portions();
    portions.iter().map(|p| (p.least, p.most, p.read_percent, p.weight)).collect()
}

#[test]
fn blocks_of_several_sizes_are_kinds_of_their_own() {
    assert_eq!(
        kinds("rw=randread bssplit=4k/60:64k/30:1m/"),
        [(4096, 4096, 100, 60_000), (65536, 65536, 100, 30_000), (1 << 20, 1 << 20, 100, 10_000)]
    );
    assert_eq!(
        kinds("rw=randrw rwmixread=70 bssplit=4k/50:8k/50,16k"),
        [(4096, 4096, 100, 35_000), (8192, 8192, 100, 35_000), (16384, 16384, 0, 30_000)]
    );
    assert_eq!(kinds("rw=randrw bs=4k,64k").len(), 2);
    assert_eq!(kinds("rw=randrw bs=4k,4k rwmixread=70"), [(4096, 4096, 70, 1)]);
    assert_eq!(kinds("rw=randread bsrange=4k-30k"), [(4096, 28672, 100, 100_000)]);
    let case = read("size=64m rw=read bssplit=2k/50:6k/50").cases.remove(0);
    assert_eq!((case.pattern.block, case.pattern.portions()[1].align), (6144, 2048));
    // The count is the number of I/Os of the mean size that fit into the size.
    let case = read("size=64m io_size=8m rw=read bssplit=4k/50:12k/50").cases.remove(0);
    assert_eq!(case.count, Some(1024));
}

#[test]
fn distributions_are_taken_with_their_numbers() {
    let spread = |text: &str| {
        read(&format!("size=1m rw=randread random_distribution={text}")).cases[0].pattern.shape.clone()
    };
    assert_eq!(spread("zipf:1.2").spread, Spread::Zipf { theta: 1.2, at: None });
    assert_eq!(spread("pareto:0.2:0.5").spread, Spread::Pareto { hot: 0.2, at: Some(0.5) });
    assert_eq!(spread("normal:10").spread, Spread::Normal { deviation: 10.0, at: 0.5 });
    for text in ["zoned:50/10:40/80", "zoned:50/10:60/80", "zoned_abs:50/64k:40/128k"] {
        let error = refused(&format!("size=1m rw=randread random_distribution={text}"));
        assert!(error.contains("100 together"), "{error}");
    }
    assert!(
        refused("size=1m rw=randread random_distribution=zoned:50/10:50/99").contains("109 % of the file")
    );
    let Spread::Parts(parts) = spread("zoned_abs:60/64k:40/128k").spread else { panic!() };
    assert_eq!((parts[0].percent, parts[1].length), (60.0, PartLength::Bytes(128 << 10)));
    let Spread::Parts(parts) = spread("zoned:50/5:30/15:20/").spread else { panic!() };
    assert_eq!((parts[2].percent, parts[2].length), (20.0, PartLength::Rest));
    // With a zipf distribution places are drawn again; with a uniform one each block comes once.
    assert!(!spread("zipf:1.2").once && spread("random").once);
    for wrong in ["zipf:-1", "pareto:2", "normal:0", "zoned:60", "zoned:60/x", "zoned:60/10,50/20", "zipf:a"]
    {
        refused(&format!("size=1m rw=randread random_distribution={wrong}"));
    }
}

#[test]
fn each_block_comes_once_as_in_fio_unless_it_is_not_wanted() {
    let once = |keys: &str| read(&format!("size=1m rw=randread {keys}")).cases[0].pattern.shape.once;
    assert!(once("") && once("random_generator=lfsr") && once("runtime=5 time_based"));
    assert!(!once("norandommap") && !once("percentage_random=50") && !once("bssplit=4k/50:8k/50"));
    let notes = read("size=1m rw=randread bssplit=4k/50:8k/50").notes.concat();
    assert!(notes.contains("with repetition"), "{notes}");
}

#[test]
fn a_share_of_random_ios_may_be_of_each_direction() {
    let of = |keys: &str| {
        let case = read(&format!("size=1m rw=randrw rwmixread=50 {keys}")).cases.remove(0);
        let kinds = case.pattern.portions().into_iter().map(|kind| (kind.read_percent, kind.random_percent));
        (case.pattern.random_percent, kinds.collect::<Vec<_>>())
    };
    assert_eq!(of("percentage_random=100,0"), (50, vec![(100, 100), (0, 0)]));
    assert_eq!(of("percentage_random=,20"), (60, vec![(100, 100), (0, 20)]));
    assert_eq!(of("percentage_random=30"), (30, vec![(50, 30)]));
    assert_eq!(of("percentage_random=30,30,5"), (30, vec![(50, 30)]));
    assert!(refused("size=1m rw=rw percentage_random=0,10").contains("random forms"));
}

#[test]
fn ios_end_at_the_end_of_a_file_of_a_given_size() {
    let of = |keys: &str| {
        let workload = read(&format!("bs=4k {keys}"));
        let case = &workload.cases[0];
        (case.range(workload.span), case.passes, case.count)
    };
    let m = |start: u64, end: u64| start << 20..end << 20;
    assert_eq!(of("filesize=4m offset=3m size=4m"), (m(3, 4), Some(1), None));
    assert_eq!(of("filesize=4m size=8m"), (m(0, 4), Some(1), None));
    assert_eq!(of("filesize=8m offset=2m"), (m(2, 8), Some(1), None));
    assert_eq!(of("filesize=8m size=4m"), (m(0, 4), Some(1), None));
    // Random I/Os go to the whole file, and are as many as the size says.
    assert_eq!(of("rw=randread filesize=8m offset=1m size=4m"), (m(1, 8), None, Some(1024)));
    assert!(refused("filesize=4m offset=5m size=1m").contains("behind the end"));
    assert!(refused("filesize=4m size=50%").contains("filesize in bytes"));
}

#[test]
fn a_name_for_all_sections_names_none() {
    let names = |text: &str| -> Vec<String> {
        let workload = parse("job", &format!("[global]\nname=foo\nsize=1m\n{text}"), None).unwrap();
        workload.cases.into_iter().map(|case| case.name).collect()
    };
    assert_eq!(names("[a]\n[b]\nname=bar\n"), ["a", "bar"]);
    assert_eq!(names("[a]\n[b]\nwait_for=a\n"), ["a", "b"]);
}

#[test]
fn rates_and_pauses_are_those_of_each_job() {
    let pace = |keys: &str| read(&format!("size=1m rw=rw {keys}")).cases[0].pattern.shape.pace;
    assert_eq!(
        pace("rate=1m,500k").limits,
        [Some(Rate::Bytes(1048576.0)), Some(Rate::Bytes(512000.0)), None]
    );
    assert_eq!(pace("rate_iops=,100").limits, [None, Some(Rate::Ios(100.0)), None]);
    assert_eq!(
        pace("rate=1m, rate_iops=,5").limits,
        [Some(Rate::Bytes(1048576.0)), Some(Rate::Ios(5.0)), None]
    );
    assert!(refused("size=1m rate=1m rate_iops=5").contains("rate and rate_iops"));
    assert!(pace("rate_iops=5 rate_process=poisson").poisson);
    let notes = read("size=1m direct=1 rate_iops=5 rate_min=1k ss=iops:10% io_submit_mode=offload").notes;
    assert!(notes.len() == 3 && notes.concat().contains("what it reached is reported"), "{notes:?}");
    assert_eq!(read("size=1m direct=1 rate_min=0 io_submit_mode=inline").notes.len(), 0);
    let pause = pace("thinktime=1500 thinktime_blocks=8 thinktime_spin=1ms").pause.unwrap();
    assert_eq!(
        (pause.time, pause.after, pause.busy),
        (Duration::from_micros(1500), 8, Duration::from_millis(1))
    );
    assert!(pause.drained && pace("thinktime_blocks=8").pause.is_none());
    let by_issue = |kind: &str| pace(&format!("thinktime=1 thinktime_blocks_type={kind}")).pause;
    assert_eq!(
        (by_issue("issue"), by_issue("complete")),
        (pace("thinktime=1").pause, pace("thinktime=1").pause)
    );
}

#[test]
fn files_runs_and_distances_are_as_written() {
    let shape = |keys: &str| read(&format!("size=64m {keys}")).cases[0].pattern.shape.clone();
    assert_eq!((shape("nrfiles=4").files, shape("filename=a:b\\:c:d").files), (4, 3));
    assert_eq!(shape("nrfiles=4 file_service_type=sequential").next_file, NextFile::Sequential);
    assert_eq!(read("nrfiles=4 filesize=1m").span, 4 << 20);
    assert_eq!((shape("rw=randread:8").run, shape("rw=randread:8").once), (8, false));
    // The distance is that from the end of an I/O: -8k goes over every block of 4 KiB backwards, and -4k stays on one.
    let stride = |keys: &str| shape(keys).stride;
    assert_eq!(
        (stride("rw=read:8k"), stride("rw=write:-8k"), stride("rw=read")),
        (Some(12 << 10), Some(-4096), None)
    );
    assert_eq!((stride("rw=read:-4k"), stride("rw=read:-2k")), (Some(0), Some(2048)));
    // A sequential mix has two positions, and so have the I/Os in a row of a random one.
    let own = |keys: &str| shape(keys).own_positions;
    assert!(own("rw=rw") && own("rw=randrw:8") && own("rw=randrw percentage_random=50"));
    assert!(!own("rw=randrw") && !own("rw=read") && !own("rw=write"));
    let mapped = read("size=1m ioengine=mmap iodepth=4");
    assert!(mapped.cases[0].pattern.queue_depth == 1 && mapped.notes.concat().contains("mapped memory"));
}

/// Keys that change nothing in a job of one section run; a file that is a path is known, so that it can be asked for.
#[test]
fn harmless_keys_run_and_named_paths_are_known() {
    let of = |text: &str| Workload::from_fio("job", text, None);
    let one = of("[a]\nsize=1m\nstartdelay=5\nexitall_on_error\ndo_verify=1\nzonesize=64k\n").unwrap();
    assert_eq!(one.cases.len(), 1);
    let two = of("[global]\nsize=1m\n[a]\nstartdelay=5\n[b]\n").unwrap_err().to_string();
    assert!(two.contains("begin at the same time"), "{two}");
    let slow = of("[a]\nsize=1m\nmax_latency=1s\n").unwrap_err().to_string();
    assert!(slow.contains("longest response time"), "{slow}");
    let files =
        of("[a]\nsize=1m\nrw=randread\nnrfiles=4\nfile_service_type=sequential\n").unwrap_err().to_string();
    assert!(files.contains("file_service_type=sequential"), "{files}");
    let named =
        of("[global]\nsize=1m\n[a]\nfilename=/dev/nvme9n1\n[b]\nfilename=plain\n[c]\ndirectory=/mnt/x\\:y\n")
            .unwrap();
    assert_eq!(named.paths, ["/dev/nvme9n1", "/mnt/x:y/"]);
    assert!(named.notes.iter().any(|note| note.contains("/dev/nvme9n1 of the job file is not touched")));
}

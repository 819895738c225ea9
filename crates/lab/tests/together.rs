//! Jobs that run at the same time: each keeps its own rules, and has a row of its own in the report.

use platter_device::{MemoryDevice, Recorder, Sectors};
use platter_lab::report::Document;
use platter_lab::report::document::Requested;
use platter_lab::{
    Comparison, Durability, Job, Pattern, Session, Stand, Stop, Subject, Target, Workload, compare,
};
use std::sync::Arc;
use std::time::Duration;

const SPAN: u64 = 8 << 20;

fn job(read_percent: u8, range: std::ops::Range<u64>, workers: u32, seed: u64) -> Job {
    Job {
        pattern: Pattern {
            block: 4096,
            align: 0,
            read_percent,
            random_percent: 100,
            workers,
            queue_depth: 2,
            own_span: false,
            ..Pattern::default()
        },
        range,
        seed,
        ramp_up: Duration::ZERO,
        stop: Stop::Count(0),
        durability: if read_percent == 0 { Durability::FsyncEvery(10) } else { Durability::Direct },
        verify: true,
        touch: false,
        interval: Duration::from_secs(1),
    }
}

#[test]
fn each_job_keeps_its_own_count_range_and_rule() {
    let recorder = Arc::new(Recorder::new(Arc::new(MemoryDevice::new(SPAN, Sectors::SMALL))));
    let subject = Subject::Device { device: recorder.clone(), free: None };
    platter_lab::prepare(&subject, &(0..SPAN), 1, &mut |_, _| {}).unwrap();
    let before = recorder.traffic();
    // The first job reads the blocks that the second writes meanwhile; both use the same ledger of the blocks'
    // generations.
    let jobs = vec![job(100, 0..SPAN, 2, 1), job(0, SPAN / 2..SPAN, 1, 2), job(50, 0..SPAN / 4, 3, 3)];
    let mut session = Session::together(subject, jobs).unwrap();
    let stops = [Stop::Count(3_000), Stop::Count(500), Stop::Count(1_000)];
    for _ in 0..2 {
        let all = session.run_all(Duration::ZERO, &stops, Duration::from_secs(1), &()).unwrap();
        assert_eq!(all.iter().map(|measured| measured.ios()).collect::<Vec<_>>(), [3_000, 500, 1_000]);
        assert_eq!(all.iter().map(|measured| measured.workers.len()).collect::<Vec<_>>(), [2, 1, 3]);
        assert_eq!((all[0].writes.ios, all[1].reads.ios), (0, 0));
        assert_eq!((all[1].syncs.count(), all[0].syncs.count() + all[2].syncs.count()), (50, 0));
        assert!(all.iter().all(|measured| measured.corrupted == 0), "{:?}", all[0].corruptions);
        assert_eq!(all[0].verified, 3_000);
    }
    let seen = recorder.traffic().since(&before);
    assert_eq!((seen.read.count + seen.write.count, seen.flushes), (9_000, 100));
    assert!(Session::together(Subject::Device { device: recorder, free: None }, Vec::new()).is_err());
}

fn compared(job: &str, time: Option<Duration>) -> Document {
    let workload = Workload::from_fio("job", job, None).unwrap();
    let targets = ["raw", "exfat"].map(|name| Target::parse(name).unwrap()).to_vec();
    let comparison = Comparison { time, ..Comparison::new(Stand::Memory(64 << 20), targets, vec![workload]) };
    compare(&comparison, &()).unwrap()
}

const READER_AND_WRITER: &str = "[global]\ndirect=1\nbs=4k\nsize=4m\n[reader]\nrw=randread\nnumjobs=2\n\
                                 [writer]\nrw=randwrite\nfsync=8\n[after]\nstonewall\nrw=read\n";

#[test]
fn sections_that_run_together_have_a_row_and_ratios_each() {
    let document = compared(READER_AND_WRITER, Some(Duration::from_millis(400)));
    let rows: Vec<(&str, String, &[String], &str)> = document
        .results
        .iter()
        .map(|row| (&*row.target, row.case.label(), &row.case.beside[..], &*row.case.durability))
        .collect();
    let (reader, writer) = (["reader read".to_string()], ["writer write".to_string()]);
    for target in ["raw", "exfat"] {
        assert!(rows.contains(&(target, "reader read".into(), &writer, "direct")), "{rows:?}");
        assert!(rows.contains(&(target, "writer write".into(), &reader, "fsync_every=8")), "{rows:?}");
        assert!(rows.contains(&(target, "after read".into(), &[], "direct")), "{rows:?}");
    }
    let of_exfat: Vec<_> = document.results.iter().filter(|row| row.target == "exfat").collect();
    assert!(of_exfat.iter().all(|row| row.estimates.len() == 1 && row.estimates[0].low.is_some()));
    assert!(of_exfat[1].sync_latency_us.is_some() && of_exfat[0].sync_latency_us.is_none());
    // Each case has asked for its own I/Os; the traffic of the device belongs to those of both together.
    let (read, written) = (&of_exfat[0].runs[0], &of_exfat[1].runs[0]);
    assert!(read.requested.reads > 0 && written.requested.writes > 0 && read.workers.len() == 2);
    assert_eq!((read.requested.writes, written.requested.reads), (0, 0));
    let both = Requested {
        writes: written.requested.writes,
        write_bytes: written.requested.write_bytes,
        ..read.requested
    };
    assert_eq!((read.requested_together, written.requested_together), (Some(both), Some(both)));
    let of_after = &of_exfat[2].runs[0];
    assert!(of_after.requested.reads > 0 && of_after.requested_together.is_none());
    assert!(
        document.warnings.iter().any(|warning| warning.contains("[reader], [writer] run at the same time"))
    );
    assert_eq!(Document::from_json(&document.to_json()).unwrap(), document);
}

#[test]
fn sections_that_run_together_end_by_their_own_counts() {
    let document = compared(READER_AND_WRITER, None);
    let counts: Vec<(String, u64)> = document
        .results
        .iter()
        .filter(|row| row.target == "raw")
        .map(|row| (row.case.label(), row.latency_us.count))
        .collect();
    let expected = [("reader read", 2048), ("writer write", 1024), ("after read", 1024)];
    assert_eq!(counts, expected.map(|(label, count)| (label.to_string(), count)));
}

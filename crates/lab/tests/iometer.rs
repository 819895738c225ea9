//! Iometer's configurations are tested by the traffic of the device, and its results by the measurements.

use platter_device::{Device, MemoryDevice, Recorder, Sectors};
use platter_lab::iometer::Config;
use platter_lab::workload::Case;
use platter_lab::{
    Comparison, Durability, Job, Measured, Observer, Runs, Stand, Stop, Subject, Target, Workload, compare,
};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const FILE: &str = include_str!("sample/two-specifications.icf");

/// The file with a run time of one second and without ramp-up.
fn short() -> String {
    FILE.replace("\t1          2          3", "\t0          0          1").replace("(s)\n\t5", "(s)\n\t0")
}

#[derive(Default)]
struct Keeper(Mutex<Runs>);

impl Observer for Keeper {
    fn stage(&self, _what: &str, _done: Duration, _total: Duration) {}
    fn result(&self, _target: &str, _workload: &str, _case: &str, _iops: f64, _mb_per_s: f64) {}
    fn measured(&self, _target: &str, workload: &Workload, case: &Case, measured: &Measured) {
        self.0.lock().unwrap().add(workload, case, measured);
    }
}

#[test]
fn results_csv_has_a_row_for_everyone_and_adds_up() {
    let config = Config::parse(&short()).unwrap();
    let workloads = vec![config.workload("test").unwrap()];
    let comparison = Comparison::new(Stand::Memory(64 << 20), vec![Target::Raw], workloads);
    let keeper = Keeper::default();
    let document = compare(&comparison, &keeper).unwrap();
    let csv = config.results(&keeper.0.into_inner().unwrap(), &document).unwrap();
    let header: Vec<&str> =
        csv.lines().find_map(|line| line.strip_prefix("'Target Type")).unwrap().split(',').collect();
    let column = |name: &str| header.iter().position(|column| *column == name).unwrap();
    let rows = |kind: &str| -> Vec<Vec<String>> {
        let own = csv.lines().filter(|line| line.split(',').next() == Some(kind));
        own.map(|line| line.split(',').map(str::to_owned).collect()).collect()
    };
    let number = |row: &[String], name: &str| row[column(name)].parse::<f64>().unwrap();
    // There are two steps, each with its own rows.
    let counts = ["ALL", "MANAGER", "WORKER", "DISK"].map(|kind| rows(kind).len());
    assert_eq!(counts, [2, 2, 8, 8]);
    assert_eq!(rows("PROCESSOR").len() % 2, 0);
    let kinds = ["ALL", "MANAGER", "PROCESSOR", "WORKER", "DISK"];
    assert!(kinds.iter().flat_map(|kind| rows(kind)).all(|row| row.len() == header.len()));
    for (all, (step, result)) in rows("ALL").iter().zip(document.results.iter().enumerate()) {
        let sum = |name: &str| -> f64 {
            rows("WORKER")[step * 4..][..4].iter().map(|worker| number(worker, name)).sum()
        };
        let (reads, writes) = (number(all, "Read I/Os"), number(all, "Write I/Os"));
        assert_eq!((sum("Read I/Os"), sum("Write I/Os")), (reads, writes));
        let run = &result.runs[0];
        assert!(((reads + writes) / (run.iops * run.seconds) - 1.0).abs() < 1e-6);
        assert!((number(all, "IOps") / run.iops - 1.0).abs() < 1e-4);
        // Reads and writes are counted in the same bins, and no I/O takes ten seconds.
        let first = column("0 to 50 uS");
        let bins: f64 = all[first..].iter().map(|count| count.parse::<f64>().unwrap()).sum();
        assert_eq!(bins, reads + writes);
        assert_eq!((number(all, "# Workers"), number(all, "Queue Depth")), (4.0, 16.0));
    }
    // In the first specification 75 % are reads. In the second, four fifths of the draws are single I/Os, half of them
    // reads, and one fifth are bursts of four writes: 0.4 of 1.6 I/Os are reads.
    let share =
        |row: &[String]| number(row, "Read I/Os") / (number(row, "Read I/Os") + number(row, "Write I/Os"));
    assert!((share(&rows("ALL")[0]) - 0.75).abs() < 0.02, "{}", share(&rows("ALL")[0]));
    assert!((share(&rows("ALL")[1]) - 0.25).abs() < 0.05, "{}", share(&rows("ALL")[1]));
    assert_eq!(rows("ALL")[0][2], "4 KiB aligned; 75% Read; 100% random");
    assert!(
        csv.starts_with("'Test Type,Test Description\n0,overnight\n'Version\n")
            && csv.ends_with("'End Test\n")
    );
    assert!(csv.contains("8192,80,50,100,0,1,0,0,\n65536,20,0,0,10,4,65536,0,\n"));
}

/// With a fixed seed all workers write the same places, so together they reach a quarter of those that four different
/// workers would.
#[test]
fn workers_with_one_seed_write_the_same_places() {
    let written = |text: &str| {
        let text = text.replace("4096,100,75,100", "4096,100,0,100");
        let case = Config::parse(&text).unwrap().workload("test").unwrap().cases.remove(0);
        let device = Arc::new(MemoryDevice::new(64 << 20, Sectors::SMALL));
        let recorder = Arc::new(Recorder::new(device.clone()));
        let job = Job {
            pattern: case.pattern,
            range: 0..64 << 20,
            seed: 8664,
            ramp_up: Duration::ZERO,
            stop: Stop::Count(4 * 500),
            durability: Durability::Direct,
            verify: false,
            touch: false,
            interval: Duration::from_secs(1),
        };
        platter_lab::run(&Subject::Device { device: recorder.clone(), free: None }, &job, &()).unwrap();
        assert_eq!(recorder.traffic().write.count, 2000);
        let mut block = vec![0; 4096];
        let is_written = |number: &u64| {
            device.read_at(number * 4096, &mut block).unwrap();
            block.iter().any(|&byte| byte != 0)
        };
        (0..16384).filter(is_written).count()
    };
    let (same, different) = (written(FILE), written(&FILE.replace("ENABLED,8664", "DISABLED,0")));
    // 500 draws from 16,384 places hit 492 different ones, and 2,000 draws hit 1,882.
    assert!(same.abs_diff(492) < 10 && different.abs_diff(1882) < 40, "{same} and {different}");
}

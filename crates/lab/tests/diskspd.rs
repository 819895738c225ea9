//! DiskSpd's command lines are tested by the traffic of the device, and its results by the measurements.

use platter_lab::diskspd::Profile;
use platter_lab::report::Document;
use platter_lab::workload::Case;
use platter_lab::{Comparison, Measured, Observer, Runs, Stand, Target, Workload, compare};
use std::sync::Mutex;

/// Keeps the measurements.
#[derive(Default)]
struct Keeper(Mutex<Runs>);

impl Observer for Keeper {
    fn stage(&self, _what: &str, _done: std::time::Duration, _total: std::time::Duration) {}
    fn result(&self, _target: &str, _workload: &str, _case: &str, _iops: f64, _mb_per_s: f64) {}
    fn measured(&self, _target: &str, workload: &Workload, case: &Case, measured: &Measured) {
        self.0.lock().unwrap().add(workload, case, measured);
    }
}

/// Runs a command line on memory, and returns the profile's results and the lab's own document.
fn run(line: &str) -> (String, Document) {
    let arguments: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    let profile = Profile::from_arguments(&arguments).unwrap();
    let comparison =
        Comparison::new(Stand::Memory(64 << 20), vec![Target::Raw], profile.workloads().unwrap());
    let keeper = Keeper::default();
    let document = compare(&comparison, &keeper).unwrap();
    (profile.results(&keeper.0.into_inner().unwrap(), &document), document)
}

/// The numbers of a row of a table of the text results, by the beginning of the row.
fn row(table: &str, begins: &str) -> Vec<f64> {
    let line = table.lines().find(|line| line.trim_start().starts_with(begins)).expect("the row is there");
    let cells = line.trim_start()[begins.len()..].split('|').filter(|cell| !cell.trim().is_empty());
    cells.map_while(|cell| cell.trim().parse().ok()).collect()
}

/// The texts of all elements with this name.
fn values<'a>(xml: &'a str, name: &str) -> Vec<&'a str> {
    let (open, close) = (format!("<{name}>"), format!("</{name}>"));
    let parts = xml.split(&open).skip(1);
    parts.map(|part| part.split(&close).next().unwrap()).collect()
}

#[test]
fn text_results_say_what_was_measured() {
    let (text, document) = run("-c8M -b4K -o4 -t3 -r -w25 -d1 -W0 -Sh -L -D250 data");
    let run = &document.results[0].runs[0];
    // A write-through write is durable when it completes, without a flush.
    let device = run.device.as_ref().unwrap();
    assert_eq!((device.flushes, device.writes), (0, run.requested.writes));
    assert_eq!(device.write_bytes, run.requested.writes * 4096);
    let table = |title: &str| {
        let start = text.find(&format!("\n{title}\n")).expect("the table is there") + title.len();
        text[start..].split("\n\n").next().unwrap()
    };
    let [bytes, ios] = row(table("Total IO"), "total:")[..2] else { panic!() };
    assert_eq!(bytes, ios * 4096.0);
    assert!((ios / run.iops / run.seconds - 1.0).abs() < 1e-6, "{ios} I/Os");
    let [_, reads] = row(table("Read IO"), "total:")[..2] else { panic!() };
    let [_, writes] = row(table("Write IO"), "total:")[..2] else { panic!() };
    assert_eq!(reads + writes, ios);
    assert!((writes / ios - 0.25).abs() < 0.03, "{writes} of {ios}");
    // Each thread has a row, and the rows add up to the total.
    let threads: f64 = (0..3).map(|thread| row(table("Total IO"), &format!("{thread} |"))[1]).sum();
    assert_eq!(threads, ios);
    let mean = row(table("Total IO"), "total:")[4];
    assert!((mean * 1e3 - run.latency_us.mean).abs() < 1.0, "{mean} ms");
    assert!(
        text.contains("thread count:\t\t3") && text.contains("performing mix test (read/write ratio: 75/25)")
    );
    assert!(text.contains("3-nines |") && text.contains("IopsStdDev | LatStdDev |  file"));
    assert!(text.contains("Command Line: diskspd -c8M -b4K"));
}

#[test]
fn xml_results_hold_the_profile_and_add_up() {
    let (xml, document) = run("-c8M -b64K -o2 -t2 -si -w100 -d1 -W0 -Su -D500 -Rxml one two");
    let counts: Vec<u64> = values(&xml, "IOCount").iter().map(|count| count.parse().unwrap()).collect();
    // There are two threads for each of two targets.
    assert_eq!((counts.len(), values(&xml, "ThreadCount").last()), (4, Some(&"4")));
    let ids: Vec<&str> = values(&xml, "Id").into_iter().rev().take(4).collect();
    assert_eq!(ids, ["3", "2", "1", "0"]);
    let paths: Vec<&str> = values(&xml, "Path").into_iter().rev().take(4).collect();
    assert_eq!(paths, ["two", "two", "one", "one"]);
    let bytes: Vec<u64> = values(&xml, "WriteBytes").iter().map(|bytes| bytes.parse().unwrap()).collect();
    assert!(counts.iter().zip(&bytes).all(|(count, bytes)| count * 65536 == *bytes));
    let by_case: f64 =
        document.results.iter().map(|result| result.runs[0].iops * result.runs[0].seconds).sum();
    assert!((counts.iter().sum::<u64>() as f64 / by_case - 1.0).abs() < 1e-6);
    // The counts of a thread's intervals add up to its total.
    let of_thread = xml.split("<Thread>").nth(1).unwrap();
    let total = |line: &str| line.split("Total=\"").nth(1)?.split('"').next()?.parse::<u64>().ok();
    let intervals: u64 = of_thread.lines().filter_map(total).sum();
    assert_eq!(intervals, counts[0]);
    let inside = Profile::from_xml(&xml, &[]).unwrap();
    assert_eq!(inside.paths().collect::<Vec<_>>(), ["one", "two"]);
}

/// Without -L and -D their columns and elements are absent, as in DiskSpd.
#[test]
fn what_was_not_asked_for_is_not_told() {
    let (text, _) = run("-c8M -d1 -W0 -Su data");
    assert!(!text.contains("AvgLat") && !text.contains("IopsStdDev") && !text.contains("nines"));
    assert!(text.contains("I/O per s |  file"));
}

/// Threads that share a position go over the file once together; those that do not, each over the whole file.
#[test]
fn interlocked_threads_share_their_place() {
    let sequential = |options: &str| {
        let (_, document) = run(&format!("-c8M -b64K -o1 -t1 -d1 -W0 -Su {options} data"));
        document.results[0].runs[0].device.as_ref().unwrap().sequential_read_percent
    };
    assert!(sequential("-s") > 98.0 && sequential("-si") > 98.0);
    assert!(sequential("-s128K") < 1.0);
}

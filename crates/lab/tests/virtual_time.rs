//! Comparisons in virtual time: the same digits always, and those that were published.

use platter_lab::jetstress::{Jetstress, Volumes};
use platter_lab::model::Model;
use platter_lab::report::Document;
use platter_lab::{Comparison, Stand, Target, Workload, compare};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

fn model(name: &str, settings: &[(&str, &str)]) -> Stand {
    let settings = settings.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
    Stand::Model(Model { name: name.into(), settings })
}

fn targets(names: &[&str]) -> Vec<Target> {
    names.iter().map(|name| Target::parse(name).unwrap()).collect()
}

/// A load of DiskSpd's options.
fn load(options: &str) -> Vec<Workload> {
    platter_lab::load_workloads(format!("diskspd {options} file"), platter_lab::Preset::Quick).unwrap()
}

fn run(stand: Stand, names: &[&str], options: &str, seconds: u64) -> Document {
    let time = Some(Duration::from_secs(seconds));
    compare(&Comparison { time, ..Comparison::new(stand, targets(names), load(options)) }, &()).unwrap()
}

/// The document without its date, which is all that tells one run from another.
fn undated(document: Document) -> String {
    let date = document.created.clone();
    document.to_json().replace(&date, "")
}

/// The comparison that has the same digits everywhere.
fn everywhere() -> String {
    let all = ["raw", "fat32", "exfat", "ntfs", "refs", "refs+integrity"];
    let loads = "-c64M -b4K -o8 -t3 -r -w30 -L";
    undated(run(model("wd1003fzex", &[("capacity_bytes", "4294967296")]), &all, loads, 20))
}

/// Where a process of its own leaves the document of [`everywhere`].
const LEFT: &str = "PLATTER_LEFT_AT";

/// Not a test of its own: what [`the_same_comparison_has_the_same_digits`] calls on a processor that it chooses.
#[test]
#[ignore]
fn leave_the_document() {
    if let Some(path) = std::env::var_os(LEFT) {
        std::fs::write(path, everywhere()).unwrap();
    }
}

/// The document of a process of its own that may use only the first of its processors.
fn on_one_processor() -> String {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("document.json");
    let mut command = std::process::Command::new("taskset");
    command.args(["-c", &first_processor()]).arg(std::env::current_exe().unwrap());
    command.args(["--ignored", "--exact", "virtual_time::leave_the_document"]).env(LEFT, &path);
    let output = command.output().expect("taskset is there, which util-linux has");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    std::fs::read_to_string(path).unwrap()
}

/// The number of the first processor that this process may use.
fn first_processor() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
    line.trim().chars().take_while(char::is_ascii_digit).collect()
}

fn same(first: &str, again: &str, where_it_ran: &str) {
    let differ = first.lines().zip(again.lines()).find(|(first, again)| first != again);
    assert!(first == again, "{where_it_ran}: {differ:?}");
}

#[test]
fn the_same_comparison_has_the_same_digits() {
    let first = everywhere();
    same(&first, &on_one_processor(), "on one processor");
    // Beside threads that take the processors away.
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        (0..4).for_each(|_| {
            scope.spawn(|| {
                while !is_over.load(Relaxed) {
                    std::hint::spin_loop();
                }
            });
        });
        let again = scope.spawn(everywhere).join();
        is_over.store(true, Relaxed);
        same(&first, &again.unwrap(), "beside busy threads");
    });
}

#[test]
fn databases_have_the_same_digits_too() {
    let once = || {
        let ntfs = Volumes { db: targets(&["ntfs:64k"])[0].clone(), log: targets(&["ntfs:4k"])[0].clone() };
        let jetstress = Jetstress {
            stand: model("wd1003fzex", &[("capacity_bytes", "4294967296")]),
            volumes: vec![ntfs],
            preset: platter_lab::Preset::Quick,
            repeats: 1,
            time: Some(Duration::from_secs(1)),
            threads: Vec::new(),
            base: None,
            discard: false,
            command: String::new(),
        };
        undated(platter_lab::jetstress::run(&jetstress, &()).unwrap())
    };
    let first = once();
    assert!(first.contains("all databases whole") && first == once());
}

/// The measurement of 2016 on a disk of 1 TB: 4 KiB random writes by 4 workers with 16 outstanding each, on all of the raw disk and
/// on files of 500 GiB, which are on its outer half. The published figures, with one set of parameters.
#[test]
fn a_disk_has_the_rates_that_were_published() {
    let (disk, file) = (1_000_204_886_016, 500 << 30);
    for (target, span, published) in
        [("raw", disk, 154.444), ("ntfs", file, 181.860), ("refs", file, 181.108)]
    {
        let comparison = Comparison {
            time: Some(Duration::from_secs(600)),
            span: Some(span),
            ..Comparison::new(
                model("wd1003fzex", &[]),
                targets(&[target]),
                load("-b4K -o16 -t4 -r -w100 -Su -c1G"),
            )
        };
        let document = compare(&comparison, &()).unwrap();
        let run = &document.results[0].runs[0];
        assert!((0.95..1.05).contains(&(run.iops / published)), "{target}: {} {published}", run.iops);
        // Little's law: 64 are outstanding all the time.
        let outstanding = run.iops * run.latency_us.mean / 1e6;
        assert!((62.0..64.5).contains(&outstanding), "{target}: {outstanding}");
    }
}

/// The measurement of 2016 on an all-flash array: 4 KiB, 75 % reads, on the raw disk.
#[test]
fn an_array_has_the_rate_that_was_published() {
    let mix = "-c1G -b4K -o8 -t8 -r -w25 -Su";
    let run = run(model("xtremio", &[]), &["raw"], mix, 1).results.remove(0).runs.remove(0);
    assert!((0.95..1.05).contains(&(run.iops / 142_420.0)), "{}", run.iops);
}

/// What class A1 of the SD Association promises: reads and writes of 4 KiB on a range of 256 MB, and a stream. On a larger range
/// most random writes merge allocation units.
#[test]
fn a_card_keeps_what_its_class_promises() {
    let iops = |options: &str, seconds: u64| {
        run(model("sd-a1", &[]), &["raw"], options, seconds).results.remove(0).runs.remove(0).iops
    };
    let (reads, writes) =
        (iops("-c240M -b4K -o1 -t1 -r -w0 -Sh", 10), iops("-c240M -b4K -o1 -t1 -r -w100 -Sh", 10));
    assert!((1500.0..2000.0).contains(&reads), "{reads}");
    assert!((500.0..600.0).contains(&writes), "{writes}");
    assert!(iops("-c1G -b1M -o1 -t1 -w100 -Sh", 30) > 10.0);
    let scattered = iops("-c8G -b4K -o1 -t1 -r -w100 -Sh", 300);
    assert!(scattered < writes / 4.0, "{scattered}");
}

/// One cell of the table: what a load on a target of a model did.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Cell {
    pub name: String,
    pub iops: f64,
    /// For each I/O: writes and reads of the device, and bytes written.
    pub writes: f64,
    reads: f64,
    written: f64,
    flushes: f64,
}

impl Cell {
    fn shown(&self) -> String {
        let Cell { name, iops, writes, reads, written, flushes } = self;
        format!("{name:<38} {iops:>12.2} {writes:>9.4} {reads:>9.4} {written:>11.1} {flushes:>9.4}")
    }

    fn parse(line: &str) -> Cell {
        let (name, figures) = line.split_at(38);
        let figures: Vec<f64> = figures.split_whitespace().map(|figure| figure.parse().unwrap()).collect();
        let [iops, writes, reads, written, flushes] = figures[..] else { panic!("{line}") };
        Cell { name: name.trim().into(), iops, writes, reads, written, flushes }
    }

    /// What is worse than before, in a sentence.
    pub(crate) fn worse_than(&self, before: &Cell) -> Option<String> {
        let more = |what: &str, now: f64, then: f64, most: f64| {
            (now > then * most + 1e-3)
                .then(|| format!("{}: {what} each I/O are {now}, and were {then}", self.name))
        };
        if self.iops < before.iops * 0.98 {
            return Some(format!("{}: {} IOPS, and it was {}", self.name, self.iops, before.iops));
        }
        more("bytes written for", self.written, before.written, 1.005)
            .or_else(|| more("writes of the device for", self.writes, before.writes, 1.005))
            .or_else(|| more("reads of the device for", self.reads, before.reads, 1.005))
            .or_else(|| more("flushes for", self.flushes, before.flushes, 1.005))
    }
}

/// Loads, each by DiskSpd's options: small writes, durable ones, a mix, a stream.
const LOADS: [(&str, &str); 4] = [
    ("write", "-c64M -b4K -o8 -t2 -r -w100 -Su"),
    ("durable", "-c64M -b4K -o1 -t4 -r -w100 -Sh"),
    ("mix", "-c64M -b8K -o4 -t2 -r -w30 -Su"),
    ("stream", "-c64M -b1M -o2 -t1 -w0 -Su"),
];

/// Models, and the milliseconds that each load runs on them.
const MODELS: [(&str, u64); 6] = [
    ("wd1003fzex", 5000),
    ("usb2-hdd", 5000),
    ("sata-ssd", 200),
    ("d7-p5620", 40),
    ("xtremio", 60),
    ("sd-a1", 2000),
];

/// The cells of a load, by its name, on a model for so many milliseconds.
pub(crate) fn measured(
    (name, milliseconds): (&str, u64),
    load_name: &str,
    targets: Vec<Target>,
) -> Vec<Cell> {
    let options = LOADS.iter().find(|(name, _)| *name == load_name).unwrap().1;
    let comparison = Comparison {
        time: Some(Duration::from_millis(milliseconds)),
        ..Comparison::new(model(name, &[("capacity_bytes", "2147483648")]), targets, load(options))
    };
    let cell = |result: &platter_lab::document::CaseResult| {
        let run = &result.runs[0];
        let device = run.device.as_ref().unwrap();
        let ios = (run.requested.reads + run.requested.writes) as f64;
        Cell {
            name: format!("{name} {load_name} {}", result.target),
            iops: run.iops,
            writes: device.writes as f64 / ios,
            reads: device.reads as f64 / ios,
            written: device.write_bytes as f64 / ios,
            flushes: device.flushes as f64 / ios,
        }
    };
    compare(&comparison, &()).unwrap().results.iter().map(cell).collect()
}

fn table() -> Vec<Cell> {
    let all = ["raw", "fat32", "exfat", "ntfs", "refs", "refs+integrity"];
    let cells = |model| LOADS.into_iter().flat_map(move |(load, _)| measured(model, load, targets(&all)));
    MODELS.into_iter().flat_map(cells).collect()
}

/// The cells of the file.
pub(crate) fn kept() -> Vec<Cell> {
    std::fs::read_to_string(KEPT).unwrap().lines().skip(1).map(Cell::parse).collect()
}

const KEPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/virtual_time.txt");

/// No change makes a cell slower by more than 2 %, or writes, reads or flushes more for an I/O, unless whoever makes it says
/// so: `PLATTER_GOLDEN=write` writes the table anew.
#[test]
fn nothing_is_slower_or_writes_more_than_before() {
    let now = table();
    if std::env::var_os("PLATTER_GOLDEN").is_some_and(|value| value == "write") {
        let head = "# cell                                         IOPS    writes     reads  bytes written   flushes";
        let lines = now.iter().map(Cell::shown).collect::<Vec<_>>().join("\n");
        return std::fs::write(KEPT, format!("{head}\n{lines}\n")).unwrap();
    }
    let before = kept();
    assert_eq!(
        now.iter().map(|cell| &cell.name).collect::<Vec<_>>(),
        before.iter().map(|cell| &cell.name).collect::<Vec<_>>()
    );
    let worse: Vec<String> =
        now.iter().zip(&before).filter_map(|(now, before)| now.worse_than(before)).collect();
    assert!(worse.is_empty(), "PLATTER_GOLDEN=write keeps it:\n{}", worse.join("\n"));
}

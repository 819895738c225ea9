//! The fio report, compared with the JSON that fio itself prints.

use crate::sample;
use platter_lab::report::{Document, fio};
use serde_json::Value;
use std::process::Command;

/// The JSON that fio prints for a short job with reads, writes and syncs.
fn of_fio() -> Value {
    let here = tempfile::tempdir().unwrap();
    let options = "--name=a --size=1m --rw=randrw --bs=4k --iodepth=1 --numjobs=1 --rwmixread=70 --percentage_random=100 \
                   --ioengine=psync --direct=0 --runtime=5 --fsync=4 --output-format=json --filename=data";
    let output = Command::new("fio").args(options.split_whitespace()).current_dir(here.path()).output();
    let output = output.expect("fio is installed (package fio)");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Collects every name of our JSON that fio's lacks, or whose value has another type.
fn compare(ours: &Value, theirs: &Value, at: &str, found: &mut Vec<String>) {
    match (ours, theirs) {
        (Value::Object(ours), Value::Object(theirs)) => {
            for (name, value) in ours {
                match theirs.get(name) {
                    Some(other) => compare(value, other, &format!("{at}/{name}"), found),
                    None => found.push(format!("{at}/{name}: fio has none")),
                }
            }
        }
        (Value::Array(ours), Value::Array(theirs)) => {
            ours.iter().zip(theirs.iter().cycle()).for_each(|(a, b)| compare(a, b, at, found));
        }
        // fio prints counts without a fraction, and computed figures with one.
        (Value::Number(a), Value::Number(b)) if a.is_f64() == b.is_f64() => {}
        (Value::String(_), Value::String(_)) => {}
        _ => found.push(format!("{at}: {ours} and {theirs}")),
    }
}

#[test]
fn every_name_is_one_of_fios_and_holds_the_same_kind_of_value() {
    let theirs = of_fio();
    for document in [sample::full(), sample::quick(), sample::two_volumes()] {
        let ours: Value = serde_json::from_str(&fio::render(&document)).unwrap();
        let mut found = Vec::new();
        compare(&ours, &theirs, "", &mut found);
        found.sort();
        found.dedup();
        assert!(found.is_empty(), "{}", found.join("\n"));
        // Each job has all names below `read` or `write` that readers of fio's JSON may use.
        for name in theirs["jobs"][0]["read"].as_object().unwrap().keys() {
            assert!(ours["jobs"][0]["write"].get(name).is_some(), "{name}");
        }
    }
}

#[test]
fn a_partial_report_says_so() {
    fn parsed(document: &Document) -> Value {
        serde_json::from_str(&fio::render(document)).unwrap()
    }
    let mut document = sample::quick();
    assert!(parsed(&document).get("partial").is_none());
    document.partial = Some("it was interrupted".into());
    assert_eq!(parsed(&document)["partial"], "it was interrupted");
}

#[test]
fn figures_are_those_of_the_report() {
    let document = sample::quick();
    let ours: Value = serde_json::from_str(&fio::render(&document)).unwrap();
    let jobs = ours["jobs"].as_array().unwrap();
    let runs = document.results.iter().flat_map(|result| result.runs.iter().map(move |run| (result, run)));
    assert_eq!(jobs.len(), runs.clone().count());
    for (job, (result, run)) in jobs.iter().zip(runs) {
        let sides = ["read", "write"].map(|side| &job[side]);
        let sum = |name: &str| sides.iter().map(|side| side[name].as_f64().unwrap()).sum::<f64>();
        let near = |a: f64, b: f64| (a / b - 1.0).abs() < 0.01;
        assert!(near(sum("iops"), run.iops), "{}", job["jobname"]);
        assert!(near(sum("bw_bytes"), run.mb_per_s * 1e6), "{}", job["jobname"]);
        let runtime = job["job_runtime"].as_f64().unwrap() / 1e3;
        assert!(near(sum("io_bytes") / runtime, sum("bw_bytes")), "{}", job["jobname"]);
        let bins = ["latency_ns", "latency_us", "latency_ms"].map(|unit| job[unit].as_object().unwrap());
        let shares: f64 =
            bins.iter().flat_map(|bins| bins.values()).map(|share| share.as_f64().unwrap()).sum();
        assert!((shares - 100.0).abs() < 1e-6, "{shares} %");
        let is_mix = result.case.direction.name() == "mix";
        assert_eq!(job["job options"]["rw"].as_str().unwrap().contains("rw"), is_mix);
        if result.case.direction.name() == "read" {
            assert_eq!(job["read"]["lat_ns"]["N"], run.latency_us.count);
            assert_eq!(
                job["read"]["clat_ns"]["percentile"]["50.000000"],
                (run.latency_us.p50 * 1e3).round() as u64
            );
        }
    }
}

//! Made-up reports of many machines: the slow machines are named, and no others.

#[allow(dead_code, reason = "each test binary uses a part of this")]
mod sample;

use platter_lab::fleet::{Fleet, Key, Rates, Summary};
use platter_lab::report::Document;
use std::collections::BTreeSet;

/// A random number that is about normally distributed, with a mean of 0 and a standard deviation of 1.
fn normal(rng: &mut fastrand::Rng) -> f64 {
    (0..12).map(|_| rng.f64()).sum::<f64>() - 6.0
}

/// A report of a machine whose rates are those of the sample, times `speed`, times random noise.
fn report(number: u32, model: &str, speed: f64, rng: &mut fastrand::Rng) -> Document {
    let mut document = sample::two_volumes();
    document.environment.host = format!("node{number}");
    document.environment.device.model = Some(model.into());
    document.labels.insert("rack".into(), format!("r{}", number % 2));
    // Machines differ as a whole, and in each figure by itself.
    let own = (0.03 * normal(rng)).exp();
    for result in &mut document.results {
        result.iops *= speed * own * (0.02 * normal(rng)).exp();
    }
    document
}

/// The part of a report that a fleet keeps.
fn rates(document: &Document) -> Rates {
    Rates::of(document.to_json().as_bytes()).unwrap()
}

fn names(fleet: &Summary) -> BTreeSet<String> {
    fleet.outliers().into_iter().map(|outlier| outlier.machine.split(' ').next().unwrap().into()).collect()
}

#[test]
fn three_slow_machines_of_500_are_named_and_no_other() {
    for seed in 0..3 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let slow: BTreeSet<u32> = [17, 203, 498].into();
        let mut fleet = Fleet::new(vec![Key::parse("device.model").unwrap()]);
        for number in 0..500 {
            // One model is far slower than the other, but its machines are not outliers in a group of the same model.
            let (model, speed) = if number < 300 { ("fast", 1.0) } else { ("slow", 0.4) };
            let speed = if slow.contains(&number) { speed * 0.75 } else { speed };
            fleet.add(rates(&report(number, model, speed, &mut rng)));
        }
        let fleet = fleet.summary();
        let expected: BTreeSet<String> = slow.iter().map(|number| format!("node{number}")).collect();
        assert_eq!(names(&fleet), expected, "seed {seed}");
        assert!(fleet.outliers().iter().all(|outlier| (0.65..0.85).contains(&outlier.ratio)));
    }
}

#[test]
fn nobody_is_named_where_all_are_alike() {
    let mut named = 0;
    for seed in 0..40 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut fleet = Fleet::new(vec![Key::parse("device.model").unwrap()]);
        (0..60).for_each(|number| fleet.add(rates(&report(number, "disk", 1.0, &mut rng))));
        named += u32::from(!fleet.summary().outliers().is_empty());
    }
    // At most one in twenty is allowed; the seeds are fixed.
    assert!(named <= 2, "{named} of 40");
}

#[test]
fn one_odd_case_is_named_with_its_machine() {
    let mut rng = fastrand::Rng::with_seed(8664);
    let mut fleet = Fleet::new(vec![Key::parse("label.rack").unwrap(), Key::parse("host").unwrap()]);
    fleet.add(rates(&report(1, "disk", 1.0, &mut rng)));
    let text = fleet.summary().terminal(false);
    assert!(text.contains("Fewer than 8 machines"), "{text}");
    let mut fleet = Fleet::new(vec![Key::parse("cpu").unwrap()]);
    for number in 0..40 {
        let mut document = report(number, "disk", 1.0, &mut rng);
        if number == 9 {
            document.results[1].iops *= 0.5;
        }
        fleet.add(rates(&document));
        // A second report of the same machine counts with the first.
        fleet.add(rates(&document));
    }
    let fleet = fleet.summary();
    let found = fleet.outliers();
    assert_eq!(found.len(), 1, "{found:?}");
    let document = sample::two_volumes();
    let cell = found[0].cell.as_ref().expect("one case alone");
    assert_eq!(
        (cell.target.as_str(), cell.workload.as_str()),
        (document.results[1].target.as_str(), document.results[1].case.workload.as_str())
    );
    let page = fleet.html();
    assert!(page.contains("spread of the machines") && page.contains("one machine in twenty is below"));
    for text in [fleet.terminal(false), fleet.markdown(), fleet.html()] {
        assert!(text.contains("80 reports of 40 machines in 1 group") && text.contains("node9"), "{text}");
    }
}

#[test]
fn hostile_names_stay_text() {
    let mut rng = fastrand::Rng::with_seed(1);
    let mut fleet = Fleet::new(["host", "label.rack"].map(|key| Key::parse(key).unwrap()).into());
    let mut document = report(1, "disk", 1.0, &mut rng);
    document.environment.host = "h\u{1b}]0;x\u{7}<b id=x>".into();
    document.labels.insert("rack".into(), "<i id=x>|`".into());
    fleet.add(rates(&document));
    let fleet = fleet.summary();
    let shown = fleet.terminal(false);
    assert!(shown.contains("tell nothing of one of them") && !shown.contains('\u{1b}'), "{shown}");
    for text in [fleet.markdown(), fleet.html()] {
        assert!(text.contains("&lt;") && !text.contains("<b id") && !text.contains("<i id"), "{text}");
        assert!(!text.contains('\u{1b}'), "{text}");
    }
}

#[test]
fn two_groups_are_compared() {
    let mut rng = fastrand::Rng::with_seed(1);
    let mut fleet = Fleet::new(vec![Key::parse("label.rack").unwrap()]);
    for number in 0..60 {
        let speed = if number % 2 == 1 { 0.8 } else { 1.0 };
        fleet.add(rates(&report(number, "disk", speed, &mut rng)));
    }
    let text = fleet.summary().markdown();
    assert!(
        text.contains("Second against first") && text.contains("−20 %") || text.contains("−19 %"),
        "{text}"
    );
}

#[test]
fn what_is_no_report_is_refused() {
    for text in ["", "{}", "[1]", "{\"schema\":\"other\",\"environment\":{},\"results\":[]}"] {
        assert!(Rates::of(text.as_bytes()).is_err(), "{text:?}");
    }
    assert!(Key::parse("label.").is_err() && Key::parse("colour").unwrap_err().contains("device.model"));
}

/// Summarising a fleet of 10,000 reports takes seconds of processor time, and memory that does not depend on the size
/// of each report.
#[test]
#[ignore = "a campaign: gigabytes of reports"]
fn ten_thousand_reports_take_seconds_and_little_memory() {
    use nix::sys::resource::{UsageWho, getrusage};
    use nix::sys::time::TimeValLike;
    let here = tempfile::tempdir().unwrap();
    let mut rng = fastrand::Rng::with_seed(8664);
    let mut bytes = 0;
    for number in 0..10_000 {
        let mut document = report(number, "disk", 1.0, &mut rng);
        // As many slices as in a comparison of some minutes.
        let runs = document.results.iter_mut().flat_map(|result| &mut result.runs);
        runs.for_each(|run| run.slices = run.slices.iter().copied().cycle().take(120).collect());
        let text = document.to_json();
        bytes += text.len();
        std::fs::write(here.path().join(number.to_string()), text).unwrap();
    }
    // Processor time in seconds and the most memory in KiB. Unlike elapsed time, processor time does not depend on what
    // else the machine does.
    let used = || {
        let usage = getrusage(UsageWho::RUSAGE_SELF).unwrap();
        let time = usage.user_time() + usage.system_time();
        (time.num_milliseconds() as f64 / 1e3, usage.max_rss())
    };
    let before = used();
    let mut fleet = Fleet::new(vec![Key::parse("device.model").unwrap()]);
    for number in 0..10_000 {
        fleet.add(Rates::of(&std::fs::read(here.path().join(number.to_string())).unwrap()).unwrap());
    }
    let page = fleet.summary().html();
    let now = used();
    let (seconds, more) = (now.0 - before.0, now.1 - before.1);
    println!("{bytes} bytes in {seconds:.1} s of the processor, {more} KiB more memory at most");
    assert!(page.contains("10,000 reports of 10,000 machines"));
    assert!(seconds < 60.0 && more < 100 << 10, "{seconds} s, {more} KiB");
}

/// A pod has another host's name each time; and two hosts may have one name.
#[test]
fn machines_are_told_apart_by_what_the_admin_says() {
    let machines = |identity: &[&str], change: &dyn Fn(&mut Document, usize)| {
        let keys = |names: &[&str]| names.iter().map(|name| Key::parse(name).unwrap()).collect::<Vec<Key>>();
        let mut fleet = Fleet::new(keys(&["device.kind"])).identified_by(keys(identity));
        for number in 0..6 {
            let mut document = sample::quick();
            change(&mut document, number);
            fleet.add(Rates::of(document.to_json().as_bytes()).unwrap());
        }
        let text = fleet.summary().terminal(false);
        text.lines().next().unwrap().to_owned()
    };
    let pods = |document: &mut Document, number: usize| {
        document.environment.host = format!("pod-{number}");
        document.labels.insert("node".into(), format!("node{}", number / 3));
    };
    assert!(machines(&[], &pods).starts_with("6 reports of 2 machines"), "{}", machines(&[], &pods));
    assert!(machines(&["host"], &pods).starts_with("6 reports of 6 machines"));
    let named = |document: &mut Document, number: usize| {
        pods(document, number);
        document.labels.insert("machine".into(), "one".into());
    };
    assert!(machines(&[], &named).starts_with("6 reports of 1 machine"));
    assert!(machines(&["label.node"], &named).starts_with("6 reports of 2 machines"));
    let twins = |document: &mut Document, number: usize| {
        document.environment.machine_id = Some(format!("{}", number / 2));
    };
    assert!(machines(&[], &twins).starts_with("6 reports of 3 machines"));
}

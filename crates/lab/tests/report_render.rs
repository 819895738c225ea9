//! Rendered reports: nothing is cut off, no name can inject markup, and no page uses the network.

use crate::chromium::browse;
use crate::sample;
use platter_lab::report::document::*;
use platter_lab::report::terminal::{self, View};
use platter_lab::report::{Diff, csv, html, markdown};

const HOSTILE: &str = "<script>alert(1)</script>\"'&|`*_\u{1b}[2J\r\n,=1";

/// A document in which every name that a user can choose contains markup and control characters.
fn hostile() -> Document {
    let mut document = sample::quick();
    document.command = HOSTILE.into();
    document.environment.device.model = Some(HOSTILE.into());
    document.warnings.push(HOSTILE.into());
    document.partial = Some(HOSTILE.into());
    document.machine.push(HOSTILE.into());
    for workload in &mut document.settings.workloads {
        workload.name.push_str(HOSTILE);
        workload.title.push_str(HOSTILE);
        workload.durability = HOSTILE.into();
    }
    document.settings.base.push_str(HOSTILE);
    for target in &mut document.targets {
        target.title = HOSTILE.into();
        target.details = HOSTILE.into();
        target.short = HOSTILE.into();
        target.name.push_str(HOSTILE);
    }
    for result in &mut document.results {
        result.target.push_str(HOSTILE);
        result.case.name.push_str(HOSTILE);
        result.case.workload.push_str(HOSTILE);
        result.case.durability = HOSTILE.into();
        result.warnings.push(HOSTILE.into());
    }
    document.conclude();
    document
}

/// Documents that no comparison writes, but a file may hold.
fn odd() -> Vec<Document> {
    let empty = Document::new(
        std::time::SystemTime::UNIX_EPOCH,
        "",
        Environment::default(),
        Settings::default(),
        Vec::new(),
    );
    let mut no_targets = sample::quick();
    no_targets.targets.clear();
    let mut no_runs = sample::quick();
    no_runs.results.iter_mut().for_each(|result| result.runs.clear());
    let mut no_bins = sample::quick();
    no_bins.response_time_bins_us.clear();
    let mut many_bins = sample::quick();
    many_bins.results[0].runs[0].response_times = vec![u64::MAX; 40];
    let mut extreme = sample::quick();
    for (index, result) in extreme.results.iter_mut().enumerate() {
        let value = [0.0, -1.0, f64::MAX, f64::MIN_POSITIVE][index % 4];
        (result.iops, result.mb_per_s) = (value, value);
        result.latency_us = Latency { p50: value, max: value, p99: Some(value), ..Latency::default() };
        for slice in result.runs.iter_mut().flat_map(|run| &mut run.slices) {
            (slice.iops, slice.seconds) = (value, value);
        }
        result.case.queue_depth = u32::MAX;
        for run in &mut result.runs {
            (run.iops, run.mb_per_s, run.stalled_seconds) = (value, value, value);
            run.timeline.iter_mut().for_each(|second| {
                (second.second, second.iops) = (value, value);
                second.free_bytes = Some(u64::MAX);
            });
            if let Some(device) = &mut run.device {
                device.read_sizes = vec![SizeCount { bytes: u64::MAX, count: u64::MAX }; 3];
                device.read_bytes = u64::MAX;
            }
            (run.errors, run.corrupted_blocks) = (u64::MAX, u64::MAX);
        }
    }
    let mut all = vec![empty, no_targets, no_runs, no_bins, many_bins, extreme];
    for document in &mut all {
        document.conclude();
    }
    all
}

/// A view that shows everything.
fn every() -> View {
    View { colour: true, details: true, published: true, ..View::default() }
}

#[test]
fn odd_documents_are_shown_all_the_same() {
    for document in odd().into_iter().chain([hostile()]) {
        assert!(html::render(&document, true).ends_with("</html>\n"));
        assert!(markdown::render(&document, true).starts_with('#'));
        assert!(terminal::render(&document, every()).contains("Conditions"));
        assert!(csv::render(&document).starts_with("target,"));
        let diff = Diff::new(&sample::quick(), &document);
        assert!(!diff.terminal(true).is_empty() && !diff.markdown().is_empty());
    }
}

#[test]
fn hostile_names_stay_text() {
    let document = hostile();
    let page = html::render(&document, false);
    assert!(!page.contains("<script") && page.contains("&lt;script&gt;"));
    assert!(!terminal::render(&document, View::default()).contains('\x1b'));
    assert!(!markdown::render(&document, false).contains("<script"));
    let before = sample::quick();
    assert!(!Diff::new(&before, &document).terminal(false).contains('\x1b'));
}

#[test]
fn the_terminal_report_fits_100_columns_and_is_plain_when_asked() {
    for document in [sample::full(), sample::quick(), sample::two_volumes()] {
        let text = terminal::render(&document, View::default());
        for line in text.lines() {
            assert!(line.chars().count() <= terminal::WIDTH, "{} columns: {line}", line.chars().count());
        }
        assert!(!text.contains('\x1b'));
        assert!(terminal::render(&document, View { colour: true, ..View::default() }).contains("\x1b["));
        for target in &document.targets {
            assert!(text.contains(&target.short));
        }
        let narrow = terminal::render(&document, View { width: 60, ..View::default() });
        assert!(narrow.lines().all(|line| line.chars().count() <= 60), "{narrow}");
    }
}

/// Terminal, Markdown, HTML, CSV and JSON show the same figure in every cell.
#[test]
fn every_view_agrees_cell_by_cell() {
    for document in [sample::full(), sample::quick(), sample::two_volumes()] {
        let wide = terminal::render(&document, View { width: 400, ..View::default() });
        let markdown = markdown::render(&document, false);
        let page = html::render(&document, false).replace("<small>", "").replace("</small>", "");
        let json = Document::from_json(&document.to_json()).unwrap();
        assert_eq!(json, document);
        let records = parse_csv(&csv::render(&document));
        let column = |name: &str| records[0].iter().position(|title| title == name).unwrap();
        for result in &document.results {
            let label = result.case.label();
            let line = wide
                .lines()
                .filter(|line| line.trim_start().starts_with(&label))
                .collect::<Vec<_>>()
                .join(" ");
            let row = format!("| {} |", label.replace('|', "\\|"));
            let lines = markdown.lines().filter(|line| line.starts_with(&row)).collect::<Vec<_>>().join(" ");
            for estimate in &result.estimates {
                let is_line = |record: &&Vec<String>| {
                    record[column("target")] == result.target
                        && record[column("workload")] == result.case.workload
                        && record[column("case")] == result.case.name
                        && record[column("direction")] == result.case.direction.name()
                        && record[column("base")] == estimate.base
                };
                let record = records.iter().find(is_line).expect("a line of its own");
                assert_eq!(record[column("ratio")].parse::<f64>().unwrap(), estimate.ratio);
                assert_eq!(record[column("low")].parse::<f64>().ok(), estimate.low);
                assert_eq!(record[column("verdict")], estimate.verdict.name());
                let unclear = if estimate.verdict == Verdict::Unclear { "? " } else { "" };
                let ends = estimate.low.map(|low| low.ln() - estimate.ratio.ln()).unwrap();
                // A narrow interval is printed as half its width, a wide one as its ends.
                let form = if ends.abs() < 0.05 { " ±" } else { "" };
                let percent = estimate.ratio * 100.0;
                let half = (estimate.high.unwrap() - estimate.low.unwrap()) * 50.0;
                if estimate.verdict.is_difference() && (percent - 100.0).abs() < 1.3 * half + 3.0 {
                    // Figures so near to 100 have as many decimal places as their verdicts take.
                    continue;
                }
                let told = format!("{unclear}{percent:.0}{form}");
                assert!(line.contains(&told), "{label} {}: {told} is not in\n{line}", result.target);
                assert!(lines.contains(&told), "{label} {}: {told} is not in\n{lines}", result.target);
                assert!(
                    page.contains(&format!(">{told}")),
                    "{label} {}: {told} is not on the page",
                    result.target
                );
            }
        }
    }
}

#[test]
fn csv_has_a_line_for_each_ratio_with_all_columns() {
    for document in [sample::full(), sample::two_volumes(), hostile()] {
        let records = parse_csv(&csv::render(&document));
        let lines: usize = document.results.iter().map(|result| result.estimates.len().max(1)).sum();
        assert_eq!(records.len(), lines + 1);
        assert!(records.iter().all(|record| record.len() == records[0].len()));
        let column = |name: &str| records[0].iter().position(|title| title == name).unwrap();
        let first = &document.results[0];
        assert_eq!(records[1][column("target")], first.target);
        assert_eq!(records[1][column("case")], first.case.name);
        assert_eq!(records[1][column("mb_per_s")].parse::<f64>().unwrap(), first.mb_per_s);
    }
}

/// A cell that a spreadsheet would take for a formula has an apostrophe before it; numbers stay as they are.
#[test]
fn no_cell_of_the_csv_is_a_formula() {
    let mut document = sample::quick();
    for (result, first) in
        document.results.iter_mut().zip(["=", "+", "-", "@", "\t", "\r"].into_iter().cycle())
    {
        result.case.name = format!("{first}cmd|' /C calc'!A0");
        result.iops = -1.5;
    }
    let records = parse_csv(&csv::render(&document));
    let column = |name: &str| records[0].iter().position(|title| title == name).unwrap();
    for record in &records[1..] {
        let case = &record[column("case")];
        assert!(case.starts_with('\'') && case.ends_with("cmd|' /C calc'!A0"), "{case:?}");
        assert_eq!(record[column("iops")], "-1.5");
    }
}

/// A report that holds less than was asked for tells it in the CSV, and when it is compared.
#[test]
fn partial_reports_tell_it_in_tables_and_comparisons() {
    let whole = sample::quick();
    let partial = Document { partial: Some("it was interrupted".into()), ..whole.clone() };
    let last = |document: &Document| {
        let records = parse_csv(&csv::render(document));
        records.into_iter().map(|mut record| record.pop().unwrap()).collect::<Vec<String>>()
    };
    assert!(last(&partial)[1..].iter().all(|why| why == "it was interrupted"));
    assert!(last(&whole)[1..].iter().all(String::is_empty) && last(&whole)[0] == "partial");
    let diff = Diff::new(&whole, &partial);
    for text in [diff.terminal(false), diff.markdown()] {
        assert!(text.contains("The second report is partial: it was interrupted."), "{text}");
        assert!(!text.contains("The first report is partial"), "{text}");
    }
    assert!(Diff::new(&whole, &whole).partial.is_empty());
}

/// Parses CSV by RFC 4180, as a spreadsheet does.
fn parse_csv(text: &str) -> Vec<Vec<String>> {
    let (mut records, mut record, mut field, mut quoted) = (Vec::new(), Vec::new(), String::new(), false);
    let mut characters = text.chars().peekable();
    while let Some(c) = characters.next() {
        match c {
            '"' if quoted && characters.peek() == Some(&'"') => field.extend(characters.next()),
            '"' => quoted = !quoted,
            ',' if !quoted => record.push(std::mem::take(&mut field)),
            '\n' if !quoted => {
                record.push(std::mem::take(&mut field));
                records.push(std::mem::take(&mut record));
            }
            c => field.push(c),
        }
    }
    records
}

#[test]
fn a_diff_names_what_changed() {
    let before = sample::quick();
    let same = Diff::new(&before, &before);
    assert!(same.conditions.is_empty() && same.only_before.is_empty() && same.only_after.is_empty());
    assert_eq!(same.cases.len(), before.results.len());
    assert!(same.cases.iter().all(|case| case.ratio == Some(1.0) && !case.is_told()));

    let mut after = before.clone();
    after.environment.kernel = "Linux 7.0".into();
    after.results.retain(|result| result.target != "dir:/tmp");
    for slice in &mut after.results[0].runs[0].slices {
        slice.iops *= 0.5;
    }
    after.results[1].case.queue_depth += 1;
    after.conclude();
    let diff = Diff::new(&before, &after);
    assert_eq!(diff.conditions, [("System".into(), system(&before), system(&after))]);
    assert_eq!(diff.only_before.len(), before.results.len() / 3);
    assert!((diff.cases[0].ratio.unwrap() - 0.5).abs() < 0.02 && diff.cases[0].is_told());
    assert!(diff.cases[1].another_load && !diff.cases[2].another_load);
    for text in [diff.terminal(false), diff.markdown()] {
        for part in
            ["−50 %", "1 slower", "Linux 7.0", "another load", "1 under another load", "Only in the first"]
        {
            assert!(text.contains(part), "{part} is not in:\n{text}");
        }
    }
}

/// Two runs of the same thing differ by what the machine does from run to run, which slices of one run do not show.
#[test]
fn two_runs_of_one_thing_are_not_called_changed() {
    let mut rng = fastrand::Rng::with_seed(3);
    let (mut called, mut found, mut cells) = (0, 0, 0);
    for _ in 0..20 {
        let before = sample::quick();
        let mut after = before.clone();
        for result in &mut after.results {
            let drift = 1.0 + (rng.f64() - 0.5) * 0.1;
            for run in &mut result.runs {
                run.iops *= drift;
                run.slices.iter_mut().for_each(|slice| slice.iops *= drift);
            }
        }
        let mut changed = after.clone();
        for slice in &mut changed.results[7].runs[0].slices {
            slice.iops *= 0.5;
        }
        for document in [&mut after, &mut changed] {
            document.conclude();
        }
        let same = Diff::new(&before, &after);
        assert!(same.basis.starts_with("One run each: differences below"), "{}", same.basis);
        called += same.cases.iter().filter(|case| case.is_told()).count();
        cells += same.cases.len();
        found += usize::from(Diff::new(&before, &changed).cases[7].is_told());
    }
    assert!(called * 20 <= cells, "{called} of {cells} cells of the same thing are called changed");
    assert_eq!(found, 20);
}

/// What differed beside the load stands above the table.
#[test]
fn conditions_that_differ_come_first() {
    let before = sample::quick();
    let mut after = before.clone();
    after.environment.io = Some("threads in place of io_uring: kernel.io_uring_disabled is 2".into());
    after.environment.other_load = Some(1.9);
    after.environment.cpu_quota = Some(0.5);
    let diff = Diff::new(&before, &after);
    for text in [diff.terminal(false), diff.markdown()] {
        let place = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part} is not in {text}"));
        let table = place("MB/s before and after");
        for part in ["Conditions that differ", "threads", "1.9 processors", "0.50"] {
            assert!(place(part) < table, "{part}");
        }
    }
}

#[test]
fn a_defender_that_looks_at_directories_is_said() {
    let of = |protection: &str| {
        let mut document = sample::quick();
        document.environment.power_plan = Some("High performance".into());
        document.environment.real_time_protection = Some(protection.into());
        document.targets[0].kind = "directory".into();
        document.conclude();
        markdown::render(&document, true)
    };
    let watched = of("on");
    for part in ["power plan: High performance", "real-time protection: on", "protection is on: unless"] {
        assert!(watched.contains(part), "{part} is not in {watched}");
    }
    let unknown = of("unknown");
    assert!(unknown.contains("real-time protection: unknown") && !unknown.contains("protection is on"));
}

fn system(document: &Document) -> String {
    format!("{}, {}", document.environment.os, document.environment.kernel)
}

#[test]
fn the_page_refers_to_nothing_outside() {
    for document in [sample::full(), sample::quick(), sample::two_volumes()] {
        let page = html::render(&document, true);
        for outside in
            ["http:", "https:", "//cdn", "<link", "<script", " src=", "@import", "url(", "<iframe", "<object"]
        {
            assert!(!page.contains(outside), "the page contains {outside}");
        }
    }
}

/// Adds a script to the page that lists every request that the page made, successful or not.
fn watched(page: &str) -> String {
    let watch = "<script>onload=()=>{const names=performance.getEntriesByType('resource').map(entry=>entry.name);\
                 document.body.append('requests: '+names.length+' '+names.join(' ')+'.')}</script></body>";
    page.replace("</body>", watch)
}

#[test]
fn chromium_opens_the_page_without_complaint_or_request() {
    // Make sure that the script and the console detect requests and errors.
    let bad = "<!doctype html><html><body><img src='http://host.invalid/x.png'><script>nonsense()</script></body></html>";
    let (dom, complaints) = browse(&watched(bad), 1280);
    assert!(complaints.iter().any(|line| line.contains("nonsense")), "{complaints:?}");
    assert!(dom.contains("requests: 1 http://host.invalid/x.png."), "{dom}");

    for document in [sample::full(), sample::quick(), sample::two_volumes()] {
        let (dom, complaints) = browse(&watched(&html::render(&document, true)), 1280);
        assert_eq!(complaints, [] as [String; 0]);
        assert!(dom.contains("requests: 0 .") && dom.contains("INTEL SSDPF2KE064T1"));
    }
}

#[test]
fn the_page_is_not_wider_than_a_phone() {
    // A window cannot be as narrow as a phone, but a frame can. All folded content is opened first.
    for document in [sample::full(), sample::two_volumes()] {
        let page = html::render(&document, true).replace("<details", "<details open");
        let wrapper = format!(
            "<!doctype html><html><body><iframe style='width:390px;height:800px;border:0' srcdoc='{}'></iframe>\
             <script>onload=()=>{{const root=frames[0].document.documentElement;\
             document.body.innerHTML='<p>width '+root.scrollWidth+' of '+root.clientWidth+', '+\
             frames[0].document.querySelectorAll('details').length+' open</p>'}}</script></body></html>",
            page.replace('&', "&amp;").replace('\'', "&#39;")
        );
        let (dom, complaints) = browse(&wrapper, 600);
        assert_eq!(complaints, [] as [String; 0]);
        assert!(dom.contains("<p>width 390 of 390, "), "{}", &dom[dom.len().saturating_sub(300)..]);
    }
}

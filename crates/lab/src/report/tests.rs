//! Random results: the sentences, the cells, the CSV and the JSON of one report never contradict each other.

use super::{answer, csv, grid, uncertain};
use crate::document::*;
use std::time::SystemTime;

/// A report of up to five targets in up to three cases, with anything between no slices and many.
fn random(rng: &mut fastrand::Rng) -> Document {
    let mut names = vec!["ntfs", "refs", "exfat", "dir:/a"];
    rng.shuffle(&mut names);
    names.truncate(rng.usize(1..=4));
    if rng.bool() {
        names.insert(0, RAW);
    }
    let kind = |name: &str| match name {
        RAW => "raw",
        name if name.starts_with("dir:") => "directory",
        _ => "volume",
    };
    let target = |name: &&str| Target {
        name: (*name).into(),
        short: (*name).into(),
        kind: kind(name).into(),
        ..Target::default()
    };
    let targets = names.iter().map(target).collect();
    let (environment, settings) = (Environment::default(), Settings::default());
    let mut document = Document::new(SystemTime::UNIX_EPOCH, "", environment, settings, targets);
    let scatter = [0.001, 0.02, 0.3, 2.0][rng.usize(..4)];
    let apart = [0.0, 0.003, 0.1, 1.5][rng.usize(..4)];
    for number in 0..rng.usize(1..=3) {
        let case = Case {
            workload: "load".into(),
            name: format!("case {number}"),
            block_bytes: 4096,
            random_percent: 100 * rng.u8(..2),
            direction: Direction::ALL[rng.usize(..3)],
            ..Case::default()
        };
        let passes = [0, 1, 3, 4, 5, 9, 20][rng.usize(..7)];
        for name in &names {
            let rate = 1e4 * (apart * (rng.f64() - 0.5)).exp();
            let passes = if rng.u8(..12) == 0 { passes / 2 } else { passes };
            let slice = |pass: u32| Slice {
                pass,
                seconds: 0.06,
                iops: if rng.u8(..50) == 0 { 0.0 } else { rate * (scatter * (rng.f64() - 0.5)).exp() },
                ..Slice::default()
            };
            let slices = (1..=passes).map(slice).collect();
            let run = Round { repeat: 1, slices, ..Round::default() };
            document.results.push(CaseResult {
                target: (*name).into(),
                case: case.clone(),
                runs: vec![run],
                ..CaseResult::default()
            });
        }
    }
    if names.contains(&"refs") && names.contains(&"ntfs") {
        document.pairs.push(Pair { target: "refs".into(), base: "ntfs".into() });
    }
    document.conclude();
    document
}

/// The ends of the interval that a cell shows, in percent; `None` where it shows none.
fn shown(cell: &str) -> Option<(f64, f64)> {
    let number =
        |text: &str| text.replace(',', "").parse::<f64>().unwrap_or_else(|_| panic!("{text} in {cell}"));
    let text = cell.trim_start_matches("? ").trim_end_matches(['*', '!']);
    if let Some((middle, half)) = text.split_once(" ±") {
        return Some((number(middle) - number(half), number(middle) + number(half)));
    }
    let (_, range) = text.split_once(" (")?;
    let (low, high) = range.trim_end_matches(')').split_once('–').expect("a range");
    Some((number(low), number(high)))
}

/// The cells show what the verdicts say.
fn check_cells(document: &Document) {
    let rows: Vec<Vec<String>> = csv::render(document)
        .lines()
        .skip(1)
        .map(|line| line.split(',').map(str::to_owned).collect())
        .collect();
    let heads =
        csv::render(document).lines().next().unwrap().split(',').map(str::to_owned).collect::<Vec<_>>();
    let column = |name: &str| heads.iter().position(|head| head == name).unwrap();
    for result in &document.results {
        for estimate in &result.estimates {
            let cell = grid::share(estimate).text;
            assert_eq!(cell.starts_with('?'), estimate.verdict == Verdict::Unclear, "{cell}");
            let ends = shown(&cell);
            assert_eq!(ends.is_some(), estimate.low.is_some(), "{cell}");
            if let Some((low, high)) = ends {
                let told = match estimate.verdict {
                    Verdict::Slower => high < 100.0,
                    Verdict::Faster => low > 100.0,
                    Verdict::NoDifference | Verdict::Unclear => low <= 100.0 && high >= 100.0,
                };
                assert!(told && low >= 0.0, "{:?}: {cell} {estimate:?}", estimate.verdict);
                // What is printed holds the interval, but for the last figure.
                let (from, to) = (estimate.low.unwrap() * 100.0, estimate.high.unwrap() * 100.0);
                assert!(low <= from * 1.001 + 0.06 && high >= to * 0.999 - 0.06, "{cell} {from} {to}");
            }
            let row = rows.iter().find(|row| {
                row[column("target")] == result.target
                    && row[column("case")] == result.case.name
                    && row[column("base")] == estimate.base
            });
            let row = row.expect("each ratio has a line");
            assert_eq!(row[column("verdict")], estimate.verdict.name());
            assert_eq!(row[column("ratio")].parse::<f64>().unwrap(), estimate.ratio);
            assert_eq!(row[column("low")].parse::<f64>().ok(), estimate.low);
            assert_eq!(row[column("high")].parse::<f64>().ok(), estimate.high);
        }
    }
    assert_eq!(Document::from_json(&document.to_json()).unwrap(), *document);
}

/// The first sentence says nothing that a cell contradicts.
fn check_answer(document: &Document) {
    let systems: Vec<&Target> = document.targets.iter().filter(|target| target.kind != "raw").collect();
    let sentence = &document.answer[0];
    if systems.len() < 2 {
        assert!(!sentence.contains("file system"), "{sentence}");
        return;
    }
    assert!(!sentence.contains("of 1 case"), "{sentence}");
    let is_system = |name: &str| systems.iter().any(|target| target.name == name);
    let slower_part = sentence
        .split_once("lower")
        .map_or("", |(_, rest)| rest.split_once(": ").map_or("", |(_, rest)| rest));
    let is_slower = |name: &str| {
        let mut words = slower_part.trim_end_matches('.').split(", ").flat_map(|part| part.split(" and "));
        words.any(|word| word == name || word.strip_prefix(name).is_some_and(|rest| rest.starts_with(" in ")))
    };
    let mut intervals = 0;
    // What is called alike, or the fastest, is so by every comparison of which that is said.
    let praised = match sentence.split_once("No measurable difference between ") {
        Some((_, rest)) => rest.split(". ").next().unwrap_or_default(),
        None => sentence.split_once(" is nowhere slower").map_or("", |(name, _)| name),
    };
    let praised = praised.split(" in any of ").next().unwrap().split(" in the one case").next().unwrap();
    let praised: Vec<&str> = praised.split(", ").flat_map(|part| part.split(" and ")).collect();
    for result in &document.results {
        for estimate in &result.estimates {
            intervals += usize::from(estimate.low.is_some());
            if !is_system(&result.target) || !is_system(&estimate.base) {
                continue;
            }
            // Of a case without intervals nothing is said.
            let is_praised = |name: &str| estimate.low.is_some() && praised.contains(&name);
            let behind = match estimate.verdict {
                Verdict::Slower => &result.target,
                Verdict::Faster => &estimate.base,
                Verdict::Unclear if is_praised(&result.target) && is_praised(&estimate.base) => {
                    panic!(
                        "{} and {} are unclear in {}:\n{sentence}",
                        result.target, estimate.base, result.case.name
                    )
                }
                Verdict::Unclear | Verdict::NoDifference => continue,
            };
            assert!(is_slower(behind), "{behind} is slower in {}:\n{sentence}", result.case.name);
        }
    }
    // Ratios to the raw device stand side by side: if they are apart, the lower one is slower.
    for one in &document.results {
        for other in document.results.iter().filter(|other| other.case.is_same(&one.case)) {
            let of = |result: &CaseResult| {
                result.against(RAW).and_then(|estimate| Some((estimate.low?, estimate.high?)))
            };
            if let (Some((_, high)), Some((low, _))) = (of(one), of(other))
                && high < low
            {
                assert!(is_slower(&one.target), "{} is behind {}:\n{sentence}", one.target, other.target);
            }
        }
    }
    if intervals == 0 {
        assert!(sentence.contains("not measured well enough"), "{sentence}");
    }
}

/// A sentence on a pair says of a kind of cases what the cells of that kind say.
fn check_pairs(document: &Document) {
    let told = |result: &CaseResult, base: &str| {
        result.against(base).map(|estimate| (estimate.verdict, estimate.low.is_some()))
    };
    for sentence in &document.answer {
        let Some((pair, _)) = sentence.split_once(": ") else { continue };
        let Some((target, base)) = pair.split_once(" against ") else { continue };
        let base = if base == "the raw device" { RAW } else { base };
        let verdicts: Vec<(Verdict, bool)> = document
            .results
            .iter()
            .filter(|result| result.target == target)
            .filter_map(|result| told(result, base))
            .collect();
        let has_difference = verdicts.iter().any(|(verdict, _)| verdict.is_difference());
        let range = sentence.split_once(": ").unwrap().1;
        assert_eq!(range.contains('−') || range.contains('+'), has_difference, "{sentence}");
        assert!(verdicts.iter().any(|(_, is_known)| *is_known), "{sentence} {verdicts:?}");
        if !verdicts.iter().any(|(verdict, _)| *verdict == Verdict::NoDifference) {
            assert!(!sentence.contains("no difference above"), "{sentence}");
        }
    }
}

#[test]
fn sentence_cells_csv_and_json_never_contradict() {
    let mut rng = fastrand::Rng::with_seed(57);
    for _ in 0..10_000 {
        let document = random(&mut rng);
        check_cells(&document);
        check_answer(&document);
        check_pairs(&document);
        assert!(!answer::question(&document).is_empty());
    }
}

#[test]
fn any_interval_is_printed_as_it_is() {
    let mut rng = fastrand::Rng::with_seed(1);
    for _ in 0..100_000 {
        let logarithm = (rng.f64() - 0.5) * 10f64.powi(rng.i32(-4..=1));
        let half = rng.f64() * 10f64.powi(rng.i32(-4..=1));
        let (low, high) = ((logarithm - half).exp(), (logarithm + half).exp());
        let text = uncertain::share(logarithm.exp(), low, high);
        let (from, to) = shown(&text).unwrap();
        match Verdict::of(logarithm, half) {
            // Three decimal places are enough for what a report can tell.
            Verdict::Slower if high < 0.9999 => assert!(to < 100.0, "{text}"),
            Verdict::Faster if low > 1.0001 => assert!(from > 100.0, "{text}"),
            // A difference of less than a hundredth of a percent may be rounded away.
            Verdict::Slower | Verdict::Faster => {}
            Verdict::NoDifference | Verdict::Unclear => {
                assert!(from <= 100.001 && to >= 99.999, "{text}: {low} {high}")
            }
        }
    }
}

/// A block that is left open takes in what comes after it: rules for print would hold on narrow screens alone.
#[test]
fn every_block_of_the_style_is_closed() {
    let style = include_str!("html/page.css");
    let mut depth = 0;
    for (at, letter) in style.char_indices() {
        match letter {
            '@' => assert_eq!(depth, 0, "{}", &style[at..style.len().min(at + 40)]),
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
    }
    assert_eq!(depth, 0);
}

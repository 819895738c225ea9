//! The answer in a few sentences: which file system is fastest, how the pairs compare, and how certain that is.

use super::{circumstances, uncertain};
use crate::document::{Case, CaseResult, Direction, Document, Estimate, Verdict};
use crate::format;
use crate::statistics::median;

/// The question that the report answers, which is its title.
pub(super) fn question(document: &Document) -> String {
    let volumes = document.targets.iter().filter(|target| target.kind != "raw").count();
    let asks_integrity = document.pairs.iter().any(|pair| pair.target.starts_with("refs+integrity"));
    let here = circumstances::place(document);
    match (&document.targets[..], volumes) {
        _ if document.settings.programs.is_some() => match &document.targets[..] {
            [] => "Nothing was measured".into(),
            [one] => format!("How long do programs take on {}?", called(document, &one.name)),
            _ => "On which file system are these programs faster?".into(),
        },
        (_, 2..) if asks_integrity => format!("Which file system {here}, and what does integrity cost?"),
        ([], _) => "Nothing was measured".into(),
        ([one], _) => format!("How fast is {} {here}?", called(document, &one.name)),
        (_, 2..) => format!("Which file system {here}?"),
        ([one, two], _) => {
            let other = if one.name == document.base() { two } else { one };
            format!("What does {} cost {here}?", called(document, &other.name))
        }
        (_, _) => format!("How do they compare {here}?"),
    }
}

/// How a file system stands among the others in one case.
pub(super) struct Standing {
    /// The target's name, as in [`crate::document::Target::name`].
    pub target: String,
    /// Whether it is slower than another one.
    pub is_behind: bool,
    /// Whether no comparison with another one is [`Verdict::Unclear`].
    pub is_told: bool,
}

/// The sentences that the report begins with.
pub(super) fn sentences(document: &Document, standings: &[Vec<Standing>]) -> Vec<String> {
    let mut sentences = Vec::new();
    sentences.extend(fastest(document, standings));
    sentences
        .extend(document.pairs.iter().filter_map(|pair| pair_sentence(document, &pair.target, &pair.base)));
    if document.pairs.is_empty() {
        let others = document.targets.iter().filter(|target| target.name != document.base());
        // With many targets, the grid shows this better than sentences.
        let others: Vec<_> = others.collect();
        if others.len() <= 3 {
            let each =
                others.iter().filter_map(|target| pair_sentence(document, &target.name, document.base()));
            sentences.extend(each);
        }
    }
    sentences.push(how_sure(document));
    sentences
}

/// How a target is called in a sentence.
fn called(document: &Document, name: &str) -> String {
    match document.target(name) {
        Some(target) if target.kind == "raw" && name == "raw" => "the raw device".into(),
        _ => document.short(name).to_owned(),
    }
}

/// Joins words as in a sentence: `a, b and c`.
fn listed(words: &[String]) -> String {
    match words {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// Says in how many cases each file system is slower than the fastest; nothing where nothing is known.
fn fastest(document: &Document, standings: &[Vec<Standing>]) -> Option<String> {
    let systems: Vec<&str> = document
        .targets
        .iter()
        .filter(|target| target.kind != "raw")
        .map(|target| target.name.as_str())
        .collect();
    if systems.len() < 2 {
        return None;
    }
    let cases = standings.len();
    let (mut first, mut slower): (Vec<String>, Vec<(usize, String)>) = (Vec::new(), Vec::new());
    for name in systems {
        let of_case = |case: &&Vec<Standing>| case.iter().any(|one| one.target == name && one.is_behind);
        let is_known = |case: &Vec<Standing>| case.iter().any(|one| one.target == name && one.is_told);
        match standings.iter().filter(of_case).count() {
            // What is said of all cases has to be known of all of them.
            0 if standings.iter().all(is_known) => first.push(called(document, name)),
            0 => {}
            count => slower.push((count, called(document, name))),
        }
    }
    // A case in which one of several is not known to be slower, and may be.
    let is_open = |case: &&Vec<Standing>| case.iter().any(|one| !one.is_behind && !one.is_told);
    let open = standings.iter().filter(is_open).count();
    if open == cases || (first.len() < 2 && slower.is_empty()) {
        let unclear = "Which file system is the fastest was not measured well enough to tell.";
        return Some(match &slower[..] {
            [] => unclear.into(),
            _ => format!("{unclear} {}.", behind(slower, cases)),
        });
    }
    let only_first = slower.is_empty();
    let behind = behind(slower, cases);
    Some(match first.len() {
        _ if open > 0 => format!(
            "In {open} of {cases} cases it was not measured well enough to tell which file system is the fastest. {behind}."
        ),
        _ if only_first => alike(document, &first, cases),
        0 => format!("No file system is the fastest everywhere. {behind}."),
        1 if cases == 1 => format!("{} is the fastest file system. {behind}.", first[0]),
        1 => format!("{} is nowhere slower than the fastest file system. {behind}.", first[0]),
        _ => format!("No measurable difference between {}. {behind}.", listed(&first)),
    })
}

/// Says in how many of the cases each of these file systems is slower than the fastest, as a part of a sentence.
fn behind(mut slower: Vec<(usize, String)>, cases: usize) -> String {
    slower.sort_by_key(|(count, _)| *count);
    let name = |(count, name)| if cases == 1 { name } else { format!("{name} in {count}") };
    let slower: Vec<String> = slower.into_iter().map(name).collect();
    let of_cases = if cases == 1 { "Slower".into() } else { format!("Of {cases} cases, slower") };
    format!("{of_cases}: {}", listed(&slower))
}

/// Says that these file systems do not differ by more than the noise, and how large that is.
fn alike(document: &Document, names: &[String], cases: usize) -> String {
    let limits = document.results.iter().flat_map(|result| &result.estimates);
    let worst = limits.filter_map(|estimate| estimate.resolution_percent).fold(0.0, f64::max);
    let place = if cases == 1 { "in the one case".into() } else { format!("in any of the {cases} cases") };
    format!(
        "No measurable difference between {} {place}; one below {} may have stayed hidden.",
        listed(names),
        format::hidden(worst)
    )
}

/// The kinds of cases that the answer distinguishes.
const KINDS: [&str; 5] =
    ["sequential reads", "sequential writes", "random reads", "random writes", "mixed reads and writes"];

fn kind(case: &Case) -> &'static str {
    match (case.direction, case.random_percent >= 50) {
        (Direction::Read, false) => KINDS[0],
        (Direction::Write, false) => KINDS[1],
        (Direction::Read, true) => KINDS[2],
        (Direction::Write, true) => KINDS[3],
        (Direction::Mix, _) => KINDS[4],
    }
}

/// Compares one target with another for each kind of case: `refs against ntfs: −3 to −12 % in sequential reads, …`.
fn pair_sentence(document: &Document, target: &str, base: &str) -> Option<String> {
    if document.settings.programs.is_some() {
        return programs_sentence(document, target, base);
    }
    let mut parts: Vec<(String, Vec<&'static str>)> = Vec::new();
    for name in KINDS {
        let estimates: Vec<&Estimate> = document
            .results
            .iter()
            .filter(|result| result.target == target && kind(&result.case) == name)
            .filter_map(|result| result.against(base))
            // Where there is no interval nothing is known.
            .filter(|estimate| estimate.low.is_some())
            .collect();
        if estimates.is_empty() {
            continue;
        }
        let what = in_words(&estimates);
        match parts.iter_mut().find(|(text, _)| *text == what) {
            Some((_, kinds)) => kinds.push(name),
            None => parts.push((what, vec![name])),
        }
    }
    if parts.is_empty() {
        return None;
    }
    let parts: Vec<String> = parts
        .into_iter()
        .map(|(what, kinds)| {
            // "2 of 3 cases of random reads", but "−3 % in random reads".
            let link = if what.ends_with("cases") { "of" } else { "in" };
            format!(
                "{what} {link} {}",
                listed(&kinds.iter().map(|kind| (*kind).to_owned()).collect::<Vec<_>>())
            )
        })
        .collect();
    let (target, base) = (called(document, target), called(document, base));
    Some(format!("{target} against {base}: {}.", parts.join("; ")))
}

/// Compares two targets by the time that each program takes.
fn programs_sentence(document: &Document, target: &str, base: &str) -> Option<String> {
    let of_program = |result: &CaseResult| {
        let estimate = result.against(base)?;
        let (low, high) = (estimate.low?, estimate.high?);
        let what = match estimate.verdict {
            Verdict::Slower => uncertain::longer(estimate.ratio, low, high),
            Verdict::Faster => uncertain::shorter(estimate.ratio, low, high),
            Verdict::NoDifference => format!(
                "no difference above {}\u{a0}%",
                format::percent_up(estimate.resolution_percent.unwrap_or(0.0))
            ),
            Verdict::Unclear => "not measured well enough to tell".into(),
        };
        Some(format!("{what} in {}", result.case.label()))
    };
    let results = document.results.iter().filter(|result| result.target == target);
    let parts: Vec<String> = results.filter_map(of_program).collect();
    let (target, base) = (called(document, target), called(document, base));
    (!parts.is_empty()).then(|| format!("{target} against {base}: {}.", parts.join("; ")))
}

/// Summarises the estimates of one kind of case.
fn in_words(estimates: &[&Estimate]) -> String {
    let told: Vec<f64> = estimates
        .iter()
        .filter(|estimate| estimate.verdict.is_difference())
        .map(|estimate| (estimate.ratio - 1.0) * 100.0)
        .collect();
    if !told.is_empty() {
        let low = told.iter().copied().fold(f64::INFINITY, f64::min);
        let high = told.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let (low, high) = (uncertain::signed(low), uncertain::signed(high));
        let range = if low == high { format!("{low}\u{a0}%") } else { format!("{low} to {high}\u{a0}%") };
        return match told.len() {
            count if count == estimates.len() => range,
            count => format!("{range} in {count} of {} cases", estimates.len()),
        };
    }
    let worst = |verdict| {
        let of = estimates.iter().filter(|estimate| verdict == estimate.verdict);
        of.filter_map(|estimate| estimate.resolution_percent).fold(0.0, f64::max)
    };
    if estimates.iter().all(|estimate| estimate.verdict == Verdict::NoDifference) {
        format!("no difference above {}\u{a0}%", format::percent_up(worst(Verdict::NoDifference)))
    } else {
        "not measured well enough to tell".into()
    }
}

/// Says whether the asked difference would have been told.
fn until(asked: f64, all: &[&Estimate]) -> String {
    let is_told = |estimate: &&&Estimate| estimate.resolution_percent.is_some_and(|percent| percent <= asked);
    let told = all.iter().filter(is_told).count();
    let asked = format!("{}\u{a0}%", format::percent_up(asked));
    match (told, all.len()) {
        (told, count) if told == count => {
            format!("Every comparison would have shown a difference of {asked}.")
        }
        (told, count) => format!(
            "{told} of {count} comparisons would have shown the asked difference of {asked}; for the others the time was over \
             before: more --time tells, or a machine with less other load."
        ),
    }
}

/// Says how certain the answer is, and how to make it more certain.
fn how_sure(document: &Document) -> String {
    let all: Vec<&Estimate> = document.results.iter().flat_map(|result| &result.estimates).collect();
    if all.is_empty() {
        return match document.targets.len() {
            1 => "Only one target was measured, so there is nothing to compare.".into(),
            _ => "Nothing was measured that could be compared.".into(),
        };
    }
    let told = all.iter().filter(|estimate| estimate.verdict.is_difference()).count();
    let limits: Vec<f64> = all.iter().filter_map(|estimate| estimate.resolution_percent).collect();
    if limits.is_empty() {
        return "Too few slices ran to know what is chance: give it more --time or --repeat.".into();
    }
    let worst = limits.iter().copied().fold(0.0, f64::max);
    if let Some(asked) = document.settings.until_percent {
        return until(asked, &all);
    }
    let told = match all.len() {
        1 if told == 1 => "The difference is real, and not chance".into(),
        1 => "The difference may be chance".into(),
        count => format!("{told} of {count} comparisons show a real difference"),
    };
    let usual = format::hidden(median(&limits));
    let worst = format::hidden(worst);
    let but = if worst == usual { String::new() } else { format!(", in the noisiest below {worst}") };
    format!(
        "{told}. Differences below {usual} would usually have stayed hidden{but}; four times the --time halves that."
    )
}

//! The statistics of programs with times that are made up, and short runs of real ones.

use super::course::{Enough, Execution, Field, MOST, measure, result};
use super::*;
use crate::document::{RAW, Verdict};
use crate::report::{csv, html, markdown, terminal};
use fastrand::Rng;
use std::cell::RefCell;

/// Targets whose runs take times that follow from a seed: noise of each run, weather that all feel, and now and then a run
/// that is disturbed.
struct Made {
    rng: Rng,
    /// The usual seconds of a run on each target.
    truth: Vec<f64>,
    scatter: f64,
    weather: f64,
    turns: Vec<usize>,
    passes: Vec<(u32, u32)>,
    notices: RefCell<Vec<String>>,
}

impl Made {
    fn new(seed: u64, truth: &[f64], scatter: f64) -> Made {
        Made {
            rng: Rng::with_seed(seed),
            truth: truth.into(),
            scatter,
            weather: 0.0,
            turns: Vec::new(),
            passes: Vec::new(),
            notices: RefCell::default(),
        }
    }

    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.rng.f64()).sum::<f64>() - 6.0
    }
}

impl Field for Made {
    fn targets(&self) -> usize {
        self.truth.len()
    }

    fn turn(&mut self, _program: usize, target: usize) -> Result<Option<Execution>> {
        if self.turns.len().is_multiple_of(self.truth.len()) {
            self.weather = 0.3 * self.normal();
        }
        self.turns.push(target);
        let disturbed = if self.rng.u8(..40) == 0 { 1.5 } else { 0.0 };
        let logarithm = self.weather + self.scatter * self.normal() + disturbed;
        let seconds = self.truth[target] * logarithm.exp();
        Ok(Some(Execution { took: Duration::from_secs_f64(seconds), ..Execution::default() }))
    }

    fn passed(&mut self, _program: usize, pass: u32, passes: u32) {
        self.passes.push((pass, passes));
    }

    fn other_load(&self) -> Option<f64> {
        Some(1.9)
    }

    fn notice(&self, sentence: &str) {
        self.notices.borrow_mut().push(sentence.to_owned());
    }

    fn stop(&self) -> bool {
        false
    }
}

const TEN: Enough = Enough { passes: Some(10), time: None, until: None };

fn names(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("dir:/{number}")).collect()
}

/// The report of two programs on targets with these times.
fn document(seed: u64, truth: &[f64], scatter: f64, enough: Enough) -> Document {
    let names = names(truth.len());
    let target = |name: &String| report::Target {
        name: name.clone(),
        short: name.clone(),
        kind: "directory".into(),
        ..report::Target::default()
    };
    let settings = Settings { programs: Some(ProgramSettings::default()), ..Settings::default() };
    let targets = names.iter().map(target).collect();
    let mut document =
        Document::new(SystemTime::UNIX_EPOCH, "", report::Environment::default(), settings, targets);
    for program in 0..2 {
        let mut field = Made::new(seed * 2 + program, truth, scatter);
        let runs = measure(&mut field, program as usize, enough, &mut Noise::new(1, None), seed).unwrap();
        for (name, runs) in names.iter().zip(&runs) {
            let name_of_case = format!("program {program}");
            let case = report::Case {
                workload: NAME.into(),
                name: name_of_case.clone(),
                program: Some(name_of_case),
                ..report::Case::default()
            };
            document.results.push(result(name, case, runs));
        }
    }
    document.conclude();
    document
}

#[test]
fn one_directory_under_three_names_is_hardly_ever_told_apart() {
    let (mut told, mut cells) = (0, 0);
    for seed in 0..150 {
        for scatter in [0.02, 0.2] {
            let document = document(seed, &[0.1; 3], scatter, TEN);
            for estimate in document.results.iter().flat_map(|result| &result.estimates) {
                cells += 1;
                told += usize::from(estimate.verdict.is_difference());
            }
        }
    }
    assert!(cells == 1200 && told <= cells / 20, "{told} of {cells}");
}

#[test]
fn a_target_that_is_slower_by_a_fifth_is_found() {
    let mut found = 0;
    for seed in 0..50 {
        let document = document(seed, &[0.1, 0.1, 0.12], 0.04, TEN);
        let of = |target: &str| {
            let results = document.results.iter().filter(move |result| result.target == target);
            results.map(|result| result.estimates[0].verdict).collect::<Vec<Verdict>>()
        };
        found += of("dir:/2").iter().filter(|verdict| **verdict == Verdict::Slower).count();
        if of("dir:/2") == [Verdict::Slower; 2] {
            let all = document.answer.join(" ");
            assert!(all.contains("dir:/2 against dir:/0: 1.") && all.contains("times as long ("), "{all}");
        }
    }
    assert!(found >= 95, "{found} of 100");
}

#[test]
fn each_target_has_a_run_in_each_pass_at_every_place() {
    let mut field = Made::new(1, &[0.1; 4], 0.1);
    measure(&mut field, 0, Enough { passes: Some(8), ..TEN }, &mut Noise::new(1, None), 1).unwrap();
    let mut places = [[0; 4]; 4];
    for pass in field.turns.chunks(4) {
        for (place, target) in pass.iter().enumerate() {
            places[*target][place] += 1;
        }
    }
    assert!(places.iter().flatten().all(|count| *count == 2), "{places:?}");
}

#[test]
fn there_are_as_many_passes_as_were_asked_for() {
    let passes = |enough: Enough, seconds: f64| {
        let mut field = Made::new(3, &[seconds; 2], 0.0);
        let runs = measure(&mut field, 0, enough, &mut Noise::new(1, None), 3).unwrap();
        assert!(runs.iter().all(|of_target| of_target.len() == runs[0].len()));
        runs[0].len() as u32
    };
    let none = Enough { passes: None, time: None, until: None };
    let of = |seconds: f64| Enough { time: Some(Duration::from_secs_f64(seconds)), ..none };
    assert_eq!(passes(TEN, 0.1), 10);
    // Ten at least if nothing was chosen, and as many as three seconds take.
    assert_eq!(passes(none, 60.0), 10);
    assert!(passes(none, 0.1) > 15);
    assert_eq!(passes(none, 1e-6), MOST);
    // What was chosen holds, but for the few passes without which there is no interval.
    assert!((4..=9).contains(&passes(of(0.7), 0.1)));
    assert_eq!(passes(of(1.0), 60.0), 4);
}

#[test]
fn it_goes_on_until_the_asked_difference_would_be_told() {
    let until = |share: f64, time: f64| Enough {
        passes: None,
        time: Some(Duration::from_secs_f64(time)),
        until: Some(share),
    };
    let outcome = |enough: Enough| {
        let mut field = Made::new(5, &[0.1; 3], 0.05);
        let runs = measure(&mut field, 0, enough, &mut Noise::new(1, enough.until), 5).unwrap();
        let rates: Vec<Vec<f64>> =
            runs.iter().map(|runs| runs.iter().map(|run| 1.0 / run.took.as_secs_f64()).collect()).collect();
        (runs[0].len(), crate::estimate::widest(&rates, 0.05).unwrap().exp_m1())
    };
    let (coarse, width) = outcome(until(0.20, 100.0));
    assert!(coarse >= 10 && width <= 0.20, "{coarse} {width}");
    let (fine, width) = outcome(until(0.02, 100.0));
    assert!(fine > 2 * coarse && width <= 0.02, "{fine} {width}");
    // The time is the limit.
    let (limited, width) = outcome(until(0.001, 2.0));
    assert!((5..60).contains(&limited) && width > 0.001, "{limited} {width}");
}

#[test]
fn every_view_shows_times_and_never_requests() {
    let document = document(8, &[0.1, 0.25], 0.02, TEN);
    let text = terminal::render(&document, terminal::View { details: true, ..terminal::View::default() });
    for view in [text.clone(), html::render(&document, false), markdown::render(&document, false)] {
        assert!(view.contains("program 0") && view.contains("times as long"), "{view}");
        assert!(!view.contains("program 0 mix") && !view.contains("sequential"), "{view}");
    }
    assert!(text.contains("dir:/0 time") && text.contains(" ms ("), "{text}");
    let csv = csv::render(&document);
    assert_eq!(csv.lines().count(), 5, "{csv}");
    assert_eq!(Document::from_json(&document.to_json()).unwrap(), document);
    assert!(document.results.iter().all(|result| result.target != RAW));
}

#[test]
fn noise_is_said_while_it_is_measured() {
    let notices = |scatter: f64| {
        let mut field = Made::new(9, &[0.1; 3], scatter);
        measure(&mut field, 0, TEN, &mut Noise::new(2, None), 9).unwrap();
        field.notices.into_inner()
    };
    assert_eq!(notices(0.01), [""; 0]);
    let said = notices(0.5);
    assert!(
        said.len() == 1 && said[0].starts_with("another program uses 1.9 processors; at this noise"),
        "{said:?}"
    );
}

/// Directories of the host as targets.
fn programs(directories: &[&std::path::Path], commands: &[&str]) -> Programs {
    let command = |command: &&str| Program { command: (*command).into(), ..Program::default() };
    Programs {
        stand: Stand::Memory(1 << 20),
        targets: directories
            .iter()
            .map(|path| Target::Directory { path: (*path).into(), integrity: false })
            .collect(),
        commands: commands.iter().map(command).collect(),
        setup: None,
        platter: PathBuf::from("platter"),
        room: ROOM,
        passes: Some(4),
        time: None,
        until: None,
        warmups: 1,
        cold: false,
        durable: false,
        ignore_failure: false,
        preset: Preset::Quick,
        base: None,
        discard: false,
        command: "platter compare".into(),
    }
}

#[test]
fn programs_run_in_a_folder_of_their_own_with_what_goes_before_and_after() {
    let outer = tempfile::tempdir().unwrap();
    let log = outer.path().join("log");
    let targets = [outer.path().join("a"), outer.path().join("b")];
    targets.iter().for_each(|path| std::fs::create_dir(path).unwrap());
    let word = |word: &str| format!("echo \"$PLATTER_TARGET {word}\" >> {}", log.display());
    let mut programs = programs(&[&targets[0], &targets[1]], &[]);
    programs.setup = Some(format!("{}; echo text > tree", word("setup")));
    programs.commands = vec![Program {
        command: format!("{}; cat tree; test -e ready && rm ready", word("run")),
        prepare: Some(format!("{}; test ! -e ready && touch ready", word("prepare"))),
        conclude: Some(word("conclude")),
    }];
    let document = run(&programs, &()).unwrap();
    assert_eq!(document.partial, None);
    assert!(document.warnings.iter().any(|warning| warning.starts_with("mem:1M was left alone")));
    assert_eq!(document.results.len(), 2);
    assert!(document.results.iter().all(|result| result.slices().count() == 4 && result.iops > 0.0));
    let log = std::fs::read_to_string(log).unwrap();
    for (name, path) in [("a", &targets[0]), ("b", &targets[1])] {
        let of: Vec<&str> =
            log.lines().filter_map(|line| line.strip_prefix(&format!("dir:{} ", path.display()))).collect();
        let each = ["prepare", "run", "conclude"];
        // One run that does not count, and four that do.
        let expected: Vec<&str> = std::iter::once("setup").chain((0..5).flat_map(|_| each)).collect();
        assert_eq!(of, expected, "{name}");
        assert_eq!(std::fs::read_dir(path).unwrap().count(), 0, "nothing is left behind");
    }
}

#[test]
fn a_command_that_fails_is_said_with_its_last_lines() {
    let outer = tempfile::tempdir().unwrap();
    let (one, other) = (outer.path().join("one"), outer.path().join("other"));
    std::fs::create_dir(&one).unwrap();
    std::fs::create_dir(&other).unwrap();
    let failing = "case $PLATTER_TARGET in *other) echo first; echo no such thing >&2; exit 7;; esac";
    // On all targets: nothing was measured.
    let error = run(&programs(&[&other], &[failing]), &()).unwrap_err().to_string();
    assert!(error.contains("exit code 7: first / no such thing"), "{error}");
    // On one: the others are kept.
    let mut both = programs(&[&one, &other], &[failing, "true"]);
    let document = run(&both, &()).unwrap();
    let why = document.partial.unwrap();
    assert!(
        why.contains("other has no result of case $PLATTER_TARGET") && why.contains("exit code 7"),
        "{why}"
    );
    let measured: Vec<usize> = document.results.iter().map(|result| result.slices().count()).collect();
    assert_eq!(measured, [4; 3], "one program on one target, the other on both");
    // To be ignored: the runs count, and are said.
    both.ignore_failure = true;
    let document = run(&both, &()).unwrap();
    assert_eq!((document.partial, document.results.len()), (None, 4));
    let is_said = |warning: &String| warning.contains("4 of 4 runs ended with exit code 7");
    let said: Vec<&str> = document
        .results
        .iter()
        .filter(|result| result.warnings.iter().any(is_said))
        .map(|result| result.target.as_str())
        .collect();
    assert!(said.len() == 1 && said[0].ends_with("other"), "{said:?}");
    // What goes before a run has to succeed in any case.
    both.commands[0].prepare = Some("exit 3".into());
    let document = run(&both, &()).unwrap();
    assert!(document.partial.unwrap().contains("exit code 3") && document.results.len() == 2);
}

#[test]
fn what_has_no_files_and_what_has_no_device_is_refused() {
    let outer = tempfile::tempdir().unwrap();
    let mut programs = programs(&[outer.path()], &["true"]);
    programs.targets.push(Target::Raw);
    assert!(run(&programs, &()).unwrap_err().to_string().contains("raw: it has no files"));
    programs.targets[1] = Target::parse("fat32").unwrap();
    programs.targets.remove(0);
    assert!(run(&programs, &()).unwrap_err().to_string().contains("memory of this program"));
    // Nothing is written before it is known to fit.
    programs.stand = Stand::TemporaryImage(outer.path().into());
    for room in [1 << 50, u64::MAX] {
        programs.room = room;
        assert!(run(&programs, &()).unwrap_err().to_string().contains("are needed for the image"));
    }
    assert_eq!(std::fs::read_dir(outer.path()).unwrap().count(), 0);
    programs.commands.clear();
    assert!(run(&programs, &()).is_err());
}

#[test]
fn long_commands_are_shown_short_and_apart() {
    assert_eq!(shown("git  status\n --short"), "git status --short");
    let long = "x".repeat(100);
    assert_eq!(shown(&long).chars().count(), SHOWN);
    let labels = crate::plan::distinct([shown(&long), shown(&(long.clone() + "y"))].into_iter());
    assert_ne!(labels[0], labels[1]);
}

//! Configuration files of Iometer, and the workloads that are made of them.

use super::*;
use crate::experiment::Direction;
use crate::workload::Workload;
use crate::{Portion, Share};
use std::time::Duration;

/// A file as Iometer saves it: two specifications, four workers of one manager.
const FILE: &str = include_str!("../../tests/sample/two-specifications.icf");

fn workload(text: &str) -> Workload {
    Config::parse(text).and_then(|config| config.workload("test")).unwrap_or_else(|error| panic!("{error}"))
}

fn refused(text: &str) -> String {
    Config::parse(text).and_then(|config| config.workload("test")).expect_err("it is refused")
}

#[test]
fn a_saved_file_is_the_load_that_it_describes() {
    let made = workload(FILE);
    assert_eq!((made.title.as_str(), made.span, made.share, made.seed), ("overnight", 64 << 20, None, 8664));
    // Each specification becomes a step in which all four workers run.
    assert_eq!((made.cases.len(), made.groups().count()), (2, 2));
    let [first, second] = &made.cases[..] else { panic!() };
    assert_eq!(
        (first.name.as_str(), first.direction),
        ("4 KiB aligned; 75% Read; 100% random", Direction::Mix)
    );
    assert_eq!((first.pattern.workers, first.pattern.queue_depth), (4, 16));
    assert_eq!((first.time, first.ramp_up), (Duration::from_secs(3723), Duration::from_secs(5)));
    assert!(first.pattern.shape.same_seed && !made.buffered);
    let portions = second.pattern.portions();
    assert_eq!((portions.len(), portions[0].weight, portions[1].least), (2, 80, 65536));
    assert_eq!((portions[0].align, portions[1].align), (Portion::SECTOR, 65536));
    assert_eq!((portions[1].burst, portions[1].delay), (4, Duration::from_millis(10)));
    assert_eq!((portions[1].read_percent, portions[1].random_percent), (0, 0));
    let notes = made.notes.concat();
    assert!(
        notes.contains("same places") && notes.contains("512 bytes") && notes.contains("one byte"),
        "{notes}"
    );
}

#[test]
fn the_case_of_letters_does_not_matter() {
    let other = |line: &str| match line.starts_with('\'') {
        true => line.to_uppercase(),
        false => ["NORMAL", "ENABLED", "DISABLED", "DISK", "EXPONENTIAL", ",NONE", ",ALL"]
            .iter()
            .fold(line.to_owned(), |line, word| line.replace(word, &word.to_lowercase())),
    };
    let text: Vec<String> = FILE.lines().map(other).collect();
    assert_ne!(text.join("\n"), FILE.trim_end());
    assert_eq!(Config::parse(&text.join("\n")), Config::parse(FILE));
}

#[test]
fn workers_that_differ_run_beside_each_other() {
    // The last worker has a smaller queue depth than the others.
    let at = FILE.rfind("\t16,DISABLED").unwrap();
    let text = format!("{}\t4,DISABLED{}", &FILE[..at], &FILE[at + "\t16,DISABLED".len()..]);
    let made = workload(&text);
    let shape: Vec<(u32, u32, bool)> =
        made.cases.iter().map(|case| (case.pattern.workers, case.pattern.queue_depth, case.beside)).collect();
    assert_eq!(shape, [(3, 16, false), (1, 4, true), (3, 16, false), (1, 4, true)]);
    assert!(made.cases[1].name.ends_with(", Worker 4 on /mnt/disk [ext4]"), "{}", made.cases[1].name);
}

#[test]
fn cycles_are_steps_of_their_own() {
    let depths = FILE.replace("\tNORMAL", "\tCYCLE_OUTSTANDING_IOS");
    let found: Vec<(u32, String)> =
        workload(&depths).cases.into_iter().map(|case| (case.pattern.queue_depth, case.name)).collect();
    assert_eq!(found.iter().map(|(depth, _)| *depth).collect::<Vec<_>>(), [1, 2, 4, 8, 1, 2, 4, 8]);
    assert!(found[3].1.ends_with(", 8 outstanding"));
    let workers = workload(&FILE.replace("\tNORMAL", "\tCYCLE_WORKERS"));
    let found: Vec<u32> = workers.cases.iter().map(|case| case.pattern.workers).collect();
    assert_eq!(found, [1, 2, 3, 4, 1, 2, 3, 4]);
}

#[test]
fn whole_disks_are_what_there_is() {
    let whole = FILE.replace("\t131072,0,0", "\t0,0,1");
    let made = workload(&whole);
    assert_eq!((made.span, made.share), (0, Some(Share(100))));
    // Two whole disks get half of the span each.
    let at = whole.rfind("\t/mnt/disk [ext4]").unwrap();
    let two = format!("{}\t/mnt/other [ext4]{}", &whole[..at], &whole[at + "\t/mnt/disk [ext4]".len()..]);
    let made = workload(&two);
    assert_eq!(made.cases[1].range(1000 << 20), 500 << 20..1000 << 20);
}

#[test]
fn what_cannot_be_run_is_named() {
    for (from, to, words) in [
        ("Version 1.1.0", "Something", "line 1"),
        ("\tNORMAL", "\tCYCLE_TARGETS", "CYCLE_TARGETS"),
        ("\tDISK\n'Default", "\tNETWORK,TCP\n'Default", "network"),
        ("4096,100,75,100,0,1,4096,0", "4096,100,75,100,0,1,4096,512", "reply"),
        ("4096,100,75,100,0,1,4096,0", "4096,100,175,100,0,1,4096,0", "0 to 100"),
        ("4096,100,75,100,0,1,4096,0", "4096,100,75", "8 values"),
        ("65536,20,0,0,10", "65536,30,0,0,10", "100 together, and not 110"),
        (
            "65536,20,0,0,10",
            "65536,10,0,0,10",
            "\"mixed\": the shares of its lines are 100 together, and not 90",
        ),
        ("16,DISABLED", "0,DISABLED", "1 to"),
        ("16,DISABLED", "16,ENABLED", "connection rate"),
        ("\t1          2          3", "\t0          0          0", "Run Time"),
        ("'size,% of size,% reads", "'size, % of size, % reads", "without names"),
        ("\tmixed\n'End assigned", "\tother\n'End assigned", "\"other\""),
    ] {
        let error = refused(&FILE.replace(from, to));
        assert!(error.contains(words), "{to}: {error}");
    }
    let all = FILE
        .replace("\tmixed\n'End assigned", &"\tmixed\n".repeat(900))
        .replace("\tNORMAL", "\tCYCLE_OUTSTANDING_IOS");
    let endless = all
        .replace("1          8          2          EXPONENTIAL", "1          60         1          LINEAR");
    assert!(refused(&endless).contains("in all steps"));
    assert!(refused("Version 1.1.0\n").contains("no worker"));
}

/// What was cut off may be workers: each shorter file is refused, wherever a line ends.
#[test]
fn a_file_that_is_cut_off_is_refused() {
    let whole = FILE.trim_end();
    let last = whole.rfind('\n').unwrap();
    for (at, _) in whole[..=last].match_indices('\n').skip(1) {
        assert!(Config::parse(&whole[..at]).is_err(), "{:?}", &whole[at.saturating_sub(40)..at]);
    }
    assert!(Config::parse(whole).is_ok());
}

//! No contract is wider than a reader can keep in mind, and no function longer than a reader can see at once.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The most methods that a trait has. What is wider holds something that is a contract of its own, or a part that not
/// everyone has.
const WIDEST: usize = 29;

/// The most lines of a function.
const LONGEST: usize = 70;

const OPTIONS: &str = "one arm for each option or field of a text";
const KINDS: &str = "one arm for each kind of operation";
const FIELDS: &str = "one check for each field, in the order of the structure";
const PARTS: &str = "one line for each part of what is written";
const FINDINGS: &str = "one finding after the other, each on what the ones before it left";
const STEPS: &str = "steps of one operation that share what they have found";

/// Functions that are longer, with their lines and why. They may become shorter, and no other may join them.
const STILL_LONGER: &[(&str, &str, usize, &str)] = &[
    ("clusters/src/volume/rename.rs", "rename_entry", 83, STEPS),
    ("device/src/mirror/set.rs", "find_current", 74, STEPS),
    ("exfat/src/check/system.rs", "find", 89, FINDINGS),
    ("exfat/src/check/walk/content.rs", "content", 98, FINDINGS),
    ("exfat/src/check/walk/directory.rs", "entries", 79, FINDINGS),
    ("exfat/src/directory.rs", "parse", 71, FIELDS),
    ("exfat/src/layout/boot.rs", "geometry", 72, FIELDS),
    ("fat/src/check/boot.rs", "find", 82, FINDINGS),
    ("fat/src/directory.rs", "parse", 101, FIELDS),
    ("fat/src/volume.rs", "open", 73, STEPS),
    ("lab/src/diskspd/load.rs", "case", 85, STEPS),
    ("lab/src/diskspd/options.rs", "take", 127, OPTIONS),
    ("lab/src/diskspd/results.rs", "write_target", 82, PARTS),
    ("lab/src/diskspd/xml.rs", "target", 76, PARTS),
    ("lab/src/diskspd/xml.rs", "write_target", 79, PARTS),
    ("lab/src/endurance/report.rs", "sentences", 85, PARTS),
    ("lab/src/fleet/spread.rs", "chart", 84, PARTS),
    ("lab/src/iometer/config.rs", "values", 107, OPTIONS),
    ("lab/src/jetstress/load.rs", "run", 75, STEPS),
    ("lab/src/jetstress/rows.rs", "add", 91, PARTS),
    ("lab/src/workload/fio/case.rs", "pattern", 91, OPTIONS),
    ("lab/src/workload/fio/mod.rs", "read", 81, FIELDS),
    ("lab/src/workload/fio/settings.rs", "take", 88, OPTIONS),
    ("lab/src/workload/mod.rs", "read_toml", 74, FIELDS),
    ("mount/src/options.rs", "take_one", 80, OPTIONS),
    ("ntfs/src/check/boot.rs", "find", 82, FINDINGS),
    ("ntfs/src/check/build.rs", "index", 71, FINDINGS),
    ("ntfs/src/check/directory.rs", "walk", 88, FINDINGS),
    ("ntfs/src/check/long_list.rs", "part_with_streams", 72, FINDINGS),
    ("ntfs/src/check/system.rs", "remake", 73, FINDINGS),
    ("ntfs/src/core/spread.rs", "spread", 76, STEPS),
    ("ntfs/src/file.rs", "from_pieces", 79, FIELDS),
    ("ntfs/src/format/records.rs", "systems", 88, PARTS),
    ("ntfs/src/index/mod.rs", "index_scan_past_damage", 89, STEPS),
    ("ntfs/src/open.rs", "open", 89, STEPS),
    ("ntfs/src/volume/create.rs", "add_entry", 75, STEPS),
    ("ntfs/src/volume/rename.rs", "move_entry", 82, STEPS),
    ("platter/src/nbd/mod.rs", "negotiate", 71, STEPS),
    ("platter/src/recover/mod.rs", "copy", 77, STEPS),
    ("platter/src/recover/mod.rs", "try_put", 72, STEPS),
    ("refs/src/check/anchors.rs", "checkpoints", 81, FINDINGS),
    ("refs/src/check/copies.rs", "merge", 71, FINDINGS),
    ("refs/src/check/objects.rs", "read_own", 81, FINDINGS),
    ("refs/src/check/page.rs", "page", 81, FINDINGS),
    ("refs/src/check/page.rs", "verify", 82, FINDINGS),
    ("refs/src/check/runs.rs", "run", 81, FINDINGS),
    ("refs/src/check/tree.rs", "next", 72, FINDINGS),
    ("refs/src/core/commit.rs", "store_entity", 81, STEPS),
    ("refs/src/format.rs", "plan", 84, PARTS),
    ("refs/src/layout/checkpoint.rs", "from_bytes", 73, FIELDS),
    ("refs/src/open.rs", "core_at", 88, STEPS),
    ("refs/src/scrub/data.rs", "record", 95, FINDINGS),
    ("refs/src/scrub/metadata.rs", "all", 93, FINDINGS),
    ("refs/src/volume/names.rs", "create_entry", 79, STEPS),
    ("testing/src/memory.rs", "rename", 72, STEPS),
    ("testing/src/model/operation.rs", "operation", 94, KINDS),
    ("testing/src/model/runner.rs", "step", 132, KINDS),
    ("testing/src/simulation/caller.rs", "step", 85, KINDS),
];

fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("a directory of sources").flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The public traits of a source text with the number of their methods.
fn traits(text: &str) -> Vec<(String, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let opens = |line: &str| line.starts_with("pub trait ") || line.starts_with("pub(crate) trait ");
    let methods = |at: usize| {
        let inside = lines[at + 1..].iter().take_while(|line| **line != "}");
        inside.filter(|line| line.starts_with("    fn ")).count()
    };
    let found = lines.iter().enumerate().filter(|(_, line)| opens(line));
    found.map(|(at, line)| ((*line).to_owned(), methods(at))).collect()
}

#[test]
fn no_trait_has_more_methods_than_fit_in_a_mind() {
    let mut files = Vec::new();
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for entry in fs::read_dir(crates).expect("crates").flatten() {
        sources(&entry.path().join("src"), &mut files);
    }
    let (mut seen, mut wide) = (0, Vec::new());
    for path in files {
        for (declaration, methods) in traits(&fs::read_to_string(&path).expect("a source")) {
            seen += 1;
            if methods > WIDEST {
                wide.push(format!("{}: {declaration} {methods} methods", path.display()));
            }
        }
    }
    assert!(seen > 20, "only {seen} traits were seen");
    assert!(wide.is_empty(), "{wide:#?}");
}

/// The functions of a source text with their lines, as rustfmt puts them: a function ends at the first brace that stands
/// as far to the left as it does.
fn functions(text: &str) -> Vec<(String, usize)> {
    let shipped = text.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or(text);
    let lines: Vec<&str> = shipped.lines().collect();
    let name = |line: &str| {
        let rest = line.trim_start();
        let rest = match rest.strip_prefix("pub(") {
            Some(rest) => rest.split_once(") ")?.1,
            None => rest.strip_prefix("pub ").unwrap_or(rest),
        };
        let rest =
            ["const ", "unsafe "].iter().fold(rest, |rest, word| rest.strip_prefix(word).unwrap_or(rest));
        let rest = rest.strip_prefix("fn ")?;
        Some(rest[..rest.find(['(', '<'])?].to_owned())
    };
    let length = |at: usize| {
        let indent = lines[at].len() - lines[at].trim_start().len();
        let ends = |line: &str| line.len() == indent + 1 && line.ends_with('}');
        let has_body = |line: &str| !line.ends_with(';') && !line.ends_with('}');
        let after =
            lines[at..].iter().take_while(|line| has_body(line) || line.starts_with(&" ".repeat(indent + 1)));
        let inside = after.take_while(|line| !ends(line)).count();
        inside + 1
    };
    let found = lines.iter().enumerate().filter_map(|(at, line)| Some((name(line)?, length(at))));
    found.collect()
}

/// Whether a file below `src` is for tests only.
fn is_test(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str() == "tests" || part.as_os_str() == "tests.rs")
}

#[test]
fn no_function_is_longer_than_can_be_seen_at_once() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().expect("crates");
    let mut files = Vec::new();
    for entry in fs::read_dir(&crates).expect("crates").flatten() {
        sources(&entry.path().join("src"), &mut files);
    }
    files.retain(|path| {
        !is_test(path.strip_prefix(&crates).expect("below crates").strip_prefix("testing").unwrap_or(path))
    });
    let mut long = BTreeMap::new();
    let mut seen = 0;
    for path in files {
        let place =
            path.strip_prefix(&crates).expect("below crates").display().to_string().replace('\\', "/");
        for (name, lines) in functions(&fs::read_to_string(&path).expect("a source")) {
            seen += 1;
            if lines > LONGEST {
                long.insert(format!("{place} {name}"), lines);
            }
        }
    }
    assert!(seen > 5000, "only {seen} functions were seen");
    let mut wrong = Vec::new();
    for (place, name, most, _) in STILL_LONGER {
        match long.remove(&format!("{place} {name}")) {
            None => wrong.push(format!("{place} {name} is short enough now: take it from the list")),
            Some(lines) if lines != *most => {
                wrong.push(format!(
                    "{place} {name} has {lines} lines, and {most} in the list, which may only shrink"
                ));
            }
            Some(_) => {}
        }
    }
    wrong.extend(
        long.iter().map(|(name, lines)| format!("{name} has {lines} lines, at most {LONGEST} are wanted")),
    );
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn lines_of_functions_are_counted() {
    let text = "fn a() {\n    b\n}\n\n    pub(crate) const fn c<T>(\n        d: T,\n    ) -> T {\n        d\n    }\nfn e();\nfn f() {}\n";
    assert_eq!(functions(text), [("a".into(), 3), ("c".into(), 5), ("e".into(), 1), ("f".into(), 1)]);
}

#[test]
fn methods_are_counted() {
    let text = "pub trait One: Two {\n    fn a(&self);\n\n    fn b(\n        &self,\n    ) {\n        c(|| fn_d());\n    }\n}\n\nfn e() {}\n";
    assert_eq!(traits(text), [("pub trait One: Two {".to_owned(), 2)]);
}

//! Checks that every claim of README.md is tested by existing tests: the list is `docs/claims.md`.

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("this crate's")
}

fn read(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The words of a text with one space between them, so that line breaks do not matter.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Sections of README.md that make no claims.
const WITHOUT_CLAIMS: [&str; 2] = ["Reading on", "Licence"];

#[test]
fn each_claim_is_in_the_readme_and_each_test_of_it_is_there() {
    let (readme, list) = (read("README.md"), read("docs/claims.md"));
    let whole = words(&readme);
    let mut claims = Vec::new();
    for row in list.lines().filter(|line| line.starts_with('|')).skip(2) {
        let (claim, tests) = row.trim_matches(['|', ' ']).rsplit_once(" | ").expect("a claim and its tests");
        assert!(whole.contains(&words(claim)), "README.md no longer says: {claim}");
        claims.push(words(claim));
        for test in tests.trim_matches('`').split("` `") {
            is_there(test);
        }
    }
    for section in readme.split("\n## ").skip(1) {
        let title = section.lines().next().expect("a title");
        let section = words(section);
        let is_held = claims.iter().any(|claim| section.contains(claim));
        assert!(
            is_held || WITHOUT_CLAIMS.contains(&title),
            "{title}: docs/claims.md has nothing of this section"
        );
    }
}

/// Asserts that a test exists: one that is named by file and function, or a task of `xtask`.
fn is_there(test: &str) {
    if let Some(task) = test.strip_prefix("cargo xtask ") {
        let help = read("xtask/src/main.rs");
        assert!(help.contains(&format!("cargo xtask {task} ")), "{test} is no task");
        return;
    }
    let (file, name) = test.split_once("::").unwrap_or_else(|| panic!("{test}: FILE::TEST"));
    let source = read(file);
    let declared = ["fn ", "def "].iter().any(|word| source.contains(&format!("{word}{name}(")));
    assert!(declared, "{file} has no test {name}");
}

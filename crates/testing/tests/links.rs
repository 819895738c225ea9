//! Checks the documents, which form a book: the table of contents must name each of them, each link must have a target,
//! and each first page must say where it answers the ten questions of its reader, on two screens.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("this crate's")
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn documents() -> BTreeSet<PathBuf> {
    let markdown = |folder: PathBuf| {
        let entries =
            fs::read_dir(folder).expect("a directory of ours").map(|entry| entry.expect("one").path());
        entries.filter(|path| path.extension().is_some_and(|extension| extension == "md"))
    };
    markdown(root()).chain(markdown(root().join("docs"))).collect()
}

/// The lines of a document outside of code blocks.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut is_code = false;
    text.lines().filter(move |line| {
        let is_fence = line.starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    })
}

/// The targets of the links of a document: `](TARGET)`.
fn links(text: &str) -> Vec<String> {
    let after = |line: &str| -> Vec<String> {
        let targets = line.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
        targets.map(|(target, _)| target.to_owned()).collect()
    };
    prose(text).flat_map(after).collect()
}

/// The anchors of the headings of a document: lower-case letters, digits and `-` in place of spaces.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = prose(text).filter(|line| line.starts_with('#'));
    let anchor = |line: &str| -> String {
        let kept = line.trim_start_matches('#').trim().to_lowercase();
        let kept = kept.chars().filter(|&sign| sign.is_alphanumeric() || [' ', '-', '_'].contains(&sign));
        kept.map(|sign| if sign == ' ' { '-' } else { sign }).collect()
    };
    headings.map(anchor).collect()
}

#[test]
fn each_link_leads_somewhere() {
    let mut count = 0;
    for document in documents() {
        let text = read(&document);
        for link in links(&text) {
            if link.contains("://") {
                continue;
            }
            let (file, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let there = document.parent().expect("it is in a directory").join(file);
            let there = if file.is_empty() { document.clone() } else { there };
            assert!(there.exists(), "{}: there is no {link}", document.display());
            let is_there = anchor.is_empty() || anchors(&read(&there)).contains(anchor);
            assert!(is_there, "{}: {file} has no heading {anchor:?}", document.display());
            count += 1;
        }
    }
    assert!(count > 60, "{count} links");
}

#[test]
fn the_contents_name_each_document_once() {
    let contents = root().join("docs/SUMMARY.md");
    let linked = links(&read(&contents));
    let there =
        |link: &String| root().join("docs").join(link).canonicalize().expect("the other test says which");
    let named: BTreeSet<PathBuf> = linked.iter().map(there).collect();
    assert_eq!(named.len(), linked.len(), "a document is named twice");
    let mut all = documents();
    all.remove(&contents);
    assert_eq!(named, all);
}

/// The most lines outside of commands that a page for a reader who has just come may have: two screens.
const TWO_SCREENS: usize = 90;

#[test]
fn each_first_page_answers_ten_questions_on_two_screens() {
    let is_first = |path: &PathBuf| {
        let name = path.file_name().expect("a file has a name").to_string_lossy().into_owned();
        name.starts_with("for-") || name == "install.md"
    };
    let pages: Vec<PathBuf> = documents().into_iter().filter(is_first).collect();
    assert_eq!(pages.len(), 6, "{pages:?}");
    for page in pages {
        let text = read(&page);
        let (before, rest) = text.split_once("<!--").expect("questions");
        let (questions, after) = rest.split_once("-->").expect("their end");
        for number in 1..=10 {
            assert!(questions.contains(&format!("{number}. ")), "{}: no question {number}", page.display());
        }
        let headings: BTreeSet<&str> =
            prose(after).filter_map(|line| line.strip_prefix("## ").map(str::trim)).collect();
        // Each answer names its heading in quotes at the end of its line.
        for line in questions.lines().filter_map(|line| line.trim_end().strip_suffix("\".")) {
            let heading = line.rsplit_once(" \"").map_or("", |(_, heading)| heading);
            assert!(headings.contains(heading), "{}: {line}: there is no {heading:?}", page.display());
        }
        let lines = prose(before).chain(prose(after)).count();
        assert!(lines <= TWO_SCREENS, "{}: {lines} lines", page.display());
    }
}

//! Checks that the words of ARCHITECTURE.md have one meaning each: a type with such a name may be declared only in the
//! listed files.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("this crate's")
}

/// The files in which types of each listed name may be declared, as paths below `crates`.
fn list() -> BTreeMap<String, BTreeSet<String>> {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md");
    let table = text.split("<!-- words -->").nth(1).expect("a list of words in ARCHITECTURE.md");
    let rows = table.lines().filter(|line| line.starts_with('|')).skip(2);
    rows.map(|row| {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [name, meaning, places] = cells[..] else { panic!("{row}: a name, a meaning and places") };
        assert!(!meaning.is_empty(), "{row}: no meaning");
        let places = places.split(' ').map(|place| place.trim_matches(['`', ',']).to_owned());
        (name.trim_matches('`').to_owned(), places.filter(|place| place != "-").collect())
    })
    .collect()
}

/// The types that a file declares outside of functions, traits and tests; declarations inside of those are indented.
fn declared(text: &str) -> Vec<&str> {
    let shipped = text.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or(text);
    let name = |line: &'_ str| -> Option<(usize, usize)> {
        let rest = line.strip_prefix("pub").map_or(line, |rest| match rest.strip_prefix('(') {
            Some(rest) => rest.split_once(')').map_or(rest, |(_, rest)| rest),
            None => rest,
        });
        let rest = if rest.len() < line.len() { rest.strip_prefix(' ')? } else { rest };
        let rest = ["struct ", "enum ", "trait ", "type "].iter().find_map(|kind| rest.strip_prefix(kind))?;
        let length = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        let start = line.len() - rest.len();
        Some((start, start + length))
    };
    shipped.lines().filter_map(|line| name(line).map(|(start, end)| &line[start..end])).collect()
}

fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("a directory of sources") {
        let path = entry.expect("a directory of sources").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn a_word_of_the_list_is_declared_where_it_has_its_meaning() {
    let crates = root().join("crates");
    let mut files = Vec::new();
    for one in fs::read_dir(&crates).expect("crates") {
        sources(&one.expect("crates").path().join("src"), &mut files);
    }
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for path in files {
        let text = fs::read_to_string(&path).expect("a source");
        let place = path.strip_prefix(&crates).expect("below crates").display().to_string();
        for name in declared(&text) {
            found.entry(name.to_owned()).or_default().insert(place.clone());
        }
    }
    let list = list();
    assert!(list.len() > 20, "the list has only {} words", list.len());
    let mut wrong = Vec::new();
    for (name, places) in &list {
        let there = found.get(name).cloned().unwrap_or_default();
        wrong.extend(there.difference(places).map(|place| format!("{name} has another meaning in {place}")));
        wrong.extend(places.difference(&there).map(|place| format!("{name} is not declared in {place}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Who asks a question of the list finds the file, and in it the name to begin at.
#[test]
fn questions_of_the_list_have_their_answers() {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md");
    let table = text.split("<!-- questions -->").nth(1).expect("a list of questions in ARCHITECTURE.md");
    let rows: Vec<&str> = table.lines().filter(|line| line.starts_with('|')).skip(2).collect();
    assert!(rows.len() >= 10, "only {} questions", rows.len());
    for row in rows {
        let cells: Vec<&str> =
            row.trim_matches('|').split('|').map(|cell| cell.trim().trim_matches('`')).collect();
        let [question, file, name] = cells[..] else { panic!("{row}: a question, a file and a name") };
        assert!(question.ends_with('?'), "{row}");
        let text = fs::read_to_string(root().join("crates").join(file));
        let text = text.unwrap_or_else(|error| panic!("{question} {file}: {error}"));
        let is_name = |word: &str| !word.starts_with(|next: char| next.is_alphanumeric() || next == '_');
        let has = text.match_indices(name).any(|(at, _)| is_name(&text[at + name.len()..]));
        assert!(has, "{question} {file} has no {name}");
    }
}

#[test]
fn declarations_are_seen() {
    let text = "pub struct One(u8);\n    type Inner = u8;\npub(crate) enum Two {\n}\ntrait Three<T> {}\n#[cfg(test)]\nmod tests {}\nstruct Four;\n";
    assert_eq!(declared(text), ["One", "Two", "Three"]);
}

//! The calls between the files of one module, read from the source text: methods of the types that the files
//! implement, and functions that they share.

use crate::source::{closing, words};
use std::collections::{BTreeMap, BTreeSet};

/// The files of one module by name, with their text reduced to code. The module's own file has the name `mod`.
pub(crate) struct Room {
    files: BTreeMap<String, String>,
}

/// A method by its type and name, or a function by its name.
type Callee = (Option<String>, String);

/// A call of a file, as far as the text tells what is called.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Call {
    /// A method of this type, or an associated function.
    Of(String, String),
    /// A function by its bare name.
    Bare(String),
}

/// One of the ways in which a file needs another.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Need {
    /// The file that needs the other.
    pub from: String,
    /// The file that is needed.
    pub to: String,
    /// The name of what is called or imported.
    pub what: String,
}

impl Room {
    /// A room with these files.
    pub(crate) fn new(files: BTreeMap<String, String>) -> Room {
        Room { files }
    }

    /// The names of the files.
    pub(crate) fn names(&self) -> BTreeSet<&String> {
        self.files.keys().collect()
    }

    /// All calls and imports from one file to another.
    pub(crate) fn needs(&self) -> BTreeSet<Need> {
        // Methods of traits are reached by their names too, unless the type has one of its own.
        let (mut own, mut given): (BTreeMap<Callee, &String>, BTreeMap<Callee, &String>) = Default::default();
        let mut functions: BTreeMap<String, BTreeSet<&String>> = BTreeMap::new();
        for (file, text) in &self.files {
            for block in blocks(text) {
                let methods = if block.is_of_trait { &mut given } else { &mut own };
                for name in defined(block.text, 4) {
                    methods.insert((Some(block.of.clone()), name), file);
                }
            }
            for name in defined(text, 0) {
                functions.entry(name).or_default().insert(file);
            }
        }
        let types: BTreeSet<&String> =
            own.keys().chain(given.keys()).filter_map(|(of, _)| of.as_ref()).collect();
        let mut needs = BTreeSet::new();
        for (file, text) in &self.files {
            let mut add = |to: &String, what: &str| {
                if to != file {
                    needs.insert(Need { from: file.clone(), to: to.clone(), what: what.into() });
                }
            };
            let here = blocks(text);
            let around = |at: usize| here.iter().find(|block| block.holds(at)).map(|block| &block.of);
            for call in calls(text, &types, around) {
                match call {
                    Call::Of(of, name) => {
                        let callee = (Some(of), name);
                        if let Some(to) = own.get(&callee).or_else(|| given.get(&callee)) {
                            add(to, &callee.1);
                        }
                    }
                    Call::Bare(name) => {
                        let there = functions.get(&name).into_iter().flatten();
                        if text.contains("super::*")
                            && !functions.get(&name).is_some_and(|all| all.contains(file))
                        {
                            there.for_each(|to| add(to, &name));
                        }
                    }
                }
            }
            for (to, what) in self.imports(file, text) {
                add(&to, &what);
            }
        }
        needs
    }

    /// The files that a file's paths lead to, each with what is used of it. Of what the module itself re-exports nothing
    /// counts.
    fn imports(&self, file: &str, text: &str) -> Vec<(String, String)> {
        let is_root = file == "mod";
        let mut found = Vec::new();
        for to in self.files.keys().filter(|name| *name != "mod") {
            let path = if is_root { format!("{to}::") } else { format!("super::{to}::") };
            for (at, _) in text.match_indices(&path) {
                let before = text[..at].trim_end_matches("self::").chars().next_back();
                let line = text[..at].rfind(';').map_or(0, |end| end + 1);
                let is_export = text[line..at].trim_start().starts_with("pub");
                if before.is_some_and(|before| before.is_alphanumeric() || "_:.".contains(before))
                    || is_export
                {
                    continue;
                }
                let what = words(&text[at + path.len()..]).next().unwrap_or_default();
                found.push((to.clone(), what.into()));
            }
        }
        found
    }
}

/// An `impl` block or a trait with methods.
struct Block<'t> {
    /// The type, or the trait.
    of: String,
    is_of_trait: bool,
    start: usize,
    text: &'t str,
}

impl Block<'_> {
    fn holds(&self, at: usize) -> bool {
        (self.start..self.start + self.text.len()).contains(&at)
    }
}

/// The blocks of a file; each begins at the start of a line.
fn blocks(text: &str) -> Vec<Block<'_>> {
    let mut found = Vec::new();
    let starts =
        text.match_indices("impl").map(|(at, _)| at).filter(|&at| at == 0 || text[..at].ends_with('\n'));
    for start in starts {
        let Some(brace) = text[start..].find('{') else { continue };
        let header = without_parameters(&text[start + 4..start + brace]);
        let is_of_trait = header.contains(" for ");
        let of = header.rsplit(" for ").next().unwrap_or_default();
        let Some(of) = words(of).next() else { continue };
        let end = closing(text, start + brace);
        found.push(Block { of: of.into(), is_of_trait, start, text: &text[start..end] });
    }
    found
}

/// Leaves out what stands between angle brackets.
fn without_parameters(text: &str) -> String {
    let mut depth = 0;
    let mut rest = String::new();
    for letter in text.chars() {
        match letter {
            '<' => depth += 1,
            '>' => depth -= 1,
            _ if depth == 0 => rest.push(letter),
            _ => {}
        }
    }
    rest
}

/// The names of the functions that are defined at this indentation.
fn defined(text: &str, indent: usize) -> Vec<String> {
    let mut found = Vec::new();
    for line in text.lines() {
        let rest = line.trim_start_matches(' ');
        if line.len() - rest.len() != indent {
            continue;
        }
        let mut words =
            words(rest).skip_while(|word| ["pub", "super", "crate", "in", "const", "unsafe"].contains(word));
        if words.next() == Some("fn") {
            found.extend(words.next().map(String::from));
        }
    }
    found
}

/// The calls of a text; `around` says of which type the block around a place is.
fn calls<'b>(
    text: &str,
    types: &BTreeSet<&String>,
    around: impl Fn(usize) -> Option<&'b String>,
) -> BTreeSet<Call> {
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
    let mut found = BTreeSet::new();
    let mut at = 0;
    while let Some(start) = text[at..].find(is_part).map(|start| at + start) {
        let end = text[start..].find(|letter| !is_part(letter)).map_or(text.len(), |end| start + end);
        at = end;
        let name = &text[start..end];
        let before = text[..start].trim_end();
        let after = text[end..].trim_start();
        let is_called = after.starts_with('(') || after.starts_with("::<");
        let last_word =
            |text: &str| text.rsplit(|letter| !is_part(letter)).next().unwrap_or_default().to_owned();
        if let Some(owner) = before.strip_suffix("::") {
            // An associated function, called or handed on.
            let owner = last_word(owner);
            let of = if owner == "Self" { around(start).cloned() } else { Some(owner) };
            found.extend(of.filter(|of| types.contains(of)).map(|of| Call::Of(of, name.into())));
        } else if let Some(owner) = before.strip_suffix('.') {
            let owner = last_word(owner.trim_end());
            if !is_called || owner.is_empty() {
                continue;
            }
            if owner == "self" {
                found.extend(around(start).map(|of| Call::Of(of.clone(), name.into())));
            } else {
                // What is named like a type is one: `core` a `Core`, `volume` an `NtfsVolume`.
                let named = types.iter().filter(|of| of.to_lowercase().ends_with(&owner));
                found.extend(named.map(|of| Call::Of((*of).clone(), name.into())));
            }
        } else if is_called && !before.ends_with("fn") {
            found.insert(Call::Bare(name.into()));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn needs(files: &[(&str, &str)]) -> Vec<String> {
        let files = files.iter().map(|(name, text)| ((*name).into(), (*text).into())).collect();
        Room::new(files)
            .needs()
            .into_iter()
            .map(|need| format!("{}>{}:{}", need.from, need.to, need.what))
            .collect()
    }

    #[test]
    fn calls_of_methods_are_followed() {
        let found = needs(&[
            (
                "mod",
                "mod a;\nmod b;\npub use a::seen;\npub struct Core;\nimpl Core {\n    fn lock(&self) {\n        a::given();\n    }\n}\n",
            ),
            (
                "a",
                "use super::*;\nimpl<F: Family> Core<F> {\n    pub(super) fn one(&self) {\n        self\n            .two();\n        self.lock();\n    }\n}\npub fn seen() {\n    free();\n}\npub fn given() {}\n",
            ),
            (
                "b",
                "use super::a::seen;\nimpl Core {\n    fn two(&self) {\n        let core = self;\n        core.one();\n        f(Core::lock);\n    }\n}\npub(super) fn free() {}\n",
            ),
            (
                "c",
                "impl Reader for Core {\n    fn read(&self) {\n        self.two::<u8>();\n    }\n}\nimpl Other {\n    fn one(&self) {\n        self.two();\n        Self::three();\n        other.one.two;\n    }\n}\n",
            ),
        ]);
        assert_eq!(
            found,
            [
                "a>b:free",
                "a>b:two",
                "a>mod:lock",
                "b>a:one",
                "b>a:seen",
                "b>mod:lock",
                "c>b:two",
                "mod>a:given"
            ]
        );
    }
}

//! The modules of a crate and their imports, read from the source text.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// A module as its path from the root of the crate.
pub(crate) type Module = Vec<String>;

/// The modules of a crate with their source text, reduced to code that is not for tests only.
pub(crate) struct Crate {
    modules: BTreeMap<Module, String>,
}

impl Crate {
    /// Reads the sources in a directory.
    pub(crate) fn read(source: &Path) -> Crate {
        let mut modules = BTreeMap::new();
        for root in ["lib.rs", "main.rs"] {
            if let Ok(text) = fs::read_to_string(source.join(root)) {
                let text = code(&text);
                modules.entry(Vec::new()).and_modify(|all: &mut String| all.push_str(&text)).or_insert(text);
            }
        }
        read_below(source, &Vec::new(), &mut modules);
        // Modules that are declared only for tests, and all below them, are left out.
        let is_declared = |module: &Module| {
            let Some((name, above)) = module.split_last() else { return true };
            let declaration = format!("mod {name};");
            modules.get(above).is_some_and(|text| text.contains(&declaration))
        };
        let hidden: Vec<Module> = modules.keys().filter(|module| !is_declared(module)).cloned().collect();
        modules.retain(|module, _| !hidden.iter().any(|hidden| module.starts_with(hidden)));
        Crate { modules }
    }

    /// Returns pairs of a module and a module that it uses, where neither is inside the other.
    pub(crate) fn uses(&self) -> BTreeSet<(Module, Module)> {
        let mut uses = BTreeSet::new();
        for (module, text) in &self.modules {
            let mut add = |to: Module| {
                if !to.starts_with(module) && !module.starts_with(&to) {
                    uses.insert((module.clone(), to));
                }
            };
            for path in paths(text, module) {
                if path.last().is_some_and(|last| last == "*") {
                    self.uses_of_all(&path[..path.len() - 1], text).into_iter().for_each(&mut add);
                } else {
                    add(self.home(&path, 0));
                }
            }
        }
        uses
    }

    /// The names of the modules directly inside a module.
    pub(crate) fn inside(&self, module: &[String]) -> BTreeSet<String> {
        let inside =
            self.modules.keys().filter(|one| one.len() == module.len() + 1 && one.starts_with(module));
        inside.filter_map(|one| one.last().cloned()).collect()
    }

    /// The files of a module: its own under the name `mod`, and those of the modules directly inside it, with their
    /// text.
    pub(crate) fn files(&self, module: &[String]) -> BTreeMap<String, String> {
        let own = self.modules.get(module).map(|text| ("mod".into(), text.clone()));
        let inside = self.inside(module).into_iter().map(|name| {
            let path: Module = module.iter().chain([&name]).cloned().collect();
            let text = self.modules[&path].clone();
            (name, text)
        });
        own.into_iter().chain(inside).collect()
    }

    /// All modules with their text.
    pub(crate) fn texts(&self) -> impl Iterator<Item = (&Module, &str)> {
        self.modules.iter().map(|(module, text)| (module, text.as_str()))
    }

    /// The modules that import all of the module above them.
    pub(crate) fn globs(&self) -> Vec<&Module> {
        self.modules
            .iter()
            .filter(|(_, text)| text.contains("use super::*"))
            .map(|(module, _)| module)
            .collect()
    }

    /// All modules that contain others.
    pub(crate) fn houses(&self) -> BTreeSet<Module> {
        self.modules.keys().filter(|one| !one.is_empty()).map(|one| one[..one.len() - 1].to_vec()).collect()
    }

    /// The module that defines the item at a path.
    fn home(&self, path: &[String], depth: usize) -> Module {
        let known = (0..=path.len()).rev().find(|&length| self.modules.contains_key(&path[..length]));
        let known = path[..known.unwrap_or(0)].to_vec();
        let Some(name) = path.get(known.len()).filter(|_| depth < 8) else { return known };
        // The item may be re-exported there and defined elsewhere.
        for other in paths(&self.modules[&known], &known) {
            if other.last() == Some(name) && other != path {
                return self.home(&other, depth + 1);
            }
        }
        known
    }

    /// The defining modules of all names that a module imports or re-exports and that occur in a text, for a glob
    /// import.
    fn uses_of_all(&self, path: &[String], text: &str) -> Vec<Module> {
        let Some(names) = self.modules.get(path) else { return vec![self.home(path, 0)] };
        let brought = paths(names, path);
        let words: BTreeSet<&str> = words(text).collect();
        let used = brought.iter().filter(|one| one.last().is_some_and(|last| words.contains(last.as_str())));
        let used: Vec<Module> = used.map(|one| self.home(one, 0)).collect();
        used.into_iter().chain([path.to_vec()]).collect()
    }
}

fn read_below(directory: &Path, above: &Module, modules: &mut BTreeMap<Module, String>) {
    for entry in fs::read_dir(directory).into_iter().flatten() {
        let path = entry.expect("a directory").path();
        let Some(name) = path.file_stem().map(|name| name.to_string_lossy().into_owned()) else { continue };
        let module: Module = above.iter().cloned().chain([name.clone()]).collect();
        if path.is_dir() {
            if let Ok(text) = fs::read_to_string(path.join("mod.rs")) {
                modules.insert(module.clone(), code(&text));
            }
            read_below(&path, &module, modules);
        } else if path.extension().is_some_and(|kind| kind == "rs")
            && !["lib", "main", "mod"].contains(&&*name)
        {
            modules.insert(module, code(&fs::read_to_string(&path).expect("text")));
        }
    }
}

/// The identifiers and keywords of a text.
pub(crate) fn words(text: &str) -> impl DoubleEndedIterator<Item = &str> {
    text.split(|letter: char| !letter.is_alphanumeric() && letter != '_').filter(|word| !word.is_empty())
}

/// All paths into the crate in a module's text, from the root of the crate.
fn paths(text: &str, module: &[String]) -> Vec<Module> {
    let mut all = Vec::new();
    for word in ["crate::", "super::", "self::", "use "] {
        for (at, _) in text.match_indices(word) {
            let before = text[..at].chars().next_back();
            // Part of a longer word, or of a path that is found at its beginning.
            if before.is_some_and(|before| before.is_alphanumeric() || "_:$".contains(before)) {
                continue;
            }
            let inside = inline(text, at);
            let here: Module = module.iter().cloned().chain(inside).collect();
            let start = if word == "use " { at + word.len() } else { at };
            let mut tree = Vec::new();
            expand(&text[start..], &mut Vec::new(), &mut tree);
            all.extend(tree.into_iter().filter_map(|path| absolute(path, &here, word == "use ")));
        }
    }
    all
}

/// The names of the inline modules around a position in a text.
fn inline(text: &str, place: usize) -> Vec<String> {
    let mut names = Vec::new();
    for (at, _) in text[..place].match_indices("mod ") {
        let rest = &text[at + 4..];
        let Some(brace) = rest.find(['{', ';']).filter(|&end| rest.as_bytes()[end] == b'{') else { continue };
        if at + 4 + closing(rest, brace) > place {
            names.push(rest[..brace].trim().to_string());
        }
    }
    names
}

/// The position of the brace that closes the one at `brace`.
pub(crate) fn closing(text: &str, brace: usize) -> usize {
    let mut depth = 0;
    for (at, letter) in text.char_indices().skip_while(|(at, _)| *at < brace) {
        match letter {
            '{' => depth += 1,
            '}' if depth == 1 => return at,
            '}' => depth -= 1,
            _ => {}
        }
    }
    text.len()
}

/// Collects all paths of a tree such as `a::{b, c::d}`; returns the text after the tree.
fn expand<'t>(text: &'t str, before: &mut Vec<String>, all: &mut Vec<Vec<String>>) -> &'t str {
    let text = text.trim_start();
    if let Some(mut rest) = text.strip_prefix('{') {
        loop {
            rest = expand(rest, &mut before.clone(), all).trim_start();
            match rest.strip_prefix(',') {
                Some(more) if !more.trim_start().starts_with('}') => rest = more,
                Some(more) => return more.trim_start().strip_prefix('}').unwrap_or(more),
                None => return rest.strip_prefix('}').unwrap_or(rest),
            }
        }
    }
    let end = text.find(|letter: char| !letter.is_alphanumeric() && letter != '_').unwrap_or(text.len());
    let (word, rest) = if text.starts_with('*') { text.split_at(1) } else { text.split_at(end) };
    if word.is_empty() {
        return rest;
    }
    before.push(word.into());
    match rest.strip_prefix("::") {
        Some(more) if !more.starts_with('<') => expand(more, before, all),
        _ => {
            all.push(before.clone());
            // Skips a new name given with `as`.
            let renamed = rest.trim_start().strip_prefix("as ").map(str::trim_start);
            renamed.map_or(rest, |name| {
                name.trim_start_matches(|letter: char| letter.is_alphanumeric() || letter == '_')
            })
        }
    }
}

/// Makes a path absolute from the root of the crate; `None` if it leads out of the crate, or is found elsewhere.
fn absolute(path: Vec<String>, here: &[String], is_use: bool) -> Option<Module> {
    let mut base = here.to_vec();
    let mut names = path.into_iter().peekable();
    match names.peek().map(String::as_str) {
        Some("crate") => base.clear(),
        // Paths that begin with these words are found by the words themselves.
        Some("self" | "super") if is_use => return None,
        Some("self" | "super") => {}
        _ => return is_use.then(|| base.into_iter().chain(names).collect()),
    }
    if is_use {
        return None;
    }
    while let Some(name) = names.next_if(|name| ["crate", "self", "super"].contains(&name.as_str())) {
        if name == "super" {
            base.pop();
        }
    }
    let rest: Vec<String> = names.filter(|name| name != "self").collect();
    Some(base.into_iter().chain(rest).collect())
}

/// Removes comments, string literals and code for tests.
fn code(text: &str) -> String {
    let mut code = without_texts(text);
    while let Some(at) = code.find("#[cfg(test)]") {
        let rest = &code[at..];
        let brace = rest.find('{').unwrap_or(rest.len());
        let end = match rest.find(';') {
            Some(end) if end < brace => end,
            _ => closing(rest, brace).min(rest.len() - 1),
        };
        code.replace_range(at..=at + end, "");
    }
    code
}

fn without_texts(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let skipped = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if let Some(raw) = raw_text(rest) {
            raw
        } else if first == '"' {
            let mut escaped = false;
            let ends = |letter: char| {
                let end = letter == '"' && !escaped;
                escaped = letter == '\\' && !escaped;
                end
            };
            rest[1..].find(ends).map_or(rest.len(), |end| end + 2)
        } else if first == '\'' {
            // A character literal or a lifetime.
            let letters: Vec<char> = rest.chars().take(4).collect();
            match letters[..] {
                [_, '\\', ..] => rest[3..].find('\'').map_or(1, |end| end + 4),
                [_, letter, '\'', ..] => 2 + letter.len_utf8(),
                _ => 0,
            }
        } else {
            0
        };
        if skipped == 0 {
            code.push(first);
            rest = &rest[first.len_utf8()..];
        } else {
            code.push(' ');
            rest = &rest[skipped..];
        }
    }
    code
}

/// The length of the raw string literal at the beginning of a text, if there is one.
fn raw_text(text: &str) -> Option<usize> {
    let rest = text.strip_prefix('r')?;
    let marks = rest.len() - rest.trim_start_matches('#').len();
    let open = rest[marks..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(marks));
    Some(2 + marks + open.find(&end)? + end.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module(text: &str) -> Module {
        text.split("::").filter(|name| !name.is_empty()).map(String::from).collect()
    }

    #[test]
    fn what_is_used_is_found() {
        let texts = [
            ("", "mod a; mod b; mod c; pub use a::Thing; use b::{inner::Deep, Other};"),
            ("a", "use crate::{b::{self, Other}, c}; // crate::nothing\n fn f() { \"crate::c\"; }"),
            ("b", "pub mod inner; #[cfg(test)] mod tests { use crate::a::X; } fn g() -> crate::Thing {}"),
            ("b::inner", "use super::*; use super::super::c::Fine as Good;"),
            ("c", "mod d { use super::super::a::Y; }"),
        ];
        let modules = texts.map(|(name, text)| (module(name), code(text))).into_iter().collect();
        let uses = Crate { modules }.uses();
        let expected = [("a", "b"), ("a", "c"), ("b", "a"), ("b::inner", "c"), ("c", "a")];
        assert_eq!(uses, expected.map(|(one, other)| (module(one), module(other))).into_iter().collect());
    }
}

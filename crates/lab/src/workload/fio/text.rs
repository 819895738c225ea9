//! The text of a job file: its sections, and the keys that apply to each.
//!
//! Facts: fio's `HOWTO`, "Job file format" and "Environment variables"; and what fio 3.33 does (`fio --showcmd`): a `;`
//! or `#` begins a comment wherever it stands, and keys outside of a section are refused.

use std::fmt;
use std::path::{Path, PathBuf};

/// The place of a key or section in the text, for messages.
#[derive(Clone, Debug)]
pub(super) struct TextPlace {
    /// The name of the included file; `None` for the job file itself.
    file: Option<String>,
    line: usize,
}

impl fmt::Display for TextPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}", self.line)?;
        self.file.iter().try_for_each(|file| write!(f, " of {file}"))
    }
}

/// A key with its value; `None` for a key without `=`.
pub(super) struct Setting {
    pub key: String,
    pub value: Option<String>,
    pub place: TextPlace,
}

impl Setting {
    /// Returns the value with `${NAME}` replaced by the environment variable. fio replaces an unset variable by
    /// nothing, which would hardly be the job that was meant, so here that is an error.
    ///
    /// # Errors
    /// A sentence that names the unset variable.
    pub(super) fn expanded(&self) -> Result<Option<String>, String> {
        let Some(value) = &self.value else { return Ok(None) };
        let mut text = String::new();
        let mut rest = value.as_str();
        while let Some((before, after)) = rest.split_once("${") {
            let Some((name, after)) = after.split_once('}') else {
                return Err("expected } after ${".into());
            };
            let found = std::env::var(name).ok().filter(|found| !found.is_empty());
            let Some(found) = found else {
                return Err(format!("the environment has no variable {name:?}"));
            };
            text += before;
            text += &found;
            rest = after;
        }
        Ok(Some(text + rest))
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.key)?;
        self.value.iter().try_for_each(|value| write!(f, "={value}"))
    }
}

/// One job section.
pub(super) struct Section {
    pub name: String,
    pub place: TextPlace,
    entries: Vec<Setting>,
    /// How many of the file's global entries precede the section.
    above: usize,
}

/// A parsed job file.
#[derive(Default)]
pub(super) struct JobFile {
    global: Vec<Setting>,
    pub sections: Vec<Section>,
    entries: usize,
}

/// The limits on sections and keys of a file: far more than anyone writes.
const MOST_SECTIONS: usize = 1000;
const MOST_ENTRIES: usize = 100_000;
/// How deeply files may include each other.
const DEEPEST: usize = 16;

impl JobFile {
    /// Parses `text`. `folder` is the directory in which its `include` lines look for files; without one, `include` is
    /// refused.
    ///
    /// # Errors
    /// A sentence with the line.
    pub(super) fn read(text: &str, folder: Option<&Path>) -> Result<JobFile, String> {
        let mut file = JobFile::default();
        let mut current = Current::Nothing;
        // Some editors put a byte order mark before the text.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        file.lines(text, None, folder, &mut current, 0)?;
        match file.sections.is_empty() {
            true => Err("it has no job section".into()),
            false => Ok(file),
        }
    }

    /// The entries that apply to a section, in order: a later one overrides an earlier one with the same key. A `name`
    /// of all sections names none of them.
    pub(super) fn entries<'a>(&'a self, section: &'a Section) -> impl Iterator<Item = &'a Setting> {
        let global = self.global[..section.above].iter().filter(|entry| entry.key != "name");
        global.chain(&section.entries)
    }

    fn lines(
        &mut self,
        text: &str,
        file: Option<&str>,
        folder: Option<&Path>,
        current: &mut Current,
        depth: usize,
    ) -> Result<(), String> {
        for (line, number) in text.lines().zip(1..) {
            let place = TextPlace { file: file.map(str::to_owned), line: number };
            let line = line.split([';', '#']).next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            if let Some(section) = line.strip_prefix('[') {
                let Some(name) = section.strip_suffix(']') else {
                    return Err(format!("{place}: expected ] at the end of {line:?}"));
                };
                if depth > 0 {
                    return Err(format!("{place}: an included file may not begin a section"));
                }
                *current = self.section(name, place)?;
                continue;
            }
            let included = line.strip_prefix("include").filter(|rest| rest.starts_with([' ', '\t']));
            if let Some(path) = included {
                self.include(path.trim(), &place, folder, current, depth)?;
                continue;
            }
            let entry = entry(line, place);
            self.entries += 1;
            if self.entries > MOST_ENTRIES {
                return Err(format!("{}: more than {MOST_ENTRIES} keys", entry.place));
            }
            match current {
                Current::Nothing => return Err(format!("{entry}: expected a [section] before it")),
                Current::Global => self.global.push(entry),
                Current::Job => self.sections.last_mut().expect("one was begun").entries.push(entry),
            }
        }
        Ok(())
    }

    fn section(&mut self, name: &str, place: TextPlace) -> Result<Current, String> {
        // As in fio, the rest of the name does not matter.
        if name.starts_with("global") {
            return Ok(Current::Global);
        }
        if self.sections.len() == MOST_SECTIONS {
            return Err(format!("{place}: more than {MOST_SECTIONS} sections"));
        }
        let above = self.global.len();
        self.sections.push(Section { name: name.to_owned(), place, entries: Vec::new(), above });
        Ok(Current::Job)
    }

    fn include(
        &mut self,
        path: &str,
        place: &TextPlace,
        folder: Option<&Path>,
        current: &mut Current,
        depth: usize,
    ) -> Result<(), String> {
        let wrong = |reason: &dyn fmt::Display| format!("{place}: include {path}: {reason}");
        if depth == DEEPEST {
            return Err(wrong(&format_args!("more than {DEEPEST} files include each other")));
        }
        let Some(folder) = folder else {
            return Err(wrong(&"this text is in no folder"));
        };
        let path_of: PathBuf = folder.join(path);
        let text = crate::workload::read_text(&path_of).map_err(|error| wrong(&error))?;
        self.lines(&text, Some(path), path_of.parent(), current, depth + 1)
    }
}

/// The kind of section that the next key belongs to.
enum Current {
    Nothing,
    Global,
    Job,
}

fn entry(line: &str, place: TextPlace) -> Setting {
    let (key, value) = match line.split_once('=') {
        Some((key, value)) => (key.trim(), Some(value.trim().to_owned())),
        None => (line, None),
    };
    Setting { key: key.to_owned(), value, place }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Vec<String> {
        let file = JobFile::read(text, None).unwrap();
        let section = |section: &Section| {
            let entries: Vec<String> = file
                .entries(section)
                .map(|entry| format!("{}={}", entry.key, entry.value.as_deref().unwrap_or("(alone)")))
                .collect();
            format!("{}: {}", section.name, entries.join(" "))
        };
        file.sections.iter().map(section).collect()
    }

    fn refused(text: &str) -> String {
        JobFile::read(text, None).err().expect("it is refused")
    }

    #[test]
    fn a_global_section_holds_for_what_is_below_it() {
        let text = "[global]\na=1\n[one]\nb=2\n[global]\na=3\n[two]\nc\n";
        assert_eq!(shown(text), ["one: a=1 b=2", "two: a=1 a=3 c=(alone)"]);
        let text = "[global-fast]\na=1\n[one]\n[globals]\na=2\n[GLOBAL]\n";
        assert_eq!(shown(text), ["one: a=1", "GLOBAL: a=1 a=2"]);
        assert_eq!(
            shown("[global]\nname=foo\na=1\n[one]\n[two]\nname=bar\n"),
            ["one: a=1", "two: a=1 name=bar"]
        );
    }

    #[test]
    fn comments_marks_and_line_ends_do_no_harm() {
        let text = "\u{feff}; first\r\n[a]  # behind\r\nsize=32m   # the set\r\n  rw = read ; x\r\nbs=4k#y\r\n#c\r\n";
        assert_eq!(shown(text), ["a: size=32m rw=read bs=4k"]);
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        assert!(refused("size=1m\n[a]\n").starts_with("line 1: size=1m: expected a [section]"));
        assert!(refused("[a]\n[b\n").starts_with("line 2: expected ]"));
        assert!(refused("[global]\nbs=4k\n").contains("no job section"));
        assert!(refused("[a]\ninclude other\n").contains("line 2: include other"));
        assert!(refused(&"[a]\n".repeat(MOST_SECTIONS + 1)).contains("sections"));
        assert!(refused(&format!("[a]\n{}", "b\n".repeat(MOST_ENTRIES + 1))).contains("keys"));
    }

    #[test]
    fn a_variable_of_the_environment_is_put_in_its_place() {
        let expanded = |value: &str| {
            let place = TextPlace { file: None, line: 1 };
            Setting { key: "x".into(), value: Some(value.into()), place }.expanded()
        };
        let path = std::env::var("PATH").unwrap();
        assert_eq!(expanded("<${PATH}${PATH}>"), Ok(Some(format!("<{path}{path}>"))));
        assert_eq!(expanded("8*$ncpus"), Ok(Some("8*$ncpus".into())));
        assert!(expanded("${NO_SUCH_VARIABLE}m").unwrap_err().contains("NO_SUCH_VARIABLE"));
        assert!(expanded("${PATH").is_err() && expanded("${}").is_err() && expanded("${A=B}").is_err());
    }

    #[test]
    fn files_are_included_from_the_folder_of_who_includes_them() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("sub")).unwrap();
        std::fs::write(folder.path().join("sub/one"), "bs=8k\ninclude two\n").unwrap();
        std::fs::write(folder.path().join("sub/two"), "rw=write\n[x]\n").unwrap();
        std::fs::write(folder.path().join("loop"), "include loop\n").unwrap();
        let read = |text: &str| JobFile::read(text, Some(folder.path())).err().expect("it is refused");
        let error = read("[a]\ninclude sub/one\n");
        assert!(error.starts_with("line 2 of two: an included file"), "{error}");
        assert!(read("[a]\ninclude loop\n").contains("include each other"));
        assert!(read("[a]\ninclude none\n").contains("No such file"));
        std::fs::write(folder.path().join("sub/two"), "rw=write\n").unwrap();
        // An included file is read in the same way as the job file: without end it is refused, and it may begin with a
        // byte order mark and have comments in an old encoding.
        assert!(read("[a]\ninclude /dev/zero\n").contains("larger than 16777216 bytes"));
        std::fs::write(folder.path().join("sub/two"), b"\xef\xbb\xbfrw=write ; f\xfcr\n").unwrap();
        let file = JobFile::read("[a]\ninclude sub/one\nsize=1m\n", Some(folder.path())).unwrap();
        let keys: Vec<&str> = file.entries(&file.sections[0]).map(|entry| entry.key.as_str()).collect();
        assert_eq!(keys, ["bs", "rw", "size"]);
    }
}

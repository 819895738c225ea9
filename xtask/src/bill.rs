//! What is compiled into the programs that people install: a list of all crates, and their licences.

use crate::command::{cargo_program, said, text, write};
use crate::{Outcome, dist};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The beginnings of the names of files with a licence, in capitals.
const NAMES: [&str; 6] = ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE"];

/// A crate that is compiled into a program.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Compiled {
    name: String,
    version: String,
    licence: String,
    /// Whether it is of this workspace.
    is_ours: bool,
}

/// Writes the list of all crates that are compiled into the program for a target, with versions and licences (CycloneDX
/// 1.5), to `platter.cdx.json`.
pub(crate) fn list(out: &Path, epoch: &str, target: &str) -> Outcome {
    let created = said(Command::new("date").args(["-u", "-d", &format!("@{epoch}"), "+%Y-%m-%dT%H:%M:%SZ"]))?;
    let components: Vec<String> = compiled(target)?
        .iter()
        .map(|Compiled { name, version, licence, .. }| {
            format!(
                "    {{\"type\": \"library\", \"name\": \"{name}\", \"version\": \"{version}\", \"purl\": \
                 \"pkg:cargo/{name}@{version}\", \"licenses\": [{{\"expression\": \"{licence}\"}}]}}"
            )
        })
        .collect();
    let whole = format!(
        "{{\n  \"bomFormat\": \"CycloneDX\",\n  \"specVersion\": \"1.5\",\n  \"version\": 1,\n  \"metadata\": {{\"timestamp\": \
         \"{}\", \"component\": {{\"type\": \"application\", \"name\": \"platter\", \"version\": \"{VERSION}\"}}}},\n  \
         \"components\": [\n{}\n  ]\n}}\n",
        created.trim_end(),
        components.join(",\n")
    );
    write(&out.join("platter.cdx.json"), &whole)
}

/// Returns the licences of everything that is compiled into the program for a target, with their texts: each text once,
/// after the names of all that it is for.
pub(crate) fn licences(target: &str) -> Result<String, String> {
    written(compiled(target)?, target)
}

/// Returns the same for a wheel, which has the program for a target in it, and the module.
pub(crate) fn licences_of_wheel(target: &str) -> Result<String, String> {
    let module = ["--manifest-path", "bindings/python/Cargo.toml", "--target", "x86_64-unknown-linux-gnu"];
    written([compiled(target)?, listed(&module)?].concat(), target)
}

fn written(mut all: Vec<Compiled>, target: &str) -> Result<String, String> {
    all.sort_unstable();
    all.dedup();
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for one in all.into_iter().filter(|one| !one.is_ours) {
        let title = format!("{} {} ({})", one.name, one.version, one.licence);
        let found = texts_of(&sources(&one)?)?;
        for text in if found.is_empty() { vec![stand_in(&one)?] } else { found } {
            texts.entry(text).or_default().push(title.clone());
        }
    }
    // The standard library, and the C library of static programs.
    let own = [read(Path::new("LICENSE-MIT"))?, read(Path::new("LICENSE-APACHE"))?];
    let mut whole = "The licences of what is compiled into platter.\n\nThe standard library of Rust (MIT OR Apache-2.0) is copyright of the \
                     Rust project's contributors.\n"
        .to_owned();
    if target.ends_with("musl") {
        let musl = said(Command::new("sh").args(["-c", "cat /usr/share/doc/musl-dev/copyright"]))?;
        texts.entry(musl).or_default().push("musl, the C library (MIT)".into());
    }
    let rule = "=".repeat(80);
    for (text, titles) in &texts {
        let _ = write!(whole, "\n{rule}\n{}\n{rule}\n\n{}\n", titles.join("\n"), text.trim_end());
    }
    let _ = write!(whole, "\n{rule}\nPlatter (MIT OR Apache-2.0)\n{rule}\n\n{}\n", own.join("\n"));
    Ok(whole)
}

/// Returns all crates that are compiled into the program for a target, in the order of their names.
fn compiled(target: &str) -> Result<Vec<Compiled>, String> {
    listed(&[
        "--manifest-path",
        "crates/platter/Cargo.toml",
        "--features",
        dist::FEATURES,
        "--target",
        target,
    ])
}

/// Returns all crates of a build with these arguments.
fn listed(what: &[&str]) -> Result<Vec<Compiled>, String> {
    let how =
        ["tree", "--locked", "--edges", "normal", "--prefix", "none", "--no-dedupe", "--format", "{p}|{l}"];
    // It downloads what is only needed on another system.
    let tree = said(Command::new(cargo_program()).args([&how[..], what].concat()))?;
    let mut all: Vec<Compiled> = tree.lines().filter_map(of_line).collect();
    all.sort_unstable();
    all.dedup();
    Ok(all)
}

/// Reads a line such as `name v1.2.3|MIT/Apache-2.0`, or `name v1.2.3 (/where/it/is)|MIT` for a crate of this workspace.
fn of_line(line: &str) -> Option<Compiled> {
    let (package, licence) = line.split_once('|')?;
    let mut words = package.split(' ');
    let (name, version) = (words.next()?, words.next()?.strip_prefix('v')?);
    let is_ours = package.contains("(/");
    Some(Compiled {
        name: name.into(),
        version: version.into(),
        licence: licence.replace('/', " OR "),
        is_ours,
    })
}

/// Returns the directory with the sources of a crate from a registry.
fn sources(one: &Compiled) -> Result<PathBuf, String> {
    let registry = dist::cargo_home()?.join("registry/src");
    let name = format!("{}-{}", one.name, one.version);
    let places = std::fs::read_dir(&registry).map_err(|error| format!("{}: {error}", registry.display()))?;
    let mut places = places.flatten().map(|place| place.path().join(&name));
    places
        .find(|place| place.is_dir())
        .ok_or_else(|| format!("{name}: its sources are not in {}", registry.display()))
}

/// Returns the texts of the licences in a directory, in the order of the files' names.
fn texts_of(folder: &Path) -> Result<Vec<String>, String> {
    let entries =
        std::fs::read_dir(folder).map_err(|error| format!("{}: {error}", text(folder).unwrap_or("")))?;
    let mut files: Vec<PathBuf> =
        entries.flatten().map(|entry| entry.path()).filter(|path| path.is_file()).collect();
    files.retain(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
        NAMES.iter().any(|start| name.starts_with(start))
    });
    files.sort_unstable();
    files.iter().map(|path| read(path)).collect()
}

/// What is said of a crate whose package has no text of its licence.
fn stand_in(one: &Compiled) -> Result<String, String> {
    let file = match one.licence.as_str() {
        licence if licence.contains("MIT") => "LICENSE-MIT",
        licence if licence.contains("Apache-2.0") => "LICENSE-APACHE",
        other => return Err(format!("{}: no text of its licence {other}", one.name)),
    };
    let manifest = read(&sources(one)?.join("Cargo.toml"))?;
    let authors =
        manifest.lines().skip_while(|line| !line.starts_with("authors")).take_while(|line| *line != "]");
    let authors: Vec<&str> = authors.flat_map(|line| line.split('"').skip(1).step_by(2)).collect();
    let authors =
        if authors.is_empty() { format!("the authors of {}", one.name) } else { authors.join(", ") };
    let licence = read(Path::new(file))?;
    let terms = licence.lines().filter(|line| !line.starts_with("Copyright")).collect::<Vec<_>>().join("\n");
    Ok(format!("Copyright {authors}. Their package has no text; these are the terms.\n\n{terms}"))
}

/// Reads a text, whatever its lines end with.
fn read(path: &Path) -> Result<String, String> {
    let bytes = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(String::from_utf8_lossy(&bytes).replace("\r\n", "\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_that_is_compiled_in_has_the_text_of_its_licence() {
        std::env::set_current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("..")).unwrap();
        // On Windows there are other dependencies.
        for target in ["x86_64-unknown-linux-gnu", "x86_64-pc-windows-gnu"] {
            let all = compiled(target).unwrap();
            let whole = licences(target).unwrap();
            let others: Vec<&Compiled> = all.iter().filter(|one| !one.is_ours).collect();
            assert!(others.len() > 50 && all.len() > others.len(), "{target}: {all:?}");
            for one in others {
                assert!(whole.contains(&format!("\n{} {} (", one.name, one.version)), "{target}: {one:?}");
            }
            assert!(
                whole.contains("Permission is hereby granted") && whole.contains("Version 2.0, January 2004")
            );
        }
        assert!(licences("x86_64-unknown-linux-gnu").unwrap() != licences("x86_64-pc-windows-gnu").unwrap());
        assert!(licences_of_wheel("x86_64-unknown-linux-gnu").unwrap().contains("\npyo3 "));
    }

    #[test]
    fn a_line_of_the_tree_is_read() {
        let one = of_line("adler2 v2.0.1|0BSD OR MIT/Apache-2.0").unwrap();
        assert_eq!((one.name.as_str(), one.version.as_str(), one.is_ours), ("adler2", "2.0.1", false));
        assert_eq!(one.licence, "0BSD OR MIT OR Apache-2.0");
        assert!(of_line("platter-fat v0.1.0 (/home/a/crates/fat)|MIT").unwrap().is_ours);
    }
}

//! Loads workloads by name, from any of the formats that can describe them.

use crate::diskspd::Profile;
use crate::iometer::Config;
use crate::workload::{input, read_text};
use crate::{Preset, Result, Workload};
use std::ffi::OsStr;
use std::path::Path;

/// Loads all workloads that a name stands for: a profile or a command line of DiskSpd (`diskspd -b4K …`) may contain
/// several runs, every other name one workload.
///
/// # Errors
/// As [`Workload::load`].
pub fn load_workloads(name: impl AsRef<OsStr>, preset: Preset) -> Result<Vec<Workload>> {
    if let Some(workload) = crate::replay::named(name.as_ref()) {
        return Ok(vec![workload?]);
    }
    let path = Path::new(name.as_ref());
    let shown = path.display().to_string();
    let wrong = |reason: String| input(&shown, reason);
    if let Some(line) = path.to_str().and_then(|name| name.strip_prefix("diskspd ")) {
        let arguments = words(line).map_err(wrong)?;
        return Profile::from_arguments(&arguments).and_then(|profile| profile.workloads()).map_err(wrong);
    }
    if path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("xml")) {
        let text = read_text(path).map_err(|error| wrong(error.to_string()))?;
        return Profile::from_xml(&text, &[]).and_then(|profile| profile.workloads()).map_err(wrong);
    }
    if path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("icf")) {
        let stem = path.file_stem().map_or(shown.clone(), |stem| stem.to_string_lossy().into_owned());
        return Config::load(path)
            .and_then(|config| config.workload(&stem))
            .map(|one| vec![one])
            .map_err(wrong);
    }
    Ok(vec![Workload::load(name, preset)?])
}

/// Splits a command line at its spaces, except inside of double quotes, as on Windows.
fn words(line: &str) -> std::result::Result<Vec<String>, String> {
    let mut words: Vec<String> = Vec::new();
    let (mut is_quoted, mut is_word) = (false, false);
    for letter in line.chars() {
        match letter {
            '"' => is_quoted = !is_quoted,
            space if space.is_whitespace() && !is_quoted => {
                is_word = false;
                continue;
            }
            _ => {}
        }
        if !is_word {
            words.push(String::new());
            is_word = true;
        }
        if let (Some(word), true) = (words.last_mut(), letter != '"') {
            word.push(letter);
        }
    }
    match is_quoted {
        true => Err("a quotation mark has no other behind it".into()),
        false => Ok(words),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_in_quotes_is_one_word() {
        assert_eq!(words("  -b4K \"a b.dat\"\t-c1M  ").unwrap(), ["-b4K", "a b.dat", "-c1M"]);
        assert_eq!(words("C:\\\"my files\"\\x.dat \"\"").unwrap(), ["C:\\my files\\x.dat", ""]);
        assert!(words("\"a b").unwrap_err().contains("quotation mark"));
        let loads = load_workloads("diskspd -c1M -b4K \"a b.dat\"", Preset::Quick).unwrap();
        assert_eq!((loads.len(), loads[0].cases.len(), &*loads[0].cases[0].name), (1, 1, "a b.dat"));
    }
}

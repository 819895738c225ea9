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
    let path = Path::new(name.as_ref());
    let shown = path.display().to_string();
    let wrong = |reason: String| input(&shown, reason);
    if let Some(line) = path.to_str().and_then(|name| name.strip_prefix("diskspd ")) {
        let arguments: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
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

//! Checking the copies of a mirror one by one, before a repair writes the same to all of them.

use crate::error::Result;
use crate::opening::{DeviceOptions, look_at_mirror, open_file, part_of};
use crate::source::Source;
use platter_device::{MirrorSet, Standing};
use platter_vfs::{CheckOptions, CheckReport, Finding, Progress, Severity};
use std::path::{Path, PathBuf};

/// Returns a finding for each copy of a mirror that is damaged or left out, and the copies whose content must be the same.
/// The volume itself may be undamaged on the other copies.
///
/// # Errors
/// The errors of opening a copy.
pub(crate) fn look(source: &Source, reading: &DeviceOptions) -> Result<(Vec<Finding>, Vec<PathBuf>)> {
    let set = look_at_mirror(source, reading)?;
    let is_current = |copy: &usize| set.standings()[*copy] == Standing::Current;
    let current: Vec<usize> = (0..source.paths.len()).filter(is_current).collect();
    // After a session that was cut off, copies may differ.
    let comparable = if set.is_unclosed() || current.len() < 2 { Vec::new() } else { current };
    Ok((standings(&set), comparable.into_iter().map(|copy| source.paths[copy].clone()).collect()))
}

fn standings(set: &MirrorSet) -> Vec<Finding> {
    let mut found = Vec::new();
    for (name, standing) in set.names().zip(set.standings()) {
        let (code, severity, remedy) = match standing {
            Standing::Current => continue,
            Standing::Damaged => ("copy-damaged", Severity::Inconsistent, "platter scrub repairs it"),
            Standing::LeftOut(_) | Standing::Diverged(_) => {
                ("copy-left-out", Severity::Notice, "platter mirror rebuild brings it up to date")
            }
        };
        let message = format!("copy {name} of the mirror is {standing}; {remedy}");
        found.push(Finding { code, severity, path: None, message, repaired: false });
    }
    found
}

/// Checks each of these copies of a mirror by itself. If they have different damage, returns which have how much, and how
/// to keep what one of them holds. A disk returns wrong bytes without an error now and then. A repair would read them
/// from one copy, and write to all copies what follows from them.
///
/// `None` for a format with checksums, whose check looks at all copies.
///
/// # Errors
/// The errors of opening and reading a copy.
pub(crate) fn unlike(
    source: &Source,
    comparable: &[PathBuf],
    reading: &DeviceOptions,
    progress: &dyn Progress,
) -> Result<Option<String>> {
    let mut reports = Vec::new();
    for path in comparable {
        let device = open_file(path, reading.access, reading.caching)?;
        let device = part_of(device, source.partition, reading)?;
        let report = match platter_formats::recognise(&*device) {
            Ok(Some((format, _))) if platter_formats::has_checksums(format) => return Ok(None),
            Ok(Some((format, _))) => format.check(&*device, CheckOptions { repair: false }, progress).ok(),
            Ok(None) | Err(_) => None,
        };
        reports.push((path, report));
    }
    if reports.windows(2).all(|pair| is_alike(pair[0].1.as_ref(), pair[1].1.as_ref())) {
        return Ok(None);
    }
    let each: Vec<String> = reports.iter().map(|(path, report)| told(path, report.as_ref())).collect();
    let rank = |report: &Option<CheckReport>| {
        report.as_ref().map_or((true, None, 0), |one| (false, one.remaining, one.found))
    };
    let best = reports.iter().min_by_key(|(_, report)| rank(report)).map_or(Path::new(""), |(path, _)| path);
    let best = best.display();
    Ok(Some(format!(
        "the copies have different damage: {}; `platter mirror rebuild {source} --from {best}` keeps what {best} holds",
        each.join(", ")
    )))
}

/// Whether two checks found the same.
fn is_alike(one: Option<&CheckReport>, other: Option<&CheckReport>) -> bool {
    let (Some(one), Some(other)) = (one, other) else { return one.is_none() && other.is_none() };
    let is_same = |(one, other): (&Finding, &Finding)| {
        (one.code, &one.path, &one.message) == (other.code, &other.path, &other.message)
    };
    one.found == other.found && one.findings.iter().zip(&other.findings).all(is_same)
}

fn told(path: &Path, report: Option<&CheckReport>) -> String {
    let path = path.display();
    match report.map(|report| report.found) {
        None => format!("{path} holds no volume that can be checked"),
        Some(0) => format!("{path} has none"),
        Some(found) => format!("{path} has {found} findings"),
    }
}

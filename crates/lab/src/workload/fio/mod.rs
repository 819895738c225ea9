//! fio job files.
//!
//! Every key is honoured as `fio(1)` defines it, or refused by name and line: a job that silently ran otherwise than
//! written would give figures that mean something else. What the engine does differently all the same is said in the
//! workload's notes.

mod case;
mod keys;
mod order;
mod settings;
mod text;
mod values;

use super::{Workload, input};
use crate::{Durability, Result};
use std::path::Path;

/// Reads a job file: each job section becomes a case. `folder` is where it is, for the files that it includes.
pub(super) fn parse(name: &str, text: &str, folder: Option<&Path>) -> Result<Workload> {
    read(name, text, folder).map_err(|reason| input(name, reason))
}

fn read(name: &str, text: &str, folder: Option<&Path>) -> std::result::Result<Workload, String> {
    let file = text::JobFile::read(text, folder)?;
    let mut sections = Vec::new();
    for section in &file.sections {
        let about = |reason: String| format!("{}, [{}]: {reason}", section.place, section.name);
        let settings = settings::Settings::of(file.entries(section))
            .map_err(|reason| format!("[{}]: {reason}", section.name))?;
        let case = case::Converted::of(&section.name, &settings).map_err(about)?;
        sections.push((section, settings, case));
    }
    order::refuse_at_once(sections.iter().map(|(section, settings, _)| (*section, settings)))?;
    let mut converted = sections.into_iter();
    let (first, _, case::Converted { case, mut shared, mut notes }) =
        converted.next().expect("there is a section");
    let mut cases = vec![case];
    for (section, _, other) in converted {
        if let Some(what) = shared.difference(&other.shared) {
            return Err(format!(
                "{}, [{}]: {what} must be the same as of [{}] ({})",
                section.place, section.name, first.name, first.place
            ));
        }
        shared.durability = shared.durability.or(other.shared.durability);
        cases.push(other.case);
        notes.extend(other.notes);
    }
    notes.sort();
    notes.dedup();
    Ok(Workload {
        name: name.into(),
        title: name.into(),
        description: format!("fio job file {name}"),
        seed: shared.seed,
        durability: shared.durability.unwrap_or(Durability::Direct),
        buffered: shared.buffered,
        scoring: None,
        span: shared.span,
        share: shared.share,
        repeats: 1,
        cases,
        notes: notes.into_iter().map(|note| format!("{name}: {note}")).collect(),
    })
}

#[cfg(test)]
mod tests;

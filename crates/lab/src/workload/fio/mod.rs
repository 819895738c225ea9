//! fio job files.
//!
//! Every key is honoured as `fio(1)` defines it, or refused with its name and line: figures of a job that silently ran
//! in another way than written would be misleading. Differences of the lab's engine that remain are stated in the
//! workload's notes.

mod case;
mod engines;
mod keys;
mod order;
mod places;
mod settings;
mod spread;
mod text;
mod values;

use super::{Case, Workload, input};
use crate::experiment::Direction;
use crate::{Durability, Result};
use std::path::Path;

/// Reads a job file: each job section becomes a case. `folder` is the directory of the file, for the files that it
/// includes.
pub(super) fn parse(name: &str, text: &str, folder: Option<&Path>) -> Result<Workload> {
    read(name, text, folder).map_err(|reason| input(name, reason))
}

/// Whether a text is that of a job file: it has sections and, where they begin to be read, no mistake.
pub(super) fn is_job_file(text: &str) -> bool {
    // The files that it includes do not matter here.
    let own = |line: &&str| !line.trim_start().starts_with("include");
    let text: String = text.lines().filter(own).flat_map(|line| [line, "\n"]).collect();
    text::JobFile::read(&text, None).is_ok()
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
    if let [_, _, ..] = sections[..]
        && let Some((section, ..)) = sections.iter().find(|(_, settings, _)| settings.is_delayed)
    {
        return Err(format!(
            "{}, [{}]: startdelay: sections that run at the same time begin at the same time",
            section.place, section.name
        ));
    }
    let mut paths: Vec<String> =
        sections.iter().flat_map(|(_, settings, _)| settings.paths.iter().cloned()).collect();
    paths.dedup();
    let beside = order::groups(sections.iter().map(|(section, settings, _)| (*section, settings)))?;
    for (pair, _) in sections.windows(2).zip(&beside[1..]).filter(|(_, joins)| **joins) {
        if pair[0].2.case.ramp_up != pair[1].2.case.ramp_up {
            let (section, ..) = pair[1];
            return Err(format!(
                "{}, [{}]: ramp_time must be the same of sections that run at the same time",
                section.place, section.name
            ));
        }
    }
    let (first, ..) = sections[0];
    let shared = sections[0].2.shared;
    if let Some((section, _, case)) = sections.iter().find(|(.., case)| case.shared != shared) {
        return Err(format!(
            "{}, [{}]: {} must be the same as of [{}] ({})",
            section.place,
            section.name,
            shared.difference(&case.shared),
            first.name,
            first.place
        ));
    }
    let converted: Vec<case::Converted> = sections.into_iter().map(|(.., case)| case).collect();
    let places = places::places(&converted, &beside)?;
    let mut writers = converted.iter().filter(|converted| converted.case.direction != Direction::Read);
    let durability = writers.find_map(|converted| converted.case.durability);
    let mut notes: Vec<String> = paths
        .iter()
        .map(|path| format!("{path} of the job file is not touched: what is measured are the targets"))
        .collect();
    let mut cases = Vec::new();
    for ((converted, joins), part) in converted.into_iter().zip(beside).zip(places.parts) {
        notes.extend(converted.notes);
        cases.push(Case { beside: joins, part, ..converted.case });
    }
    for group in cases.chunk_by(|_, next| next.beside).filter(|group| group.len() > 1) {
        let names: Vec<String> = group.iter().map(|case| format!("[{}]", case.name)).collect();
        notes.push(format!(
            "{} run at the same time: processor time and what the storage saw are of all of them together",
            names.join(", ")
        ));
    }
    notes.sort();
    notes.dedup();
    Ok(Workload {
        name: name.into(),
        title: name.into(),
        description: format!("fio job file {name}"),
        seed: shared.seed,
        durability: durability.unwrap_or(Durability::Direct),
        buffered: shared.buffered,
        scoring: None,
        span: places.span,
        share: places.share,
        paths,
        repeats: 1,
        cases,
        notes: notes.into_iter().map(|note| format!("{name}: {note}")).collect(),
    })
}

#[cfg(test)]
mod tests;

//! Where each section's files lie in the span.
//!
//! As fio has it, a section's file is its own unless a `filename` names it; then all who name it share it. Sections that run
//! at the same time have their files side by side; those that run one after the other may have theirs in the same place, as
//! everything is written before the first anyway.

use super::case::Converted;
use crate::workload::{Part, Share};

/// Files begin on a multiple of this: sectors and cells of verified data are no larger.
const STEP: u64 = 4096;

/// What all sections together take.
pub struct Places {
    pub span: u64,
    pub share: Option<Share>,
    /// Of each section the part of it; `None` for all.
    pub parts: Vec<Option<Part>>,
}

/// Works it out; `beside` says of each section whether it runs at the same time as the one before.
///
/// # Errors
/// A sentence.
pub fn places(sections: &[Converted], beside: &[bool]) -> Result<Places, String> {
    let in_percent = sections.iter().filter(|section| section.share.is_some()).count();
    if in_percent > 0 && in_percent < sections.len() {
        return Err("size is in bytes in one section and a share of the target in another".into());
    }
    let is_share = in_percent > 0;
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    let mut files: Vec<(Option<&str>, u64, u64)> = Vec::new();
    let mut largest = 0;
    for (section, &joins) in sections.iter().zip(beside) {
        if !joins {
            files.clear();
        }
        let length = section.share.map_or(section.span, |Share(percent)| percent.into());
        let name = section.file.as_deref();
        // Of those who share a file the first says how long it is, and the others take no more of it.
        let known = files.iter().find(|(other, ..)| name.is_some() && *other == name);
        let (start, end) = match known {
            Some((_, start, end)) if start + length > *end => {
                return Err(format!(
                    "[{}]: size is larger than that of a section before it that uses the same file at the same time",
                    section.case.name
                ));
            }
            Some((_, start, _)) => (*start, start + length),
            None => {
                let step = if is_share { 1 } else { STEP };
                let start = files.iter().map(|(_, _, end)| end.next_multiple_of(step)).max().unwrap_or(0);
                let end = start.checked_add(length).ok_or("sizes are too large together")?;
                files.push((name, start, end));
                (start, end)
            }
        };
        largest = largest.max(end);
        ranges.push((start, end));
    }
    if is_share && largest > 100 {
        return Err(format!(
            "sections that run at the same time ask for {largest} % of the target, each for files of its own: give size"
        ));
    }
    let part = |(start, end)| Some(Part { start, end, of: largest }).filter(|_| (start, end) != (0, largest));
    Ok(Places {
        span: if is_share { 0 } else { largest },
        share: is_share.then_some(Share(largest as u8)),
        parts: ranges.into_iter().map(part).collect(),
    })
}

//! Where the files of each section lie in the workload's span.
//!
//! In fio a section has files of its own unless a `filename` is given; all sections with the same `filename` share that
//! file. Files of sections that run at the same time are placed side by side; those of sections that run one after the
//! other may overlap, as the whole span is written before the first case anyway.

use super::case::Converted;
use crate::workload::{Part, Share};

/// Files begin at a multiple of this many bytes: sectors and verified cells are no larger.
const STEP: u64 = 4096;

/// The span that all sections need, and each section's part of it.
pub(super) struct Places {
    pub span: u64,
    pub share: Option<Share>,
    /// For each section its part of the span; `None` for the whole span.
    pub parts: Vec<Option<Part>>,
}

/// Computes the places; `beside` tells for each section whether it runs at the same time as the one before it.
///
/// # Errors
/// A sentence that states the conflict.
pub(super) fn places(sections: &[Converted], beside: &[bool]) -> Result<Places, String> {
    let in_percent = sections.iter().filter(|section| section.extent.in_percent).count();
    if in_percent > 0 && in_percent < sections.len() {
        return Err("size is in bytes in one section and a share of the target in another".into());
    }
    let is_share = in_percent > 0;
    let step = if is_share { 1 } else { STEP };
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    let mut largest = 0;
    let mut at = 0;
    while at < sections.len() {
        let group = beside[at + 1..].iter().take_while(|joins| **joins).count() + 1;
        let group = &sections[at..at + group];
        at += group.len();
        // Name, length and beginning of each file of the group. A file that several sections share is as long as the
        // largest of them asks for.
        let mut files: Vec<(Option<&str>, u64, u64)> = Vec::new();
        let mut own = Vec::new();
        for section in group {
            let name = section.file.as_deref();
            let length = section.extent.start + section.extent.length;
            let known = files.iter().position(|(other, ..)| name.is_some() && *other == name);
            let file = known.unwrap_or_else(|| {
                files.push((name, 0, 0));
                files.len() - 1
            });
            files[file].1 = files[file].1.max(length);
            own.push(file);
        }
        let mut end = 0_u64;
        for (_, length, start) in &mut files {
            *start = end.checked_next_multiple_of(step).ok_or("sizes are too large together")?;
            end = start.checked_add(*length).ok_or("sizes are too large together")?;
        }
        largest = largest.max(end);
        for (section, file) in group.iter().zip(own) {
            let start = files[file].2 + section.extent.start;
            ranges.push((start, start + section.extent.length));
        }
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

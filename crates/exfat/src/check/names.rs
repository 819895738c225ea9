//! The names of a directory that were met, and others for those that cannot stay.

use crate::layout::{UNITS_IN_NAME, Upcase};
use platter_vfs::{Name, NameRules};
use std::collections::HashSet;

/// What was met, as it compares.
#[derive(Default)]
pub struct Names(HashSet<Box<[u16]>>);

/// Whether exFAT allows a name (7.7.3).
pub fn is_allowed(name: &Name) -> bool {
    let rules = NameRules { no_trailing_dot_or_space: false, ..NameRules::WINDOWS };
    rules.check(name).is_ok()
}

impl Names {
    /// Notes a name. Whether it is a new one is the answer.
    pub fn insert(&mut self, name: &Name, upcase: &Upcase) -> bool {
        self.0.insert(upcase.fold(name.units()))
    }

    /// A name like this one that is allowed and that nobody has, of as many parts.
    pub fn other(&self, like: &Name, upcase: &Upcase) -> Name {
        let forbidden = |unit: u16| !is_allowed(&Name::from_units(&[b'a'.into(), unit]));
        let mut units: Vec<u16> =
            like.units().iter().map(|&unit| if forbidden(unit) { b'_'.into() } else { unit }).collect();
        if units.iter().all(|&unit| unit == u16::from(b'.')) {
            units.fill(b'_'.into());
        }
        let free = |name: &Name| is_allowed(name) && !self.0.contains(&upcase.fold(name.units()));
        let plain = Name::from_units(&units);
        if free(&plain) {
            return plain;
        }
        // A directory has fewer entries than there are numbers.
        let room = units.len().next_multiple_of(UNITS_IN_NAME).clamp(1, 255);
        let numbered = (1..=u32::MAX).map(|number| {
            let tail: Vec<u16> = format!("~{number}").encode_utf16().collect();
            let kept = units.len().min(room - tail.len().min(room));
            Name::from_units(&[&units[..kept], &tail].concat())
        });
        numbered.into_iter().find(free).unwrap_or(plain)
    }
}

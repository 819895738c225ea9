//! The names that were met in a directory, and new names for entries that cannot keep theirs.

use crate::layout::{UNITS_IN_NAME, Upcase};
use platter_vfs::{Name, NameRules};
use std::collections::HashSet;

/// The names met so far, in upper case as they are compared.
#[derive(Default)]
pub(super) struct Names(HashSet<Box<[u16]>>);

/// Whether exFAT allows a name (7.7.3).
pub(super) fn is_allowed(name: &Name) -> bool {
    let rules = NameRules { no_trailing_dot_or_space: false, ..NameRules::WINDOWS };
    rules.check(name).is_ok()
}

impl Names {
    /// Adds a name. Returns whether it is new.
    pub(super) fn insert(&mut self, name: &Name, upcase: &Upcase) -> bool {
        self.0.insert(upcase.fold(name.units()))
    }

    /// Returns an allowed name similar to `like` that no entry has yet, and that takes as many name entries.
    pub(super) fn other(&self, like: &Name, upcase: &Upcase) -> Name {
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
        // There are more numbers than entries in a directory, so one is free.
        let room = units.len().next_multiple_of(UNITS_IN_NAME).clamp(1, 255);
        let numbered = (1..=u32::MAX).map(|number| {
            let tail: Vec<u16> = format!("~{number}").encode_utf16().collect();
            let kept = units.len().min(room - tail.len().min(room));
            Name::from_units(&[&units[..kept], &tail].concat())
        });
        numbered.into_iter().find(free).unwrap_or(plain)
    }
}

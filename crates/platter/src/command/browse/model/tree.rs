//! The directory on the left, and what is known of the selected entry on the right.

use super::jobs::{Job, Side};
use crate::command::browse::key::Motion;
use crate::command::browse::pick::{Pick, scroll};
use crate::command::view::Listing;
use platter_vfs::{Entry, Kind, Name};
use std::cmp::Reverse;
use std::collections::HashSet;

/// In which order entries are listed; directories are first in each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::command::browse) enum Order {
    #[default]
    Name,
    Size,
    Time,
}

/// A directory with the bar in it.
#[derive(Debug)]
pub(in crate::command::browse) struct Tree {
    pub(in crate::command::browse) place: Vec<Name>,
    /// `None` while the directory is read.
    pub(in crate::command::browse) listing: Option<Listing>,
    pub(in crate::command::browse) pick: Pick,
    pub(in crate::command::browse) marked: HashSet<Name>,
    /// What is known of the entry under the bar; `None` while that is read.
    pub(in crate::command::browse) side: Option<Result<Side, String>>,
    /// Whether motions move in the right half.
    pub(in crate::command::browse) is_in_side: bool,
    pub(in crate::command::browse) side_top: usize,
    pub(in crate::command::browse) order: Order,
    /// The entry that gets the bar when the directory is listed.
    wanted: Option<Name>,
}

impl Tree {
    pub(super) fn new(place: Vec<Name>) -> Tree {
        Tree {
            place,
            listing: None,
            pick: Pick::default(),
            marked: HashSet::new(),
            side: None,
            is_in_side: false,
            side_top: 0,
            order: Order::Name,
            wanted: None,
        }
    }

    pub(in crate::command::browse) fn entries(&self) -> &[Entry] {
        self.listing.as_ref().map_or(&[], |listing| &listing.entries)
    }

    pub(in crate::command::browse) fn selected(&self) -> Option<&Entry> {
        self.entries().get(self.pick.at)
    }

    pub(in crate::command::browse) fn selected_path(&self) -> Option<Vec<Name>> {
        let mut path = self.place.clone();
        path.push(self.selected()?.name.clone());
        Some(path)
    }

    /// Goes to another directory; `wanted` gets the bar there.
    pub(super) fn go_to(&mut self, place: Vec<Name>, wanted: Option<Name>) -> Vec<Job> {
        let order = self.order;
        *self = Tree { wanted, order, ..Tree::new(place) };
        vec![Job::List(self.place.clone())]
    }

    /// Goes up, unless this is the root.
    pub(super) fn go_up(&mut self) -> Vec<Job> {
        match self.place.split_last() {
            Some((last, above)) => self.go_to(above.to_vec(), Some(last.clone())),
            None => Vec::new(),
        }
    }

    pub(super) fn listed(&mut self, place: &[Name], listing: Result<Listing, String>) -> Vec<Job> {
        if self.place != place {
            return Vec::new();
        }
        let failed = |why| Listing { entries: Vec::new(), failure: Some(why) };
        self.listing = Some(listing.unwrap_or_else(failed));
        let wanted = self.wanted.take();
        self.sort(wanted)
    }

    pub(super) fn looked(&mut self, path: &[Name], side: Result<Side, String>) {
        if self.selected_path().is_some_and(|selected| selected == path) {
            self.side = Some(side);
        }
    }

    /// Lists in the next order.
    pub(super) fn reorder(&mut self) -> Vec<Job> {
        self.order = match self.order {
            Order::Name => Order::Size,
            Order::Size => Order::Time,
            Order::Time => Order::Name,
        };
        let selected = self.selected().map(|entry| entry.name.clone());
        self.sort(selected)
    }

    fn sort(&mut self, selected: Option<Name>) -> Vec<Job> {
        let order = self.order;
        if let Some(listing) = &mut self.listing {
            listing.entries.sort_by_cached_key(|entry| {
                let name = entry.name.folded(platter_vfs::CaseRule::Insensitive);
                let (size, time) = match order {
                    Order::Name => (Reverse(0), None),
                    Order::Size => (Reverse(entry.attributes.size), None),
                    Order::Time => (Reverse(0), Some(Reverse(entry.attributes.modified))),
                };
                (entry.attributes.kind != Kind::Directory, size, time, name, entry.name.clone())
            });
        }
        let at = selected.and_then(|name| self.entries().iter().position(|entry| entry.name == name));
        self.pick_at(at.unwrap_or(0))
    }

    /// Puts the bar on this entry.
    pub(super) fn pick_at(&mut self, at: usize) -> Vec<Job> {
        self.pick = Pick::at(at);
        self.look()
    }

    /// What is to be read of the entry under the bar.
    fn look(&mut self) -> Vec<Job> {
        (self.side, self.side_top) = (None, 0);
        self.selected_path().map(Job::Look).into_iter().collect()
    }

    pub(super) fn go(&mut self, motion: Motion, rows: usize) -> Vec<Job> {
        if self.is_in_side {
            let count = self.side_lines().len();
            scroll(&mut self.side_top, motion, count, rows);
            return Vec::new();
        }
        let before = self.pick.at;
        self.pick.go(motion, self.entries().len(), rows);
        if self.pick.at == before { Vec::new() } else { self.look() }
    }

    /// The lines of the right half.
    pub(in crate::command::browse) fn side_lines(&self) -> Vec<String> {
        let side = match &self.side {
            None if self.selected().is_none() => return Vec::new(),
            None => return vec!["reading".to_string()],
            Some(Err(why)) => return vec![why.clone()],
            Some(Ok(side)) => side,
        };
        let width = side.details.facts.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
        let fact = |(name, value): &(&str, String)| format!("{name:<width$}  {value}");
        let mut lines: Vec<String> = side.details.facts.iter().map(fact).collect();
        match &side.preview {
            None => {}
            Some(Err(why)) => lines.extend([String::new(), why.clone()]),
            Some(Ok(preview)) => {
                lines.push(String::new());
                lines.extend(preview.lines(false));
            }
        }
        lines
    }

    /// Marks the entry under the bar, or takes its mark away, and goes on.
    pub(super) fn mark(&mut self, rows: usize) -> Vec<Job> {
        let Some(name) = self.selected().map(|entry| entry.name.clone()) else { return Vec::new() };
        if !self.marked.remove(&name) {
            self.marked.insert(name);
        }
        self.is_in_side = false;
        self.go(Motion::Down, rows)
    }

    /// The paths of the marked entries, or of the one under the bar.
    pub(super) fn chosen(&self) -> Vec<Vec<Name>> {
        let path = |name: &Name| self.place.iter().chain([name]).cloned().collect::<Vec<Name>>();
        let marked: Vec<Vec<Name>> = self
            .entries()
            .iter()
            .filter(|entry| self.marked.contains(&entry.name))
            .map(|entry| path(&entry.name))
            .collect();
        if marked.is_empty() { self.selected_path().into_iter().collect() } else { marked }
    }

    /// The next entry whose name has this text, or the one before; the one under the bar counts if `is_here`.
    pub(super) fn next_with(&self, text: &str, is_back: bool, is_here: bool) -> Option<usize> {
        let text = text.to_lowercase();
        let entries = self.entries();
        let has = |at: &usize| entries[*at].name.to_string().to_lowercase().contains(&text);
        let here = self.pick.at.min(entries.len());
        let after = here.saturating_add(usize::from(!is_here)).min(entries.len());
        match is_back {
            false => (after..entries.len()).chain(0..after).find(has),
            true => (0..here).rev().chain((here..entries.len()).rev()).find(has),
        }
    }
}

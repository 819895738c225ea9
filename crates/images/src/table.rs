//! The table of blocks, as far as it is in memory.

use crate::bytes::unusable;
use crate::form::{Changes, Form, Kept, Shape};
use crate::marks::Marks;
use platter_device::{Device, Result};
use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;
use std::ops::Range;

/// Pages of the table in memory, and the marks of blocks. Both are read when they are needed, and those that were not
/// changed are forgotten when they take too much room: the fields of a damaged container must not say how much memory
/// is used.
#[derive(Default)]
pub(crate) struct Table {
    pages: HashMap<u64, Page>,
    marks: HashMap<u64, Marks>,
    /// The bytes that all marks take.
    marked: usize,
    /// Blocks that became whole and whose marks on disk do not say so yet.
    completed: HashMap<u64, u64>,
}

struct Page {
    bytes: Box<[u8]>,
    /// Changed and not durable yet; the number counts the commits under way with it.
    is_changed: bool,
    committing: u32,
}

/// The most pages that are kept without need, 8 MiB.
const MOST_PAGES: usize = 2048;
/// The most bytes of marks that are kept, and the most marks.
const MOST_MARKS: usize = 8 << 20;
const MOST_MARKED: usize = 1 << 17;

impl Table {
    /// Returns where a block is, if that is in memory.
    pub(crate) fn lookup(
        &self,
        form: &dyn Form,
        block: u64,
        end: u64,
    ) -> Option<Result<(Kept, Option<&Marks>)>> {
        let offset = form.entry_offset(block);
        let page = self.pages.get(&(offset / form.page_length()))?;
        let at = (offset % form.page_length()) as usize;
        match form.decode(block, &page.bytes[at..at + form.entry_width()], end) {
            Ok(kept @ Kept::Marked(_)) => Some(Ok((kept, Some(self.marks.get(&block)?)))),
            Ok(kept) => Some(Ok((kept, None))),
            Err(error) => Some(Err(error)),
        }
    }

    /// Reads what [`Table::lookup`] needs for a block.
    pub(crate) fn load(&mut self, form: &dyn Form, file: &dyn Device, block: u64) -> Result<()> {
        let length = form.page_length();
        let number = form.entry_offset(block) / length;
        let page = match self.pages.entry(number) {
            Slot::Occupied(page) => page.into_mut(),
            Slot::Vacant(slot) => {
                let bytes = form.page(file, number)?;
                slot.insert(Page { bytes, is_changed: false, committing: 0 })
            }
        };
        let at = (form.entry_offset(block) % length) as usize;
        let kept = form.decode(block, &page.bytes[at..at + form.entry_width()], file.len())?;
        if let Kept::Marked(at) = kept
            && !self.marks.contains_key(&block)
        {
            let marks = form.marks(file, block, at)?;
            self.marked += marks.memory();
            self.marks.insert(block, marks);
        }
        Ok(())
    }

    /// Whether nothing is led to by any entry of the page in memory that has the entry of a block.
    fn is_blank(&self, form: &dyn Form, block: u64, end: u64) -> bool {
        let Some(page) = self.pages.get(&(form.entry_offset(block) / form.page_length())) else {
            return false;
        };
        let mut entries = page.bytes.chunks_exact(form.entry_width());
        let Some(first) = entries.next() else { return false };
        matches!(form.decode(block, first, end), Ok(Kept::Absent)) && entries.all(|entry| entry == first)
    }

    /// The first block behind this one whose entry is in another page, or `end`.
    fn behind_page(&self, form: &dyn Form, block: u64, end: u64) -> u64 {
        let page = |block| form.entry_offset(block) / form.page_length();
        let own = page(block);
        (block..end).find(|&block| page(block) != own).unwrap_or(end)
    }

    /// Forgets what can be read again, if there is much of it.
    pub(crate) fn trim(&mut self) {
        if self.pages.len() > MOST_PAGES {
            self.pages.retain(|_, page| page.is_changed || page.committing > 0);
        }
        if self.marked > MOST_MARKS || self.marks.len() > MOST_MARKED {
            let completed = &self.completed;
            self.marks.retain(|block, _| completed.contains_key(block));
            self.marked = 0;
        }
    }

    /// Notes that the content of a block is at this offset of the file, all of it.
    pub(crate) fn put(&mut self, form: &dyn Form, block: u64, at: u64) {
        let offset = form.entry_offset(block);
        let page = self.pages.get_mut(&(offset / form.page_length())).expect("the page was loaded");
        let inside = (offset % form.page_length()) as usize;
        form.encode(at, &mut page.bytes[inside..inside + form.entry_width()]);
        page.is_changed = true;
        self.marked -= self.marks.insert(block, Marks::All).map_or(0, |marks| marks.memory());
    }

    /// Notes that a block of which the file had a part is whole now.
    pub(crate) fn complete(&mut self, form: &dyn Form, block: u64, at: u64) {
        self.put(form, block, at);
        self.completed.insert(block, at);
    }

    /// The number of pages that are not durable.
    pub(crate) fn changed(&self) -> usize {
        self.pages.values().filter(|page| page.is_changed || page.committing > 0).count()
    }

    /// Takes the changes for a commit, after which [`Table::settle`] is called.
    pub(crate) fn take(&mut self) -> Changes {
        let mut pages = Vec::new();
        for (number, page) in self.pages.iter_mut().filter(|(_, page)| page.is_changed) {
            page.is_changed = false;
            page.committing += 1;
            pages.push((*number, page.bytes.clone()));
        }
        pages.sort_by_key(|(number, _)| *number);
        let mut completed: Vec<_> = self.completed.iter().map(|(block, at)| (*block, *at)).collect();
        completed.sort_unstable();
        Changes { pages, completed }
    }

    /// Notes that changes are durable.
    pub(crate) fn settle(&mut self, changes: &Changes) {
        for (number, _) in &changes.pages {
            if let Some(page) = self.pages.get_mut(number) {
                page.committing -= 1;
            }
        }
        for (block, _) in &changes.completed {
            self.completed.remove(block);
        }
    }
}

/// Reads the whole table and fails if two blocks lie in the same place, or one in a place of something else: a write to one
/// of them would change the other.
///
/// `taken` are the ranges of the file that have something else, and `before` the bytes in front of a block's content that
/// belong to it. Only the marks of blocks are read beside the table.
pub(crate) fn refuse_shared(
    form: &dyn Form,
    file: &dyn Device,
    shape: &Shape,
    before: u64,
    taken: &[Range<u64>],
) -> Result<()> {
    /// The most blocks whose places are compared: 16 MiB of memory.
    const MOST: usize = 1 << 20;
    let end = file.len();
    let mut table = Table::default();
    // Where blocks begin, and their numbers.
    let mut places: Vec<(u64, u32)> = Vec::new();
    let mut block = 0;
    while block < shape.blocks() {
        table.load(form, file, block)?;
        table.trim();
        if table.is_blank(form, block, end) {
            block = table.behind_page(form, block, shape.blocks());
            continue;
        }
        if let Some(known) = table.lookup(form, block, end)
            && let (Kept::Whole(at) | Kept::Marked(at), _) = known?
        {
            if places.len() >= MOST {
                let reason = format!("has more than {MOST} blocks, too many to write to it here");
                return Err(unusable(file.name(), reason));
            }
            places.push((
                at.saturating_sub(before),
                u32::try_from(block).expect("tables of formats are shorter"),
            ));
        }
        block += 1;
    }
    places.sort_unstable();
    let refused = |one: &str, two: &str, at: u64| {
        let reason = format!(
            "{one} and {two} lie in the same place, at offset {at}: it is damaged, and writing would destroy more"
        );
        Err(unusable(file.name(), reason))
    };
    let range = |&(start, block): &(u64, u32)| start..start + before + shape.used(block.into());
    for pair in places.windows(2) {
        if pair[1].0 < range(&pair[0]).end {
            let [one, two] = [0, 1].map(|number| format!("block {}", pair[number].1));
            return refused(&one, &two, pair[1].0);
        }
    }
    let mut taken = taken.to_vec();
    taken.sort_by_key(|range| range.start);
    if let Some(pair) = taken.windows(2).find(|pair| pair[1].start < pair[0].end) {
        return refused("a structure of the container", "another one", pair[1].start);
    }
    for taken in taken {
        // They do not overlap, so their ends are in order too.
        let first = places.partition_point(|place| range(place).end <= taken.start);
        if let Some(place) = places.get(first).filter(|place| place.0 < taken.end) {
            return refused(
                "a structure of the container",
                &format!("block {}", place.1),
                place.0.max(taken.start),
            );
        }
    }
    Ok(())
}

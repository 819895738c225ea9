//! The table of blocks, as far as it is in memory.

use crate::bytes::unusable;
use crate::form::{Changes, Form, Kept, Shape};
use crate::marks::Marks;
use platter_device::{Device, Result};
use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;

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
    taken: &[Taken],
) -> Result<()> {
    /// The most blocks whose places are compared: 32 MiB of memory.
    const MOST: usize = 2 << 20;
    let mut table = Table::default();
    let mut places: Vec<Taken> = taken.to_vec();
    for block in 0..shape.blocks() {
        table.load(form, file, block)?;
        table.trim();
        if let Some(known) = table.lookup(form, block, file.len())
            && let (Kept::Whole(at) | Kept::Marked(at), _) = known?
        {
            if places.len() > MOST {
                let reason = format!("has more than {MOST} blocks, too many to write to it here");
                return Err(unusable(file.name(), reason));
            }
            let start = at.saturating_sub(before);
            places.push(Taken { start, end: at + shape.used(block), block: Some(block) });
        }
    }
    places.sort_by_key(|range| range.start);
    for pair in places.windows(2) {
        if pair[1].start < pair[0].end {
            let what = |range: &Taken| match range.block {
                Some(block) => format!("block {block}"),
                None => "a structure of the container".to_string(),
            };
            let reason = format!(
                "{} and {} lie in the same place, at offset {}: it is damaged, and writing would destroy more",
                what(&pair[0]),
                what(&pair[1]),
                pair[1].start
            );
            return Err(unusable(file.name(), reason));
        }
    }
    Ok(())
}

/// A range of the file that is taken, and by which block, if by one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taken {
    pub start: u64,
    pub end: u64,
    pub block: Option<u64>,
}

//! Pages of `$Bitmap` that are not kept in memory.
//!
//! A page of which all clusters are free or all are taken needs no memory. Of pages where both alternate a volume of
//! 2^32 clusters can have 131,072, half a gigabyte: so beyond a number of them only a summary of each is kept, from
//! which a search can tell whether to read the page.

use crate::bits::{PAGE, Words, whole_page};
use platter_vfs::Result;
use std::collections::BTreeMap;
use std::ops::Range;

// A run of a whole page is counted in 16 bits.
const _: () = assert!(PAGE <= 1 << 16);

/// Reads bytes of `$Bitmap`, from a byte offset on, from their places on the device.
pub(crate) type ReadBitmap = Box<dyn Fn(u64, &mut [u8]) -> Result<()> + Send + Sync>;

/// The numbers by which a search decides whether to read a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Summary {
    /// The number of free clusters in the page.
    pub free: u16,
    /// Clusters of the page's longest free run.
    pub longest: u16,
    /// Free clusters at the beginning of the page.
    pub first: u16,
    /// Free clusters at the end of the page.
    pub last: u16,
}

impl Summary {
    /// The summary of a page that is neither all free nor all taken.
    pub(super) fn of(words: &Words) -> Summary {
        let (mut free, mut longest, mut first, mut run) = (0, 0, None, 0);
        for word in words.iter() {
            free += word.count_zeros();
            let mut at = 0;
            while at < 64 {
                let zeros = (word >> at).trailing_zeros().min(64 - at);
                (run, at) = (run + zeros, at + zeros);
                if at < 64 {
                    first.get_or_insert(run);
                    (longest, run) = (longest.max(run), 0);
                    at += (word >> at).trailing_ones();
                }
            }
        }
        let (first, longest) = (first.unwrap_or(run), longest.max(run));
        debug_assert!(first.max(run) <= longest && longest <= free, "no run is longer than the longest");
        Summary { free: free as u16, longest: longest as u16, first: first as u16, last: run as u16 }
    }
}

/// Ranges of clusters that changed, in the order of the changes, and whether they became taken.
pub(super) type Changes = Vec<(Range<u64>, bool)>;

/// The pages of `$Bitmap` that are not in memory.
#[derive(Default)]
pub(super) struct Away {
    pages: BTreeMap<u64, Summary>,
    /// The changes of each page since its words were dropped from memory.
    changes: BTreeMap<u64, Changes>,
}

impl Away {
    /// Whether no page is away.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    /// The number of free clusters in all these pages when they were sent away.
    pub(super) fn free(&self) -> u64 {
        self.pages.values().map(|summary| u64::from(summary.free)).sum()
    }

    /// The summary of a page, if it is away.
    pub(super) fn get(&self, page: u64) -> Option<Summary> {
        self.pages.get(&page).copied()
    }

    /// The first cluster of a range that is in a page which is away; the range's end if there is none.
    pub(super) fn next(&self, range: Range<u64>) -> u64 {
        let page = self.pages.range(range.start / PAGE..).next();
        page.map_or(range.end, |(page, _)| (page * PAGE).clamp(range.start, range.end))
    }

    /// Keeps only the summary of a page whose bits are as `$Bitmap` on the device has them.
    pub(super) fn send(&mut self, page: u64, words: &Words) {
        let before = self.pages.insert(page, Summary::of(words));
        debug_assert!(before.is_none(), "a page is sent away once");
        debug_assert!(!self.changes.contains_key(&page), "changes of a page in memory are in its bits");
    }

    /// Notes a change of bits of one page. Returns `false` if that page is not away.
    pub(super) fn change(&mut self, range: &Range<u64>, taken: bool) -> bool {
        let page = range.start / PAGE;
        if !self.pages.contains_key(&page) {
            return false;
        }
        debug_assert!(range.end <= (page + 1) * PAGE, "a change is of one page");
        self.changes.entry(page).or_default().push((range.clone(), taken));
        true
    }

    /// Brings a page back: its bits as the device has them, and the changes since it was sent away. `None` if it is not
    /// away.
    ///
    /// # Errors
    /// Errors of `read`; the page stays away.
    pub(super) fn bring(&mut self, page: u64, read: &ReadBitmap) -> Result<Option<(Words, Changes)>> {
        if !self.pages.contains_key(&page) {
            return Ok(None);
        }
        let mut bytes = [0; PAGE as usize / 8];
        read(page * PAGE / 8, &mut bytes)?;
        self.pages.remove(&page);
        Ok(Some((whole_page(&bytes), self.changes.remove(&page).unwrap_or_default())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use platter_testing::model::Random;

    #[test]
    fn a_summary_says_what_a_row_of_bits_says() {
        let mut random = Random::new(8);
        for density in [1, 30, 50, 99] {
            let mut bytes = [0; PAGE as usize / 8];
            let mut row = vec![false; PAGE as usize];
            let mut at = 0;
            while at < row.len() {
                let (length, taken) = (1 + random.below(200) as usize, random.chance(density));
                let end = (at + length).min(row.len());
                row[at..end].fill(taken);
                at = end;
            }
            for (at, taken) in row.iter().enumerate() {
                bytes[at / 8] |= u8::from(*taken) << (at % 8);
            }
            let runs: Vec<usize> = row.split(|taken| *taken).map(<[bool]>::len).collect();
            let expected = Summary {
                free: row.iter().filter(|taken| !**taken).count() as u16,
                longest: *runs.iter().max().unwrap() as u16,
                first: runs[0] as u16,
                last: *runs.last().unwrap() as u16,
            };
            assert_eq!(Summary::of(&whole_page(&bytes)), expected);
        }
    }
}

//! A row of bits in memory, of which ranges are set, cleared and looked for.
//!
//! Bits are kept in pages. A page whose bits are all the same takes no memory, and a row and its clone share the pages
//! in which they do not differ: so the memory is that of the parts of a volume where free and taken clusters alternate;
//! `space` keeps only some of these.

use platter_vfs::Result;
use std::ops::Range;
use std::sync::Arc;

/// Words of a page.
const WORDS: usize = 512;
/// Bits of a page.
pub(crate) const PAGE: u64 = WORDS as u64 * 64;

// A page of bits is a page of the bitmap on disk, as the log has it.
const _: () = assert!(PAGE / 8 == 4096);

/// The bits of a page, of which some are 0 and some are 1.
pub(crate) type Words = Arc<[u64; WORDS]>;
/// The number of pages that are read at once.
const TOGETHER: u64 = 256;

// Pages are read from whole sectors.
const _: () = assert!((TOGETHER * PAGE / 8).is_multiple_of(4096));

#[derive(Clone, Debug)]
enum Page {
    /// All bits have this value.
    Fill(bool),
    /// Bits of both values. In the last page, bits past the end are 0.
    Words(Arc<[u64; WORDS]>),
}

impl Page {
    fn of(words: [u64; WORDS]) -> Page {
        match words[0] {
            0 if words.iter().all(|word| *word == 0) => Page::Fill(false),
            u64::MAX if words.iter().all(|word| *word == u64::MAX) => Page::Fill(true),
            _ => Page::Words(Arc::new(words)),
        }
    }

    fn word(&self, index: usize) -> u64 {
        match self {
            Page::Fill(value) => 0u64.wrapping_sub(u64::from(*value)),
            Page::Words(words) => words[index],
        }
    }

    fn words(&mut self) -> &mut [u64; WORDS] {
        if let Page::Fill(_) = self {
            *self = Page::Words(Arc::new([self.word(0); WORDS]));
        }
        match self {
            Page::Words(words) => Arc::make_mut(words),
            Page::Fill(_) => unreachable!("it was made words just now"),
        }
    }
}

/// Bits, all 0 at first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bits {
    pages: Vec<Page>,
    length: u64,
}

/// The words of up to a page of bytes as they are on disk; words past the end of `page` are 0.
fn words(page: &[u8]) -> [u64; WORDS] {
    let mut words = [0; WORDS];
    for (word, bytes) in words.iter_mut().zip(page.chunks(8)) {
        let mut eight = [0; 8];
        eight[..bytes.len()].copy_from_slice(bytes);
        *word = u64::from_le_bytes(eight);
    }
    words
}

/// The words of a whole page as it is on disk.
pub(crate) fn whole_page(bytes: &[u8; WORDS * 8]) -> Words {
    Arc::new(words(bytes))
}

/// A mask of the bits of a word from bit `from` to before bit `to` of the row.
fn mask(from: u64, to: u64) -> u64 {
    let count = to - from;
    debug_assert!((1..=64 - from % 64).contains(&count), "a mask is of one word");
    if count == 64 { !0 } else { ((1u64 << count) - 1) << (from % 64) }
}

impl Bits {
    /// A row of `length` bits.
    #[cfg(test)]
    pub(crate) fn new(length: u64) -> Bits {
        let mut bits = Bits::default();
        bits.grow(length);
        bits
    }

    /// A row of bits from bytes as they are on disk: the lowest bit of each byte first. Bits that `bytes` lacks are
    /// 1.
    pub(crate) fn from_bytes(bytes: &[u8], length: u64) -> Bits {
        let read = |at: u64, buffer: &mut [u8]| {
            let rest = usize::try_from(at).ok().and_then(|at| bytes.get(at..)).unwrap_or(&[]);
            let known = rest.len().min(buffer.len());
            buffer[..known].copy_from_slice(&rest[..known]);
            buffer[known..].fill(0xFF);
            Ok(())
        };
        Bits::read(length, read).unwrap_or_default()
    }

    /// [`Bits::from_bytes`] of bytes that are read piece by piece: `read` fills a buffer with the bytes from an offset
    /// on.
    ///
    /// # Errors
    /// Errors of `read`.
    pub(crate) fn read(length: u64, read: impl FnMut(u64, &mut [u8]) -> Result<()>) -> Result<Bits> {
        Bits::read_some(length, read, |_, _| true)
    }

    /// [`Bits::read`] that keeps only some of the pages with bits of both values: `keeps` is asked for each. All bits
    /// of the others become 1.
    ///
    /// # Errors
    /// Errors of `read`.
    pub(crate) fn read_some(
        length: u64,
        mut read: impl FnMut(u64, &mut [u8]) -> Result<()>,
        mut keeps: impl FnMut(u64, &Words) -> bool,
    ) -> Result<Bits> {
        let mut bits = Bits { pages: Vec::with_capacity(length.div_ceil(PAGE) as usize), length };
        let bytes = length.div_ceil(8);
        let mut buffer = vec![0; bytes.min(TOGETHER * PAGE / 8) as usize];
        let mut at = 0;
        while at < bytes {
            let here = (bytes - at).min(buffer.len() as u64) as usize;
            read(at, &mut buffer[..here])?;
            for page in buffer[..here].chunks(WORDS * 8) {
                let page = match Page::of(words(page)) {
                    Page::Words(words) if !keeps(bits.pages.len() as u64, &words) => Page::Fill(true),
                    page => page,
                };
                bits.pages.push(page);
            }
            at += here as u64;
        }
        bits.mask_tail();
        Ok(bits)
    }

    fn mask_tail(&mut self) {
        let inside = self.length % PAGE;
        if let (Some(last), 1..) = (self.pages.last_mut(), inside)
            && (0..WORDS).any(|index| last.word(index) != 0)
        {
            let words = last.words();
            for (index, word) in words.iter_mut().enumerate() {
                let start = index as u64 * 64;
                match inside.saturating_sub(start) {
                    0 => *word = 0,
                    here @ 1..64 => *word &= mask(0, here),
                    _ => {}
                }
            }
        }
    }

    /// The number of bits.
    pub(crate) fn len(&self) -> u64 {
        self.length
    }

    /// Makes the row longer by bits that are 0.
    pub(crate) fn grow(&mut self, length: u64) {
        self.length = self.length.max(length);
        self.pages.resize(self.length.div_ceil(PAGE) as usize, Page::Fill(false));
    }

    /// Makes the row shorter.
    pub(crate) fn shrink(&mut self, length: u64) {
        self.length = self.length.min(length);
        self.pages.truncate(self.length.div_ceil(PAGE) as usize);
        self.mask_tail();
    }

    /// The bits of a page, if not all are the same.
    pub(crate) fn page(&self, page: u64) -> Option<&Words> {
        match self.pages.get(page as usize) {
            Some(Page::Words(words)) => Some(words),
            _ => None,
        }
    }

    /// Replaces the bits of a page.
    pub(crate) fn put_page(&mut self, page: u64, words: Words) {
        debug_assert!(
            (page + 1) * PAGE <= self.length,
            "the last page, which may reach past the end, is never replaced"
        );
        self.pages[page as usize] = Page::Words(words);
    }

    fn word(&self, at: u64) -> u64 {
        self.pages.get((at / PAGE) as usize).map_or(0, |page| page.word((at % PAGE / 64) as usize))
    }

    /// Whether a bit is 1; a bit past the end is not.
    pub(crate) fn get(&self, at: u64) -> bool {
        self.word(at) >> (at % 64) & 1 != 0
    }

    /// Sets a range, which must be inside the row, to `value`.
    pub(crate) fn put(&mut self, range: Range<u64>, value: bool) {
        let mut at = range.start;
        while at < range.end {
            let page = &mut self.pages[(at / PAGE) as usize];
            let end = (at / PAGE * PAGE + PAGE).min(range.end);
            if end - at == PAGE {
                *page = Page::Fill(value);
            } else if !matches!(page, Page::Fill(fill) if *fill == value) {
                let words = page.words();
                while at < end {
                    let stop = (at / 64 * 64 + 64).min(end);
                    let word = &mut words[(at % PAGE / 64) as usize];
                    match value {
                        true => *word |= mask(at, stop),
                        false => *word &= !mask(at, stop),
                    }
                    at = stop;
                }
            }
            at = end;
        }
    }

    /// How many bits of a range are 1.
    pub(crate) fn ones(&self, range: Range<u64>) -> u64 {
        let mut at = range.start;
        let mut count = 0;
        while at < range.end {
            let page_end = (at / PAGE * PAGE + PAGE).min(range.end);
            if let Page::Fill(value) = self.pages[(at / PAGE) as usize] {
                count += if value { page_end - at } else { 0 };
                at = page_end;
                continue;
            }
            let end = (at / 64 * 64 + 64).min(range.end);
            count += u64::from((self.word(at) & mask(at, end)).count_ones());
            at = end;
        }
        count
    }

    /// The first bit of this value from `from` on and before `to`; `to` if there is none.
    pub(crate) fn next(&self, value: bool, from: u64, to: u64) -> u64 {
        let to = to.min(self.length);
        let mut at = from;
        while at < to {
            match self.pages[(at / PAGE) as usize] {
                Page::Fill(fill) if fill == value => return at,
                Page::Fill(_) => at = at / PAGE * PAGE + PAGE,
                Page::Words(ref words) => {
                    let word = words[(at % PAGE / 64) as usize];
                    let word = if value { word } else { !word } >> (at % 64);
                    if word != 0 {
                        return (at + u64::from(word.trailing_zeros())).min(to);
                    }
                    at = at / 64 * 64 + 64;
                }
            }
        }
        to
    }

    /// The bytes of a part of the row, as they are on disk; bits past the end are 1 if `pad`, else 0.
    pub(crate) fn bytes(&self, from_byte: u64, length: usize, pad: bool) -> Vec<u8> {
        let byte = |at: u64| -> u8 {
            let byte = (self.word(at * 8) >> (at % 8 * 8)) as u8;
            match self.length.saturating_sub(at * 8) {
                inside @ 0..8 if pad => byte | 0xFFu8.checked_shl(inside as u32).unwrap_or(0),
                _ => byte,
            }
        };
        (from_byte..from_byte + length as u64).map(byte).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_set_counted_and_found() {
        let mut bits = Bits::new(1000);
        bits.put(5..200, true);
        bits.put(70..80, false);
        assert_eq!(bits.ones(0..1000), 185);
        assert_eq!(bits.next(false, 5, 1000), 70);
        assert_eq!(bits.next(true, 70, 1000), 80);
        assert_eq!(bits.next(true, 200, 1000), 1000);
        assert_eq!(bits.next(false, 10, 60), 60);
        let bytes = bits.bytes(0, 128, true);
        assert_eq!((bytes[0], bytes[124], bytes[125]), (0xE0, 0, 0xFF));
        assert_eq!(Bits::from_bytes(&bytes, 1000).ones(0..1000), 185);
        assert_eq!(Bits::new(4).bytes(0, 1, true), [0xF0]);
    }

    /// Compares the row with a plain vector of bits, at the borders of words and pages too.
    #[test]
    fn random_ranges_are_as_in_a_plain_row() {
        let mut random = platter_testing::model::Random::new(5);
        for length in [3 * PAGE + 77, 2 * PAGE, 100] {
            let mut bits = Bits::new(length);
            let mut plain = vec![false; length as usize];
            for step in 0..400 {
                let near = [0, PAGE, 2 * PAGE, length][random.below(4) as usize] + random.below(130);
                let from = near.saturating_sub(65).min(length - 1);
                let to = (from + 1 + random.below([3, 70, 2 * PAGE][step % 3])).min(length);
                let value = random.below(2) == 0;
                bits.put(from..to, value);
                plain[from as usize..to as usize].fill(value);
                let row = &plain[from as usize..];
                let next = row.iter().position(|bit| *bit != value).map_or(length, |at| from + at as u64);
                assert_eq!(bits.next(!value, from, length), next);
                let (some, end) = (random.below(length), random.below(length + 1));
                let range = some.min(end)..some.max(end);
                let ones = plain[range.start as usize..range.end as usize].iter().filter(|bit| **bit).count();
                assert_eq!(bits.ones(range), ones as u64);
                let again = Bits::from_bytes(&bits.bytes(0, length.div_ceil(8) as usize, true), length);
                assert!(
                    again.bytes(0, length as usize / 8 + 3, false)
                        == bits.bytes(0, length as usize / 8 + 3, false)
                );
            }
            bits.put(0..length, true);
            bits.shrink(length - 10);
            bits.grow(length + 40);
            assert_eq!(bits.ones(0..length + 40), length - 10);
        }
    }
}

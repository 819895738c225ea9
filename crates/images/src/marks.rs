//! Which sectors of a block are in the file itself.

/// The sectors of a block that the file has; the others are those of the parent, or zeroes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Marks {
    /// All of them.
    All,
    /// Those whose bit is set, of a block of this many sectors.
    Some(Box<[u8]>, BitOrder),
}

/// The order in which the bits of a byte stand for sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BitOrder {
    /// The lowest bit is the first sector: VHDX.
    LowFirst,
    /// The highest bit is the first sector: VHD.
    HighFirst,
}

impl Marks {
    /// The marks of a block of `count` sectors. `bits` has at least as many.
    pub(crate) fn new(bits: &[u8], count: u64, order: BitOrder) -> Marks {
        let marks = Marks::Some(bits.into(), order);
        if (0..count).all(|sector| marks.has(sector)) { Marks::All } else { marks }
    }

    /// Whether a sector of the block is in the file.
    pub(crate) fn has(&self, sector: u64) -> bool {
        let Marks::Some(bits, order) = self else { return true };
        let byte = bits.get((sector / 8) as usize).copied().unwrap_or(0);
        let bit = match order {
            BitOrder::LowFirst => sector % 8,
            BitOrder::HighFirst => 7 - sector % 8,
        };
        byte >> bit & 1 == 1
    }

    /// How many sectors from this one on are all in the file, or all not, up to `end`; and whether they are.
    pub(crate) fn run(&self, sector: u64, end: u64) -> (bool, u64) {
        let has = self.has(sector);
        match self {
            Marks::All => (true, end - sector),
            Marks::Some(..) => {
                let length = (sector..end).take_while(|&next| self.has(next) == has).count();
                (has, length as u64)
            }
        }
    }

    /// The bytes of memory that the marks take.
    pub(crate) fn memory(&self) -> usize {
        match self {
            Marks::All => 0,
            Marks::Some(bits, _) => bits.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_counted_from_the_end_that_the_format_says() {
        let low = Marks::new(&[0b0000_0111, 0], 16, BitOrder::LowFirst);
        let high = Marks::new(&[0b0000_0111, 0], 16, BitOrder::HighFirst);
        assert_eq!((low.run(0, 16), low.run(3, 16)), ((true, 3), (false, 13)));
        assert_eq!((high.run(0, 16), high.run(5, 16), high.run(8, 16)), ((false, 5), (true, 3), (false, 8)));
        assert_eq!(Marks::new(&[0x7F], 7, BitOrder::LowFirst), Marks::All);
        assert_eq!(Marks::new(&[], 8, BitOrder::LowFirst).run(0, 8), (false, 8));
    }
}

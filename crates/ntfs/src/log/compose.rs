//! The ring of record pages, and how records are laid into it.

use crate::layout::log::{
    FIRST_PAGE, LEAST_PAGES, Operation, PAGE, PAGE_DATA, RECORD_HEADER, RecordHeader, RecordPage, RestartPage,
};

/// The ring in a log of this size, which determines how an LSN is divided into turn and place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ring {
    bytes: u64,
}

/// A page of the ring in one of the ring's turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spot {
    pub page: u64,
    pub turn: u64,
}

impl Ring {
    /// Whether a log of this size can be used; the reason if not.
    pub(super) fn check(bytes: u64) -> Result<(), String> {
        // NTFS does not take more than 4 GiB; an offset would not fit into an LSN next to the turn.
        if (LEAST_PAGES * PAGE as u64..=1 << 32).contains(&bytes) {
            return Ok(());
        }
        Err(format!("the log has {bytes} bytes, which is not from {} to 4 GiB", LEAST_PAGES * PAGE as u64))
    }

    pub(super) fn new(bytes: u64) -> Ring {
        Ring { bytes }
    }

    /// Pages of the log, the first [`FIRST_PAGE`] included.
    pub(super) fn pages(self) -> u64 {
        self.bytes / PAGE as u64
    }

    /// The number of lower bits of an LSN, which hold the place of its record in the ring.
    fn place_bits(self) -> u32 {
        64 - RestartPage::sequence_bits(self.bytes)
    }

    pub(super) fn lsn(self, spot: Spot, at: usize) -> u64 {
        spot.turn << self.place_bits() | (spot.page * PAGE as u64 + at as u64) >> 3
    }

    /// How many turns an LSN can number, less a margin for those that one session may begin.
    pub(super) fn turns(self) -> u64 {
        (u64::MAX >> self.place_bits()) - (1 << 20)
    }

    /// The turn that an LSN belongs to.
    pub(super) fn turn(self, lsn: u64) -> u64 {
        lsn >> self.place_bits()
    }

    /// The byte offset in the log of the record with an LSN.
    pub(super) fn offset(self, lsn: u64) -> u64 {
        (lsn & ((1 << self.place_bits()) - 1)) << 3
    }

    pub(super) fn spot(self, lsn: u64) -> Spot {
        Spot { page: self.offset(lsn) / PAGE as u64, turn: self.turn(lsn) }
    }

    pub(super) fn after(self, spot: Spot) -> Spot {
        if spot.page + 1 < self.pages() {
            Spot { page: spot.page + 1, turn: spot.turn }
        } else {
            Spot { page: FIRST_PAGE, turn: spot.turn + 1 }
        }
    }

    /// The number of pages from one spot to a later one.
    pub(super) fn distance(self, from: Spot, to: Spot) -> u64 {
        let turns = to.turn.saturating_sub(from.turn);
        (to.page + turns * (self.pages() - FIRST_PAGE)).saturating_sub(from.page)
    }
}

/// The number of a page in the log, and the page as it is written.
pub(super) type Sealed = (u64, Box<[u8; PAGE]>);

/// Lays records into pages, from the beginning of a page on.
pub(super) struct Composer {
    ring: Ring,
    pages: Vec<Page>,
    at: usize,
    /// The LSN of the transaction's last record.
    previous: u64,
}

struct Page {
    spot: Spot,
    header: RecordPage,
    bytes: Box<[u8; PAGE]>,
}

impl Page {
    fn new(spot: Spot) -> Page {
        Page { spot, header: RecordPage::default(), bytes: Box::new([0; PAGE]) }
    }
}

impl Composer {
    pub(super) fn new(ring: Ring, spot: Spot) -> Composer {
        Composer { ring, pages: vec![Page::new(spot)], at: PAGE_DATA, previous: 0 }
    }

    /// The LSN that the next record gets.
    pub(super) fn next(&mut self) -> u64 {
        if PAGE - self.at < RECORD_HEADER {
            self.turn_page();
        }
        self.pages.last().map_or(0, |page| self.ring.lsn(page.spot, self.at))
    }

    fn turn_page(&mut self) {
        if let Some(page) = self.pages.last() {
            self.pages.push(Page::new(self.ring.after(page.spot)));
        }
        self.at = PAGE_DATA;
    }

    /// Adds an operation of a transaction, and returns its LSN.
    pub(super) fn step(&mut self, transaction: u32, operation: &Operation) -> u64 {
        let header = RecordHeader {
            previous: self.previous,
            undo_next: self.previous,
            kind: RecordHeader::OPERATION,
            transaction,
            flags: operation.flags(),
            ..RecordHeader::default()
        };
        let lsn = self.push(header, &operation.to_bytes());
        self.previous = lsn;
        lsn
    }

    /// Adds a record, and returns its LSN. `header` has all fields but the LSN and the length.
    pub(super) fn push(&mut self, header: RecordHeader, data: &[u8]) -> u64 {
        let lsn = self.next();
        let goes_on = data.len() > PAGE - self.at - RECORD_HEADER;
        let flags = header.flags | if goes_on { RecordHeader::GOES_ON } else { 0 };
        let header = RecordHeader { lsn, length: data.len() as u32, flags, ..header };
        self.lay(lsn, &header.to_bytes());
        let mut rest = data;
        loop {
            let (now, later) = rest.split_at(rest.len().min(PAGE - self.at));
            self.lay(lsn, now);
            rest = later;
            if rest.is_empty() {
                break;
            }
            self.turn_page();
        }
        self.at = self.at.next_multiple_of(8).min(PAGE);
        if let Some(page) = self.pages.last_mut() {
            page.header.last_end = lsn;
            page.header.next = self.at as u16;
        }
        lsn
    }

    /// Copies bytes into the current page, which has room for them.
    fn lay(&mut self, lsn: u64, bytes: &[u8]) {
        if let Some(page) = self.pages.last_mut() {
            page.bytes[self.at..self.at + bytes.len()].copy_from_slice(bytes);
            if page.header.next == 0 {
                page.header.next = self.at as u16;
            }
            page.header.last = lsn;
        }
        self.at += bytes.len();
    }

    /// The finished pages with their numbers, and the spot where the next group begins.
    pub(super) fn finish(self) -> (Vec<Sealed>, Spot) {
        let next =
            self.pages.last().map_or(Spot { page: FIRST_PAGE, turn: 0 }, |page| self.ring.after(page.spot));
        let seal = |mut page: Page| {
            page.header.seal(&mut page.bytes, page.spot.turn as u16);
            (page.spot.page, page.bytes)
        };
        (self.pages.into_iter().map(seal).collect(), next)
    }
}

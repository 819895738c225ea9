//! Reading the log of a volume that is opened.

use super::compose::{Ring, Spot};
use super::{LogPlace, LogState, Replay};
use crate::layout::log::{
    Operation, PAGE, PAGE_DATA, RECORD_HEADER, RecordHeader, RecordPage, RestartPage, RestartRecord,
    TAIL_PAGES,
};
use platter_device::Device;
use platter_vfs::{Error, Result};
use std::cell::RefCell;

/// Bytes that a replay may write beyond the length of the log: records are logged without their unused part.
const MOST: u64 = 128 << 20;

/// Returns the restart page with the later LSN, if one is whole, and the volume's state. `bytes` is the log's length in
/// whole pages.
pub(super) fn state(
    device: &dyn Device,
    place: &LogPlace,
    bytes: u64,
) -> Result<(Option<RestartPage>, LogState)> {
    let mut best: Option<RestartPage> = None;
    let mut damage = None;
    let mut blank = true;
    for copy in 0..2 {
        let mut page = [0; PAGE];
        place.read(device, copy * PAGE as u64, &mut page)?;
        blank &= page.iter().all(|&byte| byte == 0xFF) || page.iter().all(|&byte| byte == 0);
        match RestartPage::from_bytes(&page, copy * PAGE as u64) {
            Ok(page) if best.as_ref().is_none_or(|best| best.current < page.current) => best = Some(page),
            Ok(_) => {}
            Err(error) => damage = Some(error),
        }
    }
    let Some(page) = best else {
        let reason = damage.map_or_else(String::new, |error| error.to_string());
        return Ok((None, if blank { LogState::Clean } else { LogState::Foreign(reason) }));
    };
    if !page.in_use || page.flags & RestartPage::CLEAN != 0 {
        return Ok((Some(page), LogState::Clean));
    }
    let foreign = |reason: String| LogState::Foreign(format!("the volume was not closed, and {reason}"));
    let state = if page.version != (1, 1) {
        let (major, minor) = page.version;
        foreign(format!("its log is of version {major}.{minor}, which only Windows replays"))
    } else if page.file_size != bytes {
        foreign(format!("its log says that it has {} bytes, not {bytes}", page.file_size))
    } else {
        match collect(&Reader::new(device, place, Ring::new(bytes))?, &page)? {
            Ok(replay) => LogState::Unclean(replay),
            Err(reason) => foreign(reason),
        }
    };
    Ok((Some(page), state))
}

/// Collects the operations since the last restart record; the reason if they cannot all be replayed here.
fn collect(reader: &Reader, page: &RestartPage) -> Result<std::result::Result<Replay, String>> {
    let Some((header, data)) = reader.record(page.restart)? else {
        return Ok(Err("the log's restart record is not whole".into()));
    };
    let restart = RestartRecord::from_bytes(&data).filter(|_| header.kind == RecordHeader::RESTART);
    let Some(restart) = restart else { return Ok(Err("the log's restart record is none".into())) };
    if restart.tables != [0; 4] || restart.major != 1 {
        return Ok(Err("its log was written by Windows, which alone can replay it".into()));
    }
    let mut replay = Replay::new(reader.place.cluster, reader.place.record, page.current.max(page.restart));
    let Some((mut header, _)) = reader.record(restart.start)? else {
        return Ok(Err("the record where the log's replay begins is not whole".into()));
    };
    // The loop ends: each LSN must be greater than the one before, and the ring has an end.
    while let Some(next) = reader.next(&header)?
        && let Some((record, data)) = reader.record(next)?
        && next > header.lsn
    {
        header = record;
        if header.kind == RecordHeader::RESTART {
            continue;
        }
        let Some(operation) = Operation::from_bytes(&data) else {
            return Ok(Err(format!("its log's record {next:#x} contradicts itself")));
        };
        if let Err(reason) = replay.add(&header, operation) {
            return Ok(Err(reason));
        }
        if replay.len() > reader.ring.pages() * PAGE as u64 + MOST {
            return Ok(Err("its log holds more than there is room for".into()));
        }
    }
    replay.ends_before(reader.ring.after(reader.end(&header).0).page);
    Ok(Ok(replay))
}

/// Pages that are read at once, as records are read one after the other.
const AHEAD: u64 = 16;

struct Reader<'a> {
    device: &'a dyn Device,
    place: &'a LogPlace,
    ring: Ring,
    /// The copies of pages of the ring that the log's tail pages hold.
    tails: Vec<Tail>,
    /// The pages read last, as they are on the device: the number of the first, and their bytes.
    window: RefCell<(u64, Vec<u8>)>,
}

/// A copy of a page of the ring, and the number of that page.
///
/// The log file service writes such a copy before it writes a page anew that has records already. So the copy can hold
/// records that the page does not, because it was not written, or not as a whole, before the power failed.
struct Tail(u64, RecordPage, Box<[u8; PAGE]>);

impl<'a> Reader<'a> {
    fn new(device: &'a dyn Device, place: &'a LogPlace, ring: Ring) -> Result<Reader<'a>> {
        let mut tails = Vec::new();
        for number in TAIL_PAGES {
            let mut page = Box::new([0; PAGE]);
            place.read(device, number * PAGE as u64, &mut page[..])?;
            // A tail page without such a copy is passed over: tail pages are in use only now and then.
            let copied = RecordPage::open(&mut page, number * PAGE as u64).ok().and_then(RecordPage::copied);
            if let Some((number, header)) = copied.filter(|(number, _)| *number < ring.pages()) {
                tails.push(Tail(number, header, page));
            }
        }
        Ok(Reader { device, place, ring, tails, window: RefCell::default() })
    }

    /// A page of the ring, or its copy if that has later records; `None` if neither is whole.
    fn page(&self, number: u64) -> Result<Option<(RecordPage, Box<[u8; PAGE]>)>> {
        let page = self.page_in_place(number)?;
        let last = page.as_ref().map_or(0, |(header, _)| header.last_end);
        let copies = self.tails.iter().filter(|Tail(of, header, _)| *of == number && header.last_end > last);
        match copies.max_by_key(|Tail(_, header, _)| header.last_end) {
            Some(Tail(_, header, bytes)) => Ok(Some((*header, bytes.clone()))),
            None => Ok(page),
        }
    }

    /// A page of the ring as it is in its place; `None` if it is not whole.
    fn page_in_place(&self, number: u64) -> Result<Option<(RecordPage, Box<[u8; PAGE]>)>> {
        if number >= self.ring.pages() {
            return Ok(None);
        }
        let mut window = self.window.borrow_mut();
        let is_known = (window.0..window.0 + (window.1.len() / PAGE) as u64).contains(&number);
        if !is_known {
            let count = AHEAD.min(self.ring.pages() - number);
            let mut bytes = vec![0; count as usize * PAGE];
            self.place.read(self.device, number * PAGE as u64, &mut bytes)?;
            *window = (number, bytes);
        }
        let at = (number - window.0) as usize * PAGE;
        let mut page = Box::new([0; PAGE]);
        page.copy_from_slice(&window.1[at..at + PAGE]);
        match RecordPage::open(&mut page, number * PAGE as u64) {
            Ok(header) => Ok(Some((header, page))),
            Err(Error::Damaged(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The record of this LSN; `None` if the log ends before it.
    fn record(&self, lsn: u64) -> Result<Option<(RecordHeader, Vec<u8>)>> {
        let mut spot = self.ring.spot(lsn);
        let mut at = (self.ring.offset(lsn) % PAGE as u64) as usize;
        if spot.page < crate::layout::log::FIRST_PAGE || at < PAGE_DATA || at + RECORD_HEADER > PAGE {
            return Ok(None);
        }
        let Some((page, mut bytes)) = self.page(spot.page)? else { return Ok(None) };
        let Some(header) = bytes[at..].first_chunk().map(RecordHeader::from_bytes) else { return Ok(None) };
        let most = (self.ring.pages() - crate::layout::log::FIRST_PAGE) * (PAGE - PAGE_DATA) as u64;
        if page.last < lsn || header.lsn != lsn || u64::from(header.length) > most {
            return Ok(None);
        }
        at += RECORD_HEADER;
        let mut data = Vec::new();
        let mut left = header.length as usize;
        loop {
            let now = left.min(PAGE - at);
            data.extend_from_slice(&bytes[at..at + now]);
            left -= now;
            if left == 0 {
                return Ok(Some((header, data)));
            }
            spot = self.ring.after(spot);
            at = PAGE_DATA;
            match self.page(spot.page)? {
                Some((page, next)) if page.last >= lsn => bytes = next,
                _ => return Ok(None),
            }
        }
    }

    /// The spot where a record ends, and the offset in its page.
    fn end(&self, header: &RecordHeader) -> (Spot, usize) {
        let mut spot = self.ring.spot(header.lsn);
        let mut at = (self.ring.offset(header.lsn) % PAGE as u64) as usize + RECORD_HEADER;
        let mut left = header.length as usize;
        while left > PAGE - at {
            left -= PAGE - at;
            spot = self.ring.after(spot);
            at = PAGE_DATA;
        }
        (spot, (at + left).next_multiple_of(8))
    }

    /// The LSN of the record behind this one; `None` if the log ends.
    fn next(&self, header: &RecordHeader) -> Result<Option<u64>> {
        let (mut spot, mut at) = self.end(header);
        let Some((page, _)) = self.page(spot.page)? else { return Ok(None) };
        // A page need not be full: what follows its last record is in the next one.
        if page.last == header.lsn || at + RECORD_HEADER > PAGE {
            spot = self.ring.after(spot);
            at = PAGE_DATA;
        }
        Ok(Some(self.ring.lsn(spot, at)))
    }
}

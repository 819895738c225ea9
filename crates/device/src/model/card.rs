//! A memory card or stick: flash that is written in large allocation units, of which a few are open at a time. What follows on
//! where an open unit ends is written there at the full rate. Any other write goes to a log of whole pages; when the log is full,
//! the unit that has been in it longest is merged: read, and written anew with what the log has for it.
//!
//! What is not modelled: wear, pauses in which a card tidies up, and how a card chooses the units that it opens by the pattern of
//! earlier writes.

use super::drive::{Action, Answers, Command, Drive};
use super::parameters::Parameters;
use std::collections::{BTreeSet, VecDeque};

/// A card or stick.
pub(super) struct Card {
    /// Bytes of an allocation unit.
    unit: u64,
    /// How many units are open at most.
    most_open: usize,
    /// The open units, the one that was written last at the end: its number, and the byte at which the next write goes on.
    open: VecDeque<(u64, u64)>,
    /// Where the last write ended.
    last: u64,
    page: u64,
    /// Pages that the log holds.
    log: u64,
    /// The pages in the log.
    logged: BTreeSet<u64>,
    /// The units that have pages in the log, in the order in which they got the first one.
    units: VecDeque<u64>,
    read: f64,
    write: f64,
    /// The time of a write to the log.
    random_write: f64,
    read_rate: f64,
    write_rate: f64,
    flush: f64,
    /// When the card is free: it does one thing at a time.
    free: f64,
    reads: u64,
    random_writes: u64,
    merges: u64,
}

impl Card {
    pub(super) fn new(parameters: &Parameters) -> Result<Card, String> {
        let page = parameters.count("page_bytes", Some(16_384.0), 512.0, 1e6)?;
        let unit = (parameters.number("unit_mib", Some(4.0), 0.0625, 1024.0)? * f64::from(1 << 20)) as u64;
        if !unit.is_multiple_of(page) {
            return Err(format!("unit_mib is a whole number of pages of {page} bytes"));
        }
        let log = parameters.number("log_mib", Some(16.0), 0.0, 1e6)? * f64::from(1 << 20);
        Ok(Card {
            unit,
            most_open: parameters.count("open_units", Some(2.0), 1.0, 1024.0)? as usize,
            open: VecDeque::new(),
            last: 0,
            page,
            log: log as u64 / page,
            logged: BTreeSet::new(),
            units: VecDeque::new(),
            read: parameters.time("read_us", 1e3, None)?,
            write: parameters.time("write_us", 1e3, None)?,
            random_write: parameters.time("random_write_us", 1e3, None)?,
            read_rate: parameters.rate("read_mb_s", None)?,
            write_rate: parameters.rate("write_mb_s", None)?,
            flush: parameters.time("flush_us", 1e3, Some(0.0))?,
            free: 0.0,
            reads: 0,
            random_writes: 0,
            merges: 0,
        })
    }

    /// Writes a range of one unit; returns the time that this takes.
    fn write_in(&mut self, unit: u64, offset: u64, length: u64) -> f64 {
        let place = self.open.iter().position(|&(open, _)| open == unit);
        // A unit is opened by a write that goes on where the last one ended, or by a large one at its beginning.
        let begins = offset.is_multiple_of(self.unit) && length >= self.page;
        let goes_on = self.last == offset;
        self.last = offset + length;
        let follows = match place {
            Some(place) => self.open[place].1 == offset,
            None => begins || goes_on,
        };
        if !follows {
            return self.log_write(unit, offset, length);
        }
        if let Some(place) = place {
            self.open.remove(place);
        }
        self.open.push_back((unit, offset + length));
        let mut time = self.write + length as f64 / self.write_rate;
        if self.open.len() > self.most_open {
            let (closed, end) = self.open.pop_front().expect("more than the most");
            // The rest of a unit that is closed early is copied from the old one.
            let rest = (closed + 1) * self.unit - end;
            time += self.copy(rest);
        }
        // What the log held of the unit is outdated where it is written anew.
        let pages: Vec<u64> =
            self.logged.range(offset / self.page..(offset + length) / self.page).copied().collect();
        pages.iter().for_each(|page| {
            self.logged.remove(page);
        });
        time
    }

    /// Writes pages to the log; returns the time that this takes, with that of merges for room.
    fn log_write(&mut self, unit: u64, offset: u64, length: u64) -> f64 {
        let mut time = 0.0;
        for page in offset / self.page..(offset + length).div_ceil(self.page) {
            self.random_writes += 1;
            time += self.random_write;
            self.logged.insert(page);
            if !self.units.contains(&unit) {
                self.units.push_back(unit);
            }
            while self.logged.len() as u64 > self.log {
                time += self.merge();
            }
        }
        time
    }

    /// Merges the unit that has been in the log longest; returns the time.
    fn merge(&mut self) -> f64 {
        let Some(unit) = self.units.pop_front() else {
            self.logged.clear();
            return 0.0;
        };
        let pages = self.unit / self.page;
        let held: Vec<u64> = self.logged.range(unit * pages..(unit + 1) * pages).copied().collect();
        if held.is_empty() {
            return 0.0;
        }
        held.iter().for_each(|page| {
            self.logged.remove(page);
        });
        self.open.retain(|&(open, _)| open != unit);
        self.merges += 1;
        self.copy(self.unit)
    }

    /// The time of a copy inside the card.
    fn copy(&self, bytes: u64) -> f64 {
        bytes as f64 / self.read_rate + bytes as f64 / self.write_rate
    }

    /// Writes a range, unit by unit; returns the time.
    fn write_range(&mut self, offset: u64, length: u64) -> f64 {
        let (mut at, end) = (offset, offset + length);
        let mut time = 0.0;
        while at < end {
            let unit = at / self.unit;
            let part = end.min((unit + 1) * self.unit) - at;
            time += self.write_in(unit, at, part);
            at += part;
        }
        time
    }
}

impl Drive for Card {
    fn accept(&mut self, now: u64, command: Command, answers: &mut Answers) {
        let Command { tag, action, offset, length } = command;
        let time = match action {
            Action::Read => {
                self.reads += 1;
                self.read + length as f64 / self.read_rate
            }
            Action::Write | Action::DurableWrite => self.write_range(offset, length),
            Action::Flush => self.flush,
        };
        self.free = self.free.max(now as f64) + time;
        answers.done.push((self.free as u64, tag));
    }

    fn go_on(&mut self, _now: u64, _answers: &mut Answers) {}

    fn work(&self) -> Vec<(&'static str, f64)> {
        vec![
            ("reads", self.reads as f64),
            ("pages written to the log", self.random_writes as f64),
            ("units merged", self.merges as f64),
        ]
    }
}

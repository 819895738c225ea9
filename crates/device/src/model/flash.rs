//! Flash: dies behind channels, a buffer of writes, and a mapping that lets new data go to whichever die is next.
//!
//! What is not modelled: garbage collection and wear, reads that a program or an erase delays by more than its suspension,
//! and reads that find their data in the buffer.

use super::drive::{Action, Answers, Command, Drive};
use super::parameters::Parameters;
use std::collections::VecDeque;

/// When a die is free again.
#[derive(Clone, Copy, Default)]
struct Die {
    /// For reads, which suspend a program.
    reads: f64,
    /// For programs.
    programs: f64,
}

/// A solid-state disk.
pub(super) struct Flash {
    dies: Vec<Die>,
    channels: Vec<f64>,
    /// The bytes of a page, and those that are programmed at once.
    page: u64,
    unit: u64,
    read: f64,
    program: f64,
    cached_program: f64,
    suspend: f64,
    channel_rate: f64,
    read_firmware: f64,
    write_firmware: f64,
    flush: f64,
    /// Whether what is in the buffer survives a power cut, so that a flush has nothing to wait for.
    is_protected: bool,
    buffer: u64,
    /// Bytes that are programmed fast, as single bits, before the cells take their full number; and how many were.
    cache: u64,
    written: u64,
    /// Bytes in the buffer: when they leave it, and how many.
    leaving: VecDeque<(f64, u64)>,
    held: u64,
    /// Bytes that wait for a whole unit.
    open: u64,
    next: usize,
    /// When the last program ends.
    last: f64,
    reads: u64,
    programs: u64,
    full: f64,
}

impl Flash {
    pub(super) fn new(parameters: &Parameters) -> Result<Flash, String> {
        let dies = parameters.count("dies", None, 1.0, 65_536.0)?;
        let channels = parameters.count("channels", Some(dies as f64), 1.0, 4096.0)?;
        let page = parameters.count("page_bytes", Some(16_384.0), 512.0, 1e9)?;
        let planes = parameters.count("planes", Some(1.0), 1.0, 1024.0)?;
        let program = parameters.time("program_us", 1e3, None)?;
        Ok(Flash {
            dies: vec![Die::default(); dies as usize],
            channels: vec![0.0; channels as usize],
            page,
            unit: page * planes,
            read: parameters.time("read_us", 1e3, None)?,
            program,
            cached_program: parameters.time("slc_program_us", 1e3, Some(program / 1e3))?,
            suspend: parameters.time("suspend_us", 1e3, Some(program / 1e3))?,
            channel_rate: parameters.rate("channel_mb_s", Some(1200.0))?,
            read_firmware: parameters.time("read_firmware_us", 1e3, Some(0.0))?,
            write_firmware: parameters.time("write_firmware_us", 1e3, Some(0.0))?,
            flush: parameters.time("flush_us", 1e3, Some(0.0))?,
            is_protected: parameters.is_on("power_loss_protection", false)?,
            buffer: (parameters.number("buffer_mb", Some(1.0), 1e-3, 1e6)? * 1e6) as u64,
            cache: (parameters.number("slc_gb", Some(0.0), 0.0, 1e6)? * 1e9) as u64,
            written: 0,
            leaving: VecDeque::new(),
            held: 0,
            open: 0,
            next: 0,
            last: 0.0,
            reads: 0,
            programs: 0,
            full: 0.0,
        })
    }

    /// Reads the pages of a range; returns when the last one has come.
    fn read_pages(&mut self, now: f64, offset: u64, length: u64) -> f64 {
        let begin = now + self.read_firmware;
        let mut end = begin;
        for page in offset / self.page..(offset + length).div_ceil(self.page) {
            let bytes = (offset + length).min((page + 1) * self.page) - offset.max(page * self.page);
            let number = spread(page, self.dies.len() as u64);
            let die = &mut self.dies[number];
            let start = begin.max(die.reads).max(die.programs.min(begin + self.suspend));
            die.reads = start + self.read;
            die.programs = die.programs.max(die.reads);
            let channels = self.channels.len();
            let channel = &mut self.channels[number % channels];
            *channel = channel.max(die.reads) + bytes as f64 / self.channel_rate;
            end = end.max(*channel);
            self.reads += 1;
        }
        end
    }

    /// Programs one unit on the next die.
    fn program_unit(&mut self, now: f64, bytes: u64) {
        let number = self.next;
        self.next = (number + 1) % self.dies.len();
        let time = if self.written < self.cache { self.cached_program } else { self.program };
        self.written += bytes;
        let channels = self.channels.len();
        let channel = &mut self.channels[number % channels];
        *channel = channel.max(now) + bytes as f64 / self.channel_rate;
        let die = &mut self.dies[number];
        die.programs = die.programs.max(*channel).max(die.reads) + time;
        self.last = self.last.max(die.programs);
        self.leaving.push_back((die.programs, bytes));
        self.programs += 1;
    }

    /// Takes a write into the buffer; returns when it is there.
    fn buffer(&mut self, now: f64, length: u64) -> f64 {
        let mut time = now + self.write_firmware;
        while let Some(&(left, bytes)) = self.leaving.front()
            && (left <= time || self.held + length > self.buffer)
        {
            self.full += (left - time).max(0.0);
            time = time.max(left);
            self.held -= bytes;
            self.leaving.pop_front();
        }
        self.held += length;
        self.open += length;
        while self.open >= self.unit {
            self.open -= self.unit;
            self.program_unit(time, self.unit);
        }
        time
    }

    /// Programs what waits for a whole unit; returns when all is on the medium.
    fn empty(&mut self, now: f64) -> f64 {
        let rest = std::mem::take(&mut self.open);
        if rest > 0 {
            self.program_unit(now, rest);
        }
        self.last.max(now)
    }
}

/// On which of `count` dies a page is: neighbours on different ones, and no pattern of accesses always on the same.
fn spread(page: u64, count: u64) -> usize {
    let row = (page / count).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
    ((page % count + row) % count) as usize
}

impl Drive for Flash {
    fn accept(&mut self, now: u64, command: Command, answers: &mut Answers) {
        let Command { tag, action, offset, length } = command;
        let now = now as f64;
        let end = match action {
            Action::Read => self.read_pages(now, offset, length),
            Action::Write => self.buffer(now, length),
            Action::DurableWrite if self.is_protected => self.buffer(now, length),
            Action::DurableWrite => {
                let time = self.buffer(now, length);
                self.empty(time)
            }
            Action::Flush if self.is_protected => now + self.flush,
            Action::Flush => self.empty(now) + self.flush,
        };
        answers.done.push((end as u64, tag));
    }

    fn go_on(&mut self, _now: u64, _answers: &mut Answers) {}

    fn work(&self) -> Vec<(&'static str, f64)> {
        vec![
            ("pages read", self.reads as f64),
            ("units programmed", self.programs as f64),
            ("waits for the buffer, s", self.full / 1e9),
        ]
    }
}

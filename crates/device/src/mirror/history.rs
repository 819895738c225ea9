//! The record of a copy of a mirror: which set it belongs to, and which writing sessions it took part in.
//!
//! Every session that writes to a set is an *event* with a random name, which every participating copy records before
//! the first byte changes. Of two copies, the one whose newest event is in the history of the other is older; two
//! copies that each have an event which the other lacks have diverged. A mere counter could not tell these two cases
//! apart.

use super::stamp::{is_counted, is_same};
use std::fmt::Write as _;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::ops::Range;

/// The number of regions of a set, for each of which the record says whether a session wrote to it.
const REGIONS: u64 = 256;

/// The first line of a record.
const TITLE: &str = "platter mirror record 1";

/// The regions of a set that a session has written to: a *write-intent bitmap*.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Intent([u64; 4]);

impl Intent {
    /// The region that contains a byte of a set.
    fn region(offset: u64, length: u64) -> u64 {
        (u128::from(offset) * u128::from(REGIONS) / u128::from(length.max(1))) as u64
    }

    /// Marks the regions of a range in a set of `length` bytes; returns whether any of them was not yet marked.
    pub(super) fn add(&mut self, range: &Range<u64>, length: u64) -> bool {
        let before = *self;
        if !range.is_empty() {
            let last = Intent::region(range.end - 1, length).min(REGIONS - 1);
            for region in Intent::region(range.start, length)..=last {
                self.0[region as usize / 64] |= 1 << (region % 64);
            }
        }
        *self != before
    }

    /// Adds the regions of another bitmap.
    pub(super) fn join(&mut self, other: &Intent) {
        self.0.iter_mut().zip(other.0).for_each(|(one, two)| *one |= two);
    }

    /// The byte ranges of the marked regions in a set of `length` bytes, extended to whole sectors of `sector` bytes.
    pub(super) fn ranges(&self, length: u64, sector: u64) -> Vec<Range<u64>> {
        let edge = |region: u64| (u128::from(region) * u128::from(length) / u128::from(REGIONS)) as u64;
        let is_set = |region: &u64| self.0[*region as usize / 64] >> (region % 64) & 1 == 1;
        let range = |region: u64| {
            edge(region) / sector * sector..edge(region + 1).next_multiple_of(sector).min(length)
        };
        (0..REGIONS).filter(is_set).map(range).filter(|range| !range.is_empty()).collect()
    }
}

/// The state in which a copy was left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CopyState {
    /// It was closed by a mirror: it holds the same as all copies with the same newest event.
    Closed,
    /// A session is writing to it, or was cut off while it did.
    Open,
    /// It was written to outside of any mirror.
    Alone,
}

/// The record of a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct History {
    /// The random identifier of the set.
    pub set: u64,
    /// The length of the set in bytes.
    pub length: u64,
    /// The names of the events, the newest last. Empty while the copy is being rebuilt.
    pub events: Vec<u64>,
    pub state: CopyState,
    /// The regions that the session wrote to, while the state is open.
    pub intent: Intent,
    /// The [stamp](super::record::MirrorRecord::stamp) of the copy when it was closed, after [`History::DAMAGED`] if it
    /// took part although it was damaged. A different stamp now means that it was changed since.
    pub stamp: String,
}

/// A random name for a set or an event.
fn unique() -> u64 {
    // The standard library seeds each `RandomState` from the system's random numbers.
    RandomState::new().build_hasher().finish()
}

impl History {
    /// The first word of the stamp of a copy that took part although it was damaged: until it is rebuilt or found equal
    /// to a good copy, it does not count as good.
    pub(super) const DAMAGED: &str = "damaged";

    /// The most events that are kept. A copy that is further behind is not recognised as older, and counts as diverged.
    const KEPT: usize = 1000;

    /// The largest record in bytes.
    pub(super) const LONGEST: u64 = 64 << 10;

    /// The history of a new set.
    pub(super) fn new(length: u64) -> History {
        let (events, stamp) = (vec![unique()], String::new());
        History { set: unique(), length, events, state: CopyState::Closed, intent: Intent::default(), stamp }
    }

    /// Adds an event with the same new name to all histories.
    pub(super) fn add_event<'h>(histories: impl Iterator<Item = &'h mut History>) {
        let event = unique();
        for history in histories {
            history.events.push(event);
            let surplus = history.events.len().saturating_sub(History::KEPT);
            history.events.drain(..surplus);
        }
    }

    /// Whether the copy took part although it was damaged.
    pub(super) fn is_damaged(&self) -> bool {
        self.stamp.split(' ').next() == Some(History::DAMAGED)
    }

    /// Notes the stamp of the copy, which is being closed.
    pub(super) fn set_stamp(&mut self, stamp: String) {
        self.stamp = if self.is_damaged() { format!("{} {stamp}", History::DAMAGED) } else { stamp };
    }

    /// Whether the copy was written to outside of the mirror since it was closed, now that it has this stamp.
    pub(super) fn is_written_since(&self, stamp: &str) -> bool {
        let closed = match self.is_damaged() {
            // Records of earlier versions have no stamp after the word.
            true => self.stamp.strip_prefix(History::DAMAGED).and_then(|rest| rest.strip_prefix(' ')),
            false => Some(self.stamp.as_str()),
        };
        match self.state {
            CopyState::Alone => true,
            CopyState::Open => false,
            CopyState::Closed => closed.is_some_and(|closed| !is_same(closed, stamp)),
        }
    }

    /// Whether nothing was written to the copy since it was closed, and this is the same device for certain, now that it has
    /// this stamp.
    pub(super) fn is_proven(&self, stamp: &str) -> bool {
        self.state == CopyState::Closed && is_counted(&self.stamp, stamp)
    }

    /// Whether the copy is being rebuilt, or its rebuild was cut off: it holds parts of two contents.
    pub(super) fn is_unfinished(&self) -> bool {
        self.events.is_empty() && self.state != CopyState::Alone
    }

    pub(super) fn newest(&self) -> Option<u64> {
        self.events.last().copied()
    }

    /// Whether the other history contains all events of this one and more.
    pub(super) fn is_behind(&self, other: &History) -> bool {
        match self.newest() {
            None => other.newest().is_some(),
            Some(event) => other.newest() != Some(event) && other.events.contains(&event),
        }
    }

    /// The record as text, with a checksum at its end.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let state = match self.state {
            CopyState::Closed => "closed",
            CopyState::Open => "open",
            CopyState::Alone => "alone",
        };
        let mut text = format!("{TITLE}\nset {:016x}\nlength {}\nevents", self.set, self.length);
        self.events.iter().for_each(|event| write!(text, " {event:016x}").expect("to a string"));
        write!(text, "\nstate {state}\nintent").expect("to a string");
        self.intent.0.iter().for_each(|word| write!(text, " {word:016x}").expect("to a string"));
        writeln!(text, "\nstamp {}", self.stamp.replace('\n', " ")).expect("to a string");
        writeln!(text, "crc32 {:08x}", crc32fast::hash(text.as_bytes())).expect("to a string");
        text.into_bytes()
    }

    /// Reads a record; `None` if it is damaged.
    pub(super) fn parse(bytes: &[u8]) -> Option<History> {
        let text = std::str::from_utf8(bytes).ok()?;
        let (body, crc) = text.split_at_checked(text.rfind("crc32 ")?)?;
        let crc = u32::from_str_radix(crc.strip_prefix("crc32 ")?.trim_end(), 16).ok()?;
        if crc32fast::hash(body.as_bytes()) != crc {
            return None;
        }
        let mut lines = body.lines();
        if lines.next()? != TITLE {
            return None;
        }
        let mut field = |name: &str| lines.next()?.strip_prefix(name)?.strip_prefix(' ').or(Some(""));
        let words = |text: &str| -> Option<Vec<u64>> {
            text.split_whitespace().map(|word| u64::from_str_radix(word, 16).ok()).collect()
        };
        let set = u64::from_str_radix(field("set")?, 16).ok()?;
        let length = field("length")?.parse().ok()?;
        let events = words(field("events")?)?;
        let state = match field("state")? {
            "closed" => CopyState::Closed,
            "open" => CopyState::Open,
            "alone" => CopyState::Alone,
            _ => return None,
        };
        let intent = Intent(words(field("intent")?)?.try_into().ok()?);
        let stamp = field("stamp")?.to_string();
        Some(History { set, length, events, state, intent, stamp })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back_and_damage_is_noticed() {
        let mut history = History::new(1 << 20);
        history.stamp = "file 1 2 3".into();
        history.intent.add(&(4096..8192), 1 << 20);
        for events in [vec![], vec![1], vec![1, u64::MAX]] {
            history.events = events;
            let bytes = history.to_bytes();
            assert_eq!(History::parse(&bytes), Some(history.clone()));
            for at in 0..bytes.len() - 1 {
                let mut damaged = bytes.clone();
                damaged[at] ^= 1;
                assert_eq!(History::parse(&damaged), None, "byte {at}");
                assert_eq!(History::parse(&bytes[..at]), None);
            }
        }
    }

    #[test]
    fn an_older_copy_is_told_from_one_that_went_another_way() {
        let first = History::new(4096);
        let (mut one, mut two) = (first.clone(), first.clone());
        History::add_event([&mut one, &mut two].into_iter());
        assert!(first.is_behind(&one) && !one.is_behind(&two) && !one.is_behind(&first));
        let common = one.clone();
        History::add_event([&mut one].into_iter());
        History::add_event([&mut two].into_iter());
        assert!(common.is_behind(&one) && common.is_behind(&two));
        assert!(!one.is_behind(&two) && !two.is_behind(&one));
        (0..2 * History::KEPT).for_each(|_| History::add_event([&mut one].into_iter()));
        assert_eq!(one.events.len(), History::KEPT);
        assert!(one.to_bytes().len() < History::LONGEST as usize);
    }

    #[test]
    fn an_intent_covers_what_was_written() {
        for length in [512, 4096, 1 << 20, 100_000 * 512] {
            let mut intent = Intent::default();
            assert!(
                intent.add(&(length - 512..length), length) && !intent.add(&(length - 512..length), length)
            );
            let ranges = intent.ranges(length, 512);
            assert!(ranges.iter().any(|range| range.end == length), "{ranges:?}");
            assert!(ranges.iter().all(|range| range.start % 512 == 0));
        }
    }
}

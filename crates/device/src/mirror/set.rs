//! Finds out which copies of a mirror may be used together, and rebuilds the others.

use super::history::{CopyState, History, Intent};
use super::record::MirrorRecord;
use super::session::{Session, close};
use super::{Mirror, bit};
use crate::power::pieces;
use crate::{Device, Error, Result};
use std::cmp::Reverse;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// A candidate for a copy of a mirror.
pub struct MirrorCopy {
    /// The name for messages.
    pub name: String,
    /// The device, or why it cannot be opened.
    pub device: std::result::Result<Arc<dyn Device>, String>,
    /// The record of the copy.
    pub record: Arc<dyn MirrorRecord>,
}

/// The state of a copy relative to its set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It holds the present content of the set.
    Current,
    /// It holds the present content of the set, but for damage that the format tells from good content.
    Damaged,
    /// It is left out because it is outdated, absent, too short or blank; the text is the reason.
    LeftOut(String),
    /// It was changed independently of the other copies; the text says how that was concluded.
    Diverged(String),
}

impl fmt::Display for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Standing::Current => f.write_str("current"),
            Standing::Damaged => {
                f.write_str("damaged: it differs from another copy, and was not written by itself")
            }
            Standing::LeftOut(why) => write!(f, "left out: {why}"),
            Standing::Diverged(why) => write!(f, "diverged: {why}"),
        }
    }
}

/// How much of a volume a copy of a mirror is by itself, from the worst to the best.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Soundness {
    /// No volume is recognised on it.
    NoVolume,
    /// A volume is recognised on it, but does not open.
    Unopened,
    /// Its volume opens, but parts of its first structures are damaged, or were left half written by a power cut.
    Damaged,
    /// Its volume opens, and opening it found no damage.
    Sound,
}

/// The questions about a copy's content that a mirror asks the file systems.
pub trait MirrorJudge: Sync {
    /// Whether the differences between `copy` and `good` are damage that the format notices. Otherwise they count as
    /// written on purpose.
    fn is_damage(&self, copy: &Arc<dyn Device>, good: &Arc<dyn Device>) -> bool;

    /// How much of a volume a copy is by itself, and a number that grows with each change of the volume that is
    /// durable, 0 if its format has none.
    fn soundness(&self, copy: &Arc<dyn Device>) -> (Soundness, u64);

    /// Repairs what is damaged according to checksums on one of the device's copies and good on another. What cannot be
    /// repaired stays as it is; returned is a sentence about each such place, or about some of them if there are many.
    fn mend(&self, device: Arc<dyn Device>) -> Vec<String>;
}

/// The copies of a mirror with their states.
pub struct MirrorSet {
    pub(super) copies: Vec<MirrorCopy>,
    pub(super) histories: Vec<Option<History>>,
    pub(super) standings: Vec<Standing>,
    pub(super) judge: &'static dyn MirrorJudge,
    /// The copy that a rebuild was prepared to copy.
    pub(super) prepared: Option<usize>,
    /// Whether a session was cut off, so that current copies may differ where it wrote.
    pub(super) unclosed: bool,
}

/// Why a copy is left out whose rebuild was cut off.
const BEING_REBUILT: &str = "it was being rebuilt";

/// Why a copy has diverged whose record was found by a name, and does not describe it.
const UNLIKE_ITS_RECORD: &str = "it is not as its record says, which stands under the name of the device: another device \
                                 may have had the name, or the copy was changed by no mirror";

/// Why a copy has diverged that may be another one, whose rebuild was cut off.
const MAYBE_HALF: &str = "a rebuild was cut off, and no record tells for certain which device it was on: they stand under \
                          the names of the devices, which may have changed since";

/// Why a copy has diverged that may be another one, which was written to by itself.
const MAYBE_ALONE: &str = "a copy was written to by itself, and no record tells for certain which device it was: they \
                           stand under the names of the devices, which may have changed since";

/// Why a copy with an older record has diverged, which may be that of another one.
const MAYBE_NEWER: &str = "its record is older than the others' and is of a session that was cut off, and stands under the \
                           name of the device, which may have changed since: it may hold what the others lack";

/// Why a copy has diverged whose record is open, while another copy was closed without it.
const MAYBE_WRITTEN: &str = "the session that wrote to it was cut off, and another copy was closed without it; its record \
                             stands under the name of the device, which may have changed since: it may be the device that \
                             was closed, and have been written to by itself";

/// Why a copy has diverged that may be another one, whose record is lost.
const MAYBE_LOST: &str = "the last session was cut off and a copy has no record, and no record tells for certain which \
                          device it is of: they stand under the names of the devices, which may have changed since";

/// The number of bytes that are compared or copied at a time.
const PIECE: u64 = 1 << 20;

// Copies are compared in whole sectors.
const _: () = assert!(PIECE.is_multiple_of(4096));

impl MirrorSet {
    /// Reads the records of the copies and determines the state of each. Content is read only where the records do not
    /// decide.
    pub fn look(copies: Vec<MirrorCopy>, judge: &'static dyn MirrorJudge) -> MirrorSet {
        let load = |copy: &MirrorCopy| History::parse(&copy.record.load().ok()??);
        let histories: Vec<_> = copies.iter().map(load).collect();
        let standings = copies.iter().map(|_| Standing::Current).collect();
        let mut set = MirrorSet { copies, histories, standings, judge, prepared: None, unclosed: false };
        set.leave_out_unusable();
        set.find_current();
        let is_open =
            |history: &Option<History>| history.as_ref().is_some_and(|one| one.state == CopyState::Open);
        set.unclosed = set.current().into_iter().any(|copy| is_open(&set.histories[copy]));
        set
    }

    /// The state of each copy.
    pub fn standings(&self) -> &[Standing] {
        &self.standings
    }

    /// The names of the copies.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.copies.iter().map(|copy| copy.name.as_str())
    }

    /// Whether any copy has a record. Devices without one were never a mirror, or one that keeps no records.
    pub fn is_recorded(&self) -> bool {
        self.histories.iter().any(Option::is_some)
    }

    /// Whether the last session was cut off.
    pub fn is_unclosed(&self) -> bool {
        self.unclosed
    }

    /// Whether the record of a copy, if it has one, was found by something that belongs to the device itself.
    pub fn is_identified(&self, copy: usize) -> bool {
        self.copies[copy].record.is_identified()
    }

    /// The number of sessions in a copy's record; `None` without a record.
    pub fn events(&self, copy: usize) -> Option<usize> {
        self.histories[copy].as_ref().map(|history| history.events.len())
    }

    /// The length of the set in bytes, by the records, or else that of the shortest copy in use; `None` without any.
    pub fn length(&self) -> Option<u64> {
        let recorded = self.current().into_iter().chain(0..self.copies.len());
        let by_record =
            recorded.filter_map(|copy| self.histories[copy].as_ref()).map(|one| one.length).next();
        let devices = || self.current().into_iter().filter_map(|copy| self.device(copy));
        by_record.or_else(|| devices().map(|device| device.len()).min())
    }

    pub(super) fn current(&self) -> Vec<usize> {
        (0..self.copies.len())
            .filter(|&copy| matches!(self.standings[copy], Standing::Current | Standing::Damaged))
            .collect()
    }

    pub(super) fn device(&self, copy: usize) -> Option<&Arc<dyn Device>> {
        self.copies[copy].device.as_ref().ok()
    }

    fn leave_out_unusable(&mut self) {
        let longest =
            self.copies.iter().filter_map(|copy| copy.device.as_ref().ok()).map(|one| one.len()).max();
        let recorded = self.is_recorded();
        let of_others = self.histories.iter().flatten().map(|history| history.length).max();
        let blank: Vec<bool> = (self.copies.iter())
            .map(|copy| copy.device.as_ref().is_ok_and(|device| begins_blank(&**device)))
            .collect();
        // Devices that are to become a new mirror are all present and blank. A blank one beside others, or beside an
        // absent one, may have held anything, so it is left out.
        let all_blank = blank.iter().all(|&blank| blank);
        for (copy, is_blank) in blank.into_iter().enumerate() {
            let why = match &self.copies[copy].device {
                Err(why) => Some(why.clone()),
                Ok(device) => {
                    let history = self.histories[copy].as_ref();
                    let needed = history.map(|history| history.length).or(of_others);
                    let needed = needed.or(longest.filter(|_| device.is_empty())).unwrap_or(0);
                    if device.len() < needed {
                        Some(format!("it has {} bytes, expected {needed}", device.len()))
                    } else if is_blank && (recorded || !all_blank) {
                        Some("it is blank".to_string())
                    } else if history.is_some_and(History::is_unfinished) {
                        Some(BEING_REBUILT.to_string())
                    } else {
                        None
                    }
                }
            };
            if let Some(why) = why {
                self.standings[copy] = Standing::LeftOut(why);
            }
        }
    }

    fn find_current(&mut self) {
        if self.current().into_iter().all(|copy| self.histories[copy].is_none()) {
            self.compare_all();
            return self.doubt_names(&[], &[], &[]);
        }
        let diverged = |why: &str| Standing::Diverged(why.to_string());
        let recorded: Vec<usize> =
            self.current().into_iter().filter(|&copy| self.histories[copy].is_some()).collect();
        let history = |copy: usize| self.histories[copy].as_ref().expect("only recorded ones");
        // Of a block device this reads its ends, and what every writer of a volume changes.
        let written: Vec<bool> = (0..self.copies.len()).map(|copy| self.is_written_since(copy)).collect();
        let is_changed = |copy: usize| written[copy] || self.was_damaged(copy);
        let mut standings = self.standings.clone();
        if recorded.iter().any(|&copy| history(copy).set != history(recorded[0]).set) {
            for copy in self.current() {
                standings[copy] = diverged("the records are those of several mirrors");
            }
            self.standings = standings;
            return;
        }
        let behind = |copy: usize| recorded.iter().any(|&other| history(copy).is_behind(history(other)));
        let (old, newest): (Vec<usize>, Vec<usize>) = recorded.iter().partition(|&&copy| behind(copy));
        for copy in old {
            standings[copy] = if written[copy] {
                diverged("it was written to by itself, and the others without it")
            } else {
                Standing::LeftOut("it is older than the others".to_string())
            };
        }
        if newest.iter().any(|&copy| history(copy).newest() != history(newest[0]).newest()) {
            for &copy in &newest {
                standings[copy] = diverged("it was written to without another copy, and that without it");
            }
            self.standings = standings;
            return;
        }
        // A copy that was not changed since it was closed is right, and copies that differ from it are not.
        let good = newest.iter().copied().find(|&copy| !is_changed(copy)).or(newest.first().copied());
        let unknown = self.current().into_iter().filter(|&copy| self.histories[copy].is_none());
        let suspects: Vec<usize> =
            newest.iter().copied().filter(|&copy| is_changed(copy)).chain(unknown).collect();
        for copy in suspects {
            let Some(good) = good.filter(|&good| good != copy) else { continue };
            let (Some(one), Some(two)) = (self.device(copy), self.device(good)) else { continue };
            let is_alone = history_state(&self.histories[copy]) == Some(CopyState::Alone);
            let is_open = history_state(&self.histories[copy]) == Some(CopyState::Open);
            // If the supposedly good copy was itself changed since the mirror was closed, it proves nothing about the
            // mirror's content.
            let is_proven = !written[good];
            // A damaged copy that was written to since may hold what no other has, and counts as any other one then.
            let was_damaged = self.was_damaged(copy) && !written[copy];
            standings[copy] = if was_damaged && is_open && is_proven {
                // The cut-off session makes the two differ where it wrote, so comparing them would decide nothing.
                Standing::Damaged
            } else if !is_alone && are_alike(&**one, &**two, 0..history(good).length) {
                Standing::Current
            } else if is_alone {
                diverged("it was written to by itself")
            } else if was_damaged && !is_proven {
                Standing::LeftOut("it is damaged, and another was written to without it".to_string())
            } else if was_damaged || is_proven && self.is_damage(copy, good) {
                Standing::Damaged
            } else {
                diverged("it was changed since the mirror was closed, by no mirror")
            };
            // Neither copy is proven to be the good one.
            if is_changed(good) && matches!(standings[copy], Standing::Diverged(_)) {
                standings[good] = diverged("it was changed since the mirror was closed, by no mirror");
            }
        }
        // Without a good copy to compare with, another copy counts as current if none contradicts it.
        self.standings = standings;
        self.doubt_names(&recorded, &newest, &written);
    }

    /// Takes back what only records under names tell, where these may stand for other devices than they are of: the system
    /// gives such names to devices in turn. `newest` are those of the recorded copies that are not older than others, and
    /// `written` says of every copy whether it was written to since a mirror closed it.
    fn doubt_names(&mut self, recorded: &[usize], newest: &[usize], written: &[bool]) {
        let history = |copy: usize| self.histories[copy].as_ref().expect("only recorded ones");
        let is_open = |copy: usize| history(copy).state == CopyState::Open;
        let stands_by_name = |copy: usize| self.histories[copy].is_some() && !self.is_identified(copy);
        let by_name = || (0..self.copies.len()).filter(|&copy| stands_by_name(copy));
        let now = |copy: usize| self.copies[copy].record.stamp().unwrap_or_default();
        let is_proven = |copy: usize| history(copy).is_proven(&now(copy));
        let is_half = |copy: usize| self.histories[copy].as_ref().is_some_and(History::is_unfinished);
        let was_alone = |copy: usize| history_state(&self.histories[copy]) == Some(CopyState::Alone);
        let mut doubts: Vec<(usize, &str)> = Vec::new();
        // It takes a copy that is as its record says to show that no device has another's name. The record of a copy that
        // took part although it was damaged does not say how it is.
        if newest.iter().all(|&copy| written[copy] || self.was_damaged(copy)) {
            let is_named = |copy: usize| {
                written[copy] && history(copy).state == CopyState::Closed && stands_by_name(copy)
            };
            let named = newest.iter().copied().filter(|&copy| is_named(copy));
            doubts.extend(named.map(|copy| (copy, UNLIKE_ITS_RECORD)));
        }
        // The record of a session that was cut off says nothing of the device's present content, so the device that has
        // an old one may be the newest, also where the record of the newest stands for a device that is away by now.
        let is_behind = |copy: usize| by_name().any(|other| history(copy).is_behind(history(other)));
        let old = recorded.iter().copied().filter(|copy| !newest.contains(copy) || is_behind(*copy));
        let old = old.filter(|&copy| stands_by_name(copy) && is_open(copy));
        doubts.extend(old.map(|copy| (copy, MAYBE_NEWER)));
        // Where a copy was closed and another was not, the open record may stand for the device that was closed. What was
        // written to that since does not show in a record that is open. The record of the one that was closed may stand for
        // a device that is away by now; then the two must not be mixed with a third.
        let is_unsure = |copy: usize| stands_by_name(copy) && !is_open(copy) && !is_proven(copy);
        let is_of_newest = |copy: usize| history(copy).newest() == history(newest[0]).newest();
        let may_be_away = || newest.len() > 1 && by_name().any(|copy| is_of_newest(copy) && is_unsure(copy));
        if newest.iter().any(|&copy| is_unsure(copy)) || may_be_away() {
            let open = newest.iter().copied().filter(|&copy| stands_by_name(copy) && is_open(copy));
            doubts.extend(open.map(|copy| (copy, MAYBE_WRITTEN)));
        }
        // A copy that is half rebuilt, was used by itself or has lost its record may have the record of a good one. It
        // may be away by now.
        let doubt = match () {
            () if by_name().any(is_half) => Some(MAYBE_HALF),
            () if by_name().any(was_alone) => Some(MAYBE_ALONE),
            () if self.histories.iter().any(Option::is_none) => Some(MAYBE_LOST),
            () => None,
        };
        if let Some(doubt) = doubt {
            let is_in_doubt =
                |copy: usize| if doubt == MAYBE_LOST { is_open(copy) } else { !is_proven(copy) };
            let in_doubt = newest.iter().copied().filter(|&copy| stands_by_name(copy) && is_in_doubt(copy));
            doubts.extend(in_doubt.map(|copy| (copy, doubt)));
            // A copy without a record was compared with another. Where it is the only one, nothing speaks for it.
            let is_bare = |copy: &usize| self.histories[*copy].is_none() && !self.is_identified(*copy);
            let bare = self.current().into_iter().filter(|copy| is_bare(copy) && doubt != MAYBE_LOST);
            doubts.extend(bare.map(|copy| (copy, doubt)));
        }
        // A device that stands under the name of one that was being rebuilt may be any that is not where its own record is,
        // and hold what was written to it by itself, also where that no record says.
        if by_name().any(|copy| !is_half(copy) && !is_proven(copy)) {
            let is_left_out =
                |copy: usize| matches!(&self.standings[copy], Standing::LeftOut(why) if why == BEING_REBUILT);
            doubts.extend(by_name().filter(|&copy| is_left_out(copy)).map(|copy| (copy, MAYBE_HALF)));
        }
        for (copy, why) in doubts {
            self.standings[copy] = Standing::Diverged(why.to_string());
        }
    }

    /// Whether the differences between a copy and a good one are damage. A device without a record may be another disk,
    /// of which nothing is recognised since its partition table is lost: a damaged copy still has something in common
    /// with the good one.
    fn is_damage(&self, copy: usize, good: usize) -> bool {
        let (Some(one), Some(two)) = (self.device(copy), self.device(good)) else { return false };
        self.judge.is_damage(one, two) && (self.histories[copy].is_some() || have_in_common(&**one, &**two))
    }

    /// Whether a copy was written to since a mirror closed it, or took part although it was damaged.
    pub(super) fn is_changed(&self, copy: usize) -> bool {
        self.is_written_since(copy) || self.was_damaged(copy)
    }

    /// Whether a copy was written to since a mirror closed it.
    pub(super) fn is_written_since(&self, copy: usize) -> bool {
        let Some(history) = &self.histories[copy] else { return false };
        history.is_written_since(&self.copies[copy].record.stamp().unwrap_or_default())
    }

    /// Whether a copy took part although it was damaged.
    fn was_damaged(&self, copy: usize) -> bool {
        self.histories[copy].as_ref().is_some_and(History::is_damaged)
    }

    /// Compares the copies if none has a record: copies that differ are not known to be of one set.
    fn compare_all(&mut self) {
        let [first, others @ ..] = &self.current()[..] else { return };
        for &copy in others {
            let (Some(one), Some(two)) = (self.device(copy), self.device(*first)) else { continue };
            if are_alike(&**one, &**two, 0..one.len().min(two.len())) {
                continue;
            }
            if self.is_damage(copy, *first) {
                self.standings[copy] = Standing::Damaged;
            } else if self.is_damage(*first, copy) {
                self.standings[*first] = Standing::Damaged;
            } else {
                let why = "no copy has a record, and it differs from another";
                self.standings[copy] = Standing::Diverged(why.to_string());
            }
        }
    }

    /// Refuses a set whose copies have diverged, with an error that lists the choices.
    pub(super) fn refuse_diverged(&self) -> Result<()> {
        let Some(diverged) =
            self.standings.iter().position(|standing| matches!(standing, Standing::Diverged(_)))
        else {
            return Ok(());
        };
        let spell = |names: Vec<&str>| names.join(",");
        let all = spell(self.names().collect());
        let choices: Vec<String> = (0..self.copies.len())
            .filter(|&copy| !matches!(self.standings[copy], Standing::LeftOut(_)))
            .map(|copy| {
                let name = &self.copies[copy].name;
                format!("`platter mirror rebuild mirror:{all} --from {name}` keeps what {name} holds")
            })
            .collect();
        let reason = format!("{}; {}", self.standings[diverged], choices.join(", "));
        Err(Error::Unusable { device: self.copies[diverged].name.as_str().into(), reason })
    }

    /// Opens the set as one device of the usable copies. The others are out of service.
    ///
    /// # Errors
    /// [`Error::Unusable`] if copies have diverged, with the choices that resolve it, or if no copy is usable.
    pub fn open(mut self, to_write: bool) -> Result<Mirror> {
        self.refuse_diverged()?;
        let current = self.current();
        if current.is_empty() {
            let reasons: Vec<String> = (self.copies.iter().zip(&self.standings))
                .map(|(copy, standing)| format!("{} is {standing}", copy.name))
                .collect();
            let all = self.names().collect::<Vec<_>>().join(",");
            let reason = format!("no copy can be used: {}", reasons.join("; "));
            return Err(Error::Unusable { device: format!("mirror:{all}").into(), reason });
        }
        if self.unclosed && to_write {
            self.make_alike()?;
        }
        // Where copies may differ, reads go to a single one, or to those that are not damaged.
        let good = current.iter().copied().filter(|&copy| self.standings[copy] == Standing::Current);
        let mut prefer = good.fold(0, |bits, copy| bits | bit(copy));
        if self.unclosed && !to_write {
            prefer = self.soundest(current.iter().copied()).map_or(0, bit);
        }
        let length = self.length();
        let parts = self.copies.iter().zip(&self.standings).map(|(copy, standing)| match standing {
            Standing::Current | Standing::Damaged => {
                copy.device.clone().map_err(|why| (copy.name.clone(), why))
            }
            Standing::LeftOut(why) | Standing::Diverged(why) => Err((copy.name.clone(), why.clone())),
        });
        let mut mirror = Mirror::of_parts(parts.collect(), length)?;
        mirror.prefer = prefer;
        if to_write {
            let known = current.iter().find_map(|&copy| self.histories[copy].clone());
            // If all records are lost, the copies become a new set.
            let template = known.unwrap_or_else(|| History::new(mirror.len()));
            let takes_part = |copy: usize| {
                // The stamp of the template's copy does not apply to this one.
                let is_damaged = self.standings[copy] == Standing::Damaged;
                let stamp = if is_damaged { History::DAMAGED.to_string() } else { String::new() };
                current.contains(&copy).then(|| History { stamp, ..template.clone() })
            };
            let histories = (0..self.copies.len()).map(takes_part).collect();
            let records = self.copies.iter().map(|copy| copy.record.clone()).collect();
            mirror.session = Some(Session::new(records, histories));
        }
        Ok(mirror)
    }

    /// The copy that is current and the soundest of these by itself; of several, the newest, since a disk can lose a write
    /// that the others have; of several, the first.
    pub(super) fn soundest(&self, copies: impl Iterator<Item = usize>) -> Option<usize> {
        let current = copies.filter(|&copy| self.standings[copy] == Standing::Current);
        let judged = current.filter_map(|copy| Some((copy, self.judge.soundness(self.device(copy)?))));
        // A power cut can leave every copy with half-written structures, so it is not enough to look for one without
        // any: another on which no volume is recognised would then be the source of all.
        judged.min_by_key(|&(copy, soundness)| (Reverse(soundness), copy)).map(|(copy, _)| copy)
    }

    /// Makes the current copies equal where a session that was cut off wrote to them. Each has everything that was
    /// synced, so any may be the source, once its damage, as checksums tell it, is repaired from another.
    pub(super) fn make_alike(&mut self) -> Result<()> {
        let current = self.current();
        let mut intent = Intent::default();
        for history in current.iter().filter_map(|&copy| self.histories[copy].as_ref()) {
            intent.join(&history.intent);
        }
        let Some(length) = self.length() else { return Ok(()) };
        let Some(number) = self.soundest(current.iter().copied()) else { return Ok(()) };
        let Some(source) = self.device(number).cloned() else { return Ok(()) };
        let ranges = intent.ranges(length, u64::from(source.sectors().logical));
        let others = || current.iter().filter(|&&copy| copy != number).filter_map(|&copy| self.device(copy));
        let differs = |target: &Arc<dyn Device>| {
            ranges.iter().any(|range| !are_alike(&*source, &**target, range.clone()))
        };
        if others().any(differs) {
            let parts = [&source].into_iter().chain(others()).map(|device| Ok(device.clone())).collect();
            let mut mirror = Mirror::of_parts(parts, Some(length))?;
            // Reads prefer the source, so its content is what the others get wherever it is not damaged.
            mirror.prefer = bit(0);
            self.judge.mend(Arc::new(mirror));
        }
        for target in others() {
            for range in &ranges {
                copy_over(&*source, &**target, range.clone(), &mut |_| true)?;
            }
            target.flush()?;
        }
        source.flush()?;
        for &copy in &current {
            // A copy in the state `Alone` stays so: copies that are absent now need to learn it.
            if let Some(history) = self.histories[copy].as_mut().filter(|one| one.state == CopyState::Open) {
                close(history, &*self.copies[copy].record);
            }
        }
        self.unclosed = false;
        Ok(())
    }

    /// Makes a new set of devices that were just made equal, whatever set they belonged to before.
    pub fn found(records: &[Arc<dyn MirrorRecord>], length: u64) -> std::io::Result<()> {
        let history = History::new(length);
        for record in records {
            record.save(&History { stamp: record.stamp()?, ..history.clone() }.to_bytes())?;
        }
        Ok(())
    }

    /// Records that the length of a copy is about to change for a rebuild: until that is complete, it is older than
    /// every other.
    pub fn note_unfinished(record: &dyn MirrorRecord) -> std::io::Result<()> {
        if let Some(mut history) = record.load()?.and_then(|bytes| History::parse(&bytes)) {
            (history.events, history.state) = (Vec::new(), CopyState::Open);
            record.save(&history.to_bytes())?;
        }
        Ok(())
    }

    /// Whether a device is a copy of a mirror whose rebuild was cut off, or is under way: its content is that of two
    /// states of the mirror, and looks like a volume all the same.
    ///
    /// # Errors
    /// Those of reading the record.
    pub fn is_unfinished(record: &dyn MirrorRecord) -> std::io::Result<bool> {
        let history = record.load()?.and_then(|bytes| History::parse(&bytes));
        Ok(history.is_some_and(|history| history.is_unfinished()))
    }

    /// Records that a device is about to be written to outside the mirror, if it is a copy of one. Returns whether it
    /// is.
    pub fn note_alone(record: &dyn MirrorRecord) -> std::io::Result<bool> {
        let Some(mut history) = record.load()?.and_then(|bytes| History::parse(&bytes)) else {
            return Ok(false);
        };
        history.state = CopyState::Alone;
        record.save(&history.to_bytes())?;
        Ok(true)
    }
}

fn history_state(history: &Option<History>) -> Option<CopyState> {
    history.as_ref().map(|history| history.state)
}

/// Whether the first MiB of a device, which contains the first structures of every format, reads as zeroes.
pub(super) fn begins_blank(device: &dyn Device) -> bool {
    let mut data = vec![0; PIECE.min(device.len()) as usize];
    device.read_at(0, &mut data).is_ok() && data.iter().all(|&byte| byte == 0)
}

/// Whether two devices hold the same in a range. Parts that cannot be read on either count as equal.
fn are_alike(one: &dyn Device, two: &dyn Device, range: Range<u64>) -> bool {
    let (mut first, mut second) = (vec![0; PIECE as usize], vec![0; PIECE as usize]);
    pieces(range.start, range.end - range.start, PIECE).all(|(at, length)| {
        let (first, second) = (&mut first[..length as usize], &mut second[..length as usize]);
        let at = range.start + at;
        is_hole(one, two, at, length)
            || one.read_at(at, first).and(two.read_at(at, second)).is_err()
            || first == second
    })
}

/// Whether two devices hold the same somewhere, apart from zeroes.
fn have_in_common(one: &dyn Device, two: &dyn Device) -> bool {
    const UNIT: usize = 4096;
    let (mut first, mut second) = (vec![0; PIECE as usize], vec![0; PIECE as usize]);
    let length = one.len().min(two.len());
    pieces(0, length, PIECE).any(|(at, length)| {
        let (first, second) = (&mut first[..length as usize], &mut second[..length as usize]);
        one.next_data(at).max(two.next_data(at)) < at + length
            && one.read_at(at, first).and(two.read_at(at, second)).is_ok()
            && first
                .chunks(UNIT)
                .zip(second.chunks(UNIT))
                .any(|(one, two)| one == two && one.iter().any(|&byte| byte != one[0]))
    })
}

/// Whether a range was never written on either of two devices.
fn is_hole(one: &dyn Device, two: &dyn Device, at: u64, length: u64) -> bool {
    one.next_data(at).min(two.next_data(at)) >= at + length
}

/// Copies a range from `source` to `target`, writing only what differs, until `progress` says false.
pub(super) fn copy_over(
    source: &dyn Device,
    target: &dyn Device,
    range: Range<u64>,
    progress: &mut dyn FnMut(u64) -> bool,
) -> Result<()> {
    let (mut wanted, mut found) = (vec![0; PIECE as usize], vec![0; PIECE as usize]);
    let sector = u64::from(target.sectors().physical.max(source.sectors().logical)).max(4096);
    let stopped = || Error::Stopped { device: target.name().into() };
    for (at, length) in pieces(range.start, range.end - range.start, PIECE) {
        let (wanted, found) = (&mut wanted[..length as usize], &mut found[..length as usize]);
        let at = range.start + at;
        if is_hole(source, target, at, length) {
            progress(length).then_some(()).ok_or_else(stopped)?;
            continue;
        }
        source.read_at(at, wanted)?;
        if target.read_at(at, found).is_err() {
            target.write_at(at, wanted)?;
        } else if wanted != found {
            for (part, size) in pieces(at, length, sector) {
                let part_of = part as usize..(part + size) as usize;
                if wanted[part_of.clone()] != found[part_of.clone()] {
                    target.write_at(at + part, &wanted[part_of])?;
                }
            }
        }
        progress(length).then_some(()).ok_or_else(stopped)?;
    }
    Ok(())
}

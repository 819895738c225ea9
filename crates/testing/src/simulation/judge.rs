//! Judges whether some order of the calls explains what callers saw of the files.
//!
//! Transfers are not atomic: two writes that overlap may be mixed sector by sector. But each byte of a file is a
//! register that calls set and read, and for each byte there must be an order of the calls that explains all reads of
//! it, in which no call comes before one that returned before it began. A byte beyond the end of the file has the value
//! "absent", so that sizes are judged too. Bytes of one sector that the same calls touch are judged together.

use super::history::{Action, Call, History};
use super::moment::Moment;
use super::script::{FILES, FIRST_SIZE, LONGEST};
use std::collections::{BTreeSet, HashSet};
use std::ops::Range;

/// The value of a byte of a file: `None` beyond its end.
type Byte = Option<u8>;

/// The effect of a call on a byte, or what the call sees of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    Becomes(Byte),
    /// An absent byte becomes zero.
    Appears,
    /// A byte that is not absent becomes zero.
    Clears,
    Sees(Byte),
    /// The byte gets the value that it has in this other file.
    Copies(usize),
}

/// A call with its effect on one byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Event {
    /// The file of the byte.
    file: usize,
    began: u64,
    returned: u64,
    effect: Effect,
    /// Whether the effect has certainly happened; otherwise it may have.
    certain: bool,
}

/// The byte with which a file is filled at first.
pub(super) fn first_content(file: usize) -> u8 {
    250 + file as u8
}

/// A power cut.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cut {
    /// The number of the device write during which the power failed.
    pub write: usize,
}

/// Judges everything that was seen of all files while the power was on, including their content at the end (`last`),
/// where it could be read.
pub(super) fn judge_run(history: &History, last: &[Option<Vec<u8>>]) -> Result<(), String> {
    let is_shared = history.calls.iter().any(|call| matches!(call.action, Action::Clone(..)));
    let all: Vec<usize> = (0..last.len()).collect();
    // Each file is judged separately, which is quicker, unless the content of one depends on another by a clone.
    for files in if is_shared { vec![&all[..]] } else { all.chunks(1).collect() } {
        let (mut calls, mut certain) = (Vec::new(), Vec::new());
        for call in history.calls.iter().filter(|call| files.contains(&call.file)) {
            if let (Action::Read(offset, asked, seen), true) = (&call.action, history.copy_failed) {
                for (part, is_early) in parts_of_read(history, call, *offset..offset + asked) {
                    let at = |place: u64| seen.len().min((place - offset) as usize);
                    let seen = seen[at(part.start)..at(part.end)].to_vec();
                    let action = Action::Read(part.start, part.end - part.start, seen);
                    calls.push(Call { action, ..call.clone() });
                    certain.push(!call.failed && !is_early);
                }
                continue;
            }
            calls.push(call.clone());
            certain.push(!call.failed);
            if let (Action::Write(range, _), true) = (&call.action, call.failed) {
                // A failed write may have extended the file, and its range then reads as zeroes.
                for action in [Action::Extend(range.end), Action::Punch(range.clone())] {
                    calls.push(Call { action, ..call.clone() });
                    certain.push(false);
                }
            }
            if history.copy_failed && call.planned && !call.failed {
                calls.push(call.clone());
                certain.push(false);
            }
        }
        for &file in files {
            if let Some(last) = &last[file] {
                calls.push(at_the_end(history, file, last));
                certain.push(true);
            }
        }
        judge(&calls, &certain)?;
    }
    Ok(())
}

/// Splits what a call read from a mirror into parts, each with whether a planned write to it was under way at the same
/// time. If the copy that was read then fails, the next reader gets the content of the other copy, which the write may
/// not have reached yet: what the first one saw proves nothing.
fn parts_of_read(history: &History, read: &Call, range: Range<u64>) -> Vec<(Range<u64>, bool)> {
    let beside: Vec<&Range<u64>> = (history.calls.iter())
        .filter(|call| call.file == read.file && call.planned)
        .filter(|call| call.began.tick <= read.returned.tick && read.began.tick <= call.returned.tick)
        .filter_map(|call| match &call.action {
            Action::Write(range, _) => Some(range),
            _ => None,
        })
        .collect();
    let mut cuts = BTreeSet::from([range.start, range.end]);
    cuts.extend(beside.iter().flat_map(|one| [one.start, one.end]).filter(|cut| range.contains(cut)));
    let cuts: Vec<u64> = cuts.into_iter().collect();
    let is_early = |at: u64| beside.iter().any(|one| one.contains(&at));
    cuts.windows(2).map(|pair| (pair[0]..pair[1], is_early(pair[0]))).collect()
}

/// Judges what a power cut left of a file: everything that a returned sync covers must be there.
pub(super) fn judge_cut(history: &History, file: usize, cut: Cut, left: &[u8]) -> Result<(), String> {
    let is_copied = |call: &Call| call.file == file && matches!(call.action, Action::Clone(..));
    if history.calls.iter().any(is_copied) {
        // The content from which the range was cloned may itself have been lost.
        return Ok(());
    }
    let covered = history.covered(Some(file), cut.write);
    let (mut calls, mut certain) = (Vec::new(), Vec::new());
    for call in history.calls.iter().filter(|call| call.file == file && call.began.writes <= cut.write) {
        if !matches!(call.action, Action::Read(..) | Action::Size(_)) {
            let is_durable = call.durable.is_some_and(|from| from <= cut.write);
            certain.push(!call.failed && (is_durable || call.returned.tick < covered));
            calls.push(call.clone());
            // A write in flight may have extended the file without its data having arrived. After a truncation that is
            // itself lost, the range that was cut off may read as zeroes, because its clusters were free for others.
            let zeroes_to = match &call.action {
                Action::Write(range, _) => range.end,
                Action::Resize(_) => LONGEST * 2,
                _ => continue,
            };
            certain.push(false);
            calls.push(Call { action: Action::Extend(zeroes_to), ..call.clone() });
        }
    }
    calls.push(at_the_end(history, file, left));
    certain.push(true);
    judge(&calls, &certain)
}

fn at_the_end(history: &History, file: usize, content: &[u8]) -> Call {
    let end = Moment { tick: history.ticks + 1, writes: usize::MAX };
    let action = Action::Read(0, LONGEST * 2, content.to_vec());
    Call {
        caller: usize::MAX,
        file,
        action,
        began: end,
        returned: end,
        failed: false,
        planned: false,
        durable: None,
    }
}

fn judge(calls: &[Call], certain: &[bool]) -> Result<(), String> {
    let mut cuts: BTreeSet<u64> = (0..=LONGEST * 2).step_by(512).collect();
    cuts.insert(FIRST_SIZE);
    for call in calls {
        match &call.action {
            Action::Write(range, _) | Action::Punch(range) | Action::Clone(range, _) => {
                cuts.extend([range.start, range.end])
            }
            Action::Resize(size) | Action::Extend(size) | Action::Size(size) => drop(cuts.insert(*size)),
            Action::Read(offset, asked, seen) => {
                cuts.extend([*offset, offset + asked, offset + seen.len() as u64]);
            }
        }
    }
    let cuts: Vec<u64> = cuts.into_iter().collect();
    for pair in cuts.windows(2) {
        judge_bytes(calls, certain, pair[0]..pair[1])?;
    }
    Ok(())
}

/// Judges a range of bytes that all calls affect in the same way.
fn judge_bytes(calls: &[Call], certain: &[bool], bytes: Range<u64>) -> Result<(), String> {
    let at = bytes.start;
    let mut events = Vec::new();
    for (call, &certain) in calls.iter().zip(certain) {
        let effect = match &call.action {
            Action::Write(range, id) if range.contains(&at) => Effect::Becomes(Some(*id)),
            Action::Write(range, _) if at < range.start => Effect::Appears,
            Action::Resize(size) if at >= *size => Effect::Becomes(None),
            Action::Resize(_) => Effect::Appears,
            Action::Punch(range) if range.contains(&at) => Effect::Clears,
            Action::Extend(size) if at < *size => Effect::Appears,
            Action::Clone(range, from) if range.contains(&at) => Effect::Copies(*from),
            Action::Clone(range, _) if at < range.start => Effect::Appears,
            Action::Size(size) if at >= *size => Effect::Sees(None),
            Action::Read(offset, asked, seen) if (*offset..offset + asked).contains(&at) => {
                let from = (at - offset) as usize;
                match seen.get(from..) {
                    None | Some([]) => Effect::Sees(None),
                    Some(rest) => {
                        let rest = &rest[..rest.len().min((bytes.end - at) as usize)];
                        if let Some(other) = rest.iter().position(|byte| *byte != rest[0]) {
                            return Err(format!(
                                "file {}: caller {} saw a torn sector: {} at byte {at} and {} at byte {}",
                                call.file,
                                call.caller,
                                rest[0],
                                rest[other],
                                at + other as u64
                            ));
                        }
                        Effect::Sees(Some(rest[0]))
                    }
                }
            }
            _ => continue,
        };
        let file = call.file;
        events.push(Event { file, began: call.began.tick, returned: call.returned.tick, effect, certain });
    }
    let first = std::array::from_fn(|file| (at < FIRST_SIZE).then(|| first_content(file)));
    if !events.iter().any(|event| matches!(event.effect, Effect::Sees(_)))
        || is_explained(&relevant(&events, first), first)
    {
        return Ok(());
    }
    let mut text =
        format!("no order of the calls explains what was seen of bytes {bytes:?}, at first {first:?}:");
    events.sort_by_key(|event| event.began);
    for event in events {
        let Event { file, began, returned, effect, certain } = event;
        let doubt = if certain { "" } else { " (perhaps)" };
        text += &format!("\n      file {file}, {began:>4} to {returned:>4}: {effect:?}{doubt}");
    }
    // The events do not show the syncs and which calls failed, so the calls are printed too.
    for call in calls {
        if !matches!(call.action, Action::Read(..)) {
            text += &format!(
                "\n    caller {}, file {}, {:>4} to {:>4}{}: {:?}",
                call.caller,
                call.file,
                call.began.tick,
                call.returned.tick,
                if call.failed { " failed" } else { "" },
                call.action
            );
        }
    }
    Err(text)
}

/// Removes events that cannot explain anything, to make the search smaller.
///
/// An uncertain event can be left out unless it can cause a value that was seen: its own value, or a zero where an
/// absent byte becomes zero or a byte is cleared. Values that nobody saw are all replaced by a single one.
fn relevant(events: &[Event], first: [Byte; FILES]) -> Vec<Event> {
    let seen: HashSet<Byte> = (events.iter())
        .filter_map(|event| match event.effect {
            Effect::Sees(value) => Some(value),
            _ => None,
        })
        .collect();
    let is_unseen = |value: &u8| !seen.contains(&Some(*value)) && !first.contains(&Some(*value));
    let unseen = (1..=u8::MAX).find(is_unseen);
    let has = |effect: Effect| events.iter().any(|event| event.effect == effect);
    let zero = seen.contains(&Some(0));
    let (appears, clears) = (zero && has(Effect::Appears), zero && has(Effect::Clears));
    let counts = |event: &&Event| {
        event.certain
            || match event.effect {
                Effect::Becomes(None) => seen.contains(&None) || appears,
                Effect::Becomes(value) => seen.contains(&value) || clears,
                Effect::Appears | Effect::Clears => zero,
                Effect::Sees(_) | Effect::Copies(_) => true,
            }
    };
    let alike = |event: &Event| match event.effect {
        Effect::Becomes(Some(value)) if is_unseen(&value) => {
            Event { effect: Effect::Becomes(unseen), ..*event }
        }
        _ => *event,
    };
    events.iter().filter(counts).map(alike).collect()
}

/// A state of the search: the events done (one bit each), the values after them, and in which files (one bit each) the
/// present value comes from an uncertain event and was not yet read.
type Reached = (u128, [Byte; FILES], u8);

/// Whether an order exists: a search over the sets of events done, with the values after them.
///
/// Uncertain calls make many orders, most of which can be skipped. An order in which such a call changes nothing, or is
/// overwritten before anything depends on it, explains no more than the same order without the call. An event that sees
/// the present value can be done at once. Of two events with the same effect, the one that began and returned first
/// comes first, since otherwise they can be exchanged.
fn is_explained(events: &[Event], first: [Byte; FILES]) -> bool {
    assert!(events.len() <= 128, "{} calls on one byte", events.len());
    let all = |which: &dyn Fn(&Event) -> bool| {
        let which = events.iter().enumerate().filter(|(_, event)| which(event));
        which.fold(0u128, |all, (at, _)| all | 1 << at)
    };
    let certain = all(&|event| event.certain);
    // An uncertain event that returned before this one began, and is not done when this one is, never happened.
    let never: Vec<u128> =
        events.iter().map(|event| all(&|other| !other.certain && other.returned < event.began)).collect();
    let alike: Vec<u128> = (events.iter().enumerate())
        .map(|(at, event)| {
            all(&|other| event.certain && other.certain && is_before(other, event))
                | (events[..at].iter().enumerate())
                    .filter(|(_, other)| event.certain && *other == event)
                    .fold(0, |all, (at, _)| all | 1 << at)
        })
        .collect();
    let mut seen = HashSet::new();
    let mut open: Vec<Reached> = vec![(0, first, 0)];
    while let Some(reached) = open.pop() {
        let (done, values, _) = reached;
        if done & certain == certain {
            return true;
        }
        if !seen.insert(reached) {
            continue;
        }
        // The next event must have begun before the first of the remaining certain events returned.
        let is_left = |at: &usize| done & 1 << at == 0;
        let left = (0..events.len()).filter(is_left);
        let is_next = |at: &usize| alike[*at] & !done == 0;
        let latest = left.clone().filter(|at| events[*at].certain).map(|at| events[at].returned).min();
        let next = left.filter(is_next).filter(|at| events[*at].began <= latest.unwrap_or(u64::MAX));
        let sees_now = |at: &usize| {
            let event = &events[*at];
            event.certain && event.effect == Effect::Sees(values[event.file]) && never[*at] & !done == 0
        };
        match next.clone().find(sees_now) {
            Some(at) => open.extend(after(reached, at, events, &never)),
            None => open.extend(next.filter_map(|at| after(reached, at, events, &never))),
        }
    }
    false
}

/// Whether one event has the same effect as another and is not later.
fn is_before(one: &Event, other: &Event) -> bool {
    (one.file, one.effect) == (other.file, other.effect)
        && one.began <= other.began
        && one.returned <= other.returned
        && one != other
}

/// The state after one more event; `None` if the event cannot or need not happen now.
fn after(
    (done, mut values, mut unseen): Reached,
    at: usize,
    events: &[Event],
    never: &[u128],
) -> Option<Reached> {
    let Event { file, effect, certain, .. } = events[at];
    let (value, bit) = (values[file], 1 << file);
    let (new, depends) = match effect {
        Effect::Becomes(new) => (new, false),
        Effect::Appears => (value.or(Some(0)), true),
        Effect::Clears => (value.map(|_| 0), true),
        Effect::Copies(from) => {
            let new = values[from];
            (new, from == file)
        }
        Effect::Sees(seen) if seen == value => (value, true),
        Effect::Sees(_) => return None,
    };
    if !certain && new == value || !depends && unseen & bit != 0 {
        return None;
    }
    if let Effect::Copies(from) = effect {
        unseen &= !(1 << from);
    }
    unseen = if certain { unseen & !bit } else { unseen | bit };
    values[file] = new;
    Some((done | never[at] | 1 << at, values, unseen))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(began: u64, returned: u64, effect: Effect) -> Event {
        Event { file: 0, began, returned, effect, certain: true }
    }

    #[test]
    fn a_lost_update_has_no_order() {
        let write = |began, returned, id| event(began, returned, Effect::Becomes(Some(id)));
        let sees = |began, returned, id| event(began, returned, Effect::Sees(Some(id)));
        assert!(is_explained(&[write(1, 4, 7), write(2, 3, 8), sees(5, 6, 7)], [Some(0); FILES]));
        assert!(is_explained(&[write(1, 4, 7), write(2, 3, 8), sees(5, 6, 8)], [Some(0); FILES]));
        assert!(!is_explained(&[write(1, 2, 7), write(3, 4, 8), sees(5, 6, 7)], [Some(0); FILES]));
        assert!(!is_explained(&[write(1, 2, 7), sees(3, 4, 0)], [Some(0); FILES]));
        assert!(is_explained(&[write(1, 4, 7), sees(2, 3, 0), sees(5, 6, 7)], [Some(0); FILES]));
        assert!(!is_explained(&[write(1, 9, 7), sees(2, 3, 7), sees(5, 6, 0)], [Some(0); FILES]));
    }

    /// The typical case of a run with a failure: many uncertain writes at the same time, of which one is seen.
    #[test]
    fn many_calls_in_doubt_are_soon_judged() {
        let mut events: Vec<Event> =
            (0..60).map(|id| Event { certain: false, ..event(1, 100, Effect::Becomes(Some(id))) }).collect();
        events.extend((0..20).map(|_| Event { certain: false, ..event(1, 100, Effect::Clears) }));
        let sees = |id| event(50, 60, Effect::Sees(Some(id)));
        assert!(is_explained(&[&events[..], &[sees(7), sees(9), sees(0)]].concat(), [Some(200); FILES]));
        assert!(!is_explained(&[&events[..], &[sees(7), sees(90)]].concat(), [Some(200); FILES]));
    }

    #[test]
    fn what_is_in_doubt_may_be_there_or_not() {
        let perhaps = |began, returned, id| Event {
            certain: false,
            ..event(began, returned, Effect::Becomes(Some(id)))
        };
        let sees = |id| event(9, 9, Effect::Sees(Some(id)));
        assert!(is_explained(&[perhaps(1, 2, 7), perhaps(3, 4, 8), sees(7)], [Some(0); FILES]));
        assert!(is_explained(&[perhaps(1, 2, 7), perhaps(3, 4, 8), sees(0)], [Some(0); FILES]));
        let synced = event(3, 4, Effect::Becomes(Some(8)));
        assert!(
            !is_explained(&[perhaps(1, 2, 7), synced, sees(7)], [Some(0); FILES]),
            "it was written over and synced"
        );
        assert!(
            is_explained(&[perhaps(1, 4, 7), synced, sees(7)], [Some(0); FILES]),
            "they were under way together"
        );
    }
}

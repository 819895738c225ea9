//! Judges whether some order of the calls explains what callers saw of the shared names.
//!
//! Each call on names takes effect at one moment between its begin and its return: during a rename the file is found
//! under the old name or the new one, never under both or neither.

use super::moment::Moment;
use std::collections::HashSet;

/// The number of shared names.
pub(super) const NAMES: usize = 3;

/// The file to which each name leads. Files are identified by their node, which is held to the end.
type Names = [Option<u64>; NAMES];

/// A call on names with its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NameAction {
    /// Created this file; or the name existed.
    Create(usize, Result<u64, Refusal>),
    /// Looked a name up and found this file; or none.
    Lookup(usize, Result<u64, Refusal>),
    /// Removed the name; or there was none.
    Unlink(usize, Result<(), Refusal>),
    /// Renamed a file; with `replace`, a file with the new name is replaced.
    Rename {
        /// The old name.
        from: usize,
        /// The new name.
        to: usize,
        /// Whether a file with the new name is replaced.
        replace: bool,
        /// The answer of the call.
        answer: Result<(), Refusal>,
    },
    /// Gave this file another name.
    Link(u64, usize, Result<(), Refusal>),
}

/// The reason why a call on names failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// No file has this name.
    NotFound,
    /// A file has this name.
    Exists,
    /// Another error: the effect may have happened or not.
    Failed,
}

/// A call on names.
#[derive(Clone, Copy, Debug)]
pub(super) struct NameCall {
    /// The number of the caller.
    pub caller: usize,
    /// What the call did.
    pub action: NameAction,
    /// The moment when the call began.
    pub began: Moment,
    /// The moment when the call returned.
    pub returned: Moment,
}

/// The names after this call; `None` if the call could not have given its answer.
fn apply(action: NameAction, mut names: Names) -> Option<Names> {
    use NameAction::{Create, Link, Lookup, Rename, Unlink};
    let fits = match action {
        Create(name, Ok(file)) if names[name].is_none() => {
            names[name] = Some(file);
            true
        }
        Create(name, Err(Refusal::Exists)) => names[name].is_some(),
        Lookup(name, Ok(file)) => names[name] == Some(file),
        Lookup(name, Err(Refusal::NotFound)) | Unlink(name, Err(Refusal::NotFound)) => names[name].is_none(),
        Unlink(name, Ok(())) => names[name].take().is_some(),
        Link(file, to, Ok(())) if names[to].is_none() && names.contains(&Some(file)) => {
            names[to] = Some(file);
            true
        }
        Link(_, to, Err(Refusal::Exists)) => names[to].is_some(),
        // The file has no name any more.
        Link(file, _, Err(Refusal::NotFound)) => !names.contains(&Some(file)),
        // POSIX: a rename between two names of one file leaves both.
        Rename { from, to, replace: true, answer: Ok(()) }
            if names[from].is_some() && names[from] == names[to] =>
        {
            true
        }
        Rename { from, to, replace, answer: Ok(()) } if names[from].is_some() => {
            let allowed = replace || names[to].is_none() || from == to;
            let file = names[from].take();
            names[to] = file;
            allowed
        }
        Rename { from, answer: Err(Refusal::NotFound), .. } => names[from].is_none(),
        Rename { from, to, replace: false, answer: Err(Refusal::Exists) } => {
            names[from].is_some() && names[to].is_some()
        }
        _ => false,
    };
    fits.then_some(names)
}

/// Judges all calls on the shared names, none of which leads to a file at first.
pub(super) fn judge(calls: &[NameCall]) -> Result<(), String> {
    assert!(calls.len() <= 128, "{} calls on names", calls.len());
    // If a call failed, its effect is unknown, so nothing is judged.
    let failed = |action: NameAction| {
        matches!(
            action,
            NameAction::Create(_, Err(Refusal::Failed))
                | NameAction::Lookup(_, Err(Refusal::Failed))
                | NameAction::Unlink(_, Err(Refusal::Failed))
                | NameAction::Rename { answer: Err(Refusal::Failed), .. }
                | NameAction::Link(_, _, Err(Refusal::Failed))
        )
    };
    if calls.iter().any(|call| failed(call.action)) {
        return Ok(());
    }
    let mut seen = HashSet::new();
    let mut open = vec![(0u128, [None; NAMES])];
    while let Some((done, names)) = open.pop() {
        if done.count_ones() as usize == calls.len() {
            return Ok(());
        }
        if !seen.insert((done, names)) {
            continue;
        }
        let left = || calls.iter().enumerate().filter(|(at, _)| done & 1 << at == 0);
        let latest = left().map(|(_, call)| call.returned.tick).min().unwrap_or(u64::MAX);
        for (at, call) in left().filter(|(_, call)| call.began.tick <= latest) {
            open.extend(apply(call.action, names).map(|names| (done | 1 << at, names)));
        }
    }
    let mut text = "no order of the calls explains what was seen of names:".to_string();
    for call in calls {
        let NameCall { caller, action, began, returned } = call;
        text += &format!("\n    caller {caller} {:>4} to {:>4}: {action:?}", began.tick, returned.tick);
    }
    Err(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(began: u64, returned: u64, action: NameAction) -> NameCall {
        let moment = |tick| Moment { tick, writes: 0 };
        NameCall { caller: 0, action, began: moment(began), returned: moment(returned) }
    }

    #[test]
    fn a_name_that_two_made_has_no_order() {
        let made = |began, returned, file| call(began, returned, NameAction::Create(0, Ok(file)));
        assert!(judge(&[made(1, 4, 7), made(2, 3, 8)]).is_err());
        let gone = call(2, 5, NameAction::Unlink(0, Ok(())));
        judge(&[made(1, 4, 7), gone, made(2, 6, 8)]).unwrap();
        let moved = |began, returned| {
            call(began, returned, NameAction::Rename { from: 0, to: 1, replace: true, answer: Ok(()) })
        };
        let missed =
            |began, returned, name| call(began, returned, NameAction::Lookup(name, Err(Refusal::NotFound)));
        judge(&[made(1, 2, 7), moved(3, 8), missed(4, 5, 1)]).unwrap();
        assert!(
            judge(&[made(1, 2, 7), moved(3, 8), missed(4, 5, 0), missed(6, 7, 1)]).is_err(),
            "under neither name"
        );
    }
}

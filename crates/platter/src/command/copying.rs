//! What commands that copy have in common: the sources that arguments name, and printing how a copy goes.

use crate::command::failure::{Failure, printable, shown};
use crate::command::progress::{Bar, Unit};
use crate::command::volume::{Location, VolumePath, Volumes};
use platter::Access;
use platter::copy::{CopyListener, EntryPath, Loss, Origin, host_name};
use platter_device::host::HostBytes;
use platter_vfs::{Name, Progress};
use std::ffi::OsStr;
use std::fmt;
use std::io::{IsTerminal, Write};
use std::sync::{Mutex, PoisonError};

/// Returns a source and its name. There is no name for a root directory, nor for a path that ends in "." or "..":
/// then the directory's content is copied, not the directory.
pub(super) fn source(
    place: &Location,
    argument: &OsStr,
    volumes: &mut Volumes,
) -> Result<(Origin, Option<Name>), Failure> {
    if argument == "-" {
        let from = Mutex::new(Box::new(std::io::stdin()) as Box<_>);
        return Ok((Origin::Input { name: "standard input".into(), from }, Some(Name::from("-"))));
    }
    let is_separator = |byte: &u8| *byte == b'/' || cfg!(windows) && *byte == b'\\';
    let last = argument.as_bytes().rsplit(is_separator).next().unwrap_or(&[]);
    let is_content = matches!(last, b"." | b"..");
    match place {
        Location::Host(path) => {
            let origin = Origin::of_host(path)?;
            Ok((origin, host_name(path).ok().filter(|_| !is_content)))
        }
        Location::Volume(path) => {
            let system = volumes.volume(&path.image, Access::Read)?;
            let held = path.find(&system)?;
            let name = path.names.last().cloned().filter(|_| !is_content);
            Ok((Origin::Volume(entry_path(path), held), name))
        }
    }
}

/// The path of an argument, as copying takes it.
pub(super) fn entry_path(path: &VolumePath) -> EntryPath {
    EntryPath { volume: shown(&path.image).to_string(), names: path.names.clone() }
}

/// Prints how a copy goes.
pub(super) struct Told {
    bar: Bar,
    losses: Mutex<Losses>,
    /// Whether each file's name is printed, once its copy is durable.
    verbose: bool,
}

impl Told {
    pub(super) fn new(verbose: bool) -> Told {
        Told { bar: Bar::new(Unit::Bytes), losses: Mutex::default(), verbose }
    }

    /// Prints a failure.
    pub(super) fn fail(&self, failure: &Failure) {
        self.bar.say(&format!("platter: {failure}"));
    }

    /// Prints which attributes were not kept.
    pub(super) fn say_losses(&self) {
        let losses = self.losses.lock().unwrap_or_else(PoisonError::into_inner);
        if !losses.is_empty() {
            self.bar.say(&format!("platter: not kept: {losses}"));
        }
    }

    /// Prints names of files that are durable.
    pub(super) fn say_names(&self, names: &[String]) {
        if !self.verbose {
            return;
        }
        // If standard output is closed, only names are lost, so errors are ignored.
        let mut output = std::io::stdout().lock();
        let is_terminal = output.is_terminal();
        let shown = |name: &String| if is_terminal { printable(name) } else { name.clone() };
        let _ = names
            .iter()
            .try_for_each(|name| writeln!(output, "{}", shown(name)))
            .and_then(|()| output.flush());
    }
}

impl Progress for Told {
    fn progress(&self, what: &'static str, done: u64, total: u64) {
        self.bar.progress(what, done, total);
    }

    fn is_stopped(&self) -> bool {
        self.bar.is_stopped()
    }
}

impl CopyListener for Told {
    fn lost(&self, loss: Loss, at: &str) {
        self.losses.lock().unwrap_or_else(PoisonError::into_inner).note(loss, at);
    }

    fn failed(&self, error: &platter::Error) {
        self.fail(&about_one_file(error));
    }

    fn durable(&self, paths: &[String]) {
        self.say_names(paths);
    }
}

/// A failure of one file. Devices name themselves in their errors, and here the file is to be named too.
fn about_one_file(error: &platter::Error) -> Failure {
    use platter::ErrorKind;
    use platter_vfs::Error as SystemError;
    match error.system() {
        Some(device @ SystemError::Device(_)) => Failure::new(error.about(), device),
        None if error.kind() == ErrorKind::IsADirectory => {
            Failure::new(error.about(), "is a directory; use -r to copy it with everything in it")
        }
        _ => match error.to_string().strip_prefix(&format!("{}: ", error.about())) {
            Some(why) => Failure::new(error.about(), why),
            None => Failure::new(error.about(), error),
        },
    }
}

/// What a run lost so far: for each kind, the number of losses and the path of the first one.
#[derive(Default)]
pub(super) struct Losses {
    found: Vec<(Loss, u64, String)>,
}

impl Losses {
    /// Counts one loss, of the file at `at`.
    pub(super) fn note(&mut self, loss: Loss, at: &str) {
        match self.found.iter_mut().find(|(kind, ..)| *kind == loss) {
            Some((_, count, _)) => *count += 1,
            None => self.found.push((loss, 1, at.into())),
        }
    }

    /// Whether nothing was lost.
    pub(super) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }
}

impl fmt::Display for Losses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found =
            Loss::ALL.into_iter().filter_map(|loss| self.found.iter().find(|(kind, ..)| *kind == loss));
        for (number, (loss, count, first)) in found.enumerate() {
            let separator = if number > 0 { "; " } else { "" };
            let (one, several) = loss.words();
            let what = if *count == 1 { one } else { several };
            let of = if *count == 1 { "" } else { "first " };
            write!(f, "{separator}{count} {what} ({of}{first})")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_are_counted_by_kind() {
        let mut losses = Losses::default();
        assert!(losses.is_empty());
        losses.note(Loss::Holes, "a");
        losses.note(Loss::Streams, "b:x");
        losses.note(Loss::Streams, "c:y");
        assert_eq!(losses.to_string(), "2 named streams (first b:x); 1 file's holes (zeroes now) (a)");
    }
}

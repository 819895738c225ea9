//! Copying out: what was chosen, to the path that was typed. Nothing on the host is overwritten.

use super::watch::Watch;
use crate::command::copying::Losses;
use crate::command::failure::{About, Failure};
use crate::command::view::{Part, Shown, View};
use platter::Held;
use platter::copy::{Copy, CopyListener, EntryPath, Loss, Options, Origin, Target, host_name};
use platter_device::{Buffer, show_size};
use platter_vfs::{Name, Progress};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// The most failures that are named one by one.
const MOST_NAMED: usize = 1000;

/// Gathers how a copy goes.
struct Told<'w> {
    watch: &'w Watch,
    failures: Mutex<Vec<String>>,
    losses: Mutex<Losses>,
}

impl Progress for Told<'_> {
    fn progress(&self, what: &'static str, done: u64, total: u64) {
        self.watch.progress(what, done, total);
    }

    fn is_stopped(&self) -> bool {
        self.watch.is_stopped()
    }
}

impl CopyListener for Told<'_> {
    fn lost(&self, loss: Loss, at: &str) {
        self.losses.lock().unwrap_or_else(PoisonError::into_inner).note(loss, at);
    }

    fn failed(&self, error: &platter::Error) {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        if failures.len() < MOST_NAMED {
            failures.push(error.to_string());
        }
    }
}

/// Copies these contents to a path of the host: into it if it is a directory, otherwise under its name. Returns lines of
/// which the last one sums up.
pub(super) fn copy(
    view: &View,
    items: &[(Vec<Name>, Part)],
    typed: &Path,
    watch: &Watch,
) -> Result<Vec<String>, Failure> {
    let (directory, name) = place(typed, items.len())?;
    let told = Told { watch, failures: Mutex::default(), losses: Mutex::default() };
    let mut refused = Vec::new();
    let mut sources = Vec::new();
    let mut parts = Vec::new();
    for (path, part) in items {
        let own = path.last().ok_or_else(|| Failure::new(Shown(path), platter::copy::NAMELESS))?;
        let held = view.part(path, part)?;
        let name = name.clone().unwrap_or_else(|| file_name(own, part));
        match part {
            Part::Main => {
                let copy = directory.join(Target::Host(PathBuf::new()).path(&name));
                let is_there = fs::symlink_metadata(&copy).is_ok_and(|there| !there.is_dir());
                if is_there {
                    refused.push(format!("{}: is there already and is not overwritten", copy.display()));
                } else {
                    let path = EntryPath { volume: String::new(), names: path.clone() };
                    sources.push((Origin::Volume(path, held), name));
                }
            }
            _ => parts.push((held, directory.join(name.to_string()))),
        }
    }
    let total = sources.iter().map(|(source, _)| source.total(true, &told)).sum();
    let options = Options { recursive: true, keeps_what_is_there: true, ..Options::default() };
    let mut copy = Copy::new(options, total, &|_| false, &told);
    let target = Target::Host(directory.clone());
    for (source, name) in sources {
        copy.run(source, &target, Some(&name));
    }
    let outcome = copy.finish();
    let (mut files, mut bytes) = (outcome.copied.files, outcome.copied.bytes);
    for (held, to) in parts {
        match copy_part(&held, &to, watch) {
            Ok(copied) => (files, bytes) = (files + 1, bytes + copied),
            Err(failure) => refused.push(failure.to_string()),
        }
    }
    let mut lines = refused;
    lines.extend(told.failures.into_inner().unwrap_or_else(PoisonError::into_inner));
    let losses = told.losses.into_inner().unwrap_or_else(PoisonError::into_inner);
    if !losses.is_empty() {
        lines.push(format!("not kept: {losses}"));
    }
    let mut last = format!("copied {files} files with {} to {}", show_size(bytes), typed.display());
    if outcome.kept > 0 {
        last += &format!("; {} were there already and are as they were", outcome.kept);
    }
    if lines.iter().any(|line| !line.starts_with("not kept")) {
        last += "; not all of it";
    }
    if outcome.interrupted || watch.is_stopped() {
        last += "; ended before all was copied";
    }
    lines.push(last);
    Ok(lines)
}

/// The directory to copy into, and the name of the copy there if it is to have another one than its own.
fn place(typed: &Path, count: usize) -> Result<(PathBuf, Option<Name>), Failure> {
    let typed = at_home(typed);
    if typed.is_dir() {
        return Ok((typed, None));
    }
    let ends_as_directory = typed.as_os_str().to_string_lossy().ends_with(std::path::is_separator);
    if count > 1 || ends_as_directory {
        fs::create_dir(&typed).about(typed.display())?;
        return Ok((typed, None));
    }
    let above = typed.parent().filter(|above| !above.as_os_str().is_empty());
    Ok((above.unwrap_or(Path::new(".")).to_path_buf(), Some(host_name(&typed)?)))
}

/// A path that begins with ~ is one in the home directory, as in a shell.
fn at_home(typed: &Path) -> PathBuf {
    match (typed.strip_prefix("~"), std::env::home_dir()) {
        (Ok(rest), Some(home)) => home.join(rest),
        _ => typed.to_path_buf(),
    }
}

/// The name of a copy on the host.
fn file_name(own: &Name, part: &Part) -> Name {
    match part {
        Part::Main => own.clone(),
        Part::Stream(part) | Part::Snapshot(part) => Name::from(format!("{own}.{part}").as_str()),
    }
}

/// Copies a stream or the content of a snapshot to a new file. A part of one is not left.
fn copy_part(held: &Held, to: &Path, watch: &Watch) -> Result<u64, Failure> {
    let about = to.display().to_string();
    let size = held.system.attributes(held.node).about(&about)?.size;
    let mut file = File::create_new(to).about(&about)?;
    let copied = write_part(held, size, &mut file, &about, watch);
    if copied.is_err() {
        // The first error is returned.
        let _ = fs::remove_file(to);
    }
    copied
}

fn write_part(held: &Held, size: u64, file: &mut File, to: &str, watch: &Watch) -> Result<u64, Failure> {
    let mut buffer = Buffer::new(1 << 20);
    let mut at = 0;
    loop {
        watch.step("copying", at, size).about(to)?;
        let read = held.system.read(held.node, at, &mut buffer).about(to)?;
        file.write_all(&buffer[..read]).about(to)?;
        at += read as u64;
        if read < buffer.len() {
            return Ok(at);
        }
    }
}

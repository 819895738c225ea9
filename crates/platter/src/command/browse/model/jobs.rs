//! What the model asks for, and what it is told.

use crate::command::browse::watch::Watch;
use crate::command::view::{Details, Listing, Lost, Part, Preview};
use platter::Pattern;
use platter_vfs::Name;
use std::path::PathBuf;
use std::sync::Arc;

/// Something to be done outside of the model.
#[derive(Debug)]
pub(in crate::command::browse) enum Job {
    /// List a directory.
    List(Vec<Name>),
    /// Read what the right half shows of a file or directory.
    Look(Vec<Name>),
    /// Read a window of a content.
    Read { path: Vec<Name>, part: Part, offset: u64 },
    /// Read the facts of the volume.
    Volume,
    /// Begin what takes long.
    Begin(Begin, Arc<Watch>),
}

/// What takes long.
#[derive(Debug)]
pub(in crate::command::browse) enum Begin {
    /// Copy these contents to the path that was typed.
    Copy { items: Vec<(Vec<Name>, Part)>, target: PathBuf },
    /// Check the volume.
    Check,
    /// Look for deleted and damaged files.
    Search,
    /// Copy what was found to a directory: what the patterns choose, or all.
    Recover { directory: PathBuf, patterns: Vec<Pattern> },
}

/// The kinds of what takes long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::command::browse) enum Task {
    Copy,
    Check,
    Search,
    Recovery,
}

impl Task {
    /// What is under way, in a word.
    pub(in crate::command::browse) fn word(self) -> &'static str {
        match self {
            Task::Copy => "copy",
            Task::Check => "check",
            Task::Search => "search",
            Task::Recovery => "recovery",
        }
    }
}

/// How something ended that took long: lines of which the last one sums up, or why it failed.
#[derive(Debug)]
pub(in crate::command::browse) struct TaskEnd {
    pub(in crate::command::browse) task: Task,
    pub(in crate::command::browse) lines: Result<Vec<String>, String>,
    /// Whether it was asked to end before it was complete.
    pub(in crate::command::browse) is_cut_off: bool,
}

/// What the right half shows.
#[derive(Clone, Debug)]
pub(in crate::command::browse) struct Side {
    pub(in crate::command::browse) details: Details,
    /// The beginning of a file's content; the entries of a directory are a count only.
    pub(in crate::command::browse) preview: Option<Result<Preview, String>>,
}

/// What was read or done.
#[derive(Debug)]
pub(in crate::command::browse) enum Answer {
    Listed { place: Vec<Name>, listing: Result<Listing, String> },
    Looked { path: Vec<Name>, side: Result<Side, String> },
    Read { path: Vec<Name>, part: Part, offset: u64, window: Result<Preview, String> },
    Volume(Result<Vec<String>, String>),
    Found(Vec<Lost>),
    Ended(TaskEnd),
}

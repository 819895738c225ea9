//! Listings: of one directory, and of all below it.

use crate::error::{About, Error, ErrorKind, Result};
use crate::node::{DEEPEST, Held};
use crate::shared::Shared;
use platter_vfs::{Attributes, Cursor, Entry, Kind, Name, Node};
use std::collections::hash_map::Entry as Place;
use std::collections::{HashMap, VecDeque};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// One entry of a directory.
#[derive(Clone, Debug)]
pub struct DirEntry {
    path: PathBuf,
    entry: Entry,
}

impl DirEntry {
    /// Its name, exactly as the volume has it.
    pub fn name(&self) -> &Name {
        &self.entry.name
    }

    /// The path of the directory that was listed, with the name behind it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What it leads to, as the directory knows it.
    pub fn metadata(&self) -> &Attributes {
        &self.entry.attributes
    }
}

/// The entries of a directory: see [`Volume::read_dir`](crate::Volume::read_dir).
pub struct ReadDir {
    held: Arc<Held>,
    path: PathBuf,
    read: VecDeque<Entry>,
    /// Where the listing goes on; `None` at its end.
    next: Option<Cursor>,
    /// Keeps the volume open. The node is given back before: fields are dropped in this order.
    _volume: Arc<Shared>,
}

impl ReadDir {
    pub(crate) fn new(volume: &Arc<Shared>, held: Held, path: &Path) -> ReadDir {
        let (path, read) = (path.to_path_buf(), VecDeque::new());
        let held = Arc::new(held);
        ReadDir { held, path, read, next: Some(Cursor::START), _volume: volume.clone() }
    }
}

impl Iterator for ReadDir {
    type Item = Result<DirEntry>;

    fn next(&mut self) -> Option<Result<DirEntry>> {
        const BATCH: usize = 256;
        if self.read.is_empty() {
            let mut entries = Vec::new();
            let from = self.next.take()?;
            let read = self.held.system.read_directory(self.held.node, from, BATCH, &mut entries);
            self.next = entries.last().map(|last| last.next);
            self.read = entries.into();
            if let Err(error) = read {
                // What came with it can be used, and the next call would fail again.
                if self.read.is_empty() {
                    return Some(Err(Error::new(self.path.display(), error)));
                }
            }
        }
        let entry = self.read.pop_front()?;
        let path = self.path.join(OsStr::from_bytes(&entry.name.to_bytes()));
        Some(Ok(DirEntry { path, entry }))
    }
}

/// Everything below a directory: see [`Volume::walk`](crate::Volume::walk).
pub struct Walk {
    /// The directories that are being listed, the deepest last.
    open: Vec<ReadDir>,
    /// Entered before what is behind it in its own directory.
    inside: Option<DirEntry>,
    /// Directories that were entered, held so that their numbers stay theirs. On a damaged volume a directory may be
    /// inside itself, or in many places; each is entered once, so that a walk ends.
    seen: HashMap<Node, Arc<Held>>,
    volume: Arc<Shared>,
}

impl Walk {
    pub(crate) fn new(volume: &Arc<Shared>, top: ReadDir) -> Walk {
        let seen = HashMap::from([(top.held.node, top.held.clone())]);
        Walk { open: vec![top], inside: None, seen, volume: volume.clone() }
    }

    fn enter(&mut self, entry: &DirEntry) -> Result<()> {
        let about = entry.path.display();
        if self.open.len() >= DEEPEST {
            let why = format!("more than {DEEPEST} directories are inside each other here");
            return Err(Error::refused(ErrorKind::Damaged, about, why));
        }
        let above = self.open.last().expect("it was listed in one");
        let held = above.held.child(entry.name()).about(about)?;
        let directory = ReadDir::new(&self.volume, held, &entry.path);
        match self.seen.entry(directory.held.node) {
            Place::Occupied(_) => {
                let why = "this directory is in another place too";
                return Err(Error::refused(ErrorKind::Damaged, entry.path.display(), why));
            }
            Place::Vacant(place) => {
                place.insert(directory.held.clone());
            }
        }
        self.open.push(directory);
        Ok(())
    }
}

impl Iterator for Walk {
    type Item = Result<DirEntry>;

    fn next(&mut self) -> Option<Result<DirEntry>> {
        if let Some(entry) = self.inside.take()
            && let Err(error) = self.enter(&entry)
        {
            return Some(Err(error));
        }
        loop {
            match self.open.last_mut()?.next() {
                Some(Ok(entry)) => {
                    if entry.metadata().kind == Kind::Directory {
                        self.inside = Some(entry.clone());
                    }
                    return Some(Ok(entry));
                }
                Some(Err(error)) => return Some(Err(error)),
                None => {
                    self.open.pop();
                }
            }
        }
    }
}

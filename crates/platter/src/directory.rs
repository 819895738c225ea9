//! Listing one directory, or a whole tree.

use crate::error::{About, Error, ErrorKind, Result};
use crate::node::{DEEPEST, Held};
use crate::shared::Shared;
use platter_device::host::{HostBytes, host_string};
use platter_vfs::{Attributes, Cursor, Entry, Kind, Name, Node};
use std::collections::hash_map::Entry as Place;
use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// One entry of a directory.
#[derive(Clone, Debug)]
pub struct DirEntry {
    path: PathBuf,
    entry: Entry,
}

impl DirEntry {
    /// The entry's name, exactly as the volume has it.
    pub fn name(&self) -> &Name {
        &self.entry.name
    }

    /// The path of the directory that was listed, joined with the entry's name.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The attributes of the entry's file or directory, as the listing of the directory gave them.
    pub fn metadata(&self) -> &Attributes {
        &self.entry.attributes
    }
}

/// The entries of a directory: see [`Volume::read_dir`](crate::Volume::read_dir).
pub struct ReadDir {
    held: Arc<Held>,
    path: PathBuf,
    read: VecDeque<Entry>,
    /// The cursor from which the listing goes on; `None` at the end of the directory.
    next: Option<Cursor>,
    /// Keeps the volume open. Declared after the node, because fields are dropped in this order and the node must be
    /// given back first.
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
                // Entries that were read before the error are returned first; the next call meets the same error
                // again.
                if self.read.is_empty() {
                    return Some(Err(Error::new(self.path.display(), error)));
                }
            }
        }
        let entry = self.read.pop_front()?;
        let path = joined(&self.path, &entry.name);
        Some(Ok(DirEntry { path, entry }))
    }
}

/// The path of an entry on a volume. It is no path of the host, in which a name such as `C:x` would replace all before it.
fn joined(directory: &Path, name: &Name) -> PathBuf {
    let mut path = directory.as_os_str().to_os_string();
    if !path.is_empty() && !path.as_bytes().ends_with(b"/") {
        path.push("/");
    }
    path.push(host_string(&name.to_bytes()));
    path.into()
}

/// Everything below a directory: see [`Volume::walk`](crate::Volume::walk).
pub struct Walk {
    /// The open directories from the top one down to the one whose entries are being returned.
    open: Vec<ReadDir>,
    /// The directory that was returned last; the walk enters it before it goes on in that directory's parent.
    inside: Option<DirEntry>,
    /// The directories that were entered. On a damaged volume a directory may be inside itself, or in many places;
    /// each is entered once, so that a walk ends. They are held, so that their node numbers are not given to other
    /// files.
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

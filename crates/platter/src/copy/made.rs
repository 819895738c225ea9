//! The names that one run of copying has made, so that no second source overwrites the copy of a first.

use super::host::facts;
use super::kept_on_host::host_path;
use super::target::Target;
use crate::node::Held;
use platter_device::host::{FileId, entry_id};
use platter_vfs::{CaseRule, Name};
use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::PathBuf;

/// The copies that were made. Whether two names are the same is for the target to say: a volume has its own case rule,
/// and on FAT a short name for every file.
#[derive(Default)]
pub(super) struct MadeNames {
    /// The paths of copies on the host.
    paths: HashSet<PathBuf>,
    /// Which files these are, since a file system of the host may ignore case too.
    files: HashSet<FileId>,
    /// For each directory on a volume, by its folded path, the copies in it by their folded names.
    directories: HashMap<Folded, HashMap<Folded, Vec<Name>>>,
}

type Folded = Box<[u16]>;

impl MadeNames {
    /// Notes the copy that was made under this name.
    pub(super) fn note(&mut self, target: &Target, name: &Name) {
        match target {
            Target::Host(directory) => {
                let Ok(path) = host_path(directory, name) else { return };
                self.files.extend(entry_id(&path));
                self.paths.insert(path);
            }
            Target::Volume(path, _) => {
                let inside = self.directories.entry(folded_path(&path.names)).or_default();
                let names = inside.entry(fold(name)).or_default();
                if !names.contains(name) {
                    names.push(name.clone());
                }
            }
        }
    }

    /// Whether the entry of this name is a copy that was noted, under this name or one that the target regards as the
    /// same.
    pub(super) fn has(&self, target: &Target, name: &Name) -> bool {
        match target {
            Target::Host(directory) => {
                let Ok(path) = host_path(directory, name) else { return false };
                let Ok(file) = fs::symlink_metadata(&path) else { return false };
                // A file that has further names may have been written to under one of them.
                self.paths.contains(&path)
                    || facts(&path, &file).links == 1
                        && entry_id(&path).is_some_and(|file| self.files.contains(&file))
            }
            Target::Volume(path, held) => self
                .directories
                .get(&folded_path(&path.names))
                .is_some_and(|inside| is_one_of(inside, held, name)),
        }
    }
}

/// Whether `name` leads to one of the entries of `directory` that are in `made`.
fn is_one_of(made: &HashMap<Folded, Vec<Name>>, directory: &Held, name: &Name) -> bool {
    let Ok(there) = directory.child(name) else { return false };
    let is_it = |made: &Name| directory.child(made).is_ok_and(|made| made.node == there.node);
    if made.get(&fold(name)).is_some_and(|names| names.iter().any(is_it)) {
        return true;
    }
    // A volume's own table may join further letters, and a name with a tilde may be the short one of another. All other
    // names are told apart by their letters, without asking for every copy in a large directory.
    let may_differ = |unit: &u16| *unit >= 0x80 || *unit == u16::from(b'~');
    name.units().iter().any(may_differ) && made.values().flatten().any(is_it)
}

/// The form in which names are found again that a volume probably regards as the same.
fn fold(name: &Name) -> Folded {
    name.folded(CaseRule::Insensitive)
}

fn folded_path(names: &[Name]) -> Folded {
    names.iter().flat_map(|name| [u16::from(b'/')].into_iter().chain(fold(name))).collect()
}

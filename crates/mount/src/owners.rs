//! Owner, group and permissions of files.
//!
//! The Windows formats have none that Linux knows. Where a format keeps extended attributes, they stand in those of the
//! Windows Subsystem for Linux ([`LinuxAttributes`]). A file without them belongs to
//! whom the mount options say. Where a format has no extended attributes, all is as the options say, and one permission
//! can be taken from a file: that of writing, which is the format's read-only flag.
//!
//! Source: the rules for formats without extended attributes are those that Linux's vfat driver shows.

use crate::options::Options;
use platter_vfs::linux::LinuxAttributes;
use platter_vfs::{DosFlags, FileSystem, Kind, Node};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What to change of owner and permissions; `None` leaves it.
#[derive(Clone, Copy, Debug, Default)]
pub struct OwnerChange {
    /// New owner.
    pub uid: Option<u32>,
    /// New group.
    pub gid: Option<u32>,
    /// New permissions.
    pub mode: Option<u32>,
}

/// Owners of files.
pub struct Owners {
    /// Whether the format keeps owners and permissions.
    pub has_modes: bool,
    /// Who owns what says nothing of an owner.
    pub uid: u32,
    /// The same of its group.
    pub gid: u32,
    file: u32,
    directory: u32,
    /// What was read last, so that it need not be read again for each look at a file that is in use.
    known: [Mutex<HashMap<u64, LinuxAttributes>>; PARTS],
}

/// Threads that look at different files should seldom wait for each other.
const PARTS: usize = 16;
/// The most that a part holds. The kernel has a cache of its own, so that few are asked for twice.
const MOST: usize = 1024;

impl Owners {
    pub fn new(system: &dyn FileSystem, options: &Options) -> Owners {
        let has_modes = system.capabilities().extended_attributes;
        Owners {
            has_modes,
            uid: options.uid,
            gid: options.gid,
            file: 0o777 & !options.file_mask(has_modes),
            directory: 0o777 & !options.directory_mask,
            known: Default::default(),
        }
    }

    /// The part of what is known that has a node.
    pub fn part(&self, node: Node) -> MutexGuard<'_, HashMap<u64, LinuxAttributes>> {
        self.known[node.0 as usize % PARTS].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The kernel does not know the node any more.
    pub fn forget(&self, node: Node) {
        if self.has_modes {
            self.part(node).remove(&node.0);
        }
    }

    /// What the attributes of a node say. Those that cannot be read say nothing: the file can be used all the same.
    pub fn kept(&self, system: &dyn FileSystem, node: Node) -> LinuxAttributes {
        if !self.has_modes {
            return LinuxAttributes::default();
        }
        // Held while the attributes are read, so that no older ones take the place of newer ones.
        let mut part = self.part(node);
        if let Some(kept) = part.get(&node.0) {
            return *kept;
        }
        if part.len() >= MOST {
            part.clear();
        }
        let kept = LinuxAttributes::read(system, node).unwrap_or_default();
        part.insert(node.0, kept);
        kept
    }

    /// What a file shows whose attributes say nothing.
    pub fn usual(&self, kind: Kind, flags: DosFlags) -> u32 {
        match kind {
            Kind::Directory => self.directory,
            Kind::SymbolicLink => 0o777,
            Kind::File if flags.contains(DosFlags::READ_ONLY) => self.file & !0o222,
            Kind::File => self.file,
        }
    }
}

//! Owner, group and permissions of files.
//!
//! The formats have none in the form that Linux uses. On a format with extended attributes, owners and permissions are
//! stored in those that the Windows Subsystem for Linux uses ([`LinuxAttributes`]); a file without them has the owner
//! and permissions that the mount options give. On a format without extended attributes, all files have those of the
//! mount options, and only write permission can be taken from a file, by the format's read-only flag.
//!
//! Source: the rules for formats without extended attributes are those that Linux's vfat driver shows.

use crate::options::Options;
use platter_vfs::linux::LinuxAttributes;
use platter_vfs::{DosFlags, FileSystem, Kind, Node};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A change of owner, group and permissions; `None` leaves a value as it is.
#[derive(Clone, Copy, Debug, Default)]
pub struct OwnerChange {
    /// New owner.
    pub uid: Option<u32>,
    /// New group.
    pub gid: Option<u32>,
    /// New permissions.
    pub mode: Option<u32>,
}

/// Owners and permissions of the files of a volume.
pub(crate) struct Owners {
    /// Whether the format stores owners and permissions.
    pub has_modes: bool,
    /// The owner of files for which the volume stores no owner.
    pub uid: u32,
    /// The group of files for which the volume stores no group.
    pub gid: u32,
    file: u32,
    directory: u32,
    /// A cache of stored attributes by node number, so that they are not read again each time a program looks at a file
    /// in use.
    known: [Mutex<HashMap<u64, LinuxAttributes>>; PARTS],
}

/// The number of parts of the cache, each with a lock of its own, so that threads that look at different files seldom
/// wait for each other.
const PARTS: usize = 16;
/// The most nodes that a part of the cache holds. The kernel caches attributes too, so it asks for few nodes twice.
const MOST: usize = 1024;

impl Owners {
    pub(crate) fn new(system: &dyn FileSystem, options: &Options) -> Owners {
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

    /// Locks and returns the part of the cache that a node belongs to.
    pub(crate) fn part(&self, node: Node) -> MutexGuard<'_, HashMap<u64, LinuxAttributes>> {
        self.known[node.0 as usize % PARTS].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes a node, which the kernel has forgotten, from the cache.
    pub(crate) fn forget(&self, node: Node) {
        if self.has_modes {
            self.part(node).remove(&node.0);
        }
    }

    /// Returns the owner and permissions that are stored for a node. If they cannot be read, the file is treated as one
    /// without them, so that it can be used all the same.
    pub(crate) fn kept(&self, system: &dyn FileSystem, node: Node) -> LinuxAttributes {
        if !self.has_modes {
            return LinuxAttributes::default();
        }
        // The part stays locked while the attributes are read, so that older attributes do not replace newer ones.
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

    /// Returns the permissions of a file for which none are stored.
    pub(crate) fn usual(&self, kind: Kind, flags: DosFlags) -> u32 {
        match kind {
            Kind::Directory => self.directory,
            Kind::SymbolicLink => 0o777,
            Kind::File if flags.contains(DosFlags::READ_ONLY) => self.file & !0o222,
            Kind::File => self.file,
        }
    }
}

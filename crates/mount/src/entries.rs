//! Directory entries: looking them up, making, moving and removing them.

use crate::errors::{Answer, Errno};
use crate::permissions::NewOwner;
use crate::served::Served;
use crate::spelling::Verdict;
use crate::stat::{Special, Stat};
use platter_vfs::linux::{link_target, link_to};
use platter_vfs::{Change, DosFlags, Error, Kind, Name, NewEntry, Node, RenameFlags, Reparse};

/// The longest target of a symbolic link that Linux follows, in bytes.
const LONGEST_TARGET: usize = 4095;

/// The properties of a new entry.
#[derive(Clone, Copy, Debug)]
pub struct New {
    /// File type and permissions, as the caller asked for them.
    pub mode: u32,
    /// The permissions that the caller's new files never have, unless the directory says what new entries get.
    pub umask: u32,
    /// The user who makes the entry, and becomes its owner.
    pub uid: u32,
    /// The group of that user.
    pub gid: u32,
    /// The packed device number, for a device.
    pub device: u32,
}

/// Who makes a request.
#[derive(Clone, Copy, Debug)]
pub struct Caller {
    /// The user.
    pub uid: u32,
    /// The group of that user.
    pub gid: u32,
    /// The number of the thread; 0 if it is not known.
    pub thread: u32,
}

impl Caller {
    /// The administrator, in a thread that is not known.
    pub const ROOT: Caller = Caller { uid: 0, gid: 0, thread: 0 };
}

impl New {
    /// Who makes the entry.
    pub fn caller(&self) -> Caller {
        Caller { uid: self.uid, gid: self.gid, thread: 0 }
    }
}

/// An entry that was looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Its attributes.
    pub stat: Stat,
    /// Whether its name is stored as it was asked for, so that the kernel may remember it.
    pub is_stored: bool,
    /// Whether the kernel may remember its attributes. If not, it asks for them, which shows what it does with the name.
    pub keeps_attributes: bool,
}

impl Seen {
    fn as_stored(stat: Stat) -> Seen {
        Seen { stat, is_stored: true, keeps_attributes: true }
    }
}

impl Served {
    /// Looks up a name in a directory. This adds 1 to the node's lookup count, which [`Served::forget`] lowers.
    pub fn lookup(&self, directory: Node, name: &[u8]) -> Answer<Stat> {
        let found =
            self.sought(directory, name).and_then(|name| self.told(self.system.lookup(directory, &name)));
        match (found, self.stream_name(name)) {
            (Err(Errno(libc::ENOENT | libc::ENAMETOOLONG)), Some(stream)) => {
                self.look_up_stream(directory, stream)
            }
            (found, _) => self.handed_out(found?),
        }
    }

    /// Looks up a name for the kernel, which may ask for the same file under several spellings. This adds 1 to the node's
    /// lookup count.
    ///
    /// # Errors
    /// `ESTALE` if the kernel is to ask again.
    pub fn look_up(&self, directory: Node, name: &[u8], caller: Caller) -> Answer<Seen> {
        if !self.has_spellings {
            return self.lookup(directory, name).map(Seen::as_stored);
        }
        let stored = self
            .sought(directory, name)
            .and_then(|name| self.told(self.system.lookup_exact(directory, &name)));
        match stored {
            Err(Errno(libc::ENOENT)) => {}
            Err(error) if self.stream_name(name).is_none() => return Err(error),
            Err(_) => return self.lookup(directory, name).map(Seen::as_stored),
            Ok(node) => {
                let stat = self.handed_out(node)?;
                let keeps_attributes = !self.spellings.stored(caller.thread, node);
                return Ok(Seen { stat, is_stored: true, keeps_attributes });
            }
        }
        let stat = self.lookup(directory, name)?;
        if self.stream(Node(stat.node)).is_some() {
            return Ok(Seen::as_stored(stat));
        }
        let named = (directory.0, name.into());
        let is_directory = stat.kind == Kind::Directory;
        let answer = match self.spellings.other(caller.thread, named, Node(stat.node), is_directory) {
            Verdict::Again => Err(Errno(libc::ESTALE)),
            Verdict::Absent => Err(Errno(libc::ENOENT)),
            Verdict::Here { drops } => {
                if drops {
                    self.drop_name((directory.0, name.into()));
                }
                return Ok(Seen { stat, is_stored: false, keeps_attributes: false });
            }
        };
        self.forget(Node(stat.node), 1);
        answer
    }

    /// Whether a file can be found by its number after the kernel has forgotten it, as file handles need it.
    pub(crate) fn finds_numbers(&self) -> bool {
        self.system.numbered_nodes().is_ok()
    }

    /// Looks up a file by its number, which the kernel may have forgotten. This adds 1 to the node's lookup count.
    ///
    /// # Errors
    /// `ESTALE` if there is no such file any more.
    pub(crate) fn look_up_number(&self, node: Node) -> Answer<Stat> {
        let found = match self.stream(node) {
            Some(_) => Err(Error::NotFound),
            None => self.system.numbered_nodes().and_then(|part| part.find(node)),
        };
        match found {
            Err(Error::NotFound | Error::Unsupported { .. }) => Err(Errno(libc::ESTALE)),
            found => self.handed_out(self.told(found)?),
        }
    }

    /// Looks up the parent of a directory, both by number. This adds 1 to the lookup count of the parent.
    ///
    /// # Errors
    /// `ESTALE` if there is no such directory any more.
    pub(crate) fn look_up_parent(&self, node: Node) -> Answer<Stat> {
        let directory = Node(self.look_up_number(node)?.node);
        let parent = match self.system.parent(directory) {
            Err(Error::NotFound | Error::NotADirectory) => Err(Errno(libc::ESTALE)),
            parent => self.told(parent).and_then(|parent| self.look_up_number(parent)),
        };
        self.forget(directory, 1);
        parent
    }

    /// Returns the file that a name leads to if the kernel may still know it under another spelling, to which the removal
    /// of this one says nothing. Its lookup count was raised by 1.
    fn spelled_otherwise(&self, directory: Node, name: &Name) -> Option<Node> {
        if !self.has_spellings || !self.spellings.is_used() {
            return None;
        }
        match self.system.lookup_exact(directory, name) {
            Ok(node) => {
                self.give_back(node, 1);
                None
            }
            Err(_) => self.system.lookup(directory, name).ok(),
        }
    }

    /// Carries out a change that takes a name from its entry.
    fn taking<T>(&self, directory: Node, name: &Name, take: impl FnOnce() -> Answer<T>) -> Answer<T> {
        let other = self.spelled_otherwise(directory, name);
        let done = take();
        if let Some(node) = other {
            if done.is_ok() {
                self.all_old(node);
            }
            self.give_back(node, 1);
        }
        done
    }

    /// Returns the attributes of a node whose lookup count was just raised. If they cannot be read, the count is
    /// lowered again.
    pub(crate) fn handed_out(&self, node: Node) -> Answer<Stat> {
        match self.told(self.system.attributes(node)) {
            Ok(attributes) => {
                // A file with several names is not counted, so that the kernel is not asked to forget it: programs find
                // out by its number that its names lead to the same file, and the number may be another one when the
                // file is looked up anew.
                if attributes.links <= 1 {
                    self.came(node);
                }
                Ok(self.stat_of(node, &attributes))
            }
            Err(error) => {
                self.give_back(node, 1);
                Err(error)
            }
        }
    }

    /// Lowers the lookup count of a node by `count`, as FUSE_FORGET asks when the kernel drops the node from its cache.
    pub fn forget(&self, node: Node, count: u64) {
        self.known.left(node, count);
        self.owners.forget(node);
        if let Some(at) = self.accesses.forget(node)
            && self.change().is_ok()
        {
            self.write_access(node, at);
        }
        self.spellings.forget(node);
        self.give_back(node, count);
        self.left_stream(node, count);
    }

    pub(crate) fn give_back(&self, node: Node, count: u64) {
        if node != Node::ROOT {
            self.system.forget(node, count);
        }
    }

    /// Makes a file. On a format with extended attributes, which hold the Linux file type, also a FIFO, socket or
    /// device.
    pub fn make_node(&self, directory: Node, name: &[u8], new: New) -> Answer<Stat> {
        let special = Special::of_mode(new.mode);
        if special.is_none() && new.mode & libc::S_IFMT != libc::S_IFREG {
            return Err(Errno::INVALID);
        }
        if special.is_some() && !self.system.capabilities().extended_attributes {
            return Err(Errno::NOT_PERMITTED);
        }
        self.change()?;
        if special.is_none()
            && let Some(stream) = self.stream_name(name)
        {
            return self.make_stream(directory, stream, new);
        }
        let point = special.map(Special::reparse_point);
        self.make(directory, name, Kind::File, special, point, new)
    }

    /// Makes a directory.
    pub fn make_directory(&self, directory: Node, name: &[u8], new: New) -> Answer<Stat> {
        self.change()?;
        self.make(directory, name, Kind::Directory, None, None, new)
    }

    /// Makes a symbolic link.
    pub fn make_link(&self, directory: Node, name: &[u8], target: &[u8], new: New) -> Answer<Stat> {
        self.change()?;
        if !self.system.capabilities().symbolic_links {
            return Err(Errno::NOT_PERMITTED);
        }
        if target.is_empty() || target.len() > LONGEST_TARGET {
            return Err(if target.is_empty() { Errno(libc::ENOENT) } else { Errno::NAME_TOO_LONG });
        }
        self.make(directory, name, Kind::SymbolicLink, None, Some(link_to(target)), new)
    }

    /// Makes an entry with its owner and permissions, and returns its attributes. If they cannot be read, the entry is
    /// removed again.
    fn make(
        &self,
        directory: Node,
        name: &[u8],
        kind: Kind,
        special: Option<Special>,
        point: Option<Reparse>,
        new: New,
    ) -> Answer<Stat> {
        let name = self.given(name)?;
        let (mode, lists) = self.acls_of_new(directory, kind, (new.mode, new.umask));
        let owner = NewOwner { kind, special, mode, uid: new.uid, gid: new.gid, device: new.device };
        let owner = self.owner_of_new(directory, &owner);
        let mut values = owner.extended();
        values.extend(lists);
        let extended: Vec<_> = values.iter().map(|(name, value)| (*name, &value[..])).collect();
        let entry = NewEntry { kind, point: point.as_ref(), extended: &extended };
        let node = self.told(self.system.make(directory, &name, &entry))?;
        match self.told(self.system.attributes(node)) {
            Ok(attributes) => {
                self.came(node);
                Ok(self.stat_of(node, &attributes))
            }
            Err(error) => {
                self.undo(directory, &name, node, kind);
                Err(error)
            }
        }
    }

    fn undo(&self, directory: Node, name: &Name, node: Node, kind: Kind) {
        let _ = match kind {
            Kind::Directory => self.system.rmdir(directory, name),
            _ => self.system.unlink(directory, name),
        };
        self.forget(node, 1);
    }

    /// Returns the target of a symbolic link.
    pub fn read_link(&self, node: Node) -> Answer<Vec<u8>> {
        match self.target_inside(node) {
            Some(target) => Ok(target),
            None => self.told(link_target(&*self.system, node)),
        }
    }

    /// Removes an entry that is not a directory.
    pub fn unlink(&self, directory: Node, name: &[u8], caller: Caller) -> Answer<()> {
        self.change()?;
        let entry = self.sought(directory, name).and_then(|name| {
            self.taking(directory, &name, || {
                self.told(self.unprotected(directory, &name, || self.system.unlink(directory, &name)))
            })
        });
        match (entry, self.stream_name(name)) {
            (Err(Errno(libc::ENOENT | libc::ENAMETOOLONG)), Some(stream)) => {
                self.remove_stream(directory, stream, caller)
            }
            (done, _) => done,
        }
    }

    /// Removes the entry `name` by calling `remove`. If the read-only attribute of the entry forbids that, the
    /// attribute is cleared first: on Linux only the directory must be writable for a removal.
    fn unprotected(
        &self,
        directory: Node,
        name: &Name,
        remove: impl Fn() -> platter_vfs::Result<()>,
    ) -> platter_vfs::Result<()> {
        let error = match remove() {
            Err(error @ Error::NotPermitted(_)) => error,
            done => return done,
        };
        let node = self.system.lookup(directory, name)?;
        let flags = self.system.attributes(node).map(|attributes| attributes.flags);
        let set = |flags: u32| {
            let change = Change { flags: Some(DosFlags(flags)), ..Change::default() };
            self.system.set_attributes(node, &change).map(|_| ())
        };
        let done = match flags {
            Ok(flags) if flags.contains(DosFlags::READ_ONLY) => set(flags.0 & !DosFlags::READ_ONLY.0)
                .and_then(|()| {
                    remove().inspect_err(|_| {
                        let _ = set(flags.0);
                    })
                }),
            _ => Err(error),
        };
        self.give_back(node, 1);
        done
    }

    /// Removes an empty directory.
    pub fn remove_directory(&self, directory: Node, name: &[u8]) -> Answer<()> {
        self.change()?;
        let name = self.sought(directory, name)?;
        self.taking(directory, &name, || self.told(self.system.rmdir(directory, &name)))
    }

    /// Moves an entry. If the format does not support `flags`, the answer is `EINVAL`, as rename(2) has it. A stream
    /// cannot be moved: the answer `EXDEV` lets programs such as mv(1) copy it instead.
    pub fn rename(
        &self,
        from: Node,
        name: &[u8],
        to: Node,
        new_name: &[u8],
        flags: RenameFlags,
    ) -> Answer<()> {
        self.change()?;
        if self.names_stream(name) || self.names_stream(new_name) {
            return Err(Errno(libc::EXDEV));
        }
        let name = self.sought(from, name)?;
        let new_name = self.given_to(&name, new_name)?;
        let rename = || self.system.rename(from, &name, to, &new_name, flags);
        let rename = || {
            self.told(match flags {
                RenameFlags::Replace => self.unprotected(to, &new_name, rename),
                _ => rename(),
            })
        };
        self.taking(from, &name, rename).map_err(|error| error.or_if_unsupported(Errno::INVALID))
    }

    /// Moves an entry and leaves a character device 0/0 under its old name, by which overlayfs says that there is nothing.
    /// If the device cannot be made, nothing is moved, unless another file was replaced.
    pub fn leave_whiteout(
        &self,
        from: Node,
        name: &[u8],
        to: Node,
        new_name: &[u8],
        whiteout: New,
    ) -> Answer<()> {
        if !self.system.capabilities().extended_attributes {
            return Err(Errno::INVALID);
        }
        self.rename(from, name, to, new_name, RenameFlags::Replace)?;
        let left = self.make_node(from, name, whiteout);
        if let Ok(stat) = &left {
            // The kernel asks for it when it needs it.
            self.forget(Node(stat.node), 1);
        } else {
            let _ = self.rename(to, new_name, from, name, RenameFlags::NoReplace);
        }
        left.map(|_| ())
    }

    /// Gives a file a further name.
    pub fn link(&self, node: Node, directory: Node, name: &[u8]) -> Answer<Stat> {
        self.change()?;
        if self.stream(node).is_some() {
            return Err(Errno::NOT_PERMITTED);
        }
        let name = self.given(name)?;
        self.told(self.system.link(node, directory, &name))
            .map_err(|error| error.or_if_unsupported(Errno::NOT_PERMITTED))?;
        let node = self.told(self.system.lookup(directory, &name))?;
        // The node may have been counted while the file had one name.
        self.known.take_out(node);
        self.handed_out(node)
    }
}

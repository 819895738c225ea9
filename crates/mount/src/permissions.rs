//! Owner, group and permissions as programs see and change them; how they are stored is in
//! [`Owners`](crate::owners::Owners).

use crate::acl::{self, Acl};
use crate::errors::{Answer, Errno};
use crate::owners::OwnerChange;
use crate::served::Served;
use crate::stat::{Special, Stat};
use platter_vfs::linux::LinuxAttributes;
use platter_vfs::{Attributes, Change, DosFlags, Error, Kind, Node};

/// The permission bits of a mode, including set-user-id, set-group-id and the sticky bit.
pub(crate) const PERMISSIONS: u32 = 0o7777;
const SET_USER: u32 = libc::S_ISUID;
const SET_GROUP: u32 = libc::S_ISGID;

/// A device number as the kernel packs it into 32 bits: 12 bits of the major number, 20 of the minor one.
fn packed((major, minor): (u32, u32)) -> u32 {
    minor & 0xFF | (major & 0xFFF) << 8 | (minor & 0xFFF00) << 12
}

fn unpacked(device: u32) -> (u32, u32) {
    (device >> 8 & 0xFFF, device & 0xFF | device >> 12 & 0xFFF00)
}

impl Served {
    /// Returns what programs see of a node with these attributes.
    pub(crate) fn stat_of(&self, node: Node, attributes: &Attributes) -> Stat {
        let attributes = &self.accesses.seen(node, attributes.clone());
        let mut stat = Stat::of(node.0, attributes);
        let stream = self.stream(node);
        let kept = self.owners.kept(&*self.system, stream.map_or(node, |(file, _)| file));
        stat.uid = kept.uid.unwrap_or(self.owners.uid);
        stat.gid = kept.gid.unwrap_or(self.owners.gid);
        let usual = self.owners.usual(attributes.kind, attributes.flags);
        stat.mode = usual;
        if let Some(mode) = kept.mode {
            stat.mode = mode & PERMISSIONS;
            if attributes.kind == Kind::File {
                stat.special = Special::of_mode(mode);
                if attributes.flags.contains(DosFlags::READ_ONLY) {
                    stat.mode &= !0o222;
                }
            }
        }
        if attributes.kind == Kind::SymbolicLink {
            stat.mode = usual;
        }
        if matches!(stat.special, Some(Special::Character | Special::Block)) {
            stat.device = kept.device.map_or(0, packed);
        }
        if let Some((_, is_snapshot)) = stream {
            self.as_stream(&mut stat, is_snapshot);
        }
        stat
    }

    /// Changes owner, group and permissions.
    pub(crate) fn change_owner(&self, node: Node, change: OwnerChange) -> Answer<()> {
        let node = self.owning(node);
        let attributes = self.told(self.system.attributes(node))?;
        if !self.owners.has_modes {
            return self.change_flags_instead(node, &attributes, change);
        }
        let before = self.stat_of(node, &attributes);
        let mut mode = change.mode.map_or(before.mode, |mode| mode & PERMISSIONS);
        let is_chown = change.uid.is_some() || change.gid.is_some();
        if is_chown && change.mode.is_none() && attributes.kind == Kind::File {
            mode = without_privileges(mode);
        }
        // Write permission has no effect while the read-only flag of the format is set, so the flag is cleared.
        let protected = attributes.kind == Kind::File && attributes.flags.contains(DosFlags::READ_ONLY);
        if protected && change.mode.is_some_and(|mode| mode & 0o222 != 0) {
            let flags = DosFlags(attributes.flags.0 & !DosFlags::READ_ONLY.0);
            self.told(self.system.set_attributes(node, &Change { flags: Some(flags), ..Change::default() }))?;
        }
        let mut wanted = LinuxAttributes {
            uid: change.uid.filter(|uid| *uid != before.uid),
            gid: change.gid.filter(|gid| *gid != before.gid),
            ..LinuxAttributes::default()
        };
        if mode != before.mode && attributes.kind != Kind::SymbolicLink {
            wanted.mode = Some(mode | type_bits(&before));
        }
        // Others who read the volume look at the list first.
        let list = match wanted.mode {
            Some(mode) => self.acl(node, acl::ACCESS)?.map(|list| list.with_mode(mode)),
            None => None,
        };
        match list {
            Some(list) => self.keep_with(node, wanted, &[(acl::ACCESS, Some(&list.to_bytes()))]),
            None => self.keep(node, wanted),
        }
    }

    /// Whether access control lists are kept.
    pub(crate) fn has_acls(&self) -> bool {
        self.owners.has_modes
    }

    /// The list that is stored under this name, with the permissions that the file has now; `None` if there is none.
    pub(crate) fn acl(&self, node: Node, name: &'static str) -> Answer<Option<Acl>> {
        if !self.has_acls() {
            return Ok(None);
        }
        let value = match self.system.extended_attributes().and_then(|part| part.get(node, name)) {
            Err(Error::NotFound) => return Ok(None),
            value => self.told(value)?,
        };
        let list = Acl::from_bytes(&value).ok_or(Errno(libc::EIO))?;
        if name == acl::DEFAULT {
            return Ok(Some(list));
        }
        Ok(Some(list.with_mode(self.stat(node)?.mode)))
    }

    /// Stores a list, or removes it, with the permissions that it means.
    ///
    /// # Errors
    /// `EINVAL` if the value is no list, `EACCES` for the list of new entries of what is no directory.
    pub(crate) fn set_acl(
        &self,
        node: Node,
        name: &'static str,
        value: &[u8],
        stranger: Option<u32>,
    ) -> Answer<()> {
        let list = Acl::from_bytes(value).ok_or(Errno::INVALID)?;
        let before = self.stat(node)?;
        if name == acl::DEFAULT {
            if before.kind != Kind::Directory {
                return Err(Errno(libc::EACCES));
            }
            let value = list.to_bytes();
            return self
                .told(self.system.extended_attributes().and_then(|part| part.set(node, name, Some(&value))));
        }
        if before.kind == Kind::SymbolicLink {
            return Err(Errno::UNSUPPORTED);
        }
        let mut mode = before.mode & !0o777 | list.mode();
        // Further groups of the user are not known here.
        if stranger.is_some_and(|group| group != before.gid) {
            mode &= !SET_GROUP;
        }
        let mut wanted = LinuxAttributes::default();
        if mode != before.mode {
            wanted.mode = Some(mode | type_bits(&before));
        }
        let value = (!list.is_plain()).then(|| list.to_bytes());
        if value.is_none() && self.acl(node, name)?.is_none() {
            return self.keep(node, wanted);
        }
        self.keep_with(node, wanted, &[(name, value.as_deref())])
    }

    /// The permissions of a new entry, and the lists that it gets: those that the directory has for new entries, or none,
    /// and then what the caller's umask takes is missing.
    pub(crate) fn acls_of_new(
        &self,
        directory: Node,
        kind: Kind,
        wanted: (u32, u32),
    ) -> (u32, Vec<(&'static str, Vec<u8>)>) {
        let (mode, umask) = wanted;
        // A list that cannot be read is not handed on; then less is allowed, not more.
        let list = self.acl(directory, acl::DEFAULT).ok().flatten();
        let Some(list) = list.filter(|_| kind != Kind::SymbolicLink) else {
            return (mode & !umask, Vec::new());
        };
        let mut lists = Vec::new();
        if kind == Kind::Directory {
            lists.push((acl::DEFAULT, list.to_bytes()));
        }
        let list = list.of_new(mode);
        let mode = mode & !0o777 | list.mode();
        if !list.is_plain() {
            lists.push((acl::ACCESS, list.to_bytes()));
        }
        (mode, lists)
    }

    /// Clears set-user-id and set-group-id of a file that another user writes to, as POSIX requires. `group` is the
    /// caller's group if the kernel has not compared it with the file's group: for a caller of another group,
    /// set-group-id is cleared even where it only stands for mandatory locking.
    pub(crate) fn drop_privileges(&self, node: Node, group: Option<u32>) -> Answer<()> {
        if !self.owners.has_modes {
            return Ok(());
        }
        let node = self.owning(node);
        let kept = self.owners.kept(&*self.system, node);
        let Some(mode) = kept.mode else { return Ok(()) };
        let dropped = match group {
            Some(group) if group != kept.gid.unwrap_or(self.owners.gid) => mode & !(SET_USER | SET_GROUP),
            _ => without_privileges(mode),
        };
        if dropped == mode || mode & libc::S_IFMT == libc::S_IFDIR {
            return Ok(());
        }
        self.keep(node, LinuxAttributes { mode: Some(dropped), ..LinuxAttributes::default() })?;
        self.notice(node);
        Ok(())
    }

    /// The owner and permissions to be stored for a new node, as far as they differ from those of the mount options. A
    /// new node in a directory with set-group-id gets the group of the directory.
    pub(crate) fn owner_of_new(&self, parent: Node, new: &NewOwner) -> LinuxAttributes {
        if !self.owners.has_modes {
            return LinuxAttributes::default();
        }
        let mut gid = new.gid;
        let mut mode = new.mode;
        let above = self.owners.kept(&*self.system, parent);
        if above.mode.is_some_and(|mode| mode & SET_GROUP != 0) {
            gid = above.gid.unwrap_or(self.owners.gid);
            if new.kind == Kind::Directory {
                mode |= SET_GROUP;
            }
        }
        let usual = self.owners.usual(new.kind, DosFlags::default());
        let mut wanted = LinuxAttributes {
            uid: Some(new.uid).filter(|uid| *uid != self.owners.uid),
            gid: Some(gid).filter(|gid| *gid != self.owners.gid),
            ..LinuxAttributes::default()
        };
        if new.kind != Kind::SymbolicLink && (mode & PERMISSIONS != usual || new.special.is_some()) {
            let bits = match (new.kind, new.special) {
                (Kind::Directory, _) => libc::S_IFDIR,
                (_, Some(special)) => special.mode(),
                _ => libc::S_IFREG,
            };
            wanted.mode = Some(mode & PERMISSIONS | bits);
        }
        if matches!(new.special, Some(Special::Character | Special::Block)) {
            wanted.device = Some(unpacked(new.device));
        }
        wanted
    }

    /// Stores the values that `wanted` has in the extended attributes of a node.
    fn keep(&self, node: Node, wanted: LinuxAttributes) -> Answer<()> {
        if wanted.is_empty() {
            return Ok(());
        }
        self.keep_with(node, wanted, &[])
    }

    /// The same, together with other extended attributes.
    fn keep_with(&self, node: Node, wanted: LinuxAttributes, others: &[(&str, Option<&[u8]>)]) -> Answer<()> {
        let mut part = self.owners.part(node);
        part.remove(&node.0);
        let values = wanted.extended();
        let changes = values.iter().map(|(name, value)| (*name, Some(&value[..])));
        let changes: Vec<_> = changes.chain(others.iter().copied()).collect();
        self.told(self.system.extended_attributes().and_then(|part| part.set_several(node, &changes)))
    }

    /// Changes owner and permissions on a format that does not store them. An owner other than the one that all files
    /// have is refused, as are set-user-id and the like. Of other permissions only write permission can be taken and
    /// given, by the read-only flag; a change to permissions that no file can have is ignored.
    fn change_flags_instead(&self, node: Node, attributes: &Attributes, change: OwnerChange) -> Answer<()> {
        let other = |wanted: Option<u32>, only: u32| wanted.is_some_and(|wanted| wanted != only);
        if other(change.uid, self.owners.uid) || other(change.gid, self.owners.gid) {
            return Err(Errno::NOT_PERMITTED);
        }
        let Some(mode) = change.mode else { return Ok(()) };
        if mode & PERMISSIONS & !0o777 != 0 {
            return Err(Errno::NOT_PERMITTED);
        }
        let all = self.owners.usual(attributes.kind, DosFlags::default());
        let writing = all & 0o222;
        let can_be =
            attributes.kind == Kind::File && (mode & all & 0o222 == 0 || mode & all & 0o222 == writing);
        if !can_be || (mode & all) & 0o555 != all & 0o555 {
            return Ok(());
        }
        let read_only = mode & writing == 0;
        let flags = match read_only {
            true => DosFlags(attributes.flags.0 | DosFlags::READ_ONLY.0),
            false => DosFlags(attributes.flags.0 & !DosFlags::READ_ONLY.0),
        };
        if flags != attributes.flags {
            self.told(self.system.set_attributes(node, &Change { flags: Some(flags), ..Change::default() }))?;
        }
        Ok(())
    }
}

/// Owner and permissions of a new node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewOwner {
    /// The kind of the node.
    pub kind: Kind,
    /// The Linux file type of a node that is a FIFO, socket or device.
    pub special: Option<Special>,
    /// Permissions.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// The packed device number, for a device.
    pub device: u32,
}

/// Returns a mode without set-user-id, and without set-group-id if the group may execute the file: without that
/// permission, set-group-id stands for mandatory locking.
fn without_privileges(mode: u32) -> u32 {
    let group = if mode & 0o010 != 0 { SET_GROUP } else { 0 };
    mode & !(SET_USER | group)
}

/// Returns the file type bits of a mode (`S_IFMT`).
fn type_bits(stat: &Stat) -> u32 {
    match (stat.kind, stat.special) {
        (_, Some(special)) => special.mode(),
        (Kind::Directory, _) => libc::S_IFDIR,
        (Kind::SymbolicLink, _) => libc::S_IFLNK,
        (Kind::File, _) => libc::S_IFREG,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_numbers_are_packed_as_the_kernel_does() {
        // 0x801 is `makedev(8, 1)`. The loop includes numbers with a large minor number.
        assert_eq!(packed((8, 1)), 0x801);
        for device in [(0, 0), (8, 1), (259, 0x12345), (0xFFF, 0xFFFFF)] {
            assert_eq!(unpacked(packed(device)), device);
        }
    }

    #[test]
    fn privileges_go_and_mandatory_locking_stays() {
        assert_eq!(without_privileges(0o6755), 0o755);
        assert_eq!(without_privileges(0o2745), 0o2745 & !SET_USER);
    }
}

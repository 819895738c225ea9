//! Access control lists of POSIX: which further users and groups may do what with a file.
//!
//! A list is kept as an extended attribute under the name and in the form in which programs see it, where Linux's own NTFS
//! driver looks for it too. What it says of the owner, of others, and of everybody else together is also in the permissions
//! of the file, which Windows' programs may have changed: the permissions count.
//!
//! Source: acl(5); Linux, `include/uapi/linux/posix_acl.h` and `posix_acl_xattr.h` (version, tags and layout); POSIX
//! 1003.1e draft 17, 23.1.5 (lists of new files).

use platter_vfs::bytes::{u16_at, u32_at};

/// The attribute with the list that says who may use a file.
pub(crate) const ACCESS: &str = "system.posix_acl_access";
/// The attribute with the list that new entries of a directory get.
pub(crate) const DEFAULT: &str = "system.posix_acl_default";

const VERSION: u32 = 2;
const HEAD: usize = 4;
const ENTRY: usize = 8;
/// What stands for the number of a user or group in entries that have none.
const NOBODY: u32 = u32::MAX;

const OWNER: u16 = 0x01;
const USER: u16 = 0x02;
const OWNING_GROUP: u16 = 0x04;
const GROUP: u16 = 0x08;
const MASK: u16 = 0x10;
const OTHER: u16 = 0x20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct AclEntry {
    tag: u16,
    /// Read 4, write 2, execute 1.
    rights: u16,
    /// The number of the user or group, in entries of one.
    who: u32,
}

/// A list: owner, users, owning group, groups, the mask, and others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Acl(Vec<AclEntry>);

impl Acl {
    /// Reads a list from the value of the attribute; `None` if it is none, or if it misses what a list must have.
    pub(crate) fn from_bytes(value: &[u8]) -> Option<Acl> {
        let entries = value.get(HEAD..).filter(|_| u32_at(value, 0) == VERSION)?;
        if !entries.len().is_multiple_of(ENTRY) {
            return None;
        }
        let entry = |bytes: &[u8]| AclEntry {
            tag: u16_at(bytes, 0),
            rights: u16_at(bytes, 2),
            who: u32_at(bytes, 4),
        };
        let acl = Acl(entries.chunks_exact(ENTRY).map(entry).collect());
        let is_ordered = acl.0.windows(2).all(|two| two[0].tag <= two[1].tag);
        let count = |tag: u16| acl.0.iter().filter(|entry| entry.tag == tag).count();
        let needs_mask = count(USER) + count(GROUP) > 0;
        let is_whole = [OWNER, OWNING_GROUP, OTHER].iter().all(|tag| count(*tag) == 1)
            && (usize::from(needs_mask)..=1).contains(&count(MASK));
        let is_known = |entry: &AclEntry| {
            [OWNER, USER, OWNING_GROUP, GROUP, MASK, OTHER].contains(&entry.tag) && entry.rights <= 7
        };
        (is_ordered && is_whole && acl.0.iter().all(is_known)).then_some(acl)
    }

    /// The value of the attribute.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut value = VERSION.to_le_bytes().to_vec();
        for entry in &self.0 {
            value.extend(entry.tag.to_le_bytes());
            value.extend(entry.rights.to_le_bytes());
            let who = if matches!(entry.tag, USER | GROUP) { entry.who } else { NOBODY };
            value.extend(who.to_le_bytes());
        }
        value
    }

    fn rights(&self, tag: u16) -> Option<u16> {
        self.0.iter().find(|entry| entry.tag == tag).map(|entry| entry.rights)
    }

    /// The tag of the entry that is the permissions of the group: what the owning group and all that are named may have at
    /// most, or, where nobody is named, what the owning group has.
    fn group_tag(&self) -> u16 {
        if self.rights(MASK).is_some() { MASK } else { OWNING_GROUP }
    }

    /// The permissions that say what the list says, without those that only the owner of a list's file can set.
    pub(crate) fn mode(&self) -> u32 {
        let of = |tag| u32::from(self.rights(tag).unwrap_or(0));
        of(OWNER) << 6 | of(self.group_tag()) << 3 | of(OTHER)
    }

    /// Whether the permissions say all that the list says.
    pub(crate) fn is_plain(&self) -> bool {
        self.0.len() == 3
    }

    /// The list after the permissions were set.
    pub(crate) fn with_mode(mut self, mode: u32) -> Acl {
        let group = self.group_tag();
        for entry in &mut self.0 {
            match entry.tag {
                OWNER => entry.rights = (mode >> 6 & 7) as u16,
                OTHER => entry.rights = (mode & 7) as u16,
                tag if tag == group => entry.rights = (mode >> 3 & 7) as u16,
                _ => {}
            }
        }
        self
    }

    /// The list of a new entry in a directory of which this is the default list. `mode` has what the program that makes the
    /// entry asks for.
    pub(crate) fn of_new(self, mode: u32) -> Acl {
        let allowed = self.mode();
        self.with_mode(mode & allowed)
    }

    /// Whether a user in this one group has these rights (read 4, write 2, execute 1).
    pub(crate) fn allows(&self, owner: (u32, u32), user: u32, group: u32, rights: u16) -> bool {
        let mask = self.rights(MASK).unwrap_or(7);
        let has = |of: u16| of & rights == rights;
        if user == owner.0 {
            return has(self.rights(OWNER).unwrap_or(0));
        }
        if let Some(named) = self.0.iter().find(|entry| entry.tag == USER && entry.who == user) {
            return has(named.rights & mask);
        }
        let is_of_group = |entry: &&AclEntry| match entry.tag {
            OWNING_GROUP => group == owner.1,
            GROUP => entry.who == group,
            _ => false,
        };
        let mut groups = self.0.iter().filter(is_of_group).peekable();
        match groups.peek() {
            Some(_) => groups.any(|entry| has(entry.rights & mask)),
            None => has(self.rights(OTHER).unwrap_or(0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(entries: &[(u16, u16, u32)]) -> Vec<u8> {
        let mut value = VERSION.to_le_bytes().to_vec();
        for (tag, rights, who) in entries {
            value.extend(tag.to_le_bytes());
            value.extend(rights.to_le_bytes());
            value.extend(who.to_le_bytes());
        }
        value
    }

    const NAMED: [(u16, u16, u32); 6] = [
        (OWNER, 7, NOBODY),
        (USER, 6, 1000),
        (OWNING_GROUP, 5, NOBODY),
        (GROUP, 7, 2000),
        (MASK, 6, NOBODY),
        (OTHER, 0, NOBODY),
    ];

    #[test]
    fn a_list_is_read_and_written() {
        let value = list(&NAMED);
        let acl = Acl::from_bytes(&value).unwrap();
        assert_eq!(acl.to_bytes(), value);
        assert_eq!((acl.mode(), acl.is_plain()), (0o760, false));
        let plain = list(&[(OWNER, 6, NOBODY), (OWNING_GROUP, 4, NOBODY), (OTHER, 4, NOBODY)]);
        let plain = Acl::from_bytes(&plain).unwrap();
        assert_eq!((plain.mode(), plain.is_plain()), (0o644, true));
    }

    #[test]
    fn what_is_no_list_is_refused() {
        assert_eq!(Acl::from_bytes(&[]), None);
        assert_eq!(Acl::from_bytes(&[2, 0, 0, 0]), None);
        assert_eq!(Acl::from_bytes(&list(&NAMED)[..20]), None);
        for missing in 0..NAMED.len() {
            let mut entries = NAMED.to_vec();
            let tag = entries.remove(missing).0;
            let may_miss = matches!(tag, USER | GROUP);
            assert_eq!(Acl::from_bytes(&list(&entries)).is_some(), may_miss, "{tag:#x}");
        }
        let mut value = list(&NAMED);
        value.swap(4, 12);
        assert_eq!(Acl::from_bytes(&value), None);
        let mut value = list(&NAMED);
        value[0] = 1;
        assert_eq!(Acl::from_bytes(&value), None);
        let mut value = list(&NAMED);
        value[6] = 8;
        assert_eq!(Acl::from_bytes(&value), None);
        // No bytes are a panic.
        for at in 0..list(&NAMED).len() {
            for byte in [0, 1, 0x10, 0xFF] {
                let mut value = list(&NAMED);
                value[at] = byte;
                if let Some(acl) = Acl::from_bytes(&value) {
                    acl.clone().with_mode(0o777).of_new(0o640);
                }
            }
        }
    }

    #[test]
    fn permissions_set_the_mask_and_not_the_group() {
        let acl = Acl::from_bytes(&list(&NAMED)).unwrap().with_mode(0o640);
        assert_eq!(acl.mode(), 0o640);
        assert_eq!(acl.rights(OWNING_GROUP), Some(5));
        let new = Acl::from_bytes(&list(&NAMED)).unwrap().of_new(0o666);
        assert_eq!((new.mode(), new.rights(USER)), (0o660, Some(6)));
    }

    #[test]
    fn who_is_named_has_what_the_mask_leaves() {
        let acl = Acl::from_bytes(&list(&NAMED)).unwrap();
        let owner = (1, 2);
        assert!(acl.allows(owner, 1, 9, 7));
        assert!(acl.allows(owner, 1000, 9, 6) && !acl.allows(owner, 1000, 9, 1));
        // The owning group lacks what the mask has.
        assert!(acl.allows(owner, 8, 2, 4) && !acl.allows(owner, 8, 2, 2));
        assert!(acl.allows(owner, 8, 2000, 2) && !acl.allows(owner, 8, 2000, 1));
        assert!(!acl.allows(owner, 8, 9, 4));
    }
}

//! The security descriptors (object 0x530): every one that a file or directory has, once, found by its hash.
//!
//! A file's security identifier is the descriptor's hash, with the number of a collision above it: equal rights have
//! equal identifiers on all volumes.
//!
//! Source: forefst `docs/structures/security_descriptors.md`, and the descriptors of volumes made by Windows 10 and 11.
//! The form of the rows is proven: the root page of a table built from the two of a new volume has the checksum that
//! Windows 11 stored for its own.

use super::Row;
use crate::layout::bytes::{put, u16_at, u32_at};

/// Bytes before the descriptor in the value of a row.
const HEADER: usize = 12;
/// Bytes of a descriptor before its first part.
const PARTS: usize = 20;

/// A user or group of the NT authority: the numbers that follow `S-1-5-`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sid<'a>(pub &'a [u32]);

impl Sid<'_> {
    /// Local System, S-1-5-18.
    pub const SYSTEM: Sid<'static> = Sid(&[18]);
    /// Administrators, S-1-5-32-544.
    pub const ADMINISTRATORS: Sid<'static> = Sid(&[32, 544]);
    /// Users, S-1-5-32-545.
    pub const USERS: Sid<'static> = Sid(&[32, 545]);
    /// Authenticated Users, S-1-5-11.
    pub const AUTHENTICATED: Sid<'static> = Sid(&[11]);

    fn bytes(self) -> Vec<u8> {
        let mut bytes = vec![1, self.0.len() as u8, 0, 0, 0, 0, 0, 5];
        bytes.extend(self.0.iter().flat_map(|number| number.to_le_bytes()));
        bytes
    }
}

/// An entry of an access list that allows something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ace<'a> {
    /// [`Ace::HERE`], [`Ace::AND_BELOW`] or [`Ace::BELOW`].
    pub flags: u8,
    /// What is allowed: a Windows access mask.
    pub mask: u32,
    /// To whom.
    pub trustee: Sid<'a>,
}

impl Ace<'_> {
    /// Only for what has the descriptor.
    pub const HERE: u8 = 0;
    /// For it, and inherited by files and directories in it.
    pub const AND_BELOW: u8 = 0x03;
    /// Only inherited.
    pub const BELOW: u8 = 0x0B;

    /// All rights of a file.
    pub const FULL: u32 = 0x001F_01FF;
    /// Read, write, execute, delete.
    pub const MODIFY: u32 = 0x0013_01BF;
    /// Read and execute.
    pub const READ: u32 = 0x0012_00A9;

    fn bytes(&self) -> Vec<u8> {
        let trustee = self.trustee.bytes();
        let mut bytes = vec![0, self.flags];
        bytes.extend((8 + trustee.len() as u16).to_le_bytes());
        bytes.extend(self.mask.to_le_bytes());
        bytes.extend(trustee);
        bytes
    }
}

/// A self-relative descriptor, its parts in the order of Windows: access list, owner, group.
pub fn descriptor(owner: Sid, group: Sid, allowed: &[Ace]) -> Vec<u8> {
    let entries: Vec<u8> = allowed.iter().flat_map(Ace::bytes).collect();
    let (owner, group) = (owner.bytes(), group.bytes());
    let owner_at = PARTS + 8 + entries.len();
    let mut bytes = vec![0; PARTS + 8];
    put(&mut bytes, 0x00, 1u16); // revision
    put(&mut bytes, 0x02, 0x8004u16); // self-relative, with an access list
    put(&mut bytes, 0x04, owner_at as u32);
    put(&mut bytes, 0x08, (owner_at + owner.len()) as u32);
    put(&mut bytes, 0x10, PARTS as u32);
    put(&mut bytes, PARTS, 2u16); // the list's revision
    put(&mut bytes, PARTS + 2, (8 + entries.len()) as u16);
    put(&mut bytes, PARTS + 4, allowed.len() as u16);
    [bytes, entries, owner, group].concat()
}

/// What Windows gives a new volume's root, and what the directories in it inherit from that: everything for
/// Administrators and the system, changes for those who are logged on, reading for Users.
pub fn directory_descriptor() -> Vec<u8> {
    let generic = |mask: u32, trustee| Ace { flags: Ace::BELOW, mask, trustee };
    let here = |mask, trustee| Ace { flags: Ace::HERE, mask, trustee };
    let allowed = [
        Ace { flags: Ace::AND_BELOW, mask: Ace::FULL, trustee: Sid::ADMINISTRATORS },
        here(Ace::FULL, Sid::SYSTEM),
        generic(0x1000_0000, Sid::SYSTEM), // all
        here(Ace::MODIFY, Sid::AUTHENTICATED),
        generic(0xE001_0000, Sid::AUTHENTICATED), // read, write, execute, delete
        here(Ace::READ, Sid::USERS),
        generic(0xA000_0000, Sid::USERS), // read, execute
    ];
    descriptor(Sid::ADMINISTRATORS, Sid::SYSTEM, &allowed)
}

/// What a file inherits from [`directory_descriptor`].
pub fn file_descriptor() -> Vec<u8> {
    let rights = [
        (Ace::FULL, Sid::ADMINISTRATORS),
        (Ace::FULL, Sid::SYSTEM),
        (Ace::MODIFY, Sid::AUTHENTICATED),
        (Ace::READ, Sid::USERS),
    ];
    let allowed = rights.map(|(mask, trustee)| Ace { flags: Ace::HERE, mask, trustee });
    descriptor(Sid::ADMINISTRATORS, Sid::SYSTEM, &allowed)
}

/// What the system keeps to itself: everything for it and for Administrators. With the root's it is the only descriptor
/// that a new volume of Windows has.
pub fn system_descriptor() -> Vec<u8> {
    let rights = [Sid::SYSTEM, Sid::ADMINISTRATORS];
    let allowed = rights.map(|trustee| Ace { flags: Ace::HERE, mask: Ace::FULL, trustee });
    descriptor(Sid::ADMINISTRATORS, Sid::SYSTEM, &allowed)
}

/// The hash that NTFS has for descriptors too.
pub fn descriptor_hash(descriptor: &[u8]) -> u32 {
    let words = descriptor.chunks(4).map(|word| {
        let mut whole = [0; 4];
        whole[..word.len()].copy_from_slice(word);
        u32::from_le_bytes(whole)
    });
    words.fold(0, |hash: u32, word| hash.rotate_left(3).wrapping_add(word))
}

/// The identifier by which files name a descriptor: the first with its hash.
pub fn security_id(descriptor: &[u8]) -> u64 {
    1 << 32 | u64::from(descriptor_hash(descriptor))
}

/// The row of a descriptor, the first with its hash. Rows are in the order of their identifiers.
pub fn security_row(descriptor: &[u8]) -> Row {
    security_row_with(security_id(descriptor), descriptor)
}

/// The row of a descriptor with this identifier.
pub fn security_row_with(id: u64, descriptor: &[u8]) -> Row {
    let (hash, generation, length) = (id as u32, (id >> 32) as u32, (HEADER + descriptor.len()) as u32);
    let (mut key, mut value) = (vec![0; 16], vec![0; HEADER]);
    put(&mut key, 0x00, u64::from(length));
    put(&mut key, 0x08, generation);
    put(&mut key, 0x0C, hash);
    put(&mut value, 0x00, hash);
    put(&mut value, 0x04, generation);
    put(&mut value, 0x08, length);
    value.extend(descriptor);
    (key, value)
}

/// Whether bytes are a self-relative descriptor whose parts lie in it. What they allow is not looked at.
pub fn is_descriptor(bytes: &[u8]) -> bool {
    /// Bit of its control: parts are named by their offsets.
    const SELF_RELATIVE: u16 = 0x8000;
    let sid = |at: usize| {
        let parts = bytes.get(at + 1).map_or(usize::MAX, |&parts| usize::from(parts));
        parts <= 15 && bytes[at] == 1 && bytes.len() - at >= 8 + 4 * parts
    };
    let list = |at: usize| {
        let length = bytes.get(at + 2..at + 4).map_or(0, |length| usize::from(u16_at(length, 0)));
        length >= 8 && bytes.len() - at >= length
    };
    let part = |field: usize, is_sound: &dyn Fn(usize) -> bool| match u32_at(bytes, field) as usize {
        0 => true,
        at => at >= PARTS && at < bytes.len() && is_sound(at),
    };
    bytes.len() >= PARTS
        && bytes[0] == 1
        && u16_at(bytes, 0x02) & SELF_RELATIVE != 0
        && part(0x04, &sid)
        && part(0x08, &sid)
        && part(0x0C, &list)
        && part(0x10, &list)
}

/// Identifier and descriptor of a row; `None` if the value is not what its key says, or its hash is wrong.
pub fn read_security_row<'a>(key: &[u8], value: &'a [u8]) -> Option<(u64, &'a [u8])> {
    let descriptor = value.get(HEADER..)?;
    let (hash, generation, length) = (u32_at(value, 0), u32_at(value, 4), u32_at(value, 8));
    let agrees = key.len() >= 16 && u32_at(key, 0x08) == generation && u32_at(key, 0x0C) == hash;
    let sound = agrees && length as usize == value.len() && descriptor_hash(descriptor) == hash;
    sound.then_some((u64::from(generation) << 32 | u64::from(hash), descriptor))
}

/// The rows of a new volume, in the order of their keys. Windows writes two, the root's and the system's; the third is
/// for the files made here.
pub fn security_rows() -> Vec<Row> {
    let mut descriptors = [directory_descriptor(), file_descriptor(), system_descriptor()];
    descriptors.sort_by_key(|descriptor| security_id(descriptor));
    descriptors.iter().map(|descriptor| security_row(descriptor)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// "Domain Users" of the machine whose volumes were examined.
    const DOMAIN_USERS: Sid = Sid(&[21, 3829591975, 2821165226, 2477612932, 513]);

    #[test]
    fn identifiers_that_windows_gave() {
        let full = |trustee| Ace { flags: Ace::HERE, mask: Ace::FULL, trustee };
        let all = Ace { flags: Ace::AND_BELOW, ..full(Sid::SYSTEM) };
        let of = |owner, group, allowed: &[Ace]| security_id(&descriptor(owner, group, allowed));
        assert_eq!(of(Sid::SYSTEM, Sid::SYSTEM, &[full(Sid::SYSTEM)]), 0x1_23D3_06F5);
        assert_eq!(of(Sid::ADMINISTRATORS, Sid::SYSTEM, &[full(Sid::SYSTEM)]), 0x1_0A9F_9562);
        assert_eq!(security_id(&directory_descriptor()), 0x1_487E_2D1B);
        assert_eq!(security_id(&system_descriptor()), 0x1_2090_2505);
        // The same with other flags of the descriptor or its entry.
        let mut protected = descriptor(Sid::ADMINISTRATORS, Sid::SYSTEM, &[all]);
        put(&mut protected, 2, 0x9004u16);
        assert_eq!(security_id(&protected), 0x1_0AA3_9B62);
    }

    #[test]
    fn identifiers_with_another_group() {
        // The group is the last part: what comes before it must be what Windows wrote.
        let with_group = |mut bytes: Vec<u8>| {
            bytes.truncate(bytes.len() - Sid::SYSTEM.bytes().len());
            [bytes, DOMAIN_USERS.bytes()].concat()
        };
        assert_eq!(security_id(&with_group(directory_descriptor())), 0x1_2000_5B20);
        assert_eq!(security_id(&with_group(file_descriptor())), 0x1_348E_E884);
    }

    #[test]
    fn rows_hold_what_they_say() {
        let rows = security_rows();
        let ids: Vec<u64> = rows
            .iter()
            .map(|(key, value)| {
                let (id, descriptor) = read_security_row(key, value).expect("a sound row");
                assert_eq!(security_id(descriptor), id);
                assert_eq!(key[..8], (value.len() as u64).to_le_bytes());
                id
            })
            .collect();
        assert_eq!(ids.len(), 3);
        assert!(ids.is_sorted());
    }

    #[test]
    fn damaged_rows_are_refused() {
        let (key, value) = security_row(&system_descriptor());
        for at in 0..value.len() {
            let mut damaged = value.clone();
            damaged[at] ^= 0x10;
            assert_eq!(read_security_row(&key, &damaged), None, "byte {at}");
            assert_eq!(read_security_row(&key, &value[..at]), None, "cut at {at}");
        }
        assert_eq!(read_security_row(&key[..12], &value), None);
    }
}

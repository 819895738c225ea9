//! Security descriptors, as NTFS and ReFS keep them: who owns a file and who may do what with it.
//!
//! Source: Microsoft, [MS-DTYP] 2.4; what Windows 10 and 11 give to new volumes.

use crate::bytes::{put, u16_at, u32_at};

/// Bytes of the header of a descriptor, before its first part.
const PARTS: usize = 20;

/// A security identifier of the NT authority, for a user or group: the numbers that follow `S-1-5-`.
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

    /// The bytes of the identifier in a descriptor.
    pub fn bytes(self) -> Vec<u8> {
        let mut bytes = vec![1, self.0.len() as u8, 0, 0, 0, 0, 0, 5];
        bytes.extend(self.0.iter().flat_map(|number| number.to_le_bytes()));
        bytes
    }
}

/// An entry of an access control list that grants rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ace<'a> {
    /// [`Ace::HERE`], [`Ace::AND_BELOW`] or [`Ace::BELOW`].
    pub flags: u8,
    /// The rights that are granted: a Windows access mask.
    pub mask: u32,
    /// The user or group to whom they are granted.
    pub trustee: Sid<'a>,
}

impl Ace<'_> {
    /// The entry applies only to the file or directory that has the descriptor.
    pub const HERE: u8 = 0;
    /// The entry applies to the directory itself and is inherited by the files and directories in it.
    pub const AND_BELOW: u8 = 0x03;
    /// The entry is only inherited by the files and directories in the directory.
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

/// Returns a self-relative descriptor with its parts in the order that Windows uses: access control list, owner, group.
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

/// The descriptor that Windows gives the root of a new volume, and that the directories in the root inherit: full
/// control for Administrators and the system, modification for authenticated users, reading for Users.
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

/// The descriptor that a file inherits from [`directory_descriptor`].
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

/// The descriptor of the system's own files: full control for the system and Administrators only. Apart from the root's
/// it is the only descriptor on a new volume of Windows.
pub fn system_descriptor() -> Vec<u8> {
    let rights = [Sid::SYSTEM, Sid::ADMINISTRATORS];
    let allowed = rights.map(|trustee| Ace { flags: Ace::HERE, mask: Ace::FULL, trustee });
    descriptor(Sid::ADMINISTRATORS, Sid::SYSTEM, &allowed)
}

/// The descriptors of files and directories to which nobody gave rights of their own.
pub fn usual_descriptors() -> [Vec<u8>; 3] {
    [file_descriptor(), directory_descriptor(), system_descriptor()]
}

/// The hash by which NTFS and ReFS look up a descriptor.
pub fn descriptor_hash(descriptor: &[u8]) -> u32 {
    let words = descriptor.chunks(4).map(|word| {
        let mut whole = [0; 4];
        whole[..word.len()].copy_from_slice(word);
        u32::from_le_bytes(whole)
    });
    words.fold(0, |hash: u32, word| hash.rotate_left(3).wrapping_add(word))
}

/// Whether the bytes are a self-relative descriptor whose parts lie within them. The rights that it grants are not
/// examined.
pub fn is_descriptor(bytes: &[u8]) -> bool {
    /// Bit of the control field: the parts are given by their offsets.
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

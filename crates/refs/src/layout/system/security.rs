//! The security descriptors (object 0x530): each descriptor in use is stored once, and found by its hash.
//!
//! A file's security identifier is the descriptor's hash, with a number above it that tells descriptors with the same
//! hash apart: equal descriptors have equal identifiers on all volumes.
//!
//! Source: forefst `docs/structures/security_descriptors.md`, and the descriptors of volumes made by Windows 10 and 11.
//! The form of the rows is proven: the root page of a table built from the two of a new volume has the checksum that
//! Windows 11 stored for its own.

use super::SystemRow;
use crate::layout::bytes::{FieldAt, put, u32_at};
pub(crate) use platter_vfs::security::{
    descriptor_hash, directory_descriptor, file_descriptor, is_descriptor, system_descriptor,
};

/// Of a row's key: the upper half of the identifier.
const KEY_GENERATION: FieldAt<u32> = FieldAt::new(0x08);
/// Of a row's key: the descriptor's hash.
const KEY_HASH: FieldAt<u32> = FieldAt::new(0x0C);
/// Bytes of a row's value before the descriptor.
const HEADER: usize = 12;

/// The identifier of a descriptor that is the first with its hash.
pub(crate) fn security_id(descriptor: &[u8]) -> u64 {
    1 << 32 | u64::from(descriptor_hash(descriptor))
}

/// The row of a descriptor that is the first with its hash. Rows are in the order of their identifiers.
pub(crate) fn security_row(descriptor: &[u8]) -> SystemRow {
    security_row_with(security_id(descriptor), descriptor)
}

/// A key before that of the descriptor with this identifier, and after those of lesser ones.
pub(crate) fn security_key_from(id: u64) -> [u8; 16] {
    let mut key = [0; 16];
    KEY_GENERATION.put(&mut key, (id >> 32) as u32);
    KEY_HASH.put(&mut key, id as u32);
    key
}

/// The descriptor in a row's value, whatever the row says of it; `None` if the value is too short.
pub(crate) fn descriptor_of(value: &[u8]) -> Option<&[u8]> {
    value.get(HEADER..)
}

/// The row of a descriptor with this identifier.
pub(crate) fn security_row_with(id: u64, descriptor: &[u8]) -> SystemRow {
    let (hash, generation, length) = (id as u32, (id >> 32) as u32, (HEADER + descriptor.len()) as u32);
    let (mut key, mut value) = (vec![0; 16], vec![0; HEADER]);
    put(&mut key, 0x00, u64::from(length));
    KEY_GENERATION.put(&mut key, generation);
    KEY_HASH.put(&mut key, hash);
    put(&mut value, 0x00, hash);
    put(&mut value, 0x04, generation);
    put(&mut value, 0x08, length);
    value.extend(descriptor);
    (key, value)
}

/// Reads the identifier and the descriptor of a row; `None` if key and value contradict each other, or the hash is
/// wrong.
pub(crate) fn read_security_row<'a>(key: &[u8], value: &'a [u8]) -> Option<(u64, &'a [u8])> {
    let descriptor = value.get(HEADER..)?;
    let (hash, generation, length) = (u32_at(value, 0), u32_at(value, 4), u32_at(value, 8));
    let agrees = key.len() >= 16 && KEY_GENERATION.of(key) == generation && KEY_HASH.of(key) == hash;
    let sound = agrees && length as usize == value.len() && descriptor_hash(descriptor) == hash;
    sound.then_some((u64::from(generation) << 32 | u64::from(hash), descriptor))
}

/// The rows of a new volume, in the order of their keys. Windows writes two, for the root directory and for its own
/// files; the third is for the files that Platter makes.
pub(crate) fn security_rows() -> Vec<SystemRow> {
    let mut descriptors = [directory_descriptor(), file_descriptor(), system_descriptor()];
    descriptors.sort_by_key(|descriptor| security_id(descriptor));
    descriptors.iter().map(|descriptor| security_row(descriptor)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use platter_vfs::security::{Ace, Sid, descriptor};

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
        // A descriptor with other flags, of its own and of its entry.
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

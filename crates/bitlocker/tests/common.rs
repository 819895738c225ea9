//! Encrypted volumes for tests.

use platter_bitlocker::making::Making;
use platter_bitlocker::{Encrypted, EncryptedVolume, KeyFile, Layout, Method, Secret};
use platter_device::{Device, MemoryDevice, Sectors};
use sha2::{Digest, Sha256};
use std::sync::Arc;

pub(crate) const MIB: u64 = 1 << 20;
pub(crate) const PASSWORD: &str = "correct horse battery";
pub(crate) const RECOVERY_KEY: &str = "471207-278498-422125-177177-561902-537405-468006-693451";

/// A volume of 8 MiB with a key file only, which needs no stretching.
pub(crate) fn making(layout: Layout, method: Method) -> Making<'static> {
    Making {
        layout,
        method,
        sector: 512,
        blocks: [2 * MIB, 4 * MIB, 6 * MIB],
        first: (3 * MIB, 8192),
        password: None,
        recovery_key: None,
        key_file: true,
        clear_key: false,
        encrypted: None,
        seed: 7,
    }
}

/// Content that is other in each sector, and begins like NTFS.
pub(crate) fn content(length: u64) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..length).map(|at| (at ^ at >> 9 ^ at >> 16) as u8).collect();
    bytes[..11].copy_from_slice(b"\xEB\x52\x90NTFS    ");
    bytes[11..14].copy_from_slice(&[0, 2, 8]);
    bytes[14..56].fill(0);
    bytes[40..48].copy_from_slice(&(length / 512).to_le_bytes());
    bytes[56..64].copy_from_slice(&33_u64.to_le_bytes());
    bytes[510..512].copy_from_slice(&[0x55, 0xAA]);
    bytes
}

/// A memory device with the volume encrypted, and the key file.
pub(crate) fn made(making: &Making<'_>, length: u64) -> (Arc<MemoryDevice>, Option<Vec<u8>>) {
    let sectors = if making.sector == 512 { Sectors::SMALL } else { Sectors::LARGE };
    let device = Arc::new(MemoryDevice::from_image(&content(length), sectors));
    let file = making.encrypt(&*device).unwrap();
    (device, file)
}

/// Opens a volume with its key file.
pub(crate) fn open(device: Arc<dyn Device>, file: &[u8]) -> EncryptedVolume {
    let encrypted = Encrypted::look(&*device).unwrap().expect("an encrypted volume");
    let secret = Secret::KeyFile(KeyFile::parse(file).unwrap());
    let key = encrypted.key(&secret, &|| false).unwrap();
    encrypted.open(device, &key).unwrap()
}

/// What the volume is to hold: the content, and zeroes where BitLocker has its own.
pub(crate) fn expected(making: &Making<'_>, length: u64) -> Vec<u8> {
    let mut bytes = content(length);
    let region = if making.layout == Layout::Vista { 16 << 10 } else { 64 << 10 };
    let mut own: Vec<(u64, u64)> = making.blocks.map(|at| (at, region)).to_vec();
    if making.layout != Layout::Vista {
        own.push(making.first);
    }
    for (at, size) in own {
        bytes[at as usize..(at + size) as usize].fill(0);
    }
    bytes
}

/// The SHA-256 of so much of a device.
pub(crate) fn sha256(device: &dyn Device, length: u64) -> String {
    let mut hash = Sha256::new();
    let mut part = vec![0; 1 << 20];
    for offset in (0..length).step_by(part.len()) {
        let part = &mut part[..(1 << 20).min((length - offset) as usize)];
        device.read_at(offset, part).unwrap();
        hash.update(part);
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) const LAYOUTS: [Layout; 3] = [Layout::Vista, Layout::Seven, Layout::ToGo];

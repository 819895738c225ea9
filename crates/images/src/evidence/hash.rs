//! The hashes of the whole disk that evidence has.

use md5::{Digest, Md5};
use platter_device::{Device, Result};
use sha1::Sha1;
use std::fmt::Write;

/// A hash that was stored when the evidence was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredHash {
    /// `MD5` or `SHA-1`.
    pub algorithm: &'static str,
    /// Its 16 or 20 bytes.
    pub value: Box<[u8]>,
}

/// A hash of the disk as it is, beside the stored one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifiedHash {
    /// `MD5` or `SHA-1`.
    pub algorithm: &'static str,
    /// The stored hash in hexadecimal digits.
    pub expected: String,
    /// The hash of the disk's content in hexadecimal digits.
    pub found: String,
}

impl VerifiedHash {
    /// Whether the disk is as it was.
    pub fn is_right(&self) -> bool {
        self.expected == self.found
    }
}

fn digits(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Reads a whole disk and computes each hash that is stored of it. `step` is told how many bytes are read; it returns
/// whether to go on.
///
/// # Errors
/// The errors of reading the disk; [`Error::Stopped`](platter_device::Error::Stopped) if `step` ends it.
pub fn verify(
    disk: &dyn Device,
    hashes: &[StoredHash],
    mut step: impl FnMut(u64) -> bool,
) -> Result<Vec<VerifiedHash>> {
    const PART: u64 = 1 << 20;
    let needs = |algorithm| hashes.iter().any(|hash| hash.algorithm == algorithm);
    let (needs_md5, needs_sha1) = (needs("MD5"), needs("SHA-1"));
    let (mut md5, mut sha1) = (Md5::new(), Sha1::new());
    let mut buffer = vec![0; PART.min(disk.len()) as usize];
    let mut at = 0;
    while at < disk.len() {
        let part = &mut buffer[..PART.min(disk.len() - at) as usize];
        disk.read_at(at, part)?;
        if needs_md5 {
            md5.update(&*part);
        }
        if needs_sha1 {
            sha1.update(&*part);
        }
        at += part.len() as u64;
        if !step(at) {
            return Err(platter_device::Error::Stopped { device: disk.name().into() });
        }
    }
    let (md5, sha1) = (digits(&md5.finalize()), digits(&sha1.finalize()));
    let found = |hash: &StoredHash| VerifiedHash {
        algorithm: hash.algorithm,
        expected: digits(&hash.value),
        found: if hash.algorithm == "MD5" { md5.clone() } else { sha1.clone() },
    };
    Ok(hashes.iter().map(found).collect())
}

//! Keys that are encrypted with other keys: AES-CCM with a key of 256 bits, a nonce of 12 bytes, and a tag of 16.

use crate::bytes::{field, le16, le32};
use aes::Aes256;
use ccm::aead::{AeadInOut, KeyInit};
use ccm::consts::{U12, U16};
use zeroize::Zeroizing;

/// Bytes of the nonce: a time and a counter.
const NONCE: usize = 12;
/// Bytes of the tag, which stands before what it authenticates.
const TAG: usize = 16;
/// Bytes before the key in what is sealed: size, version, a reserved field, and method.
const HEAD: usize = 12;
/// The longest key that is sealed: that of two ciphers of 256 bits.
const LONGEST: usize = 64;

/// An encrypted key: \[BDE\], "FVE AES-CCM encrypted key".
#[derive(Clone)]
pub(crate) struct Sealed(Box<[u8]>);

/// A key that was sealed.
pub(crate) struct Opened {
    /// The number of the method that the key is for.
    pub method: u16,
    pub key: Zeroizing<Vec<u8>>,
}

impl Sealed {
    /// The encrypted key in the data of an entry; `None` if it has no length that a key has.
    pub(crate) fn parse(data: &[u8]) -> Option<Sealed> {
        let inside = data.len().checked_sub(NONCE + TAG + HEAD)?;
        (1..=LONGEST).contains(&inside).then(|| Sealed(data.into()))
    }

    /// Decrypts the key; `None` if it was encrypted with another one.
    pub(crate) fn open(&self, with: &[u8]) -> Option<Opened> {
        let cipher = ccm::Ccm::<Aes256, U16, U12>::new_from_slice(with).ok()?;
        let nonce: [u8; NONCE] = field(&self.0, 0)?;
        let tag: [u8; TAG] = field(&self.0, NONCE)?;
        let mut text = Zeroizing::new(self.0.get(NONCE + TAG..)?.to_vec());
        cipher.decrypt_inout_detached(&nonce.into(), &[], text.as_mut_slice().into(), &tag.into()).ok()?;
        let size = usize::from(le16(&text, 0)?);
        let method = (le32(&text, 8)? & 0xFFFF) as u16;
        let key = Zeroizing::new(text.get(HEAD..size)?.to_vec());
        Some(Opened { method, key })
    }

    /// Encrypts a key for tests.
    #[cfg(feature = "making")]
    pub(crate) fn make(with: &[u8; 32], nonce: [u8; NONCE], method: u32, key: &[u8]) -> Vec<u8> {
        let cipher = ccm::Ccm::<Aes256, U16, U12>::new_from_slice(with).expect("a key of 32 bytes");
        let mut text = Vec::new();
        text.extend((HEAD as u32 + key.len() as u32).to_le_bytes());
        text.extend([1, 0, 0, 0]);
        text.extend(method.to_le_bytes());
        text.extend(key);
        let tag = cipher
            .encrypt_inout_detached(&nonce.into(), &[], text.as_mut_slice().into())
            .expect("a text of a few bytes");
        [&nonce[..], &tag[..], &text].concat()
    }
}

//! What opens a volume.

use crate::bytes::{field, le32};
use crate::entry::{self, MetadataEntry};
use platter_images::Guid;
use sha2::{Digest, Sha256};
use std::fmt::{self, Write};
use zeroize::Zeroizing;

/// What opens an encrypted volume. It shows nothing of itself, and is overwritten in memory when it is dropped.
#[derive(Clone)]
pub enum Secret {
    /// What somebody chose as a password.
    Password(Zeroizing<String>),
    /// The recovery key of 48 digits.
    RecoveryKey(RecoveryKey),
    /// The content of a key file.
    KeyFile(KeyFile),
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Secret::Password(_) => "Password(..)",
            Secret::RecoveryKey(_) => "RecoveryKey(..)",
            Secret::KeyFile(_) => "KeyFile(..)",
        })
    }
}

/// The hash that is stretched to the key of a password: \[BDE\], "User key".
pub(crate) fn hash_of_password(password: &str) -> Zeroizing<[u8; 32]> {
    let mut units: Zeroizing<Vec<u8>> = Zeroizing::new(Vec::with_capacity(2 * password.len()));
    password.encode_utf16().for_each(|unit| units.extend(unit.to_le_bytes()));
    let once = Zeroizing::new(<[u8; 32]>::from(Sha256::digest(&units)));
    Zeroizing::new(Sha256::digest(&once[..]).into())
}

/// A recovery key: eight groups of six digits, each of which is a number of 16 bits multiplied by 11.
#[derive(Clone)]
pub struct RecoveryKey(Zeroizing<[u8; 16]>);

impl RecoveryKey {
    /// Parses the digits. Whatever stands between the groups may be there or not.
    ///
    /// # Errors
    /// The reason, with the number of the group that is wrong and nothing of what it holds.
    pub fn parse(text: &str) -> Result<RecoveryKey, String> {
        const DIGITS: usize = 48;
        if let Some(other) = text.chars().find(|c| !c.is_ascii_digit() && !c.is_whitespace() && *c != '-') {
            let what = if other.is_alphabetic() { "a letter" } else { "a character that is no digit" };
            return Err(format!("a recovery key has {DIGITS} digits, and here is {what}"));
        }
        let digits: Zeroizing<Vec<u8>> =
            Zeroizing::new(text.bytes().filter(u8::is_ascii_digit).map(|digit| digit - b'0').collect());
        if digits.len() != DIGITS {
            return Err(format!("a recovery key has {DIGITS} digits, and here are {}", digits.len()));
        }
        let mut key = Zeroizing::new([0; 16]);
        for (group, (part, digits)) in key.chunks_exact_mut(2).zip(digits.chunks_exact(6)).enumerate() {
            let value = digits.iter().fold(0_u32, |value, &digit| value * 10 + u32::from(digit));
            let half = u16::try_from(value / 11).ok().filter(|_| value.is_multiple_of(11));
            let Some(half) = half else {
                return Err(format!(
                    "group {} of the recovery key is mistyped: no group has these digits",
                    group + 1
                ));
            };
            part.copy_from_slice(&half.to_le_bytes());
        }
        Ok(RecoveryKey(key))
    }

    /// The digits, in groups.
    pub fn digits(&self) -> Zeroizing<String> {
        let mut text = Zeroizing::new(String::with_capacity(64));
        for (group, half) in self.0.chunks_exact(2).enumerate() {
            let value = 11 * u32::from(u16::from_le_bytes([half[0], half[1]]));
            let hyphen = if group == 0 { "" } else { "-" };
            let _ = write!(text, "{hyphen}{value:06}");
        }
        text
    }

    /// The hash that is stretched to the key.
    pub(crate) fn hash(&self) -> Zeroizing<[u8; 32]> {
        Zeroizing::new(Sha256::digest(&self.0[..]).into())
    }
}

impl fmt::Debug for RecoveryKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RecoveryKey(..)")
    }
}

/// The content of a key file, whose name ends with `.BEK`.
#[derive(Clone)]
pub struct KeyFile {
    id: Guid,
    key: Zeroizing<[u8; 32]>,
}

impl KeyFile {
    /// The most bytes of a key file. Those of Windows have fewer than 200.
    pub const MOST: usize = 16 << 10;

    /// Parses the content of a file: \[BDE\], "BitLocker External Key (BEK) file".
    ///
    /// # Errors
    /// The reason if it is no key file.
    pub fn parse(bytes: &[u8]) -> Result<KeyFile, String> {
        let none = |why: &str| Err(format!("is no key file of BitLocker: {why}"));
        let length = le32(bytes, 0).map_or(0, |size| size as usize);
        if length < entry::METADATA_HEAD || length > bytes.len() || le32(bytes, 4) != Some(1) {
            return none("its header does not fit its length");
        }
        let mut entries = entry::entries(&bytes[entry::METADATA_HEAD..length]);
        let Some(external) = entries.find(|entry| entry.value == entry::EXTERNAL_KEY) else {
            return none("it has no external key");
        };
        let key = external.inside(24).find(|entry| entry.value == entry::KEY).and_then(plain_key);
        match (field(external.data, 0), key) {
            (Some(id), Some(key)) => Ok(KeyFile { id: Guid(id), key }),
            _ => none("its external key has no key of 256 bits"),
        }
    }

    /// The identifier of the protector that the key is for.
    pub fn id(&self) -> Guid {
        self.id
    }

    pub(crate) fn key(&self) -> &[u8; 32] {
        &self.key
    }
}

impl fmt::Debug for KeyFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyFile({}, ..)", self.id)
    }
}

/// The key in an entry that has it as it is: \[BDE\], "FVE key".
pub(crate) fn plain_key(entry: MetadataEntry<'_>) -> Option<Zeroizing<[u8; 32]>> {
    field(entry.data, 4).map(Zeroizing::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_recovery_key_is_said_by_group() {
        // The example of the format's documentation.
        const KEY: &str = "471207-278498-422125-177177-561902-537405-468006-693451";
        let key = RecoveryKey::parse(KEY).unwrap();
        assert_eq!(key.0[..2], (471_207_u32 / 11).to_le_bytes()[..2]);
        assert!(RecoveryKey::parse(&KEY.replace('-', "")).is_ok());
        assert_eq!(&**key.digits(), KEY);
        assert!(RecoveryKey::parse(&format!(" {}\n", KEY.replace('-', " "))).is_ok());
        for (wrong, why) in [
            (KEY.replace("422125", "422152"), "group 3"),
            (KEY.replace("693451", "999999"), "group 8"),
            (KEY.replace("693451", "69345"), "here are 47"),
            (KEY.replace("693451", "69345x"), "a letter"),
            (String::new(), "here are 0"),
        ] {
            let told = RecoveryKey::parse(&wrong).unwrap_err();
            assert!(told.contains(why), "{told}");
            assert!(!told.contains("4712"), "{told}");
        }
        assert_eq!(format!("{key:?}"), "RecoveryKey(..)");
        let password = Secret::Password(Zeroizing::new("horse".into()));
        assert_eq!(format!("{password:?} {:?}", Secret::RecoveryKey(key)), "Password(..) RecoveryKey(..)");
    }

    #[test]
    fn what_is_no_key_file_is_refused() {
        for bytes in [&b""[..], b"text", &[0; 200], &[0xFF; 200]] {
            assert!(KeyFile::parse(bytes).unwrap_err().contains("no key file"));
        }
    }
}

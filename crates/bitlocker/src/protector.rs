//! The keys by which a volume can be opened: each encrypts the same master key.

use crate::bytes::{field, le16};
use crate::entry::{self, MetadataEntry};
use crate::seal::Sealed;
use crate::secret::plain_key;
use platter_images::Guid;
use std::fmt;
use zeroize::Zeroizing;

/// What protects a master key: \[BDE\], "Key protection types"; further numbers as Windows' tools show them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protection {
    /// Nothing: the key stands beside it, because the protection is suspended.
    ClearKey,
    /// The security chip (TPM) of a machine.
    Tpm,
    /// A key file.
    KeyFile,
    /// The chip and a key file.
    TpmAndKeyFile,
    /// The chip and a PIN.
    TpmAndPin,
    /// A recovery key of 48 digits.
    RecoveryKey,
    /// A smart card or a certificate.
    Certificate,
    /// A password.
    Password,
    /// Something with this number.
    Other(u16),
}

impl Protection {
    fn of_number(number: u16) -> Protection {
        match number {
            0x0000 => Protection::ClearKey,
            0x0100 => Protection::Tpm,
            0x0200 => Protection::KeyFile,
            0x0400 => Protection::TpmAndKeyFile,
            0x0500 => Protection::TpmAndPin,
            0x0800 => Protection::RecoveryKey,
            0x1000 => Protection::Certificate,
            0x2000 => Protection::Password,
            other => Protection::Other(other),
        }
    }
}

impl fmt::Display for Protection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Protection::ClearKey => "clear key (protection is suspended)",
            Protection::Tpm => "TPM",
            Protection::KeyFile => "key file",
            Protection::TpmAndKeyFile => "TPM and key file",
            Protection::TpmAndPin => "TPM and PIN",
            Protection::RecoveryKey => "recovery key",
            Protection::Certificate => "certificate or smart card",
            Protection::Password => "password",
            Protection::Other(number) => return write!(f, "unknown protector {number:#06x}"),
        })
    }
}

/// A master key as one of the keys of a volume protects it: \[BDE\], "FVE Volume Master Key (VMK)".
#[derive(Clone)]
pub struct Protector {
    id: Guid,
    protection: Protection,
    pub(crate) salt: Option<[u8; 16]>,
    pub(crate) clear: Option<Zeroizing<[u8; 32]>>,
    pub(crate) master: Option<Sealed>,
}

impl Protector {
    pub(crate) fn parse(entry: MetadataEntry<'_>) -> Option<Protector> {
        let id = Guid(field(entry.data, 0)?);
        let protection = Protection::of_number(le16(entry.data, 26)?);
        let mut protector = Protector { id, protection, salt: None, clear: None, master: None };
        for inside in entry.inside(28) {
            match inside.value {
                entry::KEY => protector.clear = protector.clear.or_else(|| plain_key(inside)),
                entry::STRETCH_KEY => protector.salt = protector.salt.or_else(|| field(inside.data, 4)),
                entry::SEALED_KEY => {
                    protector.master = protector.master.or_else(|| Sealed::parse(inside.data))
                }
                _ => {}
            }
        }
        Some(protector)
    }

    /// The identifier, by which Windows names it beside a recovery key.
    pub fn id(&self) -> Guid {
        self.id
    }

    /// What protects the master key.
    pub fn protection(&self) -> Protection {
        self.protection
    }
}

impl fmt::Debug for Protector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Protector({}, {:?}, ..)", self.id, self.protection)
    }
}

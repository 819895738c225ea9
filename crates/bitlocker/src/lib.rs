//! Volumes that BitLocker encrypts, as devices: [`Encrypted::look`] says what a volume is, without a key, and
//! [`Encrypted::open`] returns the volume in it, to be read and written.
//!
//! * **Methods**: AES-XTS with keys of 128 and 256 bits, AES-CBC with the same, and AES-CBC with the Elephant diffuser.
//! * **Layouts**: that of Windows Vista, that of Windows 7 and all later ones, and BitLocker To Go.
//! * **Keys**: password, recovery key of 48 digits, key file (`.BEK`), and the clear key of a volume whose protection is
//!   suspended. What is bound to a TPM or a smart card is named, and opens with the recovery key.
//!
//! Encryption keeps the length, so each sector is encrypted in its place: a cut-off write tears what it would tear on the
//! device below, and no write changes any structure of BitLocker. A volume whose conversion Windows has not completed is not
//! written to.
//!
//! The ciphers are those of the RustCrypto project; only the diffuser, which no crate has, is here. Secrets are overwritten
//! in memory when they are dropped, and no type shows them.
//!
//! Source of the layout: the libyal project's "BitLocker Drive Encryption (BDE) format specification"
//! (<https://github.com/libyal/libbde>), called `[BDE]` below. What differs from it was found on volumes of Windows.

mod bytes;
mod cipher;
mod device;
mod diffuser;
mod entry;
#[doc(hidden)]
pub mod fuzzing;
mod header;
#[cfg(feature = "making")]
pub mod making;
mod metadata;
mod open;
mod protector;
mod regions;
mod seal;
mod secret;
mod stretch;

pub use cipher::Method;
pub use device::EncryptedVolume;
pub use header::Layout;
pub use open::{Encrypted, UnlockError, VolumeKey};
pub use protector::{Protection, Protector};
pub use secret::{KeyFile, RecoveryKey, Secret};

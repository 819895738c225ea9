//! Looking at an encrypted volume, and opening it with a secret.

use crate::bytes::{read, unusable};
use crate::cipher::{Method, SectorCipher};
use crate::device::EncryptedVolume;
use crate::header::{Layout, VolumeHeader};
use crate::metadata::{COMPLETE, Metadata};
use crate::protector::{Protection, Protector};
use crate::regions::Regions;
use crate::secret::{Secret, hash_of_password};
use crate::stretch::stretch;
use platter_device::{Device, Result};
use platter_images::Guid;
use std::fmt;
use std::sync::Arc;
use zeroize::Zeroizing;

/// An encrypted volume, of which nothing but its own structures is read.
#[derive(Clone, Debug)]
pub struct Encrypted {
    name: String,
    header: VolumeHeader,
    metadata: Metadata,
}

/// The key of the sectors of a volume. It is overwritten in memory when it is dropped.
pub struct VolumeKey {
    /// `None` if no sector is encrypted.
    sectors: Option<(Method, Zeroizing<Vec<u8>>)>,
}

impl fmt::Debug for VolumeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VolumeKey({:?}, ..)", self.sectors.as_ref().map(|(method, _)| method))
    }
}

/// Why a secret opens a volume not.
#[derive(Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UnlockError {
    /// The volume has no key of this kind.
    NoSuchKind(Protection),
    /// The volume has keys of this kind, and this is none of them.
    Wrong(Protection),
    /// The key file is for a protector that the volume does not have.
    OtherKeyFile(Guid),
    /// The caller asked for the end.
    Stopped,
    /// The key is right, and what it encrypts cannot be used: the reason.
    Unusable(String),
}

impl fmt::Display for UnlockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UnlockError::NoSuchKind(kind) => write!(f, "the volume has no {kind}"),
            UnlockError::Wrong(kind) => write!(f, "this is not the {kind} of the volume"),
            UnlockError::OtherKeyFile(id) => {
                write!(f, "the key file is for key {id}, which the volume does not have")
            }
            UnlockError::Stopped => f.write_str("stopped"),
            UnlockError::Unusable(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for UnlockError {}

/// Of each kind so many protectors are tried at most: each takes a million hashes. Windows has one of each as a rule.
const MOST_TRIED: usize = 16;

impl Encrypted {
    /// Looks whether a device holds a volume that BitLocker encrypts.
    ///
    /// # Errors
    /// [`Error::Unusable`](platter_device::Error::Unusable) if it does and its structures are damaged or not known here, and
    /// the errors of reading the device.
    pub fn look(device: &dyn Device) -> Result<Option<Encrypted>> {
        if device.len() < 512 {
            return Ok(None);
        }
        let name = device.name().to_string();
        let Some(header) = VolumeHeader::parse(&name, &read(device, 0, 512)?)? else { return Ok(None) };
        let metadata = Metadata::read(device, &header)?;
        Ok(Some(Encrypted { name, header, metadata }))
    }

    /// The layout.
    pub fn layout(&self) -> Layout {
        self.header.layout
    }

    /// The method; `None` if its number is not known here.
    pub fn method(&self) -> Option<Method> {
        Method::of_number(self.metadata.method)
    }

    /// The identifier of the volume.
    pub fn id(&self) -> Guid {
        self.metadata.id
    }

    /// What Windows called the volume when it was encrypted: machine, letter or label, and date.
    pub fn description(&self) -> &str {
        &self.metadata.description
    }

    /// The keys by which the volume can be opened, in the order of the volume.
    pub fn protectors(&self) -> &[Protector] {
        &self.metadata.protectors
    }

    /// Whether the volume has a key of this kind.
    pub fn has(&self, protection: Protection) -> bool {
        self.protectors().iter().any(|one| one.protection() == protection)
    }

    /// Whether no sector is encrypted, and none is to be, though the volume has structures of BitLocker.
    pub fn is_decrypted(&self) -> bool {
        self.metadata.is_decrypted()
    }

    /// Why the volume cannot be used as a whole yet, as the end of a sentence: Windows has not encrypted or decrypted all
    /// of it.
    pub fn conversion(&self) -> Option<String> {
        if self.metadata.is_decrypted() {
            return Some(
                "nothing of it is encrypted, and Windows keeps structures of BitLocker on it".into(),
            );
        }
        if self.header.is_under_way {
            return Some("Windows encrypts it while it is in use, and has not come to the end".into());
        }
        match self.metadata.states {
            [COMPLETE, COMPLETE] => None,
            [now, next] => Some(format!("its conversion is not complete (state {now} of {next})")),
        }
    }

    /// The key of a volume whose protection is suspended, or of which nothing is encrypted; `None` if it takes a secret.
    pub fn clear_key(&self) -> Option<VolumeKey> {
        if self.metadata.is_decrypted() {
            return Some(VolumeKey { sectors: None });
        }
        let suspended = self.protectors().iter().filter(|one| one.protection() == Protection::ClearKey);
        suspended.filter_map(|one| self.key_by(one, one.clear.as_ref()?).ok().flatten()).next()
    }

    /// The key of the volume by a secret. Passwords and recovery keys take a million hashes for each protector of their
    /// kind, of which at most 16 are tried; `is_stopped` is asked all along whether to end.
    ///
    /// # Errors
    /// Why the secret does not open the volume.
    pub fn key(
        &self,
        secret: &Secret,
        is_stopped: &dyn Fn() -> bool,
    ) -> std::result::Result<VolumeKey, UnlockError> {
        let (protection, hash) = match secret {
            Secret::KeyFile(file) => return self.key_by_file(file.id(), file.key()),
            Secret::Password(password) => (Protection::Password, hash_of_password(password)),
            Secret::RecoveryKey(key) => (Protection::RecoveryKey, key.hash()),
        };
        let mut error = UnlockError::NoSuchKind(protection);
        let of_kind = self.protectors().iter().filter(|one| one.protection() == protection);
        for (protector, salt) in of_kind.filter_map(|one| Some((one, one.salt?))).take(MOST_TRIED) {
            let key = stretch(&hash, &salt, is_stopped).ok_or(UnlockError::Stopped)?;
            match self.key_by(protector, &key)? {
                Some(key) => return Ok(key),
                None => error = UnlockError::Wrong(protection),
            }
        }
        Err(error)
    }

    /// A key file is for one protector, by its identifier.
    fn key_by_file(&self, id: Guid, key: &[u8; 32]) -> std::result::Result<VolumeKey, UnlockError> {
        let Some(protector) = self.protectors().iter().find(|one| one.id() == id) else {
            return Err(match self.has(Protection::KeyFile) {
                true => UnlockError::OtherKeyFile(id),
                false => UnlockError::NoSuchKind(Protection::KeyFile),
            });
        };
        if protector.protection() != Protection::KeyFile {
            let why = format!("the volume needs more than the key file: {}", protector.protection());
            return Err(UnlockError::Unusable(why));
        }
        self.key_by(protector, key)?.ok_or(UnlockError::Wrong(Protection::KeyFile))
    }

    /// The key of the sectors by the key of a protector; `None` if that is another one.
    fn key_by(
        &self,
        protector: &Protector,
        key: &[u8; 32],
    ) -> std::result::Result<Option<VolumeKey>, UnlockError> {
        let Some(master) = protector.master.as_ref().and_then(|master| master.open(key)) else {
            return Ok(None);
        };
        let unusable = |why: String| Err(UnlockError::Unusable(why));
        let opened = self.metadata.key.as_ref().and_then(|sealed| sealed.0.open(&master.key));
        let Some(opened) = opened else {
            return unusable("the key is right, but the key of the sectors is damaged".into());
        };
        let Some(method) = Method::of_number(opened.method) else {
            return unusable(format!(
                "its sectors are encrypted by method {:#06x}, which is not known here",
                opened.method
            ));
        };
        if opened.key.len() != method.key_length() {
            return unusable(format!(
                "{method} has a key of {} bytes, and here are {}",
                method.key_length(),
                opened.key.len()
            ));
        }
        Ok(Some(VolumeKey { sectors: Some((method, opened.key)) }))
    }

    /// Returns the volume in the encrypted one, which is on `device`. Where Windows has not completed the conversion, it is
    /// read-only.
    ///
    /// # Errors
    /// [`Error::Unusable`](platter_device::Error::Unusable) if the volume's structures do not fit the device, or if Windows
    /// encrypts it while it is in use and has not come to the end: the part that it was at is in a log of which there is no
    /// description.
    pub fn open(&self, device: Arc<dyn Device>, key: &VolumeKey) -> Result<EncryptedVolume> {
        if self.header.is_under_way && !self.metadata.is_decrypted() {
            let why = "Windows encrypts this BitLocker volume while it is in use, and has not come to the end; it can be \
                       read when Windows has";
            return Err(unusable(&self.name, why));
        }
        let sector = self.header.sector;
        let size = device.len() / u64::from(sector) * u64::from(sector);
        let regions = Regions::new(&self.name, &self.header, &self.metadata, size)?;
        let cipher = match &key.sectors {
            Some((method, key)) => {
                let cipher = SectorCipher::new(*method, key, sector as usize);
                let wrong = || unusable(&self.name, "the key of its sectors has a wrong length");
                Some(cipher.ok_or_else(wrong)?)
            }
            None if self.metadata.is_decrypted() => None,
            None => return Err(unusable(&self.name, "the key is that of a volume that is not encrypted")),
        };
        let of_ntfs = (self.header.layout == Layout::Vista).then_some(self.metadata.first_at);
        let conversion = self.conversion();
        EncryptedVolume::new(device, cipher, regions, sector, of_ntfs, conversion)
    }
}

//! Keys to encrypted volumes.

#[cfg(feature = "bitlocker")]
use crate::error::{Error, ErrorKind, Result, shown};
#[cfg(feature = "bitlocker")]
use platter_bitlocker::{Encrypted, KeyFile, RecoveryKey, Secret, UnlockError, VolumeKey};
#[cfg(feature = "bitlocker")]
use platter_device::Device;
#[cfg(feature = "bitlocker")]
use platter_device::sync::Mutex;
use std::fmt;
#[cfg(feature = "bitlocker")]
use std::path::Path;
#[cfg(feature = "bitlocker")]
use std::sync::Arc;

/// Keys that encrypted volumes are opened with. A volume without encryption is opened whatever keys there are, and one whose
/// protection is suspended without any.
///
/// No key shows itself, and all are overwritten in memory when the last clone is dropped. Clones remember together which
/// volumes were opened: turning a password to a key takes a million hashes, and is done once for each volume.
#[derive(Clone, Default)]
pub struct Keys {
    #[cfg(feature = "bitlocker")]
    given: Arc<Vec<Secret>>,
    #[cfg(feature = "bitlocker")]
    ask: Option<Arc<Ask>>,
    #[cfg(feature = "bitlocker")]
    stop: Option<Arc<dyn Fn() -> bool + Send + Sync>>,
    #[cfg(feature = "bitlocker")]
    found: Arc<KnownKeys>,
}

/// The keys of the volumes that were opened, by the identifiers of these.
#[cfg(feature = "bitlocker")]
type KnownKeys = Mutex<Vec<(platter_images::Guid, Arc<VolumeKey>)>>;

/// Asks somebody for a key of this volume; with why the last one that they gave opens it not. `None` if they give none.
#[cfg(feature = "bitlocker")]
type Ask = dyn Fn(&Encrypted, &str, Option<&UnlockError>) -> Option<Secret> + Send + Sync;

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Keys(..)")
    }
}

#[cfg(feature = "bitlocker")]
impl Keys {
    /// No keys.
    pub fn new() -> Keys {
        Keys::default()
    }

    /// With this secret too.
    pub fn secret(mut self, secret: Secret) -> Keys {
        Arc::make_mut(&mut self.given).push(secret);
        self
    }

    /// With this password too.
    pub fn password(self, password: &str) -> Keys {
        self.secret(Secret::Password(password.to_string().into()))
    }

    /// With this recovery key too: 48 digits, with or without what stands between their groups.
    ///
    /// # Errors
    /// [`InvalidArgument`](ErrorKind::InvalidArgument) if that is no recovery key. The error says nothing of the digits.
    pub fn recovery_key(self, digits: &str) -> Result<Keys> {
        match RecoveryKey::parse(digits) {
            Ok(key) => Ok(self.secret(Secret::RecoveryKey(key))),
            Err(why) => Err(Error::refused(ErrorKind::InvalidArgument, "the recovery key", why)),
        }
    }

    /// With the key file at this path too, whose name ends with `.BEK`.
    ///
    /// # Errors
    /// [`InvalidArgument`](ErrorKind::InvalidArgument) if that is no key file, and the errors of reading it.
    pub fn key_file(self, path: impl AsRef<Path>) -> Result<Keys> {
        use crate::error::About;
        use std::io::Read;
        let path = path.as_ref();
        let mut content = zeroize::Zeroizing::new(Vec::with_capacity(KeyFile::MOST));
        let file = std::fs::File::open(path).about(shown(path))?;
        file.take(KeyFile::MOST as u64).read_to_end(&mut content).about(shown(path))?;
        match KeyFile::parse(&content) {
            Ok(key) => Ok(self.secret(Secret::KeyFile(key))),
            Err(why) => Err(Error::refused(ErrorKind::InvalidArgument, shown(path), why)),
        }
    }

    /// With whoever `ask` asks for a key of a volume that no given key opens. It is called with the volume, its name, and
    /// why the last answer opens it not; again until it returns `None`, or a key that opens the volume.
    pub fn asking(
        mut self,
        ask: impl Fn(&Encrypted, &str, Option<&UnlockError>) -> Option<Secret> + Send + Sync + 'static,
    ) -> Keys {
        self.ask = Some(Arc::new(ask));
        self
    }

    /// With who is asked, while a password is turned to a key, whether to end.
    pub fn stopped_by(mut self, is_stopped: impl Fn() -> bool + Send + Sync + 'static) -> Keys {
        self.stop = Some(Arc::new(is_stopped));
        self
    }

    /// The same keys without anybody to ask.
    pub fn given_only(&self) -> Keys {
        Keys { ask: None, ..self.clone() }
    }

    /// Whether no key is given.
    pub fn is_empty(&self) -> bool {
        self.given.is_empty()
    }

    /// Returns the key of a volume.
    fn find(&self, encrypted: &Encrypted, name: &str) -> Result<Arc<VolumeKey>> {
        let known =
            self.found.lock().iter().find(|(id, _)| *id == encrypted.id()).map(|(_, key)| key.clone());
        if let Some(key) = known {
            return Ok(key);
        }
        let is_stopped = || self.stop.as_ref().is_some_and(|stop| stop());
        let mut why = None;
        let mut found = encrypted.clear_key();
        for secret in self.given.iter() {
            if found.is_some() {
                break;
            }
            match encrypted.key(secret, &is_stopped) {
                Ok(key) => found = Some(key),
                Err(error @ UnlockError::Stopped) => {
                    why = Some(error);
                    break;
                }
                // That a volume has no key of a kind says less than that a key is another one's.
                Err(UnlockError::NoSuchKind(_)) if why.is_some() => {}
                Err(error) => why = Some(error),
            }
        }
        while let (None, Some(ask), false) = (&found, &self.ask, is_stopped()) {
            let Some(secret) = ask(encrypted, name, why.as_ref()) else { break };
            match encrypted.key(&secret, &is_stopped) {
                Ok(key) => found = Some(key),
                Err(error) => why = Some(error),
            }
        }
        match found {
            Some(key) => {
                let key = Arc::new(key);
                self.found.lock().push((encrypted.id(), key.clone()));
                Ok(key)
            }
            None if why == Some(UnlockError::Stopped) => Err(Error::new(name, platter_vfs::Error::Stopped)),
            None => Err(Error::refused(ErrorKind::Encrypted, name, locked(encrypted, why.as_ref()))),
        }
    }

    /// Returns the volume in an encrypted one if a key is given, and every other device as it is.
    ///
    /// # Errors
    /// [`Encrypted`](ErrorKind::Encrypted) if the keys are others.
    pub fn unlocked_if_given(&self, device: Arc<dyn Device>) -> Result<Arc<dyn Device>> {
        if self.is_empty() { Ok(device) } else { self.given_only().unlock(device) }
    }

    /// Returns the volume in an encrypted one, and every other device as it is.
    pub(crate) fn unlock(&self, device: Arc<dyn Device>) -> Result<Arc<dyn Device>> {
        // A first sector that cannot be read is reported by the format that is looked for next.
        if !platter_device::is_encrypted(&*device).unwrap_or(false) {
            return Ok(device);
        }
        let Some(encrypted) = Encrypted::look(&*device)? else { return Ok(device) };
        let key = self.find(&encrypted, device.name())?;
        Ok(Arc::new(encrypted.open(device, &key)?))
    }
}

/// Why a volume stays closed, as the end of a sentence.
#[cfg(feature = "bitlocker")]
fn locked(encrypted: &Encrypted, why: Option<&UnlockError>) -> String {
    let mut kinds: Vec<String> = Vec::new();
    for kind in encrypted.protectors().iter().map(|one| one.protection().to_string()) {
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    let kinds = if kinds.is_empty() { "nothing that is known here".to_string() } else { kinds.join(", ") };
    match why {
        None => format!("is encrypted by BitLocker, and no key is given; it is protected by: {kinds}"),
        Some(why) => format!("is encrypted by BitLocker: {why}; it is protected by: {kinds}"),
    }
}

#[cfg(not(feature = "bitlocker"))]
impl Keys {
    /// Returns the device: this build has no decryption.
    pub(crate) fn unlock(
        &self,
        device: std::sync::Arc<dyn platter_device::Device>,
    ) -> crate::error::Result<std::sync::Arc<dyn platter_device::Device>> {
        Ok(device)
    }
}

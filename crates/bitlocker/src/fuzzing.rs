//! The body of the fuzz target for encrypted volumes; for tests only.

use crate::open::Encrypted;
use crate::secret::{KeyFile, RecoveryKey, Secret};
use platter_device::{Device, MemoryDevice, Sectors};
use std::sync::Arc;
use zeroize::Zeroizing;

/// The size of the device on which the bytes stand: less than the memory that a fuzz run may use.
const SIZE: usize = 4 << 20;

/// Gives each of a volume's copies of the metadata the check sum that it should have, so that what is behind it is reached.
fn with_sums(image: &mut [u8]) {
    for at in [160, 424] {
        for copy in [16, 24, 32] {
            let offset = crate::bytes::le64(image, at + copy).unwrap_or(0).min(SIZE as u64) as usize;
            let block = &mut image[offset..];
            let Some(size) = crate::bytes::le16(block, 8) else { continue };
            let length = usize::from(size) * 16;
            if length + 8 <= block.len() {
                let sum = crc32fast::hash(&block[..length]);
                block[length + 4..length + 8].copy_from_slice(&sum.to_le_bytes());
            }
        }
    }
}

/// Looks at a volume that begins with these bytes, and where it has a clear key reads and writes in it.
pub fn volume(bytes: &[u8]) {
    let _ = KeyFile::parse(bytes);
    let mut image = vec![0; SIZE];
    let length = bytes.len().min(SIZE);
    image[..length].copy_from_slice(&bytes[..length]);
    with_sums(&mut image);
    let device: Arc<dyn Device> = Arc::new(MemoryDevice::from_image(&image, Sectors::SMALL));
    let Ok(Some(encrypted)) = Encrypted::look(&*device) else { return };
    let _ = (format!("{encrypted:?}"), encrypted.conversion(), encrypted.description().len());
    let password = Secret::Password(Zeroizing::new("password".into()));
    let _ = encrypted.key(&password, &|| true);
    let recovery = RecoveryKey::parse("471207-278498-422125-177177-561902-537405-468006-693451");
    let _ = encrypted.key(&Secret::RecoveryKey(recovery.expect("a key")), &|| true);
    let Some(key) = encrypted.clear_key() else { return };
    let Ok(volume) = encrypted.open(device, &key) else { return };
    let sector = volume.sectors().logical as usize;
    let mut content = vec![0; sector];
    for offset in (0..volume.len()).step_by(64 << 10) {
        if volume.read_at(offset, &mut content).is_ok() && !volume.read_only() {
            let _ = volume.write_at(offset, &content);
        }
    }
}

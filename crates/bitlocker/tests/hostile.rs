//! Secrets that do not fit, and structures that are damaged.

use crate::common::{MIB, PASSWORD, RECOVERY_KEY, made, making, open};
use platter_bitlocker::making::Making;
use platter_bitlocker::{
    Encrypted, KeyFile, Layout, Method, Protection, RecoveryKey, Secret, UnlockError, fuzzing,
};
use platter_device::{Device, MemoryDevice, Sectors};
use std::sync::Arc;

fn password(text: &str) -> Secret {
    Secret::Password(text.to_string().into())
}

fn recovery_key(text: &str) -> Secret {
    Secret::RecoveryKey(RecoveryKey::parse(text).unwrap())
}

#[test]
fn each_secret_opens_and_a_wrong_one_is_said() {
    let making = Making {
        password: Some(PASSWORD),
        recovery_key: Some(RECOVERY_KEY),
        ..making(Layout::Seven, Method::Xts256)
    };
    let (device, file) = made(&making, 8 * MIB);
    let encrypted = Encrypted::look(&*device).unwrap().unwrap();
    let file = KeyFile::parse(&file.unwrap()).unwrap();
    let never = || false;
    for secret in [password(PASSWORD), recovery_key(RECOVERY_KEY), Secret::KeyFile(file.clone())] {
        let key = encrypted.key(&secret, &never).unwrap();
        encrypted.open(device.clone(), &key).unwrap();
        assert_eq!(format!("{key:?} {secret:?}").matches("..").count(), 2);
    }
    let why = |secret: &Secret| encrypted.key(secret, &never).unwrap_err();
    assert_eq!(why(&password("correct horse")), UnlockError::Wrong(Protection::Password));
    let other = recovery_key(&RECOVERY_KEY.replace("471207", "471218"));
    assert_eq!(why(&other).to_string(), "this is not the recovery key of the volume");
    assert_eq!(encrypted.key(&other, &|| true).unwrap_err(), UnlockError::Stopped);
    let (plain, other_file) =
        made(&Making { seed: 8, ..self::making(Layout::Seven, Method::Xts256) }, 8 * MIB);
    let other_file = Secret::KeyFile(KeyFile::parse(&other_file.unwrap()).unwrap());
    assert!(matches!(why(&other_file), UnlockError::OtherKeyFile(_)));
    let only_a_file = Encrypted::look(&*plain).unwrap().unwrap();
    let none = only_a_file.key(&password(PASSWORD), &never).unwrap_err();
    assert_eq!(none, UnlockError::NoSuchKind(Protection::Password));
    assert!(encrypted.clear_key().is_none());
    let shown = format!("{encrypted:?}");
    assert!(shown.contains("KeyFile") && !shown.contains("Sealed("), "{shown}");
}

#[test]
fn a_suspended_volume_opens_without_a_secret() {
    let making = Making { clear_key: true, ..making(Layout::Vista, Method::Cbc256Diffuser) };
    let (device, _) = made(&making, 8 * MIB);
    let encrypted = Encrypted::look(&*device).unwrap().unwrap();
    let key = encrypted.clear_key().expect("the key stands beside it");
    encrypted.open(device, &key).unwrap();
    let kinds: Vec<Protection> = encrypted.protectors().iter().map(|one| one.protection()).collect();
    assert_eq!(kinds, [Protection::KeyFile, Protection::ClearKey]);
    assert_eq!(encrypted.description(), "PLATTER D: 2020");
}

/// One whole copy of the metadata is enough; without one the error says what is wrong.
#[test]
fn a_damaged_copy_is_passed_over() {
    let making = making(Layout::Seven, Method::Cbc128);
    let (device, file) = made(&making, 8 * MIB);
    let file = file.unwrap();
    for (count, at) in making.blocks.into_iter().enumerate() {
        let mut sector = [0; 512];
        device.read_at(at, &mut sector).unwrap();
        sector[200] ^= 1;
        device.write_at(at, &sector).unwrap();
        if count < 2 {
            open(device.clone(), &file);
        }
    }
    let told = Encrypted::look(&*device).unwrap_err().to_string();
    assert!(
        told.contains("metadata of BitLocker at offset 2097152 is damaged: expected the check sum"),
        "{told}"
    );
}

#[test]
fn places_that_cannot_be_are_refused() {
    let fits = making(Layout::Seven, Method::Xts128);
    for (blocks, first) in [
        // One in the other, in the first sectors, and behind the end.
        ([2 * MIB, 2 * MIB + 4096, 6 * MIB], fits.first),
        ([4096, 4 * MIB, 6 * MIB], fits.first),
        (fits.blocks, (2 * MIB + 8192, 8192)),
        (fits.blocks, (8 * MIB - 4096, 4096)),
    ] {
        let making = Making { blocks, first, ..making(Layout::Seven, Method::Xts128) };
        let (device, file) = made(&Making { first: (3 * MIB, 8192), blocks: fits.blocks, ..making }, 8 * MIB);
        // The same structures with other places.
        let other = Arc::new(MemoryDevice::new(16 * MIB, Sectors::SMALL));
        let (mut image, shifted) =
            (device.to_image(), Making { blocks, first, ..self::making(Layout::Seven, Method::Xts128) });
        image.resize(16 << 20, 0);
        other.write_at(0, &image).unwrap();
        shifted.encrypt(&*other).unwrap();
        let cut = Arc::new(MemoryDevice::from_image(&other.to_image()[..8 << 20], Sectors::SMALL));
        let Ok(Some(encrypted)) = Encrypted::look(&*cut) else { continue };
        let secret = Secret::KeyFile(KeyFile::parse(&file.unwrap()).unwrap());
        let is_refused = match encrypted.key(&secret, &|| false) {
            Ok(key) => encrypted.open(cut, &key).is_err(),
            Err(_) => true,
        };
        assert!(is_refused || first == (8 * MIB - 4096, 4096), "{blocks:?} {first:?}");
    }
}

/// Bytes of a volume with random changes are looked at, and opened where they can be.
#[test]
fn garbled_volumes_are_refused_or_read() {
    let making = Making {
        clear_key: true,
        blocks: [64 << 10, 192 << 10, 320 << 10],
        first: (512 << 10, 8192),
        ..making(Layout::ToGo, Method::Xts128)
    };
    let (device, file) = made(&making, MIB);
    let image = device.to_image();
    fuzzing::volume(&image);
    fuzzing::volume(&file.unwrap());
    let mut state = 88_172_645_463_325_252_u64;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for _ in 0..200 {
        let mut garbled = image.clone();
        for _ in 0..next() % 8 + 1 {
            let block = [0, 64 << 10, 192 << 10, 320 << 10][next() as usize % 4];
            let at = block + next() as usize % 1024;
            garbled[at] = match next() % 3 {
                0 => 0xFF,
                1 => 0,
                _ => next() as u8,
            };
        }
        fuzzing::volume(&garbled);
    }
}

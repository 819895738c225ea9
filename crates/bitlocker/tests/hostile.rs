//! Secrets that do not fit, and structures that are damaged.

use crate::common::{LAYOUTS, MIB, PASSWORD, RECOVERY_KEY, made, making, open};
use platter_bitlocker::making::Making;
use platter_bitlocker::{
    Encrypted, KeyFile, Layout, Method, Protection, RecoveryKey, Secret, UnlockError, fuzzing,
};
use platter_device::{Device, MemoryDevice, Sectors};
use platter_images::fuzzing::{Changes, GoodFile};
use std::sync::Arc;
use std::time::{Duration, Instant};

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

/// Volumes of every layout whose structures lie, from a seed on, as long as `goes_on` says of their number.
fn lying(first: u64, goes_on: impl Fn(u64) -> bool) {
    const BLOCKS: [u64; 3] = [64 << 10, 192 << 10, 320 << 10];
    const MOST_MEMORY: u64 = 64 << 20;
    let good = LAYOUTS
        .into_iter()
        .flat_map(|layout| [Method::Xts128, Method::Cbc256Diffuser].map(|method| (layout, method)));
    let good = good.map(|(layout, method)| {
        let making =
            Making { clear_key: true, blocks: BLOCKS, first: (512 << 10, 8192), ..making(layout, method) };
        let image = made(&making, MIB).0.to_image();
        let blocks = BLOCKS.map(|at| at as usize..at as usize + 1024);
        GoodFile::with_structures(image, [&[0..512, 0..512][..], &blocks].concat())
    });
    let good: Vec<GoodFile> = good.collect();
    let (mut count, mut most) = (0, 0);
    while goes_on(count) {
        let seed = first.wrapping_add(count);
        let mut changes = Changes::new(seed);
        let file = &good[changes.below(good.len())];
        let content = changes.content(file);
        let length = changes.length(file.length).min(content.len() as u64);
        let work = || allocation_counter::measure(|| fuzzing::volume(&content[..length as usize])).bytes_max;
        let memory = std::panic::catch_unwind(work).unwrap_or_else(|panic| {
            println!("PLATTER_SEED={seed} panics");
            std::panic::resume_unwind(panic)
        });
        assert!(memory < MOST_MEMORY, "PLATTER_SEED={seed}: {memory} bytes of memory");
        most = most.max(memory);
        count += 1;
    }
    println!("{count} volumes from PLATTER_SEED={first} on, at most {} KiB of memory", most >> 10);
}

#[test]
fn structures_that_lie_cost_little() {
    lying(1, |count| count < 200);
}

/// `PLATTER_SECONDS` is the time, and `PLATTER_SEED` the first volume.
#[test]
#[ignore = "a campaign"]
fn campaign_of_structures_that_lie() {
    let given = |name| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    let end = Instant::now() + Duration::from_secs(given("PLATTER_SECONDS").unwrap_or(1800));
    lying(given("PLATTER_SEED").unwrap_or(1 << 32), |_| Instant::now() < end);
}

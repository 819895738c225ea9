//! Volumes of Windows, and other programs that read those which are made here.

use crate::common::{MIB, PASSWORD, RECOVERY_KEY, expected, made, making, open, sha256};
use platter_bitlocker::making::Making;
use platter_bitlocker::{Encrypted, KeyFile, Layout, Method, RecoveryKey, Secret};
use platter_device::{Device, FileDevice, FileOptions};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

fn opened(path: &Path) -> (Arc<dyn Device>, Encrypted) {
    let options = FileOptions { read_only: true, ..FileOptions::default() };
    let device: Arc<dyn Device> = Arc::new(FileDevice::open(path, options).unwrap());
    let encrypted = Encrypted::look(&*device).unwrap().expect("an encrypted volume");
    (device, encrypted)
}

/// The volumes of Windows with which the cryptsetup project tests its BitLocker support (`tests/bitlk-images.tar.xz`), unpacked
/// in the directory that `PLATTER_BITLK_IMAGES` names: each opens with each of its keys, and the SHA-256 of the volume is
/// the one of that project's list.
#[test]
#[ignore = "the volumes of Windows are no part of this project"]
fn volumes_of_windows_open_with_each_of_their_keys() {
    let Some(directory) = std::env::var_os("PLATTER_BITLK_IMAGES").map(PathBuf::from) else {
        panic!("PLATTER_BITLK_IMAGES names the directory with the volumes")
    };
    let list = std::fs::read_to_string(directory.join("images.conf")).unwrap();
    for part in list.split("\n[").map(|part| part.trim_start_matches('[')) {
        let (name, rest) = part.split_once(']').unwrap();
        let fields: BTreeMap<&str, &str> = rest.lines().filter_map(|line| line.split_once('=')).collect();
        let field = |name: &str| fields.get(name).copied().filter(|value| !value.is_empty());
        let (device, encrypted) = opened(&directory.join(format!("{name}.img")));
        assert!(encrypted.id().to_string().contains(field("GUID").unwrap()), "{name}");
        let mut secrets = Vec::new();
        if let Some(password) = field("PW") {
            secrets.push(Secret::Password(password.to_string().into()));
        }
        for key in ["RP", "RP2"].into_iter().filter_map(field) {
            secrets.push(Secret::RecoveryKey(RecoveryKey::parse(key).unwrap()));
        }
        if let Some(id) = field("SK_VMK_GUID") {
            let file = std::fs::read(directory.join(format!("{}.BEK", id.to_uppercase()))).unwrap();
            secrets.push(Secret::KeyFile(KeyFile::parse(&file).unwrap()));
        }
        let keys = secrets.iter().map(|secret| encrypted.key(secret, &|| false).unwrap());
        let keys: Vec<_> = keys.chain(encrypted.clear_key()).collect();
        assert!(!keys.is_empty(), "{name}");
        println!(
            "{name}: {}, {:?}, {} keys, {:?}",
            encrypted.layout(),
            encrypted.method(),
            keys.len(),
            encrypted.conversion()
        );
        for key in keys {
            let volume = encrypted.open(device.clone(), &key);
            match field("SHA256SUM") {
                Some(sum) => assert_eq!(sha256(&volume.unwrap(), device.len()), sum, "{name}"),
                None => assert!(
                    volume.is_err_and(|error| error.to_string().contains("while it is in use")),
                    "{name}"
                ),
            }
        }
    }
}

/// Runs another project's program, which must succeed, and returns what it prints.
fn judge(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    let output = output.unwrap_or_else(|error| panic!("{program} is needed for this test: {error}"));
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{program} {arguments:?}: {told} {}",
        String::from_utf8_lossy(&output.stderr)
    );
    told
}

/// Three other projects read what the maker of these tests makes, so that what opens here by it opens elsewhere too; and
/// what was written through this crate is there for one of them.
#[test]
fn others_read_what_is_made_and_written_here() {
    let directory = std::env::temp_dir().join(format!("platter-bitlocker-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let path = |name: &str| directory.join(name).to_str().unwrap().to_string();
    let (image, file, plain) = (path("volume.img"), path("key.bek"), path("plain.img"));
    let mut every: Vec<(Layout, Method)> = Method::ALL.map(|method| (Layout::Seven, method)).to_vec();
    // The methods that Vista has, and the one of its own for removable drives.
    every.extend([
        (Layout::Vista, Method::Cbc128Diffuser),
        (Layout::Vista, Method::Cbc256Diffuser),
        (Layout::ToGo, Method::Cbc128),
    ]);
    for (number, (layout, method)) in every.into_iter().enumerate() {
        let is_first = number == 0;
        let making = Making {
            password: is_first.then_some(PASSWORD),
            recovery_key: is_first.then_some(RECOVERY_KEY),
            ..making(layout, method)
        };
        let (device, key) = made(&making, 8 * MIB);
        let key = key.unwrap();
        let mut expected = expected(&making, 8 * MIB);
        let volume = open(device.clone(), &key);
        for (at, fill) in [(4096, 1), (MIB, 2), (8 * MIB - 4096, 3)] {
            volume.write_at(at, &[fill; 4096]).unwrap();
            expected[at as usize..][..4096].fill(fill);
        }
        std::fs::write(&image, device.to_image()).unwrap();
        std::fs::write(&file, &key).unwrap();
        let how = format!("{layout}, {method}");
        let mut keys = vec![vec!["--bekfile", &file]];
        let (password, recovery) =
            (format!("--user-password={PASSWORD}"), format!("--recovery-password={RECOVERY_KEY}"));
        if is_first {
            keys.extend([vec![&password[..]], vec![&recovery]]);
        }
        for key in keys {
            let arguments = [&["-V", &image][..], &key, &["--", &plain]].concat();
            // It overwrites nothing.
            let _ = std::fs::remove_file(&plain);
            judge("dislocker-file", &arguments);
            let mut read = std::fs::read(&plain).unwrap();
            if layout == Layout::Vista {
                // Of the two fields that Vista changes it gives back the name only.
                read[56..64].copy_from_slice(&expected[56..64]);
            }
            assert!(read == expected, "{how}: {key:?}");
        }
        // Its version in Debian 12 fails on volumes of Windows with this method too, and on all of Vista.
        if method != Method::Xts256 && layout != Layout::Vista {
            let told = judge("bdeinfo", &["-s", &file, &image]);
            let is_locked = told.contains("Is locked");
            assert!(!is_locked && told.contains(&making.key_file_id().to_string()[1..37]), "{how}: {told}");
        }
        if layout != Layout::Vista {
            let told = judge("cryptsetup", &["bitlkDump", &image]);
            assert!(told.contains(&making.key_file_id().to_string()[1..37]), "{how}: {told}");
        }
    }
    std::fs::remove_dir_all(&directory).unwrap();
}

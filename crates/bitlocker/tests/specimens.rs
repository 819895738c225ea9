//! Volumes of Windows with which the dissect project tests its reader of BitLocker: the source archive of dissect.fve 4.6 on PyPI has
//! them. `cargo xtask test` puts it in `/var/lib/platter-specimens`; `PLATTER_SPECIMENS` names another directory.

use crate::common::sha256;
use platter_bitlocker::{Encrypted, KeyFile, Layout, Method, RecoveryKey, Secret};
use platter_device::{Device, FileDevice, FileOptions, MemoryDevice, Sectors};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

/// What opens a volume.
enum Key {
    Password,
    Recovery(&'static str),
    File,
    Clear,
}

const PASSWORD: &str = "password12!@";

/// Each volume with its method, what opens it, and the SHA-256 of what dissect.fve reads in it.
const VOLUMES: [(&str, Layout, Method, Key, &str); 11] = [
    (
        "vista",
        Layout::Vista,
        Method::Cbc128Diffuser,
        Key::Recovery("517506-503998-044583-576191-587004-635965-501270-087802"),
        "dbe79012159ecff65fb5fc3e2f0855ed56a0762c1b1dade6ab8cee31687852a7",
    ),
    (
        "aes_128",
        Layout::Seven,
        Method::Cbc128,
        Key::Password,
        "d90b6e46f837d9b2f25c7ebca4cf42d6c17dbd08fc7f2ef1a8aed7d149becf75",
    ),
    (
        "aes_256",
        Layout::Seven,
        Method::Cbc256,
        Key::Password,
        "c0b7b3e40e55b02e84432a93c95256a2a19438848fe65c66627b0c32056aff5a",
    ),
    (
        "aes_128_diffuser",
        Layout::Seven,
        Method::Cbc128Diffuser,
        Key::Password,
        "c6da77807a5bf228cff85665d70dbc94c2d69e45f001bc8144b201808cd0c8d5",
    ),
    (
        "aes_256_diffuser",
        Layout::Seven,
        Method::Cbc256Diffuser,
        Key::Password,
        "bb5817a7f1a81b6840bbb8906d6ff833d0137f38cd95f99ea76ce7e49b5a5642",
    ),
    (
        "aes-xts_128",
        Layout::Seven,
        Method::Xts128,
        Key::Password,
        "2765001e256eb8ca9a38db007225706d9ec3228ba56bdace3642fd5280f2543d",
    ),
    (
        "aes-xts_256",
        Layout::Seven,
        Method::Xts256,
        Key::Password,
        "b8c012482b9e8219db651d2414a7685fca9a7fff94e45575145883f19be6e4ff",
    ),
    (
        "recovery_password",
        Layout::Seven,
        Method::Xts128,
        Key::Recovery("284867-596541-514998-422114-660297-261613-215424-199408"),
        "f97cc63acafc01b818a72240219fe8212ed249995c017c3d97334dde0fc59c65",
    ),
    (
        "recovery_key",
        Layout::Seven,
        Method::Xts128,
        Key::File,
        "0db7f24a13553f4c6dc8afcdd98d7c0fa39b97f624aa3c4fbbbce6b84f4fac60",
    ),
    (
        "startup_key",
        Layout::Seven,
        Method::Xts128,
        Key::File,
        "2b03452675750d10795cdb2048ee9a501f6475347e4bceb0cb2960b88453af48",
    ),
    (
        "suspended",
        Layout::Seven,
        Method::Xts128,
        Key::Clear,
        "d421f4a2ec130af8b7b8abcdeade66dac0d4d552dead0994aafd8c6e3e74fe79",
    ),
];

/// Larger than each of the volumes, of which the archive has the beginning.
const VOLUME: u64 = 1 << 40;

/// The archive, and a directory for what is unpacked of it, which is removed when the test ends.
struct Specimens {
    archive: PathBuf,
    directory: PathBuf,
}

impl Specimens {
    fn new(test: &str) -> Specimens {
        let place =
            std::env::var_os("PLATTER_SPECIMENS").unwrap_or_else(|| "/var/lib/platter-specimens".into());
        let archive = Path::new(&place).join("dissect_fve-4.6.tar.gz");
        assert!(archive.is_file(), "{} is needed for this test; cargo xtask test gets it", archive.display());
        let directory = std::env::temp_dir().join(format!("platter-specimens-{}-{test}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        Specimens { archive, directory }
    }

    /// Unpacks one file of the archive, and returns the path of what was in it.
    fn unpacked(&self, name: &str) -> PathBuf {
        let path = self.directory.join(name.trim_end_matches(".gz"));
        let unpack = if name.ends_with(".gz") { " | gzip -dc" } else { "" };
        // Most of each volume is zeroes.
        let script = format!("tar xzOf \"$1\" \"$2\"{unpack} | dd of=\"$3\" conv=sparse bs=64k status=none");
        let inside = format!("dissect_fve-4.6/tests/_data/bde/{name}");
        let mut command = Command::new("sh");
        command.args(["-c", &script, "sh"]).arg(&self.archive).arg(inside).arg(&path);
        assert!(command.status().unwrap().success(), "{name}");
        path
    }

    /// The volume, and how much of it is there.
    fn opened(&self, name: &str) -> (Arc<dyn Device>, Encrypted, u64) {
        let options = FileOptions { read_only: true, ..FileOptions::default() };
        let path = self.unpacked(&format!("{name}.bin.gz"));
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        let length = file.metadata().unwrap().len();
        // Their ends are cut off; what is behind them is read as zeroes.
        file.set_len(length.max(VOLUME)).unwrap();
        let device: Arc<dyn Device> = Arc::new(FileDevice::open(&path, options).unwrap());
        let encrypted = Encrypted::look(&*device).unwrap().expect("an encrypted volume");
        // The device keeps it open.
        std::fs::remove_file(path).unwrap();
        (device, encrypted, length)
    }
}

impl Drop for Specimens {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

#[test]
fn volumes_of_windows_have_what_another_project_reads() {
    let specimens = Specimens::new("all");
    for (name, layout, method, key, sum) in VOLUMES {
        let (device, encrypted, length) = specimens.opened(name);
        assert_eq!((encrypted.layout(), encrypted.method()), (layout, Some(method)), "{name}");
        let key = match key {
            Key::Password => encrypted.key(&Secret::Password(PASSWORD.to_string().into()), &|| false),
            Key::Recovery(key) => {
                encrypted.key(&Secret::RecoveryKey(RecoveryKey::parse(key).unwrap()), &|| false)
            }
            Key::File => {
                let file = std::fs::read(specimens.unpacked(&format!("{name}.bek"))).unwrap();
                encrypted.key(&Secret::KeyFile(KeyFile::parse(&file).unwrap()), &|| false)
            }
            Key::Clear => Ok(encrypted.clear_key().expect("the key stands beside it")),
        };
        let volume = encrypted.open(device, &key.unwrap()).unwrap();
        assert_eq!(sha256(&volume, length), sum, "{name}");
    }
}

/// The sum is that of what dissect.fve reads. It has zeroes where Windows keeps structures for a conversion while the volume is in
/// use, which are read here as they are.
#[test]
fn a_volume_of_which_nothing_is_encrypted_needs_no_key() {
    /// The first sector of each place and the number of its sectors: two of one sector, and six with a map and a log.
    const CONVERSION: [(u64, u64); 14] = [
        (69_776, 1),
        (69_784, 3),
        (69_792, 1030),
        (77_016, 3),
        (77_024, 1030),
        (84_656, 3),
        (84_664, 1030),
        (92_032, 1),
        (92_040, 3),
        (92_048, 1030),
        (99_672, 3),
        (99_680, 1030),
        (107_056, 3),
        (107_064, 1030),
    ];
    let (device, encrypted, length) = Specimens::new("decrypted").opened("decrypted");
    let key = encrypted.clear_key().expect("it takes no secret");
    let volume = encrypted.open(device, &key).unwrap();
    assert!(volume.read_only() && volume.why_read_only().unwrap().contains("nothing of it is encrypted"));
    let mut content = vec![0; length as usize];
    volume.read_at(0, &mut content).unwrap();
    for (first, count) in CONVERSION {
        content[first as usize * 512..][..count as usize * 512].fill(0);
    }
    let content = MemoryDevice::from_image(&content, Sectors::SMALL);
    assert_eq!(sha256(&content, length), "b3f17a20397b06aa2030da90398cb5e02b5138e96bfe63316c0f863a66282b82");
}

/// The part that Windows 10 was at when it did not complete a conversion is in a log of which there is no description.
#[test]
fn a_volume_that_windows_was_encrypting_is_refused() {
    let (device, encrypted, _) = Specimens::new("eow").opened("eow_partial");
    let key = encrypted.key(&Secret::Password(PASSWORD.to_string().into()), &|| false).unwrap();
    let told = encrypted.open(device, &key).err().unwrap().to_string();
    assert!(told.contains("while it is in use"), "{told}");
}

/// One that Windows 7 was encrypting: 2.7 GiB, of which 1.1 GiB are encrypted. The sum is that of what dissect.fve reads in two parts.
#[test]
#[ignore = "it is large"]
fn a_volume_that_windows_7_was_encrypting_is_read() {
    let (device, encrypted, _) = Specimens::new("seven").opened("win7_partial");
    let key = RecoveryKey::parse("131450-120197-153989-250338-511368-495572-680944-381546").unwrap();
    let key = encrypted.key(&Secret::RecoveryKey(key), &|| false).unwrap();
    let volume = encrypted.open(device, &key).unwrap();
    assert!(volume.read_only() && volume.why_read_only().unwrap().contains("not complete"));
    let (mut first, mut around) = (vec![0; 4 << 20], vec![0; 2 << 20]);
    volume.read_at(0, &mut first).unwrap();
    // The last encrypted sector is the one before 2234024.
    volume.read_at((2_234_024 - 2048) * 512, &mut around).unwrap();
    first.extend(around);
    let length = first.len() as u64;
    let read = MemoryDevice::from_image(&first, Sectors::SMALL);
    assert_eq!(sha256(&read, length), "eb3418eceb18dc256a11dab3ce0dba01c05340d87f67ddc0a905e0ae3b911d38");
}

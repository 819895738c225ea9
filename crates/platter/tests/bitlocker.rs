//! Volumes that BitLocker encrypts: every command opens them with a key, and says what they are without one.

use crate::common::mount::Mount;
use crate::common::{Place, content};
use platter::bitlocker::making::Making;
use platter::bitlocker::{Layout, Method};
use platter::vfs::Place as Lies;
use platter::{ErrorKind, Keys, OpenOptions};
use platter_device::{FileDevice, FileOptions};
use std::fs;
use std::path::Path;

const PASSWORD: &str = "correct horse battery";
const RECOVERY_KEY: &str = "471207-278498-422125-177177-561902-537405-468006-693451";

/// Makes room in the volume on an image as Windows does, with files of its own, and encrypts it. The keys are then in the files
/// `password`, `recovery` and `key.bek`.
pub(crate) fn encrypt(place: &Place, image: &str, layout: Layout, method: Method, clear_key: bool) {
    let volume = platter::open_rw(place.path(image)).unwrap();
    volume.create_dir_all("System Volume Information").unwrap();
    let at = |name: &str, size: usize| {
        let path = format!("System Volume Information/FVE2.{name}");
        volume.write(&path, &vec![0; size]).unwrap();
        volume.sync().unwrap();
        let extents = volume.extents(&path).unwrap();
        match extents[..] {
            [one] if one.length >= size as u64 => match one.place {
                Lies::Device(at) | Lies::Unwritten(at) => at,
                elsewhere => panic!("{elsewhere:?}"),
            },
            _ => panic!("{extents:?}: a new volume has room for a file in one piece"),
        }
    };
    let blocks = ["1", "2", "3"].map(|name| at(name, 64 << 10));
    let first = (at("0", 8192), 8192);
    volume.close().unwrap();
    let device = FileDevice::open(place.path(image), FileOptions::default()).unwrap();
    let making = Making {
        layout,
        method,
        sector: 512,
        blocks,
        first,
        password: Some(PASSWORD),
        recovery_key: Some(RECOVERY_KEY),
        key_file: true,
        clear_key,
        encrypted: None,
        seed: 11,
    };
    let file = making.encrypt(&device).unwrap();
    fs::write(place.path("password"), format!("{PASSWORD}\r\nand nothing else\n")).unwrap();
    fs::write(place.path("recovery"), RECOVERY_KEY).unwrap();
    fs::write(place.path("key.bek"), file.unwrap()).unwrap();
}

#[test]
fn every_key_opens_a_volume_and_none_is_needed_to_say_what_it_is() {
    let place = Place::new("bitlocker");
    place.works("mkfs ntfs disk.img --size 64M --label DATA");
    fs::write(place.path("file"), content(3, 300_001)).unwrap();
    place.works("cp file disk.img:/file");
    encrypt(&place, "disk.img", Layout::Seven, Method::Xts128, false);
    let info = place.works("info disk.img");
    for told in
        ["encrypted by BitLocker", "AES-XTS of 128 bits", "password {", "recovery key {", "key file {"]
    {
        assert!(info.contains(told), "{told}: {info}");
    }
    assert!(!info.contains("DATA"), "{info}");
    let none = place.fails("ls disk.img");
    assert!(none.contains("no key is given") && none.contains("--password-file"), "{none}");
    for keys in ["--password-file password", "--recovery-key-file recovery", "--key-file key.bek"] {
        assert!(place.works(&format!("ls disk.img {keys}")).contains("file"), "{keys}");
        assert!(place.works(&format!("info disk.img {keys}")).contains("DATA"), "{keys}");
    }
    let keys = "--key-file key.bek";
    assert_eq!(place.platter(&format!("{keys} cat disk.img:/file")).stdout, content(3, 300_001));
    place.works(&format!("mkdir disk.img:/directory {keys}"));
    place.works(&format!("check disk.img {keys}"));
    place.works(&format!("recover disk.img out {keys}"));
    assert_eq!(fs::read(place.path("out/file")).unwrap(), content(3, 300_001));
    fs::create_dir(place.path("m")).unwrap();
    for options in ["--password-file password", "-o key_file=key.bek,ro"] {
        place.works(&format!("mount disk.img m {options}"));
        assert_eq!(fs::read(place.path("m/file")).unwrap(), content(3, 300_001), "{options}");
        place.works("umount m");
    }
    // The keys of another volume, and what is no key.
    fs::write(place.path("other"), "correct horse\n").unwrap();
    let wrong = place.fails("ls disk.img --password-file other");
    assert!(wrong.contains("this is not the password of the volume"), "{wrong}");
    assert!(place.fails("ls disk.img --recovery-key-file other").contains("48 digits"));
    assert!(place.fails("ls disk.img --key-file other").contains("no key file"));
    assert!(place.fails("ls disk.img --password-file none").contains("none: "));
    for (wrong, secret) in [(&none, "471207"), (&wrong, "horse")] {
        assert!(!wrong.contains(secret), "{wrong}");
    }
    // It is content that is not overwritten unasked.
    assert!(place.fails("mkfs ntfs disk.img").contains("BitLocker"));
}

#[test]
fn a_key_comes_from_standard_input_of_which_the_rest_stays() {
    let place = Place::new("bitlocker-input");
    place.works("mkfs fat32 disk.img --size 64M");
    encrypt(&place, "disk.img", Layout::Seven, Method::Cbc128, false);
    let line =
        format!("printf '%s\\nthe rest' '{PASSWORD}' | $PLATTER cp - disk.img:/note --password-file -");
    let mut shell = place.command("sh", &["-ec", &line]);
    let output = shell.env("PLATTER", env!("CARGO_BIN_EXE_platter")).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(place.platter("cat disk.img:/note --key-file key.bek").stdout, b"the rest");
}

#[test]
fn a_suspended_volume_needs_no_key_and_the_library_takes_all() {
    let place = Place::new("bitlocker-library");
    place.works("mkfs exfat disk.img --size 64M");
    encrypt(&place, "disk.img", Layout::ToGo, Method::Cbc256, true);
    let volume = platter::open_rw(place.path("disk.img")).unwrap();
    volume.write("note", b"kept").unwrap();
    volume.close().unwrap();
    assert_eq!(place.platter("cat disk.img:/note").stdout, b"kept");

    place.works("mkfs exfat other.img --size 64M");
    encrypt(&place, "other.img", Layout::Seven, Method::Cbc256Diffuser, false);
    let path = place.path("other.img");
    let open = |keys: Keys| OpenOptions::new().keys(keys).open(&path);
    assert_eq!(open(Keys::new()).err().map(|error| error.kind()), Some(ErrorKind::Encrypted));
    let wrong = open(Keys::new().password("wrong")).err().unwrap();
    assert_eq!((wrong.kind(), wrong.errno()), (ErrorKind::Encrypted, platter::Errno::NO_KEY));
    for keys in [
        Keys::new().password(PASSWORD),
        Keys::new().password("wrong").recovery_key(RECOVERY_KEY).unwrap(),
        Keys::new().key_file(place.path("key.bek")).unwrap(),
    ] {
        assert_eq!(format!("{keys:?}"), "Keys(..)");
        open(keys).unwrap();
    }
    let asked = Keys::new().asking(|encrypted, name, why| {
        assert!(name.ends_with("other.img") && encrypted.layout() == Layout::Seven);
        let answer = if why.is_none() { "wrong" } else { PASSWORD };
        Some(platter::bitlocker::Secret::Password(answer.to_string().into()))
    });
    open(asked).unwrap();
}

/// What dislocker makes of an image with the key file.
pub(crate) fn decrypted(place: &Place, image: &str) {
    let plain = place.path("plain.img");
    let _ = fs::remove_file(&plain);
    let path = |path: &Path| path.to_str().unwrap().to_string();
    let (image, key) = (path(&place.path(image)), path(&place.path("key.bek")));
    place.tool("dislocker-file", &["-V", &image, "--bekfile", &key, "--", &path(&plain)]);
}

/// 10,000 random changes on a mount, after which another project's program decrypts a volume without damage that has the
/// same content.
#[test]
fn random_changes_through_a_mount_are_there_for_others() {
    let place = Place::new("bitlocker-random");
    place.works("mkfs ntfs disk.img --size 256M");
    encrypt(&place, "disk.img", Layout::Seven, Method::Xts256, false);
    fs::create_dir(place.path("m")).unwrap();
    let mount = Mount { place, format: "ntfs".into(), source: "disk.img" };
    mount.mount("--key-file key.bek");
    mount.exercise(10_000, 5);
    let place = &mount.place;
    let content = fs::read(place.path("m/file")).unwrap();
    place.works("umount m");
    place.works("check disk.img --key-file key.bek");
    decrypted(place, "disk.img");
    place.works("check plain.img");
    assert!(place.platter("cat plain.img:/file").stdout == content);
}

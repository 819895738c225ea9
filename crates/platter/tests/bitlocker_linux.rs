//! A Linux that opens volumes that BitLocker encrypts with cryptsetup and dm-crypt, in an emulated machine: another project's decryption
//! as a device of the kernel, on which its file systems are mounted.

use crate::common::Place;
use platter::bitlocker::{Layout, Method};
use platter_device::Device;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};

/// What is encrypted and how, and what Linux calls the format.
#[derive(Debug)]
pub(crate) struct Volume {
    pub format: &'static str,
    pub system: &'static str,
    pub layout: Layout,
    pub method: Method,
}

/// An encrypted image, and what Linux is to find in it.
pub(crate) struct Given {
    /// The name of the image in the place, and beside it of the key file.
    name: String,
    how: String,
    system: &'static str,
    /// The SHA-256 of the decrypted volume as it is read here.
    sum: String,
    /// The SHA-256 of the files; `None` if it is not to be mounted.
    files: Option<BTreeMap<String, String>>,
}

impl Given {
    /// Keeps the state of a device, and what is read through this program's decryption of it.
    pub(crate) fn new(
        place: &Place,
        of: &Volume,
        device: &dyn Device,
        plain: &dyn Device,
        files: Option<BTreeMap<String, Vec<u8>>>,
    ) -> Given {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("given{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        let content = |device: &dyn Device| {
            let mut content = vec![0; device.len() as usize];
            device.read_at(0, &mut content).unwrap();
            content
        };
        fs::write(place.path(&name), content(device)).unwrap();
        fs::copy(place.path("key.bek"), place.path(&format!("{name}.bek"))).unwrap();
        // Cryptsetup tries a key file as the password first, and a million hashes take half a minute in an emulated machine: it gets
        // the volume's key here.
        let (key, file) = (format!("{name}.key"), format!("{name}.bek"));
        let dump =
            ["bitlkDump", "-q", &name, "--dump-volume-key", "--volume-key-file", &key, "--key-file", &file];
        place.tool("cryptsetup", &dump);
        let sum = |content: &[u8]| {
            fs::write(place.path("summed"), content).unwrap();
            place.tool("sha256sum", &["summed"])[..64].to_string()
        };
        let files =
            files.map(|files| files.iter().map(|(name, content)| (name.clone(), sum(content))).collect());
        Given { name, how: format!("{of:?}"), system: of.system, sum: sum(&content(plain)), files }
    }
}

/// What runs in the emulated machine: `look DISK NAME SYSTEM` prints the sum of the decrypted device, mounts it unless the system is
/// `none`, prints the sum of each file, and writes one of its own.
const LOOK: &str = r#"
look() {
    cryptsetup bitlkOpen --volume-key-file /keys/$2.key /dev/$1 plain || return
    echo "SUM $2 $(sha256sum < /dev/mapper/plain)"
    if [ $3 != none ] && mount -t $3 /dev/mapper/plain /mnt; then
        for file in /mnt/*; do
            [ -f "$file" ] && echo "FILE $2 $(sha256sum < $file) $file"
        done
        dd if=/dev/urandom of=/mnt/linux bs=1000 count=300 2> /dev/null
        rm -f /mnt/later
        echo "WROTE $2 $(sha256sum < /mnt/linux)"
        umount /mnt
    fi
    cryptsetup close plain && echo "CLOSED $2"
}
"#;

/// Runs a script in the emulated machine with these images as its disks and these files in `/keys`; returns what it printed.
fn emulated(place: &Place, keys: &Path, images: &[String], script: &str) -> String {
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cryptsetup.sh");
    let arguments = [&[program.to_string(), keys.display().to_string()], images].concat();
    let mut child = place.command("sh", &arguments);
    let mut child = child.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(told.contains("SCRIPT-END"), "no Linux ran: {told}");
    told
}

/// Linux decrypts each image to the same bytes and has the same files, and what it writes to those that it mounts is read here.
pub(crate) fn judge(place: &Place, given: &[Given]) {
    let keys = place.path("keys");
    let _ = fs::remove_dir_all(&keys);
    fs::create_dir(&keys).unwrap();
    let mut script = LOOK.to_string();
    for (one, disk) in given.iter().zip('a'..='z') {
        let file = format!("{}.key", one.name);
        fs::copy(place.path(&file), keys.join(&file)).unwrap();
        let system = if one.files.is_some() { one.system } else { "none" };
        writeln!(script, "look vd{disk} {} {system}", one.name).unwrap();
    }
    let images: Vec<String> = given.iter().map(|one| one.name.clone()).collect();
    let told = emulated(place, &keys, &images, &script);
    for one in given {
        let lines = |what: &str| -> Vec<&str> {
            let start = format!("{what} {} ", one.name);
            told.lines().filter_map(|line| line.trim().strip_prefix(&start[..])).collect()
        };
        let how = format!("{}, {}: {told}", one.name, one.how);
        assert!(matches!(lines("SUM")[..], [sum] if sum[..64] == one.sum), "{how}");
        assert!(told.contains(&format!("CLOSED {}", one.name)), "{how}");
        let Some(files) = &one.files else { continue };
        let seen: BTreeMap<String, String> = lines("FILE")
            .iter()
            .map(|line| (line.rsplit('/').next().unwrap().to_string(), line[..64].to_string()))
            .collect();
        assert!(seen == *files, "{how}");
        let [wrote] = lines("WROTE")[..] else { panic!("{how}") };
        let key = format!("--key-file {}.bek", one.name);
        place.works(&format!("check {} {key}", one.name));
        fs::write(place.path("summed"), place.platter(&format!("cat {}:/linux {key}", one.name)).stdout)
            .unwrap();
        assert!(place.tool("sha256sum", &["summed"])[..64] == wrote[..64], "{how}");
        assert!(!place.works(&format!("ls {} {key}", one.name)).contains("later"), "{how}");
    }
}

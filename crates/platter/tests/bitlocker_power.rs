//! Power cuts under a volume that BitLocker encrypts: what was synced is there, and others decrypt a volume without damage.

use crate::bitlocker::{decrypted, encrypt};
use crate::bitlocker_linux::{Given, Volume, judge};
use crate::common::Place;
use crate::common::mount::Random;
use platter::bitlocker::{Encrypted, KeyFile, Layout, Method, Secret};
use platter::{Access, OpenOptions};
use platter_device::{Device, Faults, Grain, MemoryDevice, OverlayDevice, Sectors, Survivors};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::Arc;

/// The content of files by name.
type Files = BTreeMap<String, Vec<u8>>;

/// What a volume has at least, once so many writes have reached the device, and which of its files were changed afterwards.
struct Synced {
    writes: usize,
    files: Files,
    touched: BTreeSet<String>,
}

/// Decrypts a device with the key file of the place.
fn opened(place: &Place, device: Arc<dyn Device>) -> Arc<dyn Device> {
    let key = KeyFile::parse(&fs::read(place.path("key.bek")).unwrap()).unwrap();
    let encrypted = Encrypted::look(&*device).unwrap().expect("an encrypted volume");
    let key = encrypted.key(&Secret::KeyFile(key), &|| true).unwrap();
    Arc::new(encrypted.open(device, &key).unwrap())
}

/// One random change of a volume and of what it is to have; returns the names of the files.
fn change(random: &mut Random, volume: &platter::Volume, files: &mut Files) -> Vec<String> {
    let name = format!("file{}", random.below(40));
    match (random.below(8), files.contains_key(&name)) {
        (0, true) => {
            volume.remove_file(&name).unwrap();
            files.remove(&name);
            vec![name]
        }
        (1, true) => {
            let other = format!("other{}", random.below(10));
            if files.remove(&other).is_some() {
                volume.remove_file(&other).unwrap();
            }
            volume.rename(&name, &other).unwrap();
            let content = files.remove(&name).expect("it is there");
            files.insert(other.clone(), content);
            vec![name, other]
        }
        _ => {
            let (length, first) = (random.below(30_000), random.next());
            let content: Vec<u8> =
                (0..length).map(|at| (first.wrapping_add(at * 7) >> (at % 9)) as u8).collect();
            volume.write(&name, &content).unwrap();
            files.insert(name.clone(), content);
            vec![name]
        }
    }
}

/// The files of those that are changed here that a volume has.
fn found(volume: &platter::Volume) -> Files {
    let names = (0..40).map(|number| format!("file{number}"));
    let names = names.chain((0..10).map(|number| format!("other{number}"))).chain(["later".to_string()]);
    names
        .filter(|name| volume.exists(name).unwrap())
        .map(|name| (name.clone(), volume.read(&name).unwrap()))
        .collect()
}

/// So many random changes, with a sync behind every few, and then so many cuts at random. Returns what Linux is to find: of each
/// cut the volume as it was left, which is compared as a device, and after it was opened and closed, where Linux has its files;
/// without cuts the volume after it was closed.
fn run(place: &Place, seed: u64, of: &Volume, changes: usize, cuts: usize) -> Vec<Given> {
    println!("PLATTER_SEED={seed}: {of:?}");
    let mut random = Random(seed);
    place.works(&format!("mkfs {} disk.img --size 8M --force", of.format));
    encrypt(place, "disk.img", of.layout, of.method, false);
    let image = fs::read(place.path("disk.img")).unwrap();
    let memory = Arc::new(MemoryDevice::from_image(&image, Sectors::SMALL));
    let mut given = Vec::new();
    let faults = Arc::new(Faults::recording(memory, seed, Grain::Logical));
    let writing = OpenOptions::new().access(Access::Write { force: false });
    let volume = writing.open_on(opened(place, faults.clone()), "disk").unwrap();
    let mut files = Files::new();
    let mut synced: Vec<Synced> = Vec::new();
    for number in 0..changes {
        let names = change(&mut random, &volume, &mut files);
        if let Some(last) = synced.last_mut() {
            last.touched.extend(names);
        }
        if number % 25 == 24 {
            volume.sync().unwrap();
            let writes = faults.log().writes();
            synced.push(Synced { writes, files: files.clone(), touched: BTreeSet::new() });
        }
    }
    if cuts == 0 {
        let files = found(&volume);
        volume.close().unwrap();
        given.push(Given::new(place, of, &*faults, &*opened(place, faults.clone()), Some(files)));
        return given;
    }
    drop(volume);
    let log = faults.log();
    for turn in 0..cuts {
        let cut = random.below(log.writes() as u64 + 1) as usize;
        let survivors = [Survivors::None, Survivors::All, Survivors::Random(cut as u64)][turn % 3];
        let what = format!("seed {seed}, cut {cut} of {}, {survivors:?}", log.writes());
        let left: Arc<OverlayDevice> = Arc::new(log.cut(cut, survivors));
        fs::write(place.path("cut.img"), left.to_image().unwrap()).unwrap();
        decrypted(place, "cut.img");
        place.works("check plain.img");
        given.push(Given::new(place, of, &*left, &*opened(place, left.clone()), None));
        let volume = writing.clone().open_on(opened(place, left.clone()), "disk").unwrap();
        if let Some(last) = synced.iter().rev().find(|synced| synced.writes <= cut) {
            for (name, content) in last.files.iter().filter(|(name, _)| !last.touched.contains(*name)) {
                assert!(volume.read(name).is_ok_and(|found| found == *content), "{what}: {name}");
            }
        }
        // It goes on.
        volume.write("later", b"later").unwrap();
        let files = found(&volume);
        volume.close().unwrap();
        given.push(Given::new(place, of, &*left, &*opened(place, left.clone()), Some(files)));
    }
    given
}

/// Every method, and each format that Linux has too. In the layout of Vista cryptsetup opens nothing.
const VOLUMES: [Volume; 6] = [
    Volume { format: "ntfs", system: "ntfs3", layout: Layout::Seven, method: Method::Xts128 },
    Volume { format: "exfat", system: "exfat", layout: Layout::ToGo, method: Method::Cbc128 },
    Volume { format: "fat16", system: "vfat", layout: Layout::ToGo, method: Method::Xts256 },
    Volume { format: "ntfs", system: "ntfs3", layout: Layout::Seven, method: Method::Cbc256Diffuser },
    Volume { format: "exfat", system: "exfat", layout: Layout::Seven, method: Method::Cbc128Diffuser },
    Volume { format: "ntfs", system: "ntfs3", layout: Layout::Seven, method: Method::Cbc256 },
];

impl Volume {
    /// Without a log a cut leaves clusters that nothing has: what `check` finds on FAT and exFAT then is no fault of encryption.
    fn cuts(&self, cuts: usize) -> usize {
        if self.format == "ntfs" { cuts } else { 0 }
    }
}

#[test]
fn an_encrypted_volume_loses_nothing_synced_and_linux_opens_it() {
    let place = Place::new("bitlocker-power");
    let given =
        VOLUMES.iter().zip(1..).flat_map(|(volume, seed)| run(&place, seed, volume, 60, volume.cuts(1)));
    judge(&place, &given.collect::<Vec<_>>());
}

/// 10,000 changes of each volume, and 30 cuts.
#[test]
#[ignore = "a campaign"]
fn campaign_of_power_cuts_under_encrypted_volumes() {
    let seed = std::env::var("PLATTER_SEED").map_or(1 << 20, |seed| seed.parse().unwrap());
    for volume in &VOLUMES {
        let place = Place::new("bitlocker-power");
        let given = run(&place, seed, volume, 10_000, volume.cuts(30));
        // As many as the emulated machine has room for disks.
        given.chunks(20).for_each(|given| judge(&place, given));
    }
}

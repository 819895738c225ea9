//! Clusters that cannot be read: reported with the files on them, and kept from use.

use crate::common::{USUAL, Volume, open};
use crate::judges::{ImageFile, Mount, ntfsfix};
use platter_device::{Device, Fault, Faults, MemoryDevice, Operation, When};
use platter_ntfs::Ntfs;
use platter_vfs::{
    CheckOptions, CheckReport, FileSystem, Format, Kind, Names, Node, Place, Severity, Silent,
};
use std::sync::Arc;

fn check(device: &dyn Device, repair: bool) -> CheckReport {
    Ntfs.check_surface(device, CheckOptions { repair }, &Silent).unwrap()
}

fn codes(report: &CheckReport) -> Vec<(&'static str, Option<&str>, bool)> {
    report.findings.iter().map(|found| (found.code, found.path.as_deref(), found.repaired)).collect()
}

#[test]
fn bad_clusters_are_taken_out_of_use() {
    for volume in
        [USUAL, Volume { cluster: 512, ..USUAL }, Volume { cluster: 65536, bytes: 96 << 20, ..USUAL }]
    {
        let memory = volume.make();
        let system = open(memory.clone());
        let content: Vec<u8> = (0..400_000u32).map(|byte| byte as u8 | 1).collect();
        let place = |name: &str| {
            let file = system.create(Node::ROOT, &name.into(), Kind::File).unwrap();
            system.write(file, 0, &content).unwrap();
            system.sync_all().unwrap();
            match system.extents(file).unwrap()[0].place {
                Place::Device(at) => at,
                place => panic!("{place:?}"),
            }
        };
        let (hit, _) = (place("hit"), place("whole"));
        let free = system.space().unwrap().free;
        system.unmount().unwrap();
        // Two sectors in different clusters of a file, far from its start, and one that no file has.
        let sector = u64::from(volume.sector);
        let last = memory.len() - 300 * volume.cluster;
        let places = [hit + 70_000 / sector * sector, hit + 200_000 / sector * sector, last];
        let device = Faults::new(memory.clone(), 8664);
        for at in places {
            device.inject(When::within(Operation::Read, at..at + sector), Fault::Fail);
        }
        // A check that only looks at structures finds nothing.
        assert!(Ntfs.check(&device, CheckOptions::default(), &Silent).unwrap().is_clean());
        let before = memory_bytes(&memory);
        let report = check(&device, false);
        let expected = [("bad-cluster", Some("/hit"), false), ("bad-clusters-new", Some("/$BadClus"), false)];
        assert_eq!(codes(&report), expected, "{volume:?}: {:#?}", report.findings);
        assert_eq!(report.remaining, Some(Severity::DataLoss));
        assert!(memory_bytes(&memory) == before, "a check wrote something");
        let report = check(&device, true);
        assert_eq!(codes(&report)[..2], expected.map(|(code, path, _)| (code, path, true)));
        // The bitmap must show the change, and so must `$MFTMirr` if it has the record of `$BadClus`.
        let follows = |found: &&str| ["bitmap-free", "mirror"].contains(found);
        assert!(report.findings[2..].iter().all(|found| found.repaired && follows(&found.code)));
        assert_eq!(report.exit_code(), 1);
        assert_eq!(check(&device, false).found, 0);
        // The file has the bytes that can be read, zeroes for the others, and can be read from the worn device.
        let device: Arc<dyn Device> = Arc::new(device);
        let system = open(device.clone());
        assert_eq!(system.space().unwrap().free, free - 3, "{volume:?}");
        for name in ["hit", "whole"] {
            let file = system.lookup(Node::ROOT, &name.into()).unwrap();
            let mut found = vec![0; content.len()];
            assert_eq!(system.read(file, 0, &mut found).unwrap(), content.len());
            let mut expected = content.clone();
            if name == "hit" {
                for at in &places[..2] {
                    expected[(at - hit) as usize..][..sector as usize].fill(0);
                }
            }
            assert!(found == expected, "{volume:?}: {name}");
        }
        // No file gets the bad clusters, not even when the volume is full.
        let file = system.create(Node::ROOT, &"fill".into(), Kind::File).unwrap();
        let piece = vec![1; 1 << 20];
        let mut at = 0;
        while system.write(file, at, &piece).is_ok() {
            at += piece.len() as u64;
        }
        let mut found = vec![0; 1 << 20];
        for at in (0..at).step_by(1 << 20) {
            system.read(file, at, &mut found).unwrap();
        }
        system.unmount().unwrap();
        assert_eq!(check(&*device, false).found, 0);
        let image = ImageFile::of(&*memory);
        let verdict = ntfsfix(&image);
        assert!(verdict.clean, "{}", verdict.output);
        assert!(Mount::reading(&image).unwrap().tree()["/whole"].is_ok());
    }
}

fn memory_bytes(memory: &MemoryDevice) -> Vec<u8> {
    let mut bytes = vec![0; memory.len() as usize];
    memory.read_at(0, &mut bytes).unwrap();
    bytes
}

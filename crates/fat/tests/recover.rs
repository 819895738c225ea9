//! Recovery of deleted files, compared with what The Sleuth Kit recovers of the same image.

use crate::judges::{ImageFile, run};
use platter_device::{Device, MemoryDevice, Sectors};
use platter_fat::{Fat, FatVolume};
use platter_testing::model::{Clock, ClockedDevice};
use platter_vfs::{FileSystem, Format, FormatOptions, Kind, Name, Names, Node, OpenOptions, Silent};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// What a recovery found: the content of each file by path, with whether it was deleted.
type Tree = BTreeMap<String, (bool, Vec<u8>)>;

fn recovered(device: Arc<dyn Device>) -> (Tree, platter_vfs::RecoverReport) {
    let mut tree = Tree::new();
    let report = Fat::ANY.recover(device, &Silent, &mut |found, data| {
        if found.kind == Kind::File {
            let mut content = vec![0; found.size as usize];
            let got = data.read(0, &mut content)?;
            assert_eq!(got, content.len());
            let path: String = found.path.iter().map(|name| format!("/{name}")).collect();
            assert!(tree.insert(path, (found.deleted, content)).is_none());
        }
        Ok(())
    });
    (tree, report.unwrap())
}

fn content(length: usize, seed: u8) -> Vec<u8> {
    (0..length).map(|at| (at as u8).wrapping_mul(seed) ^ (at >> 8) as u8).collect()
}

/// Makes a volume and removes some of its files and directories. Returns it with the removed files by path.
fn with_deleted(format: &Fat, length: u64) -> (Arc<MemoryDevice>, BTreeMap<String, Vec<u8>>) {
    let memory = Arc::new(MemoryDevice::new(length, Sectors::SMALL));
    let device = Arc::new(ClockedDevice::new(memory.clone(), Clock::new(Duration::from_secs(1_700_000_000))));
    let options = FormatOptions { cluster: Some(1024), ..FormatOptions::default() };
    format.make(&*device, &options, &Silent).unwrap();
    let volume = FatVolume::open(device, OpenOptions::default()).unwrap();
    let make = |above, name: &str, kind| volume.create(above, &Name::from(name), kind).unwrap();
    let mut deleted = BTreeMap::new();
    let photos = make(Node::ROOT, "DCIM", Kind::Directory);
    let gone = make(photos, "a directory that goes", Kind::Directory);
    for number in 0..12_u8 {
        let long = content(3000 * usize::from(number), number | 1);
        let file = make(photos, &format!("A photo with a long name {number}.jpeg"), Kind::File);
        volume.write(file, 0, &long).unwrap();
        let short = content(700, number | 1);
        let file = make(photos, &format!("IMG_{number}.JPG"), Kind::File);
        volume.write(file, 0, &short).unwrap();
        let inside = make(gone, &format!("inside {number}"), Kind::File);
        volume.write(inside, 0, &short).unwrap();
        deleted.insert(format!("/DCIM/a directory that goes/inside {number}"), short.clone());
        if number % 2 == 1 {
            deleted.insert(format!("/DCIM/A photo with a long name {number}.jpeg"), long);
            deleted.insert(format!("/DCIM/_MG_{number}.JPG"), short);
        }
    }
    volume.sync_all().unwrap();
    for number in 0..12 {
        volume.unlink(gone, &Name::from(format!("inside {number}").as_str())).unwrap();
        if number % 2 == 1 {
            volume
                .unlink(photos, &Name::from(format!("A photo with a long name {number}.jpeg").as_str()))
                .unwrap();
            volume.unlink(photos, &Name::from(format!("IMG_{number}.JPG").as_str())).unwrap();
        }
    }
    volume.rmdir(photos, &Name::from("a directory that goes")).unwrap();
    volume.unmount().unwrap();
    (memory, deleted)
}

#[test]
fn deleted_files_come_back_as_with_the_sleuth_kit() {
    for (format, length) in [(Fat::FAT12, 2 << 20), (Fat::FAT16, 12 << 20), (Fat::FAT32, 80 << 20)] {
        let (memory, deleted) = with_deleted(&format, length);
        let (tree, report) = recovered(memory.clone());
        // A file of more than one cluster had a chain that is gone: its place is likely, not certain.
        for (path, content) in &deleted {
            let at = if content.len() > 1024 { format!("/likely{path}") } else { path.clone() };
            assert!(
                tree.get(&at) == Some(&(true, content.clone())),
                "{} {at}: {:?}",
                format.name(),
                tree.keys()
            );
        }
        assert_eq!(tree.values().filter(|(is_deleted, _)| *is_deleted).count(), deleted.len());
        assert_eq!((report.deleted, report.overwritten), (deleted.len() as u64, 0), "{}", format.name());
        assert!(tree.contains_key("/DCIM/IMG_0.JPG") && !tree["/DCIM/IMG_0.JPG"].0);

        // Every content that The Sleuth Kit finds is found here too.
        let image = ImageFile::new(&memory.to_image());
        let out = std::path::PathBuf::from(format!("{}.tsk", image.path()));
        std::fs::create_dir_all(&out).unwrap();
        run("tsk_recover", &[image.path(), out.to_str().unwrap()]);
        let (mut todo, mut theirs) = (vec![out.clone()], 0);
        while let Some(path) = todo.pop() {
            if path.is_dir() {
                todo.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
                continue;
            }
            let content = std::fs::read(&path).unwrap();
            // It also writes what it takes for files of its own.
            if path.to_string_lossy().contains("$OrphanFiles") && content.is_empty() {
                continue;
            }
            assert!(tree.values().any(|(_, ours)| *ours == content), "{}: {path:?}", format.name());
            theirs += 1;
        }
        std::fs::remove_dir_all(&out).unwrap();
        assert!(theirs >= 12, "{}: {theirs} files", format.name());
    }
}

/// A deleted file of which another has the clusters by now does not come back, and is counted.
#[test]
fn a_deleted_file_that_was_overwritten_is_counted() {
    let (memory, deleted) = with_deleted(&Fat::FAT16, 12 << 20);
    let volume = FatVolume::open(memory.clone(), OpenOptions::default()).unwrap();
    let file = volume.create(Node::ROOT, &Name::from("fills all"), Kind::File).unwrap();
    let free = volume.space().unwrap();
    volume.write(file, 0, &vec![0xEE; (free.free * free.cluster) as usize]).unwrap();
    volume.unmount().unwrap();
    let (tree, report) = recovered(memory);
    let back = tree.values().filter(|(is_deleted, _)| *is_deleted).count();
    assert!(back == 0 && report.overwritten > 0, "{back} {report:?}");
    assert!(report.overwritten <= deleted.len() as u64);
}

/// The cost of a recovery follows what is there, not the size of the volume: neither holes of the clusters nor those of the
/// FAT are read.
#[test]
fn holes_are_not_read() {
    let memory = Arc::new(MemoryDevice::new(512 << 30, Sectors::SMALL));
    Fat::FAT32.make(&*memory, &FormatOptions::default(), &Silent).unwrap();
    let volume = FatVolume::open(memory.clone(), OpenOptions::default()).unwrap();
    let file = volume.create(Node::ROOT, &Name::from("alone"), Kind::File).unwrap();
    volume.write(file, 0, &content(100_000, 7)).unwrap();
    volume.unmount().unwrap();
    let recorder = Arc::new(platter_device::Recorder::new(memory));
    let (tree, _) = recovered(recorder.clone());
    assert_eq!(tree["/alone"].1, content(100_000, 7));
    let read = recorder.traffic().read;
    assert!(read.count < 1000 && read.bytes < 8 << 20, "{read:?}");
}

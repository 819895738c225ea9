//! Other implementations read what Platter writes, and Platter reads what they write.

use crate::common::{Volume, open, tested};
use crate::judges::{ImageFile, Mount, Tree, dissect, fsck, kernel, run as tool};
use platter_device::{Device, FileDevice, FileOptions};
use platter_testing::model::judge::{assert_same, judge_every, ours, partly_written};
use platter_testing::model::{Clock, Listed, Random, Runner, generate, seed};
use platter_vfs::{FileSystem, Kind, Names, Node, RenameFlags};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

/// A volume for each cluster size that is tested.
const JUDGED: [Volume; 4] = [
    Volume { bytes: 4 << 20, cluster: 512, sector: 512 },
    Volume { bytes: 24 << 20, cluster: 4096, sector: 512 },
    Volume { bytes: 96 << 20, cluster: 128 << 10, sector: 512 },
    Volume { bytes: 1 << 30, cluster: 32 << 20, sector: 512 },
];

/// Returns the tree without the checksums of the files in `of`.
fn without_sums(tree: &Tree, of: &BTreeSet<String>) -> Tree {
    let mut tree = tree.clone();
    for path in of {
        if let Some(Some(file)) = tree.get_mut(path) {
            file.sum.clear();
        }
    }
    tree
}

/// Returns the tree without times, for an implementation that does not report them.
fn timeless(tree: &Tree) -> Listed {
    tree.iter()
        .map(|(path, file)| (path.clone(), file.as_ref().map(|file| (file.size, file.sum.clone()))))
        .collect()
}

/// Carries out random operations; after every `step` of them, the other implementations read the volume. Returns the
/// last image and tree that were compared.
fn judge(volume: Volume, seed: u64, count: usize, step: usize) -> (ImageFile, Tree) {
    let device = volume.make();
    let clock = Clock::new(Duration::from_secs(1_700_000_000));
    let mut runner = Runner::new(tested(device.clone(), &clock, true), clock).unwrap();
    let (mut files, mut last) = (0, None);
    let operations = generate(seed, count, &volume.shape(60_000));
    // At each unmount, fsck.exfat checks the volume too.
    judge_every(step, &operations, &format!("{volume:?} seed {seed}"), &mut runner, &mut |runner, what| {
        let tree = ours(&**runner.system());
        let image = ImageFile::of(&*device);
        tool("dump.exfat", &[image.path()]);
        let partly = partly_written(&**runner.system());
        assert_same(
            &format!("{what}, exfat-fuse"),
            &without_sums(&tree, &partly),
            &without_sums(&Mount::reading(&image).tree(), &partly),
        );
        assert_same(&format!("{what}, dissect.fat"), &tree, &dissect(&image));
        files += tree.values().flatten().count();
        println!("{what}: no difference");
        last = Some((image, tree));
    });
    assert!(files > 5, "{volume:?} seed {seed}: hardly anything to judge");
    last.expect("at least one step")
}

#[test]
fn others_agree_after_random_operations() {
    for (number, volume) in JUDGED.into_iter().enumerate() {
        judge(volume, 8664 + number as u64, 1_000, 1_000);
    }
}

/// 200,000 operations; at their end Linux, which takes long to start, reads the volume too. Linux must be 6.8 or
/// later: older versions took the valid data length for the size. Run with `cargo test --release -p platterfs-exfat
/// --test suite interchange:: -- --ignored --nocapture`; `PLATTER_SEED=n` selects other operations.
fn campaign(number: usize, step: usize) {
    let volume = JUDGED[number];
    let (image, tree) = judge(volume, seed() + number as u64, 200_000, step);
    assert_eq!(timeless(&tree), kernel(&image), "{volume:?}, Linux");
    println!("{volume:?}: 200,000 operations");
}

#[test]
#[ignore = "a campaign: takes many minutes"]
fn others_agree_after_200_000_operations_on_clusters_of_512() {
    campaign(0, 20_000);
}

#[test]
#[ignore = "a campaign: takes many minutes"]
fn others_agree_after_200_000_operations_on_clusters_of_4_kib() {
    campaign(1, 20_000);
}

#[test]
#[ignore = "a campaign: takes many minutes"]
fn others_agree_after_200_000_operations_on_clusters_of_128_kib() {
    campaign(2, 20_000);
}

/// exfat-fuse reads a directory slot by slot, and with these clusters even the smallest directory has a million
/// slots, which takes minutes. So it reads the volume less often; Platter's check and fsck.exfat run as often as in
/// the other campaigns.
#[test]
#[ignore = "a campaign: takes many minutes"]
fn others_agree_after_200_000_operations_on_clusters_of_32_mib() {
    campaign(3, 50_000);
}

#[test]
fn what_others_write_reads_back_identically() {
    for (bytes, cluster) in [(8 << 20, "512"), (64 << 20, "4K"), (128 << 20, "128K"), (1 << 30, "32M")] {
        let mut random = Random::new(8664);
        let image = ImageFile::empty(bytes);
        tool("mkfs.exfat", &["-c", cluster, "-L", "theirs", image.path()]);
        let theirs = {
            let mount = Mount::writing(&image);
            let mut directories = vec![mount.path().to_owned()];
            for number in 0..60 {
                // Few directories are made, because each takes a cluster of up to 32 MiB.
                let base = directories[random.below(directories.len() as u64) as usize].clone();
                let name = match number % 3 {
                    0 => format!("FILE{number}.TXT"),
                    1 => format!("A name with more than fifteen letters {number}.text"),
                    _ => format!("Ünïcödé {number} имя"),
                };
                let path = Path::new(&base).join(name);
                if number % 20 == 3 {
                    std::fs::create_dir(&path).unwrap();
                    directories.push(path.to_str().unwrap().to_owned());
                    continue;
                }
                // On the volume with the largest clusters, which are few, most files are empty.
                let size = if bytes == 1 << 30 && number % 5 != 0 { 0 } else { random.below(30_000) };
                let mut content = vec![0; size as usize];
                random.fill(&mut content);
                std::fs::write(&path, content).unwrap();
                let time = UNIX_EPOCH + Duration::from_secs(1_000_000_000 + 2 * random.below(100_000_000));
                std::fs::File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
                if number % 7 == 5 {
                    // The file becomes longer than its written data.
                    std::fs::File::options().write(true).open(&path).unwrap().set_len(size + 9000).unwrap();
                }
            }
            mount.tree()
        };
        let device: Arc<dyn Device> =
            Arc::new(FileDevice::open(Path::new(image.path()), FileOptions::default()).unwrap());
        let system = open(device.clone());
        assert_eq!(system.info().unwrap().label, "theirs");
        assert_eq!(timeless(&ours(&system)), timeless(&theirs), "{cluster}");
        // fsck.exfat accepts the volume after Platter has changed it.
        let moved = system.create(Node::ROOT, &"moved here".into(), Kind::Directory).unwrap();
        let mut entries = Vec::new();
        system.read_directory(Node::ROOT, platter_vfs::Cursor::START, 1000, &mut entries).unwrap();
        for entry in entries.iter().filter(|entry| entry.name != "moved here".into()) {
            system.rename(Node::ROOT, &entry.name, moved, &entry.name, RenameFlags::Replace).unwrap();
            if entry.attributes.kind == Kind::File && entry.attributes.size > 0 {
                let node = system.lookup(moved, &entry.name).unwrap();
                system.write(node, entry.attributes.size / 2, &[7; 100]).unwrap();
                system.forget(node, 1);
            }
        }
        system.set_label("ours").unwrap();
        let (changed, partly) = (ours(&system), partly_written(&system));
        system.unmount().unwrap();
        drop((system, device));
        let verdict = fsck(&image);
        assert!(verdict.clean, "{cluster}: {}", verdict.output);
        let seen = Mount::reading(&image).tree();
        assert_same(
            &format!("{cluster}, changed"),
            &without_sums(&changed, &partly),
            &without_sums(&seen, &partly),
        );
        assert_same(&format!("{cluster}, changed"), &changed, &dissect(&image));
    }
}

//! Other implementations read and change volumes that Platter writes, and the other way round.

use crate::common::{USUAL, VOLUMES, Volume, open, tested};
use crate::judges::readers::{self, Tree, assert_same, ours};
use crate::judges::{self, ImageFile, Mount, ntfsfix};
use platter_device::{Device, FileDevice, FileOptions, MemoryDevice, Sectors};
use platter_testing::model::judge::{judge_every, partly_written};
use platter_testing::model::{Clock, Random, Runner, generate, linux, linux_within, seed};
use platter_vfs::{Change, CheckOptions, FileSystem, Kind, Name, Names, Node, RenameFlags, Silent};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Fails unless Platter's check and ntfsfix find nothing.
fn assert_clean(what: &str, image: &ImageFile) {
    let device = MemoryDevice::from_image(&image.bytes(), Sectors::SMALL);
    let report = platter_ntfs::check::check(&device, CheckOptions::default(), &Silent).unwrap();
    assert_eq!(report.found, 0, "{what}: {:#?}", report.findings);
    let verdict = ntfsfix(image);
    assert!(verdict.clean, "{what}: {}", verdict.output);
}

/// The tree of an image, as Platter reads it.
fn read(image: &ImageFile) -> Tree {
    let device = FileDevice::open(Path::new(image.path()), FileOptions::default()).unwrap();
    let system = open(Arc::new(device));
    let tree = ours(&system);
    system.unmount().unwrap();
    tree
}

/// A shell script that changes files in the root of a volume that another implementation has mounted.
const CHANGES: &str = "mkdir others && for n in $(seq 100); do echo text $n > others/$n; done && rm others/5* && \
    mkdir others/below && mv others/1 others/below/ && dd if=/dev/zero of=others/large bs=64k count=30 2> /dev/null && \
    for file in *; do [ -f \"$file\" ] && echo more >> \"$file\"; done; echo done";

/// Carries out random operations. After every `step` of them, and at the end, other implementations read the volume; at
/// the end ntfs-3g changes it and, if `with_linux`, Linux' ntfs3, which takes long to start.
fn judge(volume: Volume, seed: u64, count: usize, step: usize, with_linux: bool) {
    let device = volume.make();
    let clock = Clock::new(Duration::from_secs(1_700_000_000));
    let mut runner = Runner::new(tested(device.clone(), &clock), clock).unwrap();
    let mut files = 0;
    let what = format!("{volume:?} seed {seed}");
    let operations = generate(seed, count, &volume.shape(60_000));
    judge_every(step, &operations, &what, &mut runner, &mut |runner, what| {
        let tree = ours(&**runner.system());
        files += tree.values().flatten().count();
        let image = ImageFile::of(&*device);
        // The volume is open, of which ntfsfix would complain; the readers do not care.
        // libfsntfs finds nothing in indexes of many blocks that are smaller than clusters, and reads a block of several
        // clusters as if they lay one after the other. Long runs make both.
        if volume.cluster == 4096 || count <= 1_000 {
            assert_same(
                &format!("{what}, libfsntfs"),
                &tree,
                &readers::libfsntfs(&readers::without_long_streams(&image)),
            );
        }
        // dissect.ntfs reads ranges that were never written from the clusters, not as zeroes.
        let mut partly = partly_written(&**runner.system());
        if volume.compress {
            partly.append(&mut readers::ending_without_hole(&**runner.system(), 16 * volume.cluster));
        }
        let written = |mut tree: Tree| {
            tree.retain(|path, _| !partly.contains(path));
            tree
        };
        let theirs = written(readers::dissect(&image));
        assert_same(&format!("{what}, dissect.ntfs"), &written(tree.clone()), &theirs);
        // tsk_recover gives a file's streams and its content one name. Of an empty file that has clusters it shows the
        // clusters.
        let streams = readers::with_streams(&**runner.system());
        let is_empty = |path: &String| matches!(tree.get(path), Some(Some((0, _))));
        let single = |mut tree: Tree| {
            tree.retain(|path, _| !streams.contains(path) && !is_empty(path));
            readers::without_empty(&tree)
        };
        let (tsk, theirs) = (single(tree.clone()), single(readers::sleuth_kit(&image)));
        assert_same(&format!("{what}, The Sleuth Kit"), &tsk, &theirs);
    });
    runner.end().unwrap();
    assert!(files > 5, "{what}: hardly anything to judge");
    let image = ImageFile::of(&*device);
    let tree = read(&image);
    assert_clean(&what, &image);
    assert_same(&format!("{what}, ntfs-3g"), &tree, &readers::ntfs_3g(&image, &tree));
    if with_linux {
        assert_same(&format!("{what}, ntfs3"), &tree, &readers::ntfs3(&image));
    }
    Mount::writing(&image).unwrap().script(CHANGES);
    assert_clean(&format!("{what}, changed by ntfs-3g"), &image);
    if with_linux {
        let judged = linux("ntfs3", "rw", &image, &CHANGES.replace("others", "kernel"));
        assert_eq!(judged.output.as_deref().map(str::trim), Some("done"), "{what}: {}", judged.messages);
        assert!(judged.unmounted, "{what}: {}", judged.messages);
        readers::assert_silent(&judged.messages);
        assert_clean(&format!("{what}, changed by ntfs3"), &image);
    }
    let tree = read(&image);
    assert!(
        tree.contains_key("/kernel/below/1") == with_linux && tree.contains_key("/others/below/1"),
        "{what}"
    );
    assert_same(&format!("{what}, changed"), &tree, &readers::ntfs_3g(&image, &tree));
}

#[test]
fn others_agree_after_random_operations() {
    for (number, volume) in VOLUMES.into_iter().filter(|volume| volume.sector == 512).enumerate() {
        judge(volume, 8664 + number as u64, 1_000, 500, number == 0);
    }
}

/// 200,000 operations for each kind of volume: `cargo test --release -p platterfs-ntfs --test suite interchange:: --
/// --ignored`, with `PLATTER_SEED=n` for other operations.
#[test]
#[ignore = "a campaign: takes many minutes"]
fn others_agree_after_200_000_operations() {
    for (number, volume) in VOLUMES.into_iter().filter(|volume| volume.sector == 512).enumerate() {
        judge(volume, seed() + number as u64, 200_000, 20_000, true);
        println!("{volume:?}: 200,000 operations");
    }
}

/// Compressed files whose runs fill several records, and compressed files that were extended, are read and appended to
/// by other implementations.
#[test]
fn packed_files_are_read_and_appended_to_by_others() {
    let device = Volume { compress: true, ..USUAL }.make();
    let system = open(device.clone());
    let line: Vec<u8> = (0..100).collect();
    let packs: Vec<u8> = line.into_iter().cycle().take(28 << 20).collect();
    for name in ["many pieces", "longer", "much longer"] {
        let file = system.create(Node::ROOT, &name.into(), Kind::File).unwrap();
        let length = if name == "many pieces" { packs.len() } else { 100_000 };
        system.write(file, 0, &packs[..length]).unwrap();
        let size = match name {
            "longer" => 110_000,
            "much longer" => 1_000_003,
            _ => length as u64,
        };
        system.set_attributes(file, &Change { size: Some(size), ..Change::default() }).unwrap();
        system.forget(file, 1);
    }
    system.unmount().unwrap();
    drop(system);
    let image = ImageFile::of(&*device);
    let append = "for file in *onger; do echo more >> \"$file\"; done; echo done";
    for others in ["ntfs-3g", "ntfs3"] {
        assert_clean(&format!("before {others}"), &image);
        let tree = read(&image);
        if others == "ntfs-3g" {
            assert_same(others, &tree, &readers::ntfs_3g(&image, &tree));
            Mount::writing(&image).unwrap().script(append);
        } else {
            assert_same(others, &tree, &readers::ntfs3(&image));
            let judged = linux(others, "rw", &image, append);
            assert_eq!(judged.output.as_deref().map(str::trim), Some("done"), "{}", judged.messages);
            readers::assert_silent(&judged.messages);
        }
        let size = |tree: &Tree, path: &str| tree[path].as_ref().map(|file| file.0);
        let (before, after) = (tree, read(&image));
        for path in ["/longer", "/much longer"] {
            assert_eq!(size(&after, path), size(&before, path).map(|size| size + 5), "{others}: {path}");
        }
        assert_same(&format!("after {others}"), &after, &readers::dissect(&image));
    }
    assert_clean("at the end", &image);
}

/// A million names that Platter made in one directory are read and changed by other implementations: `cargo test
/// --release -p platterfs-ntfs --test suite -- --ignored --nocapture others_read`.
#[test]
#[ignore = "a campaign: takes many minutes and gigabytes of memory"]
fn others_read_a_million_names_in_one_directory() {
    const NAMES: u64 = 1_000_000;
    let device = Volume { bytes: 3 << 30, ..USUAL }.make();
    let system = open(device.clone());
    let directory = system.create(Node::ROOT, &"many".into(), Kind::Directory).unwrap();
    // The names are made in another order than the one in which they sort.
    let name = |number: u64| format!("{:016x} {number}", number.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let mut names: Vec<String> = (0..NAMES).map(name).collect();
    for name in &names {
        let file = system.create(directory, &Name::from(&**name), Kind::File).unwrap();
        system.write(file, 0, name.as_bytes()).unwrap();
        system.forget(file, 1);
    }
    system.unmount().unwrap();
    let image = ImageFile::of(&*device);
    drop((system, device));
    assert_clean("a million names", &image);
    names.sort_unstable();
    {
        let mount = Mount::writing(&image).unwrap();
        let many = mount.path().join("many");
        let found = std::fs::read_dir(&many).unwrap().map(|entry| entry.unwrap().file_name());
        let mut found: Vec<String> = found.map(|name| name.into_string().unwrap()).collect();
        found.sort_unstable();
        assert!(found == names, "ntfs-3g lists {} other names", found.len());
        for name in &names {
            assert_eq!(std::fs::read(many.join(name)).unwrap(), name.as_bytes(), "ntfs-3g: {name}");
        }
        println!("ntfs-3g: {NAMES} names and contents");
        for number in (0..NAMES).step_by(10) {
            std::fs::remove_file(many.join(name(number))).unwrap();
            std::fs::write(many.join(format!("new {number}")), "of ntfs-3g").unwrap();
        }
    }
    assert_clean("changed by ntfs-3g", &image);
    // Each pass over a million names takes the emulated machine minutes.
    let script = "cd many && find . -type f > /list && wc -l < /list && \
        grep '^./0' /list | sort | tr '\\n' '\\0' | xargs -0 cat | sha256sum && \
        grep '^./1' /list | tr '\\n' '\\0' | xargs -0 rm && for n in $(seq 3000); do echo $n > linux$n; done; \
        ls | wc -l";
    let judged = linux_within(3000, "ntfs3", "rw", &image, script);
    readers::assert_silent(&judged.messages);
    let is_left = |name: &&String| {
        let number: u64 = name.rsplit(' ').next().unwrap().parse().unwrap();
        !number.is_multiple_of(10)
    };
    let left: Vec<&String> = names.iter().filter(is_left).collect();
    let text: String = left.iter().filter(|name| name.starts_with('0')).map(|name| name.as_str()).collect();
    let removed = left.iter().filter(|name| name.starts_with('1')).count() as u64;
    let expected = format!("{NAMES}\n{}  -\n{}\n", readers::sum(text.as_bytes()), NAMES - removed + 3000);
    assert_eq!(judged.output.as_deref(), Some(&*expected), "{}", judged.messages);
    assert!(judged.unmounted, "{}", judged.messages);
    assert_clean("changed by ntfs3", &image);
}

#[test]
fn what_others_write_reads_back_and_can_be_changed() {
    for cluster in [512, 4096, 65536] {
        let image = judges::made(64 << 20, cluster);
        let mut random = Random::new(8664);
        {
            let mount = Mount::writing(&image).unwrap();
            // Files in larger clusters are never compressed.
            if cluster <= 4096 {
                mount.script("mkdir packed && setfattr -n system.ntfs_attrib_be -v 0x00000810 packed");
            }
            mount.script(
                "mkdir -p a/b/c wide 'Ünïcödé имя' && for n in $(seq 700); do echo $n > wide/'a name that is long '$n; done && \
                 setfattr -n user.stream -v value wide && mkdir -p packed && \
                 for n in 1 2 3; do seq 30000 > packed/$n; done && truncate -s 5000000 sparse && printf end >> sparse && \
                 ln a/b/c/../../../sparse a/linked",
            );
            for number in 0..40 {
                let mut content = vec![0; random.below(200_000) as usize];
                random.fill(&mut content);
                std::fs::write(mount.path().join(format!("a/b/file {number}")), content).unwrap();
            }
        }
        let what = format!("clusters of {cluster}");
        let tree = read(&image);
        assert_same(&format!("{what}, ntfs-3g"), &tree, &readers::ntfs_3g(&image, &tree));
        assert_same(&format!("{what}, dissect.ntfs"), &tree, &readers::dissect(&image));
        if cluster <= 4096 {
            // libfsntfs finds nothing in indexes of many blocks that are smaller than clusters.
            assert_same(&format!("{what}, libfsntfs"), &tree, &readers::libfsntfs(&image));
        }
        assert!(tree.len() > 700, "{what}");
        // The other implementations accept the changes that Platter then makes.
        let device: Arc<dyn Device> =
            Arc::new(FileDevice::open(Path::new(image.path()), FileOptions::default()).unwrap());
        let system = open(device);
        let moved = system.create(Node::ROOT, &"moved here".into(), Kind::Directory).unwrap();
        let wide = system.lookup(Node::ROOT, &"wide".into()).unwrap();
        let mut entries = Vec::new();
        system.read_directory(wide, platter_vfs::Cursor::START, 1000, &mut entries).unwrap();
        for entry in entries.iter().step_by(2) {
            system.rename(wide, &entry.name, moved, &entry.name, RenameFlags::Replace).unwrap();
            let node = system.lookup(moved, &entry.name).unwrap();
            system.write(node, 1, &[b'x'; 3_000]).unwrap();
            system.forget(node, 1);
        }
        let packed = system.lookup(Node::ROOT, &"packed".into()).unwrap();
        let node = system.lookup(packed, &"2".into()).unwrap();
        system.write(node, 70_001, b"changed in the middle of a unit").unwrap();
        let shorter = Change { size: Some(100_003), ..Change::default() };
        system.set_attributes(node, &shorter).unwrap();
        let changed = ours(&system);
        system.unmount().unwrap();
        drop(system);
        assert_clean(&format!("{what}, changed"), &image);
        assert_same(&format!("{what}, changed, ntfs-3g"), &changed, &readers::ntfs_3g(&image, &changed));
        assert_same(&format!("{what}, changed, dissect.ntfs"), &changed, &readers::dissect(&image));
    }
}

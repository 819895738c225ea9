//! How other implementations read a whole volume: libfsntfs, dissect.ntfs, The Sleuth Kit, the crate `ntfs`, Linux'
//! ntfs3, ntfs-3g.

use super::{ImageFile, Mount, run};
use ntfs::structured_values::NtfsFileNamespace;
use ntfs::{Ntfs, NtfsFile, NtfsReadSeek};
use platter_device::{MemoryDevice, Sectors};
use platter_ntfs::NtfsVolume;
use platter_testing::model::judge::each_name;
use platter_testing::model::{Listed, listed_by_linux};
use platter_vfs::{FileSystem, Kind, Node, OpenOptions, Place};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

/// The paths on a volume: directories, and files with size and SHA-256. System files, and files behind reparse points,
/// are left out.
pub(crate) type Tree = Listed;

/// Records with a lower number are the system's.
pub(crate) const FIRST: u64 = 24;

/// Stands in place of a sum if the path is neither a file nor a directory of the host.
const SPECIAL: &str = "special";

pub(crate) fn sum(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Fails unless two trees are the same, with the first differences.
pub(crate) fn assert_same(what: &str, ours: &Tree, theirs: &Tree) {
    let names = |from: &Tree, without: &Tree| {
        from.keys().filter(|path| !without.contains_key(*path)).take(10).cloned().collect::<Vec<_>>()
    };
    let (lost, new) = (names(ours, theirs), names(theirs, ours));
    assert!(lost.is_empty() && new.is_empty(), "{what}: only ours: {lost:?}, only theirs: {new:?}");
    for (path, file) in ours {
        assert_eq!(*file, theirs[path], "{what}: {path}");
    }
}

/// Computes the sum that represents content in a tree.
pub(crate) type Sum = fn(&[u8]) -> String;

/// A weaker sum than [`sum`] and ten times as fast, for campaigns that spend their time on sums.
pub(crate) fn quick_sum(bytes: &[u8]) -> String {
    format!("{:08x}", crc32fast::hash(bytes))
}

/// Everything on an open volume, as Platter reads it.
pub(crate) fn ours(system: &dyn FileSystem) -> Tree {
    ours_by(system, sum)
}

/// [`ours`] with another sum.
pub(crate) fn ours_by(system: &dyn FileSystem, sum: Sum) -> Tree {
    let mut tree = Tree::new();
    each_name(system, &mut |path, node, attributes| match attributes.kind {
        Kind::Directory => drop(tree.insert(path, None)),
        Kind::File => {
            let mut content = vec![0; attributes.size as usize + 1];
            let read = system.read(node, 0, &mut content).unwrap_or_else(|error| panic!("{path}: {error}"));
            assert_eq!(read as u64, attributes.size, "{path}");
            tree.insert(path, Some((attributes.size, sum(&content[..read]))));
        }
        _ => {}
    });
    tree
}

/// Paths of files that have named streams.
pub(crate) fn with_streams(system: &dyn FileSystem) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    each_name(system, &mut |path, node, attributes| {
        if attributes.kind == Kind::File && !system.streams().unwrap().list(node).unwrap().is_empty() {
            found.insert(path);
        }
    });
    found
}

/// The files and directories in the lines that a Python script of these tests prints.
fn listed(script: &str, image: &ImageFile) -> Tree {
    let path = format!("{}/tests/judges/{script}", env!("CARGO_MANIFEST_DIR"));
    let text = run("python3", &[&path, image.path()]);
    text.lines()
        .map(|line| match line.split('\t').collect::<Vec<_>>()[..] {
            ["d", path] => (path.to_owned(), None),
            ["f", size, sum, path] => (path.to_owned(), Some((size.parse().unwrap(), sum.to_owned()))),
            _ => panic!("{script} printed {line:?}"),
        })
        .collect()
}

/// The tree as libfsntfs reads it.
pub(crate) fn libfsntfs(image: &ImageFile) -> Tree {
    listed("fsntfs_tree.py", image)
}

/// A copy of the volume on `image` without the streams whose names libfsntfs may refuse: it does not read an attribute
/// list with an entry of 312 bytes, which a stream with a name of 143 units has, though ntfs-3g and dissect.ntfs do.
pub(crate) fn without_long_streams(image: &ImageFile) -> ImageFile {
    let device = Arc::new(MemoryDevice::from_image(&image.bytes(), Sectors::SMALL));
    let system = NtfsVolume::open(device.clone(), OpenOptions::default()).unwrap();
    let remove_from = |node| {
        for stream in system.streams().and_then(|part| part.list(node)).unwrap_or_default() {
            if stream.name.units().len() > 100 {
                system.streams().unwrap().remove(node, &stream.name).unwrap();
            }
        }
    };
    remove_from(Node::ROOT);
    each_name(&system, &mut |_, node, _| remove_from(node));
    system.unmount().unwrap();
    ImageFile::of(&*device)
}

/// Paths of files whose last compression unit, of `unit` bytes, may have as many clusters as the end of the content
/// would need without compression: dissect.ntfs takes packed clusters for content then.
pub(crate) fn ending_without_hole(system: &dyn FileSystem, unit: u64) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    each_name(system, &mut |path, node, attributes| {
        let last = attributes.size / unit * unit;
        if attributes.kind == Kind::File && attributes.size > last {
            let extents = system.extents(node).unwrap_or_else(|error| panic!("{path}: {error}"));
            let holes = extents.iter().filter(|extent| extent.place == Place::Hole);
            if !holes.into_iter().any(|hole| hole.offset + hole.length > last) {
                found.insert(path);
            }
        }
    });
    found
}

/// The tree as dissect.ntfs reads it.
pub(crate) fn dissect(image: &ImageFile) -> Tree {
    listed("dissect_tree.py", image)
}

/// The tree of a directory of the host.
fn folder(root: &Path, sum: Sum) -> Tree {
    let mut tree = Tree::new();
    let mut todo = vec![(String::new(), root.to_owned())];
    while let Some((path, folder)) = todo.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            let path = format!("{path}/{}", entry.file_name().to_str().expect("a name in UTF-8"));
            let kind = entry.file_type().unwrap();
            if kind.is_dir() {
                tree.insert(path.clone(), None);
                todo.push((path, entry.path()));
            } else if kind.is_file() {
                let bytes = std::fs::read(entry.path()).unwrap();
                tree.insert(path, Some((bytes.len() as u64, sum(&bytes))));
            } else {
                tree.insert(path, Some((0, SPECIAL.to_owned())));
            }
        }
    }
    tree
}

/// The tree as The Sleuth Kit copies it out: without empty directories and empty files.
pub(crate) fn sleuth_kit(image: &ImageFile) -> Tree {
    let path = format!("{}.recovered", image.path());
    std::fs::create_dir(&path).unwrap();
    run("tsk_recover", &["-a", "-f", "ntfs", image.path(), &path]);
    let mut tree = folder(Path::new(&path), sum);
    std::fs::remove_dir_all(&path).unwrap();
    // System files are left out, but not the folder in which Windows keeps deleted files.
    tree.retain(|path, _| !path.starts_with("/$") || path.starts_with("/$RECYCLE.BIN"));
    tree
}

/// A tree without empty directories and empty files, as [`sleuth_kit`] shows it.
pub(crate) fn without_empty(tree: &Tree) -> Tree {
    let is_full = |file: &Option<(u64, String)>| file.as_ref().is_some_and(|file| file.0 > 0);
    let files: Vec<&String> = tree.iter().filter(|(_, file)| is_full(file)).map(|(path, _)| path).collect();
    let holds = |path: &str| files.iter().any(|file| file.starts_with(&format!("{path}/")));
    tree.iter()
        .filter(|(path, file)| if file.is_some() { is_full(file) } else { holds(path) })
        .map(|(path, file)| (path.clone(), file.clone()))
        .collect()
}

/// The tree as ntfs-3g reads it. It shows links, and files with the system flag and at most a byte, as pipes and
/// sockets: these are taken from `ours`.
pub(crate) fn ntfs_3g(image: &ImageFile, ours: &Tree) -> Tree {
    ntfs_3g_by(image, ours, sum)
}

/// [`ntfs_3g`] with another sum.
pub(crate) fn ntfs_3g_by(image: &ImageFile, ours: &Tree, sum: Sum) -> Tree {
    let mount = Mount::reading(image).unwrap_or_else(|reason| panic!("{reason}"));
    let mut tree = folder(mount.path(), sum);
    tree.retain(|path, file| match (&file, ours.get(path)) {
        (Some((_, sum)), known) if sum == SPECIAL => match known {
            Some(Some((size, known))) if *size <= 1 => {
                *file = Some((*size, known.clone()));
                true
            }
            _ => false,
        },
        _ => true,
    });
    tree
}

/// The tree as the crate `ntfs` reads it.
pub(crate) fn ntfs_crate(image: &ImageFile) -> Tree {
    fn show(volume: &Ntfs, directory: &NtfsFile, path: &str, file: &mut std::fs::File, tree: &mut Tree) {
        let index = directory.directory_index(file).unwrap();
        let mut entries = index.entries();
        while let Some(entry) = entries.next(file) {
            let entry = entry.unwrap();
            let name = entry.key().unwrap().unwrap();
            if entry.file_reference().file_record_number() < FIRST
                || name.namespace() == NtfsFileNamespace::Dos
            {
                continue;
            }
            let path = format!("{path}/{}", name.name().to_string().unwrap());
            let below = entry.to_file(volume, file).unwrap();
            if below.is_directory() {
                tree.insert(path.clone(), None);
                show(volume, &below, &path, file, tree);
                continue;
            }
            let data = below.data(file, "").unwrap().unwrap();
            let mut value = data.to_attribute().unwrap().value(file).unwrap();
            let mut bytes = vec![0; value.len() as usize];
            value.read_exact(file, &mut bytes).unwrap();
            tree.insert(path, Some((bytes.len() as u64, sum(&bytes))));
        }
    }
    let mut file = std::fs::File::open(image.path()).unwrap();
    let mut volume = Ntfs::new(&mut file).unwrap();
    volume.read_upcase_table(&mut file).unwrap();
    let root = volume.root_directory(&mut file).unwrap();
    let mut tree = Tree::new();
    show(&volume, &root, "", &mut file, &mut tree);
    tree
}

/// The tree as Linux' ntfs3 reads it, which must not complain.
pub(crate) fn ntfs3(image: &ImageFile) -> Tree {
    let (listed, messages) = listed_by_linux("ntfs3", "ro", image);
    assert_silent(&messages);
    listed
}

/// Fails if a message of the kernel is about ntfs3.
pub(crate) fn assert_silent(messages: &str) {
    let complaints: Vec<&str> = messages.lines().filter(|line| line.contains("ntfs3")).collect();
    assert!(complaints.is_empty(), "{complaints:#?}");
}

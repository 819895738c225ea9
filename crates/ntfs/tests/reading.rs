//! Volumes that Windows or ntfs-3g filled: Platter reads the same from them as other implementations.

use crate::common::open;
use crate::filled::filled;
use crate::judges::facts::{self, All};
use crate::judges::readers::{self, Tree};
use crate::judges::{self, ImageFile};
use platter_device::{FileDevice, FileOptions};
use platter_vfs::FileSystem;
use std::path::Path;
use std::sync::Arc;

/// A link as ntfs-3g makes it: a system file with the target in it, which is a file to every other implementation.
const LINK: &str = "/links/symlink";

/// Fails unless all implementations read the same: names, content, and the other facts of each file.
fn judge(what: &str, image: &ImageFile) {
    let device = FileDevice::open(Path::new(image.path()), FileOptions::default()).unwrap();
    let system = open(Arc::new(device));
    let (tree, known) = (readers::ours(&system), facts::ours(&system));
    let streams = readers::with_streams(&system);
    system.unmount().unwrap();
    drop(system);

    readers::assert_same(&format!("{what}, libfsntfs"), &tree, &readers::libfsntfs(image));
    // libfsntfs does not count links, and does not find the descriptors of Windows' volume, which ntfs-3g does.
    let theirs = facts::libfsntfs(image);
    let mut comparable = known.clone();
    for (path, facts) in &mut comparable {
        facts.links = 0;
        if theirs.get(path).is_some_and(|theirs| theirs.descriptor == facts::UNREAD) {
            facts.descriptor = facts::UNREAD.into();
        }
    }
    facts::assert_same(&format!("{what}, libfsntfs"), &comparable, &theirs);

    let mut shown = tree.clone();
    shown.remove(LINK);
    readers::assert_same(&format!("{what}, ntfs-3g"), &shown, &readers::ntfs_3g(image, &tree));
    facts::assert_same(&format!("{what}, ntfs-3g"), &known, &facts::ntfs_3g(image));

    // tsk_recover gives a file's streams and its content one name.
    let single = |mut tree: Tree| {
        tree.retain(|path, _| !streams.contains(path));
        readers::without_empty(&tree)
    };
    let copied = single(readers::sleuth_kit(image));
    readers::assert_same(&format!("{what}, The Sleuth Kit"), &single(tree.clone()), &copied);
    assert_sleuth_kit(what, &tree, &known, image);
    println!("{what}: {} entries", tree.len());
}

fn assert_sleuth_kit(what: &str, tree: &Tree, known: &All, image: &ImageFile) {
    let listed = facts::sleuth_kit(image);
    let files = tree.iter().filter_map(|(path, file)| Some((path, file.as_ref()?)));
    for (path, (size, _)) in files.clone() {
        let found = listed.get(path).unwrap_or_else(|| panic!("{what}: fls does not list {path}"));
        assert_eq!(*found, (*size, facts::in_seconds(known[path].times)), "{what}: {path}");
    }
    assert!(files.count() > 0, "{what}: nothing to compare");
}

/// The volume on the disk of `tests/data`, without the rest of the disk.
#[test]
fn what_windows_made_is_read_as_others_read_it() {
    judge("Windows 10", &ImageFile::of(&judges::windows()));
}

#[test]
fn what_ntfs_3g_made_is_read_as_others_read_it() {
    for cluster in [512, 4096] {
        judge(&format!("clusters of {cluster}"), &filled(96 << 20, cluster, 1500));
    }
}

/// A hundred thousand files: `cargo test --release -p platterfs-ntfs --test suite reading:: -- --ignored --nocapture`.
#[test]
#[ignore = "a campaign: takes many minutes"]
fn a_hundred_thousand_files_are_read_as_others_read_them() {
    for cluster in [512, 4096] {
        judge(&format!("clusters of {cluster}"), &filled(1 << 30, cluster, 150_000));
    }
}

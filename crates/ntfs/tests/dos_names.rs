//! Short names, made by other drivers: each is kept as long as its long name is, and removed with it. Nothing is found by
//! them, and a new entry that is to have one takes it.

use crate::common::{self, open};
use crate::judges::{self, ImageFile, Mount, ntfsfix};
use platter_device::{Device, FileDevice, FileOptions, MemoryDevice, Sectors};
use platter_vfs::{Cursor, Error, FileSystem, Kind, Names, Node, RenameFlags};
use std::path::Path;
use std::sync::Arc;

fn assert_clean(image: &ImageFile) {
    let device = MemoryDevice::from_image(&image.bytes(), Sectors::SMALL);
    common::check_clean(&device).unwrap();
    let verdict = ntfsfix(image);
    assert!(verdict.clean, "{}", verdict.output);
}

/// The short name that ntfs-3g finds; empty if there is none.
fn short(mount: &Mount, path: &str) -> String {
    let output = std::process::Command::new("getfattr")
        .args(["--only-values", "-n", "system.ntfs_dos_name"])
        .arg(mount.path().join(path))
        .output()
        .expect("getfattr");
    String::from_utf8(output.stdout).expect("a name in UTF-8")
}

fn listed(system: &dyn FileSystem, directory: Node) -> Vec<String> {
    let mut entries = Vec::new();
    system.read_directory(directory, Cursor::START, 100, &mut entries).unwrap();
    entries.into_iter().map(|entry| entry.name.to_string()).collect()
}

#[test]
fn short_names_stay_with_their_long_names() {
    let image = judges::made(32 << 20, 4096);
    Mount::writing(&image).unwrap().script(
        "mkdir d 'd/A long directory' other; cd d; \
         for n in 1 2 3 4 5 6 7 8; do echo text $n > \"a long file name $n\"; \
         setfattr -n system.ntfs_dos_name -v ALONGF~$n \"a long file name $n\"; done; \
         setfattr -n system.ntfs_dos_name -v ALONGD~1 'A long directory'; \
         echo both > BOTH.TXT; setfattr -n system.ntfs_dos_name -v BOTH.TXT BOTH.TXT",
    );
    assert_clean(&image);
    let device: Arc<dyn Device> =
        Arc::new(FileDevice::open(Path::new(image.path()), FileOptions::default()).unwrap());
    let system = open(device.clone());
    let directory = system.lookup(Node::ROOT, &"d".into()).unwrap();
    let other = system.lookup(Node::ROOT, &"other".into()).unwrap();
    // A short name leads to nothing, is not listed, and does not count as a link.
    let long = system.lookup(directory, &"a long file name 1".into()).unwrap();
    for other in ["ALONGF~1", "alongf~1", "A Long File Name 1"] {
        assert!(matches!(system.lookup(directory, &other.into()), Err(Error::NotFound)), "{other}");
    }
    assert_eq!(system.attributes(long).unwrap().links, 1);
    assert_eq!(listed(&system, directory).len(), 10);
    // File 1 is written, and files 2 and 3 are removed, though not by a short name.
    system.write(long, 0, &[b'x'; 9_000]).unwrap();
    system.unlink(directory, &"a long file name 2".into()).unwrap();
    assert!(matches!(system.unlink(directory, &"ALONGF~3".into()), Err(Error::NotFound)));
    system.unlink(directory, &"a long file name 3".into()).unwrap();
    for gone in ["ALONGF~2", "ALONGF~3", "a long file name 2", "a long file name 3"] {
        assert!(matches!(system.lookup(directory, &gone.into()), Err(Error::NotFound)), "{gone}");
    }
    // File 4 gets another name and loses its short one.
    let rename = |from: &str, to: Node, name: &str, flags| {
        system.rename(directory, &from.into(), to, &name.into(), flags).unwrap();
    };
    rename("a long file name 4", directory, "another name", RenameFlags::NoReplace);
    assert!(matches!(system.lookup(directory, &"ALONGF~4".into()), Err(Error::NotFound)));
    system.create(directory, &"ALONGF~4".into(), Kind::File).unwrap();
    // File 5 is replaced by file 6, and file 7 gets its short name, in another case, as its only one.
    rename("a long file name 6", directory, "a long file name 5", RenameFlags::Replace);
    rename("a long file name 7", directory, "alongf~7", RenameFlags::NoReplace);
    // File 8 gets two further names in the same directory, of which one is removed again.
    let eight = system.lookup(directory, &"a long file name 8".into()).unwrap();
    for name in ["a further name", "one more"] {
        system.link(eight, directory, &name.into()).unwrap();
    }
    system.unlink(directory, &"one more".into()).unwrap();
    assert_eq!(system.attributes(eight).unwrap().links, 2);
    // A new file takes the short name of file 8.
    system.create(directory, &"alongf~8".into(), Kind::File).unwrap();
    assert_eq!(system.attributes(eight).unwrap().links, 2);
    // A file that moves to another directory loses its short name.
    rename("BOTH.TXT", other, "moved", RenameFlags::NoReplace);
    system.rmdir(directory, &"A long directory".into()).unwrap();
    let names = listed(&system, directory);
    system.unmount().unwrap();
    drop((system, device));
    assert_clean(&image);
    let mount = Mount::reading(&image).unwrap();
    let mut theirs: Vec<String> = std::fs::read_dir(mount.path().join("d"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let mut ours = names;
    ours.sort();
    theirs.sort();
    assert_eq!(ours, theirs);
    let expected = [
        "ALONGF~4",
        "a further name",
        "a long file name 1",
        "a long file name 5",
        "a long file name 8",
        "alongf~7",
        "alongf~8",
        "another name",
    ];
    assert_eq!(ours, expected);
    assert_eq!(short(&mount, "d/a long file name 1"), "ALONGF~1");
    // ntfs-3g shows the short name only of a file without further names.
    assert!(!mount.path().join("d/ALONGF~8").exists());
    for none in ["d/a long file name 5", "d/another name", "other/moved"] {
        assert_eq!(short(&mount, none), "", "{none}");
    }
    let content = |path: &str| std::fs::read_to_string(mount.path().join(path)).unwrap();
    assert_eq!(content("d/a long file name 5"), "text 6\n");
    assert_eq!(content("d/alongf~7"), "text 7\n");
    assert_eq!(content("d/a further name"), "text 8\n");
}

//! The library as used by a program that embeds it.

use platter::copy::{Amount, CopyListener, Loss, Options};
use platter::device::{Device, MemoryDevice, Sectors};
use platter::mirror::{self, RebuildOptions};
use platter::vfs::Integrity;
use platter::{
    Access, Change, CheckOptions, ErrorKind, Kind, Listener, MakeOptions, OpenOptions, RecoverOptions,
    Silent, Source, Timestamp, Undo, UndoOptions, Volume,
};
use std::io::{ErrorKind as HostError, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// A temporary directory, which is removed when the test ends.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Place {
        let path = std::env::temp_dir().join(format!("platter-library-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Place(path)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

const FORMATS: [&str; 5] = ["fat32", "exfat", "ntfs", "refs", "refs+integrity"];

fn make(image: &Path, format: &str, megabytes: u64) {
    let options = MakeOptions { size: Some(megabytes << 20), ..MakeOptions::default() };
    platter::mkfs(image, format, &options, &Silent).unwrap();
}

/// Returns all paths below the root, sorted.
fn paths(volume: &Volume) -> Vec<String> {
    let mut all: Vec<String> =
        volume.walk("").unwrap().map(|entry| entry.unwrap().path().display().to_string()).collect();
    all.sort();
    all
}

#[test]
fn volumes_of_every_format_are_made_written_read_and_checked() {
    let place = Place::new("formats");
    for format in FORMATS {
        let image = place.path(format);
        make(&image, format, 384);
        let volume = platter::open_rw(&image).unwrap();
        volume.set_label("LIBRARY").unwrap();
        volume.create_dir_all("/one/two").unwrap();
        volume.create_dir_all("one/two").unwrap();
        volume.write("one/two/three.txt", b"three").unwrap();
        let mut file = volume.create_new_file("big").unwrap();
        for piece in 0..64_u8 {
            file.write_all(&[piece; 5000]).unwrap();
        }
        file.seek(SeekFrom::Start(4_999)).unwrap();
        file.write_all(b"xy").unwrap();
        file.sync_all().unwrap();
        assert_eq!((file.size().unwrap(), file.metadata().unwrap().kind), (320_000, Kind::File));
        file.set_len(300_000).unwrap();
        volume.rename("one/two/three.txt", "one/3").unwrap();
        volume.write("gone", b"for a while").unwrap();
        volume.remove_file("gone").unwrap();
        let can = volume.capabilities().clone();
        if can.streams {
            // On NTFS this changes the file's time of last change, too.
            volume.create_stream("big", "notes").unwrap().write_all(b"beside").unwrap();
        }
        let modified = Some(Timestamp { seconds: 1_000_000_000, nanoseconds: 0 });
        volume.set_metadata("big", &Change { modified, ..Change::default() }).unwrap();
        if can.hard_links {
            volume.hard_link("one/3", "link").unwrap();
            assert_eq!(volume.metadata("one/3").unwrap().links, 2);
            volume.remove_file("link").unwrap();
        }
        if can.symbolic_links {
            volume.symlink("one/3", "shortcut").unwrap();
            assert_eq!(volume.read_link("shortcut").unwrap(), "one/3");
            volume.remove_file("shortcut").unwrap();
        }
        if can.extended_attributes {
            volume.set_extended_attribute("big", "KEY", Some(b"value")).unwrap();
        }
        if can.integrity {
            let integrity = Integrity { enabled: true, enforced: true };
            volume.set_integrity("one/3", integrity).unwrap();
            assert_eq!(volume.integrity("one/3").unwrap(), integrity);
        }
        drop(file);
        volume.close().unwrap();

        let volume = platter::open(&image).unwrap();
        assert_eq!(volume.info().unwrap().label, "LIBRARY");
        assert_eq!(paths(&volume), ["big", "one", "one/3", "one/two"], "{format}");
        // NTFS tells names apart that differ in case alone; the other formats do not.
        let other_case = volume.metadata("BIG").map(|metadata| metadata.modified.seconds);
        match format {
            "ntfs" => assert!(other_case.is_err(), "{other_case:?}"),
            _ => assert_eq!(other_case.unwrap(), 1_000_000_000, "{format}"),
        }
        assert_eq!(volume.metadata("big").unwrap().modified.seconds, 1_000_000_000);
        let mut file = volume.open_file("big").unwrap();
        file.seek(SeekFrom::End(-295_001)).unwrap();
        let mut part = [0; 4];
        file.read_exact(&mut part).unwrap();
        assert_eq!(&part, b"xy\x01\x01");
        assert_eq!(volume.read("big").unwrap().len(), 300_000);
        assert_eq!(volume.read("one/3").unwrap(), b"three");
        if can.streams {
            assert_eq!(volume.streams("big").unwrap()[0].name.to_string(), "notes");
            let mut text = String::new();
            volume.open_stream("big", "notes").unwrap().read_to_string(&mut text).unwrap();
            assert_eq!(text, "beside");
        }
        if can.extended_attributes {
            assert_eq!(volume.extended_attribute("big", "KEY").unwrap(), b"value");
        }
        assert_eq!(volume.write("new", b"").unwrap_err().kind(), ErrorKind::ReadOnly);
        drop((file, volume));

        let volume = platter::open_rw(&image).unwrap();
        volume.remove_dir_all("one").unwrap();
        assert_eq!(paths(&volume), ["big"]);
        // No `close`: dropping the last handle closes the volume.
        drop(volume);
        let checked = platter::check(&image, &CheckOptions::default(), &Silent).unwrap();
        assert!(checked.report.findings.is_empty(), "{format}: {:?}", checked.report.findings);
        assert!(!platter::open(&image).unwrap().info().unwrap().dirty, "{format}");
    }
}

#[test]
fn errors_are_values() {
    let place = Place::new("errors");
    let image = place.path("a.img");
    make(&image, "ntfs", 64);
    let volume = platter::open_rw(&image).unwrap();
    volume.create_dir_all("directory/inside").unwrap();
    volume.write("file", b"").unwrap();
    let long = "n".repeat(300);
    for (error, kind, errno) in [
        (volume.read("none").unwrap_err(), ErrorKind::NotFound, libc::ENOENT),
        (volume.read("directory").unwrap_err(), ErrorKind::IsADirectory, libc::EISDIR),
        (volume.read("file/below").unwrap_err(), ErrorKind::NotADirectory, libc::ENOTDIR),
        (volume.create_dir("file").unwrap_err(), ErrorKind::Exists, libc::EEXIST),
        (volume.create_dir_all("file/x").unwrap_err(), ErrorKind::NotADirectory, libc::ENOTDIR),
        (volume.remove_dir("directory").unwrap_err(), ErrorKind::NotEmpty, libc::ENOTEMPTY),
        (volume.write(&long, b"").unwrap_err(), ErrorKind::InvalidName, libc::ENAMETOOLONG),
        (volume.write("a:b", b"").unwrap_err(), ErrorKind::InvalidName, libc::EINVAL),
        (
            volume.rename("directory", "directory/inside/x").unwrap_err(),
            ErrorKind::InvalidArgument,
            libc::EINVAL,
        ),
        (volume.remove_dir("/").unwrap_err(), ErrorKind::InvalidArgument, libc::EINVAL),
        (platter::open("/no/such").err().unwrap(), ErrorKind::NotFound, libc::ENOENT),
    ] {
        assert_eq!((error.kind(), error.errno().0), (kind, errno), "{error}");
    }
    let text = volume.read("directory/none").unwrap_err();
    assert_eq!(
        (text.about(), text.to_string().as_str()),
        ("directory/none", "directory/none: no such file or directory")
    );
    let host = std::io::Error::from(text);
    assert_eq!(host.kind(), HostError::NotFound);
    assert_eq!(host.get_ref().unwrap().downcast_ref::<platter::Error>().unwrap().kind(), ErrorKind::NotFound);
    // Opening a volume that is open already fails, and so does a write through a handle on a volume that was closed.
    assert_eq!(platter::open_rw(&image).err().unwrap().kind(), ErrorKind::Locked);
    let other = volume.clone();
    volume.close().unwrap();
    assert_eq!(other.write("late", b"").unwrap_err().kind(), ErrorKind::ReadOnly);
    drop(other);
    let again = platter::mkfs(&image, "refs", &MakeOptions::default(), &Silent).err().unwrap();
    assert_eq!(again.kind(), ErrorKind::Protected);
    assert!(!again.to_string().contains("--force"), "{again}");
    let unknown = platter::mkfs(place.path("b"), "zfs", &MakeOptions::default(), &Silent).err().unwrap();
    assert_eq!(unknown.kind(), ErrorKind::InvalidArgument);
    std::fs::write(place.path("zeroes"), [0; 1 << 20]).unwrap();
    assert_eq!(platter::open(place.path("zeroes")).err().unwrap().kind(), ErrorKind::NotAVolume);
}

#[test]
fn damage_has_a_place() {
    let place = Place::new("damage");
    let image = place.path("a.img");
    make(&image, "refs+integrity", 384);
    let volume = platter::open_rw(&image).unwrap();
    volume.write("file", &[7; 100_000]).unwrap();
    volume.sync().unwrap();
    let platter::vfs::Place::Device(at) = volume.extents("file").unwrap()[0].place else { panic!() };
    volume.close().unwrap();
    let file = std::fs::File::options().write(true).open(&image).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &[8], at + 10).unwrap();
    let error = platter::open(&image).unwrap().read("file").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Damaged);
    let damage = error.damage().expect("a place");
    assert_eq!(damage.offset, at, "{error}");
    assert!(!damage.structure.is_empty() && damage.expected != damage.found, "{error}");
    let scrubbed = platter::scrub(&image, &Default::default(), &Silent).unwrap();
    assert_eq!((scrubbed.report.found, scrubbed.report.damaged[0].place), (1, at));

    // The readable parts of the file are copied out.
    let source = Source::parse(&image).unwrap();
    let to = place.path("rescued");
    let recovered = platter::recover_to(&source, &to, &RecoverOptions::default(), &Silent).unwrap();
    assert_eq!((recovered.report.files, recovered.troubles.len()), (1, 1), "{recovered:?}");
    let got = std::fs::read(to.join("file")).unwrap();
    assert_eq!((got.len(), got[99_999]), (100_000, 7));
    // What could not be read is tried again, in the same directory.
    let again = platter::recover_to(&source, &to, &RecoverOptions::default(), &Silent).unwrap();
    assert_eq!((again.saved, again.troubles.len()), (1, 1), "{again:?}");
    assert_eq!(std::fs::read_dir(&to).unwrap().count(), 2);
    std::fs::remove_file(to.join(".platter-recover")).unwrap();
    let again = platter::recover_to(&source, &to, &RecoverOptions::default(), &Silent).unwrap_err();
    assert_eq!(again.kind(), ErrorKind::NotEmpty);
}

/// Returns the positions of the FAT directory entries with this short name.
fn slots(image: &[u8], name: &[u8; 11]) -> Vec<usize> {
    (0..image.len()).step_by(32).filter(|&at| &image[at..at + 11] == name).collect()
}

#[test]
fn a_walk_ends_on_a_volume_where_directories_are_inside_themselves() {
    let place = Place::new("loop");
    let image = place.path("a.img");
    make(&image, "fat16", 64);
    let volume = platter::open_rw(&image).unwrap();
    for inside in ["A/B", "A/C", "A/D"] {
        volume.create_dir_all(inside).unwrap();
    }
    volume.close().unwrap();
    let mut bytes = std::fs::read(&image).unwrap();
    let first = |bytes: &[u8], name| {
        let at = slots(bytes, name)[0];
        (at, [bytes[at + 26], bytes[at + 27]])
    };
    let (_, a) = first(&bytes, b"A          ");
    for name in [b"B          ", b"C          ", b"D          "] {
        let (at, _) = first(&bytes, name);
        bytes[at + 26..at + 28].copy_from_slice(&a);
    }
    std::fs::write(&image, &bytes).unwrap();
    let volume = platter::open(&image).unwrap();
    let (mut found, mut wrong) = (0, 0);
    for entry in volume.walk("/").unwrap() {
        match entry {
            Ok(_) => found += 1,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
                wrong += 1;
            }
        }
    }
    assert!(found < 100 && wrong > 0 && wrong < 100, "{found} entries, {wrong} errors");
    let damaged = platter::check(&image, &CheckOptions::default(), &Silent).unwrap();
    assert!(!damaged.report.is_clean() && damaged.undo.is_none());
    drop(volume);
    let options = CheckOptions { repair: true, ..CheckOptions::default() };
    let repaired = platter::check(&image, &options, &Silent).unwrap();
    let (undo, _) = repaired.undo.expect("a file that takes it back");
    assert_eq!(undo, place.path("a.img.undo"));
    let none = CheckOptions { repair: true, undo: Undo::At(undo), ..CheckOptions::default() };
    assert_eq!(platter::check(&image, &none, &Silent).unwrap_err().kind(), ErrorKind::Exists);
    assert!(platter::check(&image, &CheckOptions::default(), &Silent).unwrap().report.is_clean());
}

#[test]
fn sources_name_mirrors_and_partitions() {
    let place = Place::new("sources");
    let (a, b) = (place.path("a.img"), place.path("b.img"));
    let mirror = format!("mirror:{},{}", a.display(), b.display());
    make(Path::new(&mirror), "refs", 384);
    let volume = platter::open_rw(&mirror).unwrap();
    volume.write("both", b"copies").unwrap();
    volume.close().unwrap();
    for copy in [&a, &b] {
        assert_eq!(platter::open(copy).unwrap().read("both").unwrap(), b"copies");
    }
    let error = platter::open(format!("{}@3", a.display())).err().unwrap();
    assert!(error.to_string().contains("partition 3"), "{error}");

    let device: Arc<dyn Device> = Arc::new(MemoryDevice::new(64 << 20, Sectors::LARGE));
    platter::formats::by_name("ntfs").unwrap().make(&*device, &Default::default(), &Silent).unwrap();
    let read = OpenOptions::new();
    assert!(read.open_on(device.clone(), "memory").unwrap().write("x", b"").is_err());
    let write = read.access(Access::Write { force: false });
    write.open_on(device.clone(), "memory").unwrap().write("x", b"kept").unwrap();
    assert_eq!(OpenOptions::new().open_on(device, "memory").unwrap().read("x").unwrap(), b"kept");
}

/// The example of embedding in README.md, line by line; the directory `photos` exists already.
#[rustfmt::skip]
fn as_the_first_page_shows() -> Result<(), Box<dyn std::error::Error>> {
    let volume = platter::open_rw("disk.img")?;               // or disk.img@2, /dev/sdb, mirror:a.img,b.img
    for entry in volume.walk("/")? {
        println!("{}", entry?.path().display());
    }
    let mut file = volume.create_file("photos/list.txt")?;    // Read + Write + Seek
    file.write_all(b"one\n")?;
    file.sync_all()?;                                         // it survives a power cut from here on
    Ok(())
}

#[test]
fn the_first_page_shows_what_works() {
    let place = Place::new("first-page");
    make(&place.path("disk.img"), "ntfs", 64);
    platter::open_rw(place.path("disk.img")).unwrap().create_dir("photos").unwrap();
    // All other tests in this binary use absolute paths.
    std::env::set_current_dir(&place.0).unwrap();
    as_the_first_page_shows().unwrap();
    let read = platter::open(place.path("disk.img")).unwrap().read("photos/list.txt").unwrap();
    assert_eq!(read, b"one\n");
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(root.join("../../README.md")).unwrap();
    let block = page.split("```rust\n").nth(1).unwrap().split("```").next().unwrap();
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let here: Vec<String> = include_str!("library.rs").lines().map(words).collect();
    for line in block.lines() {
        assert!(here.contains(&words(line)), "this line of README.md is in no test: {line}");
    }
}

/// A range whose end is beyond 2^64 is refused, and not wrapped round, for reading as for writing.
#[test]
fn a_range_beyond_the_last_offset_is_refused() {
    let place = Place::new("range");
    for format in ["fat32", "exfat", "ntfs", "refs"] {
        let image = place.path(format);
        let options = MakeOptions { size: Some(400 << 20), ..MakeOptions::default() };
        platter::mkfs(&image, format, &options, &Silent).unwrap();
        let volume = platter::open_rw(&image).unwrap();
        volume.write("file", b"text").unwrap();
        let file = volume.open_file("file").unwrap();
        let mut buffer = vec![0; 4096];
        for offset in [u64::MAX, u64::MAX - 4094, u64::MAX - 511] {
            let error = file.read_at(offset, &mut buffer).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{format} {offset}: {error}");
            assert!(file.write_at(offset, &buffer).is_err(), "{format} {offset}");
        }
        assert_eq!(file.read_at(1 << 63, &mut buffer).unwrap(), 0, "{format}");
        let system = volume.system();
        let node = system.lookup(platter::vfs::Node::ROOT, &"file".into()).unwrap();
        let mut plan = platter::vfs::Plan::default();
        let planned = system.plan_read(node, u64::MAX - 511, 1024, &mut plan).unwrap_err();
        assert!(matches!(planned, platter::vfs::Error::InvalidArgument(_)), "{format}: {planned}");
        system.forget(node, 1);
        drop(file);
        volume.close().unwrap();
    }
}

/// Keeps what a copy tells.
#[derive(Default)]
struct Told {
    lost: Mutex<Vec<(Loss, String)>>,
    failed: Mutex<Vec<String>>,
    is_stopped: bool,
}

impl platter::Progress for Told {
    fn progress(&self, _what: &'static str, _done: u64, _total: u64) {}

    fn is_stopped(&self) -> bool {
        self.is_stopped
    }
}

impl CopyListener for Told {
    fn lost(&self, loss: Loss, at: &str) {
        self.lost.lock().unwrap().push((loss, at.into()));
    }

    fn failed(&self, error: &platter::Error) {
        self.failed.lock().unwrap().push(error.to_string());
    }
}

#[cfg(target_os = "linux")]
#[test]
fn trees_are_copied_with_what_both_sides_hold_and_losses_are_told() {
    use std::os::unix::fs::{MetadataExt, symlink};
    let place = Place::new("copies");
    let tree = place.path("tree");
    std::fs::create_dir_all(tree.join("inside")).unwrap();
    std::fs::write(tree.join("a"), [7; 100_000]).unwrap();
    std::fs::hard_link(tree.join("a"), tree.join("b")).unwrap();
    symlink("a", tree.join("link")).unwrap();
    let sparse = std::fs::File::create(tree.join("inside/sparse")).unwrap();
    sparse.set_len(8 << 20).unwrap();
    let all = Options { recursive: true, ..Options::default() };
    for format in FORMATS {
        let image = place.path(format);
        make(&image, format, 384);
        let volume = platter::open_rw(&image).unwrap();
        let can = volume.capabilities().clone();
        let told = Told::default();
        let outcome = volume.copy_in(&tree, "copy", &all, &told).unwrap();
        let lost: Vec<Loss> = told.lost.lock().unwrap().iter().map(|(loss, _)| *loss).collect();
        assert_eq!((outcome.failures, outcome.losses), (0, lost.len() as u64), "{format}");
        assert!(told.failed.lock().unwrap().is_empty() && !outcome.interrupted, "{format}");
        assert_eq!(lost.contains(&Loss::Links), !can.hard_links, "{format}");
        assert_eq!(lost.contains(&Loss::SymbolicLinks), !can.symbolic_links, "{format}");
        assert_eq!(lost.contains(&Loss::Holes), !can.sparse, "{format}");
        assert_eq!(volume.read("copy/b").unwrap(), [7; 100_000]);
        assert_eq!(volume.metadata("copy/a").unwrap().links, if can.hard_links { 2 } else { 1 });
        if can.streams {
            volume.create_stream("copy/a", "note").unwrap().write_all(b"beside").unwrap();
        }
        // Out again, into a directory that is there: under the copy's own name.
        let back = place.path(&format!("back-{format}"));
        std::fs::create_dir(&back).unwrap();
        let told = Told::default();
        let outcome = volume.copy_out("copy", &back, &all, &told).unwrap();
        assert_eq!((outcome.failures, outcome.unsaved.len()), (0, 0), "{format}");
        assert_eq!(std::fs::read(back.join("copy/a")).unwrap(), [7; 100_000]);
        let blocks = std::fs::metadata(back.join("copy/inside/sparse")).unwrap().blocks();
        assert!(!can.sparse || blocks < 100, "{format}: a hole of 8 MiB takes {blocks} sectors");
        let links = std::fs::metadata(back.join("copy/a")).unwrap().nlink();
        assert_eq!(links, if can.hard_links { 2 } else { 1 }, "{format}");
        // Without leave to copy directories, and where a file is in the way, one failure is told and nothing changed.
        let told = Told::default();
        assert_eq!(volume.copy_in(&tree, "other", &Options::default(), &told).unwrap().failures, 1);
        assert_eq!(volume.copy_in(&tree, "copy/a", &all, &told).unwrap().failures, 1);
        assert_eq!(told.failed.lock().unwrap().len(), 2);
        assert!(!volume.exists("other").unwrap());
        // Whoever asks for the end gets it.
        let told = Told { is_stopped: true, ..Told::default() };
        let outcome = volume.copy_in(&tree, "late", &all, &told).unwrap();
        assert_eq!((outcome.interrupted, outcome.copied), (true, Amount::default()));
        assert_eq!(
            volume.copy_in(place.path("none"), "x", &all, &Silent).unwrap_err().kind(),
            ErrorKind::NotFound
        );
        volume.close().unwrap();
        let checked = platter::check(&image, &CheckOptions::default(), &Silent).unwrap();
        assert!(checked.report.is_clean(), "{format}: {:?}", checked.report.findings);
    }
}

#[test]
fn what_takes_no_open_volume_works_on_a_device_of_the_caller() {
    let place = Place::new("doors");
    let device = Arc::new(MemoryDevice::new(8 << 20, Sectors::SMALL));
    platter::mkfs_on(device.clone(), "fat", &MakeOptions::default(), &Silent).unwrap();
    let again = platter::mkfs_on(device.clone(), "fat", &MakeOptions::default(), &Silent).unwrap_err();
    assert_eq!(again.kind(), ErrorKind::Protected);
    let writing = OpenOptions::new().access(Access::Write { force: false });
    let volume = writing.open_on(device.clone(), "in memory").unwrap();
    volume.write("a", b"text").unwrap();
    volume.close().unwrap();
    // A cluster is taken that belongs to no file.
    let (mut boot, mut table) = (vec![0; 512], vec![0; 512]);
    device.read_at(0, &mut boot).unwrap();
    let at = u64::from(boot[14]) * 512;
    device.read_at(at, &mut table).unwrap();
    table[20] = 0xFF;
    device.write_at(at, &table).unwrap();
    let options = CheckOptions { repair: true, ..CheckOptions::default() };
    let refused = platter::check_on(device.clone(), &options, &Silent).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    let undo = place.path("kept");
    let options = CheckOptions { undo: Undo::At(undo.clone()), ..options };
    let checked = platter::check_on(device.clone(), &options, &Silent).unwrap();
    assert!(checked.report.repaired > 0 && checked.undo.is_some_and(|(path, _)| path == undo));
    let undone = platter::undo_on(&undo, device.clone(), &UndoOptions::default(), &Silent).unwrap();
    assert!(undone.blocks > 0 && undone.began.is_some());
    let mut now = vec![0; 512];
    device.read_at(at, &mut now).unwrap();
    assert_eq!(now, table);
    let to = place.path("to");
    let recovered = platter::recover_on(device.clone(), &to, &RecoverOptions::default(), &Silent).unwrap();
    // The file, and the cluster without one.
    assert_eq!((recovered.saved, std::fs::read(to.join("a")).unwrap()), (2, b"text".to_vec()));
    let none = platter::scrub_on(device, &Default::default(), &Default::default(), &Silent).unwrap_err();
    assert_eq!(none.kind(), ErrorKind::Unsupported);
}

#[test]
fn a_rebuild_that_is_ended_leaves_the_copy_out() {
    struct Ends;
    impl platter::Progress for Ends {
        fn progress(&self, _what: &'static str, _done: u64, _total: u64) {}

        fn is_stopped(&self) -> bool {
            true
        }
    }
    let place = Place::new("rebuild");
    let (a, b) = (place.path("a.img"), place.path("b.img"));
    let source = format!("mirror:{},{}", a.display(), b.display());
    let options = MakeOptions { size: Some(16 << 20), ..MakeOptions::default() };
    platter::mkfs(&source, "ntfs", &options, &Silent).unwrap();
    std::fs::remove_file(&b).unwrap();
    let options = RebuildOptions::default();
    assert_eq!(mirror::rebuild(&source, &options, &Ends).unwrap_err().kind(), ErrorKind::Stopped);
    let status = mirror::status(&source, &Listener::default()).unwrap();
    assert!(status.copies[0].is_current() && !status.copies[1].is_current());
    assert_eq!(platter::open(&b).err().map(|error| error.kind()), Some(ErrorKind::Unfinished));
    assert_eq!(mirror::rebuild(&source, &options, &Silent).unwrap(), 1);
    assert_eq!(std::fs::read(&a).unwrap(), std::fs::read(&b).unwrap());
}

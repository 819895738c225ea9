//! Facts that other implementations read of files besides their content: flags, times, security descriptors, named
//! streams, links.

use super::readers::sum;
use super::{ImageFile, Mount, run};
use platter_testing::model::judge::each_name;
use platter_vfs::{DosFlags, FileSystem, Kind, Timestamp};
use std::collections::BTreeMap;

/// The facts of a file or directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    /// Flags that a user can set.
    pub flags: u32,
    /// Creation, modification, access, change: 100 ns since 1601.
    pub times: [u64; 4],
    /// SHA-256 of the security descriptor.
    pub descriptor: String,
    /// Named streams, as `NAME=SIZE=SHA256`, in order.
    pub streams: Vec<String>,
    /// The number of the file's names.
    pub links: u32,
}

/// Stands in place of the sum of a descriptor that was not found.
pub(crate) const UNREAD: &str = "unread";

/// The facts of all files by path. System files are left out.
pub(crate) type All = BTreeMap<String, Facts>;

/// Units of 100 ns between 1601 and 1970.
const EPOCH: i64 = 116_444_736_000_000_000;

fn units(time: Timestamp) -> u64 {
    (time.seconds * 10_000_000 + i64::from(time.nanoseconds / 100) + EPOCH) as u64
}

/// The facts as Platter reads them.
pub(crate) fn ours(system: &dyn FileSystem) -> All {
    let mut all = All::new();
    each_name(system, &mut |path, node, attributes| {
        let known = |time: Option<Timestamp>| units(time.expect("a time that NTFS keeps"));
        // A link has no streams that can be read by its name.
        let streams = if attributes.kind == Kind::SymbolicLink { Vec::new() } else { streams(system, node) };
        let facts = Facts {
            flags: attributes.flags.0 & DosFlags::SETTABLE.0,
            times: [
                known(attributes.created),
                units(attributes.modified),
                known(attributes.accessed),
                known(attributes.changed),
            ],
            descriptor: sum(&system.security_descriptors().unwrap().get(node).unwrap()),
            streams,
            links: attributes.links,
        };
        all.insert(path, facts);
    });
    all
}

fn streams(system: &dyn FileSystem, node: platter_vfs::Node) -> Vec<String> {
    let shown = system.streams().unwrap().list(node).unwrap().into_iter().map(|found| {
        let stream = system.streams().unwrap().open(node, &found.name, false).unwrap();
        let mut content = vec![0; found.size as usize];
        assert_eq!(system.read(stream, 0, &mut content).unwrap(), content.len());
        system.forget(stream, 1);
        format!("{}={}={}", found.name, content.len(), sum(&content))
    });
    let mut shown: Vec<String> = shown.collect();
    shown.sort();
    shown
}

fn parse(text: &str) -> All {
    let one = |line: &str| {
        let fields: Vec<&str> = line.split('\t').collect();
        let [path, flags, times @ .., descriptor, streams, links] = &fields[..] else { panic!("{line:?}") };
        let times: Vec<u64> = times.iter().map(|time| time.parse().unwrap()).collect();
        let facts = Facts {
            flags: flags.parse().unwrap(),
            times: times.try_into().unwrap(),
            descriptor: (*descriptor).to_owned(),
            streams: streams.split(';').filter(|name| !name.is_empty()).map(str::to_owned).collect(),
            links: links.parse().unwrap(),
        };
        ((*path).to_owned(), facts)
    };
    text.lines().map(one).collect()
}

fn script(name: &str, argument: &str) -> String {
    run("python3", &[&format!("{}/tests/judges/{name}", env!("CARGO_MANIFEST_DIR")), argument])
}

/// The facts as libfsntfs reads them. It does not count links, and descriptors that it does not find are [`UNREAD`].
pub(crate) fn libfsntfs(image: &ImageFile) -> All {
    parse(&script("fsntfs_facts.py", image.path()).replace('\n', "\t0\n"))
}

/// The facts as ntfs-3g shows them.
pub(crate) fn ntfs_3g(image: &ImageFile) -> All {
    let mount = Mount::reading(image).unwrap_or_else(|reason| panic!("{reason}"));
    parse(&script("mounted_facts.py", mount.path().to_str().expect("a path in UTF-8")))
}

/// Size and times in seconds since 1970 (modification, access, change, creation) of every file, as The Sleuth Kit lists
/// them.
pub(crate) fn sleuth_kit(image: &ImageFile) -> BTreeMap<String, (u64, [i64; 4])> {
    let listed = run("fls", &["-f", "ntfs", "-r", "-p", "-u", "-m", "/", image.path()]);
    let one = |line: &str| {
        // MD5|name|inode|mode|uid|gid|size|atime|mtime|ctime|crtime
        let fields: Vec<&str> = line.split('|').collect();
        let [_, name, place, mode, _, _, size, accessed, modified, changed, created] = fields[..] else {
            panic!("fls printed {line:?}");
        };
        // "r/r": a file by its name and by its record. Type 128 is `$DATA`, which has no attribute name here.
        let number: u64 = place.split('-').next().unwrap().parse().unwrap();
        let is_file = mode.starts_with("r/r") && place.split('-').nth(1) == Some("128");
        if !is_file || number < super::readers::FIRST || name.ends_with(" ($FILE_NAME)") {
            return None;
        }
        let number = |text: &str| text.parse().unwrap();
        let times = [modified, accessed, changed, created].map(number);
        Some((name.to_owned(), (size.parse().unwrap(), times)))
    };
    listed.lines().filter_map(one).collect()
}

/// [`Facts::times`] in the form of [`sleuth_kit`].
pub(crate) fn in_seconds(times: [u64; 4]) -> [i64; 4] {
    let [created, modified, accessed, changed] =
        times.map(|time| (time as i64 - EPOCH).div_euclid(10_000_000));
    [modified, accessed, changed, created]
}

/// Fails, with the first differences, unless the facts of both are the same.
pub(crate) fn assert_same(what: &str, ours: &All, theirs: &All) {
    let lost: Vec<&String> = ours.keys().filter(|path| !theirs.contains_key(*path)).take(10).collect();
    let new: Vec<&String> = theirs.keys().filter(|path| !ours.contains_key(*path)).take(10).collect();
    assert!(lost.is_empty() && new.is_empty(), "{what}: only ours: {lost:?}, only theirs: {new:?}");
    for (path, facts) in ours {
        assert_eq!(*facts, theirs[path], "{what}: {path}");
    }
}

//! Tests the answers to requests on every format, without a kernel in between.

use platter_device::{Device, Fault, Faults, MemoryDevice, Operation, Sectors, When};
use platter_mount::{
    Caller, Errno, New, Options, OwnerChange, RangeChange, Served, SetAttribute, Special, Stat, StatChange,
    Streams, WindowsLinks,
};
use platter_vfs::{
    FileSystem, FormatOptions, Kind, NewEntry, Node, OpenOptions, RenameFlags, Reparse, Silent, SyncScope,
    Timestamp,
};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const FORMATS: [&str; 4] = ["fat32", "exfat", "ntfs", "refs"];

fn made(format: &str) -> Arc<dyn Device> {
    let device = Arc::new(MemoryDevice::new(512 << 20, Sectors::SMALL));
    let format = platter_formats::by_name(format).unwrap();
    format.make(&*device, &FormatOptions::default(), &Silent).unwrap();
    device
}

fn served_with(system: Arc<dyn FileSystem>, options: Options) -> (Served, Arc<Mutex<Vec<String>>>) {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let log = lines.clone();
    let log = Arc::new(move |line: &str| log.lock().unwrap().push(line.to_string()));
    (Served::new(system, options, log), lines)
}

fn served(format: &str) -> Served {
    let system = platter_formats::open(made(format), OpenOptions::default()).unwrap();
    served_with(system, Options::of(0, 0, 0o022)).0
}

fn by(uid: u32, mode: u32) -> New {
    New { mode, umask: 0, uid, gid: uid, device: 0 }
}

fn file(served: &Served, name: &str) -> Stat {
    served.make_node(Node::ROOT, name.as_bytes(), by(0, libc::S_IFREG | 0o644)).unwrap()
}

fn error<T>(number: i32) -> Result<T, Errno> {
    Err(Errno(number))
}

/// Unmounts a volume and verifies that its check finds nothing.
fn ends_clean(system: &dyn FileSystem, device: &dyn Device, format: &str) {
    system.unmount().unwrap();
    let (found, _) = platter_formats::recognise(device).unwrap().unwrap();
    let report = found.check(device, Default::default(), &Silent).unwrap();
    assert!(report.is_clean(), "{format}: {:?}", report.findings);
}

#[test]
fn owners_and_permissions_stay_where_the_format_has_room_for_them() {
    for format in ["ntfs", "refs"] {
        let device = made(format);
        let system = platter_formats::open(device.clone(), OpenOptions::default()).unwrap();
        let (served, _) = served_with(system.clone(), Options::of(0, 0, 0o022));
        let usual = file(&served, "usual");
        assert_eq!((usual.mode, usual.uid, usual.gid), (0o644, 0, 0), "{format}");
        assert!(
            system.extended_attributes().unwrap().list(Node(usual.node)).unwrap().is_empty(),
            "{format}: nothing to say"
        );
        let other = served.make_node(Node::ROOT, b"other", by(1000, libc::S_IFREG | 0o4711)).unwrap();
        assert_eq!((other.mode, other.uid, other.gid), (0o4711, 1000, 1000));
        let owner = OwnerChange { uid: Some(7), gid: None, mode: None };
        let changed =
            served.set_stat(Node(other.node), &StatChange { owner, ..StatChange::default() }).unwrap();
        assert_eq!((changed.mode, changed.uid, changed.gid), (0o711, 7, 1000), "set-user-id is for an owner");

        let device_file = New { device: 0x801, ..by(5, libc::S_IFBLK | 0o600) };
        let block = served.make_node(Node::ROOT, b"block", device_file).unwrap();
        assert_eq!((block.special, block.device, block.mode), (Some(Special::Block), 0x801, 0o600));
        let directory = served.make_directory(Node::ROOT, b"shared", by(5, 0o2775)).unwrap();
        let inside = served.make_node(Node(directory.node), b"inside", by(9, libc::S_IFREG | 0o640)).unwrap();
        assert_eq!((inside.uid, inside.gid), (9, 5), "the group of a directory with set-group-id");
        let below = served.make_directory(Node(directory.node), b"below", by(9, 0o755)).unwrap();
        assert_eq!((below.gid, below.mode), (5, 0o2755));
        system.unmount().unwrap();

        // A second mount shows the same owners and permissions.
        let system = platter_formats::open(device.clone(), OpenOptions::default()).unwrap();
        let (again, _) = served_with(system.clone(), Options::of(0, 0, 0o022));
        let other = again.lookup(Node::ROOT, b"other").unwrap();
        assert_eq!((other.mode, other.uid, other.gid), (0o711, 7, 1000), "{format}");
        let block = again.lookup(Node::ROOT, b"block").unwrap();
        assert_eq!((block.kind, block.special, block.device), (Kind::File, Some(Special::Block), 0x801));
        // These attributes are what the Windows Subsystem for Linux and Linux's own driver read.
        assert_eq!(
            system.extended_attributes().unwrap().get(Node(other.node), "$LXUID").unwrap(),
            [7, 0, 0, 0]
        );
        assert_eq!(
            system.extended_attributes().unwrap().get(Node(block.node), "$LXDEV").unwrap(),
            [8, 0, 0, 0, 1, 0, 0, 0]
        );
        assert_eq!(system.reparse_points().unwrap().get(Node(block.node)).unwrap().unwrap().tag, 0x8000_0026);
        ends_clean(&*system, &*device, format);
    }
}

#[test]
fn without_room_for_owners_only_writing_can_be_taken_away() {
    for format in ["fat32", "exfat"] {
        let served = served(format);
        let made = served.make_node(Node::ROOT, b"file", by(1000, libc::S_IFREG | 0o600)).unwrap();
        let node = Node(made.node);
        assert_eq!((made.mode, made.uid), (0o755, 0), "{format}");
        let change = |uid, mode| {
            let owner = OwnerChange { uid, gid: None, mode };
            served.set_stat(node, &StatChange { owner, ..StatChange::default() }).map(|stat| stat.mode)
        };
        assert_eq!(change(Some(0), None), Ok(0o755), "to whom it belongs");
        assert_eq!(change(Some(1), None), error(libc::EPERM));
        assert_eq!(change(None, Some(0o600)), Ok(0o755), "what cannot be is ignored");
        assert_eq!(change(None, Some(0o4755)), error(libc::EPERM));
        assert_eq!(change(None, Some(0o555)), Ok(0o555));
        assert_eq!(served.write(node, 0, b"x", false), error(libc::EPERM));
        assert_eq!(change(None, Some(0o755)), Ok(0o755));
        assert_eq!(served.write(node, 0, b"x", false), Ok(()));
        assert_eq!(change(None, Some(0o555)), Ok(0o555));
        // A read-only file can be removed: only its directory must be writable.
        served.unlink(Node::ROOT, b"file", Caller::ROOT).unwrap();
        for (mode, name) in [(libc::S_IFIFO, "fifo"), (libc::S_IFCHR, "device")] {
            let made = served.make_node(Node::ROOT, name.as_bytes(), by(0, mode));
            assert_eq!(made.map(|_| ()), error(libc::EPERM));
        }
        let link = served.make_link(Node::ROOT, b"link", b"file", by(0, 0o777));
        assert_eq!(link.map(|_| ()), error(libc::EPERM));
        let made = file(&served, "one");
        assert_eq!(served.link(Node(made.node), Node::ROOT, b"two").map(|_| ()), error(libc::EPERM));
    }
}

#[test]
fn errors_are_those_of_posix() {
    for format in FORMATS {
        let served = served(format);
        let node = Node(file(&served, "file").node);
        let directory = Node(served.make_directory(Node::ROOT, b"directory", by(0, 0o755)).unwrap().node);
        served.make_directory(directory, b"inside", by(0, 0o755)).unwrap();
        let long = "n".repeat(256);
        let new = by(0, libc::S_IFREG | 0o644);
        let find = |name: &[u8]| served.lookup(Node::ROOT, name).map(|_| ());
        assert_eq!(find(b"missing"), error(libc::ENOENT), "{format}");
        assert_eq!(find(b"no\xFFname"), error(libc::ENOENT));
        assert_eq!(find(long.as_bytes()), error(libc::ENAMETOOLONG));
        assert_eq!(served.make_node(Node::ROOT, long.as_bytes(), new).map(|_| ()), error(libc::ENAMETOOLONG));
        // Bytes that are not UTF-8 are a valid name too.
        let odd = served.make_node(Node::ROOT, b"no\xFFname", new).unwrap();
        assert_eq!(served.lookup(Node::ROOT, b"no\xFFname").unwrap().node, odd.node);
        assert_eq!(served.make_node(Node::ROOT, b"file", new).map(|_| ()), error(libc::EEXIST));
        assert_eq!(served.unlink(Node::ROOT, b"directory", Caller::ROOT), error(libc::EISDIR));
        assert_eq!(served.remove_directory(Node::ROOT, b"file"), error(libc::ENOTDIR));
        assert_eq!(served.remove_directory(Node::ROOT, b"directory"), error(libc::ENOTEMPTY));
        let rename = |to: &[u8], flags| served.rename(Node::ROOT, b"file", Node::ROOT, to, flags);
        assert_eq!(rename(b"directory", RenameFlags::NoReplace), error(libc::EEXIST));
        if !served.system().capabilities().exchange {
            assert_eq!(rename(b"directory", RenameFlags::Exchange), error(libc::EINVAL));
        }
        for name in [&b"user.none"[..], b"security.capability"] {
            let has = served.system().capabilities().extended_attributes;
            let expected = error(if has { libc::ENODATA } else { libc::EOPNOTSUPP });
            assert_eq!(served.attribute_value(node, name).map(|_| ()), expected);
        }
        assert_eq!(served.attribute_value(node, b"system.none").map(|_| ()), error(libc::EOPNOTSUPP));
        assert_eq!(served.seek(node, 0, false), error(libc::ENXIO));
        let past = served.change_range(node, u64::MAX - 5, 10, RangeChange::Allocate, None);
        assert_eq!(past, error(libc::EFBIG));
    }
}

#[test]
fn what_windows_knows_of_a_file_is_in_attributes() {
    let served = served("ntfs");
    let node = Node(file(&served, "file").node);
    let set = |name: &str, value: &[u8]| {
        served.set_attribute(node, name.as_bytes(), value, SetAttribute::Any).unwrap()
    };
    let get = |name: &str| served.attribute_value(node, name.as_bytes()).unwrap();
    set("system.ntfs_attrib", &[0x22, 0, 0, 0]);
    assert_eq!(get("system.ntfs_attrib")[0] & 0x27, 0x22);
    let times: Vec<u8> = [133_000_000_000_000_001u64, 133_000_000_000_000_002]
        .iter()
        .flat_map(|time| time.to_le_bytes())
        .collect();
    set("system.ntfs_times", &times);
    assert_eq!(get("system.ntfs_times")[..16], times);
    assert_eq!(get("system.ntfs_crtime"), times[..8]);
    let security = get("system.ntfs_acl");
    set("system.ntfs_acl", &security);
    assert_eq!(served.attribute_value(node, b"system.ntfs_reparse_data"), error(libc::ENODATA));
    set("user.one", b"1");
    set("user.one", b"2");
    assert_eq!(get("user.one"), b"2");
    let again = |how| served.set_attribute(node, b"user.one", b"3", how);
    assert_eq!(again(SetAttribute::New), error(libc::EEXIST));
    assert_eq!(again(SetAttribute::Known), Ok(()));
    assert_eq!(served.set_attribute(node, b"user.two", b"", SetAttribute::Known), error(libc::ENODATA));
    assert_eq!(served.attribute_names(node).unwrap(), b"user.one\0");
    served.remove_attribute(node, b"user.one").unwrap();
    assert_eq!(served.remove_attribute(node, b"user.one"), error(libc::ENODATA));
    set("system.ntfs_reparse_data", &[0x1B, 0, 0, 0x80, 2, 0, 0, 0, 7, 8]);
    assert_eq!(get("system.ntfs_reparse_data"), [0x1B, 0, 0, 0x80, 2, 0, 0, 0, 7, 8]);
    // The length of a tag that is not Microsoft's does not count the GUID.
    let foreign = [&[0x42, 0, 0, 0, 2, 0, 0, 0][..], &[6; 16], &[7, 8]].concat();
    set("system.ntfs_reparse_data", &foreign);
    assert_eq!(get("system.ntfs_reparse_data"), foreign);
}

#[test]
fn streams_are_attributes_if_that_is_wanted() {
    for format in ["ntfs", "refs"] {
        let system = platter_formats::open(made(format), OpenOptions::default()).unwrap();
        let mut options = Options::of(0, 0, 0o022);
        options.streams = Streams::Attributes;
        let (served, _) = served_with(system.clone(), options);
        let node = Node(file(&served, "file").node);
        served.set_attribute(node, b"user.Zone.Identifier", b"[ZoneTransfer]", SetAttribute::Any).unwrap();
        served.set_attribute(node, b"user.Zone.Identifier", b"[Zone]", SetAttribute::Any).unwrap();
        assert_eq!(served.attribute_value(node, b"user.Zone.Identifier").unwrap(), b"[Zone]", "{format}");
        assert_eq!(served.attribute_names(node).unwrap(), b"user.Zone.Identifier\0");
        assert_eq!(system.streams().unwrap().list(node).unwrap().len(), 1);
        // All other attributes are those of the format.
        for name in ["trusted.one", "security.two"] {
            served.set_attribute(node, name.as_bytes(), b"value", SetAttribute::New).unwrap();
            assert_eq!(served.attribute_value(node, name.as_bytes()).unwrap(), b"value", "{format}");
        }
        let all = served.attribute_names(node).unwrap();
        assert_eq!(all.split(|byte| *byte == 0).count(), 4, "{format}: {all:?}");
        served.remove_attribute(node, b"trusted.one").unwrap();
        served.remove_attribute(node, b"user.Zone.Identifier").unwrap();
        assert_eq!(served.attribute_names(node).unwrap(), b"security.two\0", "{format}");
        assert!(system.streams().unwrap().list(node).unwrap().is_empty());
    }
}

#[test]
fn only_who_may_write_to_a_file_makes_streams_of_it() {
    for format in ["ntfs", "refs"] {
        let system = platter_formats::open(made(format), OpenOptions::default()).unwrap();
        let mut options = Options::of(0, 0, 0o022);
        options.streams = Streams::Files;
        let (served, _) = served_with(system.clone(), options);
        let file = |name: &str, uid: u32, mode: u32| {
            let made = served.make_node(Node::ROOT, name.as_bytes(), by(uid, libc::S_IFREG | mode)).unwrap();
            Node(made.node)
        };
        let make = |name: &str, user: u32| {
            let made = served.make_node(Node::ROOT, name.as_bytes(), by(user, libc::S_IFREG | 0o644));
            made.map(|stat| served.forget(Node(stat.node), 1))
        };
        let of_root = file("of root", 0, 0o644);
        file("of one", 1000, 0o600);
        file("of all", 0, 0o666);
        assert_eq!(make("of root:stream", 1000), error(libc::EACCES), "{format}");
        assert!(system.streams().unwrap().list(of_root).unwrap().is_empty(), "{format}");
        assert_eq!(make("of root:stream", 0), Ok(()));
        assert_eq!(make("of root:stream", 0), error(libc::EEXIST));
        assert_eq!(make("of one:stream", 1001), error(libc::EACCES));
        assert_eq!(make("of one:stream", 1000), Ok(()));
        assert_eq!(make("of all:stream", 1000), Ok(()));
        assert_eq!(make("missing:stream", 0), error(libc::ENOENT));
        let seen = served.lookup(Node::ROOT, b"of one:stream").unwrap();
        assert_eq!((seen.uid, seen.mode, seen.kind), (1000, 0o600, Kind::File), "{format}");
        // The file stays as long as its stream is known, and both can be forgotten.
        served.forget(Node(seen.node), 1);
        let unlink = |user: u32| {
            served.unlink(Node::ROOT, b"of one:stream", Caller { uid: user, gid: user, thread: 0 })
        };
        assert_eq!(unlink(1001), error(libc::EACCES), "{format}");
        assert_eq!((unlink(1000), unlink(1000)), (Ok(()), error(libc::ENOENT)), "{format}");
        system.unmount().unwrap();
    }
}

#[test]
fn a_link_keeps_its_target_whatever_its_length() {
    for format in ["ntfs", "refs"] {
        let served = served(format);
        for target in ["a".to_string(), "/x/y z".into(), "ü/".repeat(1000), "d/".repeat(2047)] {
            let name = target.len().to_string();
            let made =
                served.make_link(Node::ROOT, name.as_bytes(), target.as_bytes(), by(3, 0o777)).unwrap();
            assert_eq!((made.kind, made.uid), (Kind::SymbolicLink, 3), "{format}: {name}");
            assert_eq!(served.read_link(Node(made.node)).unwrap(), target.as_bytes(), "{format}: {name}");
        }
        let long = served.make_link(Node::ROOT, b"long", "d".repeat(4096).as_bytes(), by(0, 0o777));
        assert_eq!(long.map(|_| ()), error(libc::ENAMETOOLONG));
    }
}

#[test]
fn listings_go_on_where_they_were() {
    for format in FORMATS {
        let served = served(format);
        let names: Vec<String> = (0..300).map(|number| format!("file {number}")).collect();
        names.iter().for_each(|name| served.forget(Node(file(&served, name).node), 1));
        for most in [1, 7, 1000] {
            let mut seen = Vec::new();
            let mut from = 0;
            loop {
                let mut taken = Vec::new();
                served
                    .list(Node::ROOT, from, true, |entry| {
                        let room = taken.len() < most;
                        if room {
                            taken.push((entry.name.clone(), entry.next, entry.stat));
                        }
                        room
                    })
                    .unwrap();
                let Some((_, next, _)) = taken.last() else { break };
                from = *next;
                for (name, _, stat) in taken {
                    seen.push(String::from_utf8(name).unwrap());
                    stat.inspect(|stat| served.forget(Node(stat.node), 1));
                }
            }
            assert_eq!(seen[..2], [".", ".."], "{format}");
            let mut found: Vec<&String> = seen.iter().filter(|name| name.starts_with("file")).collect();
            found.sort();
            let mut expected: Vec<&String> = names.iter().collect();
            expected.sort();
            assert_eq!(found, expected, "{format}: {most} at a time");
        }
    }
}

#[test]
fn data_and_holes_are_found() {
    for format in ["ntfs", "refs"] {
        let served = served(format);
        let node = Node(file(&served, "file").node);
        let size = StatChange { size: Some(10 << 20), ..StatChange::default() };
        served.set_stat(node, &size).unwrap();
        served.write(node, 4 << 20, &[7; 65536], false).unwrap();
        assert_eq!(served.seek(node, 0, false), Ok(4 << 20), "{format}");
        assert_eq!(served.seek(node, 0, true), Ok(0));
        assert_eq!(served.seek(node, (4 << 20) + 5, false), Ok((4 << 20) + 5));
        assert_eq!(served.seek(node, 4 << 20, true), Ok((4 << 20) + 65536));
        assert_eq!(served.seek(node, 5 << 20, false), error(libc::ENXIO));
        served.change_range(node, 4 << 20, 65536, RangeChange::Punch, None).unwrap();
        assert_eq!(served.seek(node, 0, false), error(libc::ENXIO));
        let mut data = [1; 4096];
        assert_eq!(served.read(node, 4 << 20, &mut data, true), Ok(4096));
        assert!(data.iter().all(|byte| *byte == 0));
    }
}

#[test]
fn copies_on_refs_share_clusters() {
    let served = served("refs");
    let (from, to) = (Node(file(&served, "from").node), Node(file(&served, "to").node));
    served.write(from, 0, &[9; 70_000], false).unwrap();
    served.sync(Node::ROOT, SyncScope::All).unwrap();
    let before = served.volume_stat().unwrap();
    assert_eq!(before.cluster, 4096);
    assert_eq!(served.clone_range((from, 0), (to, 0), 70_000, None), Ok(69_632));
    assert_eq!(served.clone_range((from, 1), (to, 0), 5000, None), error(libc::EOPNOTSUPP));
    assert_eq!(served.clone_range((from, 69_632), (to, 69_632), 368, None), error(libc::EOPNOTSUPP));
    let mut data = vec![0; 70_000];
    assert_eq!(served.read(to, 0, &mut data, true), Ok(69_632));
    assert!(data[..69_632].iter().all(|byte| *byte == 9));
}

#[test]
fn after_the_device_fails_nothing_is_written_and_the_log_says_why() {
    for format in FORMATS {
        let faults = Arc::new(Faults::new(made(format), 1));
        let system = platter_formats::open(faults.clone(), OpenOptions::default()).unwrap();
        let (served, lines) = served_with(system, Options::of(0, 0, 0o022));
        let node = Node(file(&served, "file").node);
        served.sync(Node::ROOT, SyncScope::All).unwrap();
        faults.inject(When::from(Operation::Write, 0), Fault::Fail);
        let failed = (0..100)
            .find_map(|round| served.write(node, round * 4096, &[1; 4096], false).err())
            .or_else(|| served.sync(node, SyncScope::All).err());
        assert_eq!(failed, Some(Errno(libc::EIO)), "{format}");
        assert_eq!(served.write(node, 0, b"x", false), error(libc::EROFS), "{format}");
        let new = by(0, libc::S_IFREG | 0o644);
        assert_eq!(served.make_node(Node::ROOT, b"new", new).map(|_| ()), error(libc::EROFS));
        // No sync may report success after the failed write.
        assert_eq!(served.sync(node, SyncScope::Data), error(libc::EIO));
        assert_eq!(served.sync(Node::ROOT, SyncScope::All), error(libc::EIO));
        assert!(served.stat(node).is_ok(), "what can be read is read");
        let lines = lines.lock().unwrap();
        let told = lines.iter().filter(|line| line.contains("read-only from now on")).count();
        assert_eq!(told, 1, "{format}: {lines:?}");
    }
}

/// Serves a volume of a format, opened with the option to ignore case or without it.
fn served_by_case(format: &str, ignores_case: bool) -> (Served, Arc<dyn FileSystem>) {
    let opened = OpenOptions { ignores_case, ..OpenOptions::default() };
    let system = platter_formats::open(made(format), opened).unwrap();
    let options = Options { ignores_case, ..Options::of(0, 0, 0o022) };
    (served_with(system.clone(), options).0, system)
}

fn names(served: &Served) -> Vec<String> {
    let mut names = Vec::new();
    served
        .list(Node::ROOT, 2, false, |entry| {
            names.push(String::from_utf8(entry.name.clone()).unwrap());
            true
        })
        .unwrap();
    names.sort();
    names
}

/// Pairs of names that Windows takes for one.
const PAIRS: [(&str, &str); 4] = [("Note.txt", "note.TXT"), ("é", "É"), ("жук", "ЖУК"), ("Σ", "σ")];

#[test]
fn every_operation_has_the_same_rule_for_names() {
    for (format, ignores_case) in
        [("fat32", false), ("exfat", false), ("refs", false), ("ntfs", true), ("ntfs", false)]
    {
        for (name, other) in PAIRS {
            let (served, _) = served_by_case(format, ignores_case);
            let is_one = format != "ntfs" || ignores_case;
            let what = format!("{format} {ignores_case} {name} {other}");
            let (name, spelt) = (name.as_bytes(), other.as_bytes());
            let root = Node::ROOT;
            let there = file(&served, std::str::from_utf8(name).unwrap()).node;
            let temporary = file(&served, "temporary").node;
            let found = |name: &[u8]| served.lookup(root, name).map(|stat| stat.node);
            let is_there = if is_one { Ok(there) } else { error(libc::ENOENT) };
            assert_eq!((found(name), found(spelt)), (Ok(there), is_there), "{what}");
            if is_one {
                let refused = error(libc::EEXIST);
                let made = served.make_node(root, spelt, by(0, libc::S_IFREG | 0o644));
                assert_eq!(made.map(|_| ()), refused, "{what}");
                let made = served.make_directory(root, spelt, by(0, libc::S_IFDIR | 0o755));
                assert_eq!(made.map(|_| ()), refused, "{what}");
                // Nothing is removed that was not named.
                for flags in [RenameFlags::Replace, RenameFlags::NoReplace] {
                    assert_eq!(served.rename(root, b"temporary", root, spelt, flags), refused, "{what}");
                }
                if !format.contains("fat") {
                    assert_eq!(served.link(Node(temporary), root, spelt).map(|_| ()), refused, "{what}");
                }
                served.rename(root, name, root, spelt, RenameFlags::NoReplace).unwrap();
                assert!(names(&served).contains(&other.to_string()), "{what}");
                assert_eq!((names(&served).len(), found(name)), (2, Ok(there)), "{what}");
                served.unlink(root, name, Caller::ROOT).unwrap();
                assert_eq!(names(&served), ["temporary"], "{what}");
            } else {
                served.rename(root, b"temporary", root, spelt, RenameFlags::NoReplace).unwrap();
                assert_eq!((found(name), found(spelt)), (Ok(there), Ok(temporary)), "{what}");
                served.unlink(root, spelt, Caller::ROOT).unwrap();
                assert_eq!((found(name), found(spelt)), (Ok(there), error(libc::ENOENT)), "{what}");
                served.make_directory(root, spelt, by(0, libc::S_IFDIR | 0o755)).unwrap();
                served.remove_directory(root, spelt).unwrap();
                served.link(Node(there), root, spelt).unwrap();
                assert_eq!(names(&served).len(), 2, "{what}");
                served.unlink(root, name, Caller::ROOT).unwrap();
                served.rename(root, spelt, root, name, RenameFlags::NoReplace).unwrap();
                assert_eq!((found(name), found(spelt)), (Ok(there), error(libc::ENOENT)), "{what}");
            }
        }
    }
}

#[test]
fn names_of_devices_are_refused_if_that_is_wanted() {
    for format in FORMATS {
        let system = platter_formats::open(made(format), OpenOptions::default()).unwrap();
        let (served, _) = served_with(system, Options { windows_names: true, ..Options::of(0, 0, 0o022) });
        file(&served, "fine");
        for name in ["CON", "nul.txt", "COM1", "com¹.x", "LPT9"] {
            let made = served.make_node(Node::ROOT, name.as_bytes(), by(0, libc::S_IFREG | 0o644));
            assert_eq!(made.map(|_| ()), error(libc::EINVAL), "{format} {name}");
            let made = served.make_directory(Node::ROOT, name.as_bytes(), by(0, libc::S_IFDIR | 0o755));
            assert_eq!(made.map(|_| ()), error(libc::EINVAL), "{format} {name}");
            let moved = served.rename(Node::ROOT, b"fine", Node::ROOT, name.as_bytes(), RenameFlags::Replace);
            assert_eq!(moved, error(libc::EINVAL), "{format} {name}");
            // Those that are there are kept, and a mount without the option makes them.
            let free = self::served(format);
            file(&free, name);
        }
    }
}

#[test]
fn a_file_has_the_same_number_whenever_it_is_looked_at() {
    let device = made("ntfs");
    let mut numbers: Option<Vec<u64>> = None;
    for round in 0..2 {
        let system = platter_formats::open(device.clone(), OpenOptions::default()).unwrap();
        let (served, _) = served_with(system.clone(), Options::of(0, 0, 0o022));
        let directory = match round {
            0 => served.make_directory(Node::ROOT, b"directory", by(0, 0o755)).unwrap().node,
            _ => served.lookup(Node::ROOT, b"directory").unwrap().node,
        };
        let names: Vec<String> = (0..2000).map(|number| format!("file {number}")).collect();
        let numbers = numbers.get_or_insert_with(|| {
            let new = by(0, libc::S_IFREG | 0o644);
            let make = |name: &String| served.make_node(Node(directory), name.as_bytes(), new).unwrap().node;
            let mut made: Vec<u64> = names.iter().map(make).collect();
            served.sync_all().unwrap();
            made.iter().for_each(|node| served.forget(Node(*node), 1));
            made.push(directory);
            made
        });
        assert_eq!(numbers[2000], directory);
        // There are more files than unused nodes that the volume keeps in memory.
        for (name, number) in names.iter().zip(&*numbers) {
            let found = served.lookup(Node(directory), name.as_bytes()).unwrap().node;
            assert_eq!(found, *number, "{name}, round {round}");
            served.forget(Node(found), 1);
        }
        let mut listed = 0;
        served
            .list(Node(directory), 2, false, |entry| {
                let name = std::str::from_utf8(&entry.name).unwrap();
                let number: usize = name.strip_prefix("file ").unwrap().parse().unwrap();
                assert_eq!(entry.number, numbers[number], "{name}");
                listed += 1;
                true
            })
            .unwrap();
        assert_eq!(listed, 2000);
        system.unmount().unwrap();
    }
}

/// Every change of a file sets its change time, which backup programs compare with that of the last backup.
#[test]
fn all_that_changes_a_file_sets_its_change_time() {
    type Change = fn(&Served, Node);
    fn rename(served: &Served, from: &[u8], to: &[u8]) {
        served.rename(Node::ROOT, from, Node::ROOT, to, RenameFlags::Replace).unwrap();
    }
    fn link(served: &Served, node: Node, name: &[u8]) {
        served.link(node, Node::ROOT, name).unwrap();
    }
    let changes: [(&str, Change); 9] = [
        ("link", |served, node| link(served, node, b"second")),
        ("rename", |served, _| rename(served, b"file", b"first")),
        ("remove one of two names", |served, _| served.unlink(Node::ROOT, b"second", Caller::ROOT).unwrap()),
        ("set an attribute", |served, node| {
            served.set_attribute(node, b"user.one", b"1", SetAttribute::Any).unwrap();
        }),
        ("remove an attribute", |served, node| served.remove_attribute(node, b"user.one").unwrap()),
        ("chmod", |served, node| {
            let owner = OwnerChange { mode: Some(0o600), ..OwnerChange::default() };
            served.set_stat(node, &StatChange { owner, ..StatChange::default() }).unwrap();
        }),
        ("link again", |served, node| link(served, node, b"third")),
        ("replace one of two names", |served, _| {
            file(served, "other");
            rename(served, b"other", b"third");
        }),
        ("allocate", |served, node| {
            served.change_range(node, 0, 100_000, RangeChange::Allocate, None).unwrap();
        }),
    ];
    for format in ["ntfs", "refs"] {
        let served = served(format);
        let node = Node(file(&served, "file").node);
        for (what, change) in changes {
            let pause = || std::thread::sleep(std::time::Duration::from_millis(2));
            pause();
            // A write whose time is not on the volume yet neither hides the change nor replaces its time later.
            served.write(node, 0, b"x", false).unwrap();
            let before = served.stat(node).unwrap();
            assert_eq!(before.changed, before.modified, "{format}: {what}");
            pause();
            change(&served, node);
            let after = served.stat(node).unwrap();
            assert!(after.changed > before.changed, "{format}: {what}");
            let writes = what == "allocate";
            assert!(writes || after.modified == before.modified, "{format}: {what}");
            served.sync(Node::ROOT, SyncScope::All).unwrap();
            let synced = served.stat(node).unwrap();
            assert_eq!(
                (synced.changed, synced.modified),
                (after.changed, after.modified),
                "{format}: {what}"
            );
        }
    }
}

#[test]
fn two_entries_change_places() {
    for format in ["ntfs", "refs"] {
        let device = made(format);
        let system = platter_formats::open(device.clone(), OpenOptions::default()).unwrap();
        let (served, _) = served_with(system.clone(), Options::of(0, 0, 0o022));
        let directory = Node(served.make_directory(Node::ROOT, b"directory", by(0, 0o755)).unwrap().node);
        let below = Node(served.make_directory(directory, b"below", by(0, 0o755)).unwrap().node);
        let one = Node(file(&served, "a file of a longer name").node);
        let large = vec![7; 3 << 20];
        served.write(one, 0, &large, false).unwrap();
        let two = served.make_node(below, b"two", by(0, libc::S_IFREG | 0o644)).unwrap();
        served.write(Node(two.node), 0, b"two", false).unwrap();
        served.link(Node(two.node), Node::ROOT, b"again").unwrap();
        let exchange = |from, name: &str, to, other: &str| {
            served.rename(from, name.as_bytes(), to, other.as_bytes(), RenameFlags::Exchange)
        };
        let first = "a file of a longer name";
        assert_eq!(exchange(Node::ROOT, first, below, "none"), error(libc::ENOENT), "{format}");
        assert_eq!(exchange(Node::ROOT, "directory", below, "two"), error(libc::EINVAL), "{format}");
        assert_eq!(exchange(below, "two", Node::ROOT, "directory"), error(libc::EINVAL), "{format}");
        // Exchanged are files with one and with several names, a file and a directory, and two names in one directory.
        exchange(Node::ROOT, first, below, "two").unwrap();
        exchange(Node::ROOT, "again", directory, "below").unwrap();
        file(&served, "three");
        exchange(Node::ROOT, "three", Node::ROOT, first).unwrap();
        system.unmount().unwrap();

        let system = platter_formats::open(device.clone(), OpenOptions::default()).unwrap();
        let (served, _) = served_with(system.clone(), Options::of(0, 0, 0o022));
        let find = |at: Node, name: &str| Node(served.lookup(at, name.as_bytes()).unwrap().node);
        let directory = find(Node::ROOT, "directory");
        let read = |node| {
            let mut data = vec![0; 4 << 20];
            let got = served.read(node, 0, &mut data, true).unwrap();
            data.truncate(got);
            data
        };
        assert_eq!(read(find(directory, "below")), b"two", "{format}");
        assert_eq!(read(find(Node::ROOT, "three")), b"two", "{format}");
        assert_eq!(read(find(Node::ROOT, first)), b"", "{format}");
        let below = find(Node::ROOT, "again");
        assert!(read(find(below, "two")) == large, "{format}");
        assert_eq!(served.stat(find(directory, "below")).unwrap().links, 2, "{format}");
        ends_clean(&*system, &*device, format);
    }
}

#[test]
fn integrity_is_an_attribute_where_there_is_any() {
    let served_refs = served("refs");
    let node = Node(file(&served_refs, "file").node);
    served_refs.write(node, 0, &[5; 100_000], false).unwrap();
    let name = b"system.refs_integrity";
    let set = |value: &[u8]| served_refs.set_attribute(node, name, value, SetAttribute::Any);
    assert_eq!(served_refs.attribute_value(node, name).unwrap(), b"off");
    assert_eq!((set(b"on"), set(b"maybe")), (Ok(()), error(libc::EINVAL)));
    assert_eq!(served_refs.attribute_value(node, name).unwrap(), b"on");
    assert!(served_refs.system().integrity().unwrap().get(node).unwrap().enabled);
    assert_eq!(set(b"off"), Ok(()));
    assert!(!served_refs.system().integrity().unwrap().get(node).unwrap().enabled);
    let other = served("ntfs");
    let node = Node(file(&other, "file").node);
    assert_eq!(other.attribute_value(node, name).map(|_| ()), error(libc::EOPNOTSUPP));
}

#[test]
fn only_its_owner_changes_what_windows_knows_of_a_file() {
    for format in FORMATS {
        let served = served(format);
        let node = Node(file(&served, "file").node);
        let may = |name: &str, user| served.may_change_attribute(node, name.as_bytes(), user);
        assert_eq!(may("system.ntfs_attrib", 0), Ok(()), "{format}");
        assert_eq!(may("system.ntfs_attrib", 1000), error(libc::EPERM), "{format}");
        assert_eq!(may("user.any", 1000), Ok(()), "the kernel has looked at that one");
    }
}

#[test]
fn times_of_reading_are_kept_as_relatime_has_it() {
    let read = |served: &Served, node: Node| {
        served.read(node, 0, &mut [0; 512], true).unwrap();
        served.stat(node).unwrap()
    };
    for format in ["ntfs", "refs"] {
        let device = made(format);
        let open = |options: &str| {
            let system = platter_formats::open(device.clone(), OpenOptions::default()).unwrap();
            let mut all = Options::of(0, 0, 0o022);
            all.take(options).unwrap();
            (served_with(system.clone(), all).0, system)
        };
        let (served, system) = open("");
        let node = Node(file(&served, "file").node);
        served.write(node, 0, b"x", false).unwrap();
        let before = served.stat(node).unwrap();
        std::thread::sleep(Duration::from_millis(2));
        let first = read(&served, node);
        assert!(first.accessed > before.modified, "{format}: the first read after a change");
        assert_eq!((first.modified, first.changed), (before.modified, before.changed), "{format}");
        assert_eq!(read(&served, node).accessed, first.accessed, "{format}: newer than the change as it is");
        served.write(node, 0, b"y", false).unwrap();
        let again = read(&served, node);
        assert!(again.accessed > first.accessed, "{format}: the first read after another change");
        let unread = Node(file(&served, "unread").node);
        let new = served.stat(unread).unwrap();
        served.read(unread, 0, &mut [0; 512], false).unwrap();
        assert_eq!(served.stat(unread).unwrap().accessed, new.accessed, "{format}: O_NOATIME");
        let set = Timestamp { seconds: 1_000_000_000, nanoseconds: 0 };
        let was = read(&served, unread).accessed;
        let change = StatChange { accessed: Some(set), ..StatChange::default() };
        assert_eq!(served.set_stat(unread, &change).unwrap().accessed, set, "{format}: after {was:?}");
        // The access time that was set is more than a day old, so a read changes it.
        let new = read(&served, unread);
        assert!(new.accessed > was && new.changed > was, "{format}");
        let kept = (again.accessed, again.changed, new.accessed, new.changed);
        served.forget(node, 1);
        served.sync_all().unwrap();
        ends_clean(&*system, &*device, format);

        let times = |served: &Served| {
            let [one, other] =
                [b"file".as_slice(), b"unread"].map(|name| served.lookup(Node::ROOT, name).unwrap());
            (one.accessed, one.changed, other.accessed, other.changed)
        };
        for options in ["noatime", "ro,strictatime", ""] {
            let (served, system) = open(options);
            assert_eq!(times(&served), kept, "{format}: {options}");
            read(&served, served.lookup(Node::ROOT, b"file").map(|stat| Node(stat.node)).unwrap());
            assert_eq!(times(&served), kept, "{format}: {options}");
            system.unmount().unwrap();
        }
        let (served, system) = open("strictatime");
        let node = Node(served.lookup(Node::ROOT, b"file").unwrap().node);
        assert!(read(&served, node).accessed > again.accessed, "{format}: strictatime");
        system.unmount().unwrap();
    }
    // exFAT does not recover by itself after a crash, so a read changes no access time there.
    let served = served("exfat");
    let stat = file(&served, "file");
    assert_eq!(read(&served, Node(stat.node)).accessed, stat.accessed);
}

#[test]
fn files_can_have_all_the_room_that_is_said_to_be_theirs() {
    for format in FORMATS {
        let served = served(format);
        let node = Node(file(&served, "file").node);
        let room = served.volume_stat().unwrap();
        // The metadata of so large a file takes clusters as well.
        let bytes = room.available * room.cluster - (1 << 20);
        match format {
            "fat32" | "exfat" => {
                let size = Some(bytes);
                served.set_stat(node, &StatChange { size, ..StatChange::default() }).unwrap();
            }
            _ => served.change_range(node, 0, bytes, RangeChange::Allocate, None).unwrap(),
        }
        let left = served.volume_stat().unwrap();
        assert!(left.available * left.cluster <= 1 << 20, "{format}: {left:?} of {room:?}");
    }
}

/// One wrong bit makes a slash of an "o" in a name. The kernel would refuse the whole listing for it: the entry is
/// listed under a name that it takes, and found, moved and removed under that.
#[test]
fn a_name_with_a_slash_does_not_hide_the_directory() {
    let device = Arc::new(MemoryDevice::new(64 << 20, Sectors::SMALL));
    let format = platter_formats::by_name("ntfs").unwrap();
    format.make(&*device, &FormatOptions::default(), &Silent).unwrap();
    let system = platter_formats::open(device.clone(), OpenOptions::default()).unwrap();
    for name in ["boz", "bp", "other"] {
        system.create(Node::ROOT, &name.into(), Kind::File).unwrap();
    }
    system.unmount().unwrap();
    let mut image = device.to_image();
    let units = |name: &str| -> Vec<u8> { name.encode_utf16().flat_map(u16::to_le_bytes).collect() };
    let (right, wrong) = (units("boz"), units("b/z"));
    for at in (0..image.len() - right.len()).step_by(2) {
        if image[at..].starts_with(&right) {
            image[at..at + wrong.len()].copy_from_slice(&wrong);
        }
    }
    let device = Arc::new(MemoryDevice::from_image(&image, Sectors::SMALL));
    let (served, _) =
        served_with(platter_formats::open(device, OpenOptions::default()).unwrap(), Options::of(0, 0, 0o022));
    let listed = || {
        let mut names = Vec::new();
        let take = |entry: &platter_mount::Listed| {
            names.push(String::from_utf8(entry.name.clone()).unwrap());
            true
        };
        served.list(Node::ROOT, 2, false, take).unwrap();
        names.retain(|name| name.starts_with(['b', 'm', 'o']));
        names
    };
    assert_eq!(listed(), ["b\u{FFFD}z", "bp", "other"]);
    let name = "b\u{FFFD}z".as_bytes();
    let stat = served.lookup(Node::ROOT, name).unwrap();
    served.forget(Node(stat.node), 1);
    served.rename(Node::ROOT, name, Node::ROOT, b"moved", RenameFlags::NoReplace).unwrap();
    assert_eq!(listed(), ["bp", "moved", "other"]);
}

/// A junction, or a symbolic link of Windows, whose substitute name is `followed` and which has no print name.
fn windows_link(tag: u32, is_relative: bool, followed: &str) -> Reparse {
    let units: Vec<u8> = followed.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let length = (units.len() as u16).to_le_bytes();
    let mut data = [[0, 0], length, length, [0, 0]].concat();
    if tag == 0xA000_000C {
        data.extend(u32::from(is_relative).to_le_bytes());
    }
    data.extend(units);
    Reparse { tag, data }
}

/// Absolute links of Windows lead to what they name on the volume, under the names that the mount has.
#[test]
fn absolute_links_of_windows_lead_into_the_volume() {
    const JUNCTION: u32 = 0xA000_0003;
    const SYMLINK: u32 = 0xA000_000C;
    for format in ["ntfs", "refs"] {
        let system = platter_formats::open(made(format), OpenOptions::default()).unwrap();
        let users = system.create(Node::ROOT, &"Users".into(), Kind::Directory).unwrap();
        let all = system.create(users, &"All Users".into(), Kind::Directory).unwrap();
        system.create(all, &"file".into(), Kind::File).unwrap();
        let link = |name: &str, point: Reparse| {
            let kind = Kind::SymbolicLink;
            let new = NewEntry { kind, point: Some(&point), extended: &[] };
            system.make(Node::ROOT, &name.into(), &new).unwrap()
        };
        let nodes = [
            link("a", windows_link(JUNCTION, false, r"\??\C:\USERS\all users")),
            link("b", windows_link(SYMLINK, false, r"\??\D:\Users\All Users\FILE")),
            link("c", windows_link(SYMLINK, true, r"\users")),
            // Behind a link the names are taken as they are: what it leads to has them.
            link("d", windows_link(JUNCTION, false, r"\??\C:\A\File")),
            link("e", windows_link(JUNCTION, false, r"\??\C:\")),
            link("f", windows_link(SYMLINK, false, r"\??\C:\Missing\file")),
            link("g", windows_link(SYMLINK, false, r"\??\D:\Users\missing")),
            link("h", windows_link(JUNCTION, false, r"\??\Volume{600f0b69-5bdf-11e3-9d6c-005056c00008}\x")),
            link("i", windows_link(SYMLINK, true, r"..\Users")),
        ];
        let linux = system.symlink(Node::ROOT, &"j".into(), "/Users").unwrap();
        let targets = |drive: Option<Option<char>>| {
            let windows_links = drive.map(|drive| WindowsLinks { drive, at: b"/mnt/v".to_vec() });
            let (served, lines) =
                served_with(system.clone(), Options { windows_links, ..Options::of(0, 0, 0o022) });
            let text = |node: Node| String::from_utf8(served.read_link(node).unwrap()).unwrap();
            let found: Vec<String> = nodes.iter().map(|node| text(*node)).collect();
            assert_eq!(text(linux), "/Users", "a link of Linux leads where it says");
            // What is elsewhere is told once.
            nodes.iter().for_each(|node| drop(text(*node)));
            let lines = lines.lock().unwrap().clone();
            (found, lines)
        };
        let (stored, lines) = targets(None);
        assert!(lines.is_empty());
        assert!(!stored.iter().any(|target| target.starts_with("/mnt")), "{stored:?}");
        let (any, lines) = targets(Some(None));
        let inside = ["/Users/All Users", "/Users/All Users/file", "/Users", "/a/File", ""];
        let inside = inside.map(|path| format!("/mnt/v{path}"));
        assert_eq!(any[..5], inside, "{format}");
        assert_eq!(any[5..], stored[5..], "{format}");
        assert_eq!(lines.len(), 3, "{lines:?}");
        let (only, lines) = targets(Some(Some('c')));
        assert_eq!((&only[0], &only[1], &only[2]), (&inside[0], &stored[1], &inside[2]), "{format}");
        assert!(lines.iter().any(|line| line.contains("drive D:")), "{lines:?}");
    }
}

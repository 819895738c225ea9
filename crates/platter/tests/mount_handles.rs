//! File handles, by which NFS and backup programs find files without their names: name_to_handle_at(2) and
//! open_by_handle_at(2). Needs root, `/dev/fuse` and Python.

use crate::common::mount::{FORMATS, Mount, WITH_OWNERS};
use std::fs;
use std::process::Output;

/// `take PATH...` prints a handle for each path. `open DIR HANDLE...` prints of each handle how it was opened: the content of
/// a file, the names in a directory and in the one above it, or the error.
const SCRIPT: &str = r#"
import ctypes, errno, os, stat, sys
libc = ctypes.CDLL(None, use_errno=True)
class Handle(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_uint), ("type", ctypes.c_int), ("value", ctypes.c_ubyte * 128)]
if sys.argv[1] == "take":
    for path in sys.argv[2:]:
        handle, mount = Handle(bytes=128), ctypes.c_int()
        if libc.name_to_handle_at(-100, path.encode(), ctypes.byref(handle), ctypes.byref(mount), 0) != 0:
            print(errno.errorcode[ctypes.get_errno()])
        else:
            print(f"{handle.type}:{bytes(handle.value[:handle.bytes]).hex()}")
else:
    mount = os.open(sys.argv[2], os.O_RDONLY)
    for text in sys.argv[3:]:
        kind, value = text.split(":")
        value = bytes.fromhex(value)
        handle = Handle(bytes=len(value), type=int(kind))
        handle.value[:len(value)] = value
        file = libc.open_by_handle_at(mount, ctypes.byref(handle), os.O_RDONLY)
        if file < 0:
            print(errno.errorcode[ctypes.get_errno()])
        elif stat.S_ISDIR(os.fstat(file).st_mode):
            names = lambda file: ",".join(sorted(os.listdir(file)))
            above = os.open("..", os.O_RDONLY, dir_fd=file)
            print(f"{names(file)} in {names(above)}")
        else:
            print(os.read(file, 100).decode())
"#;

struct Handles<'m>(&'m Mount);

impl Handles<'_> {
    fn script(&self, arguments: &[&str]) -> Vec<String> {
        let arguments = [&["-c", SCRIPT], arguments].concat();
        let output: Output = self.0.place.command("python3", &arguments).output().expect("python3 is needed");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap().lines().map(String::from).collect()
    }

    fn take(&self, paths: &[&str]) -> Vec<String> {
        self.script(&[&["take"], paths].concat())
    }

    fn open(&self, handles: &[String]) -> Vec<String> {
        let handles: Vec<&str> = handles.iter().map(String::as_str).collect();
        self.script(&[&["open", "m"], &handles[..]].concat())
    }
}

fn forget_all() {
    fs::write("/proc/sys/vm/drop_caches", "3").unwrap();
}

#[test]
fn files_are_found_by_their_handles() {
    for format in WITH_OWNERS {
        let mount = Mount::new("handles", format);
        let handles = Handles(&mount);
        fs::create_dir_all(mount.at("a/b/c")).unwrap();
        fs::write(mount.at("a/b/c/file"), "content").unwrap();
        fs::write(mount.at("a/moved"), "moved").unwrap();
        fs::write(mount.at("a/one"), "linked").unwrap();
        fs::hard_link(mount.at("a/one"), mount.at("a/two")).unwrap();
        fs::write(mount.at("a/removed"), "removed").unwrap();
        let paths = ["m/a/b/c/file", "m/a/b/c", "m", "m/a/moved", "m/a/two", "m/a/removed"];
        let taken = handles.take(&paths);
        let mut expected = ["content", "file in c", "a in m", "moved", "linked", "removed"].map(String::from);
        expected[2] = handles.open(&taken[2..3]).remove(0);
        assert_eq!(handles.open(&taken), expected, "{format}");
        forget_all();
        assert_eq!(handles.open(&taken), expected, "{format}");
        fs::rename(mount.at("a/moved"), mount.at("a/b/c/other")).unwrap();
        fs::remove_file(mount.at("a/one")).unwrap();
        fs::remove_file(mount.at("a/removed")).unwrap();
        // What came later is not what the handle was taken of.
        for number in 0..50 {
            fs::write(mount.at(&format!("a/new {number}")), "another").unwrap();
        }
        expected[1] = "file,other in c".into();
        expected[5] = "ESTALE".into();
        forget_all();
        assert_eq!(handles.open(&taken), expected, "{format}");
        mount.end();
        mount.mount("");
        let after = handles.open(&taken);
        // ReFS names a file after the directory that it was made in, which is still there.
        assert_eq!(after, expected, "{format}");
        mount.end();
    }
}

#[test]
fn a_handle_of_a_stream_or_of_what_the_volume_keeps_for_itself_opens_nothing() {
    for format in WITH_OWNERS {
        let mount = Mount::new("handles-of-none", format);
        mount.end();
        mount.mount("-o streams_interface=windows");
        fs::write(mount.at("file"), "content").unwrap();
        fs::write(mount.at("file:stream"), "stream").unwrap();
        let handles = Handles(&mount);
        let taken = handles.take(&["m/file", "m/file:stream"]);
        forget_all();
        assert_eq!(handles.open(&taken), ["content", "ESTALE"], "{format}");
        // Node number, in two halves of which the higher one comes first, and generation.
        let forged = |number: u64| {
            let words = [(number >> 32) as u32, number as u32, 0];
            let bytes: String =
                words.iter().flat_map(|word| word.to_le_bytes()).map(|byte| format!("{byte:02x}")).collect();
            format!("129:{bytes}")
        };
        let own = |number: u64| forged(number);
        let file =
            fs::metadata(mount.at("file")).map(|data| std::os::unix::fs::MetadataExt::ino(&data)).unwrap();
        assert_eq!(handles.open(&[own(file)]), ["content"], "{format}");
        let mut numbers: Vec<u64> =
            (2..200).chain([1 << 40, 1 << 47, (1 << 47) + 1, u64::MAX, u64::MAX >> 1]).collect();
        // The records of the volume's own files, and its own objects.
        numbers.extend((0..64).flat_map(|number| (0..30).map(move |sequence| number | sequence << 48)));
        numbers.extend((0x500..0x710).map(|object| object << 31));
        numbers.retain(|number| *number != 1 && *number != file);
        for forged in numbers.iter().copied().map(own).collect::<Vec<_>>().chunks(200) {
            let opened = handles.open(forged);
            assert!(opened.iter().all(|one| one == "ESTALE"), "{format}: {opened:?}");
        }
        mount.end();
    }
}

#[test]
fn formats_without_numbers_open_nothing_by_handle() {
    for format in FORMATS.into_iter().filter(|format| !WITH_OWNERS.contains(format)) {
        let mount = Mount::new("no-handles", format);
        fs::write(mount.at("file"), "content").unwrap();
        let taken = Handles(&mount).take(&["m/file"]);
        assert_eq!(taken, ["ENOTSUP"], "{format}");
        mount.end();
    }
}

//! Names that differ in case alone, on a mount and through the kernel, which takes each spelling for a name of its own.
//! Needs root, `/dev/fuse`, git, rsync and tar.

use crate::common::mount::{FORMATS, Mount};
use std::fs;
use std::path::PathBuf;

/// The formats on which names match whatever their case, with the option that makes it so.
const INSENSITIVE: [(&str, &str); 4] =
    [("fat32", "-o rw"), ("exfat", "-o rw"), ("refs", "-o rw"), ("ntfs", "-o ignore_case")];

fn mounted(format: &str, options: &str) -> Mount {
    let mount = Mount::new("names", format);
    mount.end();
    mount.mount(options);
    mount
}

fn listed(at: PathBuf) -> Vec<String> {
    let name = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
    let mut names: Vec<String> = fs::read_dir(at).unwrap().map(name).collect();
    names.sort();
    names
}

#[test]
fn a_file_is_found_under_every_spelling_and_can_be_spelt_anew() {
    for (format, options) in INSENSITIVE {
        let mount = mounted(format, options);
        let at = |name: &str| mount.at(name);
        fs::write(at("Note.txt"), "1").unwrap();
        for spelling in ["NOTE.TXT", "note.txt", "Note.txt"] {
            assert_eq!(fs::read(at(spelling)).unwrap(), b"1", "{format} {spelling}");
        }
        // With the second spelling unknown to the kernel, known, known and in use, and known as the name of nothing.
        mount.shell("mv m/Note.txt m/note.TXT");
        assert_eq!(listed(at("")), ["note.TXT"], "{format}");
        for (from, to) in [("note.TXT", "NOTE.TXT"), ("NOTE.TXT", "nOTE.TXT"), ("nOTE.TXT", "note.txt")] {
            assert!(at(to).exists());
            let held = fs::File::open(at(to)).unwrap();
            fs::rename(at(from), at(to)).unwrap();
            assert_eq!(listed(at("")), [to], "{format}");
            assert!(at(from).exists() && at(to).exists(), "{format}");
            drop(held);
        }
        // A file that is removed or moved under one spelling is there under none.
        let held = fs::File::open(at("note.txt")).unwrap();
        fs::remove_file(at("Note.txt")).unwrap();
        assert!(!at("note.txt").exists() && !at("Note.txt").exists(), "{format}");
        assert_eq!(held.metadata().unwrap().len(), 1, "{format}");
        drop(held);
        fs::write(at("note.txt"), "2").unwrap();
        assert!(at("NOTE.txt").exists(), "{format}");
        fs::rename(at("NOTE.txt"), at("other")).unwrap();
        assert!(!at("note.txt").exists() && at("OTHER").exists(), "{format}");
        // Nothing that was not named is removed.
        fs::write(at("note"), "3").unwrap();
        for _ in 0..2 {
            let refused = fs::rename(at("note"), at("Other")).unwrap_err();
            assert_eq!(refused.raw_os_error(), Some(libc::EEXIST), "{format}");
            assert_eq!(fs::read(at("other")).unwrap(), b"2", "{format}");
            assert!(at("OTHER").exists());
        }
        mount.end();
    }
}

#[test]
fn a_directory_is_found_under_every_spelling_and_can_be_spelt_anew() {
    for (format, options) in INSENSITIVE {
        let mount = mounted(format, options);
        let at = |name: &str| mount.at(name);
        fs::create_dir(at("Dir")).unwrap();
        fs::write(at("Dir/file"), "1").unwrap();
        assert_eq!(fs::read(at("DIR/FILE")).unwrap(), b"1", "{format}");
        mount.shell("mv m/Dir m/dir");
        assert_eq!(listed(at("")), ["dir"], "{format}");
        assert!(at("DIR").exists());
        fs::rename(at("dir"), at("DIR")).unwrap();
        assert_eq!(listed(at("")), ["DIR"], "{format}");
        assert!(fs::create_dir(at("dir")).is_err());
        fs::rename(at("dir/file"), at("DIR/FILE")).unwrap();
        assert_eq!(listed(at("Dir")), ["FILE"], "{format}");
        fs::remove_file(at("dir/File")).unwrap();
        fs::remove_dir(at("dir")).unwrap();
        assert!(!at("DIR").exists() && listed(at("")).is_empty(), "{format}");
        mount.end();
    }
}

/// A tree from a system that tells names apart by case. Where the volume does not, programs notice.
#[test]
fn programs_copy_trees_with_names_that_differ_in_case() {
    for (format, options) in INSENSITIVE.into_iter().chain([("ntfs", "-o rw")]) {
        let mount = mounted(format, options);
        let is_one = options != "-o rw" || format != "ntfs";
        mount.shell(
            "mkdir src && cd src && git init -q . && echo 1 > README && echo 2 > readme && git add . \
             && git -c user.name=a -c user.email=a@b commit -qm 1",
        );
        mount.shell("git clone -q src m/clone 2> said");
        let said = fs::read_to_string(mount.place.path("said")).unwrap();
        assert_eq!(said.contains("collided"), is_one, "{format} {options}: {said}");
        let count = |of: &str| listed(mount.at(of)).iter().filter(|name| *name != ".git").count();
        assert_eq!(count("clone"), if is_one { 1 } else { 2 }, "{format} {options}");
        let case = mount.shell("git -C m/clone config --get core.ignorecase || echo unset");
        assert_eq!(case.trim() == "true", is_one, "{format} {options}: {case}");
        // The second file is refused, and the first one stays as it is.
        mount.shell("rsync -rt --exclude .git src/ m/r/ && echo whole > ended || echo cut > ended");
        let ended = fs::read_to_string(mount.place.path("ended")).unwrap();
        assert_eq!(ended.trim() == "whole", !is_one, "{format} {options}");
        assert_eq!(fs::read(mount.at("r/README")).unwrap(), b"1\n", "{format} {options}");
        assert_eq!(count("r"), if is_one { 1 } else { 2 }, "{format} {options}");
        mount.end();
    }
}

#[test]
fn ntfs_keeps_names_that_differ_in_case_side_by_side() {
    let mount = mounted("ntfs", "-o rw");
    for name in ["Note.txt", "note.txt", "NOTE.TXT", "É", "é"] {
        fs::write(mount.at(name), name).unwrap();
    }
    assert_eq!(listed(mount.at("")).len(), 5);
    fs::rename(mount.at("Note.txt"), mount.at("note.txt")).unwrap();
    assert!(!mount.at("Note.txt").exists());
    assert_eq!(fs::read(mount.at("note.txt")).unwrap(), b"Note.txt");
    fs::remove_file(mount.at("NOTE.TXT")).unwrap();
    assert_eq!(listed(mount.at("")), ["note.txt", "É", "é"]);
    mount.end();
    // The rule is the same without a mount.
    fs::write(mount.place.path("NOTE.TXT"), "new").unwrap();
    mount.place.works("cp NOTE.TXT disk.img:/");
    assert_eq!(mount.place.works("cat disk.img:/note.txt"), "Note.txt");
    assert_eq!(mount.place.works("cat disk.img:/NOTE.TXT"), "new");
}

#[test]
fn a_short_name_belongs_to_nobody() {
    for format in FORMATS.into_iter().filter(|format| format.starts_with("fat")) {
        let mount = Mount::new("names", format);
        fs::write(mount.at("longfilename.txt"), "long").unwrap();
        assert!(!mount.at("LONGFI~1.TXT").exists(), "{format}");
        fs::write(mount.at("temporary"), "short").unwrap();
        fs::rename(mount.at("temporary"), mount.at("longfi~1.txt")).unwrap();
        assert_eq!(fs::read(mount.at("longfilename.txt")).unwrap(), b"long", "{format}");
        assert_eq!(fs::read(mount.at("longfi~1.txt")).unwrap(), b"short", "{format}");
        assert!(!mount.at("LONGFI~2.TXT").exists(), "{format}");
        mount.end();
    }
}

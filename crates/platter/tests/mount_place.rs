//! Mounts that were bound elsewhere or are covered, images that were renamed, and what a mount takes from its caller.

use crate::common::mount::{FORMATS, Mount, kill, mount_known};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// Waits until a process has ended.
fn wait_for(process: u32) {
    let start = Instant::now();
    while Path::new(&format!("/proc/{process}")).exists() {
        assert!(start.elapsed() < Duration::from_secs(20), "the process does not end");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_signal_leaves_what_others_mounted_over_a_mount() {
    let mount = Mount::new("covered", "exfat");
    mount.end();
    let process = mount_known(&mount, &["--log", "log"]);
    mount.shell("mount -t tmpfs none m && touch m/other");
    kill("-TERM", process);
    let start = Instant::now();
    while !fs::read_to_string(mount.place.path("log")).is_ok_and(|log| log.contains("is mounted over it")) {
        assert!(start.elapsed() < Duration::from_secs(20), "nothing is told");
        thread::sleep(Duration::from_millis(20));
    }
    mount.shell("test -e m/other && umount m && touch m/ours");
    // What is in use is closed by a second signal, as far as it was written.
    let used = fs::File::open(mount.at("ours")).unwrap();
    kill("-TERM", process);
    wait_for(process);
    drop(used);
    mount.shell("umount m");
    assert!(mount.place.works("check disk.img").contains("no damage"));
    assert_eq!(mount.place.works("ls disk.img"), "ours\n");
}

#[test]
fn a_signal_finds_a_mount_that_was_bound_elsewhere() {
    let mount = Mount::new("bound", "exfat");
    mount.end();
    let process = mount_known(&mount, &[]);
    mount.shell("mkdir n && mount --bind m n && umount m && touch n/file");
    kill("-TERM", process);
    wait_for(process);
    assert_eq!(mount.shell("ls n"), "");
    assert!(mount.place.works("check disk.img").contains("no damage"));
    assert_eq!(mount.place.works("ls disk.img"), "file\n");
}

#[test]
fn a_mount_keeps_no_file_and_no_limit_of_its_caller() {
    let mount = Mount::new("caller", "ntfs");
    mount.end();
    let platter = env!("CARGO_BIN_EXE_platter");
    mount.shell(&format!("exec 9> lock; flock 9; ulimit -S -f 20; {platter} mount disk.img m"));
    mount.shell("flock -n lock true");
    mount.shell("head -c 4000000 /dev/urandom > m/file && cmp m/file m/file && sync m/file");
    mount.end();
}

#[test]
fn an_image_with_the_name_that_a_mounted_one_had_is_free() {
    let mount = Mount::new("renamed", "exfat");
    mount.shell("touch m/old && mv disk.img other.img && mkdir n");
    mount.place.works("mkfs exfat disk.img --size 64M");
    mount.place.works("mount disk.img n");
    mount.shell("touch n/new");
    mount.place.ends(0, "umount n");
    assert_eq!(mount.place.works("ls disk.img"), "new\n");
    mount.place.ends(0, "umount m");
    // The command does not wait for a file that was renamed.
    mount.shell("flock other.img true");
    assert_eq!(mount.place.works("ls other.img"), "old\n");
}

#[test]
fn cutting_a_file_to_the_size_it_has_changes_its_time() {
    for format in FORMATS {
        let mount = Mount::new("cut", format);
        for cut in [": > m/file", "truncate -s 0 m/file"] {
            mount.shell("touch -d 2001-01-01 m/file");
            mount.shell(cut);
            let modified = fs::metadata(mount.at("file")).unwrap().mtime();
            assert!(modified > 1_500_000_000, "{format}: {cut}: {modified}");
        }
        // What the attributes of Windows say is seen at once, although the kernel keeps attributes.
        mount.shell("stat m/file && setfattr -n system.ntfs_attrib -v 0x01000000 m/file");
        assert_eq!(fs::metadata(mount.at("file")).unwrap().mode() & 0o222, 0, "{format}");
        mount.end();
    }
}

/// The desktop calls a script for a double click on an image.
#[test]
fn a_double_click_on_an_image_shows_its_volume() {
    let mount = Mount::new("clicked", "ntfs");
    mount.shell("echo one > m/list.txt");
    mount.end();
    let programs = Path::new(env!("CARGO_BIN_EXE_platter")).parent().unwrap().display().to_string();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/desktop/open");
    let all = r#"
        mkdir bin run other
        printf '#!/bin/sh\necho "$1" >> shown\ncat "$1/list.txt"\n' > bin/xdg-open
        chmod 755 bin/xdg-open
        export PATH="$PWD/bin:$PROGRAMS:$PATH" XDG_RUNTIME_DIR="$PWD/run"
        unset DISPLAY WAYLAND_DISPLAY
        test "$("$SCRIPT" disk.img)" = one
        # Once more it is only shown, and at the same place.
        test "$("$SCRIPT" ./other/../disk.img)" = one
        test "$(sort -u shown | wc -l) $(wc -l < shown)" = "1 2"
        "$SCRIPT" --unmount disk.img
        ls run/*
        # What it cannot open leaves nothing, and says why.
        echo text > text.img
        if "$SCRIPT" text.img 2> why; then exit 1; fi
        grep -q text.img why
        # A place that another user prepared is not used.
        rm -r run/platter-*
        ln -s "$PWD/other" "run/platter-$(id -u)"
        if "$SCRIPT" disk.img 2> why; then exit 1; fi
        grep -q 'not a directory of this user' why
    "#;
    let said = mount.shell(&format!("PROGRAMS='{programs}'\nSCRIPT='{script}'\n{all}"));
    assert_eq!(said, "");
    assert!(mount.place.works("check disk.img").contains("no damage"));
}

//! Streams, snapshots, integrity and the state of a mounted volume, with the commands for them. Needs root, `/dev/fuse`,
//! setfattr and fusermount3.

use crate::common::content;
use crate::common::mount::{FORMATS, Mount, WITH_OWNERS};
use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};

/// Mounts so that streams are files.
fn with_streams(format: &str) -> Mount {
    let mount = Mount::new("streams", format);
    mount.end();
    mount.mount("-o streams_interface=windows");
    mount
}

#[test]
fn a_stream_is_a_file_with_a_colon_in_its_name() {
    for format in WITH_OWNERS {
        let mount = with_streams(format);
        let bytes = content(3, 3_000_000);
        fs::write(mount.at("file"), "content").unwrap();
        fs::write(mount.at("file:notes"), &bytes).unwrap();
        assert!(fs::read(mount.at("file:notes")).unwrap() == bytes, "{format}");
        let is_found = fs::read(mount.at("FILE:notes")).is_ok();
        assert_eq!(is_found, format == "refs", "{format}: the file has the rule of all names");
        assert_eq!(fs::read(mount.at("file:NOTES:$DATA")).unwrap().len(), bytes.len(), "as Windows names it");
        assert_eq!(fs::read(mount.at("file")).unwrap(), b"content");
        assert_eq!(mount.shell("ls m"), "file\n", "{format}: a listing shows no streams");
        mount.shell("mkdir m/sub && echo of a directory > m/sub:about && grep directory m/sub:about");

        // A part of a stream is changed, cut and appended to like a file.
        let stream = fs::File::options().write(true).open(mount.at("file:notes")).unwrap();
        stream.write_all_at(b"changed", 1_000_000).unwrap();
        stream.set_len(1_000_010).unwrap();
        stream.sync_all().unwrap();
        drop(stream);
        let now = fs::read(mount.at("file:notes")).unwrap();
        assert!(now[..1_000_000] == bytes[..1_000_000] && now[1_000_000..1_000_007] == *b"changed");
        assert_eq!(now.len(), 1_000_010);

        // Who may use the file may use its streams, and nobody else.
        mount.shell("chown 1234:1234 m/file && chmod 640 m/file");
        let seen = fs::metadata(mount.at("file:notes")).unwrap();
        assert_eq!((seen.uid(), seen.mode() & 0o7777, seen.nlink()), (1234, 0o640, 1), "{format}");
        mount.shell("chmod 600 m/file:notes");
        assert_eq!(fs::metadata(mount.at("file")).unwrap().mode() & 0o7777, 0o600, "{format}");

        // A stream goes where its file goes.
        mount.shell("mv m/file m/other");
        assert!(!mount.at("file:notes").exists() && mount.at("other:notes").exists(), "{format}");
        mount.shell("mv m/other:notes m/other:moved && cp m/other:moved m/copy");
        assert!(fs::read(mount.at("copy")).unwrap() == now && !mount.at("other:notes").exists());
        let refused = |name: &str| fs::write(mount.at(name), "x").unwrap_err().raw_os_error();
        assert_eq!(refused("missing:stream"), Some(2), "{format}");
        assert_eq!(refused("other:a:b"), Some(22), "{format}");
        assert!(fs::hard_link(mount.at("other:moved"), mount.at("link")).is_err());
        let held = fs::File::open(mount.at("other:moved")).unwrap();
        fs::remove_file(mount.at("other:moved")).unwrap();
        assert!(!mount.at("other:moved").exists(), "{format}");
        let mut start = [0; 16];
        held.read_exact_at(&mut start, 0).unwrap();
        assert!(start == bytes[..16], "{format}: a stream that is open stays");
        drop(held);
        fs::write(mount.at("other:left"), "left").unwrap();
        mount.shell("rm m/copy");
        mount.end();
        assert_eq!(mount.place.works("attr get disk.img:/other stream:left"), "left", "{format}");
        assert!(mount.place.works("attr list disk.img:/sub").contains("stream:about"), "{format}");
    }
}

#[test]
fn snapshots_of_a_mounted_file_are_made_read_and_removed() {
    let mount = with_streams("refs");
    let place = &mount.place;
    let bytes = content(5, 2_000_000);
    fs::write(mount.at("file"), &bytes).unwrap();
    place.works("attr set m/file snapshot:monday");
    fs::write(mount.at("file"), "Tuesday").unwrap();
    mount.shell("setfattr -n system.refs_snapshot.tuesday m/file");
    let (_, said) = place.ends(1, "attr set m/file snapshot:Monday");
    assert!(said.contains("exists"), "{said}");
    let listed = place.works("attr list m/file");
    assert!(listed.contains("     2000000  snapshot:monday\n"), "{listed}");
    assert!(listed.contains("           7  snapshot:tuesday\n"), "{listed}");
    assert!(fs::read(mount.at("file:monday")).unwrap() == bytes);
    assert_eq!(place.works("attr get m/file snapshot:tuesday"), "Tuesday");
    let seen = fs::metadata(mount.at("file:monday")).unwrap();
    assert_eq!(seen.permissions().mode() & 0o222, 0, "a snapshot cannot be written");
    assert!(fs::write(mount.at("file:monday"), "x").is_err());
    mount.shell("cp m/file:monday m/restored && rm m/file:monday");
    assert!(fs::read(mount.at("restored")).unwrap() == bytes);
    place.works("attr remove m/file snapshot:tuesday");
    let (_, said) = place.ends(1, "attr remove m/file snapshot:tuesday");
    assert!(said.contains("has no snapshot:tuesday"), "{said}");
    assert!(!place.works("attr list m/file").contains("snapshot"));
    mount.end();
}

#[test]
fn what_a_mounted_file_has_besides_its_content_is_shown_and_changed() {
    for format in WITH_OWNERS {
        let mount = Mount::new("attributes", format);
        let place = &mount.place;
        mount.shell("echo content > m/file && printf '\\033\\000\\000\\200\\002\\000\\000\\000xy' > point");
        fs::write(place.path("value"), "value").unwrap();
        place.works("attr set m/file ea:user.one value");
        place.works("attr set m/file reparse point");
        assert!(place.platter("attr get m/file security").stdout.len() > 20, "{format}");
        assert_eq!(place.works("attr get m/file ea:user.one"), "value", "{format}");
        let listed = place.works("attr list m/file");
        assert!(listed.contains("           5  ea:user.one\n"), "{listed}");
        assert!(listed.contains("          10  reparse 0x8000001b\n"), "{listed}");
        place.works("attr remove m/file reparse");
        place.works("attr remove m/file ea:user.one");
        let (_, said) = place.ends(1, "attr get m/file ea:user.one");
        assert!(said.contains("has no ea:user.one"), "{said}");
        mount.end();
        // Without the option a stream is listed, and its content is not shown.
        place.works("attr set disk.img:/file stream:notes value");
        mount.mount("");
        assert!(place.works("attr list m/file").contains("           ?  stream:notes\n"));
        for command in
            ["get m/file stream:notes", "set m/file stream:notes value", "remove m/file stream:notes"]
        {
            let (_, said) = place.ends(1, &format!("attr {command}"));
            assert!(said.contains("-o streams_interface=windows"), "{format}: {command}: {said}");
        }
        mount.end();
        mount.mount("-o streams_interface=windows");
        assert_eq!(place.works("attr get m/file stream:notes"), "value");
        place.works("attr set m/file stream:notes point");
        assert!(place.works("attr list m/file").contains("          10  stream:notes\n"));
        place.works("attr remove m/file stream:notes");
        assert!(!place.works("attr list m/file").contains("stream"));
        mount.end();
    }
}

#[test]
fn integrity_of_mounted_files_is_shown_and_changed() {
    let mount = Mount::new("integrity", "refs");
    let place = &mount.place;
    mount.shell("mkdir m/d && seq 100000 > m/d/file && ln -s file m/d/link");
    assert_eq!(place.works("integrity get -r m/d"), "off  m/d\noff  m/d/file\n");
    place.works("integrity set -r m/d on");
    assert_eq!(place.works("integrity get m/d/file"), "on   m/d/file\n");
    mount.shell("echo new > m/d/new");
    let rows: serde_json::Value =
        serde_json::from_str(&place.works("integrity get --json m/d m/d/new")).unwrap();
    assert_eq!((rows[0]["kind"].as_str(), rows[1]["enabled"].as_bool()), (Some("directory"), Some(true)));
    assert_eq!(mount.shell("seq 100000 | cmp - m/d/file"), "");
    mount.end();
    assert_eq!(place.works("integrity get disk.img:/d/file"), "on   disk.img:/d/file\n");
    let other = Mount::new("integrity", "exfat");
    let (_, said) = other.place.ends(1, "integrity get m");
    assert!(said.contains("has no integrity streams"), "{said}");
    other.end();
}

#[test]
fn the_state_of_a_mount_is_shown() {
    for format in FORMATS {
        let mount = Mount::new("status", format);
        let place = &mount.place;
        let used = fs::File::create(mount.at("file")).unwrap();
        let said = place.works("status m");
        assert!(said.lines().any(|line| line.starts_with("writable ") && line.ends_with(" yes")), "{said}");
        let has = |name: &str| said.lines().any(|line| line.starts_with(name) && line.contains(" MiB"));
        assert!(
            has("space ") && has("free ") && said.contains("none since it was mounted"),
            "{format}: {said}"
        );
        assert!(said.contains(&format!("({})", std::process::id())), "{format}: who uses it: {said}");
        drop(used);
        mount.end();
        mount.mount("-o ro");
        assert!(place.works("status m").contains("no: it is mounted for reading"), "{format}");
        mount.end();
        let (_, said) = place.ends(1, "status m");
        assert!(said.contains("no volume is mounted here"), "{format}: {said}");
    }
}

#[test]
fn the_state_of_a_mounted_mirror_has_its_copies_and_its_scrub() {
    let mount = Mount::made("status", "refs+integrity", "mirror:a.img,b.img", "320M");
    let place = &mount.place;
    fs::write(mount.at("file"), content(1, 1_000_000)).unwrap();
    mount.shell("sync m");
    let state = |code: u8| -> serde_json::Value {
        serde_json::from_str(&place.ends(code.into(), "status --json m").0).unwrap()
    };
    let before = state(0);
    assert_eq!(before["copies"], serde_json::json!([null, null]));
    assert_eq!(before["scrub"]["step"].as_str(), Some("none"));
    assert!(before["process"].as_u64().is_some() && before["mounted_at"].as_str().is_some());
    place.works("scrub m");
    assert_eq!(state(0)["scrub"]["step"].as_str(), Some("done"));
    mount.end();
    // A copy that is away is named.
    fs::rename(place.path("b.img"), place.path("away.img")).unwrap();
    assert!(place.platter(&format!("mount {} m", mount.source)).status.success());
    let after = state(1);
    assert!(after["copies"][1].as_str().is_some_and(|why| why.contains("missing")), "{after}");
    let (said, _) = place.ends(1, "status m");
    assert!(said.contains("a.img: in service\n") && said.contains("missing"), "{said}");
    let told = place.platter("umount m");
    assert!(told.status.success(), "{told:?}");
}

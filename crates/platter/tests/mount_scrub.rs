//! Scrubbing volumes while they are mounted. Needs root, `/dev/fuse` and fusermount3.

use crate::common::content;
use crate::common::mount::Mount;
use std::fs;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

#[test]
fn a_mounted_mirror_is_scrubbed_while_programs_use_it() {
    let mount = Mount::made("scrub", "refs+integrity", "mirror:a.img,b.img", "320M");
    let place = &mount.place;
    let files: Vec<_> =
        (0..40).map(|number| (format!("m/file {number}"), content(number, 500_000))).collect();
    for (name, bytes) in &files {
        fs::write(place.path(name), bytes).unwrap();
    }
    fs::File::open(place.path("m")).unwrap().sync_all().unwrap();
    assert!(place.works("scrub m").contains("no damage; "));

    let damage = |number: usize| {
        let image = fs::File::options().read(true).write(true).open(place.path("b.img")).unwrap();
        let bytes = fs::read(place.path("b.img")).unwrap();
        let wanted = &files[number].1[..64];
        let at =
            bytes.windows(64).position(|window| window == wanted).expect("the file is on the copy") as u64;
        image.write_all_at(&[!bytes[at as usize]], at).unwrap();
    };
    damage(3);
    damage(20);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            // No content begins as that of one of the files does: damage to those is placed by how they begin.
            for number in 1000.. {
                let (path, bytes) = (place.path("m/changed"), content(number, 200_000));
                fs::write(&path, &bytes).unwrap();
                fs::File::open(&path).unwrap().sync_all().unwrap();
                assert!(fs::read(&path).unwrap() == bytes);
                if is_over.load(Ordering::Relaxed) {
                    return;
                }
            }
        });
        let output = place.platter("scrub m");
        is_over.store(true, Ordering::Relaxed);
        let said = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("2 damaged, 2 repaired; ") && said.contains("in each of 2 copies"), "{said}");
        assert!(said.contains("/file 3") && said.contains("/file 20"), "{said}");
    });
    damage(7);
    let report: serde_json::Value =
        serde_json::from_str(&place.ends(1, "scrub m --json --rate 1G").0).unwrap();
    assert_eq!((report["repaired"].as_u64(), report["copies"].as_u64()), (Some(1), Some(2)), "{report}");
    let other =
        place.command("setfattr", &["-n", "system.platter_scrub", "-v", "start", "m/changed"]).output();
    assert!(!other.unwrap().status.success(), "any file's owner may scrub the volume");
    let (_, said) = place.ends(8, "scrub m --salvage");
    assert!(said.contains("for volumes that are not mounted"), "{said}");
    for (name, bytes) in &files {
        assert!(fs::read(place.path(name)).unwrap() == *bytes, "{name}");
    }
    mount.end();
    let (_, said) = place.ends(8, "scrub m");
    assert!(said.contains("no volume is mounted here"), "{said}");
    assert!(place.works("scrub --checksums-only mirror:a.img,b.img").contains("no damage"));
}

#[test]
fn only_what_has_checksums_is_scrubbed_where_it_is_mounted() {
    let mount = Mount::new("scrub", "ntfs");
    let (_, said) = mount.place.ends(8, "scrub m");
    assert!(said.contains("only ReFS has checksums to scrub"), "{said}");
    mount.end();
}

//! What the kernel holds of a mounted volume and what other parts of it ask for. Needs root, `/dev/fuse`, python3 and
//! overlayfs.

use crate::common::mount::{Mount, WITH_OWNERS};
use std::fs;

/// Writes to a hole through a mapping, calls `then` in a shell while the mapping is there, and expects that it prints
/// what was written.
fn with_mapping(mount: &Mount, then: &str) {
    let script = format!(
        "python3 - <<'END'\n\
         import mmap, os, subprocess\n\
         f = os.open('m/data', os.O_RDWR | os.O_CREAT)\n\
         os.ftruncate(f, 1 << 20)\n\
         m = mmap.mmap(f, 1 << 20, mmap.MAP_SHARED)\n\
         m[300000:300005] = b'HELLO'\n\
         print(subprocess.check_output(['sh', '-ec', \"{then}\"]).decode())\n\
         END"
    );
    assert_eq!(mount.shell(&script).trim(), "HELLO", "{}: {then}", mount.format);
}

#[test]
fn what_was_written_through_a_mapping_is_seen_by_all() {
    for format in WITH_OWNERS {
        let mount = Mount::new("mapped", format);
        let read = "dd status=none bs=1 skip=300000 count=5";
        with_mapping(&mount, &format!("cp --sparse=auto m/data copy; {read} if=copy"));
        mount.shell("rm m/data");
        with_mapping(&mount, &format!("cp m/data m/copy; {read} if=m/copy"));
        if format == "refs" {
            let program = env!("CARGO_BIN_EXE_platter");
            mount.shell("rm m/data");
            with_mapping(&mount, &format!("{program} attr set m/data snapshot:s; printf HELLO"));
        }
        // What nothing was written to stays a hole.
        mount.shell("truncate -s 8M m/hole; cp m/hole m/second; test $(stat -c %b m/second) = 0");
        mount.end();
        if format == "refs" {
            let snapshot = mount.place.works("attr get disk.img:/data snapshot:s");
            assert_eq!(&snapshot[300_000..300_005], "HELLO");
        }
    }
}

#[test]
fn overlayfs_keeps_its_changes_on_a_mount() {
    for format in WITH_OWNERS {
        let mount = Mount::new("overlay", format);
        mount.shell(
            "mkdir low over m/up m/work; echo low > low/changed; echo low > low/removed; mkdir low/d; echo low > low/d/f; \
             mount -t overlay -o lowerdir=low,upperdir=m/up,workdir=m/work none over; \
             echo new > over/changed; rm over/removed; rm -r over/d; mkdir over/d; mv over/changed over/moved; ls over",
        );
        let seen = mount.shell("cd over; echo *; cat moved; ls d; cd ..; umount over");
        assert_eq!(seen, "d moved\nnew\n", "{format}");
        assert_eq!(mount.shell("stat -c %F m/up/removed"), "character special file\n", "{format}");
        assert_eq!(fs::read_dir(mount.place.path("low")).unwrap().count(), 3);
        mount.end();
    }
}

//! What people are used to from the commands of Linux works here, and does the same.

use crate::common::{Place, content};
use std::fs;
use std::io::Write;
use std::process::{Output, Stdio};

/// Runs `platter` with this on its standard input.
fn fed(place: &Place, line: &str, input: &[u8]) -> Output {
    let arguments: Vec<&str> = line.split(' ').collect();
    let mut command = place.command(env!("CARGO_BIN_EXE_platter"), &arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A command that refuses its arguments ends without reading it.
    if let Err(error) = child.stdin.take().unwrap().write_all(input) {
        assert_eq!(error.kind(), std::io::ErrorKind::BrokenPipe);
    }
    child.wait_with_output().unwrap()
}

#[test]
fn options_of_ls_cp_and_rm_are_those_of_the_host() {
    let place = Place::new("habits");
    place.works("mkfs NTFS d.img --size 64M -L HABITS");
    fs::create_dir_all(place.path("src/in")).unwrap();
    fs::write(place.path("src/in/large"), content(1, 3 << 20)).unwrap();
    fs::write(place.path("src/small"), "one").unwrap();
    place.works("cp -R -p src d.img:/");
    assert!(place.works("ls -lh d.img:/src/in").contains(" 3 MiB "));
    assert_eq!(place.works("ls -S d.img:/src"), "small\nin\n");
    assert_eq!(place.works("ls -Sr d.img:/src"), "in\nsmall\n");
    assert_eq!(place.works("ls -d d.img:/src"), "src\n");
    place.works("touch d.img:/src/small -d 2031-05-06T07:08:09Z");
    assert_eq!(place.works("ls -t d.img:/src"), "small\nin\n");
    assert!(place.works("ls --help").contains("--human-readable"));
    // A file that is there stays with -n, and one with the read-only attribute is replaced with -f.
    fs::write(place.path("src/small"), "two").unwrap();
    place.works("cp -n src/small d.img:/src/small");
    place.works("cp -rn src d.img:/");
    assert_eq!(place.works("cat d.img:/src/small"), "one");
    fs::set_permissions(place.path("src/small"), std::os::unix::fs::PermissionsExt::from_mode(0o444))
        .unwrap();
    place.works("mkfs fat32 f.img --size 64M");
    place.works("cp src/small f.img:/");
    assert!(place.fails("cp src/small f.img:/").contains("read-only"));
    place.works("cp -f src/small f.img:/");
    assert!(place.fails("rm f.img:/small").contains("read-only"));
    place.works("rm -f f.img:/small f.img:/none f.img:/no/such");
    assert_eq!(place.works("ls f.img"), "");
    assert!(place.fails("rm f.img:/small").contains("no such file"));
    place.works("rm -Rf d.img:/src d.img:/none");
    assert_eq!(place.works("ls d.img"), "");
}

#[test]
fn standard_input_becomes_a_file() {
    let place = Place::new("input");
    for format in ["ntfs", "exfat"] {
        place.works(&format!("mkfs {format} d.img --size 64M --force"));
        // More than one piece, and not a whole number of clusters.
        let input = content(7, (5 << 20) + 321);
        let output = fed(&place, "cp - d.img:/file", &input);
        assert!(output.status.success(), "{output:?}");
        let output = place.platter("cat d.img:/file");
        assert!(output.stdout == input, "{format}");
        let output = fed(&place, "cp - d.img:/", b"text");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            !output.status.success() && said.contains("standard input: has no name of its own"),
            "{said}"
        );
        let output = fed(&place, "cp - - d.img:/", b"text");
        assert_eq!(output.status.code(), Some(2));
        // Files that tell no size are copied whole too.
        place.works("cp /proc/self/mountinfo d.img:/mounts");
        let copied = place.works("cat d.img:/mounts");
        assert!(copied.contains(" / ") && !copied.contains('\0'), "{copied:?}");
    }
}

#[test]
fn space_labels_and_facts_are_shown_and_changed() {
    let place = Place::new("facts");
    for format in ["fat32", "exfat", "ntfs", "refs"] {
        let size = if format == "refs" { "400M" } else { "64M" };
        place.works(&format!("mkfs {format} d.img --size {size} --force -L FIRST"));
        assert_eq!(place.works("label d.img"), "FIRST\n");
        place.works("label d.img SECOND");
        assert_eq!(place.works("label d.img"), "SECOND\n");
        assert!(place.works("info d.img").contains("\"SECOND\""));
        fs::write(place.path("file"), content(3, 300_000)).unwrap();
        place.works("mkdir d.img:/dir");
        place.works("cp file d.img:/dir/");
        let space = place.json("df --json d.img");
        let (size, used) = (space[0]["size"].as_u64().unwrap(), space[0]["used"].as_u64().unwrap());
        assert!(used >= 300_000 && size > used + space[0]["available"].as_u64().unwrap() / 2, "{space}");
        assert!(place.works("df -h d.img").contains("SECOND"));
        let told = place.json("stat --json d.img:/dir/file d.img:/dir");
        assert_eq!((&told[0]["kind"], &told[0]["size"]), (&"file".into(), &300_000.into()), "{told}");
        let allocated = told[0]["allocated"].as_u64().unwrap();
        assert!((300_000..400_000).contains(&allocated));
        let used = place.works("du -b d.img");
        assert_eq!(used, format!("{allocated:>12}  d.img:/dir\n{allocated:>12}  d.img:/\n"));
        assert_eq!(
            place.works("du -sb --apparent-size d.img:/dir"),
            format!("{:>12}  d.img:/dir\n", 300_000)
        );
        assert!(place.works("stat d.img:/dir/file").contains("293.0 KiB (300,000 bytes)"));
        // 15:20 in the time zone of the test.
        place.works("touch d.img:/dir/file d.img:/new -d 2026-03-31T15:20");
        let told = place.json("stat --json d.img:/dir/file d.img:/new");
        for told in [&told[0], &told[1]] {
            assert_eq!(told["modified"], "2026-03-31T12:20:00Z", "{format}");
        }
        assert!(place.works("stat d.img:/new").contains("modified   2026-03-31 15:20:00"));
        assert!(place.works("ls -l d.img:/new").contains(" 2026-03-31 15:20:00 "));
        place.works("touch -c d.img:/none");
        assert!(!place.works("ls d.img").contains("none"));
        place.works("check d.img");
    }
}

#[test]
fn a_file_with_two_names_is_counted_once() {
    let place = Place::new("links");
    fs::create_dir(place.path("src")).unwrap();
    fs::write(place.path("src/a"), content(3, 50_000)).unwrap();
    fs::hard_link(place.path("src/a"), place.path("src/b")).unwrap();
    place.works("mkfs ntfs d.img --size 64M");
    place.works("cp -r src d.img:/");
    assert_eq!(place.works("du -sb --apparent-size d.img:/src"), format!("{:>12}  d.img:/src\n", 50_000));
}

#[test]
fn differences_are_found_between_volumes_and_directories() {
    let place = Place::new("diff");
    fs::create_dir_all(place.path("src/in")).unwrap();
    fs::write(place.path("src/in/large"), content(1, (2 << 20) + 5)).unwrap();
    fs::write(place.path("src/small"), "one").unwrap();
    place.works("mkfs ntfs n.img --size 64M");
    place.works("mkfs exfat x.img --size 64M");
    place.works("cp -r src/. n.img:/");
    place.works("cp -r src/. x.img:/");
    for (one, other) in [("src", "n.img"), ("n.img:/", "x.img"), ("x.img:/in/large", "src/in/large")] {
        assert_eq!(place.works(&format!("diff {one} {other}")), "");
    }
    let mut large = content(1, (2 << 20) + 5);
    large[(2 << 20) + 4] ^= 1;
    fs::write(place.path("src/in/large"), large).unwrap();
    fs::write(place.path("src/small"), "more").unwrap();
    fs::write(place.path("src/new"), "").unwrap();
    place.works("rm n.img:/small");
    place.works("mkdir n.img:/small");
    let (said, _) = place.ends(1, "diff src n.img");
    assert_eq!(
        said,
        "src/in/large and n.img:/in/large differ from byte 2,097,157 on\nonly in src: new\n\
         src/small is a file, n.img:/small is a directory\n"
    );
    let (said, _) = place.ends(1, "diff src x.img");
    assert!(said.contains("src/small has 4 B, x.img:/small has 3 B"), "{said}");
    assert_eq!(place.ends(1, "diff -q src x.img").0, "");
    let (_, said) = place.ends(2, "diff src none");
    assert!(said.contains("none: No such file"), "{said}");
}

#[test]
fn clones_and_snapshots_have_commands_of_their_own() {
    let place = Place::new("clone");
    place.works("mkfs refs d.img --size 400M");
    fs::write(place.path("file"), content(1, 200_000)).unwrap();
    place.works("cp file d.img:/");
    let free = || place.json("df --json d.img")[0]["available"].as_u64().unwrap();
    place.works("clone d.img:/file d.img:/small");
    let before = free();
    place.works("clone d.img:/file d.img:/again");
    assert!(before - free() < 200_000, "the clusters are shared");
    place.works("diff d.img:/again file");
    place.works("snapshot make d.img:/file monday");
    place.works("cp /etc/passwd d.img:/file");
    assert!(place.works("snapshot list d.img:/file").ends_with("  monday\n"));
    assert!(place.platter("snapshot get d.img:/file monday").stdout == content(1, 200_000));
    place.works("snapshot remove d.img:/file monday");
    assert_eq!(place.works("snapshot list d.img:/file"), "");
    place.works("mkfs ntfs n.img --size 64M");
    let (_, said) = place.ends(2, "clone d.img:/file n.img:/file");
    assert!(said.contains("another volume") && said.contains("platter cp"), "{said}");
}

/// mount(8) makes a loop device of an image where `loop` is given; here the image itself is mounted.
#[test]
fn a_mount_with_loop_is_one_without() {
    let mount = crate::common::mount::Mount::new("loop", "ntfs");
    mount.end();
    mount.mount("-o loop,ro");
    mount.end();
}

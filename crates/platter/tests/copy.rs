//! `platter cp` keeps everything that source and target can hold.

use crate::common::{Place, content};
use std::fs;
use std::os::unix::fs::symlink;

/// Returns everything of a tree that a copy must keep (all but creation times), as text.
fn seen(place: &Place, directory: &str) -> String {
    let script = format!(
        "cd {directory}; (find . -mindepth 1 -printf '%P %y %m %U %G %n %T@ %l\\n' | sort; \
         find . -type f -print0 | sort -z | xargs -0 md5sum; getfattr -R -h -d -m - . | sort) | cat -v; \
         test $(stat -c %b sparse) -lt 1000"
    );
    place.tool("sh", &["-ec", &script])
}

/// Makes a tree with files, links, a FIFO, holes, attributes and streams.
fn plant(place: &Place) {
    let tree = place.path("tree");
    fs::create_dir_all(tree.join("sub/empty")).unwrap();
    fs::write(tree.join("five"), "12345").unwrap();
    fs::write(tree.join("big"), content(1, 3 << 20)).unwrap();
    fs::hard_link(tree.join("five"), tree.join("sub/further name")).unwrap();
    symlink("../five", tree.join("sub/link")).unwrap();
    symlink("a/".repeat(1500), tree.join("long link")).unwrap();
    fs::File::create(tree.join("sparse")).unwrap().set_len(16 << 20).unwrap();
    place.tool("sh", &["-ec", "cd tree; printf x | dd of=sparse bs=1 seek=8388608 conv=notrunc; mkfifo fifo
        touch \"$(printf 'no text \\377\\376')\"; setfattr -n user.one -v two five sub/empty
        setfattr -n 'user.DosStream.stream:$DATA' -v 0sY29udGVudAA= big; setfattr -n user.DOSATTRIB -v 0sMHgyMg== big
        setfattr -n security.capability -v 0sAQAAAgAgAAAAAAAAAAAAAAAAAAA= big
        chmod 4751 big; chmod 600 sparse; chown 1234:567 five; chmod 1777 sub
        find . -print0 | xargs -0 touch -h -d '2020-02-03 04:05:06.1234567'"]);
}

#[test]
fn a_tree_with_everything_in_it_goes_round_and_comes_back_the_same() {
    let place = Place::new("copy-round");
    plant(&place);
    place.works("mkfs ntfs one.img --size 256M");
    place.works("mkfs refs two.img --size 512M");
    place.works("mkfs ntfs three.img --size 256M");
    place.works("cp -r tree/. one.img:/");
    place.works("cp -r one.img:/ two.img:/");
    place.works("cp -r two.img:/ three.img:/");
    fs::create_dir(place.path("back")).unwrap();
    place.works("cp -r three.img:/ back");
    let (planted, back) = (seen(&place, "tree"), seen(&place, "back"));
    for (one, other) in planted.lines().zip(back.lines()) {
        assert_eq!(one, other);
    }
    assert_eq!(planted.len(), back.len());
    for image in ["one.img", "two.img", "three.img"] {
        assert!(place.works(&format!("check {image}")).contains("no damage"));
        let streams = place.works(&format!("attr get {image}:/big stream:stream"));
        assert_eq!(streams, "content");
        assert_eq!(
            place.json(&format!("ls --json {image}:/big"))[0]["flags"],
            serde_json::json!(["hidden", "archive"])
        );
    }
}

#[test]
fn a_small_file_stays_in_its_record() {
    let place = Place::new("copy-small");
    fs::write(place.path("f"), "12345").unwrap();
    place.works("mkfs ntfs v.img --size 32M");
    place.works("cp f v.img:/");
    let listed = place.json("ls --json v.img:/");
    // What a record has room for counts as Windows counts it, in steps of 8 bytes.
    assert_eq!((&listed[0]["size"], &listed[0]["allocated"]), (&5.into(), &8.into()));
}

#[test]
fn what_the_target_cannot_keep_is_counted_once() {
    let place = Place::new("copy-losses");
    plant(&place);
    fs::remove_file(place.path("tree/long link")).unwrap();
    place.works("mkfs exfat v.img --size 64M");
    let (_, said) = place.ends(0, "cp -r tree v.img:/");
    assert_eq!(said.lines().count(), 1, "{said}");
    for kind in [
        "1 named stream",
        "4 extended attributes",
        "1 hard link",
        "1 symbolic link",
        "1 FIFO",
        "holes",
        "permissions",
    ] {
        assert!(said.contains(kind), "{kind}: {said}");
    }
    place.ends(1, "cp -r --strict tree v.img:/again");
}

/// A volume that cannot be made destroys nothing, even with `--force`; and an archive counts as content too.
#[test]
fn mkfs_asks_everything_before_it_destroys_anything() {
    let place = Place::new("copy-mkfs");
    place.works("mkfs ntfs v.img --size 32M");
    let before = fs::read(place.path("v.img")).unwrap();
    for line in [
        "ntfs v.img --cluster 3k --force",
        "exfat v.img --cluster 3k --force",
        "fat32 v.img --cluster 3k --force",
        "refs v.img --force",
        "refs v.img --checksum none --size 20M --force",
        "fat12 v.img --label more-than-eleven-letters --force",
        "ntfs v.img --size 1k --force",
    ] {
        place.fails(&format!("mkfs {line}"));
        assert!(fs::read(place.path("v.img")).unwrap() == before, "{line}");
    }
    let mut archive = vec![0; 32 << 20];
    archive[257..262].copy_from_slice(b"ustar");
    fs::write(place.path("a.tar"), &archive).unwrap();
    assert!(place.fails("mkfs ntfs a.tar").contains("a tar archive"));
    place.works("mkfs ntfs v.img --force");
}

/// A copy that cannot be made costs nothing of what an earlier one left: on the host, on another volume, and within one.
#[test]
fn a_copy_that_fails_leaves_the_file_that_was_there() {
    let place = Place::new("copy-fails");
    let old = content(1, 3_000_000);
    fs::write(place.path("old"), &old).unwrap();
    fs::write(place.path("large"), content(2, 20_000_000)).unwrap();
    place.works("mkfs fat32 v.img --size 64M");
    place.works("cp large v.img:/source");
    // The end of the source lies behind the end of the image.
    fs::File::options().write(true).open(place.path("v.img")).unwrap().set_len(12 << 20).unwrap();
    fs::copy(place.path("old"), place.path("kept")).unwrap();
    place.ends(1, "cp v.img:/source kept");
    assert!(fs::read(place.path("kept")).unwrap() == old);
    for format in ["fat32", "exfat", "ntfs"] {
        place.works(&format!("mkfs {format} w.img --size 64M --force"));
        place.works("cp old w.img:/kept");
        place.ends(1, "cp v.img:/source w.img:/kept");
        // Nor does one for which there is no room.
        fs::write(place.path("huge"), content(3, 80_000_000)).unwrap();
        let (_, error) = place.ends(1, "cp huge w.img:/kept");
        assert!(error.starts_with("platter: w.img:/kept: no space left"), "{format}: {error}");
        place.works("cp w.img:/kept back");
        assert!(fs::read(place.path("back")).unwrap() == old, "{format}");
        assert_eq!(place.works("ls w.img:/").lines().count(), 1, "{format}: something is left over");
        assert!(place.works("check w.img").contains("no damage"), "{format}");
    }
    let left: Vec<_> = fs::read_dir(&place.0).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().contains("platter-copy")), "{left:?}");
}

/// What is no file takes the content of one as cp(1) writes it there, and stays what it is.
#[test]
fn a_copy_to_a_device_a_fifo_or_standard_output_is_written_into_it() {
    let place = Place::new("copy-special");
    fs::write(place.path("f"), content(1, 5000)).unwrap();
    place.works("mkfs fat32 v.img --size 64M");
    place.works("cp f v.img:/f");
    place.tool("sh", &["-ec", "mkfifo -m 644 fifo; ln -s /proc/self/fd/1 out; ln -s /dev/null null"]);
    let platter = env!("CARGO_BIN_EXE_platter");
    for script in [
        "\"$0\" cp v.img:/f null && test -L null && test -c /dev/null",
        "\"$0\" cp v.img:/f out | cmp - f && test -L out",
        "cat fifo > got & \"$0\" cp v.img:/f fifo && wait && cmp got f && test \"$(stat -c %a fifo)\" = 644",
    ] {
        place.tool("sh", &["-ec", script, platter]);
    }
}

/// The names in a relative link of Windows are separated by backslashes.
#[test]
fn a_relative_link_of_windows_leads_to_its_target() {
    let place = Place::new("copy-links");
    let units: Vec<u8> = "d\\file".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let length = units.len() as u16;
    let header = [0, length, length, length, 1, 0].map(u16::to_le_bytes).concat();
    let data = [header, units.clone(), units].concat();
    let head = [0xA000_000C_u32.to_le_bytes(), (data.len() as u32).to_le_bytes()].concat();
    fs::write(place.path("point"), [head, data].concat()).unwrap();
    fs::write(place.path("file"), "text").unwrap();
    fs::write(place.path("empty"), "").unwrap();
    for format in ["ntfs", "refs"] {
        place.works(&format!("mkfs {format} v.img --size 512M --force"));
        place.works("mkdir v.img:/d");
        place.works("cp file v.img:/d/file");
        place.works("cp empty v.img:/link");
        place.works("attr set v.img:/link reparse point");
        let _ = fs::remove_dir_all(place.path("out"));
        place.ends(0, "cp -r v.img:/. out");
        assert_eq!(fs::read_to_string(place.path("out/link")).unwrap(), "text", "{format}");
    }
}

/// Files that nobody may write to on the host have the read-only attribute on FAT and exFAT, which keeps them from being
/// replaced and removed, unless that is forced.
#[test]
fn read_only_files_are_replaced_and_removed_by_force() {
    let place = Place::new("copy-read-only");
    fs::create_dir(place.path("d")).unwrap();
    fs::write(place.path("d/a"), "one").unwrap();
    place.tool("chmod", &["444", "d/a"]);
    for format in ["fat16", "exfat"] {
        place.works(&format!("mkfs {format} v.img --size 64M --force"));
        place.works("cp -r d v.img:/");
        place.ends(1, "cp -r d v.img:/");
        place.ends(1, "rm -r v.img:/d");
        place.works("cp -r --force d v.img:/");
        assert_eq!(place.works("ls v.img:/d").lines().count(), 1, "{format}");
        place.works("rm -r --force v.img:/d");
        assert_eq!(place.works("ls v.img:/"), "", "{format}");
    }
}

/// The privileges of a file's owner go to nobody else: a copy has them only where it has the owner that is recorded.
#[test]
fn a_set_user_id_bit_is_kept_with_its_owner_only() {
    let place = Place::new("copy-owner");
    for (name, mode) in [("unknown", "04755"), ("own", "04755")] {
        fs::write(place.path(name), "x").unwrap();
        place.tool("chmod", &[mode, name]);
    }
    // What another program may record: permissions of nobody in particular.
    fs::write(place.path("mode"), 0o106_755_u32.to_le_bytes()).unwrap();
    place.works("mkfs ntfs v.img --size 32M");
    place.tool("chmod", &["644", "unknown"]);
    place.works("cp unknown own v.img:/");
    place.works("attr set v.img:/unknown ea:$LXMOD mode");
    fs::create_dir(place.path("out")).unwrap();
    place.works("cp v.img:/unknown v.img:/own out/");
    let mode = |name: &str| place.tool("stat", &["-c", "%a", name]);
    assert_eq!((mode("out/unknown").trim(), mode("out/own").trim()), ("755", "4755"));
}

/// Where a volume records no permissions, a new file has this user's usual ones, and one that is replaced keeps its own.
#[test]
fn permissions_that_are_not_recorded_are_those_of_the_host() {
    let place = Place::new("copy-modes");
    fs::create_dir_all(place.path("d")).unwrap();
    fs::write(place.path("d/f"), "x").unwrap();
    place.works("mkfs exfat v.img --size 32M");
    place.works("cp -r d v.img:/");
    let platter = env!("CARGO_BIN_EXE_platter");
    let script = "umask 027; \"$0\" cp -r v.img:/d out; stat -c %a out out/f; chmod 600 out/f; chmod 2711 out; \
                  \"$0\" cp -r v.img:/d/. out; stat -c %a out out/f; ln -s lost out/l; \"$0\" cp v.img:/d/f out/l; \
                  stat -c %a out/lost";
    let modes = place.tool("sh", &["-ec", script, platter]);
    assert_eq!(modes, "750\n640\n2711\n600\n640\n");
}

/// To a volume that cannot be written to nothing is copied, and the one message says so.
#[test]
fn nothing_is_copied_to_a_volume_that_is_only_read() {
    let place = Place::new("copy-to-read-only");
    fs::write(place.path("a"), "a").unwrap();
    fs::write(place.path("b"), "b").unwrap();
    place.works("mkfs ntfs v.img --size 16M");
    // The version in $VOLUME_INFORMATION, an attribute of record 3.
    let mut image = fs::read(place.path("v.img")).unwrap();
    let mft = u64::from_le_bytes(image[48..56].try_into().unwrap()) as usize * 4096;
    let mut at = mft + 3 * 1024 + usize::from(image[mft + 3 * 1024 + 20]);
    while image[at] != 0x70 {
        at += usize::from(image[at + 4]);
    }
    let value = at + usize::from(image[at + 20]);
    assert_eq!(image[value + 8..value + 10], [3, 1]);
    image[value + 8..value + 10].copy_from_slice(&[1, 2]);
    fs::write(place.path("v.img"), image).unwrap();
    let error = place.fails("cp a b v.img:/");
    assert!(error.starts_with("platter: v.img:/: the volume is read-only: "), "{error}");
    assert_eq!(place.ends(0, "ls v.img").0, "");
}

//! Programs of other projects on mounted volumes. Needs root, `/dev/fuse`, fusermount3, rsync, git, sqlite3, fio,
//! attr, fsx and pjdfstest.

mod common;

use common::durable;
use common::mount::{FORMATS, KINDS, Mount, Random, WITH_OWNERS, kill, mount_known};
use common::{Place, content};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::{Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Makes a tree like those that programs make: nested directories, odd names, small, large and empty files, old
/// times.
fn tree(at: &Path) {
    fs::create_dir_all(at.join("deep/er/and/deeper")).unwrap();
    for (number, length) in [0, 1, 511, 4096, 70_000, 3_000_001].into_iter().enumerate() {
        fs::write(at.join(format!("deep/file {number}")), content(number as u64, length)).unwrap();
    }
    for number in 0..200 {
        fs::write(at.join(format!("deep/er/{number:x}.ünïcode")), content(number, number as usize)).unwrap();
    }
    let old = File::options().write(true).open(at.join("deep/file 3")).unwrap();
    old.set_modified(std::time::UNIX_EPOCH + Duration::from_secs(1_000_000_000)).unwrap();
}

/// Makes files with features that only POSIX file systems have: holes, links, permissions and owners.
fn posix(at: &Path) {
    let sparse = File::create(at.join("sparse")).unwrap();
    sparse.write_all_at(b"end", 20 << 20).unwrap();
    symlink("deep/file 1", at.join("link")).unwrap();
    symlink("../nowhere/ü", at.join("deep/broken")).unwrap();
    fs::hard_link(at.join("deep/file 4"), at.join("deep/er/again")).unwrap();
    fs::set_permissions(at.join("deep/file 2"), fs::Permissions::from_mode(0o4751)).unwrap();
    fs::set_permissions(at.join("deep/er"), fs::Permissions::from_mode(0o1777)).unwrap();
    std::os::unix::fs::chown(at.join("deep/file 5"), Some(1234), Some(4321)).unwrap();
}

#[test]
fn trees_are_the_same_there_and_back() {
    for format in FORMATS {
        let mount = Mount::new("trees", format);
        tree(&mount.place.path("source"));
        mount.shell("cp -r --preserve=timestamps source m/copied; diff -r source m/copied");
        mount.shell("rsync -rt --modify-window=2 source/ m/synced/; diff -r source m/synced");
        // Mounted again, so that the trees are read from the device and not from the kernel's cache.
        mount.end();
        mount.mount("");
        mount.shell(
            "diff -r source m/copied; cp -r m/synced back; diff -r source back; rm -r m/copied m/synced",
        );
        assert_eq!(mount.shell("ls m"), "");
        mount.end();
    }
}

#[test]
fn what_posix_knows_of_files_is_the_same_there_and_back() {
    for format in WITH_OWNERS {
        let mount = Mount::new("posix", format);
        let source = mount.place.path("source");
        tree(&source);
        posix(&source);
        mount.shell("setfattr -n user.note -v 'a value' 'source/deep/file 1'; mkfifo -m 640 source/fifo");
        mount.shell("mknod -m 600 source/device b 8 17");
        mount.shell(&format!("setfattr -n security.capability -v {CAPABILITY} 'source/deep/file 2'"));
        mount.shell("cp -a source m/copied; rsync -aHX source/ m/synced/");
        mount.end();
        mount.mount("");
        for there in ["m/copied/", "m/synced/"] {
            let compare = format!("rsync -aHXnc --delete --itemize-changes source/ {there}");
            assert_eq!(mount.shell(&compare), "", "{format}: {there}");
        }
        mount.shell("rsync -aHAX m/synced/ back/");
        assert_eq!(mount.shell("rsync -aHXnc --delete --itemize-changes source/ back/"), "", "{format}");
        let there = fs::metadata(mount.at("synced/sparse")).unwrap();
        assert_eq!(there.len(), (20 << 20) + 3);
        mount.end();
    }
}

#[test]
fn git_works() {
    for format in FORMATS {
        let mount = Mount::new("git", format);
        tree(&mount.place.path("origin"));
        let identity = "-c user.name=a -c user.email=a@b -c safe.directory=*";
        mount.shell(&format!("cd origin; git init -q; git add .; git {identity} commit -qm one"));
        mount.shell("git clone -q --no-hardlinks origin m/clone; git -C m/clone fsck --full --strict");
        mount.shell(&format!(
            "cd m/clone; test -z \"$(git status --porcelain)\"; git mv deep moved; echo x > moved/x; git add .;
             git {identity} commit -qm two; git gc -q; git fsck --full; test -z \"$(git status --porcelain)\""
        ));
        mount.end();
        mount.mount("");
        mount.shell("git -C m/clone fsck --full; rm -r m/clone");
        mount.end();
    }
}

#[test]
fn sqlite_works_with_both_journals() {
    for format in FORMATS {
        let mount = Mount::new("sqlite", format);
        for journal in ["delete", "wal"] {
            let make = format!(
                "pragma journal_mode={journal}; create table t(a integer primary key, b blob);
                 insert into t(b) select randomblob(200) from generate_series(1, 3000);"
            );
            let file = format!("m/{journal}.db");
            mount.place.tool("sqlite3", &[&file, &make]);
            for round in 0..10 {
                let change = format!("update t set b = randomblob(300) where a % 10 = {round};");
                mount.place.tool("sqlite3", &[&file, &change]);
            }
            let answer =
                mount.place.tool("sqlite3", &[&file, "pragma integrity_check; select count(*) from t;"]);
            assert_eq!(answer, "ok\n3000\n", "{format}: {journal}");
        }
        mount.end();
    }
}

#[test]
fn fio_reads_what_it_wrote() {
    for format in KINDS {
        let mount = Mount::new("fio", format);
        for (engine, direct) in [("io_uring", 1), ("psync", 0), ("mmap", 0)] {
            mount.shell(&format!(
                "fio --name=j --directory=m --size=24m --bs=4k-64k --rw=randwrite --ioengine={engine} --iodepth=16 \
                 --direct={direct} --verify=crc32c --verify_fatal=1 --numjobs=2 --fsync=64 --unlink=1 >/dev/null"
            ));
        }
        mount.end();
    }
}

#[test]
fn fsx_finds_no_difference() {
    for format in KINDS {
        let mount = Mount::new("fsx", format);
        mount.exercise(2_000, 7);
        mount.end();
    }
}

/// The pjdfstest tests that must fail: a directory always has one link, so that no program takes links for a count of
/// subdirectories.
const NOT_AS_POSIX: [&str; 1] = ["rename::updates_link_parent"];

#[test]
fn all_else_is_as_posix_has_it() {
    for format in WITH_OWNERS {
        // The path of a socket has at most 107 bytes, and the names of the tests' files are long.
        let mount = Mount::new("p", format);
        mount.place.ends(0, "umount m");
        mount.mount("-o dev,suid");
        let settings = "[features]\nutime_now = {}\nutimensat = {}\nposix_fallocate = {}\n\
                        [settings]\nnaptime = 0.01\n\
                        [dummy_auth]\nentries = [[\"nobody\", \"nogroup\"], [\"daemon\", \"daemon\"], [\"bin\", \"bin\"]]\n";
        fs::write(mount.place.path("settings.toml"), settings).unwrap();
        // The tests also run as other users, who need access to the directory.
        fs::set_permissions(&mount.place.0, fs::Permissions::from_mode(0o755)).unwrap();
        let at = mount.at("").display().to_string();
        let mut run = mount.place.command("pjdfstest", &["-c", "settings.toml", "-p", &at]);
        let output = run.output().expect("pjdfstest is needed for this test");
        let text = String::from_utf8_lossy(&output.stdout);
        let ended = |how: &str| -> Vec<&str> {
            text.lines().filter_map(|line| line.strip_suffix(how)).map(str::trim).collect()
        };
        let wrong: Vec<&str> = ended(" FAILED")
            .into_iter()
            .filter(|test| !NOT_AS_POSIX.iter().any(|known| test.starts_with(known)))
            .collect();
        assert!(wrong.is_empty(), "{format}: {wrong:#?}");
        assert!(ended(" ok").len() >= 350, "{format}: {text}");
        mount.end();
    }
}

#[test]
fn privileges_go_with_what_another_user_writes_and_all_see_it_at_once() {
    for format in WITH_OWNERS {
        let mount = Mount::new("privileges", format);
        fs::set_permissions(&mount.place.0, fs::Permissions::from_mode(0o755)).unwrap();
        for (change, mode, left) in [
            ("printf x >> m/f", 6777, "777"),
            ("dd if=/dev/zero of=m/f bs=4k count=1 conv=notrunc oflag=direct 2>&1", 6777, "777"),
            ("fallocate -l 64k m/f", 6777, "777"),
            ("fallocate -l 128k m/f", 6766, "766"),
        ] {
            // `stat` asks only for the mode, which the kernel has cached.
            let line = format!(
                "umask 0; printf x > m/f; chmod {mode} m/f; stat -c %a m/f; \
                 setpriv --reuid 65534 --regid 65534 --clear-groups sh -c '{change}' > out; stat -c %a m/f"
            );
            assert_eq!(mount.shell(&line), format!("{mode}\n{left}\n"), "{format}: {change}");
        }
        mount.end();
    }
}

/// The attribute `security.capability` of a program that may open raw sockets.
const CAPABILITY: &str = "0sAQAAAgAgAAAAAAAAAAAAAAAAAAA=";

#[test]
fn capabilities_stay_until_the_program_is_changed() {
    for format in WITH_OWNERS {
        let mount = Mount::new("capabilities", format);
        for change in [
            "printf y >> m/f",
            "dd if=/dev/zero of=m/f bs=4k count=1 conv=notrunc oflag=direct status=none",
            "truncate -s 5 m/f",
            ": > m/f",
            "chown 1:1 m/f",
        ] {
            mount.shell(&format!(
                "printf x > m/f; chown 0:0 m/f; setfattr -n security.capability -v {CAPABILITY} m/f"
            ));
            mount.end();
            mount.mount("");
            let names = || mount.shell("getfattr -m security m/f");
            assert!(names().contains("security.capability"), "{format}");
            mount.shell(change);
            assert_eq!(names(), "", "{format}: {change}");
        }
        mount.end();
    }
}

#[test]
fn files_that_are_open_can_be_removed_and_replaced() {
    for format in FORMATS {
        let mount = Mount::new("open", format);
        let file = File::options().read(true).write(true).create_new(true).open(mount.at("a")).unwrap();
        file.write_all_at(b"first", 0).unwrap();
        fs::remove_file(mount.at("a")).unwrap();
        assert!(!mount.at("a").exists());
        file.write_all_at(&content(1, 100_000), 5).unwrap();
        let mut back = vec![0; 100_000];
        file.read_exact_at(&mut back, 5).unwrap();
        assert_eq!(back, content(1, 100_000), "{format}");
        fs::write(mount.at("b"), "second").unwrap();
        fs::write(mount.at("c"), "third").unwrap();
        let replaced = File::open(mount.at("c")).unwrap();
        fs::rename(mount.at("b"), mount.at("c")).unwrap();
        let mut back = [0; 5];
        replaced.read_exact_at(&mut back, 0).unwrap();
        assert_eq!((&back, fs::read_to_string(mount.at("c")).unwrap().as_str()), (b"third", "second"));
        let mut log = File::options().append(true).create(true).open(mount.at("log")).unwrap();
        log.write_all(b"one ").unwrap();
        File::options().append(true).open(mount.at("log")).unwrap().write_all(b"two ").unwrap();
        log.write_all(b"three").unwrap();
        assert_eq!(fs::read_to_string(mount.at("log")).unwrap(), "one two three");
        File::options().write(true).truncate(true).open(mount.at("log")).unwrap();
        assert_eq!(fs::metadata(mount.at("log")).unwrap().len(), 0);
        drop((file, replaced, log));
        mount.end();
    }
}

#[test]
fn many_threads_at_once() {
    for format in FORMATS {
        let mount = Mount::new("threads", format);
        let shared = File::create(mount.at("shared")).unwrap();
        thread::scope(|scope| {
            for thread in 0..8u64 {
                let (mount, shared) = (&mount, &shared);
                scope.spawn(move || {
                    let own = mount.at(&format!("own {thread}"));
                    fs::create_dir(&own).unwrap();
                    for round in 0..40 {
                        let path = own.join(round.to_string());
                        fs::write(&path, content(thread * 100 + round, 9_000)).unwrap();
                        let place = (thread * 40 + round) * 1_000;
                        shared.write_all_at(&content(place, 1_000), place).unwrap();
                        if round % 3 == 0 {
                            fs::rename(&path, own.join(format!("moved {round}"))).unwrap();
                        } else if round % 3 == 1 {
                            fs::remove_file(&path).unwrap();
                        }
                    }
                });
            }
        });
        drop(shared);
        mount.end();
        mount.mount("");
        let all = fs::read(mount.at("shared")).unwrap();
        for (number, part) in all.chunks(1_000).enumerate() {
            assert_eq!(part, content(number as u64 * 1_000, 1_000), "{format}: part {number}");
        }
        for thread in 0..8 {
            assert_eq!(fs::read_dir(mount.at(&format!("own {thread}"))).unwrap().count(), 27);
            let kept = fs::read(mount.at(&format!("own {thread}/38"))).unwrap();
            assert_eq!(kept, content(thread * 100 + 38, 9_000));
        }
        mount.end();
    }
}

#[test]
fn what_is_mounted_is_refused() {
    let mount = Mount::new("refused", "ntfs");
    let place = &mount.place;
    fs::create_dir(place.path("n")).unwrap();
    for line in [
        "mkfs ntfs disk.img",
        "mkfs ntfs disk.img --force",
        "cp m disk.img:/",
        "cp m disk.img:/ --force",
        "mount disk.img n",
        "mount disk.img n --foreground",
        "mount disk.img m",
    ] {
        let line = place.fails(line);
        assert!(line.contains("is mounted at") && line.contains("platter umount"), "{line}");
    }
    for line in ["check --repair --force disk.img", "check disk.img"] {
        let (_, error) = place.ends(8, line);
        assert!(error.contains("is mounted at"), "{line}: {error}");
    }
    assert!(place.works("check --force disk.img").contains("no damage"));
    // In another mount namespace `/proc` does not show the mount, but the image is still locked.
    let other = place.command("unshare", &["-m", "sh", "-c", "umount m; \"$0\" mount -o ro disk.img n"]);
    let output =
        { other }.arg(env!("CARGO_BIN_EXE_platter")).output().expect("unshare is needed for this test");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && text.contains("another process works on it"), "{text}");
    mount.end();
    assert!(place.fails("umount m").contains("no volume is mounted here by platter"));

    // An image that is mounted for reading is not written to either.
    mount.mount("-o ro");
    assert!(fs::write(mount.at("new"), "x").unwrap_err().to_string().contains("Read-only"));
    assert!(place.fails("cp disk.img disk.img:/").contains("is mounted at"));
    mount.end();
}

/// A loop device over the image of a mounted volume has the same content, but not the lock of the image.
#[test]
fn what_is_mounted_is_refused_through_a_loop_device_too() {
    let mount = Mount::new("behind", "exfat");
    let place = &mount.place;
    let device = place.tool("losetup", &["-f", "--show", "disk.img"]).trim().to_owned();
    fs::write(place.path("f"), "text").unwrap();
    let cp = place.platter(&format!("cp --force f {device}:/f"));
    let check = place.platter(&format!("check --repair --force --no-undo {device}"));
    place.tool("losetup", &["-d", &device]);
    for (output, code) in [(cp, 1), (check, 8)] {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(code) && said.contains("is mounted at"), "{said}");
    }
    mount.end();
}

/// Linux opens a device that takes no writes for writing all the same, and loses what is written.
#[test]
fn a_write_protected_device_is_mounted_for_reading() {
    for format in FORMATS {
        let place = Place::new(&format!("mount-protected-{format}"));
        fs::create_dir(place.path("m")).unwrap();
        place.works(&format!("mkfs {format} disk.img --size 512M"));
        let device = place.tool("losetup", &["-r", "-f", "--show", "disk.img"]).trim().to_owned();
        let mounted = place.platter(&format!("mount {device} m"));
        let made = fs::create_dir(place.path("m/new"));
        let unmounted = place.platter("umount m");
        place.tool("losetup", &["-d", &device]);
        let said = String::from_utf8_lossy(&mounted.stderr).into_owned();
        assert!(mounted.status.success() && said.contains("write-protected"), "{format}: {said}");
        assert_eq!(made.unwrap_err().kind(), std::io::ErrorKind::ReadOnlyFilesystem, "{format}");
        assert!(unmounted.status.success(), "{format}: {unmounted:?}");
    }
}

#[test]
fn umount_ends_although_another_namespace_has_the_volume_mounted() {
    let mount = Mount::new("namespace", "refs");
    let line = ["20", "unshare", "-m", env!("CARGO_BIN_EXE_platter"), "umount", "m"];
    let output = mount.place.command("timeout", &line).output().expect("timeout is needed for this test");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("namespaces of their own"), "{output:?}");
    fs::write(mount.at("still"), "here").unwrap();
    mount.end();
}

#[test]
fn a_mount_in_use_is_not_taken_away() {
    let mount = Mount::new("busy", "exfat");
    let file = File::create(mount.at("file")).unwrap();
    let error = mount.place.fails("umount m");
    assert!(error.contains("is used by mount-"), "{error}");
    mount.place.works("umount --lazy m");
    file.write_all_at(b"still", 0).unwrap();
    drop(file);
    let start = Instant::now();
    while mount.place.platter("check --repair disk.img").status.code() != Some(0) {
        assert!(start.elapsed() < Duration::from_secs(20), "the mount does not end");
        thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(mount.place.works("cat disk.img:/file"), "still");
}

#[test]
fn a_signal_unmounts() {
    for signal in ["-TERM", "-INT"] {
        let mount = Mount::new(&format!("signal{signal}"), "ntfs");
        mount.end();
        let process = mount_known(&mount, &[]);
        fs::write(mount.at("file"), "kept").unwrap();
        kill(signal, process);
        let start = Instant::now();
        while Path::new(&format!("/proc/{process}")).exists() {
            assert!(start.elapsed() < Duration::from_secs(20), "the process does not end");
            thread::sleep(Duration::from_millis(20));
        }
        assert!(mount.place.works("check disk.img").contains("no damage"));
        assert_eq!(mount.place.works("cat disk.img:/file"), "kept");
    }
}

#[test]
fn what_was_synced_outlives_the_process_that_served_it() {
    for format in FORMATS {
        let mount = Mount::new("killed", format);
        mount.end();
        let mut kept: Vec<(String, u64)> = Vec::new();
        for round in 0..3u64 {
            let process = mount_known(&mount, &[]);
            let begin = kept.len() as u64;
            let (mount, at) = (&mount, mount.at(""));
            let written = thread::scope(|scope| {
                let writers: Vec<_> = (0..4u64)
                    .map(|writer| {
                        let at = at.clone();
                        scope.spawn(move || {
                            let mut synced = Vec::new();
                            for number in 0.. {
                                let name = format!("{round} {writer} {number}");
                                let seed = begin + writer * 1_000_000 + number;
                                let write = || -> std::io::Result<()> {
                                    let file = File::create(at.join(&name))?;
                                    file.write_all_at(&content(seed, 20_000), 0)?;
                                    file.sync_all()?;
                                    // A name is durable only when its directory is synced.
                                    File::open(&at)?.sync_all()
                                };
                                if write().is_err() {
                                    break;
                                }
                                synced.push((name, seed));
                            }
                            synced
                        })
                    })
                    .collect();
                thread::sleep(Duration::from_millis(300 + 171 * round));
                kill("-KILL", process);
                writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect::<Vec<_>>()
            });
            assert!(!written.is_empty(), "{format}: nothing was synced");
            kept.extend(written);
            let (_, told) = mount.place.ends(0, "umount m");
            assert!(told.contains("what was not synced is lost"), "{told}");
            if WITH_OWNERS.contains(&format) {
                let report = mount.place.works("check disk.img");
                assert!(report.contains("no damage"), "{format}: {report}");
            } else {
                // The volume was not closed, and the format has no log: it is mounted for reading until it is
                // checked.
                let (_, told) = mount.place.ends(0, "mount disk.img m");
                assert!(told.contains("mounted for reading: it was not closed"), "{told}");
                assert!(fs::write(mount.at("new"), "x").unwrap_err().to_string().contains("Read-only"));
                mount.place.ends(0, "umount m");
                let code = mount.place.platter("check --repair disk.img").status.code();
                assert!(matches!(code, Some(0 | 1)), "{format}: {code:?}");
            }
            mount.mount("");
            for (name, seed) in &kept {
                let found =
                    fs::read(mount.at(name)).unwrap_or_else(|error| panic!("{format}: {name}: {error}"));
                assert!(found == content(*seed, 20_000), "{format}: {name} is another");
            }
            mount.end();
        }
    }
}

#[test]
fn what_nobody_syncs_is_durable_after_a_while() {
    let mounts = WITH_OWNERS.map(|format| {
        let mount = Mount::new("unsynced", format);
        mount.end();
        let process = mount_known(&mount, &[]);
        fs::write(mount.at("file"), content(1, 50_000)).unwrap();
        (mount, process)
    });
    for (mount, process) in mounts {
        let is_on_disk = || -> platter::Result<bool> {
            let volume =
                platter::OpenOptions::new().beside_writer(true).open(mount.place.path("disk.img"))?;
            Ok(volume.read("/file")? == content(1, 50_000))
        };
        let start = Instant::now();
        // What is read while it is being written may be damaged.
        while !is_on_disk().unwrap_or(false) {
            assert!(start.elapsed() < Duration::from_secs(60), "{}: it is not made durable", mount.format);
            thread::sleep(Duration::from_millis(100));
        }
        kill("-KILL", process);
        mount.place.ends(0, "umount m");
        mount.mount("");
        assert!(fs::read(mount.at("file")).unwrap() == content(1, 50_000));
        mount.end();
    }
}

#[test]
fn what_was_synced_outlives_power_cuts() {
    thread::scope(|scope| {
        for format in FORMATS {
            scope.spawn(move || durable::power_cuts(format, (0..3).map(Random)));
        }
    });
}

#[test]
fn what_umount_left_to_be_closed_is_waited_for() {
    let mount = Mount::new("closing", "ntfs");
    for round in 0..4 {
        for number in 0..200 {
            fs::write(mount.at(&format!("file {round} {number}")), content(number, 50_000)).unwrap();
        }
        mount.shell("umount m");
        if round == 2 {
            // What the old serving process still writes must not reach the new volume.
            mount.place.works("mkfs ntfs disk.img --force");
            assert_eq!(mount.place.works("ls disk.img"), "");
        } else {
            // A volume that is only partly closed would look like damage.
            assert!(mount.place.works("check disk.img").contains("no damage"));
        }
        mount.mount("");
    }
    mount.end();
    symlink(env!("CARGO_BIN_EXE_platter"), mount.place.path("umount.fuse.platter")).unwrap();
    mount.mount("");
    mount.place.tool("./umount.fuse.platter", &["m", "-t", "fuse.platter"]);
    assert!(mount.place.works("check disk.img").contains("no damage"));
}

#[test]
fn a_mount_that_is_bound_to_another_directory_goes_on_when_that_is_unmounted() {
    let mount = Mount::new("bound", "ntfs");
    let place = &mount.place;
    fs::create_dir(place.path("bound")).unwrap();
    place.tool("mount", &["--bind", "m", "bound"]);
    place.works("umount bound");
    fs::write(mount.at("file"), "x").unwrap();
    mount.end();
}

#[test]
fn what_is_mounted_below_stays_when_a_mount_ends() {
    let mount = Mount::new("stacked", "ntfs");
    let place = &mount.place;
    fs::write(mount.at("below"), "x").unwrap();
    place.works("mkfs exfat above.img --size 64M");
    place.works("mount above.img m");
    assert_eq!(mount.shell("ls m"), "");
    // umount waits until the serving process has closed its files.
    place.ends(0, "umount m");
    assert_eq!(mount.shell("ls m"), "below\n");
    mount.end();
}

#[test]
fn umount_ends_also_where_the_volume_is_mounted_again_at_once() {
    let mount = Mount::new("again", "ntfs");
    let is_mounted = || {
        let at = mount.at("").display().to_string();
        fs::read_to_string("/proc/mounts").unwrap().contains(at.trim_end_matches('/'))
    };
    for round in 0..40 {
        for number in 0..100 {
            fs::write(mount.at(&format!("file {round} {number}")), content(number, 5_000)).unwrap();
        }
        let arguments = ["20", env!("CARGO_BIN_EXE_platter"), "umount", "m"];
        let umount = thread::scope(|scope| {
            let umount = scope.spawn(|| {
                loop {
                    let ended = mount.place.command("timeout", &arguments).output();
                    let ended = ended.expect("timeout is needed for this test");
                    // The other thread, which checks whether the directory is mounted, may use it at this moment;
                    // then umount is tried again.
                    if !String::from_utf8_lossy(&ended.stderr).contains("is used by") {
                        break ended;
                    }
                }
            });
            while is_mounted() {
                thread::yield_now();
            }
            mount.mount("");
            umount.join().unwrap()
        });
        assert!(umount.status.success(), "round {round}: {umount:?}");
    }
    mount.end();
}

/// Starts to mount what another process has for now, and has `release` let go of it after more time than a mount waits for
/// a process of which nothing is known.
fn mounts_when_released(mount: &Mount, release: impl FnOnce()) {
    let mut command = mount.place.command(env!("CARGO_BIN_EXE_platter"), &["mount", mount.source, "m"]);
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    thread::sleep(Duration::from_secs(3));
    let is_waiting = child.try_wait().unwrap().is_none();
    release();
    let output = child.wait_with_output().unwrap();
    assert!(is_waiting && output.status.success(), "{output:?}");
}

#[test]
fn a_mount_waits_as_long_as_whoever_has_the_image_says_that_it_is_about_to_close_it() {
    let mount = Mount::new("closing", "ntfs");
    mount.end();
    let path = mount.place.path("disk.img");
    let options = platter_device::FileOptions { exclusive: true, ..Default::default() };
    let device = platter_device::FileDevice::open(&path, options).unwrap();
    let ending = platter_device::Ending::open(&path).unwrap();
    assert!(!platter_device::is_ending(&path));
    ending.mark();
    assert!(platter_device::is_ending(&path));
    mounts_when_released(&mount, || drop(device));
    // Whoever has the image by now has left no mark.
    drop(ending);
    assert!(!platter_device::is_ending(&path) && platter_device::is_claimed(&path));
    mount.end();
    assert!(!platter_device::is_claimed(&path));
}

#[test]
fn a_mount_waits_as_long_as_an_unmount_of_the_same_directory_takes() {
    let mount = Mount::new("unmounting", "refs");
    mount.end();
    let process = mount_known(&mount, &[]);
    fs::write(mount.at("file"), "x").unwrap();
    fs::metadata(mount.at("")).unwrap();
    kill("-STOP", process);
    let mut command = mount.place.command(env!("CARGO_BIN_EXE_platter"), &["umount", "m"]);
    let mut umount = command.spawn().unwrap();
    while !platter_device::is_ending(&mount.place.path("disk.img")) {
        assert!(umount.try_wait().unwrap().is_none(), "it ended although nobody served the mount");
        thread::yield_now();
    }
    mounts_when_released(&mount, || kill("-CONT", process));
    assert!(umount.wait().unwrap().success());
    assert_eq!(fs::read(mount.at("file")).unwrap(), b"x");
    mount.end();
}

/// Calls the helper as mount(8) does for `mount -o remount,OPTIONS m`: with the given options and those of the
/// existing mount.
fn remount(mount: &Mount, options: &str) -> Output {
    let helper = mount.place.path("mount.fuse.platter");
    if !helper.exists() {
        symlink(env!("CARGO_BIN_EXE_platter"), &helper).unwrap();
    }
    let shown = "relatime,remount,user_id=0,group_id=0,default_permissions,allow_other";
    let options = format!("{options},{shown}");
    mount.place.command(&helper.display().to_string(), &["disk.img", "m", "-o", &options]).output().unwrap()
}

#[test]
fn a_mount_is_changed_to_reading_and_back() {
    for format in FORMATS {
        let mount = Mount::new("remount", format);
        let works = |options: &str| {
            let output = remount(&mount, options);
            assert!(output.status.success(), "{format}: {options}: {output:?}");
        };
        fs::write(mount.at("file"), "one").unwrap();
        let open = File::options().write(true).open(mount.at("file")).unwrap();
        let output = remount(&mount, "ro");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && text.contains("open for writing"), "{format}: {text}");
        drop(open);
        works("ro,noexec");
        let error = fs::write(mount.at("file"), "two").unwrap_err();
        assert_eq!(error.raw_os_error(), Some(30), "{format}: {error}");
        assert_eq!(fs::read_to_string(mount.at("file")).unwrap(), "one");
        let at = mount.at("").display().to_string();
        let table = fs::read_to_string("/proc/mounts").unwrap();
        let line = table.lines().find(|line| line.contains(at.trim_end_matches('/'))).unwrap();
        assert!(line.contains(" ro,") && line.contains("noexec"), "{line}");
        works("rw");
        fs::write(mount.at("file"), "two").unwrap();
        mount.end();
        // A volume that was opened for reading cannot be remounted for writing.
        mount.mount("-o ro");
        let output = remount(&mount, "rw");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && text.contains("mounted for reading"), "{format}: {text}");
        assert!(fs::write(mount.at("file"), "three").is_err());
        mount.end();
    }
    let place = Place::new("mount-remount-nothing");
    fs::create_dir(place.path("m")).unwrap();
    assert!(place.fails("mount x.img m -o remount,ro").contains("no volume is mounted here"));
}

#[test]
fn what_was_changed_to_reading_is_not_written_to() {
    let mounts = WITH_OWNERS.map(|format| {
        let mount = Mount::new("remounted", format);
        mount.end();
        mount.mount("-o strictatime");
        fs::write(mount.at("file"), "one").unwrap();
        assert!(remount(&mount, "ro,strictatime").status.success());
        mount
    });
    let image = |mount: &Mount| fs::read(mount.place.path("disk.img")).unwrap();
    let before: Vec<_> = mounts.iter().map(image).collect();
    // The serving process writes changes after 5 seconds at the latest.
    thread::sleep(Duration::from_secs(6));
    for mount in &mounts {
        assert_eq!(fs::read_to_string(mount.at("file")).unwrap(), "one");
    }
    thread::sleep(Duration::from_secs(6));
    for (mount, before) in mounts.iter().zip(before) {
        assert!(image(mount) == before, "{}: something was written", mount.format);
        mount.end();
    }
}

#[test]
fn a_full_volume_says_so_and_stays_whole() {
    for format in FORMATS {
        let place = Place::new(&format!("mount-full-{format}"));
        let size = if format == "refs" { "512M" } else { "96M" };
        place.works(&format!("mkfs {format} disk.img --size {size}"));
        fs::create_dir(place.path("m")).unwrap();
        let mount = Mount { place, format: format.into(), source: "disk.img" };
        mount.mount("");
        fs::write(mount.at("kept"), content(1, 1 << 20)).unwrap();
        let data = content(2, 1 << 20);
        for name in ["one", "two"] {
            let file = File::create(mount.at(name)).unwrap();
            let mut offset = 0;
            let error = loop {
                match file.write_all_at(&data, offset).and_then(|()| file.sync_data()) {
                    Ok(()) => offset += data.len() as u64,
                    Err(error) => break error,
                }
            };
            assert_eq!(error.raw_os_error(), Some(28), "{format}: {error}");
            drop(file);
            fs::remove_file(mount.at(name)).unwrap();
        }
        fs::write(mount.at("small"), "fits again").unwrap();
        mount.end();
        mount.mount("");
        assert!(fs::read(mount.at("kept")).unwrap() == content(1, 1 << 20), "{format}");
        assert_eq!(fs::read_to_string(mount.at("small")).unwrap(), "fits again");
        mount.end();
    }
}

#[test]
fn a_sleeping_windows_is_not_disturbed() {
    let mount = Mount::new("asleep", "ntfs");
    fs::write(mount.at("hiberfil.sys"), [b"hibr".as_slice(), &[0; 8000]].concat()).unwrap();
    mount.place.ends(0, "umount m");
    let before = fs::read(mount.place.path("disk.img")).unwrap();
    for force in ["", " --force"] {
        let (_, told) = mount.place.ends(0, &format!("mount disk.img m{force}"));
        assert!(told.contains("mounted for reading: Windows is hibernated"), "{told}");
        assert!(fs::write(mount.at("new"), "x").unwrap_err().to_string().contains("Read-only"));
        assert_eq!(fs::read(mount.at("hiberfil.sys")).unwrap()[..4], *b"hibr");
        mount.place.ends(0, "umount m");
    }
    assert!(before == fs::read(mount.place.path("disk.img")).unwrap(), "something was written");
}

/// A directory on a file system with so little space that writing to a large sparse image in it fails.
struct Small(Place);

impl Small {
    fn new(test: &str) -> Small {
        let place = Place::new(test);
        fs::create_dir(place.path("small")).unwrap();
        fs::create_dir(place.path("m")).unwrap();
        place.tool("mount", &["-t", "tmpfs", "-o", "size=24m", "none", "small"]);
        Small(place)
    }

    /// Writes to a file on the mount until that fails or 40 MiB are durable.
    fn fill(&self) -> std::io::Result<()> {
        let file = File::create(self.0.path("m/large"))?;
        for megabyte in 0..40 {
            file.write_all_at(&content(megabyte, 1 << 20), megabyte << 20)?;
            file.sync_data()?;
        }
        Ok(())
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        for at in ["m", "small"] {
            let at = self.0.path(at);
            let _ = self.0.command("umount", &["-l", &at.display().to_string()]).output();
        }
    }
}

#[test]
fn a_device_that_fails_is_not_written_to_any_more() {
    for format in FORMATS {
        let small = Small::new(&format!("mount-failing-{format}"));
        let place = &small.0;
        place.works(&format!("mkfs {format} small/disk.img --size 512M"));
        place.works("mount small/disk.img m --log log");
        fs::write(place.path("m/kept"), "kept").unwrap();
        File::open(place.path("m")).unwrap().sync_all().unwrap();
        let error = small.fill().unwrap_err();
        assert_eq!(error.raw_os_error(), Some(5), "{format}: {error}");
        let error = fs::write(place.path("m/new"), "x").unwrap_err();
        assert_eq!(error.raw_os_error(), Some(30), "{format}: {error}");
        assert_eq!(fs::read_to_string(place.path("m/kept")).unwrap(), "kept");
        let log = fs::read_to_string(place.path("log")).unwrap();
        assert!(log.contains("read-only from now on") && log.contains("No space left"), "{format}: {log}");
        place.ends(1, "umount m");
    }
}

#[test]
fn a_mirror_goes_on_without_a_copy_that_fails_and_the_log_says_so() {
    let small = Small::new("mount-degraded");
    let place = &small.0;
    place.works("mkfs refs+integrity mirror:small/1.img,2.img --size 512M");
    place.works("mount mirror:small/1.img,2.img m --log log");
    small.fill().unwrap();
    place.ends(0, "umount m");
    let log = fs::read_to_string(place.path("log")).unwrap();
    assert!(log.contains("small/1.img") && log.contains("out of service"), "{log}");
    // Mounted for reading: a copy that is written to by itself would differ from the other.
    place.works("mount 2.img m -o ro");
    let large = fs::read(place.path("m/large")).unwrap();
    for (megabyte, part) in large.chunks(1 << 20).enumerate() {
        assert!(part == content(megabyte as u64, 1 << 20), "megabyte {megabyte}");
    }
    assert_eq!(large.len(), 40 << 20);
    place.ends(0, "umount m");
}

#[test]
fn a_mirror_is_mounted_without_a_copy_that_is_missing() {
    let place = Place::new("mount-missing");
    fs::create_dir(place.path("m")).unwrap();
    place.works("mkfs ntfs mirror:1.img,2.img --size 64M");
    fs::rename(place.path("2.img"), place.path("away.img")).unwrap();
    let (_, said) = place.ends(0, "mount mirror:1.img,2.img m");
    assert!(said.contains("2.img: this copy of the mirror is left out: it is missing"), "{said}");
    fs::write(place.path("m/file"), "content").unwrap();
    place.ends(0, "umount m");
    assert_eq!(place.ends(0, "cat mirror:1.img,2.img:/file").0, "content");
}

#[test]
fn the_root_has_an_owner_and_permissions_too() {
    for format in WITH_OWNERS {
        let mount = Mount::new("root", format);
        mount.shell("chmod 1750 m; chown 7:8 m; touch -d 2001-01-01T00:00:00Z m");
        mount.end();
        mount.mount("");
        assert_eq!(mount.shell("stat -c '%a %u %g %Y' m"), "1750 7 8 978307200\n", "{format}");
        mount.end();
    }
}

#[test]
fn a_listing_survives_what_happens_meanwhile() {
    for format in FORMATS {
        let mount = Mount::new("listing", format);
        for number in 0..2_000 {
            File::create(mount.at(&format!("file {number}"))).unwrap();
        }
        // Every second file is removed while the directory is read, and new files are made.
        let mut seen = Vec::new();
        for (number, entry) in fs::read_dir(mount.at("")).unwrap().enumerate() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            if number % 2 == 0 {
                fs::remove_file(mount.at(&name)).unwrap();
                fs::write(mount.at(&format!("new {number}")), "").unwrap();
            }
            seen.push(name);
        }
        let mut files: Vec<&String> = seen.iter().filter(|name| name.starts_with("file")).collect();
        files.sort();
        files.dedup();
        assert_eq!(files.len(), 2_000, "{format}: each that was there all the while is listed once");
        let listed = seen.iter().filter(|name| name.starts_with("file")).count();
        assert_eq!(listed, 2_000, "{format}");
        mount.shell("rm -r m/*");
        assert_eq!(mount.shell("ls m"), "");
        mount.end();
    }
}

#[test]
fn a_partition_is_mounted_by_its_number() {
    let place = Place::new("mount-partition");
    let disk = File::create(place.path("disk.img")).unwrap();
    disk.set_len(300 << 20).unwrap();
    let mut table = [0; 512];
    table[510..].copy_from_slice(&[0x55, 0xAA]);
    for (number, megabyte, length) in [(0, 1u32, 100u32), (1, 110, 180)] {
        let entry = &mut table[446 + 16 * number..][..16];
        entry[4] = 7;
        entry[8..12].copy_from_slice(&(megabyte * 2048).to_le_bytes());
        entry[12..].copy_from_slice(&(length * 2048).to_le_bytes());
    }
    disk.write_all_at(&table, 0).unwrap();
    place.works("mkfs exfat disk.img --partition 1");
    place.works("mkfs ntfs disk.img --partition 2");
    fs::create_dir(place.path("m")).unwrap();
    assert!(place.fails("mount disk.img m").contains("partition"));
    for (number, line) in
        [("1", "disk.img m --partition 1"), ("2", "disk.img m -o partition=2"), ("2", "disk.img@2 m")]
    {
        place.works(&format!("mount {line}"));
        fs::write(place.path("m/number"), number).unwrap();
        assert!(place.fails("mkfs ntfs disk.img --partition 1 --force").contains("is mounted at"));
        place.ends(0, "umount m");
    }
    assert_eq!(place.works("cat --partition 1 disk.img:/number"), "1");
    assert_eq!(place.works("cat --partition 2 disk.img:/number"), "2");
}

#[test]
fn an_ordinary_user_mounts_what_is_theirs() {
    let place = Place::new("mount-user");
    place.works("mkfs ntfs disk.img --size 64M");
    fs::create_dir(place.path("m")).unwrap();
    let program = place.path("platter");
    fs::copy(env!("CARGO_BIN_EXE_platter"), &program).unwrap();
    place.tool("chown", &["-R", "65534:65534", "."]);
    let user = |line: &str| -> Output {
        let arguments = ["--reuid=65534", "--regid=65534", "--clear-groups", "sh", "-ec", line];
        place.command("setpriv", &arguments).output().expect("setpriv is needed for this test")
    };
    let works = |line: &str| {
        let output = user(line);
        assert!(output.status.success(), "{line}: {output:?}");
    };
    works(
        "./platter mount disk.img m; echo mine > m/file; chmod 640 m/file; test $(stat -c %u m/file) = 65534",
    );
    // No other user has access, not even root.
    assert!(fs::read(place.path("m/file")).is_err());
    works("./platter umount m");
    assert_eq!(place.works("cat disk.img:/file"), "mine\n");
    assert!(place.works("check disk.img").contains("no damage"));
    works(
        "./platter mkfs ntfs mirror:1.img,2.img --size 64M; ./platter mount mirror:1.img,2.img m; echo two > m/file",
    );
    let error = user("./platter check --repair 2.img");
    assert!(String::from_utf8_lossy(&error.stderr).contains("is mounted at"), "{error:?}");
    works("./platter umount m; cmp 1.img 2.img");
    // A user who may not mount at a directory gets an error, and the volume is not changed.
    works(
        "./platter mkfs exfat 3.img --size 64M; ! ./platter mount 3.img /usr 2>refused; grep -q /usr refused",
    );
    works("./platter mount 3.img m; echo three > m/file; ./platter umount m");
}

#[test]
fn mount_and_its_table_know_it() {
    let place = Place::new("mount-helper");
    place.works("mkfs refs disk.img --size 512M");
    fs::create_dir(place.path("m")).unwrap();
    symlink(env!("CARGO_BIN_EXE_platter"), place.path("mount.fuse.platter")).unwrap();
    let helper = place.path("mount.fuse.platter");
    let arguments =
        ["disk.img", "m", "-n", "-o", "rw,uid=1000,umask=027,noexec,nofail", "-t", "fuse.platter"];
    place.tool(&helper.display().to_string(), &arguments);
    let root = fs::metadata(place.path("m")).unwrap();
    assert_eq!((root.uid(), root.mode() & 0o7777), (1000, 0o750));
    let table = fs::read_to_string("/proc/mounts").unwrap();
    let line = table.lines().find(|line| line.contains("mount-helper")).unwrap();
    assert!(line.contains("fuse.platter") && line.contains("noexec") && line.contains("disk.img"), "{line}");
    place.ends(0, "umount m");
    let wrong =
        place.command("./mount.fuse.platter", &["disk.img", "m", "-o", "colour=red"]).output().unwrap();
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("option colour=red is not known"), "{wrong:?}");
}

#[test]
fn a_log_says_what_happened() {
    let place = Place::new("mount-log");
    place.works("mkfs exfat disk.img --size 64M");
    fs::create_dir(place.path("m")).unwrap();
    place.works("mount disk.img m --log log");
    place.ends(0, "umount m");
    let log = fs::read_to_string(place.path("log")).unwrap();
    assert!(log.contains("is mounted at") && log.contains("is unmounted"), "{log}");
    for (line, why) in [
        ("mount disk.img nowhere", "No such file or directory"),
        ("mount disk.img disk.img", "is not a directory"),
        ("mount missing.img m", "No such file or directory"),
        ("mount log m", "no file system is recognised"),
    ] {
        let error = place.fails(line);
        assert!(error.contains(why), "{line}: {error}");
    }
}

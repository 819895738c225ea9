//! Tests of the files that `cargo xtask dist` makes: built twice in different places they are the same; lintian
//! accepts the package; each recipe is judged by the program that it is for; in a clean root the package is installed, used
//! and removed, and leaves nothing behind; and each way to install leads to a first listing, mount and comparison in a
//! minute.

use crate::command::{Scratch, cargo_program, run, said, text};
use crate::tools::{self, Tool};
use crate::{Outcome, archives, bindings, dist, recipes};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

const TOOLS: &[Tool] = &[
    ("lintian", "lintian"),
    ("debootstrap", "debootstrap"),
    ("chroot", "coreutils"),
    ("unshare", "util-linux"),
    ("git", "git"),
    ("desktop-file-validate", "desktop-file-utils"),
    ("shellcheck", "shellcheck"),
    ("duk", "duktape"),
    ("podman", "podman"),
    ("skopeo", "skopeo"),
];

/// The address that recipes get in this test. Nothing is downloaded.
const ADDRESS: &str = "https://example.org/platter";

/// The most seconds that each of the first steps may take, installation included.
const SECONDS: f64 = 60.0;

/// The ways to install in a clean root, each with the command that does it and the one that takes it back.
const WAYS: [(&str, &str, &str); 3] = [
    ("the Debian package", "dpkg -i /tmp/platter.deb", "dpkg -P platter"),
    ("the static program", "install /tmp/platter /usr/local/bin/", "rm /usr/local/bin/platter"),
    (
        "the wheel",
        "python3 -m venv /tmp/v
         /tmp/v/bin/pip install -q --no-index /tmp/*.whl
         ln -s /tmp/v/bin/platter /usr/local/bin/
         /tmp/v/bin/python -c 'import platterfs; platterfs.mkfs(\"/tmp/p.img\", \"ntfs\", size=64 << 20)'",
        "rm -r /tmp/v /tmp/p.img /usr/local/bin/platter",
    ),
];

/// The first steps of who has just installed Platter.
const STEPS: [(&str, &str); 3] = [
    (
        "ls",
        "platter mkfs ntfs disk.img --size 64M
         platter cp /etc/passwd disk.img:/
         platter ls -l disk.img:/ | grep passwd",
    ),
    (
        "mount",
        "mkdir m
         platter mount disk.img m
         cmp m/passwd /etc/passwd
         platter umount m
         rmdir m",
    ),
    (
        "compare",
        "platter compare --workloads overhead --targets raw,ntfs
         test -s platter-report/report.html",
    ),
];

/// The shell script that uses the installed program, in a directory of the clean root.
const USE: &str = "platter --version
test -e /usr/share/man/man1/platter.1.gz
gzip -dc /usr/share/man/man1/platter.1.gz | grep -q platter
bash -c '. /usr/share/bash-completion/completions/platter; complete -p platter'
mkfs -t platter --size 600M fat32 helped.img
fsck.platter helped.img
echo /root/helped.img /mnt platter noauto 0 2 > fstab
LIBMOUNT_FSTAB=fstab fsck -A -T -a
for page in mount.platter mount.fuse.platter umount.platter umount.fuse.platter mkfs.platter fsck.platter fsck.fuse.platter; do
    test -e /usr/share/man/man8/$page.8.gz
done
test -e /usr/share/doc/platter/README.md
test -e /usr/share/doc/platter/docs/install.md
gzip -dc /usr/share/doc/platter/platter.licences.txt.gz | grep -q 'Permission is hereby granted'
udevadm verify /usr/share/doc/platter/examples/udev/90-platter.rules
printf '#!/bin/sh\\ntest -e \"$1/passwd\" && touch /root/shown\\n' > /usr/local/bin/xdg-open
chmod 755 /usr/local/bin/xdg-open
platter mkfs refs clicked.img --size 600M
platter cp /etc/passwd clicked.img:/passwd
test \"$(blkid -p -o value -s TYPE clicked.img)\" = ReFS
for time in first second; do
    rm -f shown
    /usr/libexec/platter/open clicked.img
    test -e shown
done
/usr/libexec/platter/open --unmount clicked.img
if /usr/libexec/platter/open /etc/passwd; then exit 1; fi
rm -r /usr/local/bin/xdg-open /tmp/platter-0
for format in fat32 exfat ntfs refs; do
    platter mkfs $format $format.img --size 600M
    platter cp /etc/passwd $format.img:/passwd
    platter cat $format.img:/passwd | cmp - /etc/passwd
    platter check $format.img
done
platter compare --workloads overhead --device mem:256M --targets raw,fat32 --span 16M --time 0.1 --repeat 1 --parquet tables
test -s platter-report/report.html
ls tables/*.parquet
rm -r /root/*
";

/// Lists every file of the clean root except those in which dpkg keeps its records.
const LIST: &str = "find / -xdev -not -path '/proc/*' -not -path '/var/lib/dpkg/*' -not -path '/var/log/*' \
                    -not -path '/var/cache/*' | LC_ALL=C sort";

/// Judges what dist makes now, or what it made in a directory before.
pub(crate) fn judge(made: Option<&str>) -> Outcome {
    if !tools::is_root() {
        return Err("a clean root needs root".into());
    }
    tools::provide(TOOLS)?;
    tools::provide(recipes::TOOLS)?;
    tools::provide_judges()?;
    let here = Scratch::new("packages")?;
    let made = match made {
        Some(directory) => PathBuf::from(directory),
        None => twice(&here)?,
    };
    let package = made.join(dist::package_name());
    let strict = ["--fail-on", "error,warning", "--tag-display-limit", "0", text(&package)?];
    run("lintian", &strict, &[])?;
    run("desktop-file-validate", &["packaging/desktop/platter-image.desktop"], &[])?;
    run("shellcheck", &["packaging/desktop/open"], &[])?;
    // Duktape is what polkit runs rules with.
    let answers =
        said(Command::new("duk").args(["xtask/judges/polkit.js", "deploy/polkit/50-platter.rules"]))?;
    if !answers.contains("as it should") {
        return Err(format!("the rule of polkit: {answers}"));
    }
    image(&here, &made.join("platter.oci.tar"))?;
    recipes::fill(text(&made)?, ADDRESS)?;
    recipes::judge(&made.join("recipes"), &made)?;
    clean_root(&here, &made)
}

/// Loads the image for containers as its users do, and checks the name that it gets.
fn image(here: &Scratch, image: &Path) -> Outcome {
    run("skopeo", &["inspect", &format!("oci-archive:{}", text(image)?)], &[])?;
    let store = here.folder("store")?;
    let podman = |words: &[&str]| {
        said(Command::new("podman").args(["--storage-driver", "vfs", "--root", text(&store)?]).args(words))
    };
    let loaded = podman(&["load", "--input", text(image)?])?;
    match loaded.contains(&format!("/platter:{}", env!("CARGO_PKG_VERSION"))) {
        true => Ok(()),
        false => Err(format!("{}: loaded as {loaded}", image.display())),
    }
}

/// Has dist make its files, and again from the archive of the sources in another place; returns where the first are.
fn twice(here: &Scratch) -> Result<PathBuf, String> {
    let (first, second) = (here.folder("first")?, here.folder("second")?);
    dist::make(text(&first)?)?;
    from_the_archive(here, &first.join(archives::source_name()), &second)?;
    let sums =
        |folder: &Path| std::fs::read_to_string(folder.join("SHA256SUMS")).map_err(|error| error.to_string());
    if sums(&first)? != sums(&second)? {
        return Err(format!("built twice, and not the same:\n{}\n{}", sums(&first)?, sums(&second)?));
    }
    eprintln!("built twice in different places: the same");
    Ok(first)
}

/// Builds all files again, from the archive of the sources.
fn from_the_archive(here: &Scratch, archive: &Path, out: &Path) -> Outcome {
    let sources = here.folder("sources")?;
    run("tar", &["-C", text(&sources)?, "--strip-components=1", "-xzf", text(archive)?], &[])?;
    let epoch = dist::epoch()?;
    let target = bindings::target_directory()?.join("twice");
    let status = Command::new(cargo_program())
        .args(["run", "--quiet", "--package", "xtask", "--", "dist", text(out)?])
        .current_dir(&sources)
        .envs([("CARGO_TARGET_DIR", text(&target)?), ("SOURCE_DATE_EPOCH", &epoch)])
        .status()
        .map_err(|error| error.to_string())?;
    if status.success() { Ok(()) } else { Err(format!("the second build: {status}")) }
}

fn clean_root(here: &Scratch, made: &Path) -> Outcome {
    let root = here.folder("root")?;
    let include = "--include=fuse3,python3-venv,udev";
    run("debootstrap", &["--variant=minbase", include, "stable", text(&root)?], &[])?;
    let inside = |script: &str| {
        // The program reads mounts from /proc. The mount of /proc in the clean root ends with the mount namespace.
        let enter = "mount -t proc proc \"$0/proc\" && exec chroot \"$0\" sh -e -c \"cd /root; $1\"";
        let output =
            Command::new("unshare").args(["--mount", "sh", "-c", enter, text(&root)?, script]).output();
        let output = output.map_err(|error| format!("unshare: {error}"))?;
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            false => Err(format!("in the clean root: {script}\n{}", String::from_utf8_lossy(&output.stderr))),
        }
    };
    let copy = |file: &Path, name: &str| {
        std::fs::copy(file, root.join(name)).map_err(|error| format!("{}: {error}", file.display()))
    };
    copy(&made.join(dist::package_name()), "tmp/platter.deb")?;
    copy(&made.join("platter"), "tmp/platter")?;
    let wheel = dist::wheel_of(made)?;
    let name = wheel.file_name().unwrap_or_default().to_string_lossy().into_owned();
    copy(&wheel, &format!("tmp/{name}"))?;
    inside("mknod /dev/fuse c 10 229; if command -v cargo || command -v rustc; then exit 1; fi")?;
    // The dependencies are those that are there, and no others.
    let before = inside(LIST)?;
    inside("dpkg -i /tmp/platter.deb")?;
    let installed = inside(LIST)?;
    eprint!("{}", inside(USE)?);
    inside("dpkg -P platter")?;
    let after = inside(LIST)?;
    let is_there = installed.lines().any(|line| line == "/usr/bin/platter");
    if !is_there || before != after {
        let left: Vec<&str> =
            after.lines().filter(|line| !before.lines().any(|other| other == *line)).collect();
        return Err(format!("installed: {is_there}; left behind: {left:?}"));
    }
    eprintln!("installed, used and removed in a clean root: nothing is left");
    for (name, install, remove) in WAYS {
        first_steps(name, install, &inside)?;
        inside(&format!("rm -r /root/*; {remove}"))?;
    }
    Ok(())
}

/// Installs in one way and takes the first steps, and says how long each took.
fn first_steps(name: &str, install: &str, inside: &dyn Fn(&str) -> Result<String, String>) -> Outcome {
    let mut said = Vec::new();
    for (step, script) in [("installed", install)].iter().chain(&STEPS) {
        let began = Instant::now();
        inside(script)?;
        let seconds = began.elapsed().as_secs_f64();
        said.push(format!("{step} {seconds:.1} s"));
        if seconds >= SECONDS {
            return Err(format!("{name}: {}", said.join(", ")));
        }
    }
    eprintln!("{name}: {}", said.join(", "));
    Ok(())
}

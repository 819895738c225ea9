//! Tests of the files that `cargo xtask dist` makes: built twice in different places they are the same; lintian
//! accepts the package; and in a clean root the package is installed, used and removed, and leaves nothing behind.

use crate::command::{Scratch, cargo_program, run, text};
use crate::tools::{self, Tool};
use crate::{Outcome, bindings, dist};
use std::path::Path;
use std::process::Command;

const TOOLS: &[Tool] = &[
    ("lintian", "lintian"),
    ("debootstrap", "debootstrap"),
    ("chroot", "coreutils"),
    ("unshare", "util-linux"),
    ("git", "git"),
];

/// The shell script that uses the installed program, in a directory of the clean root.
const USE: &str = "set -e
cd /root
platter --version
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

pub(crate) fn judge() -> Outcome {
    if !tools::is_root() {
        return Err("a clean root needs root".into());
    }
    tools::provide(TOOLS)?;
    let here = Scratch::new("packages")?;
    let (first, second) = (here.folder("first")?, here.folder("second")?);
    dist::make(text(&first)?)?;
    twice(&here, &second)?;
    let sums =
        |folder: &Path| std::fs::read_to_string(folder.join("SHA256SUMS")).map_err(|error| error.to_string());
    if sums(&first)? != sums(&second)? {
        return Err(format!("built twice, and not the same:\n{}\n{}", sums(&first)?, sums(&second)?));
    }
    eprintln!("built twice in different places: the same");
    let package = first.join(dist::package_name());
    let strict = ["--fail-on", "error,warning", "--tag-display-limit", "0", text(&package)?];
    run("lintian", &strict, &[])?;
    clean_root(&here, &package)
}

/// Builds all files again, from a copy of the sources in another place.
fn twice(here: &Scratch, out: &Path) -> Outcome {
    let sources = here.folder("sources")?;
    let copy = format!("git ls-files -z | tar --null -T - -cf - | tar -C {} -xf -", text(&sources)?);
    run("sh", &["-c", &copy], &[])?;
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

fn clean_root(here: &Scratch, package: &Path) -> Outcome {
    let root = here.folder("root")?;
    run("debootstrap", &["--variant=minbase", "--include=fuse3", "stable", text(&root)?], &[])?;
    let inside = |script: &str| {
        // The program reads mounts from /proc. The mount of /proc in the clean root ends with the mount namespace.
        let enter = "mount -t proc proc \"$0/proc\" && exec chroot \"$0\" sh -c \"$1\"";
        let output =
            Command::new("unshare").args(["--mount", "sh", "-c", enter, text(&root)?, script]).output();
        let output = output.map_err(|error| format!("unshare: {error}"))?;
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            false => Err(format!("in the clean root: {script}\n{}", String::from_utf8_lossy(&output.stderr))),
        }
    };
    std::fs::copy(package, root.join("tmp/platter.deb"))
        .map_err(|error| format!("{}: {error}", package.display()))?;
    // The dependencies are those that are there, and no others.
    let before = inside(LIST)?;
    inside("dpkg -i /tmp/platter.deb")?;
    let installed = inside(LIST)?;
    eprint!("{}", inside(USE)?);
    inside("dpkg -P platter")?;
    let after = inside(LIST)?;
    let is_there = installed.lines().any(|line| line == "/usr/bin/platter");
    match is_there && before == after {
        true => {
            eprintln!("installed, used and removed in a clean root: nothing is left");
            Ok(())
        }
        false => {
            let left: Vec<&str> =
                after.lines().filter(|line| !before.lines().any(|other| other == *line)).collect();
            Err(format!("installed: {is_there}; left behind: {left:?}"))
        }
    }
}

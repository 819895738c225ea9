//! The programs of other projects that tests and measurements need.

use crate::Outcome;
use crate::command::{cargo, run};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

/// A program, and the Debian package that contains it.
pub(crate) type Tool = (&'static str, &'static str);

/// The programs that the test suite needs.
pub(crate) const FOR_TESTS: &[Tool] = &[
    ("fsck.fat", "dosfstools"),
    ("mkfs.fat", "dosfstools"),
    ("mcopy", "mtools"),
    ("mdir", "mtools"),
    ("chromium", "chromium"),
    ("fsck.exfat", "exfatprogs"),
    ("mkfs.exfat", "exfatprogs"),
    ("dump.exfat", "exfatprogs"),
    ("mount.exfat-fuse", "exfat-fuse"),
    ("losetup", "mount"),
    ("sfdisk", "fdisk"),
    ("qemu-img", "qemu-utils"),
    ("qemu-io", "qemu-utils"),
    ("nbdcopy", "libnbd-bin"),
    ("nbdinfo", "libnbd-bin"),
    ("ewfacquire", "ewf-tools"),
    ("ewfexport", "ewf-tools"),
    ("ldmtool", "ldmtool"),
    ("vhdiinfo", "libvhdi-utils"),
    ("vhdimount", "libvhdi-utils"),
    ("cryptsetup", "cryptsetup-bin"),
    ("dislocker-file", "dislocker"),
    ("bdeinfo", "libbde-utils"),
    ("mcs", "mono-mcs"),
    ("mono", "mono-runtime"),
    ("addpart", "util-linux"),
    ("mkfs.ext4", "e2fsprogs"),
    ("mkfs.xfs", "xfsprogs"),
    ("mkfs.btrfs", "btrfs-progs"),
    ("ntfs-3g", "ntfs-3g"),
    ("mkntfs", "ntfs-3g"),
    ("fusermount", "fuse3"),
    ("fusermount3", "fuse3"),
    ("rsync", "rsync"),
    ("restic", "restic"),
    ("borg", "borgbackup"),
    ("faketime", "faketime"),
    ("git", "git"),
    ("curl", "curl"),
    ("jq", "jq"),
    ("patch", "patch"),
    ("sqlite3", "sqlite3"),
    ("fio", "fio"),
    ("dbench", "dbench"),
    ("stress-ng", "stress-ng"),
    ("smbd", "samba"),
    ("smbtorture", "samba-testsuite"),
    // It has modules of smbd alone, in a directory whose name depends on the machine.
    ("/usr/share/doc/samba-vfs-modules/copyright", "samba-vfs-modules"),
    ("setpriv", "util-linux"),
    // They judge the manual pages and the completions.
    ("mandoc", "mandoc"),
    ("man", "man-db"),
    ("zsh", "zsh"),
    ("fish", "fish"),
    // It is the terminal of the browser.
    ("tmux", "tmux"),
    ("pg_ctlcluster", "postgresql"),
    ("unshare", "util-linux"),
    ("setfattr", "attr"),
    ("setfacl", "acl"),
    ("tsk_recover", "sleuthkit"),
    ("qemu-system-x86_64", "qemu-system-x86"),
    ("busybox", "busybox-static"),
    ("cpio", "cpio"),
    ("xz", "xz-utils"),
    ("pkg-config", "pkgconf"),
    ("python3", "python3"),
    ("pip3", "python3-pip"),
];

/// The programs that the comparison with fio needs.
pub(crate) const FOR_ACCURACY: &[Tool] =
    &[("fio", "fio"), ("mkfs.ext4", "e2fsprogs"), ("losetup", "mount"), ("taskset", "util-linux")];

/// Makes sure that the tools are installed: installs their packages if this process may, otherwise fails with their
/// names.
pub(crate) fn provide(tools: &[Tool]) -> Outcome {
    let mut packages: Vec<&str> =
        tools.iter().filter(|(program, _)| !is_there(program)).map(|(_, package)| *package).collect();
    packages.sort_unstable();
    packages.dedup();
    if packages.is_empty() {
        return Ok(());
    }
    let missing = format!("these Debian packages are needed: {}", packages.join(" "));
    if !is_root() || !is_there("apt-get") {
        return Err(format!("{missing}\n  sudo apt-get install {}", packages.join(" ")));
    }
    eprintln!("{missing}; installing them");
    let quiet = [("DEBIAN_FRONTEND", "noninteractive")];
    run("apt-get", &["update", "-qq"], &quiet)?;
    let mut arguments = vec!["install", "-y", "-qq", "--no-install-recommends"];
    arguments.extend(&packages);
    run("apt-get", &arguments, &quiet)?;
    match tools.iter().find(|(program, _)| !is_there(program)) {
        None => Ok(()),
        Some((program, package)) => Err(format!("{program} is missing although {package} was installed")),
    }
}

/// Packages from PyPI that the tests compare with, and their dependencies. The versions are those that the tests were
/// written for: an older dissect.fat, for example, finds no volume on an exFAT image.
const FROM_PYPI: &[(&str, &str)] = &[
    ("dissect.cstruct", "4.7"),
    ("dissect.util", "3.24"),
    ("dissect.fat", "3.13"),
    ("dissect.ntfs", "3.16"),
    ("dissect.hypervisor", "3.21"),
    ("libfsntfs-python", "20260827"),
    // They read the script and the workflow that nothing here can run.
    ("tree-sitter-language-pack", "0.7.2"),
    ("check-jsonschema", "0.39.0"),
    // It brings axe-core, which judges the pages of reports in Chromium.
    ("axe-core-python", "0.1.0"),
];

/// Programs from crates.io that the tests use, with the versions that the tests were written for.
const FROM_CRATES: &[(&str, &str)] = &[("fsx", "0.3.2"), ("pjdfstest", "0.2.2")];

/// Makes sure that the programs from PyPI and crates.io are installed.
pub(crate) fn provide_judges() -> Outcome {
    for (program, version) in FROM_CRATES.iter().filter(|(program, _)| !is_there(program)) {
        cargo(&["install", "--quiet", "--locked", "--version", version, program])?;
    }
    let missing: Vec<String> = FROM_PYPI
        .iter()
        .filter(|(package, version)| {
            let ask =
                format!("from importlib.metadata import version; assert version({package:?}) == {version:?}");
            let asked = Command::new("python3").args(["-c", &ask]).stderr(Stdio::null()).status();
            !asked.is_ok_and(|status| status.success())
        })
        .map(|(package, version)| format!("{package}=={version}"))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let mut plain = vec!["-m", "pip", "install", "-q"];
    plain.extend(missing.iter().map(String::as_str));
    let forced = [&plain[..], &["--break-system-packages"]].concat();
    run("python3", &plain, &[]).or_else(|_| run("python3", &forced, &[]))
}

/// Makes `/dev/fuse` accessible to all users, as on any system where udev runs (systemd's `50-udev-default.rules`).
/// In containers and small virtual machines it has the kernel's own mode, with which no ordinary user can mount. Only
/// root can change the mode.
pub(crate) fn open_fuse() -> Outcome {
    const FUSE: &str = "/dev/fuse";
    let failed = |error| format!("{FUSE}: {error}");
    let mode = std::fs::metadata(FUSE).map_err(failed)?.permissions().mode();
    if mode & 0o006 == 0o006 || !is_root() {
        return Ok(());
    }
    eprintln!("{FUSE} is opened to everybody (mode 0666)");
    std::fs::set_permissions(FUSE, Permissions::from_mode(0o666)).map_err(failed)
}

/// Whether a program is on the path, or in a directory where Debian keeps programs for administrators.
pub(crate) fn is_there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin".into(), "/sbin".into()])
        .any(|directory| directory.join(program).is_file())
}

/// Whether this process is root, and so may install packages and set up devices.
pub(crate) fn is_root() -> bool {
    let output = Command::new("id").arg("-u").stderr(Stdio::null()).output();
    output.is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

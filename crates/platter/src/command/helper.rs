//! The names under which other programs call this one: it is a helper of mount(8), umount(8), mkfs(8) and fsck(8),
//! and of whatever reads `/etc/fstab`, through symbolic links such as `/sbin/fsck.platter`.

use platter_device::host::HostBytes;
use std::ffi::{OsStr, OsString};
use std::path::Path;

/// The file system types that may follow the dot in a helper's name: the type given to mount(8) and mkfs(8) with
/// `-t`, and the one that a mount has in `/proc/mounts`. `/etc/fstab` may contain either.
const TYPES: [&str; 2] = ["platter", "fuse.platter"];

/// Translates the arguments of a helper to those of a `platter` command; `None` if the program was not called by a
/// helper's name.
pub(super) fn arguments(called: &[OsString]) -> Option<Vec<OsString>> {
    let (program, given) = called.split_first()?;
    let (helper, kind) = Path::new(program).file_name()?.to_str()?.split_once('.')?;
    if !TYPES.contains(&kind) {
        return None;
    }
    let translated = match helper {
        "mount" => mount(given),
        "umount" => umount(given),
        "mkfs" => mkfs(given),
        "fsck" => fsck(given),
        _ => return None,
    };
    Some([OsString::from("platter")].into_iter().chain(translated).collect())
}

/// Returns the letters of a short option such as `-sv`; `None` for any other argument.
fn letters(argument: &OsStr) -> Option<&[u8]> {
    match argument.as_bytes() {
        [b'-', letters @ ..] if !letters.is_empty() && letters[0] != b'-' => Some(letters),
        _ => None,
    }
}

/// Source: mount(8), "External helpers": `mount.TYPE SPEC DIR [-sfnv] [-N NAMESPACE] [-o OPTIONS] [-t TYPE.SUBTYPE]`,
/// and "defaults": `dev` and `suid` hold unless `nodev` and `nosuid` are given, and mount(8) does not pass them on.
/// So they are put before the given options, which override them.
fn mount(given: &[OsString]) -> Vec<OsString> {
    let mut translated: Vec<OsString> = ["mount", "-o", "dev,suid"].map(OsString::from).into();
    let mut given = given.iter();
    while let Some(argument) = given.next() {
        match letters(argument) {
            Some(b"N" | b"t") => drop(given.next()),
            Some(b"r") => translated.extend(["-o".into(), "ro".into()]),
            Some(flags) if flags.iter().all(|flag| b"sfnvw".contains(flag)) => {
                translated.extend(flags.contains(&b'f').then(|| "--fake".into()));
            }
            _ => translated.push(argument.clone()),
        }
    }
    translated
}

/// Source: umount(8), "External helpers": `umount.TYPE DIR [-flnrv] [-N NAMESPACE] [-t TYPE.SUBTYPE]`.
fn umount(given: &[OsString]) -> Vec<OsString> {
    let mut translated: Vec<OsString> = vec!["umount".into()];
    let mut given = given.iter();
    while let Some(argument) = given.next() {
        match letters(argument) {
            Some(b"N" | b"t") => drop(given.next()),
            Some(flags) if flags.contains(&b'l') => translated.push("--lazy".into()),
            Some(flags) if flags.iter().all(|flag| b"fnrv".contains(flag)) => {}
            _ => translated.push(argument.clone()),
        }
    }
    translated
}

/// Source: mkfs(8): `mkfs [-t TYPE] [FS-OPTIONS] DEVICE` calls `mkfs.TYPE [FS-OPTIONS] DEVICE`. The arguments are
/// those of `platter mkfs`, which begin with the file system to make.
fn mkfs(given: &[OsString]) -> Vec<OsString> {
    [OsString::from("mkfs")].into_iter().chain(given.iter().cloned()).collect()
}

/// Source: fsck(8): `fsck.TYPE [FS-OPTIONS] DEVICE`, and the options that most checkers share: `-a`, "repair without
/// any questions", `-n`, "avoid attempting to repair", `-y`, "always attempt to fix"; `-C[FD]` asks for progress.
/// e2fsck(8): `-p` is `-a`, and checks only volumes that were not closed unless `-f` is given; `-V` asks for the
/// version.
fn fsck(given: &[OsString]) -> Vec<OsString> {
    let (mut repairs, mut is_preen, mut all, mut only_reads) = (false, false, false, false);
    let mut rest: Vec<OsString> = Vec::new();
    let mut given = given.iter().peekable();
    while let Some(argument) = given.next() {
        match letters(argument) {
            Some([b'C', descriptor @ ..]) => {
                // The file descriptor's number may be an argument of its own, or missing.
                if descriptor.is_empty() {
                    given.next_if(|next| next.as_bytes().iter().all(u8::is_ascii_digit));
                }
            }
            Some(flags) if flags.iter().all(|flag| b"apynfvV".contains(flag)) => {
                if flags.contains(&b'V') {
                    return vec!["--version".into()];
                }
                is_preen |= flags.contains(&b'a') || flags.contains(&b'p');
                repairs |= flags.contains(&b'y');
                all |= flags.contains(&b'f');
                only_reads |= flags.contains(&b'n');
            }
            _ => rest.push(argument.clone()),
        }
    }
    let mut translated: Vec<OsString> = vec!["check".into()];
    // `-n` overrides the options that ask for a repair.
    if (repairs || is_preen) && !only_reads {
        translated.push("--repair".into());
    }
    if is_preen && !repairs && !all {
        translated.push("--if-dirty".into());
    }
    translated.extend(rest);
    translated
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(line: &str) -> Option<String> {
        let called: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        arguments(&called).map(|arguments| arguments.join(OsStr::new(" ")).into_string().unwrap())
    }

    #[test]
    fn helpers_are_commands() {
        for (called, command) in [
            (
                "/sbin/mount.fuse.platter /dev/sdz1 /mnt -n -o rw,uid=5 -t fuse.platter",
                "mount -o dev,suid /dev/sdz1 /mnt -o rw,uid=5",
            ),
            ("mount.platter a.img /mnt -sv -r", "mount -o dev,suid a.img /mnt -o ro"),
            ("mount.platter a.img /mnt -fv", "mount -o dev,suid a.img /mnt --fake"),
            ("/sbin/umount.fuse.platter /mnt -v -t fuse.platter", "umount /mnt"),
            ("umount.platter /mnt -l", "umount /mnt --lazy"),
            ("mkfs.platter ntfs /dev/sdz1 --label x", "mkfs ntfs /dev/sdz1 --label x"),
            ("fsck.platter /dev/sdz1", "check /dev/sdz1"),
            ("/sbin/fsck.fuse.platter -a -C0 /dev/sdz1", "check --repair --if-dirty /dev/sdz1"),
            ("fsck.platter -p -C 5 /dev/sdz1", "check --repair --if-dirty /dev/sdz1"),
            ("fsck.platter -pf -C /dev/sdz1", "check --repair /dev/sdz1"),
            ("fsck.platter -yv /dev/sdz1 --no-undo", "check --repair /dev/sdz1 --no-undo"),
            ("fsck.platter -y -n /dev/sdz1", "check /dev/sdz1"),
            ("fsck.platter -n -a /dev/sdz1", "check --if-dirty /dev/sdz1"),
            ("fsck.platter -V", "--version"),
            ("fsck.platter -b 8193 /dev/sdz1", "check -b 8193 /dev/sdz1"),
        ] {
            assert_eq!(call(called).unwrap(), format!("platter {command}"), "{called}");
        }
        for other in ["umount.nfs /mnt", "fsck.ntfs a", "platter mount a b", "lint.platter a"] {
            assert_eq!(call(other), None, "{other}");
        }
    }
}

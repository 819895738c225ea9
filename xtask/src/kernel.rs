//! The Linux kernel that the tests emulate: one with ntfs3, and with an exFAT that supports the valid data length.

use crate::Outcome;
use crate::command::run;
use crate::tools::{is_root, is_there};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The directory in which the tests look for an unpacked kernel package, unless PLATTER_KERNEL is set.
const USUAL: &str = "/var/lib/platter-kernel";

/// Makes sure that a kernel is there: unpacks (without installing) the one from Debian's backports.
pub(crate) fn provide() -> Outcome {
    let place = PathBuf::from(std::env::var_os("PLATTER_KERNEL").unwrap_or_else(|| USUAL.into()));
    if has_ntfs3(&place) {
        return Ok(());
    }
    let what = format!("{} holds no Linux of 6.8 or later with ntfs3", place.display());
    let Some(release) = debian().filter(|_| is_root() && is_there("apt-get")) else {
        return Err(format!(
            "{what}: unpack a kernel package there with dpkg-deb -x, Debian's linux-image-amd64 of backports for \
             instance, or set PLATTER_KERNEL to where one is"
        ));
    };
    eprintln!("{what}; unpacking the one of {release}-backports there");
    let folder = std::env::temp_dir().join(format!("platter-kernel-{}", std::process::id()));
    let made = std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()));
    let unpacked = made.and_then(|()| unpack(&release, &folder, &place));
    // The downloaded files are not needed any more, even if unpacking failed.
    let _ = std::fs::remove_dir_all(&folder);
    unpacked?;
    if has_ntfs3(&place) { Ok(()) } else { Err(format!("{what}, though it was unpacked there")) }
}

fn unpack(release: &str, folder: &Path, place: &Path) -> Outcome {
    let at = |name: &str| folder.join(name).display().to_string();
    let source = format!("deb {} {release}-backports main\n", archive(release)?);
    std::fs::write(at("sources.list"), source).map_err(|error| format!("{}: {error}", at("sources.list")))?;
    let place = place.display().to_string();
    // The package sources and lists of the system are not changed.
    let script = r#"set -e
cd "$1"
mkdir -p lists/partial
only="-o Dir::Etc::sourcelist=$1/sources.list -o Dir::Etc::sourceparts=/dev/null -o Dir::State::lists=$1/lists"
only="$only -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= -o APT::Sandbox::User=root"
apt-get -qq $only update
package=$(apt-cache $only depends linux-image-amd64 | sed -n 's/^ *Depends: \(linux-image-[0-9]\)/\1/p' | head -n 1)
apt-get -qq $only download "$package"
rm -rf "$2"
mkdir -p "$2"
dpkg-deb -x linux-image-*.deb "$2"
"#;
    run("sh", &["-c", script, "kernel", &folder.display().to_string(), &place], &[])
}

/// Returns where this system gets packages of this release from: the first of its sources (apt-get(8),
/// "indextargets").
fn archive(release: &str) -> Result<String, String> {
    let codename = format!("Codename: {release}");
    let asked = Command::new("apt-get")
        .args(["indextargets", "--format", "$(REPO_URI)", "Created-By: Packages", &codename])
        .output();
    let asked = asked.map_err(|error| format!("apt-get: {error}"))?;
    let text = String::from_utf8_lossy(&asked.stdout).into_owned();
    match text.lines().next() {
        Some(place) if !place.is_empty() => Ok(place.trim_end_matches('/').to_string()),
        _ => Err(format!(
            "the package sources of this system name no place that has {release}; add one, run apt-get update, or set \
             PLATTER_KERNEL to where an unpacked kernel package is"
        )),
    }
}

fn has_ntfs3(place: &Path) -> bool {
    let found = Command::new("find").arg(place).args(["-name", "ntfs3.ko*"]).output();
    found.is_ok_and(|found| !found.stdout.is_empty())
}

/// Returns the code name of this release of Debian, if the system is Debian.
fn debian() -> Option<String> {
    let text = std::fs::read_to_string("/etc/os-release").ok()?;
    let value = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        line.map(|value| value.trim_matches('"').to_owned())
    };
    value("VERSION_CODENAME").filter(|_| value("ID").as_deref() == Some("debian"))
}

//! The archives that recipes download: the sources, and the program for Windows.

use crate::command::{Scratch, cargo_with, run, said, text, write};
use crate::tools::Tool;
use crate::{Outcome, bill, bindings, dist};
use std::path::Path;
use std::process::Command;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The compilation target of programs for Windows.
const WINDOWS: &str = "x86_64-pc-windows-gnu";

pub(crate) const TOOLS: &[Tool] = &[
    ("x86_64-w64-mingw32-gcc", "gcc-mingw-w64-x86-64"),
    ("zip", "zip"),
    ("bash", "bash"),
    ("find", "findutils"),
];

/// Returns the name of the archive of the sources.
pub(crate) fn source_name() -> String {
    format!("platter-{VERSION}.tar.gz")
}

/// Returns the name of the archive with the program for Windows.
pub(crate) fn windows_name() -> String {
    format!("platter-{VERSION}-x86_64-windows.zip")
}

/// Archives the sources: the files that git knows, or all where git knows nothing, as in an unpacked archive.
pub(crate) fn source(out: &Path, epoch: &str) -> Outcome {
    let here = std::env::current_dir().map_err(|error| error.to_string())?;
    let list = match here.join(".git").exists() {
        true => "git ls-files -z".to_owned(),
        false => {
            let inside = out.strip_prefix(&here).ok().and_then(Path::to_str).unwrap_or("target");
            format!("find . -type f -not -path './target/*' -not -path './{inside}/*' -printf '%P\\0'")
        }
    };
    let made = out.join(source_name());
    let script = format!(
        "set -o pipefail; {list} | LC_ALL=C sort -z | tar --no-recursion --null --files-from=- --transform='s,^,platter-{VERSION}/,S' \
         --owner=0 --group=0 --numeric-owner --format=gnu --mtime=@{epoch} --mode=u=rwX,go=rX -cf - | gzip -9n > '{}'",
        text(&made)?
    );
    run("bash", &["-c", &script], &[])
}

/// Builds the program for Windows, and archives it with its licences.
pub(crate) fn windows(out: &Path, epoch: &str) -> Outcome {
    dist::provide_target(WINDOWS)?;
    let target = bindings::target_directory()?.join("dist");
    // The time at which it was linked would be another each time.
    let flags = format!("{} -Clink-arg=-Wl,--no-insert-timestamp", dist::flags()?);
    let environment =
        [("RUSTFLAGS", flags.as_str()), ("CARGO_TARGET_DIR", text(&target)?), ("CARGO_INCREMENTAL", "0")];
    cargo_with(&[&dist::BUILD[..], &["--target", WINDOWS]].concat(), &environment)?;
    let here = Scratch::new("zip")?;
    let folder = here.folder("files")?;
    let built = target.join(WINDOWS).join(dist::PROFILE).join("platter.exe");
    let copied = |from: &Path, name: &str| {
        std::fs::copy(from, folder.join(name))
            .map(drop)
            .map_err(|error| format!("{}: {error}", from.display()))
    };
    copied(&built, "platter.exe")?;
    copied(Path::new("README.md"), "README.md")?;
    copied(Path::new("docs/windows.md"), "windows.md")?;
    copied(Path::new("windows/compare.ps1"), "compare.ps1")?;
    write(&folder.join("licences.txt"), &bill::licences(WINDOWS)?)?;
    let names = ["README.md", "compare.ps1", "licences.txt", "platter.exe", "windows.md"];
    for name in names {
        run("touch", &["-d", &format!("@{epoch}"), text(&folder.join(name))?], &[])?;
    }
    let made = out.join(windows_name());
    let _ = std::fs::remove_file(&made);
    let mut zip = Command::new("zip");
    // A time in a zip file is a local one.
    zip.args(["-X", "-9", "-q", text(&made)?]).args(names).current_dir(&folder).env("TZ", "UTC");
    said(&mut zip).map(drop)
}

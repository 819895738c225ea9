//! The files that people install: a static program, a Debian package, a container image, the program for Windows, the
//! sources, and a list of all dependencies in them, with their licences.
//!
//! All files are reproducible: the same sources and compiler give the same bytes in another place, because the
//! builder's paths are mapped away and all times are those of the last commit.

use crate::command::{Scratch, cargo_with, run, text, write};
use crate::tools::{self, Tool};
use crate::{Outcome, archives, bill, bindings, clibrary, command};
use std::fmt::Write;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The compilation target of static programs.
pub(crate) const TARGET: &str = "x86_64-unknown-linux-musl";

const TOOLS: &[Tool] = &[
    ("git", "git"),
    ("gzip", "gzip"),
    ("tar", "tar"),
    ("dpkg-deb", "dpkg"),
    ("sha256sum", "coreutils"),
    ("musl-gcc", "musl-tools"),
];

/// The features of programs that people install.
pub(crate) const FEATURES: &str = "parquet";

/// The profile of cargo that they are built with, which is also the directory of a target that they are in.
pub(crate) const PROFILE: &str = "dist";

/// The arguments of cargo that build such a program; a target follows.
pub(crate) const BUILD: [&str; 10] = [
    "build",
    "--locked",
    "--profile",
    PROFILE,
    "--manifest-path",
    "crates/platter/Cargo.toml",
    "--bin",
    "platter",
    "--features",
    FEATURES,
];

const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The licences of what is compiled into the static program.
const LICENCES: &str = "platter.licences.txt";
const MAINTAINER: &str = "The Platter authors <platter@example.org>";

/// The names under which mount(8), umount(8), mkfs(8) and fsck(8) look for the program, and the command whose manual
/// page each gets.
const HELPERS: [(&str, &str); 7] = [
    ("mount.platter", "mount"),
    ("mount.fuse.platter", "mount"),
    ("umount.platter", "umount"),
    ("umount.fuse.platter", "umount"),
    ("mkfs.platter", "mkfs"),
    ("fsck.platter", "check"),
    ("fsck.fuse.platter", "check"),
];

/// Files of the sources that the Debian package has, and the directories that they are in there.
const COPIED: [(&str, &str); 9] = [
    ("deploy/systemd/platter-compare.service", "usr/lib/systemd/system"),
    ("deploy/systemd/platter-compare.timer", "usr/lib/systemd/system"),
    ("deploy/systemd/platter-mount@.service", "usr/lib/systemd/system"),
    ("packaging/desktop/platter-image.desktop", "usr/share/applications"),
    ("packaging/desktop/open", "usr/libexec/platter"),
    ("deploy/ansible/compare.yml", "usr/share/doc/platter/examples/ansible"),
    ("deploy/kubernetes/compare.yaml", "usr/share/doc/platter/examples/kubernetes"),
    ("deploy/slurm/compare.sbatch", "usr/share/doc/platter/examples/slurm"),
    ("deploy/udev/90-platter.rules", "usr/share/doc/platter/examples/udev"),
];

/// The documents of the top directory that the Debian package has beside those of `docs`.
const PAGES: [&str; 5] = ["README.md", "ARCHITECTURE.md", "DESIGN.md", "CONTRIBUTING.md", "CHANGELOG.md"];

/// The warnings of lintian that do not apply, with the reasons.
const OVERRIDES: &str = "\
# It runs on every distribution, in containers that hold nothing else, and in rescue systems.
platter: statically-linked-binary [usr/bin/platter]
# It is static, and a position-independent executable, which looks like a library.
platter: shared-library-lacks-prerequisites [usr/bin/platter]
# It was in no archive before, and no bug asks for it.
platter: initial-upload-closes-no-bugs [*]
";

/// Makes all of the files in a directory.
pub(crate) fn make(directory: &str) -> Outcome {
    tools::provide(TOOLS)?;
    tools::provide(archives::TOOLS)?;
    provide_target(TARGET)?;
    let out = std::path::absolute(directory).map_err(about(directory))?;
    std::fs::create_dir_all(&out).map_err(about(directory))?;
    let epoch = epoch()?;
    let program = build(&out)?;
    write(&out.join(LICENCES), &bill::licences(TARGET)?)?;
    package(&out, &program, &out.join(LICENCES), &epoch)?;
    image(&out, &program, &epoch)?;
    bill::list(&out, &epoch, TARGET)?;
    archives::source(&out, &epoch)?;
    bindings::wheel(&out, &program, &epoch)?;
    clibrary::archive(&out, &out.join(LICENCES), &epoch)?;
    archives::windows(&out, &epoch)?;
    let names = [&names()[..], &[name_of(&wheel_of(&out)?)]].concat();
    let sums = command::said(Command::new("sha256sum").args(&names).current_dir(&out))?;
    write(&out.join("SHA256SUMS"), &sums)?;
    eprint!("{sums}");
    Ok(())
}

/// Has rustup install the standard library for a target, if it is missing.
pub(crate) fn provide_target(target: &str) -> Outcome {
    let library = said("rustc", &["--print", "target-libdir", "--target", target])?;
    if Path::new(library.trim()).is_dir() {
        return Ok(());
    }
    run("rustup", &["target", "add", target], &[])
}

/// Returns the time that all files get, in seconds since 1970: that of the variable SOURCE_DATE_EPOCH of
/// reproducible-builds.org if it is set, otherwise that of the last commit.
pub(crate) fn epoch() -> Result<String, String> {
    std::env::var("SOURCE_DATE_EPOCH").or_else(|_| said("git", &["log", "-1", "--format=%ct"]))
}

/// Returns the name of the Debian package's file.
pub(crate) fn package_name() -> String {
    format!("platter_{VERSION}_amd64.deb")
}

/// Returns the names of all files but the wheel, whose name says for which systems it is.
fn names() -> [String; 8] {
    let others = ["platter", "platter.oci.tar", "platter.cdx.json", LICENCES].map(String::from);
    let [program, image, list, licences] = others;
    let (source, windows, c) = (archives::source_name(), archives::windows_name(), clibrary::archive_name());
    [program, package_name(), image, list, licences, source, windows, c]
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Returns the wheel that was made in a directory.
pub(crate) fn wheel_of(made: &Path) -> Result<PathBuf, String> {
    let mut all =
        entries(made)?.into_iter().filter(|path| path.extension().is_some_and(|kind| kind == "whl"));
    all.next().ok_or_else(|| format!("{}: no wheel", made.display()))
}

/// Returns the directory in which cargo keeps what it downloads.
pub(crate) fn cargo_home() -> Result<PathBuf, String> {
    let home =
        std::env::var("CARGO_HOME").or_else(|_| std::env::var("HOME").map(|home| format!("{home}/.cargo")));
    home.map(PathBuf::from).map_err(|_| "neither CARGO_HOME nor HOME is set".into())
}

/// Returns the flags of rustc that map the builder's paths away.
pub(crate) fn flags() -> Result<String, String> {
    let root = std::env::current_dir().map_err(about("."))?;
    let home = cargo_home()?;
    Ok(format!(
        "--remap-path-prefix={}/registry/src=/registry --remap-path-prefix={}=/platter",
        home.display(),
        root.display()
    ))
}

/// Builds the static program.
fn build(out: &Path) -> Result<PathBuf, String> {
    let flags = flags()?;
    // In a target directory of its own, because other builds have other flags.
    let target = bindings::target_directory()?.join("dist");
    let environment =
        [("RUSTFLAGS", flags.as_str()), ("CARGO_TARGET_DIR", text(&target)?), ("CARGO_INCREMENTAL", "0")];
    cargo_with(&[&BUILD[..], &["--target", TARGET]].concat(), &environment)?;
    let program = out.join("platter");
    let built = target.join(TARGET).join(PROFILE).join("platter");
    std::fs::copy(&built, &program).map_err(about(&built.display().to_string()))?;
    Ok(program)
}

/// Makes the Debian package: the program, its manual and documents, completions, the helpers, units and examples.
fn package(out: &Path, program: &Path, licences: &Path, epoch: &str) -> Outcome {
    let scratch = Scratch::new("deb")?;
    let root = scratch.folder("platter")?;
    let folder = |name: &str| scratch.folder(&format!("platter/{name}"));
    let copied = folder("usr/bin")?.join("platter");
    std::fs::copy(program, &copied).map_err(about("usr/bin/platter"))?;
    let link = |at: &str, to: &str| {
        let path = root.join(at);
        symlink(to, &path).map_err(about(at))
    };
    // mount(8) and fsck(8) look in /sbin first, which is /usr/sbin on every current Debian.
    folder("usr/sbin")?;
    HELPERS.iter().try_for_each(|(name, _)| link(&format!("usr/sbin/{name}"), "../bin/platter"))?;
    let manual = folder("usr/share/man/man1")?;
    run(text(program)?, &["man", text(&manual)?], &[])?;
    for page in entries(&manual)? {
        run("gzip", &["-9n", text(&page)?], &[])?;
    }
    folder("usr/share/man/man8")?;
    for (name, command) in HELPERS {
        link(&format!("usr/share/man/man8/{name}.8.gz"), &format!("../man1/platter-{command}.1.gz"))?;
    }
    for (shell, place) in [
        ("bash", "usr/share/bash-completion/completions/platter"),
        ("zsh", "usr/share/zsh/vendor-completions/_platter"),
        ("fish", "usr/share/fish/vendor_completions.d/platter.fish"),
    ] {
        folder(place.rsplit_once('/').map_or("", |(folder, _)| folder))?;
        write(&root.join(place), &command::said(Command::new(program).args(["completions", shell]))?)?;
    }
    for (file, place) in COPIED {
        copy(Path::new(file), &folder(place)?)?;
    }
    let documents = folder("usr/share/doc/platter")?;
    PAGES.iter().try_for_each(|page| copy(Path::new(page), &documents))?;
    let pages = folder("usr/share/doc/platter/docs")?;
    for page in entries(Path::new("docs"))?.iter().filter(|page| is_page(page)) {
        copy(page, &pages)?;
    }
    copy(Path::new("deploy/polkit/50-platter.rules"), &folder("usr/share/doc/platter/examples/polkit")?)?;
    copy(licences, &documents)?;
    run("gzip", &["-9n", text(&documents.join(LICENCES))?], &[])?;
    write(&documents.join("copyright"), &copyright()?)?;
    let date = said("date", &["-u", "-R", "-d", &format!("@{epoch}")])?;
    let changes = format!(
        "platter ({VERSION}) unstable; urgency=medium\n\n  * All is new.\n\n \
         -- {MAINTAINER}  {date}\n"
    );
    write(&documents.join("changelog"), &changes)?;
    run("gzip", &["-9n", text(&documents.join("changelog"))?], &[])?;
    write(&folder("usr/share/lintian/overrides")?.join("platter"), OVERRIDES)?;
    let kib = said("du", &["-sk", "--apparent-size", text(&root)?])?;
    let kib = kib.split_whitespace().next().unwrap_or("0").to_owned();
    let control = format!(
        "Package: platter\nVersion: {VERSION}\nArchitecture: amd64\nMaintainer: {MAINTAINER}\nInstalled-Size: {kib}\n\
         Depends: fuse3\nSuggests: libnotify-bin, xdg-utils\nSection: admin\nPriority: optional\n\
         Description: ReFS, NTFS, exFAT and FAT volumes, and a lab that compares their speed\n \
         Makes, mounts, reads, writes, checks and repairs volumes of ReFS, NTFS,\n exFAT and FAT on image files and block devices, \
         without a kernel\n driver.\n .\n Its lab puts the same load on file systems and on the raw device, in turns, and\n \
         says how sure each difference is.\n"
    );
    write(&folder("DEBIAN")?.join("control"), &control)?;
    // Permissions do not depend on the builder's umask.
    run("chmod", &["-R", "u=rwX,go=rX", text(&root)?], &[])?;
    run("chmod", &["755", text(&copied)?, text(&root.join("usr/libexec/platter/open"))?], &[])?;
    let list = "find . -path ./DEBIAN -prune -o -type f -print | LC_ALL=C sort | cut -c3- | xargs md5sum";
    let sums = command::said(Command::new("sh").args(["-c", list]).current_dir(&root))?;
    write(&root.join("DEBIAN/md5sums"), &sums)?;
    run("chmod", &["644", text(&root.join("DEBIAN/md5sums"))?], &[])?;
    let made = out.join(package_name());
    let arguments = ["--root-owner-group", "-Zxz", "--build", text(&root)?, text(&made)?];
    run("dpkg-deb", &arguments, &[("SOURCE_DATE_EPOCH", epoch)])
}

fn copyright() -> Result<String, String> {
    let mit = std::fs::read_to_string("LICENSE-MIT").map_err(about("LICENSE-MIT"))?;
    let indented: String = mit.lines().fold(String::new(), |mut text, line| {
        let _ = writeln!(text, " {}", if line.trim().is_empty() { "." } else { line });
        text
    });
    Ok(format!(
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\nUpstream-Name: platter\n\n\
         Files: *\nCopyright: The Platter authors\nLicense: Apache-2.0 or Expat\n\n\
         License: Apache-2.0\n On Debian systems the text is in /usr/share/common-licenses/Apache-2.0.\n\n\
         License: Expat\n{indented}"
    ))
}

/// Makes a container image with only the program in it, as a tar file in the format of the Open Container Initiative
/// (OCI image-spec 1.1: image-layout.md, manifest.md, config.md).
fn image(out: &Path, program: &Path, epoch: &str) -> Outcome {
    let scratch = Scratch::new("oci")?;
    let files = scratch.folder("files")?;
    // The lab makes temporary images in the directory for temporary files, so it must exist.
    scratch.folder("files/tmp")?;
    let inside = scratch.folder("files/usr/bin")?.join("platter");
    std::fs::copy(program, &inside).map_err(about("usr/bin/platter"))?;
    run("chmod", &["-R", "755", text(&files)?], &[])?;
    run("chmod", &["1777", text(&files.join("tmp"))?], &[])?;
    let layout = scratch.folder("layout")?;
    let blobs = scratch.folder("layout/blobs/sha256")?;
    let layer = scratch.folder("parts")?.join("layer.tar");
    archive(&layer, &files, epoch)?;
    let (layer, layer_bytes) = blob(&layer, &blobs)?;
    let created = said("date", &["-u", "-d", &format!("@{epoch}"), "+%Y-%m-%dT%H:%M:%SZ"])?;
    let config = format!(
        "{{\"created\":\"{created}\",\"architecture\":\"amd64\",\"os\":\"linux\",\"config\":{{\"Entrypoint\":\
         [\"/usr/bin/platter\"],\"WorkingDir\":\"/\"}},\"rootfs\":{{\"type\":\"layers\",\"diff_ids\":[\"sha256:{layer}\"]}}}}"
    );
    let part = scratch.folder("parts")?.join("part.json");
    write(&part, &config)?;
    let (config, config_bytes) = blob(&part, &blobs)?;
    let described = |kind: &str, digest: &str, bytes: u64| {
        format!(
            "\"mediaType\":\"application/vnd.oci.image.{kind}\",\"digest\":\"sha256:{digest}\",\"size\":{bytes}"
        )
    };
    let manifest = format!(
        "{{\"schemaVersion\":2,\"mediaType\":\"application/vnd.oci.image.manifest.v1+json\",\"config\":{{{}}},\"layers\":[{{{}}}]}}",
        described("config.v1+json", &config, config_bytes),
        described("layer.v1.tar", &layer, layer_bytes)
    );
    write(&part, &manifest)?;
    let (manifest, manifest_bytes) = blob(&part, &blobs)?;
    write(&layout.join("oci-layout"), "{\"imageLayoutVersion\":\"1.0.0\"}")?;
    let index = format!(
        "{{\"schemaVersion\":2,\"manifests\":[{{{},\"annotations\":{{\"org.opencontainers.image.ref.name\":\"platter:{VERSION}\",\
         \"io.containerd.image.name\":\"docker.io/library/platter:{VERSION}\"}}}}]}}",
        described("manifest.v1+json", &manifest, manifest_bytes)
    );
    write(&layout.join("index.json"), &index)?;
    archive(&out.join("platter.oci.tar"), &layout, epoch)
}

/// Copies a file to a name that is its SHA-256; returns that and its length.
fn blob(file: &Path, blobs: &Path) -> Result<(String, u64), String> {
    let sum = said("sha256sum", &[text(file)?])?;
    let digest = sum.split_whitespace().next().ok_or("sha256sum said nothing")?.to_owned();
    let bytes = std::fs::copy(file, blobs.join(&digest)).map_err(about(text(file)?))?;
    Ok((digest, bytes))
}

/// Archives a directory as a tar file that does not depend on the builder.
fn archive(to: &Path, folder: &Path, epoch: &str) -> Outcome {
    let mtime = format!("--mtime=@{epoch}");
    let same = ["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--format=gnu", &mtime];
    let what = ["-C", text(folder)?, "-cf", text(to)?, "."];
    run("tar", &[&same[..], &what].concat(), &[])
}

/// Copies a file into a directory.
fn copy(file: &Path, folder: &Path) -> Outcome {
    let name = file.file_name().ok_or("a file has a name")?;
    std::fs::copy(file, folder.join(name)).map(drop).map_err(about(text(file)?))
}

/// Whether a file of `docs` is a page, or a picture of one.
fn is_page(file: &Path) -> bool {
    file.extension().is_some_and(|kind| kind == "md" || kind == "png" || kind == "svg")
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = std::fs::read_dir(folder).map_err(about(text(folder)?))?;
    Ok(entries.flatten().map(|entry| entry.path()).collect())
}

/// Runs a program and returns its standard output, without the line's end.
fn said(program: &str, arguments: &[&str]) -> Result<String, String> {
    command::said(Command::new(program).args(arguments)).map(|printed| printed.trim_end().to_owned())
}

fn about(what: &str) -> impl Fn(std::io::Error) -> String {
    let what = what.to_owned();
    move |error| format!("{what}: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_of_installing_names_every_file_and_no_other() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let page = std::fs::read_to_string(root.join("docs/install.md")).unwrap();
        let readme = std::fs::read_to_string(root.join("README.md")).unwrap();
        let words = |text: &str| -> Vec<String> {
            let is_of_name = |sign: char| sign.is_ascii_alphanumeric() || "-._…".contains(sign);
            text.split(|sign| !is_of_name(sign)).map(|word| word.trim_end_matches('.').to_owned()).collect()
        };
        let named = words(&page);
        for name in names() {
            assert!(named.contains(&name), "docs/install.md does not name {name}");
        }
        let endings = [".deb", ".tar", ".json", ".txt", ".gz", ".zip", ".whl"];
        let is_file =
            |word: &&String| word.starts_with("platter") && endings.iter().any(|end| word.ends_with(end));
        for word in named.iter().chain(&words(&readme)).filter(is_file) {
            let is_wheel = *word == format!("platterfs-{VERSION}-….whl");
            let is_recipe = *word == "platterfs.json";
            assert!(is_wheel || is_recipe || names().contains(word), "{word}: nothing makes it");
        }
    }
}

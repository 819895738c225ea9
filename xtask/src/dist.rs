//! The files that people install: a static program, a Debian package, a container image, and a list of all
//! dependencies in them.
//!
//! All files are reproducible: the same sources and compiler give the same bytes in another place, because the
//! builder's paths are mapped away and all times are those of the last commit.

use crate::command::{Scratch, cargo_program, cargo_with, run, text, write};
use crate::tools::{self, Tool};
use crate::{Outcome, bindings, command};
use std::fmt::Write;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The compilation target of static programs.
const TARGET: &str = "x86_64-unknown-linux-musl";

const TOOLS: &[Tool] = &[
    ("git", "git"),
    ("strip", "binutils"),
    ("gzip", "gzip"),
    ("tar", "tar"),
    ("dpkg-deb", "dpkg"),
    ("sha256sum", "coreutils"),
    ("musl-gcc", "musl-tools"),
];

const VERSION: &str = env!("CARGO_PKG_VERSION");
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
    provide_target()?;
    let out = std::path::absolute(directory).map_err(about(directory))?;
    std::fs::create_dir_all(&out).map_err(about(directory))?;
    let epoch = epoch()?;
    let program = build(&out)?;
    package(&out, &program, &epoch)?;
    image(&out, &program, &epoch)?;
    bill(&out, &epoch)?;
    let names = ["platter", &package_name(), "platter.oci.tar", "platter.cdx.json"].map(String::from);
    let sums = command::said(Command::new("sha256sum").args(&names).current_dir(&out))?;
    write(&out.join("SHA256SUMS"), &sums)?;
    eprint!("{sums}");
    Ok(())
}

/// Has rustup install the standard library for static programs, if it is missing.
fn provide_target() -> Outcome {
    let library = said("rustc", &["--print", "target-libdir", "--target", TARGET])?;
    if Path::new(library.trim()).is_dir() {
        return Ok(());
    }
    run("rustup", &["target", "add", TARGET], &[])
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

/// Builds the static program.
fn build(out: &Path) -> Result<PathBuf, String> {
    let root = std::env::current_dir().map_err(about("."))?;
    let home = std::env::var("CARGO_HOME")
        .or_else(|_| std::env::var("HOME").map(|home| format!("{home}/.cargo")))
        .map_err(|_| "neither CARGO_HOME nor HOME is set")?;
    let flags = format!(
        "--remap-path-prefix={home}/registry/src=/registry --remap-path-prefix={}=/platter",
        root.display()
    );
    // In a target directory of its own, because other builds have other flags.
    let target = bindings::target_directory()?.join("dist");
    let environment =
        [("RUSTFLAGS", flags.as_str()), ("CARGO_TARGET_DIR", text(&target)?), ("CARGO_INCREMENTAL", "0")];
    let features = ["--package", "platterfs", "--features", "parquet", "--target", TARGET];
    cargo_with(&[&["build", "--locked", "--release"], &features[..]].concat(), &environment)?;
    let program = out.join("platter");
    let built = target.join(TARGET).join("release/platter");
    std::fs::copy(&built, &program).map_err(about(&built.display().to_string()))?;
    run("strip", &["--strip-all", text(&program)?], &[])?;
    Ok(program)
}

/// Makes the Debian package: the program, its manual, completions, and the helpers.
fn package(out: &Path, program: &Path, epoch: &str) -> Outcome {
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
    let documents = folder("usr/share/doc/platter")?;
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
         Depends: fuse3\nSection: admin\nPriority: optional\n\
         Description: ReFS, NTFS, exFAT and FAT volumes, and a lab that compares their speed\n \
         Makes, mounts, reads, writes, checks and repairs volumes of ReFS, NTFS,\n exFAT and FAT on image files and block devices, \
         without a kernel\n driver.\n .\n Its lab puts the same load on file systems and on the raw device, in turns, and\n \
         says how sure each difference is.\n"
    );
    write(&folder("DEBIAN")?.join("control"), &control)?;
    // Permissions do not depend on the builder's umask.
    run("chmod", &["-R", "u=rwX,go=rX", text(&root)?], &[])?;
    run("chmod", &["755", text(&copied)?], &[])?;
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
        "{{\"schemaVersion\":2,\"manifests\":[{{{},\"annotations\":{{\"org.opencontainers.image.ref.name\":\"{VERSION}\"}}}}]}}",
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

/// Writes the list of all crates that are compiled into the program, with versions and licences (CycloneDX 1.5).
fn bill(out: &Path, epoch: &str) -> Outcome {
    let created = said("date", &["-u", "-d", &format!("@{epoch}"), "+%Y-%m-%dT%H:%M:%SZ"])?;
    let what = ["tree", "--locked", "--package", "platterfs", "--features", "parquet", "--target", TARGET];
    let how = ["--edges", "normal", "--prefix", "none", "--no-dedupe", "--format", "{p}|{l}"];
    let tree = command::said(Command::new(cargo_program()).args([&what[..], &how].concat()))?;
    // The crates of this workspace have lines such as `name v1.2.3 (/where/it/is)`.
    let mut crates: Vec<(&str, &str, String)> = tree.lines().filter_map(of_line).collect();
    crates.sort_unstable();
    crates.dedup();
    let components: Vec<String> = crates
        .iter()
        .map(|(name, version, licence)| {
            format!(
                "    {{\"type\": \"library\", \"name\": \"{name}\", \"version\": \"{version}\", \"purl\": \
                 \"pkg:cargo/{name}@{version}\", \"licenses\": [{{\"expression\": \"{licence}\"}}]}}"
            )
        })
        .collect();
    let whole = format!(
        "{{\n  \"bomFormat\": \"CycloneDX\",\n  \"specVersion\": \"1.5\",\n  \"version\": 1,\n  \"metadata\": {{\"timestamp\": \
         \"{created}\", \"component\": {{\"type\": \"application\", \"name\": \"platter\", \"version\": \"{VERSION}\"}}}},\n  \
         \"components\": [\n{}\n  ]\n}}\n",
        components.join(",\n")
    );
    write(&out.join("platter.cdx.json"), &whole)
}

fn of_line(line: &str) -> Option<(&str, &str, String)> {
    let (package, licence) = line.split_once('|')?;
    let mut words = package.split(' ');
    let (name, version) = (words.next()?, words.next()?.strip_prefix('v')?);
    Some((name, version, licence.replace('/', " OR ")))
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

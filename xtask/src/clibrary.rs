//! The library for C, as programs in C expect one: a header, a shared and a static library, and what pkg-config(1) says of
//! them.

use crate::command::{Scratch, cargo_with, run, said, text, write};
use crate::{Outcome, bindings, dist};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

const VERSION: &str = env!("CARGO_PKG_VERSION");
const MANIFEST: &str = "bindings/c/Cargo.toml";

/// Builds the library and installs it below a directory such as `/usr/local`.
pub(crate) fn install(prefix: &str) -> Outcome {
    let prefix = std::path::absolute(prefix).map_err(about(prefix))?;
    let target = bindings::target_directory()?.join("dist");
    place(&built(&target, true)?, &prefix, text(&prefix)?)?;
    eprintln!("installed; where {} is not searched: PKG_CONFIG_PATH={0}/lib/pkgconfig", prefix.display());
    Ok(())
}

/// Returns the name of the archive.
pub(crate) fn archive_name() -> String {
    format!("platter-c-{VERSION}-x86_64-linux-gnu.tar.gz")
}

/// Archives the library, for unpacking in `/usr/local`, with the licences of what is in it and more.
pub(crate) fn archive(out: &Path, licences: &Path, epoch: &str) -> Outcome {
    let here = Scratch::new("c")?;
    let folder = here.folder("local")?;
    let documents = here.folder("local/share/doc/platter-c")?;
    std::fs::copy(licences, documents.join("licences.txt")).map_err(about(text(licences)?))?;
    place(&built(&bindings::target_directory()?.join("dist"), true)?, &folder, "/usr/local")?;
    let script = format!(
        "set -o pipefail; tar -C '{}' --sort=name --owner=0 --group=0 --numeric-owner --format=gnu --mtime=@{epoch} \
         --mode=u=rwX,go=rX -cf - include lib share | gzip -9n > '{}'",
        text(&folder)?,
        text(&out.join(archive_name()))?
    );
    run("bash", &["-c", &script], &[])
}

/// Builds both libraries; returns the directory that they are in.
fn built(target: &Path, is_release: bool) -> Result<PathBuf, String> {
    let flags = dist::flags()?;
    let mut environment = vec![("CARGO_TARGET_DIR", text(target)?)];
    if is_release {
        environment.extend([("RUSTFLAGS", flags.as_str()), ("CARGO_INCREMENTAL", "0")]);
    }
    let profile = if is_release { "release" } else { "dev" };
    cargo_with(
        &["build", "--locked", "--quiet", "--manifest-path", MANIFEST, "--lib", "--profile", profile],
        &environment,
    )?;
    Ok(target.join(if is_release { "release" } else { "debug" }))
}

/// Puts everything in its place below a directory, which programs will find at `prefix`.
fn place(built: &Path, folder: &Path, prefix: &str) -> Outcome {
    let (include, lib) = (folder.join("include"), folder.join("lib"));
    let config = lib.join("pkgconfig");
    for folder in [&include, &config] {
        std::fs::create_dir_all(folder).map_err(about(text(folder)?))?;
    }
    let copy = |from: &Path, to: PathBuf| std::fs::copy(from, to).map(drop).map_err(about(text(from)?));
    copy(Path::new("bindings/c/platter.h"), include.join("platter.h"))?;
    copy(&built.join("libplatter_c.a"), lib.join("libplatter.a"))?;
    let shared = format!("libplatter.so.{VERSION}");
    copy(&built.join("libplatter_c.so"), lib.join(&shared))?;
    for link in ["libplatter.so.0", "libplatter.so"] {
        let _ = std::fs::remove_file(lib.join(link));
        symlink(&shared, lib.join(link)).map_err(about(link))?;
    }
    let template = "bindings/c/platter.pc.in";
    let template = std::fs::read_to_string(template).map_err(about(template))?;
    write(&config.join("platter.pc"), &template.replace("@PREFIX@", prefix).replace("@VERSION@", VERSION))
}

/// Installs a build without optimisation, and compiles and runs the example with what pkg-config says: with the shared
/// library, and with the static one.
pub(crate) fn test(target: &Path) -> Outcome {
    let here = Scratch::new("c-test")?;
    let prefix = here.folder("prefix")?;
    place(&built(target, false)?, &prefix, text(&prefix)?)?;
    let config = prefix.join("lib/pkgconfig");
    let ask = |options: &[&str]| {
        let mut command = Command::new("pkg-config");
        said(command.args(options).arg("platter").env("PKG_CONFIG_PATH", &config))
    };
    if ask(&["--modversion"])?.trim() != VERSION {
        return Err(format!("pkg-config names another version than {VERSION}"));
    }
    let libraries = prefix.join("lib");
    let search = [("LD_LIBRARY_PATH", text(&libraries)?)];
    for options in [&["--cflags", "--libs"][..], &["--cflags", "--libs", "--static"]] {
        let flags = ask(options)?;
        let is_static = options.len() > 2;
        if is_static {
            // The linker takes the shared library where both are.
            let other = libraries.join("libplatter.so");
            std::fs::remove_file(&other).map_err(about("libplatter.so"))?;
        }
        let program = here.folder("program")?.join(if is_static { "static" } else { "shared" });
        let mut arguments = vec!["-o", text(&program)?, "bindings/c/tests/program.c"];
        arguments.extend(flags.split_whitespace());
        run("cc", &arguments, &[])?;
        let image = program.with_extension("img");
        // A program asks for the library by the name with one number, and a static one for none.
        run(text(&program)?, &[text(&image)?], if is_static { &[] } else { &search })?;
        let image = program.with_extension("alone");
        let alone = run(text(&program)?, &[text(&image)?], &[("LD_LIBRARY_PATH", "/nowhere")]);
        if alone.is_ok() != is_static {
            return Err(format!("{}: without the library, {alone:?}", program.display()));
        }
    }
    Ok(())
}

fn about(what: &str) -> impl Fn(std::io::Error) -> String {
    let what = what.to_owned();
    move |error| format!("{what}: {error}")
}

//! The recipes by which other packagers install Platter: a formula for Homebrew, a PKGBUILD for Arch, an expression for
//! Nix, manifests for winget and Scoop.
//!
//! In `packaging/recipes` they are templates. A release fills in its version, the address of its downloads and the sums of
//! the archives that [`crate::dist`] made, so no sum is ever kept by hand.

use crate::command::{Scratch, run, said, text, write};
use crate::tools::{self, Tool};
use crate::{Outcome, archives, dist};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What judges the recipes beyond what the test suite installs.
pub(crate) const TOOLS: &[Tool] = &[
    ("bash", "bash"),
    ("ruby", "ruby"),
    ("shellcheck", "shellcheck"),
    ("makepkg", "makepkg"),
    // Makepkg ends without a word if it is missing.
    ("pacman", "pacman-package-manager"),
    ("nix-instantiate", "nix-bin"),
    ("setpriv", "util-linux"),
    ("python3", "python3"),
];

/// Fills the recipes in for the archives in a directory, which will be at the address `base`, and writes them to
/// `recipes` there.
pub(crate) fn fill(directory: &str, base: &str) -> Outcome {
    let folder = Path::new(directory);
    let list = folder.join("SHA256SUMS");
    said(Command::new("sha256sum").args(["--check", "--quiet", "SHA256SUMS"]).current_dir(folder))?;
    let list = std::fs::read_to_string(&list).map_err(|error| format!("{}: {error}", list.display()))?;
    let values = values(base, &sums(&list))?;
    let out = folder.join("recipes");
    let _ = std::fs::remove_dir_all(&out);
    for (name, template) in templates()? {
        let filled = filled(&template, &values).map_err(|error| format!("{}: {error}", name.display()))?;
        let place = out.join(&name);
        let parent = place.parent().unwrap_or(&out);
        std::fs::create_dir_all(parent).map_err(|error| format!("{}: {error}", parent.display()))?;
        write(&place, &filled)?;
    }
    // Nix takes the dependencies of the archive from it.
    let lock = out.join("nix/Cargo.lock");
    std::fs::copy(root().join("Cargo.lock"), &lock)
        .map_err(|error| format!("{}: {error}", lock.display()))?;
    eprintln!("the recipes of version {VERSION} are in {}", out.display());
    Ok(())
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Returns the sums of a list as sha256sum(1) writes it, by the names of the files.
fn sums(list: &str) -> BTreeMap<&str, &str> {
    list.lines().filter_map(|line| line.split_once("  ")).map(|(sum, name)| (name, sum)).collect()
}

/// Returns what stands for each placeholder.
fn values<'a>(base: &'a str, sums: &BTreeMap<&str, &'a str>) -> Result<[(&'static str, &'a str); 4], String> {
    // It is put between quotes of four languages.
    let is_plain = |sign: char| sign.is_ascii_alphanumeric() || "-._~/:+".contains(sign);
    if !base.starts_with("https://") || base.ends_with('/') || !base.chars().all(is_plain) {
        return Err(format!(
            "{base}: the address of the downloads begins with https://, has no slash at its end, and has only letters, digits \
             and -._~/:+"
        ));
    }
    let sum = |name: String| {
        sums.get(name.as_str())
            .copied()
            .ok_or_else(|| format!("SHA256SUMS has no {name}: `cargo xtask dist` makes it"))
    };
    Ok([
        ("@VERSION@", VERSION),
        ("@BASE@", base),
        ("@SOURCE_SHA256@", sum(archives::source_name())?),
        ("@WINDOWS_SHA256@", sum(archives::windows_name())?),
    ])
}

/// Fills a template in. A placeholder that is not known is an error.
fn filled(template: &str, values: &[(&str, &str)]) -> Result<String, String> {
    let filled = values.iter().fold(template.to_owned(), |text, (name, value)| text.replace(name, value));
    match placeholder(&filled) {
        None => Ok(filled),
        Some(name) => Err(format!("{name} stands for nothing")),
    }
}

/// Returns the first placeholder of a text: capitals between two `@`.
fn placeholder(text: &str) -> Option<&str> {
    let mut rest = text;
    while let Some((_, after)) = rest.split_once('@') {
        let length =
            after.find(|sign: char| !sign.is_ascii_uppercase() && !sign.is_ascii_digit() && sign != '_');
        if let Some(length) = length.filter(|&length| length > 0 && after[length..].starts_with('@')) {
            return Some(&after[..length]);
        }
        rest = after;
    }
    None
}

/// Returns all templates, with their paths below `packaging/recipes`.
fn templates() -> Result<BTreeMap<PathBuf, String>, String> {
    let top = root().join("packaging/recipes");
    let mut all = BTreeMap::new();
    let mut folders = vec![top.clone()];
    while let Some(folder) = folders.pop() {
        let about = |error: std::io::Error| format!("{}: {error}", folder.display());
        for entry in std::fs::read_dir(&folder).map_err(about)?.flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let name = path.strip_prefix(&top).map_err(|_| "a path below the directory")?.to_owned();
            all.insert(name, std::fs::read_to_string(&path).map_err(about)?);
        }
    }
    Ok(all)
}

/// Fills the recipes in for an archive of these sources, and checks them. A file stands in for the program for Windows,
/// which takes minutes to build.
pub(crate) fn campaign() -> Outcome {
    tools::provide(TOOLS)?;
    tools::provide(archives::TOOLS)?;
    tools::provide_judges()?;
    let here = Scratch::new("recipes")?;
    let out = here.folder("out")?;
    archives::source(&out, &dist::epoch()?)?;
    write(&out.join(archives::windows_name()), "no program\n")?;
    let names = [archives::source_name(), archives::windows_name()];
    let sums = said(Command::new("sha256sum").args(&names).current_dir(&out))?;
    write(&out.join("SHA256SUMS"), &sums)?;
    fill(text(&out)?, "https://example.org/platter")?;
    judge(&out.join("recipes"), &out)
}

/// Checks recipes that are filled in, each by the program that reads it, or the nearest there is here. `archives` is the
/// directory of the archives.
pub(crate) fn judge(recipes: &Path, archives: &Path) -> Outcome {
    manifests(recipes)?;
    let at = |name: &str| recipes.join(name).display().to_string();
    run("ruby", &["xtask/judges/formula.rb", &at("homebrew/platterfs.rb")], &[])?;
    run("bash", &["-n", &at("aur/PKGBUILD")], &[])?;
    // Makepkg uses and sets these variables.
    let others = "--exclude=SC2034,SC2154";
    run("shellcheck", &["--shell=bash", others, &at("aur/PKGBUILD")], &[])?;
    aur(&recipes.join("aur"), archives)?;
    nix(&recipes.join("nix"))
}

/// Checks the manifests of winget and Scoop.
fn manifests(recipes: &Path) -> Outcome {
    run("python3", &["xtask/judges/manifests.py", text(recipes)?], &[])
}

/// Has makepkg read the PKGBUILD, compares what it finds there with `.SRCINFO`, and lets it verify the source archive.
fn aur(recipe: &Path, archives: &Path) -> Outcome {
    let here = Scratch::new("aur")?;
    let folder = here.folder("recipe")?;
    let copied = |from: &Path, name: &str| {
        std::fs::copy(from.join(name), folder.join(name)).map_err(|error| format!("{name}: {error}"))
    };
    copied(recipe, "PKGBUILD")?;
    copied(archives, &archives::source_name())?;
    // Makepkg refuses to run as root.
    let user = ["--reuid=65534", "--regid=65534", "--clear-groups", "makepkg"];
    let makepkg = |arguments: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(user).args(arguments).current_dir(&folder);
        for place in ["SRCDEST", "BUILDDIR", "HOME"] {
            command.env(place, &folder);
        }
        said(&mut command)
    };
    run("chown", &["-R", "65534:65534", text(&folder)?], &[])?;
    let read = makepkg(&["--printsrcinfo"])?;
    let kept =
        std::fs::read_to_string(recipe.join(".SRCINFO")).map_err(|error| format!(".SRCINFO: {error}"))?;
    if read.trim_end() != kept.trim_end() {
        return Err(format!(".SRCINFO is not what makepkg makes of PKGBUILD:\n{read}"));
    }
    makepkg(&["--verifysource", "--nodeps"])?;
    let archive = folder.join(archives::source_name());
    let mut bytes = std::fs::read(&archive).map_err(|error| format!("{}: {error}", archive.display()))?;
    bytes.push(0);
    std::fs::write(&archive, bytes).map_err(|error| format!("{}: {error}", archive.display()))?;
    match makepkg(&["--verifysource", "--nodeps"]) {
        Err(_) => Ok(()),
        Ok(_) => Err("makepkg accepts an archive with one byte more".into()),
    }
}

/// Has Nix evaluate the expression and the flake, with functions in place of nixpkgs' that show what they are given.
fn nix(recipe: &Path) -> Outcome {
    let packages = "rec {
        lib = { licenses = { mit = \"mit\"; asl20 = \"asl20\"; }; platforms = { linux = [ \"linux\" ]; };
          genAttrs = names: make: builtins.listToAttrs (map (name: { inherit name; value = make name; }) names); };
        rustPlatform = { buildRustPackage = given: given; };
        fetchurl = given: given;
        installShellFiles = \"installShellFiles\";
        mkShell = given: given;
        cargo = \"cargo\"; clippy = \"clippy\"; rustc = \"rustc\"; rustfmt = \"rustfmt\";
        callPackage = file: given: let make = import file; in
          make (builtins.intersectAttrs (builtins.functionArgs make)
            { inherit lib rustPlatform fetchurl installShellFiles; } // given);
      }";
    let state = Scratch::new("nix")?;
    let evaluate = |what: &str| {
        let expression = format!("let packages = {packages}; in {what}");
        let mut command = Command::new("nix-instantiate");
        command.args(["--eval", "--strict", "--json", "--store", "dummy://", "-E", &expression]);
        said(command.env("HOME", state.folder("home")?).env("NIX_STATE_DIR", state.folder("state")?))
    };
    let path = std::path::absolute(recipe.join("package.nix")).map_err(|error| error.to_string())?;
    let shown =
        evaluate(&format!("removeAttrs (packages.callPackage {} {{ }}) [ \"cargoLock\" ]", path.display()))?;
    let flake = std::path::absolute(root().join("flake.nix")).map_err(|error| error.to_string())?;
    let mock = "{ self = \"the tree\"; nixpkgs = { inherit (packages) lib; \
                legacyPackages = { x86_64-linux = packages; aarch64-linux = packages; }; }; }";
    let outputs = format!("((import {}).outputs {mock})", flake.display());
    let package = format!("removeAttrs {outputs}.packages.x86_64-linux.default [ \"cargoLock\" ]");
    let flake = evaluate(&package)?;
    let shell = evaluate(&format!("{outputs}.devShells.aarch64-linux.default"))?;
    let version = format!("\"version\":\"{VERSION}\"");
    let is_right = shown.contains(&version)
        && shown.contains("\"sha256\":\"")
        && flake.contains(&version)
        && flake.contains("\"src\":\"the tree\"")
        && shell.contains("\"rustc\"");
    if is_right { Ok(()) } else { Err(format!("Nix finds something else:\n{shown}\n{flake}\n{shell}")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fills the recipes in with sums of nothing.
    fn fill_all() -> BTreeMap<PathBuf, String> {
        let sum = "0123456789abcdef".repeat(4);
        let list = format!("{sum}  {}\n{sum}  {}\n", archives::source_name(), archives::windows_name());
        let sums = sums(&list);
        let values = values("https://example.org/downloads", &sums).unwrap();
        templates().unwrap().into_iter().map(|(name, text)| (name, filled(&text, &values).unwrap())).collect()
    }

    #[test]
    fn no_template_has_a_version_or_a_sum_of_its_own() {
        let all = templates().unwrap();
        assert!(all.len() >= 8, "{:?}", all.keys());
        for (name, text) in all {
            let words = text.split(|sign: char| !sign.is_ascii_alphanumeric());
            assert!(words.clone().all(|word| word.len() < 40), "{} has a sum", name.display());
            assert!(text.contains("@VERSION@"), "{} has no place for the version", name.display());
            assert!(!text.contains(VERSION), "{} has the version", name.display());
        }
    }

    #[test]
    fn what_stands_for_nothing_is_named() {
        assert_eq!(placeholder("a@b.c, ~/x@1, @HOME and @VERSION@"), Some("VERSION"));
        assert_eq!(placeholder("mail@example.org \"$@\" @@"), None);
        assert!(filled("@OTHER@", &[("@VERSION@", "1")]).unwrap_err().contains("OTHER"));
        let sums = BTreeMap::new();
        for base in ["http://example.org", "https://example.org/", "https://example.org/'$(x)", "example.org"]
        {
            assert!(values(base, &sums).unwrap_err().contains("https://"), "{base}");
        }
        assert!(values("https://example.org", &sums).unwrap_err().contains("dist"));
    }

    #[test]
    fn the_recipes_are_what_their_readers_expect() {
        let here = Scratch::new("recipes-test").unwrap();
        let place = here.folder("recipes").unwrap();
        for (name, text) in fill_all() {
            std::fs::create_dir_all(place.join(&name).parent().unwrap()).unwrap();
            write(&place.join(&name), &text).unwrap();
        }
        std::env::set_current_dir(root()).unwrap();
        manifests(&place).unwrap();
        run("bash", &["-n", place.join("aur/PKGBUILD").to_str().unwrap()], &[]).unwrap();
    }
}

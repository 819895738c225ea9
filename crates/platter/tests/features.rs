//! The dependencies of a program that embeds the library for one format, and their licences.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// Returns the output lines of `cargo tree`: the crates that are compiled in or run at build time.
fn lines(directory: &str, arguments: &[&str]) -> Vec<String> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let output = Command::new(cargo)
        .args(["tree", "--locked", "--edges", "normal,build", "--prefix", "none"])
        .args(arguments)
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(directory))
        .output()
        .expect("cargo is needed for this test");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).expect("names of crates are text");
    text.lines().map(String::from).collect()
}

/// Returns the names of the crates in a build with these features.
fn tree(features: &str) -> BTreeSet<String> {
    let lines = lines(".", &["--package", "platterfs", "--no-default-features", "--features", features]);
    lines.iter().filter_map(|line| line.split(' ').next()).map(String::from).collect()
}

#[test]
fn a_format_by_itself_takes_in_no_other_and_nothing_of_the_command() {
    let shared = ["platterfs", "platterfs-device", "platterfs-formats", "platterfs-images", "platterfs-vfs"];
    let formats = [
        ("ntfs", &["platterfs-ntfs", "platterfs-clusters"][..]),
        ("refs", &["platterfs-refs"]),
        ("exfat", &["platterfs-exfat", "platterfs-clusters"]),
        ("fat", &["platterfs-fat", "platterfs-clusters"]),
    ];
    for (feature, own) in formats {
        let all = tree(feature);
        let ours: BTreeSet<&str> =
            all.iter().map(String::as_str).filter(|name| name.starts_with("platter")).collect();
        assert_eq!(ours, shared.iter().chain(own).copied().collect(), "{feature}");
        // FAT and exFAT store local times, and ask chrono for the offset of each date.
        let of_others = (feature == "ntfs" || feature == "refs").then_some("chrono");
        for of_the_command in ["clap", "serde", "fuser", "indicatif", "nix"].into_iter().chain(of_others) {
            assert!(!all.contains(of_the_command), "{feature} takes in {of_the_command}");
        }
    }
    // The crates of other projects in the smallest build: adding one should be a decision.
    let foreign = tree("ntfs").into_iter().filter(|name| !name.starts_with("platter"));
    let foreign: Vec<String> = foreign.collect();
    let known = [
        "adler2",
        "bitflags",
        "block-buffer",
        "cfg-if",
        "cpufeatures",
        "crc32c",
        "crc32fast",
        "crypto-common",
        "digest",
        "generic-array",
        "io-uring",
        "libc",
        "linux-raw-sys",
        "md-5",
        "miniz_oxide",
        "proc-macro2",
        "quote",
        "rustc_version",
        "rustix",
        "ruzstd",
        "semver",
        "sha1",
        "smallvec",
        "syn",
        "thiserror",
        "thiserror-impl",
        "typenum",
        "unicode-ident",
        "version_check",
    ];
    assert_eq!(foreign, known);
}

/// Licences of dependencies that allow the same use as Platter's own licence. Adding one should be a decision.
const LICENCES: [&str; 17] = [
    "(MIT OR Apache-2.0) AND Unicode-3.0",
    "0BSD OR MIT OR Apache-2.0",
    "Apache-2.0",
    "Apache-2.0 / MIT",
    "Apache-2.0 OR BSL-1.0",
    "Apache-2.0 OR MIT",
    "Apache-2.0 WITH LLVM-exception",
    "Apache-2.0 WITH LLVM-exception OR Apache-2.0 OR MIT",
    "Apache-2.0/MIT",
    "BSD-2-Clause OR Apache-2.0 OR MIT",
    "BSD-3-Clause OR MIT OR Apache-2.0",
    "MIT",
    "MIT OR Apache-2.0",
    "MIT OR Zlib OR Apache-2.0",
    "MIT/Apache-2.0",
    "Unlicense OR MIT",
    // Asks for less than MIT: programs need not name it.
    "Zlib",
];

#[test]
fn licences_are_those_that_are_known() {
    let mut found = BTreeSet::new();
    for (directory, whole) in [
        (".", &["--workspace", "--all-features"][..]),
        ("../../bindings/c", &["--all-features"]),
        ("../../bindings/python", &["--all-features"]),
    ] {
        let arguments = [whole, &["--no-dedupe", "--format", "{l}|{p}"]].concat();
        for line in lines(directory, &arguments).iter().filter(|line| !line.is_empty()) {
            let (licence, package) = line.split_once('|').expect("a licence and a package");
            assert!(LICENCES.contains(&licence), "{package}: {licence:?} is not among the known licences");
            found.insert(licence.to_owned());
        }
    }
    assert!(found.len() > 5, "only {found:?} were found");
    let unused: Vec<&str> = LICENCES.into_iter().filter(|licence| !found.contains(*licence)).collect();
    assert!(unused.is_empty(), "no crate has these any more: {unused:?}");
}

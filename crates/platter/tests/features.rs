//! What a program takes in that embeds the library for one format.

use std::collections::BTreeSet;
use std::process::Command;

/// The crates that a build with these features consists of.
fn tree(features: &str) -> BTreeSet<String> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let output = Command::new(cargo)
        .args(["tree", "--offline", "--locked", "--package", "platter", "--no-default-features"])
        .args(["--features", features, "--edges", "normal,build", "--prefix", "none"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo is needed for this test");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).expect("names of crates are text");
    text.lines().filter_map(|line| line.split(' ').next()).map(String::from).collect()
}

#[test]
fn a_format_by_itself_takes_in_no_other_and_nothing_of_the_command() {
    let shared = ["platter", "platter-device", "platter-formats", "platter-vfs"];
    let formats = [
        ("ntfs", &["platter-ntfs", "platter-clusters"][..]),
        ("refs", &["platter-refs"]),
        ("exfat", &["platter-exfat", "platter-clusters"]),
        ("fat", &["platter-fat", "platter-clusters"]),
    ];
    for (feature, own) in formats {
        let all = tree(feature);
        let ours: BTreeSet<&str> =
            all.iter().map(String::as_str).filter(|name| name.starts_with("platter")).collect();
        assert_eq!(ours, shared.iter().chain(own).copied().collect(), "{feature}");
        for of_the_command in ["clap", "serde", "fuser", "chrono", "indicatif", "nix"] {
            assert!(!all.contains(of_the_command), "{feature} takes in {of_the_command}");
        }
    }
    // What others wrote, for the smallest: a new one should be a decision.
    let foreign = tree("ntfs").into_iter().filter(|name| !name.starts_with("platter"));
    let foreign: Vec<String> = foreign.collect();
    let known = [
        "bitflags",
        "cfg-if",
        "crc32fast",
        "io-uring",
        "libc",
        "linux-raw-sys",
        "proc-macro2",
        "quote",
        "rustix",
        "smallvec",
        "syn",
        "thiserror",
        "thiserror-impl",
        "unicode-ident",
    ];
    assert_eq!(foreign, known);
}

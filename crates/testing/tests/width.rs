//! No contract is wider than a reader can keep in mind.

use std::fs;
use std::path::{Path, PathBuf};

/// The most methods that a trait has. What is wider holds something that is a contract of its own, or a part that not
/// everyone has.
const WIDEST: usize = 29;

fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("a directory of sources").flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The public traits of a source text with the number of their methods.
fn traits(text: &str) -> Vec<(String, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let opens = |line: &str| line.starts_with("pub trait ") || line.starts_with("pub(crate) trait ");
    let methods = |at: usize| {
        let inside = lines[at + 1..].iter().take_while(|line| **line != "}");
        inside.filter(|line| line.starts_with("    fn ")).count()
    };
    let found = lines.iter().enumerate().filter(|(_, line)| opens(line));
    found.map(|(at, line)| ((*line).to_owned(), methods(at))).collect()
}

#[test]
fn no_trait_has_more_methods_than_fit_in_a_mind() {
    let mut files = Vec::new();
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for entry in fs::read_dir(crates).expect("crates").flatten() {
        sources(&entry.path().join("src"), &mut files);
    }
    let (mut seen, mut wide) = (0, Vec::new());
    for path in files {
        for (declaration, methods) in traits(&fs::read_to_string(&path).expect("a source")) {
            seen += 1;
            if methods > WIDEST {
                wide.push(format!("{}: {declaration} {methods} methods", path.display()));
            }
        }
    }
    assert!(seen > 20, "only {seen} traits were seen");
    assert!(wide.is_empty(), "{wide:#?}");
}

#[test]
fn methods_are_counted() {
    let text = "pub trait One: Two {\n    fn a(&self);\n\n    fn b(\n        &self,\n    ) {\n        c(|| fn_d());\n    }\n}\n\nfn e() {}\n";
    assert_eq!(traits(text), [("pub trait One: Two {".to_owned(), 2)]);
}

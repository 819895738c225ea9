//! Checks that only the module with the structures on disk knows where their bytes are: in every other module a field has
//! a name.

#[path = "imports/source.rs"]
#[allow(dead_code)]
mod source;

use source::{Crate, closing};
use std::path::Path;

/// The crates whose structures stand in a module `layout` alone.
const CRATES: [&str; 1] = ["refs"];
/// The modules that know their bytes. Beside the structures only the damage that fuzzing does to volumes is stated so.
const KNOW: [&str; 2] = ["layout", "fuzzing"];
/// What reads or stores a number at an offset, or names an offset.
const BYTEWISE: [&str; 8] = [
    "u16_at",
    "u32_at",
    "u64_at",
    "bytes::put",
    "FieldAt::new",
    "from_le_bytes",
    "from_be_bytes",
    "to_le_bytes",
];

/// The places in a text that know where bytes of a structure are.
fn offsets(text: &str) -> Vec<String> {
    let mut found: Vec<String> =
        BYTEWISE.iter().flat_map(|word| text.matches(word)).map(String::from).collect();
    // `use layout::bytes::{self, put}` and the like.
    for (at, _) in text.match_indices("bytes::{") {
        let end = closing(text, at + "bytes::".len());
        found.extend(text[at..end].split(['{', ',', ' ']).filter(|name| *name == "put").map(String::from));
    }
    // Ranges and hexadecimal places, as in `page[0x20..]`, `row.get(8..16)` and `sector[0x28]`.
    for open in ["[", ".get(", ".get_mut("] {
        for (at, _) in text.match_indices(open) {
            let is_index =
                text[..at].ends_with(|before: char| before.is_alphanumeric() || "_)]?".contains(before));
            let inside = &text[at + open.len()..];
            let inside = &inside[..inside.find([']', ')', '(', '{', '[', ';']).unwrap_or(inside.len())];
            let is_range = inside.contains("..") && !inside.trim().is_empty();
            let is_hex = inside.trim().starts_with("0x");
            let is_wanted = is_index && (is_range && numbers(inside) || is_hex);
            found.extend(is_wanted.then(|| format!("{open}{inside}")));
        }
    }
    // Offsets of fields in messages, as in `at + 0x20`.
    found.extend(text.match_indices("+ 0x").map(|(at, _)| text[at..].chars().take(8).collect()));
    found
}

/// Whether a text has a number in it that is not part of a name.
fn numbers(text: &str) -> bool {
    let mut words = text.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
    words.any(|word| word.starts_with(|first: char| first.is_ascii_digit()))
}

#[test]
fn bytes_have_names_outside_of_the_layout() {
    let mut wrong = Vec::new();
    for name in CRATES {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name).join("src");
        let mut modules = 0;
        for (module, text) in Crate::read(&source).texts() {
            modules += 1;
            if module.first().is_some_and(|first| KNOW.contains(&first.as_str())) {
                continue;
            }
            let place = format!("{name}/{}", module.join("/"));
            wrong.extend(offsets(text).into_iter().map(|what| format!("{place}: {what}")));
        }
        assert!(modules > 50, "only {modules} modules of {name}");
    }
    assert!(wrong.is_empty(), "{} offsets, which belong into the layout: {wrong:#?}", wrong.len());
}

#[test]
fn offsets_are_seen() {
    for text in [
        "use crate::layout::bytes::u32_at;",
        "use crate::layout::bytes::{self, put};",
        "let a = row.value.get(0x10..0x18);",
        "head(value)[..8].copy_from_slice(x);",
        "sector[0x28]",
        "at + 0x20",
        "const A: FieldAt<u8> = FieldAt::new(4);",
        "u64::from_le_bytes(word)",
        "bytes[at + 8..at + 16]",
    ] {
        assert!(!offsets(text).is_empty(), "{text}");
    }
    for text in [
        "SIZE.of(&row.value)",
        "rows[first..first + count]",
        "for object in [0x500, 0x501] {}",
        "use crate::layout::bytes::{Field, FieldAt};",
        "for index in 0..16 {}",
        "tree.put(pages, &key, 0, &value)",
        "names[..]",
    ] {
        assert!(offsets(text).is_empty(), "{text}");
    }
}

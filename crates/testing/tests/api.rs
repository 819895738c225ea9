//! The public items of the library `platter` are those that `crates/platter/api.txt` lists, with their types: whoever changes
//! one sees it there, and so does who reads the change.
//!
//! The list is made of the sources: what `lib.rs` and its public modules give out under a name, of this crate and of
//! `platterfs-vfs`, with public fields, variants, methods and the traits that are implemented. `PLATTER_API=write cargo test -p platterfs-testing --test
//! api` writes it anew.

use quote::ToTokens;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use syn::{Attribute, Fields, ImplItem, Item, ItemImpl, Signature, TraitItem, Type, UseTree, Visibility};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("this crate's")
}

/// The items of all sources of a crate, but for those of inner modules that are written in place, such as tests.
fn items_of(directory: &Path, items: &mut Vec<Item>) {
    let entries = fs::read_dir(directory).expect("a directory of sources");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("a source").path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            // The command is a program, which gives out nothing.
            if !path.ends_with("platter/src/command") {
                items_of(&path, items);
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            items.extend(parsed(&fs::read_to_string(&path).expect("a source"), &path.display().to_string()));
        }
    }
}

fn parsed(text: &str, about: &str) -> Vec<Item> {
    syn::parse_file(text).unwrap_or_else(|error| panic!("{about}: {error}")).items
}

/// Source text with the spaces that people write.
fn text(tokens: impl ToTokens) -> String {
    let mut text = tokens.into_token_stream().to_string();
    for (from, to) in [
        (" ::", "::"),
        (":: ", "::"),
        (" :", ":"),
        (" <", "<"),
        ("< ", "<"),
        (" >", ">"),
        (" ,", ","),
        ("& ", "&"),
        (" (", "("),
        ("( ", "("),
        (" )", ")"),
        (" ;", ";"),
        (" !", "!"),
        ("# [", "#["),
    ] {
        text = text.replace(from, to);
    }
    text
}

fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

/// The attributes that callers notice.
fn attributes(attributes: &[Attribute]) -> String {
    let noticed = |one: &&Attribute| {
        ["derive", "non_exhaustive", "must_use", "deprecated"].iter().any(|name| one.path().is_ident(name))
    };
    attributes.iter().filter(noticed).map(|one| text(one) + " ").collect()
}

/// One line for each field that callers see, and one for all others.
fn fields(of: &str, fields: &Fields, all: bool, list: &mut BTreeSet<String>) {
    for (number, field) in fields.iter().enumerate() {
        let name = field.ident.as_ref().map_or(number.to_string(), ToString::to_string);
        if all || is_public(&field.vis) {
            list.insert(format!("{of}.{name}: {}", text(&field.ty)));
        } else {
            list.insert(format!("{of} has private fields"));
        }
    }
}

/// The lines of an item that was given out under this name.
fn declared(name: &str, item: &Item, list: &mut BTreeSet<String>) -> bool {
    let is_meant = |ident: &syn::Ident, visibility: &Visibility| ident == name && is_public(visibility);
    match item {
        Item::Struct(item) if is_meant(&item.ident, &item.vis) => {
            list.insert(format!("{name}: {}struct {name}{}", attributes(&item.attrs), text(&item.generics)));
            fields(name, &item.fields, false, list);
        }
        Item::Enum(item) if is_meant(&item.ident, &item.vis) => {
            list.insert(format!("{name}: {}enum {name}{}", attributes(&item.attrs), text(&item.generics)));
            for variant in &item.variants {
                let variant_name = format!("{name}::{}", variant.ident);
                list.insert(format!("{variant_name} {}", attributes(&variant.attrs)).trim().to_owned());
                fields(&variant_name, &variant.fields, true, list);
            }
        }
        Item::Trait(item) if is_meant(&item.ident, &item.vis) => {
            list.insert(format!("{name}: trait {name}{}: {}", text(&item.generics), text(&item.supertraits)));
            for one in &item.items {
                match one {
                    TraitItem::Fn(function) => {
                        let provided = if function.default.is_some() { " (provided)" } else { "" };
                        list.insert(format!("{name}::{}{provided}", text(&function.sig)));
                    }
                    other => drop(list.insert(format!("{name}::{}", text(other)))),
                }
            }
        }
        Item::Fn(item) if is_meant(&item.sig.ident, &item.vis) => {
            list.insert(signature("", &item.attrs, &item.sig));
        }
        Item::Const(item) if is_meant(&item.ident, &item.vis) => {
            list.insert(format!("const {name}: {}", text(&item.ty)));
        }
        Item::Type(item) if is_meant(&item.ident, &item.vis) => {
            list.insert(format!("type {name}{} = {}", text(&item.generics), text(&item.ty)));
        }
        _ => return false,
    }
    true
}

fn signature(of: &str, with: &[Attribute], signature: &Signature) -> String {
    format!("{of}{}{}", attributes(with), text(signature))
}

/// The lines of what is implemented for a type of this name.
fn implemented(name: &str, item: &ItemImpl, list: &mut BTreeSet<String>) {
    let Type::Path(of) = &*item.self_ty else { return };
    if of.path.segments.last().is_none_or(|last| last.ident != name) {
        return;
    }
    if let Some((implemented, _)) = &item.trait_ {
        let (generics, of) = (text(&item.generics), text(&item.self_ty));
        list.insert(format!("{name}: impl{generics} {} for {of}", text(implemented)));
        return;
    }
    for one in &item.items {
        match one {
            ImplItem::Fn(function) if is_public(&function.vis) => {
                list.insert(signature(&format!("{name}::"), &function.attrs, &function.sig));
            }
            ImplItem::Const(constant) if is_public(&constant.vis) => {
                list.insert(format!("{name}::const {}: {}", constant.ident, text(&constant.ty)));
            }
            _ => {}
        }
    }
}

/// The names that a `pub use` gives out, and where they come from; names of whole crates under another name stay as they are.
fn given_out(tree: &UseTree, from: &str, names: &mut Vec<(String, String)>) {
    match tree {
        UseTree::Path(path) => given_out(&path.tree, &path.ident.to_string(), names),
        UseTree::Group(group) => group.items.iter().for_each(|one| given_out(one, from, names)),
        UseTree::Name(name) => names.push((from.to_owned(), name.ident.to_string())),
        UseTree::Rename(rename) => names.push((rename.ident.to_string(), format!("mod {}", rename.rename))),
        UseTree::Glob(_) => panic!("{from}::*: what is given out has a name"),
    }
}

/// The list of what a library gives out: its first file, all its items, and those of the crate that it takes names from.
fn list(first: &[Item], own: &[Item], vfs: &[Item]) -> BTreeSet<String> {
    let mut names = Vec::new();
    for item in first {
        match item {
            Item::Use(item) if is_public(&item.vis) => given_out(&item.tree, "", &mut names),
            Item::Use(_) | Item::Mod(_) => {}
            // What documents show is compiled as the documentation of a private item.
            Item::Struct(item) if !is_public(&item.vis) => {}
            other => panic!("{}: lib.rs declares nothing itself", text(other)),
        }
    }
    lines(&names, own, vfs)
}

/// The list of what a public module gives out: its first file, and all its items.
fn list_of_module(module: &str, first: &[Item], own: &[Item], vfs: &[Item]) -> BTreeSet<String> {
    let mut names = Vec::new();
    for item in first {
        let declared = match item {
            Item::Use(item) if is_public(&item.vis) => {
                given_out(&item.tree, "", &mut names);
                continue;
            }
            Item::Struct(item) if is_public(&item.vis) => &item.ident,
            Item::Enum(item) if is_public(&item.vis) => &item.ident,
            Item::Trait(item) if is_public(&item.vis) => &item.ident,
            Item::Type(item) if is_public(&item.vis) => &item.ident,
            Item::Const(item) if is_public(&item.vis) => &item.ident,
            Item::Fn(item) if is_public(&item.vis) => &item.sig.ident,
            Item::Mod(item) if is_public(&item.vis) => {
                panic!("{module}::{}: a module of its own", item.ident)
            }
            _ => continue,
        };
        names.push((String::new(), declared.to_string()));
    }
    let lines = lines(&names, own, vfs);
    lines.into_iter().map(|line| format!("{module}: {line}")).chain([format!("pub mod {module}")]).collect()
}

/// The lines of items that are given out under these names, each with the module that it comes from.
fn lines(names: &[(String, String)], own: &[Item], vfs: &[Item]) -> BTreeSet<String> {
    // Traits of the crate that nobody else sees.
    let is_inner = |item: &ItemImpl| {
        let of =
            item.trait_.as_ref().and_then(|(path, _)| path.segments.last().map(|last| last.ident.clone()));
        let declares = |item: &Item| matches!(item, Item::Trait(one) if Some(&one.ident) == of.as_ref());
        own.iter().any(declares) && names.iter().all(|(_, name)| of.as_ref().is_none_or(|of| of != name))
    };
    let mut list = BTreeSet::new();
    for (from, name) in names {
        if let Some(module) = name.strip_prefix("mod ") {
            list.insert(format!("mod {module} = {from}"));
            continue;
        }
        let items = if from == "platter_vfs" { vfs } else { own };
        let found = items.iter().filter(|item| declared(name, item, &mut list)).count();
        assert!(found > 0, "{name} is given out and declared nowhere");
        for item in items {
            if let Item::Impl(item) = item
                && !is_inner(item)
            {
                implemented(name, item, &mut list);
            }
        }
    }
    list
}

#[test]
fn the_public_items_are_those_of_the_list() {
    let (mut own, mut vfs) = (Vec::new(), Vec::new());
    let sources = root().join("crates/platter/src");
    items_of(&sources, &mut own);
    items_of(&root().join("crates/vfs/src"), &mut vfs);
    let first = fs::read_to_string(sources.join("lib.rs")).expect("the first file");
    let first = parsed(&first, "lib.rs");
    let mut now = list(&first, &own, &vfs);
    for item in &first {
        if let Item::Mod(item) = item
            && is_public(&item.vis)
        {
            let name = item.ident.to_string();
            let (file, below) = (sources.join(format!("{name}.rs")), sources.join(&name));
            let mut of_module = Vec::new();
            let file = match below.is_dir() {
                true => {
                    items_of(&below, &mut of_module);
                    below.join("mod.rs")
                }
                false => file,
            };
            let first = fs::read_to_string(&file).expect("the first file of a public module");
            let first = parsed(&first, &name);
            let own = if below.is_dir() { &of_module } else { &first };
            now.extend(list_of_module(&name, &first, own, &vfs));
        }
    }
    let kept_in = root().join("crates/platter/api.txt");
    if std::env::var("PLATTER_API").is_ok_and(|wish| wish == "write") {
        let lines: String = now.iter().map(|line| format!("{line}\n")).collect();
        fs::write(&kept_in, lines).expect("the list can be written");
    }
    let kept = fs::read_to_string(&kept_in).unwrap_or_default();
    let kept: BTreeSet<String> = kept.lines().map(str::to_owned).collect();
    let gone = kept.difference(&now).map(|line| format!("- {line}"));
    let changes: Vec<String> = gone.chain(now.difference(&kept).map(|line| format!("+ {line}"))).collect();
    assert!(
        changes.is_empty(),
        "the library's public items are no longer those of crates/platter/api.txt:\n{}\n\
         PLATTER_API=write cargo test -p platterfs-testing --test api writes it anew",
        changes.join("\n")
    );
}

#[test]
fn what_a_caller_would_notice_is_in_the_list() {
    let first = parsed("mod a; pub use a::{One, Two, three};", "first");
    let of = |text: &str| {
        let whole = format!("pub enum Two {{ A, B(u8) }} pub fn three(a: &str) -> Result<u8> {{ 1 }} {text}");
        list(&first, &parsed(&whole, "own"), &[])
    };
    let before = of("pub struct One { pub a: u8, b: u8 } impl One { fn hidden(&self) {} }");
    let expected = [
        "One has private fields",
        "One.a: u8",
        "One: struct One",
        "Two: enum Two",
        "Two::A",
        "Two::B",
        "Two::B.0: u8",
        "fn three(a: &str) -> Result<u8>",
    ];
    assert_eq!(before.iter().map(String::as_str).collect::<Vec<_>>(), expected);
    for other in [
        "pub struct One { pub a: u16, b: u8 } impl One { fn hidden(&self) {} }",
        "pub struct One { pub a: u8 } impl One { fn hidden(&self) {} }",
        "pub struct One { pub a: u8, b: u8 } impl One { pub fn hidden(&self) {} }",
        "#[derive(Clone)] pub struct One { pub a: u8, b: u8 } impl One { fn hidden(&self) {} }",
        "pub struct One { pub a: u8, b: u8 } impl Drop for One { fn drop(&mut self) {} }",
    ] {
        assert_ne!(before, of(other), "{other}");
    }
    assert_eq!(before, of("pub struct One { pub a: u8, b: u16 } impl One { fn renamed(&self) {} }"));
    let inside = "mod b; pub use b::Two; pub fn one(a: u8) {} fn hidden() {} struct Inner;";
    let own = parsed(&format!("{inside} pub enum Two {{ A }}"), "own");
    let listed = list_of_module("m", &parsed(inside, "inside"), &own, &[]);
    let expected = ["m: Two: enum Two", "m: Two::A", "m: fn one(a: u8)", "pub mod m"];
    assert_eq!(listed.iter().map(String::as_str).collect::<Vec<_>>(), expected);
}

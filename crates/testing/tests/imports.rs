//! Checks that parts of a crate import only parts before them in the order of ARCHITECTURE.md, and that no two modules
//! inside the same module import each other, directly or indirectly; that the files of the largest modules call only
//! files before them; and that every file of the tests is compiled.

#[path = "imports/calls.rs"]
mod calls;
#[path = "imports/source.rs"]
mod source;

use calls::Room;
use source::Crate;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The modules that ask the operating system for what the standard library has no portable call for. FUSE is a thing of
/// Linux, so its crate and its commands are such places as a whole.
const HOSTS: &[&str] = &[
    "device/host",
    "device/rings",
    "lab/host",
    "mount",
    "platter/command/commands/mount",
    "platter/command/host",
    "platter/command/mounting",
    "platter/copy/host",
    "testing",
];

/// What stands before a call of one system.
const OF_ONE_SYSTEM: [&str; 6] =
    ["std::os::", "rustix::", "libc::", "nix::", "windows_sys::", "signal_hook::"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A list of orders in ARCHITECTURE.md, from the bottom up. In `order`: for each crate its parts, and under `crates` the
/// crates. In `files`: for each of the largest modules its files.
fn order(list: &str) -> BTreeMap<String, Vec<String>> {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md");
    let marker = format!("<!-- {list} -->");
    let block = text.split(&*marker).nth(1).and_then(|rest| rest.split("```").nth(1));
    let mut order: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut last = String::new();
    for line in
        block.expect("an order of parts in ARCHITECTURE.md").lines().filter(|line| !line.trim().is_empty())
    {
        let names = match line.split_once(':') {
            Some((name, names)) => {
                last = name.trim().into();
                names
            }
            None => line,
        };
        order.entry(last.clone()).or_default().extend(names.split_whitespace().map(String::from));
    }
    order
}

fn crates() -> Vec<String> {
    let entries = fs::read_dir(root().join("crates")).expect("crates");
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("crates").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn read(name: &str) -> Crate {
    Crate::read(&root().join("crates").join(name).join("src"))
}

/// Fails with the list of wrong imports, if there are any.
fn refuse(wrong: BTreeSet<String>) {
    let list: String = wrong.iter().map(|one| format!("\n    {one}")).collect();
    assert!(wrong.is_empty(), "these imports go the wrong way:{list}");
}

#[test]
fn crates_use_those_below_them() {
    let order = &order("order")["crates"];
    let mut wrong = Vec::new();
    for name in crates() {
        let manifest =
            fs::read_to_string(root().join("crates").join(&name).join("Cargo.toml")).expect("a manifest");
        let place = order.iter().position(|one| *one == name);
        let Some(place) = place else { panic!("{name} is not in the order of ARCHITECTURE.md") };
        let shipped = manifest.split("\n[").filter(|part| part.starts_with("dependencies]"));
        let used = shipped.flat_map(str::lines).filter_map(|line| line.strip_prefix("platterfs-"));
        for used in used.filter_map(|line| line.split(['.', ' ', '=']).next()) {
            if !order[..place].iter().any(|one| one == used) {
                wrong.push(format!("{name} uses {used}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[test]
fn parts_use_those_before_them() {
    let order = order("order");
    let mut wrong = BTreeSet::new();
    for name in crates() {
        let one = read(&name);
        let none = Vec::new();
        let parts = order.get(&name).unwrap_or(&none);
        let there: BTreeSet<&String> = parts.iter().collect();
        let inside = one.inside(&[]);
        assert_eq!(
            there,
            inside.iter().collect(),
            "the parts of {name} and those that ARCHITECTURE.md names"
        );
        let place = |part: &String| parts.iter().position(|one| one == part);
        for (from, to) in one.uses() {
            if let (Some(from), Some(to)) = (from.first(), to.first())
                && place(from) < place(to)
            {
                wrong.insert(format!("{name}: {from} uses {to}"));
            }
        }
    }
    refuse(wrong);
}

#[test]
fn no_modules_of_one_place_use_each_other() {
    let mut wrong = BTreeSet::new();
    for name in crates() {
        let one = read(&name);
        let uses = one.uses();
        for house in one.houses().into_iter().filter(|house| !house.is_empty()) {
            let mut beside: BTreeMap<&String, BTreeSet<&String>> = BTreeMap::new();
            for (from, to) in &uses {
                if from.starts_with(&house)
                    && to.starts_with(&house)
                    && to.len() > house.len()
                    && from.len() > house.len()
                {
                    beside.entry(&from[house.len()]).or_default().insert(&to[house.len()]);
                }
            }
            for (from, direct) in &beside {
                for to in direct.iter().filter(|to| from < *to && reaches(&beside, to, from)) {
                    wrong.insert(format!("{name}/{}: {from} and {to}", house.join("/")));
                }
                // Pairs that import each other only indirectly.
                for to in direct.iter().filter(|to| from > *to && reaches(&beside, to, from)) {
                    if !beside.get(*to).is_some_and(|back| back.contains(from)) {
                        wrong.insert(format!("{name}/{}: {from} and {to}", house.join("/")));
                    }
                }
            }
        }
    }
    refuse(wrong);
}

/// Who carries the project to another system reads these modules, and needs no others.
#[test]
fn the_system_is_asked_in_few_places() {
    let mut wrong = BTreeSet::new();
    for name in crates() {
        for (module, text) in read(&name).texts() {
            let path = format!("{name}/{}", module.join("/"));
            let is_host = HOSTS.iter().any(|host| path.starts_with(&format!("{host}/")) || path == *host);
            let asks = OF_ONE_SYSTEM.iter().find(|word| text.contains(**word));
            if let Some(asks) = asks.filter(|_| !is_host) {
                wrong.insert(format!("{path}: {asks}"));
            }
        }
    }
    assert!(wrong.is_empty(), "these ask one system; `HOSTS` names the places for that: {wrong:#?}");
}

/// A method of a type may be defined in any file of the module that has the type, without an import. So the calls are
/// followed: a reader who begins at the last file of the list only ever goes on to files before it.
#[test]
fn files_of_a_room_call_those_before_them() {
    let mut wrong = BTreeSet::new();
    let mut rooms = order("files");
    rooms.retain(|room, _| room.contains('/'));
    assert!(rooms.len() >= 4, "only {} modules with an order of files", rooms.len());
    for (room, order) in rooms {
        let path: Vec<String> = room.split('/').map(String::from).collect();
        let files = Room::new(read(&path[0]).files(&path[1..]));
        let there: BTreeSet<&String> = order.iter().collect();
        assert_eq!(
            there,
            files.names(),
            "the files of {room} that ARCHITECTURE.md names, and those that are there"
        );
        let place = |file: &String| order.iter().position(|one| one == file);
        for need in files.needs().into_iter().filter(|need| place(&need.from) < place(&need.to)) {
            wrong.insert(format!("{room}: {} uses {} of {}", need.from, need.what, need.to));
        }
    }
    refuse(wrong);
}

/// Who imports all of the module above hides what is used of it.
#[test]
fn what_is_used_of_the_module_above_is_named() {
    let mut wrong = BTreeSet::new();
    for name in crates() {
        wrong.extend(read(&name).globs().into_iter().map(|module| format!("{name}/{}", module.join("/"))));
    }
    assert!(wrong.is_empty(), "these import all of the module above them: {wrong:?}");
}

fn reaches(beside: &BTreeMap<&String, BTreeSet<&String>>, from: &String, to: &String) -> bool {
    let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
    while let Some(at) = open.pop() {
        if at == to {
            return true;
        }
        if seen.insert(at) {
            open.extend(beside.get(at).into_iter().flatten().copied());
        }
    }
    false
}

/// Where all tests of a crate are one program, a file that it does not name would never run.
#[test]
fn each_file_of_the_tests_is_in_their_program() {
    let mut programs = 0;
    for name in crates() {
        let tests = root().join("crates").join(&name).join("tests");
        let Ok(main) = fs::read_to_string(tests.join("main.rs")) else { continue };
        programs += 1;
        let manifest = fs::read_to_string(root().join("crates").join(&name).join("Cargo.toml")).unwrap();
        for entry in fs::read_dir(&tests).unwrap().map(|entry| entry.unwrap()) {
            let file = entry.file_name().into_string().unwrap();
            let module = file.strip_suffix(".rs").unwrap_or(&file);
            let has_tests = file.ends_with(".rs") || entry.path().join("mod.rs").exists();
            let is_named = main.contains(&format!("mod {module};\n"))
                || manifest.contains(&format!("path = \"tests/{file}\""));
            assert!(
                is_named || !has_tests,
                "{}: expected in main.rs or in Cargo.toml",
                entry.path().display()
            );
        }
    }
    assert_ne!(programs, 0);
}

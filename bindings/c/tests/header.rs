//! Tests that `platter.h` declares what the library has, and that a C program that uses all functions gets the expected
//! results.

use platter_bitlocker::making::Making;
use platter_bitlocker::{Layout, Method};
use platter_device::{FileDevice, FileOptions};
use std::path::{Path, PathBuf};
use std::process::Command;

fn here(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn read(name: &str) -> String {
    std::fs::read_to_string(here(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Returns the C type for a Rust type.
fn c_type(rust: &str) -> String {
    let rust = rust.trim();
    if let Some(inner) = rust.strip_prefix("*const ") {
        return format!("const {}", pointer(&c_type(inner)));
    }
    if let Some(inner) = rust.strip_prefix("*mut ") {
        return pointer(&c_type(inner));
    }
    match rust {
        "c_char" => "char",
        "c_int" => "int",
        "c_void" => "void",
        "u64" => "uint64_t",
        "i64" => "int64_t",
        "u32" => "uint32_t",
        "usize" => "size_t",
        "Volume" => "platter_volume",
        "File" => "platter_file",
        "Directory" => "platter_directory",
        "Stat" => "struct platter_stat",
        "Entry" => "struct platter_entry",
        "Keys" => "struct platter_keys",
        other => panic!("{other} has no type in C"),
    }
    .to_string()
}

fn pointer(to: &str) -> String {
    if to.ends_with('*') { format!("{to}*") } else { format!("{to} *") }
}

/// Returns the C declaration of a name with the given Rust type.
fn declaration(rust: &str, name: &str) -> String {
    let kind = c_type(rust);
    if kind.ends_with('*') { format!("{kind}{name}") } else { format!("{kind} {name}") }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the declarations that the header must contain, derived from the functions and structures of the library.
fn expected() -> Vec<String> {
    let source = read("src/lib.rs");
    let mut all = Vec::new();
    for part in source.split("extern \"C\" fn ").skip(1) {
        let (name, rest) = part.split_once('(').expect("arguments");
        let (arguments, rest) = rest.split_once(')').expect("their end");
        let arguments: Vec<String> = arguments
            .split(',')
            .filter_map(|one| one.split_once(':'))
            .map(|(name, kind)| declaration(kind, name.trim()))
            .collect();
        let arguments = if arguments.is_empty() { "void".to_string() } else { arguments.join(", ") };
        let result = rest.split('{').next().and_then(|before| before.split_once("->"));
        let function = match result {
            Some((_, kind)) => declaration(kind, name),
            None => format!("void {name}"),
        };
        all.push(format!("{function}({arguments});"));
    }
    for part in source.split("#[repr(C)]").skip(1) {
        let (head, rest) = part.split_once('{').expect("fields");
        let name = head.split("pub struct ").nth(1).expect("a structure").trim();
        let fields = rest.split('}').next().expect("their end").split('\n');
        let fields: String = fields
            .filter_map(|line| line.trim().strip_prefix("pub ")?.trim_end_matches(',').split_once(':'))
            .map(|(name, kind)| format!("{}; ", declaration(kind, name)))
            .collect();
        all.push(format!("{} {{ {fields}}};", c_type(name)));
    }
    all
}

#[test]
fn the_header_fits_the_library() {
    let header = one_line(&read("platter.h"));
    let expected = expected();
    assert!(expected.len() > 20, "{expected:?}");
    for one in &expected {
        assert!(header.contains(one), "platter.h has no\n{one}");
    }
    let ours = expected.iter().filter(|one| one.contains('(')).count();
    let theirs = header.split(';').filter(|part| part.trim_end().ends_with(')')).count();
    assert_eq!(theirs, ours, "functions of the header, and of the library");
}

#[test]
fn a_program_in_c_uses_all_of_it() {
    let run = |command: &mut Command| {
        let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        assert!(output.status.success(), "{command:?}: {output:?}");
        String::from_utf8(output.stdout).expect("text")
    };
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    run(Command::new(cargo).args(["build", "--lib", "--quiet"]).current_dir(env!("CARGO_MANIFEST_DIR")));
    // This test program is in `TARGET/debug/deps`, and the library in `TARGET/debug`.
    let test = std::env::current_exe().expect("a path");
    let library = test.ancestors().nth(2).expect("a directory").join("libplatter_c.a");
    let place = std::env::temp_dir().join(format!("platter-c-{}", std::process::id()));
    std::fs::create_dir_all(&place).expect("a directory");
    // The cookbook's program too.
    let page = read("../../docs/for-programs.md");
    let block = page.split("```c\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a block in C");
    let cookbook = place.join("cookbook.c");
    std::fs::write(&cookbook, block).expect("to write it");
    for source in [here("tests/program.c"), cookbook] {
        let program = source_to_program(&run, &source, &place, &library);
        let image = program.with_extension("img");
        let said = run(Command::new(&program).arg(image));
        assert!(said.ends_with("done\n"), "{said}");
    }
    let program = source_to_program(&run, &here("tests/encrypted.c"), &place, &library);
    let (image, key) = (place.join("encrypted.img"), place.join("encrypted.bek"));
    let plain = run(Command::new(&program).arg("make").arg(&image));
    encrypt(&image, &key, plain.trim().parse().expect("a number of bytes"));
    // The tests in Python open it too.
    let kept = Path::new(env!("CARGO_TARGET_TMPDIR"));
    std::fs::copy(&image, kept.join("encrypted.img")).expect("to copy it");
    std::fs::copy(&key, kept.join("encrypted.bek")).expect("to copy it");
    let said = run(Command::new(&program).arg("open").arg(&image).arg(&key));
    assert!(said.ends_with("done\n"), "{said}");
    std::fs::remove_dir_all(&place).expect("to remove it");
}

/// Encrypts the first `length` bytes of an image as BitLocker does, with its structures behind them, and writes a key file.
fn encrypt(image: &Path, key: &Path, length: u64) {
    const REGION: u64 = 64 << 10;
    let whole = length + 4 * REGION;
    std::fs::OpenOptions::new().write(true).open(image).and_then(|file| file.set_len(whole)).expect("room");
    let device = FileDevice::open(image, FileOptions::default()).expect("the image");
    let making = Making {
        layout: Layout::Seven,
        method: Method::Xts128,
        sector: 512,
        blocks: [0, 1, 2].map(|number| length + number * REGION),
        first: (length + 3 * REGION, 8192),
        password: Some("correct horse battery"),
        recovery_key: Some("471207-278498-422125-177177-561902-537405-468006-693451"),
        key_file: true,
        clear_key: false,
        encrypted: None,
        seed: 11,
    };
    let content = making.encrypt(&device).expect("to encrypt it").expect("a key file");
    std::fs::write(key, content).expect("to write it");
}

/// Compiles a program in C, with every warning as an error, and returns its path.
fn source_to_program(
    run: &dyn Fn(&mut Command) -> String,
    source: &Path,
    place: &Path,
    library: &Path,
) -> PathBuf {
    let program = place.join(source.file_stem().expect("a name"));
    let strict = ["-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-O1"];
    run(Command::new("cc")
        .args(strict)
        .arg(source)
        .arg("-I")
        .arg(here(""))
        .arg(library)
        .args(["-lpthread", "-ldl", "-lm", "-o"])
        .arg(&program));
    program
}

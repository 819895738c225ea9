//! Manual pages and completions, judged by the programs that read them.

use crate::common::Place;
use std::fs;
use std::path::PathBuf;

/// The pages that `platter man` writes.
fn pages(place: &Place) -> Vec<String> {
    place.works("man man1");
    let entries = fs::read_dir(place.path("man1")).unwrap();
    let mut pages: Vec<String> =
        entries.map(|entry| format!("man1/{}", entry.unwrap().file_name().into_string().unwrap())).collect();
    pages.sort();
    pages
}

#[test]
fn mandoc_and_man_have_nothing_to_say_of_the_manual_pages() {
    let place = Place::new("mandoc");
    let pages = pages(&place);
    assert!(pages.len() > 40, "{pages:?}");
    let mut arguments = vec!["-Tlint"];
    arguments.extend(pages.iter().map(String::as_str));
    let output = place.command("mandoc", &arguments).output().expect("mandoc is needed for this test");
    let said = String::from_utf8(output.stdout).unwrap();
    // Other pages of this program are not installed where the test runs.
    let faults: Vec<&str> =
        said.lines().filter(|line| !line.contains("referenced manual not found")).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    for page in &pages {
        let output = place
            .command("man", &["--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", page])
            .output()
            .unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{page}: {output:?}");
        let text = fs::read_to_string(place.path(page)).unwrap();
        for section in ["NAME", "SYNOPSIS", "DESCRIPTION", "EXIT STATUS", "SEE ALSO"] {
            assert!(text.contains(&format!(".SH {section}\n")), "{page} has no {section}");
        }
    }
    let check = fs::read_to_string(place.path("man1/platter-check.1")).unwrap();
    assert!(check.contains("[\\fB\\-\\-undo\\fR \\fIFILE\\fR]"), "values are in the synopsis");
    assert!(check.contains(".SH EXAMPLES") && check.contains(".SH FILES"), "{check}");
}

/// A directory with an image that has partitions, one with a volume, and files that are none.
fn prepared(name: &str) -> Place {
    let place = Place::new(name);
    place.works("mkfs exfat disk.img --size 64M");
    fs::create_dir_all(place.path("src/photos/holiday 2024")).unwrap();
    fs::write(place.path("src/phone.txt"), "").unwrap();
    place.works("cp -r src/. disk.img:/");
    fs::File::create(place.path("parts.img")).unwrap().set_len(64 << 20).unwrap();
    fs::write(place.path("table"), "label: gpt\nsize=16M\nsize=16M\n").unwrap();
    place.tool("sh", &["-c", "sfdisk -q parts.img < table"]);
    let program = PathBuf::from(env!("CARGO_BIN_EXE_platter"));
    std::os::unix::fs::symlink(program, place.path("platter")).unwrap();
    place
}

/// What is typed, and what a shell must offer for its last word.
const TYPED: &[(&str, &[&str])] = &[
    ("platter chec", &["check"]),
    ("platter check --rep", &["--repair"]),
    ("platter mkfs ref", &["refs", "refs+integrity"]),
    ("platter check --as ex", &["exfat"]),
    ("platter compare --targets raw,ref", &["raw,refs", "raw,refs+integrity"]),
    ("platter compare --durability wr", &["write-through"]),
    ("platter run iome", &["iometer"]),
    ("platter mount -o ro,noex", &["ro,noexec"]),
    ("platter cat di", &["disk.img:/"]),
    ("platter ls disk.img:/ph", &["disk.img:/phone.txt", "disk.img:/photos/"]),
    ("platter info parts.img@", &["parts.img@1", "parts.img@2"]),
    ("platter mirror sta", &["status"]),
];

#[test]
fn bash_completes_what_the_words_mean() {
    let place = prepared("bash");
    place.tool("sh", &["-c", "./platter completions bash > script && bash -n script"]);
    for (line, wanted) in TYPED {
        // bash calls the function with the line, and puts what it answers behind the last character that breaks words.
        let script = format!(
            "PATH=$PWD:$PATH; . ./script; COMP_LINE='{line}'; COMP_POINT=${{#COMP_LINE}}; COMP_WORDS=(platter); \
             compopt() {{ :; }}; _platter; printf '%s\\n' \"${{COMPREPLY[@]}}\""
        );
        let found = place.tool("bash", &["-c", &script]);
        let word = line.rsplit(' ').next().unwrap();
        let kept = word.rfind([':', '=', '@']).map_or(0, |at| at + 1);
        let wanted: Vec<&str> = wanted.iter().map(|wanted| &wanted[kept..]).collect();
        assert_eq!(found.lines().collect::<Vec<_>>(), wanted, "{line}");
    }
    let registered = place.tool("bash", &["-c", ". ./script; complete -p platter"]);
    assert_eq!(registered, "complete -F _platter platter\n");
}

#[test]
fn fish_completes_what_the_words_mean() {
    let place = prepared("fish");
    place.tool("sh", &["-c", "./platter completions fish > script.fish && fish -n script.fish"]);
    for (line, wanted) in TYPED {
        let script = format!("set PATH $PWD $PATH; source script.fish; complete -C '{line}'");
        let mut command = place.command("fish", &["-N", "-c", &script]);
        let output = command.env("HOME", &place.0).output().expect("fish is needed for this test");
        let found = String::from_utf8(output.stdout).unwrap();
        let mut found: Vec<&str> = found.lines().map(|line| line.split('\t').next().unwrap()).collect();
        found.sort_unstable();
        assert_eq!(found, *wanted, "{line}");
    }
}

/// zsh completes in a terminal only: the line is typed into one, with a key that writes what was found to a file.
#[test]
fn zsh_completes_what_the_words_mean() {
    let place = prepared("zsh");
    place.tool(
        "sh",
        &[
            "-c",
            "mkdir functions && ./platter completions zsh > functions/_platter && zsh -n functions/_platter",
        ],
    );
    // `compadd` is replaced by a function that prints the words that it would offer for what is typed.
    let script = "PATH=$PWD:$PATH
        compdef() { :; }
        compadd() { local name; for name in \"${@[-1]}\"; do print -rl -- \"${(@P)name}\"; done; }
        source functions/_platter
        words=(\"${(@z)LINE}\"); CURRENT=${#words}
        _platter";
    for (line, wanted) in TYPED {
        let mut command = place.command("zsh", &["-f", "-c", script]);
        let output = command.env("LINE", line).output().expect("zsh is needed for this test");
        assert!(output.status.success(), "{line}: {output:?}");
        let found = String::from_utf8(output.stdout).unwrap();
        let mut found: Vec<&str> = found.lines().collect();
        found.sort_unstable();
        assert_eq!(found, *wanted, "{line}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

/// PowerShell is not on the machines that run the tests: what its script hands over is handed over here.
#[test]
fn other_shells_get_a_word_a_line_with_its_help() {
    let place = prepared("others");
    assert!(place.works("completions powershell").contains("Register-ArgumentCompleter -Native"));
    let found = place.works("complete powershell -- info parts.img@");
    assert!(found.lines().all(|line| line.starts_with("parts.img@") && line.contains("\t")), "{found}");
    assert!(place.works("complete powershell -- mirror \"\"").contains("rebuild\tCopy the current content"));
    let spaced = place.platter("complete elvish -- ls disk.img:/photos/");
    assert_eq!(String::from_utf8(spaced.stdout).unwrap(), "disk.img:/photos/holiday 2024/\n");
}

//! The manual pages, in the macros of man(7), and the examples that help texts end with.

mod texts;

use clap::{Arg, ArgAction, Command};
use std::fmt::Write;

/// The date of the pages: that of the last change of what they say.
const DATE: &str = "2026-11-29";

/// The same program, with examples at the end of each command's help.
pub(super) fn with_examples(program: Command) -> Command {
    with_examples_of(program, "")
}

fn with_examples_of(command: Command, path: &str) -> Command {
    let names: Vec<String> = command.get_subcommands().map(|inner| inner.get_name().to_string()).collect();
    let command = names.into_iter().fold(command, |command, name| {
        let path = format!("{path} {name}").trim_start().to_string();
        command.mut_subcommand(name, |inner| with_examples_of(inner, &path))
    });
    let examples = texts::of(texts::EXAMPLES, path);
    if examples.is_empty() {
        return command;
    }
    let mut text = String::from(if examples.len() == 1 { "Example:" } else { "Examples:" });
    examples.iter().for_each(|(line, _)| text += &format!("\n  {line}"));
    command.after_help(text)
}

/// Returns the pages of a program and of all its commands: the name of each file, and its content.
pub(super) fn pages(mut program: Command) -> Vec<(String, String)> {
    program.build();
    let mut pages = Vec::new();
    add(&program, "", &mut pages);
    pages
}

fn add(command: &Command, path: &str, pages: &mut Vec<(String, String)>) {
    let name = format!("platter {path}").trim_end().replace(' ', "-");
    pages.push((format!("{name}.1"), page(command, path, &name)));
    for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set() && inner.get_name() != "help")
    {
        add(inner, format!("{path} {}", inner.get_name()).trim_start(), pages);
    }
}

fn page(command: &Command, path: &str, name: &str) -> String {
    let mut page = String::new();
    let version = env!("CARGO_PKG_VERSION");
    // Writing to a string does not fail.
    let _ = writeln!(
        page,
        ".TH {} 1 {DATE} \"platter {version}\" \"User Commands\"",
        escaped(&name.to_uppercase())
    );
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let about = about.lines().next().unwrap_or_default().to_string();
    page += ".SH NAME\n";
    text(&mut page, &format!("{name} - {}", about.trim_end_matches('.')));
    synopsis(&mut page, command, format!("platter {path}").trim_end());
    let long = command.get_long_about().map_or(about, ToString::to_string);
    let (codes, told): (Vec<&str>, Vec<&str>) = long
        .split("\n\n")
        .filter(|text| !text.trim().is_empty())
        .partition(|text| text.starts_with("Exit codes"));
    page += ".SH DESCRIPTION\n";
    paragraphs(&mut page, &told, ".PP");
    let arguments: Vec<&Arg> = command.get_arguments().filter(|arg| !arg.is_hide_set()).collect();
    section(&mut page, "ARGUMENTS", arguments.iter().filter(|arg| arg.is_positional()));
    section(&mut page, "OPTIONS", arguments.iter().filter(|arg| !arg.is_positional()));
    let inner: Vec<&Command> = command
        .get_subcommands()
        .filter(|inner| !inner.is_hide_set() && inner.get_name() != "help")
        .collect();
    if !inner.is_empty() {
        page += ".SH COMMANDS\n";
        for inner in &inner {
            let _ = writeln!(page, ".TP\n.BR {} (1)", escaped(&format!("{name}-{}", inner.get_name())));
            text(&mut page, &inner.get_about().map(ToString::to_string).unwrap_or_default());
        }
    }
    page += ".SH EXIT STATUS\n";
    match codes[..] {
        [] => text(&mut page, texts::EXIT_STATUS),
        _ => paragraphs(&mut page, &codes, ".PP"),
    }
    let files = texts::of(texts::FILES, path);
    if !files.is_empty() {
        page += ".SH FILES\n";
        for (file, what) in files {
            let _ = writeln!(page, ".TP\n.I {}", escaped(file));
            text(&mut page, what);
        }
    }
    let examples = texts::of(texts::EXAMPLES, path);
    if !examples.is_empty() {
        page += ".SH EXAMPLES\n";
        for (line, what) in examples {
            page += ".TP\n";
            let _ = writeln!(page, ".B {}", quoted(line));
            text(&mut page, what);
        }
    }
    page += ".SH SEE ALSO\n";
    let mut others: Vec<String> = texts::see_also(path).iter().map(ToString::to_string).collect();
    if !path.is_empty() {
        others.insert(0, "platter(1)".into());
    }
    for (at, other) in others.iter().enumerate() {
        let (page_name, number) = other.split_once('(').unwrap_or((other, "1)"));
        let comma = if at + 1 < others.len() { "," } else { "" };
        let _ = writeln!(page, ".BR {} ({number}{comma}", escaped(page_name));
    }
    page
}

fn synopsis(page: &mut String, command: &Command, called: &str) {
    let _ = write!(page, ".SH SYNOPSIS\n.B {}\n", quoted(called));
    let shown = |arg: &&Arg| !arg.is_hide_set();
    for arg in command.get_arguments().filter(shown).filter(|arg| !arg.is_positional()) {
        let names = [
            arg.get_short().map(|short| format!("-{short}")),
            arg.get_long().map(|long| format!("--{long}")),
        ];
        let names: Vec<String> =
            names.into_iter().flatten().map(|name| format!("\\fB{}\\fR", escaped(&name))).collect();
        let value = value_of(arg).map(|value| format!(" {value}")).unwrap_or_default();
        let option = format!("{}{value}", names.join("|"));
        let _ = writeln!(page, "{}", if arg.is_required_set() { option } else { format!("[{option}]") });
    }
    for arg in command.get_positionals().filter(shown) {
        let value = value_of(arg).unwrap_or_default();
        let many = if arg.get_num_args().is_some_and(|count| count.max_values() > 1) { " ..." } else { "" };
        let dashes = if arg.is_last_set() { "\\-\\- " } else { "" };
        let value = format!("{dashes}{value}{many}");
        let _ = writeln!(page, "{}", if arg.is_required_set() { value } else { format!("[{value}]") });
    }
    if command.has_subcommands() {
        page.push_str(".I COMMAND\n");
    }
}

/// The value of an argument as it is named; `None` for an option without one.
fn value_of(arg: &Arg) -> Option<String> {
    if !arg.is_positional() && !matches!(arg.get_action(), ArgAction::Set | ArgAction::Append) {
        return None;
    }
    let names: Vec<String> = match arg.get_value_names() {
        Some(names) => names.iter().map(|name| format!("\\fI{}\\fR", escaped(name))).collect(),
        None => vec![format!("\\fI{}\\fR", escaped(&arg.get_id().as_str().to_uppercase()))],
    };
    let value = names.join(" ");
    let is_optional = !arg.is_positional() && arg.get_num_args().is_some_and(|count| count.min_values() == 0);
    Some(if is_optional { format!("[{value}]") } else { value })
}

fn section<'a>(page: &mut String, title: &str, arguments: impl Iterator<Item = &'a &'a Arg>) {
    for (at, arg) in arguments.enumerate() {
        if at == 0 {
            let _ = writeln!(page, ".SH {title}");
        }
        page.push_str(".TP\n");
        let mut names: Vec<String> = Vec::new();
        names.extend(arg.get_short().map(|short| format!("-{short}")));
        names.extend(
            arg.get_visible_short_aliases().unwrap_or_default().iter().map(|short| format!("-{short}")),
        );
        names.extend(arg.get_long().map(|long| format!("--{long}")));
        let names: Vec<String> = names.iter().map(|name| format!("\\fB{}\\fR", escaped(name))).collect();
        let parts = [Some(names.join(", ")).filter(|names| !names.is_empty()), value_of(arg)];
        let _ = writeln!(page, "{}", parts.into_iter().flatten().collect::<Vec<_>>().join(" "));
        let help = arg.get_long_help().or(arg.get_help()).map(ToString::to_string).unwrap_or_default();
        let mut help = help.trim().to_string();
        let values = arg.get_possible_values();
        let names: Vec<&str> =
            values.iter().filter(|value| !value.is_hide_set()).map(|value| value.get_name()).collect();
        let takes_value = value_of(arg).is_some();
        if takes_value && !names.is_empty() {
            help += &format!("{} One of {}.", if help.ends_with('.') { "" } else { "." }, names.join(", "));
        }
        let defaults: Vec<String> =
            arg.get_default_values().iter().map(|value| value.to_string_lossy().into_owned()).collect();
        if takes_value && !defaults.is_empty() && !arg.is_hide_default_value_set() {
            help += &format!(
                "{} The default is {}.",
                if help.ends_with('.') { "" } else { "." },
                defaults.join(",")
            );
        }
        let all: Vec<&str> = help.split("\n\n").filter(|text| !text.trim().is_empty()).collect();
        paragraphs(page, &all, ".IP");
    }
}

fn paragraphs(page: &mut String, all: &[&str], between: &str) {
    for (at, paragraph) in all.iter().enumerate() {
        if at > 0 {
            page.push_str(between);
            page.push('\n');
        }
        text(page, paragraph);
    }
}

/// Adds a text in lines of at most 78 bytes. What is between backquotes is bold.
fn text(page: &mut String, text: &str) {
    const WIDTH: usize = 78;
    let (mut line, mut is_code) = (String::new(), false);
    for word in text.split_whitespace() {
        let mut written = String::new();
        for part in word.split_inclusive('`') {
            written += &escaped(part.trim_end_matches('`'));
            if part.ends_with('`') {
                is_code = !is_code;
                written += if is_code { "\\fB" } else { "\\fR" };
            }
        }
        if !line.is_empty() && line.len() + 1 + written.len() > WIDTH {
            end(page, &mut line);
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line += &written;
    }
    end(page, &mut line);
}

/// Ends a line of a text, in which a font may go on to the next.
fn end(page: &mut String, line: &mut String) {
    // A line that begins with one of these would be a request.
    if line.starts_with(['.', '\'']) {
        page.push_str("\\&");
    }
    page.push_str(line);
    page.push('\n');
    line.clear();
}

/// An argument of a macro.
fn quoted(text: &str) -> String {
    format!("\"{}\"", escaped(text).replace('"', "\\(dq"))
}

/// Escapes what has a meaning in roff. A hyphen is one that can be copied into a shell.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for character in text.chars() {
        match character {
            '\\' => escaped += "\\e",
            '-' => escaped += "\\-",
            '~' => escaped += "\\(ti",
            '^' => escaped += "\\(ha",
            '\'' => escaped += "\\(aq",
            ascii if ascii.is_ascii() => escaped.push(ascii),
            other => {
                let _ = write!(escaped, "\\[u{:04X}]", u32::from(other));
            }
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::cli;
    use std::ffi::OsString;

    #[test]
    fn every_example_is_understood_and_every_text_is_of_a_command() {
        let mut program = cli::program();
        program.build();
        for (path, examples) in texts::EXAMPLES {
            for (line, what) in *examples {
                // Only the first of several commands of a line is this program's, or one after a pipe.
                let own = line.find("platter ").map_or(*line, |at| &line[at..]);
                let words =
                    crate::command::complete::words(own.split(" | ").next().unwrap_or(own).as_bytes());
                let parsed = cli::parse(&words);
                assert!(parsed.is_ok(), "{line}: {}", parsed.err().unwrap());
                assert!(own.starts_with(&format!("platter {path}")) && !what.is_empty(), "{line}");
            }
        }
        let paths =
            texts::EXAMPLES.iter().map(|(path, _)| path).chain(texts::FILES.iter().map(|(path, _)| path));
        for path in paths.chain(texts::SEE_ALSO.iter().map(|(path, _)| path)) {
            let found =
                path.split_whitespace().try_fold(&program, |command, name| command.find_subcommand(name));
            assert!(found.is_some(), "{path}");
        }
        // Every command that is not a group of others has an example in its help.
        for command in program.get_subcommands().filter(|command| !command.is_hide_set()) {
            let has = |command: &Command| command.get_after_help().is_some();
            let name = command.get_name();
            assert!(name == "help" || has(command) || command.get_subcommands().any(has), "{name}");
        }
    }

    #[test]
    fn texts_are_lines_that_roff_leaves_alone() {
        let mut page = String::new();
        text(&mut page, "`a -b` is\n.not 'a' request \\n…");
        assert_eq!(page, "\\fBa \\-b\\fR is .not \\(aqa\\(aq request \\en\\[u2026]\n");
        let mut page = String::new();
        text(&mut page, &format!("{} .xyz", "word ".repeat(15)));
        assert!(page.ends_with("\n\\&.xyz\n"), "{page}");
        let parsed = cli::parse(&[OsString::from("platter"), "help".into(), "ls".into()]);
        assert!(parsed.err().unwrap().to_string().contains("Examples:\n  platter ls"));
    }
}

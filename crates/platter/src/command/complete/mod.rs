//! Completing a command line: which words may come where the cursor is.
//!
//! The scripts of the shells ([`scripts`]) call `platter complete` with the words before the cursor; what may follow is
//! found from the definition of the arguments, and for their values by what they mean ([`values`]).

pub(super) mod scripts;
mod values;

use clap::{Arg, ArgAction, Command};
use platter_device::host::{HostBytes, host_string};
use std::ffi::{OsStr, OsString};

/// A word that may come at the cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    /// The whole word.
    pub value: Vec<u8>,
    /// A few words about it.
    pub help: String,
}

impl Candidate {
    fn new(value: impl Into<Vec<u8>>, help: impl Into<String>) -> Candidate {
        Candidate { value: value.into(), help: help.into() }
    }
}

/// Returns the candidates for the last of these words, which may be empty. The program's name is not among them.
pub(super) fn complete(program: &mut Command, words: &[OsString]) -> Vec<Candidate> {
    program.build();
    let Some((current, before)) = words.split_last() else { return Vec::new() };
    let mut line = Line { command: program, positionals: 0, is_ended: false, waits: None, words: before };
    before.iter().for_each(|word| line.take(word));
    let mut found = line.candidates(current);
    found.retain(|candidate| candidate.value.starts_with(current.as_bytes()));
    found
}

/// What the words before the cursor mean.
struct Line<'c> {
    command: &'c Command,
    /// How many positional arguments there are already.
    positionals: usize,
    /// Whether `--` ended the options.
    is_ended: bool,
    /// The option that waits for its value.
    waits: Option<&'c Arg>,
    words: &'c [OsString],
}

impl<'c> Line<'c> {
    fn take(&mut self, word: &'c OsStr) {
        if self.waits.take().is_some() {
            return;
        }
        let bytes = word.as_bytes();
        match bytes {
            _ if self.is_ended => self.positionals += 1,
            b"--" => self.is_ended = true,
            [b'-', b'-', name @ ..] => {
                let is_whole = !name.contains(&b'=');
                self.waits = self.option(|arg| arg.get_long().map(str::as_bytes) == Some(name));
                self.waits = self.waits.filter(|arg| is_whole && takes_value(arg));
            }
            [b'-', letters @ ..] if !letters.is_empty() => {
                // Of letters together, only the last may take the next word.
                let last = char::from(letters[letters.len() - 1]);
                self.waits = self.option(|arg| arg.get_short() == Some(last)).filter(|arg| takes_value(arg));
            }
            _ => match word.to_str().and_then(|word| self.command.find_subcommand(word)) {
                Some(inner) if self.positionals == 0 => self.command = inner,
                _ => self.positionals += 1,
            },
        }
    }

    fn option(&self, is_meant: impl Fn(&Arg) -> bool) -> Option<&'c Arg> {
        self.command.get_arguments().filter(|arg| !arg.is_positional()).find(|arg| is_meant(arg))
    }

    fn candidates(&self, current: &OsStr) -> Vec<Candidate> {
        let bytes = current.as_bytes();
        if let Some(option) = self.waits {
            return values::of(self.command, option, current, self.words);
        }
        if let Some(equals) = bytes.iter().position(|&byte| byte == b'=')
            && bytes.starts_with(b"--")
            && !self.is_ended
        {
            let Some(option) =
                self.option(|arg| arg.get_long().map(str::as_bytes) == Some(&bytes[2..equals]))
            else {
                return Vec::new();
            };
            let (name, value) = bytes.split_at(equals + 1);
            let found = values::of(self.command, option, &host_string(value), self.words).into_iter();
            return found.map(|found| Candidate { value: [name, &found.value].concat(), ..found }).collect();
        }
        if bytes.starts_with(b"-") && !self.is_ended {
            return self.options(bytes.starts_with(b"--"));
        }
        if self.positionals == 0 && self.command.has_subcommands() {
            let shown = self.command.get_subcommands().filter(|inner| !inner.is_hide_set());
            return shown
                .map(|inner| {
                    Candidate::new(inner.get_name(), first_line(inner.get_about().map(ToString::to_string)))
                })
                .collect();
        }
        let mut positionals = self.command.get_positionals().filter(|arg| !arg.is_last_set());
        let last = self.command.get_positionals().filter(|arg| !arg.is_last_set()).last();
        let is_many = |arg: &&Arg| {
            arg.get_num_args().is_some_and(|count| count.max_values() > 1)
                || matches!(arg.get_action(), ArgAction::Append)
        };
        let argument = positionals.nth(self.positionals).or(last.filter(is_many));
        argument.map_or_else(Vec::new, |arg| values::of(self.command, arg, current, self.words))
    }

    /// The options of the command; the long form where there is one, unless a single letter is begun.
    fn options(&self, is_long: bool) -> Vec<Candidate> {
        let shown = self.command.get_arguments().filter(|arg| !arg.is_positional() && !arg.is_hide_set());
        shown
            .flat_map(|arg| {
                let help = first_line(arg.get_help().map(ToString::to_string));
                let long = arg.get_long().map(|long| Candidate::new(format!("--{long}"), help.clone()));
                let short = arg.get_short().filter(|_| !is_long);
                long.into_iter().chain(short.map(|short| Candidate::new(format!("-{short}"), help)))
            })
            .collect()
    }
}

fn takes_value(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::Set | ArgAction::Append)
        && arg.get_num_args().is_none_or(|count| count.min_values() > 0)
}

/// The first sentence of a help text, as far as it fits beside a word.
fn first_line(help: Option<String>) -> String {
    let help = help.unwrap_or_default();
    let line = help.lines().next().unwrap_or_default();
    let end = line.char_indices().nth(80).map_or(line.len(), |(end, _)| end);
    line[..end].to_string()
}

/// Splits the line of a shell into its words, up to the cursor at its end, as POSIX shells do. The last word is empty if
/// the line ends with a space.
pub(super) fn words(line: &[u8]) -> Vec<OsString> {
    let mut words = vec![Vec::new()];
    let mut bytes = line.iter().copied().peekable();
    let mut quote = None;
    while let Some(byte) = bytes.next() {
        let word: &mut Vec<u8> = words.last_mut().expect("there always is one");
        match (quote, byte) {
            (Some(open), byte) if open == byte => quote = None,
            (None, b'\'' | b'"') => quote = Some(byte),
            (None | Some(b'"'), b'\\') => word.extend(bytes.next()),
            (None, b' ' | b'\t' | b'\n') => {
                while bytes.next_if(u8::is_ascii_whitespace).is_some() {}
                words.push(Vec::new());
            }
            (_, byte) => word.push(byte),
        }
    }
    words.into_iter().map(|word| host_string(&word)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::cli;
    use std::fs;
    use std::path::Path;

    fn found(words: &[&str]) -> Vec<String> {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        let found = complete(&mut cli::program(), &words);
        found.into_iter().map(|found| String::from_utf8(found.value).unwrap()).collect()
    }

    #[test]
    fn commands_options_and_values_are_completed() {
        assert_eq!(found(&["chec"]), ["check"]);
        assert_eq!(found(&["mirror", "re"]), ["rebuild"]);
        assert_eq!(found(&["check", "--rep"]), ["--repair"]);
        assert!(found(&["ls", "-"]).contains(&"-l".to_string()));
        assert_eq!(found(&["mkfs", "nt"]), ["ntfs"]);
        assert_eq!(found(&["mkfs", "NT"]), ["NTFS"]);
        assert_eq!(found(&["check", "--as", "ex"]), ["exfat"]);
        assert_eq!(found(&["check", "--as=ex"]), ["--as=exfat"]);
        assert_eq!(found(&["compare", "--targets", "raw,nt"])[0], "raw,ntfs");
        assert!(found(&["compare", "--targets", "raw,n"]).contains(&"raw,ntfs-3g".to_string()));
        assert_eq!(found(&["run", "iom"]), ["iometer"]);
        assert_eq!(found(&["run", "iometer", "--target", "refs+"]), ["refs+integrity"]);
        assert_eq!(found(&["compare", "--workloads", "overhead,jet"]), ["overhead,jetstress"]);
        assert_eq!(found(&["compare", "--durability", "w"]), ["write-through"]);
        assert_eq!(found(&["compare", "--durability", "f"]), ["fsync_every="]);
        assert_eq!(found(&["mount", "-o", "ro,noex"]), ["ro,noexec"]);
        assert_eq!(found(&["mount", "-o", "streams"]), ["streams_interface="]);
        assert_eq!(found(&["mount", "-o", "streams_interface=w"]), ["streams_interface=windows"]);
        assert!(found(&["compare", "--device", "m"]).contains(&"mem:".to_string()));
        assert_eq!(found(&["compare", "--device", "model:wd"]), ["model:wd1003fzex"]);
        assert_eq!(found(&["integrity", "set", "x", "of"]), ["off"]);
        assert_eq!(found(&["completions", "fi"]), ["fish"]);
        assert_eq!(found(&["no-such-command", ""]), Vec::<String>::new());
        assert_eq!(found(&[]), Vec::<String>::new());
    }

    #[test]
    fn images_and_what_is_in_them_are_completed() {
        let place = std::env::temp_dir().join(format!("platter-complete-{}", std::process::id()));
        fs::create_dir_all(place.join("dir")).unwrap();
        fs::write(place.join("text"), "no image\n".repeat(1000)).unwrap();
        let image = place.join("disk.img");
        let make = platter::MakeOptions { size: Some(16 << 20), ..platter::MakeOptions::default() };
        platter::mkfs(&image, "exfat", &make, &platter_vfs::Silent).unwrap();
        let volume = platter::open_rw(&image).unwrap();
        volume.create_dir_all("photos/2024").unwrap();
        volume.write("phone.txt", b"").unwrap();
        volume.close().unwrap();
        let of = |path: &Path, rest: &str| format!("{}{rest}", path.display());
        let image_word = |rest: &str| of(&image, rest);
        assert_eq!(found(&["cat", &of(&place, "/di")]), [of(&place, "/dir/"), image_word(":/")]);
        assert_eq!(found(&["info", &of(&place, "/dis")]), [image_word("")]);
        assert_eq!(found(&["ls", &image_word(":/ph")]), [image_word(":/phone.txt"), image_word(":/photos/")]);
        assert_eq!(found(&["ls", &image_word(":/photos/")]), [image_word(":/photos/2024/")]);
        assert_eq!(found(&["cp", "a", &image_word(":/photos/2")]), [image_word(":/photos/2024/")]);
        assert_eq!(found(&["ls", &of(&place, "/text:/")]), Vec::<String>::new());
        assert_eq!(
            found(&["mount", &image_word(""), &of(&place, "/d")]),
            [of(&place, "/dir/")],
            "a directory"
        );
        fs::remove_dir_all(&place).unwrap();
    }

    #[test]
    fn a_line_has_words_as_in_a_shell() {
        let split = |line: &str| -> Vec<String> {
            words(line.as_bytes()).into_iter().map(|word| word.into_string().unwrap()).collect()
        };
        assert_eq!(split("platter ls "), ["platter", "ls", ""]);
        assert_eq!(split(r"platter  ls a\ b:/c"), ["platter", "ls", "a b:/c"]);
        assert_eq!(split(r#"platter ls 'a b' "c\"d"#), ["platter", "ls", "a b", "c\"d"]);
        assert_eq!(split(""), [""]);
    }
}

//! The record of a recovery that is not complete. It is in the directory that is copied to, and with it a second run with the
//! same directory goes on where the first ended.
//!
//! A line of text each: `platter recover 1`, the length of the device (`length N`), the present names of the directories
//! for damaged and deleted files (`asides` and six numbers), and paths in the directory of files that are not whole: `unread`
//! of one with zeroes for what could not be read, `partial` of one at which the copying was interrupted, by its final name. In a
//! path every byte that is no letter, digit or one of `-_./` is `%` and two hexadecimal digits.

use super::names::Asides;
use platter_device::host::{HostBytes, host_string};
use std::collections::HashSet;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The name of the record in the directory.
pub(super) const NAME: &str = ".platter-recover";
const FIRST: &str = "platter recover 1";
/// A longer record is none of ours.
const LONGEST: u64 = 256 << 20;

/// What an earlier run left to do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Record {
    /// The length of the device in bytes.
    pub length: u64,
    /// What the directories for damaged and deleted files are called.
    pub asides: Asides,
    /// Files with zeroes for what could not be read.
    pub unread: HashSet<PathBuf>,
    /// Files of which a part was copied, up to the length of what is there.
    pub partial: HashSet<PathBuf>,
}

impl Record {
    /// Reads the record in a directory; `None` if there is none.
    pub(super) fn load(directory: &Path) -> io::Result<Option<Record>> {
        let path = directory.join(NAME);
        match fs::symlink_metadata(&path) {
            Ok(found) if found.is_file() && found.len() <= LONGEST => {}
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => return Ok(None),
        }
        Ok(Record::parse(&String::from_utf8_lossy(&fs::read(path)?)))
    }

    /// Saves the record. A run that is cut off while it does finds the earlier one.
    pub(super) fn save(&self, directory: &Path) -> io::Result<()> {
        let new = directory.join(format!("{NAME}.new"));
        let saved = fs::File::create(&new).and_then(|mut file| {
            file.write_all(self.to_text().as_bytes())?;
            file.sync_all()?;
            fs::rename(&new, directory.join(NAME))
        });
        if saved.is_err() {
            let _ = fs::remove_file(&new);
        }
        saved
    }

    /// Adds a file with zeroes for what could not be read to the record that is saved, at once: a run that is cut off must not
    /// leave it for whole.
    pub(super) fn note_unread(&mut self, directory: &Path, path: &Path) {
        if self.unread.insert(path.to_path_buf())
            && let Ok(mut file) = fs::File::options().append(true).open(directory.join(NAME))
        {
            let _ = writeln!(file, "unread {}", escaped(path));
        }
    }

    fn to_text(&self) -> String {
        let mut text = format!("{FIRST}\nlength {}\nasides {}\n", self.length, self.asides.to_text());
        for (word, paths) in [("unread", &self.unread), ("partial", &self.partial)] {
            let mut paths: Vec<&PathBuf> = paths.iter().collect();
            paths.sort();
            paths.iter().for_each(|path| text += &format!("{word} {}\n", escaped(path)));
        }
        text
    }

    fn parse(text: &str) -> Option<Record> {
        let mut lines = text.lines();
        if lines.next() != Some(FIRST) {
            return None;
        }
        let mut record = Record::default();
        for line in lines {
            let (word, rest) = line.split_once(' ')?;
            match word {
                "length" => record.length = rest.parse().ok()?,
                "asides" => record.asides = Asides::parse(rest)?,
                "unread" => drop(record.unread.insert(plain(rest)?)),
                "partial" => drop(record.partial.insert(plain(rest)?)),
                _ => return None,
            }
        }
        Some(record)
    }
}

pub(super) fn escaped(path: &Path) -> String {
    let mut text = String::new();
    for &byte in path.as_os_str().as_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'/' => {
                text.push(char::from(byte))
            }
            _ => text += &format!("%{byte:02x}"),
        }
    }
    text
}

pub(super) fn plain(text: &str) -> Option<PathBuf> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&byte, behind)) = rest.split_first() {
        rest = behind;
        if byte == b'%' {
            let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &rest[2..];
        } else {
            bytes.push(byte);
        }
    }
    Some(PathBuf::from(host_string(&bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let path = |bytes: &[u8]| PathBuf::from(host_string(bytes));
        let record = Record {
            length: 1 << 40,
            asides: Asides::parse("1 7 1 2 8 2").unwrap(),
            unread: HashSet::from([path(b"a/b c\n%\xFF"), path("日".as_bytes())]),
            partial: HashSet::from([path(b"big.bin")]),
        };
        assert_eq!(Record::parse(&record.to_text()), Some(record));
        for wrong in
            ["", "platter recover 2\n", "platter recover 1\nlength x\n", "platter recover 1\nunread %zz\n"]
        {
            assert_eq!(Record::parse(wrong), None, "{wrong}");
        }
    }
}

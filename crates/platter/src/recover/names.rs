//! The names that recovered files get on the host.

use super::Trouble;
use platter_device::host::{HostBytes, host_string};
use platter_vfs::{Name, made_safe};
use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, ErrorKind as HostError};
use std::path::{Path, PathBuf};

/// The directory for deleted files.
const DELETED: &str = "deleted";
/// The directory for files whose metadata is damaged.
const DAMAGED: &str = "damaged";
/// The longest name in bytes that hosts hold.
const LONGEST: usize = 255;

/// Which of the directories beside the volume's own tree a file goes to; none of them if neither is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Aside {
    pub damaged: bool,
    pub deleted: bool,
}

/// What the directories beside the volume's own tree are called: [`DAMAGED`], [`DELETED`], and the latter in the former. 1
/// stands for the usual name, any other number for one with this number behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Asides {
    present: [u64; 3],
    /// The numbers that they get when they next have to make way.
    next: [u64; 3],
}

impl Default for Asides {
    fn default() -> Asides {
        Asides { present: [1; 3], next: [2; 3] }
    }
}

impl Asides {
    const USUAL: [&'static str; 3] = [DAMAGED, DELETED, DELETED];

    fn name(&self, index: usize) -> OsString {
        Asides::numbered(index, self.present[index])
    }

    fn numbered(index: usize, number: u64) -> OsString {
        let usual = Asides::USUAL[index];
        if number == 1 { usual.into() } else { format!("{usual} ({number})").into() }
    }

    /// All numbers as text.
    pub(super) fn to_text(&self) -> String {
        let numbers: Vec<String> = self.present.iter().chain(&self.next).map(u64::to_string).collect();
        numbers.join(" ")
    }

    /// Reads what [`Asides::to_text`] wrote.
    pub(super) fn parse(text: &str) -> Option<Asides> {
        let numbers: Option<Vec<u64>> = text.split(' ').map(|number| number.parse().ok()).collect();
        let [a, b, c, d, e, f] = numbers?.try_into().ok()?;
        Some(Asides { present: [a, b, c], next: [d, e, f] })
    }
}

/// Where recovered files go to. Every file gets a name of its own, whatever names there are on the volume.
pub(super) struct Names<'r> {
    root: &'r Path,
    asides: Asides,
    /// For each name that was wanted more than once, the number that the next file gets.
    next: HashMap<PathBuf, u64>,
    /// The directories that have another path than they were to have, since a file has that one.
    others: HashMap<PathBuf, PathBuf>,
    /// The paths of these, which no directory of the volume shares.
    taken: HashSet<PathBuf>,
    /// Of a run that goes on with what an earlier one left: the paths that it gave to files and directories itself.
    own: Option<HashSet<PathBuf>>,
}

impl<'r> Names<'r> {
    /// Names in a directory that is empty; or, with the names that an earlier run gave, one that it copied to.
    pub(super) fn new(root: &'r Path, earlier: Option<Asides>) -> Names<'r> {
        Names {
            root,
            own: earlier.is_some().then(HashSet::new),
            asides: earlier.unwrap_or_default(),
            next: HashMap::new(),
            others: HashMap::new(),
            taken: HashSet::new(),
        }
    }

    /// What the directories beside the volume's own tree are called now.
    pub(super) fn asides(&self) -> &Asides {
        &self.asides
    }

    /// The path of the directory that files of this kind go to.
    pub(super) fn place(&self, aside: Aside) -> PathBuf {
        let [damaged, deleted, both] = [0, 1, 2].map(|index| self.asides.name(index));
        match (aside.damaged, aside.deleted) {
            (false, false) => self.root.to_path_buf(),
            (true, false) => self.root.join(damaged),
            (false, true) => self.root.join(deleted),
            (true, true) => self.root.join(damaged).join(both),
        }
    }

    /// The directories that are called otherwise than usual, with their paths.
    pub(super) fn renamed(&self) -> Vec<(&'static str, PathBuf)> {
        let both = Aside { damaged: true, deleted: true };
        let all = [
            (DAMAGED, self.asides.present[0], Aside { deleted: false, ..both }),
            (DELETED, self.asides.present[1], Aside { damaged: false, ..both }),
            (DELETED, self.asides.present[2], both),
        ];
        let is_other =
            |(_, number, aside): &(&'static str, u64, Aside)| *number != 1 && self.place(*aside).is_dir();
        all.into_iter().filter(is_other).map(|(usual, _, aside)| (usual, self.place(aside))).collect()
    }

    /// Makes way for a file of the volume that has the name of one of the directories beside it: that one is renamed.
    /// Returns its path before and after, if it was there.
    pub(super) fn give_way(
        &mut self,
        aside: Aside,
        path: &[Name],
    ) -> Result<Option<(PathBuf, PathBuf)>, Trouble> {
        let Some(first) = path.first().map(|name| host_name(name, None)) else { return Ok(None) };
        // The directories of which the file may take the place: those in the directory that it goes to.
        let beside = match (aside.damaged, aside.deleted) {
            (false, false) => 0..2,
            (true, false) => 2..3,
            _ => return Ok(None),
        };
        let Some(index) = beside.into_iter().find(|&index| self.asides.name(index) == first) else {
            return Ok(None);
        };
        let above = self.place(aside);
        let number = loop {
            let number = self.asides.next[index];
            self.asides.next[index] += 1;
            if above.join(Asides::numbered(index, number)).symlink_metadata().is_err() {
                break number;
            }
        };
        let name = Asides::numbered(index, number);
        let (from, to) = (above.join(&first), above.join(&name));
        if from.symlink_metadata().is_err() {
            self.asides.present[index] = number;
            return Ok(None);
        }
        fs::rename(&from, &to).map_err(|error| Trouble::at(&from, error))?;
        self.asides.present[index] = number;
        self.moved(&from, &to);
        Ok(Some((from, to)))
    }

    /// Puts the new path of a directory into what is known of the paths in it.
    fn moved(&mut self, from: &Path, to: &Path) {
        let new =
            |path: PathBuf| path.strip_prefix(from).map(|inside| to.join(inside)).unwrap_or(path.clone());
        self.next = self.next.drain().map(|(path, number)| (new(path), number)).collect();
        self.others = self.others.drain().map(|(path, other)| (new(path), new(other))).collect();
        self.taken = self.taken.drain().map(new).collect();
        self.own = self.own.take().map(|own| own.into_iter().map(new).collect());
    }

    /// Makes the directory that these names lead to, unless it is there, and returns its path.
    pub(super) fn directory(&mut self, aside: Aside, names: &[Name]) -> Result<PathBuf, Trouble> {
        let mut path = self.root.to_path_buf();
        if aside.damaged {
            path = self.place(Aside { deleted: false, ..aside });
            make_directory(&path)?;
        }
        if aside.deleted {
            path = self.place(aside);
            make_directory(&path)?;
        }
        for name in names {
            path = self.one_directory(path.join(host_name(name, None)))?;
        }
        Ok(path)
    }

    /// Makes the directory at this path, or at another if a file is there; the files of the directory all go there.
    fn one_directory(&mut self, path: PathBuf) -> Result<PathBuf, Trouble> {
        if let Some(other) = self.others.get(&path) {
            return Ok(other.clone());
        }
        if !self.taken.contains(&path) && is_made(fs::create_dir(&path), &path)? {
            return Ok(path);
        }
        let goes_on = self.own.is_some();
        let made = self.free(&path, |path| match fs::create_dir(path) {
            // That of an earlier run.
            Err(_) if goes_on && path.symlink_metadata().is_ok_and(|there| there.is_dir()) => {
                Ok(path.to_path_buf())
            }
            made => made.map(|()| path.to_path_buf()),
        });
        let other = made.map_err(|error| Trouble::at(&path, error))?;
        self.taken.insert(other.clone());
        self.others.insert(path, other.clone());
        Ok(other)
    }

    /// Calls `make` with a path, or with a number added to its name if the name is taken.
    pub(super) fn free<T>(&mut self, path: &Path, make: impl Fn(&Path) -> io::Result<T>) -> io::Result<T> {
        let own = &mut self.own;
        let mut make = |path: &Path| {
            if own.as_ref().is_some_and(|own| own.contains(path)) {
                return Err(HostError::AlreadyExists.into());
            }
            let made = make(path);
            if let (Ok(_), Some(own)) = (&made, &mut *own) {
                own.insert(path.to_path_buf());
            }
            made
        };
        match make(path) {
            Err(error) if error.kind() == HostError::AlreadyExists => {}
            made => return made,
        }
        let next = self.next.entry(path.to_path_buf()).or_insert(2);
        loop {
            let name = numbered(path.file_name().unwrap_or_default(), *next);
            *next += 1;
            match make(&path.with_file_name(name)) {
                Err(error) if error.kind() == HostError::AlreadyExists => {}
                made => return made,
            }
        }
    }
}

/// Makes a directory, which may exist already.
fn make_directory(path: &Path) -> Result<(), Trouble> {
    match is_made(fs::create_dir(path), path)? {
        true => Ok(()),
        false => Err(Trouble::at(path, "a file of this name is in the place of the directory")),
    }
}

/// Whether a directory was made at this path, or is there; false if something else is.
fn is_made(made: io::Result<()>, path: &Path) -> Result<bool, Trouble> {
    match made {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == HostError::AlreadyExists => {
            Ok(path.symlink_metadata().is_ok_and(|there| there.is_dir()))
        }
        Err(error) => Err(Trouble::at(path, error)),
    }
}

/// Returns the name with a number behind it.
fn numbered(name: &OsStr, number: u64) -> OsString {
    let number = format!(" ({number})");
    let mut name = cut(name.as_bytes().to_vec(), LONGEST - number.len());
    name.extend(number.bytes());
    host_string(&name)
}

/// Returns a name that cannot lead out of its directory, and that the host can hold.
pub(super) fn host_name(name: &Name, stream: Option<&Name>) -> OsString {
    let mut bytes = name.to_bytes();
    if let Some(stream) = stream {
        bytes.push(b':');
        bytes.extend(stream.to_bytes());
    }
    let bytes = made_safe(&Name::from_bytes(&bytes)).to_bytes();
    host_string(&cut(bytes, LONGEST))
}

/// Cuts a name to at most this number of bytes. It keeps its extension, by which programs know its kind.
fn cut(mut name: Vec<u8>, longest: usize) -> Vec<u8> {
    /// Longer ones are no extensions.
    const EXTENSION: usize = 32;
    if name.len() <= longest {
        return name;
    }
    let dot = name.iter().rposition(|&byte| byte == b'.');
    let extension = dot.filter(|&dot| dot > 0 && name.len() - dot <= EXTENSION);
    let extension = extension.map_or(Vec::new(), |dot| name.split_off(dot));
    let most = longest - extension.len();
    // The name is not cut in the middle of a UTF-8 character.
    let end = (0..=most).rev().find(|&end| name.get(end).is_none_or(|byte| byte & 0xC0 != 0x80));
    name.truncate(end.unwrap_or(most));
    name.extend(extension);
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_in_their_directory() {
        let shown = |name: &str| host_name(&Name::from(name), None).into_string().unwrap();
        assert_eq!(["a", "..", ".", "", "a/b", "/x"].map(shown), ["a", "_..", "_.", "_", "a_b", "_x"]);
        assert_eq!(host_name(&Name::from("a"), Some(&Name::from("s/t"))), "a:s_t");
        let long = shown(&"日".repeat(200));
        assert!(long.len() == 255 && long.chars().all(|letter| letter == '日'));
    }

    #[test]
    fn long_names_keep_their_extensions() {
        let shown = |name: &str| host_name(&Name::from(name), None).into_string().unwrap();
        let fits = format!("{}.jpg", "ab".repeat(125));
        assert_eq!(shown(&fits), fits);
        let long = shown(&format!("{}.jpg", "日".repeat(200)));
        assert!(long.len() <= 255 && long.len() > 250 && long.ends_with("日.jpg"), "{long}");
        let again = numbered(OsStr::new(&long), 1234).into_string().unwrap();
        assert!(again.len() <= 255 && again.ends_with("日.jpg (1234)"), "{again}");
        // What stands behind the last dot is none.
        assert_eq!(shown(&format!("a.{}", "b".repeat(300))).len(), 255);
        assert_eq!(shown(&format!(".{}", "b".repeat(300))).len(), 255);
    }
}

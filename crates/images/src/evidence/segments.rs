//! The files of a set, by their names.

use crate::bytes::unusable;
use platter_device::sync::Mutex;
use platter_device::{Caching, Device, FileDevice, FileOptions, Result};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Opens the segment with this number, counted from 1.
pub(crate) type OpenSegment = dyn Fn(usize) -> Result<Arc<dyn Device>> + Send + Sync;

/// The segments that are open at once. A set may have more than a process may have files.
const MOST_OPEN: usize = 32;

/// The segments of a set.
pub(super) struct Segments {
    open: Box<OpenSegment>,
    /// Those used last.
    kept: Mutex<VecDeque<(usize, Arc<dyn Device>)>>,
}

impl Segments {
    pub(super) fn new(open: Box<OpenSegment>) -> Segments {
        Segments { open, kept: Mutex::default() }
    }

    /// Returns the segment with this number, counted from 1.
    pub(super) fn get(&self, number: usize) -> Result<Arc<dyn Device>> {
        let mut kept = self.kept.lock();
        let found = kept.iter().position(|(other, _)| *other == number);
        let segment = match found.and_then(|at| kept.remove(at)) {
            Some((_, segment)) => segment,
            None => (self.open)(number)?,
        };
        kept.push_front((number, segment.clone()));
        kept.truncate(MOST_OPEN);
        Ok(segment)
    }
}

/// The path of the segment with this number, counted from 1, in a set whose first is `first`; `None` if there is no such
/// name. The names are `.E01` to `.E99`, then `.EAA` to `.EZZ`, `.FAA` and so on to `.ZZZ`.
pub(super) fn path(first: &Path, number: usize) -> Option<PathBuf> {
    if number == 1 {
        return Some(first.to_path_buf());
    }
    let ending = first.extension()?.to_str()?;
    let letter = *ending.as_bytes().first()?;
    if !letter.is_ascii_alphabetic() || &ending[1..] != "01" {
        return None;
    }
    if number < 100 {
        return Some(first.with_extension(format!("{}{number:02}", letter as char)));
    }
    let later = number - 100;
    let (one, last) = if letter.is_ascii_lowercase() { (b'a', b'z') } else { (b'A', b'Z') };
    let begin = usize::from(letter) + later / 676;
    if begin > usize::from(last) {
        return None;
    }
    let letters = [begin as u8, one + (later / 26 % 26) as u8, one + (later % 26) as u8];
    Some(first.with_extension(letters.map(char::from).iter().collect::<String>()))
}

/// Returns what opens the segments of the set whose first is at `first`, for reading only.
pub(crate) fn opener(first: &Path, options: FileOptions) -> Box<OpenSegment> {
    let first = first.to_path_buf();
    let options = FileOptions { read_only: true, caching: Caching::Buffered, bytewise: true, ..options };
    Box::new(move |number| {
        let name = first.display();
        let Some(path) = path(&first, number) else {
            let reason = format!(
                "goes on in segment {number}, for which there is no name: the first is to end with .E01"
            );
            return Err(unusable(&name.to_string(), reason));
        };
        if !path.exists() {
            let reason =
                format!("is missing: it is segment {number} of the evidence that begins with {name}");
            return Err(unusable(&path.display().to_string(), reason));
        }
        Ok(Arc::new(FileDevice::open(&path, options)?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_have_the_names_that_other_programs_give_them() {
        let named = |first: &str, number| {
            path(Path::new(first), number).map(|path| path.display().to_string()).unwrap_or_default()
        };
        for (number, name) in
            [(1, "a.E01"), (99, "a.E99"), (100, "a.EAA"), (126, "a.EBA"), (775, "a.EZZ"), (776, "a.FAA")]
        {
            assert_eq!(named("a.E01", number), name);
        }
        assert_eq!(named("a.E01", 100 + 22 * 676), "");
        assert_eq!(named("a.s01", 100), "a.saa");
        assert_eq!(named("a.raw", 2), "");
        assert_eq!(named("a.é01", 2), "");
    }
}

//! What a new entry is made with.

use crate::{Error, Kind, Reparse, Result, reparse};

/// What an entry is made with besides its name. All of it is there when the name is, also after a power cut.
#[derive(Clone, Copy, Debug)]
pub struct NewEntry<'a> {
    /// File, directory or symbolic link.
    pub kind: Kind,
    /// The reparse point: that of a symbolic link leads to its target. Directories are made without one.
    pub point: Option<&'a Reparse>,
    /// Extended attributes: name and value of each.
    pub extended: &'a [(&'a str, &'a [u8])],
}

impl NewEntry<'_> {
    /// An empty file or directory with nothing else.
    pub fn of(kind: Kind) -> NewEntry<'static> {
        NewEntry { kind, point: None, extended: &[] }
    }

    /// Returns an error if no entry can be made with this, on any volume.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`].
    pub fn check(&self) -> Result<()> {
        self.point.map_or(Ok(()), reparse::check)?;
        let is_link = self.point.is_some_and(|point| reparse::is_link(point.tag));
        match (self.kind, is_link) {
            (Kind::SymbolicLink, false) => Err(Error::InvalidArgument("a symbolic link needs a target")),
            (Kind::Directory, _) if self.point.is_some() => {
                Err(Error::InvalidArgument("a directory is made without a reparse point"))
            }
            (Kind::File, true) => {
                Err(Error::InvalidArgument("the reparse point is that of a symbolic link, not of a file"))
            }
            _ => Ok(()),
        }
    }
}

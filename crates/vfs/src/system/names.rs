//! Names: how callers get to the nodes of a volume, and what they do with the entries of directories.

#[cfg(doc)]
use crate::Error;
use crate::{Cursor, Entry, Kind, Name, NewEntry, Node, RenameFlags, Result, reparse};

/// The names of a volume. Node numbers are handed out and counted as [`FileSystem`](crate::FileSystem) says.
///
/// A format without hard links or symbolic links refuses them with [`Error::Unsupported`];
/// [`Capabilities`](crate::Capabilities) tells beforehand.
pub trait Names: Send + Sync {
    /// Returns the node that `name` leads to in `directory`, by the volume's own case rule.
    fn lookup(&self, directory: Node, name: &Name) -> Result<Node>;

    /// The same as [`Names::lookup`], but only if the case of the name matches too, for callers to whom names that
    /// differ only in case are different.
    fn lookup_exact(&self, directory: Node, name: &Name) -> Result<Node>;

    /// Gives back `count` hand-outs of a node.
    fn forget(&self, node: Node, count: u64);

    /// Makes an entry with everything that `new` says, or none.
    ///
    /// # Errors
    /// Those of [`NewEntry::check`], and [`Error::Unsupported`] for a part of `new` that the format does not have.
    fn make(&self, directory: Node, name: &Name, new: &NewEntry<'_>) -> Result<Node>;

    /// Makes an empty file or directory. [`Kind::SymbolicLink`] is refused: see [`Names::symlink`].
    fn create(&self, directory: Node, name: &Name, kind: Kind) -> Result<Node> {
        self.make(directory, name, &NewEntry::of(kind))
    }

    /// Removes the name of a file or symbolic link.
    fn unlink(&self, directory: Node, name: &Name) -> Result<()>;

    /// Removes an empty directory.
    fn rmdir(&self, directory: Node, name: &Name) -> Result<()>;

    /// Moves an entry, also to another directory. Renaming to the same name in other case changes the case.
    ///
    /// # Errors
    /// [`Error::Exists`] also if `new_name` leads to another entry whose name is spelled otherwise, whatever `flags` say:
    /// only an entry that is named exactly is replaced.
    fn rename(&self, from: Node, name: &Name, to: Node, new_name: &Name, flags: RenameFlags) -> Result<()>;

    /// Gives a file a further name (a hard link).
    fn link(&self, node: Node, directory: Node, name: &Name) -> Result<()>;

    /// Makes a symbolic link to `target`, which need not exist and is not checked.
    fn symlink(&self, directory: Node, name: &Name, target: &str) -> Result<Node> {
        let point = reparse::link_to(target)?;
        self.make(directory, name, &NewEntry { kind: Kind::SymbolicLink, point: Some(&point), extended: &[] })
    }

    /// The target of a symbolic link.
    fn read_link(&self, node: Node) -> Result<String>;

    /// Appends up to `most` entries after `cursor` to `entries`. If it appends none, the listing is at its end.
    ///
    /// Of a directory that is damaged in part, all readable entries are listed. The call at the end of the listing then
    /// fails with the damage, so that a caller who reads to the end learns that entries are missing. Each entry's
    /// cursor lies behind the cursor from which it was read, so a listing ends, whatever the directory holds.
    fn read_directory(
        &self,
        directory: Node,
        cursor: Cursor,
        most: usize,
        entries: &mut Vec<Entry>,
    ) -> Result<()>;

    /// The parent of a directory; the root's is the root. For files: [`Error::NotADirectory`].
    fn parent(&self, directory: Node) -> Result<Node>;
}

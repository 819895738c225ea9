//! Removal of names.

use super::Volume;
use crate::core::Core;
use crate::{Directory, Family};
use platter_vfs::{Error, Kind, Name, Node, Result};

impl<F: Family> Volume<F> {
    /// Removes an entry, unless `allowed` refuses it.
    pub(super) fn remove(
        &self,
        directory: Node,
        name: &Name,
        allowed: impl FnOnce(&mut Core<F>, u64) -> Result<()>,
    ) -> Result<()> {
        let now = self.now();
        let number = {
            let mut core = self.core();
            core.writable()?;
            let slot = core.directory(directory.0)?.find(name).ok_or(Error::NotFound)?;
            let number = core.enter(directory.0, slot)?;
            let checked = allowed(&mut core, number)
                .and_then(|()| core.entity(number)?.deletable())
                .and_then(|()| core.directory(directory.0).map(|directory| directory.remove(slot)));
            if checked.is_ok() {
                core.unname(number);
                core.change.erases = true;
                core.change.depends = true;
                core.stamp_directory(directory.0, now);
            }
            if let Err(error) = checked {
                drop(core);
                self.let_go(number);
                return Err(error);
            }
            number
        };
        self.let_go(number);
        self.with_space(|| Ok(()))
    }

    /// Removes the name of a file.
    pub(super) fn remove_file(&self, directory: Node, name: &Name) -> Result<()> {
        self.remove(directory, name, |core, number| match core.entity(number)?.kind {
            Kind::Directory => Err(Error::IsADirectory),
            _ => Ok(()),
        })
    }

    /// Removes an empty directory.
    pub(super) fn remove_directory(&self, directory: Node, name: &Name) -> Result<()> {
        self.remove(directory, name, |core, number| match core.directory(number)?.is_empty() {
            true => Ok(()),
            false => Err(Error::NotEmpty),
        })
    }
}

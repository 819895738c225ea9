//! Conversion of names from programs.

use crate::errors::{Answer, Errno};
use crate::listing::{INSTEAD, shown};
use crate::served::Served;
use platter_vfs::{Cursor, Name, NameRules, Node};

impl Served {
    /// Returns the name that these bytes spell, for a lookup in a directory: the name of an entry that is listed so.
    pub(crate) fn sought(&self, directory: Node, bytes: &[u8]) -> Answer<Name> {
        let name = self.check_length(Name::from_bytes(bytes))?;
        if !name.units().contains(&INSTEAD) {
            return Ok(name);
        }
        if let Ok(node) = self.system.lookup_exact(directory, &name) {
            self.system.forget(node, 1);
            return Ok(name);
        }
        let (mut cursor, mut entries) = (Cursor::START, Vec::new());
        loop {
            entries.clear();
            let read = self.system.read_directory(directory, cursor, 64, &mut entries);
            if let Some(entry) = entries.iter().find(|entry| shown(&entry.name) == name) {
                return Ok(entry.name.clone());
            }
            let (Ok(_), Some(last)) = (read, entries.last()) else { return Ok(name) };
            cursor = last.next;
        }
    }

    /// Returns the name that these bytes spell, for a new entry.
    pub(crate) fn given(&self, bytes: &[u8]) -> Answer<Name> {
        let name = self.check_length(Name::from_bytes(bytes))?;
        match self.options.windows_names && NameRules::is_device(&name) {
            true => Err(Errno::INVALID),
            false => Ok(name),
        }
    }

    /// Returns the name that these bytes spell, for an entry that is called `name` now and may keep that.
    pub(crate) fn given_to(&self, name: &Name, bytes: &[u8]) -> Answer<Name> {
        if *name == Name::from_bytes(bytes) { Ok(name.clone()) } else { self.given(bytes) }
    }

    /// Fails if a name is longer than the format allows. Even a lookup reports this, and not that there is no such
    /// entry.
    pub(crate) fn check_length(&self, name: Name) -> Answer<Name> {
        match name.units().len() > self.system.capabilities().names.longest {
            true => Err(Errno::NAME_TOO_LONG),
            false => Ok(name),
        }
    }
}

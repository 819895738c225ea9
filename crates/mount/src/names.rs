//! Conversion of names from programs.

use crate::errors::{Answer, Errno};
use crate::served::Served;
use platter_vfs::Name;

impl Served {
    /// Returns the name that these bytes spell, for a lookup.
    pub(crate) fn sought(&self, bytes: &[u8]) -> Answer<Name> {
        self.check_length(Name::from_bytes(bytes))
    }

    /// Returns the name that these bytes spell, for a new entry.
    pub(crate) fn given(&self, bytes: &[u8]) -> Answer<Name> {
        self.check_length(Name::from_bytes(bytes))
    }

    /// Fails if a name is longer than the format allows. Even a lookup reports this, and not that there is no such
    /// entry.
    fn check_length(&self, name: Name) -> Answer<Name> {
        match name.units().len() > self.system.capabilities().names.longest {
            true => Err(Errno::NAME_TOO_LONG),
            false => Ok(name),
        }
    }
}

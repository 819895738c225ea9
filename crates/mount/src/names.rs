//! Names as programs give them.

use crate::errors::{Answer, Errno};
use crate::served::Served;
use platter_vfs::Name;

impl Served {
    /// The name that these bytes are, to be looked up.
    pub(crate) fn sought(&self, bytes: &[u8]) -> Answer<Name> {
        self.check_length(Name::from_bytes(bytes))
    }

    /// The name that these bytes are, for a new entry.
    pub(crate) fn given(&self, bytes: &[u8]) -> Answer<Name> {
        self.check_length(Name::from_bytes(bytes))
    }

    /// Every operation with a name that is too long says so, also where nothing could be found under it.
    fn check_length(&self, name: Name) -> Answer<Name> {
        match name.units().len() > self.system.capabilities().names.longest {
            true => Err(Errno::NAME_TOO_LONG),
            false => Ok(name),
        }
    }
}

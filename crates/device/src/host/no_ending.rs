//! The mark that an image will be closed soon, where there is none.

use std::path::Path;

/// A mark that whoever has an image file will close it soon. It is not needed where nothing is mounted.
pub struct Ending;

impl Ending {
    /// There is none.
    pub fn open(_path: &Path) -> Option<Ending> {
        None
    }

    /// Nothing is marked.
    pub fn mark(&self) {}
}

/// Nothing is marked.
pub fn is_ending(_path: &Path) -> bool {
    false
}

//! What a differencing image says of its parent.

use crate::container::Container;
use crate::evidence::StoredHash;
use crate::guid::Guid;
use platter_device::{Device, Growing, Result};
use std::sync::Arc;

/// What a parent must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Whatever it is.
    Any,
    /// An image whose bytes are those of the disk, whatever they look like.
    Raw,
    /// A container of this kind.
    Is(Container),
}

/// The parent of a differencing image, as the image names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ParentLink {
    /// The paths at which it was, in the order in which they are to be tried.
    pub paths: Vec<String>,
    /// What it must be.
    pub wanted: Wanted,
    /// What the parent is known by; it may be any of these. None if its format has no such thing.
    pub identities: Vec<Guid>,
    /// When it was last written to, in seconds since 1970; 0 if that is not known.
    pub modified: u64,
}

/// An opened image: the device of its disk, and what it is known by to children.
pub(crate) struct Opened {
    pub device: Arc<dyn Device>,
    /// `None` for a file that cannot be a parent.
    pub identity: Option<Guid>,
    /// What the file is; empty if its bytes are those of the disk.
    pub kind: String,
    pub container: Option<Container>,
    /// The hashes that it has of the disk.
    pub hashes: Vec<StoredHash>,
}

/// Opens the parent of an image.
pub(crate) type OpenParent<'o> = dyn Fn(&ParentLink) -> Result<Opened> + 'o;

/// A container's file, and whether it may be written to.
pub(crate) struct Source {
    pub file: Arc<dyn Growing>,
    pub read_only: bool,
}

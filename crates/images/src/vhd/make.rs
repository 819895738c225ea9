//! Making a VHD.

use super::footer::{Disk, Footer, LENGTH, refuse_size};
use super::header::{DynamicHeader, locator_text};
use crate::parent::ParentLink;
use platter_device::{Growing, Result, write_any};

/// The kind of a new VHD.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    Fixed,
    Dynamic,
    Differencing(ParentLink),
}

/// What a new VHD is to be like.
#[derive(Clone, Debug)]
pub(crate) struct Parameters {
    pub size: u64,
    pub kind: Kind,
    /// The size of a block in bytes.
    pub block: u32,
}

/// Makes a VHD in an empty file.
pub(crate) fn make(file: &dyn Growing, parameters: &Parameters) -> Result<()> {
    let Parameters { size, kind, block } = parameters;
    refuse_size(file.name(), *size)?;
    let disk = match kind {
        Kind::Fixed => Disk::Fixed,
        Kind::Dynamic => Disk::Dynamic,
        Kind::Differencing(_) => Disk::Differencing,
    };
    let footer = Footer::new(disk, *size, file.now().as_secs());
    if disk == Disk::Fixed {
        file.grow(size + LENGTH)?;
    } else {
        let parent = match kind {
            Kind::Differencing(parent) => Some(parent),
            _ => None,
        };
        let header = DynamicHeader::new(*size, *block, parent);
        let end = header.table + header.table_length();
        let text = parent.map(locator_text);
        let behind = if text.is_some() { LENGTH } else { 0 };
        file.grow(end + behind + LENGTH)?;
        if let Some(text) = text {
            write_any(file, end, &text)?;
        }
        const PART: u64 = 1 << 20;
        let unused = vec![0xFF; PART.min(header.table_length()) as usize];
        for at in (header.table..end).step_by(unused.len()) {
            file.write_at(at, &unused[..unused.len().min((end - at) as usize)])?;
        }
        write_any(file, header.place, header.bytes())?;
        file.write_at(0, footer.bytes())?;
    }
    file.write_at(file.len() - LENGTH, footer.bytes())?;
    file.flush()
}

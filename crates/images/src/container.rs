//! The kinds of containers, and by what each is known.

use platter_device::{Device, Result, read_any};
use std::path::Path;

/// The first bytes of every VHDX.
pub(crate) const VHDX: &[u8] = b"vhdxfile";
/// The first bytes of a VHD's footer.
pub(crate) const VHD: &[u8] = b"conectix";

/// The kinds of containers that are read and written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Container {
    /// Microsoft's virtual hard disk, version 2.
    Vhdx,
    /// Microsoft's virtual hard disk, version 1.
    Vhd,
}

impl Container {
    /// The kind that the name of a file asks for by its ending: `.vhdx` and `.avhdx`, `.vhd` and `.avhd`.
    pub fn of_name(path: &Path) -> Option<Container> {
        match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "vhdx" | "avhdx" => Some(Container::Vhdx),
            "vhd" | "avhd" => Some(Container::Vhd),
            _ => None,
        }
    }

    /// The kind of a file by its content; `None` if it is no container.
    ///
    /// # Errors
    /// The errors of reading it.
    pub fn of_content(file: &dyn Device) -> Result<Option<Container>> {
        let holds = |offset: u64, magic: &[u8]| {
            let mut bytes = [0; 8];
            read_any(file, offset, &mut bytes)?;
            Ok(bytes == magic)
        };
        if file.len() < 512 {
            return Ok(None);
        }
        if holds(0, VHDX)? {
            return Ok(Some(Container::Vhdx));
        }
        let is_vhd = holds(0, VHD)? || holds(file.len() - 512, VHD)?;
        Ok(is_vhd.then_some(Container::Vhd))
    }
}

//! The kinds of containers, and by what each is known.

use platter_device::{Device, Result, read_any};
use std::fmt;
use std::path::Path;

/// The first bytes of every VHDX.
pub(crate) const VHDX: &[u8] = b"vhdxfile";
/// The first bytes of every qcow2.
pub(crate) const QCOW2: &[u8] = b"QFI\xFB";
/// The first bytes of a sparse extent of a VMDK, and of its descriptor.
pub(crate) const VMDK: &[u8] = b"KDMV";
const DESCRIPTOR: &[u8] = b"# Disk D";
/// The first bytes of every segment of E01.
pub(crate) const E01: &[u8] = b"EVF\x09\x0D\x0A\xFF\0";
/// The first bytes of a VHD's footer.
pub(crate) const VHD: &[u8] = b"conectix";

/// The kinds of containers that are read; VMDK and E01 are never written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Container {
    /// Microsoft's virtual hard disk, version 2.
    Vhdx,
    /// Microsoft's virtual hard disk, version 1.
    Vhd,
    /// The disk of QEMU, versions 2 and 3.
    Qcow2,
    /// The disk of VMware.
    Vmdk,
    /// The evidence of forensic programs, with hashes.
    E01,
}

impl fmt::Display for Container {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Container::Vhdx => "a VHDX disk image",
            Container::Vhd => "a VHD disk image",
            Container::Qcow2 => "a QCOW2 disk image",
            Container::Vmdk => "a VMDK disk image",
            Container::E01 => "an E01 evidence image",
        })
    }
}

impl Container {
    /// The kind that the name of a file asks for by its ending: `.vhdx` and `.avhdx`, `.vhd` and `.avhd`,
    /// `.qcow2`, `.vmdk`, `.e01`.
    pub fn of_name(path: &Path) -> Option<Container> {
        match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "vhdx" | "avhdx" => Some(Container::Vhdx),
            "vhd" | "avhd" => Some(Container::Vhd),
            "qcow2" => Some(Container::Qcow2),
            "vmdk" => Some(Container::Vmdk),
            "e01" => Some(Container::E01),
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
            Ok(bytes.starts_with(magic))
        };
        if file.len() < 512 {
            return Ok(None);
        }
        if holds(0, VHDX)? {
            return Ok(Some(Container::Vhdx));
        }
        if holds(0, QCOW2)? {
            return Ok(Some(Container::Qcow2));
        }
        if holds(0, VMDK)? || holds(0, DESCRIPTOR)? {
            return Ok(Some(Container::Vmdk));
        }
        if holds(0, E01)? {
            return Ok(Some(Container::E01));
        }
        let is_vhd = holds(0, VHD)? || holds(file.len() - 512, VHD)?;
        Ok(is_vhd.then_some(Container::Vhd))
    }
}

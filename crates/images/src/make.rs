//! Making images.

use crate::bytes::unusable;
use crate::container::Container;
use crate::form::Shape;
use crate::open::open;
use crate::parent::{ParentLink, Wanted};
use crate::{qcow2, vhd, vhdx};
use platter_device::{FileDevice, FileOptions, Growing, Result, Sectors};
use std::path::{Path, PathBuf};

/// What a new image is to be like.
#[derive(Clone, Debug)]
pub struct MakeOptions {
    /// The kind of container.
    pub container: Container,
    /// The size of the disk in bytes.
    pub size: u64,
    /// Whether all its bytes have their place in the file from the beginning. Otherwise the file grows as it is written.
    pub is_fixed: bool,
    /// The size of a block in bytes; `None` for 2 MiB, for a VHDX from 4 GiB on for 32 MiB, as Windows has
    /// it, and for a qcow2 for 64 KiB.
    pub block: Option<u64>,
    /// The logical sector in bytes, 512 or 4096; a VHD has 512.
    pub sector: u32,
    /// The image that the new one begins with, for a differencing image. It must be in the same directory, of the same
    /// kind and size, and must not be changed any more.
    pub parent: Option<PathBuf>,
}

impl MakeOptions {
    /// A disk of this size that grows as it is written, with sectors of 512 bytes.
    pub fn new(container: Container, size: u64) -> MakeOptions {
        MakeOptions { container, size, is_fixed: false, block: None, sector: 512, parent: None }
    }
}

/// Makes an image at `path`, where nothing may be.
///
/// # Errors
/// [`Error::Unusable`](platter_device::Error::Unusable) for what the format does not have, and the errors of the host.
/// The file is there then, and holds no image.
pub fn make(path: &Path, options: &MakeOptions) -> Result<()> {
    let file = FileDevice::create_new(path, 0, FileOptions { exclusive: true, ..FileOptions::default() })?;
    make_on(&file, path, options)
}

/// Makes an image in a file that is empty.
pub(crate) fn make_on(file: &dyn Growing, path: &Path, options: &MakeOptions) -> Result<()> {
    let MakeOptions { container, size, is_fixed, sector, .. } = *options;
    let name = path.display().to_string();
    let parent = options.parent.as_ref().map(|parent| link(path, parent, options)).transpose()?;
    if parent.is_some() && is_fixed {
        return Err(unusable(&name, "a differencing image cannot be fixed"));
    }
    let usual = if container == Container::Vhdx && size >= 4 << 30 { 32 << 20 } else { 2 << 20 };
    let block = options.block.unwrap_or(usual);
    match container {
        Container::Vhdx => {
            let sectors = Sectors { logical: sector, physical: 4096 };
            vhdx::make(file, vhdx::Parameters { shape: Shape { size, block, sectors }, is_fixed, parent })
        }
        Container::Vhd => {
            let is_block = block.is_power_of_two() && (512 << 10..=256 << 20).contains(&block);
            if sector != 512 || !is_block {
                let reason = format!(
                    "a VHD has sectors of 512 bytes and blocks of a power of two from 512 KiB to 256 MiB, not {sector} \
                     and {block}"
                );
                return Err(unusable(&name, reason));
            }
            let kind = match (parent, is_fixed) {
                (Some(parent), _) => vhd::Kind::Differencing(parent),
                (None, true) => vhd::Kind::Fixed,
                (None, false) => vhd::Kind::Dynamic,
            };
            vhd::make(file, &vhd::Parameters { size, kind, block: block as u32 })
        }
        Container::Qcow2 if is_fixed || sector != 512 || parent.is_some() => {
            let reason = "a qcow2 is made here with sectors of 512 bytes, growing, and without a backing file: \
                          `qemu-img create` makes the others";
            Err(unusable(&name, reason))
        }
        Container::Qcow2 => qcow2::make(file, size, options.block.unwrap_or(64 << 10)),
        Container::Vmdk => Err(unusable(&name, "is to be a VMDK, which `qemu-img create -f vmdk` makes")),
        Container::E01 => {
            Err(unusable(&name, "is to be E01 evidence, which only programs make that acquire disks"))
        }
    }
}

/// What a new image says of its parent.
fn link(path: &Path, parent: &Path, options: &MakeOptions) -> Result<ParentLink> {
    let name = path.display().to_string();
    let directory = |path: &Path| {
        let above = path.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
        std::fs::canonicalize(above).ok()
    };
    if directory(path) != directory(parent) {
        return Err(unusable(&name, format!("its parent {} is in another directory", parent.display())));
    }
    let opened = open(parent, FileOptions { read_only: true, ..FileOptions::default() })?;
    let (size, sectors) = (opened.device.len(), opened.device.sectors().logical);
    let identity = opened.identity.filter(|_| opened.container == Some(options.container));
    match identity {
        Some(identity) if size == options.size && sectors == options.sector => {
            let file = parent.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            // Beside each other is where they are found on every host. libvhdi looks at the absolute path alone.
            let path = format!(".\\{file}");
            let modified = std::fs::metadata(parent).ok().and_then(|data| data.modified().ok());
            let modified = modified.and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
            let modified = modified.map_or(0, |since| since.as_secs());
            let (paths, identities) = (vec![path.clone(), path], vec![identity]);
            Ok(ParentLink { paths, wanted: Wanted::Is(options.container), identities, modified })
        }
        _ => {
            let reason = format!(
                "{} cannot be its parent: that must be a {:?} with {} bytes in sectors of {}",
                parent.display(),
                options.container,
                options.size,
                options.sector
            );
            Err(unusable(&name, reason))
        }
    }
}

//! VMDK: the disks of VMware, read only.
//!
//! Source: VMware, "Virtual Disk Format 5.0". A disk is extents, each in a file: flat ones are the bytes of the disk, sparse
//! ones have grains, to which a directory of tables leads, and which may be compressed. A text, the descriptor, names the
//! extents; it is a file, or a part of the only extent.

mod descriptor;
mod sparse;

use crate::bytes::{read, unusable};
use crate::container::{Container, VMDK};
use crate::image::BlockImage;
use crate::parent::Opened;
use crate::split::Split;
use descriptor::{Descriptor, ExtentKind, ExtentLine};
use platter_device::{Caching, Device, FileDevice, FileOptions, Growing, Partition, Result};
use sparse::SparseForm;
use std::path::Path;
use std::sync::Arc;

/// The most bytes of a descriptor.
const MOST_TEXT: u64 = 1 << 20;

fn why_read_only() -> Option<String> {
    Some(
        "it is a VMDK, which is only read: `qemu-img convert -O vhdx` makes a disk that is written to".into(),
    )
}

/// Opens the disk of a descriptor or of a single sparse extent.
pub(crate) fn open(path: &Path, options: FileOptions) -> Result<Opened> {
    let options = FileOptions { read_only: true, caching: Caching::Buffered, bytewise: true, ..options };
    let file: Arc<dyn Growing> = Arc::new(FileDevice::open(path, options)?);
    let opened = |device, kind: &str| {
        let (kind, container) = (format!("VMDK, {kind}"), Some(Container::Vmdk));
        Ok(Opened { device, identity: None, kind, container, hashes: Vec::new() })
    };
    if read(&*file, 0, VMDK.len())? == VMDK {
        return opened(open_single(file)?, "sparse");
    }
    if file.len() > MOST_TEXT {
        return Err(unusable(file.name(), format!("is a descriptor of more than {MOST_TEXT} bytes")));
    }
    let descriptor = Descriptor::parse(file.name(), &read(&*file, 0, file.len() as usize)?)?;
    let parts: Vec<Arc<dyn Device>> = descriptor
        .extents
        .iter()
        .enumerate()
        .map(|(number, extent)| open_extent(path, number, extent, options))
        .collect::<Result<_>>()?;
    let kind = format!("in {} extent{}", parts.len(), if parts.len() == 1 { "" } else { "s" });
    opened(Arc::new(Split::new(file.name().into(), parts, why_read_only())), &kind)
}

/// Opens an extent that is the whole disk.
pub(crate) fn open_single(file: Arc<dyn Growing>) -> Result<Arc<dyn Device>> {
    let form = SparseForm::read(&*file)?;
    // QEMU leaves room for a descriptor in extents that have none.
    let text = match form.descriptor {
        Some((at, length)) => read(&*file, at, length as usize)?,
        None => Vec::new(),
    };
    match text.first() {
        None | Some(0) => {
            let reason = "is an extent of a VMDK: name the descriptor, whose file is without a number";
            return Err(unusable(file.name(), reason));
        }
        Some(_) => drop(Descriptor::parse(file.name(), &text)?),
    }
    Ok(image(file, form))
}

fn image(file: Arc<dyn Growing>, form: SparseForm) -> Arc<dyn Device> {
    let shape = form.shape;
    Arc::new(BlockImage::new(file, Box::new(form), shape, None, why_read_only()))
}

/// Opens an extent, which lies beside the descriptor.
fn open_extent(
    descriptor: &Path,
    number: usize,
    extent: &ExtentLine,
    options: FileOptions,
) -> Result<Arc<dyn Device>> {
    let path = descriptor.with_file_name(&extent.file);
    let name = path.display().to_string();
    if !path.exists() {
        let number = number + 1;
        let reason = format!("is missing: it is extent {number} of the VMDK {}", descriptor.display());
        return Err(unusable(&name, reason));
    }
    let file = Arc::new(FileDevice::open(&path, options)?);
    let cut_off = |length: u64| {
        let reason =
            format!("ends after {length} bytes, and has {} of the disk: it was cut off", extent.length);
        Err(unusable(&name, reason))
    };
    match extent.kind {
        ExtentKind::Flat(at) => {
            if !crate::bytes::is_inside(at, extent.length, file.len()) {
                return cut_off(file.len().saturating_sub(at));
            }
            let part = Partition::new(file, at, extent.length, name)?.with_sectors(512);
            Ok(Arc::new(part))
        }
        ExtentKind::Sparse => {
            let form = SparseForm::read(&*file)?;
            if form.shape.size != extent.length {
                let reason = format!(
                    "has {} bytes of the disk, and the descriptor says {}",
                    form.shape.size, extent.length
                );
                return Err(unusable(&name, reason));
            }
            Ok(image(file, form))
        }
    }
}

//! qcow2: the disks of QEMU.
//!
//! Source: QEMU, "Qcow2 Image File Format" (docs/interop/qcow2), versions 2 and 3. The file is clusters. A table of the
//! first level (L1) leads to tables of the second level (L2), whose entries lead to clusters of the disk. Counters of
//! references to each cluster of the file have a table of two levels too. Numbers are big-endian.
//!
//! Images are written to if they have neither compressed clusters nor internal snapshots, and were closed.

mod form;
mod header;
mod make;
mod space;
mod used;

pub(crate) use make::make;

use crate::container::Container;
use crate::form::{Form, Shape};
use crate::image::{BlockImage, why_read_only};
use crate::parent::{OpenParent, Opened, ParentLink, Source};
use form::Qcow2Form;
use header::Header;
use platter_device::sync::Mutex;
use platter_device::{Result, Sectors};
use space::Space;
use std::sync::Arc;

/// Opens a qcow2 image.
pub(crate) fn open(source: Source, open_parent: &OpenParent<'_>) -> Result<Opened> {
    let Source { file, read_only } = source;
    let header = Header::read(&*file)?;
    let shape = Shape { size: header.size, block: header.cluster(), sectors: Sectors::SMALL };
    let parent = match &header.backing {
        None => None,
        Some(backing) => {
            let link = ParentLink {
                paths: vec![backing.name.clone()],
                wanted: backing.wanted(file.name())?,
                identities: Vec::new(),
                modified: 0,
            };
            Some(open_parent(&link)?.device)
        }
    };
    let mut form = Qcow2Form::new(file.name(), header, shape);
    let kind = form.name();
    let mut why = why_read_only(read_only);
    if why.is_none() {
        why = used::why_not_written(&form, &*file)?;
    }
    if why.is_none() {
        form.space = Some(Mutex::new(Space::read(&*file, &form.header)?));
    }
    let device = Arc::new(BlockImage::new(file, Box::new(form), shape, parent, why));
    Ok(Opened { device, identity: None, kind, container: Some(Container::Qcow2), hashes: Vec::new() })
}

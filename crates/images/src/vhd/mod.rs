//! VHD: Microsoft's first virtual hard disk.
//!
//! Source: Microsoft, "Virtual Hard Disk Image Format Specification", version 1.0 of 2006. A fixed disk is the content
//! and a footer. A dynamic or differencing one has a copy of the footer first, then a header and the block allocation
//! table; each block is a bitmap of its sectors and their content; and the footer ends the file. Numbers are
//! big-endian.

mod footer;
mod form;
mod header;
mod make;

pub(crate) use make::{Kind, Parameters, make};

use crate::bytes::{read, unusable};
use crate::container::Container;
use crate::form::Form;
use crate::image::{BlockImage, why_read_only};
use crate::parent::{OpenParent, Opened, Source};
use crate::table::refuse_shared;
use footer::{Disk, Footer};
use form::VhdForm;
use header::DynamicHeader;
use platter_device::{Device, Partition, Result, write_any};
use std::sync::Arc;

/// Opens a VHD.
pub(crate) fn open(source: Source, open_parent: &OpenParent<'_>) -> Result<Opened> {
    let Source { file, read_only } = source;
    if file.sectors().logical > 512 {
        let reason = format!("is a VHD in a file with sectors of {} bytes", file.sectors().logical);
        return Err(unusable(file.name(), reason));
    }
    let (footer, is_last) = Footer::read(&*file)?;
    let identity = Some(footer.id);
    if footer.disk == Disk::Fixed {
        let name = file.name().to_string();
        if footer.size > file.len() - 512 {
            let reason = format!(
                "holds a disk of {} bytes and ends after {} of them: it was cut off",
                footer.size,
                file.len() - 512
            );
            return Err(unusable(&name, reason));
        }
        let device = Arc::new(Partition::new(file, 0, footer.size, name)?);
        return Ok(Opened {
            device,
            identity,
            kind: "VHD, fixed".into(),
            container: Some(Container::Vhd),
            hashes: Vec::new(),
        });
    }
    let header = DynamicHeader::read(&*file, &footer)?;
    let shape = header.shape(&*file, &footer)?;
    let parent = match footer.disk {
        Disk::Differencing => {
            let parent = open_parent(&header.parent(&*file)?)?.device;
            if parent.sectors().logical != 512 {
                let reason = format!("has a parent with other sectors, {}", parent.name());
                return Err(unusable(file.name(), reason));
            }
            Some(parent)
        }
        _ => None,
    };
    let form = VhdForm::new(file.name(), footer, &header, shape, is_last);
    let kind = form.name();
    if !read_only {
        let table = header.table..header.table + header.table_length();
        let taken = [0..512, header.place..header.place + 1024, table];
        refuse_shared(&form, &*file, &shape, form.bitmap(), &taken)?;
    }
    let device = Arc::new(BlockImage::new(file, Box::new(form), shape, parent, why_read_only(read_only)));
    Ok(Opened { device, identity, kind, container: Some(Container::Vhd), hashes: Vec::new() })
}

/// Makes the checksums of the footer, of its copy and of the header behind that right; for tests.
pub(crate) fn mend(file: &dyn Device) {
    let end = file.len().saturating_sub(512);
    for (place, length, at) in [(0, 512, 64), (512, 1024, 36), (end, 512, 64)] {
        let Ok(mut bytes) = read(file, place, length) else { return };
        let signature = if length == 512 { &b"conectix"[..] } else { b"cxsparse" };
        if !bytes.starts_with(signature) {
            continue;
        }
        let sum = footer::checksum(&bytes, at);
        bytes[at..at + 4].copy_from_slice(&sum.to_be_bytes());
        let _ = write_any(file, place, &bytes);
    }
}

//! VHDX: Microsoft's virtual hard disk, version 2.
//!
//! Source: Microsoft, \[MS-VHDX\] "Virtual Hard Disk v2 (VHDX) File Format". The first MiB has the file type identifier,
//! two copies each of the header and of the table of regions. Regions are the metadata and the block allocation table
//! (BAT); the log makes changes of both atomic.

mod form;
mod header;
mod log;
mod make;
mod metadata;
mod regions;

pub(crate) use make::{Parameters, make};

use crate::bytes::{damaged, read, unusable};
use crate::container::Container;
use crate::form::{Form, Shape};
use crate::image::{BlockImage, why_read_only};
use crate::parent::{OpenParent, Opened, Source};
use crate::replayed::Replayed;
use crate::table::refuse_shared;
use form::VhdxForm;
use header::Header;
use log::Replay;
use metadata::Metadata;
use platter_device::{Device, Growing, Result};
use regions::Regions;
use std::sync::Arc;

/// Offsets and lengths of everything but small structures are multiples of this.
const MIB: u64 = 1 << 20;

/// What changes whenever a VHDX is opened and written to.
pub(crate) fn stamp(file: &dyn Device) -> Result<String> {
    Ok(format!("VHDX {} of {} bytes", Header::read(file)?.file_write, file.len()))
}

/// Opens a VHDX. For reading, its log is replayed in memory; for writing, in the file.
pub(crate) fn open(source: Source, open_parent: &OpenParent<'_>) -> Result<Opened> {
    let Source { file, read_only } = source;
    let mut header = Header::read(&*file)?;
    let replay = Replay::read(&*file, &header)?;
    let file: Arc<dyn Growing> = match replay {
        None => {
            if !read_only && !header.log.is_zero() {
                header.forget_log(&*file)?;
            }
            file
        }
        Some(replay) if read_only => Arc::new(Replayed::new(file, replay.updates, replay.length)),
        Some(replay) => {
            replay.apply(&*file)?;
            header.forget_log(&*file)?;
            file
        }
    };
    let regions = Regions::read(&*file, &header)?;
    let metadata = Metadata::read(&*file, &regions.metadata)?;
    let Metadata { shape, ref parent, .. } = metadata;
    let form = VhdxForm::new(file.name(), header, &regions, &metadata);
    let needed = form.table_length();
    let bat = &regions.table;
    if bat.end - bat.start < needed {
        let found = format!("{} bytes", bat.end - bat.start);
        let expected = format!("at least {needed} bytes for {} blocks", shape.blocks());
        return Err(damaged(file.name(), "the block allocation table", bat.start, expected, found));
    }
    let kind = form.name();
    let identity = Some(form.identity());
    let parent = match parent {
        None => None,
        Some(link) => {
            let parent = open_parent(link)?.device;
            refuse_unlike_sectors(&*file, &shape, &*parent)?;
            Some(parent)
        }
    };
    if !read_only {
        refuse_shared(&form, &*file, &shape, 0, &regions.all)?;
    }
    let device = Arc::new(BlockImage::new(file, Box::new(form), shape, parent, why_read_only(read_only)));
    Ok(Opened { device, identity, kind, container: Some(Container::Vhdx), hashes: Vec::new() })
}

/// Fails if the sectors of a parent are not those of its child.
fn refuse_unlike_sectors(file: &dyn Device, shape: &Shape, parent: &dyn Device) -> Result<()> {
    let (own, others) = (shape.sectors.logical, parent.sectors().logical);
    if own == others {
        return Ok(());
    }
    Err(unusable(
        file.name(),
        format!("has sectors of {own} bytes, and its parent {} of {others}", parent.name()),
    ))
}

/// Makes the checksums of the first MiB's structures and of the entries of the log right; for tests.
pub(crate) fn mend(file: &dyn Device) {
    let places = [(64 << 10, 4096), (128 << 10, 4096), (192 << 10, 64 << 10), (256 << 10, 64 << 10)];
    for (place, length) in places {
        let Ok(mut bytes) = read(file, place, length) else { return };
        let sum = header::checksum(&bytes, 4);
        bytes[4..8].copy_from_slice(&sum.to_le_bytes());
        let _ = file.write_at(place, &bytes);
    }
    if let Ok(header) = Header::read(file) {
        log::mend(file, &header);
    }
}

//! Making a VHDX.

use super::MIB;
use super::form::{entry, entry_offset, table_length};
use super::header::Header;
use super::metadata::{MOST_SIZE, Metadata};
use super::regions::{PLACES, Regions};
use crate::bytes::unusable;
use crate::container::VHDX;
use crate::form::Shape;
use crate::parent::ParentLink;
use platter_device::{Growing, Result, write_any};

/// What a new VHDX is to be like.
#[derive(Clone, Debug)]
pub(crate) struct Parameters {
    pub shape: Shape,
    pub is_fixed: bool,
    pub parent: Option<ParentLink>,
}

/// Makes a VHDX in an empty file. Nothing is durable before the end, and the signature is written last.
pub(crate) fn make(file: &dyn Growing, parameters: Parameters) -> Result<()> {
    let Parameters { shape, is_fixed, parent } = parameters;
    let Shape { size, block, sectors } = shape;
    let is_possible = size > 0
        && size <= MOST_SIZE
        && size.is_multiple_of(u64::from(sectors.logical))
        && block.is_power_of_two()
        && (MIB..=256 * MIB).contains(&block)
        && matches!(sectors.logical, 512 | 4096);
    if !is_possible {
        let reason = format!(
            "a VHDX cannot have {size} bytes in blocks of {block} and sectors of {}: it has at most 64 TiB in whole \
             sectors of 512 or 4096 bytes, and blocks of 1 to 256 MiB",
            sectors.logical
        );
        return Err(unusable(file.name(), reason));
    }
    let table = 3 * MIB..(3 * MIB + table_length(&shape, parent.is_some())).next_multiple_of(MIB);
    let (log, metadata) = (MIB, 2 * MIB..3 * MIB);
    let blocks = table.end;
    let end = if is_fixed { blocks + shape.blocks() * block } else { blocks };
    file.grow(end)?;
    if is_fixed {
        fill_table(file, &shape, table.start, blocks)?;
    }
    write_any(file, metadata.start, &Metadata { shape, is_fixed, parent }.bytes())?;
    for place in PLACES {
        file.write_at(place, &Regions::bytes(&table, &metadata))?;
    }
    Header::new(log, MIB).write(file)?;
    let mut first = vec![0; 4096];
    first[..8].copy_from_slice(VHDX);
    // The program that made the file, in UTF-16.
    let creator = "Platter".encode_utf16().flat_map(u16::to_le_bytes);
    first[8..].iter_mut().zip(creator).for_each(|(byte, value)| *byte = value);
    file.write_at(0, &first)?;
    file.flush()
}

/// Writes the table of a disk whose blocks all have their places, one after the other.
fn fill_table(file: &dyn Growing, shape: &Shape, start: u64, blocks: u64) -> Result<()> {
    let mut part = Vec::new();
    let (mut from, mut next) = (0, 0);
    for block in 0..shape.blocks() {
        let offset = entry_offset(shape, block);
        part.resize(part.len() + (offset - next) as usize, 0);
        part.extend(entry(blocks + block * shape.block).to_le_bytes());
        next = offset + 8;
        if part.len() >= MIB as usize {
            write_any(file, start + from, &part)?;
            from = next;
            part.clear();
        }
    }
    write_any(file, start + from, &part)
}

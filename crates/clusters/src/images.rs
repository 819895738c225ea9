//! The sectors that a commit writes.

/// Sectors to write: offset and content of each piece. Offsets count from the start of the device or of the structure.
pub type Images = Vec<(u64, Vec<u8>)>;

/// Appends a piece, joined with the last one if it follows it directly.
pub fn join(images: &mut Images, offset: u64, content: &[u8]) {
    match images.last_mut() {
        Some((start, data)) if *start + data.len() as u64 == offset => data.extend_from_slice(content),
        _ => images.push((offset, content.to_vec())),
    }
}

//! What a commit writes.

/// Sectors to write: offset on the device, or from the start of what they belong to, and content.
pub type Images = Vec<(u64, Vec<u8>)>;

/// Appends a piece, as part of the last one if it follows it.
pub fn join(images: &mut Images, offset: u64, content: &[u8]) {
    match images.last_mut() {
        Some((start, data)) if *start + data.len() as u64 == offset => data.extend_from_slice(content),
        _ => images.push((offset, content.to_vec())),
    }
}

//! The content of files: sectors that say whose they are, so that whoever packs a volume can leave them out and whoever
//! unpacks it can make them again.

/// What every sector of content begins with.
pub(crate) const MAGIC: [u8; 16] = *b"PLATTER-CONTENT\n";
/// The length of a sector of content.
pub(crate) const SECTOR: usize = 512;

/// The sector with this index of the content with this number: the magic, both numbers, and then bytes that follow from
/// them. Contents with odd numbers do not compress; the others do.
pub(crate) fn sector(content: u64, index: u64) -> [u8; SECTOR] {
    let mut sector = [0; SECTOR];
    sector[..16].copy_from_slice(&MAGIC);
    sector[16..24].copy_from_slice(&content.to_le_bytes());
    sector[24..32].copy_from_slice(&index.to_le_bytes());
    if content.is_multiple_of(2) {
        sector[32..].fill((content ^ index) as u8);
        return sector;
    }
    let mut state = content ^ index.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    for word in sector[32..].chunks_exact_mut(8) {
        // The constants of Knuth's MMIX generator.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        word.copy_from_slice(&(state ^ state >> 29).to_le_bytes());
    }
    sector
}

/// Fills `piece` with the bytes from `offset` on, which is a multiple of a sector.
pub(crate) fn fill(content: u64, offset: u64, piece: &mut [u8]) {
    assert!(offset.is_multiple_of(SECTOR as u64));
    for (number, part) in piece.chunks_mut(SECTOR).enumerate() {
        let whole = sector(content, offset / SECTOR as u64 + number as u64);
        part.copy_from_slice(&whole[..part.len()]);
    }
}

/// The first bytes of a content.
pub(crate) fn bytes(content: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    fill(content, 0, &mut bytes);
    bytes
}

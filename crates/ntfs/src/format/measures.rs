//! The measures of a new volume: how large its structures are, and where they are.

/// A range of clusters for a structure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Piece {
    /// The first cluster of the range.
    pub start: u64,
    /// The number of clusters.
    pub length: u64,
}

/// The measures of a new volume.
#[derive(Clone, Debug)]
pub(super) struct Measures {
    /// Bytes of a sector.
    pub sector: u32,
    /// Sectors of the volume, the last of the device, which has the copy of the boot sector, not counted.
    pub sectors: u64,
    /// Bytes of a cluster.
    pub cluster: u64,
    pub clusters: u64,
    /// Bytes of a file record.
    pub record: u32,
    /// Bytes of an index block.
    pub index: u32,
    pub boot: Piece,
    /// `$MFT`'s bitmap.
    pub records: Piece,
    pub mft: Piece,
    /// The root directory's index.
    pub root: Piece,
    pub definitions: Piece,
    pub bitmap: Piece,
    pub upcase: Piece,
    /// The security descriptors, `$SDS`.
    pub descriptors: Piece,
    pub log: Piece,
    pub mirror: Piece,
}

impl Measures {
    /// The pieces of all structures.
    pub(super) fn pieces(&self) -> impl Iterator<Item = &Piece> {
        [
            &self.boot,
            &self.records,
            &self.mft,
            &self.root,
            &self.definitions,
            &self.bitmap,
            &self.upcase,
            &self.descriptors,
            &self.log,
            &self.mirror,
        ]
        .into_iter()
    }

    /// Where a piece begins and ends on the device, in bytes.
    pub(super) fn bytes_of(&self, piece: &Piece) -> (u64, u64) {
        (piece.start * self.cluster, (piece.start + piece.length) * self.cluster)
    }

    /// The number of records in `$MFT`.
    pub(super) fn record_count(&self) -> u64 {
        self.mft.length * self.cluster / u64::from(self.record)
    }

    /// The number of records in `$MFTMirr`: four, or as many as a cluster holds.
    pub(super) fn mirrored(&self) -> u64 {
        (self.cluster / u64::from(self.record)).max(4)
    }

    /// Bytes of `$Bitmap`: whole groups of 64 clusters.
    pub(super) fn bitmap_bytes(&self) -> u64 {
        self.clusters.div_ceil(64) * 8
    }

    /// Bytes of `$MFT`'s bitmap.
    pub(super) fn records_bytes(&self) -> u64 {
        self.record_count().div_ceil(64) * 8
    }
}

//! Where clusters are on the device.

/// The clusters of a volume: those from number 2 on, one behind the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heap {
    /// Device offset of cluster 2, in bytes.
    pub start: u64,
    /// Bytes of a cluster, as a power of two: 9 to 25.
    pub shift: u32,
    /// How many clusters there are. The last one's number, which is this plus 1, fits 32 bits.
    pub count: u32,
}

impl Heap {
    /// Bytes of a cluster.
    pub fn cluster_size(&self) -> u64 {
        1 << self.shift
    }

    /// The number of the last cluster.
    pub fn last(&self) -> u32 {
        self.count + 1
    }

    /// Whether the volume has a cluster of this number.
    pub fn has(&self, cluster: u32) -> bool {
        (2..=self.last()).contains(&cluster)
    }

    /// Device offset of a cluster, which is one of the volume's.
    pub fn offset(&self, cluster: u32) -> u64 {
        self.start + (u64::from(cluster.saturating_sub(2)) << self.shift)
    }

    /// How many clusters so many bytes take.
    pub fn clusters_for(&self, bytes: u64) -> u64 {
        (bytes >> self.shift) + u64::from(bytes & (self.cluster_size() - 1) != 0)
    }
}

//! The places of clusters on the device.

/// The cluster heap of a volume: its clusters, numbered from 2 on, follow one another on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heap {
    /// Device offset of cluster 2, in bytes.
    pub start: u64,
    /// The cluster size in bytes as a power of two: 9 to 25.
    pub shift: u32,
    /// The number of clusters. The number of the last one, which is `count + 1`, fits 32 bits.
    pub count: u32,
}

impl Heap {
    /// The cluster size in bytes.
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

    /// The device offset of a cluster of the volume, in bytes.
    pub fn offset(&self, cluster: u32) -> u64 {
        self.start + (u64::from(cluster.saturating_sub(2)) << self.shift)
    }

    /// The cluster in which a device offset lies; the one after the last for an offset behind them all.
    pub fn cluster_at(&self, offset: u64) -> u32 {
        let index = (offset.saturating_sub(self.start) >> self.shift).min(u64::from(self.count));
        index as u32 + 2
    }

    /// The number of clusters that this many bytes take.
    pub fn clusters_for(&self, bytes: u64) -> u64 {
        (bytes >> self.shift) + u64::from(bytes & (self.cluster_size() - 1) != 0)
    }
}

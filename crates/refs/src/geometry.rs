//! The sizes of a volume, and how its two kinds of cluster numbers relate.

use crate::layout::{Algorithm, BootRecord, Checkpoint, Superblock, Version, page};
use platter_vfs::{Error, Result};

/// What the boot record and the superblock fix for as long as a volume lives.
#[derive(Clone, Debug)]
pub struct Geometry {
    /// The version that this code writes here.
    pub version: Version,
    /// Bytes per cluster: 4096 or 65536.
    pub cluster: u32,
    /// Clusters of the volume.
    pub clusters: u64,
    /// Clusters per container.
    pub per_container: u32,
    /// The checksum of metadata pages.
    pub algorithm: Algorithm,
    /// Bytes of a page reference.
    pub reference: usize,
    /// What every page header carries to tell this volume's pages.
    pub signature: u32,
}

impl Geometry {
    /// What the first structures tell before a checkpoint is read, which gives the rest.
    pub fn without_checkpoint(boot: &BootRecord, superblock: &Superblock) -> Geometry {
        let cluster = boot.cluster();
        Geometry {
            version: boot.version,
            cluster,
            clusters: boot.clusters(),
            per_container: (boot.container / u64::from(cluster)) as u32,
            algorithm: of_pages(boot),
            reference: 0,
            signature: page::volume_signature(&superblock.guid),
        }
    }

    /// The sizes with what a checkpoint tells of them.
    pub fn at_checkpoint(self, checkpoint: &Checkpoint) -> Geometry {
        let version = checkpoint.version.max(self.version);
        Geometry { version, reference: checkpoint.reference, ..self }
    }

    /// Clusters of a metadata page: four of 4 KiB, or one of 64 KiB.
    pub fn page_clusters(&self) -> u32 {
        if self.cluster == 4096 { 4 } else { 1 }
    }

    /// Bytes of a metadata page.
    pub fn page(&self) -> usize {
        (self.page_clusters() * self.cluster) as usize
    }

    /// The checksum that superblocks and checkpoints give themselves.
    pub fn own_algorithm(&self) -> Algorithm {
        own_algorithm(self.algorithm, self.cluster)
    }

    /// Bits by which a virtual cluster number is shifted to give its container: one more than the container's size
    /// has, so that the bit between the two is always zero.
    pub fn shift(&self) -> u32 {
        self.per_container.trailing_zeros() + 1
    }

    /// The virtual number of a cluster in a container.
    pub fn virtual_cluster(&self, container: u64, cluster: u32) -> u64 {
        container << self.shift() | u64::from(cluster)
    }

    /// The virtual number of a cluster in the container with this index.
    pub fn number(&self, index: u32, cluster: u32) -> u64 {
        self.virtual_cluster(ContainerMap::FIRST + u64::from(index), cluster)
    }

    /// The index of the container that a virtual number is in, if containers with such numbers may be, and the cluster
    /// in it.
    pub fn place(&self, cluster: u64) -> Option<(u32, u32)> {
        let (container, inside) = self.split(cluster);
        let index = container.checked_sub(ContainerMap::FIRST)?;
        Some((u32::try_from(index).ok()?, inside))
    }

    /// Container and cluster in it of a virtual number.
    pub fn split(&self, cluster: u64) -> (u64, u32) {
        (cluster >> self.shift(), (cluster & ((1 << self.shift()) - 1)) as u32)
    }

    /// Byte offset of a real cluster. A number that no device has gives an offset that no device has.
    pub fn offset(&self, cluster: u64) -> u64 {
        cluster.saturating_mul(u64::from(self.cluster))
    }

    /// Whole containers of the volume.
    pub fn containers(&self) -> u64 {
        self.clusters / u64::from(self.per_container)
    }
}

/// The checksum of metadata pages.
fn of_pages(boot: &BootRecord) -> Algorithm {
    if boot.checksum == 4 { Algorithm::Sha256 } else { Algorithm::Crc64 }
}

/// The checksum that superblocks give themselves, which is known before one is read.
pub fn of_superblocks(boot: &BootRecord) -> Algorithm {
    own_algorithm(of_pages(boot), boot.cluster())
}

fn own_algorithm(of_pages: Algorithm, cluster: u32) -> Algorithm {
    match (of_pages, cluster) {
        (Algorithm::Sha256, _) => Algorithm::Sha256,
        (_, 4096) => Algorithm::Crc32c,
        _ => Algorithm::Crc64,
    }
}

/// Where each container lies. Container numbers begin at [`ContainerMap::FIRST`].
#[derive(Clone, Debug, Default)]
pub struct ContainerMap {
    starts: Vec<u64>,
    /// For each container-sized piece of the device, the index of the container that lies there.
    lying: Vec<u32>,
    /// The numbers of those whose content is compressed.
    compressed: std::collections::BTreeSet<u64>,
}

impl ContainerMap {
    /// The number of the first container.
    pub const FIRST: u64 = 2;

    /// A map from the first real cluster of each container, in order of their numbers.
    pub fn new(starts: Vec<u64>, per_container: u32) -> ContainerMap {
        let pieces = starts.iter().max().map_or(0, |last| last / u64::from(per_container) + 1);
        let mut lying = vec![u32::MAX; pieces.min(4 * starts.len() as u64 + 64) as usize];
        for (index, start) in starts.iter().enumerate() {
            if let Some(slot) = lying.get_mut((start / u64::from(per_container)) as usize) {
                *slot = index as u32;
            }
        }
        ContainerMap { starts, lying, compressed: Default::default() }
    }

    /// The index of the container that a real cluster lies in, and the cluster in it.
    ///
    /// # Errors
    /// [`Error::Damaged`] if it lies in none.
    pub fn containing(&self, geometry: &Geometry, cluster: u64) -> Result<(u64, u32)> {
        let per_container = u64::from(geometry.per_container);
        match self.lying.get((cluster / per_container) as usize) {
            Some(&index) if index != u32::MAX => Ok((u64::from(index), (cluster % per_container) as u32)),
            _ => Err(Error::damaged("real cluster", 0, "inside a container", format!("{cluster:#x}"))),
        }
    }

    /// The index of the container that lies in a piece of the volume of a container's size.
    pub fn at(&self, place: u32) -> Option<usize> {
        self.lying.get(place as usize).filter(|&&index| index != u32::MAX).map(|&index| index as usize)
    }

    /// The map, of which the containers with these numbers are compressed.
    pub fn with_compressed(self, compressed: impl IntoIterator<Item = u64>) -> ContainerMap {
        ContainerMap { compressed: compressed.into_iter().collect(), ..self }
    }

    /// Whether some container is compressed.
    pub fn has_compressed(&self) -> bool {
        !self.compressed.is_empty()
    }

    /// Whether the container of this virtual cluster is compressed: then its content is not that of the cluster.
    pub fn is_compressed(&self, geometry: &Geometry, cluster: u64) -> bool {
        self.has_compressed() && self.compressed.contains(&geometry.split(cluster).0)
    }

    /// The first real cluster of the container with this index.
    pub fn start(&self, index: usize) -> u64 {
        self.starts[index]
    }

    /// How many containers there are.
    pub fn len(&self) -> usize {
        self.starts.len()
    }

    /// The real number of a run of `count` clusters that begins at a virtual one.
    ///
    /// # Errors
    /// [`Error::Damaged`] if it lies in no container, or not wholly in one.
    pub fn real(&self, geometry: &Geometry, cluster: u64, count: u64) -> Result<u64> {
        let (container, inside) = geometry.split(cluster);
        let start =
            container.checked_sub(ContainerMap::FIRST).and_then(|index| self.starts.get(index as usize));
        match start {
            Some(start) if u64::from(inside) + count <= u64::from(geometry.per_container) => {
                Ok(start + u64::from(inside))
            }
            _ => Err(Error::damaged(
                "virtual cluster",
                0,
                format!(
                    "{count} clusters inside one of containers {} to {}",
                    ContainerMap::FIRST,
                    ContainerMap::FIRST + self.len() as u64 - 1
                ),
                format!("{cluster:#x}"),
            )),
        }
    }
}

//! The sizes of a volume, and how virtual cluster numbers relate to real ones.

use crate::layout::{Algorithm, BootRecord, Checkpoint, Superblock, Version, page};
use platter_vfs::{Error, Result};

/// The properties that boot record and superblock fix for the whole life of a volume.
#[derive(Clone, Debug)]
pub(crate) struct Geometry {
    /// The version of the format that is written to this volume.
    pub version: Version,
    /// Bytes per cluster: 4096 or 65536.
    pub cluster: u32,
    /// The number of clusters of the volume.
    pub clusters: u64,
    /// The number of clusters per container.
    pub per_container: u32,
    /// The checksum algorithm of metadata pages.
    pub algorithm: Algorithm,
    /// Bytes of a page reference.
    pub reference: usize,
    /// The volume signature in every page header, which distinguishes the pages of this volume from those of others.
    pub signature: u32,
}

impl Geometry {
    /// The geometry from boot record and superblock, before a checkpoint is read. The length of a reference is still
    /// missing.
    pub(crate) fn without_checkpoint(boot: &BootRecord, superblock: &Superblock) -> Geometry {
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

    /// This geometry with the version and the length of a reference from a checkpoint.
    pub(crate) fn at_checkpoint(self, checkpoint: &Checkpoint) -> Geometry {
        let version = checkpoint.version.max(self.version);
        Geometry { version, reference: checkpoint.reference, ..self }
    }

    /// The number of clusters of a metadata page: four of 4 KiB, or one of 64 KiB.
    pub(crate) fn page_clusters(&self) -> u32 {
        if self.cluster == 4096 { 4 } else { 1 }
    }

    /// Bytes of a metadata page.
    pub(crate) fn page(&self) -> usize {
        (self.page_clusters() * self.cluster) as usize
    }

    /// The algorithm of the checksum that superblocks and checkpoints store of themselves.
    pub(crate) fn own_algorithm(&self) -> Algorithm {
        own_algorithm(self.algorithm, self.cluster)
    }

    /// The number of bits by which a virtual cluster number is shifted to give the number of its container: one more
    /// than a cluster's number in the container takes, so that the bit between the two is always zero.
    pub(crate) fn shift(&self) -> u32 {
        self.per_container.trailing_zeros() + 1
    }

    /// The virtual number of a cluster in the container with this number.
    pub(crate) fn virtual_cluster(&self, container: u64, cluster: u32) -> u64 {
        container << self.shift() | u64::from(cluster)
    }

    /// The virtual number of a cluster in the container with this index, which counts from 0.
    pub(crate) fn number(&self, index: u32, cluster: u32) -> u64 {
        self.virtual_cluster(ContainerMap::FIRST + u64::from(index), cluster)
    }

    /// The index of the container that a virtual number lies in, and the cluster in it; `None` for numbers below the
    /// first container's or too large for an index.
    pub(crate) fn place(&self, cluster: u64) -> Option<(u32, u32)> {
        let (container, inside) = self.split(cluster);
        let index = container.checked_sub(ContainerMap::FIRST)?;
        Some((u32::try_from(index).ok()?, inside))
    }

    /// The number of the container of a virtual number, and the cluster in it.
    pub(crate) fn split(&self, cluster: u64) -> (u64, u32) {
        (cluster >> self.shift(), (cluster & ((1 << self.shift()) - 1)) as u32)
    }

    /// The byte offset of a real cluster. A number beyond any device gives an offset beyond any device.
    pub(crate) fn offset(&self, cluster: u64) -> u64 {
        cluster.saturating_mul(u64::from(self.cluster))
    }

    /// The number of whole containers of the volume.
    pub(crate) fn containers(&self) -> u64 {
        self.clusters / u64::from(self.per_container)
    }
}

/// The checksum algorithm of metadata pages.
fn of_pages(boot: &BootRecord) -> Algorithm {
    if boot.checksum == 4 { Algorithm::Sha256 } else { Algorithm::Crc64 }
}

/// The algorithm of the superblocks' own checksum, which the boot record alone determines.
pub(crate) fn of_superblocks(boot: &BootRecord) -> Algorithm {
    own_algorithm(of_pages(boot), boot.cluster())
}

fn own_algorithm(of_pages: Algorithm, cluster: u32) -> Algorithm {
    match (of_pages, cluster) {
        (Algorithm::Sha256, _) => Algorithm::Sha256,
        (_, 4096) => Algorithm::Crc32c,
        _ => Algorithm::Crc64,
    }
}

/// Where each container lies on the device. Container numbers begin at [`ContainerMap::FIRST`].
#[derive(Clone, Debug, Default)]
pub(crate) struct ContainerMap {
    starts: Vec<u64>,
    /// For each container-sized piece of the device, the index of the container that lies there.
    lying: Vec<u32>,
    /// The numbers of the containers whose content is compressed.
    compressed: std::collections::BTreeSet<u64>,
}

impl ContainerMap {
    /// The number of the first container.
    pub(crate) const FIRST: u64 = 2;

    /// A map from the first real cluster of each container, in order of their numbers.
    pub(crate) fn new(starts: Vec<u64>, per_container: u32) -> ContainerMap {
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
    /// [`Error::Damaged`] if the cluster lies in no container.
    pub(crate) fn containing(&self, geometry: &Geometry, cluster: u64) -> Result<(u64, u32)> {
        let per_container = u64::from(geometry.per_container);
        match self.lying.get((cluster / per_container) as usize) {
            Some(&index) if index != u32::MAX => Ok((u64::from(index), (cluster % per_container) as u32)),
            _ => Err(Error::damaged("real cluster", 0, "inside a container", format!("{cluster:#x}"))),
        }
    }

    /// The index of the container that lies at `place`, counted in containers from the start of the volume.
    pub(crate) fn at(&self, place: u32) -> Option<usize> {
        self.lying.get(place as usize).filter(|&&index| index != u32::MAX).map(|&index| index as usize)
    }

    /// This map, with the containers of these numbers marked as compressed.
    pub(crate) fn with_compressed(self, compressed: impl IntoIterator<Item = u64>) -> ContainerMap {
        ContainerMap { compressed: compressed.into_iter().collect(), ..self }
    }

    /// Whether any container is compressed.
    pub(crate) fn has_compressed(&self) -> bool {
        !self.compressed.is_empty()
    }

    /// Whether the container of this virtual cluster is compressed: then the cluster's bytes on the device are not its
    /// content.
    pub(crate) fn is_compressed(&self, geometry: &Geometry, cluster: u64) -> bool {
        self.has_compressed() && self.compressed.contains(&geometry.split(cluster).0)
    }

    /// The first real cluster of the container with this index.
    pub(crate) fn start(&self, index: usize) -> u64 {
        self.starts[index]
    }

    /// The number of containers.
    pub(crate) fn len(&self) -> usize {
        self.starts.len()
    }

    /// The real number of the first cluster of a run of `count` clusters that begins at the virtual number `cluster`.
    ///
    /// # Errors
    /// [`Error::Damaged`] if the run does not lie wholly in one container.
    pub(crate) fn real(&self, geometry: &Geometry, cluster: u64, count: u64) -> Result<u64> {
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

//! The images of the kit: which there are, and how each is made.

use super::disk::{self, SMALLEST, Scheme, UNIT};
use super::manifest::{ImageManifest, Listed};
use super::tree::Tree;
use crate::command::failure::{Failure, shown};
use platter::{Access, CheckOptions, DeviceOptions, MakeOptions, OpenOptions, Silent, Source, Undo, Volume};
use platter_device::{Device, Fault, Faults, Operation, When};
use platter_vfs::FormatOptions;
use std::path::Path;
use std::sync::Arc;

/// How an image is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    /// Closed.
    Closed,
    /// As a crash leaves it: what was synced is there.
    Crashed,
    /// Crashed, damaged and repaired.
    Repaired,
}

/// One image.
pub(crate) struct Image {
    /// The name of its files.
    pub name: &'static str,
    /// What is special about it.
    pub about: &'static str,
    format: &'static str,
    version: Option<&'static str>,
    cluster: Option<u64>,
    checksum: Option<&'static str>,
    record: Option<u64>,
    compress: bool,
    scheme: Scheme,
    /// The size of the disk in units of [`UNIT`].
    units: u64,
    /// The size of the partition, where it is less than the disk allows.
    partition: Option<u64>,
    left: Left,
}

/// What most images have.
const PLAIN: Image = Image {
    name: "",
    about: "",
    format: "",
    version: None,
    cluster: None,
    checksum: None,
    record: None,
    compress: false,
    scheme: Scheme::Gpt,
    units: SMALLEST / UNIT,
    partition: None,
    left: Left::Closed,
};
const FAT: Image = Image { format: "fat32", scheme: Scheme::Mbr(0x0C), ..PLAIN };
const EXFAT: Image = Image { format: "exfat", scheme: Scheme::Mbr(0x07), ..PLAIN };
const NTFS: Image = Image { format: "ntfs", ..PLAIN };
/// ReFS needs at least 320 MiB.
const REFS: Image = Image { format: "refs", units: 6, ..PLAIN };

/// All images, in the order in which they are judged.
pub(crate) const IMAGES: &[Image] = &[
    Image {
        name: "fat12",
        about: "FAT12",
        format: "fat12",
        scheme: Scheme::Mbr(0x01),
        partition: Some(64 << 20),
        cluster: Some(32 << 10),
        ..FAT
    },
    Image { name: "fat16", about: "FAT16", format: "fat16", scheme: Scheme::Mbr(0x0E), ..FAT },
    Image {
        name: "fat16-64k",
        about: "FAT16 with the largest clusters",
        format: "fat16",
        scheme: Scheme::Mbr(0x0E),
        cluster: Some(64 << 10),
        units: 5,
        ..FAT
    },
    Image { name: "fat32", about: "FAT32", ..FAT },
    Image {
        name: "fat32-gpt-512",
        about: "FAT32 with clusters of a sector, in a GPT",
        cluster: Some(512),
        scheme: Scheme::Gpt,
        ..FAT
    },
    Image { name: "fat32-crashed", about: "FAT32 that was not closed", left: Left::Crashed, ..FAT },
    Image {
        name: "fat32-repaired",
        about: "FAT32 after a crash, lost clusters and a repair",
        left: Left::Repaired,
        ..FAT
    },
    Image { name: "exfat", about: "exFAT", ..EXFAT },
    Image {
        name: "exfat-gpt-512",
        about: "exFAT with clusters of a sector, in a GPT",
        cluster: Some(512),
        scheme: Scheme::Gpt,
        ..EXFAT
    },
    Image { name: "exfat-128k", about: "exFAT with clusters of 128 KiB", cluster: Some(128 << 10), ..EXFAT },
    Image { name: "exfat-crashed", about: "exFAT that was not closed", left: Left::Crashed, ..EXFAT },
    Image {
        name: "exfat-repaired",
        about: "exFAT after a crash, a lost copy of the boot region and a repair",
        left: Left::Repaired,
        ..EXFAT
    },
    Image { name: "ntfs", about: "NTFS", ..NTFS },
    Image {
        name: "ntfs-mbr-512",
        about: "NTFS with clusters of a sector, in an MBR",
        cluster: Some(512),
        scheme: Scheme::Mbr(0x07),
        ..NTFS
    },
    Image { name: "ntfs-64k", about: "NTFS with clusters of 64 KiB", cluster: Some(64 << 10), ..NTFS },
    Image {
        name: "ntfs-2m",
        about: "NTFS with the largest clusters",
        cluster: Some(2 << 20),
        units: 24,
        ..NTFS
    },
    Image { name: "ntfs-record-4k", about: "NTFS with file records of 4 KiB", record: Some(4096), ..NTFS },
    Image { name: "ntfs-compressed", about: "NTFS with all files compressed", compress: true, ..NTFS },
    Image { name: "ntfs-crashed", about: "NTFS whose log is to be replayed", left: Left::Crashed, ..NTFS },
    Image {
        name: "ntfs-repaired",
        about: "NTFS after a crash, a lost block of an index and a repair",
        left: Left::Repaired,
        ..NTFS
    },
    Image { name: "refs-3.14", about: "ReFS 3.14 with CRC64", ..REFS },
    Image { name: "refs-3.14-mbr", about: "ReFS 3.14 in an MBR", scheme: Scheme::Mbr(0x07), ..REFS },
    Image {
        name: "refs-3.14-integrity",
        about: "ReFS 3.14 with checksums of data",
        format: "refs+integrity",
        ..REFS
    },
    Image { name: "refs-3.14-sha256", about: "ReFS 3.14 with SHA-256", checksum: Some("sha256"), ..REFS },
    Image {
        name: "refs-3.14-sha256-integrity",
        about: "ReFS 3.14 with SHA-256 and checksums of data",
        format: "refs+integrity",
        checksum: Some("sha256"),
        ..REFS
    },
    Image {
        name: "refs-3.14-none",
        about: "ReFS 3.14 without checksums of metadata",
        checksum: Some("none"),
        ..REFS
    },
    Image {
        name: "refs-3.14-64k",
        about: "ReFS 3.14 with clusters of 64 KiB",
        cluster: Some(64 << 10),
        units: 12,
        ..REFS
    },
    Image {
        name: "refs-3.14-64k-integrity",
        about: "ReFS 3.14 with clusters of 64 KiB and checksums of data",
        format: "refs+integrity",
        cluster: Some(64 << 10),
        units: 12,
        ..REFS
    },
    Image { name: "refs-3.4", about: "ReFS 3.4", version: Some("3.4"), ..REFS },
    Image {
        name: "refs-3.4-integrity",
        about: "ReFS 3.4 with checksums of data",
        version: Some("3.4"),
        format: "refs+integrity",
        ..REFS
    },
    Image {
        name: "refs-3.4-64k",
        about: "ReFS 3.4 with clusters of 64 KiB",
        version: Some("3.4"),
        cluster: Some(64 << 10),
        units: 12,
        ..REFS
    },
    Image { name: "refs-crashed", about: "ReFS 3.14 that was not closed", left: Left::Crashed, ..REFS },
    Image {
        name: "refs-repaired",
        about: "ReFS 3.14 after a crash, a lost superblock and a repair",
        left: Left::Repaired,
        ..REFS
    },
];

impl Image {
    /// The size of its disk in bytes.
    pub(crate) fn disk(&self) -> u64 {
        self.units * UNIT
    }

    fn windows_name(&self) -> &'static str {
        match self.format {
            "fat12" | "fat16" => "FAT",
            "fat32" => "FAT32",
            "exfat" => "exFAT",
            "ntfs" => "NTFS",
            _ => "ReFS",
        }
    }

    /// Makes the image at `path`, and returns its manifest.
    pub(crate) fn make(&self, path: &Path, seed: u64) -> Result<ImageManifest, Failure> {
        let id = self.id(seed);
        disk::make(path, self.disk(), self.scheme, self.partition, id)?;
        let source = Source::whole(path)?.with_partition(Some(1));
        let label = format!("KIT{:04X}", u16::from_le_bytes([id[0], id[1]]));
        let serial = Some(u64::from_le_bytes(id[8..].try_into().expect("8 bytes")) >> 1);
        let serial =
            serial.map(|serial| if self.format.contains("fat") { serial & 0xFFFF_FFFF } else { serial });
        let format = FormatOptions {
            cluster: self.cluster,
            label: Some(label.clone()),
            serial,
            variant: self.version.map(str::to_string),
            checksum: self.checksum.map(str::to_string),
            record: self.record,
            compress: self.compress.then_some(true),
            ..FormatOptions::default()
        };
        let by_name = platter_formats::by_name(self.format).expect("a format of this build");
        drop(platter::make(&source, by_name, &MakeOptions { format, ..MakeOptions::default() }, &Silent)?);
        let (cluster, entries) = self.fill(&source, path, seed)?;
        if self.left == Left::Repaired {
            self.repair(&source, path)?;
        }
        Ok(ImageManifest {
            name: self.name.into(),
            file_system: self.windows_name().into(),
            about: self.about.into(),
            label,
            cluster,
            disk: self.disk(),
            closed: self.left != Left::Crashed,
            local_times: self.format.starts_with("fat"),
            entries,
        })
    }

    /// What tells this image's disk from the others, also between seeds.
    fn id(&self, seed: u64) -> [u8; 16] {
        let hash = super::manifest::sha256(format!("{} {seed}", self.name).as_bytes());
        let mut id = [0; 16];
        id.copy_from_slice(&hash.as_bytes()[..16]);
        id
    }

    /// Writes the tree, and closes the volume or cuts it off. Returns the size of a cluster, and what is in the volume.
    fn fill(&self, source: &Source, path: &Path, seed: u64) -> Result<(u64, Vec<Listed>), Failure> {
        let options = DeviceOptions::new(Access::Write { force: false });
        let faults = Arc::new(Faults::new(platter::open_device(source, &options)?, 0));
        let how = OpenOptions::new().access(options.access);
        // After a crash Windows sees what was committed, and not what is in a log that only Platter reads.
        let volume = how.commits_syncs(true).open_on(faults.clone(), &shown(path).to_string())?;
        let cluster = volume.info()?.cluster;
        let mut tree = Tree::new(&volume, seed);
        tree.write()?;
        if self.left != Left::Closed {
            volume.sync()?;
            tree.write_late()?;
        }
        let listed = tree.listed();
        match self.left {
            Left::Closed => volume.close()?,
            Left::Crashed | Left::Repaired => cut_off(volume, &faults),
        }
        Ok((cluster, listed))
    }

    /// Damages the volume as this image's sentence says, and repairs it.
    fn repair(&self, source: &Source, path: &Path) -> Result<(), Failure> {
        let device = platter::open_device(source, &DeviceOptions::new(Access::Write { force: true }))?;
        damage(&*device, self.format)?;
        device.flush()?;
        drop(device);
        let options =
            CheckOptions { repair: true, undo: Undo::Nowhere, force: true, ..CheckOptions::default() };
        let repaired = platter::check_source(source, &options, &Silent)?.report;
        let again = platter::check_source(source, &CheckOptions::default(), &Silent)?.report;
        let has_repaired = repaired.findings.iter().any(|finding| finding.repaired);
        if !has_repaired || !again.is_clean() {
            return Err(Failure::new(shown(path), "the damage that was made for it could not be repaired"));
        }
        Ok(())
    }
}

/// Ends a volume as the end of its process does: nothing more is written.
fn cut_off(volume: Volume, faults: &Faults) {
    for operation in [Operation::Write, Operation::Flush, Operation::Discard] {
        faults.inject(When::from(operation, faults.count(operation)), Fault::Fail);
    }
    drop(volume);
}

/// Damages one structure that a repair can make again.
fn damage(device: &dyn Device, format: &str) -> Result<(), Failure> {
    let (mark, length) = match format {
        "fat32" => return lose_clusters(device),
        // The second boot region begins at sector 12 (exFAT specification, 3.2).
        "exfat" => return Ok(device.write_at(12 * 512, &[0; 512])?),
        "ntfs" => (*b"INDX", 4096),
        _ => (*b"SUPB", 4096),
    };
    // The last structure with this mark: of an index never the first block, of the superblocks a copy.
    let mut last = None;
    let mut piece = vec![0; 1 << 20];
    for at in (0..device.len()).step_by(piece.len()) {
        let length = (piece.len() as u64).min(device.len() - at) as usize;
        device.read_at(at, &mut piece[..length])?;
        let marked = piece[..length].chunks(4096).rposition(|block| block.starts_with(&mark));
        last = marked.map(|block| at + 4096 * block as u64).or(last);
    }
    let at = last.ok_or_else(|| Failure::new(device.name(), "has no structure to damage"))?;
    Ok(device.write_at(at, &vec![0; length])?)
}

/// Marks the last entries of both FATs as a chain that belongs to no file (FAT specification, 3.1 and 4).
fn lose_clusters(device: &dyn Device) -> Result<(), Failure> {
    let mut boot = [0; 512];
    device.read_at(0, &mut boot)?;
    let reserved = u64::from(u16::from_le_bytes([boot[14], boot[15]]));
    let each = u64::from(u32::from_le_bytes(boot[36..40].try_into().expect("4 bytes")));
    let per_cluster = u64::from(boot[13]);
    let clusters = (device.len() / 512 - reserved - 2 * each) / per_cluster;
    // Entries 0 and 1 stand for no cluster.
    let entry = clusters * 4;
    for table in 0..2 {
        let at = (reserved + table * each) * 512 + entry / 512 * 512;
        let mut sector = [0; 512];
        device.read_at(at, &mut sector)?;
        sector[(entry % 512) as usize..][..4].copy_from_slice(&0x0FFF_FFFF_u32.to_le_bytes());
        device.write_at(at, &sector)?;
    }
    Ok(())
}

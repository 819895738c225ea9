//! Formats: what can be recognised, made, opened and checked.

use crate::{
    CheckOptions, CheckReport, Error, FileSystem, Progress, RecoverReport, Result, ScrubOptions, ScrubReport,
    Visit,
};
use platter_device::Device;
use std::sync::Arc;

/// How to make a volume. What a format does not have is [`crate::Error::Unsupported`]; `None` lets the format choose.
#[derive(Clone, Debug, Default)]
pub struct FormatOptions {
    /// Cluster size in bytes.
    pub cluster: Option<u64>,
    /// Volume label.
    pub label: Option<String>,
    /// Serial number; chosen from the time if `None`.
    pub serial: Option<u64>,
    /// A choice within the format, for example 12, 16 or 32 for FAT.
    pub variant: Option<String>,
    /// The checksum of the metadata, for example `crc64` or `sha256` for ReFS.
    pub checksum: Option<String>,
    /// Whether new files' data is checksummed, where no directory says otherwise.
    pub integrity: Option<bool>,
    /// What clusters and structures begin on a multiple of, in bytes from the start of the volume.
    pub align: Option<u64>,
    /// Bytes of a record of the table that has a record for each file, for example 1,024 or 4,096 for NTFS.
    pub record: Option<u64>,
    /// Whether new files are compressed, where no directory says otherwise.
    pub compress: Option<bool>,
    /// Overwrite every cluster, not only the structures.
    pub full: bool,
}

/// How to open a volume.
#[derive(Clone, Copy, Debug, Default)]
pub struct OpenOptions {
    /// Write nothing, not even the dirty mark.
    pub read_only: bool,
    /// Minutes that the volume's local times are ahead of UTC, for formats that keep local time.
    pub local_offset_minutes: i32,
    /// Every sync is a commit in the format's own structures, also where another way that only Platter knows takes less.
    pub commits_syncs: bool,
}

/// A volume that was recognised by its first structures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recognised {
    /// Name with version or variant, for example "FAT32".
    pub format: String,
    /// Its label, if the first structures show one.
    pub label: Option<String>,
    /// How long it says it is, in bytes, if that is more than the device has: the device was cut off.
    pub cut_off: Option<u64>,
}

/// One file system format.
pub trait Format: Send + Sync {
    /// The name a user types, for example `fat32`.
    fn name(&self) -> &'static str;

    /// Whether the device holds a volume of this format. Damage beyond recognition is `None`, not an error.
    fn recognise(&self, device: &dyn Device) -> Result<Option<Recognised>>;

    /// Makes a volume over the whole device. Whoever calls has made sure that it may be overwritten.
    fn make(&self, device: &dyn Device, options: &FormatOptions, progress: &dyn Progress) -> Result<()>;

    /// Opens the volume.
    fn open(&self, device: Arc<dyn Device>, options: OpenOptions) -> Result<Arc<dyn FileSystem>>;

    /// Checks the volume, which must not be open, from the device alone.
    fn check(
        &self,
        device: &dyn Device,
        options: CheckOptions,
        progress: &dyn Progress,
    ) -> Result<CheckReport>;

    /// The same, and reads every cluster, used or not: those that cannot be read, and the files on them, are found. A
    /// repair keeps them from being used again.
    fn check_surface(
        &self,
        _device: &dyn Device,
        _options: CheckOptions,
        _progress: &dyn Progress,
    ) -> Result<CheckReport> {
        Err(Error::Unsupported { format: self.name(), what: "check of the surface" })
    }

    /// Reads everything that has a checksum, from every copy that the device keeps, and verifies it. What is damaged in
    /// one copy is put right from another, unless the device is read-only. The volume must not be open.
    ///
    /// # Errors
    /// What opening the volume gives. Damage further down is reported, not an error.
    fn scrub(
        &self,
        _device: Arc<dyn Device>,
        _options: &ScrubOptions,
        _progress: &dyn Progress,
    ) -> Result<ScrubReport> {
        Err(Error::Unsupported { format: self.name(), what: "checksums to scrub" })
    }

    /// What is wrong with first structures that are this format's, and of which no volume can be recognised.
    fn fault(&self, _device: &dyn Device) -> Option<Error> {
        None
    }

    /// Whether a copy of its first structures tells of a volume on a device where none is recognised.
    fn has_copy(&self, _device: &dyn Device) -> bool {
        false
    }

    /// Looks through the whole device for what is left of a volume that may be beyond opening, and tells `visit` of
    /// everything that is found. Nothing is written.
    ///
    /// # Errors
    /// [`Error::NotThisFormat`] if nothing of such a volume is there; what `visit` gives.
    fn recover(
        &self,
        _device: Arc<dyn Device>,
        _progress: &dyn Progress,
        _visit: Visit<'_>,
    ) -> Result<RecoverReport> {
        Err(Error::Unsupported { format: self.name(), what: "recovery" })
    }
}

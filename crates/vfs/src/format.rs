//! The trait of a format, which recognises, makes, opens and checks volumes, and the options for that.

use crate::{
    CheckOptions, CheckReport, Error, FileSystem, Progress, RecoverReport, Result, ScrubOptions, ScrubReport,
    Visit,
};
use platter_device::Device;
use std::sync::Arc;

/// How to make a volume. An option that a format does not have gives [`crate::Error::Unsupported`]; `None` lets the
/// format choose.
#[derive(Clone, Debug, Default)]
pub struct FormatOptions {
    /// Cluster size in bytes.
    pub cluster: Option<u64>,
    /// Volume label.
    pub label: Option<String>,
    /// Serial number; chosen from the time if `None`.
    pub serial: Option<u64>,
    /// The variant of the format, for example 12, 16 or 32 for FAT.
    pub variant: Option<String>,
    /// The algorithm of the metadata checksums, for example `crc64` or `sha256` for ReFS.
    pub checksum: Option<String>,
    /// Whether the data of new files gets checksums, where the directory does not say otherwise.
    pub integrity: Option<bool>,
    /// The alignment in bytes of the cluster heap and the structures, counted from the start of the disk.
    pub align: Option<u64>,
    /// Bytes of one record of the table that has a record for each file, for example 1,024 or 4,096 for NTFS.
    pub record: Option<u64>,
    /// Whether new files are compressed, where the directory does not say otherwise.
    pub compress: Option<bool>,
    /// Overwrite every cluster, not only the structures.
    pub full: bool,
}

/// How the local time of a volume relates to UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalTime {
    /// Local time is ahead of UTC by this number of minutes, on every date. A negative number means that it is behind.
    Ahead(i32),
    /// Local time is that of this machine: `TZ`, or the time zone of the system. The offset is that of the date in
    /// question, which differs between winter and summer.
    System,
}

impl Default for LocalTime {
    /// UTC.
    fn default() -> LocalTime {
        LocalTime::Ahead(0)
    }
}

/// How to open a volume.
#[derive(Clone, Copy, Debug, Default)]
pub struct OpenOptions {
    /// Write nothing, not even the dirty mark.
    pub read_only: bool,
    /// The local time of the volume, for formats that keep local time.
    pub local_time: LocalTime,
    /// Make every sync a commit in the format's own structures, even where the file system has a cheaper way that only
    /// Platter understands, such as its sync log on ReFS.
    pub commits_syncs: bool,
    /// Find names whatever their case on a format that can tell names apart by case, as NTFS can. Formats that cannot,
    /// always do.
    pub ignores_case: bool,
    /// Write to a volume although Windows keeps shadow copies of it, which show something else then. Without this option
    /// such a volume is read-only.
    pub lose_shadow_copies: bool,
}

/// A volume that was recognised by its first structures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recognised {
    /// Name with version or variant, for example "FAT32".
    pub format: String,
    /// The label, if the first structures contain it.
    pub label: Option<String>,
    /// The length in bytes that the volume says it has, if that is more than the device has: the device was truncated.
    pub cut_off: Option<u64>,
}

/// One file system format.
pub trait Format: Send + Sync {
    /// The name a user types, for example `fat32`.
    fn name(&self) -> &'static str;

    /// Returns what the device holds, if it is a volume of this format; `None`, not an error, if it is damaged beyond
    /// recognition.
    fn recognise(&self, device: &dyn Device) -> Result<Option<Recognised>>;

    /// Makes a volume over the whole device. The caller has made sure that the device may be overwritten.
    fn make(&self, device: &dyn Device, options: &FormatOptions, progress: &dyn Progress) -> Result<()>;

    /// Opens the volume.
    fn open(&self, device: Arc<dyn Device>, options: OpenOptions) -> Result<Arc<dyn FileSystem>>;

    /// Checks the volume, which must not be open, using only what is on the device.
    fn check(
        &self,
        device: &dyn Device,
        options: CheckOptions,
        progress: &dyn Progress,
    ) -> Result<CheckReport>;

    /// The same as [`Format::check`], and also reads every cluster, used or not, to find unreadable clusters and the
    /// files that use them. A repair marks those clusters so that they are not used again.
    fn check_surface(
        &self,
        _device: &dyn Device,
        _options: CheckOptions,
        _progress: &dyn Progress,
    ) -> Result<CheckReport> {
        Err(Error::Unsupported { format: self.name(), what: "check of the surface" })
    }

    /// Reads and verifies everything that has a checksum, in every copy that the device keeps. Data that is damaged in
    /// one copy is repaired from another, unless the device is read-only. The volume must not be open.
    ///
    /// # Errors
    /// The errors of opening the volume. Damage beyond that is reported and is not an error.
    fn scrub(
        &self,
        _device: Arc<dyn Device>,
        _options: &ScrubOptions,
        _progress: &dyn Progress,
    ) -> Result<ScrubReport> {
        Err(Error::Unsupported { format: self.name(), what: "checksums to scrub" })
    }

    /// Returns what is wrong with the first structures, if they belong to this format but no volume can be recognised
    /// from them.
    fn fault(&self, _device: &dyn Device) -> Option<Error> {
        None
    }

    /// Returns why the volume should not be written to by a program that only knows its file system: a driver above it
    /// keeps something on it that such a write spoils, as shadow copies. `None` if there is nothing of the kind.
    /// [`Format::open`] looks for this by itself; [`Format::check`] repairs all the same.
    fn why_kept(&self, _device: &dyn Device) -> Option<String> {
        None
    }

    /// Returns a shadow copy of the volume on a device, as a device that can only be read: the volume as it was when the
    /// shadow copy was made. `number` counts from 1, the oldest; [`crate::VolumeInfo`] lists them.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if there is none of this number.
    fn shadow_copy(&self, _device: Arc<dyn Device>, _number: u32) -> Result<Arc<dyn Device>> {
        Err(Error::Unsupported { format: self.name(), what: "shadow copies" })
    }

    /// Whether the device, on which no volume is recognised, has a backup copy of this format's first structures.
    fn has_copy(&self, _device: &dyn Device) -> bool {
        false
    }

    /// Searches the whole device for the remains of a volume that may be too damaged to open, and calls `visit` for
    /// every file and directory found. Nothing is written.
    ///
    /// # Errors
    /// [`Error::NotThisFormat`] if the device has no remains of such a volume; any error of `visit`.
    fn recover(
        &self,
        _device: Arc<dyn Device>,
        _progress: &dyn Progress,
        _visit: Visit<'_>,
    ) -> Result<RecoverReport> {
        Err(Error::Unsupported { format: self.name(), what: "recovery" })
    }
}

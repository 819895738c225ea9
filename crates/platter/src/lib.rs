//! The file systems of the Windows world — ReFS, NTFS, exFAT and FAT — read and written in safe Rust, on image files,
//! block devices, partitions and mirrors, without a driver.
//!
//! ```
//! use platter::{MakeOptions, Silent};
//! use std::io::{Read, Seek, SeekFrom, Write};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = std::env::temp_dir().join(format!("platter-first-page-{}", std::process::id()));
//! # std::fs::create_dir_all(&directory)?;
//! # let image = directory.join("disk.img");
//! // Make a volume, and write to it.
//! let options = MakeOptions { size: Some(64 << 20), ..MakeOptions::default() };
//! # #[cfg(feature = "ntfs")] {
//! platter::mkfs(&image, "ntfs", &options, &Silent)?;
//! let volume = platter::open_rw(&image)?;
//! volume.create_dir_all("photos/2026")?;
//! let mut file = volume.create_file("photos/2026/list.txt")?;
//! file.write_all(b"one\ntwo\n")?;
//! file.sync_all()?; // it survives a power cut from here on
//! drop(file);
//! volume.close()?;
//!
//! // Open it, list, read.
//! let volume = platter::open(&image)?;
//! for entry in volume.walk("/")? {
//!     let entry = entry?;
//!     println!("{} {}", entry.path().display(), entry.metadata().size);
//! }
//! let mut file = volume.open_file("/photos/2026/list.txt")?;
//! file.seek(SeekFrom::Start(4))?;
//! let mut text = String::new();
//! file.read_to_string(&mut text)?;
//! assert_eq!(text, "two\n");
//! drop((file, volume));
//!
//! // Check it.
//! let checked = platter::check(&image, &platter::CheckOptions::default(), &Silent)?;
//! assert!(checked.report.is_clean(), "{:?}", checked.report.findings);
//! # }
//! # std::fs::remove_dir_all(&directory)?;
//! # Ok(())
//! # }
//! ```
//!
//! # Where to begin
//!
//! - [`open`] and [`open_rw`] take a [`Source`] as text: `disk.img`, `/dev/sdb`, `disk.img@2` for a partition,
//!   `mirror:a.img,b.img`. [`OpenOptions`] has further options, and opens volumes on a device that the caller
//!   implements.
//! - [`Volume`] has the operations by path; [`File`] reads, writes and seeks.
//! - [`Volume::copy_in`] and [`Volume::copy_out`] copy files and trees with everything that both sides can hold; [`copy`] does
//!   so between any two places, and a listener is told of what is lost.
//! - [`mkfs`] makes volumes, [`check`] finds and repairs damage, [`scrub`] verifies checksums, [`recover`] and
//!   [`recover_to`] copy out what is left of a volume that no longer opens, [`undo()`] takes a repair back. Each tells a
//!   [`Progress`] how far it has come, and asks it whether to end.
//! - [`mirror`] says where the copies of a mirror stand, and brings them up to date.
//! - [`check_on`], [`mkfs_on`] and their like do the same on a device that the caller implements.
//! - An [`Error`] has values to decide by: its [`ErrorKind`], an errno, and for damage the structure, position,
//!   expected and found content.
//!
//! No function prints or ends the process. Events that are no failures go to a [`Listener`].
//!
//! The directory `examples` has a program for each of these.
//!
//! # Damage
//!
//! A check names each damaged structure. On ReFS with integrity, a scrub verifies all data, and on a mirror repairs one
//! copy from the other; a recovery copies out what can still be read.
//!
//! ```
//! use platter::{CheckOptions, FormatOptions, MakeOptions, RecoverOptions, ScrubOptions, Silent, Source};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # #[cfg(feature = "refs")] {
//! # let directory = std::env::temp_dir().join(format!("platter-damage-{}", std::process::id()));
//! # std::fs::create_dir_all(&directory)?;
//! # let mirror = format!("mirror:{0}/a.img,{0}/b.img", directory.display());
//! let format = FormatOptions { integrity: Some(true), ..FormatOptions::default() };
//! let options = MakeOptions { size: Some(400 << 20), format, ..MakeOptions::default() };
//! platter::mkfs(&mirror, "refs", &options, &Silent)?; // mirror is "mirror:a.img,b.img"
//! let volume = platter::open_rw(&mirror)?;
//! volume.write("file", &[7; 100_000])?;
//! volume.close()?;
//!
//! let checked = platter::check(&mirror, &CheckOptions::default(), &Silent)?;
//! assert!(checked.report.is_clean());
//!
//! let scrubbed = platter::scrub(&mirror, &ScrubOptions::default(), &Silent)?;
//! assert_eq!((scrubbed.report.copies, scrubbed.report.found), (2, 0));
//!
//! let rescued = directory.join("rescued");
//! platter::recover_to(&Source::parse(&mirror)?, &rescued, &RecoverOptions::default(), &Silent)?;
//! assert_eq!(std::fs::read(rescued.join("file"))?, [7; 100_000]);
//! # std::fs::remove_dir_all(&directory)?;
//! # }
//! # Ok(())
//! # }
//! ```
//!
//! # Devices that the caller implements
//!
//! A volume can be on anything that stores sectors. [`MemoryDevice`](device::MemoryDevice) is the shortest
//! implementation; the contract is [`device::Device`].
//!
//! ```
//! use platter::device::{MemoryDevice, Sectors};
//! use platter::{Access, OpenOptions, Silent};
//! use std::sync::Arc;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # #[cfg(feature = "exfat")] {
//! let device = Arc::new(MemoryDevice::new(32 << 20, Sectors::SMALL));
//! let exfat = platter::formats::by_name("exfat").expect("a format of this build");
//! exfat.make(&*device, &Default::default(), &Silent)?;
//!
//! let options = OpenOptions::new().access(Access::Write { force: false });
//! let volume = options.open_on(device, "in memory")?;
//! volume.write("note.txt", b"kept")?;
//! assert_eq!(volume.read("NOTE.TXT")?, b"kept"); // case does not count on exFAT
//! # }
//! # Ok(())
//! # }
//! ```
//!
//! # Features
//!
//! `refs`, `ntfs`, `exfat` and `fat` are the formats; `bitlocker` opens encrypted volumes ([`Keys`]); `command` is the program `platter` (the command line, the lab,
//! mounts). All are on by default. To read NTFS with no other dependencies:
//!
//! ```toml
//! platter = { version = "0.1", default-features = false, features = ["ntfs"] }
//! ```
//!
//! # The layers below
//!
//! [`device`] has the devices: queues, partitions, mirrors, recorders, faults and power cuts. [`vfs`] has the
//! contract that every format keeps, with plans for callers that keep many requests in flight; [`Volume::system`]
//! returns that interface of an open volume. [`formats`] finds formats by name and recognises them on devices.
#![forbid(unsafe_code)]

/// The cookbook's program is compiled and run with the other examples.
#[cfg(all(doctest, feature = "ntfs"))]
#[doc = include_str!("../../../docs/for-programs.md")]
struct Cookbook;

mod check;
mod copies;
pub mod copy;
mod directory;
mod error;
mod event;
mod file;
mod keys;
mod make;
pub mod mirror;
pub mod nbd;
mod node;
mod opening;
mod recover;
mod shared;
mod source;
mod undo;
mod volume;

pub use check::{
    CheckOptions, Checked, Scrubbed, Undo, check, check_on, check_source, scrub, scrub_on, scrub_source,
};
pub use directory::{DirEntry, ReadDir, Walk};
pub use error::{Error, ErrorKind, Result};
pub use event::{Event, Listener};
pub use file::File;
pub use keys::Keys;
pub use make::{MakeOptions, make, mkfs, mkfs_on};
pub use node::{DEEPEST, Held, names};
pub use opening::{
    Access, DeviceOptions, IN_DOUBT, is_unfinished, look_at_copies, look_at_mirror, mirror_record,
    open_device, open_file, open_group, open_whole, part_of, refuse_beside_writer, refuse_in_doubt, stamp,
};
pub use recover::{
    Pattern, RecoverOptions, RecoveredTo, Trouble, TroubleKind, kind_of, recover, recover_on, recover_source,
    recover_to,
};
pub use source::{Source, SourceKind};
pub use undo::{UndoOptions, Undone, undo, undo_on};
pub use volume::{OpenOptions, Volume, open, open_rw};

#[cfg(feature = "bitlocker")]
pub use platter_bitlocker as bitlocker;
pub use platter_device as device;
pub use platter_formats as formats;
pub use platter_vfs as vfs;

pub use platter_vfs::{
    Attributes, CaseRule, Change, CheckReport, Damage, DosFlags, Errno, Finding, FormatOptions, Kind,
    LocalTime, Name, Progress, RecoverReport, Recovered, RecoveredData, ScrubOptions, ScrubReport, Severity,
    Silent, Timestamp,
};

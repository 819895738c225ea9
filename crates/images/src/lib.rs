//! Disk images in containers, as devices: what [`open`] returns for a file is the disk in it.
//!
//! * **E01**, the evidence of forensic programs, in segments: read, with its hashes ([`verify`]).
//! * **VHDX** and **VHD**, Microsoft's virtual hard disks: fixed, dynamic and differencing, read and written.
//! * **qcow2**, the disks of QEMU, with backing files: read and written.
//! * **VMDK**, the disks of VMware: flat, sparse and compressed, read only.
//! * **Split raw images**: `.001`, `.002` and so on, or `.aa`, `.ab`.
//! * **Dynamic disks** of Windows, several together: read ([`disk_group`]).
//! * Everything else, block devices too, is as it is.
//!
//! The bytes of a container are not trusted, as those of a file system are not: damage is an error that names the
//! structure, its offset, and what was expected; no field says how much memory is used or how long a loop runs; and no
//! file is opened that is not beside the one that the user has named.

mod bytes;
mod cache;
mod container;
mod evidence;
mod form;
#[doc(hidden)]
pub mod fuzzing;
mod guid;
mod image;
mod ldm;
mod make;
#[doc(hidden)]
pub mod making;
mod marks;
mod open;
mod parent;
mod qcow2;
mod replayed;
mod split;
mod table;
mod unpack;
mod vhd;
mod vhdx;
mod vmdk;

pub use container::Container;
pub use evidence::{StoredHash, VerifiedHash, verify};
pub use guid::Guid;
pub use ldm::{DiskGroup, GroupDisk, GroupVolume, VolumeKind, disk_group, is_dynamic};
pub use make::{MakeOptions, make};
pub use open::{Between, Image, later_part, open, open_over, stamp};

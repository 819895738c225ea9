//! The structures on disk: one type for each, read through checked code and written back byte for byte.
//!
//! All numbers are little-endian. `at` in a reader's parameters is the device offset of the bytes, which errors name.
//!
//! Sources: the libfsntfs project's format documentation
//! (<https://github.com/libyal/libfsntfs/blob/main/documentation/New%20Technologies%20File%20System%20(NTFS).asciidoc>),
//! the Linux-NTFS project's documentation (<https://flatcap.github.io/linux-ntfs/ntfs/>), Microsoft's [MS-FSCC] and
//! [MS-DTYP], and volumes that Windows 10 and mkntfs made.

mod attribute;
mod attribute_list;
mod boot;
mod definitions;
mod extended;
mod file_name;
pub mod fixup;
pub mod index;
mod indexes;
pub mod journal;
mod label;
pub mod log;
mod object_id;
pub mod quota;
mod record;
mod reference;
mod reparse;
pub mod runs;
mod security;
pub mod shadow;
mod standard;
mod time;
mod volume_information;

pub use attribute::{Attribute, AttributeContent, Kind, NonResident, attribute_flags};
pub use attribute_list::ListEntry;
pub use boot::{BootSector, Geometry};
pub use definitions::{Definition, definitions};
pub use extended::ExtendedAttribute;
pub use file_name::{FileName, file_flags, namespace};
pub use indexes::Index;
pub use label::label_units;
pub use object_id::ObjectId;
pub use platter_vfs::bytes;
pub use record::{Record, record_flags};
pub use reference::{Reference, record_number};
pub use reparse::{elsewhere, lacks_content, reparse_entry, reparse_from_bytes, reparse_key};
pub use runs::Run;
pub use security::{DescriptorHeader, descriptor_hash};
pub use standard::{CASE_SENSITIVE, StandardExtended, StandardInformation};
pub use time::{FileTime, timestamp_to_file_time};
pub use volume_information::{VolumeInformation, volume_flags};

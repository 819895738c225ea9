//! The rows of a volume's own tables: those that a new volume begins with, and how such rows are read.
//!
//! This module does no I/O and has no trees; a row is its key and its value. Some tables begin without rows: the trash
//! (0xD), the reparse index (0x540, 0x541), the container index and the block reference counts. The session activity
//! (0x30) does not exist before Windows first mounts the volume. "FS Metadata" (0x520) is a directory, which is empty
//! on 3.14 and has three files on 3.4.

mod case;
mod integrity;
mod log;
mod redo;
mod reparse;
mod schema;
pub(crate) mod security;
mod upcase;
mod volume_information;

pub(crate) use case::windows_upper;
pub(crate) use integrity::{integrity_state_row, is_integrity_state_row};
#[cfg(test)]
pub(crate) use log::seal;
pub(crate) use log::{
    LOG_BLOCK, LogArea, LogControl, control_form, log_checksum, log_checksum_of, renumbered_control,
};
pub(crate) use redo::{LogRecord, operation};
pub(crate) use reparse::reparse_row;
pub(crate) use schema::{schema, schema_rows};
pub(crate) use security::{
    descriptor_of, directory_descriptor, file_descriptor, is_descriptor, read_security_row, security_id,
    security_key_from, security_row, security_row_with, security_rows, system_descriptor,
};
pub(crate) use upcase::{read_upcase, upcase_rows};
pub(crate) use volume_information::{
    check_label, is_label, label_row, read_label, volume_information_rows, wrong_information,
};

/// A row: its key and its value.
pub(crate) type SystemRow = (Vec<u8>, Vec<u8>);

//! Transfers of whole buffers by calls that may do less than they are asked for.

use super::refusals::{Doing, explained};
use std::io;

/// An open file, disk or volume.
pub(crate) trait Transfers {
    /// Reads from an offset, and returns how many bytes; 0 at the end.
    ///
    /// # Errors
    /// The error code of Windows.
    fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes at an offset, and returns how many bytes.
    ///
    /// # Errors
    /// The error code of Windows.
    fn write(&self, data: &[u8], offset: u64) -> io::Result<usize>;
}

/// Fills a buffer.
///
/// # Errors
/// [`io::ErrorKind::UnexpectedEof`] at the end, and those of the system, with what to do about them.
pub(crate) fn read_exact(file: &dyn Transfers, mut buffer: &mut [u8], mut offset: u64) -> io::Result<()> {
    while !buffer.is_empty() {
        match file.read(buffer, offset) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => {
                buffer = &mut buffer[read..];
                offset += read as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(explained(Doing::Read, error)),
        }
    }
    Ok(())
}

/// Writes all of the data.
///
/// # Errors
/// Those of the system, with what to do about them.
pub(crate) fn write_all(file: &dyn Transfers, mut data: &[u8], mut offset: u64) -> io::Result<()> {
    while !data.is_empty() {
        match file.write(data, offset) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                data = &data[written..];
                offset += written as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(explained(Doing::Write, error)),
        }
    }
    Ok(())
}

//! Reading one of the first structures of a volume, each of which is verified by itself, from a device with copies.

use platter_device::{Device, Error as DeviceError};
use platter_vfs::{Error, Result};

/// What was read at the place of a structure.
pub struct Anchor<T> {
    /// The bytes; `None` if they cannot be read.
    pub bytes: Option<Vec<u8>>,
    /// The structure, or what is wrong with it in every copy of the device.
    pub found: Result<T>,
    /// The copies of the device in which it is damaged, and what is wrong there, if another one has it whole. A copy that
    /// is out of service is none of them.
    pub damaged: Vec<(usize, Error)>,
}

/// Reads a structure of `length` bytes at `at`. If it is damaged where the device reads it, all copies of the device are
/// looked at, and the first whole one is taken: an older structure would otherwise be taken in its place, and with it
/// a state of the volume that was overwritten since.
pub fn read<T>(
    device: &dyn Device,
    (at, length): (u64, usize),
    parse: &dyn Fn(&[u8]) -> Result<T>,
) -> Anchor<T> {
    let mut bytes = vec![0; length];
    let read = device.read_at(at, &mut bytes).map_err(Error::from);
    let is_read = read.is_ok();
    let found = read.and_then(|()| parse(&bytes));
    let (mut whole, mut damaged) = (None, Vec::new());
    let copies = if found.is_err() && device.copies() > 1 { device.copies() } else { 0 };
    for copy in 0..copies {
        let mut bytes = vec![0; length];
        let read = device.read_copy(copy, at, &mut bytes).map_err(Error::from);
        match read.and_then(|()| parse(&bytes)) {
            Ok(found) => whole = whole.or(Some((bytes, found))),
            Err(Error::Device(DeviceError::Unusable { .. })) => {}
            Err(error) => damaged.push((copy, error)),
        }
    }
    match whole {
        Some((bytes, found)) => Anchor { bytes: Some(bytes), found: Ok(found), damaged },
        None => Anchor { bytes: is_read.then_some(bytes), found, damaged: Vec::new() },
    }
}

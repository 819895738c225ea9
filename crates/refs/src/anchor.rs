//! Reading what is verified by itself from a device with copies: the first whole one counts.

use platter_device::{Device, Error as DeviceError};
use platter_vfs::{Error, Result};

/// A structure in the copies of a device.
pub struct InCopies<T> {
    /// The first whole one, with its bytes.
    pub whole: Option<(Vec<u8>, T)>,
    /// The copies of the device in which it is damaged, and what is wrong there. A copy that is out of service is none of
    /// them.
    pub damaged: Vec<(usize, Error)>,
}

/// Reads a structure of `length` bytes at `at` from every copy of the device.
pub fn in_copies<T>(
    device: &dyn Device,
    (at, length): (u64, usize),
    parse: &dyn Fn(&[u8]) -> Result<T>,
) -> InCopies<T> {
    let mut found = InCopies { whole: None, damaged: Vec::new() };
    for copy in 0..device.copies() {
        let mut bytes = vec![0; length];
        let read = device.read_copy(copy, at, &mut bytes).map_err(Error::from);
        match read.and_then(|()| parse(&bytes)) {
            Ok(structure) => found.whole = found.whole.or(Some((bytes, structure))),
            Err(Error::Device(DeviceError::Unusable { .. })) => {}
            Err(error) => found.damaged.push((copy, error)),
        }
    }
    found
}

/// What was read at the place of a structure.
pub struct Anchor<T> {
    /// The bytes; `None` if they cannot be read.
    pub bytes: Option<Vec<u8>>,
    /// The structure, or what is wrong with it in every copy of the device.
    pub found: Result<T>,
    /// The copies of the device in which it is damaged, and what is wrong there, if another one has it whole.
    pub damaged: Vec<(usize, Error)>,
}

/// Reads one of the first structures of a volume, of `length` bytes at `at`. If it is damaged where the device reads it,
/// all copies of the device are looked at: an older structure would otherwise be taken in its place, and with it a state
/// of the volume that was overwritten since.
pub fn read<T>(
    device: &dyn Device,
    (at, length): (u64, usize),
    parse: &dyn Fn(&[u8]) -> Result<T>,
) -> Anchor<T> {
    let mut bytes = vec![0; length];
    let read = device.read_at(at, &mut bytes).map_err(Error::from);
    let is_read = read.is_ok();
    let found = read.and_then(|()| parse(&bytes));
    if found.is_err() && device.copies() > 1 {
        let InCopies { whole, damaged } = in_copies(device, (at, length), parse);
        if let Some((bytes, found)) = whole {
            return Anchor { bytes: Some(bytes), found: Ok(found), damaged };
        }
    }
    Anchor { bytes: is_read.then_some(bytes), found, damaged: Vec::new() }
}

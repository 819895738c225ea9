//! Reading what is verified by itself from a device with copies.

use platter_device::{Device, Error as DeviceError};
use platter_vfs::{Error, Result};

/// A structure in the copies of a device. A copy that is out of service is in none of the lists.
pub(crate) struct InCopies<T> {
    /// The copies that have it whole, with its bytes there.
    pub whole: Vec<(usize, Vec<u8>, T)>,
    /// The copies in which it is damaged, and what is wrong there.
    pub damaged: Vec<(usize, Error)>,
}

/// Reads a structure of `length` bytes at `at` from every copy of the device.
pub(crate) fn in_copies<T>(
    device: &dyn Device,
    (at, length): (u64, usize),
    parse: &dyn Fn(&[u8]) -> Result<T>,
) -> InCopies<T> {
    let mut found = InCopies { whole: Vec::new(), damaged: Vec::new() };
    for copy in 0..device.copies() {
        let mut bytes = vec![0; length];
        let read = device.read_copy(copy, at, &mut bytes).map_err(Error::from);
        match read.and_then(|()| parse(&bytes)) {
            Ok(structure) => found.whole.push((copy, bytes, structure)),
            Err(Error::Device(DeviceError::Unusable { .. })) => {}
            Err(error) => found.damaged.push((copy, error)),
        }
    }
    found
}

/// What was read at the place of a structure.
pub(crate) struct Anchor<T> {
    /// The bytes; `None` if they cannot be read.
    pub bytes: Option<Vec<u8>>,
    /// The structure, or what is wrong with it in every copy of the device.
    pub found: Result<T>,
    /// The copies of the device in which it is damaged or older than in another, and what is wrong there, if another one
    /// has it whole.
    pub damaged: Vec<(usize, Error)>,
}

/// Reads one of the first structures of a volume, of `length` bytes at `at`. Of the copies of the device the newest whole
/// one counts, by the number that `clock` gives, which grows with each write of the structure: a disk can lose a write
/// and still have what was there before. An older structure would bring back a state of the volume that was overwritten
/// since.
pub(crate) fn read<T>(
    device: &dyn Device,
    (at, length): (u64, usize),
    parse: &dyn Fn(&[u8]) -> Result<T>,
    clock: &dyn Fn(&T) -> u64,
) -> Anchor<T> {
    if device.copies() > 1 {
        let Newest { good, bad, .. } = in_copies(device, (at, length), parse).newest(device, at, clock);
        if let Some((bytes, found)) = good {
            return Anchor { bytes: Some(bytes), found: Ok(found), damaged: bad };
        }
    }
    let mut bytes = vec![0; length];
    let read = device.read_at(at, &mut bytes).map_err(Error::from);
    let is_read = read.is_ok();
    Anchor { found: read.and_then(|()| parse(&bytes)), bytes: is_read.then_some(bytes), damaged: Vec::new() }
}

/// The newest of the copies of a structure.
pub(crate) struct Newest<T> {
    /// Its bytes and the structure, if any copy is whole.
    pub good: Option<(Vec<u8>, T)>,
    /// The copies in which it is damaged or older, and what is wrong there.
    pub bad: Vec<(usize, Error)>,
    /// The copies that have something else, which is neither damaged nor known to be older.
    pub unlike: Vec<usize>,
}

impl<T> InCopies<T> {
    /// Returns the newest whole structure, and the copies in which it is damaged or older. Copies that the device does
    /// not read from may hold another state of the volume, so they count only if it is whole in none that is read.
    pub(crate) fn newest(mut self, device: &dyn Device, at: u64, clock: &dyn Fn(&T) -> u64) -> Newest<T> {
        let newness = |(copy, _, structure): &(usize, Vec<u8>, T)| (device.is_read(*copy), clock(structure));
        // Of several that are alike the first.
        let newest = (0..self.whole.len()).rev().max_by_key(|&index| newness(&self.whole[index]));
        let Some((_, bytes, newest)) = newest.map(|index| self.whole.swap_remove(index)) else {
            return Newest { good: None, bad: self.damaged, unlike: Vec::new() };
        };
        let mut unlike = Vec::new();
        for (copy, there, other) in self.whole {
            let (expected, found) = (clock(&newest), clock(&other));
            if device.is_read(copy) && found < expected {
                self.damaged.push((copy, Error::damaged("clock of a copy", at, expected, found)));
            } else if there != bytes {
                unlike.push(copy);
            }
        }
        Newest { good: Some((bytes, newest)), bad: self.damaged, unlike }
    }
}

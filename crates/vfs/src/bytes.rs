//! Little-endian fields of a byte slice. Reading past the end gives zero, so that no damaged length can panic; a caller
//! to whom zero is no answer checks the length first.

use std::marker::PhantomData;

/// The 2-byte field at `at`.
#[inline]
pub fn u16_at(bytes: &[u8], at: usize) -> u16 {
    array_at(bytes, at).map_or(0, u16::from_le_bytes)
}

/// The 4-byte field at `at`.
#[inline]
pub fn u32_at(bytes: &[u8], at: usize) -> u32 {
    array_at(bytes, at).map_or(0, u32::from_le_bytes)
}

/// The 8-byte field at `at`.
#[inline]
pub fn u64_at(bytes: &[u8], at: usize) -> u64 {
    array_at(bytes, at).map_or(0, u64::from_le_bytes)
}

#[inline]
fn array_at<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

/// Stores a field at offset `at`; the whole field must lie inside the slice.
#[inline]
pub fn put(bytes: &mut [u8], at: usize, field: impl Field) {
    field.store(bytes, at);
}

/// An integer that [`put`] can store.
pub trait Field: Sized {
    /// Stores the field at offset `at`.
    fn store(self, bytes: &mut [u8], at: usize);

    /// The field at offset `at`; 0 if the bytes end before it does.
    fn load(bytes: &[u8], at: usize) -> Self;
}

macro_rules! fields {
    ($($type:ty),*) => {$(
        impl Field for $type {
            #[inline]
            fn store(self, bytes: &mut [u8], at: usize) {
                let field = self.to_le_bytes();
                bytes[at..at + field.len()].copy_from_slice(&field);
            }

            #[inline]
            fn load(bytes: &[u8], at: usize) -> $type {
                array_at(bytes, at).map_or(0, <$type>::from_le_bytes)
            }
        }
    )*};
}

fields!(u8, u16, u32, u64);

/// A field of a structure: the integer of type `T` at an offset in the structure's bytes.
///
/// The modules that know a structure declare its fields as constants, so that every other module names what it reads:
///
/// ```
/// use platter_vfs::bytes::FieldAt;
///
/// const SIZE: FieldAt<u64> = FieldAt::new(0x20);
///
/// let mut record = [0; 0x28];
/// SIZE.put(&mut record, 4096);
/// assert_eq!((SIZE.of(&record), SIZE.at(), SIZE.end()), (4096, 0x20, 0x28));
/// assert_eq!(SIZE.of(&record[..0x20]), 0, "past the end is zero");
/// ```
pub struct FieldAt<T> {
    at: usize,
    kind: PhantomData<fn() -> T>,
}

impl<T: Field> FieldAt<T> {
    /// The field at this offset in bytes.
    pub const fn new(at: usize) -> FieldAt<T> {
        FieldAt { at, kind: PhantomData }
    }

    /// The same field of a structure that begins `base` bytes later.
    pub const fn within(self, base: usize) -> FieldAt<T> {
        FieldAt::new(base + self.at)
    }

    /// The field's offset in bytes.
    pub const fn at(self) -> usize {
        self.at
    }

    /// The offset of the first byte after the field.
    pub const fn end(self) -> usize {
        self.at + size_of::<T>()
    }

    /// The field's value in these bytes; 0 if they end before the field does.
    #[inline]
    pub fn of(self, bytes: &[u8]) -> T {
        T::load(bytes, self.at)
    }

    /// Stores the field; it must lie inside the bytes.
    #[inline]
    pub fn put(self, bytes: &mut [u8], value: T) {
        value.store(bytes, self.at);
    }
}

impl<T> Clone for FieldAt<T> {
    fn clone(&self) -> FieldAt<T> {
        *self
    }
}

impl<T> Copy for FieldAt<T> {}

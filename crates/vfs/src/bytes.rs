//! Little-endian fields of a byte slice. Reading past the end gives zero, so that no damaged length can panic; a caller
//! to whom zero is no answer checks the length first.

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
pub trait Field {
    /// Stores the field at offset `at`.
    fn store(self, bytes: &mut [u8], at: usize);
}

macro_rules! fields {
    ($($type:ty),*) => {$(
        impl Field for $type {
            #[inline]
            fn store(self, bytes: &mut [u8], at: usize) {
                let field = self.to_le_bytes();
                bytes[at..at + field.len()].copy_from_slice(&field);
            }
        }
    )*};
}

fields!(u8, u16, u32, u64);

//! `$OBJECT_ID`: an identifier by which links find a file, and its entry in the index `$O` of `$ObjId`.

use super::Reference;

/// The value of `$OBJECT_ID`: 16 bytes, or 64 with the identifiers of the file's birth.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectId {
    /// The identifier.
    pub id: [u8; 16],
    /// Volume, object and domain of birth, if they are there.
    pub birth: Option<[u8; 48]>,
}

impl ObjectId {
    /// Reads a value; `None` if it is too short.
    pub fn from_bytes(bytes: &[u8]) -> Option<ObjectId> {
        let id = bytes.get(..16)?.try_into().ok()?;
        Some(ObjectId { id, birth: bytes.get(16..64).and_then(|birth| birth.try_into().ok()) })
    }

    /// The value's bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.id.iter().chain(self.birth.iter().flatten()).copied().collect()
    }

    /// The identifier's entry in `$O`.
    pub fn entry(&self, file: Reference) -> Vec<u8> {
        let mut data = file.0.to_le_bytes().to_vec();
        data.extend(self.birth.unwrap_or([0; 48]));
        super::index::view_entry(&self.id, &data)
    }
}

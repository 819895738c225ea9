//! `$Secure`: security descriptors are looked up by number, and each is stored only once.

use crate::core::{Core, Key, PAGE};
use crate::file::{Attr, Outside};
use crate::layout::Index;
use crate::layout::{DescriptorHeader, Kind, descriptor_hash, record_number};
use platter_vfs::{Error, Result};

/// Bytes of the longest descriptor that is accepted, as in Windows.
const LONGEST: usize = 0xFFFF;

// A descriptor and its header lie in one block of $SDS.
const _: () = assert!((LONGEST as u64) < crate::layout::DescriptorHeader::BLOCK);

/// The number of the next descriptor, and its place in `$SDS`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Secure {
    next_id: u32,
    next_offset: u64,
}

/// The descriptor for new files where there is no other: owner and group are the administrators, everybody may do
/// everything.
pub(crate) fn open_to_all() -> Vec<u8> {
    let mut bytes = vec![1, 0, 0x04, 0x80, 0x14, 0, 0, 0, 0x24, 0, 0, 0, 0, 0, 0, 0, 0x34, 0, 0, 0];
    // S-1-5-32-544 twice.
    let administrators = [1, 2, 0, 0, 0, 0, 0, 5, 0x20, 0, 0, 0, 0x20, 2, 0, 0];
    bytes.extend(administrators);
    bytes.extend(administrators);
    // One entry: everybody (S-1-1-0), all rights, inherited by files and directories.
    bytes.extend([2, 0, 0x1C, 0, 1, 0, 0, 0]);
    bytes.extend([0, 3, 0x14, 0, 0xFF, 0x01, 0x1F, 0]);
    bytes.extend([1, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0]);
    bytes
}

fn sds_name() -> Vec<u16> {
    "$SDS".encode_utf16().collect()
}

impl Core {
    fn sds(&mut self) -> Result<Outside> {
        let secure = self.file(record_number::SECURE)?;
        secure
            .find(Kind::DATA, &sds_name())
            .and_then(Attr::outside)
            .cloned()
            .ok_or_else(|| Error::damaged("$Secure", 0, "$SDS in clusters", "none"))
    }

    fn sds_key(at: u64) -> Key {
        Key::Value(record_number::SECURE, Kind::DATA, "$SDS", at / PAGE * PAGE)
    }

    fn read_sds(&mut self, at: u64, length: usize) -> Result<Vec<u8>> {
        let sds = self.sds()?;
        let mut bytes = Vec::with_capacity(length);
        let mut position = at;
        while bytes.len() < length {
            let page = self.page(Core::sds_key(position), &sds)?;
            let from = (position % PAGE) as usize;
            let piece = page.len().saturating_sub(from).min(length - bytes.len());
            if piece == 0 {
                return Err(Error::damaged("$SDS", position, "a descriptor inside the stream", "its end"));
            }
            bytes.extend(&page[from..from + piece]);
            position += piece as u64;
        }
        Ok(bytes)
    }

    /// Whether there is a descriptor with a number.
    pub(crate) fn has_descriptor(&mut self, id: u32) -> bool {
        if self.descriptors.contains(&id) {
            return true;
        }
        let found = self.index_find(record_number::SECURE, Index::SecurityIds, &id.to_le_bytes());
        let is_there = found.is_ok_and(|found| found.is_some());
        if is_there {
            self.descriptors.insert(id);
        }
        is_there
    }

    /// The descriptor with a number.
    pub(crate) fn security_descriptor(&mut self, id: u32) -> Result<Vec<u8>> {
        let entry = self.index_find(record_number::SECURE, Index::SecurityIds, &id.to_le_bytes())?;
        let Some(entry) = entry else {
            return Err(Error::damaged("$SII", 0, format!("security descriptor {id:#x}"), "none"));
        };
        let data = crate::layout::index::IndexEntry { bytes: &entry, offset: 0 }.data();
        let header = DescriptorHeader::from_bytes(data)
            .filter(|header| header.length as usize <= LONGEST + DescriptorHeader::LENGTH)
            .ok_or_else(|| {
                Error::damaged("$SII", 0, "a header of 20 bytes with a length", format!("{data:?}"))
            })?;
        let bytes = self.read_sds(header.offset, header.length as usize)?;
        Ok(bytes[DescriptorHeader::LENGTH..].to_vec())
    }

    /// Returns the number of a descriptor, and adds the descriptor if it is new.
    pub(crate) fn provide_security(&mut self, descriptor: &[u8]) -> Result<u32> {
        if !(20..=LONGEST).contains(&descriptor.len()) {
            return Err(Error::InvalidArgument("a security descriptor has 20 to 65,535 bytes"));
        }
        let hash = descriptor_hash(descriptor);
        let mut same: Vec<u32> = Vec::new();
        let from = DescriptorHeader::hash_key(hash, 0);
        self.index_scan(record_number::SECURE, Index::SecurityHashes, Some(&from), |entry| {
            let (found, id) = entry.key().split_at(entry.key().len().min(4));
            let is_same = found == hash.to_le_bytes();
            if is_same && let Ok(id) = id.try_into() {
                same.push(u32::from_le_bytes(id));
            }
            is_same
        })?;
        for id in same {
            if self.security_descriptor(id).is_ok_and(|known| known == descriptor) {
                return Ok(id);
            }
        }
        self.add_descriptor(hash, descriptor)
    }

    fn next_descriptor(&mut self) -> Result<Secure> {
        if let Some(secure) = self.security {
            return Ok(secure);
        }
        let mut secure = Secure { next_id: DescriptorHeader::FIRST_ID, next_offset: 0 };
        self.index_scan(record_number::SECURE, Index::SecurityIds, None, |entry| {
            if let Some(header) = DescriptorHeader::from_bytes(entry.data()) {
                secure.next_id = secure.next_id.max(header.id.saturating_add(1));
                let end = header.offset.saturating_add(u64::from(header.length));
                secure.next_offset = secure.next_offset.max(end.next_multiple_of(DescriptorHeader::ALIGN));
            }
            true
        })?;
        Ok(secure)
    }

    fn add_descriptor(&mut self, hash: u32, descriptor: &[u8]) -> Result<u32> {
        let secure = self.next_descriptor()?;
        let length = (DescriptorHeader::LENGTH + descriptor.len()) as u64;
        let block = DescriptorHeader::BLOCK;
        let mut offset = secure.next_offset;
        // Every second block is the copy of the one before it, and no descriptor reaches into a copy.
        if offset / block % 2 == 1 || offset % block + length > block {
            offset = (offset / block / 2 + 1) * 2 * block;
        }
        let header = DescriptorHeader { hash, id: secure.next_id, offset, length: length as u32 };
        let mut bytes = header.to_bytes().to_vec();
        bytes.extend(descriptor);
        let end = offset + block + length;
        let mut sds = self.sds()?;
        let cluster = self.geometry.cluster;
        if end > sds.clusters() * cluster {
            let from = sds.clusters() * cluster;
            self.extend(&mut sds, (end - from).div_ceil(cluster), true, true)?;
            let zeroes = vec![0; (sds.clusters() * cluster - from) as usize];
            // Nothing on disk leads to these clusters yet.
            self.write_runs(&sds.runs, from, &zeroes)?;
        }
        if end > sds.size {
            for at in [sds.valid / PAGE * PAGE, offset / PAGE * PAGE, (offset + block) / PAGE * PAGE] {
                // Read before the valid length changes, by which it is known how much of the page was written.
                if at < sds.clusters() * cluster {
                    self.page(Core::sds_key(at), &sds)?;
                }
            }
            (sds.size, sds.valid) = (end, end);
            let mut secure = (*self.file(record_number::SECURE)?).clone();
            if let Some(known) = secure.find_mut(Kind::DATA, &sds_name()).and_then(Attr::outside_mut) {
                *known = sds.clone();
            }
            self.store(secure)?;
        }
        for start in [offset, offset + block] {
            let mut done = 0usize;
            while done < bytes.len() {
                let at = start + done as u64;
                self.page(Core::sds_key(at), &sds)?;
                let from = (at % PAGE) as usize;
                let piece = (PAGE as usize - from).min(bytes.len() - done);
                let part = &bytes[done..done + piece];
                self.change_image(Core::sds_key(at), |page| page[from..from + piece].copy_from_slice(part));
                done += piece;
            }
        }
        self.index_insert(record_number::SECURE, Index::SecurityIds, &header.id_entry())?;
        self.index_insert(record_number::SECURE, Index::SecurityHashes, &header.hash_entry())?;
        let next_offset = (offset + length).next_multiple_of(DescriptorHeader::ALIGN);
        self.security = Some(Secure { next_id: header.id + 1, next_offset });
        Ok(header.id)
    }
}

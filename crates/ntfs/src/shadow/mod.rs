//! Shadow copies, which Windows keeps by copying what is overwritten to other clusters first (Volume Shadow Copy
//! Service). Whoever writes to the volume without doing so changes what the shadow copies show.

mod store;

pub(crate) use store::ShadowDevice;

use crate::layout::shadow::{BLOCK, CatalogEntry, ENTRY, HEADER, block_kind, catalog_of, guid, next_block};
use platter_device::{Device, read_any};
use platter_vfs::{Error, Result, Timestamp, calendar};
use std::collections::BTreeMap;

/// The most blocks of a catalog that are read. Windows keeps at most 512 shadow copies of a volume, which take 9 blocks.
const MOST_BLOCKS: usize = 64;

/// A shadow copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ShadowCopy {
    /// Names its store.
    pub store: String,
    /// When it was made.
    pub created: Timestamp,
    /// Bytes of the volume when it was made.
    pub size: u64,
}

/// The shadow copies of a volume.
#[derive(Debug, Default)]
pub(crate) struct ShadowCopies {
    /// Those that the catalog names, the oldest first.
    pub copies: Vec<ShadowCopy>,
    /// Why a part of the catalog, or all of it, cannot be read.
    pub fault: Option<Error>,
    /// The entries of the catalog that say where the stores are, by the stores' names.
    pub stores: BTreeMap<String, CatalogEntry>,
}

impl ShadowCopies {
    /// Finds the shadow copies of the volume on a device; `None` if it has none. A device that cannot be read where it
    /// would have the header is taken for one without.
    pub(crate) fn find(device: &dyn Device) -> Option<ShadowCopies> {
        let mut header = [0; 512];
        if device.len() < HEADER + 512 || read_any(device, HEADER, &mut header).is_err() {
            return None;
        }
        let catalog = catalog_of(&header).filter(|catalog| *catalog != 0)?;
        let mut found = ShadowCopies::default();
        found.fault = read_catalog(device, catalog, &mut found).err();
        found.copies.sort_by(|one, other| (one.created, &one.store).cmp(&(other.created, &other.store)));
        (!found.copies.is_empty() || found.fault.is_some()).then_some(found)
    }

    /// Why the volume is not written to.
    pub(crate) fn why_kept(&self) -> String {
        let what = match self.copies.len() {
            0 => "shadow copies".into(),
            1 => "a shadow copy".into(),
            many => format!("{many} shadow copies"),
        };
        format!(
            "it has {what} of Windows ({self}), and what they show is lost where others write; the option \
             lose-shadow-copies allows that"
        )
    }
}

impl std::fmt::Display for ShadowCopies {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let copies = self.copies.iter().zip(1..);
        let mut parts: Vec<String> =
            copies.map(|(copy, number)| format!("{number}: {} UTC", shown(copy.created))).collect();
        if let Some(fault) = &self.fault {
            parts.push(format!("their catalog cannot be read: {fault}"));
        }
        f.write_str(&parts.join(", "))
    }
}

/// Reads the catalog from the block at `at` on.
fn read_catalog(device: &dyn Device, mut at: u64, found: &mut ShadowCopies) -> Result<()> {
    let mut made = BTreeMap::new();
    let mut outcome = Ok(());
    for read in 0.. {
        if at == 0 {
            break;
        }
        let block = if read == MOST_BLOCKS {
            Err(Error::damaged(
                "catalog of shadow copies",
                at,
                format!("at most {MOST_BLOCKS} blocks"),
                "more",
            ))
        } else {
            read_block(device, at, block_kind::CATALOG)
        };
        let (block, next) = match block {
            Ok(block) => block,
            Err(error) => {
                outcome = Err(error);
                break;
            }
        };
        for entry in block[ENTRY..].chunks_exact(ENTRY) {
            match CatalogEntry::from_bytes(entry) {
                CatalogEntry::Copy { store, size, created } => {
                    made.insert(store, (size, created));
                }
                place @ CatalogEntry::Store { store, .. } => {
                    found.stores.insert(guid(&store), place);
                }
                CatalogEntry::Free => {}
            }
        }
        at = next;
    }
    found.copies.extend(made.into_iter().map(|(store, (size, created))| ShadowCopy {
        store: guid(&store),
        created: created.into(),
        size,
    }));
    outcome
}

/// The block at `at`, and the place of the one that follows it in its list.
fn read_block(device: &dyn Device, at: u64, kind: u32) -> Result<(Vec<u8>, u64)> {
    if at.checked_add(BLOCK).is_none_or(|end| end > device.len()) {
        let expected = format!("an offset before {}", device.len());
        return Err(Error::damaged("block of a shadow copy", at, expected, at));
    }
    let mut block = vec![0; BLOCK as usize];
    read_any(device, at, &mut block)?;
    let next = next_block(&block, kind, at)?;
    Ok((block, next))
}

/// A time to the second, as `2013-12-03 06:35:09`.
fn shown(time: Timestamp) -> String {
    /// Days from 1601-01-01 to 1970-01-01.
    const DAYS_TO_1970: i64 = 134_774;
    let seconds = time.to_file_time(u64::MAX) / 10_000_000;
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = calendar::date(days as i64 - DAYS_TO_1970);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::bytes::put;
    use crate::layout::shadow::IDENTIFIER;
    use platter_device::{MemoryDevice, Sectors};
    use std::sync::Arc;

    const FIRST: u64 = 0x10_0000;

    /// A device whose header names a catalog with these entries in two blocks.
    fn device(entries: &[[u8; ENTRY]], next: u64) -> MemoryDevice {
        let device = MemoryDevice::new(4 << 20, Sectors::SMALL);
        let mut header = [0; 512];
        header[..16].copy_from_slice(&IDENTIFIER);
        put(&mut header, 0x30, FIRST);
        device.write_at(HEADER, &header).unwrap();
        let half = entries.len().div_ceil(2);
        for (index, entries) in entries.chunks(half).enumerate() {
            let mut block = vec![0; BLOCK as usize];
            block[..16].copy_from_slice(&IDENTIFIER);
            put(&mut block, 0x14, block_kind::CATALOG);
            put(&mut block, 0x28, if index == 0 { FIRST + BLOCK } else { next });
            for (entry, place) in entries.iter().zip(block[ENTRY..].chunks_exact_mut(ENTRY)) {
                place.copy_from_slice(entry);
            }
            device.write_at(FIRST + index as u64 * BLOCK, &block).unwrap();
        }
        device
    }

    fn copy(number: u8, seconds: i64) -> [u8; ENTRY] {
        let mut entry = [0; ENTRY];
        put(&mut entry, 0, 2u64);
        put(&mut entry, 8, 1u64 << 30);
        entry[0x10..0x20].fill(number);
        put(&mut entry, 0x30, Timestamp { seconds, nanoseconds: 0 }.to_file_time(u64::MAX));
        entry
    }

    #[test]
    fn copies_are_listed_by_their_time() {
        let mut store = copy(1, 0);
        put(&mut store, 0, 3u64);
        let entries = [copy(1, 1_386_052_668), copy(2, 1_386_052_509), store, [0; ENTRY]];
        let found = ShadowCopies::find(&device(&entries, 0)).unwrap();
        assert_eq!(found.to_string(), "1: 2013-12-03 06:35:09 UTC, 2: 2013-12-03 06:37:48 UTC");
        assert!(found.fault.is_none());
        assert!(found.why_kept().contains("2 shadow copies"), "{}", found.why_kept());
        assert!(ShadowCopies::find(&device(&[[0; ENTRY]; 2], 0)).is_none(), "an empty catalog");
        assert!(ShadowCopies::find(&MemoryDevice::new(1 << 20, Sectors::SMALL)).is_none());
        assert!(ShadowCopies::find(&MemoryDevice::new(4096, Sectors::SMALL)).is_none());
    }

    #[test]
    fn a_shadow_copy_is_read_through_its_store() {
        let (list, kept) = (0x20_0000u64, 0x30_0000u64);
        let mut store = [0; ENTRY];
        put(&mut store, 0, 3u64);
        put(&mut store, 8, list);
        store[0x10..0x20].fill(1);
        let device = Arc::new(device(&[copy(1, 1_386_052_509), store], 0));
        let mut block = vec![0; BLOCK as usize];
        block[..16].copy_from_slice(&IDENTIFIER);
        put(&mut block, 0x14, block_kind::BLOCK_LIST);
        put(&mut block, ENTRY, 0x8000u64);
        put(&mut block, ENTRY + 16, kept);
        device.write_at(list, &block).unwrap();
        device.write_at(kept, &[7; 512]).unwrap();
        device.write_at(0xC000, &[8; 512]).unwrap();
        let shadow = ShadowDevice::open(device.clone(), 1).unwrap();
        let mut bytes = vec![1; 0x8000];
        shadow.read_at(0x8000, &mut bytes).unwrap();
        assert_eq!((bytes[0], bytes[511], bytes[512], bytes[0x4000]), (7, 7, 0, 8));
        for number in [0, 2] {
            assert!(matches!(ShadowDevice::open(device.clone(), number), Err(Error::InvalidArgument(_))));
        }
        // A list that leads back to itself.
        put(&mut block, 0x28, list);
        device.write_at(list, &block).unwrap();
        let error = ShadowDevice::open(device, 1).err().unwrap().to_string();
        assert!(error.contains("one that came before"), "{error}");
    }

    #[test]
    fn a_shadow_copy_kept_on_another_volume_is_named() {
        let device = Arc::new(device(&[copy(1, 1_386_052_509), [0; ENTRY]], 0));
        let error = ShadowDevice::open(device, 1).err().unwrap();
        assert!(matches!(error, Error::Unreadable(why) if why.contains("another")), "{error}");
    }

    #[test]
    fn a_damaged_catalog_is_a_reason_too() {
        let entries = [copy(1, 1_386_052_668), copy(2, 1_386_052_509)];
        // Blocks that lead to each other, into nothing, and past the end of the device.
        for next in [FIRST, 0x20_0000, u64::MAX - 5, 4 << 20] {
            let found = ShadowCopies::find(&device(&entries, next)).unwrap();
            assert_eq!(found.copies.len(), 2, "{next:#x}");
            let shown = found.to_string();
            assert!(shown.contains("their catalog cannot be read") && shown.contains("offset"), "{shown}");
        }
    }

    #[test]
    fn dates() {
        let at = |seconds| shown(Timestamp { seconds, nanoseconds: 0 });
        assert_eq!(at(0), "1970-01-01 00:00:00");
        assert_eq!(at(951_827_696), "2000-02-29 12:34:56");
        assert_eq!(at(-11_644_473_600), "1601-01-01 00:00:00");
        assert_eq!(at(4_107_542_399), "2100-02-28 23:59:59");
        assert_eq!(at(4_107_542_400), "2100-03-01 00:00:00");
        assert_eq!(at(i64::MAX), "60056-05-28 05:36:10");
    }
}

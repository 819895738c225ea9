//! Replaying a log: its changes are to be made in their places.

use crate::layout::bytes::{put, u16_at};
use crate::layout::fixup;
use crate::layout::log::{FIRST_ENTRY, OPEN_ATTRIBUTE, OpenAttribute, Operation, RecordHeader, operation};
use platter_device::Device;
use platter_vfs::{Error, Result};
use std::collections::{BTreeMap, HashMap};

/// The complete groups of a log, in their order.
#[derive(Debug)]
pub struct Replay {
    cluster: u64,
    record: u32,
    greatest: u64,
    behind: u64,
    attributes: HashMap<u32, OpenAttribute>,
    /// The bytes for each place, and the number of the change that gave them: of several changes the last counts.
    groups: HashMap<Places, (u64, Vec<u8>)>,
    said: u64,
    /// Changes of a group whose end was not read yet.
    open: Vec<Patch>,
    bytes: u64,
}

/// Where the pieces of a structure are: device offsets and lengths, in bytes.
type Places = Vec<(u64, usize)>;

/// Bytes of a structure, and where its pieces are.
#[derive(Debug)]
struct Patch {
    places: Places,
    bytes: Vec<u8>,
}

impl Replay {
    pub(super) fn new(cluster: u32, record: u32, greatest: u64) -> Replay {
        Replay {
            cluster: u64::from(cluster),
            record,
            greatest,
            behind: 0,
            attributes: HashMap::new(),
            groups: HashMap::new(),
            said: 0,
            open: Vec::new(),
            bytes: 0,
        }
    }

    /// The greatest LSN that was read.
    pub(super) fn greatest(&self) -> u64 {
        self.greatest
    }

    /// The page behind the log's last record.
    pub(super) fn behind(&self) -> u64 {
        self.behind
    }

    /// Notes the page behind the log's last record.
    pub(super) fn ends_before(&mut self, page: u64) {
        self.behind = page;
    }

    /// Bytes of the changes that are kept.
    pub(super) fn len(&self) -> u64 {
        self.bytes
    }

    /// Whether the log ends inside a group of records, which is not replayed. Logs that this crate writes never end so:
    /// other drivers would redo the beginning of the group, and would have to undo it again.
    pub fn is_torn(&self) -> bool {
        !self.open.is_empty()
    }

    /// The number of structures that will be written.
    pub fn structures(&self) -> usize {
        self.groups.len()
    }

    /// Takes one operation of the log; fails with the reason if it cannot be replayed.
    pub(super) fn add(&mut self, header: &RecordHeader, step: Operation) -> std::result::Result<(), String> {
        self.greatest = self.greatest.max(header.lsn);
        let cannot = |what: &str| Err(format!("its log's record {:#x} {what}", header.lsn));
        match step.redo {
            operation::NOOP if step.undo == operation::NOOP => Ok(()),
            operation::FORGET => {
                for patch in std::mem::take(&mut self.open) {
                    self.said += 1;
                    if let Some((_, old)) = self.groups.insert(patch.places, (self.said, patch.bytes)) {
                        self.bytes -= old.len() as u64;
                    }
                }
                Ok(())
            }
            operation::OPEN_ATTRIBUTE => {
                let place = step.target.checked_sub(FIRST_ENTRY).map(|from| from as usize % OPEN_ATTRIBUTE);
                match OpenAttribute::from_bytes(&step.redo_data) {
                    Some(attribute) if place == Some(0) => {
                        self.attributes.insert(step.target, attribute);
                        Ok(())
                    }
                    _ => cannot("opens an attribute without naming it"),
                }
            }
            operation::INITIALIZE_RECORD | operation::UPDATE_VALUE if step.undo == operation::NOOP => {
                let Some(attribute) = self.attributes.get(&step.target) else {
                    return cannot("is about an attribute that was not opened");
                };
                let is_record = step.redo == operation::INITIALIZE_RECORD;
                let block = if is_record { self.record } else { attribute.index_block };
                match self.patch(&step, block, header.lsn) {
                    Some(patch) => {
                        self.bytes += patch.bytes.len() as u64;
                        self.open.push(patch);
                        Ok(())
                    }
                    None => cannot("does not say what is to be changed"),
                }
            }
            other => cannot(&format!("holds {}, which only Windows replays", operation::name(other))),
        }
    }

    /// The bytes that an operation puts on the device, and their places. `block` is the size of the record or index
    /// block that the operation gives whole, or 0 for plain bytes.
    fn patch(&self, step: &Operation, block: u32, lsn: u64) -> Option<Patch> {
        let mut bytes = step.redo_data.clone();
        let within =
            u64::from(step.block) * 512 + u64::from(step.record_offset) + u64::from(step.attribute_offset);
        if block != 0 {
            let size = block as usize;
            // A shorter record or block was logged without its unused end.
            if bytes.len() > size
                || bytes.len() < 0x18
                || step.record_offset != 0
                || step.attribute_offset != 0
            {
                return None;
            }
            // These fields bound the size, which an entry of the log gives, so they are looked at before memory is taken
            // for it.
            let sequence = usize::from(u16_at(&bytes, 4)) + 2 * usize::from(u16_at(&bytes, 6));
            if usize::from(u16_at(&bytes, 6)) != fixup::fields(size)
                || u16_at(&bytes, 4) < 0x10
                || sequence > 510
            {
                return None;
            }
            bytes.resize(size, 0);
            put(&mut bytes, 8, lsn);
            fixup::apply(&mut bytes);
        }
        let mut places = Vec::new();
        let (mut at, mut left) = (within, bytes.len() as u64);
        while left > 0 {
            let lcn = step.lcns.get((at / self.cluster) as usize)?;
            let length = left.min(self.cluster - at % self.cluster);
            places.push((lcn.checked_mul(self.cluster)?.checked_add(at % self.cluster)?, length as usize));
            (at, left) = (at + length, left - length);
        }
        Some(Patch { places, bytes })
    }

    /// Puts all changes into their places, and flushes. For a volume that is only read, `device` is an overlay that
    /// keeps writes to itself.
    ///
    /// # Errors
    /// Errors of the device. Applying the changes again does the same.
    pub fn apply(&self, device: &dyn Device) -> Result<()> {
        let sector = u64::from(device.sectors().logical);
        let mut sectors: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
        let mut groups: Vec<_> = self.groups.iter().collect();
        groups.sort_unstable_by_key(|(_, (said, _))| *said);
        for (places, (_, bytes)) in groups {
            let mut from = 0;
            for &(start, length) in places {
                let mut at = start;
                while at < start + length as u64 {
                    let base = at / sector * sector;
                    let now = (base + sector).min(start + length as u64) - at;
                    if base + sector > device.len() {
                        return Err(Error::damaged("$LogFile", at, "a place on the device", device.len()));
                    }
                    if let std::collections::btree_map::Entry::Vacant(place) = sectors.entry(base) {
                        let mut bytes = vec![0; sector as usize];
                        device.read_at(base, &mut bytes)?;
                        place.insert(bytes);
                    }
                    if let Some(sector) = sectors.get_mut(&base) {
                        let to = (at - base) as usize;
                        sector[to..to + now as usize].copy_from_slice(&bytes[from..from + now as usize]);
                    }
                    (at, from) = (at + now, from + now as usize);
                }
            }
        }
        let writes: Vec<(u64, &[u8])> = sectors.iter().map(|(at, bytes)| (*at, &bytes[..])).collect();
        device.write_batch(&writes)?;
        device.flush()?;
        Ok(())
    }
}

//! Making the records of the files that changed, once for however many changes, when a commit gathers them.
//!
//! Records and clusters that were taken ahead and are not needed are given back. An attribute list that does not change
//! stays in its clusters.

use super::files::is_mft;
use super::spread::{Spread, piece_key};
use super::{Core, Key};
use crate::file::{Ahead, Attr, Body, File, Outside};
use crate::layout::bytes::u16_at;
use crate::layout::{Attribute, Kind, ListEntry, Record, Reference, Run, record_flags};
use crate::runlist::cut;
use crate::space::Held;
use platter_vfs::{Error, Result};
use std::sync::Arc;

/// The attribute list entry of a piece; its record and attribute number are filled in later.
fn entry(piece: &Attribute) -> ListEntry {
    let (kind, _, first, _) = piece_key(piece);
    ListEntry { kind, name: piece.name.clone(), first, record: Reference::default(), id: 0 }
}

/// Whether two records are the same, apart from the bytes that their update sequences have put aside.
fn is_same_record(one: &[u8], two: &[u8]) -> bool {
    let (at, count) = (usize::from(u16_at(two, 4)), usize::from(u16_at(two, 6)));
    let aside = at + 2..at + 2 * count;
    one[..aside.start] == two[..aside.start] && one[aside.end..] == two[aside.end..]
}

impl Core {
    /// Makes the records of changed files that need several, from the records and clusters that were taken ahead.
    pub(super) fn encode_spread(&mut self) -> Result<()> {
        let room = self.room();
        let stale = self.stale.iter().filter_map(|number| self.files.get(number));
        let spread: Vec<Arc<File>> = stale.filter(|file| file.length() > room).cloned().collect();
        for file in spread {
            self.encode((*file).clone())?;
        }
        Ok(())
    }

    fn encode(&mut self, mut file: File) -> Result<()> {
        let number = file.reference.number();
        let pieces = self.pieces_of(&file);
        let mut spread = self.spread(&file, &pieces)?;
        debug_assert!(spread.lacking.is_none(), "file {number}: records were taken for all its attributes");
        while spread.lacking.is_some() {
            if is_mft(&file) {
                return Err(Error::NoSpace);
            }
            file.extensions.push(self.take_record()?);
            spread = self.spread(&file, &pieces)?;
        }
        let Spread { mut bins, homes, .. } = spread;
        let mut list: Vec<ListEntry> = pieces.iter().map(entry).collect();
        let mut parts: Vec<Vec<Attribute>> = bins.iter().map(|_| Vec::new()).collect();
        for (piece, ((bin, id), entry)) in pieces.into_iter().zip(homes.into_iter().zip(&mut list)) {
            let id = id.unwrap_or(bins[bin].next);
            bins[bin].next = bins[bin].next.max(id.wrapping_add(1));
            (entry.record, entry.id) = (bins[bin].reference, id);
            parts[bin].push(Attribute { id, ..piece });
        }
        let mut value = Vec::new();
        list.iter().for_each(|entry| entry.append_to(&mut value));
        let is_resident = self.is_resident_list(value.len());
        let attribute = if is_resident {
            self.give_list(&mut file);
            Attribute::resident(Kind::ATTRIBUTE_LIST, value.clone())
        } else {
            self.place_list(&mut file, &list, &mut value)?
        };
        file.list_value = Arc::new(value);
        let old_list = bins[0].old.iter().find(|old| old.kind == Kind::ATTRIBUTE_LIST);
        let id = old_list.map_or(bins[0].next, |old| old.id);
        bins[0].next = bins[0].next.max(id.wrapping_add(1));
        parts[0].push(Attribute { id, ..attribute });
        let mut extensions = Vec::new();
        for (index, (bin, attributes)) in bins.into_iter().zip(parts).enumerate() {
            if index > 0 && !bin.is_used {
                self.give_record_back(bin.reference);
                continue;
            }
            let base = if index == 0 { Reference::default() } else { file.reference };
            self.store_record(&file, bin.reference, base, attributes, bin.next)?;
            if index > 0 {
                extensions.push(bin.reference);
            }
        }
        file.used = extensions.len();
        file.extensions = extensions;
        file.ahead = Ahead::default();
        file.is_strange = false;
        self.files.insert(number, Arc::new(file));
        Ok(())
    }

    /// Writes an attribute list to the clusters that were taken for it, unless the old list has the same entries.
    fn place_list(&mut self, file: &mut File, list: &[ListEntry], value: &mut Vec<u8>) -> Result<Attribute> {
        let cluster = self.geometry.cluster;
        let spare = std::mem::take(&mut file.ahead.spare);
        let sorted = |mut entries: Vec<ListEntry>| {
            entries.sort_by(|one, two| one.order().cmp(&two.order()));
            entries
        };
        let is_same = !file.list.is_empty()
            && ListEntry::read_all(&file.list_value, 0).is_ok_and(|old| sorted(old) == sorted(list.to_vec()));
        if is_same {
            self.give_runs(&spare, Held::Data, true);
            value.clone_from(&file.list_value);
        } else {
            let old = std::mem::replace(&mut file.list, spare);
            let wanted = (value.len() as u64).div_ceil(cluster);
            let surplus = cut(&mut file.list, wanted);
            let have = file.list.last().map_or(0, Run::end);
            debug_assert!(have == wanted, "clusters were taken for {wanted} of the list, not for {have}");
            if have < wanted {
                let mut outside = Outside { runs: file.list.drain(..).collect(), ..Outside::default() };
                self.extend(&mut outside, wanted - have, true, true)?;
                file.list = outside.runs.to_vec();
            }
            self.give_runs(&surplus, Held::Data, true);
            self.give_runs(&old, Held::Data, true);
            let mut whole = value.clone();
            whole.resize((wanted * cluster) as usize, 0);
            // New clusters, written at once: the commit that leads to them comes later.
            self.write_runs(&file.list, 0, &whole)?;
        }
        let size = value.len() as u64;
        let outside = Outside { runs: file.list.iter().copied().collect(), size, valid: size, unit: 0 };
        let body = Body::Outside(outside);
        let attr = Attr { kind: Kind::ATTRIBUTE_LIST, name: Box::default(), flags: 0, body };
        let mut whole = File { attributes: vec![attr], ..File::new(Reference::default(), 0) }.pieces(
            1 << 30,
            1 << 30,
            cluster,
        );
        Ok(whole.swap_remove(0))
    }

    /// Makes the records of the other files that changed since the last commit; nearly all fit into one.
    pub(super) fn encode_stale(&mut self) -> Result<()> {
        let (cluster, room) = (self.geometry.cluster, self.room());
        for number in std::mem::take(&mut self.stale) {
            // A file that was removed again has no record to make.
            let Some(file) = self.files.get(&number).cloned() else { continue };
            if file.length() > room {
                self.encode((*file).clone())?;
                continue;
            }
            let mut pieces = file.pieces(1 << 30, 1 << 30, cluster);
            let count = pieces.len() as u16;
            pieces.iter_mut().zip(0..).for_each(|(piece, id)| piece.id = id);
            self.store_record(&file, file.reference, Reference::default(), pieces, count)?;
        }
        Ok(())
    }

    /// Stores one record of a file, if it changed.
    fn store_record(
        &mut self,
        file: &File,
        reference: Reference,
        base: Reference,
        attributes: Vec<Attribute>,
        next: u16,
    ) -> Result<()> {
        let number = reference.number();
        let mut record = Record::new(number);
        let old = self.known(Key::Record(number)).cloned();
        if let Some(old) = &old {
            record.lsn = crate::layout::bytes::u64_at(old, 8);
            record.update = u16_at(old, usize::from(u16_at(old, 4)));
        }
        record.sequence = reference.sequence();
        record.base = base;
        record.links = if base.0 == 0 { file.links } else { 0 };
        record.flags = if base.0 == 0 { file.flags } else { record_flags::IN_USE };
        attributes.into_iter().for_each(|attribute| record.put(attribute));
        record.next_id = next;
        let Some(bytes) = record.to_bytes(self.geometry.record as usize) else {
            return Err(Error::RecordFull { format: "NTFS", what: "its attributes fit into a file record" });
        };
        if old.is_none_or(|old| !is_same_record(&old, &bytes)) {
            self.put_image(Key::Record(number), bytes);
        }
        Ok(())
    }
}

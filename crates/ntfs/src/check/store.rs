//! Writing a file back: its attributes into as many records as they take, with an attribute list if that is more than
//! one.

use super::Check;
use super::file::{Assembled, Part, key, outside};
use super::long_list;
use super::record::RecordState;
use crate::layout::record_number as known;
use crate::layout::runs;
use crate::layout::{Attribute, AttributeContent, Kind, ListEntry, NonResident, Record, Run};
use platter_vfs::Result;

impl Assembled {
    /// Writes the records that changed, with a new attribute list if there are several. Returns `false`, and writes
    /// nothing, if something does not fit.
    pub fn store(&mut self, check: &mut Check<'_>) -> Result<bool> {
        if !self.records.iter().any(|part| part.is_changed) {
            return Ok(true);
        }
        if !long_list::shorten(check, self)? {
            return Ok(false);
        }
        self.arrange(check);
        let size = check.geometry.record as usize;
        let mut spilled = Vec::new();
        loop {
            let has_list = self.base().attributes.iter().any(|other| other.kind == Kind::ATTRIBUTE_LIST);
            let fits = (self.records.iter().all(|part| !part.record.attributes.is_empty())
                || self.drop_empty())
                && (self.records.len() == 1 && !has_list || self.store_list(check)?)
                && self.records.iter().all(|part| part.record.to_bytes(size).is_some());
            if fits {
                break;
            }
            // Attributes are moved to another record until all fit.
            if !may_have_list(self.number) || !self.spill(check, &mut spilled) {
                spilled.iter().for_each(|&number| check.states[number as usize] = RecordState::Free);
                return Ok(false);
            }
        }
        for part in &mut self.records {
            check.put_record(part.number, &part.record)?;
            part.is_changed = false;
        }
        let kept: Vec<u64> = self.records.iter().skip(1).map(|part| part.number).collect();
        for part in check.extensions.insert(self.number, kept.clone()).unwrap_or_default() {
            if !kept.contains(&part) {
                check.free_record(part)?;
            }
        }
        Ok(true)
    }

    /// Puts attributes in the order of their types, each with its own number in its record.
    fn arrange(&mut self, check: &Check<'_>) {
        let room = Record::room(check.geometry.record as usize);
        for part in &mut self.records {
            if may_have_list(self.number) {
                part_long_runs(part, check.geometry.clusters, room);
            }
            // Drivers stop searching a record at the first attribute whose type is behind the one they want.
            part.record.attributes.sort_by_key(|attribute| attribute.kind);
            renumber(part);
        }
    }

    /// Leaves out extension records that have no attributes any more.
    fn drop_empty(&mut self) -> bool {
        let mut is_base = true;
        self.records.retain(|part| std::mem::take(&mut is_base) || !part.record.attributes.is_empty());
        true
    }

    /// Moves an attribute from a record that is too full to one that has room.
    fn spill(&mut self, check: &mut Check<'_>, spilled: &mut Vec<u64>) -> bool {
        let size = check.geometry.record as usize;
        let room = |part: &Part| Record::room(size).saturating_sub(part.record.length());
        let full = self.records.iter().position(|part| part.record.to_bytes(size).is_none()).unwrap_or(0);
        let may_move = |attribute: &Attribute| {
            !matches!(attribute.kind, Kind::STANDARD_INFORMATION | Kind::ATTRIBUTE_LIST)
                && attribute.length() <= Record::room(size)
        };
        let attributes = self.records[full].record.attributes.iter().enumerate();
        let largest = attributes.filter(|(_, other)| may_move(other)).max_by_key(|(_, other)| other.length());
        let Some((index, length)) = largest.map(|(index, other)| (index, other.length())) else {
            return false;
        };
        let other =
            (1..self.records.len()).find(|&other| other != full && room(&self.records[other]) >= length);
        let other = match other {
            Some(other) => other,
            None => {
                if !check.is_used_known {
                    return false;
                }
                let free = (known::FIRST_FREE..check.table.count)
                    .find(|&number| check.state(number) == RecordState::Free);
                let Some(number) = free else { return false };
                check.states[number as usize] = RecordState::Extension;
                spilled.push(number);
                let mut record = Record::new(number);
                record.sequence = check.sequence(number).wrapping_add(1).max(1);
                record.flags = crate::layout::record_flags::IN_USE;
                record.base = self.reference();
                self.records.push(Part { number, record, is_changed: true, header: None });
                self.records.len() - 1
            }
        };
        let moved = self.records[full].record.attributes.remove(index);
        self.records[other].record.add(moved);
        for part in [full, other] {
            self.records[part].is_changed = true;
            renumber(&mut self.records[part]);
        }
        true
    }

    fn store_list(&mut self, check: &mut Check<'_>) -> Result<bool> {
        let list = key(Kind::ATTRIBUTE_LIST, "");
        if self.records.len() == 1 {
            self.remove(&list);
            return Ok(true);
        }
        let mut bytes = Vec::new();
        self.entries().iter().for_each(|entry| entry.append_to(&mut bytes));
        let old = self.runs(check.geometry.clusters, &list);
        self.remove(&list);
        self.base_mut().add(Attribute::resident(Kind::ATTRIBUTE_LIST, bytes.clone()));
        if self.base().to_bytes(check.geometry.record as usize).is_some() {
            return Ok(true);
        }
        self.remove(&list);
        if bytes.len() as u64 > ListEntry::LONGEST {
            return Ok(false);
        }
        let clusters = (bytes.len() as u64).div_ceil(check.geometry.cluster);
        let runs = match old {
            Some((runs, _))
                if check.is_used_known
                    && check.is_own(&runs)
                    && runs.last().map_or(0, Run::end) >= clusters =>
            {
                runs
            }
            _ => match check.allocate(clusters) {
                Some(runs) => runs,
                None => return Ok(false),
            },
        };
        check.disk.write_runs(&check.geometry, &runs, 0, &bytes)?;
        let attribute = outside(check, list, &runs, bytes.len() as u64);
        self.base_mut().add(attribute);
        Ok(true)
    }
}

/// Whether a repair may put attributes of a file into extension records. Files that lead to all others, or that are
/// read before any other, keep their attributes in the base record.
fn may_have_list(number: u64) -> bool {
    number >= known::FIRST_FREE
        || [known::ROOT, known::BITMAP, known::SECURE, known::EXTEND].contains(&number)
}

/// Divides attributes whose runs do not fit into any record.
fn part_long_runs(part: &mut Part, clusters: u64, room: usize) {
    while let Some(index) = part.record.attributes.iter().position(|other| other.length() > room) {
        let attribute = &mut part.record.attributes[index];
        let fixed = attribute.length();
        let AttributeContent::NonResident(piece) = &mut attribute.content else { return };
        let fixed = fixed - piece.pairs.len().next_multiple_of(8);
        let mut all = Vec::new();
        // Takes only the runs before the first damage, which is reported elsewhere.
        let _ = runs::unpack_into(&mut all, &piece.pairs, piece.first, piece.end, clusters, 0);
        let (pairs, fitted) = runs::pack(&all, (room - fixed) & !7);
        if fitted == 0 || fitted >= all.len() {
            return;
        }
        let first = all[fitted].vcn;
        let rest = NonResident {
            first,
            end: piece.end,
            unit: 0,
            allocated: 0,
            size: 0,
            valid: 0,
            taken: None,
            pairs: runs::pack(&all[fitted..], usize::MAX).0,
        };
        (piece.pairs, piece.end) = (pairs, first);
        let rest = Attribute { content: AttributeContent::NonResident(rest), ..attribute.clone() };
        part.record.attributes.insert(index + 1, rest);
        part.is_changed = true;
    }
}

/// Gives new numbers to attributes that have the same number as another one in their record.
fn renumber(part: &mut Part) {
    let record = &mut part.record;
    let mut next =
        record.attributes.iter().map(|attribute| attribute.id).max().map_or(0, |id| id.saturating_add(1));
    let mut seen = std::collections::BTreeSet::new();
    if next == u16::MAX {
        // The numbers are used up: all attributes are numbered anew.
        next = 0;
        record.attributes.iter_mut().for_each(|attribute| {
            attribute.id = next;
            next += 1;
        });
    }
    for attribute in &mut record.attributes {
        if !seen.insert(attribute.id) {
            attribute.id = next;
            next += 1;
        }
    }
    record.next_id = record.next_id.max(next);
}

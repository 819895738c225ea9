//! Rebuilds the copies of a mirror that are not current, once it is known that nothing else is lost by that.

use super::Mirror;
use super::bit;
use super::history::{CopyState, History, Intent};
use super::set::{MirrorCopy, MirrorSet, Standing, begins_blank, copy_over};
use crate::protect::find_data;
use crate::{Device, Error, Queue, Result, Sectors};
use std::sync::Arc;
use std::time::Duration;

impl MirrorSet {
    /// Adds a device that is to become a copy.
    pub fn add(&mut self, copy: MirrorCopy) {
        self.copies.push(copy);
        self.histories.push(None);
        self.standings.push(Standing::LeftOut("it is new".to_string()));
    }

    /// The copy whose content a rebuild copies over the others: `from`, the one that [`prepare`](MirrorSet::prepare)
    /// repaired for it, or the soundest that is current.
    pub fn source(&self, from: Option<usize>) -> Option<usize> {
        let source = from.or(self.prepared).or_else(|| self.soundest(self.current().into_iter()));
        source.filter(|&copy| self.device(copy).is_some())
    }

    /// The copies that a rebuild from `source` overwrites, whether their devices can be opened or not.
    fn targets(&self, source: usize, from: Option<usize>) -> Vec<usize> {
        let is_target =
            |&copy: &usize| copy != source && (from.is_some() || self.standings[copy] != Standing::Current);
        (0..self.copies.len()).filter(is_target).collect()
    }

    /// Prepares a rebuild, before anything is changed on the copies that it overwrites: refuses to overwrite a device
    /// that holds data and of which it is not known that it is a copy, and repairs the source from all other copies,
    /// outdated ones too, by what has a checksum. With `force`, neither is a reason to refuse.
    ///
    /// # Errors
    /// [`Error::Protected`] for such a device, for one whose record was found by a name that another device may have had
    /// ([`MirrorRecord::is_identified`](super::MirrorRecord::is_identified)) unless `from` is given, and for damage of the
    /// source that no copy can repair; [`Error::Unusable`] if copies have diverged and `from` does not choose one, or if none can be used.
    pub fn prepare(&mut self, from: Option<usize>, force: bool) -> Result<()> {
        if from.is_none() {
            self.refuse_diverged()?;
        }
        let source = self.source(from).ok_or_else(|| self.without_source())?;
        self.prepared = Some(source);
        if from.is_none() && !force {
            self.refuse_unidentified(source)?;
        }
        if !force {
            self.targets(source, from).into_iter().try_for_each(|copy| self.refuse_unknown(copy, source))?;
        }
        if self.unclosed && from.is_none() {
            self.make_alike()?;
        }
        let damage = self.mend_source(source)?;
        match damage.first() {
            Some(first) if !force => {
                let more = match damage.len() - 1 {
                    0 => String::new(),
                    more => format!(" (and {more} more)"),
                };
                let reason = format!(
                    "would be copied with damage that no copy can repair: {first}{more}; --force copies it"
                );
                Err(Error::Protected { device: self.copies[source].name.as_str().into(), reason })
            }
            _ => Ok(()),
        }
    }

    /// Refuses a rebuild in which a record decides that was found by the name that the system gives a device: if the
    /// devices have changed their names, the record of the newest content stands under the name of the oldest.
    fn refuse_unidentified(&self, source: usize) -> Result<()> {
        let targets = self.targets(source, None);
        let decides = |copy: usize| self.histories[copy].is_some() && self.device(copy).is_some();
        let unidentified = std::iter::once(source)
            .chain(targets.iter().copied())
            .find(|&copy| !targets.is_empty() && decides(copy) && !self.copies[copy].record.is_identified());
        let Some(copy) = unidentified else { return Ok(()) };
        let reason = "has no serial number or other identity, so its record may be that of another device which had its \
                      name; look at the content of each copy, and say with --from which one is kept";
        Err(Error::Protected { device: self.copies[copy].name.as_str().into(), reason: reason.into() })
    }

    /// Refuses a copy that was left out if its record does not show that it belongs to the set, or if its beginning is
    /// gone, and it holds data.
    fn refuse_unknown(&self, copy: usize, source: usize) -> Result<()> {
        let (Standing::LeftOut(_), Some(device)) = (&self.standings[copy], self.device(copy)) else {
            return Ok(());
        };
        let set = |copy: usize| self.histories[copy].as_ref().map(|history| history.set);
        let is_known = set(copy).is_some() && set(copy) == set(source);
        if is_known && !begins_blank(&**device) {
            return Ok(());
        }
        let Some(at) = find_data(&**device)? else { return Ok(()) };
        let what = match is_known {
            true => "begins with zeroes",
            false => "has no record of this mirror",
        };
        let reason = format!("{what} and holds data at offset {at}; --force overwrites it");
        Err(Error::Protected { device: self.copies[copy].name.as_str().into(), reason })
    }

    /// Repairs what is damaged on a copy from all others. Only copies in use are written to: the others give what they
    /// have. Returns what is still damaged.
    fn mend_source(&mut self, source: usize) -> Result<Vec<String>> {
        let Some(length) = self.length() else { return Ok(Vec::new()) };
        let current = self.current();
        let belongs = |copy: usize| self.histories[copy].is_some() || current.contains(&copy);
        let others = (0..self.copies.len()).filter(|&copy| copy != source && belongs(copy));
        let mut parts: Vec<Arc<dyn Device>> = self.device(source).cloned().into_iter().collect();
        let sector = parts.first().map(|device| device.sectors().logical);
        for copy in others {
            let Some(device) = self.device(copy) else { continue };
            if device.len() < length || Some(device.sectors().logical) != sector {
                continue;
            }
            match current.contains(&copy) {
                true => parts.push(device.clone()),
                false => parts.push(Arc::new(Donor(device.clone()))),
            }
        }
        let unchanged: Vec<usize> =
            current.into_iter().filter(|&copy| !self.is_written_since(copy)).collect();
        let mut mirror = Mirror::of_parts(parts.into_iter().map(Ok).collect(), Some(length))?;
        mirror.prefer = bit(0);
        let damage = self.judge.mend(Arc::new(mirror));
        // What was just repaired was not changed by somebody else.
        for copy in unchanged {
            let record = &self.copies[copy].record;
            if let Some(history) = self.histories[copy].as_mut().filter(|one| one.state == CopyState::Closed)
                && let Ok(stamp) = record.stamp()
                && history.is_written_since(&stamp)
            {
                history.set_stamp(stamp);
                record.save(&history.to_bytes()).map_err(|why| cannot_save(&self.copies[copy].name, &why))?;
            }
        }
        Ok(damage)
    }

    /// Replaces the device of a copy that is rebuilt by one that `open` makes, which is missing or too short as it is.
    ///
    /// # Errors
    /// Those of `open`, and [`Error::Unusable`] if it cannot be recorded before that the copy is incomplete.
    pub fn renew(&mut self, copy: usize, open: impl FnOnce() -> Result<Arc<dyn Device>>) -> Result<()> {
        let record = &self.copies[copy].record;
        MirrorSet::note_unfinished(&**record).map_err(|why| cannot_save(&self.copies[copy].name, &why))?;
        // Closed first: the device is locked for as long as it is open.
        self.copies[copy].device = Err("it is being made".to_string());
        self.copies[copy].device = Ok(open()?);
        Ok(())
    }

    fn without_source(&self) -> Error {
        let all = self.names().collect::<Vec<_>>().join(",");
        let reason = "no copy can be used, so none can be copied".to_string();
        Error::Unusable { device: format!("mirror:{all}").into(), reason }
    }

    /// Copies the content of `from`, or of a current copy, over every copy that is not current, which then belongs to
    /// the same set. `progress` is called with the number of bytes copied in each step, and says whether to go on. Returns
    /// the number of copies rebuilt.
    ///
    /// # Errors
    /// [`Error::Unusable`] if copies have diverged and `from` does not choose one, and if a copy is too short;
    /// [`Error::Stopped`] if `progress` returned false: the copies are left out then until they are rebuilt.
    pub fn rebuild(mut self, from: Option<usize>, progress: &mut dyn FnMut(u64) -> bool) -> Result<usize> {
        if from.is_none() {
            self.refuse_diverged()?;
        }
        if self.unclosed && from.is_none() {
            self.make_alike()?;
        }
        let current = self.current();
        let number = self.source(from).ok_or_else(|| self.without_source())?;
        let source = self.device(number).cloned().ok_or_else(|| self.without_source())?;
        let length = self.length().unwrap_or(source.len()).min(source.len());
        let mut history = self.histories[number].clone().unwrap_or_else(|| History::new(length));
        let mut targets = self.targets(number, from);
        targets.retain(|&copy| self.device(copy).is_some());
        for &copy in &targets {
            let found = self.device(copy).map_or(0, |device| device.len());
            if found < length {
                let reason = format!("has {found} bytes, too few for a copy of {length}");
                return Err(Error::Unusable { device: self.copies[copy].name.as_str().into(), reason });
            }
        }
        // A copy whose rebuild is cut off has no events in its record, and so is older than every other.
        for &copy in &targets {
            let unfinished = History { events: Vec::new(), state: CopyState::Open, ..history.clone() };
            let copy = &self.copies[copy];
            copy.record.save(&unfinished.to_bytes()).map_err(|why| cannot_save(&copy.name, &why))?;
        }
        for &copy in &targets {
            let target = self.device(copy).expect("chosen so").clone();
            copy_over(&*source, &*target, 0..length, progress)?;
            target.flush()?;
        }
        // A copy that was chosen over others becomes newer than they are, including those that are absent.
        let mut alike = match from {
            Some(_) => vec![number],
            None => current,
        };
        alike.retain(|copy| !targets.contains(copy));
        // The same holds for a copy that was changed outside the mirror, and is current only because no other copy is
        // there.
        let is_newer = from.is_some() || alike.iter().any(|&copy| self.is_changed(copy));
        alike.extend(&targets);
        if is_newer {
            History::add_event([&mut history].into_iter());
        }
        for &copy in &alike {
            let stamp =
                self.copies[copy].record.stamp().map_err(|why| cannot_save(&self.copies[copy].name, &why))?;
            let closed =
                History { state: CopyState::Closed, intent: Intent::default(), stamp, ..history.clone() };
            let copy = &self.copies[copy];
            copy.record.save(&closed.to_bytes()).map_err(|why| cannot_save(&copy.name, &why))?;
        }
        Ok(targets.len())
    }
}

fn cannot_save(name: &str, why: &std::io::Error) -> Error {
    Error::Unusable { device: name.into(), reason: format!("its record cannot be saved: {why}") }
}

/// A copy that is read from and not written to: what is to be repaired on it is overwritten soon.
struct Donor(Arc<dyn Device>);

impl Device for Donor {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn len(&self) -> u64 {
        self.0.len()
    }

    fn sectors(&self) -> Sectors {
        self.0.sectors()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.0.read_at(offset, buffer)
    }

    fn write_at(&self, _offset: u64, _data: &[u8]) -> Result<()> {
        Ok(())
    }

    fn start(&self) -> u64 {
        self.0.start()
    }

    fn next_data(&self, offset: u64) -> u64 {
        self.0.next_data(offset)
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }

    fn discard(&self, _offset: u64, _length: u64) -> Result<()> {
        Ok(())
    }

    fn queue(&self, depth: usize) -> Result<Box<dyn Queue + '_>> {
        self.0.queue(depth)
    }

    fn now(&self) -> Duration {
        self.0.now()
    }
}

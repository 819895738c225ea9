//! Operations on the files of one thread, in directories that all threads share.

use super::slots::{self, SLOT};
use super::watch::Watched;
use super::{DIRECTORIES, Member, SharedVolume, optional, told};
use platter_vfs::{Change, Cursor, Error, Integrity, Kind, Name, Node, RenameFlags, SyncScope};

/// The most files of a thread.
const FILES: usize = 6;
/// The most slots of a file.
const SLOTS: u64 = 3000;
/// The most slots written at once.
const LONGEST: u64 = 400;
/// The most entries read from a directory at once.
const TOGETHER: usize = 100;

/// A file of one thread.
struct Own {
    directory: usize,
    name: String,
    node: Node,
    /// The file's number, which its slots contain.
    id: u64,
    /// The number of the write that each slot must hold, 0 for none.
    held: Vec<u32>,
}

/// The files of one thread.
pub(super) struct OwnFiles {
    thread: u32,
    /// The number of files created so far.
    made: u64,
    files: Vec<Own>,
}

impl OwnFiles {
    pub(super) fn new(thread: u32) -> OwnFiles {
        OwnFiles { thread, made: 0, files: Vec::new() }
    }

    /// Looks up all files.
    pub(super) fn find(&mut self, place: SharedVolume<'_>) -> Result<(), String> {
        for file in &mut self.files {
            let directory = place.directories[file.directory];
            let found = place.system.lookup(directory, &Name::from(&*file.name));
            file.node = told(&format!("lookup {}", file.name), found)?;
        }
        Ok(())
    }

    /// Forgets the nodes that [`OwnFiles::find`] looked up.
    pub(super) fn let_go(&mut self, place: SharedVolume<'_>) {
        for file in &self.files {
            place.system.forget(file.node, 1);
        }
    }

    pub(super) fn read_all(&self, place: SharedVolume<'_>) -> Result<(), String> {
        self.files.iter().try_for_each(|file| file.verify(place))
    }

    fn new_name(&mut self) -> String {
        self.made += 1;
        let long = "n".repeat((self.made % 7 * 20) as usize);
        format!("thread {} file {}{long}", self.thread, self.made)
    }

    /// Fails unless a listing of a directory has each name of this thread in it exactly once, and no other name of this
    /// thread.
    fn list(&self, place: SharedVolume<'_>, directory: usize) -> Result<(), String> {
        let start = format!("thread {} file", self.thread);
        let (mut entries, mut cursor, mut found) = (Vec::new(), Cursor::START, Vec::new());
        loop {
            entries.clear();
            let node = place.directories[directory];
            told("list", place.system.read_directory(node, cursor, TOGETHER, &mut entries))?;
            let Some(last) = entries.last() else { break };
            cursor = last.next;
            let names = entries.iter().map(|entry| entry.name.to_string());
            found.extend(names.filter(|name| name.starts_with(&start)));
        }
        let in_it = self.files.iter().filter(|file| file.directory == directory);
        let mut expected: Vec<String> = in_it.map(|file| file.name.clone()).collect();
        found.sort();
        expected.sort();
        match found == expected {
            true => Ok(()),
            false => Err(format!("directory {directory} lists {found:?}, not {expected:?}")),
        }
    }
}

impl Own {
    fn verify(&self, place: SharedVolume<'_>) -> Result<(), String> {
        let size = told("attributes", place.system.attributes(self.node))?.size;
        if size != self.held.len() as u64 * SLOT {
            return Err(format!("{} has {size} bytes, not {}", self.name, self.held.len() as u64 * SLOT));
        }
        let mut data = vec![0; size as usize];
        let read = told("read", place.system.read(self.node, 0, &mut data))?;
        if read != data.len() {
            return Err(format!("{}: {read} of {size} bytes", self.name));
        }
        for ((slot, index), held) in data.chunks_exact(SLOT as usize).zip(0..).zip(&self.held) {
            let sequence = slots::read(self.id, index, slot)?.map_or(0, |written| written.1);
            if sequence != *held {
                return Err(format!("slot {index} of {} holds write {sequence}, not {held}", self.name));
            }
        }
        Ok(())
    }
}

impl Member {
    /// Does one random operation on one of the thread's own files.
    pub(super) fn on_own(&mut self, place: SharedVolume<'_>, watched: &Watched) -> Result<(), String> {
        let count = self.own.files.len();
        if count == 0 || count < FILES && self.random.chance(10) {
            watched.begins("create".into());
            return self.create(place);
        }
        let which = self.random.below(count as u64) as usize;
        watched.begins(format!("something with {}", self.own.files[which].name));
        match self.random.below(100) {
            0..35 => self.write(place, which),
            35..55 => self.own.files[which].verify(place),
            55..62 => self.resize(place, which),
            62..69 => self.punch_or_allocate(place, which),
            69..77 => self.rename(place, which),
            77..82 => self.unlink(place, which),
            82..86 => self.stream(place, which),
            86..89 => self.link(place, which),
            89..91 if place.toggles => {
                let integrity = Integrity { enabled: self.random.chance(50), enforced: true };
                let node = self.own.files[which].node;
                optional("integrity", place.system.integrity().and_then(|part| part.set(node, integrity)))
                    .map(drop)
            }
            91..96 => {
                let directory = self.random.below(DIRECTORIES as u64) as usize;
                self.own.list(place, directory)
            }
            _ => {
                let scope = if self.random.chance(50) { SyncScope::All } else { SyncScope::Data };
                told("sync", place.system.sync(self.own.files[which].node, scope))
            }
        }
    }

    fn create(&mut self, place: SharedVolume<'_>) -> Result<(), String> {
        let (directory, name) = (self.random.below(DIRECTORIES as u64) as usize, self.own.new_name());
        let made = place.system.create(place.directories[directory], &Name::from(&*name), Kind::File);
        let node = told("create", made)?;
        let id = u64::from(self.number) << 32 | self.own.made | 1 << 63;
        self.own.files.push(Own { directory, name, node, id, held: Vec::new() });
        Ok(())
    }

    fn write(&mut self, place: SharedVolume<'_>, which: usize) -> Result<(), String> {
        let write = self.next_write();
        let length = 1 + self.random.below(LONGEST);
        let file = &mut self.own.files[which];
        let end = file.held.len() as u64;
        let first = if self.random.chance(40) { end } else { self.random.below(SLOTS) };
        if first + length > SLOTS {
            return Ok(());
        }
        let mut data = vec![0; (length * SLOT) as usize];
        slots::fill(file.id, first, write, &mut data);
        told("write", place.system.write(file.node, first * SLOT, &data))?;
        file.held.resize(end.max(first + length) as usize, 0);
        file.held[first as usize..(first + length) as usize].fill(write.1);
        Ok(())
    }

    fn resize(&mut self, place: SharedVolume<'_>, which: usize) -> Result<(), String> {
        let slots = self.random.below(SLOTS);
        let file = &mut self.own.files[which];
        let change = Change { size: Some(slots * SLOT), ..Change::default() };
        told("resize", place.system.set_attributes(file.node, &change))?;
        file.held.resize(slots as usize, 0);
        Ok(())
    }

    fn punch_or_allocate(&mut self, place: SharedVolume<'_>, which: usize) -> Result<(), String> {
        let (from, length) = (self.random.below(SLOTS), 1 + self.random.below(LONGEST));
        let (punches, keep_size) = (self.random.chance(60), self.random.chance(50));
        let file = &mut self.own.files[which];
        let (from, to) = (from.min(file.held.len() as u64), (from + length).min(SLOTS));
        if from >= to {
            return Ok(());
        }
        let bytes = from * SLOT..to * SLOT;
        if punches {
            if optional("punch", place.system.punch(file.node, bytes))? {
                let end = (to as usize).min(file.held.len());
                file.held[from as usize..end].fill(0);
            }
        } else if optional("allocate", place.system.allocate(file.node, bytes, keep_size))? && !keep_size {
            file.held.resize(file.held.len().max(to as usize), 0);
        }
        Ok(())
    }

    fn rename(&mut self, place: SharedVolume<'_>, which: usize) -> Result<(), String> {
        let (to, new_name) = (self.random.below(DIRECTORIES as u64) as usize, self.own.new_name());
        let file = &mut self.own.files[which];
        let from = place.directories[file.directory];
        let (name, into) = (Name::from(&*file.name), Name::from(&*new_name));
        told(
            "rename",
            place.system.rename(from, &name, place.directories[to], &into, RenameFlags::NoReplace),
        )?;
        match place.system.lookup(from, &name) {
            Err(Error::NotFound) => {}
            other => return Err(format!("{name} was renamed, and lookup says {other:?}")),
        }
        (file.directory, file.name) = (to, new_name);
        Ok(())
    }

    /// Unlinks a file, and reads it once more before forgetting its node.
    fn unlink(&mut self, place: SharedVolume<'_>, which: usize) -> Result<(), String> {
        let file = self.own.files.swap_remove(which);
        told("unlink", place.system.unlink(place.directories[file.directory], &Name::from(&*file.name)))?;
        let read = file.verify(place).map_err(|wrong| format!("after unlink: {wrong}"));
        place.system.forget(file.node, 1);
        read
    }

    /// Writes a named stream of a file and reads it back.
    fn stream(&mut self, place: SharedVolume<'_>, which: usize) -> Result<(), String> {
        let write = self.next_write();
        let mut data = vec![0; ((1 + self.random.below(60)) * SLOT) as usize];
        let file = &self.own.files[which];
        let side = match place.system.streams().and_then(|part| part.open(file.node, &"side".into(), true)) {
            Err(Error::Unsupported { .. }) => return Ok(()),
            side => told("stream", side)?,
        };
        let change = Change { size: Some(data.len() as u64), ..Change::default() };
        slots::fill(!file.id, 0, write, &mut data);
        told("write a stream", place.system.write(side, 0, &data))?;
        told("resize a stream", place.system.set_attributes(side, &change))?;
        let mut seen = vec![0; data.len()];
        let read = told("read a stream", place.system.read(side, 0, &mut seen))?;
        place.system.forget(side, 1);
        match read == data.len() && seen == data {
            true => Ok(()),
            false => Err(format!("a stream of {} is not what was written", file.name)),
        }
    }

    /// Gives a file a second name and removes its first one.
    fn link(&mut self, place: SharedVolume<'_>, which: usize) -> Result<(), String> {
        let (to, new_name) = (self.random.below(DIRECTORIES as u64) as usize, self.own.new_name());
        let file = &mut self.own.files[which];
        let linked = place.system.link(file.node, place.directories[to], &Name::from(&*new_name));
        if optional("link", linked)? {
            let name = Name::from(&*file.name);
            told("unlink a second name", place.system.unlink(place.directories[file.directory], &name))?;
            (file.directory, file.name) = (to, new_name);
        }
        Ok(())
    }
}

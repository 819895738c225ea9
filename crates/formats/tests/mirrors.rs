//! Mirrors in random histories: sessions on the set and on single copies, by programs that know of the mirror and by
//! others, here or on another machine, also of a copy that is away; copies that are away, blank, short or damaged; devices
//! that change their names; records that are lost, rebuilding, scrubs, and a power cut or a killed process at any write.
//!
//! The test remembers which synced writes are on each copy: new files, and files that were overwritten in place. What must hold: a set that opens has every synced file of
//! the copies that take no part, and all copies that take part have the same files; a set that does not open has a
//! reason, and its error says how to go on; and a copy that takes no part is not written to.

use platter_device::{
    Device, Immediate, MemoryDevice, MirrorCopy, MirrorJudge, MirrorRecord, MirrorSet, OverlayDevice,
    Partition, Queue, Result, Sectors, Standing,
};
use platter_formats::{Judge, by_name, metadata_sum};
use platter_testing::model::{Random, seed};
use platter_vfs::{
    Change, CheckOptions, FileSystem, FormatOptions, Kind, Name, Node, OpenOptions, ScrubOptions, Silent,
    SyncScope, Timestamp,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// The formats, each with the size of its volumes in bytes.
const FORMATS: [(&str, u64); 7] = [
    ("fat12", 4 << 20),
    ("fat16", 16 << 20),
    ("fat32", 48 << 20),
    ("exfat", 8 << 20),
    ("ntfs", 16 << 20),
    ("refs", 320 << 20),
    ("refs+integrity", 320 << 20),
];
const SECTOR: u64 = 512;

/// The number of writes that a process can still make until it ends.
struct Life(AtomicU64);

impl Life {
    /// Returns whether one more write is carried out, and counts it: a process that has ended writes nothing.
    fn lives(&self) -> bool {
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
    }

    fn has_ended(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }

    fn begin(&self, writes: u64) {
        self.0.store(writes, Ordering::Relaxed);
    }
}

const FOREVER: u64 = u64::MAX;

/// A disk with a write cache, which a power cut empties.
struct Disk {
    memory: MemoryDevice,
    life: Arc<Life>,
    /// The number of writes that were ever carried out.
    written: AtomicU64,
    /// How often the disk was put into a machine: what this counts of its writes begins anew each time.
    start: AtomicU64,
    /// For each write since the last flush, its offset and the content that it replaced.
    cached: Mutex<Vec<(u64, Vec<u8>)>>,
}

impl Disk {
    fn new(length: u64, life: &Arc<Life>) -> Arc<Disk> {
        let memory = MemoryDevice::new(length, Sectors::SMALL);
        Arc::new(Disk {
            memory,
            life: life.clone(),
            written: AtomicU64::new(0),
            start: AtomicU64::new(0),
            cached: Mutex::default(),
        })
    }

    /// Cuts the power: each sector written since the last flush gets back one of the contents that it had since then.
    fn cut(&self, random: &mut Random) {
        let mut versions: BTreeMap<u64, Vec<Vec<u8>>> = BTreeMap::new();
        for (offset, before) in self.cached.lock().unwrap().drain(..) {
            for (number, sector) in before.chunks(SECTOR as usize).enumerate() {
                versions.entry(offset + number as u64 * SECTOR).or_default().push(sector.to_vec());
            }
        }
        for (offset, versions) in versions {
            let pick = random.below(versions.len() as u64 + 1) as usize;
            if let Some(version) = versions.get(pick) {
                self.memory.write_at(offset, version).unwrap();
            }
        }
    }

    fn change(&self, offset: u64, bytes: &[u8]) {
        self.memory.write_at(offset, bytes).unwrap();
    }
}

impl Device for Disk {
    fn name(&self) -> &str {
        "disk"
    }
    fn len(&self) -> u64 {
        self.memory.len()
    }
    fn sectors(&self) -> Sectors {
        Sectors::SMALL
    }
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.memory.read_at(offset, buffer)
    }
    fn write_at(&self, offset: u64, data: &[u8]) -> Result<()> {
        if self.life.lives() {
            let mut before = vec![0; data.len()];
            self.memory.read_at(offset, &mut before)?;
            self.cached.lock().unwrap().push((offset, before));
            self.written.fetch_add(1, Ordering::Relaxed);
            self.memory.write_at(offset, data)?;
        }
        Ok(())
    }
    fn next_data(&self, offset: u64) -> u64 {
        self.memory.next_data(offset)
    }
    fn flush(&self) -> Result<()> {
        if !self.life.has_ended() {
            self.cached.lock().unwrap().clear();
        }
        Ok(())
    }
    fn discard(&self, _offset: u64, _length: u64) -> Result<()> {
        Ok(())
    }
    fn queue(&self, depth: usize) -> Result<Box<dyn Queue + '_>> {
        Ok(Box::new(Immediate::new(self, depth)))
    }
}

/// The record of a copy, kept in memory.
struct Record {
    bytes: Mutex<Option<Vec<u8>>>,
    disk: Mutex<Arc<Disk>>,
    /// Whether it stands under what belongs to the disk, and not under the name of the disk.
    is_identified: bool,
}

impl MirrorRecord for Record {
    fn load(&self) -> std::io::Result<Option<Vec<u8>>> {
        Ok(self.bytes.lock().unwrap().clone())
    }
    fn save(&self, bytes: &[u8]) -> std::io::Result<()> {
        if self.disk.lock().unwrap().life.lives() {
            *self.bytes.lock().unwrap() = Some(bytes.to_vec());
        }
        Ok(())
    }
    fn stamp(&self) -> std::io::Result<String> {
        let disk = self.disk.lock().unwrap().clone();
        let (start, written) = (disk.start.load(Ordering::Relaxed), disk.written.load(Ordering::Relaxed));
        let length = disk.len();
        let sum = metadata_sum(&(disk as Arc<dyn Device>));
        Ok(format!("device {length} 0 0 {sum:016x} start.{start} {written}"))
    }
    fn is_identified(&self) -> bool {
        self.is_identified
    }
}

/// Whether a copy is there.
#[derive(Clone, Copy, PartialEq, Debug)]
enum There {
    Yes,
    Away,
    /// The copy is there without its second half.
    Short,
}

struct Copy {
    disk: Arc<Disk>,
    record: Arc<Record>,
    there: There,
    /// The numbers of the synced writes to the copy, which are on it unless something happened to it.
    knows: BTreeSet<u64>,
    /// The copy holds no volume, or half of one.
    is_void: bool,
    /// Something happened to the copy that cannot be told from a deliberate change by a person, which is a reason to
    /// refuse the set.
    is_suspect: bool,
    /// Sectors of the copy were damaged, and not all of them have been repaired.
    is_rotten: bool,
}

struct History {
    format: &'static str,
    length: u64,
    life: Arc<Life>,
    copies: Vec<Copy>,
    /// For each write its number, beginning with 1, and the file that it wrote, which has the number of its first write.
    writes: Vec<u64>,
    random: Random,
    told: Vec<String>,
}

/// Whether a person has given the copy up, so that it is to be overwritten.
fn is_given_up(standing: &Standing) -> bool {
    matches!(standing, Standing::LeftOut(why) if why.contains("being rebuilt"))
}

/// What a write of this number wrote to a file.
fn content(write: u64, file: u64) -> Vec<u8> {
    Random::new(write * 7 + 1).bytes(1 + (file * 7919 % 20_000) as usize)
}

impl History {
    fn new(seed: u64, format: &'static str, length: u64) -> History {
        let mut random = Random::new(seed);
        let life = Arc::new(Life(AtomicU64::new(FOREVER)));
        let is_identified = random.chance(70);
        let copies = (0..2 + random.below(2)).map(|_| {
            let disk = Disk::new(length, &life);
            for (offset, bytes) in made(format, length).iter() {
                disk.change(*offset, bytes);
            }
            let record = Record { bytes: Mutex::default(), disk: Mutex::new(disk.clone()), is_identified };
            Copy {
                disk,
                record: Arc::new(record),
                there: There::Yes,
                knows: BTreeSet::new(),
                is_void: false,
                is_suspect: false,
                is_rotten: false,
            }
        });
        let copies: Vec<Copy> = copies.collect();
        let records: Vec<Arc<dyn MirrorRecord>> =
            copies.iter().map(|copy| copy.record.clone() as _).collect();
        MirrorSet::found(&records, length).unwrap();
        History { format, length, life, copies, writes: Vec::new(), random, told: Vec::new() }
    }

    fn tell(&mut self, what: String) {
        self.told.push(what);
    }

    fn look(&self) -> MirrorSet {
        let copies = self.copies.iter().enumerate().map(|(number, copy)| {
            let device: std::result::Result<Arc<dyn Device>, String> = match copy.there {
                There::Yes => Ok(copy.disk.clone()),
                There::Away => Err("it is missing".into()),
                There::Short => Ok(Arc::new(
                    Partition::new(copy.disk.clone(), 0, self.length / 2, "short".into()).unwrap(),
                )),
            };
            MirrorCopy { name: format!("copy{number}"), device, record: copy.record.clone() }
        });
        MirrorSet::look(copies.collect(), &Judge)
    }

    /// Whether a copy can be part of the set.
    fn is_usable(&self, copy: usize) -> bool {
        self.copies[copy].there == There::Yes && !self.copies[copy].is_void
    }

    fn usable(&self) -> Vec<usize> {
        (0..self.copies.len()).filter(|&copy| self.is_usable(copy)).collect()
    }

    fn written(&self) -> Vec<u64> {
        self.copies.iter().map(|copy| copy.disk.written.load(Ordering::Relaxed)).collect()
    }

    /// Checks that the set has a reason not to open, and that the error says how to go on.
    fn judge_refusal(&self, error: &str) {
        let usable = self.usable();
        let is_divided = usable.iter().any(|&one| {
            usable.iter().any(|&two| {
                !self.copies[one].knows.is_subset(&self.copies[two].knows)
                    && !self.copies[two].knows.is_subset(&self.copies[one].knows)
            })
        });
        // Copies that are away or short count too: their records tell what happened to them before.
        // Damage where every program writes looks like a write.
        let is_suspect = self.copies.iter().any(|copy| copy.is_suspect || copy.is_rotten);
        assert!(is_divided || is_suspect || usable.is_empty(), "no reason to refuse: {error}");
        assert!(
            error.contains("--from") || error.contains("no copy can be used"),
            "it says no way on: {error}"
        );
    }

    /// Returns the copies that take part, and the synced files that they have. Checks that no other copy has a file
    /// that these lack.
    fn judge_parts(&self, standings: &[Standing]) -> (Vec<usize>, BTreeSet<u64>) {
        let parts: Vec<usize> = (0..self.copies.len())
            .filter(|&copy| matches!(standings[copy], Standing::Current | Standing::Damaged))
            .collect();
        for &part in &parts {
            assert!(self.is_usable(part), "copy {part} takes part: {:?}", standings[part]);
        }
        let good = parts.iter().copied().find(|&part| standings[part] == Standing::Current);
        let good = good.unwrap_or(parts[0]);
        let knows = self.copies[good].knows.clone();
        for copy in self.usable() {
            let its = &self.copies[copy].knows;
            match parts.contains(&copy) {
                // Of a copy whose volume does not open for damage, it cannot be told which files it had.
                true if self.copies[copy].is_rotten && standings[copy] == Standing::Damaged => {}
                true => assert_eq!(
                    *its, knows,
                    "copies {copy} and {} take part and know different files",
                    parts[0]
                ),
                false => assert!(its.is_subset(&knows), "what copy {copy} alone has is lost: {standings:?}"),
            }
        }
        (parts, knows)
    }

    /// Whether everything must be read correctly from these copies: if none is damaged or, as checksums show damage, if
    /// at least one is not.
    fn must_be_right(&self, parts: &[usize]) -> bool {
        let rotten = parts.iter().filter(|&&part| self.copies[part].is_rotten).count();
        rotten == 0 || self.format == "refs+integrity" && rotten < parts.len()
    }

    fn judge_files(&self, system: &dyn FileSystem, knows: &BTreeSet<u64>) {
        // Of several writes to a file the last one counts.
        let last: BTreeMap<u64, u64> =
            knows.iter().map(|&write| (self.writes[write as usize - 1], write)).collect();
        for (file, write) in last {
            let expected = content(write, file);
            let mut found = vec![0; expected.len() + 1];
            let node = system.lookup(Node::ROOT, &Name::from(format!("file{file}").as_str()));
            let node = node.unwrap_or_else(|error| panic!("file{file} is lost: {error}"));
            let read = system.read(node, 0, &mut found).unwrap_or_else(|error| panic!("file{file}: {error}"));
            assert!(
                found[..read] == expected[..],
                "file{file} has not what write {write} wrote, {read} bytes"
            );
            system.forget(node, 1);
        }
    }

    /// Opens a device for writing. FAT and exFAT have no log: after a crash, clusters of files may be marked free until
    /// a check has repaired the volume.
    fn open(&self, device: Arc<dyn Device>) -> platter_vfs::Result<Arc<dyn FileSystem>> {
        let format = by_name(self.format).unwrap();
        let read_only = OpenOptions { read_only: true, ..OpenOptions::default() };
        let system = format.open(device.clone(), read_only)?;
        let is_in_doubt = !system.capabilities().recovers && system.info()?.dirty;
        drop(system);
        if is_in_doubt {
            format.check(&*device, CheckOptions { repair: true }, &Silent)?;
        }
        format.open(device, OpenOptions::default())
    }

    /// Writes a few files, or over one that is known, and syncs each. Returns the numbers of the writes whose syncs
    /// succeeded.
    fn write(&mut self, system: &dyn FileSystem, knows: &BTreeSet<u64>, is_cut: bool) -> BTreeSet<u64> {
        let mut synced = BTreeSet::new();
        let is_small = self.random.chance(40);
        for _ in 0..if is_small { 1 } else { 1 + self.random.below(3) } {
            let number = self.writes.len() as u64 + 1;
            // A cut leaves parts of what was being overwritten in place.
            let known: Vec<u64> = knows.iter().map(|&write| self.writes[write as usize - 1]).collect();
            let is_over = is_small && !is_cut && !known.is_empty();
            let file = if is_over { *self.random.pick(&known) } else { number };
            self.writes.push(file);
            // Times of FAT are in steps of 2 seconds, and between two programs that write more time passes.
            let modified = Some(Timestamp { seconds: 1_700_000_000 + 10 * number as i64, nanoseconds: 0 });
            let write = |name: &str, bytes: &[u8], sync: bool| -> platter_vfs::Result<()> {
                let name = Name::from(name);
                let node = match system.lookup(Node::ROOT, &name) {
                    Ok(node) => node,
                    Err(_) => system.create(Node::ROOT, &name, Kind::File)?,
                };
                system.write(node, 0, bytes)?;
                if sync {
                    system.set_attributes(node, &Change { modified, ..Change::default() })?;
                    system.sync(node, SyncScope::All)?;
                }
                system.forget(node, 1);
                Ok(())
            };
            // This file is overwritten in place and not synced: it is where copies differ after a cut.
            if !is_over {
                let _ = write("scratch", &content(number + 1_000_000, number), false);
            }
            let is_synced = write(&format!("file{file}"), &content(number, file), true).is_ok();
            if is_synced && !self.life.has_ended() {
                synced.insert(number);
            }
        }
        synced
    }

    /// Makes the disks usable again after a process has ended. Half of the time they lose writes that were not flushed.
    fn after_a_cut(&mut self) {
        if self.random.chance(50) {
            let History { copies, random, .. } = self;
            copies.iter().for_each(|copy| copy.disk.cut(random));
        }
        self.copies.iter().for_each(|copy| copy.disk.cached.lock().unwrap().clear());
        self.life.begin(FOREVER);
    }

    /// Begins a process. With a chance of `percent` it ends after fewer than 60 writes; returns whether it does.
    fn begin(&mut self, percent: u64) -> bool {
        let is_cut = self.random.chance(percent);
        self.life.begin(if is_cut { self.random.below(60) } else { FOREVER });
        is_cut
    }

    /// Opens the set for writing, judges and writes files, and unmounts it.
    fn session(&mut self) {
        let is_cut = self.begin(50);
        let before = self.written();
        let set = self.look();
        let standings = set.standings().to_vec();
        self.tell(format!("session, cut: {is_cut}, unclosed: {}, {standings:?}", set.is_unclosed()));
        let mirror = match set.open(true) {
            Ok(mirror) => mirror,
            Err(error) => {
                self.after_a_cut();
                self.judge_refusal(&error.to_string());
                assert_eq!(self.written(), before, "a refused set is written to");
                return self.settle();
            }
        };
        let (parts, knows) = self.judge_parts(&standings);
        let must_be_right = self.must_be_right(&parts);
        let opened = self.open(Arc::new(mirror));
        let mut synced = BTreeSet::new();
        match opened {
            Ok(system) => {
                if must_be_right && !self.life.has_ended() {
                    self.judge_files(&*system, &knows);
                }
                synced = self.write(&*system, &knows, is_cut);
                let _ = system.unmount();
            }
            Err(error) => assert!(!must_be_right || self.life.has_ended(), "it does not open: {error}"),
        }
        let was_cut = self.life.has_ended();
        self.after_a_cut();
        let after = self.written();
        for (number, copy) in self.copies.iter_mut().enumerate() {
            if parts.contains(&number) {
                // What only a copy had whose volume did not open for damage is given up when the copy takes part.
                if standings[number] == Standing::Damaged && copy.is_rotten && after[number] != before[number]
                {
                    copy.knows.clone_from(&knows);
                }
                copy.knows.extend(&synced);
                // Until something is written, no record says that there was a session.
                copy.is_suspect = was_cut || copy.is_suspect && after[number] == before[number];
            } else {
                assert_eq!(
                    after[number], before[number],
                    "copy {number}, which took no part, was written to"
                );
            }
        }
    }

    /// Opens the set for reading, and judges the files.
    fn read(&mut self) {
        let before = self.written();
        let set = self.look();
        let standings = set.standings().to_vec();
        self.tell(format!("read, unclosed: {}, {standings:?}", set.is_unclosed()));
        match set.open(false) {
            Ok(mirror) => {
                let (parts, knows) = self.judge_parts(&standings);
                if self.must_be_right(&parts) {
                    let options = OpenOptions { read_only: true, ..OpenOptions::default() };
                    let system = by_name(self.format).unwrap().open(Arc::new(mirror), options).unwrap();
                    self.judge_files(&*system, &knows);
                } else {
                    drop(mirror);
                }
            }
            Err(error) => self.judge_refusal(&error.to_string()),
        }
        if !self.copies.iter().any(|copy| copy.is_rotten) {
            assert_eq!(self.written(), before, "reading writes");
        }
    }

    /// Uses one copy alone, with Platter, which notes that in the copy's record, or with another program, here or on
    /// another machine, where also a copy is used that is away.
    fn alone(&mut self, is_noted: bool) {
        let is_elsewhere = !is_noted && self.random.chance(60);
        let is_there = |copy: &Copy| copy.there == There::Yes || is_elsewhere && copy.there == There::Away;
        let is_good = |copy: &Copy| is_there(copy) && !copy.is_void && !copy.is_rotten;
        let usable: Vec<usize> = (0..self.copies.len()).filter(|&copy| is_good(&self.copies[copy])).collect();
        if usable.is_empty() {
            return;
        }
        let number = *self.random.pick(&usable);
        let record = self.copies[number].record.load().unwrap().unwrap_or_default();
        let is_open = record.windows(10).any(|words| words == b"state open");
        if !is_noted && (is_open || self.look().is_unclosed()) {
            // The writes of another program cannot be told from those that a cut left.
            return;
        }
        let is_cut = self.begin(20);
        self.tell(format!(
            "copy {number} alone, noted: {is_noted}, elsewhere: {is_elsewhere}, cut: {is_cut}"
        ));
        if is_noted {
            MirrorSet::note_alone(&*self.copies[number].record).unwrap();
        }
        let disk = self.copies[number].disk.clone();
        if is_elsewhere {
            disk.start.fetch_add(1, Ordering::Relaxed);
        }
        let before = disk.written.load(Ordering::Relaxed);
        let system = self.open(disk.clone());
        let mut synced = BTreeSet::new();
        match system {
            Ok(system) => {
                let knows = self.copies[number].knows.clone();
                if !self.life.has_ended() {
                    self.judge_files(&*system, &knows);
                }
                synced = self.write(&*system, &knows, is_cut);
                let _ = system.unmount();
            }
            Err(error) => assert!(self.life.has_ended(), "copy {number} alone does not open: {error}"),
        }
        self.after_a_cut();
        self.copies[number].knows.extend(synced);
        if !is_cut {
            let options = OpenOptions { read_only: true, ..OpenOptions::default() };
            let system = by_name(self.format).unwrap().open(disk.clone(), options).unwrap();
            let knows = self.copies[number].knows.clone();
            self.judge_files(&*system, &knows);
        }
        // Of a disk that was elsewhere and has no record of its own, less is known.
        let is_in_doubt = is_elsewhere && !self.copies[number].record.is_identified;
        self.copies[number].is_suspect |=
            is_noted || is_in_doubt || disk.written.load(Ordering::Relaxed) != before;
    }

    /// Two disks change their names, as after a start in which the system finds them in another order. Records under what
    /// belongs to a disk go with it; the others stay with the names, and are a reason to refuse the set.
    fn swap(&mut self) {
        let count = self.copies.len() as u64;
        let (one, other) = (self.random.below(count) as usize, self.random.below(count) as usize);
        self.tell(format!("disks {one} and {other} change their names"));
        self.copies.swap(one, other);
        for number in [one, other] {
            self.copies[number].disk.start.fetch_add(1, Ordering::Relaxed);
        }
        if one != other && !self.copies[one].record.is_identified {
            let (one, other) = (&self.copies[one].record, &self.copies[other].record);
            std::mem::swap(&mut *one.bytes.lock().unwrap(), &mut *other.bytes.lock().unwrap());
            self.copies.iter_mut().for_each(|copy| copy.is_suspect = true);
        }
    }

    /// An accident happens to a copy: it goes away or comes back, becomes short, is replaced, loses its record, or is
    /// damaged.
    fn accident(&mut self) {
        let number = self.random.below(self.copies.len() as u64) as usize;
        let which = self.random.below(7);
        self.tell(format!("accident {which} to copy {number}"));
        let usable = self.usable().len();
        let (life, length) = (self.life.clone(), self.length);
        let is_unclosed = self.look().is_unclosed();
        let is_checked = self.format == "refs+integrity";
        let sectors: Vec<u64> = (0..1 + self.random.below(20)).map(|_| self.place(number)).collect();
        let any_rotten = self.copies.iter().any(|copy| copy.is_rotten);
        // A record may be lost only while all other copies have theirs: without any record, nothing tells which copy
        // was short, blank or used alone.
        let has_record =
            |copy: &Copy| copy.there == There::Yes && !copy.is_void && copy.record.load().unwrap().is_some();
        let others =
            self.copies.iter().enumerate().filter(|(other, copy)| *other != number && has_record(copy));
        let others = others.count();
        let may_forget = self.is_usable(number) && others + 1 == self.copies.len();
        // A set that is written to while a copy is away, and of which a copy that is there has no record, can be
        // another set from then on.
        let has_forgotten = |copy: &Copy| copy.there == There::Yes && copy.record.load().unwrap().is_none();
        let may_part = self.copies.iter().any(has_forgotten);
        let copy = &mut self.copies[number];
        match which {
            0 | 1 => {
                copy.there = if copy.there == There::Yes { There::Away } else { There::Yes };
                copy.is_suspect |= may_part;
            }
            2 => {
                copy.there = There::Short;
                copy.is_suspect |= may_part;
            }
            3 if usable > 1 => {
                // A new disk takes the place of the copy's. The record stays, as where the host keeps it, or is lost
                // too, unless it is the last one.
                copy.disk = Disk::new(length, &life);
                *copy.record.disk.lock().unwrap() = copy.disk.clone();
                (copy.is_void, copy.is_rotten, copy.there) = (true, false, There::Yes);
                if length.is_multiple_of(3) && others > 0 {
                    *copy.record.bytes.lock().unwrap() = None;
                }
            }
            4 if may_forget => {
                *copy.record.bytes.lock().unwrap() = None;
                copy.is_suspect = true;
            }
            // Sectors of the disk go bad, which its record does not notice.
            5 if is_checked && !any_rotten && usable > 1 && !copy.is_void => {
                sectors.iter().for_each(|&at| copy.disk.change(at, &[0x5A; SECTOR as usize]));
                copy.is_rotten = true;
            }
            // Another program writes over sectors of the copy, which its record notices.
            6 if !any_rotten && usable > 1 && !copy.is_void && !is_unclosed && copy.there == There::Yes => {
                sectors.iter().for_each(|&at| copy.disk.change(at, &[0x5A; SECTOR as usize]));
                copy.disk.written.fetch_add(1, Ordering::Relaxed);
                (copy.is_rotten, copy.is_suspect) = (true, true);
            }
            _ => {}
        }
    }

    /// Returns the offset of a sector that is not all zeroes; 0 if none was found.
    fn place(&mut self, copy: usize) -> u64 {
        let disk = self.copies[copy].disk.clone();
        for _ in 0..20 {
            let at = disk.next_data(self.random.below(self.length));
            if at < self.length {
                let at = (at + self.random.below(1 << 20)).min(self.length - SECTOR) / SECTOR * SECTOR;
                let mut sector = [0; SECTOR as usize];
                disk.read_at(at, &mut sector).unwrap();
                if sector.iter().any(|&byte| byte != 0) {
                    return at;
                }
            }
        }
        0
    }

    /// Makes short copies whole again, and rebuilds the set: all copies that are not current or, if a person chose the
    /// copy `from`, all others.
    fn rebuild(&mut self, from: Option<usize>) {
        for copy in &mut self.copies {
            if copy.there == There::Short {
                MirrorSet::note_unfinished(&*copy.record).unwrap();
                let half = self.length / 2 / SECTOR * SECTOR;
                let zeroes = vec![0; 1 << 20];
                let mut at = copy.disk.next_data(half);
                while at < self.length {
                    let piece = (self.length - at).min(1 << 20);
                    copy.disk.change(at, &zeroes[..piece as usize]);
                    at = copy.disk.next_data(at + piece);
                }
                let is_noted = copy.record.load().unwrap().is_some();
                (copy.there, copy.is_void, copy.is_suspect) = (There::Yes, copy.is_void || is_noted, true);
                // Without a record, only its content shows that half of the copy is empty.
                copy.is_rotten |= !is_noted;
            }
        }
        let is_cut = self.begin(30);
        let before = self.written();
        let set = self.look();
        let standings = set.standings().to_vec();
        self.tell(format!("rebuild from {from:?}, cut: {is_cut}, {standings:?}"));
        let rebuilt = set.rebuild(from, &mut |_| true);
        let was_cut = self.life.has_ended();
        self.after_a_cut();
        if let Err(error) = rebuilt {
            self.judge_refusal_of_rebuild(&error.to_string());
            if from.is_none() {
                assert_eq!(self.written(), before, "what was refused is written to");
            }
            return;
        }
        let (source, knows) = match from {
            Some(from) => (vec![from], self.copies[from].knows.clone()),
            None => self.judge_parts(&standings),
        };
        let is_rotten = source.iter().any(|&copy| self.copies[copy].is_rotten);
        // The process may have ended after the last record was written and the work done, so the copies are looked at
        // again.
        let after = self.look().standings().to_vec();
        for number in 0..self.copies.len() {
            if self.copies[number].there != There::Yes || from == Some(number) {
                continue;
            }
            let is_target = from.is_some() || standings[number] != Standing::Current;
            let copy = &mut self.copies[number];
            let is_untouched = copy.disk.written.load(Ordering::Relaxed) == before[number];
            copy.is_suspect |= was_cut;
            match (is_target, was_cut) {
                (false, _) => {}
                // The process ended before it came to this copy, or there was nothing to do.
                (true, true) if is_untouched && !copy.is_void && !is_given_up(&after[number]) => {}
                // The process ended while it made copies alike that a session had left different.
                (true, true) if after[number] == Standing::Damaged => copy.is_rotten = true,
                (true, true) if after[number] != Standing::Current => copy.is_void = true,
                (true, _) => {
                    copy.knows = knows.clone();
                    (copy.is_void, copy.is_suspect, copy.is_rotten) = (false, was_cut, is_rotten);
                }
            }
        }
        for copy in source {
            self.copies[copy].is_suspect = was_cut;
        }
    }

    fn judge_refusal_of_rebuild(&self, error: &str) {
        if !error.contains("so none can be copied") {
            self.judge_refusal(error);
        }
    }

    /// Rebuilds the set from an undamaged copy that a person chooses, if there is one.
    fn settle(&mut self) {
        let usable = self.usable();
        let sound: Vec<usize> = usable.iter().copied().filter(|&copy| !self.copies[copy].is_rotten).collect();
        if let Some(&from) = sound.first().map(|_| self.random.pick(&sound)) {
            self.rebuild(Some(from));
        }
    }

    /// Scrubs the set, which repairs everything that has a checksum.
    fn scrub(&mut self) {
        if self.format != "refs+integrity" {
            return;
        }
        let set = self.look();
        let standings = set.standings().to_vec();
        self.tell(format!("scrub, {standings:?}"));
        let before = self.written();
        let Ok(mirror) = set.open(true) else { return };
        let (parts, knows) = self.judge_parts(&standings);
        let must_be_right = self.must_be_right(&parts);
        let report = by_name(self.format).unwrap().scrub(Arc::new(mirror), &ScrubOptions::default(), &Silent);
        if must_be_right {
            let report = report.unwrap_or_else(|error| panic!("scrub: {error}"));
            assert_eq!(report.lost, 0, "{:?}", report.damaged);
            let after = self.written();
            for part in parts {
                let copy = &mut self.copies[part];
                // Where nothing was repaired, no record says that there was a scrub.
                (copy.is_rotten, copy.is_suspect) = (false, copy.is_suspect && after[part] == before[part]);
                copy.knows = knows.clone();
            }
        }
    }

    fn step(&mut self) {
        match self.random.below(13) {
            0..=3 => self.session(),
            4 | 5 => self.read(),
            6 => self.alone(true),
            7 => self.alone(false),
            8 | 9 => self.accident(),
            10 => self.rebuild(None),
            11 => self.swap(),
            _ => self.scrub(),
        }
    }
}

/// Prints the history of a test that panics.
struct Teller<'h>(&'h Mutex<Vec<String>>, u64, &'static str);

impl Drop for Teller<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("history {} of {}:", self.1, self.2);
            self.0.lock().unwrap().iter().for_each(|line| println!("  {line}"));
        }
    }
}

/// Lives a history, and returns the number of its steps.
fn live(seed: u64, format: &'static str, length: u64) -> u64 {
    let mut history = History::new(seed, format, length);
    let steps = 6 + history.random.below(12);
    let told = Mutex::new(Vec::new());
    let _teller = Teller(&told, seed, format);
    for _ in 0..steps {
        let step = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| history.step()));
        told.lock().unwrap().append(&mut history.told);
        if let Err(panic) = step {
            std::panic::resume_unwind(panic);
        }
    }
    steps
}

#[test]
fn no_history_of_a_mirror_loses_what_was_synced() {
    for (format, length) in FORMATS {
        (0..12).for_each(|number| assert!(live(number, format, length) > 0));
    }
}

/// Histories of the campaign in which the test once failed.
#[test]
fn histories_that_ended_badly_end_well() {
    let once = [
        ("fat32", 86_640_437),
        ("fat32", 86_641_027),
        ("exfat", 86_641_561),
        ("refs", 86_641_122),
        ("refs+integrity", 86_640_185),
        ("refs", 86_641_344),
        ("refs+integrity", 86_640_769),
        ("refs+integrity", 86_640_785),
        ("refs+integrity", 86_640_803),
        ("refs+integrity", 86_641_369),
        ("refs+integrity", 86_641_402),
        ("refs+integrity", 86_641_738),
        ("refs+integrity", 86_641_920),
        ("refs+integrity", 86_641_957),
        ("refs+integrity", 11_260_117),
        ("refs+integrity", 11_260_534),
        ("refs+integrity", 11_260_929),
        ("refs+integrity", 11_261_102),
        ("refs+integrity", 11_261_863),
        ("refs+integrity", 11_270_340),
        ("refs+integrity", 11_280_705),
        ("fat32", 11_301_700),
        ("refs+integrity", 570_311),
        ("refs+integrity", 580_723),
        ("fat12", 866_400_000_171),
        ("ntfs", 86_640_100_000_303),
        ("refs", 86_640_100_001_456),
        ("refs", 86_640_100_002_371),
        ("fat16", 86_640_100_002_602),
        ("refs+integrity", 86_640_100_004_637),
        ("refs+integrity", 301_100_002_045),
        ("refs", 302_200_000_800),
        ("ntfs", 303_200_000_658),
        ("refs", 305_100_002_166),
        ("refs+integrity", 730_100_005_630),
        ("exfat", 730_100_014_317),
        ("refs", 800_100_005_815),
    ];
    for (format, seed) in once {
        let (_, length) = FORMATS.into_iter().find(|(name, _)| *name == format).unwrap();
        live(seed, format, length);
    }
}

/// A cut-off session is made whole from the copy that has most: one whose disk lost the last checkpoint opens as well as
/// the others.
#[test]
fn of_copies_that_open_the_newer_is_the_sounder() {
    let device = Arc::new(MemoryDevice::new(320 << 20, Sectors::SMALL));
    let refs = by_name("refs").unwrap();
    refs.make(&*device, &FormatOptions::default(), &Silent).unwrap();
    let older = Arc::new(OverlayDevice::new(device.clone()));
    let newer = Arc::new(OverlayDevice::new(device));
    let system = refs.open(newer.clone(), OpenOptions::default()).unwrap();
    system.create(Node::ROOT, &Name::from("file"), Kind::File).unwrap();
    system.unmount().unwrap();
    let [older, newer] = [older, newer].map(|copy| Judge.soundness(&(copy as Arc<dyn Device>)));
    assert!(older.0 == newer.0 && older < newer, "{older:?}, {newer:?}");
}

/// A program that knows nothing of mirrors writes one small file, or over a part of one in a directory, and unmounts.
#[test]
fn a_small_change_by_another_program_shows_in_the_metadata() {
    for (format, length) in FORMATS {
        let disk = Disk::new(length, &Arc::new(Life(AtomicU64::new(FOREVER))));
        let known = by_name(format).unwrap();
        known.make(&*disk, &FormatOptions::default(), &Silent).unwrap();
        let change = |change: &dyn Fn(&dyn FileSystem)| {
            let system = known.open(disk.clone(), OpenOptions::default()).unwrap();
            change(&*system);
            system.unmount().unwrap();
            metadata_sum(&(disk.clone() as Arc<dyn Device>))
        };
        let directory = Name::from("directory");
        let file = Name::from("file");
        let first = change(&|system| {
            let directory = system.create(Node::ROOT, &directory, Kind::Directory).unwrap();
            let inner = system.create(directory, &directory_name(), Kind::Directory).unwrap();
            let file = system.create(inner, &file, Kind::File).unwrap();
            system.write(file, 0, &[1; 300_000]).unwrap();
        });
        let again = metadata_sum(&(disk.clone() as Arc<dyn Device>));
        assert_eq!(first, again, "{format}: reading changes the sum");
        let over = change(&|system| {
            let directory = system.lookup(Node::ROOT, &directory).unwrap();
            let inner = system.lookup(directory, &directory_name()).unwrap();
            let file = system.lookup(inner, &file).unwrap();
            system.write(file, 150_000, &[2; 10]).unwrap();
            let modified = Some(Timestamp { seconds: 1_900_000_000, nanoseconds: 0 });
            system.set_attributes(file, &Change { modified, ..Change::default() }).unwrap();
        });
        assert_ne!(first, over, "{format}: what was overwritten in place is not seen");
        let small = change(&|system| {
            let directory = system.lookup(Node::ROOT, &directory).unwrap();
            let file = system.create(directory, &Name::from("small"), Kind::File).unwrap();
            system.write(file, 0, &[3; 10]).unwrap();
        });
        assert_ne!(over, small, "{format}: a small new file is not seen");
    }
}

/// Returns the pieces that are not zero of a new volume of this format. All histories begin with the same one, which takes
/// longer to make than to copy; the copies of a set are equal, as `mkfs` makes them.
fn made(format: &'static str, length: u64) -> Arc<Vec<(u64, Vec<u8>)>> {
    const PIECE: u64 = 64 << 10;
    type Made = BTreeMap<&'static str, Arc<Vec<(u64, Vec<u8>)>>>;
    static MADE: Mutex<Made> = Mutex::new(BTreeMap::new());
    let make = || {
        let device = MemoryDevice::new(length, Sectors::SMALL);
        let options = FormatOptions { serial: Some(1), ..FormatOptions::default() };
        by_name(format).unwrap().make(&device, &options, &Silent).unwrap();
        let read = |at| {
            let mut bytes = vec![0; PIECE as usize];
            device.read_at(at, &mut bytes).unwrap();
            (at, bytes)
        };
        let pieces = (0..length).step_by(PIECE as usize).map(read);
        Arc::new(pieces.filter(|(_, bytes)| bytes.iter().any(|&byte| byte != 0)).collect())
    };
    MADE.lock().unwrap().entry(format).or_insert_with(make).clone()
}

fn directory_name() -> Name {
    Name::from("a directory in it")
}

/// `PLATTER_FORMAT` runs one format alone, and `PLATTER_HISTORY` replays one history of those that a failure names.
#[test]
#[ignore = "a campaign: 2,000 histories of each format"]
fn two_thousand_histories_of_each_format_lose_nothing() {
    let seed = seed();
    let only = std::env::var("PLATTER_FORMAT").ok();
    let mut is_good = true;
    for (format, length) in
        FORMATS.into_iter().filter(|(format, _)| only.as_deref().is_none_or(|only| only == *format))
    {
        if let Ok(number) = std::env::var("PLATTER_HISTORY") {
            live(number.parse().expect("PLATTER_HISTORY is a number"), format, length);
            continue;
        }
        let ends_badly = |&number: &u64| std::panic::catch_unwind(|| live(number, format, length)).is_err();
        let bad: Vec<u64> = (0..2000).map(|number| seed * 10_000 + number).filter(ends_badly).collect();
        println!("{format}: 2,000 histories, of which these end badly: {bad:?}");
        is_good &= bad.is_empty();
    }
    assert!(is_good);
}

/// `PLATTER_STEPS` is another number of steps, and `PLATTER_FORMAT` one format alone. A history that ends badly is replayed
/// by `PLATTER_HISTORY` in the campaign above.
#[test]
#[ignore = "a campaign: ten million steps"]
fn ten_million_steps_lose_nothing() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    let only = std::env::var("PLATTER_FORMAT").ok();
    let wanted = number("PLATTER_STEPS").unwrap_or(10_000_000);
    let is_wanted = |(format, _): &&(&str, u64)| only.as_deref().is_none_or(|only| only == *format);
    let formats: Vec<&(&str, u64)> = FORMATS.iter().filter(is_wanted).collect();
    let (mut steps, mut bad, mut history) = (0, Vec::new(), seed() * 100_000_000);
    println!("histories from {history} on");
    while steps < wanted {
        for (format, length) in &formats {
            match std::panic::catch_unwind(|| live(history, format, *length)) {
                Ok(lived) => steps += lived,
                Err(_) => bad.push((*format, history)),
            }
            assert!(bad.len() < 50, "these end badly: {bad:?}");
        }
        history += 1;
        if history.is_multiple_of(100) {
            println!("{steps} steps, before history {history}; bad: {bad:?}");
        }
    }
    println!("{steps} steps, of which these histories end badly: {bad:?}");
    assert!(bad.is_empty());
}

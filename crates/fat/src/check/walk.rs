//! The walk over all directories and chains.
//!
//! It claims every cluster that a file or directory has a right to, notes what is wrong, and, when it may repair,
//! changes slots and FAT entries in memory. Three kinds of change wait until the whole tree was seen, because only
//! then is it known whose a cluster is: copies of clusters that two files share, cuts of chains, and freeing what was
//! cut off.

use super::listing::{Item, Listing, is_sound, oddities};
use super::table::Table;
use crate::layout::{
    Attributes, Geometry, LARGEST_FILE, Link, MOST_SLOTS, NtCase, SLOT, ShortEntry, ShortName, Slot,
};
use platter_clusters::{Bits, Claims, Disk, Stop, claim_chain, path_of};
use platter_vfs::{CaseRule, CheckReport, Finding, Name, Progress, Result, Severity};
use std::collections::{BTreeSet, HashSet};
use std::ops::Range;

/// A directory that was reached.
pub struct Dir {
    /// The directory that holds it, as an index; the root's is the root.
    pub parent: u32,
    /// Its first cluster; 0 for the fixed root directory.
    pub first: u32,
    /// How many clusters it was found to have.
    pub count: u32,
    /// Device offset of its entry; 0 for the root, which has none.
    pub slot: u64,
    /// Its name.
    pub name: Name,
}

/// Clusters that a file shares with another.
pub struct Shared {
    /// What leads to them: the cluster before, or the file's entry.
    pub from: Lead,
    /// The first of them.
    pub first: u32,
    /// How many the file's size asks for.
    pub count: u64,
}

/// What leads to a cluster.
#[derive(Clone, Copy)]
pub enum Lead {
    /// The FAT entry of this cluster.
    Cluster(u32),
    /// The directory entry in the slot at this device offset.
    Entry(u64),
}

/// The most directory slots that one round changes, and the most shared first clusters it looks into: a bound on
/// memory. What is over waits for the next round.
pub const MOST_CHANGES: usize = 1 << 20;
/// What 0 in the FAT means of a cluster in a chain.
const FREE: &str = "is marked free";

/// A walk and what it found.
pub struct Walk<'a, 'd> {
    pub disk: &'a mut Disk<'d>,
    pub geometry: &'a Geometry,
    pub table: &'a Table,
    pub report: &'a mut CheckReport,
    pub progress: &'a dyn Progress,
    pub repair: bool,
    /// Clusters that belong to a file or directory.
    pub claimed: Bits,
    pub dirs: Vec<Dir>,
    todo: Vec<u32>,
    /// First clusters that more than one entry names, or that lie inside another chain.
    pub contested: BTreeSet<u32>,
    /// Shared clusters to copy.
    pub shared: Vec<Shared>,
    /// FAT entries to change when the copies are made.
    pub cuts: Vec<(u32, u32)>,
    /// Where what was cut off begins, and whether to free it: it is free unless claimed by then.
    pub tails: Vec<(u32, bool)>,
    /// The label in the root directory.
    pub label: Option<[u8; 11]>,
    /// Whether there was more to repair than one round may.
    pub postponed: bool,
}

impl Claims for Walk<'_, '_> {
    fn link(&mut self, cluster: u32) -> Result<Link> {
        Ok(self.table.link(self.geometry, cluster))
    }

    fn is_claimed(&self, cluster: u32) -> bool {
        self.claimed.get(cluster)
    }

    fn claim(&mut self, cluster: u32) {
        self.claimed.set(cluster);
    }
}

impl<'a, 'd> Walk<'a, 'd> {
    pub fn new(
        disk: &'a mut Disk<'d>,
        geometry: &'a Geometry,
        table: &'a Table,
        report: &'a mut CheckReport,
        progress: &'a dyn Progress,
        repair: bool,
    ) -> Walk<'a, 'd> {
        Walk {
            disk,
            geometry,
            table,
            report,
            progress,
            repair,
            claimed: Bits::new(geometry.clusters + 2),
            dirs: Vec::new(),
            todo: Vec::new(),
            contested: BTreeSet::new(),
            shared: Vec::new(),
            cuts: Vec::new(),
            tails: Vec::new(),
            label: None,
            postponed: false,
        }
    }

    /// Walks from the root.
    pub fn run(&mut self) -> Result<()> {
        let root = Dir {
            parent: 0,
            first: self.geometry.root_cluster,
            count: 0,
            slot: 0,
            name: Name::from_units(&[]),
        };
        self.dirs.push(root);
        self.todo.push(0);
        if self.geometry.root_cluster != 0 {
            self.claimed.set(self.geometry.root_cluster);
        }
        self.go_on()
    }

    /// Walks everything that was noted but not walked.
    pub fn go_on(&mut self) -> Result<()> {
        let total = u64::from(self.geometry.clusters);
        while let Some(dir) = self.todo.pop() {
            self.directory(dir)?;
            self.report.directories += 1;
            if self.report.directories.is_multiple_of(64) {
                self.progress.progress("checking directories", self.claimed.count(), total);
            }
        }
        self.progress.progress("checking directories", total, total);
        Ok(())
    }

    /// The path of a directory, or of an entry in it.
    pub fn path(&self, dir: u32, name: Option<&Name>) -> String {
        let above = |at: u32| (self.dirs[at as usize].parent, &self.dirs[at as usize].name);
        path_of(dir, name, above)
    }

    /// Reports something that is put right if the walk repairs. Whether it does is the answer.
    pub fn find(
        &mut self,
        code: &'static str,
        severity: Severity,
        path: Option<(u32, Option<&Name>)>,
        message: impl FnOnce() -> String,
    ) -> bool {
        let room = self.disk.edits() + self.contested.len() < MOST_CHANGES;
        let repaired = self.repair && room;
        self.postponed |= self.repair && !room;
        let kept = self.report.findings.len() < CheckReport::KEPT;
        self.report.add(Finding {
            code,
            severity,
            path: path.filter(|_| kept).map(|(dir, name)| self.path(dir, name)),
            message: if kept { message() } else { String::new() },
            repaired,
        });
        repaired
    }

    fn cut(&mut self, last: u32) {
        self.cuts.push((last, self.geometry.kind.end()));
    }

    // Directories

    fn directory(&mut self, index: u32) -> Result<()> {
        let Dir { parent, first, slot: entry, .. } = self.dirs[index as usize];
        if first != 0 {
            let most = u64::from(MOST_SLOTS) * SLOT as u64;
            let (count, last, stop) = claim_chain(self, first, self.geometry.clusters_for(most).max(1))?;
            self.dirs[index as usize].count = count;
            let at = Some((index, None));
            match stop {
                Stop::End => {}
                Stop::More(next) => {
                    let message =
                        || format!("directory goes on after {MOST_SLOTS} entries, at cluster {next}");
                    if self.find("directory-too-large", Severity::Inconsistent, at, message) {
                        self.cut(last);
                    }
                }
                stop => {
                    let message = || format!("directory's chain: cluster {last} {}", stop.told(FREE));
                    if self.find(stop.code(), Severity::DataLoss, at, message) {
                        self.cut(last);
                    }
                }
            }
        }
        let count = self.dirs[index as usize].count;
        let mut listing = Listing::read(self.disk, self.geometry, self.table, first, count)?;
        let root = index == 0;
        if !root && !self.looks_like_directory(&listing) {
            let message = || format!("cluster {first} is the start of a directory, but holds something else");
            if self.find("not-a-directory", Severity::DataLoss, Some((index, None)), message) {
                let mut slot = [0; SLOT];
                self.disk.read_slots(entry, &mut slot)?;
                let mut short = ShortEntry::from_bytes(&slot);
                short.attributes.0 &= !Attributes::DIRECTORY;
                short.size =
                    (u64::from(count) * u64::from(self.geometry.cluster_size)).min(LARGEST_FILE) as u32;
                self.disk.edit(entry, short.to_bytes());
            }
            self.dirs[index as usize].count = 0;
            return Ok(());
        }
        if !root {
            let above = match parent {
                0 => 0,
                parent => self.dirs[parent as usize].first,
            };
            self.dots(index, &mut listing, first, above);
        }
        self.after_end(index, &mut listing);
        self.entries(index, &mut listing, if root { 0 } else { 2 })
    }

    /// Whether this may be a directory: it starts with "." or is empty, or at least half of what stands there does.
    fn looks_like_directory(&self, listing: &Listing) -> bool {
        if listing.bytes[..11] == ShortName::DOT.0 {
            return true;
        }
        let live: Vec<_> = (0..listing.len()).filter(|&at| listing.is_live(at)).collect();
        let sound = live.iter().filter(|&&at| is_sound(self.geometry, &listing.slot(at))).count();
        sound * 2 >= live.len()
    }

    /// Sees to the two entries that every directory but the root starts with.
    fn dots(&mut self, index: u32, listing: &mut Listing, first: u32, above: u32) {
        for (at, name, cluster) in [(0, ShortName::DOT, first), (1, ShortName::DOT_DOT, above)] {
            let shown = if at == 0 { "." } else { ".." };
            let found = match Slot::from_bytes(&listing.slot(at)) {
                Slot::Short(short) if short.name == name => Some(short),
                _ => None,
            };
            let Some(mut short) = found else {
                let message = || format!("slot {at} is not the entry \"{shown}\" (cluster {cluster})");
                if self.find("dot-missing", Severity::Inconsistent, Some((index, None)), message) {
                    self.make_room(listing, at);
                    let entry = ShortEntry {
                        name,
                        attributes: Attributes(Attributes::DIRECTORY),
                        cluster,
                        ..ShortEntry::default()
                    };
                    listing.change(self.disk, at, entry.to_bytes());
                }
                continue;
            };
            let start = self.geometry.first_cluster(&short);
            if start != cluster
                || !short.attributes.directory()
                || short.attributes.label()
                || short.size != 0
            {
                let message = || {
                    let (attributes, size) = (short.attributes.0, short.size);
                    format!(
                        "\"{shown}\" should be a directory of cluster {cluster}, size 0; it has cluster {start}, \
                         attributes {attributes:02X}, size {size}"
                    )
                };
                if self.find("dot-wrong", Severity::Inconsistent, Some((index, None)), message) {
                    short.attributes = Attributes(Attributes::DIRECTORY);
                    short.cluster = cluster;
                    short.size = 0;
                    listing.change(self.disk, at, short.to_bytes());
                }
            }
        }
    }

    /// Moves what stands in a slot, with the rest of its entry, to slots that are free. Where there are none it is
    /// overwritten: its clusters are then found without an owner and are recovered.
    fn make_room(&mut self, listing: &mut Listing, at: usize) {
        if !listing.is_live(at) {
            return;
        }
        let spanned = listing.items(at).into_iter().find_map(|item| match item {
            Item::Entry { first, slot, short, .. } if first == at && !short.name.is_dots() => {
                Some(first..slot + 1)
            }
            _ => None,
        });
        let Some(old) = spanned.filter(|old| is_sound(self.geometry, &listing.slot(old.end - 1))) else {
            return;
        };
        let mut run = 0;
        for to in old.end.max(2)..listing.len() {
            run = if listing.is_live(to) { 0 } else { run + 1 };
            if run == old.len() {
                for (from, to) in old.clone().zip(to + 1 - run..) {
                    let slot = listing.slot(from);
                    listing.change(self.disk, to, slot);
                }
                listing.delete(self.disk, old);
                return;
            }
        }
    }

    /// Sees to what stands after the end mark, where nothing should.
    ///
    /// If it is sound, a slot in the middle was wiped, and what follows is given back. Else it is what some systems
    /// leave in the clusters they take for a directory.
    fn after_end(&mut self, index: u32, listing: &mut Listing) {
        let end = listing.end();
        let live: Vec<_> = (end..listing.len()).filter(|&at| listing.is_live(at)).collect();
        let Some(&last) = live.last() else { return };
        let sound = live.iter().all(|&at| is_sound(self.geometry, &listing.slot(at)));
        let message = || {
            let what = if sound { "sound entries, which are kept" } else { "bytes that are no entries" };
            format!("slot {end} says that nothing follows, but up to slot {last} there are {what}")
        };
        if self.find("entries-after-end", Severity::Inconsistent, Some((index, None)), message) {
            let range = if sound { end..last } else { end..last + 1 };
            for at in range {
                match (sound, listing.is_live(at)) {
                    (true, false) => listing.delete(self.disk, at..at + 1),
                    (false, true) => listing.change(self.disk, at, [0; SLOT]),
                    _ => {}
                }
            }
        }
    }

    fn entries(&mut self, index: u32, listing: &mut Listing, start: usize) -> Result<()> {
        let items = listing.items(start);
        let mut names = Names::default();
        for item in &items {
            if let Item::Entry { short, .. } = item {
                names.all_short.insert(short.name);
            }
        }
        for item in items {
            match item {
                Item::Orphan { slots, fault } => {
                    let message = || {
                        let Range { start, end } = &slots;
                        format!(
                            "slots {start} to {} are parts of a long name without an entry ({fault:?})",
                            end - 1
                        )
                    };
                    if self.find("orphan-long-name", Severity::Inconsistent, Some((index, None)), message) {
                        listing.delete(self.disk, slots.clone());
                    }
                }
                Item::Entry { first, slot, short, long, .. } => {
                    self.entry(index, listing, &mut names, first..slot + 1, short, long)?;
                }
            }
        }
        Ok(())
    }

    // Entries

    fn entry(
        &mut self,
        index: u32,
        listing: &mut Listing,
        names: &mut Names,
        slots: Range<usize>,
        mut short: ShortEntry,
        long: Option<Name>,
    ) -> Result<()> {
        let at = slots.end - 1;
        let name = long.clone().unwrap_or_else(|| short.name.to_name(short.nt));
        let place = Some((index, Some(&name)));
        if short.name.is_dots() {
            let message =
                || format!("slot {at} is a dot entry, which belongs in slots 0 and 1 of a subdirectory");
            if self.find("stray-dots", Severity::Inconsistent, place, message) {
                listing.delete(self.disk, slots);
            }
            return Ok(());
        }
        let start = self.geometry.first_cluster(&short);
        let is_label =
            short.attributes.label() && !short.attributes.directory() && start == 0 && short.size == 0;
        if !is_label && oddities(self.geometry, &short) >= 2 {
            let message = || format!("slot {at} holds bytes that no system writes as an entry");
            if self.find("garbage-entry", Severity::DataLoss, place, message) {
                listing.delete(self.disk, slots);
            }
            return Ok(());
        }
        if is_label {
            self.label_entry(index, listing, slots, &short);
            return Ok(());
        }
        if short.attributes.label() {
            let message = || {
                format!(
                    "a volume label with attributes {:02X}, cluster {start} and size {}",
                    short.attributes.0, short.size
                )
            };
            if self.find("bad-attributes", Severity::Inconsistent, place, message) {
                short.attributes.0 &= !Attributes::LABEL;
                listing.change(self.disk, at, short.to_bytes());
            }
        }
        if short.attributes.0 & !Attributes::LONG_MASK != 0 {
            let message = || format!("attributes {:02X} have reserved bits", short.attributes.0);
            if self.find("reserved-attributes", Severity::Notice, place, message) {
                short.attributes.0 &= Attributes::LONG_MASK;
                listing.change(self.disk, at, short.to_bytes());
            }
        }
        if short.nt & NtCase::NO_SHORT_NAME != 0 && long.is_none() {
            let message = || "an entry that is said to have only a long name has none".to_owned();
            if self.find("bad-attributes", Severity::Inconsistent, place, message) {
                short.nt &= !NtCase::NO_SHORT_NAME;
                listing.change(self.disk, at, short.to_bytes());
            }
        }
        self.names(index, listing, names, slots, &mut short, long.as_ref());
        if short.attributes.directory() {
            self.subdirectory(index, listing, at, short, name);
            Ok(())
        } else {
            self.file(index, listing, at, short, &name)
        }
    }

    fn label_entry(&mut self, index: u32, listing: &mut Listing, slots: Range<usize>, short: &ShortEntry) {
        let code = match (index, self.label) {
            (0, None) => {
                self.label = Some(short.name.0);
                return;
            }
            (0, Some(_)) => "second-label",
            _ => "misplaced-label",
        };
        let message = || {
            format!("slot {} is a volume label, of which there is one, in the root directory", slots.start)
        };
        if self.find(code, Severity::Inconsistent, Some((index, None)), message) {
            listing.delete(self.disk, slots.clone());
        }
    }

    /// Sees to an entry's names: allowed, and different from all others in the directory.
    fn names(
        &mut self,
        index: u32,
        listing: &mut Listing,
        names: &mut Names,
        slots: Range<usize>,
        short: &mut ShortEntry,
        long: Option<&Name>,
    ) {
        let shown = long.cloned().unwrap_or_else(|| short.name.to_name(short.nt));
        let place = Some((index, Some(&shown)));
        let mut alias = short.name;
        if !alias.is_valid() {
            let message = || format!("the short name {:?} has characters that it may not", short.name);
            if self.find("bad-name", Severity::Inconsistent, place, message) {
                alias = names.other(&alias.sanitised());
            }
        } else if names.short.contains(&alias) {
            let message = || format!("the short name {alias:?} is there twice");
            if self.find("duplicate-name", Severity::Inconsistent, place, message) {
                alias = names.other(&alias);
            }
        }
        if alias != short.name {
            short.name = alias;
            names.all_short.insert(alias);
            for at in slots.start..slots.end - 1 {
                let mut part = listing.slot(at);
                part[13] = alias.checksum();
                listing.change(self.disk, at, part);
            }
            listing.change(self.disk, slots.end - 1, short.to_bytes());
        }
        let of_alias = alias.to_name(0).folded(CaseRule::Insensitive);
        let of_long =
            long.map(|long| long.folded(CaseRule::Insensitive)).filter(|folded| *folded != of_alias);
        if let Some(folded) = of_long {
            if names.shown.contains(&folded) {
                let message = || "the long name is there twice".to_owned();
                if self.find("duplicate-name", Severity::Inconsistent, place, message) {
                    listing.delete(self.disk, slots.start..slots.end - 1);
                }
            } else {
                names.shown.insert(folded);
            }
        }
        names.short.insert(alias);
        names.shown.insert(of_alias);
    }

    fn subdirectory(
        &mut self,
        index: u32,
        listing: &mut Listing,
        at: usize,
        mut short: ShortEntry,
        name: Name,
    ) {
        let start = self.geometry.first_cluster(&short);
        let place = Some((index, Some(&name)));
        if short.size != 0 {
            let message = || format!("a directory has size 0, not {}", short.size);
            if self.find("directory-size", Severity::Inconsistent, place, message) {
                short.size = 0;
                listing.change(self.disk, at, short.to_bytes());
            }
        }
        if !self.geometry.has_cluster(start) || self.table.link(self.geometry, start) == Link::Bad {
            let message = || format!("a directory cannot start at cluster {start}");
            if self.find("bad-start", Severity::DataLoss, place, message) {
                listing.delete(self.disk, at..at + 1);
            }
            return;
        }
        if self.claimed.get(start) {
            self.contest(start);
            return;
        }
        self.claimed.set(start);
        let dir = Dir { parent: index, first: start, count: 0, slot: listing.offset(at), name };
        self.todo.push(self.dirs.len() as u32);
        self.dirs.push(dir);
    }

    fn contest(&mut self, start: u32) {
        if self.contested.len() < MOST_CHANGES {
            self.contested.insert(start);
        } else {
            self.postponed = true;
        }
    }

    fn file(
        &mut self,
        index: u32,
        listing: &mut Listing,
        at: usize,
        mut short: ShortEntry,
        name: &Name,
    ) -> Result<()> {
        self.report.files += 1;
        let start = self.geometry.first_cluster(&short);
        let place = Some((index, Some(name)));
        let size = u64::from(short.size);
        let wanted = self.geometry.clusters_for(size);
        let mut resize = |walk: &mut Self, cluster: u32, size: u64| {
            short.cluster = cluster;
            short.size = size.min(LARGEST_FILE) as u32;
            listing.change(walk.disk, at, short.to_bytes());
        };
        if start == 0 {
            if size != 0 {
                let message = || format!("a file of {size} bytes has no clusters");
                if self.find("size-beyond-chain", Severity::DataLoss, place, message) {
                    resize(self, 0, 0);
                }
            }
            return Ok(());
        }
        let link = self.geometry.has_cluster(start).then(|| self.table.link(self.geometry, start));
        if !matches!(link, Some(Link::Next(_) | Link::End | Link::Invalid(_))) {
            let severity = if size == 0 { Severity::Inconsistent } else { Severity::DataLoss };
            let message = || {
                let why = match link {
                    None => "does not exist",
                    Some(Link::Free) => "is free",
                    _ => "is marked bad",
                };
                format!("a file of {size} bytes starts at cluster {start}, which {why}")
            };
            if self.find("bad-start", severity, place, message) {
                resize(self, 0, 0);
            }
            return Ok(());
        }
        if self.claimed.get(start) {
            self.contest(start);
            return Ok(());
        }
        if wanted == 0 {
            let message = || format!("an empty file has clusters from {start}");
            let repaired = self.find("chain-too-long", Severity::Inconsistent, place, message);
            if repaired {
                resize(self, 0, 0);
            }
            self.tails.push((start, repaired));
            return Ok(());
        }
        self.claimed.set(start);
        let (count, last, stop) = claim_chain(self, start, wanted)?;
        let count = u64::from(count);
        let held = count * u64::from(self.geometry.cluster_size);
        match stop {
            Stop::End if count == wanted => {}
            Stop::End => {
                let message = || format!("a file of {size} bytes has clusters for {held}");
                if self.find("size-beyond-chain", Severity::DataLoss, place, message) {
                    resize(self, start, held);
                }
            }
            Stop::More(next) => {
                let message = || format!("a file of {size} bytes goes on after cluster {last}, at {next}");
                let repaired = self.find("chain-too-long", Severity::Inconsistent, place, message);
                if repaired {
                    self.cut(last);
                }
                self.tails.push((next, repaired));
            }
            stop if count == wanted => {
                let message = || format!("the last cluster of the file, {last}, {}", stop.told(FREE));
                if self.find("chain-without-end", Severity::Inconsistent, place, message) {
                    self.cut(last);
                }
            }
            Stop::Claimed(next) => {
                let message = || format!("the file shares clusters from {next} with another");
                if self.find("cross-link", Severity::DataLoss, place, message) {
                    self.shared.push(Shared {
                        from: Lead::Cluster(last),
                        first: next,
                        count: wanted - count,
                    });
                }
            }
            stop => {
                let message = || {
                    format!(
                        "a file of {size} bytes breaks off after {held}: cluster {last} {}",
                        stop.told(FREE)
                    )
                };
                if self.find(stop.code(), Severity::DataLoss, place, message) {
                    self.cut(last);
                    resize(self, start, held);
                }
            }
        }
        Ok(())
    }
}

/// The names of a directory that were met.
#[derive(Default)]
struct Names {
    /// Every short name, met or not.
    all_short: HashSet<ShortName>,
    /// Those that were met.
    short: HashSet<ShortName>,
    /// What users see, folded, both short and long.
    shown: HashSet<Box<[u16]>>,
}

impl Names {
    /// A short name like this one that nobody has.
    fn other(&self, like: &ShortName) -> ShortName {
        let taken = |short: &ShortName| {
            self.all_short.contains(short)
                || self.shown.contains(&short.to_name(0).folded(CaseRule::Insensitive))
        };
        if !taken(like) {
            return *like;
        }
        // A directory has fewer entries than there are aliases.
        ShortName::alias(&like.to_name(0), taken).unwrap_or(*like)
    }
}

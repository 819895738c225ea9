//! Deliberate damage to the metadata of a volume, and what must survive it.

use platter_ntfs::layout::{
    AttributeContent, BootSector, FileName, Geometry, Kind, Record, Run, attribute_flags, fixup, namespace,
    record_number, runs,
};
use platter_testing::model::Random;
use std::collections::{BTreeMap, BTreeSet};

/// A volume as its records describe it, before it is damaged.
#[derive(Clone)]
pub(crate) struct Volume {
    pub image: Vec<u8>,
    pub geometry: Geometry,
    mft: Vec<Run>,
    pub files: BTreeMap<u64, File>,
}

/// One file of a volume.
#[derive(Clone, Default)]
pub(crate) struct File {
    pub records: Vec<u64>,
    pub runs: Vec<Run>,
    /// The runs of its index blocks.
    pub index: Vec<Run>,
    names: Vec<(u64, String)>,
    pub paths: Vec<String>,
    pub is_directory: bool,
    /// Whether it has compressed data.
    pub is_packed: bool,
}

impl Volume {
    pub(crate) fn new(image: Vec<u8>) -> Volume {
        let boot = BootSector::from_bytes(&image).expect("a sound boot sector");
        let geometry = boot.geometry(image.len() as u64).expect("a sound boot sector");
        let first = Run { vcn: 0, lcn: Some(geometry.mft), length: 16 };
        let mut volume = Volume { image, geometry, mft: vec![first], files: BTreeMap::new() };
        let table = volume.record(0).expect("$MFT");
        let data = table.find(Kind::DATA, "").expect("data of $MFT");
        let AttributeContent::NonResident(data) = &data.content else { panic!("$MFT is resident") };
        volume.mft = runs::unpack(&data.pairs, 0, data.end, geometry.clusters, 0).expect("runs of $MFT");
        for number in 0..data.valid / u64::from(geometry.record) {
            let Some(record) = volume.record(number).filter(Record::in_use) else { continue };
            let base = if record.base.0 == 0 { number } else { record.base.number() };
            let file = volume.files.entry(base).or_default();
            file.records.push(number);
            file.is_directory |= record.find(Kind::INDEX_ROOT, "$I30").is_some();
            for attribute in &record.attributes {
                match &attribute.content {
                    AttributeContent::NonResident(piece) => {
                        let found =
                            runs::unpack(&piece.pairs, piece.first, piece.end, geometry.clusters, 0).unwrap();
                        file.is_packed |= attribute.flags & attribute_flags::COMPRESSION_MASK != 0;
                        if attribute.kind == Kind::INDEX_ALLOCATION {
                            file.index.extend(&found);
                        }
                        file.runs.extend(found);
                    }
                    AttributeContent::Resident { value, .. } if attribute.kind == Kind::FILE_NAME => {
                        let name = FileName::from_bytes(value, 0).unwrap();
                        if name.namespace != namespace::DOS {
                            file.names.push((name.parent.number(), String::from_utf16_lossy(&name.name)));
                        }
                    }
                    AttributeContent::Resident { .. } => {}
                }
            }
        }
        let paths: BTreeMap<u64, Vec<String>> =
            volume.files.keys().map(|&number| (number, volume.paths(number, 0))).collect();
        for (number, paths) in paths {
            volume.files.get_mut(&number).unwrap().paths = paths;
        }
        volume
    }

    fn paths(&self, number: u64, depth: u32) -> Vec<String> {
        if number == record_number::ROOT || depth > 50 {
            return vec![String::new()];
        }
        let names = self.files.get(&number).map_or(&[][..], |file| &file.names);
        names
            .iter()
            .flat_map(|(above, name)| {
                self.paths(*above, depth + 1).into_iter().map(move |above| format!("{above}/{name}"))
            })
            .collect()
    }

    /// The image offset of each byte of a range in runs.
    fn places(&self, runs: &[Run], offset: u64, length: usize) -> Vec<usize> {
        (offset..offset + length as u64)
            .map(|at| {
                let vcn = at / self.geometry.cluster;
                let run =
                    runs.iter().find(|run| (run.vcn..run.end()).contains(&vcn)).expect("inside the runs");
                ((run.lcn.unwrap() + vcn - run.vcn) * self.geometry.cluster + at % self.geometry.cluster)
                    as usize
            })
            .collect()
    }

    fn block(&self, runs: &[Run], offset: u64, length: usize) -> Vec<u8> {
        self.places(runs, offset, length).into_iter().map(|at| self.image[at]).collect()
    }

    fn put(&mut self, runs: &[Run], offset: u64, bytes: &[u8]) {
        for (at, byte) in self.places(runs, offset, bytes.len()).into_iter().zip(bytes) {
            self.image[at] = *byte;
        }
    }

    pub(crate) fn record(&self, number: u64) -> Option<Record> {
        let size = self.geometry.record as usize;
        let mut bytes = self.block(&self.mft, number * size as u64, size);
        fixup::remove(&mut bytes, "", 0).ok()?;
        Record::from_bytes(&bytes, 0).ok()
    }

    /// Gives a file the clusters of another one of the same size.
    pub(crate) fn share(&mut self, from: u64, to: u64) {
        let pairs = |record: &mut Record| {
            let data = record.attributes.iter_mut().find(|attribute| attribute.kind == Kind::DATA);
            match data.map(|data| &mut data.content) {
                Some(AttributeContent::NonResident(piece)) => std::mem::take(&mut piece.pairs),
                _ => panic!("content outside the record"),
            }
        };
        let taken = pairs(&mut self.record(from).expect("a sound record"));
        let mut record = self.record(to).expect("a sound record");
        for attribute in &mut record.attributes {
            if let (Kind::DATA, AttributeContent::NonResident(piece)) =
                (attribute.kind, &mut attribute.content)
            {
                piece.pairs = taken.clone();
            }
        }
        let mut bytes = record.to_bytes(self.geometry.record as usize).expect("room");
        fixup::apply(&mut bytes);
        one_record(self, to, &mut Hit::default(), |record| record.copy_from_slice(&bytes));
    }
}

/// The kinds of damage.
pub(crate) const KINDS: &[&str] = &[
    "none",
    "record-sealed",
    "record-sealed-many",
    "record-flip",
    "record-zero",
    "record-garbage",
    "record-swap",
    "record-header",
    "attribute-sealed",
    "run-list",
    "directory-record",
    "extended-record",
    "system-sealed",
    "system-garbage",
    "index-sealed",
    "index-flip",
    "index-zero",
    "index-garbage",
    "index-swap",
    "bitmap",
    "record-bitmap",
    "boot",
    "boot-copy",
    "mirror",
    "upcase",
    "definitions",
    "security",
    "log",
    "everything",
];

/// The records that were hit.
#[derive(Debug, Default)]
pub(crate) struct Hit {
    pub records: BTreeSet<u64>,
}

/// Damages a volume, and returns the files' records that were hit. Clusters of files' data are never hit.
pub(crate) fn damage(volume: &mut Volume, kind: &str, random: &mut Random) -> Hit {
    let mut hit = Hit::default();
    one(volume, kind, random, &mut hit);
    hit
}

fn one(volume: &mut Volume, kind: &str, random: &mut Random, hit: &mut Hit) {
    let size = volume.geometry.record as usize;
    let all: Vec<u64> = volume.files.values().flat_map(|file| &file.records).copied().collect();
    let users: Vec<u64> = all.iter().copied().filter(|&number| number >= record_number::FIRST_FREE).collect();
    let mft = volume.mft.clone();
    let user = *random.pick(&users);
    match kind {
        "none" => {}
        "record-sealed" => record(volume, user, random, hit, 3, 0..size),
        "record-sealed-many" => {
            for _ in 0..2 + random.below(6) {
                record(volume, *random.pick(&users), random, hit, 4, 0..size);
            }
        }
        "record-header" => record(volume, user, random, hit, 2, 0..0x38),
        "attribute-sealed" => record(volume, user, random, hit, 3, 0x38..0x1A0),
        "run-list" => {
            let files: Vec<u64> = volume
                .files
                .iter()
                .filter(|(number, file)| **number >= record_number::FIRST_FREE && file.runs.len() > 1)
                .map(|(number, _)| *number)
                .collect();
            runs_of(volume, *random.pick(&files), random, hit);
        }
        "directory-record" => {
            let directories: Vec<u64> = volume
                .files
                .iter()
                .filter(|(number, file)| **number >= record_number::FIRST_FREE && file.is_directory)
                .map(|(number, _)| *number)
                .collect();
            let number = *random.pick(&directories);
            if random.chance(50) {
                record(volume, number, random, hit, 4, 0..size);
            } else {
                one_record(volume, number, hit, |bytes| random.fill(bytes));
            }
        }
        "extended-record" => {
            let many: Vec<u64> = volume
                .files
                .values()
                .filter(|file| file.records.len() > 1)
                .flat_map(|file| file.records.clone())
                .collect();
            if !many.is_empty() {
                record(volume, *random.pick(&many), random, hit, 3, 0..size);
            }
        }
        "record-flip" => one_record(volume, user, hit, |bytes| {
            let at = random.below(bytes.len() as u64) as usize;
            bytes[at] ^= 1 << random.below(8);
        }),
        "record-zero" => one_record(volume, user, hit, |bytes| bytes.fill(0)),
        "record-garbage" => one_record(volume, user, hit, |bytes| random.fill(bytes)),
        "record-swap" => {
            let other = *random.pick(&users);
            let copy = volume.block(&mft, other * size as u64, size);
            one_record(volume, user, hit, |bytes| bytes.copy_from_slice(&copy));
            // Of two records with the same content, either may be taken for the other.
            hit.records.insert(other);
        }
        "system-sealed" => record(volume, random.below(12), random, hit, 3, 0..size),
        "system-garbage" => one_record(volume, random.below(12), hit, |bytes| random.fill(bytes)),
        "index-sealed" | "index-flip" | "index-zero" | "index-garbage" | "index-swap" => {
            index(volume, kind, random)
        }
        "bitmap" => content(volume, record_number::BITMAP, "", Kind::DATA, random),
        "record-bitmap" => content(volume, record_number::MFT, "", Kind::BITMAP, random),
        "upcase" => content(volume, record_number::UPCASE, "", Kind::DATA, random),
        "definitions" => content(volume, record_number::ATTRIBUTE_DEFINITIONS, "", Kind::DATA, random),
        "security" => content(volume, record_number::SECURE, "$SDS", Kind::DATA, random),
        "log" => content(volume, record_number::LOG_FILE, "", Kind::DATA, random),
        "boot" => match random.below(3) {
            0 => volume.image[..512].fill(0),
            1 => random.fill(&mut volume.image[..512]),
            _ => {
                let at = 3 + random.below(0x50) as usize;
                volume.image[at] = random.number() as u8;
            }
        },
        "boot-copy" => {
            let at = volume.geometry.length as usize;
            random.fill(&mut volume.image[at..at + 512]);
        }
        "mirror" => {
            let at = (volume.geometry.mirror * volume.geometry.cluster) as usize;
            let place = at + random.below(4 * size as u64) as usize;
            volume.image[place] ^= 1 << random.below(8);
        }
        "everything" => {
            for _ in 0..3 + random.below(5) {
                let kind = KINDS[random.below(KINDS.len() as u64 - 1) as usize];
                one(volume, kind, random, hit);
            }
        }
        unknown => panic!("no damage of the kind {unknown}"),
    }
}

/// Changes a record as it is on the device.
fn one_record(volume: &mut Volume, number: u64, hit: &mut Hit, change: impl FnOnce(&mut [u8])) {
    let (mft, size) = (volume.mft.clone(), volume.geometry.record as usize);
    let mut bytes = volume.block(&mft, number * size as u64, size);
    change(&mut bytes);
    volume.put(&mft, number * size as u64, &bytes);
    hit.records.insert(number);
}

/// Changes up to `most` places of a record and seals it again, as a faulty driver would.
fn record(
    volume: &mut Volume,
    number: u64,
    random: &mut Random,
    hit: &mut Hit,
    most: u64,
    range: std::ops::Range<usize>,
) {
    one_record(volume, number, hit, |bytes| sealed(bytes, random, most, range));
}

fn sealed(bytes: &mut [u8], random: &mut Random, most: u64, range: std::ops::Range<usize>) {
    let is_sealed = fixup::remove(bytes, "", 0).is_ok();
    let length = range.len() as u64;
    for _ in 0..1 + random.below(most) {
        let at = range.start + random.below(length) as usize;
        match random.below(4) {
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes[at] = random.number() as u8,
            2 => bytes[at] = *random.pick(&[0, 1, 2, 0x7F, 0x80, 0xFF]),
            _ => {
                let end = (at + 1 + random.below(8) as usize).min(bytes.len());
                random.fill(&mut bytes[at..end]);
            }
        }
    }
    let offset = usize::from(u16::from_le_bytes([bytes[4], bytes[5]]));
    let count = usize::from(u16::from_le_bytes([bytes[6], bytes[7]]));
    if is_sealed && count == fixup::fields(bytes.len()) && offset + count * 2 <= 510 {
        fixup::apply(bytes);
    }
}

/// Moves a run of each attribute of a file to another place, such as clusters of other files.
fn runs_of(volume: &mut Volume, number: u64, random: &mut Random, hit: &mut Hit) {
    let clusters = volume.geometry.clusters;
    let size = volume.geometry.record as usize;
    let mut changed = volume.record(number).expect("a sound record");
    for attribute in &mut changed.attributes {
        if let AttributeContent::NonResident(piece) = &mut attribute.content {
            let Ok(mut found) = runs::unpack(&piece.pairs, piece.first, piece.end, clusters, 0) else {
                continue;
            };
            let count = found.len() as u64;
            let run = &mut found[random.below(count) as usize];
            if run.lcn.is_some() {
                run.lcn = Some(random.below(clusters - run.length));
            }
            let (pairs, all) = runs::pack(&found, piece.pairs.len());
            if all == found.len() {
                piece.pairs = pairs;
            }
        }
    }
    if let Some(mut bytes) = changed.to_bytes(size) {
        fixup::apply(&mut bytes);
        one_record(volume, number, hit, |record| record.copy_from_slice(&bytes));
    }
}

/// Damages a block of some directory's index.
fn index(volume: &mut Volume, kind: &str, random: &mut Random) {
    let indexes: Vec<Vec<Run>> =
        volume.files.values().map(|file| file.index.clone()).filter(|index| !index.is_empty()).collect();
    let runs = random.pick(&indexes).clone();
    let size = volume.geometry.index as usize;
    let blocks = runs.iter().map(|run| run.length).sum::<u64>() * volume.geometry.cluster / size as u64;
    if blocks == 0 {
        return;
    }
    let offset = random.below(blocks) * size as u64;
    let mut bytes = volume.block(&runs, offset, size);
    match kind {
        "index-sealed" => sealed(&mut bytes, random, 4, 0..size),
        "index-flip" => bytes[random.below(size as u64) as usize] ^= 1 << random.below(8),
        "index-zero" => bytes.fill(0),
        "index-garbage" => random.fill(&mut bytes),
        _ => bytes = volume.block(&runs, random.below(blocks) * size as u64, size),
    }
    volume.put(&runs, offset, &bytes);
}

/// Damages the content of a system file.
fn content(volume: &mut Volume, number: u64, name: &str, kind: Kind, random: &mut Random) {
    let Some(record) = volume.record(number) else { return };
    let Some(attribute) = record.find(kind, name) else { return };
    let AttributeContent::NonResident(piece) = &attribute.content else { return };
    let Ok(runs) = runs::unpack(&piece.pairs, 0, piece.end, volume.geometry.clusters, 0) else { return };
    for _ in 0..1 + random.below(4) {
        // Half of the changes are near the beginning, where the content is.
        let near = if random.chance(50) { piece.size.min(2048) } else { piece.size };
        let at = random.below(near);
        let length = (1 + random.below(40)).min(piece.size - at) as usize;
        let mut bytes = vec![0; length];
        random.fill(&mut bytes);
        volume.put(&runs, at, &bytes);
    }
}

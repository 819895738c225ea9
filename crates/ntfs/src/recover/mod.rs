//! Copying out what is left of a volume: existing files, and deleted files as long as nothing was written over them.
//!
//! A deleted file's record stays as it was, except for the mark that it is in use, until another file gets the record.
//! So all records are looked at: those of `$MFT` if it is found, or else every record on the device ([`source`]). A
//! deleted file is taken for whole if no existing file has any of its clusters.

mod data;
mod source;
mod start;

use crate::check::clusters::Clusters;
use crate::layout::{
    Attribute, AttributeContent, FileName, FileTime, Kind as Type, Record, Reference, StandardInformation,
    elsewhere, file_flags, namespace, record_flags, record_number as known, reparse_from_bytes,
};
use crate::wof::{self, Packing};
use data::{Data, Packed, Stream};
use platter_device::Device;
use platter_vfs::{
    Kind, Name, Progress, RecoverReport, Recovered, RecoveredData, Reparse, Result, Timestamp, Visit, reparse,
};
use source::{FoundVolume, Source};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// More levels of directories than any volume has.
const DEEPEST: usize = 1024;

/// More bytes than a reparse point has: 16 KiB of data and a header.
const MOST_REPARSE: u64 = 32 << 10;

/// Finds what is left on a device, and calls `visit` for each file, stream and directory.
///
/// # Errors
/// [`platter_vfs::Error::NotThisFormat`] if there is no record of NTFS on the device; errors of `visit`.
pub fn recover(device: Arc<dyn Device>, progress: &dyn Progress, visit: Visit<'_>) -> Result<RecoverReport> {
    let place = FoundVolume::find(device, progress)?;
    let source = Source::open(&place)?;
    let files = Files::collect(&source, progress)?;
    let mut recovery =
        Recovery { source, files, used: Clusters::default(), report: RecoverReport::default(), visit };
    let mut numbers: Vec<u64> = recovery.files.files.keys().copied().collect();
    // Directories before the files in them.
    numbers.sort_by_cached_key(|&number| recovery.files.depth(number));
    // Existing files first: a deleted file may lie in clusters that one of them has by now.
    for is_deleted in [false, true] {
        let what = if is_deleted { "deleted files" } else { "files" };
        for (done, &number) in numbers.iter().enumerate() {
            if recovery.files.files[&number].is_deleted == is_deleted {
                recovery.file(number)?;
            }
            progress.step(what, done as u64 + 1, numbers.len() as u64)?;
        }
    }
    Ok(recovery.report)
}

/// The facts about a file that are known before its content is read.
struct File {
    sequence: u16,
    is_deleted: bool,
    is_directory: bool,
    /// Whether any of its streams has content.
    has_content: bool,
    /// The file's names, each with its directory; the first counts, the others are links.
    names: Vec<(Reference, Box<[u16]>)>,
}

impl File {
    /// Whether a record is a part of this file: its base reference means this file, and it was deleted if the file was.
    fn has(&self, part: &Record) -> bool {
        part.in_use() != self.is_deleted && self.is_of(part.base)
    }

    /// Whether a reference means this file: it has the record's sequence number or, for a deleted file, the one before,
    /// as deletion adds one.
    fn is_of(&self, reference: Reference) -> bool {
        let lives = self.sequence.wrapping_sub(reference.sequence());
        lives == 0 || self.is_deleted && lives == 1
    }
}

/// All files by the numbers of their base records, and the records that extend each.
struct Files {
    files: BTreeMap<u64, File>,
    extensions: HashMap<u64, Vec<u64>>,
}

impl Files {
    fn collect(source: &Source<'_>, progress: &dyn Progress) -> Result<Files> {
        let mut found = Files { files: BTreeMap::new(), extensions: HashMap::new() };
        for (done, number) in source.numbers().enumerate() {
            progress.step("records", done as u64, source.count())?;
            let Some(record) = source.record(number) else { continue };
            if record.base.0 != 0 {
                found.extensions.entry(record.base.number()).or_default().push(number);
                continue;
            }
            if number < known::FIRST_FREE && number != known::ROOT {
                continue;
            }
            let file = File {
                sequence: record.sequence,
                is_deleted: !record.in_use(),
                is_directory: record.flags & record_flags::DIRECTORY != 0,
                has_content: has_content(&record),
                names: names(&record),
            };
            if !record.attributes.is_empty() {
                found.files.insert(number, file);
            }
        }
        // Names and streams may be in the records that extend a file.
        for (base, parts) in &found.extensions {
            let Some(file) = found.files.get_mut(base) else { continue };
            for part in parts {
                if let Some(record) = source.record(*part).filter(|record| file.has(record)) {
                    file.names.extend(names(&record));
                    file.has_content |= has_content(&record);
                }
            }
        }
        // A deleted file without a name counts if it has content: its names may have been in records that are
        // overwritten by now. Without both the record was never a file's: Windows prepares unused records with times
        // and an empty stream.
        found.files.retain(|_, file| !file.is_deleted || file.has_content || !file.names.is_empty());
        Ok(found)
    }

    /// The directory that a reference leads to.
    fn directory(&self, reference: Reference) -> Option<&File> {
        let file = self.files.get(&reference.number())?;
        (file.is_directory && (file.is_of(reference) || reference.sequence() == 0)).then_some(file)
    }

    /// The path from the root to a file, by one of the file's names.
    fn path(&self, above: Reference, name: &[u16]) -> Vec<Name> {
        let mut path = vec![Name::from_units(name)];
        let mut at = above;
        while at.number() != known::ROOT {
            let next = self.directory(at).and_then(|file| file.names.first());
            match next {
                Some((above, name)) if path.len() < DEEPEST => {
                    path.push(Name::from_units(name));
                    at = *above;
                }
                _ => {
                    path.push(Name::from(&*format!("directory {}", at.number())));
                    break;
                }
            }
        }
        path.reverse();
        path
    }

    /// Whether a file is below `$Extend`, where the system keeps metadata such as quotas, the change journal and the
    /// log of transactions.
    fn is_metadata(&self, number: u64) -> bool {
        let mut at = self.files.get(&number);
        for _ in 0..DEEPEST {
            match at.and_then(|file| file.names.first()) {
                Some((above, _)) if above.number() == known::EXTEND => return true,
                Some((above, _)) if above.number() != known::ROOT => at = self.directory(*above),
                _ => return false,
            }
        }
        false
    }

    fn depth(&self, number: u64) -> usize {
        let name = self.files.get(&number).and_then(|file| file.names.first());
        name.map_or(1, |(above, name)| self.path(*above, name).len())
    }
}

/// Whether a record has a stream that is not empty.
fn has_content(record: &Record) -> bool {
    record.attributes.iter().filter(|attribute| attribute.kind == Type::DATA).any(
        |attribute| match &attribute.content {
            AttributeContent::Resident { value, .. } => !value.is_empty(),
            AttributeContent::NonResident(piece) => piece.first > 0 || piece.size > 0,
        },
    )
}

/// The names in a record, short ones left out.
fn names(record: &Record) -> Vec<(Reference, Box<[u16]>)> {
    let named = record.attributes.iter().filter(|attribute| attribute.kind == Type::FILE_NAME);
    let names = named.filter_map(|attribute| FileName::from_bytes(attribute.value()?, 0).ok());
    let long = names.filter(|name| name.namespace != namespace::DOS);
    long.map(|name| (name.parent, name.name)).collect()
}

struct Recovery<'v, 'd> {
    source: Source<'d>,
    files: Files,
    /// The clusters of existing files.
    used: Clusters,
    report: RecoverReport,
    visit: Visit<'v>,
}

impl Recovery<'_, '_> {
    fn file(&mut self, number: u64) -> Result<()> {
        let file = &self.files.files[&number];
        let (is_deleted, is_directory) = (file.is_deleted, file.is_directory);
        if number == known::ROOT {
            return Ok(());
        }
        let paths: Vec<Vec<Name>> = match file.names.is_empty() {
            true => vec![vec![Name::from(&*format!("file {number}"))]],
            false => file.names.iter().map(|(above, name)| self.files.path(*above, name)).collect(),
        };
        let Some((attributes, damaged)) = self.attributes(number) else { return Ok(()) };
        if self.files.is_metadata(number) {
            // Nobody wants it copied, but its clusters are no deleted file's any more.
            let streams = streams(&attributes).into_values().filter(|_| !is_deleted);
            let found = streams.filter_map(|pieces| Stream::open(&pieces, self.source.geometry()).ok());
            found.for_each(|stream| stream.claim(&mut self.used));
            return Ok(());
        }
        let standard = attributes
            .iter()
            .find(|attribute| attribute.kind == Type::STANDARD_INFORMATION)
            .and_then(|attribute| StandardInformation::from_bytes(attribute.value()?, 0).ok())
            .unwrap_or_default();
        let about = About { paths, is_deleted, damaged, times: [standard.modified, standard.accessed] };
        if is_directory {
            self.report.directories += 1;
            let path = about.paths.first().cloned().unwrap_or_default();
            return (self.visit)(&about.entry(&path, Kind::Directory), &mut Data::empty(&self.source));
        }
        let point = self.reparse_point(&attributes);
        if let Some(target) = point.as_ref().and_then(|point| reparse::target(point).ok()) {
            for path in &about.paths {
                self.count(is_deleted);
                let link =
                    Recovered { target: Some(target.clone()), ..about.entry(path, Kind::SymbolicLink) };
                (self.visit)(&link, &mut Data::empty(&self.source))?;
            }
            return Ok(());
        }
        if standard.flags & file_flags::ENCRYPTED != 0 {
            self.lose(&about, "it is encrypted");
            return Ok(());
        }
        self.streams(&about, &streams(&attributes), point)
    }

    /// Returns the attributes of a file from all its records, and whether one of these has faults.
    fn attributes(&self, number: u64) -> Option<(Vec<Attribute>, bool)> {
        let file = &self.files.files[&number];
        let (record, mut damaged) = self.source.record_and_faults(number)?;
        let mut attributes = record.attributes;
        for part in self.files.extensions.get(&number).into_iter().flatten() {
            let part = self.source.record_and_faults(*part);
            if let Some((part, has_faults)) = part.filter(|(part, _)| file.has(part)) {
                damaged |= has_faults;
                attributes.extend(part.attributes);
            }
        }
        Some((attributes, damaged))
    }

    /// Gives out the content of a file and its other streams.
    fn streams(
        &mut self,
        about: &About,
        streams: &BTreeMap<Box<[u16]>, Vec<Attribute>>,
        point: Option<Reparse>,
    ) -> Result<()> {
        let is_deleted = about.is_deleted;
        // The stream with the content of a file that Windows Overlay Filter packed, and how it is packed.
        let mut packed = None;
        for (name, pieces) in streams {
            let stream = match Stream::open(pieces, self.source.geometry()) {
                Ok(stream) => stream,
                Err(error) => {
                    match is_deleted {
                        true => self.report.overwritten += u64::from(name.is_empty()),
                        false => self.lose(about, &error.to_string()),
                    }
                    continue;
                }
            };
            let is_lacking = name.is_empty() && stream.lacks_content(self.source.geometry().cluster);
            let lacking = point.as_ref().filter(|_| is_lacking);
            if let Some(packing) = lacking.and_then(Packing::of)
                && let Some(pieces) = streams.get(&*wof::stream())
                && let Ok(other) = Stream::open(pieces, self.source.geometry())
            {
                packed = Some((stream.size(), packing, other));
                continue;
            }
            if let Some(why) = lacking.and_then(|point| elsewhere(point.tag)) {
                // What the stream has of the content, if anything, is no file without the rest.
                if !is_deleted {
                    stream.claim(&mut self.used);
                }
                self.lose(about, why);
                continue;
            }
            if is_deleted && stream.is_in(&self.used) {
                self.report.overwritten +=
                    u64::from(name.is_empty() || **name == *wof::stream() && packed.is_some());
                continue;
            }
            if !is_deleted {
                stream.claim(&mut self.used);
            }
            let content = packed.take_if(|_| **name == *wof::stream());
            for path in &about.paths {
                if let Some((size, packing, stream)) = &content {
                    self.count(is_deleted);
                    let found = Recovered { size: *size, ..about.entry(path, Kind::File) };
                    let mut data = Packed {
                        stream: Data::new(&self.source, stream),
                        packed: stream.size(),
                        packing: *packing,
                        size: *size,
                    };
                    (self.visit)(&found, &mut data)?;
                    continue;
                }
                if name.is_empty() {
                    self.count(is_deleted);
                }
                let stream_name = (!name.is_empty()).then(|| Name::from_units(name));
                let found =
                    Recovered { stream: stream_name, size: stream.size(), ..about.entry(path, Kind::File) };
                (self.visit)(&found, &mut Data::new(&self.source, &stream))?;
            }
        }
        Ok(())
    }

    /// The reparse point of a file, if it has one that can be read.
    fn reparse_point(&self, attributes: &[Attribute]) -> Option<Reparse> {
        let attribute = attributes.iter().find(|attribute| attribute.kind == Type::REPARSE_POINT)?;
        let stream = Stream::open(std::slice::from_ref(attribute), self.source.geometry()).ok()?;
        let mut value = vec![0; stream.size().min(MOST_REPARSE) as usize];
        Data::new(&self.source, &stream).read(0, &mut value).ok()?;
        reparse_from_bytes(&value, 0).ok()
    }

    fn count(&mut self, is_deleted: bool) {
        self.report.files += 1;
        self.report.deleted += u64::from(is_deleted);
    }

    /// Notes that a file is lost, unless it was deleted anyway.
    fn lose(&mut self, about: &About, why: &str) {
        for path in about.paths.iter().filter(|_| !about.is_deleted) {
            if self.report.lost.len() < RecoverReport::KEPT {
                let path: String = path.iter().map(|name| format!("/{name}")).collect();
                self.report.lost.push((path, why.into()));
            }
        }
    }
}

/// What is told of a file with each of its paths.
struct About {
    paths: Vec<Vec<Name>>,
    is_deleted: bool,
    /// Whether one of its records has faults.
    damaged: bool,
    /// Of the last change and the last access.
    times: [FileTime; 2],
}

impl About {
    fn entry(&self, path: &[Name], kind: Kind) -> Recovered {
        let times = self.times.map(Timestamp::from);
        Recovered { damaged: self.damaged, ..Recovered::new(path.to_vec(), self.is_deleted, kind, times) }
    }
}

/// The data of a file by stream, the unnamed stream first, each with its pieces in order.
fn streams(attributes: &[Attribute]) -> BTreeMap<Box<[u16]>, Vec<Attribute>> {
    let mut streams: BTreeMap<Box<[u16]>, Vec<Attribute>> = BTreeMap::new();
    for attribute in attributes.iter().filter(|attribute| attribute.kind == Type::DATA) {
        streams.entry(attribute.name.clone()).or_default().push(attribute.clone());
    }
    for pieces in streams.values_mut() {
        pieces.sort_by_key(|attribute| match &attribute.content {
            AttributeContent::NonResident(piece) => piece.first,
            AttributeContent::Resident { .. } => 0,
        });
    }
    streams
}

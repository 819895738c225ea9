//! A file: its attributes, each put together from its pieces in all records of the file.

use crate::layout::{
    Attribute, AttributeContent, Kind, NonResident, Record, Reference, Run, attribute_flags, runs,
};
use crate::runlist::{RunList, Runs};
use platter_vfs::{Error, Result};
use std::sync::Arc;

/// The length that no record exceeds, since offsets in it are 16-bit numbers.
const LONGEST_RECORD: usize = 1 << 16;

// Places in a record are 16 bits.
const _: () = assert!(LONGEST_RECORD <= 1 << 16);

/// A file, put together from its base record and the records that extend it.
#[derive(Clone, Debug)]
pub(crate) struct File {
    /// The number and the sequence number of its base record.
    pub reference: Reference,
    /// Flags of the record: [`crate::layout::record_flags`].
    pub flags: u16,
    /// Names that lead to it, short ones included.
    pub links: u16,
    /// The file's attributes by type and name, without the attribute list.
    pub attributes: Vec<Attr>,
    /// Runs of its attribute list, if that is not resident.
    pub list: Vec<Run>,
    /// The value of its attribute list.
    pub list_value: Arc<Vec<u8>>,
    /// The records that extend it, first those that hold attributes.
    pub extensions: Vec<Reference>,
    /// How many of `extensions` hold attributes: the others were taken for the next commit.
    pub used: usize,
    /// The records and clusters that were taken for the next commit.
    pub ahead: Ahead,
    /// Whether its attributes are in other pieces than this crate would divide them into.
    pub is_strange: bool,
}

/// What the next commit will need to store a file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ahead {
    /// The number of that commit.
    pub commit: u64,
    /// Clusters for the file's next attribute list.
    pub spare: Vec<Run>,
    /// Pieces of attributes that changed and may want another record.
    pub moved: usize,
    /// Pieces that changed and stay where they are.
    pub same: usize,
    /// Bytes of the log, at most, that were counted for storing the file.
    pub cost: u64,
}

/// One attribute, put together from its pieces.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Attr {
    /// The attribute's type.
    pub kind: Kind,
    /// The attribute's name.
    pub name: Box<[u16]>,
    /// The attribute's flags.
    pub flags: u16,
    /// The attribute's value, or its clusters and sizes.
    pub body: Body,
}

/// Where an attribute's bytes are.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Body {
    /// The value is in a record.
    Resident {
        /// The bytes.
        value: Vec<u8>,
        /// Whether an index has the value as a key.
        indexed: bool,
    },
    /// The value is in clusters.
    Outside(Outside),
}

/// An attribute's clusters and sizes.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Outside {
    /// The runs, from virtual cluster 0 without a gap.
    pub runs: RunList,
    /// Bytes of content.
    pub size: u64,
    /// The valid length: bytes from the start that were written.
    pub valid: u64,
    /// The base-2 logarithm of the number of clusters in a compression unit.
    pub unit: u8,
}

impl Outside {
    /// The number of clusters from the first to the last, holes included.
    pub(crate) fn clusters(&self) -> u64 {
        self.runs.end()
    }

    /// The number of clusters that are allocated, holes not included.
    pub(crate) fn taken(&self) -> u64 {
        self.runs.taken()
    }

    /// Appends clusters, or a hole where `lcn` is `None`.
    pub(crate) fn push(&mut self, lcn: Option<u64>, length: u64) {
        let vcn = self.clusters();
        self.runs.push(Run { vcn, lcn, length });
    }
}

/// Bytes of a record that a value of `size` bytes takes, as Windows counts them. They are not none if there is content: a
/// program that finds a file without any takes it for one hole.
pub(crate) fn resident_bytes(size: u64) -> u64 {
    size.next_multiple_of(8)
}

impl Attr {
    /// A resident attribute without a name.
    pub(crate) fn resident(kind: Kind, value: Vec<u8>) -> Attr {
        let body = Body::Resident { value, indexed: kind == Kind::FILE_NAME };
        Attr { kind, name: Box::default(), flags: 0, body }
    }

    /// The attribute with this name.
    pub(crate) fn named(mut self, name: &[u16]) -> Attr {
        self.name = name.into();
        self
    }

    /// The attribute's value, if it is resident.
    pub(crate) fn value(&self) -> Option<&[u8]> {
        match &self.body {
            Body::Resident { value, .. } => Some(value),
            Body::Outside(_) => None,
        }
    }

    /// The attribute's clusters, if it is not resident.
    pub(crate) fn outside(&self) -> Option<&Outside> {
        match &self.body {
            Body::Resident { .. } => None,
            Body::Outside(outside) => Some(outside),
        }
    }

    /// The attribute's clusters, to be changed, if it is not resident.
    pub(crate) fn outside_mut(&mut self) -> Option<&mut Outside> {
        match &mut self.body {
            Body::Resident { .. } => None,
            Body::Outside(outside) => Some(outside),
        }
    }

    /// Bytes of its content, resident or not.
    pub(crate) fn size(&self) -> u64 {
        match &self.body {
            Body::Resident { value, .. } => value.len() as u64,
            Body::Outside(outside) => outside.size,
        }
    }

    /// Bytes of the clusters that it takes; of the record, if its value is there.
    pub(crate) fn allocated(&self, cluster: u64) -> u64 {
        match &self.body {
            Body::Resident { value, .. } => resident_bytes(value.len() as u64),
            Body::Outside(outside) => outside.taken() * cluster,
        }
    }

    /// Bytes of the header of a non-resident piece.
    fn outside_header(&self, is_first: bool) -> usize {
        if is_first && self.has_holes() { 0x48 } else { 0x40 }
    }

    fn has_holes(&self) -> bool {
        self.flags & (attribute_flags::SPARSE | attribute_flags::COMPRESSION_MASK) != 0
    }

    /// Divides the attribute into pieces for records: the first at most `first` bytes long if it has runs, the others
    /// at most `most`.
    fn pieces(&self, first: usize, most: usize, cluster: u64) -> Vec<Attribute> {
        let whole = |content| Attribute {
            kind: self.kind,
            name: self.name.clone(),
            flags: self.flags,
            id: 0,
            content,
        };
        let outside = match &self.body {
            Body::Resident { value, indexed } => {
                return vec![whole(AttributeContent::Resident { value: value.clone(), indexed: *indexed })];
            }
            Body::Outside(outside) => outside,
        };
        let list = outside.runs.to_vec();
        let mut pieces = Vec::new();
        let mut done = 0;
        loop {
            let is_first = pieces.is_empty();
            let taken = (is_first && self.has_holes()).then(|| outside.taken() * cluster);
            let header = (self.outside_header(is_first) + self.name.len() * 2).next_multiple_of(8);
            let room = (if is_first { first } else { most }).saturating_sub(header).max(24) & !7;
            let (pairs, fitted) = runs::pack(&list[done..], room);
            let from = if is_first { 0 } else { list[done].vcn };
            done += fitted;
            let sizes = |size| if is_first { size } else { 0 };
            pieces.push(whole(AttributeContent::NonResident(NonResident {
                first: from,
                end: done.checked_sub(1).map_or(0, |last| list[last].end()),
                // The unit in the first piece counts; Linux' ntfs3 takes a later piece that has one for damaged.
                unit: if is_first { outside.unit } else { 0 },
                allocated: sizes(outside.clusters() * cluster),
                size: sizes(outside.size),
                valid: sizes(outside.valid),
                taken,
                pairs,
            })));
            if done >= list.len() {
                return pieces;
            }
        }
    }
}

impl File {
    /// A file without attributes.
    pub(crate) fn new(reference: Reference, flags: u16) -> File {
        File {
            reference,
            flags,
            links: 0,
            attributes: Vec::new(),
            list: Vec::new(),
            list_value: Arc::default(),
            extensions: Vec::new(),
            used: 0,
            ahead: Ahead::default(),
            is_strange: false,
        }
    }

    /// The attribute of this type and name.
    pub(crate) fn find(&self, kind: Kind, name: &[u16]) -> Option<&Attr> {
        self.attributes.iter().find(|attr| attr.kind == kind && *attr.name == *name)
    }

    /// The position among the attributes of the one of this type and name.
    pub(crate) fn position(&self, kind: Kind, name: &[u16]) -> Option<usize> {
        self.attributes.iter().position(|attr| attr.kind == kind && *attr.name == *name)
    }

    /// The attribute of this type and name, to be changed.
    pub(crate) fn find_mut(&mut self, kind: Kind, name: &[u16]) -> Option<&mut Attr> {
        self.attributes.iter_mut().find(|attr| attr.kind == kind && *attr.name == *name)
    }

    /// The value of a resident attribute without a name.
    pub(crate) fn value(&self, kind: Kind) -> Option<&[u8]> {
        self.find(kind, &[])?.value()
    }

    /// Adds an attribute at its place in the order of types and names.
    pub(crate) fn add(&mut self, attr: Attr) {
        let place =
            self.attributes.partition_point(|other| (other.kind, &other.name) <= (attr.kind, &attr.name));
        self.attributes.insert(place, attr);
    }

    /// Takes an attribute out of the file and returns it.
    pub(crate) fn take(&mut self, kind: Kind, name: &[u16]) -> Option<Attr> {
        let place = self.position(kind, name)?;
        Some(self.attributes.remove(place))
    }

    /// Replaces the attribute of the same type and name, or adds this one if there is none.
    pub(crate) fn put(&mut self, attr: Attr) {
        match self.find_mut(attr.kind, &attr.name) {
            Some(old) => *old = attr,
            None => self.add(attr),
        }
    }

    /// Bytes that its attributes would take in one record. Packed runs are counted up to the longest possible record.
    pub(crate) fn length(&self) -> usize {
        let length = |attr: &Attr| {
            let (header, tail) = match &attr.body {
                Body::Resident { value, .. } => (0x18, value.len()),
                Body::Outside(outside) => {
                    (attr.outside_header(true), outside.runs.packed_length(LONGEST_RECORD))
                }
            };
            (header + attr.name.len() * 2).next_multiple_of(8) + tail.next_multiple_of(8)
        };
        self.attributes.iter().map(length).sum()
    }

    /// All attributes as pieces for records, the first of each at most `first` and the others at most `most` bytes.
    pub(crate) fn pieces(&self, first: usize, most: usize, cluster: u64) -> Vec<Attribute> {
        self.attributes.iter().flat_map(|attr| attr.pieces(first, most, cluster)).collect()
    }

    /// Puts a file together from pieces in the order of type, name and first virtual cluster. `at` is the device offset
    /// of the base record.
    pub(crate) fn from_pieces(
        base: &Record,
        number: u64,
        pieces: Vec<Attribute>,
        clusters: u64,
        cluster: u64,
        at: u64,
    ) -> Result<File> {
        let mut file = File::new(Reference::new(number, base.sequence), base.flags);
        file.links = base.links;
        for piece in pieces {
            let damaged =
                |expected: String, found: String| Err(Error::damaged("attribute", at, expected, found));
            match piece.content {
                AttributeContent::Resident { value, indexed } => {
                    let body = Body::Resident { value, indexed };
                    file.attributes.push(Attr {
                        kind: piece.kind,
                        name: piece.name,
                        flags: piece.flags,
                        body,
                    });
                }
                AttributeContent::NonResident(outside) => {
                    let runs = runs::unpack(&outside.pairs, outside.first, outside.end, clusters, at)?;
                    if outside.first == 0 {
                        let body = Body::Outside(Outside {
                            runs: runs.into_iter().collect(),
                            size: outside.size,
                            valid: outside.valid,
                            unit: outside.unit,
                        });
                        file.attributes.push(Attr {
                            kind: piece.kind,
                            name: piece.name,
                            flags: piece.flags,
                            body,
                        });
                        continue;
                    }
                    let known = file
                        .attributes
                        .last_mut()
                        .filter(|last| (last.kind, &last.name) == (piece.kind, &piece.name));
                    let end = known.as_ref().and_then(|known| known.outside()).map(Outside::clusters);
                    if let (Some(known), Some(end)) = (known, end)
                        && end == outside.first
                    {
                        if let Some(whole) = known.outside_mut() {
                            runs.into_iter().for_each(|run| whole.runs.push(run));
                        }
                    } else {
                        return damaged(
                            format!("{} from virtual cluster {end:?}", piece.kind),
                            outside.first.to_string(),
                        );
                    }
                }
            }
        }
        for attr in &mut file.attributes {
            let is_packed = attr.flags & attribute_flags::COMPRESSION_MASK != 0;
            let kind = attr.kind;
            let Some(outside) = attr.outside_mut() else { continue };
            let limit = outside.clusters().saturating_mul(cluster);
            if is_packed && outside.valid <= limit {
                // Of compressed content whole units are written, also what is behind the end.
                outside.valid = outside.valid.min(outside.size);
            }
            if outside.size > limit || outside.valid > outside.size {
                let (expected, found) = (
                    format!("sizes of {kind} up to {limit}"),
                    format!("{} and {}", outside.size, outside.valid),
                );
                return Err(Error::damaged("attribute", at, expected, found));
            }
        }
        Ok(file)
    }
}

//! What somebody sees of a volume who looks around in it: the same for the browser in the terminal and for the page.
//!
//! Nothing here prints, and nothing writes to the volume.

mod preview;
mod search;

pub(super) use preview::{Preview, WINDOW};
pub(super) use search::{Lost, sureness};

use crate::command::facts::{FileFacts, or_none, stream_of};
use crate::command::failure::{About, Failure};
use crate::command::output::grouped;
use crate::command::volume::{ReadOptions, Volumes, source_of};
use platter::{Access, Held, Source};
use platter_device::{Buffer, show_size};
use platter_vfs::{Attributes, Entry, FileSystem, Kind, Name};
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// An open volume, to be looked at.
pub(super) struct View {
    /// The image as the user named it, with its partition.
    pub(super) source: Source,
    system: Arc<dyn FileSystem>,
}

/// A path on the volume, as its names from the root on.
pub(super) type Names = [Name];

/// One of the contents of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// The content without a name.
    Main,
    /// A named stream.
    Stream(Name),
    /// The content as a snapshot keeps it (ReFS).
    Snapshot(Name),
}

/// What is in a directory.
#[derive(Clone, Debug, Default)]
pub(super) struct Listing {
    /// Directories first, both by name.
    pub(super) entries: Vec<Entry>,
    /// Why there may be others that cannot be read.
    pub(super) failure: Option<String>,
}

/// What is known of a file or directory.
#[derive(Clone, Debug)]
pub(super) struct Details {
    pub(super) attributes: Attributes,
    /// Name and value of each fact, to be shown.
    pub(super) facts: Vec<(&'static str, String)>,
    /// Streams and snapshots, with their sizes.
    pub(super) parts: Vec<(Part, u64)>,
}

/// A path on the volume as text.
pub(super) struct Shown<'n>(pub(super) &'n Names);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("/");
        }
        self.0.iter().try_for_each(|name| write!(f, "/{name}"))
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Part::Main => f.write_str("content"),
            Part::Stream(name) => write!(f, "stream {name}"),
            Part::Snapshot(name) => write!(f, "snapshot {name}"),
        }
    }
}

impl View {
    /// Opens the volume in an image for reading, as every command does; with `shadow`, the copy that Windows keeps of it.
    pub(super) fn open(image: &Path, options: &ReadOptions, shadow: Option<u32>) -> Result<View, Failure> {
        let source = source_of(image, options.partition)?;
        let options = ReadOptions { partition: source.partition, ..*options };
        let (whole, _) = Source::split_partition(image);
        let system = Volumes::new(&options).in_shadow(shadow).volume(&whole, Access::Read)?;
        Ok(View { source, system })
    }

    /// The node at a path.
    pub(super) fn find(&self, path: &Names) -> Result<Held, Failure> {
        Held::find(&self.system, path).about(Shown(path))
    }

    /// The entries of a directory.
    pub(super) fn list(&self, path: &Names) -> Result<Listing, Failure> {
        let held = self.find(path)?;
        let (mut entries, read) = held.entries();
        if entries.is_empty() {
            // A file is no directory, and a directory of which nothing can be read is no empty one.
            read.about(Shown(path))?;
            return Ok(Listing::default());
        }
        entries.sort_by_cached_key(|entry| {
            let name = entry.name.folded(platter_vfs::CaseRule::Insensitive);
            (entry.attributes.kind != Kind::Directory, name, entry.name.clone())
        });
        Ok(Listing { entries, failure: read.err().map(|error| error.to_string()) })
    }

    /// What is known of a file or directory.
    pub(super) fn details(&self, path: &Names) -> Result<Details, Failure> {
        let held = self.find(path)?;
        let (system, node) = (&held.system, held.node);
        let attributes = system.attributes(node).about(Shown(path))?;
        let facts = FileFacts::of(&Shown(path), &held)?.shown();
        let streams = or_none(system.streams().and_then(|part| part.list(node))).about(Shown(path))?;
        let snapshots = or_none(system.snapshots().and_then(|part| part.list(node))).about(Shown(path))?;
        let mut parts: Vec<(Part, u64)> =
            streams.into_iter().flatten().map(|stream| (Part::Stream(stream.name), stream.size)).collect();
        for name in snapshots.into_iter().flatten() {
            let size = stream_of(&held, &name, true, false)
                .and_then(|part| system.attributes(part.node))
                .map_or(0, |attributes| attributes.size);
            parts.push((Part::Snapshot(name), size));
        }
        Ok(Details { attributes, facts, parts })
    }

    /// One of the contents of a file, to be read.
    pub(super) fn part(&self, path: &Names, part: &Part) -> Result<Held, Failure> {
        let held = self.find(path)?;
        match part {
            Part::Main => Ok(held),
            Part::Stream(name) => {
                stream_of(&held, name, false, false).about(format!("{}:{name}", Shown(path)))
            }
            Part::Snapshot(name) => {
                stream_of(&held, name, true, false).about(format!("{} as of {name}", Shown(path)))
            }
        }
    }

    /// Reads a window of a content from `offset` on, to be shown.
    pub(super) fn preview(&self, path: &Names, part: &Part, offset: u64) -> Result<Preview, Failure> {
        let held = self.part(path, part)?;
        let size = held.system.attributes(held.node).about(Shown(path))?.size;
        let mut buffer = Buffer::new(WINDOW);
        let read = held.system.read(held.node, offset, &mut buffer).about(Shown(path))?;
        Ok(Preview::new(&buffer[..read], offset, size))
    }

    /// The volume's own facts, to be shown: name and value.
    pub(super) fn volume(&self) -> Result<Vec<(&'static str, String)>, Failure> {
        let info = self.system.info().about(&self.source)?;
        let space = self.system.space().about(&self.source)?;
        let bytes = |clusters: u64| show_size(clusters.saturating_mul(space.cluster));
        let mut facts = vec![
            ("format", info.format.clone()),
            ("label", info.label.clone()),
            ("identifier", info.identifier.clone()),
            ("cluster", show_size(info.cluster)),
            ("size", format!("{} in {} clusters", bytes(space.total), grouped(space.total))),
            ("free", bytes(space.free)),
            ("closed", if info.dirty { "no" } else { "yes" }.to_string()),
        ];
        facts.extend(info.shown());
        Ok(facts)
    }
}

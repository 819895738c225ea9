//! The volume on which a simulation runs: its format and its content at first.

use super::judge;
use super::script::{Abilities, FILES, FIRST_SIZE};
use platter_device::{Device, MemoryDevice, Sectors};
use platter_vfs::{
    Change, CheckOptions, Error, FileSystem, Format, FormatOptions, Kind, Name, Node, OpenOptions, Severity,
    Silent,
};
use std::ops::Range;
use std::sync::Arc;

/// The description of a volume.
#[derive(Clone)]
pub struct Volume {
    /// The name for messages.
    pub name: &'static str,
    /// The format of the volume.
    pub format: &'static dyn Format,
    /// The options with which it is made.
    pub options: FormatOptions,
    /// The size in bytes.
    pub size: u64,
    /// The features that callers use.
    pub abilities: Abilities,
    /// Whether it is repaired after a power cut before it is examined; the other formats need no repair.
    pub repairs: bool,
    /// The number of clusters left free at first: few, so that clusters freed by one caller are allocated by another at
    /// once.
    pub left: Option<u64>,
    /// Whether it is on a mirror. Then only one of both copies has failures, which callers must not notice.
    pub mirrored: bool,
}

/// A volume that is ready for runs.
pub struct Setting {
    pub(super) volume: Volume,
    /// The image of the unmounted volume with the shared files.
    pub(super) image: Arc<MemoryDevice>,
}

/// The number of the shared file that is a named stream of the first.
pub(super) const STREAM: usize = FILES - 1;
/// The size of each file of the crowd in bytes: more than a record holds.
pub(super) const CROWD_SIZE: u64 = 4096;

/// The name of a shared file.
pub(super) fn shared(file: usize) -> Name {
    Name::from(format!("shared {file}").as_str())
}

/// The name of a file of the crowd: a long one, which takes much room in directory and record.
pub(super) fn of_crowd(number: usize) -> Name {
    Name::from(format!("{number:-<180}").as_str())
}

/// Looks up the node of a shared file; with `create`, the stream is made if it is missing.
pub(super) fn hold(system: &dyn FileSystem, file: usize, create: bool) -> Result<Node, Error> {
    if file < STREAM {
        return system.lookup(Node::ROOT, &shared(file));
    }
    let owner = system.lookup(Node::ROOT, &shared(0))?;
    let stream = system.streams().and_then(|part| part.open(owner, &side(), create));
    system.forget(owner, 1);
    stream
}

/// The name of the shared stream.
pub(super) fn side() -> Name {
    "side".into()
}

/// Reads all of a file.
pub(super) fn content(system: &dyn FileSystem, node: Node) -> Result<Vec<u8>, Error> {
    let mut content = vec![0; system.attributes(node)?.size as usize];
    let read = system.read(node, 0, &mut content)?;
    content.truncate(read);
    Ok(content)
}

/// Reads all of a shared file, which is found by its name.
pub(super) fn named_content(system: &dyn FileSystem, file: usize) -> Result<Vec<u8>, Error> {
    let node = hold(system, file, false)?;
    let content = content(system, node);
    system.forget(node, 1);
    content
}

impl Setting {
    /// Makes the volume.
    ///
    /// # Panics
    /// If the volume cannot be made.
    pub fn new(volume: Volume) -> Setting {
        let image = Arc::new(MemoryDevice::new(volume.size, Sectors::SMALL));
        let Volume { name, format, .. } = volume;
        format.make(&*image, &volume.options, &Silent).unwrap_or_else(|error| panic!("{name}: {error}"));
        let system = format.open(image.clone(), OpenOptions::default()).expect("just made");
        let system = &*system;
        let make = |name: &Name| {
            let made = system.create(Node::ROOT, name, Kind::File).expect("an empty volume");
            system.forget(made, 1);
        };
        for file in 0..volume.abilities.files() {
            if file < STREAM {
                make(&shared(file));
            }
            let node = hold(system, file, true).expect("it is there");
            system.write(node, 0, &vec![judge::first_content(file); FIRST_SIZE as usize]).expect("room");
            system.forget(node, 1);
        }
        for number in 0..volume.abilities.crowd {
            make(&of_crowd(number));
            let node = system.lookup(Node::ROOT, &of_crowd(number)).expect("just made");
            system.write(node, 0, &[0; CROWD_SIZE as usize]).expect("room");
            system.forget(node, 1);
        }
        if let Some(left) = volume.left {
            fill(system, volume.size, left);
        }
        system.unmount().expect("a sound device");
        Setting { volume, image }
    }

    /// Checks the volume on a device.
    pub(super) fn check(&self, device: &dyn Device, repair: bool) -> Result<(), String> {
        let checked = self.volume.format.check(device, CheckOptions { repair }, &Silent);
        let report = checked.map_err(|error| error.to_string())?;
        let sound = match repair {
            true => report.remaining.is_none_or(|left| left == Severity::Notice),
            false => report.is_clean(),
        };
        match sound {
            true => Ok(()),
            false => Err(report.findings.iter().map(|finding| format!("\n    {finding}")).collect()),
        }
    }
}

/// Allocates clusters until only `left` are free for data.
fn fill(system: &dyn FileSystem, size: u64, left: u64) {
    let node = system.create(Node::ROOT, &"ballast".into(), Kind::File).expect("room");
    let (mut end, mut piece) = (0, size);
    let cluster = system.space().expect("a sound device").cluster;
    let resize =
        |size| system.set_attributes(node, &Change { size: Some(size), ..Change::default() }).map(drop);
    let take = |range: Range<u64>| match system.allocate(node, range.clone(), false) {
        Err(Error::Unsupported { .. }) => resize(range.end),
        outcome => outcome,
    };
    while piece >= cluster {
        match take(end..end + piece) {
            Ok(()) => end += piece,
            Err(Error::NoSpace | Error::FileTooLarge { .. }) => {
                piece = (piece / 2).next_multiple_of(cluster) - if piece <= cluster { cluster } else { 0 }
            }
            Err(error) => panic!("{error}"),
        }
    }
    resize(end - left * cluster).expect("to take less");
    system.forget(node, 1);
}

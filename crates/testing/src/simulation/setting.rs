//! The volume that a simulation runs on: its format, and what is on it before the first caller comes.

use super::judge;
use super::script::{Abilities, FILES, FIRST_SIZE};
use platter_device::{Device, MemoryDevice, Sectors};
use platter_vfs::{
    Change, CheckOptions, Error, FileSystem, Format, FormatOptions, Kind, Name, Node, OpenOptions, Severity,
    Silent,
};
use std::ops::Range;
use std::sync::Arc;

/// A kind of volume.
#[derive(Clone)]
pub struct Volume {
    /// What it is called.
    pub name: &'static str,
    /// Its format.
    pub format: &'static dyn Format,
    /// How it is made.
    pub options: FormatOptions,
    /// Bytes.
    pub size: u64,
    /// What callers may do.
    pub abilities: Abilities,
    /// After a power cut it is repaired before it is looked at; the others need no repair.
    pub repairs: bool,
    /// So few clusters are left free, so that what one caller gives up another takes at once.
    pub left: Option<u64>,
    /// Whether it lies on a mirror. Then only one of both copies fails, and nobody notices.
    pub mirrored: bool,
}

/// A volume to run on.
pub struct Setting {
    pub(super) volume: Volume,
    /// The unmounted volume, with the files that all callers share.
    pub(super) image: Arc<MemoryDevice>,
}

/// The file that is a named stream of the first.
pub(super) const STREAM: usize = FILES - 1;
/// Bytes of each file of the crowd: more than a record holds.
pub(super) const CROWD_SIZE: u64 = 4096;

/// The name of a file that all share.
pub(super) fn shared(file: usize) -> Name {
    Name::from(format!("shared {file}").as_str())
}

/// The name of one of the crowd: a long one, of which directory and record have much to say.
pub(super) fn of_crowd(number: usize) -> Name {
    Name::from(format!("{number:-<180}").as_str())
}

/// Takes a hold on a shared file.
pub(super) fn hold(system: &dyn FileSystem, file: usize, create: bool) -> Result<Node, Error> {
    if file < STREAM {
        return system.lookup(Node::ROOT, &shared(file));
    }
    let owner = system.lookup(Node::ROOT, &shared(0))?;
    let stream = system.stream(owner, &side(), create);
    system.forget(owner, 1);
    stream
}

/// The name of the stream that all share.
pub(super) fn side() -> Name {
    "side".into()
}

/// All of a file.
pub(super) fn content(system: &dyn FileSystem, node: Node) -> Result<Vec<u8>, Error> {
    let mut content = vec![0; system.attributes(node)?.size as usize];
    let read = system.read(node, 0, &mut content)?;
    content.truncate(read);
    Ok(content)
}

/// All of a shared file, which is there under its name.
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
    /// If that fails.
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

/// Takes clusters until only so many are left for data.
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

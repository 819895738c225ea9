//! Small volumes with some 300 files, and how damaged copies of them are checked and read.

use crate::places::Places;
use crate::tree::{Seen, Tree};
use platter_device::{Device, MemoryDevice, Sectors};
use platter_formats::by_name;
use platter_testing::model::{Clock, ClockedDevice, ImageFile, Random, judge::Programs};
use platter_vfs::{
    Change, CheckOptions, CheckReport, Error, FileSystem, Format, FormatOptions, Kind, LocalTime, Name, Node,
    OpenOptions, Silent, SyncScope,
};
use std::sync::Arc;
use std::time::Duration;

/// Every format, by name; and NTFS with compressed files.
pub(crate) const FORMATS: [&str; 8] =
    ["fat12", "fat16", "fat32", "exfat", "ntfs", COMPRESSED, "refs", "refs+integrity"];
const COMPRESSED: &str = "ntfs+compressed";

/// Returns the size of a volume in bytes, and that of its clusters unless the format chooses it.
fn size(format: &str) -> (u64, Option<u64>) {
    match format {
        "fat12" => (3 << 20, Some(1024)),
        "fat16" => (5 << 20, Some(1024)),
        "fat32" => (40 << 20, Some(512)),
        "exfat" => (4 << 20, Some(512)),
        "ntfs" | COMPRESSED => (8 << 20, Some(4096)),
        _ => (320 << 20, None),
    }
}

/// An undamaged volume.
pub(crate) struct Volume {
    pub name: &'static str,
    pub format: &'static dyn Format,
    pub device: Arc<dyn Device>,
    /// Everything that is on the volume.
    pub truth: Tree,
    pub places: Places,
}

impl Volume {
    pub(crate) fn new(name: &'static str) -> Volume {
        Volume::with_free(name, None)
    }

    /// A volume on which so many clusters are free, if it is said how many.
    pub(crate) fn with_free(name: &'static str, left: Option<u64>) -> Volume {
        let format = by_name(if name == COMPRESSED { "ntfs" } else { name }).expect("a format of the list");
        let device: Arc<dyn Device> = populated(name, format, left);
        let system = format.open(device.clone(), READ_ONLY).expect("the volume just made");
        let places = Places::of(&*device, &*system);
        let truth = Tree::of(&*system);
        assert!(truth.faults.is_empty(), "{name}: {:?}", truth.faults);
        Volume { name, format, device, truth, places }
    }

    /// Whether the content of files has checksums.
    pub(crate) fn has_integrity(&self) -> bool {
        self.name == "refs+integrity"
    }

    /// Whether all that could not be read is content that cannot be unpacked: a check does not read content.
    pub(crate) fn is_packed_content(&self, tree: &Tree) -> bool {
        self.name == COMPRESSED && tree.faults.iter().all(|fault| fault.contains("compression unit"))
    }

    /// Whether the tree of a damaged copy differs from that of this volume only in facts that NTFS stores once, in a
    /// metadata record, so that no check can compare them: content and targets of links that are in the record itself;
    /// times; the size and the valid data length of content in clusters; names of streams and extended attributes.
    /// Content that is read from other clusters is not such a fact.
    pub(crate) fn is_all_in_records(&self, tree: &Tree) -> bool {
        self.truth.otherwise(tree).iter().all(|(path, both)| match both {
            (Some(Seen::File(one)), Some(Seen::File(two))) => {
                one.is_like(two) || one.is_resident && two.is_resident || one.places == two.places
            }
            (Some(Seen::Link(_)), Some(Seen::Link(_))) => true,
            (Some(_), None) | (None, Some(_)) => path.contains(':') || path.contains(", attribute "),
            _ => false,
        })
    }

    pub(crate) fn check(&self, device: &dyn Device, repair: bool) -> Result<CheckReport, String> {
        self.format.check(device, CheckOptions { repair }, &Silent).map_err(|error| error.to_string())
    }

    /// Returns everything that can be read of a damaged copy of this volume.
    pub(crate) fn read(&self, device: &Arc<dyn Device>) -> Tree {
        match self.format.open(device.clone(), READ_ONLY) {
            Ok(system) => Tree::of(&*system),
            Err(error) => Tree { faults: vec![format!("it does not open: {error}")], ..Tree::default() },
        }
    }

    /// Whether a damaged copy of this volume can be opened.
    pub(crate) fn opens(&self, device: &Arc<dyn Device>) -> bool {
        self.format.open(device.clone(), READ_ONLY).is_ok()
    }

    /// Returns the output of another program's checker, if there is one for the format and it finds fault with the
    /// volume.
    pub(crate) fn complaint(&self, device: &dyn Device) -> Option<String> {
        const PROGRAMS: Programs = Programs { from: "dosfstools, exfatprogs or ntfs-3g", environment: &[] };
        let arguments: &[&str] = match self.name {
            "fat12" | "fat16" | "fat32" => &["fsck.fat", "-n"],
            "exfat" => &["fsck.exfat", "-n"],
            "ntfs" | COMPRESSED => &["ntfsfix", "-n"],
            _ => return None,
        };
        let image = ImageFile::of(device);
        let (status, output) = PROGRAMS.ask(arguments[0], &[arguments[1], image.path()]);
        let objects = |line: &str| {
            // This complaint does not count: a program that does not know an entry of such a type is to leave it alone,
            // as the check does (exFAT 7.0, "benign").
            !line.contains("unknown entry type 0xa")
                && ["ERROR", "corrupted", "Fix", "FAILED", "orrupt"].iter().any(|word| line.contains(word))
        };
        if self.name.starts_with("fat") && is_about_letters_of_a_label(&output) {
            return None;
        }
        let is_quiet = self.name.starts_with("fat") || !output.lines().any(objects);
        let is_content = status.success() || self.name == "exfat" && is_quiet && output.contains("clean");
        (!is_content || !is_quiet).then_some(output)
    }
}

const READ_ONLY: OpenOptions = OpenOptions {
    read_only: true,
    local_time: LocalTime::Ahead(0),
    commits_syncs: false,
    ignores_case: false,
    lose_shadow_copies: false,
};

/// Makes a volume with some 300 files and directories, some of them fragmented, and everything that the format can
/// hold.
fn populated(name: &str, format: &dyn Format, left: Option<u64>) -> Arc<dyn Device> {
    let (bytes, cluster) = size(name);
    let memory = Arc::new(MemoryDevice::new(bytes, Sectors::SMALL));
    // The times are the same in every run, so that a seed determines everything.
    let clock = Clock::new(Duration::from_secs(1_700_000_000));
    let device: Arc<dyn Device> = Arc::new(ClockedDevice::new(memory.clone(), clock));
    let options = FormatOptions {
        cluster,
        label: Some("DAMAGED".into()),
        serial: Some(8664),
        compress: (name == COMPRESSED).then_some(true),
        ..FormatOptions::default()
    };
    format.make(&*device, &options, &Silent).expect("a volume of this size");
    let system = format.open(device, OpenOptions::default()).expect("the volume just made");
    fill(&*system, name == COMPRESSED);
    if let Some(left) = left {
        use_up(&*system, left);
    }
    system.unmount().expect("a device that does not fail");
    memory
}

/// Leaves `left` clusters free, or as few as the format lets data and names have.
fn use_up(system: &dyn FileSystem, left: u64) {
    const PIECE: u64 = 1 << 20;
    let free = || {
        system.sync_all().expect("a device that does not fail");
        system.space().expect("a volume")
    };
    let names = system.create(Node::ROOT, &Name::from("names"), Kind::Directory).expect("room");
    let ballast = system.create(Node::ROOT, &Name::from("ballast"), Kind::File).expect("room");
    let mut at = 0;
    // What takes room where content is compressed too.
    let noise: Vec<u8> = Random::new(left).bytes(PIECE as usize);
    // Where it can be had without content, nobody has to read it.
    let takes = |at: u64, length: u64| {
        let had = free().free;
        let is_less = |done: Result<(), Error>| done.is_ok() && free().free < had;
        is_less(system.allocate(ballast, at..at + length, true))
            || is_less(system.write(ballast, at, &noise[..length as usize]))
    };
    let mut piece = PIECE;
    let cluster = free().cluster;
    while piece >= cluster {
        let space = free();
        let most = space.free.saturating_sub(left + space.reserved) * cluster;
        if most < piece || !takes(at, piece) {
            piece /= 2;
            continue;
        }
        at += piece;
    }
    // Names get clusters that data cannot have.
    for number in 0..2000 {
        if free().free <= left {
            break;
        }
        let name = Name::from(format!("a name that is there to take room, number {number}").as_str());
        match system.create(names, &name, Kind::File) {
            Ok(node) => system.forget(node, 1),
            Err(_) => break,
        }
    }
}

/// Content that is repeated can be compressed.
fn fill(system: &dyn FileSystem, is_repeated: bool) {
    let mut random = Random::new(8664);
    let make = |above: Node, name: &str, kind: Kind| {
        system.create(above, &Name::from(name), kind).expect("room for an entry")
    };
    let deep = make(Node::ROOT, "a deep directory", Kind::Directory);
    let deeper = make(deep, "DEEPER", Kind::Directory);
    let deepest = make(deeper, "the deepest of them all", Kind::Directory);
    let many = make(Node::ROOT, "many", Kind::Directory);
    make(Node::ROOT, "an empty one", Kind::Directory);
    let mut write = |node: Node, from: u64, size: u64| {
        let mut content = random.bytes(if is_repeated { 64 } else { size as usize });
        if is_repeated {
            content = content.into_iter().cycle().take(size as usize).collect();
        }
        system.write(node, from, &content).expect("room for content");
    };
    for number in 0..40_u64 {
        let size = [0, 1, 300, 513, 1024, 5000, 12_000][number as usize % 7];
        let long = make(Node::ROOT, &format!("A long name, number {number}.data"), Kind::File);
        let short = make(deep, &format!("SHORT{number}.TXT"), Kind::File);
        // Two files that grow in turns do not lie in one piece.
        for turn in 0..2 {
            write(long, turn * size, size + number % 2);
            write(short, turn * size * 3 / 2, size * 3 / 2);
            system.sync(long, SyncScope::All).expect("a device that does not fail");
        }
        let file = make([deeper, deepest][number as usize % 2], &format!("file {number}.text"), Kind::File);
        write(file, 0, size);
        if number % 9 == 0 {
            let longer = Change { size: Some(size + 3000), ..Change::default() };
            system.set_attributes(file, &longer).expect("room to grow");
        }
    }
    for number in 0..170_u64 {
        let file = make(many, &format!("one of many {number}"), Kind::File);
        write(file, 0, [40, 400, 1400][number as usize % 3]);
        if number % 17 == 0 {
            system.unlink(many, &Name::from(format!("one of many {number}").as_str())).expect("it is there");
        }
        system.forget(file, 1);
    }
    more(system, many, &mut write);
}

/// Adds what not every format has: named streams, several names, links, extended attributes and holes.
fn more(system: &dyn FileSystem, directory: Node, write: &mut dyn FnMut(Node, u64, u64)) {
    let known = system.capabilities().clone();
    let make = |name: &str| system.create(directory, &Name::from(name), Kind::File).expect("room");
    for number in 0..6_u64 {
        let file = make(&format!("special {number}"));
        write(file, 0, 2000 * number);
        if known.streams {
            let stream = system
                .streams()
                .expect("room for a stream")
                .open(file, &Name::from("a stream"), true)
                .expect("room for a stream");
            write(stream, 0, 1500 * number);
        }
        if known.hard_links {
            let name = format!("another name {number}");
            system.link(file, directory, &Name::from(name.as_str())).expect("room for a name");
        }
        if known.symbolic_links {
            let name = Name::from(format!("link {number}").as_str());
            system.symlink(directory, &name, &format!("special {number}")).expect("room for a link");
        }
        if known.extended_attributes {
            system
                .extended_attributes()
                .expect("room")
                .set(file, "AN.ATTRIBUTE", Some(b"and its value"))
                .expect("room");
        }
        if known.sparse {
            write(file, 300_000 + 100_000 * number, 5000);
        }
    }
}

/// Whether fsck.fat complains only that a label has letters outside ASCII, some of which it takes for wrong.
fn is_about_letters_of_a_label(output: &str) -> bool {
    let is_label = |line: &str| line.starts_with("Volume label '") && line.ends_with("is not valid.");
    let is_frame = |line: &str| {
        ["fsck.fat ", "  Auto-removing label.", "Leaving filesystem unchanged.", "/"]
            .iter()
            .any(|start| line.starts_with(start))
            || line.is_empty()
    };
    output.lines().any(|line| is_label(line) && !line.is_ascii())
        && output.lines().all(|line| is_label(line) || is_frame(line))
}

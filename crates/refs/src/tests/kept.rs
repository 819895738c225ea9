//! Tests how many files are kept in memory after their callers have forgotten them.

use crate::volume::MOST_CHANGED;
use crate::{Refs, RefsVolume};
use platter_device::{MemoryDevice, Sectors};
use platter_vfs::{
    Change, DosFlags, FileSystem, Format, FormatOptions, Kind, Name, Names, Node, OpenOptions, Silent,
};
use std::sync::Arc;

/// If a caller makes or changes many files, forgets each at once and never syncs, the files are stored and dropped from
/// memory before there are too many. A limit on changed pages would not be enough: the rows of new files take few
/// pages, and changes of attributes take none before the commit.
#[test]
fn of_files_that_were_forgotten_few_wait_to_be_stored() {
    const MANY: usize = 3 * MOST_CHANGED;
    let device = Arc::new(MemoryDevice::new(512 << 20, Sectors::SMALL));
    Refs::ANY.make(&*device, &FormatOptions::default(), &Silent).unwrap();
    let volume = RefsVolume::open(device, OpenOptions::default()).unwrap();
    let directory = volume.create(Node::ROOT, &"many".into(), Kind::Directory).unwrap();
    let name = |number: usize| Name::from(&*format!("{number}"));
    // Besides: the two directories, and the file that was made or looked up last.
    let most = MOST_CHANGED + 3;
    let mut seen = 0;
    for number in 0..MANY {
        let file = volume.create(directory, &name(number), Kind::File).unwrap();
        volume.forget(file, 1);
        seen = seen.max(volume.nodes_in_use());
    }
    assert!(seen <= most, "made: {seen}");
    volume.sync_all().unwrap();
    seen = 0;
    let hidden = Change { flags: Some(DosFlags(2)), ..Change::default() };
    for number in 0..MANY {
        let file = volume.lookup(directory, &name(number)).unwrap();
        volume.set_attributes(file, &hidden).unwrap();
        volume.forget(file, 1);
        seen = seen.max(volume.nodes_in_use());
    }
    assert!(seen <= most, "changed: {seen}");
    volume.sync_all().unwrap();
    assert!(volume.nodes_in_use() <= 3, "{}", volume.nodes_in_use());
    volume.unmount().unwrap();
}

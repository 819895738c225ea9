//! Long random streams of operations, compared with the reference file system.

use crate::common::{VOLUMES, Volume, tested};
use platter_testing::conformance;
use platter_testing::model::{Make, verify};

fn run(volume: Volume, seed: u64, count: usize) {
    let make: Make<'_> = &|clock| tested(volume.make(), clock);
    verify(seed, count, 500, &volume.shape(300_000), make);
}

conformance!(model: VOLUMES, streams: 2, operations: 2_000, run: run);

/// A change of a directory, which comes after a write to its named stream, determines the directory's time.
#[test]
fn a_directory_with_a_stream_has_the_time_of_the_last_change() {
    use platter_testing::model::Operation::*;
    use platter_testing::model::{named, replay};
    use platter_vfs::Kind;
    let make: Make<'_> = &|clock| tested(VOLUMES[0].make(), clock);
    let operations = [
        Create { directory: 0, name: named("above"), kind: Kind::Directory, into: 28 },
        Create { directory: 28, name: named("file"), kind: Kind::File, into: 13 },
        Stream { node: 28, name: named("stream"), create: true, into: 17 },
        Write { node: 17, offset: 77, length: 47035, seed: 393604125 },
        Unlink { directory: 28, name: named("file") },
        Compare,
    ];
    replay(&operations, make);
}

/// A write that failed leaves a gap in front of what a later write put behind it, which extending the file keeps.
#[test]
fn what_was_written_behind_a_write_that_failed_stays() {
    use platter_testing::model::Operation::*;
    use platter_testing::model::{named, replay};
    use platter_vfs::Kind;
    let make: Make<'_> = &|clock| tested(VOLUMES[0].make(), clock);
    let before = [
        Create { directory: 0, name: named("file"), kind: Kind::File, into: 1 },
        Write { node: 1, offset: 737, length: 2965, seed: 1 },
        PlanWrite { flight: 0, node: 1, offset: 5120, length: 9216, seed: 2 },
        Finish { flight: 0, fail: true },
        Write { node: 1, offset: 19025, length: 4574, seed: 3 },
        // Tells where content is, too.
        Compare,
    ];
    for change in [
        Resize { node: 1, size: 45056 },
        Resize { node: 1, size: 20000 },
        Resize { node: 1, size: 12000 },
        Punch { node: 1, start: 20000, end: 21000 },
        Punch { node: 1, start: 6000, end: 20000 },
        Allocate { node: 1, start: 30000, end: 40000, keep_size: false },
    ] {
        replay(&[&before[..], &[change, Compare, Remount, Compare]].concat(), make);
    }
}

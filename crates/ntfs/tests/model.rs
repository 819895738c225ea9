//! Long random streams of operations, compared with the reference file system.

mod common;

use common::{VOLUMES, Volume, tested};
use platter_testing::model::{Make, million, verify};

fn run(volume: Volume, seed: u64, count: usize) {
    let make: Make<'_> = &|clock| tested(volume.make(), clock);
    verify(seed, count, 500, &volume.shape(300_000), make);
}

/// 20,000 operations altogether.
#[test]
fn every_kind_agrees_with_the_reference() {
    for (number, volume) in VOLUMES.into_iter().enumerate() {
        for stream in 0..2 {
            run(volume, 100 * stream + number as u64, 2_000);
        }
    }
}

/// A million operations: `cargo test --release -p platter-ntfs --test model -- --ignored`, with `PLATTER_SEED=n` for
/// other operations.
#[test]
#[ignore = "a campaign: takes minutes"]
fn a_million_operations_agree_with_the_reference() {
    million(&VOLUMES, run);
}

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

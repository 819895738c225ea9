//! The volumes on which schedules run.

use platter_formats::by_name;
use platter_testing::simulation::{Abilities, Setting, Volume};
use platter_vfs::FormatOptions;
use std::sync::Arc;

/// The names of all volumes.
pub(crate) const NAMES: [&str; 16] = [
    "fat12",
    "fat16",
    "fat12 full",
    "exfat",
    "exfat full",
    "ntfs",
    "ntfs full",
    "ntfs crowd",
    "ntfs mirror",
    "refs",
    "refs+integrity",
    "refs toggled",
    "refs full",
    "refs+integrity full",
    "refs toggled full",
    "refs mirror",
];

const PLAIN: Abilities =
    Abilities { sparse: false, integrity: false, streams: false, clone: false, links: false, crowd: 0 };
const SPARSE: Abilities = Abilities { sparse: true, streams: true, links: true, ..PLAIN };
const SHARING: Abilities = Abilities { clone: true, ..SPARSE };

/// The number of files of a crowd: the log records of their sizes and times need more room than the smallest log of
/// NTFS has.
const CROWD: usize = 200;

/// Makes the volume of this name.
pub(crate) fn setting(name: &'static str) -> Arc<Setting> {
    let words: Vec<&str> = name.split(' ').collect();
    let (format, size, cluster, abilities) = match words[0] {
        // Small, because the whole volume is repaired after each power cut.
        "fat12" => ("fat12", 2 << 20, 2048, PLAIN),
        "fat16" => ("fat16", 16 << 20, 2048, PLAIN),
        "exfat" => ("exfat", 8 << 20, 4096, PLAIN),
        "ntfs" => ("ntfs", 16 << 20, 4096, SPARSE),
        "refs" => ("refs", 336 << 20, 4096, SHARING),
        "refs+integrity" => ("refs+integrity", 336 << 20, 4096, SHARING),
        _ => unreachable!("{name}"),
    };
    let has = |word| words.contains(&word);
    let abilities =
        Abilities { integrity: has("toggled"), crowd: if has("crowd") { CROWD } else { 0 }, ..abilities };
    Arc::new(Setting::new(Volume {
        name,
        format: by_name(format).expect("registered"),
        options: FormatOptions { cluster: Some(cluster), serial: Some(1), ..FormatOptions::default() },
        size,
        abilities,
        repairs: !words[0].starts_with("refs") && words[0] != "ntfs",
        left: has("full").then_some(if words[0].starts_with("refs") { 8 } else { 24 }),
        mirrored: has("mirror"),
    }))
}

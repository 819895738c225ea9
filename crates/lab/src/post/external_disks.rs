//! The comparison of 2009 on external disks, whose figures are in pictures: what its text states, one by one.

use super::placed_name;
use crate::document::{BesideStatement, Document};

/// The places of the post's parts.
const USB: &str = "USB";
const FIREWIRE: &str = "FireWire";
const ESATA: &str = "eSATA";
const SMALL: &str = "USB, 320 GB";

const FAT: &str = "fat32:32k";
const EXFAT: &str = "exfat:128k";
const NTFS: &str = "ntfs:4k";

/// What the text states, and whether it holds for a document of the post. Nothing, if a load is missing there.
pub(super) fn statements(document: &Document) -> Vec<BesideStatement> {
    let is_whole = [USB, FIREWIRE, ESATA, SMALL].into_iter().all(|place| {
        [FAT, EXFAT, NTFS].into_iter().all(|format| {
            let target = placed_name(format, place);
            document.results.iter().filter(|result| result.target == target && result.mb_per_s > 0.0).count()
                >= 12
        })
    });
    let parts: &[fn(&Rates<'_>) -> Stated] =
        if is_whole { &[of_streams, of_offices, of_copies] } else { &[] };
    let found = parts.iter().flat_map(|part| part(&Rates(document)));
    found.map(|(text, holds)| BesideStatement { text: text.into(), holds }).collect()
}

/// Megabytes a second of each place, format and load.
struct Rates<'d>(&'d Document);

impl Rates<'_> {
    fn of(&self, place: &str, format: &str, load: &str) -> f64 {
        let target = placed_name(format, place);
        let mut results = self.0.results.iter();
        let found = results.find(|result| result.target == target && result.case.name == load);
        found.map_or(f64::NAN, |result| result.runs[0].mb_per_s)
    }

    /// The same load with each of the three formats: FAT32, exFAT, NTFS.
    fn three(&self, place: &str, load: &str) -> [f64; 3] {
        [FAT, EXFAT, NTFS].map(|format| self.of(place, format, load))
    }
}

/// How much the largest is above the smallest.
fn spread(rates: [f64; 3]) -> f64 {
    let [least, most] = [f64::min, f64::max].map(|of| rates.into_iter().reduce(of).expect("three"));
    most / least
}

/// A statement, and whether the model agrees.
type Stated = Vec<(&'static str, bool)>;

/// What was stated of streams.
fn of_streams(rates: &Rates<'_>) -> Stated {
    let three = |place, load| rates.three(place, load);
    let of = |place, format, load| rates.of(place, format, load);
    let [once, twice, four] = ["HD Video Playback", "2x HD Playback", "4x HD Playback"];
    let slow = [USB, FIREWIRE];
    let everywhere = [USB, FIREWIRE, ESATA];
    let falls = |place| of(place, NTFS, once) / of(place, NTFS, twice);
    vec![
        (
            "playback: the format hardly matters",
            everywhere.into_iter().all(|at| spread(three(at, once)) < 1.05),
        ),
        ("playback: NTFS is clearly slow over USB", of(USB, NTFS, once) < 0.9 * of(USB, FAT, once)),
        ("playback: eSATA is clearly fastest", of(ESATA, NTFS, once) > 1.5 * of(FIREWIRE, NTFS, once)),
        ("2x: eSATA falls most", slow.into_iter().all(|at| falls(ESATA) > 1.5 * falls(at))),
        (
            "4x: NTFS is slower everywhere",
            everywhere.into_iter().all(|at| {
                let [fat, exfat, ntfs] = three(at, four);
                ntfs < 0.98 * fat.min(exfat)
            }),
        ),
        (
            "record: FAT32 loses much on slow links",
            of(USB, FAT, "HD Video Record") < 0.9 * of(USB, NTFS, "HD Video Record"),
        ),
    ]
}

/// What was stated of the loads of offices.
fn of_offices(rates: &Rates<'_>) -> Stated {
    let of = |place, format, load| rates.of(place, format, load);
    let slow = [USB, FIREWIRE];
    let content = |place| rates.three(place, "Content Creation");
    let office = |place| rates.three(place, "Office Productivity");
    let photos = |place, format| of(place, format, "Photo Album");
    vec![
        (
            "content: NTFS is best on slow links",
            slow.into_iter().all(|at| {
                let [fat, exfat, ntfs] = content(at);
                ntfs > 1.1 * fat.max(exfat)
            }),
        ),
        ("content: NTFS is worst on eSATA", content(ESATA)[2] < content(ESATA)[0].min(content(ESATA)[1])),
        ("content: all are equal on the small disk", spread(content(SMALL)) < 1.1),
        (
            "office: NTFS is best on slow links, then FAT32",
            slow.into_iter().all(|at| {
                let [fat, exfat, ntfs] = office(at);
                ntfs > fat && fat > exfat
            }),
        ),
        (
            "office: exFAT is ten times worse on slow links",
            slow.into_iter().all(|at| office(at)[1] * 10.0 < office(at)[2]),
        ),
        ("office: exFAT is fine on eSATA", spread(office(ESATA)) < 1.1),
        ("photos: FireWire has almost twice USB", photos(FIREWIRE, NTFS) > 1.7 * photos(USB, NTFS)),
        ("photos: eSATA has three times USB on NTFS", photos(ESATA, NTFS) > 2.5 * photos(USB, NTFS)),
    ]
}

/// What was stated of copies.
fn of_copies(rates: &Rates<'_>) -> Stated {
    let three = |place, load| rates.three(place, load);
    let of = |place, format, load| rates.of(place, format, load);
    let [to, from] = ["File copy to NAS", "File copy from NAS"];
    let [tree, tree_from] = ["Dir copy to NAS", "Dir copy from NAS"];
    let slow = [USB, FIREWIRE];
    let everywhere = [USB, FIREWIRE, ESATA];
    vec![
        ("copy from: NTFS gains little on eSATA", of(ESATA, NTFS, from) < 1.3 * of(FIREWIRE, NTFS, from)),
        ("copy to: exFAT loses on eSATA", of(ESATA, EXFAT, to) < 0.9 * of(ESATA, FAT, to)),
        (
            "tree from: FAT32 wins a little everywhere",
            everywhere.into_iter().all(|at| {
                let [fat, exfat, ntfs] = three(at, tree_from);
                fat > exfat.max(ntfs)
            }),
        ),
        ("tree to: NTFS is the same on all links", spread(everywhere.map(|at| of(at, NTFS, tree))) < 1.3),
        (
            "tree to: exFAT is slow, and faster on faster links",
            of(ESATA, EXFAT, tree) > 2.0 * of(USB, EXFAT, tree),
        ),
        (
            "tree to: FAT32 is excellent on eSATA, terrible elsewhere",
            slow.into_iter().all(|at| {
                of(ESATA, FAT, tree) > 10.0 * of(at, FAT, tree)
                    && of(at, FAT, tree) < 0.2 * of(at, NTFS, tree)
            }),
        ),
        ("tree to: FAT32 is three times slower on a disk five times as large", {
            let ratio = of(SMALL, FAT, tree) / of(USB, FAT, tree);
            (2.4..3.6).contains(&ratio)
        }),
    ]
}

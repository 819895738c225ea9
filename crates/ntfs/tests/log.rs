//! The log, as Linux reads and replays it, and as power cuts leave it.

use platter_device::{
    Device, Faults, FileDevice, FileOptions, Grain, MemoryDevice, OverlayDevice, Sectors, Survivors,
};
use platter_ntfs::check::check;
use platter_ntfs::layout::index::{IndexBlock, IndexNode, name_entry};
use platter_ntfs::layout::log::{FIRST_PAGE, PAGE, PAGE_DATA, RecordPage, TAIL_PAGES};
use platter_ntfs::layout::{
    AttributeContent, BootSector, Geometry, Kind, Record, Reference, fixup, record_number, runs,
};
use platter_ntfs::log::{Change, Log, LogPlace, LogState, Target};
use platter_testing::model::{ImageFile, Random, linux, told};
use platter_vfs::{CheckOptions, Result, Silent};
use std::process::Command;
use std::sync::Arc;

fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).env("LC_ALL", "C.UTF-8").output();
    let output = output.unwrap_or_else(|error| panic!("{program} (from ntfs-3g) cannot be run: {error}"));
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {text}");
    text
}

/// A volume made by mkntfs, with one file.
struct Volume {
    image: ImageFile,
    device: FileDevice,
    geometry: Geometry,
}

impl Volume {
    fn new(bytes: u64, cluster: u32) -> Volume {
        let image = ImageFile::empty(bytes);
        run("mkntfs", &["-F", "-q", "-Q", "-c", &cluster.to_string(), image.path()]);
        let text = ImageFile::new(b"the text before");
        run("ntfscp", &["-q", image.path(), text.path(), "file"]);
        let device = FileDevice::open(std::path::Path::new(image.path()), FileOptions::default()).unwrap();
        let mut boot = [0; 512];
        device.read_at(0, &mut boot).unwrap();
        let geometry = BootSector::from_bytes(&boot).unwrap().geometry(device.len()).unwrap();
        Volume { image, device, geometry }
    }

    /// A record, and its offset in `$MFT`, whose first run is long enough for the records used here.
    fn record(&self, number: u64) -> (Record, u64) {
        let offset = number * u64::from(self.geometry.record);
        let at = self.geometry.mft * self.geometry.cluster + offset;
        let mut bytes = vec![0; self.geometry.record as usize];
        self.device.read_at(at, &mut bytes).unwrap();
        fixup::remove(&mut bytes, "file record", at).unwrap();
        (Record::from_bytes(&bytes, at).unwrap(), offset)
    }

    fn runs(&self, record: &Record, kind: Kind, name: &str) -> Vec<(u64, u64)> {
        match &record.find(kind, name).unwrap().content {
            AttributeContent::NonResident(data) => {
                runs::unpack(&data.pairs, data.first, data.end, self.geometry.clusters, 0)
                    .unwrap()
                    .iter()
                    .map(|run| (run.lcn.unwrap() * self.geometry.cluster, run.length * self.geometry.cluster))
                    .collect()
            }
            AttributeContent::Resident { .. } => panic!("{kind:?} is resident"),
        }
    }

    /// The numbers of all clusters of an attribute.
    fn clusters(&self, record: &Record, kind: Kind, name: &str) -> Vec<u64> {
        let cluster = self.geometry.cluster;
        let each = |(start, bytes): (u64, u64)| start / cluster..(start + bytes) / cluster;
        self.runs(record, kind, name).into_iter().flat_map(each).collect()
    }

    fn place(&self) -> LogPlace {
        let (record, _) = self.record(record_number::LOG_FILE);
        LogPlace {
            runs: self.runs(&record, Kind::DATA, ""),
            cluster: self.geometry.cluster as u32,
            record: self.geometry.record,
        }
    }

    /// The record of the file that ntfscp made.
    fn file(&self) -> (Record, u64) {
        (27..80)
            .map(|number| self.record(number))
            .find(|(record, _)| record.in_use() && record.find(Kind::DATA, "").is_some())
            .expect("ntfscp made a file")
    }

    /// The clusters of the volume that a range of `$MFT` touches.
    fn lcns(&self, offset: u64, length: u64) -> Vec<u64> {
        let cluster = self.geometry.cluster;
        (offset / cluster..(offset + length).div_ceil(cluster)).map(|vcn| self.geometry.mft + vcn).collect()
    }

    fn text(&self) -> Vec<u8> {
        self.file().0.find(Kind::DATA, "").unwrap().value().unwrap().to_vec()
    }

    /// Writes a group to the log that gives the file this text, and writes nothing to the file's place.
    fn log_text(&self, log: &mut Log, text: &str) {
        let (mut record, offset) = self.file();
        for attribute in &mut record.attributes {
            if attribute.kind == Kind::DATA {
                attribute.content =
                    AttributeContent::Resident { value: text.as_bytes().to_vec(), indexed: false };
            }
        }
        let bytes = record.to_bytes(self.geometry.record as usize).unwrap();
        let lcns = self.lcns(offset, bytes.len() as u64);
        let change = Change { target: &Target::FileRecord, offset, lcns: &lcns, bytes: &bytes };
        log.append(&self.device, &[change]).unwrap();
    }
}

fn replay_texts(cluster: u32) {
    let volume = Volume::new(64 << 20, cluster);
    let (mut log, state) = Log::open(&volume.device, volume.place()).unwrap();
    assert!(matches!(state, LogState::Clean), "{state:?}");
    log.begin(&volume.device, 0).unwrap();
    for number in 0..20 {
        volume.log_text(&mut log, &format!("the text after, {number}"));
    }
    assert_eq!(volume.text(), b"the text before");
    let judged = linux("ntfs3", "rw", &volume.image, "cat file; echo; cat file > copy; sync");
    assert_eq!(judged.output.as_deref().map(str::trim), Some("the text after, 19"), "{}", judged.messages);
    assert!(judged.unmounted, "{}", judged.messages);
    assert_eq!(volume.text(), b"the text after, 19");
}

#[test]
fn linux_replays_what_was_logged() {
    replay_texts(4096);
}

/// Renames the file from "file" to "gile" by a group of several pages, after the log went round the ring, and lets
/// Linux replay the log.
fn replay_long_groups(cluster: u32) {
    let volume = Volume::new(64 << 20, cluster);
    let (mut log, _) = Log::open(&volume.device, volume.place()).unwrap();
    log.begin(&volume.device, 0).unwrap();
    let (root, _) = volume.record(record_number::ROOT);
    let blocks = volume.clusters(&root, Kind::INDEX_ALLOCATION, "$I30");
    let bitmap = volume.clusters(&volume.record(record_number::BITMAP).0, Kind::DATA, "");
    let at = blocks[0] * volume.geometry.cluster;
    let mut bytes = vec![0; 4096];
    volume.device.read_at(at, &mut bytes).unwrap();
    let lcns = &blocks[..(4096 / volume.geometry.cluster).max(1) as usize];
    let mut bits = vec![0; 4096.min(volume.geometry.clusters / 8) as usize / 512 * 512];
    volume.device.read_at(bitmap[0] * volume.geometry.cluster, &mut bits).unwrap();
    fixup::remove(&mut bytes, "index block", at).unwrap();
    let rename = |bytes: &mut Vec<u8>| {
        let name: Vec<u8> = "file".encode_utf16().flat_map(u16::to_le_bytes).collect();
        let place = bytes.windows(8).position(|window| window == name).expect("the name");
        bytes[place] = b'g';
    };
    rename(&mut bytes);
    let (record, offset) = volume.file();
    let mut file = record.to_bytes(volume.geometry.record as usize).unwrap();
    rename(&mut file);
    let index =
        Target::Index { file: Reference::new(5, 5), name: "$I30".encode_utf16().collect(), block: 4096 };
    let value = Target::Value { file: Reference::new(6, 6), kind: Kind::DATA.0, name: [].into() };
    let bits_lcns = &bitmap[..bits.len().div_ceil(cluster as usize)];
    let plain = Change { target: &value, offset: 0, lcns: bits_lcns, bytes: &bits };
    let file_lcns = volume.lcns(offset, file.len() as u64);
    let renaming = [
        plain,
        Change { target: &Target::FileRecord, offset, lcns: &file_lcns, bytes: &file },
        plain,
        Change { target: &index, offset: 0, lcns, bytes: &bytes },
        plain,
    ];
    // The log goes once round the ring, and on to its middle.
    while log.used() < log.capacity() * 3 / 4 {
        log.append(&volume.device, &[plain; 3]).unwrap();
    }
    log.checkpoint(&volume.device).unwrap();
    while log.used() < log.capacity() / 2 {
        log.append(&volume.device, &[plain; 5]).unwrap();
    }
    log.append(&volume.device, &renaming).unwrap();
    log.append(&volume.device, &[plain]).unwrap();
    let judged = linux("ntfs3", "rw", &volume.image, "cat gile; ls; rm gile");
    let output = judged.output.unwrap_or_default();
    assert!(output.contains("the text before") && output.ends_with("gile\n"), "{output}{}", judged.messages);
    assert!(judged.unmounted && !judged.messages.contains("ntfs3"), "{}", judged.messages);
}

#[test]
fn linux_replays_groups_of_many_pages_and_of_index_blocks() {
    replay_long_groups(512);
}

/// A repair that is cut off when it is in the log, and nothing of it in its place, is carried out by Linux.
fn carry_out_a_repair(cluster: u32) {
    let volume = Volume::new(64 << 20, cluster);
    let (root, _) = volume.record(record_number::ROOT);
    let block = volume.clusters(&root, Kind::INDEX_ALLOCATION, "$I30")[0];
    let damaged = MemoryDevice::from_image(&volume.image.bytes(), Sectors::SMALL);
    damaged.write_at(block * volume.geometry.cluster, &[0x5A; 4096]).unwrap();
    let recorded = Faults::recording(Arc::new(damaged), 8664, Grain::Logical);
    let report = check(&recorded, CheckOptions { repair: true }, &Silent).unwrap();
    assert!(report.repaired > 0 && report.remaining.is_none(), "{}", told(&report));
    let writes = recorded.log();
    let is_logged = |cut: &usize| {
        let device = writes.cut(*cut, Survivors::None);
        let (_, state) = Log::open(&device, volume.place()).unwrap();
        matches!(state, LogState::Unclean(replay) if replay.structures() > 0)
    };
    let cut = (0..=writes.writes()).find(is_logged).expect("a repair that is logged");
    let image = ImageFile::of(&writes.cut(cut, Survivors::None));
    let judged = linux("ntfs3", "rw", &image, "ls; cat file; rm file");
    let output = judged.output.unwrap_or_default();
    assert!(output.contains("the text before"), "{output}{}", judged.messages);
    assert!(judged.unmounted && !judged.messages.contains("ntfs3"), "{}", judged.messages);
    let after = MemoryDevice::from_image(&image.bytes(), Sectors::SMALL);
    let report = check(&after, CheckOptions { repair: false }, &Silent).unwrap();
    assert!(report.is_clean(), "{}", told(&report));
}

#[test]
fn linux_carries_out_a_repair_that_was_cut_off() {
    carry_out_a_repair(4096);
}

/// A block of an index with entries that contain a text.
fn block(number: u64, text: &str) -> Vec<u8> {
    let mut node = IndexNode::empty();
    for part in 0..40u64 {
        node.insert(
            0,
            &name_entry(Reference::new(part, 1), format!("{text} {number} {part:>60}").as_bytes()),
        );
    }
    IndexBlock { lsn: 0, vcn: number, update: 1, node }.to_bytes(4096).unwrap()
}

/// A log on a device in memory, with blocks of an index in the clusters from 1000 on.
struct Bench {
    device: MemoryDevice,
    place: LogPlace,
}

const CLUSTER: u32 = 4096;

impl Bench {
    fn new() -> Bench {
        let device = MemoryDevice::new(8 << 20, Sectors::SMALL);
        // The log is in two runs.
        let runs = vec![(64 << 12, 30 << 12), (400 << 12, 34 << 12)];
        let place = LogPlace { runs, cluster: CLUSTER, record: 1024 };
        Log::create(&device, place.clone()).unwrap();
        Bench { device, place }
    }

    fn open(&self) -> (Log, LogState) {
        Log::open(&self.device, self.place.clone()).unwrap()
    }

    /// The device offset of a page of the log.
    fn page_at(number: u64) -> u64 {
        if number < 30 { (64 + number) << 12 } else { (370 + number) << 12 }
    }

    /// Writes a group to the log that gives each of these blocks, by number, its text.
    fn append(log: &mut Log, device: &dyn Device, blocks: &[(u64, &str)]) -> Result<u64> {
        let target =
            Target::Index { file: Reference::new(5, 5), name: "$I30".encode_utf16().collect(), block: 4096 };
        let bytes: Vec<(u64, Vec<u8>, [u64; 1])> =
            blocks.iter().map(|(number, text)| (*number, block(*number, text), [1000 + number])).collect();
        let changes: Vec<Change> = bytes
            .iter()
            .map(|(number, bytes, lcns)| Change { target: &target, offset: number * 4096, lcns, bytes })
            .collect();
        log.append(device, &changes)
    }

    /// The text of a block in its place on the device.
    fn text(device: &dyn Device, number: u64) -> Option<String> {
        let at = (1000 + number) * u64::from(CLUSTER);
        let mut bytes = vec![0; 4096];
        device.read_at(at, &mut bytes).unwrap();
        fixup::remove(&mut bytes, "index block", at).ok()?;
        let block = IndexBlock::from_bytes(&bytes, number, at).unwrap();
        let text = String::from_utf8(block.node.iter().next()?.key().to_vec()).unwrap();
        text.split(' ').next().map(str::to_owned)
    }
}

#[test]
fn a_log_is_replayed_whatever_its_length_and_however_often_it_went_round() {
    let bench = Bench::new();
    let (mut log, state) = bench.open();
    assert!(matches!(state, LogState::Clean));
    log.begin(&bench.device, 0).unwrap();
    let mut last = 0;
    for number in 0..300u64 {
        let text = format!("text{number}");
        let blocks: Vec<(u64, &str)> = (0..number % 7 + 1).map(|at| (at, &text[..])).collect();
        if Bench::append(&mut log, &bench.device, &blocks).is_err() {
            // The log is full: all changes are put in their places, and the log is emptied.
            assert!(log.used() * 2 > log.capacity(), "{} of {}", log.used(), log.capacity());
            let (_, LogState::Unclean(replay)) = bench.open() else { panic!("group {number}") };
            replay.apply(&bench.device).unwrap();
            log.checkpoint(&bench.device).unwrap();
            assert_eq!(log.used(), 0);
            Bench::append(&mut log, &bench.device, &blocks).unwrap();
        }
        let (_, LogState::Unclean(replay)) = bench.open() else { panic!("group {number}") };
        let over =
            OverlayDevice::new(Arc::new(MemoryDevice::from_image(&bench.device.to_image(), Sectors::SMALL)));
        replay.apply(&over).unwrap();
        assert_eq!(Bench::text(&over, 0).as_deref(), Some(&text[..]));
        assert_eq!(Bench::text(&over, number % 7).as_deref(), Some(&text[..]));
        last = number;
    }
    assert_eq!(last, 299);
    let (_, LogState::Unclean(replay)) = bench.open() else { panic!("the last") };
    replay.apply(&bench.device).unwrap();
    log.end(&bench.device).unwrap();
    assert!(matches!(bench.open().1, LogState::Clean));
}

/// The page of the ring with the last records, and its number.
fn last_page(bench: &Bench) -> (u64, RecordPage, [u8; PAGE]) {
    let pages = (FIRST_PAGE..bench.place.bytes() / PAGE as u64).filter_map(|number| {
        let mut page = [0; PAGE];
        bench.device.read_at(Bench::page_at(number), &mut page).unwrap();
        RecordPage::open(&mut page, 0).ok().map(|header| (number, header, page))
    });
    pages.max_by_key(|(_, header, _)| header.last_end).unwrap()
}

#[test]
fn a_copy_in_a_tail_page_stands_for_its_page_if_it_is_newer() {
    let bench = Bench::new();
    let (mut log, _) = bench.open();
    log.begin(&bench.device, 0).unwrap();
    Bench::append(&mut log, &bench.device, &[(0, "first")]).unwrap();
    let earlier = last_page(&bench);
    Bench::append(&mut log, &bench.device, &[(0, "second")]).unwrap();
    let (number, header, mut page) = last_page(&bench);
    let replayed = || {
        let (_, LogState::Unclean(replay)) = bench.open() else { panic!("it was not closed") };
        let over = MemoryDevice::from_image(&bench.device.to_image(), Sectors::SMALL);
        replay.apply(&over).unwrap();
        Bench::text(&over, 0)
    };
    assert_eq!(replayed().as_deref(), Some("second"));
    // Now the page is not whole.
    bench.device.write_at(Bench::page_at(number), &[0; 512]).unwrap();
    assert_eq!(replayed().as_deref(), Some("first"));
    for tail in TAIL_PAGES {
        let at = number * PAGE as u64;
        RecordPage { last: at, ..header }.seal(&mut page, 7);
        bench.device.write_at(Bench::page_at(tail), &page).unwrap();
        assert_eq!(replayed().as_deref(), Some("second"));
        // An older copy, of a page that is whole, is ignored.
        let (number, header, mut old) = earlier;
        old[PAGE_DATA..].fill(0);
        RecordPage { last: number * PAGE as u64, last_end: header.last_end - 1, ..header }.seal(&mut old, 9);
        bench.device.write_at(Bench::page_at(5 - tail), &old).unwrap();
        assert_eq!(replayed().as_deref(), Some("second"));
        // A tail page that is no copy of any page of the ring is ignored too.
        fixup::remove(&mut page, "page", 0).unwrap();
        for last in [0, 3 * PAGE as u64, at + 8, bench.place.bytes(), u64::MAX] {
            RecordPage { last, ..header }.seal(&mut page, 8);
            bench.device.write_at(Bench::page_at(tail), &page).unwrap();
            assert_eq!(replayed().as_deref(), Some("first"), "{last:#x}");
            fixup::remove(&mut page, "page", 0).unwrap();
        }
        bench.device.write_at(Bench::page_at(2), &[0xFF; 2 * PAGE]).unwrap();
    }
}

/// The texts of all blocks in their places on the device.
fn texts(device: &dyn Device) -> Vec<Option<String>> {
    (0..6).map(|number| Bench::text(device, number)).collect()
}

#[test]
fn a_group_is_there_or_not_wherever_the_power_is_cut() {
    let bench = Bench::new();
    let device = Arc::new(MemoryDevice::from_image(&bench.device.to_image(), Sectors::SMALL));
    let faults = Faults::recording(device, 8664, Grain::Logical);
    let mut random = Random::new(8664);
    // After each group, the number of writes to the device so far, and the text of each block.
    let mut states = vec![(0, vec![None; 6])];
    for session in 0..3 {
        let (mut log, state) = Log::open(&faults, bench.place.clone()).unwrap();
        assert!(matches!(state, LogState::Clean));
        log.begin(&faults, 0).unwrap();
        for number in 0..40 {
            let text = format!("text{session}.{number}");
            let count = random.below(6) + 1;
            let blocks: Vec<(u64, &str)> = (0..count).map(|number| (number, &text[..])).collect();
            Bench::append(&mut log, &faults, &blocks).unwrap();
            let mut now = states.last().unwrap().1.clone();
            (0..count as usize).for_each(|number| now[number] = Some(text.clone()));
            states.push((faults.log().writes(), now));
            if log.used() * 2 > log.capacity() || number == 39 {
                let (_, LogState::Unclean(replay)) = Log::open(&faults, bench.place.clone()).unwrap() else {
                    panic!("it was not closed")
                };
                replay.apply(&faults).unwrap();
                if number == 39 { log.end(&faults).unwrap() } else { log.checkpoint(&faults).unwrap() }
            }
        }
    }
    let log = faults.log();
    let mut cuts = 0;
    for k in (0..=log.writes()).step_by(3) {
        let done = states.iter().rposition(|state| state.0 <= k).unwrap();
        let some = Survivors::First(random.below(log.in_doubt(k) as u64 + 1) as usize);
        for survivors in [Survivors::None, Survivors::All, some, Survivors::Random(random.number())] {
            let device = log.cut(k, survivors);
            match Log::open(&device, bench.place.clone()).unwrap().1 {
                LogState::Unclean(replay) => {
                    assert!(
                        !replay.is_torn(),
                        "write {k}, {survivors:?}: others would redo a part of a group"
                    );
                    replay.apply(&device).unwrap();
                }
                LogState::Clean => {}
                LogState::Foreign(reason) => panic!("write {k}, {survivors:?}: {reason}"),
            }
            let found = texts(&device);
            let allowed = &states[done..(done + 2).min(states.len())];
            assert!(
                allowed.iter().any(|state| state.1 == found),
                "write {k}, {survivors:?}: {found:?}, not one of {allowed:?}"
            );
            cuts += 1;
        }
    }
    assert!(cuts > 1_000, "{cuts}");
}

/// Volumes with clusters of other sizes.
#[test]
#[ignore = "a campaign: starts Linux three times"]
fn linux_replays_logs_of_other_volumes() {
    replay_texts(512);
    replay_long_groups(4096);
    carry_out_a_repair(512);
}

//! Undo restores every byte, even if the changes or the restoring are cut off.

use platter_device::{
    Device, Error, Fault, Faults, MemoryDevice, Operation, Restored, Sectors, UndoDevice, UndoFile, When,
};
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

/// Not a multiple of the block size.
const SIZE: u64 = (1 << 20) + 1536;

/// A file that is removed at the end of the test.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Place {
        let path = std::env::temp_dir().join(format!("platter-undo-{}-{name}", std::process::id()));
        let _ = fs::remove_file(&path);
        Place(path)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

fn filled(sectors: Sectors, size: u64, random: &mut Random) -> Arc<MemoryDevice> {
    let device = Arc::new(MemoryDevice::new(size, sectors));
    let bytes: Vec<u8> = (0..size).map(|_| random.below(256) as u8).collect();
    device.write_at(0, &bytes).unwrap();
    device
}

/// Makes random writes with flushes between them, and compares what is read. Stops at the first error.
fn change(undo: &UndoDevice, expected: &mut [u8], random: &mut Random) -> Result<(), Error> {
    let sector = u64::from(undo.sectors().logical);
    for _ in 0..40 {
        let sectors = undo.len() / sector;
        let start = random.below(sectors);
        let range = start * sector..(start + 1 + random.below(40)).min(sectors) * sector;
        let data: Vec<u8> = (range.clone()).map(|_| random.below(256) as u8).collect();
        undo.write_at(range.start, &data)?;
        expected[range.start as usize..range.end as usize].copy_from_slice(&data);
        let mut all = vec![0; expected.len()];
        undo.read_at(0, &mut all)?;
        assert!(all == expected, "a read does not see what was written");
        if random.below(8) == 0 {
            undo.flush()?;
        }
    }
    undo.flush()
}

#[test]
fn what_was_changed_is_taken_back() {
    for sectors in [Sectors::SMALL, Sectors::LARGE, Sectors { logical: 16384, physical: 16384 }] {
        let place = Place::new(&format!("back-{}", sectors.logical));
        let mut random = Random(5);
        let size = SIZE / u64::from(sectors.logical) * u64::from(sectors.logical);
        let below = filled(sectors, size, &mut random);
        let before = below.to_image();
        let undo = UndoDevice::new(below.clone(), &place.0, "a disk");
        assert!(undo.finish(&|| "unused".into()).unwrap().is_none() && !place.0.exists());
        change(&undo, &mut before.clone(), &mut random).unwrap();
        let (path, saved) = undo.finish(&|| "after".into()).unwrap().unwrap();
        assert!(path == place.0 && saved > 0);
        let after = below.to_image();
        assert!(after != before);

        let mut file = UndoFile::open(&place.0).unwrap();
        assert_eq!((file.name(), file.length(), file.stamp()), ("a disk", size, Some("after")));
        let restored = file.restore(&*below, "after", false).unwrap();
        assert_eq!((restored.blocks + restored.unchanged, restored.unknown), (file.blocks(), 0));
        assert!(below.to_image() == before);
        // Restoring once more changes nothing, whatever the stamp is now.
        let again = UndoFile::open(&place.0).unwrap().restore(&*below, "later", false).unwrap();
        assert_eq!(again, Restored { blocks: 0, unchanged: file.blocks(), unknown: 0 });
    }
}

#[test]
fn a_cut_at_any_write_leaves_what_can_be_taken_back() {
    for run in 0..150 {
        let place = Place::new(&format!("cut-{run}"));
        let mut random = Random(1 + run);
        let below = filled(Sectors::SMALL, SIZE, &mut random);
        let before = below.to_image();
        let faulty = Arc::new(Faults::new(below.clone(), run));
        faulty.inject(When::from(Operation::Write, random.below(300)), Fault::Tear);
        let undo = UndoDevice::new(faulty, &place.0, "a disk");
        let cut = change(&undo, &mut before.clone(), &mut random).is_err();
        drop(undo);
        if !place.0.exists() {
            assert!(below.to_image() == before);
            continue;
        }
        // The restoring is cut off too, in some runs.
        for attempt in 0.. {
            let mut file = UndoFile::open(&place.0).unwrap();
            assert!(file.stamp().is_none(), "the changes were not finished");
            let faulty = Faults::new(below.clone(), run + attempt);
            if attempt < 3 {
                faulty.inject(When::from(Operation::Write, random.below(30)), Fault::Tear);
            }
            match file.restore(&faulty, "another", false) {
                Ok(_) => break,
                Err(error) => assert!(matches!(error, Error::Io { .. }), "run {run}, cut {cut}: {error}"),
            }
        }
        assert!(below.to_image() == before, "run {run}");
    }
}

#[test]
fn a_device_that_was_written_to_since_is_refused() {
    let place = Place::new("since");
    let mut random = Random(9);
    let below = filled(Sectors::SMALL, SIZE, &mut random);
    let before = below.to_image();
    let undo = UndoDevice::new(below.clone(), &place.0, "a disk");
    undo.write_at(8192, &[7; 4096]).unwrap();
    undo.write_at(40960, &[8; 512]).unwrap();
    undo.finish(&|| "then".into()).unwrap();
    let after = below.to_image();

    let open = || UndoFile::open(&place.0).unwrap();
    let refused = |device: &dyn Device, stamp: &str, part: &str| {
        let error = open().restore(device, stamp, false).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    };
    refused(&*below, "now", "the last write");
    refused(&MemoryDevice::new(SIZE + 512, Sectors::SMALL), "then", "has 1050624 bytes, and the undo file");
    below.write_at(8704, &[9; 512]).unwrap();
    refused(&*below, "then", "its content at offset 8192");
    assert!(below.to_image()[40960..41472] == after[40960..41472], "nothing was written");
    // Another disk of the same length.
    refused(&*filled(Sectors::SMALL, SIZE, &mut random), "then", "its content at offset 8192");
    assert_eq!(open().restore(&*below, "now", true).unwrap().blocks, 2);
    assert!(below.to_image() == before);
}

#[test]
fn a_damaged_undo_file_gives_back_what_it_has_or_is_refused() {
    let place = Place::new("damaged");
    let mut random = Random(11);
    let below = filled(Sectors::SMALL, SIZE, &mut random);
    let before = below.to_image();
    let undo = UndoDevice::new(below.clone(), &place.0, "a disk");
    change(&undo, &mut before.clone(), &mut random).unwrap();
    undo.finish(&|| "then".into()).unwrap();
    let (after, whole) = (below.to_image(), fs::read(&place.0).unwrap());
    for _ in 0..300 {
        let mut bytes = whole.clone();
        let at = random.below(bytes.len() as u64) as usize;
        match random.below(2) {
            0 => bytes[at] ^= 1 << random.below(8),
            _ => bytes.truncate(at),
        }
        fs::write(&place.0, &bytes).unwrap();
        below.write_at(0, &after).unwrap();
        let _ = UndoFile::open(&place.0).map(|mut file| file.restore(&*below, "then", false));
        // Every byte is the old or the new one, never anything else.
        let now = below.to_image();
        let is_known = |at: usize| now[at] == before[at] || now[at] == after[at];
        assert!((0..now.len()).all(is_known));
    }
}

#[test]
fn nothing_is_changed_where_its_old_content_cannot_be_saved() {
    let place = Place::new("unsaved");
    fs::write(&place.0, "somebody's").unwrap();
    let mut random = Random(13);
    let below = filled(Sectors::SMALL, SIZE, &mut random);
    let before = below.to_image();
    let undo = UndoDevice::new(below.clone(), &place.0, "a disk");
    for _ in 0..2 {
        assert!(undo.write_at(512, &[1; 512]).and_then(|()| undo.flush()).is_err());
    }
    assert!(undo.why_failed().is_some());
    assert!(undo.finish(&|| "then".into()).is_err());
    assert!(below.to_image() == before && fs::read(&place.0).unwrap() == b"somebody's");
}

/// Media that cannot be written to: there the file cannot note that taking back has begun, and that is all. Nobody but
/// root may write to a file without permission, so this is seen where the tests run as somebody else.
#[cfg(unix)]
#[test]
fn an_undo_file_that_can_only_be_read_is_used() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new("read-only");
    let mut random = Random(17);
    let below = filled(Sectors::SMALL, SIZE, &mut random);
    let before = below.to_image();
    let undo = UndoDevice::new(below.clone(), &place.0, "a disk");
    change(&undo, &mut before.clone(), &mut random).unwrap();
    undo.finish(&|| "then".into()).unwrap();
    let mode = fs::metadata(&place.0).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "only who made it can read it");
    fs::set_permissions(&place.0, fs::Permissions::from_mode(0o400)).unwrap();
    let is_root = fs::File::options().append(true).open(&place.0).is_ok();
    let mut file = UndoFile::open(&place.0).unwrap();
    assert!(is_root || file.is_read_only());
    file.restore(&*below, "then", false).unwrap();
    assert!(below.to_image() == before);
}

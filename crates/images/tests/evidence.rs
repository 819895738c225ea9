//! E01 of libewf's programs: read, verified, and refused where a part is missing.

use crate::common::{Folder, Random, compare, content, refused, same};
use platter_device::FileOptions;
use platter_images::{Image, verify};
use std::fs;
use std::path::PathBuf;

/// A disk with content of every kind: random, the same byte, text, zeroes.
fn disk(random: &mut Random, sectors: u64) -> Vec<u8> {
    let mut disk = vec![0; (sectors * 512) as usize];
    for _ in 0..10 {
        let at = random.below(disk.len() as u64) as usize;
        let length = (random.below(1 << 20) as usize).min(disk.len() - at);
        match random.below(3) {
            0 => disk[at..at + length].copy_from_slice(&random.bytes(length)),
            1 => disk[at..at + length].fill(random.next() as u8),
            _ => (0..length).for_each(|number| disk[at + number] = (number / 7) as u8),
        }
    }
    disk
}

/// The set of segments that ewfacquire makes of a disk; returns the first.
fn acquired(folder: &Folder, disk: &[u8], options: &[&str]) -> PathBuf {
    fs::write(folder.path("disk.raw"), disk).unwrap();
    let raw = folder.path("disk.raw").display().to_string();
    folder.tool("ewfacquire", &[&["-u", "-q", "-t", "image"], options, &[&raw]].concat());
    let name = ["E01", "e01", "s01"].map(|ending| folder.path(&format!("image.{ending}")));
    name.into_iter().find(|name| name.exists()).unwrap()
}

fn open(path: &std::path::Path) -> Image {
    platter_images::open(path, FileOptions { read_only: true, ..FileOptions::default() }).unwrap()
}

/// Evidence of a format that the seed decides, and so many reads at random.
fn theirs(seed: u64, reads: u64) {
    let mut random = Random(seed);
    let sectors = 1 + random.below(12 << 11);
    let disk = disk(&mut random, sectors);
    let format = ["encase6", "encase5", "encase2", "ftk", "smart", "ewf", "ewfx", "linen6", "encase7"];
    let format = format[seed as usize % format.len()];
    let compression = ["none", "empty-block", "fast", "best"][random.below(4) as usize];
    let chunk = ["16", "64", "128", "1024"][random.below(4) as usize];
    let folder = Folder::new("evidence");
    let what = format!("seed {seed}, {format}, {compression}, {chunk} sectors, {sectors} of a disk");
    let mut options = vec!["-f", format, "-c", compression, "-b", chunk, "-S", "1048576"];
    if random.below(2) == 0 {
        options.extend(["-d", "sha1"]);
    }
    let first = acquired(&folder, &disk, &options);
    let image = open(&first);
    assert!(image.kind.as_ref().unwrap().starts_with("E01 evidence"), "{what}: {:?}", image.kind);
    same(&content(&*image.device), &disk, &what);
    (0..reads).for_each(|_| compare(&mut random, &*image.device, &disk, &what));
    let verified = verify(&*image.device, &image.hashes, |_| true).unwrap();
    assert!(!verified.is_empty() && verified.iter().all(|hash| hash.is_right()), "{what}: {verified:?}");
    if seed.is_multiple_of(4) {
        let first = first.file_name().unwrap().to_str().unwrap();
        folder.tool("ewfexport", &["-u", "-q", "-f", "raw", "-t", "exported", first]);
        same(&fs::read(folder.path("exported.raw")).unwrap(), &disk, &what);
    }
}

#[test]
fn evidence_of_every_format_is_read_and_verified() {
    (0..18).for_each(|seed| theirs(seed, 20));
}

#[test]
#[ignore = "a campaign"]
fn campaign_of_evidence() {
    let seed = std::env::var("PLATTER_SEED").map_or(1 << 20, |seed| seed.parse().unwrap());
    for seed in seed..seed + 20 {
        println!("PLATTER_SEED={seed}");
        theirs(seed, 10_000);
    }
}

#[test]
fn evidence_is_never_written_to() {
    let folder = Folder::new("evidence-writing");
    let disk = disk(&mut Random(5), 4000);
    let first = acquired(&folder, &disk, &[]);
    let before = fs::read(&first).unwrap();
    // Whatever is asked for.
    let image = platter_images::open(&first, FileOptions::default()).unwrap();
    assert!(image.device.read_only());
    assert_eq!(image.device.why_read_only().unwrap(), "it is E01 evidence, which is never written to");
    assert!(image.device.write_at(0, &[1; 512]).is_err() && image.device.discard(0, 512).is_err());
    image.device.flush().unwrap();
    assert!(fs::read(&first).unwrap() == before);
}

#[test]
fn a_segment_that_is_missing_or_cut_off_is_an_error() {
    let folder = Folder::new("evidence-missing");
    let disk = Random(6).bytes(4 << 20);
    let first = acquired(&folder, &disk, &["-c", "none", "-S", "1048576"]);
    let second = folder.path("image.E02");
    let bytes = fs::read(&second).unwrap();
    fs::remove_file(&second).unwrap();
    let said = refused(&first);
    assert!(
        said.contains("image.E02: is missing: it is segment 2 of the evidence that begins with"),
        "{said}"
    );
    for length in [0, 5, 13, 60, 1000, bytes.len() / 2, bytes.len() - 1] {
        fs::write(&second, &bytes[..length]).unwrap();
        let said = refused(&first);
        assert!(said.contains("image.E02: ends at offset") && said.contains("was cut off"), "{said}");
    }
    fs::write(&second, &bytes).unwrap();
    let said = refused(&second);
    assert!(said.contains("is segment 2 of evidence: name the first one"), "{said}");
    fs::copy(folder.path("image.E03"), &second).unwrap();
    assert!(refused(&first).contains("expected segment 2, found segment 3"));
    fs::write(&second, &bytes).unwrap();
    open(&first);
}

#[test]
fn a_changed_byte_is_an_error_and_a_damaged_table_has_a_copy() {
    let folder = Folder::new("evidence-damage");
    let disk = Random(7).bytes(1 << 20);
    let first = acquired(&folder, &disk, &["-c", "none"]);
    let bytes = fs::read(&first).unwrap();
    let find = |kind: &[u8]| bytes.windows(16).position(|name| name.starts_with(kind)).unwrap();
    let with = |at: usize| {
        let mut changed = bytes.clone();
        changed[at] ^= 0x10;
        fs::write(&first, &changed).unwrap();
    };
    let sectors = find(b"sectors\0");
    with(sectors + 76 + (32768 + 4) * 3 + 100);
    let image = open(&first);
    let said = image.device.read_at(3 * 32768, &mut [0; 512]).unwrap_err().to_string();
    assert!(said.contains("image.E01: chunk 3 at offset") && said.contains("checksum"), "{said}");
    image.device.read_at(0, &mut [0; 512]).unwrap();
    assert!(verify(&*image.device, &image.hashes, |_| true).is_err());
    // In the entries of the table; then in those of the copy too.
    let (table, copy) = (find(b"table\0") + 76 + 24, find(b"table2\0") + 76 + 24);
    with(table + 5);
    same(&content(&*open(&first).device), &disk, "by the copy");
    let mut changed = fs::read(&first).unwrap();
    changed[copy + 5] ^= 0x10;
    fs::write(&first, &changed).unwrap();
    let said = open(&first).device.read_at(0, &mut [0; 512]).unwrap_err().to_string();
    assert!(said.contains("a table of chunks at offset"), "{said}");
    with(13 + 20);
    assert!(refused(&first).contains("the descriptor of a section at offset 13 is damaged"));
    // The content is what its checksums say, and not what was acquired.
    fs::write(&first, &bytes).unwrap();
    let mut image = open(&first);
    image.hashes[0].value[3] ^= 1;
    assert!(!verify(&*image.device, &image.hashes, |_| true).unwrap()[0].is_right());
    assert!(verify(&*image.device, &image.hashes, |_| false).is_err(), "stopped");
}

#[test]
fn logical_evidence_is_refused_by_name() {
    let folder = Folder::new("evidence-logical");
    let first = acquired(&folder, &[7; 8192], &[]);
    let mut bytes = fs::read(&first).unwrap();
    let volume = bytes.windows(16).position(|name| name.starts_with(b"volume\0")).unwrap();
    bytes[volume..volume + 7].copy_from_slice(b"ltree\0\0");
    let sum = adler2::adler32_slice(&bytes[volume..volume + 72]);
    bytes[volume + 72..volume + 76].copy_from_slice(&sum.to_le_bytes());
    fs::write(&first, bytes).unwrap();
    assert!(refused(&first).contains("is logical evidence (L01): it has files, and no disk"));
}

//! Files that Windows Overlay Filter packed: read by every way of reading, and not written. Their packed streams are
//! made by wimlib, which packs in the same form, and libfsntfs judges the volumes.

use crate::common::{USUAL, VOLUMES, Volume, check_clean, open};
use crate::judges::readers::sum;
use crate::judges::{ImageFile, run};
use platter_ntfs::NtfsVolume;
use platter_testing::model::Random;
use platter_vfs::{Change, Error, Extent, FileSystem, Kind, Names, Node, Place, Reparse, Silent};

/// The algorithm's number, and the content that wimlib packed with it.
const PACKED: [(u32, &[u8]); 4] = [
    (0, include_bytes!("data/wof/xpress-4k.bin")),
    (1, include_bytes!("data/wof/lzx.bin")),
    (2, include_bytes!("data/wof/xpress-8k.bin")),
    (3, include_bytes!("data/wof/xpress-16k.bin")),
];

/// The content of the packed files: words, machine code with calls, zeroes, bytes that do not pack, and a short period.
fn content() -> Vec<u8> {
    let mut state = 8664u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    let words: Vec<Vec<u8>> = (0..60)
        .map(|_| {
            let length = 2 + next() % 8;
            (0..length).map(|_| 97 + next() % 16).collect()
        })
        .collect();
    let mut bytes = Vec::new();
    while bytes.len() < 25_000 {
        bytes.extend(&words[usize::from(next() % 60)]);
        bytes.push(b' ');
    }
    for _ in 0..1500 {
        let target = [0x100, 0x4567, 0x9000u32][usize::from(next() % 3)];
        let relative = target.wrapping_sub(bytes.len() as u32);
        bytes.extend([0x55, 0x8B, 0xEC, 0xE8]);
        bytes.extend(relative.to_le_bytes());
        bytes.extend([0xC9, 0xC3]);
    }
    bytes.resize(bytes.len() + 8000, 0);
    bytes.extend((0..4500).map(|_| next()));
    bytes.extend(b"abc".repeat(700));
    bytes
}

fn point(algorithm: u32) -> Reparse {
    let data = [1, 2, 1, algorithm].iter().flat_map(|field: &u32| field.to_le_bytes()).collect();
    Reparse { tag: 0x8000_0017, data }
}

/// Makes a file as Windows leaves it when it packs one: a hole of its size, and the packed stream.
fn add(system: &NtfsVolume, name: &str, algorithm: u32, packed: &[u8], size: u64) -> Node {
    let node = system.create(Node::ROOT, &name.into(), Kind::File).unwrap();
    system.set_attributes(node, &Change { size: Some(size), ..Change::default() }).unwrap();
    system.punch(node, 0..size).unwrap();
    let stream = system.streams().unwrap().open(node, &"WofCompressedData".into(), true).unwrap();
    system.write(stream, 0, packed).unwrap();
    system.forget(stream, 1);
    system.reparse_points().unwrap().set(node, Some(&point(algorithm))).unwrap();
    node
}

#[test]
fn packed_files_are_read_and_not_written() {
    let content = content();
    let size = content.len() as u64;
    for volume in VOLUMES {
        println!("{volume:?}");
        let device = volume.make();
        let system = open(device.clone());
        for (algorithm, packed) in PACKED {
            let node = add(&system, &format!("file {algorithm}"), algorithm, packed, size);
            system.forget(node, 1);
        }
        system.unmount().unwrap();
        drop(system);
        check_clean(&*device).unwrap();

        let system = open(device.clone());
        let mut random = Random::new(7);
        for (algorithm, packed) in PACKED {
            let node = system.lookup(Node::ROOT, &format!("file {algorithm}").as_str().into()).unwrap();
            let attributes = system.attributes(node).unwrap();
            assert_eq!(attributes.size, size);
            let most = (packed.len() as u64).next_multiple_of(volume.cluster);
            assert!((1..=most).contains(&attributes.allocated), "{attributes:?}");
            let place = Place::Compressed;
            assert_eq!(system.extents(node).unwrap(), [Extent { offset: 0, length: size, place }]);
            assert_eq!(system.attributes(node).unwrap().allocated, attributes.allocated, "when it is open");
            let mut whole = vec![0; content.len() + 9];
            assert_eq!(system.read(node, 0, &mut whole).unwrap(), content.len());
            assert!(whole[..content.len()] == content, "{algorithm}");
            for _ in 0..40 {
                let offset = random.below(size + 10);
                let length = [1, 9, 512, 4096, 40_000][random.below(5) as usize];
                let mut part = vec![0; length];
                let read = system.read(node, offset, &mut part).unwrap();
                let expected =
                    &content[(offset.min(size)) as usize..(offset + length as u64).min(size) as usize];
                assert!(part[..read] == *expected, "{algorithm}: {length} bytes at {offset}");
            }
            let refused = [
                system.write(node, 5, b"x"),
                system.set_attributes(node, &Change { size: Some(0), ..Change::default() }).map(drop),
                system.punch(node, 0..size),
                system.allocate(node, 0..size, true),
            ];
            for refused in refused {
                let told = format!("{refused:?}");
                assert!(matches!(refused, Err(Error::Unreadable(_))) && told.contains("only read"), "{told}");
            }
            // The packed stream is a stream as any other, and the file is removed with it.
            let stream = system.streams().unwrap().open(node, &"WofCompressedData".into(), false).unwrap();
            let mut bytes = vec![0; packed.len()];
            assert_eq!(system.read(stream, 0, &mut bytes).unwrap(), packed.len());
            assert!(bytes == packed);
        }
        let mut found = 0;
        let report = platter_ntfs::recover(device.clone(), &Silent, &mut |file, data| {
            assert_eq!(file.stream, None);
            if file.kind == Kind::File {
                let mut bytes = vec![0; content.len() + 1];
                assert_eq!((file.size, data.read(0, &mut bytes)?), (size, content.len()));
                assert!(bytes[..content.len()] == content);
                let mut part = [0; 100];
                assert_eq!(data.read(40_000, &mut part)?, 100);
                assert_eq!(part, content[40_000..40_100]);
                found += 1;
            }
            Ok(())
        });
        assert_eq!((report.unwrap().lost.len(), found), (0, 4));
        for (algorithm, _) in PACKED {
            system.unlink(Node::ROOT, &format!("file {algorithm}").as_str().into()).unwrap();
        }
        system.unmount().unwrap();
        check_clean(&*device).unwrap();
    }
}

#[test]
fn libfsntfs_reads_the_same() {
    let device = Volume { bytes: 16 << 20, ..USUAL }.make();
    let system = open(device.clone());
    let content = content();
    for (algorithm, packed) in PACKED {
        add(&system, &format!("file{algorithm}"), algorithm, packed, content.len() as u64);
    }
    system.unmount().unwrap();
    let image = ImageFile::of(&*device);
    let script = format!("{}/tests/judges/fsntfs_wof.py", env!("CARGO_MANIFEST_DIR"));
    let text = run("python3", &[&script, image.path()]);
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_by_key(|line| line.rsplit('\t').next());
    let expected: Vec<String> =
        (0..4).map(|number| format!("{}\t{}\t/file{number}", content.len(), sum(&content))).collect();
    assert_eq!(lines, expected);
}

/// Whatever the packed stream holds, a read gives bytes or an error that names the stream.
#[test]
fn damaged_streams_are_errors() {
    let device = USUAL.make();
    let system = open(device.clone());
    let size = content().len();
    let mut random = Random::new(11);
    for (algorithm, packed) in PACKED {
        let node = add(&system, &format!("file {algorithm}"), algorithm, packed, size as u64);
        let stream = system.streams().unwrap().open(node, &"WofCompressedData".into(), false).unwrap();
        let mut failures = 0;
        for _ in 0..400 {
            let at = match random.below(2) {
                0 => random.below(packed.len() as u64),
                _ => random.below(500),
            };
            let was = packed[at as usize];
            system.write(stream, at, &[was ^ (1 << random.below(8))]).unwrap();
            let mut buffer = vec![0; size];
            match system.read(node, 0, &mut buffer) {
                Ok(read) => assert_eq!(read, size),
                Err(error) => {
                    assert!(error.to_string().contains("WofCompressedData"), "{error}");
                    failures += 1;
                }
            }
            system.write(stream, at, &[was]).unwrap();
        }
        assert!(failures > 50, "{algorithm}: {failures}");
        // A stream that is cut off, or gone.
        for length in [0, 1, 30, 300, packed.len() as u64 / 2] {
            let size = Some(length);
            system.set_attributes(stream, &Change { size, ..Change::default() }).unwrap();
            let error = system.read(node, 40_000, &mut [0; 9]).unwrap_err().to_string();
            assert!(error.contains("WofCompressedData"), "{error}");
        }
        system.forget(stream, 1);
        system.streams().unwrap().remove(node, &"WofCompressedData".into()).unwrap();
        let error = system.read(node, 0, &mut [0; 9]).unwrap_err().to_string();
        assert!(error.contains("WofCompressedData") && error.contains("found none"), "{error}");
    }
    // An algorithm that is not known, and content in an image of Windows.
    for (index, fields) in [[1, 2, 1, 7], [1, 1, 1, 0]].into_iter().enumerate() {
        let node = add(&system, &format!("other {index}"), 0, PACKED[0].1, size as u64);
        let data = fields.iter().flat_map(|field: &u32| field.to_le_bytes()).collect();
        system.reparse_points().unwrap().set(node, Some(&Reparse { tag: 0x8000_0017, data })).unwrap();
        let refused = system.read(node, 0, &mut [0; 9]);
        assert!(matches!(refused, Err(Error::Unreadable(_))), "{refused:?}");
    }
}

use super::*;
use crate::{Job, Session, Stop, Subject};
use platter_device::{MemoryDevice, Recorder, Sectors};

const V2: &str = "fio version 2 iolog
/tmp/f add
/tmp/f open
/tmp/f write 0 4096
/tmp/f wait 2000 0
/tmp/f read 8192 4096
/tmp/f datasync 0 0
/tmp/f wait 1000
/tmp/f trim 0 4096
/tmp/g add
/tmp/g read 4096 512
/tmp/f close
";

/// As fio 3.33 writes it.
const V3: &str = "fio version 3 iolog
28 /tmp/f add
134 /tmp/f open
137 /tmp/f read 61440 4096
3817 /tmp/f write 774144 4096
20110 /tmp/f sync 0 0
20330 /tmp/f write 491520 8192
382943 /tmp/f close
";

const BLKPARSE: &str = "\
  8,0    3        1     0.000000000   697  Q   W 2048 + 8 [kjournald]
  8,0    3        2     0.000001829   697  G   W 2048 + 8 [kjournald]
  8,0    3        3     0.000002197   697  D   W 2048 + 8 [kjournald]
  8,0    3        4     0.001500000     0  C   W 2048 + 8 [0]
  8,0    1        5     0.002000000   698  Q FWS [jbd2/sda-8]
  8,0    1        6     0.002500000   698  m   N cfq698 a message
  8,0    1        7     0.003000000   699  Q  RA 64 + 16 [cat]
  8,0    1        8     0.003000001   699  Q   D 128 + 16 [fstrim]
  8,0    1        9     0.003000002   699  Q   N [smartd]
CPU0 (sda):
 Reads Queued:           1,        8KiB
Total (sda):
";

/// A binary record: time in nanoseconds, sector, bytes, action, payload.
fn record(is_big: bool, time: u64, sector: u64, bytes: u32, action: u32, payload: &[u8]) -> Vec<u8> {
    let mut record = Vec::new();
    let mut put = |bytes: &[u8]| match is_big {
        true => record.extend(bytes.iter().rev()),
        false => record.extend(bytes),
    };
    put(&(MAGIC_7).to_le_bytes());
    put(&1u32.to_le_bytes());
    put(&time.to_le_bytes());
    put(&sector.to_le_bytes());
    put(&bytes.to_le_bytes());
    put(&action.to_le_bytes());
    put(&77u32.to_le_bytes());
    put(&(8u32 << 20).to_le_bytes());
    put(&0u32.to_le_bytes());
    put(&0u16.to_le_bytes());
    put(&(payload.len() as u16).to_le_bytes());
    record.extend(payload);
    record
}

const MAGIC_7: u32 = 0x6561_7407;

fn binary(is_big: bool) -> Vec<u8> {
    let (read, write, flush, queue, issue) = (1 << 16, 2 << 16, 4 << 16, 1 | 16 << 16, 7 | 64 << 16);
    [
        // A note of the process' name, with payload.
        record(is_big, 5, 0, 0, 1024 << 16, b"sh\0\0"),
        record(is_big, 1_000_000, 2048, 4096, write | queue, b""),
        record(is_big, 1_000_100, 2048, 4096, write | issue, b""),
        record(is_big, 3_000_000, 0, 0, write | flush | queue, b""),
        record(is_big, 4_000_000, 64, 8192, read | queue, b"xyz"),
        record(is_big, 4_000_000, 128, 8192, 8192 << 16 | queue, b""),
    ]
    .concat()
}

fn parsed(bytes: &[u8]) -> std::result::Result<Log, String> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("log");
    std::fs::write(&path, bytes).unwrap();
    read(&path).map_err(|error| error.to_string().replace(&path.display().to_string(), "log"))
}

fn events(bytes: &[u8]) -> Vec<(u64, What, u64, u32)> {
    let script = parsed(bytes).unwrap().script(true).unwrap();
    let each = |event: &Event| (event.at.as_micros() as u64, event.what, event.offset, event.length);
    script.events.iter().map(each).collect()
}

#[test]
fn each_kind_of_log_says_what_to_do_and_when() {
    use What::{Read, Sync, Write};
    assert_eq!(
        events(V2.as_bytes()),
        [
            (0, Write, 0, 4096),
            (2000, Read, 8192, 4096),
            (2000, Sync, 0, 0),
            // The second file lies behind the first, at a whole MiB.
            (3000, Read, (1 << 20) + 4096, 512),
        ]
    );
    assert_eq!(
        events(V3.as_bytes()),
        [
            (0, Read, 61_440, 4096),
            (3680, Write, 774_144, 4096),
            (19_973, Sync, 0, 0),
            (20_193, Write, 491_520, 8192)
        ]
    );
    let of_trace = [(0, Write, 1 << 20, 4096), (2000, Sync, 0, 0), (3000, Read, 32_768, 8192)];
    assert_eq!(events(BLKPARSE.as_bytes()), of_trace);
    assert_eq!(parsed(BLKPARSE.as_bytes()).unwrap().discards, 1);
    for is_big in [false, true] {
        assert_eq!(events(&binary(is_big)), of_trace);
        assert_eq!(parsed(&binary(is_big)).unwrap().discards, 1);
    }
}

#[test]
fn the_logs_of_all_processors_are_one() {
    let directory = tempfile::tempdir().unwrap();
    let queued_read = 1 << 16 | 1 | 16 << 16;
    for (processor, time) in [(0, 9_000), (1, 1_000), (10, 5_000)] {
        let name = directory.path().join(format!("sda.blktrace.{processor}"));
        std::fs::write(name, record(false, time, processor * 8, 4096, queued_read, b"")).unwrap();
    }
    std::fs::write(directory.path().join("sdb.blktrace.0"), "another").unwrap();
    let script = read(&directory.path().join("sda.blktrace.0")).unwrap().script(true).unwrap();
    let offsets: Vec<u64> = script.events.iter().map(|event| event.offset / 4096).collect();
    assert_eq!(offsets, [1, 10, 0]);
}

#[test]
fn a_malformed_log_is_refused_with_its_line() {
    let wrong = |text: &str| parsed(text.as_bytes()).map(drop).unwrap_err();
    let line_4 = |line: &str| wrong(&V2.replace("/tmp/f write 0 4096", line));
    for (line, said) in [
        ("/tmp/f write 0", "line 4: expected FILE ACTION"),
        ("/tmp/f write zero 4096", "line 4: expected an offset in decimal, found \"zero\""),
        ("/tmp/f write 0 -1", "line 4: expected a length in decimal"),
        ("/tmp/f write 0 0", "line 4: an I/O of 0 bytes"),
        ("/tmp/f write 0 99999999999", "line 4: an I/O of 99999999999 bytes"),
        ("/tmp/f write 18446744073709551615 4096", "line 4: an I/O that ends behind"),
        ("/tmp/f erase 0 4096", "line 4: expected FILE ACTION"),
        ("0 /tmp/f write 0 4096", "line 4: expected FILE ACTION"),
    ] {
        let error = line_4(line);
        assert!(error.starts_with("log: ") && error.contains(said), "{line}: {error}");
    }
    let third = |line: &str| wrong(&V3.replace("3817 /tmp/f write 774144 4096", line));
    assert!(third("/tmp/f write 774144 4096").contains("line 5: expected a time in microseconds"));
    assert!(third("5 /tmp/f wait 100 0").contains("line 5: expected TIME FILE ACTION"));
    assert!(wrong("fio version 1 iolog\n").contains("line 1: expected version 2 or 3"));
    assert!(wrong("0, 4096, 512\n").contains("line 1: expected fio's iolog"));
    assert!(wrong("").contains("line 1: expected fio's iolog"));
    let second = |line: &str| {
        let first = BLKPARSE.lines().next().unwrap();
        wrong(&format!("{first}\n{line}\n"))
    };
    assert!(second("8,0 3 2 0.1").contains("line 2: expected MAJOR,MINOR"));
    assert!(second("sda 3 2 0.1 697 Q W 8 + 8").contains("line 2: expected MAJOR,MINOR, found \"sda\""));
    assert!(second("8,0 3 2 now 697 Q W 8 + 8").contains("line 2: expected a time"));
    assert!(second("8,0 3 2 0.1 697 Q W x + 8").contains("line 2: expected a sector in decimal"));
    assert!(second("8,0 3 2 0.1 697 Q X 8 + 8").contains("line 2: expected R, W, D, F or N"));
    assert!(second(&"8".repeat(LONGEST_LINE + 1)).contains("line 2: longer than"));
    let bytes = binary(false);
    let wrong = |bytes: &[u8]| parsed(bytes).map(drop).unwrap_err();
    assert!(wrong(&bytes[..bytes.len() - 1]).contains("record at byte 247: expected 48 bytes"));
    assert!(wrong(&bytes[..50]).contains("record at byte 0: expected 4 bytes of payload"));
    let mut other = bytes.clone();
    other[52..56].copy_from_slice(b"junk");
    assert!(wrong(&other).contains("record at byte 52: expected its magic"));
    other = bytes;
    other[0] = 8;
    assert!(wrong(&other).contains("record at byte 0: expected version 7, found 8"));
    // A log without an I/O has nothing to replay.
    let none = parsed(b"fio version 3 iolog\n1 /f add\n").unwrap();
    assert!(none.script(true).unwrap_err().contains("no read and no write"));
}

#[test]
fn names_say_how_a_log_is_replayed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a:b.log");
    std::fs::write(&path, V3).unwrap();
    let loaded = |how: &str| named(format!("{how}:{}", path.display()).as_ref());
    let of = |how: &str| {
        let workload = loaded(how).unwrap().unwrap();
        let pattern = &workload.cases[0].pattern;
        (pattern.queue_depth, pattern.shape.script.as_ref().unwrap().is_paced)
    };
    assert_eq!(of("replay"), (PACED_DEPTH, true));
    assert_eq!(of("replay-fast"), (FAST_DEPTH, false));
    assert_eq!(of("replay-fast@8"), (8, false));
    assert!(loaded("replays").is_none() && named("overhead".as_ref()).is_none());
    assert!(loaded("replay@0").unwrap().is_err() && loaded("replay@many").unwrap().is_err());
    let workload = loaded("replay").unwrap().unwrap();
    assert_eq!(
        (workload.name.as_str(), workload.span, workload.cases[0].count),
        ("a:b.log", 1 << 20, Some(3))
    );
    assert!(named("replay:/no/such/log".as_ref()).unwrap().is_err());
}

/// A device must see exactly what the log says, also where the load runs in pieces.
#[test]
fn a_device_sees_what_the_log_says() {
    let script = parsed(BLKPARSE.as_bytes()).unwrap().script(false).unwrap();
    let workload = workload("trace", script, 1, 0);
    let device = Arc::new(Recorder::new(Arc::new(MemoryDevice::new(2 << 20, Sectors::SMALL))));
    let subject = Subject::Device { device: device.clone(), free: None };
    let job = Job {
        pattern: workload.cases[0].pattern.clone(),
        range: 0..2 << 20,
        seed: 1,
        ramp_up: Duration::ZERO,
        stop: Stop::Count(2),
        durability: Durability::Direct,
        verify: false,
        touch: false,
        interval: Duration::from_secs(1),
    };
    let mut session = Session::new(subject, job).unwrap();
    let mut seen = Vec::new();
    for count in [1, 1, 4] {
        let measured = session.run(Duration::ZERO, Stop::Count(count), Duration::from_secs(1), &()).unwrap();
        let traffic = device.traffic();
        seen.push((measured.ios(), traffic.write.bytes, traffic.flushes, traffic.read.bytes));
    }
    // The third piece goes over the load twice more.
    assert_eq!(seen, [(1, 4096, 0, 0), (1, 4096, 1, 8192), (4, 3 * 4096, 3, 3 * 8192)]);
}

#[test]
fn targets_have_the_same_part_of_the_log_in_each_pass() {
    let mut text = String::from("fio version 3 iolog\n");
    let mut rng = fastrand::Rng::with_seed(7);
    for number in 0..1000 {
        let what = if number % 3 == 0 { "write" } else { "read" };
        text += &format!("{number} /f {what} {} {}\n", rng.u64(..3000) * 512, rng.u64(1..16) * 512);
    }
    let script = parsed(text.as_bytes()).unwrap().script(false).unwrap();
    let load = workload("trace", script, 4, 0);
    let targets = ["raw", "exfat", "ntfs"].map(|name| crate::Target::parse(name).unwrap());
    let comparison = crate::Comparison::new(crate::Stand::Memory(96 << 20), targets.to_vec(), vec![load]);
    let document = crate::compare(&comparison, &()).unwrap();
    assert_eq!(document.results.len(), 3);
    for result in &document.results {
        let run = &result.runs[0];
        assert_eq!((run.slices.len(), run.requested.reads, run.requested.writes), (20, 666, 334));
        assert_eq!(run.requested, document.results[0].runs[0].requested);
        assert!(result.estimates.iter().all(|estimate| estimate.low.is_some()));
        assert!(result.case.shape.as_ref().unwrap().contains("1000 recorded I/Os as fast as they go"));
    }
}

#[test]
fn any_bytes_are_a_log_or_refused() {
    let mut rng = fastrand::Rng::with_seed(3);
    let samples =
        [V2.as_bytes().to_vec(), V3.as_bytes().to_vec(), BLKPARSE.as_bytes().to_vec(), binary(false)];
    for _ in 0..20_000 {
        let mut bytes = samples[rng.usize(..4)].clone();
        for _ in 0..rng.usize(1..4) {
            let at = rng.usize(..bytes.len());
            match rng.u8(..3) {
                0 => bytes[at] = rng.u8(..),
                1 => bytes.truncate(at.max(1)),
                _ => bytes.insert(at, rng.u8(b'0'..=b'9')),
            }
        }
        any(&bytes);
    }
}

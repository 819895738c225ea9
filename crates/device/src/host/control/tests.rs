use super::properties::{ACCESS_ALIGNMENT, DEVICE, QUERY_PROPERTY, SEEK_PENALTY, WRITE_CACHE};
use super::refusals::{ACCESS_DENIED, INVALID_PARAMETER, NOT_READY, REFUSALS};
use super::trim::{DEVICE_NUMBER, DRIVE_LAYOUT, MANAGE_DATA_SET};
use super::*;
use std::cell::{Cell, RefCell};
use std::ops::Range;

/// What is open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum What {
    #[default]
    Disk,
    Volume,
    File,
}

/// A Windows that answers and refuses as it is documented.
///
/// * Codes that what is open does not know: `ERROR_INVALID_FUNCTION` ("DeviceIoControl"; NTFS answers so to those of ReFS).
/// * Transfers past the cache that are no whole sectors, by offset, length or memory: `ERROR_INVALID_PARAMETER` ("File
///   Buffering").
/// * Writes to sectors of a mounted volume that is not locked: `ERROR_ACCESS_DENIED` ("WriteFile", remarks; boot sectors
///   excepted).
/// * Writes to a protected medium: `ERROR_WRITE_PROTECT`. Everything without a medium: `ERROR_NOT_READY`.
/// * Locking while files are open: `ERROR_ACCESS_DENIED` ("FSCTL_LOCK_VOLUME").
/// * Integrity of a file that is not empty cannot be changed ("FSCTL_SET_INTEGRITY_INFORMATION").
#[derive(Default)]
struct Fake {
    what: What,
    /// Codes that fail, with the error of each.
    refused: Vec<(u32, i32)>,
    alignment: (u32, u32),
    sector: u32,
    is_protected: bool,
    has_no_medium: bool,
    /// The mounted volume on it.
    mounted: Option<Range<u64>>,
    has_open_files: bool,
    is_locked: Cell<bool>,
    /// Whether it has integrity streams.
    is_refs: bool,
    integrity: Cell<u16>,
    /// Whether setting integrity is accepted and does nothing.
    is_deaf: bool,
    ranges: Vec<(u64, u64)>,
    partitions: Vec<(u64, u64)>,
    /// The answers to queries of other properties than the alignment.
    properties: Vec<(u32, Vec<u8>)>,
    content: RefCell<Vec<u8>>,
    sent: RefCell<Vec<u32>>,
    discarded: RefCell<Vec<(u64, u64)>>,
}

fn failed<T>(code: i32) -> io::Result<T> {
    Err(io::Error::from_raw_os_error(code))
}

impl Fake {
    fn number_of_partition(&self) -> u32 {
        if self.what == What::Disk { 0 } else { 2 }
    }

    fn layout(&self) -> Vec<u8> {
        let mut bytes = [1, self.partitions.len() as u32].map(u32::to_le_bytes).concat();
        bytes.resize(LAYOUT_BYTES, 0);
        for (start, length) in &self.partitions {
            let mut partition = vec![0; 8];
            partition.extend([*start, *length].map(u64::to_le_bytes).concat());
            partition.resize(PARTITION_BYTES, 0);
            bytes.extend(partition);
        }
        bytes
    }

    /// What a query of a property is answered with; an older driver does not know all of them.
    fn property(&self, query: &[u8]) -> io::Result<Vec<u8>> {
        assert_eq!((query.len(), number(query, 4)), (12, 0));
        let asked = number(query, 0);
        if asked == ACCESS_ALIGNMENT {
            return Ok([28, 28, 0, 0, self.alignment.0, self.alignment.1, 0].map(u32::to_le_bytes).concat());
        }
        let known = self.properties.iter().find(|(property, _)| *property == asked);
        known.map_or_else(|| failed(NOT_THERE[0]), |(_, answer)| Ok(answer.clone()))
    }

    fn refuse_transfer(&self, memory: *const u8, offset: u64, length: usize) -> io::Result<()> {
        if self.has_no_medium {
            return failed(NOT_READY);
        }
        let sector = u64::from(self.sector);
        let all = [memory as u64, offset, length as u64];
        if all.iter().all(|one| one.is_multiple_of(sector)) { Ok(()) } else { failed(INVALID_PARAMETER) }
    }
}

// `DRIVE_LAYOUT_INFORMATION_EX` and `PARTITION_INFORMATION_EX`, as their pages have the fields.
const LAYOUT_BYTES: usize = 48;
const PARTITION_BYTES: usize = 144;

impl Control for Fake {
    fn send(&self, code: u32, input: &[u8], output: &mut [u8]) -> io::Result<usize> {
        self.sent.borrow_mut().push(code);
        if let Some((_, error)) = self.refused.iter().find(|(refused, _)| *refused == code) {
            return failed(*error);
        }
        let mut put = |bytes: &[u8]| {
            output[..bytes.len()].copy_from_slice(bytes);
            Ok(bytes.len())
        };
        if self.has_no_medium {
            return failed(NOT_READY);
        }
        match (code, self.what) {
            (GET_LENGTH, What::Disk | What::Volume) => put(&(1_u64 << 30).to_le_bytes()),
            (QUERY_PROPERTY, What::Disk | What::Volume) => put(&self.property(input)?),
            (GET_GEOMETRY, What::Disk | What::Volume) => {
                put(&[0, 0, 12, 1, 1, self.sector].map(u32::to_le_bytes).concat())
            }
            (IS_WRITABLE, What::Disk | What::Volume) => {
                if self.is_protected {
                    failed(WRITE_PROTECT)
                } else {
                    Ok(0)
                }
            }
            (LOCK_VOLUME, What::Volume) => {
                self.is_locked.set(!self.has_open_files);
                if self.has_open_files { failed(ACCESS_DENIED) } else { Ok(0) }
            }
            (DISMOUNT_VOLUME, What::Volume) => Ok(0),
            (DEVICE_NUMBER, What::Disk | What::Volume) => {
                put(&[7, 1, self.number_of_partition()].map(u32::to_le_bytes).concat())
            }
            (DRIVE_LAYOUT, What::Disk) => put(&self.layout()),
            (MANAGE_DATA_SET, What::Disk | What::Volume) => {
                let fields: Vec<u32> = (0..7).map(|field| number(input, 4 * field)).collect();
                assert_eq!((fields, input.len()), (vec![28, 1, 1 << 31, 0, 0, 32, 16], 48));
                self.discarded.borrow_mut().push((long(input, 32), long(input, 40)));
                Ok(0)
            }
            (GET_INTEGRITY, What::File) if self.is_refs => {
                let fields = [u32::from(self.integrity.get()), 0, 16384, 4096];
                put(&fields.map(u32::to_le_bytes).concat())
            }
            (SET_INTEGRITY, What::File) if self.is_refs => {
                assert_eq!(input.len(), 8);
                if !self.content.borrow().is_empty() {
                    return failed(INVALID_PARAMETER);
                }
                if !self.is_deaf {
                    self.integrity.set(u16::from_le_bytes([input[0], input[1]]));
                }
                Ok(0)
            }
            (SET_SPARSE | SET_ZERO_DATA, What::File) => Ok(0),
            (ALLOCATED_RANGES, What::File) => {
                let from = long(input, 0);
                let mut later = self.ranges.iter().filter(|(start, length)| start + length > from);
                let Some((start, length)) = later.next() else { return Ok(0) };
                let start = (*start).max(from);
                put(&[start, *length].map(u64::to_le_bytes).concat())?;
                if later.next().is_some() { failed(234) } else { Ok(16) }
            }
            _ => failed(NOT_THERE[0]),
        }
    }
}

impl Transfers for Fake {
    fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.refuse_transfer(buffer.as_ptr(), offset, buffer.len())?;
        let content = self.content.borrow();
        let there = content.get(offset as usize..).unwrap_or(&[]);
        // Fewer than asked for, as Windows may.
        let count = there.len().min(buffer.len()).min(8192);
        buffer[..count].copy_from_slice(&there[..count]);
        Ok(count)
    }

    fn write(&self, data: &[u8], offset: u64) -> io::Result<usize> {
        self.refuse_transfer(data.as_ptr(), offset, data.len())?;
        if self.is_protected {
            return failed(WRITE_PROTECT);
        }
        let end = offset + data.len() as u64;
        let is_in_volume = |volume: &Range<u64>| offset < volume.end && volume.start < end;
        if !self.is_locked.get() && self.mounted.as_ref().is_some_and(is_in_volume) {
            return failed(ACCESS_DENIED);
        }
        let count = data.len().min(8192);
        self.content.borrow_mut()[offset as usize..][..count].copy_from_slice(&data[..count]);
        Ok(count)
    }
}

fn disk() -> Fake {
    Fake { alignment: (512, 4096), sector: 512, content: RefCell::new(vec![0; 1 << 20]), ..Fake::default() }
}

fn volume() -> Fake {
    Fake { what: What::Volume, mounted: Some(0..1 << 20), ..disk() }
}

fn refs() -> Fake {
    Fake { what: What::File, is_refs: true, sector: 4096, ..Fake::default() }
}

#[test]
fn sectors_are_those_of_the_property_or_of_the_geometry() {
    assert_eq!(geometry(&disk()).unwrap(), (1 << 30, 512, 4096));
    let old = Fake { refused: vec![(QUERY_PROPERTY, 1)], sector: 4096, ..disk() };
    assert_eq!(geometry(&old).unwrap(), (1 << 30, 4096, 4096));
    for alignment in [(0, 0), (512, 256), (513, 4096), (512, 1 << 20)] {
        let wrong = geometry(&Fake { alignment, ..disk() }).unwrap_err().to_string();
        assert!(wrong.contains("expected powers of two"), "{wrong}");
    }
    let nothing = Fake { refused: vec![(GET_LENGTH, 5)], ..disk() };
    assert_eq!(geometry(&nothing).unwrap_err().raw_os_error(), Some(5));
}

/// `STORAGE_DEVICE_DESCRIPTOR` with these texts, as a driver of SCSI fills it: with spaces behind them.
fn descriptor(maker: &str, product: &str, firmware: &str) -> Vec<u8> {
    let mut bytes = vec![0; 36];
    for (field, text) in [(12, maker), (16, product), (20, firmware)] {
        let at = if text.is_empty() { 0 } else { bytes.len() as u32 };
        bytes[field..field + 4].copy_from_slice(&at.to_le_bytes());
        bytes.extend(format!("{text:<16}\0").bytes().filter(|_| !text.is_empty()));
    }
    let size = bytes.len() as u32;
    bytes[..8].copy_from_slice(&[40, size].map(u32::to_le_bytes).concat());
    bytes
}

/// `STORAGE_WRITE_CACHE_PROPERTY`: type, whether it is enabled, and whether Windows leaves out to empty it.
fn cache(enabled: u32, is_protected: bool) -> Vec<u8> {
    let mut bytes = [28, 28, 2, enabled, 2, 2].map(u32::to_le_bytes).concat();
    bytes.extend([1, u8::from(is_protected), 0, 0]);
    bytes
}

#[test]
fn a_disk_tells_its_model_firmware_kind_and_cache() {
    let with = |properties| hardware(&Fake { properties, ..disk() });
    let told = with(vec![
        (DEVICE, descriptor("Msft", "Virtual Disk", "1.0")),
        (SEEK_PENALTY, [12_u32, 12, 1].map(u32::to_le_bytes).concat()),
        (WRITE_CACHE, cache(2, false)),
    ]);
    assert_eq!((told.model.as_deref(), told.firmware.as_deref()), (Some("Msft Virtual Disk"), Some("1.0")));
    assert_eq!((told.rotational, told.write_cache.as_deref()), (Some(true), Some("write back")));
    // Drivers of SATA and NVMe often name no maker.
    let told = with(vec![(DEVICE, descriptor("", "Samsung SSD 980", "")), (WRITE_CACHE, cache(2, true))]);
    assert_eq!(
        (told.model.as_deref(), told.firmware, told.rotational),
        (Some("Samsung SSD 980"), None, None)
    );
    assert!(told.write_cache.is_some_and(|told| told.contains("never empties it")));
    let told = with(vec![(WRITE_CACHE, cache(1, false))]);
    assert_eq!((told.model, told.write_cache.as_deref()), (None, Some("write through")));
    // Offsets that lead behind the end, answers that are cut off, and no answer.
    let mut wrong = descriptor("Msft", "Virtual Disk", "1.0");
    wrong[16..20].copy_from_slice(&u32::MAX.to_le_bytes());
    assert_eq!(with(vec![(DEVICE, wrong)]).model.as_deref(), Some("Msft"));
    for bytes in [0, 7, 35] {
        let short = descriptor("Msft", "Virtual Disk", "1.0")[..bytes].to_vec();
        let told = with(vec![(DEVICE, short), (SEEK_PENALTY, vec![12; 8]), (WRITE_CACHE, vec![28; 12])]);
        assert_eq!(told, crate::host::Hardware::default());
    }
    assert_eq!(with(Vec::new()), crate::host::Hardware::default());
}

/// A cause for each line of the table, and the sentence that a user sees.
#[test]
fn each_refusal_is_a_sentence_with_the_remedy() {
    let sector = 4096;
    let memory = vec![0_u64; 4096];
    let bytes: Vec<u8> = memory.iter().flat_map(|number| number.to_le_bytes()).collect();
    let start = bytes.as_ptr().align_offset(sector);
    let (whole, askew) = (&bytes[start..start + sector], &bytes[start + 512..start + 512 + sector]);
    let mut told = Vec::new();
    let mut tell = |doing, code, error: io::Error| {
        assert!(error.raw_os_error().is_none(), "{doing:?} {code}: {error}");
        told.push((doing, code, error.kind(), error.to_string()));
    };
    let open = |code| explained(Doing::OpenDisk, io::Error::from_raw_os_error(code));
    tell(Doing::OpenDisk, 5, open(5));
    tell(Doing::OpenDisk, 2, open(2));
    tell(Doing::Measure, 21, geometry(&Fake { has_no_medium: true, ..disk() }).unwrap_err());
    tell(Doing::Measure, 1, geometry(&refs()).unwrap_err());
    let strange = Fake { refused: vec![(GET_LENGTH, 50), (LOCK_VOLUME, 50)], ..volume() };
    tell(Doing::Measure, 50, geometry(&strange).unwrap_err());
    tell(Doing::Take, 5, take_volume(&Fake { has_open_files: true, ..volume() }).unwrap_err());
    tell(Doing::Take, 1, take_volume(&disk()).unwrap_err());
    tell(Doing::Take, 50, take_volume(&strange).unwrap_err());
    let mounted = Fake { mounted: Some(4096..1 << 19), ..disk() };
    tell(Doing::Write, 5, write_all(&mounted, whole, 8192).unwrap_err());
    tell(Doing::Write, 19, write_all(&Fake { is_protected: true, ..disk() }, whole, 0).unwrap_err());
    let large = Fake { sector: sector as u32, ..disk() };
    for (data, offset) in [(askew, 0), (whole, 512), (&whole[..512], 0)] {
        tell(Doing::Write, 87, write_all(&large, data, offset).unwrap_err());
    }
    let mut own = bytes.clone();
    let start = own.as_ptr().align_offset(sector);
    tell(Doing::Read, 87, read_exact(&large, &mut own[start..start + 512], 0).unwrap_err());
    let empty = Fake { has_no_medium: true, ..disk() };
    tell(Doing::Read, 21, read_exact(&empty, &mut own[start..start + 512], 0).unwrap_err());
    tell(Doing::Write, 21, write_all(&empty, whole, 0).unwrap_err());
    for doing in [Doing::Read, Doing::Write] {
        tell(doing, 1167, explained(doing, io::Error::from_raw_os_error(1167)));
    }
    for (doing, code, kind, why) in REFUSALS {
        let is_told = told.iter().any(|one| (one.0, one.1, one.2, &*one.3) == (*doing, *code, *kind, *why));
        assert!(is_told, "{doing:?} {code}: nothing causes it");
        assert!(why.contains(';') && !why.ends_with('.') && !why.contains("  "), "{why}: no remedy");
    }
    // What is written somewhere else, or under a lock, is not refused.
    write_all(&mounted, whole, 1 << 19).unwrap();
    let mine = volume();
    assert!(write_all(&mine, whole, 8192).is_err());
    take_volume(&mine).unwrap();
    write_all(&mine, whole, 8192).unwrap();
}

#[test]
fn transfers_that_do_less_than_they_are_asked_for_are_gone_on_with() {
    let disk = Fake { sector: 1, ..disk() };
    let data: Vec<u8> = (0..100_000_u32).map(|at| (at % 251) as u8).collect();
    write_all(&disk, &data, 4096).unwrap();
    let mut back = vec![0; data.len()];
    read_exact(&disk, &mut back, 4096).unwrap();
    assert!(back == data);
    let error = read_exact(&disk, &mut back, (1 << 20) - 512).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
}

#[test]
fn a_medium_that_takes_no_writes_says_so() {
    assert!(is_write_protected(&Fake { is_protected: true, ..disk() }).unwrap());
    assert!(!is_write_protected(&disk()).unwrap());
    let of = |error| is_write_protected(&Fake { refused: vec![(IS_WRITABLE, error)], ..disk() });
    assert!(!of(1).unwrap() && of(21).is_err());
}

#[test]
fn a_volume_is_locked_before_it_is_dismounted_and_one_in_use_is_refused() {
    let free = volume();
    take_volume(&free).unwrap();
    assert_eq!(*free.sent.borrow(), [LOCK_VOLUME, DISMOUNT_VOLUME]);
    let used = Fake { has_open_files: true, ..volume() };
    let error = take_volume(&used).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ResourceBusy);
    assert!(error.to_string().contains("close the programs"), "{error}");
    assert_eq!(*used.sent.borrow(), [LOCK_VOLUME]);
}

#[test]
fn nothing_is_discarded_where_a_file_system_may_be() {
    let blank = disk();
    discard(&blank, false, 1 << 20, 1 << 20).unwrap();
    assert_eq!(*blank.discarded.borrow(), [(1 << 20, 1 << 20)]);
    // A table with a partition from 2 MiB to 3 MiB, and an entry that is not used.
    let parted = Fake { partitions: vec![(2 << 20, 1 << 20), (0, 0)], ..disk() };
    for (offset, length) in
        [(0, 8 << 20), ((2 << 20) + 4096, 512), ((3 << 20) - 512, 1 << 20), (0, (2 << 20) + 512)]
    {
        discard(&parted, true, offset, length).unwrap();
    }
    assert!(parted.discarded.borrow().is_empty());
    discard(&parted, false, 0, 2 << 20).unwrap();
    discard(&parted, false, 3 << 20, 4096).unwrap();
    assert_eq!(parted.discarded.borrow().len(), 2);
    for code in [DEVICE_NUMBER, DRIVE_LAYOUT] {
        let silent = Fake { refused: vec![(code, 1)], ..disk() };
        discard(&silent, false, 0, 4096).unwrap();
        assert!(silent.discarded.borrow().is_empty());
    }
    let volume = volume();
    discard(&volume, false, 0, 4096).unwrap();
    assert!(volume.discarded.borrow().is_empty());
    discard(&volume, true, 0, 4096).unwrap();
    assert_eq!(*volume.discarded.borrow(), [(0, 4096)]);
}

#[test]
fn a_table_that_cannot_be_is_none() {
    for count in [3_u32, 129, u32::MAX] {
        struct Odd(u32);
        impl Control for Odd {
            fn send(&self, code: u32, _input: &[u8], output: &mut [u8]) -> io::Result<usize> {
                assert_ne!(code, MANAGE_DATA_SET);
                output.fill(0);
                if code == DRIVE_LAYOUT {
                    output[4..8].copy_from_slice(&self.0.to_le_bytes());
                    return Ok(LAYOUT_BYTES + 2 * PARTITION_BYTES);
                }
                Ok(output.len())
            }
        }
        discard(&Odd(count), true, 0, 4096).unwrap();
    }
}

#[test]
fn a_disk_that_discards_nothing_keeps_its_content_and_one_that_fails_says_so() {
    for (code, is_fine) in [(1, true), (50, true), (1117, false)] {
        let disk = Fake { refused: vec![(MANAGE_DATA_SET, code)], ..disk() };
        assert_eq!(discard(&disk, false, 0, 4096).is_ok(), is_fine, "{code}");
    }
}

#[test]
fn integrity_is_set_and_read_back() {
    let file = refs();
    for is_on in [true, false] {
        set_integrity(&file, is_on).unwrap();
        assert_eq!(integrity(&file).unwrap(), Some(is_on));
    }
    let deaf = Fake { is_deaf: true, ..refs() };
    assert!(set_integrity(&deaf, true).unwrap_err().to_string().contains("set to on, and is off"));
    let written = Fake { content: RefCell::new(vec![0; 512]), ..refs() };
    assert_eq!(set_integrity(&written, true).unwrap_err().raw_os_error(), Some(INVALID_PARAMETER));
    let ntfs = Fake { is_refs: false, ..refs() };
    let error = set_integrity(&ntfs, true).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::Unsupported);
    assert!(error.to_string().contains("leave +integrity out"), "{error}");
    assert_eq!(integrity(&ntfs).unwrap(), None);
}

#[test]
fn holes_of_files_are_passed_over() {
    let file = Fake { ranges: vec![(4096, 4096), (1 << 20, 4096)], ..refs() };
    let next = |offset| next_data(&file, offset, 2 << 20);
    assert_eq!([0, 5000, 8192, 1 << 20, (1 << 20) + 4096].map(next), [4096, 5000, 1 << 20, 1 << 20, 2 << 20]);
    let no_holes = Fake { refused: vec![(ALLOCATED_RANGES, 50), (SET_ZERO_DATA, 50)], ..refs() };
    assert_eq!(next_data(&no_holes, 7, 100), 7);
    make_sparse(&no_holes);
    make_hole(&no_holes, 0, 4096).unwrap();
    let full = Fake { refused: vec![(SET_ZERO_DATA, 112)], ..refs() };
    assert!(make_hole(&full, 0, 4096).is_err());
}

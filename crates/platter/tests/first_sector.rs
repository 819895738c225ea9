//! A volume whose first sector cannot be read is found by the copy of what was there, as one whose first sector was
//! overwritten.

use platter::device::{
    Device, Error, Immediate, MemoryDevice, Operation, OverlayDevice, Queue, Result, Sectors, UndoDevice,
};
use platter::formats::{by_name, recognise, unknown};
use platter::vfs::{CheckOptions, FormatOptions};
use platter::{Access, DeviceOptions, Event, Listener, OpenOptions, Silent, part_of};
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// The formats, each with the number of bytes from the start on that may be unreadable. The copy of FAT32 is in sector
/// 6, in the same 4 KiB as the first sector.
const FORMATS: [(&str, u64); 5] =
    [("fat32", 512), ("exfat", 4096), ("ntfs", 4096), ("refs", 4096), ("refs+integrity", 4096)];
const CONTENT: &[u8] = b"what was written";

/// A volume with one file.
fn made(format: &str) -> Arc<dyn Device> {
    let device = Arc::new(MemoryDevice::new(320 << 20, Sectors::SMALL));
    let cluster = (format == "fat32").then_some(512);
    let options = FormatOptions { cluster, ..FormatOptions::default() };
    by_name(format).unwrap().make(&*device, &options, &Silent).unwrap();
    let volume = OpenOptions::new().access(Access::Write { force: false }).open_on(device.clone(), format);
    let volume = volume.unwrap();
    volume.write("file", CONTENT).unwrap();
    volume.close().unwrap();
    device
}

fn is_whole(device: Arc<dyn Device>) -> bool {
    let volume = OpenOptions::new().open_on(device, "volume").unwrap();
    volume.read("file").unwrap() == CONTENT
}

/// A disk of which the first sectors cannot be read until they are written to.
struct BadDisk {
    disk: Arc<dyn Device>,
    bad: Mutex<BTreeSet<u64>>,
}

/// The device, of which these first bytes cannot be read.
fn unreadable(disk: Arc<dyn Device>, bytes: u64) -> Arc<dyn Device> {
    Arc::new(BadDisk { disk, bad: Mutex::new((0..bytes / 512).collect()) })
}

fn sectors(offset: u64, bytes: &[u8]) -> Range<u64> {
    offset / 512..(offset + bytes.len() as u64) / 512
}

impl Device for BadDisk {
    fn name(&self) -> &str {
        self.disk.name()
    }

    fn len(&self) -> u64 {
        self.disk.len()
    }

    fn sectors(&self) -> Sectors {
        Sectors::SMALL
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        if self.bad.lock().unwrap().range(sectors(offset, buffer)).next().is_some() {
            let (device, operation) = (self.name().into(), Operation::Read);
            let source = std::io::Error::from_raw_os_error(5);
            return Err(Error::Io { device, operation, offset, length: buffer.len() as u64, source });
        }
        self.disk.read_at(offset, buffer)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<()> {
        self.bad.lock().unwrap().retain(|sector| !sectors(offset, data).contains(sector));
        self.disk.write_at(offset, data)
    }

    fn flush(&self) -> Result<()> {
        self.disk.flush()
    }

    fn discard(&self, offset: u64, length: u64) -> Result<()> {
        self.disk.discard(offset, length)
    }

    fn queue(&self, depth: usize) -> Result<Box<dyn Queue + '_>> {
        Ok(Box::new(Immediate::new(self, depth)))
    }
}

/// Opens the device as commands do, and returns the number of times that the listener was told.
fn as_commands_do(device: Arc<dyn Device>) -> (Arc<dyn Device>, usize) {
    let told = Arc::new(AtomicUsize::new(0));
    let counted = told.clone();
    let listener = Listener::new(move |event: &Event<'_>| {
        assert!(event.to_string().contains("the first sector is taken for zeroes"), "{event}");
        counted.fetch_add(1, Ordering::SeqCst);
    });
    let options = DeviceOptions { listener, ..DeviceOptions::new(Access::Write { force: false }) };
    let device = part_of(device, None, &options).unwrap();
    (device, told.load(Ordering::SeqCst))
}

#[test]
fn a_volume_is_found_by_its_copies() {
    for (format, bytes) in FORMATS {
        let device = made(format);
        assert_eq!(as_commands_do(device.clone()).1, 0, "{format}: a whole volume");
        for bytes in [512, bytes] {
            let (device, told) = as_commands_do(unreadable(device.clone(), bytes));
            assert_eq!(told, 1, "{format}");
            if recognise(&*device).unwrap().is_some() {
                assert!(is_whole(device), "{format}");
                continue;
            }
            // What was written there last may be something else, of which the copy is left over, so it is not believed
            // unasked.
            assert!(matches!(format, "fat32" | "exfat") || bytes == 4096, "{format}");
            let name = if format == "fat32" { "fat" } else { format.trim_end_matches("+integrity") };
            let said = unknown(&*device).unwrap().to_string();
            assert!(said.contains(&format!("platter check --as {name}`")), "{format}: {said}");
            let mut found = 0;
            let report = by_name(format).unwrap().recover(device, &Silent, &mut |_, _| {
                found += 1;
                Ok(())
            });
            report.unwrap();
            assert!(found > 0, "{format}");
        }
    }
}

#[test]
fn a_repair_puts_the_sector_back_and_undo_takes_it_out_again() {
    let place = std::env::temp_dir().join(format!("platter-first-sector-{}", std::process::id()));
    for (format, bytes) in FORMATS {
        let whole = made(format);
        for bytes in [512, bytes] {
            let disk: Arc<dyn Device> = Arc::new(OverlayDevice::new(whole.clone()));
            let undo = Arc::new(UndoDevice::new(unreadable(disk.clone(), bytes), &place, format));
            let (device, _) = as_commands_do(undo.clone());
            let options = CheckOptions { repair: true };
            let report = by_name(format).unwrap().check(&*device, options, &Silent).unwrap();
            assert!(report.repaired > 0 && report.repaired == report.found, "{format}: {report:?}");
            device.flush().unwrap();
            undo.finish(&String::new).unwrap();
            let mut sectors = [[0; 512]; 2];
            whole.read_at(0, &mut sectors[0]).unwrap();
            disk.read_at(0, &mut sectors[1]).unwrap();
            assert!(sectors[0] == sectors[1], "{format}: the first sector is not as it was");
            assert!(is_whole(disk.clone()), "{format}");
            let report = by_name(format).unwrap().check(&*disk, CheckOptions::default(), &Silent).unwrap();
            assert_eq!(report.found, 0, "{format}: {report:?}");
            std::fs::remove_file(&place).unwrap();
        }
    }
}

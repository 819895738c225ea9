//! The largest that fields may say, which chance rarely comes to: what is accepted stays within the bounds, the rest is an error.

use crate::kinds::Place;
use crate::{MOST_MEMORY, MOST_TIME, used};
use platter_device::{Device, FileDevice, FileOptions};
use platter_images::making;
use platter_images::{Container, MakeOptions, disk_group, make};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// Fails if the work takes more memory or time than any image may.
fn bounded<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let before = used();
    let mut outcome = None;
    let memory = allocation_counter::measure(|| outcome = Some(work())).bytes_max;
    let time = used() - before;
    println!("{what}: {} KiB, {time:?}", memory >> 10);
    assert!(memory < MOST_MEMORY, "{what}: {memory} bytes of memory");
    assert!(time < MOST_TIME, "{what}: {time:?}");
    outcome.expect("it was done")
}

/// Opens an image for reading and for writing, reads of it and writes to it; returns the last error.
fn use_all(place: &Place, name: &str) -> String {
    let mut last = String::new();
    for read_only in [true, false] {
        let outcome =
            platter_images::open(&place.path(name), FileOptions { read_only, ..FileOptions::default() })
                .and_then(|image| {
                    let disk = image.device;
                    let end = disk.len() - 4096;
                    let mut outcome = disk.read_at(0, &mut [0; 4096]).and(disk.read_at(end, &mut [0; 4096]));
                    disk.next_data(0);
                    if !disk.read_only() {
                        outcome = outcome.and(disk.write_at(0, &[1; 4096])).and(disk.flush());
                    }
                    outcome
                });
        last = outcome.map_or_else(|error| error.to_string(), |()| last);
    }
    last
}

fn put(file: &File, at: u64, bytes: &[u8]) {
    file.write_all_at(bytes, at).unwrap();
}

/// Opens a file for changes.
fn changed(place: &Place, name: &str) -> File {
    File::options().read(true).write(true).open(place.path(name)).unwrap()
}

/// Gives both headers of a VHDX the log's identifier and place, and their checksums.
fn put_headers(file: &File, id: [u8; 16], length: u32, offset: u64) {
    for place in [64 << 10, 128 << 10] {
        let mut header = vec![0; 4096];
        file.read_exact_at(&mut header, place).unwrap();
        header[48..64].copy_from_slice(&id);
        header[68..72].copy_from_slice(&length.to_le_bytes());
        header[72..80].copy_from_slice(&offset.to_le_bytes());
        header[4..8].fill(0);
        let sum = crc32c::crc32c(&header);
        header[4..8].copy_from_slice(&sum.to_le_bytes());
        put(file, place, &header);
    }
}

#[test]
fn a_log_full_of_changes() {
    let place = Place::new("full-log");
    let length = 16 << 20;
    make(&place.path("disk"), &MakeOptions::new(Container::Vhdx, 64 << 20)).unwrap();
    let file = changed(&place, "disk");
    let (log, id) = (file.metadata().unwrap().len(), [5; 16]);
    file.set_len(log + length + (64 << 20)).unwrap();
    // One entry after the other, each with as many changes as its first sector names.
    const CHANGES: u64 = 126;
    let size = (CHANGES + 1) * 4096;
    for number in 0..length / size {
        let sequence = number + 1;
        let mut entry = vec![0; size as usize];
        entry[..4].copy_from_slice(b"loge");
        entry[8..12].copy_from_slice(&(size as u32).to_le_bytes());
        entry[16..24].copy_from_slice(&sequence.to_le_bytes());
        entry[24..28].copy_from_slice(&(CHANGES as u32).to_le_bytes());
        entry[32..48].copy_from_slice(&id);
        for change in 0..CHANGES {
            let at = log + length + (number * CHANGES + change) * 4096;
            let descriptor = &mut entry[64 + change as usize * 32..][..32];
            descriptor[..4].copy_from_slice(b"desc");
            descriptor[16..24].copy_from_slice(&at.to_le_bytes());
            descriptor[24..32].copy_from_slice(&sequence.to_le_bytes());
            let sector = &mut entry[(change as usize + 1) * 4096..][..4096];
            sector[..4].copy_from_slice(b"data");
            sector[4092..].copy_from_slice(&(sequence as u32).to_le_bytes());
        }
        let sum = crc32c::crc32c(&entry);
        entry[4..8].copy_from_slice(&sum.to_le_bytes());
        put(&file, log + number * size, &entry);
    }
    put_headers(&file, id, length as u32, log);
    assert_eq!(bounded("a full log", || use_all(&place, "disk")), "");
    put_headers(&file, id, 32 << 20, log);
    assert!(use_all(&place, "disk").contains("a log of at most 16777216 bytes"));
}

#[test]
fn a_table_of_the_largest_disk_and_one_whose_blocks_are_all_in_one_place() {
    let place = Place::new("large-table");
    let options = MakeOptions { block: Some(1 << 20), ..MakeOptions::new(Container::Vhdx, 64 << 40) };
    make(&place.path("disk"), &options).unwrap();
    assert_eq!(bounded("an empty table", || use_all(&place, "disk")), "");
    let file = changed(&place, "disk");
    let end = file.metadata().unwrap().len() & !0xF_FFFF;
    // The table begins after 3 MiB.
    let entries = ((end - (1 << 20)) | 6).to_le_bytes().repeat(3 << 20);
    put(&file, 3 << 20, &entries);
    let said = bounded("blocks in one place", || use_all(&place, "disk"));
    assert!(said.contains("has more than 1048576 blocks"), "{said}");
}

#[test]
fn a_qcow2_behind_the_end_of_what_its_counters_reach() {
    let place = Place::new("counters");
    place.tool("qemu-img create -q -f qcow2 -o cluster_size=512,refcount_bits=64 disk 1M");
    // A table of counters of 8 MiB reaches 32 GiB.
    changed(&place, "disk").set_len(40 << 30).unwrap();
    let said = bounded("a long qcow2", || use_all(&place, "disk"));
    assert!(said.contains("has no room for more clusters"), "{said}");
}

#[test]
fn a_qcow2_with_the_largest_table_of_the_first_level() {
    let place = Place::new("first-level");
    place.tool("qemu-img create -q -f qcow2 -o cluster_size=512 disk 1M");
    let file = changed(&place, "disk");
    let end = file.metadata().unwrap().len().next_multiple_of(512);
    file.set_len(end + (100 << 30)).unwrap();
    let entries: u64 = (32 << 20) / 8;
    put(&file, 24, &(entries * 64 * 512).to_be_bytes());
    put(&file, 36, &(entries as u32).to_be_bytes());
    put(&file, 40, &end.to_be_bytes());
    assert_eq!(bounded("an empty table of the first level", || use_all(&place, "disk")), "");
}

#[test]
fn grains_of_the_largest_size() {
    let place = Place::new("grains");
    fs::write(place.path("raw"), vec![7; 1 << 20]).unwrap();
    place.tool("qemu-img convert -f raw -O vmdk -o subformat=streamOptimized raw disk.vmdk");
    let file = changed(&place, "disk.vmdk");
    file.set_len(64 << 20).unwrap();
    for (grain, expected) in
        [(16_u64 << 11, "the compressed grain"), (32 << 11, "compressed grains of at most 16 MiB")]
    {
        put(&file, 20, &grain.to_le_bytes());
        put(&file, 12, &(2 * grain).to_le_bytes());
        // The marker of the first grain says that it has as many bytes as it may, from a file that has them.
        let mut directory = [0; 8];
        file.read_exact_at(&mut directory, 56).unwrap();
        let mut entry = [0; 4];
        file.read_exact_at(&mut entry, u64::from_le_bytes(directory) * 512).unwrap();
        let table = u64::from(u32::from_le_bytes(entry)) * 512;
        file.read_exact_at(&mut entry, table).unwrap();
        let marker = u64::from(u32::from_le_bytes(entry)) * 512;
        put(&file, marker + 8, &((grain * 512) as u32).to_le_bytes());
        let said = bounded("a large grain", || use_all(&place, "disk.vmdk"));
        assert!(said.contains(expected), "{said}");
    }
}

#[test]
fn chunks_of_the_largest_size() {
    let place = Place::new("chunks");
    let mut content = vec![7; 33 << 20];
    (0..content.len()).step_by(97).for_each(|at| content[at] = (at * at / 77) as u8);
    fs::write(place.path("disk.raw"), content).unwrap();
    place.tool("ewfacquire -u -q -t image -f encase6 -c best -b 32768 disk.raw");
    assert_eq!(bounded("large chunks", || use_all(&place, "image.E01")), "");
}

/// A database whose records all have one number, and one whose records all have the most parts.
#[test]
fn records_of_dynamic_disks_that_are_all_alike() {
    let place = Place::new("records");
    let volume = |size| making::Made { size, components: vec![(2, None, vec![(1, 1, 0, 1000, 0)])] };
    let volumes: Vec<_> = (0..40).map(|_| volume(1000)).collect();
    let records = making::records(1, &volumes);
    let data = vec![0; making::DATA as usize * 512];
    let open = |image: &[u8]| {
        fs::write(place.path("disk"), image).unwrap();
        bounded("many records", || {
            let reading = FileOptions { read_only: true, ..FileOptions::default() };
            let disk: Arc<dyn Device> = Arc::new(FileDevice::open(place.path("disk"), reading).unwrap());
            disk_group(vec![disk]).map(|group| group.volumes.len()).map_err(|error| error.to_string())
        })
    };
    assert_eq!(open(&making::disk(1, &data, &records)), Ok(40));
    let twice: Vec<Vec<u8>> = (0..1500).flat_map(|_| records[2..4].to_vec()).collect();
    let said = open(&making::disk(1, &data, &[&records[..2], &twice].concat())).unwrap_err();
    assert!(said.contains("more than one volume has the number 1"), "{said}");
    // Each block is the first of 64 parts of a record.
    let mut image = making::disk(1, &data, &[&records[..], &twice].concat());
    for block in image.chunks_exact_mut(128).filter(|block| block.starts_with(b"VBLK")) {
        block[12..16].copy_from_slice(&[0, 0, 0, 64]);
    }
    let said = open(&image).unwrap_err();
    assert!(said.contains("expected all its parts"), "{said}");
}

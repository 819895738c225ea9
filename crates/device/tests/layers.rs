//! What a device says of itself reaches the top of every layer over it.

use platter_device::{
    BlankFirstSector, Device, Error, Faults, Grain, Immediate, MemoryDevice, OverlayDevice, Partition, Queue,
    Recorder, Result, Sectors, Stoppable, Stripes, UndoDevice,
};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const SIZE: u64 = 1 << 20;

/// A device that answers every question otherwise than the provided methods do.
struct Peculiar {
    kept: MemoryDevice,
    end: u64,
}

impl Device for Peculiar {
    fn name(&self) -> &str {
        "peculiar"
    }
    fn len(&self) -> u64 {
        SIZE
    }
    fn sectors(&self) -> Sectors {
        Sectors::LARGE
    }
    fn end(&self) -> u64 {
        self.end
    }
    fn read_only(&self) -> bool {
        true
    }
    fn why_read_only(&self) -> Option<String> {
        Some("its switch is".into())
    }
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.kept.read_at(offset, buffer)
    }
    fn write_at(&self, _offset: u64, _data: &[u8]) -> Result<()> {
        Err(Error::ReadOnly { device: self.name().into() })
    }
    fn copies(&self) -> usize {
        3
    }
    fn read_copy(&self, copy: usize, _offset: u64, buffer: &mut [u8]) -> Result<()> {
        buffer.fill(copy as u8);
        let none = || Error::Unusable { device: self.name().into(), reason: format!("has no copy {copy}") };
        if copy < self.copies() { Ok(()) } else { Err(none()) }
    }
    fn is_read(&self, copy: usize) -> bool {
        copy == 1
    }
    fn next_data(&self, offset: u64) -> u64 {
        offset.max(SIZE / 2)
    }
    fn start(&self) -> u64 {
        63 * 512
    }
    fn flush(&self) -> Result<()> {
        Ok(())
    }
    fn discard(&self, _offset: u64, _length: u64) -> Result<()> {
        Ok(())
    }
    fn queue(&self, depth: usize) -> Result<Box<dyn Queue + '_>> {
        Ok(Box::new(Immediate::new(self, depth)))
    }
    fn now(&self) -> Duration {
        Duration::from_secs(123)
    }
}

fn peculiar(end: u64) -> Arc<dyn Device> {
    Arc::new(Peculiar { kept: MemoryDevice::new(SIZE, Sectors::LARGE), end })
}

/// What a device answers, the copies' first bytes included.
fn answers(device: &dyn Device) -> [String; 10] {
    let mut sector = [9; 4096];
    let copies: Vec<u8> = (0..device.copies())
        .map(|copy| device.read_copy(copy, 0, &mut sector).map(|()| sector[0]).unwrap_or(u8::MAX))
        .collect();
    let is_read: Vec<bool> = (0..4).map(|copy| device.is_read(copy)).collect();
    [
        device.name().to_owned(),
        device.len().to_string(),
        format!("{:?}", device.sectors()),
        device.end().to_string(),
        device.read_only().to_string(),
        format!("{:?}", device.why_read_only()),
        format!("{copies:?} {is_read:?} {}", device.read_copy(3, 0, &mut sector).is_err()),
        format!("{} {}", device.next_data(0), device.next_data(SIZE - 4096)),
        device.start().to_string(),
        format!("{:?}", device.now()),
    ]
}

fn without(answers: [String; 10], other: &[usize]) -> Vec<String> {
    answers
        .into_iter()
        .enumerate()
        .filter(|(index, _)| !other.contains(index))
        .map(|(_, said)| said)
        .collect()
}

const READ_ONLY: usize = 4;
const WHY: usize = 5;
const NEXT_DATA: usize = 7;
const START: usize = 8;
const NAME: usize = 0;

#[test]
fn layers_answer_what_the_device_below_answers() {
    let below = peculiar(SIZE);
    let said = answers(&*below);
    let same = |device: &dyn Device, other: &[usize]| {
        assert_eq!(without(answers(device), other), without(said.clone(), other));
    };
    same(&Recorder::new(below.clone()), &[]);
    same(&BlankFirstSector::new(below.clone()), &[]);
    same(&Stoppable::new(&*below, &|| false), &[]);
    same(&UndoDevice::new(below.clone(), Path::new("/nowhere"), "peculiar"), &[]);
    same(&Faults::new(below.clone(), 1), &[]);
    same(&Partition::new(below.clone(), 0, SIZE, "peculiar".into()).unwrap(), &[]);
    // What is written to these two stays in memory.
    same(&OverlayDevice::new(below.clone()), &[READ_ONLY, WHY]);
    same(&Faults::recording(below.clone(), 1, Grain::Physical), &[READ_ONLY, WHY, NEXT_DATA]);
    // Stripes lie at several places.
    let stripes = Stripes::new(below.clone(), SIZE / 2, vec![0, SIZE / 2], "stripes".into()).unwrap();
    same(&stripes, &[NAME, NEXT_DATA, START]);
}

#[test]
fn a_window_shows_the_place_of_the_device_below() {
    let window = Partition::new(peculiar(SIZE), SIZE / 4, SIZE / 2, "window".into()).unwrap();
    assert_eq!((window.next_data(0), window.next_data(SIZE / 2 - 4096)), (SIZE / 4, SIZE / 2 - 4096));
    assert_eq!(window.start(), SIZE / 4 + 63 * 512);
    assert_eq!((window.end(), window.why_read_only().as_deref()), (SIZE / 2, Some("its switch is")));
    assert_eq!((window.copies(), window.is_read(0), window.is_read(1)), (3, false, true));
}

#[test]
fn a_device_that_is_cut_off_is_so_under_each_layer() {
    let below = peculiar(SIZE / 2);
    let ends = |device: &dyn Device| assert_eq!(device.end(), SIZE / 2, "{}", device.name());
    ends(&Recorder::new(below.clone()));
    ends(&UndoDevice::new(below.clone(), Path::new("/nowhere"), "peculiar"));
    ends(&Faults::new(below.clone(), 1));
    ends(&OverlayDevice::new(below.clone()));
    ends(&BlankFirstSector::new(below.clone()));
    ends(&Stoppable::new(&*below, &|| false));
}

#[test]
fn no_layer_repairs_a_copy_of_a_device_that_is_read_only() {
    let below = peculiar(SIZE);
    let refused = |device: &dyn Device| {
        let done = device.repair_copy(0, 0, &[1; 4096]);
        assert!(matches!(done, Err(Error::ReadOnly { .. })), "{}: {done:?}", device.name());
    };
    refused(&Recorder::new(below.clone()));
    refused(&BlankFirstSector::new(below.clone()));
    refused(&Stoppable::new(&*below, &|| false));
    refused(&Faults::new(below.clone(), 1));
    refused(&Partition::new(below.clone(), 0, SIZE, "window".into()).unwrap());
}

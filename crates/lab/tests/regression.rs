//! A deliberate regression fails the table of virtual figures: one more write of metadata before each flush of a volume, by a
//! device between the file system and what counts its transfers.

use crate::virtual_time::{Cell, kept, measured};
use platter_device::{Completion, Device, Kind, Queue, Request, Result, Sectors, Work};
use platter_formats::by_name;
use platter_lab::Target;
use platter_vfs::{
    CheckOptions, CheckReport, FileSystem, Format, FormatOptions, OpenOptions, Progress, Recognised,
};
use std::sync::Arc;

/// A device that writes its first page once more before each flush.
struct OneMore {
    below: Arc<dyn Device>,
    page: Vec<u8>,
}

impl OneMore {
    fn write_again(&self) -> Result<()> {
        self.below.write_at(0, &self.page)
    }
}

impl Device for OneMore {
    fn name(&self) -> &str {
        self.below.name()
    }

    fn len(&self) -> u64 {
        self.below.len()
    }

    fn sectors(&self) -> Sectors {
        self.below.sectors()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.below.read_at(offset, buffer)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<()> {
        self.below.write_at(offset, data)
    }

    fn read_batch(&self, reads: &mut [(u64, &mut [u8])]) -> Result<()> {
        self.below.read_batch(reads)
    }

    fn write_batch(&self, writes: &[(u64, &[u8])]) -> Result<()> {
        self.below.write_batch(writes)
    }

    fn flush(&self) -> Result<()> {
        self.write_again()?;
        self.below.flush()
    }

    fn discard(&self, offset: u64, length: u64) -> Result<()> {
        self.below.discard(offset, length)
    }

    fn queue(&self, depth: usize) -> Result<Box<dyn Queue + '_>> {
        Ok(Box::new(OneMoreQueue { device: self, below: self.below.queue(depth)? }))
    }
}

struct OneMoreQueue<'d> {
    device: &'d OneMore,
    below: Box<dyn Queue + 'd>,
}

impl Queue for OneMoreQueue<'_> {
    fn submit(&mut self, request: Request) {
        if request.kind == Kind::Flush {
            self.device.write_again().unwrap();
        }
        self.below.submit(request);
    }

    fn kick(&mut self) -> Result<()> {
        self.below.kick()
    }

    fn wait_beside(&mut self, least: usize, done: &mut Vec<Completion>, work: &mut Work<'_>) -> Result<()> {
        self.below.wait_beside(least, done, work)
    }

    fn in_flight(&self) -> usize {
        self.below.in_flight()
    }
}

/// A format whose volumes are on such a device.
struct Slower(&'static dyn Format);

impl Format for Slower {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn recognise(&self, device: &dyn Device) -> platter_vfs::Result<Option<Recognised>> {
        self.0.recognise(device)
    }

    fn make(
        &self,
        device: &dyn Device,
        options: &FormatOptions,
        progress: &dyn Progress,
    ) -> platter_vfs::Result<()> {
        self.0.make(device, options, progress)
    }

    fn open(
        &self,
        device: Arc<dyn Device>,
        options: OpenOptions,
    ) -> platter_vfs::Result<Arc<dyn FileSystem>> {
        let mut page = vec![0; 4096];
        device.read_at(0, &mut page)?;
        self.0.open(Arc::new(OneMore { below: device, page }), options)
    }

    fn check(
        &self,
        device: &dyn Device,
        options: CheckOptions,
        progress: &dyn Progress,
    ) -> platter_vfs::Result<CheckReport> {
        self.0.check(device, options, progress)
    }
}

#[test]
fn one_more_write_for_each_commit_fails_the_table() {
    let name = "refs+integrity";
    let slower: &'static dyn Format = Box::leak(Box::new(Slower(by_name(name).unwrap())));
    let cell = |format| {
        let target = Target::Volume { format, cluster: None };
        measured(("sata-ssd", 200), "durable", vec![target]).remove(0)
    };
    let (as_it_is, with_more): (Cell, Cell) = (cell(by_name(name).unwrap()), cell(slower));
    let before = kept().into_iter().find(|cell| cell.name == as_it_is.name).unwrap();
    assert_eq!(as_it_is.worse_than(&before), None);
    let why = with_more.worse_than(&before).unwrap();
    assert!(why.contains("sata-ssd durable refs+integrity"), "{why}");
    // Both halves of the comparison see it: the rate, and what is written for each I/O.
    assert!(with_more.iops < 0.98 * before.iops, "{with_more:?}");
    let more = with_more.writes - before.writes;
    assert!((0.3..0.7).contains(&more), "a commit for every second I/O: {with_more:?}");
}

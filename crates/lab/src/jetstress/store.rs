//! The file of a database or of its log: durable writes, with all transfers counted and timed.

use crate::{Error, Latencies, Result, Subject};
use platter_device::sync::{self, Mutex};
use std::time::Instant;

/// The purpose of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whose {
    /// Operations on the database.
    Work,
    /// Maintenance, which reads all pages in the background.
    Maintenance,
}

/// The transfers of one kind: number, bytes and latencies.
#[derive(Clone, Default)]
pub(super) struct Tally {
    pub count: u64,
    pub bytes: u64,
    pub latencies: Latencies,
}

impl Tally {
    fn add(&mut self, bytes: usize, since: Instant) {
        self.count += 1;
        self.bytes += bytes as u64;
        self.latencies.record(sync::now().duration_since(since));
    }

    pub(super) fn merge(&mut self, other: &Tally) {
        self.count += other.count;
        self.bytes += other.bytes;
        self.latencies.add(&other.latencies);
    }
}

/// The transfers of a file, by kind.
#[derive(Clone, Default)]
pub(super) struct Tallies {
    pub reads: Tally,
    pub writes: Tally,
    pub maintenance: Tally,
}

impl Tallies {
    pub(super) fn merge(&mut self, other: &Tallies) {
        self.reads.merge(&other.reads);
        self.writes.merge(&other.writes);
        self.maintenance.merge(&other.maintenance);
    }
}

/// The file of a database or of its log.
pub(super) struct Store {
    subject: Subject,
    tallies: Mutex<Tallies>,
}

impl Store {
    pub(super) fn new(subject: Subject) -> Store {
        Store { subject, tallies: Mutex::default() }
    }

    pub(super) fn read(&self, offset: u64, bytes: &mut [u8], whose: Whose) -> Result<()> {
        let start = sync::now();
        match &self.subject {
            Subject::Device { device, .. } => device.read_at(offset, bytes)?,
            Subject::File { system, node } => {
                if system.read(*node, offset, bytes)? != bytes.len() {
                    return Err(Error::Job(format!("a file of the database ends inside a read at {offset}")));
                }
            }
        }
        let mut tallies = self.tallies.lock();
        match whose {
            Whose::Work => tallies.reads.add(bytes.len(), start),
            Whose::Maintenance => tallies.maintenance.add(bytes.len(), start),
        }
        Ok(())
    }

    /// Writes without waiting until the bytes are durable.
    pub(super) fn write_loosely(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        match &self.subject {
            Subject::Device { device, .. } => Ok(device.write_at(offset, bytes)?),
            Subject::File { system, node } => Ok(system.write(*node, offset, bytes)?),
        }
    }

    pub(super) fn sync(&self) -> Result<()> {
        self.subject.sync()
    }

    /// Writes, and returns when the bytes are durable: ESE opens its files with write-through.
    pub(super) fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let start = sync::now();
        self.write_loosely(offset, bytes)?;
        self.sync()?;
        self.tallies.lock().writes.add(bytes.len(), start);
        Ok(())
    }

    /// Returns the transfers since the last call.
    pub(super) fn take(&self) -> Tallies {
        std::mem::take(&mut self.tallies.lock())
    }
}

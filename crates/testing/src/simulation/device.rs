//! The device of a simulation: other callers may go on before and after each of its transfers, and the requests of a
//! queue complete at moments and in an order that the seed decides.

use crate::model::Random;
use platter_device::sync::point;
use platter_device::{
    Completion, Device, Faults, Operation, Queue, Request, Result, Sectors, Work, check_transfer,
};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The device of a simulation. Its writes are recorded, so that a power cut at any of them can be examined afterwards.
pub struct SimulatedDevice {
    kept: Arc<Faults>,
    random: Mutex<Random>,
}

impl SimulatedDevice {
    /// A simulated device over a recording one.
    pub fn new(kept: Arc<Faults>, seed: u64) -> SimulatedDevice {
        SimulatedDevice { kept, random: Mutex::new(Random::new(seed)) }
    }

    fn below(&self, bound: u64) -> u64 {
        self.random.lock().expect("nothing panics with it").below(bound)
    }
}

impl Device for SimulatedDevice {
    fn name(&self) -> &str {
        "simulated"
    }

    fn len(&self) -> u64 {
        self.kept.len()
    }

    fn sectors(&self) -> Sectors {
        self.kept.sectors()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        point();
        self.kept.read_at(offset, buffer)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<()> {
        point();
        let written = self.kept.write_at(offset, data);
        point();
        written
    }

    fn write_batch(&self, writes: &[(u64, &[u8])]) -> Result<()> {
        let mut left: Vec<_> = writes.to_vec();
        while !left.is_empty() {
            let (offset, data) = left.swap_remove(self.below(left.len() as u64) as usize);
            self.write_at(offset, data)?;
        }
        Ok(())
    }

    fn flush(&self) -> Result<()> {
        point();
        let flushed = self.kept.flush();
        point();
        flushed
    }

    fn discard(&self, offset: u64, length: u64) -> Result<()> {
        check_transfer(self, Operation::Discard, offset, length)?;
        self.kept.discard(offset, length)
    }

    fn queue(&self, depth: usize) -> Result<Box<dyn Queue + '_>> {
        Ok(Box::new(SimulatedQueue {
            device: self,
            below: self.kept.queue(depth)?,
            depth,
            pending: Vec::new(),
        }))
    }

    fn now(&self) -> Duration {
        Duration::from_secs(1_700_000_000)
    }
}

/// Requests that were submitted and have not reached the device.
struct SimulatedQueue<'d> {
    device: &'d SimulatedDevice,
    below: Box<dyn Queue + 'd>,
    depth: usize,
    pending: Vec<Request>,
}

impl Queue for SimulatedQueue<'_> {
    fn submit(&mut self, request: Request) {
        assert!(self.pending.len() < self.depth, "more requests in flight than the queue's depth");
        self.pending.push(request);
    }

    fn kick(&mut self) -> Result<()> {
        Ok(())
    }

    fn wait_beside(&mut self, least: usize, done: &mut Vec<Completion>, _work: &mut Work<'_>) -> Result<()> {
        let least = least.min(self.pending.len());
        let mut completed = 0;
        while !self.pending.is_empty() && (completed < least || self.device.below(3) == 0) {
            // Some requests stay in flight for long.
            let late = if self.device.below(4) == 0 { self.device.below(8) } else { 0 };
            (0..=late).for_each(|_| point());
            let next = self.pending.swap_remove(self.device.below(self.pending.len() as u64) as usize);
            self.below.submit(next);
            self.below.wait(1, done)?;
            point();
            completed += 1;
        }
        Ok(())
    }

    fn in_flight(&self) -> usize {
        self.pending.len()
    }
}

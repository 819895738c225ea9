//! An array of flash behind controllers, as what it is to a host: a curve of service. So many operations are carried out at the
//! same time, each keeps a server for the time of its kind, and beside that takes a time that no other waits for. Writes are
//! complete in the controllers' protected memory.
//!
//! What is not modelled: deduplication, compression, what other hosts do, a failed controller, and what is behind the
//! controllers.

use super::drive::{Action, Answers, Command, Drive};
use super::parameters::Parameters;

/// An array.
pub(super) struct Array {
    /// When each server is free, in nanoseconds.
    servers: Vec<f64>,
    read: f64,
    write: f64,
    /// The bytes that a server's time for a request covers; each further one takes as many servers' times.
    block: u64,
    read_beside: f64,
    write_beside: f64,
    flush: f64,
    reads: u64,
    writes: u64,
    /// Nanoseconds that operations have waited for a server.
    waited: f64,
}

impl Array {
    pub(super) fn new(parameters: &Parameters) -> Result<Array, String> {
        let servers = parameters.count("servers", None, 1.0, 65_536.0)?;
        Ok(Array {
            servers: vec![0.0; servers as usize],
            read: parameters.time("read_us", 1e3, None)?,
            write: parameters.time("write_us", 1e3, None)?,
            block: parameters.count("block_bytes", Some(8192.0), 512.0, 1e9)?,
            read_beside: parameters.time("read_latency_us", 1e3, Some(0.0))?,
            write_beside: parameters.time("write_latency_us", 1e3, Some(0.0))?,
            flush: parameters.time("flush_us", 1e3, Some(0.0))?,
            reads: 0,
            writes: 0,
            waited: 0.0,
        })
    }

    /// Carries out one operation on each block of a range; returns when the last one is done.
    fn serve(&mut self, now: f64, offset: u64, length: u64, time: f64) -> f64 {
        let blocks = (offset + length).div_ceil(self.block).saturating_sub(offset / self.block).max(1);
        let mut end = now;
        for _ in 0..blocks {
            let first = self.servers.iter_mut().min_by(|one, two| one.total_cmp(two));
            let server = first.expect("an array has a server");
            let start = server.max(now);
            self.waited += start - now;
            *server = start + time;
            end = end.max(*server);
        }
        end
    }
}

impl Drive for Array {
    fn accept(&mut self, now: u64, command: Command, answers: &mut Answers) {
        let Command { tag, action, offset, length } = command;
        let now = now as f64;
        let end = match action {
            Action::Read => {
                self.reads += 1;
                self.serve(now, offset, length, self.read) + self.read_beside
            }
            Action::Write | Action::DurableWrite => {
                self.writes += 1;
                self.serve(now, offset, length, self.write) + self.write_beside
            }
            Action::Flush => now + self.flush,
        };
        answers.done.push((end as u64, tag));
    }

    fn go_on(&mut self, _now: u64, _answers: &mut Answers) {}

    fn work(&self) -> Vec<(&'static str, f64)> {
        vec![
            ("reads", self.reads as f64),
            ("writes", self.writes as f64),
            ("waits for a server, s", self.waited / 1e9),
        ]
    }
}

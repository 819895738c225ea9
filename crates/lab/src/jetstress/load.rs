//! The load on the databases: a mix of insertions, deletions, replacements and seeks by several threads, and the
//! transfers that the storage carried out for it.

use super::database::{Database, key_of};
use super::store::Tallies;
use crate::{CpuTime, Error, Latencies, Result};
use fastrand::Rng;
use platter_device::sync::{self, Mutex};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Shares of the operations in percent; the others are seeks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mix {
    pub insert: u8,
    pub delete: u8,
    pub replace: u8,
    /// The share of commits that do not wait for the log.
    pub lazy: u8,
}

/// The mix of Jetstress 2010 and 2013, as their reports list it (from memory, not verified).
pub(super) const MIX: Mix = Mix { insert: 40, delete: 20, replace: 5, lazy: 70 };

/// The operations of a run, and the transfers that they caused.
#[derive(Default)]
pub(super) struct Done {
    pub seconds: f64,
    pub operations: Latencies,
    pub inserts: u64,
    pub deletes: u64,
    pub replaces: u64,
    pub seeks: u64,
    pub lazy: u64,
    /// The transfers of the databases' files.
    pub database: Tallies,
    /// The transfers of the log files.
    pub log: Tallies,
    pub cpu: CpuTime,
}

impl Done {
    /// Reads and writes of the databases per second, without those of the logs and of maintenance: Jetstress calls this
    /// transactional I/O.
    pub(super) fn iops(&self) -> f64 {
        (self.database.reads.count + self.database.writes.count) as f64 / self.seconds
    }

    fn add(&mut self, other: &Done) {
        self.operations.add(&other.operations);
        self.inserts += other.inserts;
        self.deletes += other.deletes;
        self.replaces += other.replaces;
        self.seeks += other.seeks;
        self.lazy += other.lazy;
    }
}

/// Writes the checkpoints of a database until the run is over.
fn write_checkpoints(database: &Database, is_over: &AtomicBool) -> Result<()> {
    while !is_over.load(Ordering::Relaxed) {
        database.checkpoint()?;
        sync::sleep(Duration::from_millis(2));
    }
    Ok(())
}

/// Verifies the pages of a database in order, over and over, until the run is over.
fn maintain(database: &Database, is_over: &AtomicBool) -> Result<()> {
    let mut next = 1;
    while !is_over.load(Ordering::Relaxed) {
        next = database.maintain(next)?;
    }
    Ok(())
}

/// Runs the mix with `threads` threads for `time`, after a ramp-up that does not count.
pub(super) fn run(
    databases: &[Database],
    records: u64,
    mix: Mix,
    threads: u32,
    [ramp, time]: [Duration; 2],
    seed: u64,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<Done> {
    let (is_over, is_counted) = (AtomicBool::new(false), AtomicBool::new(false));
    let failure: Mutex<Option<Error>> = Mutex::new(None);
    let fail = |error| {
        is_over.store(true, Ordering::Relaxed);
        failure.lock().get_or_insert(error);
    };
    // Versions grow, so that the version of each record shows when it was written.
    let versions = AtomicU64::new(2);
    let ended: Mutex<Vec<Done>> = Mutex::default();
    let mut done = Done::default();
    // A thread that the system refuses ends the run, and with it the threads that were started before.
    let refused = |source| fail(Error::Io { what: "the system has no thread for the load".into(), source });
    sync::scope(|scope| {
        for database in databases {
            let (is_over, fail) = (&is_over, &fail);
            let checkpoints = move || write_checkpoints(database, is_over).unwrap_or_else(fail);
            let checkpoints = scope.spawn("checkpoints", checkpoints);
            let maintenance = move || maintain(database, is_over).unwrap_or_else(fail);
            let maintenance = scope.spawn("maintenance", maintenance);
            [checkpoints, maintenance].into_iter().filter_map(std::io::Result::err).for_each(refused);
        }
        for thread in 0..threads {
            let worker = Worker {
                databases,
                records,
                mix,
                versions: &versions,
                rng: Rng::with_seed(seed.wrapping_add(u64::from(thread) << 32)),
            };
            let (is_over, is_counted, fail, ended) = (&is_over, &is_counted, &fail, &ended);
            let work = move || match worker.work(is_over, is_counted) {
                Ok(done) => ended.lock().push(done),
                Err(error) => fail(error),
            };
            if let Err(source) = scope.spawn("load", work) {
                refused(source);
                break;
            }
        }
        let wait = |time: Duration| {
            let start = sync::now();
            let passed = || sync::now().duration_since(start);
            while passed() < time && !is_over.load(Ordering::Relaxed) && !stop() {
                sync::sleep(Duration::from_millis(5).min(time.saturating_sub(passed())));
            }
            passed()
        };
        wait(ramp);
        databases.iter().for_each(|database| drop((database.store.take(), database.log.store.take())));
        let cpu = CpuTime::now();
        is_counted.store(true, Ordering::Relaxed);
        done.seconds = wait(time).as_secs_f64().max(1e-9);
        done.cpu = CpuTime::now().since(cpu);
        for database in databases {
            done.database.merge(&database.store.take());
            done.log.merge(&database.log.store.take());
        }
        is_over.store(true, Ordering::Relaxed);
    });
    ended.lock().iter().for_each(|of_worker| done.add(of_worker));
    let failed = failure.lock().take();
    match failed {
        Some(error) => Err(error),
        None => Ok(done),
    }
}

struct Worker<'a> {
    databases: &'a [Database],
    records: u64,
    mix: Mix,
    versions: &'a AtomicU64,
    rng: Rng,
}

impl Worker<'_> {
    fn work(mut self, is_over: &AtomicBool, is_counted: &AtomicBool) -> Result<Done> {
        let mut done = Done::default();
        while !is_over.load(Ordering::Relaxed) {
            if done.operations.count() > 0 && !is_counted.load(Ordering::Relaxed) {
                done = Done::default();
            }
            let start = sync::now();
            self.one(&mut done)?;
            done.operations.record(sync::now().duration_since(start));
        }
        Ok(done)
    }

    fn one(&mut self, done: &mut Done) -> Result<()> {
        let database = &self.databases[self.rng.usize(..self.databases.len())];
        let drawn = self.rng.u8(..100);
        let known = key_of(self.rng.u64(..self.records), self.records);
        let Mix { insert, delete, replace, lazy } = self.mix;
        let version = || self.versions.fetch_add(1, Ordering::Relaxed);
        // A database without room gets deletions instead of insertions.
        let position = if drawn < insert && database.has_room() {
            done.inserts += 1;
            database.put(self.rng.u64(..), version())?
        } else if drawn < insert + delete {
            // Deletes the next existing key, which a seek finds first.
            let found = database.seek(known, true)?;
            done.deletes += 1;
            database.delete(found.map_or(known, |(key, _)| key))?
        } else if drawn < insert + delete + replace {
            let found = database.seek(known, true)?;
            done.replaces += 1;
            database.put(found.map_or(known, |(key, _)| key), version())?
        } else {
            done.seeks += 1;
            database.seek(known, true)?;
            return Ok(());
        };
        match self.rng.u8(..100) < lazy {
            true => done.lazy += 1,
            false => database.log.flush(position)?,
        }
        Ok(())
    }
}

//! Work that a volume does by itself in the background, and in whose time it does it.
//!
//! A volume under load has no idle time, and a volume that is not being measured must not do work in the time of
//! another target. So while other targets are measured a planned read is kept open on the volume, as if it were in use,
//! and its background work waits. Work that a slice caused all the same, such as a commit, is waited for and counts as
//! time of that slice. Between cases the volumes have a pause, in which for example a volume that writes overwritten
//! data to new places may put scattered files together again.

use crate::{Result, Subject};
use platter_device::{Buffer, Recorder, sync};
use platter_vfs::{FileSystem, Node, Plan};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// When nothing has reached the device for this long, the work that a slice caused is taken to be done.
const STILL: Duration = Duration::from_millis(2);
/// When nothing has reached the device for this long, the volume is taken to have no background work left.
const AT_REST: Duration = Duration::from_millis(300);
/// The longest wait for the work that a slice caused.
const PATIENCE: Duration = Duration::from_secs(5);
/// The longest pause after a case; and all pauses together take at most one part in `SHARE_OF_RESTS` of the measured
/// time: a user who waits for a file to be read does not wait for more than that.
const LONGEST_REST: Duration = Duration::from_secs(20);
const SHARE_OF_RESTS: u32 = 2;
/// All pauses together may take at least this long, however short the cases are.
const LEAST_RESTS: Duration = Duration::from_secs(30);
/// How often the traffic is looked at.
const LOOK: Duration = Duration::from_micros(500);

/// A read that is planned but not carried out, which keeps a volume busy.
pub(super) struct Busy {
    system: Arc<dyn FileSystem>,
    plan: Plan,
    buffer: Buffer,
}

impl Busy {
    /// Plans a read of a volume's file; `None` if the subject is not a file in a volume.
    pub(super) fn begin(subject: &Subject) -> Result<Option<Busy>> {
        let Subject::File { system, node } = subject else { return Ok(None) };
        let node: Node = *node;
        let system = system.clone();
        let buffer = Buffer::new(system.device().sectors().logical as usize);
        let mut plan = Plan::default();
        system.plan_read(node, 0, buffer.len(), &mut plan)?;
        Ok(Some(Busy { system, plan, buffer }))
    }

    /// Carries out the read and finishes its plan.
    pub(super) fn end(mut self) -> Result<()> {
        let device = self.system.device().clone();
        // A file system that checks more than was asked for (whole checksummed clusters) plans a read of a longer
        // buffer.
        let needed = self.plan.segments.iter().map(|segment| (segment.at + segment.length) as usize).max();
        if needed.is_some_and(|needed| needed > self.buffer.len()) {
            self.buffer = Buffer::new(needed.unwrap_or_default());
        }
        let done = self.plan.read_from(&*device, &mut self.buffer);
        self.system.finish_read(&mut self.plan, &mut self.buffer, done)?;
        Ok(())
    }
}

/// Waits until the work that a slice caused is done; returns how long after the slice its last transfer reached the
/// device.
pub(super) fn settle(recorder: Option<&Recorder>) -> Duration {
    let began = sync::now();
    let last = Stillness::of(&[recorder]).wait(STILL, PATIENCE).into_iter().flatten().next();
    last.map_or(Duration::ZERO, |last| last.saturating_duration_since(began))
}

/// The pauses between the cases of a comparison.
#[derive(Default)]
pub(super) struct Rests {
    /// The time that the pauses have taken so far.
    taken: Duration,
    /// Pauses that ended while a volume was still working: the volume, and the case before the pause.
    cut: Vec<(String, String)>,
}

impl Rests {
    /// Gives volumes time for their background work after a case; `measured` is the time that the whole comparison
    /// measures.
    pub(super) fn rest(&mut self, volumes: &[(&str, Option<&Recorder>)], case: &str, measured: Duration) {
        let recorders: Vec<Option<&Recorder>> = volumes.iter().map(|(_, recorder)| *recorder).collect();
        let most = (measured / SHARE_OF_RESTS).max(LEAST_RESTS).saturating_sub(self.taken);
        let began = sync::now();
        let last = Stillness::of(&recorders).wait(AT_REST, LONGEST_REST.min(most).max(AT_REST));
        self.taken += sync::now() - began;
        for ((name, _), last) in volumes.iter().zip(last) {
            if last.is_some_and(|last| sync::now() - last < AT_REST) {
                self.cut.push((name.to_string(), case.to_owned()));
            }
        }
    }

    /// Returns a sentence about pauses that were too short, for the report.
    pub(super) fn sentence(&self) -> Option<String> {
        let (name, case) = self.cut.first()?;
        let more = match self.cut.len() - 1 {
            0 => String::new(),
            more => format!(", and so {more} more {}", crate::statistics::plural(more as u64, "time")),
        };
        Some(format!(
            "{name} was still at work by itself when its rest after {case} had to end{more}: cases after it show a volume \
             that has no time to put its files together; all rests took {:.0} s",
            self.taken.as_secs_f64()
        ))
    }
}

/// The number of transfers that each device had at the last look, and when that number was last seen to change.
struct Stillness<'a> {
    recorders: &'a [Option<&'a Recorder>],
    seen: Vec<u64>,
    last: Vec<Option<Instant>>,
}

impl<'a> Stillness<'a> {
    fn of(recorders: &'a [Option<&'a Recorder>]) -> Stillness<'a> {
        let seen = recorders.iter().map(|recorder| count(*recorder)).collect();
        Stillness { recorders, seen, last: vec![None; recorders.len()] }
    }

    /// Waits until nothing has reached any device for `still`, at most for `most`; returns when each was last seen at
    /// work.
    fn wait(mut self, still: Duration, most: Duration) -> Vec<Option<Instant>> {
        let began = sync::now();
        let mut since = began;
        while sync::now() - since < still && sync::now() - began < most {
            sync::sleep(LOOK);
            for ((recorder, seen), last) in self.recorders.iter().zip(&mut self.seen).zip(&mut self.last) {
                let now = count(*recorder);
                if now != *seen {
                    since = sync::now();
                    (*seen, *last) = (now, Some(since));
                }
            }
        }
        self.last
    }
}

fn count(recorder: Option<&Recorder>) -> u64 {
    recorder.map_or(0, |recorder| {
        let traffic = recorder.traffic();
        traffic.read.count + traffic.write.count + traffic.flushes
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use platter_device::{Device, MemoryDevice, Sectors};
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn a_rest_ends_with_the_work_or_names_who_was_still_at_it() {
        let memory = || Recorder::new(Arc::new(MemoryDevice::new(4096, Sectors::SMALL)));
        let (idle, busy, is_over) = (memory(), memory(), AtomicBool::new(false));
        let volumes = [("idle", Some(&idle)), ("busy", Some(&busy)), ("directory", None)];
        let mut rests = Rests::default();
        rests.rest(&volumes, "A write", Duration::ZERO);
        assert!(rests.sentence().is_none() && rests.taken < LEAST_RESTS / 10);
        rests.taken = LEAST_RESTS - AT_REST * 2;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    busy.write_at(0, &[1; 512]).unwrap();
                    std::thread::sleep(AT_REST / 10);
                }
            });
            rests.rest(&volumes, "B write", Duration::ZERO);
            is_over.store(true, Ordering::Relaxed);
        });
        let sentence = rests.sentence().unwrap();
        assert!(sentence.starts_with("busy was still at work") && sentence.contains("B write"), "{sentence}");
        assert_eq!(rests.cut.len(), 1);
        // The time for pauses is used up; the next is short, but long enough to see which volume is still working.
        let before = rests.taken;
        rests.rest(&volumes, "C write", Duration::ZERO);
        assert!(rests.taken - before < AT_REST * 3, "{:?}", rests.taken - before);
    }
}

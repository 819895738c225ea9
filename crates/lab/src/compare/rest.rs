//! What a volume does by itself: when it may, and whom it costs.
//!
//! A volume under load has no idle time, and one whose turn is over must not use that of others. So a read of it is under
//! way while others have their turn, as if its users went on; what it does when nobody uses it then waits. What a slice
//! set off all the same, such as a commit, is waited for and counts as time of the slice. Between cases the volumes have
//! their rest, in which a volume that scatters what is overwritten may put it together again.

use crate::{Result, Subject};
use platter_device::{Buffer, Recorder};
use platter_vfs::{FileSystem, Node, Plan};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Nothing has reached the device for this long: what a slice set off is done.
const STILL: Duration = Duration::from_millis(2);
/// Nothing has reached the device for this long: a volume has nothing more to do when nobody uses it.
const AT_REST: Duration = Duration::from_millis(300);
/// Longer than this nobody waits for what a slice set off.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a rest is at most, and all of them together as a share of the time that is measured: a user who waits for a
/// file to be read does not wait for more than that.
const LONGEST_REST: Duration = Duration::from_secs(20);
const SHARE_OF_RESTS: u32 = 2;
/// All rests together may take so long, however short the cases are.
const LEAST_RESTS: Duration = Duration::from_secs(30);
/// How often that is looked at.
const LOOK: Duration = Duration::from_micros(500);

/// A read that is under way.
pub(super) struct Busy {
    system: Arc<dyn FileSystem>,
    plan: Plan,
    buffer: Buffer,
}

impl Busy {
    /// Begins one on a volume's file; `None` where there is no volume.
    pub fn begin(subject: &Subject) -> Result<Option<Busy>> {
        let Subject::File { system, node } = subject else { return Ok(None) };
        let node: Node = *node;
        let system = system.clone();
        let buffer = Buffer::new(system.device().sectors().logical as usize);
        let mut plan = Plan::default();
        system.plan_read(node, 0, buffer.len(), &mut plan)?;
        Ok(Some(Busy { system, plan, buffer }))
    }

    /// Ends it.
    pub fn end(mut self) -> Result<()> {
        let device = self.system.device().clone();
        // Where the file system checks more than was asked for, its plan needs a longer buffer.
        let needed = self.plan.segments.iter().map(|segment| (segment.at + segment.length) as usize).max();
        if needed.is_some_and(|needed| needed > self.buffer.len()) {
            self.buffer = Buffer::new(needed.unwrap_or_default());
        }
        let done = self.plan.read_from(&*device, &mut self.buffer);
        self.system.finish_read(&mut self.plan, &mut self.buffer, done)?;
        Ok(())
    }
}

/// Waits until what a slice set off is done; returns how long after the slice the last of it reached the device.
pub(super) fn settle(recorder: Option<&Recorder>) -> Duration {
    let began = Instant::now();
    let last = Stillness::of(&[recorder]).wait(STILL, PATIENCE).into_iter().flatten().next();
    last.map_or(Duration::ZERO, |last| last.saturating_duration_since(began))
}

/// The rests of a comparison.
#[derive(Default)]
pub(super) struct Rests {
    /// What they took.
    taken: Duration,
    /// What was still at work when a rest had to end: which, and after which case.
    cut: Vec<(String, String)>,
}

impl Rests {
    /// Lets volumes do what they do when nobody uses them, for a comparison that measures for so long.
    pub fn rest(&mut self, volumes: &[(&str, Option<&Recorder>)], case: &str, measured: Duration) {
        let recorders: Vec<Option<&Recorder>> = volumes.iter().map(|(_, recorder)| *recorder).collect();
        let most = (measured / SHARE_OF_RESTS).max(LEAST_RESTS).saturating_sub(self.taken);
        let began = Instant::now();
        let last = Stillness::of(&recorders).wait(AT_REST, LONGEST_REST.min(most).max(AT_REST));
        self.taken += began.elapsed();
        for ((name, _), last) in volumes.iter().zip(last) {
            if last.is_some_and(|last| last.elapsed() < AT_REST) {
                self.cut.push((name.to_string(), case.to_owned()));
            }
        }
    }

    /// What to know about them.
    pub fn sentence(&self) -> Option<String> {
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

/// What has reached each device so far, and when that was last seen to change.
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

    /// Waits until nothing has reached any device for `still`, at most for `most`; returns when each was last seen at work.
    fn wait(mut self, still: Duration, most: Duration) -> Vec<Option<Instant>> {
        let began = Instant::now();
        let mut since = began;
        while since.elapsed() < still && began.elapsed() < most {
            std::thread::sleep(LOOK);
            for ((recorder, seen), last) in self.recorders.iter().zip(&mut self.seen).zip(&mut self.last) {
                let now = count(*recorder);
                if now != *seen {
                    since = Instant::now();
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
        // All the time that rests may take is used up; the next is short, but long enough to see who works.
        let before = rests.taken;
        rests.rest(&volumes, "C write", Duration::ZERO);
        assert!(rests.taken - before < AT_REST * 3, "{:?}", rests.taken - before);
    }
}

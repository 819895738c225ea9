//! What a volume does by itself: when it may, and whom it costs.
//!
//! A volume under load has no idle time, and one whose turn is over must not use that of others. So a read of it is under
//! way while others have their turn, as if its users went on; what it does when nobody uses it then waits. What a slice
//! set off all the same, such as a commit, is waited for and counts as time of the slice. Between cases the volumes have
//! their rest.

use crate::{Result, Subject};
use platter_device::{Buffer, Recorder};
use platter_vfs::{FileSystem, Node, Plan};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Nothing has reached the device for this long: what a slice set off is done.
const STILL: Duration = Duration::from_millis(2);
/// Nothing has reached the device for this long: a volume has nothing more to do when nobody uses it.
const AT_REST: Duration = Duration::from_millis(300);
/// Longer than this nobody waits for either.
const PATIENCE: Duration = Duration::from_secs(5);
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
        let done = self.plan.segments.iter().try_for_each(|segment| {
            let at = segment.at as usize;
            device.read_at(segment.offset, &mut self.buffer[at..at + segment.length as usize])
        });
        self.system.finish_read(&mut self.plan, &mut self.buffer, done)?;
        Ok(())
    }
}

/// Waits until what a slice set off is done; returns how long after the slice the last of it reached the device.
pub(super) fn settle(recorder: Option<&Recorder>) -> Duration {
    let began = Instant::now();
    quiet(&[recorder], STILL).map_or(Duration::ZERO, |last| last.saturating_duration_since(began))
}

/// Lets volumes do what they do when nobody uses them.
pub(super) fn rest(recorders: &[Option<&Recorder>]) {
    quiet(recorders, AT_REST);
}

/// Waits until nothing has reached the devices for `still`; returns when something last did, if it was seen to.
fn quiet(recorders: &[Option<&Recorder>], still: Duration) -> Option<Instant> {
    let seen = || -> u64 {
        let recorders = recorders.iter().flatten();
        recorders
            .map(|recorder| recorder.traffic())
            .map(|traffic| traffic.read.count + traffic.write.count + traffic.flushes)
            .sum()
    };
    let began = Instant::now();
    let (mut count, mut since, mut last) = (seen(), began, None);
    while since.elapsed() < still && began.elapsed() < PATIENCE {
        std::thread::sleep(LOOK);
        let now = seen();
        if now != count {
            (count, since) = (now, Instant::now());
            last = Some(since);
        }
    }
    last
}

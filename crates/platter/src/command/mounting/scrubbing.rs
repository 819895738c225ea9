//! Scrubbing a mounted volume: the process that serves the mount does it, and is asked how far it is.

use crate::command::failure::{CHECK_FAILED, Failure, INTERRUPTED, shown};
use crate::command::interrupt;
use crate::command::mounting::attributes;
use platter_mount::{ScrubState, ScrubStep, attribute};
use platter_vfs::Progress;
use rustix::fs::XattrFlags;
use rustix::io::Errno;
use std::path::Path;
use std::thread;
use std::time::Duration;

const ASK_EVERY: Duration = Duration::from_millis(100);

/// Scrubs the volume that is mounted at `at`, or follows a scrub that is under way. Ctrl-C ends the scrub.
pub(crate) fn scrub(at: &Path, rate: Option<u64>, progress: &dyn Progress) -> Result<ScrubState, Failure> {
    let start = rate.map_or_else(|| "start".to_string(), |rate| format!("start {rate}"));
    match order(at, &start) {
        Ok(()) | Err(Errno::BUSY) => {}
        Err(error) => return Err(cannot(at, error)),
    }
    interrupt::listen();
    let mut is_asked = false;
    loop {
        let state: ScrubState = attributes::document(at, attribute::SCRUB)?;
        match state.step {
            ScrubStep::Running => progress.progress("scrubbing", state.data, state.used.max(state.data)),
            ScrubStep::Done => return Ok(state),
            ScrubStep::Failed => {
                let why = state.error.unwrap_or_else(|| "the scrub failed".into());
                return Err(Failure::new(shown(at), why).with_code(CHECK_FAILED));
            }
            ScrubStep::Stopped | ScrubStep::None => {
                let why = "the scrub was stopped before it had read everything";
                return Err(Failure::new(shown(at), why).with_code(INTERRUPTED));
            }
        }
        if interrupt::is_asked() && !std::mem::replace(&mut is_asked, true) {
            order(at, "stop").map_err(|error| cannot(at, error))?;
        }
        thread::sleep(ASK_EVERY);
    }
}

fn order(at: &Path, order: &str) -> rustix::io::Result<()> {
    rustix::fs::setxattr(at, attribute::SCRUB, order.as_bytes(), XattrFlags::empty())
}

fn cannot(at: &Path, error: Errno) -> Failure {
    let failure = match error {
        Errno::OPNOTSUPP => Failure::new(shown(at), "only ReFS has checksums to scrub"),
        Errno::PERM => {
            Failure::new(shown(at), "only root and the owner of the mount's directory may scrub the volume")
        }
        Errno::ROFS => {
            Failure::new(shown(at), "it is mounted for reading; scrub the volume while it is not mounted")
        }
        _ => Failure::from_io(shown(at), &error.into()),
    };
    failure.with_code(CHECK_FAILED)
}

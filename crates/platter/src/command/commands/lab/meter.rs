//! The progress of a comparison, shown while it runs.

use crate::command::failure::{harmless, tell};
use crate::command::interrupt;
use crate::command::progress::style;
use indicatif::{ProgressBar, ProgressDrawTarget};
use platter_lab::workload::Case;
use platter_lab::{Measured, Observer, Workload};
use std::io::IsTerminal;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// One progress bar for a whole comparison; where standard error is no terminal, a line every [`PATIENCE`].
pub(crate) struct Meter {
    bar: ProgressBar,
    /// The time of the last printed line, where lines are printed instead of a bar.
    spoken: Option<Mutex<Instant>>,
}

/// The time between two printed lines.
const PATIENCE: Duration = Duration::from_secs(15);

impl Meter {
    pub(crate) fn new() -> Meter {
        let bar = ProgressBar::with_draw_target(Some(1), ProgressDrawTarget::stderr_with_hz(8));
        bar.set_style(style("{msg}"));
        interrupt::listen();
        let is_seen = std::io::stderr().is_terminal();
        Meter { bar, spoken: (!is_seen).then(|| Mutex::new(Instant::now())) }
    }

    pub(crate) fn finish(self) {
        self.bar.finish_and_clear();
    }
}

impl Observer for Meter {
    fn stage(&self, what: &str, done: Duration, total: Duration) {
        let Some(spoken) = &self.spoken else {
            self.bar.set_length(total.as_millis() as u64);
            self.bar.set_position(done.as_millis() as u64);
            self.bar.set_message(harmless(what));
            return;
        };
        let mut spoken = spoken.lock().expect("no panic while locked");
        if spoken.elapsed() >= PATIENCE {
            *spoken = Instant::now();
            let share = 100.0 * done.as_secs_f64() / total.as_secs_f64().max(1e-9);
            tell(format_args!("platter: {:.0} %, {what}", share.min(100.0)));
        }
    }

    fn notice(&self, sentence: &str) {
        self.bar.suspend(|| tell(format_args!("platter: {}", harmless(sentence))));
    }

    fn result(&self, target: &str, workload: &str, case: &str, iops: f64, mb_per_s: f64) {
        let (target, case) = (harmless(target), harmless(&format!("{workload} {case}")));
        self.bar.println(format!("{target:<20} {case:<40} {mb_per_s:>9.1} MB/s {iops:>10.0} IOPS"));
    }

    fn stop(&self) -> bool {
        interrupt::is_asked()
    }
}

/// A callback that receives each slice's workload, case and figures, to keep them before the comparison ends.
type Keep<'k> = dyn FnMut(&Workload, &Case, &Measured) + Send + 'k;

/// A meter that passes the measurement of each slice to a callback.
pub(super) struct Keeping<'k> {
    meter: &'k Meter,
    keep: Mutex<&'k mut Keep<'k>>,
}

impl<'k> Keeping<'k> {
    pub(super) fn new(meter: &'k Meter, keep: &'k mut Keep<'k>) -> Keeping<'k> {
        Keeping { meter, keep: Mutex::new(keep) }
    }
}

impl Observer for Keeping<'_> {
    fn stage(&self, what: &str, done: Duration, total: Duration) {
        self.meter.stage(what, done, total);
    }

    fn result(&self, target: &str, workload: &str, case: &str, iops: f64, mb_per_s: f64) {
        self.meter.result(target, workload, case, iops, mb_per_s);
    }

    fn notice(&self, sentence: &str) {
        self.meter.notice(sentence);
    }

    fn measured(&self, _target: &str, workload: &Workload, case: &Case, measured: &Measured) {
        (self.keep.lock().expect("no panic while locked"))(workload, case, measured);
    }

    fn stop(&self) -> bool {
        self.meter.stop()
    }
}

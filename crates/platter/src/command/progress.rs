//! A progress bar for long operations.

use crate::command::failure::tell;
use crate::command::interrupt;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use platter_vfs::Progress;
use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A progress bar on standard error with the remaining time. It appears after a second, and only on a terminal.
pub(super) struct Bar {
    bar: ProgressBar,
    started: Instant,
    terminal: bool,
    visible: AtomicBool,
    /// The last report: the step, what is done of it, and all of it.
    last: Mutex<(&'static str, u64, u64)>,
}

/// The unit in which progress is counted.
#[derive(Clone, Copy)]
pub(super) enum Unit {
    /// Bytes: shown with their rate.
    Bytes,
    /// Steps of any other kind: shown in percent.
    Steps,
}

/// What every bar of this program looks like: the part that is done, what is done, and the rest of the time.
pub(super) fn style(what: &str) -> ProgressStyle {
    let template = format!("{{bar:24}} {{percent:>3}} %  {what}  ({{eta}} left)");
    ProgressStyle::with_template(&template).expect("the templates are fixed")
}

const PATIENCE: Duration = Duration::from_secs(1);

impl Bar {
    pub(super) fn new(unit: Unit) -> Bar {
        let bar = ProgressBar::hidden();
        bar.set_style(style(match unit {
            Unit::Bytes => "{msg}, {binary_bytes} of {binary_total_bytes}, {binary_bytes_per_sec}",
            Unit::Steps => "{msg}",
        }));
        let terminal = std::io::stderr().is_terminal();
        let last = Mutex::new(("", 0, 0));
        Bar { bar, started: Instant::now(), terminal, visible: AtomicBool::new(false), last }
    }

    /// The bar of a command that ends at its next safe point when the user interrupts it.
    pub(super) fn interruptible(unit: Unit) -> Bar {
        interrupt::listen();
        Bar::new(unit)
    }

    /// Where the operation stands, such as "reading records, 43 % done".
    pub(super) fn standing(&self) -> String {
        match *self.last.lock().unwrap_or_else(PoisonError::into_inner) {
            ("", ..) => "at the beginning".to_string(),
            (what, _, 0) => what.to_string(),
            (what, done, total) => {
                let percent = u128::from(done.min(total)) * 100 / u128::from(total);
                format!("{what}, {percent} % done")
            }
        }
    }

    /// Prints a line on standard error, above the bar if there is one.
    pub(super) fn say(&self, line: &str) {
        self.bar.suspend(|| tell(line));
    }
}

impl Progress for Bar {
    fn progress(&self, what: &'static str, done: u64, total: u64) {
        let last = std::mem::replace(
            &mut *self.last.lock().unwrap_or_else(PoisonError::into_inner),
            (what, done, total),
        );
        interrupt::test_at(what, done);
        if !self.terminal || self.started.elapsed() < PATIENCE {
            return;
        }
        if !self.visible.swap(true, Ordering::Relaxed) {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        self.bar.set_message(what);
        self.bar.set_length(total);
        self.bar.set_position(done);
        // Another step, or the next file, begins: how fast the one before was says nothing of it.
        if last.0 != what || done < last.1 {
            self.bar.reset_eta();
        }
    }

    fn is_stopped(&self) -> bool {
        interrupt::is_asked()
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

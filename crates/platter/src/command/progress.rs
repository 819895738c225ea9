//! A progress bar for long operations.

use crate::command::failure::tell;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use platter_vfs::Progress;
use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A progress bar on standard error with the remaining time. It appears after a second, and only on a terminal.
pub struct Bar {
    bar: ProgressBar,
    started: Instant,
    terminal: bool,
    visible: AtomicBool,
}

/// The unit in which progress is counted.
#[derive(Clone, Copy)]
pub enum Unit {
    /// Bytes: shown with their rate.
    Bytes,
    /// Steps of any other kind: shown in percent.
    Steps,
}

const PATIENCE: Duration = Duration::from_secs(1);

impl Bar {
    pub fn new(unit: Unit) -> Bar {
        let template = match unit {
            Unit::Bytes => {
                "{msg} {wide_bar} {binary_bytes}/{binary_total_bytes} {binary_bytes_per_sec} ETA {eta}"
            }
            Unit::Steps => "{msg} {wide_bar} {percent}% ETA {eta}",
        };
        let bar = ProgressBar::hidden();
        bar.set_style(ProgressStyle::with_template(template).expect("the template is fixed"));
        let terminal = std::io::stderr().is_terminal();
        Bar { bar, started: Instant::now(), terminal, visible: AtomicBool::new(false) }
    }

    /// Prints a line on standard error, above the bar if there is one.
    pub fn say(&self, line: &str) {
        self.bar.suspend(|| tell(line));
    }
}

impl Progress for Bar {
    fn progress(&self, what: &'static str, done: u64, total: u64) {
        if !self.terminal || self.started.elapsed() < PATIENCE {
            return;
        }
        if !self.visible.swap(true, Ordering::Relaxed) {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        self.bar.set_message(what);
        self.bar.set_length(total);
        self.bar.set_position(done);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

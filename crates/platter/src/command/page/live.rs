//! Pages that take long: a check, and deleted files. They are sent as they come.

use super::Page;
use super::escape::html;
use super::listing::{END, time};
use super::response::{Response, Status};
use crate::command::failure::Failure;
use crate::command::interrupt;
use crate::command::view::Lost;
use platter_device::show_size;
use platter_vfs::{Kind, Progress};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How often a page says how far something has come.
const PAUSE: Duration = Duration::from_secs(1);

/// A page that is being sent. Once nobody reads it any more, what it tells of ends.
struct Live<'r, 'w> {
    response: Mutex<&'r mut Response<'w>>,
    told: Mutex<Instant>,
    is_gone: AtomicBool,
}

impl<'r, 'w> Live<'r, 'w> {
    fn new(response: &'r mut Response<'w>) -> Live<'r, 'w> {
        Live {
            response: Mutex::new(response),
            told: Mutex::new(Instant::now()),
            is_gone: AtomicBool::new(false),
        }
    }

    fn send(&self, text: &str) {
        let mut response = self.response.lock().unwrap_or_else(PoisonError::into_inner);
        if response.content(text.as_bytes()).is_err() {
            self.is_gone.store(true, Ordering::Relaxed);
        }
    }

    fn flush(&self) {
        let mut response = self.response.lock().unwrap_or_else(PoisonError::into_inner);
        if response.flush().is_err() {
            self.is_gone.store(true, Ordering::Relaxed);
        }
    }

    /// Whether it is time to send what was written.
    fn is_due(&self) -> bool {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = told.elapsed() >= PAUSE;
        if is_due {
            *told = Instant::now();
        }
        is_due
    }
}

/// Progress between the rows of a table would be a row of its own, so there it is only sent what was found.
struct Told<'l, 'r, 'w> {
    live: &'l Live<'r, 'w>,
    in_words: bool,
}

impl Progress for Told<'_, '_, '_> {
    fn progress(&self, what: &'static str, done: u64, total: u64) {
        if !self.live.is_due() {
            return;
        }
        if self.in_words && total > 0 {
            let percent = u128::from(done.min(total)) * 100 / u128::from(total);
            self.live.send(&format!("<p class=\"quiet\">{}, {percent} %</p>\n", html(what)));
        }
        self.live.flush();
    }

    fn is_stopped(&self) -> bool {
        self.live.is_gone.load(Ordering::Relaxed) || interrupt::is_asked()
    }
}

impl Page {
    /// The only place for what takes long; `None` if somebody has it.
    fn alone(&self) -> Option<MutexGuard<'_, ()>> {
        match self.long.try_lock() {
            Ok(alone) => Some(alone),
            Err(std::sync::TryLockError::Poisoned(alone)) => Some(alone.into_inner()),
            Err(std::sync::TryLockError::WouldBlock) => None,
        }
    }

    fn busy(&self, response: &mut Response<'_>) -> io::Result<()> {
        self.refuse(
            response,
            Status::Busy,
            "another check or search is under way; try again when it has ended",
        )
    }

    /// Checks the volume.
    pub(super) fn check(&self, response: &mut Response<'_>) -> io::Result<()> {
        let Some(_alone) = self.alone() else { return self.busy(response) };
        response.begin_html()?;
        if response.is_head() {
            return Ok(());
        }
        let live = Live::new(response);
        live.send(&self.begin("Check"));
        live.flush();
        let checked = self.view.check(&Told { live: &live, in_words: true });
        match checked {
            Err(failure) => live.send(&failed(&failure)),
            Ok(lines) => {
                let (verdict, findings) =
                    lines.split_last().map_or(("", &[][..]), |(last, rest)| (last, rest));
                live.send(&format!("<p><strong>{}</strong></p>\n", html(verdict)));
                if !findings.is_empty() {
                    live.send("<ul>\n");
                    findings.iter().for_each(|line| live.send(&format!("<li>{}</li>\n", html(line))));
                    live.send("</ul>\n");
                }
            }
        }
        live.send(END);
        Ok(())
    }

    /// Looks for deleted and damaged files.
    pub(super) fn deleted(&self, response: &mut Response<'_>) -> io::Result<()> {
        let Some(_alone) = self.alone() else { return self.busy(response) };
        response.begin_html()?;
        if response.is_head() {
            return Ok(());
        }
        let live = Live::new(response);
        live.send(&self.begin("Deleted and damaged files"));
        live.send(
            "<p>This is what <code>platter recover</code> would copy beside the files of the tree.</p>\n<table><thead>\
             <tr><th scope=\"col\">Path</th><th scope=\"col\" class=\"number\">Size</th><th scope=\"col\">Modified</th>\
             <th scope=\"col\">Content</th></tr></thead><tbody>\n",
        );
        live.flush();
        let found =
            self.view.lost(&Told { live: &live, in_words: false }, &mut |lost| live.send(&row(&lost)));
        live.send("</tbody></table>\n");
        match found {
            Err(failure) => live.send(&failed(&failure)),
            Ok(sum) => live.send(&format!("<p><strong>{}</strong></p>\n", html(&sum))),
        }
        live.send(END);
        Ok(())
    }
}

fn failed(failure: &Failure) -> String {
    format!("<p><strong>{}</strong></p>\n", html(&failure.to_string()))
}

fn row(lost: &Lost) -> String {
    let mark = if lost.kind == Kind::Directory { "/" } else { "" };
    format!(
        "<tr><td class=\"name\">{}{mark}</td><td class=\"number\">{}</td><td>{}</td><td>{}</td></tr>\n",
        html(&lost.shown()),
        show_size(lost.size),
        time(lost.modified),
        lost.sureness
    )
}

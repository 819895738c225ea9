//! The browser in the terminal: keys come in, the screen goes out.

use super::backend::Crossterm;
use super::draw::draw;
use super::key::Key;
use super::model::{Job, Model};
use super::work::Work;
use crate::command::failure::{About, Failure, INTERRUPTED, Outcome, tell_to};
use crate::command::view::View;
use crate::command::{host, interrupt};
use crossterm::event::{
    DisableBracketedPaste, EnableBracketedPaste, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, read,
};
use crossterm::execute;
use crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode};
use platter_vfs::Name;
use ratatui_core::terminal::Terminal;
use std::io::{self, IsTerminal, Stdout};
use std::panic;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often it is looked whether something was read, or the terminal is gone, while no key is pressed.
const PAUSE: Duration = Duration::from_millis(50);

/// How long a copy may take to remove a part of a file when a signal ends the browser.
const TIDYING: Duration = Duration::from_secs(2);

/// Whether the terminal is the browser's.
static IS_TAKEN: AtomicBool = AtomicBool::new(false);
/// Whether a thread has panicked.
static HAS_PANICKED: AtomicBool = AtomicBool::new(false);
/// What was told meanwhile: it is printed at the end.
static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());
/// The most lines that are kept for then.
const MOST_SAID: usize = 100;

/// The terminal while it is the browser's. It is given back when this is dropped, and before the message of a panic.
struct Taken;

impl Taken {
    fn new() -> io::Result<Taken> {
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |about| {
            HAS_PANICKED.store(true, Ordering::Relaxed);
            give_back();
            usual(about);
        }));
        enable_raw_mode()?;
        IS_TAKEN.store(true, Ordering::Relaxed);
        let taken = Taken;
        execute!(io::stdout(), EnterAlternateScreen, EnableBracketedPaste)?;
        Ok(taken)
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        give_back();
    }
}

/// Gives the terminal back, once. A terminal that is gone has nothing to be given back.
fn give_back() {
    if IS_TAKEN.swap(false, Ordering::Relaxed) {
        let _ = execute!(io::stdout(), DisableBracketedPaste, LeaveAlternateScreen, crossterm::cursor::Show);
        let _ = disable_raw_mode();
    }
}

/// Keeps what is told while the screen is the browser's.
fn keep_what_is_told() {
    tell_to(|line| {
        if IS_TAKEN.load(Ordering::Relaxed) {
            let mut said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
            if said.len() < MOST_SAID {
                said.push(line.to_string());
            }
        } else {
            eprintln!("{line}");
        }
    });
}

/// Shows a volume until the user ends it.
pub(in crate::command) fn run(view: View, image: String, place: Vec<Name>) -> Outcome {
    if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        let why = "needs a terminal; platter ls lists, and platter serve --http shows a page";
        return Err(Failure::new("browse", why));
    }
    interrupt::listen();
    keep_what_is_told();
    let here = std::env::current_dir().map_or_else(|_| ".".to_string(), |here| here.display().to_string());
    let (work, answers) = Work::new(view);
    let (model, jobs) = Model::new(image, here, place);
    jobs.into_iter().for_each(|job| work.take(job));
    let shown = Taken::new().and_then(|_taken| Browser { model, work, answers, events: events() }.run());
    give_back();
    for line in SAID.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
        eprintln!("{line}");
    }
    if HAS_PANICKED.load(Ordering::Relaxed) {
        return Err(Failure::silent());
    }
    // The threads only read, and end with the process.
    shown.about("the terminal")
}

/// What comes from the terminal. A thread of its own waits for it: when the terminal has gone, crossterm's wait has no end.
fn events() -> Receiver<io::Result<Event>> {
    let (sender, events) = channel();
    std::thread::spawn(move || {
        loop {
            let event = read();
            let is_last = event.is_err();
            if sender.send(event).is_err() || is_last {
                return;
            }
        }
    });
    events
}

struct Browser {
    model: Model,
    work: Work,
    answers: Receiver<crate::command::browse::model::Answer>,
    events: Receiver<io::Result<Event>>,
}

impl Browser {
    /// Shows the volume; returns the exit code.
    fn run(mut self) -> io::Result<u8> {
        let mut terminal = Terminal::new(Crossterm(io::stdout()))?;
        self.draw(&mut terminal)?;
        while !self.model.has_quit && !HAS_PANICKED.load(Ordering::Relaxed) {
            if interrupt::is_asked() || host::terminal_has_gone() {
                self.end_tasks();
                return Ok(INTERRUPTED);
            }
            let mut is_new = self.model.task.is_some();
            let answers: Vec<_> = self.answers.try_iter().collect();
            for answer in answers {
                is_new = true;
                let jobs = self.model.hear(answer);
                self.take(jobs);
            }
            // All keys that are there count before the screen is drawn again.
            while let Ok(event) = self.events.recv_timeout(if is_new { Duration::ZERO } else { PAUSE }) {
                is_new = true;
                let jobs = match event? {
                    Event::Key(event) => key(event).map_or_else(Vec::new, |key| self.model.press(key)),
                    Event::Paste(text) => self.model.paste(&text),
                    _ => Vec::new(),
                };
                self.take(jobs);
                if self.model.has_quit {
                    return Ok(0);
                }
            }
            if is_new {
                self.draw(&mut terminal)?;
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        Ok(0)
    }

    fn take(&self, jobs: Vec<Job>) {
        jobs.into_iter().for_each(|job| self.work.take(job));
    }

    fn draw(&mut self, terminal: &mut Terminal<Crossterm<Stdout>>) -> io::Result<()> {
        let model = &mut self.model;
        terminal.draw(|frame| {
            let area = frame.area();
            model.resize(area.height.into());
            if let Some(cursor) = draw(model, area, frame.buffer_mut()) {
                frame.set_cursor_position(cursor);
            }
        })?;
        Ok(())
    }

    /// Waits a moment for what is under way: a copy removes the part of a file that it has written.
    fn end_tasks(&mut self) {
        let begun = Instant::now();
        while self.model.task.is_some() && begun.elapsed() < TIDYING {
            if let Ok(answer) = self.answers.recv_timeout(PAUSE) {
                self.model.hear(answer);
            }
        }
    }
}

/// The key of an event; `None` for the release of a key, and for keys that mean nothing here.
fn key(event: KeyEvent) -> Option<Key> {
    if event.kind == KeyEventKind::Release {
        return None;
    }
    let is_control = event.modifiers.contains(KeyModifiers::CONTROL);
    Some(match event.code {
        // Terminals send Ctrl-H for the key that others send DEL for.
        KeyCode::Char('h') if is_control => Key::Backspace,
        KeyCode::Char(c) if is_control => Key::Control(c.to_ascii_lowercase()),
        KeyCode::Char(_) if event.modifiers.contains(KeyModifiers::ALT) => return None,
        KeyCode::Char(c) => Key::Char(c),
        KeyCode::F(number) => Key::Function(number),
        KeyCode::Enter => Key::Enter,
        KeyCode::Esc => Key::Escape,
        KeyCode::Backspace => Key::Backspace,
        KeyCode::Tab => Key::Tab,
        KeyCode::Insert => Key::Insert,
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::Left => Key::Left,
        KeyCode::Right => Key::Right,
        KeyCode::Home => Key::Home,
        KeyCode::End => Key::End,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown => Key::PageDown,
        _ => return None,
    })
}

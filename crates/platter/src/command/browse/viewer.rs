//! A content on the whole screen.

use super::key::{Key, Motion};
use super::pick::scroll;
use crate::command::view::{Part, Preview, WINDOW};
use platter_vfs::Name;

/// How many columns a key moves the text to the side.
const SIDE: usize = 8;

/// A content that is viewed.
#[derive(Debug)]
pub(super) struct Viewer {
    pub(super) path: Vec<Name>,
    pub(super) part: Part,
    /// The window that is shown; `None` while the first one is read.
    window: Option<Preview>,
    pub(super) lines: Vec<String>,
    /// The first line that is shown, and the first column.
    pub(super) top: usize,
    pub(super) left: usize,
    as_hex: bool,
    /// Where the window begins that is being read, if one is.
    awaited: Option<u64>,
    /// Whether the window that comes is to be shown from its end.
    from_end: bool,
    pub(super) failure: Option<String>,
}

impl Viewer {
    /// A viewer that waits for its first window.
    pub(super) fn new(path: Vec<Name>, part: Part) -> Viewer {
        Viewer {
            path,
            part,
            window: None,
            lines: Vec::new(),
            top: 0,
            left: 0,
            as_hex: false,
            awaited: Some(0),
            from_end: false,
            failure: None,
        }
    }

    /// A window was read.
    pub(super) fn hear(&mut self, offset: u64, read: Result<Preview, String>, rows: usize) {
        if self.awaited != Some(offset) {
            return;
        }
        self.awaited = None;
        match read {
            Ok(window) => {
                self.window = Some(window);
                self.show(rows);
                self.failure = None;
            }
            Err(why) => self.failure = Some(why),
        }
        self.from_end = false;
    }

    fn show(&mut self, rows: usize) {
        self.lines = self.window.as_ref().map_or_else(Vec::new, |window| window.lines(self.as_hex));
        self.top = if self.from_end { self.lines.len().saturating_sub(rows.max(1)) } else { 0 };
    }

    /// What part of the content is shown, for the last line.
    pub(super) fn standing(&self) -> String {
        match &self.window {
            _ if self.failure.is_some() => self.failure.clone().unwrap_or_default(),
            None => "reading".to_string(),
            Some(window) if window.size == 0 => "empty".to_string(),
            Some(window) => {
                let Preview { offset, end, size, .. } = window;
                format!("bytes {offset} to {end} of {size}")
            }
        }
    }

    /// A key; returns where the window begins that is to be read.
    pub(super) fn press(&mut self, key: Key, rows: usize) -> Option<u64> {
        match key {
            Key::Char('x') | Key::Function(4) => {
                self.as_hex = !self.as_hex;
                self.show(rows);
                return None;
            }
            Key::Left | Key::Char('h') => self.left = self.left.saturating_sub(SIDE),
            Key::Right | Key::Char('l') => {
                let longest = self.lines.iter().map(|line| line.chars().count()).max().unwrap_or(0);
                self.left = (self.left + SIDE).min(longest.saturating_sub(1));
            }
            _ => {}
        }
        let motion = match key {
            Key::Char(' ') => Motion::PageDown,
            key => key.motion()?,
        };
        self.go(motion, rows)
    }

    fn go(&mut self, motion: Motion, rows: usize) -> Option<u64> {
        let window = self.window.as_ref()?;
        let is_at_end = self.top + rows >= self.lines.len();
        let last = window.size.saturating_sub(WINDOW as u64);
        let (wanted, from_end) = match motion {
            Motion::Home if window.offset > 0 => (0, false),
            Motion::End if window.end < window.size => (last, true),
            Motion::Down | Motion::PageDown if is_at_end && window.end < window.size => (window.end, false),
            Motion::Up | Motion::PageUp if self.top == 0 && window.offset > 0 => {
                (window.offset.saturating_sub(WINDOW as u64), true)
            }
            motion => {
                scroll(&mut self.top, motion, self.lines.len(), rows);
                return None;
            }
        };
        // Rows of digits begin at multiples of their length, whatever the window.
        let wanted = if window.is_text() { wanted } else { wanted & !15 };
        if self.awaited.is_some() {
            return None;
        }
        (self.awaited, self.from_end) = (Some(wanted), from_end);
        Some(wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_content_is_read_window_by_window() {
        let content: Vec<u8> =
            (0..20_000).flat_map(|number| format!("line {number:06}\n").into_bytes()).collect();
        let size = content.len() as u64;
        let read = |offset: u64| {
            let rest = &content[offset as usize..];
            Ok(Preview::new(&rest[..rest.len().min(WINDOW)], offset, size))
        };
        let mut viewer = Viewer::new(vec![Name::from("long.txt")], Part::Main);
        viewer.hear(0, read(0), 10);
        let mut seen = viewer.lines.len();
        loop {
            match viewer.press(Key::PageDown, 10) {
                Some(next) => {
                    viewer.hear(next, read(next), 10);
                    assert_eq!(viewer.lines[0], format!("line {seen:06}"), "no line is left out");
                    seen += viewer.lines.len();
                }
                None if viewer.top + 10 >= viewer.lines.len() && seen == 20_000 => break,
                None => {}
            }
        }
        let first = viewer.press(Key::Home, 10).unwrap();
        viewer.hear(first, read(first), 10);
        assert_eq!((first, viewer.lines[0].as_str()), (0, "line 000000"));
        let last = viewer.press(Key::End, 10).unwrap();
        viewer.hear(last, read(last), 10);
        assert_eq!(viewer.lines[viewer.top + 9], "line 019999");
        // What was asked for before is not waited for any more.
        viewer.hear(5, Err("late".into()), 10);
        assert_eq!(viewer.failure, None);
        viewer.press(Key::Char('x'), 10);
        assert!(viewer.lines[0].contains("6c 69 6e 65"), "{}", viewer.lines[0]);
    }
}

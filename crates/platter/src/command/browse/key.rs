//! The keys: those of mc and of ranger, side by side.

/// A key, whatever terminal it comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Char(char),
    Control(char),
    Function(u8),
    Enter,
    Escape,
    Backspace,
    Tab,
    Insert,
    Up,
    Down,
    Left,
    Right,
    Home,
    End,
    PageUp,
    PageDown,
}

/// Where a key moves to in a list or a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Motion {
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
}

impl Key {
    /// The motion that the key means, if it means one.
    pub(super) fn motion(self) -> Option<Motion> {
        Some(match self {
            Key::Up | Key::Char('k') => Motion::Up,
            Key::Down | Key::Char('j') => Motion::Down,
            Key::PageUp | Key::Control('b' | 'u') => Motion::PageUp,
            Key::PageDown | Key::Control('f' | 'd') => Motion::PageDown,
            Key::Home | Key::Char('g') => Motion::Home,
            Key::End | Key::Char('G') => Motion::End,
            _ => return None,
        })
    }

    /// Whether the key goes back to what was shown before.
    pub(super) fn goes_back(self) -> bool {
        matches!(self, Key::Escape | Key::Char('q') | Key::Function(10) | Key::Backspace)
    }
}

/// The keys and what they do, for the help.
pub(super) const KEYS: &[(&str, &str)] = &[
    ("arrows, h j k l", "move; right enters a directory or views a file, left goes up"),
    ("Enter", "enter a directory, view a file"),
    ("Backspace", "go up"),
    ("PgUp PgDn, Ctrl-B Ctrl-F", "a page up or down"),
    ("Home End, g G", "to the first, to the last"),
    ("F3, v", "view: text, or hexadecimal digits; x changes between them"),
    ("F5, y", "copy out: the marked, or the one under the bar; nothing is overwritten"),
    ("Space, Insert", "mark or unmark"),
    ("/ n N", "search in the directory; the next, the one before"),
    ("s", "sort by name, by size, by time"),
    ("Tab", "move in the right half, or back in the left one"),
    ("t", "streams and snapshots: view and copy them"),
    ("i", "the volume: format, label, space"),
    ("c", "check the volume"),
    ("d", "look for deleted and damaged files"),
    ("r", "recover: copy out all that is found; in the list of deleted files F5 copies one"),
    ("Esc, Ctrl-C", "end what is under way, close what is open"),
    ("F1, ?", "this help"),
    ("F10, q", "quit"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_all_keys() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/browse.md");
        let page = std::fs::read_to_string(page).expect("the page of the browser");
        for (keys, what) in KEYS {
            assert!(
                page.contains(&format!("| {keys} | {what} |")),
                "docs/browse.md lacks: | {keys} | {what} |"
            );
        }
    }
}

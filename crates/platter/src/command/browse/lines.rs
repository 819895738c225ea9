//! Typing a line: what to search for, where to copy to.

use super::key::Key;

/// A line that is being typed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Typed {
    pub(super) text: String,
    /// Whether the text is a proposal that the first letter replaces.
    pub(super) is_proposed: bool,
}

/// What a key did to a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Typing {
    GoesOn,
    Entered,
    GivenUp,
}

/// The longest line that can be typed or pasted, in bytes. No path of a host is longer.
const LONGEST: usize = 4096;

impl Typed {
    /// A line that proposes a text.
    pub(super) fn proposing(text: String) -> Typed {
        Typed { text, is_proposed: true }
    }

    pub(super) fn press(&mut self, key: Key) -> Typing {
        match key {
            Key::Enter => return Typing::Entered,
            Key::Escape | Key::Control('c') | Key::Function(10) => return Typing::GivenUp,
            Key::Char(c) => self.add(&c.to_string()),
            Key::Backspace => {
                self.text.pop();
                self.is_proposed = false;
            }
            Key::Control('u' | 'w') => {
                self.text.clear();
                self.is_proposed = false;
            }
            // Who moves in the proposal keeps it.
            Key::Right | Key::End => self.is_proposed = false,
            _ => {}
        }
        Typing::GoesOn
    }

    /// Adds what is typed or pasted, up to the first end of a line.
    pub(super) fn add(&mut self, text: &str) {
        if self.is_proposed {
            self.text.clear();
            self.is_proposed = false;
        }
        let text = text.lines().next().unwrap_or("");
        if self.text.len() + text.len() <= LONGEST {
            self.text.extend(text.chars().filter(|c| !c.is_control()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_letter_replaces_a_proposal() {
        let mut line = Typed::proposing("/home/".into());
        assert_eq!(line.press(Key::Char('/')), Typing::GoesOn);
        line.add("tmp\nrm");
        assert_eq!(line.text, "/tmp");
        line.press(Key::Backspace);
        assert_eq!((line.press(Key::Enter), line.text.as_str()), (Typing::Entered, "/tm"));
        let mut line = Typed::proposing("/home/".into());
        line.press(Key::End);
        line.press(Key::Char('x'));
        assert_eq!((line.press(Key::Escape), line.text.as_str()), (Typing::GivenUp, "/home/x"));
        line.add(&"y".repeat(5000));
        assert_eq!(line.text, "/home/x");
    }
}

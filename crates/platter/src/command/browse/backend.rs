//! The terminal as ratatui draws on it, by crossterm.
//!
//! ratatui has such a thing in a crate of its own, which takes as long to compile as all of ratatui that is used here.

use crossterm::cursor::{Hide, MoveTo, Show};
use crossterm::style::{Attribute, Color as TerminalColor, Print, SetAttribute, SetForegroundColor};
use crossterm::terminal::{Clear, ClearType as Cleared, size};
use crossterm::{QueueableCommand, cursor};
use ratatui_core::backend::{Backend, ClearType, WindowSize};
use ratatui_core::buffer::Cell;
use ratatui_core::layout::{Position, Size};
use ratatui_core::style::{Color, Modifier};
use std::io::{Error, Result, Write};

/// A terminal that understands the sequences of crossterm.
pub(super) struct Crossterm<W: Write>(pub(super) W);

const ATTRIBUTES: [(Modifier, Attribute); 4] = [
    (Modifier::BOLD, Attribute::Bold),
    (Modifier::DIM, Attribute::Dim),
    (Modifier::UNDERLINED, Attribute::Underlined),
    (Modifier::REVERSED, Attribute::Reverse),
];

/// The colours that the browser uses; the user's terminal says what they look like.
fn color(color: Color) -> TerminalColor {
    match color {
        Color::Red => TerminalColor::DarkRed,
        Color::Yellow => TerminalColor::DarkYellow,
        Color::Cyan => TerminalColor::DarkCyan,
        _ => TerminalColor::Reset,
    }
}

impl<W: Write> Backend for Crossterm<W> {
    type Error = Error;

    fn draw<'a, I: Iterator<Item = (u16, u16, &'a Cell)>>(&mut self, content: I) -> Result<()> {
        let mut style = None;
        let mut next = None;
        for (x, y, cell) in content {
            if next != Some((x, y)) {
                self.0.queue(MoveTo(x, y))?;
            }
            next = Some((x + 1, y));
            if style != Some((cell.fg, cell.modifier)) {
                style = Some((cell.fg, cell.modifier));
                self.0.queue(SetAttribute(Attribute::Reset))?;
                for (_, attribute) in
                    ATTRIBUTES.iter().filter(|(modifier, _)| cell.modifier.contains(*modifier))
                {
                    self.0.queue(SetAttribute(*attribute))?;
                }
                if cell.fg != Color::Reset {
                    self.0.queue(SetForegroundColor(color(cell.fg)))?;
                }
            }
            self.0.queue(Print(cell.symbol()))?;
        }
        self.0.queue(SetAttribute(Attribute::Reset))?;
        Ok(())
    }

    fn hide_cursor(&mut self) -> Result<()> {
        self.0.queue(Hide).map(drop)
    }

    fn show_cursor(&mut self) -> Result<()> {
        self.0.queue(Show).map(drop)
    }

    fn get_cursor_position(&mut self) -> Result<Position> {
        cursor::position().map(|(x, y)| Position { x, y })
    }

    fn set_cursor_position<P: Into<Position>>(&mut self, position: P) -> Result<()> {
        let Position { x, y } = position.into();
        self.0.queue(MoveTo(x, y)).map(drop)
    }

    fn clear(&mut self) -> Result<()> {
        self.clear_region(ClearType::All)
    }

    fn clear_region(&mut self, region: ClearType) -> Result<()> {
        let region = match region {
            ClearType::All => Cleared::All,
            ClearType::AfterCursor => Cleared::FromCursorDown,
            ClearType::BeforeCursor => Cleared::FromCursorUp,
            ClearType::CurrentLine => Cleared::CurrentLine,
            ClearType::UntilNewLine => Cleared::UntilNewLine,
        };
        self.0.queue(Clear(region)).map(drop)
    }

    fn size(&self) -> Result<Size> {
        size().map(|(width, height)| Size { width, height })
    }

    fn window_size(&mut self) -> Result<WindowSize> {
        // Nothing here asks for pixels.
        Ok(WindowSize { columns_rows: self.size()?, pixels: Size::ZERO })
    }

    fn flush(&mut self) -> Result<()> {
        self.0.flush()
    }
}

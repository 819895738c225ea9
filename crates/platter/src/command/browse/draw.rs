//! The screen: head, directory and content, message, keys.

use super::model::{Model, Prompt, Screen};
use super::pick::Pick;
use crate::command::failure::printable;
use crate::command::output::{flag_letters, grouped, local_time};
use crate::command::view::{Lost, Part};
use platter_device::show_size;
use platter_vfs::{Entry, Kind};
use ratatui_core::buffer::Buffer;
use ratatui_core::layout::{Position, Rect};
use ratatui_core::style::{Color, Modifier, Style};
use ratatui_core::text::Span;

/// The narrowest screen on which directory and content are side by side.
const BOTH: u16 = 60;
/// The narrowest column in which entries have their times.
const WITH_TIMES: u16 = 56;

const PLAIN: Style = Style::new();
const BAR: Style = Style::new().add_modifier(Modifier::REVERSED);
const QUIET: Style = Style::new().add_modifier(Modifier::DIM);
const BAD: Style = Style::new().fg(Color::Red);
const DIRECTORY: Style = Style::new().fg(Color::Cyan).add_modifier(Modifier::BOLD);

/// A part of the screen that is drawn on.
struct Pane<'b> {
    buffer: &'b mut Buffer,
    area: Rect,
}

impl Pane<'_> {
    /// Writes on a line, from a column on, as far as there is room. What would move the cursor is replaced.
    fn put(&mut self, x: u16, y: u16, text: &str, style: Style) {
        if x >= self.area.width || y >= self.area.height {
            return;
        }
        let room = usize::from(self.area.width - x);
        self.buffer.set_stringn(self.area.x + x, self.area.y + y, printable(text), room, style);
    }

    /// Writes so that the text ends before the right end.
    fn put_right(&mut self, y: u16, text: &str, style: Style) {
        let width = u16::try_from(width(text)).unwrap_or(u16::MAX).min(self.area.width);
        self.put(self.area.width - width, y, text, style);
    }

    /// Gives a line a style.
    fn paint(&mut self, y: u16, style: Style) {
        if y < self.area.height {
            let line = Rect { y: self.area.y + y, height: 1, ..self.area };
            self.buffer.set_style(line, style);
        }
    }

    fn part(&mut self, area: Rect) -> Pane<'_> {
        Pane { area: area.intersection(self.area), buffer: self.buffer }
    }

    fn rows(&self) -> usize {
        self.area.height.into()
    }
}

fn width(text: &str) -> usize {
    Span::raw(text).width()
}

/// The end of a text that has room, after an ellipsis.
fn end_of(text: &str, room: usize) -> String {
    if width(text) <= room {
        return text.to_string();
    }
    let mut start = text.char_indices().map(|(at, _)| at).skip(1);
    let fits = start.find(|at| width(&text[*at..]) < room);
    fits.map_or_else(String::new, |at| format!("…{}", &text[at..]))
}

/// Draws the browser; returns where the cursor is, if a line is being typed.
pub(super) fn draw(model: &Model, area: Rect, buffer: &mut Buffer) -> Option<Position> {
    let mut all = Pane { buffer, area };
    if area.height == 0 || area.width == 0 {
        return None;
    }
    let title = printable(&model.title());
    all.paint(0, BAR);
    all.put(0, 0, &format!(" {}", end_of(&title, usize::from(area.width).saturating_sub(2))), BAR);
    let body = Rect { y: area.y + 1, height: area.height.saturating_sub(3), ..area };
    match model.over.last() {
        None => tree(model, &mut all.part(body)),
        Some(Screen::View(viewer)) => {
            text(&viewer.lines, viewer.top, viewer.left, &mut all.part(body));
        }
        Some(Screen::Text { lines, top, .. }) => text(lines, *top, 0, &mut all.part(body)),
        Some(Screen::Parts(pick)) => parts(model, pick, &mut all.part(body)),
        Some(Screen::Lost { pick, lost, .. }) => list_lost(lost, pick, &mut all.part(body)),
    }
    let keys = area.height.saturating_sub(1);
    all.put(0, keys, hints(model.over.last()), QUIET);
    message(model, &mut all, area.height.saturating_sub(2))
}

/// The line above the keys: what is typed, under way, or said.
fn message(model: &Model, all: &mut Pane<'_>, y: u16) -> Option<Position> {
    all.paint(y, PLAIN);
    if let Some(Prompt { asked, line }) = &model.prompt {
        let question = asked.question();
        let room = usize::from(all.area.width).saturating_sub(width(&question) + 1);
        let typed = end_of(&printable(&line.text), room);
        let style = if line.is_proposed { BAR } else { PLAIN };
        let at = u16::try_from(width(&question)).unwrap_or(u16::MAX);
        all.put(0, y, &question, PLAIN.add_modifier(Modifier::BOLD));
        all.put(at, y, &typed, style);
        let x = at.saturating_add(u16::try_from(width(&typed)).unwrap_or(u16::MAX));
        let x = x.min(all.area.width.saturating_sub(1));
        return Some(Position { x: all.area.x + x, y: all.area.y + y });
    }
    if let Some((task, watch)) = &model.task {
        let standing = format!("{}: {} (Esc ends it)", task.word(), watch.standing());
        all.put(0, y, &standing, PLAIN.add_modifier(Modifier::BOLD));
        return None;
    }
    if let Some((said, is_bad)) = &model.message {
        all.put(0, y, said, if *is_bad { BAD } else { PLAIN });
        return None;
    }
    all.put(0, y, &standing(model), QUIET);
    None
}

/// What is said where there is nothing else to say.
fn standing(model: &Model) -> String {
    match model.over.last() {
        None => match &model.tree.listing {
            None => "reading".to_string(),
            Some(listing) => {
                let entries = grouped(listing.entries.len() as u64);
                let marked = match model.tree.marked.len() {
                    0 => String::new(),
                    marked => format!(", {marked} marked"),
                };
                let failure = listing.failure.as_ref().map_or(String::new(), |why| format!("; {why}"));
                format!("{entries} entries{marked}{failure}")
            }
        },
        Some(Screen::View(viewer)) => viewer.standing(),
        Some(Screen::Text { lines, .. }) => format!("{} lines", grouped(lines.len() as u64)),
        Some(Screen::Parts(_)) => "Enter views, F5 copies".to_string(),
        Some(Screen::Lost { lost, end, .. }) => match end {
            Some(end) => end.clone(),
            None => format!("{} found", grouped(lost.len() as u64)),
        },
    }
}

fn hints(screen: Option<&Screen>) -> &'static str {
    match screen {
        None => "F1 Help F3 View F5 Copy F10 Quit / Search c Check d Deleted r Recover i Volume t Streams",
        Some(Screen::View(_)) => "q Back F5 Copy x Hex F1 Help",
        Some(Screen::Text { .. }) => "q Back F1 Help",
        Some(Screen::Parts(_)) => "q Back F3 View F5 Copy F1 Help",
        Some(Screen::Lost { .. }) => "q Back F5 Recover this r Recover all F1 Help",
    }
}

fn tree(model: &Model, pane: &mut Pane<'_>) {
    let area = pane.area;
    if area.width < BOTH {
        // There is room for one of them.
        if model.tree.is_in_side {
            return text(&model.tree.side_lines(), model.tree.side_top, 0, pane);
        }
        return entries(model, pane);
    }
    let left = area.width / 2;
    entries(model, &mut pane.part(Rect { width: left - 1, ..area }));
    for y in 0..area.height {
        pane.put(left, y, "│", QUIET);
    }
    let side = Rect { x: area.x + left + 2, width: area.width - left - 2, ..area };
    text(&model.tree.side_lines(), model.tree.side_top, 0, &mut pane.part(side));
}

fn entries(model: &Model, pane: &mut Pane<'_>) {
    let tree = &model.tree;
    if tree.listing.as_ref().is_some_and(|listing| listing.entries.is_empty()) {
        return pane.put(1, 0, "(empty)", QUIET);
    }
    let first = tree.pick.first(tree.entries().len(), pane.rows());
    for (y, (at, entry)) in tree.entries().iter().enumerate().skip(first).take(pane.rows()).enumerate() {
        let y = y as u16;
        let is_marked = tree.marked.contains(&entry.name);
        line_of_entry(entry, is_marked, y, pane);
        if at == tree.pick.at {
            // The bar is thinner while the keys move in the other half.
            let modifier = if tree.is_in_side { Modifier::UNDERLINED } else { Modifier::REVERSED };
            pane.paint(y, Style::new().add_modifier(modifier));
        }
    }
}

fn line_of_entry(entry: &Entry, is_marked: bool, y: u16, pane: &mut Pane<'_>) {
    let attributes = &entry.attributes;
    let (mark, style) = match attributes.kind {
        Kind::Directory => ("/", DIRECTORY),
        Kind::SymbolicLink => ("@", PLAIN),
        Kind::File => ("", PLAIN),
    };
    let name = format!("{}{}{mark}", if is_marked { "*" } else { " " }, entry.name);
    let size = if attributes.kind == Kind::Directory { String::new() } else { show_size(attributes.size) };
    let mut end = format!(" {size:>10}");
    if pane.area.width >= WITH_TIMES {
        end += &format!(" {} {}", flag_letters(attributes.flags), local_time(attributes.modified));
    }
    let style = if is_marked { style.fg(Color::Yellow) } else { style };
    pane.put(0, y, &name, style);
    pane.put_right(y, &end, PLAIN);
}

fn text(lines: &[String], top: usize, left: usize, pane: &mut Pane<'_>) {
    let top = top.min(lines.len().saturating_sub(1));
    for (y, line) in lines.iter().skip(top).take(pane.rows()).enumerate() {
        let shown: String = line.chars().skip(left).collect();
        pane.put(0, y as u16, &shown, PLAIN);
    }
}

fn parts(model: &Model, pick: &Pick, pane: &mut Pane<'_>) {
    let Some(Ok(side)) = &model.tree.side else { return };
    let first = pick.first(side.details.parts.len(), pane.rows());
    let lines = side.details.parts.iter().enumerate().skip(first).take(pane.rows());
    for (y, (at, (part, size))) in lines.enumerate() {
        let y = y as u16;
        pane.put(1, y, &part.to_string(), if matches!(part, Part::Snapshot(_)) { DIRECTORY } else { PLAIN });
        pane.put_right(y, &format!(" {:>10}", show_size(*size)), PLAIN);
        if at == pick.at {
            pane.paint(y, BAR);
        }
    }
}

fn list_lost(lost: &[Lost], pick: &Pick, pane: &mut Pane<'_>) {
    let first = pick.first(lost.len(), pane.rows());
    for (y, (at, one)) in lost.iter().enumerate().skip(first).take(pane.rows()).enumerate() {
        let y = y as u16;
        let mark = if one.kind == Kind::Directory { "/" } else { "" };
        pane.put(0, y, &format!("{:<8} {}{mark}", one.sureness, one.shown()), PLAIN);
        let mut end = format!(" {:>10}", show_size(one.size));
        if pane.area.width >= WITH_TIMES {
            end += &format!(" {}", local_time(one.modified));
        }
        pane.put_right(y, &end, PLAIN);
        if at == pick.at {
            pane.paint(y, BAR);
        }
    }
}

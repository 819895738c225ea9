//! A table that can be rendered for a terminal, as Markdown and as HTML.

use std::fmt::Write;

/// The meaning of a cell's figure, which decides its colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    /// No special meaning.
    #[default]
    Plain,
    /// Better than the figure that it is compared with, by a degree from 1 to 3.
    Better(u8),
    /// Worse than the figure that it is compared with, by a degree from 1 to 3.
    Worse(u8),
    /// Of less weight, such as a difference within the noise.
    Faint,
}

/// One cell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    /// The text of the cell.
    pub text: String,
    /// The meaning of the text.
    pub tone: Tone,
}

impl Cell {
    /// Makes a cell without a special meaning.
    pub fn plain(text: impl Into<String>) -> Self {
        Cell { text: text.into(), tone: Tone::Plain }
    }

    /// A cell with a meaning.
    pub fn toned(text: impl Into<String>, tone: Tone) -> Self {
        Cell { text: text.into(), tone }
    }
}

/// One column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// The heading.
    pub title: String,
    /// Whether the column holds figures, which are aligned on the right.
    pub figures: bool,
}

impl Column {
    /// A column of words.
    pub fn words(title: impl Into<String>) -> Self {
        Column { title: title.into(), figures: false }
    }

    /// A column of figures.
    pub fn figures(title: impl Into<String>) -> Self {
        Column { title: title.into(), figures: true }
    }
}

/// A table with a caption. Every row has as many cells as there are columns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// The content of the table in words, with units.
    pub caption: String,
    /// The columns, in order.
    pub columns: Vec<Column>,
    /// The rows, each with its cells in the order of the columns.
    pub rows: Vec<Vec<Cell>>,
}

impl Table {
    /// Renders the table for a terminal: aligned with spaces, and with colours if `colour` is set.
    pub fn terminal(&self, colour: bool) -> String {
        let widths = self.widths();
        let mut text = format!("{}\n", styled(&self.caption, "1", colour));
        let mut line = |cells: &mut dyn Iterator<Item = (&str, Option<&'static str>)>| {
            let mut row = String::from(" ");
            for ((cell, style), (width, column)) in cells.zip(widths.iter().zip(&self.columns)) {
                let padding = " ".repeat(width.saturating_sub(cell.chars().count()));
                let cell = style.map_or_else(|| printable(cell), |style| styled(cell, style, colour));
                let (before, after) =
                    if column.figures { (padding.as_str(), "") } else { ("", padding.as_str()) };
                let _ = write!(row, " {before}{cell}{after} ");
            }
            text.push_str(row.trim_end());
            text.push('\n');
        };
        line(&mut self.columns.iter().map(|column| (column.title.as_str(), Some("2"))));
        for row in &self.rows {
            line(&mut row.iter().map(|cell| (cell.text.as_str(), cell.tone.ansi())));
        }
        text
    }

    /// Renders a Markdown table with the caption above it.
    pub fn markdown(&self) -> String {
        let mut text = format!("**{}**\n\n", plain_markdown(&self.caption));
        let row = |cells: &mut dyn Iterator<Item = &str>| {
            let cells: Vec<String> = cells.map(plain_markdown).collect();
            format!("| {} |\n", cells.join(" | "))
        };
        text.push_str(&row(&mut self.columns.iter().map(|column| column.title.as_str())));
        text.push_str(&row(&mut self
            .columns
            .iter()
            .map(|column| if column.figures { "---:" } else { "---" })));
        for cells in &self.rows {
            text.push_str(&row(&mut cells.iter().map(|cell| cell.text.as_str())));
        }
        text
    }

    /// Renders an HTML table in a container that scrolls where the table is too wide.
    pub fn html(&self) -> String {
        let mut text = format!(
            "<div class=scroll tabindex=0 role=region aria-label=\"{0}\"><table><caption>{0}</caption><thead><tr>",
            escape(&self.caption)
        );
        let class = |column: &Column| if column.figures { " class=n" } else { "" };
        for column in &self.columns {
            let _ = write!(text, "<th scope=col{}>{}</th>", class(column), escape(&column.title));
        }
        text.push_str("</tr></thead><tbody>");
        for row in &self.rows {
            text.push_str("<tr>");
            for (index, (cell, column)) in row.iter().zip(&self.columns).enumerate() {
                let inner = match cell.tone {
                    Tone::Plain => escape(&cell.text),
                    tone => format!("<span class={}>{}</span>", tone.class(), escape(&cell.text)),
                };
                // The first cell of a row is its heading.
                let tag = if index == 0 { "th scope=row" } else { "td" };
                let end = if index == 0 { "th" } else { "td" };
                let _ = write!(text, "<{tag}{}>{inner}</{end}>", class(column));
            }
            text.push_str("</tr>");
        }
        text.push_str("</tbody></table></div>");
        text
    }

    /// Splits the table into tables that are at most `width` columns of a terminal wide; the first `keep` columns of
    /// the table are repeated in each. A table with only one further column may be wider.
    pub fn split(self, width: usize, keep: usize) -> Vec<Table> {
        if self.width() <= width || self.columns.len() <= keep + 1 {
            return vec![self];
        }
        let part = |columns: &[usize]| Table {
            caption: self.caption.clone(),
            columns: columns.iter().map(|&index| self.columns[index].clone()).collect(),
            rows: self
                .rows
                .iter()
                .map(|row| columns.iter().map(|&index| row[index].clone()).collect())
                .collect(),
        };
        let kept: Vec<usize> = (0..keep).collect();
        let mut parts = Vec::new();
        let mut columns = kept.clone();
        for index in keep..self.columns.len() {
            columns.push(index);
            if columns.len() > keep + 1 && part(&columns).width() > width {
                columns.pop();
                parts.push(part(&columns));
                columns = kept.clone();
                columns.push(index);
            }
        }
        parts.push(part(&columns));
        parts
    }

    /// The number of columns of a terminal that the table needs.
    pub fn width(&self) -> usize {
        self.widths().iter().map(|width| width + 2).sum()
    }

    fn widths(&self) -> Vec<usize> {
        let cell_width = |index: usize| {
            let cells =
                self.rows.iter().filter_map(move |row| row.get(index)).map(|cell| cell.text.chars().count());
            cells.max().unwrap_or(0)
        };
        let columns = self.columns.iter().enumerate();
        columns.map(|(index, column)| column.title.chars().count().max(cell_width(index))).collect()
    }
}

impl Tone {
    fn ansi(self) -> Option<&'static str> {
        match self {
            Tone::Plain => None,
            Tone::Better(3..) => Some("1;32"),
            Tone::Better(_) => Some("32"),
            Tone::Worse(3..) => Some("1;31"),
            Tone::Worse(2) => Some("31"),
            Tone::Worse(_) => Some("33"),
            Tone::Faint => Some("2"),
        }
    }

    fn class(self) -> &'static str {
        match self {
            Tone::Plain => "plain",
            Tone::Better(1) => "better1",
            Tone::Better(2) => "better2",
            Tone::Better(_) => "better3",
            Tone::Worse(1) => "worse1",
            Tone::Worse(2) => "worse2",
            Tone::Worse(_) => "worse3",
            Tone::Faint => "faint",
        }
    }
}

/// Puts text into an ANSI style if `colour` is set.
pub(crate) fn styled(text: &str, style: &str, colour: bool) -> String {
    let text = printable(text);
    if colour { format!("\x1b[{style}m{text}\x1b[0m") } else { text }
}

/// Replaces control characters in the text: a name in a report must not move the reader's cursor.
pub(crate) fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{FFFD}' } else { c }).collect()
}

/// Escapes text so that Markdown shows it literally, also inside a table.
pub(crate) fn plain_markdown(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for c in printable(text).chars() {
        match c {
            '<' => plain.push_str("&lt;"),
            '&' => plain.push_str("&amp;"),
            '\\' | '|' | '`' | '*' | '_' | '>' | '[' | ']' => {
                plain.push('\\');
                plain.push(c);
            }
            c => plain.push(c),
        }
    }
    plain
}

/// Escapes text for HTML, inside an element or a quoted attribute.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c if c.is_control() && c != '\n' => escaped.push('\u{FFFD}'),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        Table {
            caption: "MB/s".into(),
            columns: vec![Column::words("Case"), Column::figures("raw"), Column::figures("Rel. %")],
            rows: vec![
                vec![Cell::plain("a|b"), Cell::plain("7,004"), Cell::toned("−27.3 %", Tone::Worse(2))],
                vec![Cell::plain("µ"), Cell::plain("9"), Cell::default()],
            ],
        }
    }

    #[test]
    fn terminal_lines_up() {
        assert_eq!(
            table().terminal(false),
            "MB/s\n  Case    raw   Rel. %\n  a|b   7,004  −27.3 %\n  µ         9\n"
        );
        assert!(table().terminal(true).contains("\x1b[31m−27.3 %\x1b[0m"));
        assert_eq!(table().width(), 6 + 7 + 9);
    }

    #[test]
    fn markup_in_names_stays_text() {
        assert!(table().markdown().contains("| a\\|b | 7,004 | −27.3 % |\n"));
        let mut evil = table();
        evil.rows[0][0] = Cell::plain("<script>\x1b[2J");
        assert!(evil.html().contains("&lt;script&gt;"));
        assert!(!evil.terminal(false).contains('\x1b') && !evil.markdown().contains("<script"));
    }
}

//! Reports: one JSON document is the truth, and everything people look at is made from it.
//!
//! [`Document`] holds what was measured; [`statistics`](crate::statistics) turns runs into medians, ratios, verdicts
//! and warnings. A document that was saved can be rendered again at any time, on any machine, to the same result.

pub mod csv;
mod diff;
pub mod document;
pub(crate) mod format;
pub mod html;
pub mod markdown;
mod table;
mod tables;
pub mod terminal;

pub use diff::Diff;
pub use document::Document;
pub use table::{Cell, Column, Table, Tone};

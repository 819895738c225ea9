//! Reports: one JSON document is the truth, and everything people look at is made from it.
//!
//! [`Document`] holds what was measured; [`estimate`](crate::estimate) turns slices into ratios, intervals and
//! verdicts. A document that was saved can be rendered again at any time, on any machine, to the same result.

mod answer;
mod conclude;
pub mod csv;
mod diff;
pub mod document;
pub mod fio;
pub(crate) mod format;
mod grid;
pub mod html;
pub mod markdown;
#[cfg(feature = "parquet")]
pub mod parquet;
pub mod published;
pub(crate) mod table;
mod tables;
pub mod terminal;

pub use diff::Diff;
pub use document::Document;
pub use table::{Cell, Column, Table, Tone};

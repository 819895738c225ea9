//! Reports: everything that people read is rendered from one JSON document.
//!
//! [`Document`] holds the measurements; [`estimate`](crate::estimate) turns slices into ratios, intervals and verdicts.
//! A saved document can be rendered again at any time and on any machine, with the same result.

#[cfg(test)]
mod agreement;
mod answer;
mod circumstances;
mod conclude;
pub mod csv;
mod diff;
pub mod document;
pub mod fio;
pub(crate) mod format;
mod grid;
pub mod html;
pub mod markdown;
mod names;
#[cfg(feature = "parquet")]
pub mod parquet;
pub mod published;
pub(crate) mod steady;
pub(crate) mod table;
mod tables;
pub mod terminal;
pub(crate) mod uncertain;

pub use diff::Diff;
pub use document::Document;
pub use table::{Cell, Column, Table, Tone};

//! Reports: everything that people read is rendered from one JSON document.
//!
//! [`Document`] holds the measurements; [`estimate`](crate::estimate) turns slices into ratios, intervals and verdicts.
//! A saved document can be rendered again at any time and on any machine, with the same result.

mod answer;
mod beside;
mod circumstances;
mod conclude;
pub mod csv;
mod diff;
pub mod fio;
mod grid;
pub mod html;
pub mod markdown;
#[cfg(feature = "parquet")]
pub mod parquet;
pub mod published;
pub(crate) mod table;
mod tables;
pub mod terminal;
#[cfg(test)]
mod tests;
pub(crate) mod uncertain;

pub use crate::document::{self, Document};
pub use diff::Diff;
pub use table::{Cell, Column, Table, Tone};

//! Reports: one JSON document is the truth, and everything people look at is made from it.
//!
//! [`Document`] holds what was measured; [`statistics`](crate::statistics) turns runs into medians, ratios, verdicts
//! and warnings. A document that was saved can be rendered again at any time, on any machine, to the same result.

pub mod document;

pub use document::Document;

//! The storage lab.
#![forbid(unsafe_code)]

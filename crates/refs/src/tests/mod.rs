//! Tests of the whole crate: bytes that Windows wrote and what is kept of them, and forms that Platter does not know.

mod golden;
mod kept;
pub(crate) mod unknown;
pub(crate) mod windows;

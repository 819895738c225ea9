//! DiskSpd: its command lines and XML profiles as workloads, and results in its formats.
//!
//! Facts: the usage text of DiskSpd 2.2, its `diskspd.xsd`, and the results that its unit tests expect
//! (github.com/microsoft/diskspd). Every option is either honoured or refused by name: `docs/diskspd.md` has a table of
//! them.

mod load;
mod options;
mod profile;
mod results;
mod xml;

pub use profile::Profile;

#[cfg(test)]
mod tests;

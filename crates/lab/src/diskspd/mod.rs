//! DiskSpd: its command lines and XML profiles as workloads, and what they measured in its formats.
//!
//! Facts: DiskSpd 2.2's own usage text, its `diskspd.xsd`, and the results that its unit tests expect
//! (github.com/microsoft/diskspd). Every option is taken or refused by name: the table is in `docs/diskspd.md`.

mod load;
mod options;
mod profile;
mod results;
mod xml;

pub use profile::Profile;

#[cfg(test)]
mod tests;

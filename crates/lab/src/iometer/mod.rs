//! Iometer: its configuration files as workloads, and results as its `results.csv`.
//!
//! Facts: the source of Iometer 1.1.0 (github.com/iometer-org/iometer). The files that it saves: `PageSetup.cpp`,
//! `AccessSpecList.cpp`, `ManagerList.cpp`, `Manager.cpp`, `Worker.cpp`; how it draws I/Os: `IOGrunt.cpp`,
//! `IOTarget.cpp`, `IOTargetDisk.cpp`.

mod config;
mod load;
mod results;

pub use config::Config;

#[cfg(test)]
mod tests;

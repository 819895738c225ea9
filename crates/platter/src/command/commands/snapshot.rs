//! `platter snapshot`

use super::attr;
use crate::command::failure::Outcome;
use crate::command::volume::{ReadOptions, WriteOptions};
use clap::{Args, Subcommand};
use std::ffi::OsString;

/// Keep states of a file's content (ReFS)
///
/// A snapshot shares its clusters with the file until the file is changed. The same as `platter attr` with snapshot:NAME.
/// A file on a volume that is mounted is named by its path on the mount.
#[derive(Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    List(List),
    Make(Make),
    Get(Get),
    Remove(Remove),
}

/// List the snapshots of a file
#[derive(Args)]
struct List {
    /// The file
    #[arg(value_name = "IMAGE:/PATH|FILE")]
    path: OsString,
    #[command(flatten)]
    volume: ReadOptions,
}

/// Keep the file's present content under this name
#[derive(Args)]
struct Make {
    /// The file
    #[arg(value_name = "IMAGE:/PATH|FILE")]
    path: OsString,
    /// The name of the snapshot
    name: String,
    #[command(flatten)]
    volume: WriteOptions,
}

/// Print the content that was kept under this name
#[derive(Args)]
struct Get {
    /// The file
    #[arg(value_name = "IMAGE:/PATH|FILE")]
    path: OsString,
    /// The name of the snapshot
    name: String,
    #[command(flatten)]
    volume: ReadOptions,
}

/// Remove a snapshot; the file stays as it is
#[derive(Args)]
struct Remove {
    /// The file
    #[arg(value_name = "IMAGE:/PATH|FILE")]
    path: OsString,
    /// The name of the snapshot
    name: String,
    #[command(flatten)]
    volume: WriteOptions,
}

impl Arguments {
    pub(crate) fn run(self) -> Outcome {
        match self.action {
            Action::List(List { path, volume }) => attr::list_snapshots(path, volume),
            Action::Make(Make { path, name, volume }) => attr::make_snapshot(path, &name, volume),
            Action::Get(Get { path, name, volume }) => attr::print_snapshot(path, &name, volume),
            Action::Remove(Remove { path, name, volume }) => attr::remove_snapshot(path, &name, volume),
        }
    }
}

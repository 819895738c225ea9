//! The list of commands.

use crate::command::commands::{
    attr, browse, cat, check, clone, compare, complete, completions, cp, df, diff, du, endurance, info,
    integrity, journal, label, ls, man, mirror, mkdir, mkfs, model, mount, mv, recover, report, rm, run,
    scrub, serve, snapshot, stat, touch, undo, windows_kit, windows_verdict,
};
#[cfg(target_os = "linux")]
use crate::command::commands::{status, umount};
use crate::command::failure::Outcome;
use crate::command::keys::KeyOptions;
use crate::command::manual;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use std::ffi::OsString;

/// File systems of the Windows world on images and disks, and a lab that compares their speed.
///
/// IMAGE is an image file or a block device. Where its first sectors are a partition table, the only partition that
/// holds a known file system is used, or the one that --partition names.
///
/// Several images with the same content are a mirror, written mirror:IMAGE,IMAGE wherever IMAGE is expected, for
/// example mirror:a.img,b.img:/photos. Writes go to each copy. Where one copy cannot be read, another is read
/// instead, and its content is written back to the first. Each copy is a plain volume by itself, with a record beside
/// it of what was written when. A copy that cannot be written, is missing or is older than the others is left out
/// until `platter mirror rebuild`; one that was written to by itself is refused until you say which copy is to be
/// kept.
///
/// A path on a volume is written IMAGE:/PATH, for example disk.img:/photos/a.jpg. An argument X:/Y names the host's
/// file Y in directory "X:" if there is such a directory (a drive on Windows), and otherwise /Y on the volume in X.
/// IMAGE@2:/PATH is a path on partition 2, so that files can be copied from one partition of a disk to another.
///
/// Sizes take binary units: 4k, 64M, 1.5G, 16T (1k is 1,024 bytes).
#[derive(Parser)]
#[command(name = "platter", version, propagate_version = true, max_term_width = 100)]
pub(super) struct Cli {
    #[command(flatten)]
    pub(crate) keys: KeyOptions,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    Compare(compare::Arguments),
    Run(run::Arguments),
    Endurance(endurance::Arguments),
    Report(report::Arguments),
    Model(model::Arguments),
    Mount(mount::Arguments),
    #[cfg(target_os = "linux")]
    Umount(umount::Arguments),
    #[cfg(target_os = "linux")]
    Status(status::Arguments),
    Mkfs(mkfs::Arguments),
    Info(info::Arguments),
    Df(df::Arguments),
    Label(label::Arguments),
    Ls(ls::Arguments),
    Stat(stat::Arguments),
    Du(du::Arguments),
    Browse(browse::Arguments),
    Cat(cat::Arguments),
    Cp(cp::Arguments),
    Diff(diff::Arguments),
    Clone(clone::Arguments),
    Snapshot(snapshot::Arguments),
    Mkdir(mkdir::Arguments),
    Touch(touch::Arguments),
    Mv(mv::Arguments),
    Rm(rm::Arguments),
    Check(check::Arguments),
    Undo(undo::Arguments),
    Scrub(scrub::Arguments),
    Mirror(mirror::Arguments),
    Serve(serve::Arguments),
    Recover(recover::Arguments),
    Integrity(integrity::Arguments),
    Journal(journal::Arguments),
    Attr(attr::Arguments),
    WindowsKit(windows_kit::Arguments),
    WindowsVerdict(windows_verdict::Arguments),
    Completions(completions::Arguments),
    Complete(complete::Arguments),
    Man(man::Arguments),
}

/// The definition of all arguments, with an example in the help of each command.
pub(super) fn program() -> clap::Command {
    manual::with_examples(Cli::command())
}

/// Parses the arguments, of which the first is the program's name.
pub(super) fn parse(arguments: &[OsString]) -> Result<Cli, clap::Error> {
    let mut program = program();
    let matches = program.try_get_matches_from_mut(arguments)?;
    Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut program))
}

impl Cli {
    /// Carries out the command.
    pub(super) fn run(self) -> Outcome {
        match self.command {
            // A mount has options for these in its list too, and passes them on to a process of its own.
            Command::Mount(arguments) => arguments.run(self.keys),
            command => {
                self.keys.read()?;
                command.run()
            }
        }
    }
}

impl Command {
    fn run(self) -> Outcome {
        match self {
            Command::Compare(arguments) => arguments.run(),
            Command::Run(arguments) => arguments.run(),
            Command::Endurance(arguments) => arguments.run(),
            Command::Report(arguments) => arguments.run(),
            Command::Model(arguments) => arguments.run(),
            Command::Mount(_) => unreachable!("a mount is carried out with its keys"),
            #[cfg(target_os = "linux")]
            Command::Umount(arguments) => arguments.run(),
            #[cfg(target_os = "linux")]
            Command::Status(arguments) => arguments.run(),
            Command::Mkfs(arguments) => arguments.run(),
            Command::Info(arguments) => arguments.run(),
            Command::Df(arguments) => arguments.run(),
            Command::Label(arguments) => arguments.run(),
            Command::Ls(arguments) => arguments.run(),
            Command::Stat(arguments) => arguments.run(),
            Command::Du(arguments) => arguments.run(),
            Command::Browse(arguments) => arguments.run(),
            Command::Cat(arguments) => arguments.run(),
            Command::Cp(arguments) => arguments.run(),
            Command::Diff(arguments) => arguments.run(),
            Command::Clone(arguments) => arguments.run(),
            Command::Snapshot(arguments) => arguments.run(),
            Command::Mkdir(arguments) => arguments.run(),
            Command::Touch(arguments) => arguments.run(),
            Command::Mv(arguments) => arguments.run(),
            Command::Rm(arguments) => arguments.run(),
            Command::Check(arguments) => arguments.run(),
            Command::Undo(arguments) => arguments.run(),
            Command::Scrub(arguments) => arguments.run(),
            Command::Mirror(arguments) => arguments.run(),
            Command::Serve(arguments) => arguments.run(),
            Command::Recover(arguments) => arguments.run(),
            Command::Integrity(arguments) => arguments.run(),
            Command::Journal(arguments) => arguments.run(),
            Command::Attr(arguments) => arguments.run(),
            Command::WindowsKit(arguments) => arguments.run(),
            Command::WindowsVerdict(arguments) => arguments.run(),
            Command::Completions(arguments) => arguments.run(),
            Command::Complete(arguments) => arguments.run(program()),
            Command::Man(arguments) => arguments.run(program()),
        }
    }
}

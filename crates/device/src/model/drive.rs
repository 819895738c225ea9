//! What carries out the commands of a modelled device, behind its link.

/// What a command does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Read,
    Write,
    /// A write that is complete when it is on the medium (force unit access).
    DurableWrite,
    Flush,
}

/// One command on its way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Command {
    /// The number by which its completion is known.
    pub tag: u32,
    pub action: Action,
    /// In bytes.
    pub offset: u64,
    /// In bytes.
    pub length: u64,
}

/// What a drive answers with.
#[derive(Default)]
pub(super) struct Answers {
    /// The tags of commands, and the times in nanoseconds at which they are complete: now or later.
    pub done: Vec<(u64, u32)>,
    /// When the drive has to be called again by itself, if it has.
    pub next: Option<u64>,
}

/// What carries out commands. Times are in nanoseconds of virtual time.
pub(super) trait Drive: Send {
    /// Takes a command.
    fn accept(&mut self, now: u64, command: Command, answers: &mut Answers);

    /// The time that the drive has asked for has come.
    fn go_on(&mut self, now: u64, answers: &mut Answers);

    /// What the drive did so far, in words that a report shows: names and numbers.
    fn work(&self) -> Vec<(&'static str, f64)>;
}

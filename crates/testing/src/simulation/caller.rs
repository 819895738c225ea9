//! One caller of a run: carries out its steps, and notes what came of each.

use super::history::{Action, Call, Moment, Sync};
use super::script::Step;
use super::setting::{hold, of_crowd};
use super::stage::Stage;
use platter_device::sync::point;
use platter_vfs::model::Random;
use platter_vfs::{Change, Error, Integrity, Name, Node, SyncScope};

/// See the module.
pub(super) struct Caller<'s> {
    pub stage: &'s Stage,
    pub number: usize,
    /// The files that all share.
    pub nodes: Vec<Node>,
    /// Files of shared names.
    pub held: Vec<Node>,
    pub random: Random,
}

impl Caller<'_> {
    /// From the first step to the last.
    pub fn live(stage: &Stage, number: usize, script: &[Step], seed: u64) {
        let random = Random::new(seed ^ (number as u64 + 1) << 32);
        let mut caller = Caller { stage, number, nodes: Vec::new(), held: Vec::new(), random };
        for file in 0..stage.files {
            let node = stage.removed[file].map_or_else(|| hold(&*stage.system, file, false), Ok);
            match node {
                Ok(node) => caller.nodes.push(node),
                Err(error) => {
                    caller.expect(&error, "lookup");
                    return;
                }
            }
        }
        for step in script {
            caller.step(step);
        }
        for (file, node) in std::mem::take(&mut caller.nodes).into_iter().enumerate() {
            if stage.removed[file].is_none() {
                stage.system.forget(node, 1);
            }
        }
        stage.history().held.append(&mut caller.held);
    }

    /// Whether an error is one that a sound volume may answer.
    pub fn expect(&self, error: &Error, what: &str) {
        let due = match error {
            Error::NoSpace | Error::Unsupported { .. } => true,
            Error::ReadOnly(why) => why.contains("unmounted") || self.stage.fails,
            Error::Device(_) => self.stage.fails,
            // What has no name any more cannot be found by it.
            Error::NotFound => self.stage.removes(),
            // A check that fails half-way leaves a stream as it was.
            _ => false,
        };
        if !due {
            self.stage.fault(format!("caller {}: {what}: {error}", self.number));
        }
    }

    /// Makes a call and notes it, unless it was refused before it could do anything.
    fn call(&self, file: usize, what: &str, call: impl FnOnce() -> (Action, Result<(), Error>)) {
        let began = self.stage.moment();
        let (action, outcome) = call();
        let returned = self.stage.moment();
        if let Err(error) = &outcome {
            self.expect(error, what);
        }
        let failed = outcome.is_err();
        if failed && matches!(action, Action::Read(..) | Action::Size(_)) {
            return;
        }
        self.stage.note(Call { caller: self.number, file, action, began, returned, failed, planned: false });
    }

    fn step(&mut self, step: &Step) {
        let system = &*self.stage.system;
        let node = |file: &usize| self.nodes[*file];
        match step {
            Step::Write(file, range) => {
                let id = self.stage.id();
                let data = vec![id; (range.end - range.start) as usize];
                self.call(*file, "write", || {
                    (Action::Write(range.clone(), id), system.write(node(file), range.start, &data))
                });
            }
            Step::Read(file, range) => {
                let mut seen = vec![0xEE; (range.end - range.start) as usize];
                self.call(*file, "read", || {
                    let read = system.read(node(file), range.start, &mut seen);
                    seen.truncate(*read.as_ref().unwrap_or(&0));
                    (Action::Read(range.start, range.end - range.start, seen), read.map(drop))
                });
            }
            Step::Planned(file, parts) => self.planned(*file, parts),
            Step::Size(file) => self.call(*file, "attributes", || {
                let size = system.attributes(node(file)).map(|attributes| attributes.size);
                (Action::Size(*size.as_ref().unwrap_or(&0)), size.map(drop))
            }),
            Step::Resize(file, size) => self.call(*file, "resize", || {
                let change = Change { size: Some(*size), ..Change::default() };
                (Action::Resize(*size), system.set_attributes(node(file), &change).map(drop))
            }),
            Step::Punch(file, range) => self.call(*file, "punch", || {
                (Action::Punch(range.clone()), system.punch(node(file), range.clone()))
            }),
            Step::Allocate(file, range) => self.call(*file, "allocate", || {
                // What is refused before anything is done has not made the file longer.
                let outcome = system.allocate(node(file), range.clone(), false);
                let end = if matches!(outcome, Err(Error::Unsupported { .. })) { 0 } else { range.end };
                (Action::Extend(end), outcome)
            }),
            Step::Integrity(file, enabled) => {
                let integrity = Integrity { enabled: *enabled, enforced: true };
                if let Err(error) = system.set_integrity(node(file), integrity) {
                    self.expect(&error, "set integrity");
                }
            }
            Step::Snapshot(file) => self.snapshot(node(file)),
            Step::Clone(from, range) => {
                let to = 1 - from;
                self.call(to, "clone", || {
                    let length = range.end - range.start;
                    let outcome = system.clone_range(node(from), range.start, node(&to), range.start, length);
                    // A range past the end is refused.
                    let refused = matches!(outcome, Err(Error::InvalidArgument(_)));
                    let action =
                        if refused { Action::Extend(0) } else { Action::Clone(range.clone(), *from) };
                    (action, if refused { Ok(()) } else { outcome })
                });
            }
            Step::Shared(step, from, to) => self.shared_name(*step, *from, *to),
            Step::List => self.list(),
            Step::Reopen(file) => self.reopen(*file),
            Step::Remove(file) => self.remove(*file),
            Step::Name(number) => self.name_of_own(*number),
            Step::Crowd => self.crowd(),
            Step::Rest(long) => (0..*long).for_each(|_| point()),
            Step::Look => {
                let now = self.stage.moment();
                self.stage.history().looks.push(now.writes);
            }
            Step::Sync(file, scope) => {
                let began = self.stage.moment();
                let outcome = system.sync(node(file), SyncScope::from(*scope));
                self.synced(Some(*file), began, outcome);
            }
            Step::SyncAll => {
                let began = self.stage.moment();
                let outcome = system.sync_all();
                self.synced(None, began, outcome);
            }
            Step::Unmount => {
                self.stage.history().unmounts = true;
                let began = self.stage.moment();
                let outcome = system.unmount();
                self.synced(None, began, outcome);
            }
        }
    }

    /// Keeps the content under a name of the caller's own, or takes that away again.
    fn snapshot(&self, node: Node) {
        let system = &*self.stage.system;
        let name = Name::from(format!("snapshot {}", self.number).as_str());
        let outcome = match system.create_snapshot(node, &name) {
            Err(Error::Exists) => system.remove_snapshot(node, &name),
            outcome => outcome,
        };
        match outcome {
            // A file without a name has no snapshots.
            Err(Error::InvalidArgument(_)) if self.stage.removes() => {}
            Err(error) => self.expect(&error, "snapshot"),
            Ok(()) => {}
        }
    }

    /// Gives the hold of a file back and takes it anew.
    fn reopen(&mut self, file: usize) {
        let system = &*self.stage.system;
        if self.stage.removed[file].is_some() {
            match hold(system, file, false) {
                Ok(node) => system.forget(node, 1),
                Err(error) => self.expect(&error, "lookup"),
            }
            return;
        }
        system.forget(self.nodes[file], 1);
        self.nodes[file] = loop {
            match hold(system, file, false) {
                Ok(node) => break node,
                // Without a hold on it nothing more can be asked of it. A read that failed once succeeds now.
                Err(error) => self.expect(&error, "lookup"),
            }
            point();
        };
    }

    /// Writes a little of each file of a crowd in place, of which a sync has much to say.
    fn crowd(&self) {
        let system = &*self.stage.system;
        let data = [self.stage.id(); 512];
        for number in 0..self.stage.crowd {
            let outcome = system.lookup(Node::ROOT, &of_crowd(number)).and_then(|node| {
                let written = system.write(node, 0, &data);
                system.forget(node, 1);
                written
            });
            if let Err(error) = outcome {
                self.expect(&error, "one of many");
            }
        }
    }

    fn synced(&self, file: Option<usize>, began: Moment, outcome: Result<(), Error>) {
        let returned = self.stage.moment();
        match outcome {
            Ok(()) => self.stage.history().syncs.push(Sync { file, began, returned }),
            Err(error) => self.expect(&error, "sync"),
        }
    }
}

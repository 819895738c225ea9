//! One caller of a run, which carries out its steps and records the outcome of each.

use super::history::{Action, Call, Sync};
use super::moment::Moment;
use super::script::Step;
use super::setting::{hold, of_crowd};
use super::stage::Stage;
use crate::model::Random;
use platter_vfs::{Change, Error, Integrity, Name, Node, SyncScope};

/// One caller of a run.
pub(super) struct Caller<'s> {
    pub stage: &'s Stage,
    pub number: usize,
    /// The nodes of the shared files, for those that the caller has looked up.
    nodes: Vec<Option<Node>>,
    /// Nodes of files with shared names, and of the crowd, that are held to the end of the run.
    pub held: Vec<Node>,
    pub random: Random,
}

impl Caller<'_> {
    /// Carries out all steps of a caller.
    pub(super) fn live(stage: &Stage, number: usize, script: &[Step], seed: u64) {
        let random = Random::new(seed ^ (number as u64 + 1) << 32);
        let mut caller = Caller { stage, number, nodes: vec![None; stage.files], held: Vec::new(), random };
        for step in script {
            // A step is skipped if one of its files cannot be looked up.
            if step.files().all(|file| caller.hold(file)) {
                caller.step(step);
            }
        }
        (0..stage.files).for_each(|file| caller.release(file));
        stage.history().held.append(&mut caller.held);
    }

    /// Looks up a shared file unless the caller holds its node; returns whether the caller holds it then.
    fn hold(&mut self, file: usize) -> bool {
        if self.nodes[file].is_none() {
            let node = self.stage.removed[file].map_or_else(|| hold(&*self.stage.system, file, false), Ok);
            self.nodes[file] = node.inspect_err(|error| self.expect(error, "lookup")).ok();
        }
        self.nodes[file].is_some()
    }

    /// Forgets the node of a shared file, if the caller holds it.
    fn release(&mut self, file: usize) {
        let held = self.nodes[file].take();
        if let (Some(node), None) = (held, self.stage.removed[file]) {
            self.stage.system.forget(node, 1);
        }
    }

    /// Records a fault unless the error is one that a sound volume may return in this run.
    pub(super) fn expect(&self, error: &Error, what: &str) {
        let due = match error {
            Error::NoSpace | Error::DirectoryFull { .. } | Error::Unsupported { .. } => true,
            Error::ReadOnly(why) => why.contains("unmounted") || self.stage.fails,
            Error::Device(_) => {
                let writes = self.stage.kept.log().writes();
                self.stage.history().failed_at.get_or_insert(writes);
                self.stage.fails
            }
            // A file that lost its name cannot be looked up.
            Error::NotFound => self.stage.removes(),
            // Every other error is a fault.
            _ => false,
        };
        if !due {
            self.stage.fault(format!("caller {}: {what}: {error}", self.number));
        }
    }

    /// Makes a call and records it, unless it is a read that failed.
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
        let (caller, durable) = (self.number, None);
        self.stage.note(Call { caller, file, action, began, returned, failed, planned: false, durable });
    }

    /// The node of a shared file that the caller holds.
    pub(super) fn node(&self, file: usize) -> Node {
        self.nodes[file].expect("taken before the step")
    }

    fn step(&mut self, step: &Step) {
        let system = &*self.stage.system;
        let node = |file: &usize| self.node(*file);
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
            Step::Planned(file, parts, durable, late) => self.planned(*file, parts, *durable, *late),
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
                // An allocation that is refused as unsupported has not extended the file.
                let outcome = system.allocate(node(file), range.clone(), false);
                let end = if matches!(outcome, Err(Error::Unsupported { .. })) { 0 } else { range.end };
                (Action::Extend(end), outcome)
            }),
            Step::Integrity(file, enabled) => {
                let integrity = Integrity { enabled: *enabled, enforced: true };
                if let Err(error) = system.integrity().and_then(|part| part.set(node(file), integrity)) {
                    self.expect(&error, "set integrity");
                }
            }
            Step::Snapshot(file) => self.snapshot(node(file)),
            Step::Clone(from, range) => {
                let to = 1 - from;
                self.call(to, "clone", || {
                    let length = range.end - range.start;
                    let outcome = system.clone_range(node(from), range.start, node(&to), range.start, length);
                    // A range past the end of the file is refused.
                    let refused = matches!(outcome, Err(Error::InvalidArgument(_)));
                    let action =
                        if refused { Action::Extend(0) } else { Action::Clone(range.clone(), *from) };
                    (action, if refused { Ok(()) } else { outcome })
                });
            }
            Step::Shared(step, from, to) => self.shared_name(*step, *from, *to),
            Step::List => self.list(),
            Step::Release(file) => self.release(*file),
            Step::Remove(file) => self.remove(*file),
            Step::Name(number) => self.name_of_own(*number),
            Step::Crowd(held) => self.crowd(*held),
            Step::Rest(long) => rest(*long),
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

    /// Makes a snapshot under a name of the caller's own, or removes it if it exists.
    fn snapshot(&self, node: Node) {
        let system = &*self.stage.system;
        let name = Name::from(format!("snapshot {}", self.number).as_str());
        let outcome = match system.snapshots().and_then(|part| part.create(node, &name)) {
            Err(Error::Exists) => system.snapshots().and_then(|part| part.remove(node, &name)),
            outcome => outcome,
        };
        match outcome {
            // A file without a name has no snapshots.
            Err(Error::InvalidArgument(_)) if self.stage.removes() => {}
            Err(error) => self.expect(&error, "snapshot"),
            Ok(()) => {}
        }
    }

    /// Overwrites 512 bytes of each file of the crowd in place, so that the next sync has much to record.
    fn crowd(&mut self, is_held: bool) {
        let system = &*self.stage.system;
        let data = [self.stage.id(); 512];
        for number in 0..self.stage.crowd {
            let outcome = system.lookup(Node::ROOT, &of_crowd(number)).and_then(|node| {
                let written = system.write(node, 0, &data);
                match is_held {
                    true => self.held.push(node),
                    false => system.forget(node, 1),
                }
                written
            });
            if let Err(error) = outcome {
                self.expect(&error, "one of many");
            }
        }
    }

    pub(super) fn synced(&self, file: Option<usize>, began: Moment, outcome: Result<(), Error>) {
        let returned = self.stage.moment();
        match outcome {
            Ok(()) => self.stage.history().syncs.push(Sync { file, began, returned }),
            Err(error) => self.expect(&error, "sync"),
        }
    }
}

/// Lets other callers go on this many times.
pub(super) fn rest(long: u64) {
    (0..long).for_each(|_| shuttle::thread::yield_now());
}

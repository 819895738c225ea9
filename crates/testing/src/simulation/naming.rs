//! The steps of a caller on names: shared ones, its own, and listings.

use super::caller::Caller;
use super::names::{NameAction, NameCall, Refusal};
use super::script::NameStep;
use super::setting::{STREAM, shared, side};
use platter_vfs::{Cursor, Entry, Error, Kind, Name, Node, RenameFlags};

fn name(number: usize) -> Name {
    Name::from(format!("name {number}").as_str())
}

impl Caller<'_> {
    /// Makes a call on shared names and records its answer.
    pub(super) fn shared_name(&mut self, step: NameStep, from: usize, to: usize) {
        let system = &*self.stage.system;
        let rename = |caller: &Self, flags| {
            let renamed = system.rename(Node::ROOT, &name(from), Node::ROOT, &name(to), flags);
            renamed.map_err(|error| caller.refusal(error))
        };
        match step {
            NameStep::Create => {
                let call = |_: &Self| system.create(Node::ROOT, &name(from), Kind::File);
                self.found(call, |answer| NameAction::Create(from, answer));
            }
            NameStep::Lookup => drop(self.look_up(from)),
            NameStep::Unlink => self.named(|caller| {
                let gone = system.unlink(Node::ROOT, &name(from));
                NameAction::Unlink(from, gone.map_err(|error| caller.refusal(error)))
            }),
            NameStep::Replace => self.named(|caller| {
                let answer = rename(caller, RenameFlags::Replace);
                NameAction::Rename { from, to, replace: true, answer }
            }),
            NameStep::Move => self.named(|caller| {
                let answer = rename(caller, RenameFlags::NoReplace);
                NameAction::Rename { from, to, replace: false, answer }
            }),
            NameStep::Link => {
                let Some(file) = self.look_up(from) else { return };
                self.named(|caller| {
                    let linked = system.link(file, Node::ROOT, &name(to));
                    NameAction::Link(file.0, to, linked.map_err(|error| caller.refusal(error)))
                });
            }
        }
    }

    fn look_up(&mut self, number: usize) -> Option<Node> {
        let system = &*self.stage.system;
        let call = |_: &Self| system.lookup(Node::ROOT, &name(number));
        self.found(call, |answer| NameAction::Lookup(number, answer))
    }

    /// Makes a call that returns a node, which is held to the end, so that no other file gets its number.
    fn found(
        &mut self,
        call: impl FnOnce(&Self) -> Result<Node, Error>,
        action: impl FnOnce(Result<u64, Refusal>) -> NameAction,
    ) -> Option<Node> {
        let mut held = None;
        self.named(|caller| {
            let found = call(caller);
            held = found.as_ref().ok().copied();
            action(found.map(|node| node.0).map_err(|error| caller.refusal(error)))
        });
        self.held.extend(held);
        held
    }

    fn named(&self, call: impl FnOnce(&Self) -> NameAction) {
        let began = self.stage.moment();
        let action = call(self);
        let returned = self.stage.moment();
        self.stage.history().names.push(NameCall { caller: self.number, action, began, returned });
    }

    fn refusal(&self, error: Error) -> Refusal {
        match error {
            Error::NotFound => Refusal::NotFound,
            Error::Exists => Refusal::Exists,
            error => {
                self.expect(&error, "a shared name");
                Refusal::Failed
            }
        }
    }

    /// Removes the name of a shared file, which callers that hold its node continue to use.
    pub(super) fn remove(&self, file: usize) {
        let system = &*self.stage.system;
        let began = self.stage.moment();
        let outcome = match file {
            STREAM => (|| {
                let owner = system.lookup(Node::ROOT, &shared(0))?;
                let removed = system.streams().and_then(|part| part.remove(owner, &side()));
                system.forget(owner, 1);
                removed
            })(),
            _ => system.unlink(Node::ROOT, &shared(file)),
        };
        let returned = self.stage.moment();
        let done = outcome.is_ok();
        match outcome {
            // Another caller has removed the name already.
            Err(Error::NotFound) => {}
            outcome => {
                self.stage.history().removals.push((file, began, returned, done));
                if let Err(error) = outcome {
                    self.expect(&error, "a removal");
                }
            }
        }
    }

    /// Lists the directory in parts of three entries: entries that exist all the while must be listed, and none twice.
    pub(super) fn list(&self) {
        let system = &*self.stage.system;
        let mut entries = Vec::new();
        loop {
            let (before, cursor) =
                (entries.len(), entries.last().map_or(Cursor::START, |last: &Entry| last.next));
            match system.read_directory(Node::ROOT, cursor, 3, &mut entries) {
                Ok(()) if entries.len() == before => break,
                Ok(()) => {}
                Err(error) => return self.expect(&error, "a listing"),
            }
        }
        for file in 0..STREAM {
            let times = entries.iter().filter(|entry| entry.name == shared(file)).count();
            let may_be_gone = self.stage.removed[file].is_some();
            if times > 1 || times == 0 && !may_be_gone {
                self.stage.fault(format!(
                    "caller {}: a listing shows shared file {file} {times} times",
                    self.number
                ));
            }
        }
    }

    /// Creates, writes, and renames or removes an entry that no other caller uses.
    pub(super) fn name_of_own(&self, number: u64) {
        let system = &*self.stage.system;
        let [one, other] =
            ["", " again"].map(|end| Name::from(format!("of caller {}{end}", self.number).as_str()));
        let outcome = (|| {
            let node = match system.create(Node::ROOT, &one, Kind::File) {
                Err(Error::Exists) => system.lookup(Node::ROOT, &one)?,
                node => node?,
            };
            let written = system.write(node, number % 3000, &[0xFF; 700]);
            system.forget(node, 1);
            written?;
            match number % 3 {
                0 => system.rename(Node::ROOT, &one, Node::ROOT, &other, RenameFlags::Replace),
                1 => system.unlink(Node::ROOT, &one),
                _ => Ok(()),
            }
        })();
        if let Err(error) = outcome {
            self.expect(&error, "an entry of its own");
        }
    }
}

//! What takes long, and the lines that are typed for it.

use super::jobs::{Begin, Job, Task, TaskEnd};
use super::{Model, Screen};
use crate::command::browse::key::Key;
use crate::command::browse::lines::{Typed, Typing};
use crate::command::browse::watch::Watch;
use crate::command::view::Part;
use platter::Pattern;
use platter_vfs::Name;
use std::path::PathBuf;
use std::sync::Arc;

/// A line that is being typed, and for what.
#[derive(Debug)]
pub(in crate::command::browse) struct Prompt {
    pub(in crate::command::browse) asked: Asked,
    pub(in crate::command::browse) line: Typed,
}

/// What a line is typed for.
#[derive(Debug)]
pub(in crate::command::browse) enum Asked {
    /// What to search for; the bar was here before.
    Search { before: usize },
    /// Where to copy to.
    Copy(Vec<(Vec<Name>, Part)>),
    /// Where to copy to what is found.
    Recover(Vec<Pattern>),
}

impl Asked {
    /// What stands before the line.
    pub(in crate::command::browse) fn question(&self) -> String {
        match self {
            Asked::Search { .. } => "Search: ".to_string(),
            Asked::Copy(items) if items.len() > 1 => format!("Copy {} entries to: ", items.len()),
            Asked::Copy(_) => "Copy to: ".to_string(),
            Asked::Recover(_) => "Recover to the new directory: ".to_string(),
        }
    }
}

impl Model {
    /// Asks where to copy these contents to.
    pub(super) fn ask_copy(&mut self, items: Vec<(Vec<Name>, Part)>) {
        if items.is_empty() {
            return self.say("nothing is selected");
        }
        let proposed = match &items[..] {
            // A content beside the main one has no name of a file, so that one is proposed.
            [(path, Part::Stream(part) | Part::Snapshot(part))] => {
                let name = path.last().map_or_else(String::new, ToString::to_string);
                format!("{}/{name}.{part}", self.here.trim_end_matches('/'))
            }
            _ => format!("{}/", self.here.trim_end_matches('/')),
        };
        self.prompt = Some(Prompt { asked: Asked::Copy(items), line: Typed::proposing(proposed) });
    }

    /// Asks where to copy to what is found.
    pub(super) fn ask_recover(&mut self, patterns: Vec<Pattern>) {
        let proposed = format!("{}/recovered", self.here.trim_end_matches('/'));
        self.prompt = Some(Prompt { asked: Asked::Recover(patterns), line: Typed::proposing(proposed) });
    }

    pub(super) fn ask_search(&mut self) {
        let before = self.tree.pick.at;
        self.prompt = Some(Prompt { asked: Asked::Search { before }, line: Typed::default() });
    }

    /// A key for the line that is being typed.
    pub(super) fn type_key(&mut self, mut prompt: Prompt, key: Key) -> Vec<Job> {
        let typing = prompt.line.press(key);
        self.typed(prompt, typing)
    }

    /// Text was pasted.
    pub(in crate::command::browse) fn paste(&mut self, text: &str) -> Vec<Job> {
        let Some(mut prompt) = self.prompt.take() else { return Vec::new() };
        prompt.line.add(text);
        self.typed(prompt, Typing::GoesOn)
    }

    fn typed(&mut self, prompt: Prompt, typing: Typing) -> Vec<Job> {
        if let Asked::Search { before } = prompt.asked {
            return self.typed_search(prompt, before, typing);
        }
        match typing {
            Typing::GoesOn => {
                self.prompt = Some(prompt);
                Vec::new()
            }
            Typing::GivenUp => Vec::new(),
            Typing::Entered if prompt.line.text.is_empty() => Vec::new(),
            Typing::Entered => {
                let path = PathBuf::from(&prompt.line.text);
                match prompt.asked {
                    Asked::Copy(items) => self.begin(Task::Copy, Begin::Copy { items, target: path }),
                    Asked::Recover(patterns) => {
                        self.begin(Task::Recovery, Begin::Recover { directory: path, patterns })
                    }
                    Asked::Search { .. } => Vec::new(),
                }
            }
        }
    }

    /// The bar follows what is typed; whoever gives up finds it where it was.
    fn typed_search(&mut self, prompt: Prompt, before: usize, typing: Typing) -> Vec<Job> {
        let text = prompt.line.text.clone();
        match typing {
            Typing::GivenUp => return self.tree.pick_at(before),
            Typing::Entered => {
                self.searched = text;
                return Vec::new();
            }
            Typing::GoesOn => self.prompt = Some(prompt),
        }
        self.tree.pick.at = before;
        match self.tree.next_with(&text, false, true) {
            Some(at) => {
                self.message = None;
                self.tree.pick_at(at)
            }
            None => {
                self.say_bad("no name has this text");
                self.tree.pick_at(before)
            }
        }
    }

    pub(super) fn search_on(&mut self, is_back: bool) -> Vec<Job> {
        let found = self.tree.next_with(&self.searched, is_back, false);
        match found.filter(|_| !self.searched.is_empty()) {
            Some(at) => self.tree.pick_at(at),
            None => {
                self.say_bad("no name has this text; / searches");
                Vec::new()
            }
        }
    }

    /// Begins what takes long, unless something is under way.
    pub(super) fn begin(&mut self, task: Task, begin: Begin) -> Vec<Job> {
        if let Some((other, _)) = &self.task {
            let other = other.word();
            self.say_bad(format!("a {other} is under way; Esc ends it"));
            return Vec::new();
        }
        let watch = Arc::new(Watch::default());
        self.task = Some((task, watch.clone()));
        self.message = None;
        if task == Task::Search {
            let (pick, lost, end) = Default::default();
            self.over.push(Screen::Lost { pick, lost, end });
        }
        vec![Job::Begin(begin, watch)]
    }

    /// Asks what is under way to end; false if nothing is.
    pub(super) fn cancel(&mut self) -> bool {
        match &self.task {
            Some((_, watch)) => {
                watch.stop();
                true
            }
            None => false,
        }
    }

    /// What took long has ended.
    pub(super) fn ended(&mut self, end: TaskEnd) -> Vec<Job> {
        self.task = None;
        if self.is_quitting {
            self.has_quit = true;
        }
        let TaskEnd { task, lines, is_cut_off } = end;
        let word = task.word();
        let is_bad = lines.is_err() && !is_cut_off;
        let lines = match lines {
            Ok(lines) => lines,
            Err(_) if is_cut_off => vec![format!("the {word} was ended")],
            Err(why) => vec![format!("{word}: {why}")],
        };
        let last = lines.last().cloned().unwrap_or_default();
        self.message = Some((last.clone(), is_bad));
        match task {
            Task::Search => {
                for screen in &mut self.over {
                    if let Screen::Lost { end, .. } = screen {
                        *end = Some(last.clone());
                    }
                }
            }
            Task::Check => {
                // The verdict first: the findings may be many.
                let (verdict, findings) =
                    lines.split_last().map_or((last, &[][..]), |(last, rest)| (last.clone(), rest));
                let lines = [verdict].into_iter().chain(findings.iter().cloned()).collect();
                self.show_text("Check".to_string(), lines);
            }
            Task::Copy | Task::Recovery if lines.len() > 1 => {
                let lines = lines.into_iter().rev().collect();
                self.show_text(format!("The {word}"), lines);
            }
            Task::Copy | Task::Recovery => {}
        }
        Vec::new()
    }
}

//! What each key does.

use super::jobs::{Begin, Job, Task};
use super::{Model, Screen};
use crate::command::browse::key::{KEYS, Key, Motion};
use crate::command::browse::pick::{Pick, scroll};
use crate::command::browse::viewer::Viewer;
use crate::command::view::Part;
use platter_vfs::{Kind, Name};

impl Model {
    /// A key was pressed.
    pub(in crate::command::browse) fn press(&mut self, key: Key) -> Vec<Job> {
        if let Some(prompt) = self.prompt.take() {
            return self.type_key(prompt, key);
        }
        if self.task.is_none() {
            self.message = None;
        }
        match key {
            Key::Control('c') | Key::Escape if self.cancel() => return Vec::new(),
            Key::Control('c') => return self.quit(),
            Key::Function(1) | Key::Char('?') => {
                self.help();
                return Vec::new();
            }
            _ => {}
        }
        match self.over.pop() {
            None => self.press_tree(key),
            Some(screen) => self.press_over(screen, key),
        }
    }

    fn help(&mut self) {
        // A second time, the help closes.
        let title = "Keys";
        if matches!(self.over.last(), Some(Screen::Text { title: shown, .. }) if shown == title) {
            self.over.pop();
            return;
        }
        let width = KEYS.iter().map(|(keys, _)| keys.chars().count()).max().unwrap_or(0);
        let lines = KEYS.iter().map(|(keys, what)| format!("{keys:<width$}  {what}")).collect();
        self.show_text(title.to_string(), lines);
    }

    /// Ends, once what is under way has put its things in order; the second time at once.
    fn quit(&mut self) -> Vec<Job> {
        if self.is_quitting || !self.cancel() {
            self.has_quit = true;
        } else {
            self.is_quitting = true;
            let word = self.task.as_ref().map_or("", |(task, _)| task.word());
            self.say(format!("the {word} ends first; q again quits at once"));
        }
        Vec::new()
    }

    fn press_tree(&mut self, key: Key) -> Vec<Job> {
        if let Some(motion) = key.motion() {
            return self.tree.go(motion, self.rows);
        }
        match key {
            Key::Char('q') | Key::Function(10) => return self.quit(),
            Key::Enter | Key::Right | Key::Char('l') => return self.open(),
            Key::Left | Key::Char('h') | Key::Backspace => return self.tree.go_up(),
            Key::Function(3) | Key::Char('v') => return self.view_selected(),
            Key::Function(5) | Key::Char('y') => {
                let items = self.tree.chosen().into_iter().map(|path| (path, Part::Main)).collect();
                self.ask_copy(items);
            }
            Key::Char(' ') | Key::Insert => return self.tree.mark(self.rows),
            Key::Char('/') => self.ask_search(),
            Key::Char('n') => return self.search_on(false),
            Key::Char('N') => return self.search_on(true),
            Key::Char('s') => return self.tree.reorder(),
            Key::Tab => self.tree.is_in_side = !self.tree.is_in_side,
            Key::Char('t') => self.open_parts(),
            Key::Char('i') => return vec![Job::Volume],
            Key::Char('c') => return self.begin(Task::Check, Begin::Check),
            Key::Char('d') => return self.begin(Task::Search, Begin::Search),
            Key::Char('r') => self.ask_recover(Vec::new()),
            _ => {}
        }
        Vec::new()
    }

    /// Enters the selected directory, or views the selected file.
    fn open(&mut self) -> Vec<Job> {
        match self.tree.selected().map(|entry| entry.attributes.kind) {
            Some(Kind::Directory) => {
                let place = self.tree.selected_path().unwrap_or_default();
                self.tree.go_to(place, None)
            }
            Some(Kind::File) => self.view_selected(),
            Some(Kind::SymbolicLink) => {
                self.say("a symbolic link leads to a place on the machine it comes from");
                Vec::new()
            }
            None => Vec::new(),
        }
    }

    fn view_selected(&mut self) -> Vec<Job> {
        match self.tree.selected().map(|entry| entry.attributes.kind) {
            Some(Kind::File) => {
                let path = self.tree.selected_path().unwrap_or_default();
                self.view(path, Part::Main)
            }
            Some(_) => {
                self.say("only files have a content");
                Vec::new()
            }
            None => Vec::new(),
        }
    }

    fn view(&mut self, path: Vec<Name>, part: Part) -> Vec<Job> {
        self.over.push(Screen::View(Viewer::new(path.clone(), part.clone())));
        vec![Job::Read { path, part, offset: 0 }]
    }

    fn open_parts(&mut self) {
        match &self.tree.side {
            Some(Ok(side)) if side.details.parts.is_empty() => self.say("it has no streams and no snapshots"),
            Some(Ok(_)) => self.over.push(Screen::Parts(Pick::default())),
            _ => self.say("it is still being read"),
        }
    }

    /// A key for what lies over the tree; it goes back if the key does not close it.
    fn press_over(&mut self, mut screen: Screen, key: Key) -> Vec<Job> {
        let rows = self.rows;
        let closes = key.goes_back()
            || match screen {
                Screen::View(_) => key == Key::Function(3),
                _ => matches!(key, Key::Left | Key::Char('h')),
            };
        if closes {
            if matches!(screen, Screen::Lost { .. }) && self.is_searching() {
                self.cancel();
            }
            return Vec::new();
        }
        let mut ask = None;
        let mut jobs = Vec::new();
        match &mut screen {
            Screen::View(viewer) => {
                if matches!(key, Key::Function(5) | Key::Char('y')) {
                    ask = Some(vec![(viewer.path.clone(), viewer.part.clone())]);
                } else if let Some(offset) = viewer.press(key, rows) {
                    let (path, part) = (viewer.path.clone(), viewer.part.clone());
                    jobs.push(Job::Read { path, part, offset });
                }
            }
            Screen::Text { lines, top, .. } => {
                let motion = if key == Key::Char(' ') { Some(Motion::PageDown) } else { key.motion() };
                if let Some(motion) = motion {
                    scroll(top, motion, lines.len(), rows);
                }
            }
            Screen::Parts(pick) => {
                let parts = self.tree.side.as_ref().and_then(|side| side.as_ref().ok());
                let parts = parts.map_or(&[][..], |side| &side.details.parts);
                if let Some(motion) = key.motion() {
                    pick.go(motion, parts.len(), rows);
                }
                let part = parts.get(pick.at).map(|(part, _)| part.clone());
                if let (Some(part), Some(path)) = (part, self.tree.selected_path()) {
                    match key {
                        Key::Enter | Key::Right | Key::Char('l' | 'v') | Key::Function(3) => {
                            self.over.push(screen);
                            return self.view(path, part);
                        }
                        Key::Function(5) | Key::Char('y') => ask = Some(vec![(path, part)]),
                        _ => {}
                    }
                }
            }
            Screen::Lost { pick, lost, .. } => {
                if let Some(motion) = key.motion() {
                    pick.go(motion, lost.len(), rows);
                }
                let one = lost.get(pick.at).and_then(crate::command::view::Lost::pattern);
                match key {
                    Key::Function(5) | Key::Char('y') | Key::Enter if one.is_some() => {
                        self.ask_recover(one.into_iter().collect());
                    }
                    Key::Char('r') => self.ask_recover(Vec::new()),
                    _ => {}
                }
            }
        }
        self.over.push(screen);
        if let Some(items) = ask {
            self.ask_copy(items);
        }
        jobs
    }

    fn is_searching(&self) -> bool {
        matches!(self.task, Some((Task::Search, _)))
    }
}

//! All that there is to see, and how keys and answers change it.
//!
//! The model does nothing itself: it returns [`Job`]s, and hears [`Answer`]s.

mod jobs;
mod keys;
mod tasks;
#[cfg(test)]
mod tests;
mod tree;

pub(super) use jobs::{Answer, Begin, Job, Side, Task, TaskEnd};
pub(super) use tasks::Prompt;
pub(super) use tree::Tree;

use super::pick::Pick;
use super::viewer::Viewer;
use super::watch::Watch;
use crate::command::view::{Lost, Shown};
use platter_vfs::Name;
use std::sync::Arc;

/// The screen lines that are not for lists and texts: the head, the message and the keys.
const FRAME: usize = 3;

/// The browser.
#[derive(Debug)]
pub(super) struct Model {
    /// The image, as the user named it.
    pub(super) image: String,
    /// The directory of the host from which paths to copy to begin.
    here: String,
    pub(super) tree: Tree,
    /// What lies over the tree; the last one is seen.
    pub(super) over: Vec<Screen>,
    /// The line that is being typed.
    pub(super) prompt: Option<Prompt>,
    /// What is said, and whether it is bad.
    pub(super) message: Option<(String, bool)>,
    /// What takes long and is under way.
    pub(super) task: Option<(Task, Arc<Watch>)>,
    searched: String,
    rows: usize,
    /// Whether the browser ends as soon as nothing is under way.
    is_quitting: bool,
    pub(super) has_quit: bool,
}

/// What lies over the tree.
#[derive(Debug)]
pub(super) enum Screen {
    /// A content.
    View(Viewer),
    /// The streams and snapshots of the selected file.
    Parts(Pick),
    /// Lines of text.
    Text { title: String, lines: Vec<String>, top: usize },
    /// What is deleted or damaged, and what is said at the end of the search.
    Lost { pick: Pick, lost: Vec<Lost>, end: Option<String> },
}

impl Model {
    /// A browser of an image that begins in a directory; and what is to be read first.
    pub(super) fn new(image: String, here: String, place: Vec<Name>) -> (Model, Vec<Job>) {
        let model = Model {
            image,
            here,
            tree: Tree::new(place.clone()),
            over: Vec::new(),
            prompt: None,
            message: None,
            task: None,
            searched: String::new(),
            rows: 1,
            is_quitting: false,
            has_quit: false,
        };
        (model, vec![Job::List(place)])
    }

    /// The screen has this many lines.
    pub(super) fn resize(&mut self, height: usize) {
        self.rows = height.saturating_sub(FRAME).max(1);
    }

    /// Something was read or done.
    pub(super) fn hear(&mut self, answer: Answer) -> Vec<Job> {
        match answer {
            Answer::Listed { place, listing } => {
                if let Err(why) = &listing {
                    self.say_bad(why.clone());
                }
                self.tree.listed(&place, listing)
            }
            Answer::Looked { path, side } => {
                self.tree.looked(&path, side);
                Vec::new()
            }
            Answer::Read { path, part, offset, window } => {
                let rows = self.rows;
                for screen in &mut self.over {
                    if let Screen::View(viewer) = screen
                        && viewer.path == path
                        && viewer.part == part
                    {
                        viewer.hear(offset, window.clone(), rows);
                    }
                }
                Vec::new()
            }
            Answer::Found(found) => {
                if let Some(lost) = self.over.iter_mut().find_map(Screen::lost) {
                    lost.extend(found);
                }
                Vec::new()
            }
            Answer::Volume(facts) => {
                match facts {
                    Ok(lines) => self.show_text(format!("Volume in {}", self.image), lines),
                    Err(why) => self.say_bad(why),
                }
                Vec::new()
            }
            Answer::Ended(end) => self.ended(end),
        }
    }

    pub(super) fn say(&mut self, what: impl Into<String>) {
        self.message = Some((what.into(), false));
    }

    pub(super) fn say_bad(&mut self, what: impl Into<String>) {
        self.message = Some((what.into(), true));
    }

    fn show_text(&mut self, title: String, lines: Vec<String>) {
        self.over.push(Screen::Text { title, lines, top: 0 });
    }

    /// The head of the screen.
    pub(super) fn title(&self) -> String {
        let selected = || Shown(&self.tree.selected_path().unwrap_or_default()).to_string();
        let what = match self.over.last() {
            None => Shown(&self.tree.place).to_string(),
            Some(Screen::View(viewer)) => format!("{} ({})", Shown(&viewer.path), viewer.part),
            Some(Screen::Parts(_)) => format!("streams and snapshots of {}", selected()),
            Some(Screen::Text { title, .. }) => return title.clone(),
            Some(Screen::Lost { .. }) => "deleted and damaged".to_string(),
        };
        format!("{}: {what}", self.image)
    }
}

impl Screen {
    fn lost(&mut self) -> Option<&mut Vec<Lost>> {
        match self {
            Screen::Lost { lost, .. } => Some(lost),
            _ => None,
        }
    }
}

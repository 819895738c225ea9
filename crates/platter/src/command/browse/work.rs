//! Reading the volume in threads of its own. The screen waits for none of them.

use super::model::{Answer, Begin, Job, Side, Task, TaskEnd};
use super::target::copy;
use super::watch::Watch;
use crate::command::failure::Failure;
use crate::command::view::{Lost, Part, View};
use platter_vfs::{Kind, Name, Progress};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

/// How many found files go to the screen at a time.
const BATCH: usize = 64;

/// Carries out jobs.
pub(super) struct Work {
    view: Arc<View>,
    answers: Sender<Answer>,
    quick: Sender<Job>,
}

impl Work {
    /// Begins to work on a volume; the answers come from what is returned too.
    pub(super) fn new(view: View) -> (Work, Receiver<Answer>) {
        let (answers, heard) = channel();
        let (quick, jobs) = channel();
        let view = Arc::new(view);
        let work = Work { view: view.clone(), answers: answers.clone(), quick };
        thread::spawn(move || work_quickly(&view, &jobs, &answers));
        (work, heard)
    }

    /// Carries out a job, in a thread of its own if it takes long.
    pub(super) fn take(&self, job: Job) {
        match job {
            Job::Begin(begin, watch) => {
                let (view, answers) = (self.view.clone(), self.answers.clone());
                thread::spawn(move || {
                    let end = work_long(&view, begin, &watch, &answers);
                    // Nobody hears it once the browser has ended.
                    let _ = answers.send(Answer::Ended(end));
                });
            }
            // The thread ends with the browser only.
            job => drop(self.quick.send(job)),
        }
    }
}

/// Does what is quick, one after the other. Of what waits, only the last look counts: whoever runs down a list wants to see
/// where they stop.
fn work_quickly(view: &View, jobs: &Receiver<Job>, answers: &Sender<Answer>) {
    while let Ok(first) = jobs.recv() {
        let mut waiting: Vec<Job> = [first].into_iter().chain(jobs.try_iter()).collect();
        let last = waiting.iter().rposition(|job| matches!(job, Job::Look(_)));
        let mut number = 0;
        waiting.retain(|job| {
            number += 1;
            !matches!(job, Job::Look(_)) || Some(number - 1) == last
        });
        for job in waiting {
            let Some(answer) = answer(view, job) else { continue };
            if answers.send(answer).is_err() {
                return;
            }
        }
    }
}

fn answer(view: &View, job: Job) -> Option<Answer> {
    let told = |failure: Failure| failure.to_string();
    Some(match job {
        Job::List(place) => {
            let listing = view.list(&place).map_err(told);
            Answer::Listed { place, listing }
        }
        Job::Look(path) => {
            let side = look(view, &path).map_err(told);
            Answer::Looked { path, side }
        }
        Job::Read { path, part, offset } => {
            let window = view.preview(&path, &part, offset).map_err(told);
            Answer::Read { path, part, offset, window }
        }
        Job::Volume => {
            let line = |(name, value): (&str, String)| format!("{name:<20}  {value}");
            let facts = view.volume().map_err(told);
            Answer::Volume(facts.map(|facts| facts.into_iter().map(line).collect()))
        }
        Job::Begin(..) => return None,
    })
}

fn look(view: &View, path: &[Name]) -> Result<Side, Failure> {
    let details = view.details(path)?;
    let preview = (details.attributes.kind == Kind::File)
        .then(|| view.preview(path, &Part::Main, 0).map_err(|failure| failure.to_string()));
    Ok(Side { details, preview })
}

fn work_long(view: &View, begin: Begin, watch: &Watch, answers: &Sender<Answer>) -> TaskEnd {
    let (task, done) = match begin {
        Begin::Copy { items, target } => (Task::Copy, copy(view, &items, &target, watch)),
        Begin::Check => (Task::Check, view.check(watch)),
        Begin::Search => (Task::Search, search(view, watch, answers)),
        Begin::Recover { directory, patterns } => (Task::Recovery, view.recover(&directory, patterns, watch)),
    };
    TaskEnd { task, lines: done.map_err(|failure| failure.to_string()), is_cut_off: watch.is_stopped() }
}

fn search(view: &View, watch: &Watch, answers: &Sender<Answer>) -> Result<Vec<String>, Failure> {
    let mut found: Vec<Lost> = Vec::new();
    let done = view.lost(watch, &mut |lost| {
        found.push(lost);
        if found.len() == BATCH {
            let _ = answers.send(Answer::Found(std::mem::take(&mut found)));
        }
    });
    let _ = answers.send(Answer::Found(found));
    Ok(vec![done?])
}

//! Comparisons that others published, repeated on models of their devices: device, targets, load, span and time of each, and
//! the published figures beside the model's.
//!
//! Each post is a file (`*.toml`) of *parts*, one comparison each, and of *figures*, which name a cell of a table of
//! `published/*.toml` and the case and target that it is a figure of.

mod external_disks;
#[cfg(test)]
mod tests;

use crate::document::{Beside, BesideFigure, CaseResult, Direction, Document};
use crate::jetstress::{Jetstress, Volumes};
use crate::model::Model;
use crate::naspt::{Naspt, Policy, Set};
use crate::report::published::{self, Source};
use crate::{Comparison, Error, Observer, Preset, Result, Stand, Target};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::time::Duration;

/// The files of all posts.
const FILES: [&str; 5] = [
    include_str!("000.toml"),
    include_str!("001.toml"),
    include_str!("002.toml"),
    include_str!("003.toml"),
    include_str!("004.toml"),
];

/// A published comparison that can be repeated.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Post {
    /// The number by which it is called: `003`.
    pub number: String,
    /// What was compared, in a line.
    pub about: String,
    /// The identifier of the publication among the published tables, if its figures are there.
    source: Option<String>,
    /// What to know about the figures, in sentences.
    #[serde(default)]
    notes: Vec<String>,
    part: Vec<PostPart>,
    #[serde(default)]
    figure: Vec<Figure>,
}

/// One comparison of a post: some targets on one model.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PostPart {
    /// What is behind its targets' names, where the same targets are in several parts.
    #[serde(default)]
    place: String,
    model: String,
    #[serde(default)]
    set: BTreeMap<String, String>,
    targets: Vec<String>,
    loads: Vec<String>,
    /// Bytes that I/Os are spread over.
    span: Option<u64>,
    /// Virtual seconds of a case; with the full preset, those of the publication.
    seconds: Option<f64>,
    full_seconds: Option<f64>,
    #[serde(default)]
    threads: Vec<u32>,
    policy: Option<String>,
}

/// Published figures of one case.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Figure {
    case: String,
    direction: Direction,
    unit: Unit,
    /// Targets, and the table, row and column of what was published of each.
    of: Vec<(String, usize, usize, usize)>,
    /// What is wrong with the published figure.
    note: Option<String>,
}

/// What a figure counts.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
enum Unit {
    #[serde(rename = "IOPS")]
    Iops,
    #[serde(rename = "MB/s")]
    Rate,
    #[serde(rename = "ms")]
    Milliseconds,
    #[serde(rename = "IOPS of the device")]
    Transfers,
}

impl Unit {
    fn name(self) -> &'static str {
        match self {
            Unit::Iops => "IOPS",
            Unit::Rate => "MB/s",
            Unit::Milliseconds => "ms",
            Unit::Transfers => "IOPS of the device",
        }
    }

    /// The figure of a result.
    fn of(self, result: &CaseResult) -> Option<f64> {
        match self {
            Unit::Iops => Some(result.iops),
            Unit::Rate => Some(result.mb_per_s),
            Unit::Milliseconds => Some(result.latency_us.mean / 1e3),
            Unit::Transfers => {
                // Both counts include the time before the measured one.
                let run = result.runs.first()?;
                let (device, asked) = (run.device.as_ref()?, run.requested_of_device());
                let each = (device.reads + device.writes) as f64 / (asked.reads + asked.writes).max(1) as f64;
                Some(result.iops * each)
            }
        }
    }
}

/// How a post is repeated.
#[derive(Clone, Debug, Default)]
pub struct Repeat {
    /// Quick: seconds or less of virtual time for each case. Full: the time of the publication.
    pub preset: Preset,
    /// Virtual time of a case instead of the preset's.
    pub time: Option<Duration>,
    /// Parameters that are set otherwise on every model of the post.
    pub settings: Vec<(String, String)>,
    /// The command line, for the report.
    pub command: String,
}

impl Post {
    /// Every post.
    ///
    /// # Errors
    /// [`Error::Input`] if a file of this crate is no post, which a test keeps from happening.
    pub fn all() -> Result<Vec<Post>> {
        let parse = |text: &str| {
            toml::from_str(text)
                .map_err(|error| Error::Input { name: "post".into(), reason: error.to_string() })
        };
        FILES.into_iter().map(parse).collect()
    }

    /// The post with this number, with or without `post-` before it.
    ///
    /// # Errors
    /// [`Error::Input`]: there is no such post; the reason lists all.
    pub fn named(name: &str) -> Result<Post> {
        let all = Post::all()?;
        let numbers: Vec<&str> = all.iter().map(|post| post.number.as_str()).collect();
        let reason = format!("expected one of {}", numbers.join(", "));
        let number = name.strip_prefix("post-").unwrap_or(name).to_owned();
        let known = all.into_iter().find(|post| post.number == number);
        known.ok_or_else(|| Error::Input { name: format!("post {name}"), reason })
    }

    /// Repeats the post: all its parts one after the other, in one document.
    ///
    /// # Errors
    /// As [`compare`](crate::compare).
    pub fn repeat(&self, repeat: &Repeat, observer: &dyn Observer) -> Result<Document> {
        let documents =
            self.part.iter().map(|part| part.run(repeat, observer)).collect::<Result<Vec<_>>>()?;
        let mut document = put_together(documents);
        document.command.clone_from(&repeat.command);
        document.published_beside = Some(self.beside(&document));
        document.conclude();
        Ok(document)
    }

    fn beside(&self, document: &Document) -> Beside {
        let source = self.source.as_ref();
        let known = source.and_then(|id| published::sources().iter().find(|source| source.id == *id));
        let figures = self.figure.iter().flat_map(|figure| figure.beside(document, known)).collect();
        let statements = match self.number.as_str() {
            "004" => external_disks::statements(document),
            _ => Vec::new(),
        };
        let title = known.map_or_else(|| self.about.clone(), |source| source.title.clone());
        Beside { post: self.number.clone(), title, figures, statements, notes: self.notes.clone() }
    }
}

impl Figure {
    fn beside(&self, document: &Document, source: Option<&Source>) -> Vec<BesideFigure> {
        let of = |(target, table, row, column): &(String, usize, usize, usize)| {
            let published = source?.figure(*table, *row, *column)?;
            let is_it = |result: &&CaseResult| {
                result.target == *target
                    && result.case.name == self.case
                    && result.case.direction == self.direction
            };
            let result = document.results.iter().find(is_it)?;
            Some(BesideFigure {
                case: result.case.label(),
                target: target.clone(),
                unit: self.unit.name().into(),
                published,
                measured: self.unit.of(result)?,
                note: self.note.clone(),
            })
        };
        self.of.iter().filter_map(of).collect()
    }
}

impl PostPart {
    fn run(&self, repeat: &Repeat, observer: &dyn Observer) -> Result<Document> {
        let time = repeat.time.or_else(|| {
            let seconds = match repeat.preset {
                Preset::Quick => self.seconds,
                Preset::Full => self.full_seconds.or(self.seconds),
            };
            seconds.map(Duration::from_secs_f64)
        });
        let document = match self.loads.first().map(String::as_str) {
            Some("jetstress") => crate::jetstress::run(&self.databases(repeat, time)?, observer),
            Some("naspt") => crate::naspt::run(&self.files(repeat)?, observer),
            _ => crate::compare(&self.comparison(repeat, time)?, observer),
        }?;
        Ok(self.placed(document))
    }

    fn stand(&self, repeat: &Repeat) -> Stand {
        let own = self.set.iter().map(|(name, value)| (name.clone(), value.clone()));
        let settings = own.chain(repeat.settings.iter().cloned()).collect();
        Stand::Model(Model { name: self.model.clone(), settings })
    }

    fn targets(&self) -> Result<Vec<Target>> {
        self.targets.iter().map(Target::parse).collect()
    }

    fn comparison(&self, repeat: &Repeat, time: Option<Duration>) -> Result<Comparison> {
        let loads = self.loads.iter().map(|name| crate::load_workloads(name, Preset::Full));
        let workloads = loads.collect::<Result<Vec<_>>>()?.concat();
        Ok(Comparison {
            preset: repeat.preset,
            repeats: Some(1),
            span: self.span,
            time,
            ..Comparison::new(self.stand(repeat), self.targets()?, workloads)
        })
    }

    fn databases(&self, repeat: &Repeat, time: Option<Duration>) -> Result<Jetstress> {
        let volumes = |name: &String| {
            name.parse::<Volumes>().map_err(|reason| Error::Input { name: name.clone(), reason })
        };
        Ok(Jetstress {
            stand: self.stand(repeat),
            volumes: self.targets.iter().map(volumes).collect::<Result<_>>()?,
            preset: repeat.preset,
            repeats: 1,
            time,
            threads: self.threads.clone(),
            base: None,
            discard: false,
            command: String::new(),
        })
    }

    fn files(&self, repeat: &Repeat) -> Result<Naspt> {
        let policy = self.policy.as_deref().unwrap_or("better-performance");
        let policy: Policy =
            policy.parse().map_err(|reason| Error::Input { name: policy.to_owned(), reason })?;
        Ok(Naspt {
            stand: self.stand(repeat),
            targets: self.targets()?,
            policies: vec![policy],
            ages: false,
            sets: vec![Set::Naspt],
            preset: repeat.preset,
            repeats: 1,
            base: None,
            discard: false,
            command: String::new(),
        })
    }

    /// The document with the part's place behind the names of its targets.
    fn placed(&self, mut document: Document) -> Document {
        if self.place.is_empty() {
            return document;
        }
        let placed = |name: &str| placed_name(name, &self.place);
        for target in &mut document.targets {
            target.name = placed(&target.name);
            target.short = target.name.clone();
        }
        document.results.iter_mut().for_each(|result| result.target = placed(&result.target));
        document.settings.base = placed(&document.settings.base);
        document
    }
}

/// A target's name at a place.
fn placed_name(name: &str, place: &str) -> String {
    format!("{name} {place}")
}

/// One document of the documents of all parts: the first one's, with the targets, results, loads and warnings of the others.
fn put_together(documents: Vec<Document>) -> Document {
    let mut documents = documents.into_iter();
    let mut all = documents.next().expect("a post has a part");
    for other in documents {
        let more = other.settings.workloads.into_iter();
        let is_new = |workload: &crate::document::WorkloadSettings| all.workload(&workload.name).is_none();
        let more: Vec<_> = more.filter(is_new).collect();
        all.settings.workloads.extend(more);
        for target in other.targets {
            if all.target(&target.name).is_none() {
                all.targets.push(target);
            }
        }
        all.results.extend(other.results);
        for warning in other.warnings {
            if !all.warnings.contains(&warning) {
                all.warnings.push(warning);
            }
        }
        if all.environment.device.name != other.environment.device.name {
            all.environment.device.name += &format!("; {}", other.environment.device.name);
        }
        all.partial = match (all.partial, other.partial) {
            (Some(one), Some(two)) => Some(format!("{one}; {two}")),
            (one, two) => one.or(two),
        };
    }
    all
}

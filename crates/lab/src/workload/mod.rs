//! Workloads: named sets of cases, read from files.
//!
//! A workload is a TOML file; the built-in ones are in the crate's `workloads/` folder and between them show every key.
//! Sizes are numbers of bytes or text such as `"4k"`, `"1M"`, `"32G"` (powers of 1,024). A fio job file can be read as
//! a workload too: see [`Workload::from_fio`].

mod fio;

use crate::experiment::{Direction, Scoring};
use crate::{CELL, Durability, Error, Pattern, Result};
use platter_device::parse_size;
use serde::Deserialize;
use std::ffi::OsStr;
use std::io::Read;
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

/// The greatest number of workers, as of jobs in fio, and the greatest queue depth, as of a queue of io_uring.
pub(crate) const MOST_WORKERS: u32 = 4096;
pub(crate) const MOST_DEPTH: u32 = 32_768;

/// Which of a workload's two scales is run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Preset {
    /// Small span and short runs: minutes for a whole comparison.
    #[default]
    Quick,
    /// The span and the times of the publications that use this workload: hours.
    Full,
}

impl Preset {
    /// The preset's name, as on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Preset::Quick => "quick",
            Preset::Full => "full",
        }
    }
}

/// A named set of cases.
#[derive(Clone, Debug)]
pub struct Workload {
    /// The workload's name, as on the command line.
    pub name: String,
    /// The workload's title in reports.
    pub title: String,
    /// Where the workload comes from and which use of storage it represents.
    pub description: String,
    /// The seed of every random choice.
    pub seed: u64,
    /// When a write must have become durable, for cases without a rule of their own.
    pub durability: Durability,
    /// Whether I/O goes through the host's page cache instead of past it.
    pub buffered: bool,
    /// The scoring rule of the tool that the workload imitates, if that has one.
    pub scoring: Option<Scoring>,
    /// The number of bytes that I/Os are spread over; 0 while the span is still given as a `share`.
    pub span: u64,
    /// The span as a share of the target, if it is not given in bytes.
    pub share: Option<Share>,
    /// The paths of files, directories and devices that the workload's file names itself; a directory ends in `/`.
    pub paths: Vec<String>,
    /// The number of rounds: how often all cases are run.
    pub repeats: u32,
    /// The cases, in the order they run.
    pub cases: Vec<Case>,
    /// Notes for the report's readers: how the load differs from what other tools would run for the same file.
    pub notes: Vec<String>,
}

/// A share of a target's size, in percent: 1 to 100.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share(pub u8);

/// A part of a span. Its ends are in units of which the whole span has `of`: bytes of the span that the workload's file
/// states, or percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The beginning, in these units.
    pub start: u64,
    /// The end, in these units.
    pub end: u64,
    /// The length of the whole span, in these units.
    pub of: u64,
}

impl Part {
    /// Returns the part in bytes of a span of length `span`, which may differ from the length in the workload's file.
    pub fn range(&self, span: u64) -> Range<u64> {
        // Scaled ends are rounded down to whole cells, and so to whole sectors.
        let at = |place: u64| match (place, self.of) {
            (place, whole) if whole == span => place,
            (place, whole) if place >= whole => span,
            (place, whole) => {
                let bytes = u128::from(span) * u128::from(place) / u128::from(whole.max(1));
                bytes as u64 / CELL as u64 * CELL as u64
            }
        };
        at(self.start)..at(self.end)
    }
}

/// One case of a workload, in one direction.
#[derive(Clone, Debug)]
pub struct Case {
    /// The case's name inside the workload, without the direction.
    pub name: String,
    /// The profiles (named selections of the workload's cases) that the case belongs to.
    pub profiles: Vec<String>,
    /// Reads, writes or both.
    pub direction: Direction,
    /// The access pattern.
    pub pattern: Pattern,
    /// Measured time of a run; zero if the case ends by count alone.
    pub time: Duration,
    /// Time that the load runs before measuring starts.
    pub ramp_up: Duration,
    /// The case ends after this many I/Os of all workers, or after `time` if that comes first and is not zero.
    pub count: Option<u64>,
    /// Whether the case runs in one piece where other cases alternate between targets in slices, because it measures
    /// how a long run develops.
    pub continuous: bool,
    /// The case ends when each worker has done as many I/Os as its span has blocks, this many times over. A comparison
    /// turns this into a `count` once the span is known.
    pub passes: Option<u32>,
    /// Whether the case runs at the same time as the case before it.
    pub beside: bool,
    /// The part of the span that the case stays inside; the whole span if `None`.
    pub part: Option<Part>,
    /// When the case's writes must have become durable; the workload's rule if `None`.
    pub durability: Option<Durability>,
    /// The length of an interval of the timeline where the case runs in one piece; the lab's default if `None`.
    pub interval: Option<Duration>,
}

impl Case {
    /// The case's range in a span of this length, in bytes.
    pub fn range(&self, span: u64) -> Range<u64> {
        self.part.map_or(0..span, |part| part.range(span))
    }
}

/// The built-in workloads: the name and the text of the TOML file.
const BUILT_IN: [(&str, &str); 3] = [
    ("iometer", include_str!("../../workloads/iometer.toml")),
    ("crystaldiskmark", include_str!("../../workloads/crystaldiskmark.toml")),
    ("overhead", include_str!("../../workloads/overhead.toml")),
];

/// Names of the built-in workloads.
pub fn built_in() -> impl Iterator<Item = &'static str> {
    BUILT_IN.iter().map(|(name, _)| *name)
}

impl Workload {
    /// The cases in groups: those of a group run at the same time.
    pub fn groups(&self) -> impl Iterator<Item = &[Case]> {
        self.cases.chunk_by(|_, next| next.beside)
    }

    /// When a case's writes must have become durable.
    pub fn durability_of(&self, case: &Case) -> Durability {
        case.durability.unwrap_or(self.durability)
    }

    /// Loads a built-in workload by name, or a workload from a file by path: a fio job file if the path ends in `.fio`, a
    /// TOML file if it ends in `.toml`, and otherwise what the text is. `NAME:PROFILE` loads only the built-in workload's cases of that profile.
    ///
    /// # Errors
    /// [`Error::Input`] that states the mistake, or lists the names of the built-in workloads.
    pub fn load(name: impl AsRef<OsStr>, preset: Preset) -> Result<Workload> {
        let path = Path::new(name.as_ref());
        if let Some(workload) = path.to_str().and_then(|name| Workload::built_in(name, preset)) {
            return workload;
        }
        let shown = path.display().to_string();
        let text = read_text(path).map_err(|error| {
            let names = built_in().collect::<Vec<_>>().join(", ");
            input(
                &shown,
                format!("no such workload ({error}); built in are {names}, others are .toml or .fio files"),
            )
        })?;
        let stem = path.file_stem().map_or(shown, |stem| stem.to_string_lossy().into_owned());
        let ends_in = |known: &str| path.extension().is_some_and(|own| own.eq_ignore_ascii_case(known));
        // The values of a job file stand without quotation marks, which TOML does not allow.
        let is_toml = ends_in("toml") || toml::from_str::<toml::Table>(&text).is_ok();
        if ends_in("fio") || (!is_toml && fio::is_job_file(&text)) {
            Workload::from_fio(&stem, &text, path.parent())
        } else {
            let hint =
                if ends_in("toml") { "" } else { "; it was read as TOML: a fio job file ends in .fio" };
            Workload::from_toml(&stem, &text, preset).map_err(|error| match error {
                Error::Input { name, reason } => input(&name, format!("{}{hint}", reason.trim_end())),
                other => other,
            })
        }
    }

    /// The built-in workload of this name, if there is one.
    fn built_in(name: &str, preset: Preset) -> Option<Result<Workload>> {
        let (title, profile) = name.split_once(':').map_or((name, None), |(name, rest)| (name, Some(rest)));
        let (_, text) = BUILT_IN.iter().find(|(built_in, _)| *built_in == title)?;
        // The quick preset runs only some directions of a case, but all of them if a profile is asked for.
        Some(Workload::read_toml(name, text, preset, profile.is_some()).and_then(|mut workload| {
            profile.map_or(Ok(()), |profile| workload.keep_profile(profile))?;
            Ok(workload)
        }))
    }

    fn keep_profile(&mut self, profile: &str) -> Result<()> {
        let mut names: Vec<&str> =
            self.cases.iter().flat_map(|case| &case.profiles).map(String::as_str).collect();
        names.sort_unstable();
        names.dedup();
        if !names.contains(&profile) {
            return Err(input(&self.name, format!("no such profile; there are: {}", names.join(", "))));
        }
        self.cases.retain(|case| case.profiles.iter().any(|name| name == profile));
        Ok(())
    }

    /// Reads a workload from TOML.
    ///
    /// # Errors
    /// [`Error::Input`] with the mistake; an unknown key is a mistake too.
    pub fn from_toml(name: &str, text: &str, preset: Preset) -> Result<Workload> {
        Workload::read_toml(name, text, preset, false)
    }

    fn read_toml(name: &str, text: &str, preset: Preset, every_case: bool) -> Result<Workload> {
        let file: File = toml::from_str(text).map_err(|error| input(name, error))?;
        let scale = match preset {
            Preset::Quick => &file.quick,
            Preset::Full => &file.full,
        };
        file.check().map_err(|reason| input(name, reason))?;
        let durability = parse_durability(&file.durability).map_err(|reason| input(name, reason))?;
        let mut cases = Vec::new();
        for case in &file.case {
            let block = u32::try_from(size(name, &case.block)?)
                .map_err(|_| input(name, format!("case {:?}: block is larger than 4 GiB", case.name)))?;
            let directions = match (preset, &case.quick) {
                (Preset::Quick, Some(quick)) if !every_case => quick,
                _ => &case.directions,
            };
            for &direction in directions {
                let read_percent = match (direction, case.read_percent) {
                    (Direction::Read, _) => 100,
                    (Direction::Write, _) => 0,
                    (Direction::Mix, percent) => percent.ok_or_else(|| {
                        input(name, format!("case {:?}: a mix needs read_percent", case.name))
                    })?,
                };
                let pattern = Pattern {
                    block,
                    align: 0,
                    read_percent,
                    random_percent: case.random_percent,
                    workers: case.workers,
                    queue_depth: case.queue_depth,
                    own_span: case.own_span,
                    ..Pattern::default()
                };
                let seconds = match (preset, case.full_seconds) {
                    (Preset::Full, Some(seconds)) => seconds,
                    _ => scale.seconds,
                };
                cases.push(Case {
                    name: case.name.clone(),
                    profiles: case.profiles.clone(),
                    direction,
                    pattern,
                    time: duration(name, seconds)?,
                    ramp_up: duration(name, scale.ramp_up)?,
                    count: None,
                    continuous: preset == Preset::Full && case.continuous,
                    passes: None,
                    beside: false,
                    part: None,
                    durability: None,
                    interval: None,
                });
            }
        }
        if cases.is_empty() {
            return Err(input(name, "it has no case"));
        }
        Ok(Workload {
            name: name.into(),
            title: file.title,
            description: file.description,
            seed: file.seed,
            durability,
            buffered: file.buffered,
            scoring: file.scoring,
            span: size(name, &scale.span)?,
            share: None,
            paths: Vec::new(),
            repeats: scale.repeats,
            cases,
            notes: Vec::new(),
        })
    }

    /// Reads a fio job file; `folder` is the directory that it is in, for the files that it includes.
    ///
    /// # Errors
    /// [`Error::Input`] with the line and key of a setting that cannot be run as fio would run it.
    pub fn from_fio(name: &str, text: &str, folder: Option<&Path>) -> Result<Workload> {
        fio::parse(name, text, folder)
    }
}

/// Reads a text file that a person wrote: in UTF-8, or in UTF-16 with a byte order mark, as PowerShell writes it. Bytes
/// that are neither, as in old comments, are replaced.
pub(crate) fn read_text(path: &Path) -> std::io::Result<String> {
    /// The size limit in bytes, larger than any such file.
    const MOST: u64 = 16 << 20;
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(MOST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MOST {
        return Err(std::io::Error::other(format!("larger than {MOST} bytes")));
    }
    Ok(decode(&bytes))
}

fn decode(bytes: &[u8]) -> String {
    let utf16 = |unit: fn([u8; 2]) -> u16| {
        let units: Vec<u16> = bytes[2..].chunks_exact(2).map(|pair| unit([pair[0], pair[1]])).collect();
        String::from_utf16_lossy(&units)
    };
    match bytes {
        [0xff, 0xfe, ..] => utf16(u16::from_le_bytes),
        [0xfe, 0xff, ..] => utf16(u16::from_be_bytes),
        [0xef, 0xbb, 0xbf, text @ ..] => String::from_utf8_lossy(text).into_owned(),
        text => String::from_utf8_lossy(text).into_owned(),
    }
}

/// Parses a durability: `direct`, `write-through` or `fsync_every=N`.
///
/// # Errors
/// A sentence that states the expected values.
pub fn parse_durability(text: &str) -> std::result::Result<Durability, String> {
    match text {
        "direct" => Ok(Durability::Direct),
        "write-through" => Ok(Durability::WriteThrough),
        _ => match text.strip_prefix("fsync_every=").and_then(|writes| writes.parse().ok()) {
            Some(writes) if writes > 0 => Ok(Durability::FsyncEvery(writes)),
            _ => Err(format!("durability {text:?}: expected direct, write-through or fsync_every=N")),
        },
    }
}

pub(crate) fn input(name: &str, reason: impl std::fmt::Display) -> Error {
    Error::Input { name: name.into(), reason: reason.to_string() }
}

fn size(name: &str, size: &Size) -> Result<u64> {
    match size {
        Size::Bytes(bytes) => Ok(*bytes),
        Size::Text(text) => parse_size(text).map_err(|reason| input(name, reason)),
    }
}

fn duration(name: &str, seconds: f64) -> Result<Duration> {
    Duration::try_from_secs_f64(seconds).map_err(|error| input(name, format!("{seconds} seconds: {error}")))
}

/// A workload file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    title: String,
    description: String,
    #[serde(default = "default_seed")]
    seed: u64,
    durability: String,
    #[serde(default)]
    buffered: bool,
    scoring: Option<Scoring>,
    quick: Scale,
    full: Scale,
    case: Vec<FileCase>,
}

impl File {
    /// Checks what the types of the keys allow and no workload has.
    fn check(&self) -> std::result::Result<(), String> {
        if self.quick.repeats == 0 || self.full.repeats == 0 {
            return Err("repeats = 0: expected 1 or more".into());
        }
        for case in &self.case {
            if case.name.trim().is_empty() {
                return Err("a case has an empty name".into());
            }
            for (key, directions) in [("directions", Some(&case.directions)), ("quick", case.quick.as_ref())]
            {
                let Some(directions) = directions else { continue };
                let is_twice = |(index, direction)| directions[..index].contains(direction);
                if let Some((_, twice)) = directions.iter().enumerate().find(|&pair| is_twice(pair)) {
                    return Err(format!("case {:?}: {} is twice in {key}", case.name, twice.name()));
                }
            }
            if case.directions.is_empty() {
                return Err(format!("case {:?}: directions is empty", case.name));
            }
        }
        Ok(())
    }
}

fn default_seed() -> u64 {
    8664
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Scale {
    span: Size,
    seconds: f64,
    #[serde(default)]
    ramp_up: f64,
    #[serde(default = "one")]
    repeats: u32,
}

fn one() -> u32 {
    1
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileCase {
    name: String,
    #[serde(default)]
    profiles: Vec<String>,
    directions: Vec<Direction>,
    /// The directions that the quick preset runs; all if `None`.
    quick: Option<Vec<Direction>>,
    read_percent: Option<u8>,
    block: Size,
    random_percent: u8,
    queue_depth: u32,
    workers: u32,
    #[serde(default)]
    own_span: bool,
    full_seconds: Option<f64>,
    #[serde(default)]
    continuous: bool,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Size {
    Bytes(u64),
    Text(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_workloads_have_the_published_figures() {
        let iometer = Workload::load("iometer", Preset::Full).unwrap();
        assert_eq!((iometer.seed, iometer.span, iometer.cases.len()), (8664, 32 << 30, 4));
        let read = &iometer.cases[0];
        assert_eq!((read.pattern.workers, read.pattern.queue_depth, read.pattern.block), (8, 32, 4096));
        assert_eq!(read.time, Duration::from_secs(60));
        assert_eq!(iometer.cases[3].time, Duration::from_secs(12 * 3600));
        let cells = Workload::load("crystaldiskmark", Preset::Full).unwrap();
        assert_eq!((cells.cases.len(), cells.repeats, cells.scoring), (18, 5, Some(Scoring::Best)));
        let quick = ["iometer", "crystaldiskmark"]
            .map(|name| Workload::load(name, Preset::Quick).unwrap().cases.len());
        assert_eq!(quick, [3, 8]);
        assert_eq!(cells.cases[2].pattern.read_percent, 70);
        let nvme = Workload::load("crystaldiskmark:nvme", Preset::Quick).unwrap();
        let names: Vec<&str> = nvme.cases.iter().map(|case| case.name.as_str()).step_by(3).collect();
        assert_eq!(names, ["SEQ1M Q8T1", "SEQ128K Q32T1", "RND4K Q32T16", "RND4K Q1T1"]);
        let unknown = Workload::load("crystaldiskmark:sata", Preset::Quick).unwrap_err().to_string();
        assert!(unknown.contains("default, nvme"), "{unknown}");
        assert!(built_in().all(|name| Workload::load(name, Preset::Quick).is_ok()));
    }

    #[test]
    fn a_file_may_come_from_windows() {
        let folder = tempfile::tempdir().unwrap();
        let job = "[a]\nrw=read\nsize=1m\ndirect=1\n";
        let units = |mark: u16| std::iter::once(mark).chain(job.encode_utf16());
        for (name, bytes) in [
            ("JOB.FIO", job.as_bytes().to_vec()),
            ("marked.fio", [b"\xef\xbb\xbf", job.as_bytes()].concat()),
            ("little.fio", units(0xfeff).flat_map(u16::to_le_bytes).collect()),
            ("big.fio", units(0xfeff).flat_map(u16::to_be_bytes).collect()),
        ] {
            let path = folder.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            let read = Workload::load(&path, Preset::Quick).unwrap();
            assert_eq!((read.span, read.cases.len()), (1 << 20, 1), "{name}");
        }
    }

    #[test]
    fn a_job_file_is_known_by_its_text_if_its_name_does_not_tell() {
        let folder = tempfile::tempdir().unwrap();
        let load = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            Workload::load(&path, Preset::Quick).map_err(|error| error.to_string())
        };
        for name in ["job.ini", "job.job", "job"] {
            assert_eq!(
                load(name, "[global]\nrw=read\nsize=4m\n[a]\nbs=4k\n").unwrap().span,
                4 << 20,
                "{name}"
            );
        }
        let wrong = load("job.ini", "[a]\nrw=none\nsize=4m\n").unwrap_err();
        assert!(wrong.contains("line 2: rw=none"), "{wrong}");
        let toml = include_str!("../../workloads/iometer.toml");
        assert!(load("mine.txt", toml).is_ok());
        let neither = load("job.txt", "what is this\n").unwrap_err();
        assert!(neither.contains("ends in .fio"), "{neither}");
        assert!(!load("mine.toml", "[a]\nrw=read\n").unwrap_err().contains(".fio"));
    }

    #[test]
    fn what_no_workload_has_is_refused() {
        let text = include_str!("../../workloads/iometer.toml");
        Workload::from_toml("mine", text, Preset::Quick).unwrap();
        let head = "title=\"t\"\ndescription=\"d\"\ndurability=\"direct\"\n[quick]\nspan=\"16M\"\nseconds=1\n\
                    [full]\nspan=\"16M\"\nseconds=1\nREPEATS\n[[case]]\nname=\"c\"\ndirections=[\"read\"]\nblock=\"4k\"\n\
                    random_percent=100\nqueue_depth=4\nworkers=1\n";
        let with = |from: &str, to: &str| {
            let text = head.replace(from, to).replace("REPEATS", "");
            Workload::from_toml("mine", &text, Preset::Quick).map_err(|error| error.to_string())
        };
        assert!(with("none", "").is_ok());
        for (from, to, words) in [
            ("REPEATS", "repeats=0", "repeats = 0"),
            ("name=\"c\"", "name=\"\"", "empty name"),
            ("[\"read\"]", "[\"read\",\"write\",\"read\"]", "read is twice in directions"),
            ("[\"read\"]", "[]", "directions is empty"),
            ("block=", "quick=[\"read\",\"read\"]\nblock=", "read is twice in quick"),
        ] {
            let error = with(from, to).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn an_unknown_key_is_named() {
        let text = include_str!("../../workloads/iometer.toml").replace("block = ", "blok = ");
        let error = Workload::from_toml("mine", &text, Preset::Quick).unwrap_err().to_string();
        assert!(error.contains("mine") && error.contains("blok"), "{error}");
    }
}

//! Code that the lab's commands share: the options of a comparison, its progress, and its reports on disk.

mod meter;
mod reports;
mod runs;

pub(super) use meter::Meter;
pub(super) use reports::{Reports, write};
pub(super) use runs::{Runs, measure_programs};

use crate::command::failure::{About, Failure, INTERRUPTED, USAGE};
use crate::command::output::Output;
use clap::Args;
use platter::{Source, SourceKind};
use platter_device::host::HostBytes;
use platter_device::{
    Error, FileDevice, FileOptions, parse_size, refuse_any_data, refuse_contents, refuse_data,
    refuse_evidence, refuse_in_use,
};
use platter_images::Container;
use platter_lab::jetstress::{Jetstress, Volumes};
use platter_lab::model::Model;
use platter_lab::naspt::{Naspt, Policy, Set};
use platter_lab::post::{Post, Repeat};
use platter_lab::report::Document;
use platter_lab::workload::{Case, built_in, parse_durability};
use platter_lab::{
    Comparison, Durability, Measured, Preset, Stand, Target, Workload, device_path, load_workloads,
};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The options of a comparison: its device, and how the load runs.
#[derive(Args)]
pub(super) struct Choices {
    /// Few cases, a small span and short times: three minutes for seven targets. The default
    #[arg(long, conflicts_with = "full")]
    quick: bool,

    /// The spans and times of the published comparisons: hours
    #[arg(long)]
    full: bool,

    /// The device: an image file (made if it is not there), a block device, several of them as mirror:IMAGE,IMAGE,
    /// mem:SIZE, or model:NAME, a model of a device in virtual time (docs/models.md); its content is lost [default: a
    /// temporary image file]
    #[arg(long, value_name = "IMAGE|DEVICE|mem:SIZE|model:NAME")]
    device: Option<OsString>,

    /// Set parameters of the model that --device names: write_cache=off,link=usb2
    #[arg(long, value_name = "KEY=VALUE,...", value_delimiter = ',', value_parser = parse_setting)]
    set: Vec<(String, String)>,

    /// Overwrite a device that holds a file system or a partition table, or an image file that holds anything; never one
    /// that is in use
    #[arg(long)]
    force: bool,

    /// The target that the others are compared with [default: raw, or else the first]
    #[arg(long, value_name = "TARGET")]
    base: Option<String>,

    /// How often all cases are run, instead of the workload's own number
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    repeat: Option<u32>,

    /// When a write counts as done, instead of the workload's own rule: direct (past the caches, volatile until a
    /// flush), write-through (durable when the call returns), or fsync_every=N
    #[arg(long, value_name = "RULE", value_parser = parse_durability)]
    durability: Option<Durability>,

    /// Through the host's page cache instead of past it: what an ordinary program sees, memory included
    #[arg(long)]
    buffered: bool,

    /// Bytes that I/Os are spread over, instead of the workload's own
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    span: Option<u64>,

    /// Measured time of each case on each target, instead of the workload's own: seconds, or 90s, 10m, 12h; four times as
    /// much tells differences half as large. A case goes over its span again and again until then, as in fio with time_based
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    time: Option<Duration>,

    /// Measure each case until differences of this size would be told: 5%. Not for longer than --time on each target, or
    /// ten times the case's own time
    #[arg(long, value_name = "PERCENT", value_parser = parse_share)]
    until: Option<f64>,

    /// Make each volume without a named cluster size a target with each of these sizes: cluster=4k,64k
    #[arg(long, value_name = "cluster=SIZE,...", value_parser = parse_sweep)]
    sweep: Option<Sweep>,

    /// Check every block that is read against what was last written there; exit code 1 if one is wrong
    #[arg(long)]
    verify: bool,

    /// Discard (TRIM) each target's region before the target is made. Without it nothing is discarded: an SSD of which
    /// nothing is in use is faster than it is in service
    #[arg(long)]
    discard: bool,

    /// Fill the targets' regions and then overwrite them at random in rounds of this time, until the rate is steady as
    /// SNIA's test defines it, before anything is made on them: for an SSD as it is in service
    #[arg(long, value_name = "TIME", num_args = 0..=1, default_missing_value = "60s", value_parser = parse_time)]
    precondition: Option<Duration>,

    /// Touch every cache line of data after it is read and before it is written, as programs do that use their data
    /// and benchmarks do not
    #[arg(long)]
    touch: bool,

    /// The name of this machine among many: reports with the same name are put together as one machine, whatever their
    /// hosts are called. The same as --label machine=NAME
    #[arg(long, value_name = "NAME")]
    machine: Option<String>,

    /// Add a label to the report, by which reports of many machines can be grouped: rack=b7. May be given several
    /// times
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = parse_label)]
    labels: Vec<(String, String)>,

    /// Also append the report to a directory of Parquet files, for query engines and data frames; made if it is not
    /// there. The columns are in docs/machines.md
    #[cfg(feature = "parquet")]
    #[arg(long, value_name = "DIR")]
    parquet: Option<PathBuf>,
}

fn parse_label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() && !value.is_empty() => Ok((name.into(), value.into())),
        _ => Err("expected NAME=VALUE".into()),
    }
}

fn parse_setting(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() && !value.is_empty() => Ok((name.into(), value.into())),
        _ => Err("expected KEY=VALUE".into()),
    }
}

/// The labels that go into a report, and the Parquet directory that the report is appended to, if any.
pub(super) struct Marks {
    labels: BTreeMap<String, String>,
    #[cfg(feature = "parquet")]
    parquet: Option<PathBuf>,
}

impl Marks {
    /// Returns the report with the labels added.
    pub(super) fn on(&self, document: Document) -> Document {
        Document { labels: self.labels.clone(), ..document }
    }

    /// Appends the report to the Parquet directory, if one was named, and returns the path written.
    pub(super) fn append(&self, document: &Document) -> Result<Option<PathBuf>, Failure> {
        #[cfg(feature = "parquet")]
        if let Some(directory) = &self.parquet {
            let path = platter_lab::report::parquet::append(document, directory);
            return Ok(Some(path.about(directory.display())?));
        }
        let _ = document;
        Ok(None)
    }
}

/// Parses a share in percent, with or without the sign.
fn parse_share(text: &str) -> Result<f64, String> {
    match text.strip_suffix('%').unwrap_or(text).trim().parse::<f64>() {
        Ok(percent) if (0.1..=100.0).contains(&percent) => Ok(percent / 100.0),
        _ => Err("expected a difference of 0.1% to 100%".into()),
    }
}

/// The cluster sizes in bytes that `--sweep` names.
#[derive(Clone, Debug)]
struct Sweep(Vec<u64>);

fn parse_sweep(text: &str) -> Result<Sweep, String> {
    let sizes = text.strip_prefix("cluster=").ok_or("expected cluster=SIZE,SIZE")?;
    sizes.split(',').map(parse_size).collect::<Result<Vec<u64>, String>>().map(Sweep)
}

/// The longest time that is taken, in seconds: 31 years.
const LONGEST: f64 = 1e9;

/// Parses a time: a number of seconds, or a number with its unit (90s, 45m, 12h, 2d).
pub(super) fn parse_time(text: &str) -> Result<Duration, String> {
    let wrong = || "expected a time like 90s, 45m or 12h".to_string();
    // An exponent is part of a number: 1e3.
    let unit = text.trim_end_matches(|c: char| c.is_ascii_alphabetic()).len();
    let (number, unit) = text.split_at(unit);
    let factor = match unit {
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        _ => return Err(wrong()),
    };
    let seconds = number.parse::<f64>().map_err(|_| wrong())? * factor;
    match seconds {
        seconds if seconds.is_nan() => Err(wrong()),
        seconds if seconds <= 0.0 => Err("expected more than 0 seconds".into()),
        seconds if seconds > LONGEST => {
            Err(format!("expected at most {LONGEST} seconds, which are 31 years"))
        }
        seconds => Ok(Duration::from_secs_f64(seconds)),
    }
}

impl Choices {
    /// Returns the report's labels and Parquet directory, which is made here, before anything is measured.
    pub(super) fn marks(&self) -> Result<Marks, Failure> {
        #[cfg(feature = "parquet")]
        if let Some(directory) = &self.parquet {
            std::fs::create_dir_all(directory).about(directory.display())?;
        }
        let machine = self.machine.iter().map(|name| ("machine".to_string(), name.clone()));
        let mut labels: BTreeMap<String, String> = BTreeMap::new();
        for (name, value) in self.labels.iter().cloned().chain(machine) {
            if let Some(first) = labels.insert(name.clone(), value.clone()) {
                let why = format!("{name} is given twice: {first} and {value}; a report is of one of them");
                return Err(Failure::new("--label", why).with_code(USAGE));
            }
        }
        Ok(Marks {
            labels,
            #[cfg(feature = "parquet")]
            parquet: self.parquet.clone(),
        })
    }

    /// Whether `--device` names a device.
    pub(super) fn has_device(&self) -> bool {
        self.device.is_some()
    }

    /// Parses target names. A volume without a cluster size becomes one target for each cluster size of the sweep.
    fn targets(&self, names: &[OsString]) -> Result<Vec<Target>, Failure> {
        let targets = names.iter().map(Target::parse).collect::<Result<Vec<_>, _>>()?;
        let Some(Sweep(sizes)) = &self.sweep else { return Ok(targets) };
        let swept = |target: Target| match target {
            Target::Volume { format, cluster: None } => {
                sizes.iter().map(|&size| Target::Volume { format, cluster: Some(size) }).collect()
            }
            other => vec![other],
        };
        let all: Vec<Target> = targets.iter().cloned().flat_map(swept).collect();
        match all.len() == targets.len() && sizes.len() > 1 {
            true => Err(Failure::new(
                "--sweep",
                "every volume that is named has its cluster size, or there is none",
            )
            .with_code(USAGE)),
            false => Ok(all),
        }
    }

    fn preset(&self) -> Preset {
        if self.full { Preset::Full } else { Preset::Quick }
    }

    /// Builds the comparison that the options describe. A temporary image is made in `directory`. `is_chosen` says whether
    /// the user named the targets.
    pub(super) fn comparison(
        self,
        targets: &[OsString],
        is_chosen: bool,
        workloads: &[OsString],
        directory: &Path,
    ) -> Result<Comparison, Failure> {
        workloads.iter().try_for_each(|name| refuse_unknown(name))?;
        let loaded = workloads.iter().map(|name| load_workloads(name, self.preset()));
        let workloads = loaded.collect::<Result<Vec<_>, _>>()?.concat();
        self.refuse_what_is_named_elsewhere(&workloads, is_chosen)?;
        self.comparison_of(targets, workloads, directory)
    }

    /// Refuses a workload whose own file names what is to be measured, where nothing on the command line does: figures
    /// of a temporary image would be taken for those of the disk that is named.
    fn refuse_what_is_named_elsewhere(&self, workloads: &[Workload], is_chosen: bool) -> Result<(), Failure> {
        if self.has_device() {
            return Ok(());
        }
        let paths: Vec<&str> =
            workloads.iter().flat_map(|workload| &workload.paths).map(String::as_str).collect();
        if let Some(device) = paths
            .iter()
            .find(|path| cfg!(unix) && path.starts_with("/dev/") && !path.starts_with("/dev/shm/"))
        {
            let why = format!(
                "the job file names this device, and nothing else: name it with --device {device} too, as what it holds is \
                 lost; or name another --device"
            );
            return Err(Failure::new(device, why).with_code(USAGE));
        }
        let folder = |path: &&str| path.rsplit_once('/').map_or(".", |(folder, _)| folder).to_owned();
        let mut folders: Vec<String> = paths.iter().map(folder).collect();
        folders.sort();
        folders.dedup();
        if is_chosen || folders.is_empty() {
            return Ok(());
        }
        let targets: Vec<String> = folders.iter().map(|folder| format!("dir:{folder}")).collect();
        let how = match &targets[..] {
            [one] => format!("--target {one} (with compare --targets)"),
            all => format!("compare --targets {}", all.join(",")),
        };
        let why =
            format!("the job file's filename or directory; name what is to be measured: {how}, or --device");
        Err(Failure::new(paths[0], why).with_code(USAGE))
    }

    /// Builds a comparison under loads on files.
    pub(super) fn naspt(
        self,
        sets: Vec<Set>,
        targets: &[OsString],
        policies: Policies,
        directory: &Path,
    ) -> Result<Naspt, Failure> {
        self.refuse_what_files_have(&[("--time", self.time.is_some()), ("--until", self.until.is_some())])?;
        Ok(Naspt {
            stand: self.stand(directory)?,
            targets: self.targets(targets)?,
            sets,
            policies: policies.policy,
            ages: policies.age,
            preset: self.preset(),
            repeats: self.repeat.unwrap_or(if self.full { 3 } else { 1 }),
            base: self.base,
            discard: self.discard,
            command: command_line(),
        })
    }

    /// Builds a Jetstress comparison on the volumes of `policies`; if there are none, databases and logs lie together on each
    /// target.
    pub(super) fn jetstress(
        self,
        policies: Policies,
        targets: &[OsString],
        directory: &Path,
    ) -> Result<Jetstress, Failure> {
        let Policies { volumes, threads, .. } = policies;
        self.refuse_what_files_have(&[("--until", self.until.is_some())])?;
        let volumes = match volumes.is_empty() {
            false => volumes,
            true => {
                let both = |target: Target| Volumes { db: target.clone(), log: target };
                self.targets(targets)?.into_iter().map(both).collect()
            }
        };
        Ok(Jetstress {
            stand: self.stand(directory)?,
            volumes,
            preset: self.preset(),
            repeats: self.repeat.unwrap_or(if self.full { 3 } else { 1 }),
            time: self.time,
            threads,
            base: self.base,
            discard: self.discard,
            command: command_line(),
        })
    }

    /// How a post is repeated; options that its models and loads have themselves are refused.
    pub(super) fn repeat(&self) -> Result<Repeat, Failure> {
        let no_meaning = [
            ("--force", self.force),
            ("--base", self.base.is_some()),
            ("--repeat", self.repeat.is_some()),
            ("--sweep", self.sweep.is_some()),
            ("--discard", self.discard),
            ("--until", self.until.is_some()),
        ];
        let rest = self.of_files();
        match no_meaning.iter().chain(&rest).find(|(_, is_given)| *is_given) {
            Some((option, _)) => {
                Err(Failure::new(option, "a post says this itself; --set, --time and --full change it")
                    .with_code(USAGE))
            }
            None => Ok(Repeat {
                preset: self.preset(),
                time: self.time,
                settings: self.set.clone(),
                command: command_line(),
            }),
        }
    }

    /// The options that say how I/Os go, which loads with files of their own do not have.
    fn of_files(&self) -> [(&'static str, bool); 6] {
        [
            ("--durability", self.durability.is_some()),
            ("--buffered", self.buffered),
            ("--span", self.span.is_some()),
            ("--verify", self.verify),
            ("--precondition", self.precondition.is_some()),
            ("--touch", self.touch),
        ]
    }

    /// Refuses the options that have no meaning for loads on files, which make files of their own.
    fn refuse_what_files_have(&self, more: &[(&str, bool)]) -> Result<(), Failure> {
        match self.of_files().iter().chain(more).find(|(_, is_given)| *is_given) {
            Some((option, _)) => {
                let why = "loads on files have files of their own; --policy says how they are written";
                Err(Failure::new(option, why).with_code(USAGE))
            }
            None => Ok(()),
        }
    }

    /// Builds the comparison under these workloads.
    pub(super) fn comparison_of(
        self,
        targets: &[OsString],
        workloads: Vec<Workload>,
        directory: &Path,
    ) -> Result<Comparison, Failure> {
        let preset = self.preset();
        let targets = self.targets(targets)?;
        let stand = self.stand(directory)?;
        Ok(Comparison {
            preset,
            base: self.base,
            repeats: self.repeat,
            durability: self.durability,
            span: self.span,
            time: self.time,
            until: self.until,
            buffered: self.buffered,
            verify: self.verify,
            touch: self.touch,
            discard: self.discard,
            precondition: self.precondition,
            command: command_line(),
            ..Comparison::new(stand, targets, workloads)
        })
    }

    fn stand(&self, directory: &Path) -> Result<Stand, Failure> {
        stand(self.device.as_deref(), &self.set, self.force, directory)
    }
}

/// The device that `--device` names, or a temporary image in `directory`. `set` are parameters of a model, `force` whether
/// content is overwritten.
pub(super) fn stand(
    device: Option<&OsStr>,
    set: &[(String, String)],
    force: bool,
    directory: &Path,
) -> Result<Stand, Failure> {
    let model = device.and_then(|device| device.as_bytes().strip_prefix(b"model:"));
    if let Some(name) = model {
        let name = String::from_utf8_lossy(name).into_owned();
        let model = Model { name, settings: set.to_vec() };
        // Whatever is wrong with it is told before anything else is.
        model.device()?;
        return Ok(Stand::Model(model));
    }
    if !set.is_empty() {
        let why = "a model has parameters to set, and --device names none: --device model:NAME";
        return Err(Failure::new("--set", why).with_code(USAGE));
    }
    let Some(device) = device else { return Ok(Stand::TemporaryImage(directory.into())) };
    if let Some(size) = device.as_bytes().strip_prefix(b"mem:") {
        let size = parse_size(&String::from_utf8_lossy(size));
        let wrong = |error| Failure::new(device.display(), error).with_code(USAGE);
        return size.map(Stand::Memory).map_err(wrong);
    }
    let mut image = Source::whole(device)?;
    image.refuse_single_copy()?;
    image.refuse_dynamic()?;
    for path in &mut image.paths {
        if let Some(real) = may_be_overwritten(path, force)? {
            *path = real;
        }
    }
    Ok(match image.kind {
        SourceKind::Mirror => Stand::Mirror { paths: image.paths, force },
        _ => Stand::Path { path: image.paths.remove(0), force },
    })
}

/// Returns the file or device at a path, or `None` if there is none. Fails if the device is in use, and without `force`
/// also if it holds something, unless an earlier measurement wrote all of it.
pub(super) fn may_be_overwritten(path: &Path, force: bool) -> Result<Option<PathBuf>, Failure> {
    if let (_, Some(number)) = Source::split_partition(path) {
        let why = format!(
            "names partition {number} of an image; a comparison takes whole images, and block devices"
        );
        return Err(Failure::new(path.display(), why).with_code(USAGE));
    }
    let Some(real) = device_path(path)? else { return Ok(None) };
    refuse_in_use(&real)?;
    let reading = FileOptions { read_only: true, ..FileOptions::default() };
    let device = FileDevice::open(&real, reading)?;
    refuse_evidence(&device)?;
    if force {
        return Ok(Some(real));
    }
    let protected =
        |reason: String| Err(Error::Protected { device: real.display().to_string().into(), reason }.into());
    if let Some(first) = platter_images::later_part(&real) {
        let why = format!("is a part of the split image that begins with {}", first.display());
        return protected(why);
    }
    let Some(container) = Container::of_content(&device)?.filter(|_| !device.is_block_device()) else {
        if !platter_lab::is_ours(&device)? {
            refuse_contents(&device)?;
            refuse_data(&device)?;
        }
        return Ok(Some(real));
    };
    // A container is there for a disk to be used: it counts what that has.
    let disk = match platter_images::open(&real, reading) {
        Ok(image) => image.device,
        Err(error) => return protected(format!("holds {container} that cannot be opened ({error})")),
    };
    if !platter_lab::is_ours(&*disk)? {
        refuse_contents(&*disk)?;
        refuse_any_data(&*disk)?;
    }
    Ok(Some(real))
}

/// Returns the set of loads on files with this name, if there is one.
pub(super) fn on_files(name: &OsStr) -> Option<Set> {
    Set::ALL.into_iter().find(|set| name == set.name())
}

/// Options of loads on files and on databases: how files are written, aged volumes, and where databases lie.
#[derive(Args)]
pub(super) struct Policies {
    /// What Windows does with files on a disk that can be unplugged, under loads on files: better-performance,
    /// quick-removal (on FAT each file and all that leads to it is on the disk when it is closed), write-through;
    /// several are targets of their own
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "POLICY,...",
        default_value = "better-performance",
        value_parser = <Policy as std::str::FromStr>::from_str
    )]
    pub policy: Vec<Policy>,

    /// Run loads on files also on each target after files have come and gone on it, as a target of its own
    #[arg(long)]
    pub age: bool,

    /// The volumes that databases and their logs lie on under jetstress, instead of --targets:
    /// db=ntfs:64k,log=ntfs:4k. May be given several times; each is compared with the others
    #[arg(long, value_name = "db=TARGET,log=TARGET", value_parser = <Volumes as std::str::FromStr>::from_str)]
    pub volumes: Vec<Volumes>,

    /// The numbers of threads under jetstress, each a case, instead of 8, 16 and autotune
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub threads: Vec<u32>,
}

/// The workload name of the load on databases.
pub(super) const JETSTRESS: &str = "jetstress";

/// Returns the help text of `--targets` and `--target`: `before`, and the list of targets.
pub(super) fn targets_help(before: &str) -> String {
    format!("{before}: {}", Target::names())
}

/// Returns the help text of a workload argument: `before`, and the list of workloads.
pub(super) fn workloads_help(before: &str) -> String {
    let names: Vec<&str> = built_in().chain(Set::ALL.map(Set::name)).chain([JETSTRESS]).collect();
    format!(
        "{before}: {} (crystaldiskmark:default and crystaldiskmark:nvme are its profiles), the path of a .toml workload, \
         a .fio job file, an .icf file of Iometer or an .xml profile of DiskSpd, \"diskspd OPTIONS FILE\", or replay:LOG (fio's iolog or a \
         blktrace at its own pace; replay-fast:LOG as fast as it goes, replay-fast@8:LOG with 8 I/Os in flight)",
        names.join(", ")
    )
}

/// Refuses a word that is neither a workload nor a file, with the list of all workloads.
fn refuse_unknown(name: &OsStr) -> Result<(), Failure> {
    let path = Path::new(name);
    let text = name.to_string_lossy();
    let kind = text.split_once(':').map_or(&*text, |(kind, _)| kind);
    let is_replay =
        kind != text && ["replay", "replay-fast"].contains(&kind.split('@').next().unwrap_or(kind));
    let is_known = is_replay || built_in().any(|known| known == kind) || text.starts_with("diskspd ");
    // What is written like a path is a file that is missing.
    if is_known || path.exists() || text.contains(['/', '.']) {
        return Ok(());
    }
    Err(Failure::new(format!("workload {text:?}"), workloads_help("expected one of")).with_code(USAGE))
}

/// Returns the command line as the user typed it, with "platter" as the program's name.
pub(super) fn command_line() -> String {
    let arguments = std::env::args_os().skip(1).map(|argument| quoted(&argument));
    std::iter::once("platter".to_string()).chain(arguments).collect::<Vec<_>>().join(" ")
}

/// Quotes an argument for a shell, if it needs quoting.
fn quoted(argument: &OsStr) -> String {
    let Some(text) = argument.to_str().filter(|text| !text.contains(char::is_control)) else {
        // `$'…'` is how bash and zsh write any byte.
        let byte = |byte: &u8| match byte {
            b'\'' | b'\\' => format!("\\{}", char::from(*byte)),
            b' '..=b'~' => char::from(*byte).to_string(),
            byte => format!("\\x{byte:02x}"),
        };
        return format!("$'{}'", argument.as_bytes().iter().map(byte).collect::<String>());
    };
    match !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_=:./,@+".contains(c)) {
        true => text.to_string(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

/// Whether tables are printed with colours: on a terminal that has them, unless the user wants none (no-color.org).
pub(super) fn has_colours(output: &Output) -> bool {
    let is_unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let is_plain = std::env::var_os("TERM").is_some_and(|terminal| terminal == "dumb");
    output.is_terminal() && !is_unwanted && !is_plain
}

/// Runs a comparison, with a progress bar.
pub(super) fn measure(comparison: &Comparison) -> Result<Document, Failure> {
    measure_and(comparison, &mut |_, _, _| {})
}

/// Runs a comparison under loads on files, with a progress bar.
pub(super) fn measure_files(naspt: &Naspt) -> Result<Document, Failure> {
    let meter = Meter::new();
    let document = platter_lab::naspt::run(naspt, &meter);
    meter.finish();
    Ok(document?)
}

/// Runs Jetstress' load, with a progress bar.
pub(super) fn measure_databases(jetstress: &Jetstress) -> Result<Document, Failure> {
    let meter = Meter::new();
    let document = platter_lab::jetstress::run(jetstress, &meter);
    meter.finish();
    Ok(document?)
}

/// Repeats a published comparison, with a progress bar.
pub(super) fn measure_post(post: &Post, repeat: &Repeat) -> Result<Document, Failure> {
    let meter = Meter::new();
    let document = post.repeat(repeat, &meter);
    meter.finish();
    Ok(document?)
}

/// Runs a comparison, with a progress bar, and passes each slice's measurement to `keep`.
pub(super) fn measure_and(
    comparison: &Comparison,
    keep: &mut (dyn FnMut(&Workload, &Case, &Measured) + Send),
) -> Result<Document, Failure> {
    let meter = Meter::new();
    let document = platter_lab::compare(comparison, &meter::Keeping::new(&meter, keep));
    meter.finish();
    Ok(document?)
}

/// Returns the exit code: 1 if a block read back wrong or the report is partial, 130 if the user interrupted,
/// otherwise 0.
pub(super) fn exit_code(document: &Document) -> u8 {
    let mut runs = document.results.iter().flat_map(|result| &result.runs);
    match runs.any(|run| run.corrupted_blocks > 0) {
        true => 1,
        false if crate::command::interrupt::is_asked() => INTERRUPTED,
        // The report is partial: less was measured than was asked for.
        false => u8::from(document.partial.is_some()),
    }
}

/// Reads a saved report: a file, or `report.json` in the directory that `--out` named.
pub(super) fn load(path: &Path) -> Result<Document, Failure> {
    let inside = path.join("report.json");
    if path.is_dir() && !inside.is_file() {
        let why =
            "is a directory without a report.json; with --group-by all reports below it are put together";
        return Err(Failure::new(path.display(), why));
    }
    let path = if path.is_dir() { &inside } else { path };
    let text = std::fs::read_to_string(path).about(path.display())?;
    Document::from_json(&text).map_err(|error| Failure::new(path.display(), error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use platter_device::host::host_string;

    #[test]
    fn a_command_can_be_typed_again() {
        let shown = |bytes: &[u8]| quoted(&host_string(bytes));
        assert_eq!(shown(b"mem:1G"), "mem:1G");
        assert_eq!(shown(b"it's"), r"'it'\''s'");
        assert_eq!(shown(b""), "''");
        assert_eq!(shown(b"b\xe9la's"), r"$'b\xe9la\'s'");
        assert_eq!(shown(b"a\nb"), r"$'a\x0ab'");
    }

    #[test]
    fn times_are_taken_with_and_without_units() {
        for (text, seconds) in
            [("90", 90.0), ("0.5", 0.5), ("90s", 90.0), ("10m", 600.0), ("1.5h", 5400.0), ("1e3", 1000.0)]
        {
            assert_eq!(parse_time(text), Ok(Duration::from_secs_f64(seconds)), "{text}");
        }
        assert!(parse_time("1e300").unwrap_err().contains("at most 1000000000 seconds"));
        for wrong in ["", "h", "-1s", "0s", "nan", "inf", "5 weeks", "1.2.3"] {
            assert!(parse_time(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_share_is_in_percent() {
        assert_eq!((parse_share("5%"), parse_share("2.5")), (Ok(0.05), Ok(0.025)));
        for wrong in ["", "%", "0", "101%", "-5%", "nan", "five"] {
            assert!(parse_share(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn help_names_every_target() {
        let help = targets_help("What to compare");
        for format in platter_formats::registry() {
            assert!(help.contains(format.name()), "{help}");
        }
    }
}

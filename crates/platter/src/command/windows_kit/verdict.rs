//! What Windows said of the images: read, judged and shown as a table.
//!
//! The file is described in docs/windows-kit.md. It comes from elsewhere, so nothing in it is trusted: texts are shown
//! without what Markdown or a terminal would take for something else.

use super::manifest::{self, KitManifest, Listed};
use super::pack;
use crate::command::failure::{Failure, USAGE, printable, shown};
use platter::{CheckOptions, Severity, Silent};
use serde::{Deserialize, Deserializer};
use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};

/// The name of the schema of `verdict.json`.
pub(crate) const SCHEMA: &str = "platter-windows-verdict";
/// The largest file that is read: a verdict has some KiB for each image.
const LARGEST: u64 = 256 << 20;

/// What `verdict.json` holds.
#[derive(Debug, Deserialize)]
pub(crate) struct Verdict {
    schema: String,
    version: u32,
    /// What made the kit.
    #[serde(default)]
    kit: Kit,
    /// The Windows that judged.
    #[serde(default)]
    system: System,
    /// What was done with each image.
    #[serde(default, deserialize_with = "one_or_many")]
    images: Vec<Judged>,
    /// The volumes that Windows made.
    #[serde(default, deserialize_with = "one_or_many")]
    fresh: Vec<Judged>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Kit {
    platter: String,
    seed: u64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct System {
    product: String,
    build: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Judged {
    name: String,
    file_system: String,
    closed: Option<bool>,
    #[serde(deserialize_with = "one_or_many")]
    steps: Vec<Step>,
    /// What Windows wrote to the copy.
    #[serde(deserialize_with = "one_or_many")]
    written: Vec<Listed>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Step {
    step: String,
    outcome: String,
    reason: String,
}

/// PowerShell writes a list of one element as that element, and an empty one as nothing.
fn one_or_many<'d, D: Deserializer<'d>, T: Deserialize<'d>>(from: D) -> Result<Vec<T>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Either<T> {
        Many(Vec<T>),
        One(T),
        None(()),
    }
    Ok(match Either::deserialize(from)? {
        Either::Many(many) => many,
        Either::One(one) => vec![one],
        Either::None(()) => Vec::new(),
    })
}

/// A step, and which images it is for.
pub(crate) struct Wanted {
    /// Its name in the file.
    pub name: &'static str,
    /// The file systems it is for; none means all.
    only: &'static [&'static str],
    /// Whether an image that was not closed has it: Windows cannot read such a volume where it must not write.
    crashed: bool,
}

const ALL: &[&str] = &[];
const REFS: &[&str] = &["ReFS"];
const SCANNED: &[&str] = &["NTFS", "ReFS"];

const fn wanted(name: &'static str, only: &'static [&'static str], crashed: bool) -> Wanted {
    Wanted { name, only, crashed }
}

/// The steps of an image, in their order. The names are those of the script.
pub(crate) const STEPS: [Wanted; 16] = [
    wanted("attach-read-only", ALL, false),
    wanted("read-read-only", ALL, false),
    wanted("chkdsk", ALL, false),
    wanted("fsutil", ALL, false),
    wanted("integrity", REFS, false),
    wanted("attach", ALL, true),
    wanted("read", ALL, true),
    wanted("scan", SCANNED, true),
    wanted("refsutil", REFS, true),
    wanted("write", ALL, true),
    wanted("clone", REFS, true),
    wanted("snapshot", REFS, true),
    wanted("detach", ALL, true),
    wanted("read-again", ALL, true),
    wanted("pack", ALL, true),
    wanted("events", ALL, true),
];

/// The step that is done here, with the volume that Windows wrote to.
const HERE: &str = "check-here";

impl Wanted {
    fn is_for(&self, image: &Judged) -> bool {
        let kind = self.only.is_empty() || self.only.contains(&image.file_system.as_str());
        kind && (self.crashed || image.closed.unwrap_or(true))
    }
}

/// What became of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Mark {
    Pass,
    Fail(String),
    NotRun(String),
    NotForThis,
}

impl Mark {
    fn word(&self) -> &'static str {
        match self {
            Mark::Pass => "pass",
            Mark::Fail(_) => "**fail**",
            Mark::NotRun(_) => "not run",
            Mark::NotForThis => "–",
        }
    }
}

impl Verdict {
    /// Reads a verdict.
    ///
    /// # Errors
    /// A failure with the exit code of wrong arguments if the file cannot be read or is no verdict of this version.
    pub(crate) fn read(path: &Path) -> Result<Verdict, Failure> {
        let wrong = |why: String| Failure::new(shown(path), why).with_code(USAGE);
        let size =
            fs::metadata(path).map_err(|error| Failure::from_io(shown(path), &error).with_code(USAGE))?.len();
        if size > LARGEST {
            return Err(wrong(format!("has {size} bytes; a verdict has at most {LARGEST}")));
        }
        let bytes = fs::read(path).map_err(|error| Failure::from_io(shown(path), &error).with_code(USAGE))?;
        let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(&bytes);
        let verdict: Verdict =
            serde_json::from_slice(bytes).map_err(|error| wrong(format!("is no verdict: {error}")))?;
        if verdict.schema != SCHEMA || verdict.version != manifest::VERSION {
            let (schema, version) = (printable(&verdict.schema), verdict.version);
            let here = manifest::VERSION;
            return Err(wrong(format!(
                "is {schema:?} of version {version}; {SCHEMA} of version {here} is read here"
            )));
        }
        if verdict.images.is_empty() {
            return Err(wrong("judges no image".into()));
        }
        Ok(verdict)
    }

    /// Judges the images, and with a directory of what came back also the volumes that Windows wrote to.
    ///
    /// # Errors
    /// If the directory has no readable manifest.
    pub(crate) fn judge(&self, images: Option<&Path>) -> Result<Judgement, Failure> {
        let kit = images.map(read_manifest).transpose()?;
        let mut rows: Vec<(String, Vec<Mark>)> = Vec::new();
        for image in &self.images {
            let mut marks: Vec<Mark> = STEPS.iter().map(|step| image.mark(step)).collect();
            if let (Some(directory), Some(kit)) = (images, &kit) {
                marks.push(check_here(image, directory, kit));
            }
            rows.push((image.name.clone(), marks));
        }
        // An image of the kit that the file does not name was not judged.
        for one in kit.iter().flat_map(|kit| &kit.images) {
            if !self.images.iter().any(|image| image.name == one.name) {
                let missing = Mark::NotRun("the verdict does not name the image".into());
                rows.push((one.name.clone(), vec![missing; STEPS.len() + 1]));
            }
        }
        let mut columns: Vec<&str> = STEPS.iter().map(|step| step.name).collect();
        columns.extend(images.map(|_| HERE));
        let fresh = self.fresh.iter().map(|volume| {
            let (done, wrong): (Vec<&Step>, Vec<&Step>) =
                volume.steps.iter().partition(|step| step.outcome == "pass");
            (volume.name.clone(), done.len(), wrong.iter().map(|step| told(step)).collect())
        });
        Ok(Judgement { head: self.head(), columns, rows, fresh: fresh.collect() })
    }

    fn head(&self) -> String {
        let System { product, build } = &self.system;
        let of = |text: &str, otherwise: &str| {
            if text.is_empty() { otherwise.to_string() } else { plain(text) }
        };
        format!(
            "Judged by {} ({}). The kit: Platter {}, seed {}.",
            of(product, "an unnamed system"),
            of(build, "unknown build"),
            of(&self.kit.platter, "of unknown version"),
            self.kit.seed
        )
    }
}

impl Judged {
    fn mark(&self, wanted: &Wanted) -> Mark {
        // The file says of the last of several attempts how it ended.
        let Some(step) = self.steps.iter().rfind(|step| step.step == wanted.name) else {
            return match wanted.is_for(self) {
                true => Mark::NotRun("the verdict does not name the step".into()),
                false => Mark::NotForThis,
            };
        };
        match step.outcome.as_str() {
            "pass" => Mark::Pass,
            "fail" => Mark::Fail(step.reason.clone()),
            _ if wanted.is_for(self) => Mark::NotRun(step.reason.clone()),
            _ => Mark::NotForThis,
        }
    }
}

fn told(step: &Step) -> String {
    format!("{}: {}: {}", plain(&step.step), plain(&step.outcome), plain(&step.reason))
}

fn read_manifest(directory: &Path) -> Result<KitManifest, Failure> {
    let path = directory.join("manifest.json");
    let wrong = |why: String| Failure::new(shown(&path), why).with_code(USAGE);
    let file = File::open(&path).map_err(|error| Failure::from_io(shown(&path), &error).with_code(USAGE))?;
    let kit: KitManifest = serde_json::from_reader(BufReader::new(file))
        .map_err(|error| wrong(format!("is no manifest of a kit: {error}")))?;
    match kit.version == manifest::VERSION {
        true => Ok(kit),
        false => Err(wrong(format!("has version {}; {} is read here", kit.version, manifest::VERSION))),
    }
}

/// Checks the volume that Windows wrote to, and compares it with the kit's manifest and with what Windows says that it
/// wrote.
fn check_here(image: &Judged, directory: &Path, kit: &KitManifest) -> Mark {
    let Some(known) = kit.images.iter().find(|one| one.name == image.name) else {
        return Mark::Fail("the kit has no image of this name".into());
    };
    // The names are those of the kit, so none leads out of the directory.
    let packed = directory.join(format!("{}.pack", known.name));
    let written = directory.join(format!("{}.written.vhd", known.name));
    let unpacked = Unpacked(directory.join(format!("{}.unpacked-{}", known.name, std::process::id())));
    let path = if written.exists() {
        written
    } else if packed.exists() {
        let made = File::open(&packed).and_then(|pack| {
            let mut image = File::options().write(true).create_new(true).open(&unpacked.0)?;
            pack::unpack(&mut BufReader::new(pack), &mut image)
        });
        if let Err(error) = made {
            return Mark::Fail(format!("{}: {error}", shown(&packed)));
        }
        unpacked.0.clone()
    } else {
        return Mark::NotRun(format!("neither {} nor {} is there", shown(&packed), shown(&written)));
    };
    match differences(&path, &known.entries, &image.written) {
        Ok(None) => Mark::Pass,
        Ok(Some(why)) => Mark::Fail(why),
        Err(error) => Mark::Fail(error.to_string()),
    }
}

/// What is wrong with a volume, if anything is. The comparison reads all data of the manifest, so the check need not.
pub(crate) fn differences(
    path: &Path,
    kit: &[Listed],
    written: &[Listed],
) -> platter::Result<Option<String>> {
    let report = platter::check(path, &CheckOptions::default(), &Silent)?.report;
    let worst = report.findings.iter().filter(|finding| finding.severity > Severity::Notice);
    let mut wrong: Vec<String> = worst
        .map(|finding| match &finding.path {
            Some(path) => format!("{path}: {}", finding.message),
            None => finding.message.clone(),
        })
        .collect();
    let volume = platter::open(path)?;
    let all: Vec<Listed> = kit.iter().chain(written).cloned().collect();
    let differences = manifest::compare(&volume, &all, true)?;
    wrong.extend(differences.first);
    Ok((!wrong.is_empty()).then(|| wrong.join("; ")))
}

/// An image that was unpacked for a moment.
struct Unpacked(PathBuf);

impl Drop for Unpacked {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// A judged verdict.
pub(crate) struct Judgement {
    head: String,
    columns: Vec<&'static str>,
    rows: Vec<(String, Vec<Mark>)>,
    /// The volumes that Windows made: name, number of steps that passed, and the others.
    fresh: Vec<(String, usize, Vec<String>)>,
}

impl Judgement {
    /// Whether every step that is for an image passed, for all images.
    pub(crate) fn all_pass(&self) -> bool {
        let marks = self.rows.iter().flat_map(|(_, marks)| marks);
        marks.into_iter().all(|mark| matches!(mark, Mark::Pass | Mark::NotForThis))
    }

    /// The table in Markdown, with the reasons below it.
    pub(crate) fn markdown(&self) -> String {
        let mut text = format!("{}\n\n| image | {} |\n", self.head, self.columns.join(" | "));
        text += &format!("|---|{}\n", "---|".repeat(self.columns.len()));
        for (name, marks) in &self.rows {
            let words: Vec<&str> = marks.iter().map(Mark::word).collect();
            text += &format!("| {} | {} |\n", plain(name), words.join(" | "));
        }
        let count = |wanted: fn(&Mark) -> bool| {
            self.rows.iter().flat_map(|(_, marks)| marks).filter(|mark| wanted(mark)).count()
        };
        text += &format!(
            "\n{} steps passed, {} failed, {} were not run.\n",
            count(|mark| matches!(mark, Mark::Pass)),
            count(|mark| matches!(mark, Mark::Fail(_))),
            count(|mark| matches!(mark, Mark::NotRun(_))),
        );
        let mut reasons = String::new();
        for (name, marks) in &self.rows {
            for (column, mark) in self.columns.iter().zip(marks) {
                if let Mark::Fail(why) | Mark::NotRun(why) = mark {
                    let (name, word) = (plain(name), mark.word());
                    reasons += &format!("- {name}, {column}: {word}: {}\n", plain(why));
                }
            }
        }
        if !reasons.is_empty() {
            text += &format!("\n{reasons}");
        }
        if !self.fresh.is_empty() {
            text += "\nVolumes that this Windows made:\n\n";
        }
        for (name, passed, others) in &self.fresh {
            text += &format!("- {}: {passed} steps passed", plain(name));
            text += &if others.is_empty() { "\n".into() } else { format!("; {}\n", others.join("; ")) };
        }
        text
    }
}

/// A text of the file on one line, in which nothing is Markdown or moves a cursor.
fn plain(text: &str) -> String {
    const LONGEST: usize = 600;
    let line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut plain = String::new();
    for c in printable(&line).chars().take(LONGEST) {
        if "|<>*_`[]\\".contains(c) {
            plain.push('\\');
        }
        plain.push(c);
    }
    if line.chars().count() > LONGEST {
        plain += " …";
    }
    plain
}

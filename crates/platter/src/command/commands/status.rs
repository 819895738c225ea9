//! `platter status`

use crate::command::failure::{About, Failure, Outcome, shown};
use crate::command::mounting::{attributes, mounted_at, users};
use crate::command::output::{Output, grouped};
use clap::Args;
use platter::Source;
use platter_device::show_size;
use platter_mount::{ScrubState, ScrubStep, Status};
use serde::Serialize;
use std::fs;
use std::path::{Path, PathBuf};

/// Show the state of a mounted volume
///
/// The volume's format and space, whether programs can write to it, the copies of a mirror, how far a scrub is, how many
/// files wait to be defragmented (ReFS), and the programs that use the mount.
///
/// Exit codes: 0 all is well, 1 the device has failed, a copy of the mirror is out of service, or the last scrub found
/// damage that is left.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Directory that a volume is mounted at
    #[arg(value_name = "DIR")]
    at: PathBuf,
    /// As JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Document<'a> {
    mounted_at: String,
    #[serde(flatten)]
    status: &'a Status,
    users: Vec<String>,
}

impl Arguments {
    pub(crate) fn run(self) -> Outcome {
        let at = fs::canonicalize(&self.at).about(shown(&self.at))?;
        let mount = mounted_at(&at)?;
        let status = attributes::status(&mount.at)?;
        let users = users::of(&mount.at);
        let mut output = Output::new();
        match self.json {
            true => {
                output.json(&Document { mounted_at: at.display().to_string(), status: &status, users })?
            }
            false => print(&mut output, &at, &status, mount.is_read_only, &users)?,
        }
        output.finish()?;
        let has_lost_copy = status.copies.iter().any(Option::is_some);
        let has_damage = status.scrub.found > status.scrub.repaired;
        Ok(u8::from(status.failed.is_some() || has_lost_copy || has_damage))
    }
}

fn print(
    output: &mut Output,
    at: &Path,
    status: &Status,
    is_read_only: bool,
    users: &[String],
) -> Result<(), Failure> {
    output.line(format_args!(
        "{} at {}, served by process {}",
        status.source,
        at.display(),
        status.process
    ))?;
    let bytes = |clusters: u64| show_size(clusters.saturating_mul(status.cluster));
    let writable = match &status.failed {
        Some(why) => format!("no: {why}"),
        None if status.read_only || is_read_only => "no: it is mounted for reading".into(),
        None => "yes".into(),
    };
    let reserved = match status.reserved_clusters {
        0 => String::new(),
        clusters => format!(", of which {} reserved for metadata", bytes(clusters)),
    };
    let mut facts = vec![
        ("format".to_string(), status.format.clone()),
        ("label".into(), if status.label.is_empty() { "none".into() } else { format!("{:?}", status.label) }),
        ("identifier".into(), status.identifier.clone()),
        ("cluster".into(), show_size(status.cluster)),
        ("space".into(), bytes(status.clusters)),
        ("free".into(), bytes(status.free_clusters) + &reserved),
        ("writable".into(), writable),
    ];
    facts.extend(status.details.iter().cloned());
    if status.copies.len() > 1 {
        let names = Source::whole(&status.source).map(|source| source.paths).unwrap_or_default();
        for (number, state) in status.copies.iter().enumerate() {
            let name =
                names.get(number).map_or_else(|| number.to_string(), |path| path.display().to_string());
            let state = state.as_ref().map_or_else(|| "in service".to_string(), Clone::clone);
            facts.push(("copy".into(), format!("{name}: {state}")));
        }
    }
    facts.push(("scrub".into(), scrub(&status.scrub)));
    facts.push(("used by".into(), if users.is_empty() { "nobody".into() } else { users.join(", ") }));
    output.facts("", facts.iter().map(|(name, value)| (name.as_str(), value.as_str())))
}

fn scrub(state: &ScrubState) -> String {
    let found = match state.found {
        0 => "no damage".to_string(),
        found => format!("{} damaged, {} repaired", grouped(found), grouped(state.repaired)),
    };
    match state.step {
        ScrubStep::None => "none since it was mounted".into(),
        ScrubStep::Running => {
            let of = show_size(state.used.max(state.data));
            format!("{} of at most {of} of file data verified, {found} so far", show_size(state.data))
        }
        ScrubStep::Done => format!("done, {found}"),
        ScrubStep::Stopped => format!("stopped after {}, {found}", show_size(state.data)),
        ScrubStep::Failed => format!("failed: {}", state.error.as_deref().unwrap_or("no reason is known")),
    }
}

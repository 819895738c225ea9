//! `platter journal`

use crate::command::failure::{About, Failure, Outcome, shown, tell};
use crate::command::output::{Output, utc_time};
use crate::command::volume::{ReadOptions, Volumes};
use clap::Args;
use platter::Access;
use platter_vfs::{ChangeJournal, ChangeRecord, Error};
use serde::Serialize;
use std::path::PathBuf;

/// List the change journal of a volume: what Windows noted about changes of files (NTFS)
///
/// Each line has the time of a change in UTC, the offset of its record in the journal (USN), the file's number and sequence
/// number, those of its directory, the reasons in Windows' words, and the file's name. The journal is never written: a
/// program that follows it is told by another identifier that it is not complete (see `platter info`).
///
/// Exit codes: 0 all records were listed, 1 some cannot be read, or there is no journal.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Image file, block device or mirror:IMAGE,IMAGE
    image: PathBuf,
    /// As JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    volume: ReadOptions,
}

/// A record, in a document for scripts.
#[derive(Serialize)]
struct Change {
    usn: u64,
    version: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<String>,
    name: String,
    reasons: Vec<&'static str>,
    /// All bits of the reasons, those without a name too.
    reason_bits: u32,
    /// As text, since 128 bits are more than most programs have for a number.
    file: String,
    parent: String,
    attributes: u32,
    source: u32,
}

/// What a document for scripts ends with.
#[derive(Serialize)]
struct Limits {
    identifier: u64,
    lowest: u64,
    next: u64,
    damaged: u64,
}

impl Arguments {
    pub(crate) fn run(self) -> Outcome {
        let system = Volumes::new(&self.volume).volume(&self.image, Access::Read)?;
        let mut output = Output::new();
        let (mut listed, mut damaged) = (0u64, 0u64);
        if self.json {
            output.bytes(b"{\"records\": [")?;
        }
        // A failure to print ends the listing.
        let mut failure = None;
        let limits = system.change_journal(&mut |record| {
            let printed = match record {
                Ok(record) => self.print(&mut output, &record, listed == 0),
                Err(error) => {
                    damaged += 1;
                    tell(format_args!("platter: {}: {error}", shown(&self.image)));
                    return Ok(());
                }
            };
            listed += 1;
            printed.map_err(|why| {
                failure = Some(why);
                Error::InvalidArgument("the output ended")
            })
        });
        if let Some(failure) = failure {
            return Err(failure);
        }
        let limits = limits.about(shown(&self.image))?;
        let there = limits.unwrap_or_default();
        if self.json {
            let ChangeJournal { identifier, lowest, next } = there;
            let rest = Limits { identifier, lowest, next, damaged };
            let rest = serde_json::to_string(&rest).expect("plain data has a JSON form");
            // The braces of both parts become one pair.
            output.bytes(format!("\n], {}\n", &rest[1..]).as_bytes())?;
        }
        output.finish()?;
        if limits.is_none() {
            return Err(Failure::new(shown(&self.image), "has no change journal"));
        }
        Ok(u8::from(damaged > 0))
    }

    fn print(&self, output: &mut Output, record: &ChangeRecord, is_first: bool) -> Result<(), Failure> {
        let time = record.time.map(utc_time);
        let reasons = record.reason_names();
        if self.json {
            let change = Change {
                usn: record.usn,
                version: record.version,
                time,
                name: record.name.to_string(),
                reasons,
                reason_bits: record.reasons,
                file: shown_reference(record.file),
                parent: shown_reference(record.parent),
                attributes: record.attributes,
                source: record.source,
            };
            let text = serde_json::to_string(&change).expect("plain data has a JSON form");
            return output.bytes(format!("{}\n{text}", if is_first { "" } else { "," }).as_bytes());
        }
        output.line(format_args!(
            "{}  {}  {} in {}  {}  {}",
            time.as_deref().unwrap_or("-"),
            record.usn,
            shown_reference(record.file),
            shown_reference(record.parent),
            if reasons.is_empty() { format!("{:#x}", record.reasons) } else { reasons.join("|") },
            record.name
        ))
    }
}

/// The number of a file and its sequence number, as `39-5`; a number of 128 bits, which other file systems have, in
/// hexadecimal digits.
fn shown_reference(reference: u128) -> String {
    match u64::try_from(reference) {
        Ok(reference) => format!("{}-{}", reference & 0xFFFF_FFFF_FFFF, reference >> 48),
        Err(_) => format!("{reference:#034x}"),
    }
}

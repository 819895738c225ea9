//! `platter attr` of a file on a mount.

use super::{AttributeRow, What, bytes, row};
use crate::command::failure::{About, Failure, shown};
use crate::command::mounting::attribute;
use crate::command::mounting::attributes::{self, extended, snapshot, snapshots, stream_path, streams};
use crate::command::output::Output;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::Path;

/// Returns a row for each thing that the file has besides its content.
pub(super) fn rows(path: &Path) -> Result<Vec<AttributeRow>, Failure> {
    let mut rows = Vec::new();
    for name in streams(path)? {
        let size = fs::symlink_metadata(stream_path(path, &name)).ok().map(|data| data.len());
        rows.push(row(format!("stream:{name}"), size));
    }
    for name in snapshots(path)? {
        let value = attributes::get(path, &snapshot(&name))?.unwrap_or_default();
        let size = String::from_utf8_lossy(&value).parse().ok();
        rows.push(row(format!("snapshot:{name}"), size));
    }
    for name in extended(path)? {
        let length = attributes::get(path, &name)?.unwrap_or_default().len();
        rows.push(row(format!("ea:{name}"), length as u64));
    }
    if let Some(point) = attributes::get(path, attribute::REPARSE)? {
        let tag = point.first_chunk().map(|tag| u32::from_le_bytes(*tag));
        rows.push(AttributeRow { tag, ..row("reparse".into(), point.len() as u64) });
    }
    if let Some(security) = attributes::get(path, attribute::SECURITY)? {
        rows.push(row("security".into(), security.len() as u64));
    }
    Ok(rows)
}

/// Writes the bytes of one thing to standard output.
pub(super) fn get(path: &Path, what: &What, output: &mut Output) -> Result<(), Failure> {
    let (stream, attribute) = match what {
        What::Stream(name) => (Some((name, streams(path)?)), ""),
        What::Snapshot(name) => (Some((name, snapshots(path)?)), ""),
        What::Extended(name) => (None, name.as_str()),
        What::Reparse => (None, attribute::REPARSE),
        What::Security => (None, attribute::SECURITY),
    };
    let Some((name, all)) = stream else {
        let value = attributes::get(path, attribute)?;
        return output.bytes(&value.ok_or_else(|| missing(path, what))?);
    };
    let name = name.to_string();
    if !is_among(&all, &name) {
        return Err(missing(path, what));
    }
    let mut file = File::open(stream_path(path, &name)).map_err(|error| unshown(path, what, &error))?;
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer).about(shown(path))? {
            0 => return Ok(()),
            read => output.bytes(&buffer[..read])?,
        }
    }
}

/// Sets one thing to the bytes of a file, or of standard input.
pub(super) fn set(path: &Path, what: &What, file: Option<&Path>) -> Result<(), Failure> {
    match what {
        What::Snapshot(name) => attributes::set(path, &snapshot(&name.to_string()), b""),
        What::Stream(name) => {
            let (source, mut reader) = super::reader(file)?;
            let at = stream_path(path, &name.to_string());
            let mut stream = File::create(at).map_err(|error| unshown(path, what, &error))?;
            io::copy(&mut reader, &mut stream).about(format_args!("{} from {source}", shown(path)))?;
            stream.sync_all().about(shown(path))
        }
        What::Extended(name) => attributes::set(path, name, &bytes(file, 1 << 16)?),
        What::Reparse => attributes::set(path, attribute::REPARSE, &bytes(file, 1 << 16)?),
        What::Security => attributes::set(path, attribute::SECURITY, &bytes(file, 1 << 16)?),
    }
}

/// Removes one thing.
pub(super) fn remove(path: &Path, what: &What) -> Result<(), Failure> {
    let was_there = match what {
        What::Snapshot(name) => attributes::remove(path, &snapshot(&name.to_string()))?,
        What::Stream(name) if !is_among(&streams(path)?, &name.to_string()) => false,
        What::Stream(name) => {
            let at = stream_path(path, &name.to_string());
            fs::remove_file(at).map_err(|error| unshown(path, what, &error))?;
            true
        }
        What::Extended(name) => attributes::remove(path, name)?,
        What::Reparse => attributes::remove(path, attribute::REPARSE)?,
        What::Security => return Err(super::security_stays(shown(path))),
    };
    if was_there { Ok(()) } else { Err(missing(path, what)) }
}

/// Whether a name is one of these, in upper or lower case.
fn is_among(all: &[String], name: &str) -> bool {
    all.iter().any(|one| one.to_lowercase() == name.to_lowercase())
}

fn missing(path: &Path, what: &What) -> Failure {
    Failure::new(shown(path), format!("has no {what}"))
}

/// A stream that exists is not found, and a name with a colon is refused, where the mount does not show streams as files.
fn unshown(path: &Path, what: &What, error: &io::Error) -> Failure {
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::InvalidInput => Failure::new(
            shown(path),
            format!("{what} is a file only where the volume is mounted with -o streams_interface=windows"),
        ),
        _ => Failure::from_io(shown(path), error),
    }
}

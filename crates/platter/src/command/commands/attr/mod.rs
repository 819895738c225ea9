//! `platter attr`

mod mounted;

use crate::command::facts::{or_none, stream_of};
use crate::command::failure::{About, Failure, Outcome, shown};
use crate::command::mounting::on_mount;
use crate::command::output::Output;
use crate::command::volume::{ReadOptions, VolumePath, Volumes, WriteOptions};
use clap::{Args, Subcommand};
use platter::{Access, Held};
use platter_device::Buffer;
use platter_vfs::{Change, Error, Kind, Name, NodeStream, reparse};
use serde::Serialize;
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Show or change what a file has besides its content (ReFS, NTFS)
///
/// WHAT is one of: stream:NAME, a named stream; snapshot:NAME, the content as it was kept under that name; ea:NAME, an
/// extended attribute; reparse, the reparse point, in the form of a Windows REPARSE_DATA_BUFFER; security, the
/// self-relative security descriptor.
///
/// A file on a volume that is mounted is named by its path on the mount. Streams are written, and the content of streams
/// and snapshots is read, where the volume is mounted with -o streams_interface=windows.
#[derive(Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    List(List),
    Get(Get),
    Set(Set),
    Remove(Remove),
}

/// List the streams, snapshots, attributes and descriptors of a file or directory, with sizes in bytes
#[derive(Args)]
struct List {
    /// The file or directory
    #[arg(value_name = "IMAGE:/PATH|FILE")]
    path: OsString,
    /// As JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    volume: ReadOptions,
}

/// Print the bytes of one stream, snapshot, extended attribute, reparse point or security descriptor
#[derive(Args)]
struct Get {
    /// The file or directory
    #[arg(value_name = "IMAGE:/PATH|FILE")]
    path: OsString,
    /// The one to print: stream:NAME, snapshot:NAME, ea:NAME, reparse or security
    #[arg(value_name = "WHAT")]
    what: What,
    #[command(flatten)]
    volume: ReadOptions,
}

/// Set a stream, extended attribute, reparse point or security descriptor; or make a snapshot of the file's present
/// content
#[derive(Args)]
struct Set {
    /// The file or directory
    #[arg(value_name = "IMAGE:/PATH|FILE")]
    path: OsString,
    /// The one to set: stream:NAME, snapshot:NAME, ea:NAME, reparse or security
    #[arg(value_name = "WHAT")]
    what: What,
    /// The file on the host that holds the bytes; without it they are read from standard input
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    #[command(flatten)]
    volume: WriteOptions,
}

/// Remove a stream, snapshot, extended attribute or reparse point
#[derive(Args)]
struct Remove {
    /// The file or directory
    #[arg(value_name = "IMAGE:/PATH|FILE")]
    path: OsString,
    /// The one to remove: stream:NAME, snapshot:NAME, ea:NAME or reparse
    #[arg(value_name = "WHAT")]
    what: What,
    #[command(flatten)]
    volume: WriteOptions,
}

/// The argument WHAT: one of the things that a file has besides its content.
#[derive(Clone, Debug)]
enum What {
    Stream(Name),
    Snapshot(Name),
    Extended(String),
    Reparse,
    Security,
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            What::Stream(name) => write!(f, "stream:{name}"),
            What::Snapshot(name) => write!(f, "snapshot:{name}"),
            What::Extended(name) => write!(f, "ea:{name}"),
            What::Reparse => f.write_str("reparse"),
            What::Security => f.write_str("security"),
        }
    }
}

impl What {
    /// Turns an error into a failure. That something is not found is said of what the file should have: the file itself
    /// is there.
    fn about<T>(&self, path: &VolumePath, result: platter_vfs::Result<T>) -> Result<T, Failure> {
        match result {
            Err(Error::NotFound) => Err(Failure::new(path, format!("has no {self}"))),
            result => result.about(path),
        }
    }
}

impl FromStr for What {
    type Err = String;

    fn from_str(text: &str) -> Result<What, String> {
        match text.split_once(':') {
            Some(("stream", name)) if !name.is_empty() => Ok(What::Stream(Name::from(name))),
            Some(("snapshot", name)) if !name.is_empty() => Ok(What::Snapshot(Name::from(name))),
            Some(("ea", name)) if !name.is_empty() => Ok(What::Extended(name.into())),
            None if text == "reparse" => Ok(What::Reparse),
            None if text == "security" => Ok(What::Security),
            _ => Err("one of stream:NAME, snapshot:NAME, ea:NAME, reparse, security".into()),
        }
    }
}

/// One line of `platter attr list`, also as JSON.
#[derive(Serialize)]
struct AttributeRow {
    what: String,
    /// Null for a stream on a mount that does not show streams as files.
    size: Option<u64>,
    /// The target of a symbolic link or junction.
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<String>,
    /// The tag of a reparse point.
    #[serde(skip_serializing_if = "Option::is_none")]
    tag: Option<u32>,
}

impl Arguments {
    pub(crate) fn run(self) -> Outcome {
        match self.action {
            Action::List(list) => list.run(),
            Action::Get(get) => get.run(),
            Action::Set(set) => match on_mount(&set.path)? {
                Some(path) => mounted::set(path, &set.what, set.file()?).map(|()| 0),
                None => change(&set.volume, |volumes| set.set(volumes)),
            },
            Action::Remove(remove) => match on_mount(&remove.path)? {
                Some(path) => mounted::remove(path, &remove.what).map(|()| 0),
                None => change(&remove.volume, |volumes| remove.remove(volumes)),
            },
        }
    }
}

/// Lists the snapshots of a file.
pub(crate) fn list_snapshots(path: OsString, volume: ReadOptions) -> Outcome {
    let rows = match on_mount(&path)? {
        Some(path) => mounted::rows(path)?,
        None => {
            let mut volumes = Volumes::new(&volume);
            let path = VolumePath::parse_or_root(&path)?;
            let held = path.find(&volumes.volume(&path.image, Access::Read)?)?;
            let mut rows = Vec::new();
            snapshots(&held, &mut rows).about(&path)?;
            rows
        }
    };
    let mut output = Output::new();
    for (name, row) in rows.iter().filter_map(|row| Some((row.what.strip_prefix("snapshot:")?, row))) {
        let size = row.size.map_or_else(|| "?".to_string(), |size| size.to_string());
        output.line(format_args!("{size:>12}  {name}"))?;
    }
    output.finish()?;
    Ok(0)
}

/// Makes a snapshot of a file.
pub(crate) fn make_snapshot(path: OsString, name: &str, volume: WriteOptions) -> Outcome {
    let what = What::Snapshot(Name::from(name));
    Arguments { action: Action::Set(Set { path, what, file: None, volume }) }.run()
}

/// Prints the content that a snapshot keeps.
pub(crate) fn print_snapshot(path: OsString, name: &str, volume: ReadOptions) -> Outcome {
    Get { path, what: What::Snapshot(Name::from(name)), volume }.run()
}

/// Removes a snapshot of a file.
pub(crate) fn remove_snapshot(path: OsString, name: &str, volume: WriteOptions) -> Outcome {
    Arguments { action: Action::Remove(Remove { path, what: What::Snapshot(Name::from(name)), volume }) }
        .run()
}

/// Runs a change, and closes the volumes, so that whatever was changed is durable even if `work` failed halfway.
fn change(options: &WriteOptions, work: impl FnOnce(&mut Volumes) -> Result<(), Failure>) -> Outcome {
    let mut volumes = Volumes::to_write(options);
    let outcome = work(&mut volumes);
    volumes.close()?;
    outcome.map(|()| 0)
}

impl List {
    fn run(self) -> Outcome {
        if let Some(path) = on_mount(&self.path)? {
            let mut output = Output::new();
            self.print(&mounted::rows(path)?, &mut output)?;
            output.finish()?;
            return Ok(0);
        }
        let mut volumes = Volumes::new(&self.volume);
        let path = VolumePath::parse_or_root(&self.path)?;
        let held = path.find(&volumes.volume(&path.image, Access::Read)?)?;
        let (rows, faults) = rows(&held);
        let mut output = Output::new();
        self.print(&rows, &mut output)?;
        output.finish()?;
        // An attribute that cannot be read does not hide the readable ones: they are printed before the first error
        // is returned.
        match faults.into_iter().next() {
            Some(fault) => Err(fault).about(&path),
            None => Ok(0),
        }
    }

    fn print(&self, rows: &[AttributeRow], output: &mut Output) -> Result<(), Failure> {
        if self.json {
            return output.json(&rows);
        }
        rows.iter().try_for_each(|row| {
            let tag = row.tag.map(|tag| format!(" {tag:#010x}")).unwrap_or_default();
            let target = row.target.as_ref().map(|target| format!(" -> {target}")).unwrap_or_default();
            let size = row.size.map_or_else(|| "?".to_string(), |size| size.to_string());
            output.line(format_args!("{size:>12}  {}{tag}{target}", row.what))
        })
    }
}

/// Returns a row for each thing that a file has besides its content, and the errors of those that cannot be read.
fn rows(held: &Held) -> (Vec<AttributeRow>, Vec<Error>) {
    let (mut rows, mut faults) = (Vec::new(), Vec::new());
    for kind in [streams, snapshots, extended, reparse_point, security] {
        faults.extend(kind(held, &mut rows).err());
    }
    (rows, faults)
}

fn row(what: String, size: impl Into<Option<u64>>) -> AttributeRow {
    AttributeRow { what, size: size.into(), target: None, tag: None }
}

fn streams(held: &Held, rows: &mut Vec<AttributeRow>) -> platter_vfs::Result<()> {
    let streams =
        or_none(held.system.streams().and_then(|part| part.list(held.node)))?.unwrap_or_default().into_iter();
    rows.extend(streams.map(|NodeStream { name, size }| row(format!("stream:{name}"), size)));
    Ok(())
}

fn snapshots(held: &Held, rows: &mut Vec<AttributeRow>) -> platter_vfs::Result<()> {
    let system = &held.system;
    for name in or_none(system.snapshots().and_then(|part| part.list(held.node)))?.unwrap_or_default() {
        let part = Held::new(system, system.streams()?.open(held.node, &name, false)?);
        rows.push(row(format!("snapshot:{name}"), system.attributes(part.node)?.size));
    }
    Ok(())
}

fn extended(held: &Held, rows: &mut Vec<AttributeRow>) -> platter_vfs::Result<()> {
    for name in
        or_none(held.system.extended_attributes().and_then(|part| part.list(held.node)))?.unwrap_or_default()
    {
        let size = held.system.extended_attributes()?.get(held.node, &name)?.len() as u64;
        rows.push(row(format!("ea:{name}"), size));
    }
    Ok(())
}

fn reparse_point(held: &Held, rows: &mut Vec<AttributeRow>) -> platter_vfs::Result<()> {
    let (system, node) = (&held.system, held.node);
    let Some(Some(point)) = or_none(system.reparse_points().and_then(|part| part.get(node)))? else {
        return Ok(());
    };
    let size = HEADER as u64 + point.data.len() as u64;
    let mut row = AttributeRow { tag: Some(point.tag), ..row("reparse".into(), size) };
    let is_link = system.attributes(node)?.kind == Kind::SymbolicLink;
    // A point that leads nowhere is there all the same, and can be copied out and removed.
    let target = if is_link { system.read_link(node).map(Some) } else { Ok(None) };
    let fault = target.map(|target| row.target = target);
    rows.push(row);
    fault
}

fn security(held: &Held, rows: &mut Vec<AttributeRow>) -> platter_vfs::Result<()> {
    let descriptor = or_none(held.system.security_descriptors().and_then(|part| part.get(held.node)))?;
    rows.extend(descriptor.map(|descriptor| row("security".into(), descriptor.len() as u64)));
    Ok(())
}

/// The length in bytes of the header of a `REPARSE_DATA_BUFFER`: tag, data length, and two reserved bytes.
const HEADER: usize = 8;

impl Get {
    fn run(self) -> Outcome {
        if let Some(path) = on_mount(&self.path)? {
            let mut output = Output::new();
            mounted::get(path, &self.what, &mut output)?;
            output.finish()?;
            return Ok(0);
        }
        let mut volumes = Volumes::new(&self.volume);
        let path = VolumePath::parse_or_root(&self.path)?;
        let held = path.find(&volumes.volume(&path.image, Access::Read)?)?;
        let (system, node) = (&held.system, held.node);
        let mut output = Output::new();
        match &self.what {
            What::Stream(name) => {
                let stream = self.what.about(&path, stream_of(&held, name, false, false))?;
                print(&stream, &path, &mut output)?
            }
            What::Snapshot(name) => {
                let snapshot = self.what.about(&path, stream_of(&held, name, true, false))?;
                print(&snapshot, &path, &mut output)?
            }
            What::Extended(name) => output.bytes(
                &self
                    .what
                    .about(&path, system.extended_attributes().and_then(|part| part.get(node, name)))?,
            )?,
            What::Security => {
                output.bytes(&system.security_descriptors().and_then(|part| part.get(node)).about(&path)?)?
            }
            What::Reparse => {
                let point = system
                    .reparse_points()
                    .and_then(|part| part.get(node))
                    .and_then(|point| point.ok_or(Error::NotFound));
                let point = self.what.about(&path, point)?;
                output.bytes(&reparse::to_bytes(&point))?;
            }
        }
        output.finish()?;
        Ok(0)
    }
}

fn print(held: &Held, path: &VolumePath, output: &mut Output) -> Result<(), Failure> {
    let mut buffer = Buffer::new(1 << 20);
    let mut offset = 0;
    loop {
        let read = held.system.read(held.node, offset, &mut buffer).about(path)?;
        output.bytes(&buffer[..read])?;
        offset += read as u64;
        if read < buffer.len() {
            return Ok(());
        }
    }
}

impl Set {
    fn set(&self, volumes: &mut Volumes) -> Result<(), Failure> {
        let path = VolumePath::parse_or_root(&self.path)?;
        let file = self.file()?;
        let system = volumes.volume(&path.image, Access::Write { force: self.volume.force })?;
        let held = path.find(&system)?;
        match &self.what {
            What::Snapshot(name) => {
                system.snapshots().and_then(|part| part.create(held.node, name)).about(&path)
            }
            What::Stream(name) => {
                // A source that cannot be read costs nothing of the stream that is there.
                let (source, mut reader) = reader(file)?;
                let mut buffer = Buffer::new(1 << 20);
                let length = fill(&mut *reader, &mut buffer).about(&source)?;
                let is_new = matches!(stream_of(&held, name, false, false), Err(Error::NotFound));
                let stream = stream_of(&held, name, false, true).about(&path)?;
                let empty = Change { size: Some(0), ..Change::default() };
                system.set_attributes(stream.node, &empty).about(&path)?;
                let copied = copy(&path, &stream, &source, &mut *reader, buffer, length);
                if copied.is_err() && is_new {
                    drop(stream);
                    // The first error is returned.
                    let _ = system.streams().and_then(|part| part.remove(held.node, name));
                }
                copied
            }
            What::Extended(name) => {
                let value = bytes(file, 1 << 16)?;
                system
                    .extended_attributes()
                    .and_then(|part| part.set(held.node, name, Some(&value)))
                    .about(&path)
            }
            What::Security => {
                let descriptor = bytes(file, 1 << 16)?;
                system.security_descriptors().and_then(|part| part.set(held.node, &descriptor)).about(&path)
            }
            What::Reparse => {
                let bytes = bytes(file, 1 << 16)?;
                let point = reparse::from_bytes(&bytes).ok_or_else(|| {
                    Failure::new(
                        &path,
                        "expected tag, length, two zero bytes, and as many bytes as the length says",
                    )
                })?;
                system.reparse_points().and_then(|part| part.set(held.node, Some(&point))).about(&path)
            }
        }
    }

    /// The file to take bytes from, if one is named.
    fn file(&self) -> Result<Option<&Path>, Failure> {
        match (&self.what, &self.file) {
            (What::Snapshot(_), Some(file)) => {
                let why = "a snapshot takes the file's present content, and no other";
                Err(Failure::new(shown(file), why))
            }
            (_, file) => Ok(file.as_deref()),
        }
    }
}

/// Returns the bytes to set, from a file or standard input; fails if there are more than `most`.
fn bytes(file: Option<&Path>, most: u64) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let (name, mut reader) = reader(file)?;
    reader.by_ref().take(most + 1).read_to_end(&mut bytes).about(&name)?;
    if bytes.len() as u64 > most {
        return Err(Failure::new(name, format!("has more than {most} bytes")));
    }
    Ok(bytes)
}

/// Opens a file, or standard input; returns its name too.
fn reader(file: Option<&Path>) -> Result<(String, Box<dyn Read>), Failure> {
    match file {
        None => Ok(("standard input".into(), Box::new(std::io::stdin()))),
        Some(path) => {
            let name = path.display().to_string();
            let file = fs::File::open(path).about(&name)?;
            Ok((name, Box::new(file)))
        }
    }
}

fn security_stays(path: impl fmt::Display) -> Failure {
    Failure::new(path, "every file has a security descriptor; set another one")
}

/// Reads until the buffer is full or the source ends. Returns how much was read.
fn fill(reader: &mut dyn Read, buffer: &mut Buffer) -> std::io::Result<usize> {
    let mut length = 0;
    while length < buffer.len() {
        match reader.read(&mut buffer[length..])? {
            0 => break,
            read => length += read,
        }
    }
    Ok(length)
}

/// Writes a stream, beginning with the first `length` bytes of the buffer, which are read already.
fn copy(
    path: &VolumePath,
    stream: &Held,
    source: &str,
    reader: &mut dyn Read,
    mut buffer: Buffer,
    mut length: usize,
) -> Result<(), Failure> {
    let mut offset = 0;
    loop {
        stream.system.write(stream.node, offset, &buffer[..length]).about(path)?;
        offset += length as u64;
        if length < buffer.len() {
            return Ok(());
        }
        length = fill(reader, &mut buffer).about(source)?;
    }
}

impl Remove {
    fn remove(&self, volumes: &mut Volumes) -> Result<(), Failure> {
        let path = VolumePath::parse_or_root(&self.path)?;
        let system = volumes.volume(&path.image, Access::Write { force: self.volume.force })?;
        let held = path.find(&system)?;
        let removed = match &self.what {
            What::Stream(name) => system.streams().and_then(|part| part.remove(held.node, name)),
            What::Snapshot(name) => system.snapshots().and_then(|part| part.remove(held.node, name)),
            What::Extended(name) => {
                system.extended_attributes().and_then(|part| part.set(held.node, name, None))
            }
            What::Reparse => system.reparse_points().and_then(|part| part.set(held.node, None)),
            What::Security => {
                return Err(security_stays(&path));
            }
        };
        self.what.about(&path, removed)
    }
}

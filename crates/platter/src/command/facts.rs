//! What is known of a file or directory besides its content.

use crate::command::failure::{About, Failure};
use crate::command::output::{flag_words, grouped, kind_word, local_time, utc_time};
use platter::Held;
use platter_device::show_size;
use platter_vfs::linux::LinuxAttributes;
use platter_vfs::{Error, Kind, Name, Place, find_snapshot};
use serde::Serialize;
use std::fmt::Display;

/// What is known of a file or directory as JSON, for scripts. What the format does not have is missing.
#[derive(Serialize)]
pub(super) struct FileFacts {
    pub(super) path: String,
    kind: &'static str,
    size: u64,
    allocated: u64,
    /// How many pieces of the device the content lies in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pieces: Option<u64>,
    links: u32,
    flags: Vec<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    created: Option<String>,
    modified: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    accessed: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    changed: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    uid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gid: Option<u32>,
    /// The permissions of Linux, as octal digits.
    #[serde(skip_serializing_if = "Option::is_none")]
    mode: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    integrity: Option<bool>,
    streams: Vec<String>,
    snapshots: Vec<String>,
    extended_attributes: Vec<String>,
    #[serde(skip)]
    shown_times: Vec<(&'static str, String)>,
}

/// Returns `None` for what the format does not have.
pub(super) fn or_none<T>(found: platter_vfs::Result<T>) -> platter_vfs::Result<Option<T>> {
    match found {
        Err(Error::Unsupported { .. }) => Ok(None),
        found => found.map(Some),
    }
}

impl FileFacts {
    /// Reads what is known of a node; messages and the result call it `path`.
    pub(super) fn of(path: &dyn Display, held: &Held) -> Result<FileFacts, Failure> {
        let (system, node) = (&held.system, held.node);
        let attributes = system.attributes(node).about(path)?;
        let extents = match attributes.kind {
            Kind::File => or_none(system.extents(node)).about(path)?,
            _ => None,
        };
        let on_device =
            |place: &Place| matches!(place, Place::Device(_) | Place::Unwritten(_) | Place::Compressed);
        let owner = or_none(LinuxAttributes::read(&**system, node)).about(path)?.unwrap_or_default();
        let names = or_none(system.extended_attributes().and_then(|part| part.list(node)))
            .about(path)?
            .unwrap_or_default();
        let streams =
            or_none(system.streams().and_then(|part| part.list(node))).about(path)?.unwrap_or_default();
        let snapshots =
            or_none(system.snapshots().and_then(|part| part.list(node))).about(path)?.unwrap_or_default();
        let is_link = attributes.kind == Kind::SymbolicLink;
        let times = [
            ("created", attributes.created),
            ("modified", Some(attributes.modified)),
            ("accessed", attributes.accessed),
            ("changed", attributes.changed),
        ];
        Ok(FileFacts {
            path: path.to_string(),
            kind: kind_word(attributes.kind),
            size: attributes.size,
            allocated: attributes.allocated,
            pieces: extents.map(|all| all.iter().filter(|extent| on_device(&extent.place)).count() as u64),
            links: attributes.links,
            flags: flag_words(attributes.flags),
            created: attributes.created.map(utc_time),
            modified: utc_time(attributes.modified),
            accessed: attributes.accessed.map(utc_time),
            changed: attributes.changed.map(utc_time),
            uid: owner.uid,
            gid: owner.gid,
            mode: owner.mode.map(|mode| format!("{:04o}", mode & 0o7777)),
            target: if is_link { or_none(system.read_link(node)).about(path)? } else { None },
            integrity: match is_link {
                true => None,
                false => or_none(system.integrity().and_then(|part| part.get(node)))
                    .about(path)?
                    .map(|integrity| integrity.enabled),
            },
            streams: streams.iter().map(|stream| stream.name.to_string()).collect(),
            snapshots: snapshots.iter().map(ToString::to_string).collect(),
            extended_attributes: names.into_iter().filter(|name| !LinuxAttributes::has(name)).collect(),
            shown_times: times
                .into_iter()
                .filter_map(|(what, time)| Some((what, local_time(time?))))
                .collect(),
        })
    }

    /// The facts to be shown: name and value.
    pub(super) fn shown(&self) -> Vec<(&'static str, String)> {
        let mut facts: Vec<(&str, String)> = vec![("kind", self.kind.replace('-', " "))];
        let size = |bytes: u64| match bytes {
            0..1024 => show_size(bytes),
            _ => format!("{} ({} bytes)", show_size(bytes), grouped(bytes)),
        };
        facts.push(("size", size(self.size)));
        let pieces = match self.pieces {
            Some(1) => " in one piece".into(),
            Some(pieces @ 2..) => format!(" in {} pieces", grouped(pieces)),
            _ => String::new(),
        };
        facts.push(("allocated", size(self.allocated) + &pieces));
        facts.push(("names", self.links.to_string()));
        facts.push(("flags", if self.flags.is_empty() { "none".into() } else { self.flags.join(", ") }));
        facts.extend(self.shown_times.iter().cloned());
        if let (Some(uid), Some(gid)) = (self.uid, self.gid) {
            facts.push(("owner", format!("user {uid}, group {gid}")));
        }
        facts.extend(self.mode.iter().map(|mode| ("permissions", mode.clone())));
        facts.extend(self.target.iter().map(|target| ("leads to", target.clone())));
        facts.extend(self.integrity.map(|on| ("integrity", if on { "on" } else { "off" }.into())));
        for (what, names) in [
            ("streams", &self.streams),
            ("snapshots", &self.snapshots),
            ("attributes", &self.extended_attributes),
        ] {
            facts.extend((!names.is_empty()).then(|| (what, names.join(", "))));
        }
        facts
    }
}

/// Returns the named stream or the snapshot of this name. A snapshot is not found under a stream's name, nor a stream
/// under a snapshot's.
pub(super) fn stream_of(
    held: &Held,
    name: &Name,
    is_snapshot: bool,
    create: bool,
) -> platter_vfs::Result<Held> {
    let (system, node) = (&held.system, held.node);
    let found = system.streams()?.open(node, name, create && !is_snapshot)?;
    let found = Held::new(system, found);
    if find_snapshot(&**system, node, name)?.is_some() == is_snapshot {
        Ok(found)
    } else {
        Err(Error::NotFound)
    }
}

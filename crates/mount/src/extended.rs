//! Extended attributes: those that the format stores, and properties of files that only Windows has.
//!
//! Attributes in the namespaces `user.`, `trusted.` and `security.` are stored as the format's extended attributes, each
//! under its whole name, as by Linux's own NTFS driver. The others are those in [`attribute`].

use crate::acl;
use crate::attribute;
use crate::errors::{Answer, Errno};
use crate::options::Streams;
use crate::served::Served;
use platter_vfs::bytes::{u32_at, u64_at};
use platter_vfs::{Change, DosFlags, Error, Integrity, Name, Node, Timestamp, find_snapshot, linux, reparse};
use serde::Serialize;

/// The longest value of an attribute that the kernel passes on, in bytes.
const LONGEST: u64 = 64 << 10;

/// What precedes the name of a stream that is shown as an attribute.
const STREAM: &str = "user.";

/// The condition under which an attribute is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetAttribute {
    /// No condition.
    Any,
    /// The attribute does not exist yet.
    New,
    /// The attribute exists already.
    Known,
}

/// The property that the name of an attribute stands for.
enum Meaning<'a> {
    Flags,
    Times,
    Created,
    Security,
    Reparse,
    Integrity,
    Access,
    Scrub,
    Status,
    /// The names of the named streams.
    Streams,
    /// The names of the snapshots.
    Snapshots,
    Snapshot(Name),
    Stream(Name),
    /// An access control list, under this name.
    List(&'static str),
    Extended(&'a str),
}

impl Served {
    fn meaning<'a>(&self, name: &'a [u8]) -> Answer<Meaning<'a>> {
        let name = std::str::from_utf8(name).map_err(|_| Errno::UNSUPPORTED)?;
        match name {
            attribute::FLAGS => Ok(Meaning::Flags),
            attribute::TIMES => Ok(Meaning::Times),
            attribute::CREATED => Ok(Meaning::Created),
            attribute::SECURITY => Ok(Meaning::Security),
            attribute::REPARSE => Ok(Meaning::Reparse),
            attribute::STREAMS => Ok(Meaning::Streams),
            attribute::SNAPSHOTS => Ok(Meaning::Snapshots),
            attribute::INTEGRITY if self.system.capabilities().integrity => Ok(Meaning::Integrity),
            attribute::ACCESS => Ok(Meaning::Access),
            attribute::STATUS => Ok(Meaning::Status),
            attribute::SCRUB if self.system.capabilities().integrity => Ok(Meaning::Scrub),
            _ if name.strip_prefix(attribute::SNAPSHOT).is_some_and(|name| !name.is_empty()) => {
                Ok(Meaning::Snapshot(Name::from(&name[attribute::SNAPSHOT.len()..])))
            }
            _ if self.options.streams == Streams::Attributes && name.starts_with(STREAM) => {
                match &name[STREAM.len()..] {
                    stream if !stream.is_empty() && self.system.capabilities().streams => {
                        Ok(Meaning::Stream(Name::from(stream)))
                    }
                    _ => Err(Errno::UNSUPPORTED),
                }
            }
            acl::ACCESS if self.has_acls() => Ok(Meaning::List(acl::ACCESS)),
            acl::DEFAULT if self.has_acls() => Ok(Meaning::List(acl::DEFAULT)),
            _ if self.system.capabilities().extended_attributes && linux::is_kept(name) => {
                Ok(Meaning::Extended(name))
            }
            _ => Err(Errno::UNSUPPORTED),
        }
    }

    /// What the name of an attribute of this node stands for: a stream has no attributes of its own.
    fn meaning_of<'a>(&self, node: Node, name: &'a [u8]) -> Answer<Meaning<'a>> {
        if self.stream(node).is_some() { Err(Errno::UNSUPPORTED) } else { self.meaning(name) }
    }

    /// Turns a result about an attribute into an answer. A missing attribute is `ENODATA`: `ENOENT` would mean that the
    /// file is missing.
    fn attribute<T>(&self, result: platter_vfs::Result<T>) -> Answer<T> {
        match result {
            Err(Error::NotFound) => Err(Errno::NODATA),
            other => self.told(other),
        }
    }

    /// Returns the value of an attribute.
    pub fn attribute_value(&self, node: Node, name: &[u8]) -> Answer<Vec<u8>> {
        let system = &self.system;
        match self.meaning_of(node, name)? {
            Meaning::Flags => Ok(self.told(system.attributes(node))?.flags.0.to_le_bytes().to_vec()),
            Meaning::Times => {
                let now = self.accesses.seen(node, self.told(system.attributes(node))?);
                let other = |time: Option<Timestamp>| time.unwrap_or(now.modified);
                let times = [other(now.created), now.modified, other(now.accessed), other(now.changed)];
                Ok(times.iter().flat_map(|time| time.to_file_time(u64::MAX).to_le_bytes()).collect())
            }
            Meaning::Created => {
                let created = self.told(system.attributes(node))?.created.ok_or(Errno::NODATA)?;
                Ok(created.to_file_time(u64::MAX).to_le_bytes().to_vec())
            }
            Meaning::Security => {
                self.attribute(system.security_descriptors().and_then(|part| part.get(node)))
            }
            Meaning::Reparse => {
                let point = self
                    .attribute(system.reparse_points().and_then(|part| part.get(node)))?
                    .ok_or(Errno::NODATA)?;
                Ok(reparse::to_bytes(&point))
            }
            Meaning::Integrity => {
                let is_on = self.told(system.integrity().and_then(|part| part.get(node)))?.enabled;
                Ok(if is_on { b"on".to_vec() } else { b"off".to_vec() })
            }
            Meaning::Access => Ok(if self.options.read_only { b"ro".to_vec() } else { b"rw".to_vec() }),
            Meaning::Streams => {
                let streams = self.told(system.streams().and_then(|part| part.list(node)))?;
                Ok(list_of(streams.iter().map(|stream| &stream.name)))
            }
            Meaning::Snapshots => {
                Ok(list_of(&self.told(system.snapshots().and_then(|part| part.list(node)))?))
            }
            Meaning::Snapshot(name) => {
                let name = self.told(find_snapshot(&**system, node, &name))?.ok_or(Errno::NODATA)?;
                let snapshot =
                    self.attribute(system.streams().and_then(|part| part.open(node, &name, false)))?;
                let size = self.told(system.attributes(snapshot)).map(|attributes| attributes.size);
                system.forget(snapshot, 1);
                Ok(size?.to_string().into_bytes())
            }
            Meaning::Status if node == Node::ROOT => as_json(&self.status()?),
            Meaning::Scrub if node == Node::ROOT => as_json(&self.scrubbing.state()),
            Meaning::Status | Meaning::Scrub => Err(Errno::UNSUPPORTED),
            Meaning::Stream(stream) => {
                let stream =
                    self.attribute(system.streams().and_then(|part| part.open(node, &stream, false)))?;
                let value = self.stream_value(stream);
                system.forget(stream, 1);
                value
            }
            Meaning::List(name) => Ok(self.acl(node, name)?.ok_or(Errno::NODATA)?.to_bytes()),
            Meaning::Extended(name) => {
                self.attribute(system.extended_attributes().and_then(|part| part.get(node, name)))
            }
        }
    }

    fn stream_value(&self, stream: Node) -> Answer<Vec<u8>> {
        let size = self.told(self.system.attributes(stream))?.size;
        if size > LONGEST {
            return Err(Errno(libc::E2BIG));
        }
        let mut value = vec![0; size as usize];
        let got = self.told(self.system.read(stream, 0, &mut value))?;
        value.truncate(got);
        Ok(value)
    }

    /// Fails if `user` is neither root nor the owner of the file and changes a `system.` attribute: for this namespace
    /// the kernel checks no permissions.
    ///
    /// # Errors
    /// [`Errno::NOT_PERMITTED`], and the errors of reading the attributes of the file.
    pub fn may_change_attribute(&self, node: Node, name: &[u8], user: u32) -> Answer<()> {
        match !name.starts_with(b"system.") || user == 0 || self.stat(node)?.uid == user {
            true => Ok(()),
            false => Err(Errno::NOT_PERMITTED),
        }
    }

    /// Sets an attribute.
    pub fn set_attribute(&self, node: Node, name: &[u8], value: &[u8], how: SetAttribute) -> Answer<()> {
        self.set_attribute_as(node, name, value, how, None)
    }

    /// Sets the integrity of a file or directory, given as `on` or `off`.
    fn set_integrity(&self, node: Node, value: &[u8]) -> Answer<()> {
        let enabled = match value {
            b"on" => true,
            b"off" => false,
            _ => return Err(Errno::INVALID),
        };
        let part = self.told(self.system.integrity())?;
        let integrity = Integrity { enabled, ..self.told(part.get(node))? };
        self.told(part.set(node, integrity))
    }

    /// Makes a stream, if it is not there, with this content.
    fn set_stream(&self, node: Node, name: &Name, content: &[u8]) -> Answer<()> {
        let system = &self.system;
        let stream = self.told(system.streams().and_then(|part| part.open(node, name, true)))?;
        let cut = Change { size: Some(content.len() as u64), ..Change::default() };
        let done = system.set_attributes(stream, &cut).and_then(|_| system.write(stream, 0, content));
        system.forget(stream, 1);
        self.told(done)
    }

    /// Sets an attribute for a user other than root, of whom one group is known, or for root.
    pub(crate) fn set_attribute_as(
        &self,
        node: Node,
        name: &[u8],
        value: &[u8],
        how: SetAttribute,
        stranger: Option<u32>,
    ) -> Answer<()> {
        self.change()?;
        let meaning = self.meaning_of(node, name)?;
        if how != SetAttribute::Any {
            match (self.attribute_value(node, name), how) {
                (Ok(_), SetAttribute::New) => return Err(Errno(libc::EEXIST)),
                (Err(Errno::NODATA), SetAttribute::New) | (Ok(_), _) => {}
                (Err(error), _) => return Err(error),
            }
        }
        // After a list was set the kernel asks for the permissions by itself.
        let shows = matches!(meaning, Meaning::Flags | Meaning::Times | Meaning::Created | Meaning::Reparse);
        let system = &self.system;
        let set = |change: Change| self.change_attributes(node, &change);
        let done = match meaning {
            Meaning::Flags if value.len() == 4 => {
                set(Change { flags: Some(DosFlags(u32_at(value, 0))), ..Change::default() })
            }
            Meaning::Created if value.len() == 8 => set(Change {
                created: Some(Timestamp::from_file_time(u64_at(value, 0))),
                ..Change::default()
            }),
            Meaning::Times if value.len() >= 8 && value.len().is_multiple_of(8) => {
                let time =
                    |at: usize| (value.len() >= at + 8).then(|| Timestamp::from_file_time(u64_at(value, at)));
                set(Change { created: time(0), modified: time(8), accessed: time(16), ..Change::default() })
            }
            Meaning::Security => {
                self.told(system.security_descriptors().and_then(|part| part.set(node, value)))
            }
            Meaning::Reparse => {
                let point = reparse::from_bytes(value).ok_or(Errno::INVALID)?;
                self.told(system.reparse_points().and_then(|part| part.set(node, Some(&point))))
            }
            Meaning::Integrity => self.set_integrity(node, value),
            // A snapshot has what every program reads, also what was written through a mapping.
            Meaning::Snapshot(name) if value.is_empty() => match self.hand_over(node, 0..u64::MAX) {
                true => self.told(system.snapshots().and_then(|part| part.create(node, &name))),
                false => Err(Errno(libc::EBUSY)),
            },
            // The owner of any other file is not asked whether the volume is scrubbed.
            Meaning::Scrub if node == Node::ROOT => self.scrubbing.order(value, system, self.log()),
            Meaning::Scrub => Err(Errno::UNSUPPORTED),
            Meaning::Stream(stream) => self.set_stream(node, &stream, value),
            Meaning::List(name) => self.set_acl(node, name, value, stranger),
            Meaning::Extended(name) if name.len() > 254 => Err(Errno(libc::ERANGE)),
            Meaning::Extended(name) => {
                self.told(system.extended_attributes().and_then(|part| part.set(node, name, Some(value))))
            }
            _ => Err(Errno::INVALID),
        };
        self.accesses.changed(node);
        if shows {
            // The kernel keeps what stat(2) shows, and does not know what this attribute means.
            self.notice(node);
        }
        done
    }

    /// Removes an attribute.
    pub fn remove_attribute(&self, node: Node, name: &[u8]) -> Answer<()> {
        self.change()?;
        match self.meaning_of(node, name)? {
            Meaning::Snapshot(name) => {
                self.attribute(self.system.snapshots().and_then(|part| part.remove(node, &name)))
            }
            Meaning::Stream(stream) => {
                self.attribute(self.system.streams().and_then(|part| part.remove(node, &stream)))
            }
            Meaning::List(name) => {
                self.attribute(self.system.extended_attributes().and_then(|part| part.set(node, name, None)))
            }
            Meaning::Extended(name) => {
                self.attribute(self.system.extended_attributes().and_then(|part| part.set(node, name, None)))
            }
            Meaning::Reparse => {
                match self.attribute(self.system.reparse_points().and_then(|part| part.get(node)))? {
                    Some(_) => self.told(self.system.reparse_points().and_then(|part| part.set(node, None))),
                    None => Err(Errno::NODATA),
                }
            }
            _ => Err(Errno::NOT_PERMITTED),
        }
    }

    /// Returns the names of a node's attributes, each followed by a NUL.
    pub fn attribute_names(&self, node: Node) -> Answer<Vec<u8>> {
        let mut names = Vec::new();
        if self.stream(node).is_some() {
            return Ok(names);
        }
        let mut add = |prefix: &str, name: &[u8]| {
            names.extend(prefix.as_bytes());
            names.extend(name);
            names.push(0);
        };
        if self.options.streams == Streams::Attributes && self.system.capabilities().streams {
            let streams = self.told(self.system.streams().and_then(|part| part.list(node)))?;
            streams.iter().for_each(|stream| add(STREAM, &stream.name.to_bytes()));
        }
        if self.system.capabilities().extended_attributes {
            for name in self.told(self.system.extended_attributes().and_then(|part| part.list(node)))? {
                let is_hidden = self.options.streams == Streams::Attributes && name.starts_with(STREAM);
                let is_list = [acl::ACCESS, acl::DEFAULT].contains(&&*name);
                if (linux::is_kept(&name) || is_list) && !is_hidden {
                    add("", name.as_bytes());
                }
            }
        }
        Ok(names)
    }
}

fn as_json(value: &impl Serialize) -> Answer<Vec<u8>> {
    serde_json::to_vec(value).map_err(|_| Errno(libc::EIO))
}

/// Names as the value of an attribute, with a NUL behind each.
fn list_of<'n>(names: impl IntoIterator<Item = &'n Name>) -> Vec<u8> {
    names.into_iter().flat_map(|name| [&name.to_bytes()[..], &[0]].concat()).collect()
}

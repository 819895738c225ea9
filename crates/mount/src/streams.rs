//! Named streams and snapshots as files of their own: `FILE:NAME`, with the option `streams_interface=windows`.
//!
//! No listing shows them, as no listing of Windows does, and a name with a colon means a stream only where the directory
//! has no entry of that name. Owner and permissions of a stream are those of its file.

use crate::acl;
use crate::entries::{Caller, New};
use crate::errors::{Answer, Errno};
use crate::options::Streams;
use crate::served::Served;
use crate::stat::Stat;
use platter_vfs::{Error, Kind, Name, Node, find_snapshot};

/// `FILE:NAME`, split at the colon.
pub(crate) type StreamName<'n> = (&'n [u8], &'n [u8]);

/// A stream that a name names, while it is worked on: the lookup count of its file was raised by 1.
struct Named {
    file: Node,
    stream: Name,
    is_snapshot: bool,
}

/// Whether a user may write to a file without an access control list. Further groups of the user are not known here.
fn may_write(stat: &Stat, user: Caller) -> bool {
    let bit = match () {
        () if user.uid == stat.uid => 0o200,
        () if user.gid == stat.gid => 0o020,
        () => 0o002,
    };
    user.uid == 0 || stat.mode & bit != 0
}

impl Served {
    /// Whether a user may write to a file. Further groups of the user are not known here.
    fn lets_write(&self, node: Node, user: Caller) -> Answer<bool> {
        const WRITE: u16 = 2;
        let stat = self.stat(node)?;
        match self.acl(node, acl::ACCESS)? {
            Some(list) if user.uid != 0 => Ok(list.allows((stat.uid, stat.gid), user.uid, user.gid, WRITE)),
            _ => Ok(may_write(&stat, user)),
        }
    }

    /// Whether a name can be that of a stream. The kernel may not keep such a name: it becomes another stream's, or
    /// nobody's, when the file before the colon is renamed or removed.
    pub fn names_stream(&self, name: &[u8]) -> bool {
        self.stream_name(name).is_some()
    }

    /// Splits `FILE:NAME`; `None` if this is no such name. The type that Windows adds to the name of a stream may follow.
    pub(crate) fn stream_name<'n>(&self, name: &'n [u8]) -> Option<StreamName<'n>> {
        if self.options.streams != Streams::Files {
            return None;
        }
        let colon = name.iter().position(|&byte| byte == b':')?;
        let (file, stream) = (&name[..colon], &name[colon + 1..]);
        let stream = stream.strip_suffix(b":$DATA").unwrap_or(stream);
        (!file.is_empty() && !stream.is_empty()).then_some((file, stream))
    }

    /// The file of a stream, or else the node itself: who has the owner and the permissions.
    pub(crate) fn owning(&self, node: Node) -> Node {
        self.stream(node).map_or(node, |(file, _)| file)
    }

    /// The file of a stream, and whether it is a snapshot; `None` if the node is no stream.
    pub(crate) fn stream(&self, node: Node) -> Option<(Node, bool)> {
        match self.options.streams {
            Streams::Files => self.streams.get(node),
            Streams::Hidden | Streams::Attributes => None,
        }
    }

    /// Lowers the lookup count of a node if it is a stream.
    pub(crate) fn left_stream(&self, node: Node, count: u64) {
        if self.options.streams == Streams::Files
            && let Some(file) = self.streams.left(node, count)
        {
            self.give_back(file, 1);
        }
    }

    /// Finds the file and the stream that a name names.
    fn named_stream(&self, directory: Node, (file, stream): StreamName<'_>) -> Answer<Named> {
        let (file, stream) = (self.sought(directory, file)?, self.check_length(Name::from_bytes(stream))?);
        let file = self.told(self.system.lookup(directory, &file))?;
        match find_snapshot(&*self.system, file, &stream) {
            Ok(snapshot) => Ok(Named { file, stream, is_snapshot: snapshot.is_some() }),
            Err(error) => {
                self.give_back(file, 1);
                self.told(Err(error))
            }
        }
    }

    /// Looks up `FILE:NAME`.
    pub(crate) fn look_up_stream(&self, directory: Node, name: StreamName<'_>) -> Answer<Stat> {
        let named = self.named_stream(directory, name)?;
        let found =
            self.told(self.system.streams().and_then(|part| part.open(named.file, &named.stream, false)));
        self.stream_came(named, found)
    }

    /// Makes the stream `FILE:NAME` of a file that exists. The caller must be allowed to write to the file: the kernel has
    /// only checked that the caller may make entries in the directory.
    pub(crate) fn make_stream(&self, directory: Node, name: StreamName<'_>, new: New) -> Answer<Stat> {
        let named = self.named_stream(directory, name)?;
        let made = match self.system.streams().and_then(|part| part.open(named.file, &named.stream, false)) {
            Ok(stream) => {
                self.give_back(stream, 1);
                Err(Errno(libc::EEXIST))
            }
            Err(Error::NotFound) if !self.lets_write(named.file, new.caller()).unwrap_or(false) => {
                Err(Errno(libc::EACCES))
            }
            Err(Error::NotFound) => {
                self.told(self.system.streams().and_then(|part| part.open(named.file, &named.stream, true)))
            }
            Err(error) => self.told(Err(error)),
        };
        self.stream_came(named, made)
    }

    /// Removes the stream or snapshot `FILE:NAME`, which is content of the file, under all names of it: the caller must be
    /// allowed to write to the file.
    pub(crate) fn remove_stream(&self, directory: Node, name: StreamName<'_>, caller: Caller) -> Answer<()> {
        let Named { file, stream, is_snapshot } = self.named_stream(directory, name)?;
        let done = match self.lets_write(file, caller) {
            Ok(false) => Err(Errno(libc::EACCES)),
            Ok(_) if is_snapshot => {
                self.told(self.system.snapshots().and_then(|part| part.remove(file, &stream)))
            }
            Ok(_) => self.told(self.system.streams().and_then(|part| part.remove(file, &stream))),
            Err(error) => Err(error),
        };
        self.give_back(file, 1);
        done
    }

    /// Counts a lookup of a stream whose lookup count was raised just now, as was that of its file.
    fn stream_came(&self, named: Named, found: Answer<Node>) -> Answer<Stat> {
        let Named { file, is_snapshot, .. } = named;
        let stream = found.inspect_err(|_| self.give_back(file, 1))?;
        if !self.streams.came(stream, file, is_snapshot) {
            self.give_back(file, 1);
        }
        self.told(self.system.attributes(stream))
            .map(|attributes| self.stat_of(stream, &attributes))
            .inspect_err(|_| self.forget(stream, 1))
    }

    /// Turns what is known of a stream and the permissions of its file into what programs see.
    pub(crate) fn as_stream(&self, stat: &mut Stat, is_snapshot: bool) {
        stat.kind = Kind::File;
        stat.special = None;
        stat.device = 0;
        stat.links = 1;
        stat.mode &= if is_snapshot { 0o444 } else { 0o666 };
    }
}

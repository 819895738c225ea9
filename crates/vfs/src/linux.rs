//! Linux metadata that the Windows formats do not have, in the form in which Windows itself stores it for Linux.
//!
//! Owner, group and mode are kept in the extended attributes that the Windows Subsystem for Linux gives to files, which
//! Windows and Linux's own driver read too: `$LXUID`, `$LXGID` and `$LXMOD`, 4 bytes each, and `$LXDEV`, the major and
//! minor number of a device, 4 bytes each. FIFOs, sockets and devices are files with a reparse point, with a tag for
//! each kind; symbolic links that Windows could not follow have a reparse point with a tag of their own.
//!
//! Source: Microsoft, "File Permissions for WSL" (the attributes and their sizes); [MS-FSCC] 2.1.2.1 (the tags).

use crate::bytes::u32_at;
use crate::{Error, FileSystem, Node, Reparse, Result, reparse};

const UID: &str = "$LXUID";
const GID: &str = "$LXGID";
const MODE: &str = "$LXMOD";
const DEVICE: &str = "$LXDEV";

/// The bits of a mode, as Linux numbers them.
pub mod mode {
    /// The permission bits, with set-user-id, set-group-id and the sticky bit.
    pub const PERMISSIONS: u32 = 0o7777;
    /// The kind of the file.
    pub const TYPE: u32 = 0o170_000;
    /// A named pipe.
    pub const FIFO: u32 = 0o010_000;
    /// A character device.
    pub const CHARACTER: u32 = 0o020_000;
    /// A directory.
    pub const DIRECTORY: u32 = 0o040_000;
    /// A block device.
    pub const BLOCK: u32 = 0o060_000;
    /// A file.
    pub const REGULAR: u32 = 0o100_000;
    /// A symbolic link.
    pub const LINK: u32 = 0o120_000;
    /// A socket.
    pub const SOCKET: u32 = 0o140_000;
}

/// Whether an extended attribute of Linux is kept on a volume, under its whole name: those in the namespaces `user.`,
/// `trusted.` and `security.` are. What is in `system.` are properties that the file system has otherwise.
pub fn is_kept(name: &str) -> bool {
    let parts = name.split_once('.');
    parts.is_some_and(|(space, rest)| ["user", "trusted", "security"].contains(&space) && !rest.is_empty())
}

/// The Linux metadata in a file's extended attributes. A field without an attribute is `None`: the program that shows
/// the volume, such as a mount, chooses its value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinuxAttributes {
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Kind and permissions, as in `st_mode`.
    pub mode: Option<u32>,
    /// Major and minor number, for a device.
    pub device: Option<(u32, u32)>,
}

impl LinuxAttributes {
    /// Whether an extended attribute of this name holds Linux metadata.
    pub fn has(name: &str) -> bool {
        [UID, GID, MODE, DEVICE].iter().any(|own| own.eq_ignore_ascii_case(name))
    }

    /// Reads the Linux metadata of a node.
    ///
    /// # Errors
    /// The errors of reading extended attributes.
    pub fn read(system: &dyn FileSystem, node: Node) -> Result<LinuxAttributes> {
        let mut found = LinuxAttributes::default();
        for name in system.extended_attributes()?.list(node)? {
            if !LinuxAttributes::has(&name) {
                continue;
            }
            let value = system.extended_attributes()?.get(node, &name)?;
            let number = (value.len() >= 4).then(|| u32_at(&value, 0));
            match &*name.to_ascii_uppercase() {
                UID => found.uid = number,
                GID => found.gid = number,
                MODE => found.mode = number,
                DEVICE if value.len() >= 8 => found.device = Some((u32_at(&value, 0), u32_at(&value, 4))),
                _ => {}
            }
        }
        Ok(found)
    }

    /// The fields that are given, as extended attributes: name and value of each.
    pub fn extended(&self) -> Vec<(&'static str, Vec<u8>)> {
        let number = |number: u32| number.to_le_bytes().to_vec();
        let device = self.device.map(|(major, minor)| [number(major), number(minor)].concat());
        let values = [
            (UID, self.uid.map(number)),
            (GID, self.gid.map(number)),
            (MODE, self.mode.map(number)),
            (DEVICE, device),
        ];
        values.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }

    /// Writes the fields that are given, all of them or none, and leaves the other attributes unchanged.
    ///
    /// # Errors
    /// The errors of writing extended attributes.
    pub fn write(&self, system: &dyn FileSystem, node: Node) -> Result<()> {
        let values = self.extended();
        let changes: Vec<_> = values.iter().map(|(name, value)| (*name, Some(&value[..]))).collect();
        system.extended_attributes().and_then(|part| part.set_several(node, &changes))
    }

    /// Whether no field is given.
    pub fn is_empty(&self) -> bool {
        *self == LinuxAttributes::default()
    }
}

/// A kind of file that only Linux has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Special {
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
    /// A character device.
    Character,
    /// A block device.
    Block,
}

impl Special {
    /// The special kind that the type bits of a mode say, if it is one of these.
    pub fn of_mode(mode: u32) -> Option<Special> {
        match mode & mode::TYPE {
            mode::FIFO => Some(Special::Fifo),
            mode::SOCKET => Some(Special::Socket),
            mode::CHARACTER => Some(Special::Character),
            mode::BLOCK => Some(Special::Block),
            _ => None,
        }
    }

    /// The type bits of a mode for this kind.
    pub fn mode(self) -> u32 {
        match self {
            Special::Fifo => mode::FIFO,
            Special::Socket => mode::SOCKET,
            Special::Character => mode::CHARACTER,
            Special::Block => mode::BLOCK,
        }
    }

    /// Whether a file of this kind has a device number.
    pub fn is_device(self) -> bool {
        matches!(self, Special::Character | Special::Block)
    }

    /// The reparse point by which Windows and the Windows Subsystem for Linux recognise a file of this kind.
    pub fn reparse_point(self) -> Reparse {
        let tag = match self {
            Special::Socket => 0x8000_0023,
            Special::Fifo => 0x8000_0024,
            Special::Character => 0x8000_0025,
            Special::Block => 0x8000_0026,
        };
        Reparse { tag, data: Vec::new() }
    }
}

/// The version that precedes the target in the data of a symbolic link of the Windows Subsystem for Linux.
const LINK_VERSION: [u8; 4] = [2, 0, 0, 0];

/// The reparse point of a symbolic link to a target of any bytes: in Windows' own form where that can hold the target,
/// else in the form of the Windows Subsystem for Linux.
pub fn link_to(target: &[u8]) -> Reparse {
    let windows = std::str::from_utf8(target).ok().and_then(|text| reparse::link_to(text).ok());
    windows.unwrap_or_else(|| Reparse { tag: reparse::LINUX_SYMLINK, data: [&LINK_VERSION, target].concat() })
}

/// The target of a symbolic link, byte for byte.
///
/// # Errors
/// [`Error::InvalidArgument`] if the node is no symbolic link, and the errors of reading it.
pub fn link_target(system: &dyn FileSystem, node: Node) -> Result<Vec<u8>> {
    match system.reparse_points().and_then(|part| part.get(node)) {
        Ok(Some(Reparse { tag: reparse::LINUX_SYMLINK, data })) => {
            Ok(data.get(LINK_VERSION.len()..).unwrap_or(&[]).to_vec())
        }
        Ok(_) | Err(Error::Unsupported { .. }) => system.read_link(node).map(String::into_bytes),
        Err(error) => Err(error),
    }
}

//! Reparse points that are symbolic links, in the forms that Windows and the Windows Subsystem for Linux give them.
//!
//! Source: [MS-FSCC] 2.1.2 (`REPARSE_DATA_BUFFER`).

use crate::bytes::{put, u16_at, u32_at};
use crate::{Error, Name, Reparse, Result};

/// The tag of symbolic links.
pub const SYMLINK: u32 = 0xA000_000C;
/// The tag of junctions and mount points.
pub const JUNCTION: u32 = 0xA000_0003;
/// The tag of symbolic links that the Windows Subsystem for Linux makes where Windows could not follow them.
pub const LINUX_SYMLINK: u32 = 0xA000_001D;

/// `SYMLINK_FLAG_RELATIVE`: the target is relative to the directory of the link.
const RELATIVE: u16 = 1;

/// Whether a node with this reparse tag is a symbolic link, which has a target path and no content.
pub fn is_link(tag: u32) -> bool {
    matches!(tag, SYMLINK | JUNCTION | LINUX_SYMLINK)
}

/// Bytes before the data that the length of a reparse point counts: tag and length, and, if the tag is not Microsoft's,
/// a GUID, which [`Reparse::data`] begins with.
pub fn header(tag: u32) -> usize {
    if tag & 0x8000_0000 == 0 { 24 } else { 8 }
}

/// Refuses a reparse point that no file can have.
///
/// # Errors
/// [`Error::InvalidArgument`].
pub fn check(point: &Reparse) -> Result<()> {
    if point.tag == 0 || point.data.len() > 16 << 10 {
        return Err(Error::InvalidArgument("a reparse point has a tag and at most 16 KiB of data"));
    }
    if point.data.len() + 8 < header(point.tag) {
        return Err(Error::InvalidArgument("data of a tag that is not Microsoft's begins with a GUID"));
    }
    Ok(())
}

/// The bytes of a reparse point as Windows hands it out: tag, length, two bytes of zero, and data. The length does not
/// count the GUID that the data of a tag that is not Microsoft's begins with.
pub fn to_bytes(point: &Reparse) -> Vec<u8> {
    let length = (8 + point.data.len()).saturating_sub(header(point.tag));
    let mut bytes = vec![0; 8];
    put(&mut bytes, 0, point.tag);
    put(&mut bytes, 4, length as u16);
    bytes.extend(&point.data);
    bytes
}

/// Reads what [`to_bytes`] writes; `None` if the length is not that of the data.
pub fn from_bytes(bytes: &[u8]) -> Option<Reparse> {
    let data = bytes.get(8..)?.to_vec();
    let tag = u32_at(bytes, 0);
    (header(tag) + usize::from(u16_at(bytes, 4)) == bytes.len()).then_some(Reparse { tag, data })
}

/// The reparse point of a symbolic link. Windows stores the target twice: the substitute name, which is followed, and
/// the print name, which is shown.
///
/// # Errors
/// [`Error::InvalidArgument`] if the target is empty or longer than 1024 UTF-16 units, or has a backslash, which Windows
/// takes for a separator.
pub fn link_to(target: &str) -> Result<Reparse> {
    let shown: Vec<u16> = target.encode_utf16().collect();
    // The substitute name separates by backslashes; [`target`] turns them back into slashes.
    let followed = shown.iter().map(|&unit| if unit == u16::from(b'/') { u16::from(b'\\') } else { unit });
    if shown.is_empty() || shown.len() > 1024 || target.contains('\\') {
        return Err(Error::InvalidArgument("a target has 1 to 1024 UTF-16 units and no backslash"));
    }
    let bytes = 2 * shown.len();
    let mut data = vec![0; 12 + 2 * bytes];
    for (at, number) in [(0, 0), (2, bytes), (4, bytes), (6, bytes)] {
        put(&mut data, at, number as u16);
    }
    let relative = !target.starts_with('/') && !target.contains(':');
    put(&mut data, 8, if relative { u32::from(RELATIVE) } else { 0 });
    for (index, unit) in followed.chain(shown.iter().copied()).enumerate() {
        put(&mut data, 12 + 2 * index, unit);
    }
    Ok(Reparse { tag: SYMLINK, data })
}

/// An absolute target in the form of Windows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WindowsPath {
    /// On a drive with this letter.
    Drive(char, Vec<Name>),
    /// On the volume that the link is on.
    Root(Vec<Name>),
    /// On a volume that is named by an identifier or as a share of another machine: the whole target.
    Volume(String),
}

/// The target of a junction or of a symbolic link of Windows as Windows follows it, if it is absolute. `None` for a
/// relative one, for a link that Linux made (its target has no drive), and for what is no link.
pub fn windows_path(point: &Reparse) -> Option<WindowsPath> {
    let Reparse { tag, data } = point;
    let (names, is_relative) = match *tag {
        SYMLINK => (12, u16_at(data, 8) & RELATIVE != 0),
        JUNCTION => (8, false),
        _ => return None,
    };
    let start = names + usize::from(u16_at(data, 0));
    let bytes = data.get(start..start + usize::from(u16_at(data, 2)))?;
    let units: Vec<u16> = bytes.chunks_exact(2).map(|unit| u16_at(unit, 0)).collect();
    let followed = String::from_utf16(&units).ok()?;
    let names = |path: &str| {
        let parts = path.split(['\\', '/']).filter(|part| !part.is_empty() && *part != ".");
        parts.map(Name::from).collect::<Vec<_>>()
    };
    if is_relative {
        // A target that begins with a separator begins at the root of the link's volume.
        return followed.starts_with('\\').then(|| WindowsPath::Root(names(&followed)));
    }
    let path = followed.strip_prefix("\\??\\").unwrap_or(&followed);
    let mut begin = path.chars();
    match (begin.next(), begin.next()) {
        (Some(drive), Some(':')) if drive.is_ascii_alphabetic() => {
            Some(WindowsPath::Drive(drive, names(&path[2..])))
        }
        _ if followed.len() > path.len() || path.starts_with("\\\\") => {
            Some(WindowsPath::Volume(path.to_string()))
        }
        _ => None,
    }
}

/// The target of a symbolic link, junction or mount point: its print name if it has one. Windows separates the names in
/// a relative target by backslashes, which become slashes here; an absolute one leads to a drive and stays as it is.
///
/// # Errors
/// [`Error::InvalidArgument`] for other reparse points; [`Error::Damaged`] if the data contains no target.
pub fn target(point: &Reparse) -> Result<String> {
    let Reparse { tag, data } = point;
    match *tag {
        LINUX_SYMLINK => return Ok(String::from_utf8_lossy(data.get(4..).unwrap_or(&[])).into_owned()),
        tag if !is_link(tag) => return Err(Error::InvalidArgument("not a symbolic link")),
        _ => {}
    }
    // The data of a symbolic link has a flags field ("relative") before the names; that of a junction has none.
    let names = if *tag == SYMLINK { 12 } else { 8 };
    let part = |at: usize| {
        let start = names + usize::from(u16_at(data, at));
        let bytes = data.get(start..start + usize::from(u16_at(data, at + 2)))?;
        let units: Vec<u16> = bytes.chunks_exact(2).map(|unit| u16_at(unit, 0)).collect();
        (!units.is_empty()).then(|| String::from_utf16_lossy(&units))
    };
    let shown = part(4).or_else(|| part(0).map(|path| path.trim_start_matches("\\??\\").replace('\\', "/")));
    let is_relative = *tag == SYMLINK && u16_at(data, 8) & RELATIVE != 0;
    let shown = shown.map(|path| if is_relative { path.replace('\\', "/") } else { path });
    shown.ok_or_else(|| Error::damaged("symbolic link", 0, "a target", "none"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A link whose substitute name is this, without a print name.
    fn link(tag: u32, flags: u32, followed: &str) -> Reparse {
        let units: Vec<u8> = followed.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let mut data = vec![0; if tag == SYMLINK { 12 } else { 8 }];
        put(&mut data, 2, units.len() as u16);
        if tag == SYMLINK {
            put(&mut data, 8, flags);
        }
        data.extend(units);
        Reparse { tag, data }
    }

    #[test]
    fn absolute_targets_of_windows() {
        let names = |all: &[&str]| all.iter().map(|name| Name::from(*name)).collect::<Vec<_>>();
        let of = |tag, flags, followed: &str| windows_path(&link(tag, flags, followed));
        let users = Some(WindowsPath::Drive('C', names(&["Users", "All"])));
        assert_eq!(of(JUNCTION, 0, r"\??\C:\Users\All"), users);
        assert_eq!(of(SYMLINK, 0, r"\??\C:\Users\All\"), users);
        assert_eq!(of(SYMLINK, 0, r"C:\Users\All"), users);
        assert_eq!(of(JUNCTION, 0, r"\??\d:\"), Some(WindowsPath::Drive('d', Vec::new())));
        assert_eq!(of(SYMLINK, 1, r"\Users"), Some(WindowsPath::Root(names(&["Users"]))));
        let volume = r"Volume{600f0b69-5bdf-11e3-9d6c-005056c00008}\a";
        let found = of(JUNCTION, 0, &format!(r"\??\{volume}"));
        assert_eq!(found, Some(WindowsPath::Volume(volume.into())));
        let share = Some(WindowsPath::Volume(r"UNC\server\share".into()));
        assert_eq!(of(SYMLINK, 0, r"\??\UNC\server\share"), share);
        for (tag, flags, followed) in [
            (SYMLINK, 1, r"..\a"),
            (SYMLINK, 0, r"\etc\passwd"),
            (LINUX_SYMLINK, 0, "C:/a"),
            (SYMLINK, 0, ""),
        ] {
            assert_eq!(of(tag, flags, followed), None, "{followed}");
        }
        assert_eq!(windows_path(&link_to("/etc/passwd").unwrap()), None, "a link that Linux made");
        // No bytes are taken from behind the data.
        let mut short = link(JUNCTION, 0, r"\??\C:\Users");
        short.data.truncate(20);
        assert_eq!(windows_path(&short), None);
        assert_eq!(windows_path(&Reparse { tag: SYMLINK, data: Vec::new() }), None);
    }
}

//! Names of files and devices.

use std::ffi::OsString;
use std::os::windows::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf, Prefix};

/// Whether a path names a disk, a partition or a volume as a device: `\\.\PhysicalDrive1`, `\\.\X:`,
/// `\\?\Volume{…}` without anything behind it.
///
/// Source: Microsoft, "Naming Files, Paths, and Namespaces".
pub fn is_disk(path: &Path) -> bool {
    let mut parts = path.components();
    let Some(Component::Prefix(prefix)) = parts.next() else { return false };
    let nothing_follows =
        !path.as_os_str().as_encoded_bytes().ends_with(b"\\") && parts.all(|part| part == Component::RootDir);
    let name = match prefix.kind() {
        Prefix::DeviceNS(name) | Prefix::Verbatim(name) => name.to_string_lossy().to_ascii_lowercase(),
        _ => return false,
    };
    let is_numbered = |kind: &str| {
        name.strip_prefix(kind)
            .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let is_letter = name.len() == 2 && name.ends_with(':') && name.as_bytes()[0].is_ascii_alphabetic();
    nothing_follows
        && (is_numbered("physicaldrive") || is_letter || (name.starts_with("volume{") && name.ends_with('}')))
}

/// What a disk is called in the names of files: `PhysicalDrive1`, and `C_` for a drive.
pub fn name_of_disk(path: &Path) -> OsString {
    let name = path.to_string_lossy();
    let name = name.trim_start_matches(r"\\.\").trim_start_matches(r"\\?\");
    name.replace(|letter: char| !letter.is_ascii_alphanumeric() && letter != '-', "_").into()
}

/// The directory in which is noted what belongs to disks.
pub fn directory_of_records() -> PathBuf {
    let data = std::env::var_os("ProgramData").unwrap_or_else(|| r"C:\ProgramData".into());
    PathBuf::from(data).join("Platter")
}

/// A string of the system from the bytes that [`OsStr::as_encoded_bytes`](std::ffi::OsStr::as_encoded_bytes) returns,
/// or from bytes of a name on a volume. What is neither text nor an unpaired surrogate becomes U+FFFD.
pub fn host_string(bytes: &[u8]) -> OsString {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return text.into();
    }
    let mut units: Vec<u16> = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while !rest.is_empty() {
        let valid = match std::str::from_utf8(rest) {
            Ok(text) => text,
            Err(error) => std::str::from_utf8(&rest[..error.valid_up_to()]).expect("checked just now"),
        };
        units.extend(valid.encode_utf16());
        rest = &rest[valid.len()..];
        match rest {
            [] => {}
            // The three bytes of an unpaired surrogate in generalised UTF-8.
            [0xED, second @ 0xA0..=0xBF, third @ 0x80..=0xBF, ..] => {
                units.push(0xD000 | u16::from(second & 0x3F) << 6 | u16::from(third & 0x3F));
                rest = &rest[3..];
            }
            [_, ..] => {
                units.push(0xFFFD);
                rest = &rest[1..];
            }
        }
    }
    OsString::from_wide(&units)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_told_from_files() {
        for device in [r"\\.\PhysicalDrive0", r"\\.\physicaldrive12", r"\\.\C:", r"\\?\Volume{1234-5}"] {
            assert!(is_disk(Path::new(device)), "{device}");
        }
        assert_eq!(name_of_disk(Path::new(r"\\.\PhysicalDrive1")), "PhysicalDrive1");
        assert_eq!(name_of_disk(Path::new(r"\\.\C:")), "C_");
        for other in [
            r"C:\",
            r"\\.\C:\x",
            r"\\?\Volume{1}\",
            r"\\.\pipe\x",
            r"x.img",
            r"\\?\C:\x",
            r"\\.\PhysicalDrive",
        ] {
            assert!(!is_disk(Path::new(other)), "{other}");
        }
    }

    #[test]
    fn strings_go_both_ways() {
        for units in [&[0x61, 0xE9][..], &[0xD83D, 0xDE00], &[0x61, 0xD800, 0x62]] {
            let string = OsString::from_wide(units);
            assert_eq!(host_string(string.as_encoded_bytes()), string);
        }
        assert_eq!(host_string(b"a\xFFb"), "a\u{FFFD}b");
    }
}

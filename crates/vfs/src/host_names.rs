//! Which names of a volume can be names of files of the host.
//!
//! A name that was made on another system, or by somebody who means harm, may lead elsewhere when it becomes part of a path
//! of the host: to another directory, to a device, to a stream of another file.

use crate::Name;

/// The most UTF-16 units of a name on Windows.
const LONGEST: usize = 255;

/// Why a name cannot be the name of a file of POSIX, or would lead elsewhere; `None` if it can be.
pub fn why_posix_refuses(name: &Name) -> Option<&'static str> {
    let bytes = name.to_bytes();
    match &bytes[..] {
        b"" => Some("is empty"),
        b"." | b".." => Some("means a directory"),
        bytes if bytes.contains(&b'/') => Some("has a slash, which separates directories"),
        bytes if bytes.contains(&0) => Some("has a zero, which ends a path"),
        _ => None,
    }
}

/// Why a name cannot be the name of a file of Windows, or would lead elsewhere; `None` if it can be.
///
/// Source: Microsoft, "Naming Files, Paths, and Namespaces": the characters that are not allowed, the names of devices
/// (with any extension too), and that a final dot or space is dropped, which gives another name.
pub fn why_windows_refuses(name: &Name) -> Option<&'static str> {
    let units = name.units();
    let is = |unit: u16, letter: char| unit == letter as u16;
    match units {
        [] => return Some("is empty"),
        [only] if is(*only, '.') => return Some("means a directory"),
        [one, two] if is(*one, '.') && is(*two, '.') => return Some("means a directory"),
        _ => {}
    }
    if units.iter().any(|&unit| is(unit, '\\') || is(unit, '/')) {
        return Some("has a slash, which separates directories on Windows");
    }
    if units.iter().any(|&unit| is(unit, ':')) {
        return Some("has a colon, which names a drive or a stream on Windows");
    }
    if units.iter().any(|&unit| unit < 0x20 || "<>\"|?*".chars().any(|letter| is(unit, letter))) {
        return Some("has a character that Windows allows in no name");
    }
    if units.last().is_some_and(|&last| is(last, '.') || is(last, ' ')) {
        return Some("ends in a dot or a space, which Windows drops");
    }
    if is_device(units) {
        return Some("is the name of a device on Windows");
    }
    (units.len() > LONGEST).then_some("is longer than Windows allows")
}

/// Why a name cannot be the name of a file of this system.
pub fn why_host_refuses(name: &Name) -> Option<&'static str> {
    if cfg!(windows) { why_windows_refuses(name) } else { why_posix_refuses(name) }
}

/// A name of this system that resembles the one given, and leads nowhere else: what is not allowed in it is an
/// underscore.
pub fn made_safe(name: &Name) -> Name {
    if cfg!(windows) { safe_on_windows(name) } else { safe_on_posix(name) }
}

fn safe_on_posix(name: &Name) -> Name {
    let mut bytes = name.to_bytes();
    bytes.iter_mut().filter(|byte| matches!(byte, 0 | b'/')).for_each(|byte| *byte = b'_');
    if matches!(&bytes[..], b"" | b"." | b"..") {
        bytes.insert(0, b'_');
    }
    Name::from_bytes(&bytes)
}

fn safe_on_windows(name: &Name) -> Name {
    let mut units = name.units().to_vec();
    for unit in &mut units {
        if *unit < 0x20 || "\\/:<>\"|?*".chars().any(|letter| *unit == letter as u16) {
            *unit = u16::from(b'_');
        }
    }
    if is_device(&units) || matches!(&units[..], [] | [0x2E] | [0x2E, 0x2E]) {
        units.insert(0, u16::from(b'_'));
    }
    units.truncate(LONGEST);
    if let Some(last) = units.last_mut().filter(|last| matches!(**last, 0x2E | 0x20)) {
        *last = u16::from(b'_');
    }
    Name::from_units(&units)
}

/// Whether a name means a device in every directory: `CON`, `NUL.txt`, `com¹ .x`.
fn is_device(units: &[u16]) -> bool {
    let name = String::from_utf16_lossy(units);
    let base = name.split('.').next().unwrap_or("").trim_end_matches(' ').to_uppercase();
    let is_numbered = |kind: &str| {
        let number = base.strip_prefix(kind);
        number.is_some_and(|number| {
            number.chars().count() == 1 && number.contains(|c: char| "0123456789¹²³".contains(c))
        })
    };
    ["CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$", "CLOCK$"].contains(&&*base)
        || is_numbered("COM")
        || is_numbered("LPT")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names that lead out of a directory of Windows, or to a device, or to another file.
    const HOSTILE: [&str; 27] = [
        "", ".", "..", r"..\x", r"..\..\x", r"\x", r"C:\x", "C:x", "a:b", "a::$DATA", "../x", "a/b", "CON",
        "con", "NUL", "nul.txt", "NUL .txt", "aux.", "COM1", "com¹.a", "LPT9.x.y", "CONOUT$", "x.", "x ",
        "x. .", "a\u{1}b", "what?",
    ];

    #[test]
    fn what_windows_would_take_for_something_else_is_refused_with_a_reason() {
        for name in HOSTILE {
            assert!(why_windows_refuses(&Name::from(name)).is_some(), "{name:?}");
        }
        assert!(why_windows_refuses(&Name::from(&*"a".repeat(256))).is_some());
        for name in
            ["a", "..a", "...a", "con1", "console.log", "COM", "COM10", "a.con", ".x", "ä b", "x~1", "nulls"]
        {
            assert_eq!(why_windows_refuses(&Name::from(name)), None, "{name:?}");
        }
        assert_eq!(why_windows_refuses(&Name::from_units(&[0x61, 0xD800])), None);
    }

    #[test]
    fn what_posix_would_take_for_something_else_is_refused_with_a_reason() {
        for name in ["", ".", "..", "a/b", "../x", "/etc/passwd", "a\0b"] {
            assert!(why_posix_refuses(&Name::from(name)).is_some(), "{name:?}");
        }
        for name in ["..a", r"..\x", "CON", "x.", "a:b"] {
            assert_eq!(why_posix_refuses(&Name::from(name)), None, "{name:?}");
        }
    }

    #[test]
    fn a_safe_name_is_one_and_a_harmless_one_stays() {
        let every = (0..=0x180_u16).flat_map(|one| (0..=0x80_u16).map(move |two| vec![one, two]));
        let named = HOSTILE.into_iter().map(|name| Name::from(name).units().to_vec());
        for units in every.chain(named).chain([vec![0x2E; 300], vec![0x61; 300]]) {
            let name = Name::from_units(&units);
            let safe = safe_on_windows(&name);
            assert_eq!(why_windows_refuses(&safe), None, "{name:?} became {safe:?}");
            assert!(why_windows_refuses(&name).is_some() || safe == name, "{name:?} became {safe:?}");
            let safe = safe_on_posix(&name);
            assert_eq!(why_posix_refuses(&safe), None, "{name:?} became {safe:?}");
        }
    }
}

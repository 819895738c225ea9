//! Attributes, names and streams of files.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::windows::ffi::OsStrExt;
use std::os::windows::fs::OpenOptionsExt;
use std::os::windows::io::AsRawHandle;
use std::path::Path;
use windows_sys::Win32::Foundation::{ERROR_HANDLE_EOF, ERROR_INVALID_PARAMETER, INVALID_HANDLE_VALUE};
use windows_sys::Win32::Storage::FileSystem::{
    BY_HANDLE_FILE_INFORMATION, FILE_FLAG_BACKUP_SEMANTICS, FILE_FLAG_OPEN_REPARSE_POINT, FindClose,
    FindFirstStreamW, FindNextStreamW, FindStreamInfoStandard, GetFileInformationByHandle,
    SetFileAttributesW, WIN32_FIND_STREAM_DATA,
};

fn wide(path: &OsStr) -> Vec<u16> {
    path.encode_wide().chain([0]).collect()
}

/// How many names a file has; 1 where the system does not tell.
pub fn links(path: &Path) -> u64 {
    let flags = FILE_FLAG_BACKUP_SEMANTICS | FILE_FLAG_OPEN_REPARSE_POINT;
    let Ok(file) = File::options().access_mode(0).custom_flags(flags).open(path) else { return 1 };
    let mut facts = BY_HANDLE_FILE_INFORMATION::default();
    // SAFETY: the handle is open, and the call fills one structure, which is live.
    match unsafe { GetFileInformationByHandle(file.as_raw_handle(), &raw mut facts) } {
        0 => 1,
        _ => facts.nNumberOfLinks.max(1).into(),
    }
}

/// Sets the attributes of a file (`FILE_ATTRIBUTE_…`).
///
/// # Errors
/// The errors of the system.
pub fn set_attributes(path: &Path, attributes: u32) -> io::Result<()> {
    const NORMAL: u32 = 0x80;
    let attributes = if attributes == 0 { NORMAL } else { attributes };
    // SAFETY: the path ends with a zero.
    match unsafe { SetFileAttributesW(wide(path.as_os_str()).as_ptr(), attributes) } {
        0 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// The names of the streams of a file, as UTF-16; none where the file system has no streams.
///
/// # Errors
/// The errors of the system.
pub fn streams(path: &Path) -> io::Result<Vec<Vec<u16>>> {
    let is_end = |error: &io::Error| {
        let code = error.raw_os_error().unwrap_or(0) as u32;
        [ERROR_HANDLE_EOF, ERROR_INVALID_PARAMETER, 1, 50, 120].contains(&code)
    };
    let mut found = WIN32_FIND_STREAM_DATA::default();
    let path = wide(path.as_os_str());
    // SAFETY: the path ends with a zero, and the call fills one structure, which is live.
    let search =
        unsafe { FindFirstStreamW(path.as_ptr(), FindStreamInfoStandard, (&raw mut found).cast(), 0) };
    if search == INVALID_HANDLE_VALUE {
        let error = io::Error::last_os_error();
        return if is_end(&error) { Ok(Vec::new()) } else { Err(error) };
    }
    let mut names = Vec::new();
    let ended = loop {
        names.extend(name(&found.cStreamName));
        // SAFETY: the search is open, and the call fills one structure, which is live.
        if unsafe { FindNextStreamW(search, (&raw mut found).cast()) } == 0 {
            break io::Error::last_os_error();
        }
    };
    // SAFETY: the search is open, and is not used again.
    unsafe { FindClose(search) };
    if is_end(&ended) { Ok(names) } else { Err(ended) }
}

/// The name in `:name:$DATA`; `None` for the content of the file, whose name is empty.
fn name(text: &[u16]) -> Option<Vec<u16>> {
    let colon = u16::from(b':');
    let text = &text[..text.iter().position(|&unit| unit == 0).unwrap_or(text.len())];
    let name = text.strip_prefix(&[colon])?.split(|&unit| unit == colon).next()?;
    (!name.is_empty()).then(|| name.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_is_between_colons() {
        let of = |text: &str| name(&text.encode_utf16().chain([0, 7]).collect::<Vec<_>>());
        assert_eq!(of(":a b:$DATA"), Some("a b".encode_utf16().collect()));
        assert_eq!(of("::$DATA"), None);
    }
}

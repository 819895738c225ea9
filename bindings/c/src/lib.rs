//! The C interface of Platter. `platter.h` says what each function does; a test compares its declarations with the
//! functions here.
//!
//! `unsafe` is used only where a C interface needs it: for pointers whose validity the caller guarantees. All else is
//! in the safe library. A panic, which would be a defect, is caught and returned as `-EIO`; it does not unwind into the
//! caller.

mod call;

use call::{Failure, answer, given, here, text};
use libc::{c_char, c_int, c_void};
use platter::{
    Access, CheckOptions, DirEntry, ErrorKind, Kind, MakeOptions, OpenOptions, RecoverOptions, Silent,
    Source, Timestamp, Volume as Inner,
};
use std::ffi::CString;
use std::path::Path;

/// An open volume.
pub struct Volume(Inner);

/// An open file or stream.
pub struct File(platter::File);

/// A listing under way, and the name of the last entry, to which the `name` of that [`Entry`] points.
pub struct Directory {
    entries: Box<dyn Iterator<Item = platter::Result<DirEntry>>>,
    /// Whether an entry is called by its path, because it may be in any directory below.
    by_path: bool,
    name: CString,
}

impl Directory {
    fn new(entries: impl Iterator<Item = platter::Result<DirEntry>> + 'static, by_path: bool) -> Directory {
        Directory { entries: Box::new(entries), by_path, name: CString::default() }
    }
}

/// The attributes of a file or directory.
#[repr(C)]
#[derive(Default)]
pub struct Stat {
    /// The size of the content in bytes.
    pub size: u64,
    /// The number of bytes that are allocated on the volume.
    pub allocated: u64,
    /// When the file was created, in seconds since 1970; 0 if the format does not store this.
    pub created: i64,
    /// When the content last changed, in seconds since 1970.
    pub modified: i64,
    /// When the content was last read, in seconds since 1970; 0 if the format does not store this.
    pub accessed: i64,
    /// Nanoseconds in addition to `created`.
    pub created_ns: u32,
    /// Nanoseconds in addition to `modified`.
    pub modified_ns: u32,
    /// Nanoseconds in addition to `accessed`.
    pub accessed_ns: u32,
    /// `PLATTER_FILE`, `PLATTER_DIRECTORY` or `PLATTER_SYMLINK`.
    pub kind: u32,
    /// The number of names.
    pub links: u32,
    /// The DOS attribute flags.
    pub flags: u32,
}

impl From<&platter::Attributes> for Stat {
    fn from(known: &platter::Attributes) -> Stat {
        let time = |time: Option<Timestamp>| time.map_or((0, 0), |time| (time.seconds, time.nanoseconds));
        let (created, created_ns) = time(known.created);
        let (modified, modified_ns) = time(Some(known.modified));
        let (accessed, accessed_ns) = time(known.accessed);
        let kind = match known.kind {
            Kind::File => 1,
            Kind::Directory => 2,
            Kind::SymbolicLink => 3,
        };
        let (size, allocated, links, flags) = (known.size, known.allocated, known.links, known.flags.0);
        Stat {
            size,
            allocated,
            created,
            modified,
            accessed,
            created_ns,
            modified_ns,
            accessed_ns,
            kind,
            links,
            flags,
        }
    }
}

/// An entry of a directory.
#[repr(C)]
pub struct Entry {
    /// The name, which is valid until the next call with the same listing.
    pub name: *const c_char,
    /// The attributes of the file or directory.
    pub stat: Stat,
}

/// Keys to encrypted volumes.
#[repr(C)]
pub struct Keys {
    /// A password, or NULL.
    pub password: *const c_char,
    /// The digits of a recovery key, or NULL.
    pub recovery_key: *const c_char,
    /// The path of a key file, or NULL.
    pub key_file: *const c_char,
}

/// The values of `PLATTER_CREATE`, `PLATTER_TRUNCATE` and `PLATTER_EXCLUSIVE`.
const CREATE: c_int = 1;
const TRUNCATE: c_int = 2;
const EXCLUSIVE: c_int = 4;

/// Returns the message of the last call that failed in this thread.
#[unsafe(no_mangle)]
pub extern "C" fn platter_error() -> *const c_char {
    call::last_error()
}

/// Opens a volume.
///
/// # Safety
/// `source` is NULL or a string, `volume` NULL or a place for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn platter_open(
    source: *const c_char,
    writable: c_int,
    volume: *mut *mut Volume,
) -> c_int {
    answer(|| {
        // SAFETY: the caller guarantees that each of the two pointers is NULL or valid.
        let (source, place) = unsafe { (text(source)?, given(volume)?) };
        *place = opened(source, writable, platter::Keys::new())?;
        Ok(0)
    })
}

/// Opens an encrypted volume.
///
/// # Safety
/// `source` is NULL or a string, `keys` NULL or keys of which each is NULL or a string, `volume` NULL or a place for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn platter_open_encrypted(
    source: *const c_char,
    writable: c_int,
    keys: *const Keys,
    volume: *mut *mut Volume,
) -> c_int {
    answer(|| {
        // SAFETY: the caller guarantees that each of the three pointers is NULL or valid.
        let (source, keys, place) = unsafe { (text(source)?, keys_of(keys)?, given(volume)?) };
        *place = opened(source, writable, keys)?;
        Ok(0)
    })
}

/// Opens a volume, and returns the handle that its caller owns.
fn opened(source: &Path, writable: c_int, keys: platter::Keys) -> Result<*mut Volume, Failure> {
    let access = if writable == 0 { Access::Read } else { Access::Write { force: false } };
    let volume = OpenOptions::new().access(access).keys(keys).open(source)?;
    Ok(Box::into_raw(Box::new(Volume(volume))))
}

/// Returns the keys that a caller gives.
///
/// # Safety
/// `keys` is NULL or keys of which each is NULL or a string.
unsafe fn keys_of(keys: *const Keys) -> Result<platter::Keys, Failure> {
    // SAFETY: the caller guarantees that the pointer is NULL or valid.
    let keys = unsafe { here(keys.cast_mut())? };
    let mut all = platter::Keys::new();
    if !keys.password.is_null() {
        // SAFETY: the caller guarantees that the pointer is a string.
        let password = bytes_of(unsafe { text(keys.password)? });
        all = all.password(std::str::from_utf8(password).map_err(|_| Failure::invalid("a password"))?);
    }
    if !keys.recovery_key.is_null() {
        // SAFETY: the caller guarantees that the pointer is a string.
        let digits = bytes_of(unsafe { text(keys.recovery_key)? });
        all = all.recovery_key(&String::from_utf8_lossy(digits))?;
    }
    if !keys.key_file.is_null() {
        // SAFETY: the caller guarantees that the pointer is a string.
        all = all.key_file(unsafe { text(keys.key_file)? })?;
    }
    Ok(all)
}

/// Closes a volume and frees its handle.
///
/// # Safety
/// `volume` is NULL or came from [`platter_open`] and is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn platter_close(volume: *mut Volume) -> c_int {
    answer(|| {
        if volume.is_null() {
            return Ok(0);
        }
        // SAFETY: the pointer came from `Box::into_raw` in `platter_open`, and the caller does not use it again.
        let volume = unsafe { Box::from_raw(volume) };
        volume.0.close()?;
        Ok(0)
    })
}

/// Makes all changes of a volume durable.
///
/// # Safety
/// `volume` is NULL or came from [`platter_open`] and is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn platter_sync(volume: *mut Volume) -> c_int {
    answer(|| {
        // SAFETY: the caller guarantees that the pointer is NULL or valid.
        unsafe { here(volume)? }.0.sync()?;
        Ok(0)
    })
}

/// Gets the attributes of the entry that a path leads to.
///
/// # Safety
/// `volume` is NULL or open, `path` NULL or a string, `stat` NULL or a place for one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn platter_stat_path(
    volume: *mut Volume,
    path: *const c_char,
    stat: *mut Stat,
) -> c_int {
    answer(|| {
        // SAFETY: the caller guarantees that each of the three pointers is NULL or valid.
        let (volume, path, place) = unsafe { (here(volume)?, text(path)?, given(stat)?) };
        *place = Stat::from(&volume.0.metadata(path)?);
        Ok(0)
    })
}

/// Makes a directory.
///
/// # Safety
/// `volume` is NULL or open, `path` NULL or a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn platter_mkdir(volume: *mut Volume, path: *const c_char) -> c_int {
    answer(|| {
        // SAFETY: the caller guarantees that each of the two pointers is NULL or valid.
        let (volume, path) = unsafe { (here(volume)?, text(path)?) };
        volume.0.create_dir(path)?;
        Ok(0)
    })
}

/// Removes a name of a file.
///
/// # Safety
/// As [`platter_mkdir`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn platter_remove(volume: *mut Volume, path: *const c_char) -> c_int {
    answer(|| {
        // SAFETY: the caller guarantees that each of the two pointers is NULL or valid.
        let (volume, path) = unsafe { (here(volume)?, text(path)?) };
        volume.0.remove_file(path)?;
        Ok(0)
    })
}

/// Removes an empty directory.
///
/// # Safety
/// As [`platter_mkdir`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn platter_rmdir(volume: *mut Volume, path: *const c_char) -> c_int {
    answer(|| {
        // SAFETY: the caller guarantees that each of the two pointers is NULL or valid.
        let (volume, path) = unsafe { (here(volume)?, text(path)?) };
        volume.0.remove_dir(path)?;
        Ok(0)
    })
}

/// Moves an entry.
///
/// # Safety
/// `volume` is NULL or open, `from` and `to` are NULL or strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn platter_rename(
    volume: *mut Volume,
    from: *const c_char,
    to: *const c_char,
) -> c_int {
    answer(|| {
        // SAFETY: the caller guarantees that each of the three pointers is NULL or valid.
        let (volume, from, to) = unsafe { (here(volume)?, text(from)?, text(to)?) };
        volume.0.rename(from, to)?;
        Ok(0)
    })
}

/// Begins to list a directory.
///
/// # Safety
/// `volume` is NULL or open, `path` NULL or a string, `directory` NULL or a place for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn platter_open_directory(
    volume: *mut Volume,
    path: *const c_char,
    directory: *mut *mut Directory,
) -> c_int {
    answer(|| {
        // SAFETY: the caller guarantees that each of the three pointers is NULL or valid.
        let (volume, path, place) = unsafe { (here(volume)?, text(path)?, given(directory)?) };
        let listing = volume.0.read_dir(path)?;
        *place = Box::into_raw(Box::new(Directory::new(listing, false)));
        Ok(0)
    })
}

/// Begins to list everything below a directory.
///
/// # Safety
/// As [`platter_open_directory`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn platter_walk(
    volume: *mut Volume,
    path: *const c_char,
    directory: *mut *mut Directory,
) -> c_int {
    answer(|| {
        // SAFETY: the caller guarantees that each of the three pointers is NULL or valid.
        let (volume, path, place) = unsafe { (here(volume)?, text(path)?, given(directory)?) };
        let walk = volume.0.walk(path)?;
        *place = Box::into_raw(Box::new(Directory::new(walk, true)));
        Ok(0)
    })
}

/// Gets the next entry of a listing.
///
/// # Safety
/// `directory` is NULL or open and used by this thread alone, `entry` NULL or a place for one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn platter_read_directory(directory: *mut Directory, entry: *mut Entry) -> c_int {
    answer(|| {
        // SAFETY: the caller guarantees that each of the two pointers is NULL or valid, and that no other thread uses
        // the listing.
        let (Directory { entries, by_path, name }, place) = unsafe { (given(directory)?, given(entry)?) };
        let Some(next) = entries.next().transpose()? else { return Ok(0) };
        // A name that contains a zero, which no format allows, is cut off there.
        let bytes = if *by_path { bytes_of(next.path()).to_vec() } else { next.name().to_bytes() };
        let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
        *name = CString::new(&bytes[..end]).unwrap_or_default();
        *place = Entry { name: name.as_ptr(), stat: Stat::from(next.metadata()) };
        Ok(1)
    })
}

/// Ends a listing and frees its handle.
///
/// # Safety
/// `directory` is NULL or came from [`platter_open_directory`] or [`platter_walk`] and is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn platter_close_directory(directory: *mut Directory) {
    answer(|| {
        if !directory.is_null() {
            // SAFETY: the pointer came from `Box::into_raw` in one of these two functions, and the caller does not use it
            // again.
            drop(unsafe { Box::from_raw(directory) });
        }
        Ok(0)
    });
}

/// Opens a file or a named stream.
///
/// # Safety
/// `volume` is NULL or open, `path` and `stream` are NULL or strings, `file` is NULL or a place for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn platter_open_file(
    volume: *mut Volume,
    path: *const c_char,
    stream: *const c_char,
    how: c_int,
    file: *mut *mut File,
) -> c_int {
    answer(|| {
        // SAFETY: the caller guarantees that each of the three pointers is NULL or valid.
        let (volume, path, place) = unsafe { (here(volume)?, text(path)?, given(file)?) };
        // SAFETY: `stream` is not NULL, and the caller guarantees that it is a string.
        let stream = if stream.is_null() { None } else { Some(unsafe { text(stream)? }) };
        let (creates, empties) = (how & CREATE != 0, how & TRUNCATE != 0);
        if how & !(CREATE | TRUNCATE | EXCLUSIVE) != 0 || (how & EXCLUSIVE != 0 && !creates) {
            return Err(Failure::invalid("how the file is to be opened"));
        }
        let open = || match stream {
            Some(stream) => volume.0.open_stream(path, &String::from_utf8_lossy(bytes_of(stream))),
            None => volume.0.open_file(path),
        };
        let create = || match stream {
            Some(stream) => volume.0.create_stream(path, &String::from_utf8_lossy(bytes_of(stream))),
            None => volume.0.create_new_file(path),
        };
        let is_missing = |error: &platter::Error| error.kind() == ErrorKind::NotFound;
        let opened = match open() {
            Ok(_) if how & EXCLUSIVE != 0 => return Err(Failure::exists(path)),
            Ok(opened) => {
                if empties {
                    opened.set_len(0)?;
                }
                opened
            }
            Err(error) if creates && is_missing(&error) => create()?,
            Err(error) => return Err(error.into()),
        };
        *place = Box::into_raw(Box::new(File(opened)));
        Ok(0)
    })
}

fn bytes_of(path: &std::path::Path) -> &[u8] {
    std::os::unix::ffi::OsStrExt::as_bytes(path.as_os_str())
}

/// Reads bytes of a file or stream.
///
/// # Safety
/// `file` is NULL or open, `buffer` has room for `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn platter_read(
    file: *mut File,
    offset: u64,
    buffer: *mut c_void,
    length: usize,
) -> i64 {
    let mut got = 0;
    let code = answer(|| {
        // SAFETY: the caller guarantees that the pointer is NULL or valid.
        let file = unsafe { here(file)? };
        if length == 0 {
            return Ok(0);
        }
        if buffer.is_null() || length > isize::MAX as usize {
            return Err(Failure::invalid("the buffer"));
        }
        // The caller's buffer may be uninitialised, which a slice must not be, so it is filled with zeroes first.
        // SAFETY: the caller guarantees that `buffer` has `length` bytes, which nobody else uses during the call.
        unsafe { buffer.write_bytes(0, length) };
        // SAFETY: these are the same `length` bytes, which are initialised now.
        let buffer = unsafe { std::slice::from_raw_parts_mut(buffer.cast::<u8>(), length) };
        got = file.0.read_at(offset, buffer)? as i64;
        Ok(0)
    });
    if code < 0 { i64::from(code) } else { got }
}

/// Writes bytes to a file or stream.
///
/// # Safety
/// `file` is NULL or open, `data` has `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn platter_write(
    file: *mut File,
    offset: u64,
    data: *const c_void,
    length: usize,
) -> c_int {
    answer(|| {
        // SAFETY: the caller guarantees that the pointer is NULL or valid.
        let file = unsafe { here(file)? };
        if length == 0 {
            return Ok(0);
        }
        if data.is_null() || length > isize::MAX as usize {
            return Err(Failure::invalid("the data"));
        }
        // SAFETY: the caller guarantees that `data` has `length` bytes, which nobody changes during the call.
        let data = unsafe { std::slice::from_raw_parts(data.cast::<u8>(), length) };
        file.0.write_at(offset, data)?;
        Ok(0)
    })
}

/// Sets the size of a file or stream.
///
/// # Safety
/// `file` is NULL or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn platter_truncate(file: *mut File, size: u64) -> c_int {
    answer(|| {
        // SAFETY: the caller guarantees that the pointer is NULL or valid.
        unsafe { here(file)? }.0.set_len(size)?;
        Ok(0)
    })
}

/// Makes a file or stream durable.
///
/// # Safety
/// `file` is NULL or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn platter_sync_file(file: *mut File) -> c_int {
    answer(|| {
        // SAFETY: the caller guarantees that the pointer is NULL or valid.
        unsafe { here(file)? }.0.sync_all()?;
        Ok(0)
    })
}

/// Closes a file or stream and frees its handle.
///
/// # Safety
/// `file` is NULL or came from [`platter_open_file`] and is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn platter_close_file(file: *mut File) {
    answer(|| {
        if !file.is_null() {
            // SAFETY: the pointer came from `Box::into_raw` in `platter_open_file`, and the caller does not use it
            // again.
            drop(unsafe { Box::from_raw(file) });
        }
        Ok(0)
    });
}

/// Makes a volume.
///
/// # Safety
/// `source` and `format` are NULL or strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn platter_mkfs(source: *const c_char, format: *const c_char, size: u64) -> c_int {
    answer(|| {
        // SAFETY: the caller guarantees that each of the two pointers is NULL or valid.
        let (source, format) = unsafe { (text(source)?, text(format)?) };
        let options = MakeOptions { size: (size > 0).then_some(size), ..MakeOptions::default() };
        platter::mkfs(source, &String::from_utf8_lossy(bytes_of(format)), &options, &Silent)?;
        Ok(0)
    })
}

/// Checks a volume.
///
/// # Safety
/// `source` is NULL or a string, `found` NULL or a place for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn platter_check(source: *const c_char, repair: c_int, found: *mut u64) -> c_int {
    answer(|| {
        // SAFETY: the caller guarantees that each of the two pointers is NULL or valid.
        let (source, place) = unsafe { (text(source)?, given(found)?) };
        *place = checked(source, repair, platter::Keys::new())?;
        Ok(0)
    })
}

/// Checks an encrypted volume.
///
/// # Safety
/// `source` is NULL or a string, `keys` NULL or keys of which each is NULL or a string, `found` NULL or a place for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn platter_check_encrypted(
    source: *const c_char,
    repair: c_int,
    keys: *const Keys,
    found: *mut u64,
) -> c_int {
    answer(|| {
        // SAFETY: the caller guarantees that each of the three pointers is NULL or valid.
        let (source, keys, place) = unsafe { (text(source)?, keys_of(keys)?, given(found)?) };
        *place = checked(source, repair, keys)?;
        Ok(0)
    })
}

/// Checks a volume, and returns the number of findings without notices.
fn checked(source: &Path, repair: c_int, keys: platter::Keys) -> Result<u64, Failure> {
    let options = CheckOptions { repair: repair != 0, keys, ..CheckOptions::default() };
    let report = platter::check(source, &options, &Silent)?.report;
    Ok(report.found - report.notices)
}

/// Copies out what is left of a volume.
///
/// # Safety
/// `source` and `directory` are NULL or strings, `keys` is NULL or keys of which each is NULL or a string, `saved` and `lost`
/// are NULL or places for numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn platter_recover(
    source: *const c_char,
    directory: *const c_char,
    keys: *const Keys,
    saved: *mut u64,
    lost: *mut u64,
) -> c_int {
    answer(|| {
        // SAFETY: the caller guarantees that each of the four pointers is NULL or valid.
        let (source, directory, saved, lost) =
            unsafe { (text(source)?, text(directory)?, given(saved)?, given(lost)?) };
        let keys = match keys.is_null() {
            true => platter::Keys::new(),
            // SAFETY: the pointer is not NULL, and the caller guarantees that it is valid then.
            false => unsafe { keys_of(keys)? },
        };
        let options = RecoverOptions { keys, ..RecoverOptions::default() };
        let to = platter::recover_to(&Source::parse(source)?, directory, &options, &Silent)?;
        *saved = to.saved;
        *lost = to.report.lost.len() as u64 + to.kinds.iter().map(|kind| kind.files).sum::<u64>();
        Ok(0)
    })
}

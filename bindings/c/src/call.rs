//! What every function here does with its arguments and its outcome.

use libc::{c_char, c_int};
use std::cell::RefCell;
use std::ffi::{CStr, CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// Why a call failed: an errno, and a text.
pub struct Failure {
    errno: c_int,
    text: String,
}

impl Failure {
    /// An argument makes no sense.
    pub fn invalid(what: &str) -> Failure {
        Failure { errno: libc::EINVAL, text: format!("{what}: invalid argument") }
    }

    /// A file is there already.
    pub fn exists(path: &Path) -> Failure {
        Failure { errno: libc::EEXIST, text: format!("{}: an entry of this name exists", path.display()) }
    }
}

impl From<platter::Error> for Failure {
    fn from(error: platter::Error) -> Failure {
        Failure { errno: error.errno().0, text: error.to_string() }
    }
}

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// The text of the last failure of this thread.
pub fn last_error() -> *const c_char {
    LAST.with(|last| last.borrow().as_ptr())
}

/// Makes the call: its answer, or a negative errno with its text kept.
pub fn answer(call: impl FnOnce() -> Result<c_int, Failure>) -> c_int {
    let failure = match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(code)) => return code,
        Ok(Err(failure)) => failure,
        Err(_) => Failure { errno: libc::EIO, text: "a defect of the library".into() },
    };
    let text = CString::new(failure.text.replace('\0', "")).unwrap_or_default();
    LAST.with(|last| *last.borrow_mut() = text);
    -failure.errno.max(1)
}

/// What a handle leads to.
///
/// # Safety
/// It is NULL, or leads to a value that stays during the call.
pub unsafe fn here<'a, T>(handle: *mut T) -> Result<&'a T, Failure> {
    // SAFETY: the caller vouches for it.
    unsafe { handle.as_ref() }.ok_or_else(|| Failure::invalid("a handle"))
}

/// Where an answer goes.
///
/// # Safety
/// It is NULL, or leads to a value that nobody else uses during the call.
pub unsafe fn given<'a, T>(place: *mut T) -> Result<&'a mut T, Failure> {
    // SAFETY: the caller vouches for it.
    unsafe { place.as_mut() }.ok_or_else(|| Failure::invalid("a place for the answer"))
}

/// A string, as a path.
///
/// # Safety
/// It is NULL, or bytes with a zero at their end that nobody changes during the call.
pub unsafe fn text<'a>(string: *const c_char) -> Result<&'a Path, Failure> {
    if string.is_null() {
        return Err(Failure::invalid("a string"));
    }
    // SAFETY: the caller vouches for it, and it is not NULL.
    let string = unsafe { CStr::from_ptr(string) };
    Ok(Path::new(OsStr::from_bytes(string.to_bytes())))
}

//! Conversion of the arguments and results of all functions of the interface.

use libc::{c_char, c_int};
use std::cell::RefCell;
use std::ffi::{CStr, CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// Why a call failed: an errno, and a message.
pub struct Failure {
    errno: c_int,
    text: String,
}

impl Failure {
    /// Returns the failure for an invalid argument.
    pub fn invalid(what: &str) -> Failure {
        Failure { errno: libc::EINVAL, text: format!("{what}: invalid argument") }
    }

    /// Returns the failure for an entry that exists already.
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

/// Returns the message of the last call that failed in this thread.
pub fn last_error() -> *const c_char {
    LAST.with(|last| last.borrow().as_ptr())
}

/// Makes a call. Returns its result or a negative errno, whose message it keeps for [`last_error`].
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

/// Returns the value that a handle points to.
///
/// # Safety
/// `handle` is NULL, or points to a value that exists until the call ends.
pub unsafe fn here<'a, T>(handle: *mut T) -> Result<&'a T, Failure> {
    // SAFETY: the caller guarantees that the pointer is NULL or valid.
    unsafe { handle.as_ref() }.ok_or_else(|| Failure::invalid("a handle"))
}

/// Returns the place for a result.
///
/// # Safety
/// `place` is NULL, or points to a value that nobody else uses during the call.
pub unsafe fn given<'a, T>(place: *mut T) -> Result<&'a mut T, Failure> {
    // SAFETY: the caller guarantees that the pointer is NULL or valid.
    unsafe { place.as_mut() }.ok_or_else(|| Failure::invalid("a place for the answer"))
}

/// Returns a C string as a path.
///
/// # Safety
/// `string` is NULL, or points to bytes that end with a zero and that nobody changes during the call.
pub unsafe fn text<'a>(string: *const c_char) -> Result<&'a Path, Failure> {
    if string.is_null() {
        return Err(Failure::invalid("a string"));
    }
    // SAFETY: the pointer is not NULL, and the caller guarantees that it points to bytes that end with a zero.
    let string = unsafe { CStr::from_ptr(string) };
    Ok(Path::new(OsStr::from_bytes(string.to_bytes())))
}

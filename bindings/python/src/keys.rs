//! Keys to encrypted volumes.

use crate::errors::raised;
use platter::Keys;
use pyo3::prelude::*;
use std::path::PathBuf;

/// Returns the keys that a program gives.
pub fn keys(password: Option<&str>, recovery_key: Option<&str>, key_file: Option<PathBuf>) -> PyResult<Keys> {
    let mut all = Keys::new();
    if let Some(password) = password {
        all = all.password(password);
    }
    if let Some(digits) = recovery_key {
        all = all.recovery_key(digits).map_err(|error| raised(&error))?;
    }
    if let Some(path) = key_file {
        all = all.key_file(path).map_err(|error| raised(&error))?;
    }
    Ok(all)
}

//! Where the system has no such way: every transfer is a blocking call.

use crate::{Device, Queue, Result};
use std::fs::File;

/// Carries out no batch.
#[derive(Default)]
pub(crate) struct Pool;

impl Pool {
    /// `false`: nothing was done.
    pub(crate) fn read(&self, _name: &str, _file: &File, _reads: &mut [(u64, &mut [u8])]) -> Result<bool> {
        Ok(false)
    }

    /// `false`: nothing was done.
    pub(crate) fn write(&self, _name: &str, _file: &File, _writes: &[(u64, &[u8])]) -> Result<bool> {
        Ok(false)
    }
}

/// No queue.
pub(crate) fn queue<'d>(
    _device: &'d dyn Device,
    _file: &'d File,
    _depth: usize,
) -> Option<Box<dyn Queue + 'd>> {
    None
}

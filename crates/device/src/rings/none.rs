//! Where the system has no such way: every transfer is a blocking call.

use crate::Result;
#[cfg(not(windows))]
use crate::{Device, Queue, descriptor::Descriptor};
use std::fs::File;
#[cfg(not(windows))]
use std::sync::Arc;

/// Carries out no batch.
#[derive(Default)]
pub(crate) struct Pool(());

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
#[cfg(not(windows))]
pub(crate) fn queue<'d>(
    _device: &'d dyn Device,
    _file: &'d Arc<Descriptor>,
    _depth: usize,
) -> Option<Box<dyn Queue + 'd>> {
    None
}

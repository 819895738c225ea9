//! Whether a volume may still be changed, and whether a sync on it may still succeed.

use crate::{Error, Result};
use platter_device::Device;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

/// The health of an open volume. It only ever gets worse, and the first reason is kept.
///
/// After a failed flush it is unknown which of the writes before it reached the medium: the device may have dropped
/// them and still report success for the next flush. So a failure is final. Every change and every sync after it fails,
/// with the first reason, until the volume is opened anew.
///
/// No lock is taken: if a failure happens just after a caller found the volume writable, the caller gets the failure in
/// its next step.
#[derive(Debug, Default)]
pub struct Health {
    state: AtomicU8,
    closed: OnceLock<String>,
    failed: OnceLock<String>,
}

/// State of a volume that refuses changes; nothing is lost.
const READ_ONLY: u8 = 1;
/// State of a volume after a failed flush, or a failed write on which everything depends.
const FAILED: u8 = 2;

impl Health {
    /// Why a volume stops whose free clusters are not what its files say: going on would give the clusters of one file
    /// to another.
    pub const SPACE_IS_WRONG: &str = "clusters were given up twice, or taken that were in use; on disk everything is as \
        it was at the last commit";

    /// The health of a volume that may be written, or of a read-only one with the reason.
    pub fn new(read_only: Option<String>) -> Health {
        let health = Health::default();
        if let Some(why) = read_only {
            health.close(why);
        }
        health
    }

    /// Flushes the device of a volume that was just found on it and may be written, before anything is written to it. A
    /// program that was killed may have written to the device without a flush, and what is read now may be lost when
    /// the power fails: nothing that is built on it may become durable earlier than it does. If the flush fails, the
    /// volume must not be written.
    pub fn settle(&self, device: &dyn Device) {
        if self.writable().is_ok()
            && let Err(error) = device.flush()
        {
            self.close(format!("its device cannot be flushed ({error})"));
        }
    }

    /// Whether changes are accepted.
    ///
    /// # Errors
    /// [`Error::ReadOnly`] with the reason.
    #[inline]
    pub fn writable(&self) -> Result<()> {
        match self.state.load(Ordering::Acquire) {
            0 => Ok(()),
            _ => Err(self.refusal()),
        }
    }

    /// Whether a sync may report success.
    ///
    /// # Errors
    /// [`Error::ReadOnly`] for ever after a failed flush, or a failed write on which everything depends.
    #[inline]
    pub fn promise(&self) -> Result<()> {
        if self.has_failed() { Err(self.refusal()) } else { Ok(()) }
    }

    /// Whether a flush, or a write on which everything depends, has failed.
    #[inline]
    pub fn has_failed(&self) -> bool {
        self.state.load(Ordering::Acquire) == FAILED
    }

    /// The reason why a volume refuses changes that was opened for reading only.
    pub const OPENED_SO: &str = "it was opened so";

    /// The reason why changes are refused, unless it is that the volume was opened for reading only.
    pub fn obstacle(&self) -> Option<&str> {
        self.reason().filter(|reason| *reason != Health::OPENED_SO)
    }

    /// Why changes are refused, if they are.
    pub fn reason(&self) -> Option<&str> {
        self.failed.get().or(self.closed.get()).map(String::as_str)
    }

    /// Refuses changes from now on, for a reason that is no failure. Returns whether changes were accepted until now.
    pub fn close(&self, why: impl Into<String>) -> bool {
        let _ = self.closed.set(why.into());
        self.state.compare_exchange(0, READ_ONLY, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Notes a failure after which it is unknown what reached the device, and returns the error.
    pub fn fail(&self, error: Error) -> Error {
        let _ = self.failed.set(format!("a write failed that all else depends on: {error}"));
        self.state.store(FAILED, Ordering::Release);
        error
    }

    /// Refuses changes and syncs from now on, because what is in memory cannot be trusted, and returns the error.
    pub fn stop(&self, why: &str) -> Error {
        let _ = self.failed.set(why.into());
        self.state.store(FAILED, Ordering::Release);
        Error::ReadOnly(why.into())
    }

    /// Flushes the device. An open volume flushes it only through this function.
    ///
    /// # Errors
    /// The error of the device, which is noted as final; those of [`Health::promise`] before and after the flush, since
    /// another caller's flush may have failed meanwhile, and then it is unknown whether this one made everything
    /// durable.
    pub fn flush(&self, device: &dyn Device) -> Result<()> {
        self.promise()?;
        device.flush().map_err(|error| self.fail(error.into()))?;
        self.promise()
    }

    #[cold]
    fn refusal(&self) -> Error {
        Error::ReadOnly(self.reason().unwrap_or("another failure is being noted").into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use platter_device::{Fault, Faults, MemoryDevice, Operation, Sectors, When};
    use std::sync::Arc;

    #[test]
    fn a_failed_flush_is_never_forgotten() {
        let device = Faults::new(Arc::new(MemoryDevice::new(1 << 20, Sectors::SMALL)), 1);
        device.inject(When::nth(Operation::Flush, 1), Fault::Fail);
        let health = Health::default();
        health.flush(&device).unwrap();
        health.writable().unwrap();
        let first = health.flush(&device).unwrap_err();
        assert!(matches!(first, Error::Device(_)), "{first}");
        let later = health.flush(&device).unwrap_err();
        assert!(matches!(&later, Error::ReadOnly(why) if why.contains("injected fault")), "{later}");
        assert_eq!(device.count(Operation::Flush), 2, "the device is not asked again");
        assert!(health.writable().is_err() && health.promise().is_err());
        assert!(!health.close("it is unmounted"));
        assert!(
            health.reason().unwrap().contains("injected fault"),
            "the failure is worse than any other reason"
        );
    }

    #[test]
    fn a_volume_that_is_read_only_still_promises() {
        let health = Health::new(Some("the device is".into()));
        assert!(matches!(health.writable(), Err(Error::ReadOnly(why)) if why == "the device is"));
        health.promise().unwrap();
        assert!(!health.close("it is unmounted"));
        assert_eq!(health.reason(), Some("the device is"));
    }
}

//! Whether a volume may still be written, and whether it may still promise anything.

use crate::{Error, Result};
use platter_device::Device;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

/// The health of an open volume. It only ever becomes worse, and the first reason stays.
///
/// After a flush failed, nobody knows what of the writes before it reached the medium: the device may have dropped them
/// and say at the next flush that all is well. So a failure is final. Every change and every sync after it fails, with
/// the first reason, until the volume is opened anew.
///
/// It takes no lock: whoever finds the volume writable and is overtaken by a failure meets it in what it does next.
#[derive(Debug, Default)]
pub struct Health {
    state: AtomicU8,
    closed: OnceLock<String>,
    failed: OnceLock<String>,
}

/// Changes are refused; nothing is lost.
const READ_ONLY: u8 = 1;
/// Something failed that all else depends on.
const FAILED: u8 = 2;

impl Health {
    /// The health of a volume that is written, or of one that is read only for a reason.
    pub fn new(read_only: Option<String>) -> Health {
        let health = Health::default();
        if let Some(why) = read_only {
            health.close(why);
        }
        health
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

    /// Whether a sync may return that nothing is lost.
    ///
    /// # Errors
    /// [`Error::ReadOnly`] for ever after a flush or a write failed that all else depends on.
    #[inline]
    pub fn promise(&self) -> Result<()> {
        if self.has_failed() { Err(self.refusal()) } else { Ok(()) }
    }

    /// Whether something failed that all else depends on.
    #[inline]
    pub fn has_failed(&self) -> bool {
        self.state.load(Ordering::Acquire) == FAILED
    }

    /// Why a volume is closed that was opened to be read.
    pub const OPENED_SO: &str = "it was opened so";

    /// What stands in the way of changes, other than that the volume was opened to be read.
    pub fn obstacle(&self) -> Option<&str> {
        self.reason().filter(|reason| *reason != Health::OPENED_SO)
    }

    /// Why changes are refused, if they are.
    pub fn reason(&self) -> Option<&str> {
        self.failed.get().or(self.closed.get()).map(String::as_str)
    }

    /// Refuses changes from now on, for a reason that is no failure. Says whether it was the first to do so.
    pub fn close(&self, why: impl Into<String>) -> bool {
        let _ = self.closed.set(why.into());
        self.state.compare_exchange(0, READ_ONLY, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Notes a failure of which it is unknown what reached the device, and hands it back.
    pub fn fail(&self, error: Error) -> Error {
        let _ = self.failed.set(format!("a write failed that all else depends on: {error}"));
        self.state.store(FAILED, Ordering::Release);
        error
    }

    /// Flushes the device. The only way in which an open volume does.
    ///
    /// # Errors
    /// What the device answers, which is noted; [`Health::promise`] beforehand and afterwards: another's flush may have
    /// failed meanwhile, and then nobody knows whether this one still made everything durable.
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

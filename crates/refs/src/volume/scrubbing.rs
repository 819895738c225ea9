//! Scrubbing while the volume is in use.

use super::Volume;
use platter_vfs::{Error, Result, ScrubOptions, ScrubReport, Silent};

impl Volume {
    /// Scrubs the volume as the last checkpoint describes it. No commit is made meanwhile, so nothing that this checkpoint
    /// refers to and has a checksum of is overwritten, nor are its clusters given to others: what is wrong is damage.
    pub(super) fn scrub_in_use(&self, options: &ScrubOptions) -> Result<ScrubReport> {
        if options.salvage || !options.checksums_only {
            return Err(Error::InvalidArgument(
                "a volume in use is scrubbed by checksums alone, and nothing is removed from it",
            ));
        }
        self.health.writable()?;
        // A planned sync writes its entry outside of any commit; the clusters of the log have no checksums in a tree.
        self.await_entry_beside();
        let mut report = ScrubReport::default();
        self.group.alone(|_| {
            self.health.promise()?;
            (report, _) = crate::scrub::scrub(self.device.clone(), options, &Silent)?;
            Ok(())
        })?;
        Ok(report)
    }
}

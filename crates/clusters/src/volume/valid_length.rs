//! Makes writes that finished out of order valid, before a sync.

use super::Volume;
use crate::Family;
use crate::file::File;
use platter_vfs::{Error, Result};

impl<F: Family> Volume<F> {
    /// Makes the next commit record everything that was written to a file, including finished writes that wait for
    /// writes planned before them. Those are not waited for, because their caller may be the present one.
    pub(super) fn make_valid(&self, file: &File) -> Result<()> {
        if file.read().waits_up_to().is_none() {
            return Ok(());
        }
        let (mut core, mut state) = match self.with_core(file) {
            Err(Error::NotFound) => return Ok(()),
            both => both?,
        };
        if core.entity(file.number).is_err() {
            // The file was removed and dropped from memory because the volume is being unmounted.
            return Ok(());
        }
        self.health.promise()?;
        let (size, valid) = (state.size, state.valid);
        for gap in state.gaps(valid..state.waits_up_to().unwrap_or(valid)) {
            // Noted before it is done, since it may fail half-way: writes in flight there write again in any case.
            state.zeroed(&gap);
            // Only up to the sector's start: a write that begins inside a sector wrote zeroes in front of its data.
            self.zero(&state, gap.start..gap.end / u64::from(self.sector) * u64::from(self.sector))?;
        }
        state.overtake();
        let recorded = self.record(&mut core, file, &mut state);
        if recorded.is_err() {
            state.take_back(size, valid, 0);
        }
        recorded
    }
}

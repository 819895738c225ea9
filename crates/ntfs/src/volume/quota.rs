//! The first change of a session marks what `$Quota` counts as out of date; see [`quota`].

use super::NtfsVolume;
use crate::core::Core;
use crate::layout::{Index, quota};
use platter_vfs::Result;

impl NtfsVolume {
    /// Marks the counts as out of date, if there are any.
    pub(super) fn mark_quota(&self, core: &mut Core) -> Result<()> {
        let Some(number) = core.quota else { return Ok(()) };
        let key = quota::DEFAULTS.to_le_bytes();
        let mark = |entry: &mut [u8]| {
            quota::mark(entry);
        };
        core.transact(|core| core.index_update(number, Index::Quotas, &key, mark))?;
        core.quota = None;
        Ok(())
    }
}

//! Content that lies in its file's record, and how it moves out into clusters.

use super::NtfsVolume;
use super::compressed::UNIT;
use crate::core::{Core, DETACHED};
use crate::file::Outside;
use crate::layout::{Kind as Type, Record};
use crate::runlist::RunList;
use crate::stream::{StreamPlace, StreamState};
use platter_vfs::Result;

impl NtfsVolume {
    /// Whether content of `length` bytes fits into the record.
    pub(super) fn may_be_resident(&self, core: &mut Core, node: u64, length: usize) -> Result<bool> {
        let (number, name) = self.place_of(core, node)?;
        let room = Record::room(core.geometry.record as usize);
        if length > room || number >= DETACHED && length > 512 {
            return Ok(false);
        }
        let file = core.file(number)?;
        let now = file.find(Type::DATA, &name).map_or(0, |attr| attr.value().map_or(0, <[u8]>::len));
        Ok(file.length() + length.next_multiple_of(8) <= room + now.next_multiple_of(8))
    }

    /// Moves resident content out into clusters.
    pub(super) fn move_out(&self, core: &mut Core, node: u64, state: &mut StreamState) -> Result<()> {
        let StreamPlace::Resident(content) = &state.place else { return Ok(()) };
        if content.is_empty() && !state.is_compressed() {
            // There is nothing to move; the record changes when clusters are taken.
            state.place = StreamPlace::Runs(RunList::default());
            return Ok(());
        }
        let content = content.clone();
        let on_disk = self.is_on_disk(core, node)?;
        let cluster = self.cluster;
        let is_compressed = state.is_compressed();
        self.remake(core, node, state, |core, state| {
            state.place = StreamPlace::Runs(RunList::default());
            if is_compressed {
                state.unit = UNIT;
                (state.size, state.valid, state.planned) = (0, 0, 0);
                return Ok(());
            }
            let mut outside = Outside::default();
            core.extend(&mut outside, (content.len() as u64).div_ceil(cluster), on_disk, false)?;
            let mut whole = content.clone();
            whole.resize((outside.clusters() * cluster) as usize, 0);
            // New clusters: nothing on disk leads to them yet.
            core.write_runs(&outside.runs, 0, &whole)?;
            state.place = StreamPlace::Runs(outside.runs);
            Ok(())
        })?;
        if is_compressed && !content.is_empty() {
            return self.write_compressed(core, node, state, 0, &content);
        }
        Ok(())
    }
}

//! Values that are always written whole, and clusters that nothing on disk leads to.

use super::Core;
use crate::file::{Attr, Body, File, Outside};
use crate::layout::{Kind, Record, Run};
use crate::space::Held;
use platter_vfs::Result;

impl Core {
    /// Gives a file a value that is always written whole: in its record if it fits there, else in new clusters. The
    /// caller stores the file.
    pub(crate) fn place_value(
        &mut self,
        file: &mut File,
        kind: Kind,
        value: Vec<u8>,
        on_disk: bool,
    ) -> Result<()> {
        self.remove_value(file, kind, on_disk);
        let room = Record::room(self.geometry.record as usize);
        let cluster = self.geometry.cluster;
        // The record keeps room for a name and a little content.
        if file.length() + value.len() + 0x20 + 0x80 <= room {
            file.put(Attr::resident(kind, value));
            return Ok(());
        }
        let size = value.len() as u64;
        let mut outside = Outside { size, valid: size, ..Default::default() };
        self.extend(&mut outside, size.div_ceil(cluster), on_disk, false)?;
        let mut whole = value;
        whole.resize((outside.clusters() * cluster) as usize, 0);
        // New clusters: nothing on disk leads to them before the commit.
        self.write_runs(&outside.runs, 0, &whole)?;
        file.put(Attr { kind, name: Box::default(), flags: 0, body: Body::Outside(outside) });
        Ok(())
    }

    /// Removes a value that `place_value` gave to a file, and gives its clusters up.
    pub(crate) fn remove_value(&mut self, file: &mut File, kind: Kind, on_disk: bool) {
        if let Some(Attr { body: Body::Outside(outside), .. }) = file.take(kind, &[]) {
            self.give_runs(&outside.runs.to_vec(), Held::Data, on_disk);
        }
    }

    /// Gives back clusters that are marked as used in memory only: on disk they are free.
    pub(crate) fn give_back_unlisted(&mut self, runs: &[Run]) {
        let given: Result<()> = self.transact(|core| {
            core.give_runs(runs, Held::Data, false);
            Ok(())
        });
        debug_assert!(given.is_ok(), "nothing in it can fail");
    }
}

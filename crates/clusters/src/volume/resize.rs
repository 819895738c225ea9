//! Sizes of files.

use super::Volume;
use crate::Family;
use crate::file::File;
use platter_vfs::{Access, Result};

impl<F: Family> Volume<F> {
    /// Sets a file's size.
    pub(super) fn resize(&self, file: &File, size: u64) -> Result<()> {
        self.with_space(|| {
            self.may_write(file)?;
            let _claim = file.claim(|state| state.valid.min(size)..u64::MAX, Access::Read);
            self.commit_cut(file)?;
            let (mut core, mut state) = self.with_core(file)?;
            core.writable()?;
            let before = (state.size, state.valid);
            if size > state.size {
                self.reserve(&mut core, file, &mut state, size)?;
                if !F::UNWRITTEN {
                    // The claim keeps others from changing the file while the locks are released.
                    drop((core, state));
                    let zeroed = self.zero_behind(file, size);
                    (core, state) = self.with_core(file)?;
                    if let Err(error) = zeroed {
                        self.trim(&mut core, &mut state);
                        return Err(error);
                    }
                    state.valid = size;
                }
                state.size = size;
            } else if size < state.size {
                let valid = state.valid.min(size);
                (state.size, state.valid) = (size, valid);
                let keep = state.needed(&self.heap);
                let cut = state.runs.split_off(keep);
                core.give_up(&cut, state.linked);
                if state.linked > keep {
                    if F::is_chain(&core.entity(file.number)?.entry) {
                        core.change.ends.extend(state.runs.last());
                    }
                    state.linked = keep;
                    state.cut_in = if keep > 0 { core.change.id } else { 0 };
                }
                core.pin(file.number);
            } else {
                return Ok(());
            }
            self.touch(file);
            let recorded = self.record(&mut core, file, &mut state);
            if recorded.is_err() {
                (state.size, state.valid) = before;
            }
            recorded
        })
    }
}

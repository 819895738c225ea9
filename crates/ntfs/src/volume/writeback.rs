//! Sizes and times of nodes that were written, recorded in their files and in the entries of their directories.

use super::NtfsVolume;
use super::attributes::{names_of, standard, written};
use crate::core::{Core, DETACHED};
use crate::file::{Attr, File};
use crate::layout::{FileName, FileTime, Kind as Type, file_flags};
use crate::log::MOST_ATTRIBUTES;
use platter_vfs::{Error, Result};
use smallvec::SmallVec;
use std::sync::atomic::Ordering;

/// The number of dirty images above which a commit is made before the next change.
const MOST_IMAGES: usize = 4096;

impl NtfsVolume {
    /// Whether so many metadata are dirty that they should be committed before the next change, or in a group of their
    /// own.
    pub(super) fn is_much(&self, core: &Core) -> bool {
        core.dirty_count() > MOST_IMAGES
            || core.dirt() > self.most_dirt()
            || core.attributes_changed() > MOST_ATTRIBUTES / 2
    }

    fn most_dirt(&self) -> u64 {
        self.log_capacity.load(Ordering::Relaxed) / 4
    }

    /// Records the size and times of one touched node. If that fails, nothing is changed. A file with very many names
    /// stays touched if the log cannot take all changes of its directory entries at once.
    pub(super) fn absorb_node(&self, core: &mut Core, node: u64) -> Result<()> {
        if let Some(stream) = core.nodes.get(node).ok().and_then(|entity| entity.stream.as_ref()) {
            // The mark is set anew before time and size are read: a writer that changes them later touches the node
            // again.
            let touched = self.touched();
            stream.is_touched.store(touched.contains(&node), Ordering::SeqCst);
        }
        let stamps: SmallVec<[_; 2]> = match written(core, node) {
            Ok(streams) => streams.into_iter().map(|stream| (stream.take_stamp(), stream)).collect(),
            Err(_) => return Ok(()),
        };
        let stamp = stamps.iter().map(|(stamp, _)| *stamp).max().unwrap_or(0);
        self.record_node(core, node, stamp).inspect_err(|_| {
            stamps.iter().for_each(|(stamp, stream)| stream.put_stamp_back(*stamp));
        })
    }

    /// Records a node's size, and `stamp` as the time of its last write unless `stamp` is 0.
    fn record_node(&self, core: &mut Core, node: u64, stamp: u64) -> Result<()> {
        let Ok(entity) = core.nodes.get(node) else { return Ok(()) };
        let (number, part, stream) = (entity.file, entity.part.clone(), entity.stream.clone());
        let old = core.file(number)?;
        let mut file = (*old).clone();
        let name = part.map(|(_, name)| name).unwrap_or_default();
        if let Some(stream) = stream {
            let state = stream.read();
            if let Some(outside) = file.find_mut(Type::DATA, &name).and_then(Attr::outside_mut) {
                (outside.size, outside.valid) = (state.size, state.valid.min(state.size));
            }
        }
        if stamp > 0 {
            let mut standard = standard(&file)?;
            (standard.modified, standard.changed) = (FileTime(stamp), FileTime(stamp));
            standard.flags |= file_flags::ARCHIVE;
            file.put(Attr::resident(Type::STANDARD_INFORMATION, standard.to_bytes()));
        }
        let is_changed = file.attributes != old.attributes;
        core.transact(|core| {
            if number < DETACHED && !self.update_names(core, &file)? {
                self.touch(node);
            }
            if is_changed { core.store(file) } else { Ok(()) }
        })
    }

    /// Brings the entries of a file in its directories' indexes up to date. Returns whether all of them are: the
    /// entries of a file with very many names are changed in several groups of the log.
    fn update_names(&self, core: &mut Core, file: &File) -> Result<bool> {
        let now = self.name_facts(core, file)?;
        for name in names_of(file) {
            if self.is_much(core) {
                return Ok(false);
            }
            let key = FileName { name: name.name.clone(), ..FileName::default() }.to_bytes();
            let directory = name.parent.number();
            let fresh =
                FileName { parent: name.parent, namespace: name.namespace, name: name.name, ..now.clone() }
                    .to_bytes();
            match core.index_update(directory, crate::layout::Index::Names, &key, |entry| {
                entry[0x10 + 8..0x10 + 0x40].copy_from_slice(&fresh[8..0x40]);
            }) {
                // A name that its directory lacks is left to the check.
                Err(Error::NotFound | Error::NotADirectory) | Ok(()) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Records what was written to a file and its named streams, before its change time is set to a later one.
    pub(super) fn absorb_written(&self, core: &mut Core, file: u64) -> Result<()> {
        let Some(node) = core.nodes.of_file(file) else { return Ok(()) };
        // If no stream was written, the directories' entries are left to the commit, which may take several groups for
        // very many names.
        if written(core, node)?.iter().all(|stream| stream.written.load(Ordering::Acquire) == 0) {
            return Ok(());
        }
        let parts = core.nodes.get(node).map(|entity| entity.parts.clone()).unwrap_or_default();
        match parts.into_iter().chain([node]).try_for_each(|node| self.absorb_touched(core, node)) {
            // Lack of room must not refuse the caller's change: the next commit stores the record, with the time of
            // the write.
            Err(error) if error.is_full() => Ok(()),
            outcome => outcome,
        }
    }

    pub(super) fn absorb_touched(&self, core: &mut Core, node: u64) -> Result<()> {
        let was_touched = self.touched.lock().remove(&node);
        if !was_touched {
            return Ok(());
        }
        self.absorb_node(core, node).inspect_err(|_| self.touch(node))
    }
}

//! Gathering a commit: changed nodes are stored in rows, and the changed pages of all trees become a [`Batch`].

use super::{Core, Id, MOST_RUNS, ROOT_DIRECTORY, RecordPlace};
use crate::attributes;
use crate::batch::Batch;
use crate::layout::record::key;
use crate::layout::{LIMIT, ObjectRow, Record, Root, ShortEntry, header, object_links};
use crate::stream::{self, StreamContent};
use crate::sync_log::SyncLog;
use platter_device::Device;
use platter_vfs::{Error, Result};

impl Core {
    /// Stores a node's record in its row.
    pub(crate) fn store_entity(&mut self, node: u64, clock: u64) -> Result<()> {
        let Some(entity) = self.entities.get_mut(&node) else { return Ok(()) };
        if let RecordPlace::Part { of } = entity.place {
            return self.store_entity(of, clock);
        }
        if entity.place == RecordPlace::Nowhere {
            return Ok(());
        }
        entity.absorb_written();
        let form = self.form_of(node)?;
        let entity = self.entities.get_mut(&node).expect("seen just now");
        let mut record = entity.record.clone();
        let integrity = record.attributes & Record::INTEGRITY != 0;
        let mut storing = stream::Storing { form, integrity, pages: &mut self.pages, clock };
        if let Some(stream) = &entity.stream {
            let mut state = stream.write();
            if attributes::is_link(record.reparse) {
                record.size = 0;
                record.allocated = 0;
            } else {
                record.size = state.size;
                record.allocated = state.allocated(&storing.pages.geometry);
            }
            match state.is_sparse(&storing.pages.geometry) {
                true => record.attributes |= Record::SPARSE,
                false => record.attributes &= !Record::SPARSE,
            }
            let versions = 1 + entity.named.iter().filter(|named| named.snapshot.is_some()).count() as u32;
            record.rows.extend(stream::store_data(&mut state, versions, &mut storing)?);
            if let StreamContent::Extents(extents) = &mut state.content
                && extents.loaded() > MOST_RUNS
            {
                extents.unload();
            }
        }
        for (index, named) in entity.named.iter().enumerate() {
            let mut state = named.stream.write();
            record.rows.extend(match &named.snapshot {
                Some(snapshot) => stream::store_snapshot(&mut state, &named.name, snapshot, &mut storing)?,
                None => stream::store_named(&mut state, &named.name, 0xF000 + index as u64, &mut storing)?,
            });
        }
        stream::store_counter(&mut record.rows);
        let entity = &self.entities[&node];
        let (id, place) = (entity.id, entity.place.clone());
        let value = record.to_bytes();
        match (id, place) {
            (Id::Directory(object), RecordPlace::Directory { above, name }) => {
                let (tree, pages) = self.tree_mut(object)?;
                tree.put(pages, &key::OWN, 1, &value)?;
                if object != ROOT_DIRECTORY {
                    let (tree, pages) = self.tree_mut(above)?;
                    let row = key::name(key::SHORT, &name);
                    let old =
                        tree.get(pages, &row, |row| ShortEntry::from_bytes(row.value, 0))?.transpose()?;
                    if let Some(old) = old {
                        let short = ShortEntry {
                            times: record.times,
                            attributes: record.attributes | Record::DIRECTORY,
                            ..old
                        };
                        self.put_short(above, &name, &short)?;
                    }
                }
            }
            (Id::File(..), RecordPlace::Long { directory, name }) => {
                let (tree, pages) = self.tree_mut(directory)?;
                tree.put(pages, &key::name(key::LONG, &name), 1, &value)?;
            }
            (Id::File(home, ordinal), RecordPlace::Body) => {
                let (tree, pages) = self.tree_mut(home)?;
                tree.put(pages, &key::body(ordinal, home), 1, &value)?;
                let links: Vec<_> = object_links(&record.rows).collect();
                for (directory, name) in links {
                    self.put_short(directory, &name, &ShortEntry::of_body(home, ordinal, &record))?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Puts a short entry for a name into a directory: 84 bytes from 3.10 on, 72 before.
    pub(crate) fn put_short(&mut self, directory: u64, name: &[u16], entry: &ShortEntry) -> Result<()> {
        let size = if self.geometry().version >= crate::layout::Version::V3_10 { 84 } else { 72 };
        let (tree, pages) = self.tree_mut(directory)?;
        tree.put(pages, &key::name(key::SHORT, name), 0, &entry.to_bytes(size)).map(drop)
    }

    /// Brings all rows up to date and collects the pages of a commit. Changes made after that belong to the next
    /// commit.
    pub(crate) fn gather(&mut self) -> Result<Batch> {
        self.whole()?;
        let clock = self.checkpoint.clock + 1;
        self.pages.space.prepare();
        let nodes = self.changed.take_nodes();
        // Every change was counted before it was made, so all records fit. If one does not, the node stays on disk as
        // it is, with all its clusters there; the other nodes are stored.
        let (mut fitting, mut left) = (Vec::with_capacity(nodes.len()), Vec::new());
        for &node in &nodes {
            // A node that was forgotten meanwhile has nothing to be stored.
            match self.is_too_large(node).unwrap_or(false) {
                true => left.push(node),
                false => fitting.push(node),
            }
        }
        let full = Error::RecordFull { format: "ReFS", what: LIMIT };
        self.unstored = (!left.is_empty()).then_some(full);
        self.pages.space.keep_parked(!left.is_empty());
        if let Err(error) = self.store_changed(&fitting, clock) {
            // The next commit tries again, if there was no room.
            nodes.iter().for_each(|&node| self.note_changed(node));
            return Err(error);
        }
        let last = self.next_object - 1;
        for root in [Root::Objects, Root::ObjectsCopy] {
            let (tree, pages) = self.root(root);
            if header::last_object(&tree.extra(pages)?).is_some_and(|given| given != last) {
                header::put_last_object(tree.extra_mut(pages)?, last);
            }
        }
        self.store_space()?;
        for index in 0..self.roots.len() {
            self.roots[index].seal(&mut self.pages, clock)?;
            self.checkpoint.roots[index] = self.roots[index].root;
        }
        self.checkpoint.clock = clock;
        self.checkpoint.allocator_clock = clock;
        self.slot ^= 1;
        let pages = self.pages.take_dirty()?;
        self.pages.space.hand_over();
        self.shares.forget();
        (self.news, self.has_written) = (!left.is_empty(), false);
        left.into_iter().for_each(|node| self.note_changed(node));
        self.pages.space.owe_rows(self.changed.pages());
        self.sync_log.iter_mut().for_each(SyncLog::clear);
        let batch = Batch { pages, checkpoint: self.checkpoint_at(self.slot) };
        for node in nodes {
            self.forget_idle(node)?;
        }
        Ok(batch)
    }

    /// Stores these nodes, and then all objects that changed.
    fn store_changed(&mut self, nodes: &[u64], clock: u64) -> Result<()> {
        for &node in nodes {
            self.store_entity(node, clock)?;
        }
        while let Some(object) = self.changed.first_object() {
            let entry = self.objects.get_mut(&object).expect("changed objects are open");
            entry.tree.seal(&mut self.pages, clock)?;
            // As in the object tables of two new volumes of Windows: these objects are never changed there.
            let (clock, epoch) = match object {
                0x07..=0x0A => (0, 0),
                0x0D => (clock as u32, 0),
                _ => (clock as u32, 1),
            };
            let row = ObjectRow { clock, epoch, root: entry.tree.root, last_child: entry.last_child };
            let value = row.to_bytes(self.pages.geometry.reference);
            for root in [Root::Objects, Root::ObjectsCopy] {
                let (tree, pages) = self.root(root);
                tree.put(pages, &ObjectRow::key(object), 0, &value)?;
            }
            self.changed.forget_object(object);
        }
        Ok(())
    }

    /// The checkpoint for a place: its offset on the device, and its bytes.
    pub(crate) fn checkpoint_at(&self, slot: usize) -> (u64, Vec<u8>) {
        let geometry = self.geometry();
        let cluster = self.superblock.checkpoints[slot];
        let sizes = (geometry.cluster as usize, geometry.page());
        (
            geometry.offset(cluster),
            self.checkpoint.to_bytes(cluster, geometry.signature, sizes, geometry.own_algorithm()),
        )
    }

    /// The checkpoints of the last commit for both places, in the order in which they are to be written, the first
    /// place being the newest at the end. So a reader that looks at one place only sees the present state whichever it
    /// is.
    pub(crate) fn for_both_places(&mut self) -> Vec<(u64, Vec<u8>)> {
        let rounds = if self.slot == 0 { 2 } else { 1 };
        (0..rounds)
            .map(|_| {
                self.checkpoint.clock += 1;
                self.slot ^= 1;
                self.checkpoint_at(self.slot)
            })
            .collect()
    }

    /// Writes the checkpoint of the last commit to both places. The caller must have the volume to itself.
    pub(crate) fn write_both(&mut self, device: &dyn Device) -> Result<()> {
        for (offset, bytes) in self.for_both_places() {
            device.write_at(offset, &bytes)?;
            device.flush()?;
        }
        Ok(())
    }
}

//! The exFAT [`Family`]: how clusters are taken and linked, and what a commit writes. [`platter_clusters::Volume`]
//! describes the guarantees of an open volume, and how they are kept.
//!
//! A file's clusters are consecutive as long as possible: its entry then has the flag `NoFatChain` (6.3.4.2), and the
//! FAT entries have no meaning. When a cluster elsewhere is appended, the whole chain is first written to the FAT,
//! and then the flag is cleared.

use crate::directory::{ExfatDirectory, rules};
use crate::family::ExfatFamily;
use crate::layout::{Attributes, BootSector, FileInfo, Geometry, LARGEST_DIRECTORY, LabelEntry, VolumeFlags};
use platter_clusters::{
    ContentRuns, Core, DirectoryEntry, Family, FileState, Images, ROOT, Runs, Slots, Storage, Volume,
    capabilities,
};
use platter_device::Device;
use platter_vfs::{Capabilities, DosFlags, Error, Kind, LocalTime, Result, Timestamp, VolumeInfo};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// An open exFAT volume.
pub type ExfatVolume = Volume<ExfatFamily>;

impl Family for ExfatFamily {
    type Entry = FileInfo;
    type Directory = ExfatDirectory;

    const UNWRITTEN: bool = true;
    // The first two slots of an entry are in one sector, so the second one is the first slot of nothing.
    const NUMBERED_SLOT: u64 = 1;

    fn open(device: Arc<dyn Device>, read_only: bool) -> Result<Core<ExfatFamily>> {
        crate::open::open(device, read_only)
    }

    fn name(&self) -> &'static str {
        "exFAT"
    }

    fn capabilities(&self) -> Capabilities {
        // Most programs have signed 64-bit offsets.
        capabilities(i64::MAX as u64, Duration::from_millis(10), Duration::from_secs(2))
    }

    fn info(core: &mut Core<ExfatFamily>) -> Result<VolumeInfo> {
        let root = core.directory(ROOT)?;
        let (label, guid) = (root.label().map_or(String::new(), |label| label.text()), root.guid());
        let boot = core.family.boot_sector();
        let geometry = &core.family.geometry;
        let mut details = vec![
            ("revision", format!("{}.{:02}", boot.revision >> 8, boot.revision & 0xFF)),
            ("bytes per sector", geometry.sector.to_string()),
            ("clusters", geometry.heap.count.to_string()),
            ("FATs", geometry.fat_count.to_string()),
            ("FAT at byte", geometry.fat_start.to_string()),
            ("clusters at byte", geometry.heap.start.to_string()),
        ];
        if let Some(guid) = guid {
            details.push(("GUID", shown(&guid)));
        }
        Ok(VolumeInfo {
            format: "exFAT".into(),
            label,
            identifier: format!("{:04X}-{:04X}", boot.serial >> 16, boot.serial & 0xFFFF),
            cluster: geometry.heap.cluster_size(),
            dirty: core.was_dirty,
            read_only: None,
            damage: Vec::new(),
            has_media_failures: boot.flags.has(VolumeFlags::MEDIA_FAILURE),
            metadata_checksum: None,
            checkpoint: None,
            details,
        })
    }

    fn set_label(core: &mut Core<ExfatFamily>, label: &str) -> Result<()> {
        let label = LabelEntry::new(label)?;
        if !core.directory(ROOT)?.has_label() {
            if label.0.is_empty() {
                return Ok(());
            }
            core.make_room(ROOT, 1)?;
        }
        core.pin(ROOT);
        core.directory(ROOT)?.set_label(&label);
        Ok(())
    }

    fn read_directory(core: &mut Core<ExfatFamily>, number: u64) -> Result<ExfatDirectory> {
        let entry = core.entity(number)?.entry.clone();
        let runs = core.family.directory_runs(&entry, number == ROOT)?;
        let rules = rules(core.family.geometry.sector);
        let slots = Slots::read(&*core.device, rules, core.heap, Storage::Chain(runs))?;
        Ok(ExfatDirectory::parse(slots, core.family.upcase.clone()))
    }

    fn check_directory(&self, entry: &FileInfo) -> Result<()> {
        match (entry.cluster, entry.length) {
            (0, 1..) => Err(Error::damaged("stream extension", 0, "the first cluster of a directory", 0)),
            _ => Ok(()),
        }
    }

    fn new_entry(&self, kind: Kind, now: Timestamp, local: LocalTime) -> FileInfo {
        let attributes = match kind {
            Kind::Directory => Attributes::DIRECTORY,
            _ => DosFlags::ARCHIVE.0 as u16,
        };
        let mut entry = FileInfo { attributes: Attributes(attributes), ..FileInfo::default() };
        entry.set_times([Some(now); 3], local);
        entry
    }

    fn fresh_directory(
        core: &mut Core<ExfatFamily>,
        cluster: u32,
        entry: &mut FileInfo,
        _parent: u64,
    ) -> Result<ExfatDirectory> {
        let size = core.heap.cluster_size();
        (entry.cluster, entry.length, entry.valid) = (cluster, size, size);
        let mut runs = Runs::default();
        runs.push(cluster, 1);
        let data = vec![0; size.min(64 << 10) as usize];
        let slots = Slots::new(rules(core.family.geometry.sector), core.heap, Storage::Chain(runs), data);
        Ok(ExfatDirectory::parse(slots, core.family.upcase.clone()))
    }

    /// Does nothing: a directory has no entry for its parent.
    fn moved_directory(_core: &mut Core<ExfatFamily>, _number: u64) -> Result<()> {
        Ok(())
    }

    fn directory_clusters(core: &mut Core<ExfatFamily>, entry: &FileInfo) -> u32 {
        let root = entry.cluster == core.family.geometry.root_cluster;
        core.family.directory_runs(entry, root).map_or(0, |runs| runs.clusters())
    }

    fn largest_directory(&self) -> u64 {
        LARGEST_DIRECTORY
    }

    fn content(core: &mut Core<ExfatFamily>, entry: &FileInfo, whole: bool) -> Result<ContentRuns> {
        let runs = core.family.runs(entry.contiguous, entry.cluster, entry.length, whole)?;
        Ok(ContentRuns { runs, size: entry.length, valid: entry.valid.min(entry.length) })
    }

    fn link(
        core: &mut Core<ExfatFamily>,
        entry: &mut FileInfo,
        runs: &Runs,
        linked: u32,
        to: u32,
    ) -> Result<()> {
        let one = runs.at(0).is_some_and(|(_, count)| count >= to);
        let was = if linked == 0 { true } else { entry.contiguous };
        entry.contiguous = was && one;
        if !entry.contiguous {
            let from = if was { 0 } else { linked };
            core.family.table.append(runs, from, to, &mut core.change.ends)?;
        }
        let mut index = linked;
        while let Some((start, count)) = runs.at(index).filter(|_| index < to) {
            let count = count.min(to - index);
            core.family.bitmap.set(start, count, true);
            index += count;
        }
        core.linked(to - linked);
        Ok(())
    }

    fn record(entry: &mut FileInfo, state: &FileState) {
        (entry.length, entry.valid) = (state.size, state.valid);
        entry.cluster = if state.linked > 0 { state.runs.first() } else { 0 };
        entry.contiguous &= entry.cluster != 0;
    }

    fn record_directory(core: &mut Core<ExfatFamily>, number: u64, runs: &Runs) {
        let bytes = u64::from(runs.clusters()) << core.heap.shift;
        let Ok(entity) = core.entity_mut(number) else { return };
        if number != ROOT {
            // An empty directory may have had no cluster.
            entity.entry.cluster = runs.first();
            (entity.entry.length, entity.entry.valid) = (bytes, bytes);
        }
        let contiguous = entity.entry.contiguous;
        core.mark(number);
        if !contiguous {
            core.family.table.grew(runs);
        }
    }

    fn is_chain(entry: &FileInfo) -> bool {
        !entry.contiguous
    }

    fn removed(core: &mut Core<ExfatFamily>, entry: &FileInfo) {
        for part in entry.parts() {
            if let Ok(mut runs) = core.family.runs(part.contiguous, part.cluster, part.length, true) {
                let linked = runs.clusters();
                core.give_up(&runs.split_off(0), linked);
            }
        }
    }

    fn backlog(&self) -> usize {
        self.table.dirty_bytes() + self.bitmap.dirty_bytes()
    }

    /// Returns the boot sector. While the volume is open (`in_use`), `PercentInUse` is unknown.
    fn mark(core: &mut Core<ExfatFamily>, in_use: bool) -> Result<Images> {
        let family = &mut core.family;
        let flags = family.boot_sector().flags.0 & !(VolumeFlags::DIRTY | VolumeFlags::CLEAR_TO_ZERO);
        let flags = if in_use { flags | VolumeFlags::DIRTY } else { flags };
        family.boot[BootSector::FLAGS..BootSector::FLAGS + 2].copy_from_slice(&flags.to_le_bytes());
        family.boot[BootSector::PERCENT] =
            if in_use { BootSector::PERCENT_UNKNOWN } else { family.bitmap.percent() };
        Ok(vec![(0, family.boot.clone())])
    }

    fn is_changed(&self) -> bool {
        self.table.dirty_bytes() > 0 || self.bitmap.is_changed()
    }

    fn linked(core: &mut Core<ExfatFamily>) -> Result<Images> {
        core.family.table.hold_back()?;
        let mut images = core.family.take_table();
        images.extend(core.family.bitmap.take_dirty());
        Ok(images)
    }

    fn grown(core: &mut Core<ExfatFamily>) -> Result<Images> {
        core.family.table.let_go()?;
        Ok(core.family.take_table())
    }

    /// Returns nothing: the label is an entry of the root directory.
    fn named(_core: &mut Core<ExfatFamily>) -> Images {
        Images::new()
    }

    /// Returns the changes of FAT and bitmap. Freed clusters change only the bitmap, since FAT entries of free
    /// clusters have no meaning.
    fn freed(core: &mut Core<ExfatFamily>, freed: &[(u32, u32)], ends: &BTreeSet<u32>) -> Result<Images> {
        let family = &mut core.family;
        for &(start, count) in freed {
            family.bitmap.set(start, count, false);
        }
        for &cluster in ends {
            family.table.set(cluster, Geometry::END)?;
        }
        let mut images = family.take_table();
        images.extend(family.bitmap.take_dirty());
        Ok(images)
    }

    /// Returns nothing: exFAT keeps no count of free clusters on disk.
    fn counted(_core: &mut Core<ExfatFamily>) -> Images {
        Images::new()
    }
}

/// Formats a GUID in the usual notation (10.1).
fn shown(guid: &[u8; 16]) -> String {
    let [a, b, c, d, e, f, g, h, rest @ ..] = guid;
    let tail: String = rest[2..].iter().map(|byte| format!("{byte:02X}")).collect();
    format!(
        "{{{d:02X}{c:02X}{b:02X}{a:02X}-{f:02X}{e:02X}-{h:02X}{g:02X}-{:02X}{:02X}-{tail}}}",
        rest[0], rest[1]
    )
}

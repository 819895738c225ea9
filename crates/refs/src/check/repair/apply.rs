//! Carrying out the repairs that a check has noted.

use super::plan::RepairPlan;
use super::{names, relay, tables};
use crate::check::Check;
use crate::container::Container;
use crate::core::Core;
use crate::geometry::ContainerMap;
use crate::layout::{Root, Version};
use crate::memory;
use crate::open::{ranges, root_tree};
use crate::pages::Pages;
use crate::space::Space;
use platter_device::Device;
use platter_vfs::{CheckReport, Error, Result};
use std::sync::Arc;

/// Carries out the repairs that a check has noted, and returns the check's report.
///
/// # Errors
/// [`Error::Device`].
pub(crate) fn apply(check: Check<'_>) -> Result<CheckReport> {
    let device = check.device;
    if check.is_log_live || check.is_compressed {
        return Ok(check.report);
    }
    for (offset, bytes) in &check.repair.writes {
        device.write_at(*offset, bytes)?;
    }
    for (copy, offset, bytes) in &check.repair.copy_writes {
        // A copy that is out of service stays as it is.
        let _ = device.repair_copy(*copy, *offset, bytes);
    }
    device.flush()?;
    let Some((report, plan)) = plan(check) else { return Ok(CheckReport::default()) };
    let Some(plan) = plan else { return Ok(report) };
    match relay::lend(device, move |device| plan.carry_out(device)) {
        Some(Err(Error::Device(error))) => Err(error.into()),
        // After any other error the plan has written nothing, and the next round finds the same damage again.
        _ => Ok(report),
    }
}

/// Returns the report, and the plan of the repair if one is needed and it is known which clusters are free.
fn plan(check: Check<'_>) -> Option<(CheckReport, Option<RepairPlan>)> {
    let starts: Option<Vec<u64>> = check.starts.iter().copied().collect();
    let version = check.geometry.version;
    let is_known = check.is_space_known && (version.is_written() || version >= Version::V3_10);
    let starts = starts.filter(|_| is_known && check.repair.is_commit_needed());
    let Some(starts) = starts else { return Some((check.report, None)) };
    let clusters = check.geometry.per_container;
    let containers = (0..starts.len()).map(|index| {
        let tier = check.tiers[index];
        let mut container = match check.used.bits(starts[index]) {
            Some(bits) => Container::mapped(tier, clusters, bits.into()),
            None => Container::uniform(tier, clusters, true),
        };
        container.for_pages = check.containers[index].for_pages;
        container
    });
    let plan = RepairPlan {
        containers: containers.collect(),
        starts,
        repair: check.repair,
        anchors: check.anchors,
        geometry: check.geometry,
        reached: check.reached,
        orphans: check.orphans,
        damaged: check.damaged,
        now: check.device.now(),
        is_crossed: check.is_crossed,
        is_shared: check.shares.is_needed(),
        shares: check.shares.rows(),
        is_directory_lost: check.is_directory_lost,
        upper: check.upper.into(),
    };
    Some((check.report, Some(plan)))
}

impl RepairPlan {
    /// Carries the plan out on a device.
    fn carry_out(mut self, device: Arc<dyn Device>) -> Result<()> {
        let mut core = self.core(&device);
        tables::mend(&mut core, &mut self)?;
        tables::salvage(&mut core, &mut self)?;
        core.find_last_object()?;
        names::carry_out(&mut core, &mut self)?;
        tables::renew(&mut core, &self)?;
        core.news = true;
        let allocators = [Root::MediumAllocator, Root::ContainerAllocator, Root::SmallAllocator];
        let is_renewed = |root: Root| self.repair.renewed.contains(&(root as usize));
        if self.repair.is_space_wrong || allocators.into_iter().any(is_renewed) {
            core.renew_space()?;
        } else {
            core.ranges = ranges(&mut core.pages, &core.roots, |_, _, _, _| Ok(()))?;
            core.count_space();
        }
        let batch = core.gather()?;
        batch.write(&*device, &mut platter_device::Buffer::new(0), &core.health)?;
        core.pages.space.settle();
        core.write_both(&*device)
    }

    /// Returns the volume as the check found it. The free clusters are those of the check's own map, not of the
    /// allocators' rows.
    fn core(&mut self, device: &Arc<dyn Device>) -> Core {
        let geometry = &self.geometry;
        let containers = std::mem::take(&mut self.containers);
        let space = Space::new(containers, geometry);
        let map = ContainerMap::new(std::mem::take(&mut self.starts), geometry.per_container);
        let memory = memory::for_pages(geometry);
        let pages = Pages::new(geometry.clone(), map, space, device.clone(), memory);
        let mut checkpoint = self.anchors.checkpoint.clone();
        checkpoint.clock = checkpoint.clock.max(self.repair.clock);
        let roots = Root::ALL.iter().map(|&root| root_tree(root, checkpoint.roots[root as usize])).collect();
        let superblock = self.anchors.superblock.clone();
        Core::new(pages, roots, checkpoint, superblock, self.anchors.slot, self.upper.clone())
    }
}

//! Finding and repairing damage, from the device alone.
//!
//! This is the second implementation of the format: it shares [`crate::layout`], the sizes and the rows of the volume's
//! own tables with the code that writes, and has its own walk through trees ([`tree`]), its own map of used clusters
//! ([`used`]) and its own reading of directories and files.
//!
//! Every page is read once; the bitmap of used clusters also keeps a damaged tree from being walked in a circle.
//! Memory: a bit for each cluster of the containers in use, some hundred bytes for each directory and for each file
//! with several names, and the numbers of the files of one directory. Nothing recurses.

mod anchors;
mod containers;
mod copies;
mod directory;
mod file;
mod forms;
mod integrity_state;
mod known;
mod links;
mod log;
mod lost;
mod noted;
mod numbers;
mod objects;
mod order;
mod owner;
mod page;
mod rehearsal;
mod repair;
mod reparse;
mod runs;
mod salvage;
mod security;
mod shares;
mod space;
mod tree;
mod used;
mod version_holes;

use crate::container::Tier;
use crate::core::ROOT_DIRECTORY;
use crate::geometry::Geometry;
use crate::layout::{Root, Superblock};
use anchors::Anchors;
use noted::{Repair, Task};
use platter_device::Device;
use platter_vfs::{CheckOptions, CheckReport, Error, Finding, Progress, Result, Severity};
use repair::Log;
use std::collections::{BTreeMap, HashMap, HashSet};
use tree::TreeRow;
use used::Used;

pub(crate) use lost::{FindLost, LostRow, LostTree};
pub use runs::{FileRun, walk_runs};

/// The number of clusters at the beginning of the volume that no allocator hands out.
const FIRST_CLUSTERS: u64 = 0x40;

/// Checks a volume that is not open, and repairs it if asked to. A repair calls `find_lost` for what is
/// not where it should be.
///
/// Where one of the first structures has no usable copy, the report has that finding only. A repair of a volume on which
/// nothing but notices is found writes nothing; where there is damage too, what the notices tell of is mended with it.
///
/// # Errors
/// [`Error::NotThisFormat`]; [`Error::Device`]; [`Error::ReadOnly`] for a repair of a device that cannot be written.
pub(crate) fn check(
    device: &dyn Device,
    options: CheckOptions,
    progress: &dyn Progress,
    find_lost: FindLost,
) -> Result<CheckReport> {
    let find_lost = options.repair.then_some(find_lost);
    if options.repair && device.read_only() {
        return Err(Error::ReadOnly("its device is".into()));
    }
    options.settle(device)?;
    let mut check = match Check::checked(device, progress, find_lost) {
        Err(error @ Error::Damaged(_)) => return Ok(nothing_usable(&error)),
        checked => checked?,
    };
    let goes_on = || if progress.is_stopped() { Err(Error::Stopped) } else { Ok(()) };
    goes_on()?;
    let unknown = check.anchors.checkpoint.unknown();
    if let Some(what) = &unknown {
        let message = format!("checkpoint at offset {:#x}: {what}; nothing is written", check.checkpoint_at);
        check.find("unknown-layout", Severity::Notice, None, message);
    }
    // Sound volumes of Windows have what notices tell of, and a volume that passes is not written to.
    let is_repaired = options.repair && unknown.is_none() && !check.report.is_clean();
    if !is_repaired || !check.repair.is_needed() {
        return Ok(check.into_report());
    }
    let is_lost = check.is_incomplete || check.is_content_lost || check.is_directory_lost;
    if is_lost
        && let Some(find_lost) = find_lost
        && let Some(why) = rehearsal::refusal(device, find_lost)
    {
        check.find("not-repaired", Severity::DataLoss, None, why);
        return Ok(check.into_report());
    }
    goes_on()?;
    repaired(device, check, progress, find_lost)
}

/// Carries out repairs, in rounds, until nothing is left that can be repaired.
fn repaired<'d>(
    device: &'d dyn Device,
    mut check: Check<'d>,
    progress: &'d dyn Progress,
    find_lost: Option<FindLost>,
) -> Result<CheckReport> {
    let goes_on = || if progress.is_stopped() { Err(Error::Stopped) } else { Ok(()) };
    let mut rounds = Vec::new();
    // Where the allocators have used clusters as free, a commit would make the damage worse.
    let is_safe = check.is_space_known && !check.repair.is_space_wrong;
    match repair::carry_out_log(device, is_safe) {
        Log::Empty => {}
        Log::CarriedOut => {
            rounds.push(check.into_report());
            check = Check::checked(device, progress, find_lost)?;
        }
        Log::GivenUp => {
            let message = "log of syncs: what was synced after the last commit is given up, for it is not known \
                           what is free";
            check.find("sync-log", Severity::DataLoss, None, message.into());
        }
    }
    while rounds.len() < ROUNDS && check.repair.is_needed() {
        let before = repair::apply(check)?;
        goes_on()?;
        check = Check::checked(device, progress, find_lost)?;
        goes_on()?;
        let is_stuck = check.report.findings == before.findings;
        rounds.push(before);
        if is_stuck {
            break;
        }
    }
    Ok(merge(rounds, check.into_report()))
}

/// Returns the report for a volume of which one of the first structures has no usable copy.
fn nothing_usable(error: &Error) -> CheckReport {
    let message = format!(
        "{}; no copy of it is good, so the volume cannot be opened and nothing else was looked at: `platter recover` copies \
         out what can still be read",
        page::plain(error)
    );
    let mut report = CheckReport::default();
    report.add(Finding {
        code: "unusable",
        severity: Severity::DataLoss,
        path: None,
        message,
        repaired: false,
    });
    report
}

/// Whether a row is the same as the one with its key in `known`, the rows of a new volume; true also for a key that is
/// not in `known`.
fn is_known(known: &[crate::layout::system::SystemRow], row: &TreeRow) -> bool {
    known.iter().find(|(key, _)| *key == row.key).is_none_or(|(_, value)| *value == row.value)
}

/// The most rounds of a repair. Each round finds what the round before left behind, such as the clusters of trees that
/// were replaced.
const ROUNDS: usize = 6;

/// Returns one report of all rounds: first, as repaired, the findings of earlier rounds that the last round no longer
/// has, then those of the last round.
fn merge(rounds: Vec<CheckReport>, last: CheckReport) -> CheckReport {
    let key = |finding: &Finding| {
        let place = finding.path.clone().unwrap_or_else(|| finding.message.clone());
        (finding.code, place)
    };
    let mut known: HashSet<_> = last.findings.iter().map(key).collect();
    let mut report = CheckReport {
        files: last.files,
        directories: last.directories,
        used_clusters: last.used_clusters,
        total_clusters: last.total_clusters,
        unread: last.unread,
        ..CheckReport::default()
    };
    for finding in rounds.into_iter().flat_map(|round| round.findings) {
        if known.insert(key(&finding)) {
            report.add(Finding { repaired: true, ..finding });
        }
    }
    let dropped = last.found - last.findings.len() as u64;
    last.findings.into_iter().for_each(|finding| report.add(finding));
    report.found += dropped;
    report.notices = report.notices.max(last.notices);
    report.remaining = report.remaining.max(last.remaining);
    report
}

/// A check under way.
struct Check<'d> {
    device: &'d dyn Device,
    progress: &'d dyn Progress,
    geometry: Geometry,
    anchors: Anchors,
    /// The offset of the newest checkpoint on the device, in bytes.
    checkpoint_at: u64,
    /// The highest clock that a page may have.
    clock: u64,
    /// Whether every page must have a checksum.
    is_verified: bool,
    report: CheckReport,
    repair: Repair,
    used: Used,
    /// Whether pages are read a second time: their clusters have been counted and their damage reported already.
    is_again: bool,
    containers: Vec<containers::Container>,
    /// The first real cluster of each container, by index; `None` where the container's row is damaged.
    starts: Vec<Option<u64>>,
    /// The upper-case table: that of Windows at first, the volume's own once it is read.
    upper: Box<[u16]>,
    objects: BTreeMap<u64, objects::Object>,
    /// The identifiers of the security descriptors that the volume has.
    security: HashSet<u64>,
    /// Identifiers that records name although the volume does not have them: how many records, and the path of the
    /// first.
    unknown_security: BTreeMap<u64, (u64, String)>,
    /// Directories that a name leads to, each with the directory above and the name.
    reached: HashMap<u64, (u64, Box<[u16]>)>,
    /// Directories that no name leads to, each with the directory above and the name that its own record gives.
    orphans: HashMap<u64, (u64, Box<[u16]>)>,
    /// The number of directories walked so far.
    walked: u64,
    links: links::Links,
    reparse: reparse::Points,
    /// Clusters that several streams may share.
    shares: shares::Shares,
    /// The function that is called for each run of each file, if the caller gave one.
    visitor: Option<&'d mut dyn FnMut(&FileRun<'_>)>,
    /// The allocator that each container belongs to, by index.
    tiers: Vec<Tier>,
    /// Whether tiers and used clusters are known well enough to write to the volume.
    is_space_known: bool,
    /// The numbers of the trees of which a part cannot be read.
    damaged: HashSet<u64>,
    /// The trees of directories of which a part cannot be read.
    lost_trees: Vec<LostTree>,
    /// The function that finds the rows that directories have lost; `None` if nothing is to be repaired.
    find_lost: Option<FindLost>,
    /// A part of the metadata could not be read, so clusters that nothing leads to may belong to it.
    is_incomplete: bool,
    /// A part of the metadata could not be read that cannot be made anew from other metadata.
    is_content_lost: bool,
    /// The format's log holds changes that Windows will carry out, and nothing may be written before that.
    is_log_live: bool,
    /// Nothing says where the format's log is.
    is_log_lost: bool,
    /// Some containers are compressed. Changes there follow other rules, so nothing is repaired.
    is_compressed: bool,
    /// Some clusters belong to several files although the table of reference counts does not have them as shared.
    is_crossed: bool,
    /// A part of a directory or of the object table could not be read.
    is_directory_lost: bool,
    unmarked: forms::Unmarked,
}

impl<'d> Check<'d> {
    /// Returns a check that has walked the whole volume.
    fn checked(
        device: &'d dyn Device,
        progress: &'d dyn Progress,
        find_lost: Option<FindLost>,
    ) -> Result<Check<'d>> {
        let mut check = Check::new(device, progress)?;
        check.find_lost = find_lost;
        check.run();
        Ok(check)
    }

    fn new(device: &'d dyn Device, progress: &'d dyn Progress) -> Result<Check<'d>> {
        let (mut report, mut repair) = (CheckReport::default(), Repair::default());
        let anchors = anchors::read(device, &mut report, &mut repair)?;
        let geometry = anchors.geometry.clone();
        Ok(Check {
            device,
            progress,
            checkpoint_at: geometry.offset(anchors.superblock.checkpoints[anchors.slot]),
            clock: anchors.checkpoint.clock,
            is_verified: anchors.boot.checksum != 0,
            used: Used::new(geometry.clusters, geometry.per_container),
            geometry,
            anchors,
            report,
            repair,
            is_again: false,
            containers: Vec::new(),
            starts: Vec::new(),
            upper: (0..=u16::MAX).map(crate::layout::system::windows_upper).collect(),
            objects: BTreeMap::new(),
            security: HashSet::new(),
            unknown_security: BTreeMap::new(),
            reached: HashMap::new(),
            orphans: HashMap::new(),
            walked: 0,
            links: links::Links::default(),
            reparse: reparse::Points::default(),
            shares: shares::Shares::default(),
            visitor: None,
            tiers: Vec::new(),
            is_space_known: false,
            damaged: HashSet::new(),
            lost_trees: Vec::new(),
            find_lost: None,
            is_incomplete: false,
            is_content_lost: false,
            is_log_live: false,
            is_log_lost: false,
            is_compressed: false,
            is_crossed: false,
            is_directory_lost: false,
            unmarked: forms::Unmarked::default(),
        })
    }

    /// Walks everything that the newest checkpoint leads to.
    fn run(&mut self) {
        self.claim_places();
        containers::read(self);
        self.plain_roots();
        objects::read_table(self);
        objects::read_own(self);
        directory::walk_all(self);
        directory::compare_parents(self);
        links::finish(self);
        security::finish(self);
        reparse::finish(self);
        shares::finish(self);
        salvage::find(self);
        log::find_place(self);
        space::compare(self);
        forms::finish(self);
    }

    /// Counts the clusters of structures with a fixed place as used.
    fn claim_places(&mut self) {
        self.claim_fixed("first clusters", 0, FIRST_CLUSTERS);
        let clusters = self.geometry.clusters;
        let boot = self.anchors.boot.clone();
        let last = (boot.sectors - 1) * u64::from(boot.sector) / u64::from(self.geometry.cluster);
        let superblocks = Superblock::places(clusters).into_iter().filter(|&place| place >= FIRST_CLUSTERS);
        for place in superblocks.chain([last]) {
            // On a small volume the last sector can be in the cluster of a superblock.
            self.used.claim(place, 1, None);
        }
        let page = u64::from(self.geometry.page_clusters());
        for place in self.anchors.superblock.checkpoints {
            self.claim_fixed("checkpoint", place, page);
        }
    }

    fn claim_fixed(&mut self, what: &str, start: u64, count: u64) {
        let before = self.used.claim(start, count, None);
        if before > 0 {
            let message =
                format!("{what} at cluster {start:#x}: something else has {before} of its {count} clusters");
            self.find("cross-link", Severity::DataLoss, None, message);
        }
    }

    /// Walks the roots whose rows lead to no other tree. The rows of the allocators are compared with the used clusters
    /// at the end of the check.
    fn plain_roots(&mut self) {
        let schemas = (self.root_cursor(Root::Schemas), self.root_cursor(Root::SchemasCopy));
        let minor = self.geometry.version.minor;
        let known = crate::layout::system::schema_rows(minor, self.geometry.page() as u32);
        // Earlier versions of Platter wrote the page size of 4 KiB clusters into the rows of all volumes.
        let former = crate::layout::system::schema_rows(minor, 0x4000);
        let valid = |_: &mut Check<'_>, row: &TreeRow| is_known(&known, row) || is_known(&former, row);
        let lost = (self.is_directory_lost, self.is_content_lost);
        let mut are_known = true;
        let is_there = copies::walk(self, schemas.0, schemas.1, &valid, &mut |_, row| {
            are_known &= is_known(&known, &row) || is_known(&former, &row);
        });
        if !is_there && are_known {
            (self.is_directory_lost, self.is_content_lost) = lost;
            self.repair.renew(Root::Schemas);
            self.repair.renew(Root::SchemasCopy);
        }
        for root in [
            Root::MediumAllocator,
            Root::ContainerAllocator,
            Root::SmallAllocator,
            Root::ParentChild,
            Root::ContainerIndex,
            Root::IntegrityState,
            Root::References,
        ] {
            let mut cursor = self.root_cursor(root);
            let mut states = integrity_state::Rows::default();
            while let Some(row) = cursor.next(self) {
                match root {
                    Root::References => shares::row(self, &row),
                    Root::IntegrityState => integrity_state::row(&mut states, &row),
                    _ => {}
                }
            }
            if root == Root::IntegrityState && !cursor.is_damaged {
                integrity_state::finish(self, states);
            }
            if cursor.is_damaged {
                self.repair.renew(root);
                if root == Root::References {
                    shares::lost(self);
                }
            }
        }
    }

    /// Adds a finding to the report, unless pages are read a second time.
    fn find(&mut self, code: &'static str, severity: Severity, path: Option<String>, message: String) {
        if !self.is_again {
            self.report.add(Finding { code, severity, path, message, repaired: false });
        }
    }

    /// Returns the path of a directory, or of a name in it.
    fn path(&self, directory: u64, name: Option<&[u16]>) -> String {
        let mut parts: Vec<String> = name.map(String::from_utf16_lossy).into_iter().collect();
        let mut at = directory;
        while at != ROOT_DIRECTORY {
            match self.reached.get(&at) {
                Some((above, name)) if parts.len() < 4096 => {
                    parts.push(String::from_utf16_lossy(name));
                    at = *above;
                }
                _ => {
                    parts.push(format!("<directory {at:#x}>"));
                    break;
                }
            }
        }
        parts.reverse();
        format!("/{}", parts.join("/"))
    }

    fn into_report(mut self) -> CheckReport {
        self.report.directories = self.reached.len() as u64;
        self.report.used_clusters = self.used.count();
        self.report.total_clusters = self.starts.len() as u64 * u64::from(self.geometry.per_container);
        self.report
    }
}

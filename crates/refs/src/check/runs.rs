//! The runs of a stream: where its clusters are.

use super::Check;
use super::order::Order;
use super::owner::Owner;
use super::page::{Page, Role, Subject, plain, tidy};
use super::version_holes::{Covered, cover};
use crate::container::Tier;
use crate::layout::extent::{CHILD_LAST, Reads, RunRow};
use crate::layout::node::NODE_HEADER;
use crate::layout::stream::{EXTENTS_HEADER as HEADER, extents, extents_area};
use crate::layout::{PageReference, ShareRow, TreeNode, header};
use crate::versions;
use platter_device::Device;
use platter_vfs::{Progress, Result, Severity};

/// A run of clusters of a file, for a caller that verifies the data itself.
#[derive(Clone, Copy, Debug)]
pub struct FileRun<'r> {
    /// The path of the file, followed by a colon and the name of the stream if that has one.
    pub path: &'r str,
    /// The run's first cluster, counted from the start of the stream.
    pub at: u64,
    /// The number of clusters.
    pub count: u64,
    /// The run's offset on the device, in bytes.
    pub offset: u64,
    /// The CRC-32C that the run's cluster must have; a run with a checksum has one cluster.
    pub checksum: Option<u32>,
}

/// Calls `each` on every run of every file of a volume that is not open. Damaged parts are left out; the check reports
/// them.
///
/// # Errors
/// Those of a check.
pub fn walk_runs(
    device: &dyn Device,
    progress: &dyn Progress,
    each: &mut dyn FnMut(&FileRun<'_>),
) -> Result<()> {
    let mut check = Check::new(device, progress)?;
    check.visitor = Some(each);
    check.run();
    Ok(())
}

/// The sizes of a stream, from its header and its runs.
pub(super) struct Stream {
    /// The size in the stream's header, in bytes.
    pub size: u64,
    /// The number of clusters of all runs.
    pub clusters: u64,
    /// The number of clusters of holes that have rows.
    pub holes: u64,
    /// Whether the runs, with these holes, have fewer clusters than the size needs.
    pub has_holes: bool,
    /// Whether some of the runs are damaged or could not be read.
    pub is_damaged: bool,
    /// What the rows cover, if the stream is one of several versions.
    pub covered: Vec<Covered>,
}

struct FoundRun {
    at: u64,
    count: u64,
    cluster: u64,
    /// The checksums of all clusters, if they have any.
    checksums: Option<Vec<u32>>,
    flags: u16,
    /// The size of the row as it says itself, without what follows it up to the next.
    size: u64,
    /// What can be read of the content.
    reads: Reads,
    /// Whether the row stands for a hole.
    is_hole: bool,
}

/// A walk through the runs of one stream.
struct Walk<'o> {
    owner: &'o Owner<'o>,
    path: Option<String>,
    /// The first cluster of the stream after the runs walked so far.
    end: u64,
    /// The number of clusters of the runs walked so far, and that of the holes that have rows.
    clusters: u64,
    holes: u64,
    runs: u64,
    leaves: u64,
    crossed: u64,
    first_crossed: u64,
    unchecked: u64,
    is_damaged: bool,
    covered: Vec<Covered>,
}

impl Check<'_> {
    /// The path of a file or of a stream of it.
    pub(super) fn owner_path(&self, owner: &Owner<'_>) -> String {
        let mut path =
            self.path(owner.spot.directory, (!owner.spot.name.is_empty()).then_some(owner.spot.name));
        if !owner.stream.is_empty() {
            path.push(':');
            path.push_str(&String::from_utf16_lossy(owner.stream));
        }
        path
    }

    /// Reports a finding about a file or one of its streams.
    pub(super) fn find_in(
        &mut self,
        owner: &Owner<'_>,
        code: &'static str,
        severity: Severity,
        message: String,
    ) {
        let path = self.owner_path(owner);
        self.find(code, severity, Some(path), message);
    }

    /// Reads a value that holds the runs of a stream, and counts their clusters as used. `at` is the offset on the
    /// device that messages count from.
    pub(super) fn stream(&mut self, owner: &Owner<'_>, value: &[u8], at: u64) -> Option<Stream> {
        let area = extents_area(value).ok().filter(|area| area.len() >= NODE_HEADER);
        let Some(area) = area else {
            let found = header::LENGTH.of(value);
            let message =
                format!("stream's header at offset {at}: expected {HEADER:#x} bytes, found {found:#x}");
            self.lose(owner, "stream", message);
            return None;
        };
        let role = Role { level: None, stream: true, embedded: true };
        if let Err((offset, expected, found)) = super::page::node(area, role) {
            let place = at + (HEADER + offset) as u64;
            self.lose(
                owner,
                "stream",
                format!("stream's node at offset {place}: expected {expected}, found {found}"),
            );
            return None;
        }
        let mut walk = Walk {
            owner,
            path: self.visitor.is_some().then(|| self.owner_path(owner)),
            end: 0,
            clusters: 0,
            holes: 0,
            runs: 0,
            leaves: 0,
            crossed: 0,
            first_crossed: 0,
            unchecked: 0,
            is_damaged: false,
            covered: Vec::new(),
        };
        let is_inner = TreeNode::new(area).is_inner();
        if is_inner {
            walk.below(self, area, at + HEADER as u64);
        } else {
            walk.leaf(self, area, at + HEADER as u64, None);
        }
        if let Err((offset, expected, found)) = tidy(area) {
            let place = at + (HEADER + offset) as u64;
            let message = format!("stream's node at offset {place}: expected {expected}, found {found}");
            self.find_in(owner, "node-count", Severity::Inconsistent, message);
        }
        walk.report(self);
        Some(walk.compare(self, value, at))
    }

    /// Reports that a part of a file is lost. From here on clusters that nothing leads to may belong to it.
    pub(super) fn lose(&mut self, owner: &Owner<'_>, code: &'static str, message: String) {
        self.is_incomplete = true;
        self.is_content_lost = true;
        self.find_in(owner, code, Severity::DataLoss, message);
    }
}

impl Walk<'_> {
    /// Walks the nodes below an inner node. Levels fall by one each time, so their number bounds the depth.
    fn below(&mut self, check: &mut Check<'_>, area: &[u8], at: u64) {
        enum Place<'a> {
            Row(&'a [u8], u64),
            Page(Page),
        }
        let subject = Subject {
            name: "runs of a stream".into(),
            path: Some(check.owner_path(self.owner)),
            table: self.owner.spot.table,
            order: Order::Unknown,
            tier: Tier::Medium,
            severity: Severity::DataLoss,
            renewable: false,
        };
        let mut levels = vec![(Place::Row(area, at), 0)];
        while let Some((place, next)) = levels.last_mut() {
            let (area, at) = match place {
                Place::Row(area, at) => (*area, *at),
                Place::Page(page) => (page.area(), page.place(0)),
            };
            let node = TreeNode::new(area);
            let position = *next;
            if position >= node.len() {
                levels.pop();
                continue;
            }
            *next += 1;
            let (row, from) = (node.row(position), at + node.offset(position) as u64);
            let (level, is_last) = (node.level() - 1, position + 1 == node.len());
            let last = (!is_last).then(|| CHILD_LAST.of(row.key));
            let reference = match PageReference::from_bytes(row.value, from) {
                Ok(reference) => reference,
                Err(error) => {
                    self.is_damaged = true;
                    check.lose(self.owner, "page-reference", plain(&error));
                    continue;
                }
            };
            match check.page(
                &subject,
                &reference,
                Role { level: Some(level), stream: true, embedded: true },
                from,
            ) {
                None => self.is_damaged = true,
                Some(page) if level == 0 => {
                    self.leaves += 1;
                    self.leaf(check, page.area(), page.place(0), last);
                }
                Some(page) => levels.push((Place::Page(page), 0)),
            }
        }
    }

    /// Reads a leaf's runs, which may stand in any order. `last` is the last cluster of the stream that the leaf may
    /// have a run of.
    fn leaf(&mut self, check: &mut Check<'_>, area: &[u8], at: u64, last: Option<u64>) {
        let node = TreeNode::new(area);
        let mut runs = Vec::with_capacity(node.len());
        for position in 0..node.len() {
            let offset = node.offset(position);
            match read_run(area, offset) {
                Some(run) => runs.push((run, at + offset as u64)),
                None => {
                    self.is_damaged = true;
                    let place = at + offset as u64;
                    let message = format!(
                        "run of a stream at offset {place}: expected a run inside its node, found none"
                    );
                    check.lose(self.owner, "run", message);
                }
            }
        }
        runs.sort_by_key(|(run, _)| run.at);
        for (run, at) in runs {
            self.run(check, &run, at);
        }
        if let Some(last) = last.filter(|&last| self.end > last.saturating_add(1)) {
            let message = format!(
                "leaf of a stream at offset {at}: expected runs up to cluster {last}, found up to {}",
                self.end
            );
            check.find_in(self.owner, "key-bound", Severity::Inconsistent, message);
        }
    }

    fn run(&mut self, check: &mut Check<'_>, run: &FoundRun, at: u64) {
        self.runs += 1;
        let kind =
            || format!("run of a stream at offset {at}: flags {:#x} and {} bytes", run.flags, run.size);
        match run.reads {
            Reads::Content => {}
            Reads::Unexplained => {
                let message = format!("{}: what this means is not known, and its data is not read", kind());
                check.find_in(self.owner, "run-kind", Severity::Notice, message);
            }
            Reads::Unknown => {
                let message = format!("{}: its kind is not known, and its data not read", kind());
                check.find_in(self.owner, "run-kind", Severity::DataLoss, message);
            }
        }
        let sums = run.checksums.as_ref().map_or(0, Vec::len);
        let size = (RunRow::LEN + RunRow::SUM * sums) as u64;
        if run.reads == Reads::Content && run.size != size {
            check.find_in(
                self.owner,
                "run",
                Severity::Inconsistent,
                format!("{}: expected {size} bytes", kind()),
            );
        }
        let wrong = if run.count == 0 || run.at + run.count >= u64::from(u32::MAX) {
            Some(("run", "a run that is not empty"))
        } else if run.at < self.end {
            Some(("run-overlap", "a run after the one before"))
        } else {
            None
        };
        if let Some((code, expected)) = wrong {
            self.is_damaged = true;
            let found = format!("clusters {} to {}", run.at, run.at + run.count);
            check.lose(
                self.owner,
                code,
                format!("run of a stream at offset {at}: expected {expected}, found {found}"),
            );
        }
        self.end = self.end.max(run.at + run.count);
        if self.owner.has_versions {
            let row = Covered { at: run.at, end: run.at + run.count, is_run: !run.is_hole };
            cover(&mut self.covered, row);
        }
        if run.is_hole {
            self.holes += run.count;
            return;
        }
        self.clusters += run.count;
        self.unchecked += u64::from(run.checksums.is_none() && run.reads == Reads::Content);
        if run.checksums.is_some() && !check.is_again {
            check.report.unread += run.count.saturating_mul(u64::from(check.geometry.cluster));
        }
        let real = match check.real(run.cluster, run.count.max(1), Tier::Medium) {
            Ok(real) => real,
            Err(error) => {
                self.is_damaged = true;
                let message = format!("run of a stream at offset {at}: {}", plain(&error));
                check.find_in(self.owner, "run-place", Severity::DataLoss, message);
                return;
            }
        };
        self.claim(check, run, real);
        let Some(path) = self.path.as_deref() else { return };
        let (geometry, visitor) = (&check.geometry, &mut check.visitor);
        let mut visit = |at: u64, count, real, checksum| {
            let offset = geometry.offset(real);
            if let Some(visitor) = visitor {
                visitor(&FileRun { path, at, count, offset, checksum });
            }
        };
        match &run.checksums {
            None => visit(run.at, run.count, real, None),
            Some(sums) => {
                let each = sums.iter().zip(0..);
                each.for_each(|(&sum, index)| visit(run.at + index, 1, real + index, Some(sum)));
            }
        }
    }

    /// Counts the clusters of a run, which begins at the real cluster `real`. A long run lies in several ranges whose
    /// owners are counted each in a row of its own, or not at all.
    fn claim(&mut self, check: &mut Check<'_>, run: &FoundRun, real: u64) {
        let mut at = 0;
        while at < run.count {
            let cluster = run.cluster + at;
            let count = (ShareRow::CLUSTERS - cluster % ShareRow::CLUSTERS).min(run.count - at);
            let may_be_shared = check.count_run(cluster, count, self.owner.is_spread);
            let before = check.used.claim(real + at, count, Some(Tier::Medium));
            if before > 0 && !self.owner.is_snapshot && !may_be_shared {
                if self.crossed == 0 {
                    self.first_crossed = real + at;
                }
                self.crossed += before;
            }
            at += count;
        }
    }

    fn report(&self, check: &mut Check<'_>) {
        if self.crossed > 0 {
            check.is_crossed = true;
            let (count, first) = (self.crossed, self.first_crossed);
            let message = format!(
                "{count} clusters of a stream belong to something else too, the first from cluster {first:#x} on"
            );
            check.find_in(self.owner, "cross-link", Severity::DataLoss, message);
        }
        if self.owner.integrity && self.unchecked > 0 {
            let message = format!("{} runs of a stream with integrity have no checksum", self.unchecked);
            check.find_in(self.owner, "run-checksum", Severity::Inconsistent, message);
        }
    }

    /// Compares the stream's header with its runs.
    fn compare(mut self, check: &mut Check<'_>, value: &[u8], at: u64) -> Stream {
        let cluster = u64::from(check.geometry.cluster);
        let stored = extents::SIZE.of(value);
        let is_sparse = extents::VERSIONS.of(value) & extents::SPARSE != 0;
        // Of the two sizes of a file without holes, the one that its clusters confirm counts.
        let is_as_long = |size: u64| size.div_ceil(cluster) == self.clusters + self.holes;
        // A version with runs for a part of its clusters says nothing by their number.
        let lacks_runs = self.owner.is_spread && versions::lacks_runs(value);
        let is_in_doubt = |said| !is_sparse && !lacks_runs && !is_as_long(stored) && is_as_long(said);
        let other = self.owner.said.filter(|&said| is_in_doubt(said));
        let size = other.filter(|_| !self.is_damaged).unwrap_or(stored);
        if size != stored {
            let place = at + extents::SIZE.at() as u64;
            let message = format!("size of a stream at offset {place}: expected {size}, found {stored}");
            check.find_in(self.owner, "stream-size", Severity::Inconsistent, message);
            check.amend_attribute(self.owner, extents::SIZE, size);
        }
        let needed = size.div_ceil(cluster);
        // A hole with a row is not one that the flag must tell of.
        let has_holes = self.clusters + self.holes < needed && !lacks_runs;
        let own = self.clusters.saturating_mul(cluster);
        let allocated = if lacks_runs { extents::ALLOCATED.of(value) } else { own };
        let stream = Stream {
            size,
            clusters: self.clusters,
            holes: self.holes,
            has_holes,
            is_damaged: self.is_damaged,
            covered: std::mem::take(&mut self.covered),
        };
        if self.is_damaged {
            return stream;
        }
        let valid = extents::VALID.of(value);
        let fields = [
            ("stream-count", "leaf pages", extents::LEAF_PAGES, self.leaves),
            ("stream-count", "runs", extents::RUNS, self.runs),
            ("stream-size", "allocated bytes", extents::ALLOCATED, allocated),
            ("stream-size", "valid bytes", extents::VALID, valid.min(size)),
            ("stream-size", "allocated bytes", extents::OWN, own),
        ];
        for (code, what, field, expected) in fields {
            let found = field.of(value);
            // Whether the allocated size counts holes that have rows is not known.
            let with_holes = expected.saturating_add(self.holes.saturating_mul(cluster));
            let is_right = expected == found || what == "allocated bytes" && with_holes == found;
            if !is_right {
                let place = at + field.at() as u64;
                let message =
                    format!("{what} of a stream at offset {place}: expected {expected}, found {found}");
                check.find_in(self.owner, code, Severity::Inconsistent, message);
                check.amend_attribute(self.owner, field, expected);
            }
        }
        let flags = extents::VERSIONS.of(value);
        if has_holes && flags & extents::SPARSE == 0 {
            let place = at + extents::VERSIONS.at() as u64;
            let message = format!("flags of a stream at offset {place}: expected the one of holes");
            check.find_in(self.owner, "sparse", Severity::Inconsistent, message);
            check.amend_attribute(self.owner, extents::VERSIONS, flags | extents::SPARSE);
        }
        stream
    }
}

fn read_run(area: &[u8], offset: usize) -> Option<FoundRun> {
    let bytes = area.get(offset..).filter(|_| offset >= NODE_HEADER)?;
    let row = RunRow::from_bytes(bytes)?;
    let checksums = match row.has_checksums() && row.reads() == Reads::Content {
        true => Some(row.checksums(bytes)?.collect()),
        false => None,
    };
    Some(FoundRun {
        at: u64::from(row.at),
        count: u64::from(row.count),
        cluster: row.cluster,
        checksums,
        flags: row.flags,
        size: u64::from(row.size),
        reads: row.reads(),
        is_hole: row.is_hole(),
    })
}

//! The findings of a check, and whether each is repaired.

use platter_vfs::{CheckReport, Finding, Severity};

/// The most directory slots that one round of a repair changes, and the most shared clusters that it examines: a bound
/// on memory. Everything beyond is left to the next round.
pub const MOST_CHANGES: usize = 1 << 20;

/// The most files that wait for copies of clusters, with their paths: a bound on memory.
pub(crate) const MOST_SHARED: usize = 1 << 16;
/// The code of the finding that two files share clusters.
const SHARED: &str = "cross-link";

/// The findings of a round.
pub struct Findings<'a> {
    /// The report to which they are added.
    pub report: &'a mut CheckReport,
    /// Whether findings are repaired.
    pub repair: bool,
    /// Whether there was more to repair than one round may change.
    pub postponed: bool,
}

/// A finding that two files share clusters, until it is known whether there is room for copies of them.
pub struct SharedFinding {
    /// The path of the file that gets the copies.
    pub path: String,
    /// Says which clusters it shares.
    pub message: String,
}

impl SharedFinding {
    /// Adds the finding. Where there was no room the file stays as it is, so that what can be read of it still can be;
    /// `needed` clusters have to be freed first.
    pub fn report(self, report: &mut CheckReport, needed: Option<u64>) {
        let mut message = self.message;
        if let Some(needed) = needed {
            message += &format!("; a copy needs {needed} free clusters, which there are not");
        }
        report.add(Finding {
            code: SHARED,
            severity: Severity::DataLoss,
            path: Some(self.path),
            message,
            repaired: needed.is_none(),
        });
    }
}

impl Findings<'_> {
    /// Finds that two files share clusters. Returns the finding if a repair is to make copies, of which at most
    /// `MOST_SHARED` are waiting; otherwise it is added.
    pub fn shares(
        &mut self,
        (changes, waiting): (usize, usize),
        path: impl FnOnce() -> String,
        message: impl FnOnce() -> String,
    ) -> Option<SharedFinding> {
        if self.repair && changes < MOST_CHANGES && waiting < MOST_SHARED {
            return Some(SharedFinding { path: path(), message: message() });
        }
        let changes = if waiting < MOST_SHARED { changes } else { MOST_CHANGES };
        self.find(changes, SHARED, Severity::DataLoss, Some(path), message);
        None
    }

    /// Adds a finding. It is repaired if this round repairs and fewer than [`MOST_CHANGES`] changes are waiting;
    /// returns whether it is. `path` and `message` are called only if the finding is kept.
    pub fn find(
        &mut self,
        changes: usize,
        code: &'static str,
        severity: Severity,
        path: Option<impl FnOnce() -> String>,
        message: impl FnOnce() -> String,
    ) -> bool {
        let room = changes < MOST_CHANGES;
        let repaired = self.repair && room;
        self.postponed |= self.repair && !room;
        let kept = self.report.keeps(severity);
        self.report.add(Finding {
            code,
            severity,
            path: path.filter(|_| kept).map(|path| path()),
            message: if kept { message() } else { String::new() },
            repaired,
        });
        repaired
    }
}

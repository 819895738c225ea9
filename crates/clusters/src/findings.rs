//! The findings of a check, and whether each is repaired.

use platter_vfs::{CheckReport, Finding, Severity};

/// The most directory slots that one round of a repair changes, and the most shared clusters that it examines: a bound
/// on memory. Everything beyond is left to the next round.
pub const MOST_CHANGES: usize = 1 << 20;

/// The findings of a round.
pub struct Findings<'a> {
    /// The report to which they are added.
    pub report: &'a mut CheckReport,
    /// Whether findings are repaired.
    pub repair: bool,
    /// Whether there was more to repair than one round may change.
    pub postponed: bool,
}

impl Findings<'_> {
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

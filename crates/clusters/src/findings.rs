//! What a check reports, and whether it puts it right.

use platter_vfs::{CheckReport, Finding, Severity};

/// The most directory slots that one round of a repair changes, and the most shared clusters it looks into: a bound on
/// memory. What is over waits for the next round.
pub const MOST_CHANGES: usize = 1 << 20;

/// The findings of a round.
pub struct Findings<'a> {
    /// Where they go.
    pub report: &'a mut CheckReport,
    /// Whether what is found is put right.
    pub repair: bool,
    /// Whether there was more to repair than one round may.
    pub postponed: bool,
}

impl Findings<'_> {
    /// Reports something that is put right if the round repairs, unless `changes` wait already and no more may. Whether
    /// it is put right is the answer. Path and message are only asked for if they are kept.
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
        let kept = self.report.findings.len() < CheckReport::KEPT;
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

//! What a check has found, for people.

use crate::command::output::grouped;
use platter_device::show_size;
use platter_vfs::{CheckReport, Finding, Severity};

/// Returns the findings of a check, a line each, and a last line with the verdict.
pub(super) fn lines(device: &str, format: &str, report: &CheckReport) -> Vec<String> {
    let mut lines: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
    let kept = report.findings.len() as u64;
    if report.found > kept {
        lines.push(format!("and {} more", grouped(report.found - kept)));
    }
    let damage = report.found - report.notices;
    let notices = |finding: &&Finding| finding.severity == Severity::Notice && finding.repaired;
    let repaired = report.repaired - report.findings.iter().filter(notices).count() as u64;
    let mut verdict = match (damage, repaired) {
        (0, _) => "no damage".to_string(),
        (found, 0) => format!("{} found, nothing repaired", grouped(found)),
        (found, repaired) => format!("{} found, {} repaired", grouped(found), grouped(repaired)),
    };
    if report.notices > 0 {
        verdict += &format!(", {} worth knowing", grouped(report.notices));
    }
    if report.unread > 0 {
        let bytes = show_size(report.unread);
        verdict += &format!(", and {bytes} of file data with checksums were not read (--data reads them)");
    }
    lines.push(format!(
        "{device}: {format}, {verdict}; {} files, {} directories, {} of {} clusters used",
        grouped(report.files),
        grouped(report.directories),
        grouped(report.used_clusters),
        grouped(report.total_clusters)
    ));
    lines
}

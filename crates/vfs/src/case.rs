//! Case mappings as runs: how formats that define their own mapping state it.

/// Units that map to as many units: the first, the last, the distance between neighbours, and what the first maps to.
pub type CaseRun = (u16, u16, u16, u16);

/// What `unit` maps to by runs that ascend and do not overlap; itself, if none has it.
pub fn map_by_runs(runs: &[CaseRun], unit: u16) -> u16 {
    let next = runs.partition_point(|run| run.0 <= unit);
    match next.checked_sub(1).and_then(|index| runs.get(index)) {
        Some(&(first, last, step, to)) if unit <= last && (unit - first).is_multiple_of(step) => {
            to + (unit - first)
        }
        _ => unit,
    }
}

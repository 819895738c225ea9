//! A volume whose end is missing, because its device was cut off: what lies behind the end of the device is reported
//! once, as missing, and is not compared with anything.

use super::disk::Disk;
use super::file::{Assembled, Key};
use super::{Check, Pending, Severity};
use crate::layout::Run;

/// The code of all these findings.
const CODE: &str = "cut-off";

/// Reports that the device was cut off, if it was.
pub(super) fn report(disk: &Disk<'_>, pending: &mut Vec<Pending>) {
    let device = disk.device();
    if let Some(message) = device.why_read_only().filter(|_| device.end() < device.len()) {
        let severity = Severity::DataLoss;
        pending.push(Pending { code: CODE, severity, record: None, message, repaired: false });
    }
}

impl Check<'_> {
    /// How many clusters of these runs lie, in whole or in part, behind the end of the device.
    fn behind_end(&self, runs: &[Run]) -> u64 {
        let Some(end) = self.disk.end().map(|end| end / self.geometry.cluster) else { return 0 };
        let behind = |run: &Run| run.lcn.map_or(0, |lcn| (lcn + run.length).saturating_sub(end.max(lcn)));
        runs.iter().map(behind).sum()
    }

    /// Whether a part of an attribute lies behind the end of the device, so that its content is not known.
    pub fn is_cut_off(&self, file: &Assembled, key: &Key) -> bool {
        self.disk.end().is_some()
            && file.runs(self.geometry.clusters, key).is_some_and(|(runs, _)| self.behind_end(&runs) > 0)
    }

    /// [`Check::is_cut_off`] for any attribute of a file.
    pub fn is_any_cut_off(&self, file: &Assembled) -> bool {
        self.disk.end().is_some() && file.streams().into_keys().any(|key| self.is_cut_off(file, &key))
    }

    /// Whether a file record lies behind the end of the device.
    pub fn is_record_cut_off(&self, number: u64) -> bool {
        self.disk.end().is_some()
            && number < self.table.count
            && self
                .disk
                .is_behind_end(self.table.place(&self.geometry, number), u64::from(self.geometry.record))
    }

    /// Reports how many clusters of an attribute lie behind the end of the device, if any does.
    pub fn find_behind_end(&mut self, file: &Assembled, told: &str, runs: &[Run]) {
        let behind = self.behind_end(runs);
        if behind > 0 {
            let count: u64 = runs.iter().filter(|run| run.lcn.is_some()).map(|run| run.length).sum();
            let message =
                format!("{told}: {behind} of its {count} clusters lie behind the end of the device");
            self.find(CODE, Severity::DataLoss, Some(file.number), message, false);
        }
    }

    /// Reports a name of the directory `directory` whose file record lies behind the end of the device.
    pub fn find_name_behind_end(&mut self, directory: u64, name: &[u16], record: u64) {
        let name = String::from_utf16_lossy(name);
        let message = format!("name \"{name}\": its record {record} lies behind the end of the device");
        self.find(CODE, Severity::DataLoss, Some(directory), message, false);
    }
}

//! The security descriptors, and the identifiers by which files name them.

use super::known::SECURITY;
use super::tree::TreeRow;
use super::{Check, Task};
use crate::layout::system;
use platter_vfs::Severity;

/// Checks the row of a descriptor, and notes its identifier.
pub(super) fn row(check: &mut Check<'_>, row: &TreeRow) {
    if let Some((id, _)) = system::read_security_row(&row.key, &row.value) {
        check.security.insert(id);
        return;
    }
    let message =
        format!("security descriptors: row at offset {}: its number, hash or length is wrong", row.at);
    check.find("security-row", Severity::Inconsistent, None, message);
    check.repair.add(Task::Security { key: row.key.clone(), value: row.value.clone() });
}

/// Reports descriptors that files name and the volume does not have, once all files have been met.
pub(super) fn finish(check: &mut Check<'_>) {
    if !check.objects.contains_key(&SECURITY) {
        let message = format!("security descriptors: expected object {SECURITY:#x}, found none");
        check.find("object-missing", Severity::Inconsistent, None, message);
    }
    let known: Vec<u64> = system::security_rows()
        .iter()
        .filter_map(|(key, value)| system::read_security_row(key, value).map(|(id, _)| id))
        .collect();
    let is_lost = check.damaged.contains(&SECURITY) || !check.objects.contains_key(&SECURITY);
    if is_lost && check.security.iter().chain(check.unknown_security.keys()).all(|id| known.contains(id)) {
        check.repair.renew_security();
    }
    for (id, (count, path)) in std::mem::take(&mut check.unknown_security) {
        let message = format!("security descriptor {id:#x}: {count} files name it, and it is not there");
        check.find("security", Severity::Notice, Some(path), message);
        // A descriptor that every volume has can be put back.
        for (key, value) in system::security_rows() {
            let known = system::read_security_row(&key, &value).map(|(id, _)| id);
            if known == Some(id) && !check.damaged.contains(&SECURITY) {
                check.repair.add(Task::Security { key, value });
            }
        }
    }
}

//! Finding the programs that use a mount.

use std::fs;
use std::path::Path;

/// The most programs that are named.
const MOST: usize = 5;

/// Returns names and process numbers of programs that have a file open, or their working directory, at or below `at`;
/// only processes that this user may look at are found.
pub(crate) fn of(at: &Path) -> Vec<String> {
    let mut users = Vec::new();
    for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let name = process.file_name().to_string_lossy().into_owned();
        if name.bytes().all(|byte| byte.is_ascii_digit()) && uses(&process.path(), at) {
            if users.len() == MOST {
                users.push("others".to_string());
                break;
            }
            let program = fs::read_to_string(process.path().join("comm")).unwrap_or_default();
            users.push(format!("{} ({name})", program.trim()));
        }
    }
    users
}

fn uses(process: &Path, at: &Path) -> bool {
    let leads = |link: &Path| fs::read_link(link).is_ok_and(|target| target.starts_with(at));
    ["cwd", "root", "exe"].iter().any(|link| leads(&process.join(link)))
        || fs::read_dir(process.join("fd")).into_iter().flatten().flatten().any(|link| leads(&link.path()))
}

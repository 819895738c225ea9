//! The script that runs on Windows.

/// Its name in the kit.
pub(crate) const NAME: &str = "kit.ps1";

/// Its text. PowerShell 5.1, which every Windows has, takes a file for UTF-8 if it begins with a byte order mark.
pub(crate) fn text() -> String {
    let helper = include_str!("helper.cs");
    let script = include_str!("kit.ps1").replace("@@HELPER@@", helper.trim_end());
    format!("\u{FEFF}{script}").replace('\n', "\r\n")
}

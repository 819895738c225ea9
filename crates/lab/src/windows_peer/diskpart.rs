//! The scripts for `diskpart`, one for each step: it prints in the language of the user, so that the step says what was
//! refused.
//!
//! Facts: Microsoft, "diskpart", "diskpart scripts and examples" (a script ends at the first error, with an exit code that is
//! not 0), and the pages of each command.

use super::refusals::{not_run, refused};
use super::{Kind, Step, Windows};
use std::path::Path;

/// Has Windows carry out a step.
///
/// # Errors
/// A sentence that says what was refused, and what to do about it.
pub(super) fn carry_out(windows: &dyn Windows, step: Step, kind: &Kind, image: &Path) -> Result<(), String> {
    let script = script(step, kind, image)?;
    let (code, said) =
        windows.diskpart(&script, &image.with_extension("txt")).map_err(|error| not_run(&error))?;
    if code == 0 {
        return Ok(());
    }
    let line = said.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or("nothing");
    Err(format!("{} (diskpart ended with {code} and said: {line})", refused(step, kind, image)))
}

fn script(step: Step, kind: &Kind, image: &Path) -> Result<String, String> {
    // How diskpart reads other letters depends on the code page of the console.
    let path =
        image.to_str().filter(|path| path.bytes().all(|byte| matches!(byte, b' '..=b'~') && byte != b'"'));
    let Some(path) = path else {
        let path = image.display();
        return Err(format!(
            "diskpart takes no path with letters other than those of ASCII: {path}; choose another directory with --out or \
             --device"
        ));
    };
    let select = format!("select vdisk file=\"{path}\"\r\n");
    let first = "select partition 1\r\n";
    Ok(match step {
        Step::Attach { length } => {
            let megabytes = length >> 20;
            let create = format!("create vdisk file=\"{path}\" maximum={megabytes} type=fixed\r\n");
            format!("{create}{select}attach vdisk\r\n")
        }
        Step::Partition => format!("{select}convert mbr\r\ncreate partition primary\r\n"),
        Step::Format => {
            let unit = kind.cluster.map(|bytes| format!(" unit={bytes}")).unwrap_or_default();
            let system = kind.file_system.to_ascii_lowercase();
            format!("{select}{first}format fs={system}{unit} label=PLATTER quick\r\n")
        }
        Step::Letter(letter) => format!("{select}{first}assign letter={letter}\r\n"),
        Step::Detach(_) => format!("{select}detach vdisk\r\n"),
    })
}

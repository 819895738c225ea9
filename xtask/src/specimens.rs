//! Volumes that Windows encrypted, with which the tests compare: those of the source archive of dissect.fve on PyPI.

use crate::Outcome;
use crate::command::run;
use std::path::PathBuf;

/// The directory in which the tests look for the archive, unless PLATTER_SPECIMENS is set.
const USUAL: &str = "/var/lib/platter-specimens";

/// The version that the tests were written for.
const VERSION: &str = "4.6";

/// Makes sure that the archive is there; nothing of it is installed.
pub(crate) fn provide() -> Outcome {
    let place = PathBuf::from(std::env::var_os("PLATTER_SPECIMENS").unwrap_or_else(|| USUAL.into()));
    if place.join(format!("dissect_fve-{VERSION}.tar.gz")).is_file() {
        return Ok(());
    }
    let (place, package) = (place.display().to_string(), format!("dissect.fve=={VERSION}"));
    eprintln!("{place} has no volumes that Windows encrypted; getting the archive of {package}");
    let whole =
        ["-m", "pip", "download", "-q", "--no-deps", "--no-binary", "dissect.fve", "-d", &place, &package];
    run("python3", &whole, &[])
}

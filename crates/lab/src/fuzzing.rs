//! The entry point of the fuzz targets; for tests only.

use crate::document::Document;
use crate::report::{Diff, csv, html, markdown, terminal};
use crate::{Preset, Workload};
use platter_device::parse_size;

/// Parses bytes as a workload, a job or configuration of fio, Iometer or DiskSpd, and a saved report, and renders what
/// could be parsed in every form.
pub fn input(bytes: &[u8]) {
    crate::replay::any(bytes);
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    // Only panics and endless loops are failures here; results are ignored.
    let _ = parse_size(text);
    let _ = Workload::from_toml("fuzz", text, Preset::Full);
    let _ = Workload::from_fio("fuzz", text, None);
    if let Ok(config) = crate::iometer::Config::parse(text) {
        let _ = config.workload("fuzz");
    }
    if let Ok(profile) = crate::diskspd::Profile::from_xml(text, &["file".into()]) {
        let _ = profile.workloads();
        // A profile that was written must be readable again. The written profile does not contain the option to print
        // it only.
        assert!(crate::diskspd::Profile::from_xml(&profile.to_xml(), &["file".into()]).is_ok());
    }
    let _ = crate::diskspd::Profile::from_arguments(
        &text.split_whitespace().map(str::to_owned).collect::<Vec<_>>(),
    );
    if let Ok(document) = Document::from_json(text) {
        let view =
            terminal::View { colour: true, details: true, published: true, ..terminal::View::default() };
        terminal::render(&document, view);
        markdown::render(&document, true);
        csv::render(&document);
        html::render(&document, true);
        Diff::new(&document, &document).terminal(false);
        let mut again = document.clone();
        again.conclude();
        assert!(Document::from_json(&document.to_json()).is_ok());
    }
}

//! The circumstances that decide a figure and that a reader may not think of, in sentences.

use crate::document::Document;

/// Sentences about circumstances under which the figures are those of something else than the reader expects.
pub(super) fn warnings(document: &Document) -> Vec<String> {
    let device = &document.environment.device;
    let mut warnings = Vec::new();
    if let Some(memory) = &device.in_memory {
        warnings.push(format!(
            "{} is held in memory ({memory}): nothing here tells what a disk does.",
            device.name
        ));
    }
    for target in document.targets.iter().filter(|target| target.kind == "directory") {
        let kind = target.title.strip_suffix(" of the host").unwrap_or_default();
        if ["tmpfs", "ramfs"].contains(&kind) {
            warnings.push(format!(
                "{} is on {kind}, which is memory: its figures are not those of a disk.",
                target.name
            ));
        }
    }
    if document.settings.preconditioning.as_ref().is_some_and(|done| !done.is_steady) {
        warnings
            .push("Preconditioning did not reach a steady state: figures of writes may still fall.".into());
    }
    if let Some(ways) = &device.host_ways {
        let system = device.host_file_system.as_deref().unwrap_or("the file system");
        warnings.push(format!(
            "{system}, which holds the image, {ways}: that is in the figures of every target."
        ));
    }
    if let Some(io) = document.environment.io.as_ref().filter(|io| io.starts_with("threads")) {
        warnings.push(format!(
            "I/O was done by {io}. Figures at small blocks and great depths are lower than with io_uring."
        ));
    }
    let is_watched = document.environment.real_time_protection.as_deref() == Some("on");
    if is_watched && document.targets.iter().any(|target| target.kind == "directory") {
        warnings.push(
            "Windows Defender's real-time protection is on: unless the directories are excluded, it is in their figures.".into(),
        );
    }
    warnings
}

/// Where the figures hold: `here`, or in memory if all targets are made there.
pub(super) fn place(document: &Document) -> &'static str {
    let is_on_device = document.targets.iter().all(|target| target.kind != "directory");
    if document.is_in_memory() && is_on_device { "in memory" } else { "here" }
}

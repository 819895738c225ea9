//! Volumes that Windows makes for a comparison: before anything is checked, since the checks look at them, and removed after it.

use super::Observer;
use crate::plan::{largest_span, refuse};
use crate::stand::Stand;
use crate::target::Target;
use crate::windows_peer::{ThisWindows, Windows};
use crate::{Comparison, Error, Result};
use platter_device::host::is_disk;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// A comparison whose volumes are there.
pub(super) struct Provided {
    pub comparison: Comparison,
}

/// Has Windows make the volumes of a comparison; one without any is returned as it is.
///
/// # Errors
/// [`Error::Input`] with what Windows refused and what to do about it. Nothing is left then.
pub(super) fn provide(comparison: &Comparison, observer: &dyn Observer) -> Result<Provided> {
    let made = comparison.targets.iter().find(|target| matches!(target, Target::ByWindows(_)));
    if let (Some(target), false) = (made, cfg!(windows)) {
        let reason = "Windows makes it: it is measured there, and on other systems others are".into();
        return Err(Error::Input { name: target.name(), reason });
    }
    provide_by(&(Arc::new(ThisWindows) as Arc<dyn Windows>), comparison, observer)
}

pub(super) fn provide_by(
    windows: &Arc<dyn Windows>,
    comparison: &Comparison,
    observer: &dyn Observer,
) -> Result<Provided> {
    let mut comparison = comparison.clone();
    let span = comparison.span.unwrap_or_else(|| largest_span(&comparison));
    let has_share = comparison.span.is_none() && comparison.workloads.iter().any(|load| load.share.is_some());
    for at in 0..comparison.targets.len() {
        let Target::ByWindows(peer) = &comparison.targets[at] else { continue };
        if has_share {
            return refuse(format!(
                "{}: the size of a workload is a share of the target, and the volume is made as large as that asks for: give \
                 --span",
                peer.name()
            ));
        }
        let directory = directory(&comparison.stand).ok_or_else(|| {
            peer.refused(
                "the virtual disk is made beside an image: leave --device out, or name an image on a drive",
            )
        })?;
        observer.stage(&format!("{}: made by Windows", peer.name()), Duration::ZERO, Duration::ZERO);
        // What was made before is removed when it is dropped, if a later one fails.
        let made = peer.make(windows, &directory, span)?;
        comparison.targets[at] = Target::ByWindows(made);
    }
    Ok(Provided { comparison })
}

/// The directory in which the images of a comparison are.
fn directory(stand: &Stand) -> Option<PathBuf> {
    match stand {
        Stand::TemporaryImage(directory) => Some(directory.clone()),
        Stand::Path { path, .. } if !is_disk(path) => {
            let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
            Some(parent.unwrap_or(Path::new(".")).to_owned())
        }
        _ => None,
    }
}

impl Provided {
    /// Removes the volumes, and returns a sentence for each that stays.
    pub(super) fn end(self) -> Vec<String> {
        let peers = self.comparison.targets.iter().filter_map(|target| match target {
            Target::ByWindows(peer) => Some(peer),
            _ => None,
        });
        peers.filter_map(|peer| peer.end().err()).map(|error| error.to_string()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::windows_peer::fake::Fake;
    use crate::{Preset, Workload};

    fn comparison(stand: Stand) -> Comparison {
        let targets = ["windows-exfat", "windows-ntfs"].map(|name| Target::parse(name).unwrap());
        let mut load = Workload::load("overhead", Preset::Quick).unwrap();
        load.cases.truncate(1);
        let time = Some(Duration::from_millis(50));
        Comparison { span: Some(4 << 20), time, ..Comparison::new(stand, targets.to_vec(), vec![load]) }
    }

    #[test]
    fn volumes_are_made_measured_and_removed() {
        let folder = tempfile::tempdir().unwrap();
        let fake = Arc::new(Fake::new(folder.path()));
        let windows: Arc<dyn Windows> = fake.clone();
        let comparison = comparison(Stand::TemporaryImage(folder.path().to_owned()));
        let provided = provide_by(&windows, &comparison, &()).unwrap();
        assert_eq!(fake.attached(), [("exfat".to_owned(), 'Y'), ("ntfs".to_owned(), 'X')]);
        let document = super::super::carry_out(&provided.comparison, &()).unwrap();
        let titles: Vec<&str> = document.targets.iter().map(|target| &*target.title).collect();
        assert_eq!(titles, ["exFAT of Windows", "NTFS of Windows, 4 KiB clusters"]);
        assert!(document.targets[1].details.contains("in a virtual disk"), "{:?}", document.targets[1]);
        assert!(provided.end().is_empty() && fake.attached().is_empty());
        // If one is refused, the other goes too.
        let mut taken = Fake::new(folder.path());
        taken.hidden = 1 << 23;
        let fake = Arc::new(taken);
        let windows: Arc<dyn Windows> = fake.clone();
        let told = provide_by(&windows, &comparison, &()).err().unwrap().to_string();
        assert!(told.contains("drive letter X:") && fake.attached().is_empty(), "{told}");
    }

    #[test]
    fn where_there_is_no_room_for_them_is_said_before_anything_is_made() {
        let told = |done: Result<Provided>| done.err().unwrap().to_string();
        let memory = comparison(Stand::Memory(1 << 20));
        if cfg!(not(windows)) {
            assert!(told(provide(&memory, &())).contains("Windows makes it"));
        }
        let folder = tempfile::tempdir().unwrap();
        let windows: Arc<dyn Windows> = Arc::new(Fake::new(folder.path()));
        assert!(told(provide_by(&windows, &memory, &())).contains("leave --device out"));
    }
}

//! What an IMAGE argument names.

use crate::failure::{About, Failure, shown, tell};
use platter_device::{Device, Mirror, MirrorEvent};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// How the name of a mirror begins. What follows are the copies, with commas between them.
pub const MIRROR: &str = "mirror:";

/// An image file or a block device, or several as a mirror.
pub struct Image {
    /// The only path, or those of the copies.
    pub paths: Vec<PathBuf>,
    /// Whether it is a mirror, which may have a single copy.
    pub is_mirror: bool,
}

impl Image {
    /// Takes an argument apart.
    pub fn parse(argument: &Path) -> Result<Image, Failure> {
        let bytes = argument.as_os_str().as_bytes();
        let Some(copies) = bytes.strip_prefix(MIRROR.as_bytes()) else {
            return Ok(Image { paths: vec![argument.to_path_buf()], is_mirror: false });
        };
        let paths: Vec<PathBuf> =
            copies.split(|&byte| byte == b',').map(|path| PathBuf::from(OsStr::from_bytes(path))).collect();
        let wrong = |why: String| Err(Failure::new(shown(argument), why));
        if paths.iter().any(|path| path.as_os_str().is_empty()) {
            return wrong(format!("a mirror is written {MIRROR}IMAGE,IMAGE, with the path of a copy each"));
        }
        if paths.len() > Mirror::MOST {
            return wrong(format!("a mirror has at most {} copies, not {}", Mirror::MOST, paths.len()));
        }
        // One that does not exist yet has no other name.
        let real: Vec<PathBuf> =
            paths.iter().map(|path| fs::canonicalize(path).unwrap_or_else(|_| path.clone())).collect();
        if let Some(twice) = (1..real.len()).find(|&at| real[..at].contains(&real[at])) {
            return wrong(format!("{} is named twice; each copy is on its own", shown(&paths[twice])));
        }
        Ok(Image { paths, is_mirror: true })
    }

    /// What it is, however it is named: the canonical paths, sorted. A copy of a mirror need not be there.
    pub fn identity(argument: &Path) -> Result<Vec<PathBuf>, Failure> {
        let Image { paths, is_mirror } = Image::parse(argument)?;
        let real = |path: &PathBuf| match fs::canonicalize(path) {
            Err(error) if is_mirror && error.kind() == std::io::ErrorKind::NotFound => Ok(path.clone()),
            real => real.about(shown(path)),
        };
        let mut real = paths.iter().map(real).collect::<Result<Vec<PathBuf>, Failure>>()?;
        real.sort();
        Ok(real)
    }

    /// The device, from those at the paths, which were opened in the same order. What happens to copies of a mirror is
    /// printed.
    pub fn device(&self, mut opened: Vec<Arc<dyn Device>>) -> Result<Arc<dyn Device>, Failure> {
        if !self.is_mirror && opened.len() == 1 {
            return Ok(opened.remove(0));
        }
        Ok(told(Mirror::new(opened)?))
    }
}

/// A mirror that prints what happens to its copies.
pub fn told(mirror: Mirror) -> Arc<dyn Device> {
    let told = Told::default();
    Arc::new(mirror.on_event(move |event| told.tell(event)))
}

/// Whether a copy of a mirror went out of service since the program began: a command that did all it was asked has then
/// failed to keep it on all copies.
pub fn has_lost_a_copy() -> bool {
    LOST_A_COPY.load(Ordering::Relaxed)
}

static LOST_A_COPY: AtomicBool = AtomicBool::new(false);

/// Says on standard error what happens to copies. A worn disk may have a lot to say, and is cut short.
#[derive(Default)]
struct Told(AtomicU64);

impl Told {
    const MOST: u64 = 10;

    fn tell(&self, event: &MirrorEvent<'_>) {
        let is_final = matches!(event, MirrorEvent::OutOfService { .. });
        LOST_A_COPY.fetch_or(is_final, Ordering::Relaxed);
        if is_final || self.0.fetch_add(1, Ordering::Relaxed) < Told::MOST {
            tell(format_args!("platter: {event}"));
        }
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        let more = self.0.load(Ordering::Relaxed).saturating_sub(Told::MOST);
        if more > 0 {
            tell(format_args!("platter: and {more} more reads that one copy failed and another answered"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use platter_device::{Fault, Faults, MemoryDevice, Operation, Sectors, When};

    fn parse(text: &str) -> Result<(bool, Vec<PathBuf>), String> {
        Image::parse(Path::new(text))
            .map(|image| (image.is_mirror, image.paths))
            .map_err(|failure| failure.to_string())
    }

    #[test]
    fn a_mirror_names_its_copies() {
        let paths = |names: &[&str]| names.iter().map(PathBuf::from).collect::<Vec<_>>();
        assert_eq!(parse("a,b.img"), Ok((false, paths(&["a,b.img"]))));
        assert_eq!(parse("./mirror:a"), Ok((false, paths(&["./mirror:a"]))));
        assert_eq!(parse("mirror:a"), Ok((true, paths(&["a"]))));
        assert_eq!(parse("mirror:a.img,/dev/b"), Ok((true, paths(&["a.img", "/dev/b"]))));
        for wrong in ["mirror:", "mirror:a,", "mirror:,a", "mirror:a,,b"] {
            assert!(parse(wrong).unwrap_err().contains("mirror:IMAGE,IMAGE"), "{wrong}");
        }
        assert!(parse("mirror:1,2,3,4,5,6,7,8,9").unwrap_err().contains("at most 8 copies, not 9"));
        assert!(parse("mirror:a,b,a").unwrap_err().contains("a is named twice"));
        assert!(parse("mirror:/tmp,/tmp/../tmp").unwrap_err().contains("/tmp/../tmp is named twice"));
        assert!(Image::identity(Path::new("/no/such")).is_err());
        assert_eq!(Image::identity(Path::new("mirror:/tmp,/no/such")).unwrap(), paths(&["/no/such", "/tmp"]));
        assert_eq!(Image::identity(Path::new("mirror:/tmp,/")).unwrap(), paths(&["/", "/tmp"]));
    }

    #[test]
    fn copies_become_one_device() {
        let memory = || Arc::new(MemoryDevice::new(8192, Sectors::SMALL)) as Arc<dyn Device>;
        let plain = Image::parse(Path::new("a")).unwrap().device(vec![memory()]).unwrap();
        assert_eq!(plain.name(), "mem:8192");
        let faults = Arc::new(Faults::new(memory(), 1));
        faults.inject(When::from(Operation::Read, 0), Fault::Fail);
        let mirror = Image::parse(Path::new("mirror:a,b")).unwrap();
        let mirror = mirror.device(vec![faults.clone(), memory()]).unwrap();
        assert_eq!((mirror.name(), mirror.copies()), ("mirror:mem:8192,mem:8192", 2));
        mirror.read_at(0, &mut [0; 512]).unwrap();
    }
}

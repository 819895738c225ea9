//! Parsing the text of a source: an image file, a block device, a mirror, a partition.

use crate::error::{About, Error, ErrorKind, Result, shown};
use platter_device::Mirror;
use platter_device::host::{FileId, HostBytes, file_id, host_string};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// The place of a volume: an image file or block device, several as a mirror, or a partition of those.
///
/// As text, which every call of this library accepts: `disk.img`, `/dev/sdb`, `mirror:a.img,b.img`, and with `@2`
/// appended partition 2 of any of them. Without a partition, the only partition with a known file system is used. If
/// a file has the whole text, including `@2`, as its name, that file is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The text as the caller wrote it, without the partition.
    text: PathBuf,
    /// The only path, or those of the copies of a mirror or of the disks of a group.
    pub paths: Vec<PathBuf>,
    /// What is at the paths.
    pub kind: SourceKind,
    /// The number of the partition, or of the volume on dynamic disks, if one was named.
    pub partition: Option<u32>,
}

/// What is at the paths of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceKind {
    /// An image file or block device.
    Single,
    /// The copies of a mirror; it may be one.
    Mirror,
    /// The dynamic disks of a group, of which volumes are read.
    Dynamic,
}

impl Source {
    /// The prefix of a mirror's name. The paths of the copies follow, with commas between them.
    pub const MIRROR: &'static str = "mirror:";
    /// The prefix of several dynamic disks' name. Their paths follow, with commas between them.
    pub const DYNAMIC: &'static str = "dynamic:";
    /// The most dynamic disks that are taken together.
    const MOST_DISKS: usize = 64;

    /// Parses the text of a source.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for a mirror or dynamic disks without copies, with too many, or with one that is named
    /// twice.
    pub fn parse(text: impl AsRef<Path>) -> Result<Source> {
        let (whole, partition) = Source::split_partition(text.as_ref());
        Ok(Source { partition, ..Source::whole(whole)? })
    }

    /// Like [`Source::parse`], but without a partition: an `@` is part of a path.
    ///
    /// # Errors
    /// As [`Source::parse`].
    pub fn whole(text: impl AsRef<Path>) -> Result<Source> {
        let text = text.as_ref().to_path_buf();
        let bytes = text.as_os_str().as_bytes();
        let prefixes = [(Source::MIRROR, SourceKind::Mirror), (Source::DYNAMIC, SourceKind::Dynamic)];
        let several = prefixes
            .into_iter()
            .find_map(|(prefix, kind)| Some((kind, bytes.strip_prefix(prefix.as_bytes())?)));
        let Some((kind, copies)) = several else {
            let paths = vec![text.clone()];
            return Ok(Source { paths, text, kind: SourceKind::Single, partition: None });
        };
        let paths: Vec<PathBuf> =
            copies.split(|&byte| byte == b',').map(|path| PathBuf::from(host_string(path))).collect();
        if paths.iter().any(|path| path.as_os_str().is_empty()) {
            let why = match kind {
                SourceKind::Dynamic => format!("dynamic disks are written {}IMAGE,IMAGE", Source::DYNAMIC),
                _ => {
                    format!("a mirror is written {}IMAGE,IMAGE, with the path of a copy each", Source::MIRROR)
                }
            };
            return Err(Error::refused(ErrorKind::InvalidArgument, shown(&text), why));
        }
        Source { text, paths, kind, partition: None }.checked()
    }

    /// Returns a mirror or dynamic disks if they are not too many, and each is on its own.
    fn checked(self) -> Result<Source> {
        let wrong = |why: String| Err(Error::refused(ErrorKind::InvalidArgument, shown(&self.text), why));
        let paths = &self.paths;
        if self.kind == SourceKind::Dynamic && paths.len() > Source::MOST_DISKS {
            return wrong(format!(
                "at most {} disks are taken together, not {}",
                Source::MOST_DISKS,
                paths.len()
            ));
        }
        if self.kind == SourceKind::Mirror && paths.len() > Mirror::MOST {
            return wrong(format!("a mirror has at most {} copies, not {}", Mirror::MOST, paths.len()));
        }
        // A path that does not exist yet is compared as it is written.
        let real: Vec<PathBuf> =
            paths.iter().map(|path| fs::canonicalize(path).unwrap_or_else(|_| path.clone())).collect();
        if let Some(twice) = (1..real.len()).find(|&at| real[..at].contains(&real[at])) {
            return wrong(format!("{} is named twice; each copy is on its own", shown(&paths[twice])));
        }
        let inner: Vec<Option<FileId>> = paths.iter().map(|path| file_id(path)).collect();
        let same = |at: &usize| inner[*at].is_some() && inner[..*at].contains(&inner[*at]);
        if let Some(twice) = (1..inner.len()).find(same) {
            let first = inner.iter().position(|one| *one == inner[twice]).unwrap_or(0);
            let (first, second) = (shown(&paths[first]), shown(&paths[twice]));
            return wrong(format!("{first} and {second} are the same file; each copy is on its own"));
        }
        Ok(self)
    }

    /// Splits `IMAGE@N`, which means partition N of an image. If a file has the whole text as its name, that file is
    /// meant.
    pub fn split_partition(text: &Path) -> (PathBuf, Option<u32>) {
        let bytes = text.as_os_str().as_bytes();
        let split = || {
            let at = bytes.iter().rposition(|&byte| byte == b'@')?;
            let number = std::str::from_utf8(&bytes[at + 1..]).ok()?.parse().ok()?;
            Some((PathBuf::from(host_string(&bytes[..at])), Some(number)))
        };
        let whole = || (text.to_path_buf(), None);
        if text.symlink_metadata().is_ok() { whole() } else { split().unwrap_or_else(whole) }
    }

    /// The same source with this partition, or without one.
    pub fn with_partition(self, partition: Option<u32>) -> Source {
        Source { partition, ..self }
    }

    /// The same mirror with a further copy.
    ///
    /// # Errors
    /// As [`Source::parse`].
    pub fn with_copy(mut self, path: PathBuf) -> Result<Source> {
        self.text.as_mut_os_string().push(",");
        self.text.as_mut_os_string().push(&path);
        self.paths.push(path);
        self.checked()
    }

    /// Refuses a mirror with a single copy where a mirror is to be made: it would protect from nothing.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for such a mirror.
    pub fn refuse_single_copy(&self) -> Result<()> {
        if self.kind != SourceKind::Mirror || self.paths.len() > 1 {
            return Ok(());
        }
        let why = "a mirror has at least two copies; a single image or device is named without `mirror:`";
        Err(Error::refused(ErrorKind::InvalidArgument, shown(&self.text), why))
    }

    /// Refuses dynamic disks where something is made or overwritten.
    ///
    /// # Errors
    /// [`ErrorKind::ReadOnly`] for them.
    pub fn refuse_dynamic(&self) -> Result<()> {
        if self.kind != SourceKind::Dynamic {
            return Ok(());
        }
        let why = "volumes on dynamic disks are only read";
        Err(Error::refused(ErrorKind::ReadOnly, shown(&self.text), why))
    }

    /// What identifies the source, however it is written: the canonical paths, sorted. A copy of a mirror need not
    /// exist.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] and other errors of the host about a path that cannot be resolved.
    pub fn identity(&self) -> Result<Vec<PathBuf>> {
        let real = |path: &PathBuf| match fs::canonicalize(path) {
            Err(error) if self.kind == SourceKind::Mirror && error.kind() == std::io::ErrorKind::NotFound => {
                Ok(path.clone())
            }
            real => real.about(shown(path)),
        };
        let mut real = self.paths.iter().map(real).collect::<Result<Vec<PathBuf>>>()?;
        real.sort();
        Ok(real)
    }
}

/// The text as the caller wrote it, without the partition.
impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text.display().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> std::result::Result<(bool, Vec<PathBuf>), String> {
        Source::whole(text)
            .map(|source| (source.kind == SourceKind::Mirror, source.paths))
            .map_err(|error| error.to_string())
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
        let path = std::env::temp_dir().join(format!("platter-source-{}", std::process::id()));
        let link = path.with_extension("link");
        fs::write(&path, "").unwrap();
        fs::hard_link(&path, &link).unwrap();
        let same = parse(&format!("mirror:{},{}", path.display(), link.display())).unwrap_err();
        assert!(
            same.contains(&format!("{} and {} are the same file", path.display(), link.display())),
            "{same}"
        );
        fs::remove_file(&path).unwrap();
        fs::remove_file(&link).unwrap();
        let eight = Source::whole("mirror:1,2,3,4,5,6,7,8").unwrap();
        assert!(eight.with_copy("9".into()).unwrap_err().to_string().contains("at most 8 copies, not 9"));
        assert!(Source::whole("mirror:a").unwrap().refuse_single_copy().is_err());
        assert!(Source::whole("a").unwrap().refuse_single_copy().is_ok());
        assert!(parse("mirror:/tmp,/tmp/../tmp").unwrap_err().contains("/tmp/../tmp is named twice"));
        let identity = |text: &str| Source::whole(text).unwrap().identity();
        assert!(identity("/no/such").is_err());
        assert_eq!(identity("mirror:/tmp,/no/such").unwrap(), paths(&["/no/such", "/tmp"]));
        assert_eq!(identity("mirror:/tmp,/").unwrap(), paths(&["/", "/tmp"]));
    }

    #[test]
    fn dynamic_disks_are_named_together() {
        let disks = Source::parse("dynamic:a.vhdx,/dev/b@2").unwrap();
        assert_eq!((disks.kind, disks.partition), (SourceKind::Dynamic, Some(2)));
        assert_eq!(disks.paths, ["a.vhdx", "/dev/b"].map(PathBuf::from));
        assert!(disks.refuse_dynamic().is_err() && Source::whole("a").unwrap().refuse_dynamic().is_ok());
        assert!(parse("dynamic:a,").unwrap_err().contains("dynamic:IMAGE,IMAGE"));
        assert!(parse("dynamic:a,a").unwrap_err().contains("named twice"));
    }

    #[test]
    fn a_number_behind_an_at_is_a_partition_unless_a_file_is_called_so() {
        let split = |text: &'static str| {
            let source = Source::parse(text).unwrap();
            (source.to_string(), source.partition)
        };
        assert_eq!(split("none.img@2"), ("none.img".into(), Some(2)));
        assert_eq!(split("mirror:no,none@12"), ("mirror:no,none".into(), Some(12)));
        for text in ["none.img", "none@", "none@x", "none@-1", "a@2/b"] {
            assert_eq!(split(text), (text.into(), None));
        }
        let called_so = std::env::temp_dir().join(format!("platter-source-{}@2", std::process::id()));
        fs::write(&called_so, "").unwrap();
        let source = Source::parse(&called_so).unwrap();
        assert_eq!((&source.paths[0], source.partition), (&called_so, None));
        fs::remove_file(&called_so).unwrap();
    }
}

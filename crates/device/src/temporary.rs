//! Files that have no name.

use crate::file::open_as;
use crate::{Error, FileDevice, FileOptions, Operation, Result};
use rustix::fs::OFlags;
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

impl FileDevice {
    /// Makes a file of `length` bytes without a name in a directory: it is gone when it is closed, even if the process
    /// is killed, and nobody can replace it by another file.
    ///
    /// # Errors
    /// [`Error::Io`] if the file cannot be made in the directory.
    pub fn temporary(directory: &Path, length: u64, options: FileOptions) -> Result<FileDevice> {
        let name = format!("temporary file in {}", directory.display());
        let failed = |source| Error::io(&name, Operation::Open, 0, 0, source);
        let open = |direct| match unnamed(directory, direct) {
            // The errors of kernels and file systems without unnamed files, as in open(2).
            Err(error)
                if matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EISDIR | libc::ENOENT)) =>
            {
                named_once(directory, direct)
            }
            opened => opened,
        };
        let (file, direct) = open_as(options.caching, open).map_err(failed)?;
        FileDevice::of_file(file, name, direct, options, Some(length))
    }
}

fn flags(direct: bool, more: OFlags) -> i32 {
    let mut flags = OFlags::CLOEXEC | more;
    flags.set(OFlags::DIRECT, direct);
    flags.bits() as i32
}

fn unnamed(directory: &Path, direct: bool) -> io::Result<File> {
    let mut options = File::options();
    // With O_EXCL the file cannot be given a name later.
    options.read(true).write(true).mode(0o600).custom_flags(flags(direct, OFlags::TMPFILE | OFlags::EXCL));
    options.open(directory)
}

/// For file systems without unnamed files: makes a file under an unpredictable name and removes the name at once.
fn named_once(directory: &Path, direct: bool) -> io::Result<File> {
    // `RandomState` is the standard library's access to the system's random numbers.
    let path = directory.join(format!(".platter-{:016x}.tmp", RandomState::new().hash_one(())));
    let mut options = File::options();
    // `create_new` never follows a symbolic link and never opens an existing file (O_CREAT with O_EXCL, open(2)).
    options.read(true).write(true).create_new(true).mode(0o600).custom_flags(flags(direct, OFlags::empty()));
    let file = options.open(&path);
    // A file system without direct I/O reports the error for O_DIRECT only after it has made the file.
    if file.is_ok() || file.as_ref().is_err_and(|error| error.kind() != io::ErrorKind::AlreadyExists) {
        match std::fs::remove_file(&path) {
            Err(error) if file.is_ok() => return Err(error),
            _ => {}
        }
    }
    file
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Device;

    struct Place(std::path::PathBuf);

    impl Place {
        fn new(name: &str) -> Place {
            let path = std::env::temp_dir().join(format!("platter-temporary-{}-{name}", std::process::id()));
            std::fs::create_dir_all(&path).unwrap();
            Place(path)
        }

        fn is_empty(&self) -> bool {
            std::fs::read_dir(&self.0).unwrap().next().is_none()
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_temporary_file_has_no_name_at_any_time() {
        let place = Place::new("unnamed");
        let file = FileDevice::temporary(&place.0, 1 << 20, FileOptions::default()).unwrap();
        assert!(place.is_empty());
        file.write_at(512, &[7; 512]).unwrap();
        let mut back = [0; 512];
        file.read_at(512, &mut back).unwrap();
        assert_eq!((file.len(), back), (1 << 20, [7; 512]));
    }

    #[test]
    fn where_there_are_no_unnamed_files_one_loses_its_name_at_once() {
        let place = Place::new("named");
        let [one, two] = [(); 2].map(|()| named_once(&place.0, false).unwrap());
        assert!(place.is_empty());
        one.set_len(10).unwrap();
        assert_eq!((one.metadata().unwrap().len(), two.metadata().unwrap().len()), (10, 0));
    }

    #[test]
    fn a_directory_that_is_not_there_is_named() {
        let nowhere = Path::new("/no/such/directory");
        let Err(error) = FileDevice::temporary(nowhere, 512, FileOptions::default()) else { panic!() };
        assert!(error.to_string().contains("/no/such/directory"), "{error}");
    }
}

//! Files without a name.

use rustix::fs::OFlags;
use std::fs::{self, File};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Makes a file without a name in a directory.
pub(crate) fn open_unnamed(directory: &Path, direct: bool) -> io::Result<File> {
    match without_name(directory, direct) {
        // The errors of kernels and file systems without unnamed files, as in open(2).
        Err(error)
            if matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EISDIR | libc::ENOENT)) =>
        {
            named_once(directory, direct)
        }
        opened => opened,
    }
}

fn flags(direct: bool, more: OFlags) -> i32 {
    let mut flags = OFlags::CLOEXEC | more;
    flags.set(OFlags::DIRECT, direct);
    flags.bits() as i32
}

fn without_name(directory: &Path, direct: bool) -> io::Result<File> {
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
        match fs::remove_file(&path) {
            Err(error) if file.is_ok() => return Err(error),
            _ => {}
        }
    }
    file
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_there_are_no_unnamed_files_one_loses_its_name_at_once() {
        let place = std::env::temp_dir().join(format!("platter-named-{}", std::process::id()));
        fs::create_dir_all(&place).unwrap();
        let [one, two] = [(); 2].map(|()| named_once(&place, false).unwrap());
        assert!(fs::read_dir(&place).unwrap().next().is_none());
        one.set_len(10).unwrap();
        assert_eq!((one.metadata().unwrap().len(), two.metadata().unwrap().len()), (10, 0));
        fs::remove_dir(&place).unwrap();
    }
}

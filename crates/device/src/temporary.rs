//! Files that have no name.

use crate::file::open_as;
use crate::host;
use crate::{Error, FileDevice, FileOptions, Operation, Result};
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
        let open = |direct| host::open_unnamed(directory, direct);
        let (file, direct) = open_as(options.caching, open).map_err(failed)?;
        FileDevice::of_file(file, name, direct, options, Some(length))
    }
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
        // On Windows it has one, and is removed with it when it is closed.
        assert!(cfg!(windows) || place.is_empty());
        file.write_at(512, &[7; 512]).unwrap();
        let mut back = [0; 512];
        file.read_at(512, &mut back).unwrap();
        assert_eq!((file.len(), back), (1 << 20, [7; 512]));
        drop(file);
        assert!(place.is_empty());
    }

    #[test]
    fn a_directory_that_is_not_there_is_named() {
        let nowhere = Path::new("/no/such/directory");
        let Err(error) = FileDevice::temporary(nowhere, 512, FileOptions::default()) else { panic!() };
        assert!(error.to_string().contains("/no/such/directory"), "{error}");
    }
}

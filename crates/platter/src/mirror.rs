//! Opening the copies of a mirror, each with its record.

use crate::failure::{Failure, shown, tell};
use crate::image::{Image, told};
use crate::volume::{Access, open_file_cached};
use platter_device::{Caching, Device, FileRecord, MirrorCopy, MirrorRecord, MirrorSet, Standing};
use std::path::Path;
use std::sync::Arc;

/// Looks at the copies that an argument names. One that cannot be opened takes no part; one that another process works
/// on is an error.
pub fn look(image: &Image, access: Access, caching: Caching) -> Result<MirrorSet, Failure> {
    let copies = image.paths.iter().map(|path| copy(path, access, caching)).collect::<Result<_, _>>()?;
    Ok(MirrorSet::look(copies, &platter_formats::Judge))
}

fn copy(path: &Path, access: Access, caching: Caching) -> Result<MirrorCopy, Failure> {
    let record = Arc::new(FileRecord::of(path));
    let is_there = path.exists();
    let device = match open_file_cached(path, access, caching) {
        Ok(device) => Ok(device),
        Err(_) if !is_there => Err("it is missing".to_string()),
        // What is no disk at all, and what somebody else works on, is no copy that has failed.
        Err(failure) if refuses(path, access) => return Err(failure),
        Err(failure) => Err(failure.to_string()),
    };
    Ok(MirrorCopy { name: shown(path).to_string(), device, record })
}

/// Whether a path that cannot be opened is refused, and has not failed.
fn refuses(path: &Path, access: Access) -> bool {
    let Ok(data) = path.metadata() else { return false };
    let is_disk = data.is_file() || std::os::unix::fs::FileTypeExt::is_block_device(&data.file_type());
    !is_disk
        || matches!(access, Access::Write { .. })
            && open_file_cached(path, Access::Read, Caching::default()).is_ok()
}

/// Opens a mirror, and says which copies take no part.
pub fn open(image: &Image, access: Access, caching: Caching) -> Result<Arc<dyn Device>, Failure> {
    let set = look(image, access, caching)?;
    let writes = matches!(access, Access::Write { .. });
    for (name, standing) in set.names().zip(set.standings()) {
        if matches!(standing, Standing::LeftOut(_) | Standing::Damaged) {
            tell(format_args!("platter: {name}: this copy of the mirror is {standing}"));
        }
    }
    if set.is_unclosed() {
        let what = if writes { "the copies are compared where it wrote" } else { "one copy is read" };
        tell(format_args!("platter: the mirror was not closed when it was last written to; {what}"));
    }
    Ok(told(set.open(writes)?))
}

/// Notes in the record of a copy that it is about to be written to by itself, and says what follows.
pub fn note_alone(path: &Path) -> Result<(), Failure> {
    match MirrorSet::note_alone(&FileRecord::of(path)) {
        Ok(false) => Ok(()),
        Ok(true) => {
            tell(format_args!(
                "platter: {} is a copy of a mirror; written to by itself, it will differ from the others",
                shown(path)
            ));
            Ok(())
        }
        Err(error) => Err(Failure::from_io(shown(path), &error)),
    }
}

/// Makes a new mirror of copies that were just made alike, or forgets the mirror that a device belonged to.
pub fn found(image: &Image, length: u64) -> Result<(), Failure> {
    let records = || image.paths.iter().map(|path| FileRecord::of(path));
    if !image.is_mirror {
        return records().try_for_each(|record| {
            record.remove().map_err(|error| Failure::from_io(shown(record.place()), &error))
        });
    }
    let records: Vec<Arc<dyn MirrorRecord>> =
        records().map(|record| Arc::new(record) as Arc<dyn MirrorRecord>).collect();
    MirrorSet::found(&records, length).map_err(|error| Failure::from_io("the record of the mirror", &error))
}

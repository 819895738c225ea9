//! An image file for each volume, for users who may not make block devices.

use crate::{Error, Result, host};
use platter_device::{Buffer, Device, FileDevice, FileOptions};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The bytes of each image that are written before it is the next one's turn.
const PIECE: u64 = 1 << 20;

/// The directory of mounts inside that of the images; the script below has its name too.
const MOUNTS: &str = "mounts";

/// The guardian's shell script: when its standard input is closed, which happens also if the program crashes, it unmounts
/// what is mounted below a directory, and removes the directory with the images.
const GUARDIAN: &str = r#"
trap '' INT TERM HUP
read -r nothing
for at in "$1"/mounts/*/; do
    [ -d "$at" ] || continue
    while mountpoint -q "$at"; do fusermount3 -u "$at" 2>/dev/null || fusermount3 -uz "$at" || umount -l "$at" || break; done
    rmdir "$at"
done
rm -f "$1"/*.img
rmdir "$1/mounts" "$1"
"#;

/// The images of a run, in a directory that is removed with them.
pub(super) struct Images {
    directory: PathBuf,
    guardian: Child,
}

impl Images {
    /// Makes `count` images of `length` bytes below a directory. They are written once, a piece of each alternately, so that
    /// the host provides their space alike and not during the measurement.
    pub(super) fn make(
        outer: &Path,
        count: usize,
        length: u64,
        progress: &mut dyn FnMut(u64, u64) -> Result<()>,
    ) -> Result<Images> {
        let failed = |path: &Path, source| Error::Io { what: path.display().to_string(), source };
        let outer = std::fs::canonicalize(outer).map_err(|source| failed(outer, source))?;
        let directory = outer.join(format!(".platter-images-{}", std::process::id()));
        // New ones: what somebody else has put under this name, such as a link, is not followed.
        for new in [directory.clone(), directory.join(MOUNTS)] {
            std::fs::create_dir(&new).map_err(|source| failed(&new, source))?;
        }
        let mut guardian = Command::new("sh");
        guardian.args(["-c", GUARDIAN, "sh"]).arg(&directory);
        host::own_group(&mut guardian);
        guardian.stdin(Stdio::piped()).stdout(Stdio::null());
        let guardian = guardian.spawn().map_err(|source| {
            // Nobody else would remove it.
            let _ = std::fs::remove_dir_all(&directory);
            failed(Path::new("sh"), source)
        })?;
        let images = Images { directory, guardian };
        let options = || FileOptions { exclusive: true, ..FileOptions::default() };
        let devices = (0..count)
            .map(|number| Ok(FileDevice::create_new(images.path(number), length, options())?))
            .collect::<Result<Vec<FileDevice>>>()?;
        let mut filler = Buffer::new(PIECE as usize);
        // Random bytes, because some file systems store zeroes as holes.
        fastrand::Rng::with_seed(0).fill(&mut filler);
        for offset in (0..length).step_by(PIECE as usize) {
            let piece = (length - offset).min(PIECE);
            for device in &devices {
                device.write_at(offset, &filler[..piece as usize])?;
            }
            progress((offset + piece) * count as u64, length * count as u64)?;
        }
        devices.iter().try_for_each(FileDevice::flush)?;
        Ok(images)
    }

    /// The directory below which the images may be mounted.
    pub(super) fn mounts(&self) -> PathBuf {
        self.directory.join(MOUNTS)
    }

    pub(super) fn path(&self, number: usize) -> PathBuf {
        self.directory.join(format!("{number}.img"))
    }
}

impl Drop for Images {
    fn drop(&mut self) {
        drop(self.guardian.stdin.take());
        // The guardian's exit status is of no use here; it reports what it could not undo on standard error.
        let _ = self.guardian.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_written_in_turns_and_leave_nothing_behind() {
        let outer = tempfile::tempdir().unwrap();
        let mut told = Vec::new();
        let images = Images::make(outer.path(), 2, 3 << 20, &mut |done, _| {
            told.push(done);
            Ok(())
        })
        .unwrap();
        assert_eq!(told, [2 << 20, 4 << 20, 6 << 20]);
        for number in 0..2 {
            let bytes = std::fs::read(images.path(number)).unwrap();
            assert!(bytes.len() == 3 << 20 && bytes[(3 << 20) - 8..] != [0; 8]);
        }
        drop(images);
        assert_eq!(std::fs::read_dir(outer.path()).unwrap().count(), 0);
        // A link of the directory's name is not followed, and what it leads to stays.
        let victim = outer.path().join("victim");
        std::fs::create_dir(&victim).unwrap();
        std::fs::write(victim.join("0.img"), "kept").unwrap();
        let name = outer.path().join(format!(".platter-images-{}", std::process::id()));
        std::os::unix::fs::symlink(&victim, &name).unwrap();
        assert!(Images::make(outer.path(), 1, 1 << 20, &mut |_, _| Ok(())).is_err());
        assert_eq!(std::fs::read_to_string(victim.join("0.img")).unwrap(), "kept");
    }
}

//! `platter recover`

use crate::copy::times;
use crate::failure::{About, Failure, Outcome, shown};
use crate::output::{Output, grouped};
use crate::progress::{Bar, Unit};
use crate::volume::{Access, ReadOptions, open_part};
use clap::Args;
use platter_device::{Device, show_size};
use platter_vfs::{Change, Error, Format, Kind, Name, RecoverReport, Recovered, RecoveredData};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Copy out what is still readable of a damaged volume
///
/// ReFS and NTFS: looks through the whole device for metadata, and needs neither superblocks nor checkpoints nor tables.
/// What was deleted and is not known to be overwritten goes to the directory `deleted`; without integrity that cannot be
/// told for certain. What stands in metadata that fails its checksum (ReFS), or in records of which a part makes no sense
/// (NTFS), goes to `damaged` and is reported: its name, size and content may be wrong. FAT and exFAT: follows the
/// directories that can still be reached, then those found by their look, which go to `found`, then chains of clusters
/// that nothing names, which go to `chains`; files of which parts belong to others too go to `overlapping`. Parts of
/// files that cannot be read are left as zeroes and reported. Named streams become files named FILE:STREAM. Nothing is
/// written to the device.
///
/// Exit codes: 0 all that was found was copied, 1 something could not be.
#[derive(Args)]
pub struct Arguments {
    /// Image file, block device or mirror:IMAGE,IMAGE
    image: PathBuf,
    /// Where to copy to: a directory that is empty or does not exist
    directory: PathBuf,
    /// Take it for this file system instead of recognising it
    #[arg(long = "as", value_name = "FILE_SYSTEM", value_parser = super::mkfs::format_parser())]
    format: Option<String>,
    /// What becomes of files whose metadata is damaged: a copy in the directory `damaged`, or none
    #[arg(long, value_enum, default_value_t)]
    damaged: Damaged,
    #[command(flatten)]
    volume: ReadOptions,
}

/// What becomes of files that may be wrong.
#[derive(clap::ValueEnum, Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Damaged {
    /// They go to a directory of their own.
    #[default]
    Mark,
    /// They are told, and not written.
    Skip,
}

/// What was deleted goes here.
const DELETED: &str = "deleted";
/// And here what stands in damaged metadata.
const DAMAGED: &str = "damaged";
/// Bytes read at a time; where they cannot be, so many.
const PIECE: usize = 1 << 20;
const SMALL: usize = 4096;

impl Arguments {
    pub fn run(self) -> Outcome {
        match fs::create_dir(&self.directory) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                if fs::read_dir(&self.directory).about(shown(&self.directory))?.next().is_some() {
                    return Err(Failure::new(shown(&self.directory), "is not empty"));
                }
            }
            made => made.about(shown(&self.directory))?,
        }
        let device = open_part(&self.image, self.volume.partition, Access::Read)?;
        let name = device.name().to_string();
        let bar = Bar::new(Unit::Steps);
        let mut writer = Writer {
            root: &self.directory,
            is_skipping: self.damaged == Damaged::Skip,
            links: Vec::new(),
            troubles: Vec::new(),
            damaged: 0,
            bytes: 0,
        };
        let report = self.recover(device, &bar, &mut writer)?;
        drop(bar);
        writer.put_links();
        let mut output = Output::new();
        for (path, why) in report.lost.iter().chain(&writer.troubles) {
            output.line(format_args!("{path}: {why}"))?;
        }
        output.line(format_args!(
            "{name}: {} files with {}, {} directories; {} of the files were deleted, and {} more are overwritten; the metadata \
             of {} is damaged",
            grouped(report.files),
            show_size(writer.bytes),
            grouped(report.directories),
            grouped(report.deleted),
            grouped(report.overwritten),
            grouped(writer.damaged)
        ))?;
        output.finish()?;
        Ok(u8::from(!report.lost.is_empty() || !writer.troubles.is_empty()))
    }

    fn recover(
        &self,
        device: Arc<dyn Device>,
        bar: &Bar,
        writer: &mut Writer<'_>,
    ) -> Result<RecoverReport, Failure> {
        let about = shown(&self.image).to_string();
        let recognised = platter_formats::recognise(&*device).ok().flatten();
        let device = match &recognised {
            Some((_, recognised)) => platter_formats::whole(device, recognised).about(&about)?,
            None => device,
        };
        let known = recognised.map(|(format, _)| format);
        let formats: Vec<&dyn Format> = match (&self.format, known) {
            (Some(name), _) => vec![platter_formats::by_name(name).expect("clap allows these names only")],
            (None, Some(format)) => vec![format],
            // Beyond recognition: whoever finds something.
            (None, None) => platter_formats::registry().to_vec(),
        };
        let is_one = formats.len() == 1;
        for format in formats {
            let found = format.recover(device.clone(), bar, &mut |found, data| {
                writer.put(found, data);
                Ok(())
            });
            match found {
                Err(Error::Unsupported { .. } | Error::NotThisFormat { .. } | Error::Damaged(_))
                    if !is_one => {}
                found => return found.about(&about),
            }
        }
        Err(platter_formats::unknown(&*device).about(shown(&self.image))?).about(&about)
    }
}

/// Puts what is found on the host.
struct Writer<'r> {
    root: &'r Path,
    /// Whether what is damaged is left out.
    is_skipping: bool,
    /// Symbolic links, which are made last, so that nothing is written through them.
    links: Vec<(PathBuf, String)>,
    troubles: Vec<(String, String)>,
    /// Files and directories whose metadata is damaged.
    damaged: u64,
    bytes: u64,
}

impl Writer<'_> {
    fn put(&mut self, found: &Recovered, data: &mut dyn RecoveredData) {
        if found.damaged {
            self.damaged += 1;
            let path: String = found.path.iter().map(|name| format!("/{name}")).collect();
            let what =
                if self.is_skipping { "it is left out" } else { "its name, size and content may be wrong" };
            self.tell(path, format!("its metadata is damaged; {what}"));
            // Directories are made for what is in them.
            if self.is_skipping || found.kind == Kind::Directory {
                return;
            }
        }
        if let Err((path, why)) = self.try_put(found, data) {
            self.tell(path.display().to_string(), why);
        }
    }

    fn tell(&mut self, path: String, why: String) {
        if self.troubles.len() < RecoverReport::KEPT {
            self.troubles.push((path, why));
        }
    }

    fn try_put(&mut self, found: &Recovered, data: &mut dyn RecoveredData) -> Result<(), (PathBuf, String)> {
        let mut path = self.root.to_path_buf();
        for (is_so, directory) in [(found.damaged, DAMAGED), (found.deleted, DELETED)] {
            if is_so {
                path.push(directory);
                make_directory(&path)?;
            }
        }
        let (above, last) = match (&found.path[..], found.kind) {
            (all, Kind::Directory) => (all, None),
            ([above @ .., last], _) => (above, Some(last)),
            ([], _) => return Ok(()),
        };
        for name in above {
            path.push(host_name(name, None));
            make_directory(&path)?;
        }
        let Some(last) = last else { return Ok(()) };
        path.push(host_name(last, found.stream.as_ref()));
        if let Some(target) = &found.target {
            self.links.push((path, target.clone()));
            return Ok(());
        }
        let (path, file) = create(&path).map_err(|error| (path.clone(), error.to_string()))?;
        let fail = |error: std::io::Error| (path.clone(), error.to_string());
        let bad = self.copy(found.size, &file, data).map_err(fail)?;
        let (modified, accessed) = (Some(found.modified), Some(found.accessed));
        file.set_times(times(&Change { modified, accessed, ..Change::default() })).map_err(fail)?;
        match bad {
            None => Ok(()),
            Some((bytes, why)) => Err((
                path.clone(),
                format!("{} bytes are zeroes because they cannot be read: {why}", grouped(bytes)),
            )),
        }
    }

    /// Copies the content. What cannot be read, how much and why, is returned; what is zero becomes a hole.
    fn copy(
        &mut self,
        size: u64,
        file: &File,
        data: &mut dyn RecoveredData,
    ) -> std::io::Result<Option<(u64, String)>> {
        let mut bad: Option<(u64, String)> = None;
        let mut buffer = vec![0; PIECE];
        let (mut at, mut piece) = (0, PIECE);
        file.set_len(size)?;
        while at < size {
            let length = (size - at).min(piece as u64) as usize;
            match data.read(at, &mut buffer[..length]) {
                Ok(got) => {
                    if buffer[..got].iter().any(|&byte| byte != 0) {
                        file.write_all_at(&buffer[..got], at)?;
                    }
                    self.bytes += got as u64;
                }
                Err(_) if length > SMALL => {
                    piece = SMALL;
                    continue;
                }
                Err(error) => bad.get_or_insert((0, error.to_string())).0 += length as u64,
            }
            at += length as u64;
            // After a failure in smaller steps, up to where the next large one begins.
            if at.is_multiple_of(PIECE as u64) {
                piece = PIECE;
            }
        }
        Ok(bad)
    }

    fn put_links(&mut self) {
        for (path, target) in std::mem::take(&mut self.links) {
            let made = free_name(&path, |path| symlink(&target, path).map(|()| path.to_path_buf()));
            if let Err(error) = made {
                self.troubles.push((path.display().to_string(), error.to_string()));
            }
        }
    }
}

/// A directory, which may be there, but nothing else in its place.
fn make_directory(path: &Path) -> Result<(), (PathBuf, String)> {
    match fs::create_dir(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => match fs::symlink_metadata(path) {
            Ok(metadata) if metadata.is_dir() => Ok(()),
            _ => Err((path.to_path_buf(), "a file of this name is in the place of the directory".into())),
        },
        made => made.map_err(|error| (path.to_path_buf(), error.to_string())),
    }
}

/// A new file, under another name if this one is taken.
fn create(path: &Path) -> std::io::Result<(PathBuf, File)> {
    free_name(path, |path| {
        let file = File::options().write(true).create_new(true).open(path)?;
        Ok((path.to_path_buf(), file))
    })
}

/// Makes something under a name, or under it with a number if it is taken.
fn free_name<T>(path: &Path, make: impl Fn(&Path) -> std::io::Result<T>) -> std::io::Result<T> {
    const MOST: u32 = 1000;
    let mut other = path.to_path_buf();
    for number in 2..MOST {
        match make(&other) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            made => return made,
        }
        let mut name = path.file_name().unwrap_or_default().to_os_string();
        name.push(format!(" ({number})"));
        other.set_file_name(name);
    }
    make(&other)
}

/// A name that leads nowhere but into its directory, and that the host can hold.
fn host_name(name: &Name, stream: Option<&Name>) -> PathBuf {
    /// Hosts hold 255 bytes; a number may be added.
    const LONGEST: usize = 240;
    let mut bytes = name.to_bytes();
    if let Some(stream) = stream {
        bytes.push(b':');
        bytes.extend(stream.to_bytes());
    }
    bytes.iter_mut().filter(|byte| matches!(byte, 0 | b'/')).for_each(|byte| *byte = b'_');
    if matches!(&bytes[..], b"" | b"." | b"..") {
        bytes.insert(0, b'_');
    }
    if bytes.len() > LONGEST {
        // Not in the middle of a character.
        let end = (0..=LONGEST).rev().find(|&end| bytes[end] & 0xC0 != 0x80).unwrap_or(LONGEST);
        bytes.truncate(end);
    }
    PathBuf::from(OsStr::from_bytes(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_in_their_directory() {
        let shown = |name: &str| host_name(&Name::from(name), None).display().to_string();
        assert_eq!(["a", "..", ".", "", "a/b", "/x"].map(shown), ["a", "_..", "_.", "_", "a_b", "_x"]);
        assert_eq!(host_name(&Name::from("a"), Some(&Name::from("s/t"))), PathBuf::from("a:s_t"));
        let long = shown(&"日".repeat(200));
        assert!(long.len() == 240 && long.chars().all(|letter| letter == '日'));
    }
}
